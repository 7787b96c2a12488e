"""Reads the JSON of a request to rank documents, and checks it.

    {"query": "q1", "documents": [{"id": "d1", "features": {"bm25": 2.5, "age": null}}, ...]}

`features` has a value for every feature of the model: by name, or as a list in the order of the model. null
is a missing value. A name that is absent is refused: in a LETOR file it would mean 0, in a table a missing
value, and the model scores these differently. A body is not trusted: its size, its depth, its numbers and its
duplicates are checked.
"""

from __future__ import annotations

import contextlib
import json
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import DataError, require
from ltrbench.shapes import Features

Identifier = str | int
"""Identifier of a query or of a document, which the answer repeats unchanged."""

INVALID_JSON, TOO_LARGE, NOT_ACCEPTED = 400, 413, 422
"""Status codes: not JSON; too many bytes; JSON that is not a valid request."""

_FIELDS = {"query", "documents"}
_FIELDS_OF_DOCUMENT = {"id", "features"}
_KINDS_OF_VALUES = {float, int, type(None)}
"""Types of the JSON values that a feature may have; `bool` is another type."""


class RefusedRequestError(Exception):
    """Request that is not answered.

    Attributes:
        status: status code of HTTP.
        place: place of the error in the JSON, such as "documents[3].features.bm25"; empty: the whole body.
    """

    def __init__(self, status: int, place: str, message: str) -> None:
        super().__init__(message)
        self.status, self.place = status, place


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """Limits of one request, so that it cannot occupy the service."""

    num_documents: int = 1000
    """Maximum number of documents."""
    num_bytes: int = 16 * 2**20
    """Maximum number of bytes of the body."""

    def __post_init__(self) -> None:
        require("num_documents", self.num_documents, at_least=1)
        require("num_bytes", self.num_bytes, at_least=1)


@dataclass(frozen=True, eq=False)
class RankRequest:
    """A request to rank the documents of one query.

    Attributes:
        query: identifier of the query; None if the request has none.
        ids: (D,), identifiers of the documents.
        features: (D, F), NaN for missing values.
    """

    query: Identifier | None
    ids: Sequence[Identifier]
    features: Features


class RequestReader:
    """Reads requests for a model with the features `feature_names`."""

    def __init__(self, feature_names: Sequence[str], limits: RequestLimits) -> None:
        self.feature_names = tuple(feature_names)
        self.limits = limits
        self._known = frozenset(feature_names)
        self._in_order = _values_in_order(self.feature_names)

    def read(self, body: bytes) -> RankRequest:
        """Returns the request in the body of a POST.

        Raises:
            RefusedRequestError: the body is not JSON, or not a request to rank documents.
        """
        query, ids, documents = read_fields(body, self.limits.num_documents)
        return RankRequest(query, ids, self._features_of(documents))

    def _features_of(self, documents: Sequence[dict[str, Any]]) -> Features:
        rows = [self._row(document["features"], d) for d, document in enumerate(documents)]
        # All values at once: a loop over them would take longer than the scores.
        if not set(map(type, chain.from_iterable(rows))) <= _KINDS_OF_VALUES:
            raise self._first(documents, lambda value: type(value) not in _KINDS_OF_VALUES, "not a number")
        try:
            values = np.array(rows, dtype=np.float64).reshape(len(rows), len(self.feature_names))
            with np.errstate(over="ignore"):
                features = values.astype(np.float32)
            is_beyond = bool(np.isinf(features).any())
        except OverflowError:  # a whole number beyond float64
            is_beyond = True
        if is_beyond:
            raise self._first(documents, _is_beyond, "beyond the range of float32 (maximum 3.4e38)")
        return features

    def _row(self, features: Any, d: int) -> Sequence[Any]:
        """Returns the values of a document in the order of the model."""
        place = f"documents[{d}].features"
        if isinstance(features, dict):
            if len(features) == len(self.feature_names):
                with contextlib.suppress(KeyError):
                    return self._in_order(features)
            raise self._other_names(features, place)
        if not isinstance(features, list):
            raise _refusal(place, "must be an object with a value by name, or a list of values")
        if len(features) != len(self.feature_names):
            raise _refusal(
                place, f"has {len(features)} values, but the model has {len(self.feature_names)} features"
            )
        return features

    def _other_names(self, features: dict[str, Any], place: str) -> RefusedRequestError:
        """Returns the refusal of features with other names than those of the model."""
        unknown = next((name for name in features if name not in self._known), None)
        if unknown is not None:
            return _refusal(f"{place}.{_shortened(unknown)}", "is not a feature of the model; see GET /model")
        missing = [name for name in self.feature_names if name not in features]
        further = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return _refusal(
            f"{place}.{_shortened(missing[0])}",
            f"is absent{further}. Send every feature of GET /model; a missing value is null",
        )

    def _first(
        self, documents: Sequence[dict[str, Any]], is_wrong: Callable[[Any], bool], reason: str
    ) -> RefusedRequestError:
        """Returns the refusal of the first wrong value."""
        for d, document in enumerate(documents):
            features = document["features"]
            is_named = isinstance(features, dict)
            for key, value in features.items() if is_named else enumerate(features):
                if is_wrong(value):
                    place = f".{_shortened(key)}" if is_named else f"[{key}]"
                    return _refusal(f"documents[{d}].features{place}", f"is {_shown(value)}, {reason}")
        return _refusal("documents", f"has a value {reason}")


def read_fields(
    body: bytes, most_documents: int
) -> tuple[Identifier | None, list[Identifier], list[dict[str, Any]]]:
    """Returns the query, the (D,) ids and the (D,) documents of a body. The features are not checked.

    Raises:
        RefusedRequestError: the body is not JSON, or something else than the features is wrong.
    """
    request = _parsed(body)
    if not isinstance(request, dict):
        raise _refusal("", "must be a JSON object with the documents")
    _check_fields(request, _FIELDS, {"documents"}, "")
    query, documents = request.get("query"), request["documents"]
    if query is not None and not _is_identifier(query):
        raise _refusal("query", "must be a text or a whole number")
    if not isinstance(documents, list):
        raise _refusal("documents", "must be a list")
    if len(documents) > most_documents:
        most = f"the maximum is {most_documents:,} (--max-documents)"
        raise _refusal("documents", f"has {len(documents):,} documents; {most}")
    ids = [_id_of(document, f"documents[{d}]") for d, document in enumerate(documents)]
    if len(set(ids)) < len(ids):
        d = _first_repeated(ids)
        raise _refusal(f"documents[{d}].id", f"is {_shown(ids[d])}, also the id of an earlier document")
    return query, ids, documents


def _values_in_order(names: Sequence[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """Returns a function from an object to its values in the order of the names."""
    if len(names) > 1:
        return itemgetter(*names)
    # `itemgetter` of one name returns a value and no tuple.
    return lambda features: tuple(features[name] for name in names)


def _parsed(body: bytes) -> Any:
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except RecursionError:
        raise RefusedRequestError(INVALID_JSON, "", "lists and objects are nested too deep") from None
    except UnicodeDecodeError as error:
        raise RefusedRequestError(
            INVALID_JSON, "", f"the body is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}"
        ) from None
    except ValueError as error:  # also whole numbers of thousands of digits
        raise RefusedRequestError(INVALID_JSON, "", f"the body is not valid JSON: {error}") from None


def _first_repeated(values: Sequence[Identifier]) -> int:
    """Returns the place of the first value that is equal to an earlier one; there must be one."""
    seen: set[Identifier] = set()
    for place, value in enumerate(values):  # `values.count` would take quadratic time
        if value in seen:
            return place
        seen.add(value)
    raise ValueError("all values are different")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON; a missing value is null")


def _without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{_shown(names[_first_repeated(names)])} is twice in one object")
    return fields


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)


def _check_fields(values: dict[str, Any], known: set[str], needed: set[str], place: str) -> None:
    prefix = f"{place}." if place else ""
    for name in values:
        if name not in known:
            raise _refusal(f"{prefix}{_shortened(name)}", f"is unknown; expected {', '.join(sorted(known))}")
    for name in sorted(needed):
        if name not in values:
            raise _refusal(f"{prefix}{name}", "is absent")


def _id_of(document: Any, place: str) -> Identifier:
    if not isinstance(document, dict):
        raise _refusal(place, "must be an object with an id and features")
    if document.keys() != _FIELDS_OF_DOCUMENT:
        _check_fields(document, _FIELDS_OF_DOCUMENT, _FIELDS_OF_DOCUMENT, place)
    if not _is_identifier(document["id"]):
        raise _refusal(f"{place}.id", "must be a text or a whole number")
    identifier: Identifier = document["id"]
    return identifier


def _is_identifier(value: Any) -> bool:
    return type(value) in (str, int)


def _is_beyond(value: Any) -> bool:
    with np.errstate(over="ignore"):
        try:
            return value is not None and bool(np.isinf(np.float32(float(value))))
        except OverflowError:
            return True


def _refusal(place: str, predicate: str) -> RefusedRequestError:
    """Returns the refusal of valid JSON; the place is the subject of the message."""
    return RefusedRequestError(NOT_ACCEPTED, place, f"{place or 'the body'} {predicate}")


def _shortened(name: Any) -> str:
    """Returns a name from a request for a place, shortened."""
    return str(name) if len(str(name)) <= 80 else f"{str(name)[:77]}..."


def _shown(value: Any) -> str:
    return reprlib.repr(value)


# ---- Features of a DataFrame, matched by the names of its columns.
#
# A frame is any object with columns by name: of pandas, Polars or pyarrow. None of these libraries is
# imported.

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
