"""Reads untrusted files: those of run folders and of saved models.

    check_regular   size of a regular file; a named pipe or a device would block the reader forever
    read_bytes      whole file of bounded size
    read_json       JSON of bounded size and depth
    load_npz        arrays, each checked against its size in the file before memory is allocated

All functions raise ResultError with one paragraph: the file, the reason, and the remedy, which the caller may
set. Nothing is unpickled, and no module is imported because a file names it.
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

REMEDY = "Copy it again from its source, or rerun the command that wrote it"

MOST_BYTES = 4 * 2**30
"""Maximum size of a file and of its arrays, and thus of the memory allocated for them."""
MOST_JSON_BYTES = 16 * 2**20
MOST_JSON_DEPTH = 50
"""Maximum nesting depth of lists and objects; recursive functions support a few hundred levels."""
MOST_ARRAYS = 1000
_PART = 2**20
"""Bytes of an array read at a time."""

_DEFLATE_RATIO = 1032
"""Maximum number of bytes that one byte of a deflate stream expands to (zlib's technical details)."""
_DECLARED = re.compile(
    rb"\{'descr': '([<>|][biufU]\d+)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \} *\n"
)
"""Header of a numpy array: dtype (booleans, numbers, text), order and shape."""
_OF_DAMAGED_ARCHIVES = (
    *(OSError, ValueError, TypeError, OverflowError, EOFError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error, struct.error),  # RuntimeError: encrypted archive
)
"""Exceptions that zipfile and numpy raise on damaged files."""


def check_regular(path: Path, remedy: str = REMEDY) -> int:
    """Returns the size in bytes of a regular file; symbolic links are followed.

    Raises:
        ResultError: The file does not exist, or is a folder, a named pipe or a device.
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
        ResultError: The file cannot be read, or has more than `most` bytes.
    """
    size = check_regular(path, remedy)
    if size > most:
        _refuse(path, f"it has {size:,} bytes; the maximum is {most:,}", remedy)
    try:
        return path.read_bytes()
    except OSError as error:
        _refuse(path, _reason(error), remedy)


def read_json(path: Path, remedy: str = REMEDY, *, finite: bool = True) -> Any:
    """Reads JSON whose lists and objects have a nesting depth of at most `MOST_JSON_DEPTH`.

    Args:
        finite: reject NaN, Infinity and numbers beyond float64.

    Raises:
        ResultError: The file is not such JSON.
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
    """Returns why a JSON value is invalid, or None; breadth first, so that any depth is supported."""
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
                return f"it contains the number {item}, which is not finite"
            elif isinstance(item, int) and finite and item.bit_length() > 1023:
                return "it contains a whole number beyond float64"
            elif isinstance(item, str) and not item.isascii() and _has_lone_surrogate(item):
                return "it contains half a surrogate pair, which is not a character"
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

    The declared dtype and shape of an array must match its uncompressed size in the file exactly, so that the
    allocated memory is bounded by the file. Arrays of Python objects are an error.

    Args:
        content: content of the file if it has been read already; `path` is then used in messages only.
        names: arrays to read if they exist; None: all arrays.
        most: maximum total size of the arrays in bytes.

    Raises:
        ResultError: The file is damaged or is not such a file.
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
                raise ValueError(f"it contains {len(members)} arrays; the maximum is {MOST_ARRAYS}")
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name in arrays or name == member.filename:
                    raise ValueError(f"'{member.filename}' is in it twice, or is not an array")
                if wanted is None or name in wanted:
                    left -= member.file_size
                    if left < 0:
                        raise ValueError(f"its arrays have more than {most:,} bytes")
                    arrays[name] = _read_array(archive, member)
    except _OF_DAMAGED_ARCHIVES as error:
        _refuse(path, _reason(error), remedy)
    return arrays


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Reads one array after checking its declared size against the size of the archive member.

    Raises:
        ValueError: The member is not an array of numbers, booleans or text, its size differs from the
            declared size, or its text contains an invalid character.
    """
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"'{member.filename}' has a compression method that numpy does not use")
    if member.file_size > _DEFLATE_RATIO * member.compress_size:
        raise ValueError(f"'{member.filename}' declares more bytes than it can hold")
    with archive.open(member) as file:
        begin = file.read(10)
        header = file.read(int.from_bytes(begin[8:], "little"))
        declared = _DECLARED.fullmatch(header)
        if begin[:8] != b"\x93NUMPY\x01\x00" or declared is None:
            raise ValueError(f"'{member.filename}' is not an array of numbers, booleans or text")
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
        # In parts, so that memory never contains both the whole file and the whole array.
        while part := file.read(min(_PART, size - filled)):
            into[filled : filled + len(part)] = np.frombuffer(part, np.uint8)
            filled += len(part)
        # Reads to the end of the member, where zipfile verifies the checksum.
        if filled != size or file.read(1):
            raise ValueError(f"the size of '{member.filename}' differs from its declared size")
    if not dtype.isnative:
        array = array.byteswap(inplace=True).view(dtype.newbyteorder("="))
    if dtype.kind == "U":
        _check_characters(array.view(np.uint32), member.filename)
    return array.reshape(shape[::-1]).T if declared[2] == b"True" else array.reshape(shape)


def _check_characters(codes: NDArray[np.uint32], name: str) -> None:
    """Raises ValueError if a code is not a valid character."""
    if (codes > sys.maxunicode).any() or ((codes >= 0xD800) & (codes < 0xE000)).any():
        raise ValueError(f"'{name}' contains an invalid character")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _refuse(path: Path, reason: str, remedy: str) -> NoReturn:
    raise ResultError(f"{path} cannot be read: {reason}. {remedy}.") from None
