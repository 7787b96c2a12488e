"""Reads usual requests in a fraction of the time of `RequestReader`, which reads all others.

Almost all bytes of a request are features, and Python's `json` needs a string and a number object for each. A
compiled loop reads them into an array, and they are cut out of the body: 0 takes their place. What is left is
short, and goes through the same checks as any other request. Everything unusual, also every wrong request, is
left to `RequestReader`, so that a refusal does not depend on the way in which a request is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ltrbench.serving.requests import RankRequest, RefusedRequestError, RequestReader, read_fields
from ltrbench.serving.scanning import UNUSUAL, scan_features

_END = bytes(8)
"""Zeros after a body, at which the compiled loops end."""
_FEWEST_BYTES = 2
"""Minimum number of bytes of a value and of the comma or bracket behind it."""


class QuickReader:
    """Reads requests as `exact` does: the same requests, or the same refusals."""

    def __init__(self, exact: RequestReader) -> None:
        self.exact = exact
        self._can_scan = _are_plain(exact.feature_names)
        self._names = _sorted_names(exact.feature_names) if self._can_scan else None

    def read(self, body: bytes) -> RankRequest:
        """Returns the request in the body of a POST.

        Raises:
            RefusedRequestError: the body is not JSON, or not a request to rank documents.
        """
        request = self.read_usual(body)
        return self.exact.read(body) if request is None else request

    def read_usual(self, body: bytes) -> RankRequest | None:
        """Returns the request, or None for a body that `exact` must read or refuse."""
        if self._names is None:
            return None
        num_features, limit = len(self.exact.feature_names), self.exact.limits.num_documents
        # No more rows than the body can have, because a row of thousands of features is large.
        num_rows = min(limit, len(body) // (_FEWEST_BYTES * num_features))
        features = np.empty((num_rows, num_features), dtype=np.float32)
        spans = np.empty((num_rows, 2), dtype=np.uint64)
        text = np.frombuffer(body + _END, dtype=np.uint8)
        num_documents = scan_features(text, len(body), self._names, features, spans)
        if num_documents == UNUSUAL:
            return None
        try:
            query, ids, _ = read_fields(_without(body, spans[:num_documents]), limit)
        except RefusedRequestError:
            return None
        # Each document has the name "features" once, so that none was cut out of another place.
        if len(ids) != num_documents:
            return None
        return RankRequest(query, ids, features[:num_documents])


def _without(body: bytes, spans: NDArray[np.uint64]) -> bytes:
    """Returns a body with 0 in the place of each span."""
    edges = [0, *spans.ravel().tolist(), len(body)]
    parts = [body[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)]
    return b"0".join(parts)


def _are_plain(names: Sequence[str]) -> bool:
    """Returns whether JSON can have all names in quotes as they are, and whether they are all different.

    >>> _are_plain(["bm25", "age"]), _are_plain(["2 inches", 'a "quote"'])
    (True, False)
    """
    return 0 < len(names) == len(set(names)) and all(
        name.isprintable() and '"' not in name and "\\" not in name for name in names
    )


def _sorted_names(
    names: Sequence[str],
) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]:
    """Returns the bytes of the sorted names, (F + 1,) where each begins, and (F,) its column."""
    encoded = [name.encode() for name in names]
    columns = sorted(range(len(names)), key=lambda column: encoded[column])
    starts = np.cumsum([0] + [len(encoded[column]) for column in columns]).astype(np.uint64)
    letters = np.frombuffer(b"".join(encoded[column] for column in columns), dtype=np.uint8)
    return letters, starts, np.array(columns, dtype=np.uint64)
