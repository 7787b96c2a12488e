"""Blocks of lines of plain and compressed files, gathered into arrays.

Reads and writes plain and compressed files: gz, bz2, xz and zst.

Readers detect the compression from the first bytes, so that a wrong file extension does no harm. Writers
choose it by the extension. To support another compression, add an entry to `COMPRESSIONS`.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import numbers
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path
from threading import Lock
from typing import IO, Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import AnyFeatures, SparseRows, is_mapped, rows_in_order
from ltrbench.data.store import is_store
from ltrbench.errors import ConfigError, DataError
from ltrbench.measure import available_cores
from ltrbench.shapes import Features, QueryStart

# Large enough to hide the overhead of a call. Larger blocks are new memory of the system each time, which
# takes longer than reading [measured].
_BLOCK_BYTES = 1 << 18

# Exceptions of the libraries on a damaged stream; pyarrow's ArrowInvalid is a ValueError.
_DAMAGE = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)


@dataclass(frozen=True, slots=True)
class Compression:
    """Compression format: its magic bytes, stream functions, and the command that tests a file."""

    ending: str
    magic: bytes
    unpack: Callable[[IO[bytes]], Any]  # returns a byte stream, whose type depends on the library
    pack: Callable[[IO[bytes]], Any]
    test: str


def _unpack_gz(packed: IO[bytes]) -> Any:
    return gzip.GzipFile(fileobj=packed, mode="rb")


def _pack_gz(plain: IO[bytes]) -> Any:
    # Without a time and a name, so that the same data gives the same bytes.
    return gzip.GzipFile(filename="", fileobj=plain, mode="wb", compresslevel=6, mtime=0)


def _unpack_zst(packed: IO[bytes]) -> Any:
    # Imported here, because pyarrow takes a tenth of a second, too long for --help.
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, mode="r"), "zstd")


def _pack_zst(plain: IO[bytes]) -> Any:
    import pyarrow

    return pyarrow.CompressedOutputStream(pyarrow.PythonFile(plain, mode="w"), "zstd")


COMPRESSIONS = (
    Compression(".gz", b"\x1f\x8b", _unpack_gz, _pack_gz, "gzip -t"),
    Compression(".bz2", b"BZh", bz2.BZ2File, partial(bz2.BZ2File, mode="w"), "bzip2 -t"),
    Compression(".xz", b"\xfd7zXZ\x00", lzma.LZMAFile, partial(lzma.LZMAFile, mode="w"), "xz -t"),
    Compression(".zst", b"\x28\xb5\x2f\xfd", _unpack_zst, _pack_zst, "zstd -t"),
)


def without_compression_ending(path: Path) -> Path:
    """Returns the path without the extension of a compression format.

    >>> without_compression_ending(Path("rank.train.gz")).name
    'rank.train'
    """
    return path.with_suffix("") if _told_by_ending(path) else path


Blocks = Iterator[tuple[bytes, int]]
"""Uncompressed text in blocks of whole lines, each with the number of its first line."""


def read_blocks(path: Path) -> Blocks:
    """Yields the uncompressed text of a file.

    A UTF-8 byte order mark at the beginning of the file is removed.

    Raises:
        DataError: The file does not exist, is a folder, cannot be opened, or is damaged or truncated.
    """
    with _open(path) as raw:
        yield from blocks_of(raw, path)


@dataclass(frozen=True, slots=True)
class Text:
    """File that can be read, and decompressed, several times."""

    path: Path  # for messages
    content: Path  # path of the content: a temporary file if `path` is a pipe

    @contextmanager
    def open(self) -> Iterator[BufferedReader]:
        """Yields the file as it is, compressed or plain.

        Raises:
            DataError: The file does not exist, is a folder, or cannot be opened.
        """
        with _open(self.content) as raw:
            yield raw


@contextmanager
def read_twice(path: Path) -> Iterator[Text]:
    """Yields a text that can be read several times.

    A pipe can be read only once, so that its content is copied into a temporary file first.

    Raises:
        DataError: There is no space for the temporary file.
    """
    if path.is_file() or path.is_dir() or not path.exists():
        yield Text(path, path)
        return
    with _open(path) as pipe, tempfile.NamedTemporaryFile(prefix="ltrbench-") as copy:
        try:
            shutil.copyfileobj(pipe, copy)
            copy.flush()
        except OSError as error:
            raise DataError(
                f"{path}: the pipe cannot be copied to {copy.name} ({error.strerror}). Set TMPDIR to a "
                "folder with enough space, or pass a file."
            ) from None
        yield Text(path, Path(copy.name))


def blocks_of(raw: BufferedReader, path: Path) -> Blocks:
    """Yields the uncompressed text of an open file, as `read_blocks`; the path is for messages."""
    first_line = 1
    rest = b""  # incomplete last line of the bytes read so far
    kind = _told_by_content(raw)
    try:
        stream = raw if kind is None else kind.unpack(raw)
    except _DAMAGE as error:
        raise _damaged(path, 1, kind, error) from None
    while True:
        try:
            piece = stream.read(_BLOCK_BYTES)
        except _DAMAGE as error:
            raise _damaged(path, first_line, kind, error) from None
        end = piece.rfind(b"\n") + 1
        # A view, because another copy would take as long as reading.
        text, rest = (b"".join((rest, memoryview(piece)[:end])), piece[end:]) if end else (b"", rest + piece)
        if not piece and rest:
            text, rest = rest, b""
        if text:
            yield (text.removeprefix(codecs.BOM_UTF8) if first_line == 1 else text), first_line
            # Takes a quarter of the time of text.count [measured].
            first_line += int(np.count_nonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n")))
        elif not piece:
            return


def _damaged(path: Path, line: int, kind: Compression | None, error: Exception) -> DataError:
    if kind is None:
        return DataError(
            f"{path}:{line}: the file cannot be read after this line ({error}). Copy the file again."
        )
    return DataError(
        f"{path}:{line}: the {kind.ending[1:]} file is damaged or truncated somewhere after this line "
        f"({error}). Copy or download the file again; `{kind.test}` tests it."
    )


def _told_by_content(raw: BufferedReader) -> Compression | None:
    # peek instead of read, because a pipe cannot seek back.
    first = raw.peek(6)
    return next((kind for kind in COMPRESSIONS if first.startswith(kind.magic)), None)


def _told_by_ending(path: Path) -> Compression | None:
    return next((kind for kind in COMPRESSIONS if path.suffix.lower() == kind.ending), None)


@contextmanager
def _open(path: Path) -> Iterator[BufferedReader]:
    try:
        raw = path.open("rb")
    except FileNotFoundError:
        raise DataError(
            f"{path}: the file does not exist (current folder {Path.cwd()}). Check the path, or download the "
            "data."
        ) from None
    except IsADirectoryError:
        remedy = "use data=store to read it" if is_store(path) else "pass the path of a file in it"
        kind = "a store" if is_store(path) else "a folder"
        raise DataError(f"{path}: this is {kind}; {remedy}.") from None
    except OSError as error:
        raise DataError(
            f"{path}: the file cannot be opened ({error.strerror}). Check the path and its permissions."
        ) from None
    with raw:
        yield raw


@contextmanager
def write_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yields a stream whose content replaces `path` at the end of the block, compressed by the extension.

    If the block fails, an existing file stays unchanged and nothing else remains.

    Raises:
        DataError: The path is a folder, or its folder does not exist or is not writable.
    """
    if path.is_dir():
        raise DataError(f"{path}: this is a folder; pass the path of a file in it.")
    kind = _told_by_ending(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise DataError(
            f"{path}: the file cannot be written ({error.strerror}). Check the folder and its permissions."
        ) from None
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as raw:
            if kind is None:
                yield raw
            else:
                with kind.pack(raw) as packed:
                    yield packed
        unfinished.chmod(0o666 & ~_umask())  # mkstemp creates a file that only its owner can read
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _umask() -> int:
    # The umask can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ---- Units of LETOR text: about a megabyte of whole lines, which all available cores read and parse at
# once.
#
# Each thread reads a unit into memory of its own, which the next unit reuses, and processes it in compiled
# loops, which release the global interpreter lock. A unit is large, so that threads rarely wait for each
# other to run Python; and small enough for the cache of a core.
#
# The units of a plain file start at multiples of UNIT_BYTES: unit k has the lines whose first byte is there
# or behind, but before the place of unit k + 1. The threads therefore read a plain file at any place
# without parsing what is before it. A compressed file can only be decompressed from its beginning, by one
# thread at a time, while other threads parse.

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
        if _told_by_content(raw) is not None:
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


# ---- Grouping of rows by query: the last step of every reader.
#
# A reader passes the place of each row (`PlaceOfRow`), so that an error about two rows names both places.

_Column = TypeVar("_Column", bound=NDArray[Any])
PlaceOfRow = Callable[[int], str]  # row in the source, 0 to D - 1 -> `path:line`


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Rows grouped by query."""

    query_start: QueryStart  # (Q + 1,)
    query_ids: NDArray[np.str_]  # (Q,)
    file_rows: NDArray[np.int64] | None  # (D,), row in the source; None: same order as the source

    def take(self, column: _Column) -> _Column:
        """Reorders (D, ...) values from source order to query order, without a copy if the orders agree."""
        return column if self.file_rows is None else column[self.file_rows]  # type: ignore[return-value]

    def take_features(self, features: AnyFeatures) -> AnyFeatures:
        """Reorders (D, F) features likewise; features in a file stay there, and become read-only."""
        in_file = isinstance(features, np.ndarray) and is_mapped(features)
        if isinstance(features, np.ndarray) and in_file:
            features.flags.writeable = False  # so that blocks which were read need no memory
        if self.file_rows is None or not (in_file or isinstance(features, SparseRows)):
            return self.take(cast(Features, features))
        return rows_in_order(features, self.file_rows)


def gather(queries: Sequence[str], sort_queries: bool, place: PlaceOfRow) -> Gathered:
    """Groups rows by query, in the order of each query's first row.

    Args:
        queries: (D,), D at least 1, query id of each row of the source.
        sort_queries: whether the rows of a query may be scattered.

    Raises:
        DataError: The rows of a query are scattered, and `sort_queries` is false.
    """
    return gather_runs(queries, np.ones(len(queries), dtype=np.int64), sort_queries, place)


def gather_runs(
    queries: Sequence[str], sizes: NDArray[np.int64], sort_queries: bool, place: PlaceOfRow
) -> Gathered:
    """Groups rows by query like `gather`, given runs of consecutive rows of one query.

    Args:
        queries: (R,), R at least 1, query id of each run.
        sizes: (R,), number of rows of each run, at least 1.

    Raises:
        DataError: The rows of a query are scattered, and `sort_queries` is false.
    """
    number_of: dict[str, int] = {}
    numbers = np.array([number_of.setdefault(query, len(number_of)) for query in queries])
    # A query that occurs again has its first number, which is lower than the number of the run before.
    comes_back = np.flatnonzero(np.diff(numbers) < 0) + 1
    if comes_back.size and not sort_queries:
        run = int(comes_back[0])
        before = int(np.flatnonzero(numbers[:run] == numbers[run])[-1])
        raise DataError(
            f"{place(int(sizes[:run].sum()))}: query {queries[run]!r} occurs again after other queries; its "
            f"earlier rows end at {place(int(sizes[: before + 1].sum()) - 1)}. The rows of a query must be "
            "consecutive. Set sort_queries=true (in a run data.sort_queries=true) to group them, or use "
            "different ids if these are two queries."
        )
    query_sizes = np.zeros(len(number_of), dtype=np.int64)
    np.add.at(query_sizes, numbers, sizes)
    return Gathered(
        query_start=np.concatenate([[0], np.cumsum(query_sizes)]),
        query_ids=np.array(list(number_of)),
        file_rows=np.argsort(np.repeat(numbers, sizes), kind="stable") if comes_back.size else None,
    )


def check_some_weight(weights: NDArray[np.float64], gathered: Gathered, place: PlaceOfRow) -> None:
    """Raises DataError if all documents of a query have weight 0; weights are (D,), in query order."""
    nothing = np.flatnonzero(np.maximum.reduceat(weights, gathered.query_start[:-1]) == 0)
    if nothing.size:
        row = gathered.query_start[nothing[0]]
        first = int(row if gathered.file_rows is None else gathered.file_rows[row])
        query = str(gathered.query_ids[nothing[0]])
        raise DataError(
            f"{place(first)}: all documents of query {query!r}, which starts here, have weight 0. Remove "
            "the query, or set a positive weight for one of its documents."
        )


# ---- Type checks of reader options, before any file is read: `sort_queries="no"` would otherwise be true.


def as_paths(given: str | Path | Sequence[str | Path]) -> list[Path]:
    """Returns the paths of one split.

    Raises:
        DataError: The list is empty, or names a file twice.
    """
    paths = [Path(given)] if isinstance(given, (str, Path)) else [Path(path) for path in given]
    if not paths:
        raise DataError("path: the list is empty; pass one file, or several files that form one split.")
    files = [path.resolve() for path in paths]
    twice = next((path for path, file in zip(paths, files, strict=True) if files.count(file) > 1), None)
    if twice is not None:
        raise DataError(f"{twice}: this file is listed twice in one split; list each file once.")
    return paths


def check_switch(name: str, value: object) -> None:
    """Raises ConfigError if a Boolean option has another type."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; it must be true or false.")


def check_whole(name: str, value: object) -> None:
    """Raises ConfigError if an option is not a whole number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ConfigError(f"{name} is {value!r}; it must be a whole number.")


def check_names(name: str, value: object) -> None:
    """Raises ConfigError if an option is not a list of names; a string would be read as a list of letters."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{name} is {value!r}; it must be a list of names, such as [bm25,clicks].")
