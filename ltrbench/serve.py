"""The service: its routes, its requests and answers in JSON, and the server that runs it.

    POST /rank     {"query", "documents": [{"id", "features"}]} -> the documents with scores, the best first
    GET /health    whether the service answers
    GET /model     the model: its features, versions, and the metrics of its run with their convention

An error is {"error": ..., "place": ...}, where `place` is the place in the request, such as
documents[3].features.bm25: status 400 for a body that is not JSON, 413 for one that is too large, 422 for
JSON that is not a valid request, and 503 for a body that has not arrived when the service ends.

Documents of equal scores are in the order of the request. Requests are scored one after the other, on one
thread each: a list takes about a millisecond, less than to wake another thread of a busy machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import reprlib
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ltrbench.errors import ConfigError, DataError, require

try:
    import orjson
    import uvicorn
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise ConfigError(
        "serve, and frontier, which times the answers of the service, need Starlette, uvicorn and orjson: "
        "pip install 'ltrbench[serve]'"
    ) from error

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.tables import (
    category_text,
    codes_of_categories,
    columns_of_features,
    days_of,
    one_hot,
)
from ltrbench.runs import LoadedModel
from ltrbench.shapes import Features
from ltrbench.version import __version__

_INVALID_JSON = 400
_TOO_LARGE = 413
_NOT_ACCEPTED = 422
_STOPPING = 503
_MOST_DISCARDED = 4
"""Size up to which a body that is too large is read and discarded, in units of the limit. A client that is
still sending when the connection is closed would not read the answer."""


def ranking_app(
    model: LoadedModel, max_documents: int = 1000, max_bytes: int = 16 * 2**20
) -> Starlette:
    """Returns the service of a model as an ASGI application.

    Args:
        max_documents: maximum number of documents of a request.
        max_bytes: maximum number of bytes of the body of a request.
    """
    # The requests share one process, so that more threads would only wait for each other.
    model.ranker.num_threads = 1
    reader = reader_of(model, max_documents)

    async def rank(request: Request) -> Response:
        return _response(answer(model, reader, await _body(request, max_bytes)))

    health = _response(orjson.dumps({"status": "ok", "model": model.name}))
    description = _response(orjson.dumps(describe(model)))
    routes = [
        Route("/rank", rank, methods=["POST"]),
        Route("/health", health, methods=["GET"]),
        Route("/model", description, methods=["GET"]),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            RefusedRequestError: _refused,
            HTTPException: _not_routed,
            ClientDisconnect: _disconnected,
        },
    )
    # /rank/ is an error: many clients do not send a body again to the address of a redirect.
    app.router.redirect_slashes = False
    return app


def reader_of(model: LoadedModel, max_documents: int = 1000) -> RequestReader:
    """Returns the reader of requests for a model."""
    ranker = model.ranker
    return RequestReader(
        feature_names=_columns_of(model),
        max_documents=max_documents,
        categories={**ranker.categories, **ranker.encoded},
        dates=ranker.dates,
        encoded=ranker.encoded,
        exact=ranker.reads_float64,
    )


def _columns_of(model: LoadedModel) -> tuple[str, ...]:
    """Returns the names of the values of a document: a one-hot encoded column is one value."""
    encoded = model.ranker.encoded
    return columns_of_features(model.feature_names, encoded, encoded)


def describe(model: LoadedModel) -> dict[str, Any]:
    """Returns the description of a model, the answer of GET /model."""
    result = model.run.result
    categories = {**model.ranker.categories, **model.ranker.encoded}
    data = {"name": result.data.get("name"), "fold": result.data.get("fold")}
    versions = {
        "of_run": dict(result.versions),
        "of_service": {"ltrbench": __version__},
    }
    return {
        "model": model.name,
        "class": type(model.ranker).__name__,
        "features": list(_columns_of(model)),
        "categories": {name: list(each) for name, each in categories.items()},
        "dates": dict(model.ranker.dates),
        "data": data,
        "metrics": dict(result.metrics),
        "convention": dict(result.convention),
        "trees": result.num_trees,
        "finished": result.finished,
        "versions": versions,
    }


def answer(model: LoadedModel, reader: RequestReader, body: bytes) -> bytes:
    """Returns the answer to the body of a POST to /rank.

    Raises:
        RefusedRequestError: the body is not JSON, or not a request to rank documents.
    """
    request = reader.read(body)
    scores: NDArray[np.floating[Any]] = np.empty(0)
    if request.ids:
        try:
            scores = model.ranker.predict(request.features)
        except DataError as error:  # such as a missing value
            raise _refusal("documents", f"cannot be scored: {error}") from error
    # A stable sort, so that documents with equal scores stay in the order of the request.
    order = np.argsort(-scores, kind="stable").tolist()
    values = scores.tolist()
    ids = request.ids
    documents = [{"id": ids[d], "score": values[d]} for d in order]
    return orjson.dumps(
        {"query": request.query, "model": model.name, "documents": documents}
    )


async def _body(request: Request, most: int) -> bytes:
    """Returns the body of a request; at most `most` bytes are held at any time.

    Raises:
        RefusedRequestError: the body is larger, or the service ends before it has arrived.
    """
    size = 0
    parts = []
    try:
        async for part in request.stream():
            size += len(part)
            if size <= most:
                parts.append(part)
            elif size > _MOST_DISCARDED * most:
                break
    except asyncio.CancelledError:  # of uvicorn, _GRACE_SECONDS after the signal
        reason = "the service ended before the whole body had arrived; send it again"
        raise RefusedRequestError(_STOPPING, "", reason) from None
    if size > most:
        raise RefusedRequestError(
            _TOO_LARGE,
            "",
            f"the body is larger than {most:,} bytes (--max-bytes); send fewer documents",
        )
    return b"".join(parts)


def _response(
    body: bytes, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(body, status, headers, media_type="application/json")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedRequestError)
    # The rest of a body that was not read to its end would be taken for the next request.
    is_unread = error.status in (_TOO_LARGE, _STOPPING)
    headers = {"connection": "close"} if is_unread else None
    return _response(
        orjson.dumps({"error": str(error), "place": error.place}), error.status, headers
    )


async def _not_routed(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: the routes are POST /rank, GET /health and GET /model"
    body = orjson.dumps({"error": message, "place": ""})
    return _response(body, error.status_code, dict(error.headers or {}))


async def _disconnected(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # nobody receives it


# ---- Reads the JSON of a request, and checks it.
#
# `features` has a value for every feature of the model: by name, or as a list in the order of the model. null
# is a missing value; a number that data.missing names for tables is not. Of a categorical feature, the value
# is a text, a whole number or a boolean, and a category that training did not have is missing. A name that is
# absent is refused: in a LETOR file it would mean 0, in a table a missing value, and the model scores these
# differently.

Identifier = str | int
"""Identifier of a query or of a document, which the answer repeats unchanged."""
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
        self.status = status
        self.place = place


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


@dataclass(frozen=True)
class RequestReader:
    """Reads requests for a model.

    Attributes:
        feature_names: names of the values of a document, in the order of the features.
        max_documents: maximum number of documents of a request.
        categories: categorical feature -> its categories, in the order of their codes.
        dates: feature of dates -> the day from which its days are counted.
        encoded: one-hot encoded column -> its categories, each of which is a feature.
        exact: whether features are float64.
    """

    feature_names: tuple[str, ...]
    max_documents: int
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dates: Mapping[str, str] = field(default_factory=dict)
    encoded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exact: bool = False

    @cached_property
    def _codes(self) -> dict[int, dict[str, int]]:
        """Categorical feature -> code of each category."""
        codes = {}
        for name, each in self.categories.items():
            codes[self.feature_names.index(name)] = codes_of_categories(each)
        return codes

    def read(self, body: bytes) -> RankRequest:
        """Returns the request in the body of a POST.

        Raises:
            RefusedRequestError: the body is not JSON, or not a request to rank documents.
        """
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise RefusedRequestError(
                _INVALID_JSON, "", f"the body is not valid JSON: {error}"
            ) from None
        _check_fields(request, {"documents"}, {"query"}, "")
        query = request.get("query")
        documents = request["documents"]
        if query is not None and type(query) not in (str, int):
            raise _refusal("query", "must be a text or a whole number")
        if not isinstance(documents, list):
            raise _refusal("documents", "must be a list")
        if len(documents) > self.max_documents:
            most = f"the maximum is {self.max_documents:,} (--max-documents)"
            raise _refusal("documents", f"has {len(documents):,} documents; {most}")
        rows = self._rows(documents)
        flat = np.array(list(rows.values()), dtype=np.float64)
        values = flat.reshape(len(rows), len(self.feature_names))
        with np.errstate(over="ignore"):
            singles = values.astype(np.float32)
        for d, f in np.argwhere(np.isinf(singles))[:1].tolist():
            place = self._place(documents[d]["features"], f"documents[{d}].features", f)
            raise _refusal(
                place,
                f"is {values[d, f]}, beyond the range of float32 (maximum 3.4e38)",
            )
        features: Any = values if self.exact else singles
        if self.encoded:
            features = one_hot(features, self.feature_names, self.encoded)
        return RankRequest(query, list(rows), features)

    def _rows(self, documents: Sequence[Any]) -> dict[Identifier, Sequence[Any]]:
        """Returns the id of each document -> its values in the order of the model."""
        rows: dict[Identifier, Sequence[Any]] = {}
        for d, document in enumerate(documents):
            place = f"documents[{d}]"
            _check_fields(document, {"id", "features"}, set(), place)
            identifier = document["id"]
            if type(identifier) not in (str, int) or identifier in rows:
                raise _refusal(
                    f"{place}.id",
                    "must be a text or a whole number, another one for each",
                )
            rows[identifier] = self._values(document["features"], f"{place}.features")
        return rows

    def _values(self, features: Any, place: str) -> Sequence[Any]:
        """Returns the values of a document in the order of the model."""
        if isinstance(features, dict):
            _check_fields(features, set(self.feature_names), set(), place)
            values = [features[name] for name in self.feature_names]
        elif isinstance(features, list):
            values = list(features)
        else:
            raise _refusal(
                place, "must be an object with a value by name, or a list of values"
            )
        if len(values) != len(self.feature_names):
            raise _refusal(
                place,
                f"has {len(values)} values; the model has {len(self.feature_names)} features",
            )
        for f, codes in self._codes.items():
            if type(values[f]) not in (str, int, bool, type(None)):
                raise _refusal(
                    self._place(features, place, f),
                    "must be a text, a whole number or a boolean",
                )
            text = category_text(values[f])
            values[f] = None if text is None else codes.get(text)
        for name, first in self.dates.items():
            f = self.feature_names.index(name)
            try:
                (days,) = days_of([values[f]], first, name)
            except (DataError, TypeError) as error:
                raise _refusal(self._place(features, place, f), str(error)) from None
            values[f] = None if np.isnan(days) else float(days)
        if _KINDS_OF_VALUES.issuperset(map(type, values)):
            return values
        are_numbers = [type(value) in _KINDS_OF_VALUES for value in values]
        wrong = are_numbers.index(False)
        where = self._place(features, place, wrong)
        raise _refusal(where, f"is {reprlib.repr(values[wrong])}, not a number")

    def _place(self, features: Any, place: str, feature: int) -> str:
        is_named = isinstance(features, dict)
        if is_named:
            return f"{place}.{_shortened(self.feature_names[feature])}"
        return f"{place}[{feature}]"


def _check_fields(value: Any, needed: set[str], optional: set[str], place: str) -> None:
    """Raises RefusedRequestError unless a value is an object with the needed and only known fields."""
    if not isinstance(value, dict):
        raise _refusal(place, f"must be a JSON object with {', '.join(sorted(needed))}")
    if value.keys() == needed:
        return
    prefix = f"{place}." if place else ""
    unknown = next((name for name in value if name not in needed | optional), None)
    if unknown is not None:
        expected = reprlib.repr(sorted(needed | optional))
        raise _refusal(
            f"{prefix}{_shortened(unknown)}", f"is unknown; expected {expected}"
        )
    absent = next((name for name in sorted(needed) if name not in value), None)
    if absent is not None:
        raise _refusal(
            f"{prefix}{_shortened(absent)}", "is absent; a missing value is null"
        )


def _refusal(place: str, predicate: str) -> RefusedRequestError:
    """Returns the refusal of valid JSON; the place is the subject of the message."""
    return RefusedRequestError(
        _NOT_ACCEPTED, place, f"{place or 'the body'} {predicate}"
    )


def _shortened(name: str) -> str:
    if len(name) <= 80:
        return name
    return f"{name[:77]}..."


# ---- Runs the service of a model on a socket until Ctrl-C or SIGTERM.

_IDLE_SECONDS = 75
"""Time after which an idle connection is closed, s. Proxies usually keep theirs for 60 s; with a shorter time
here, a request could be sent on a connection that is just being closed, and fail."""
_GRACE_SECONDS = 5
"""Time that running requests have to end after Ctrl-C, s."""


def is_loopback(host: str) -> bool:
    """Returns whether only this machine can connect to a host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens.

    Args:
        port: 0: any free port.

    Raises:
        ConfigError: the port is in use, or the host is not an address of this machine.
    """
    require("port", port, at_least=0, at_most=65535)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ConfigError(
            f"the service cannot listen on {host}, port {port}: {error.strerror}. Choose another "
            "--port, or --port 0 for a free one, or another --host."
        ) from None
    # Connections inherit it. Otherwise the body of an answer waits 40 ms until the client has confirmed the
    # header; asyncio sets it only on sockets that it has created.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(listener: socket.socket) -> str:
    """Returns the address of a socket, such as http://127.0.0.1:8000."""
    host, port = listener.getsockname()[:2]
    if ":" in host:
        return f"http://[{host}]:{port}"
    return f"http://{host}:{port}"


def warm_up(model: LoadedModel, max_documents: int) -> None:
    """Scores lists of zeros, so that no request waits for compilation: networks are compiled for the size of
    a list, rounded up to a power of two."""
    most = 0
    if model.ranker.network() is not None:
        most = (max_documents - 1).bit_length()
    dtype: Any = np.float64 if model.ranker.reads_float64 else np.float32
    # The largest lists may not fit into the memory of attention, which their request then says.
    with contextlib.suppress(DataError):
        sizes = [min(1 << power, max_documents) for power in range(most + 1)]
        for size in sizes:
            model.ranker.predict(
                np.zeros((size, len(model.feature_names)), dtype=dtype)
            )


def run_service(app: Starlette, listener: socket.socket) -> None:
    """Answers requests until Ctrl-C or SIGTERM; requests that have begun are answered first."""
    config = uvicorn.Config(
        app,
        # One line per request would take longer than a short list.
        access_log=False,
        log_level="warning",
        # The service has neither: they would only take time to import.
        lifespan="off",
        ws="none",
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        server_header=False,
    )
    # uvicorn stops at both signals and then raises the signal again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
