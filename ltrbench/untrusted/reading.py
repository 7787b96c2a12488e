"""Reads files that anybody may have written: those of run folders and of saved models.

    check_regular   size of a regular file; a named pipe or a device would block the reader forever
    read_bytes      a whole file of bounded size
    read_json       JSON of bounded size and depth
    load_npz        arrays, each held against its place in the file before memory is allocated for it

All raise ResultError with one paragraph: the file, what is wrong with it, and the remedy, which the caller
may name. Nothing is unpickled and nothing that a file names is imported.
"""

from __future__ import annotations

import io
import json
import math
import re
import stat
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError

REMEDY = "Copy it again from where it came from, or run again what wrote it"

MOST_BYTES = 4 * 2**30
"""Size of a file, and of the arrays in it, at the most: memory is allocated for so much."""
MOST_JSON_BYTES = 16 * 2**20
MOST_JSON_DEPTH = 50
"""Levels of lists and objects at the most: recursive functions take a few hundred."""
MOST_ARRAYS = 1000
_PART = 2**20
"""Bytes of an array that are read at a time."""

_DEFLATE_RATIO = 1032
"""Bytes that one byte of a deflate stream can stand for at the most (zlib's technical details)."""
_DECLARED = re.compile(
    rb"\{'descr': '([<>|][biufU]\d+)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \} *\n"
)
"""What numpy writes before an array: dtype (booleans, numbers, text), order and shape."""
_OF_DAMAGED_ARCHIVES = (
    *(OSError, ValueError, TypeError, OverflowError, EOFError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error, struct.error),  # RuntimeError: it is encrypted
)
"""What zipfile and numpy raise on damaged files."""


def check_regular(path: Path, remedy: str = REMEDY) -> int:
    """Returns the size in bytes of a regular file, or of one that a symbolic link leads to.

    Raises:
        ResultError: where there is none, or something else: a folder, a named pipe, a device.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        _refuse(path, _reason(error), remedy)
    if not stat.S_ISREG(status.st_mode):
        _refuse(path, "it is not a regular file", remedy)
    return status.st_size


def read_bytes(path: Path, remedy: str = REMEDY, most: int = MOST_BYTES) -> bytes:
    """Reads a regular file.

    Raises:
        ResultError: where it cannot be read, or has more than `most` bytes.
    """
    size = check_regular(path, remedy)
    if size > most:
        _refuse(path, f"it has {size:,} bytes, and {most:,} are read at the most", remedy)
    try:
        return path.read_bytes()
    except OSError as error:
        _refuse(path, _reason(error), remedy)


def read_json(path: Path, remedy: str = REMEDY, *, finite: bool = True) -> Any:
    """Reads JSON, in which lists and objects are nested at most `MOST_JSON_DEPTH` deep.

    Args:
        finite: refuse NaN, Infinity and numbers that float64 does not hold.

    Raises:
        ResultError: where the file is not such JSON.
    """
    content = read_bytes(path, remedy, MOST_JSON_BYTES)
    try:
        value = json.loads(content)
    except RecursionError:
        _refuse(path, "its lists and objects are nested too deep", remedy)
    except ValueError as error:
        _refuse(path, str(error), remedy)
    reason = _wrong_json(value, finite)
    if reason:
        _refuse(path, reason, remedy)
    return value


def _wrong_json(value: Any, finite: bool) -> str | None:
    """What is refused of a JSON value; level by level, so that no depth is too much for this function."""
    level = [value]
    for _ in range(MOST_JSON_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.keys()
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, float) and finite and not math.isfinite(item):
                return f"it holds the number {item}, which is not finite"
            elif isinstance(item, int) and finite and item.bit_length() > 1023:
                return "it holds a whole number beyond float64"
            elif isinstance(item, str) and not item.isascii() and _has_lone_surrogate(item):
                return "it holds half a surrogate pair, which is no character"
        if not below:
            return None
        level = below
    return f"its lists and objects are nested more than {MOST_JSON_DEPTH} deep"


def _has_lone_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def load_npz(
    path: Path,
    content: bytes | None = None,
    names: Iterable[str] | None = None,
    remedy: str = REMEDY,
    most: int = MOST_BYTES,
) -> dict[str, NDArray[Any]]:
    """Reads the arrays of a file that `numpy.savez` or `savez_compressed` wrote: name -> array.

    The dtype and shape that an array declares must fill its place in the file exactly, so that no more memory
    is allocated than the file, unpacked, accounts for. Arrays of Python objects are refused.

    Args:
        content: of the file, where it has been read; `path` only names it then.
        names: the arrays to read, those of them that are there; None: all.
        most: bytes of all arrays together.

    Raises:
        ResultError: where the file is damaged or is not such a file.
    """
    if content is None:
        check_regular(path, remedy)
    wanted = None if names is None else set(names)
    arrays: dict[str, NDArray[Any]] = {}
    left = most
    try:
        with zipfile.ZipFile(path if content is None else io.BytesIO(content)) as archive:
            members = archive.infolist()
            if len(members) > MOST_ARRAYS:
                raise ValueError(f"it holds {len(members)} arrays, and {MOST_ARRAYS} are read at the most")
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name in arrays or name == member.filename:
                    raise ValueError(f"'{member.filename}' is in it twice, or is no array")
                if wanted is None or name in wanted:
                    left -= member.file_size
                    if left < 0:
                        raise ValueError(f"its arrays have more than {most:,} bytes")
                    arrays[name] = _read_array(archive, member)
    except _OF_DAMAGED_ARCHIVES as error:
        _refuse(path, _reason(error), remedy)
    return arrays


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Reads one array, after its declared size has been held against the member's.

    Raises:
        ValueError: where it is no array of numbers, booleans or text, or is not of its declared size; where
            text holds what is no character.
    """
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"'{member.filename}' is packed in a way that numpy does not write")
    if member.file_size > _DEFLATE_RATIO * member.compress_size:
        raise ValueError(f"'{member.filename}' declares more bytes than it can hold")
    with archive.open(member) as file:
        begin = file.read(10)
        header = file.read(int.from_bytes(begin[8:], "little"))
        declared = _DECLARED.fullmatch(header)
        if begin[:8] != b"\x93NUMPY\x01\x00" or declared is None:
            raise ValueError(f"'{member.filename}' is no array of numbers, booleans or text")
        dtype = np.dtype(declared[1].decode())
        shape = tuple(int(length) for length in declared[3].replace(b" ", b"").split(b",") if length)
        size = math.prod(shape) * dtype.itemsize
        if size != member.file_size - len(begin) - len(header) or dtype.itemsize == 0:
            raise ValueError(
                f"'{member.filename}' declares the shape {shape} of {dtype}, {size:,} bytes, but "
                f"{member.file_size - len(begin) - len(header):,} bytes are in the file"
            )
        array = np.empty(math.prod(shape), dtype)
        into, filled = array.view(np.uint8), 0
        # In parts, so that the file's bytes and the array are never both in memory as a whole.
        while part := file.read(min(_PART, size - filled)):
            into[filled : filled + len(part)] = np.frombuffer(part, np.uint8)
            filled += len(part)
        # To the end of the member, where its checksum is looked at.
        if filled != size or file.read(1):
            raise ValueError(f"'{member.filename}' does not have the bytes that it declares")
    if not dtype.isnative:
        array = array.byteswap(inplace=True).view(dtype.newbyteorder("="))
    if dtype.kind == "U":
        _check_characters(array.view(np.uint32), member.filename)
    return array.reshape(shape[::-1]).T if declared[2] == b"True" else array.reshape(shape)


def _check_characters(codes: NDArray[np.uint32], name: str) -> None:
    """Raises ValueError where a number stands in the place of a character."""
    if (codes > sys.maxunicode).any() or ((codes >= 0xD800) & (codes < 0xE000)).any():
        raise ValueError(f"'{name}' holds what is no text")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _refuse(path: Path, reason: str, remedy: str) -> NoReturn:
    raise ResultError(f"{path} cannot be read: {reason}. {remedy}.") from None
