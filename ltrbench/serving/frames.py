"""Features of a DataFrame, matched by the names of its columns.

A frame is any object with columns by name: of pandas, Polars or pyarrow. None of these libraries is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import DataError
from ltrbench.shapes import Features

_NUMBERS = "fiub"
"""Kinds of dtype that are numbers: floats, integers, unsigned integers, booleans."""
_MOST_SHOWN = 5
"""Maximum number of columns that a message names."""


def is_frame(features: object) -> bool:
    """Returns whether an object has columns by name.

    >>> is_frame(np.zeros((1, 2)))
    False
    """
    return hasattr(features, "__getitem__") and (
        hasattr(features, "column_names") or hasattr(features, "columns")
    )


def array_of_frame(frame: Any, feature_names: Sequence[str], *, reorder: bool) -> Features:
    """Returns the (D, F) features of a frame in the order of `feature_names`.

    Args:
        reorder: accept the columns in any order, and ignore all columns that are not features. Otherwise the
            columns must be the features in their order.

    Raises:
        DataError: a column is missing, in another place, there twice, or has values that are not numbers.
    """
    # In pyarrow `columns` are arrays. Names in pandas may be numbers, which match their digits.
    labels = list(getattr(frame, "column_names", None) or frame.columns)
    names = [str(label) for label in labels]
    _check_names(names, feature_names, reorder)
    label_of = dict(zip(names, labels, strict=True))
    features = np.empty((len(frame), len(feature_names)), dtype=np.float32, order="F")
    for column, name in enumerate(feature_names):
        features[:, column] = _as_float32(frame[label_of[name]], name)
    return np.ascontiguousarray(features)


def _check_names(names: Sequence[str], feature_names: Sequence[str], reorder: bool) -> None:
    columns, expected = set(names), set(feature_names)
    missing = [name for name in feature_names if name not in columns]
    if missing:
        raise DataError(
            f"features lacks {_columns(missing)} of the model, which has {len(feature_names)} features. "
            "Add every missing column; a value that is not known is NaN."
        )
    if len(columns) < len(names):
        twice = [name for name in dict.fromkeys(names) if name in expected and names.count(name) > 1]
        if twice:
            raise DataError(f"features has {_columns(twice)} more than once. Keep one column of each name.")
    if reorder or names == list(feature_names):
        return
    remedy = (
        "Pass reorder=True to match the columns by name and to ignore further columns, or select the columns "
        "in the order of `feature_names`."
    )
    further = [name for name in names if name not in expected]
    if further:
        raise DataError(f"features has {_columns(further)}, which the model does not have. {remedy}")
    place, (name, feature) = next(
        (place, pair)
        for place, pair in enumerate(zip(names, feature_names, strict=True))
        if pair[0] != pair[1]
    )
    raise DataError(f"column {place} of features is '{name}', but the model has '{feature}' there. {remedy}")


def _columns(names: Sequence[str]) -> str:
    """Returns columns as words of a sentence.

    >>> _columns(["bm25"]), _columns(["bm25", "age"])
    ("the column 'bm25'", "the columns 'bm25', 'age'")
    """
    shown = ", ".join(f"'{name}'" for name in names[:_MOST_SHOWN])
    further = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return f"the column{'s' if len(names) > 1 else ''} {shown}{further}"


def _as_float32(column: Any, name: str) -> NDArray[np.float32]:
    """Returns the (D,) values of a column; missing values are NaN.

    Raises:
        DataError: the values are not numbers, or are beyond the range of float32.
    """
    values = np.asarray(column)
    # Integers of pandas with missing values become an array of objects, but their dtype says that they are
    # numbers.
    if values.dtype.kind == "O" and getattr(column.dtype, "kind", "") in tuple(_NUMBERS):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if values.ndim != 1 or values.dtype.kind not in _NUMBERS:
        dtype = getattr(column, "dtype", values.dtype)
        raise DataError(
            f"the column '{name}' of features has the dtype {dtype}; expected numbers. Encode values "
            "that are not numbers, and convert the column to float32."
        )
    with np.errstate(over="ignore"):
        converted = values.astype(np.float32)
    beyond = np.flatnonzero(np.isinf(converted) & np.isfinite(values))
    if beyond.size:
        raise DataError(
            f"row {beyond[0]} of the column '{name}' of features is {values[beyond[0]]}, beyond the range of "
            "float32 (maximum 3.4e38). Rescale the feature, or use NaN for a missing value."
        )
    return converted
