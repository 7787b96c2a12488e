"""Units of LETOR text: about a megabyte of whole lines, which all available cores read and parse at once.

Each thread reads a unit into memory of its own, which the next unit reuses, and processes it in compiled
loops, which release the global interpreter lock. A unit is large, so that threads rarely wait for each other
to run Python; and small enough for the cache of a core.

The units of a plain file start at multiples of UNIT_BYTES: unit k has the lines whose first byte is there or
behind, but before the place of unit k + 1. The threads therefore read a plain file at any place without
parsing what is before it. A compressed file can only be decompressed from its beginning, by one thread at a
time, while other threads parse.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.formats.compression import Blocks, Text, blocks_of, is_compressed
from ltrbench.errors import DataError
from ltrbench.measure.available import available_cores

UNIT_BYTES = 1 << 20
_SEARCHED_BYTES = 1 << 12  # read at a time to find the end of a line

_Result = TypeVar("_Result")


class Unit(NamedTuple):
    """Whole lines, each with a line feed at its end, as the kernels require; there may be none."""

    memory: bytes | bytearray  # a bytearray is reused for other units
    size: int  # number of bytes

    @classmethod
    def of(cls, text: bytes) -> Unit:
        memory = text if text.endswith(b"\n") else text + b"\n"
        return cls(memory, len(memory) if text else 0)

    @property
    def content(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.memory, dtype=np.uint8)[: self.size]


_Load = Callable[[bytearray], Unit]  # takes memory of an earlier unit, which is used if it is large enough


def for_each_unit(text: Text, work: Callable[[int, Unit], _Result]) -> tuple[list[_Result], DataError | None]:
    """Calls `work` for the number and the content of each unit, on all available cores.

    Returns:
        The results of all units before the first error in the order of the file, and this error; None if
        there is none. It is an error of `work`, or of reading the file.
    """
    try:
        with _units(text) as (units, num_units):
            run = _Run(units, work)
            num_others = min(available_cores(), num_units) - 1
            with ThreadPoolExecutor(max(num_others, 1)) as pool:
                others = [pool.submit(run.take_units) for _ in range(num_others)]
                run.take_units()
            for other in others:
                other.result()  # raises any exception that is no DataError
            return run.in_order()
    except DataError as error:  # the file cannot be opened
        return [], error


class _Run(Generic[_Result]):
    """Units that several threads take one after the other, with their results and errors."""

    def __init__(self, units: Iterator[_Load], work: Callable[[int, Unit], _Result]) -> None:
        self._units = units
        self._work = work
        self._lock = Lock()
        self._num_taken = 0
        self._is_over = False
        self._results: dict[int, _Result] = {}
        self._errors: dict[int, DataError] = {}

    def take_units(self) -> None:
        """Processes units until there are no more, or until a thread fails."""
        memory = bytearray()
        try:
            while (taken := self._next()) is not None:
                number, load = taken
                try:
                    unit = load(memory)
                    if isinstance(unit.memory, bytearray):
                        memory = unit.memory
                    self._results[number] = self._work(number, unit)
                except DataError as error:
                    self._errors[number] = error
                    return
        finally:
            self._is_over = True

    def _next(self) -> tuple[int, _Load] | None:
        with self._lock:
            number = self._num_taken
            try:
                load = None if self._is_over else next(self._units, None)
            except DataError as error:
                self._errors[number] = error
                return None
            self._num_taken += load is not None
            return None if load is None else (number, load)

    def in_order(self) -> tuple[list[_Result], DataError | None]:
        # Units are taken in order, so that all units before an error were processed.
        first = min(self._errors, default=self._num_taken)
        return [self._results[number] for number in range(first)], self._errors.get(first)


@contextmanager
def _units(text: Text) -> Iterator[tuple[Iterator[_Load], int]]:
    """Yields the units of a text, and how many there are at the most; 2^30 if that is not known."""
    with text.open() as raw:
        if is_compressed(raw):
            yield _joined(blocks_of(raw, text.path)), 1 << 30
        else:
            handle, num_bytes = raw.fileno(), os.fstat(raw.fileno()).st_size
            starts = range(0, num_bytes, UNIT_BYTES)
            read = partial(_read_lines, text.path, handle, num_bytes)
            yield (partial(read, start) for start in starts), max(len(starts), 1)


def _joined(blocks: Blocks) -> Iterator[_Load]:
    """Joins blocks of decompressed text to units."""
    pieces, size, error = [], 0, None
    try:
        for piece, _ in blocks:
            pieces.append(piece)
            size += len(piece)
            if size >= UNIT_BYTES:
                yield partial(_in_memory, b"".join(pieces))
                pieces, size = [], 0
    except DataError as damage:  # comes after the errors of the lines before it
        error = damage
    if pieces:
        yield partial(_in_memory, b"".join(pieces))
    if error is not None:
        raise error


def _in_memory(text: bytes, _: bytearray) -> Unit:
    return Unit.of(text)


def _read_lines(path: Path, handle: int, num_bytes: int, start: int, memory: bytearray) -> Unit:
    """Reads the lines of a plain file whose first byte is in the UNIT_BYTES from `start` on."""
    stop = start + UNIT_BYTES
    try:
        first = _next_line(handle, start, min(stop, num_bytes)) if start else 0
        after = _next_line(handle, stop, num_bytes) if first < stop < num_bytes else min(stop, num_bytes)
        first += 0 if start else _mark_bytes(handle)
        size = after - first
        if size <= 0:
            return Unit(b"\n", 0)
        if size >= len(memory):  # another line feed must fit
            memory = bytearray(max(size + size // 8, UNIT_BYTES + (1 << 16)))
        size = _read_into(memory, size, handle, first)
    except OSError as error:
        raise DataError(
            f"{path}: the file cannot be read after byte {start} ({error}). Copy the file again."
        ) from None
    if memory[size - 1] != ord("\n"):  # the last line of the file
        memory[size] = ord("\n")
        size += 1
    return Unit(memory, size)


def _mark_bytes(handle: int) -> int:
    """Returns the size of the byte order mark at the beginning of the file."""
    return len(codecs.BOM_UTF8) if os.pread(handle, len(codecs.BOM_UTF8), 0) == codecs.BOM_UTF8 else 0


def _next_line(handle: int, start: int, stop: int) -> int:
    """Returns the position of the first line that starts at `start` or behind, but at most `stop`."""
    at = start - 1
    while at < stop and (piece := os.pread(handle, _SEARCHED_BYTES, at)):
        end = piece.find(b"\n")
        if end >= 0:
            return min(at + end + 1, stop)
        at += len(piece)
    return stop


def _read_into(memory: bytearray, size: int, handle: int, start: int) -> int:
    """Reads `size` bytes, fewer if the file ends before, and returns their number."""
    done = 0
    with memoryview(memory) as whole:
        while done < size:
            num_bytes = os.preadv(handle, [whole[done:size]], start + done)
            if not num_bytes:
                break
            done += num_bytes
    return done
