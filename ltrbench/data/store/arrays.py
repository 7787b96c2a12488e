"""One array of a store: a .npy file whose header and size follow from its dtype and its shape.

`np.load` reads these files. This module does not parse their headers: it compares them with the only valid
one, so that a damaged header cannot request memory or a wrong shape.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import DataError, ResultError
from ltrbench.untrusted.reading import check_regular

REBUILD = "Build the store again with `python -m ltrbench data build`, or copy it again"
"""Remedy for a damaged store."""

HEADER_BYTES = 128  # a multiple of 64, as numpy aligns the values
_MAGIC = b"\x93NUMPY\x01\x00"
_PART_BYTES = 1 << 20  # read at a time, so that memory does not contain the array


def write_array(path: Path, blocks: Iterable[NDArray[Any]], dtype: np.dtype[Any]) -> str:
    """Writes blocks of rows, at least one, one below the other, and returns the checksum of their values."""
    digest = hashlib.sha256()
    num_rows, of_row = 0, None
    with path.open("wb") as file:
        file.write(bytes(HEADER_BYTES))  # the header has the number of rows, which is known at the end
        for block in blocks:
            values = np.ascontiguousarray(block, dtype=dtype)
            num_rows, of_row = num_rows + len(values), values.shape[1:]
            content = values.view(np.uint8).data
            digest.update(content)
            file.write(content)
        if of_row is None:
            raise ValueError(f"{path}: there are no blocks")
        file.seek(0)
        file.write(_header(dtype, (num_rows, *of_row)))
    return digest.hexdigest()


def map_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Returns a read-only array of a file, whose values the system loads when they are used.

    Raises:
        DataError: The file does not contain an array of this dtype and shape.
    """
    _check_size(path, dtype, shape)
    try:
        with path.open("rb") as file:
            begin = file.read(HEADER_BYTES)
        if begin != _header(dtype, shape):
            raise DataError(
                f"{path}: the header is not that of an array of {dtype} of the shape {shape}, which the "
                f"manifest describes. {REBUILD}."
            )
        return np.asarray(np.memmap(path, dtype=dtype, mode="r", offset=HEADER_BYTES, shape=shape))
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def read_values(path: Path, values: NDArray[Any]) -> None:
    """Reads all values of a file into an array, faster than a copy of a mapped file.

    Raises:
        DataError: The file cannot be read, or has fewer values.
    """
    left = values.view(np.uint8).data
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(HEADER_BYTES)
            while left and (count := file.readinto(left)):
                left = left[count:]
    except OSError as error:
        raise unreadable(path, error) from None
    if left:
        raise DataError(f"{path}: the file has become shorter since it was checked. {REBUILD}.")


def check_values(
    path: Path, checksum: str, check: Callable[[int, memoryview], None] = lambda _, part: None
) -> None:
    """Raises DataError if the values in a file do not have this checksum.

    Args:
        check: called with the parts of the values, each a whole number of values, and the place of the first
            byte of the part.
    """
    digest, place = hashlib.sha256(), 0
    try:
        # Read, not mapped: mapped pages would count as memory of this process.
        with path.open("rb") as file:
            file.seek(HEADER_BYTES)
            buffer = memoryview(bytearray(_PART_BYTES))
            while count := file.readinto(buffer):
                digest.update(buffer[:count])
                check(place, buffer[:count])
                place += count
    except OSError as error:
        raise unreadable(path, error) from None
    if digest.hexdigest() != checksum:
        raise DataError(
            f"{path}: the values have the checksum {digest.hexdigest()[:16]}..., but the manifest has "
            f"{checksum[:16]}...: the file is damaged. {REBUILD}."
        )


def unreadable(path: Path, error: OSError | ValueError) -> DataError:
    """Returns the error for a file that the system cannot read."""
    reason = getattr(error, "strerror", None) or str(error)
    return DataError(f"{path}: the file cannot be read ({reason}). {REBUILD}.")


def _check_size(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    expected = HEADER_BYTES + math.prod(shape) * dtype.itemsize
    try:
        size = check_regular(path, REBUILD)
    except ResultError as error:
        raise DataError(str(error)) from None
    if size != expected:
        raise DataError(
            f"{path}: the file has {size:,} bytes, but an array of {dtype} of the shape {shape} has "
            f"{expected:,}. {REBUILD}."
        )


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    length = HEADER_BYTES - len(_MAGIC) - 2
    return _MAGIC + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"
