"""Ids as UTF-8 bytes of a fixed width, a quarter of the size of NumPy's text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import DataError

BYTES_PER_CHARACTER = 4
"""Of NumPy's text."""

_ASCII = 128


def encoded(name: str, ids: NDArray[np.str_]) -> NDArray[np.bytes_]:
    """Returns the (n,) ids as bytes, n at least 1.

    Raises:
        DataError: An id has a character that is not valid text.

    >>> encoded("query_ids", np.array(["7", "zwölf"])).tolist()
    [b'7', b'zw\\xc3\\xb6lf']
    """
    width = max(int(np.char.str_len(ids).max()), 1)
    codes = _codes(ids.astype(f"U{width}"), np.uint32)
    if (codes < _ASCII).all():
        narrow: NDArray[np.bytes_] = codes.astype(np.uint8).view(f"S{width}").reshape(-1)
        return narrow
    try:
        return np.char.encode(ids, "utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"{name}: {error.object!r} contains a character that is not valid text. Rename it."
        ) from None


def decoded(name: str, ids: NDArray[Any]) -> NDArray[np.str_]:
    """Returns the (n,) ids as text.

    Raises:
        DataError: An id is not UTF-8.

    >>> decoded("query_ids", encoded("query_ids", np.array(["7", "zwölf"]))).tolist()
    ['7', 'zwölf']
    """
    codes = _codes(ids, np.uint8)
    if (codes < _ASCII).all():
        wide: NDArray[np.str_] = codes.astype(np.uint32).view(f"U{ids.dtype.itemsize}").reshape(-1)
        return wide
    try:
        return np.char.decode(ids, "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: the id {bytes(error.object)!r} is not UTF-8.") from None


def _codes(ids: NDArray[Any], unit: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    """Returns the (n, width) characters or bytes of ids."""
    return np.ascontiguousarray(ids).view(unit).reshape(len(ids), -1)
