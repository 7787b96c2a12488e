"""The service: its routes, its answers, and the server that runs it.

The service: its routes and its answers, all of them JSON.

    POST /rank     {"query", "documents": [{"id", "features"}]} -> the documents with scores, the best first
    GET /health    whether the service answers
    GET /model     the model: its features, versions, and the metrics of its run with their convention

An error is {"error": ..., "place": ...}, where `place` is the place in the request, such as
documents[3].features.bm25: status 400 for a body that is not JSON, 408 for one that does not arrive in time,
413 for one that is too large, 415 for one that is compressed, 422 for JSON that is not a valid request, and
503 for a body that has not arrived when the service is stopped.

Documents of equal scores are in the order of the request. Requests are scored one after the other, on one
thread each: a list takes about a millisecond, less than to wake another thread of a busy machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import signal
import socket
from typing import Any

from ltrbench.errors import ConfigError, require

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise ConfigError("serve needs Starlette and uvicorn: pip install 'ltrbench[serve]'") from error

try:
    import uvicorn
except ImportError as error:
    raise ConfigError("serve needs Starlette and uvicorn: pip install 'ltrbench[serve]'") from error

import numpy as np
from numpy.typing import NDArray

from ltrbench import __version__
from ltrbench.serving.loaded import LoadedModel
from ltrbench.serving.quick import QuickReader
from ltrbench.serving.requests import (
    NOT_ACCEPTED,
    TOO_LARGE,
    RankRequest,
    RefusedRequestError,
    RequestLimits,
    RequestReader,
)

_BODY_SECONDS = 30
"""Maximum time in which the body of a request must arrive, s."""
_MOST_DISCARDED = 4
"""Size up to which a body that is too large is read and discarded, in units of the limit. A client that is
still sending when the connection is closed would not read the answer."""
_TIMED_OUT, _ENCODED, _STOPPING = 408, 415, 503


def ranking_app(model: LoadedModel, limits: RequestLimits | None = None) -> Starlette:
    """Returns the service of a model as an ASGI application.

    Args:
        limits: None: the defaults.
    """
    # The requests share one process, so that more threads would only wait for each other.
    model.ranker.num_threads = 1
    limits = limits or RequestLimits()
    reader = QuickReader(RequestReader(model.feature_names, limits))
    health, description = (_as_json(value) for value in (_health_of(model), describe(model)))

    async def rank(request: Request) -> Response:
        body = await _body(request, limits.num_bytes)
        _check_encoding(request)
        parsed = reader.read(body)
        return _answer(_ranked(model, parsed))

    async def answer_health(_: Request) -> Response:
        return Response(health, media_type="application/json")

    async def answer_model(_: Request) -> Response:
        return Response(description, media_type="application/json")

    app = Starlette(
        routes=[
            Route("/rank", rank, methods=["POST"]),
            Route("/health", answer_health),
            Route("/model", answer_model),
        ],
        exception_handlers={
            RefusedRequestError: _refused,
            HTTPException: _not_routed,
            ClientDisconnect: _disconnected,
            Exception: _failed,
        },
    )
    # /rank/ is an error: many clients do not send a body again to the address of a redirect.
    app.router.redirect_slashes = False
    return app


def describe(model: LoadedModel) -> dict[str, Any]:
    """Returns the description of a model, the answer of GET /model."""
    result = model.run.result
    return {
        "model": model.name,
        "class": type(model.ranker).__name__,
        "features": list(model.feature_names),
        "data": {"name": result.data.get("name"), "fold": result.data.get("fold")},
        "metrics": dict(result.metrics),
        "convention": dict(result.convention),
        "trees": result.best_iteration,
        "finished": result.finished,
        "versions": {"of_run": dict(result.versions), "of_service": {"ltrbench": __version__}},
    }


def _health_of(model: LoadedModel) -> dict[str, Any]:
    return {"status": "ok", "model": model.name}


def _ranked(model: LoadedModel, request: RankRequest) -> dict[str, Any]:
    """Returns the answer: the documents by descending score."""
    scores: NDArray[np.floating[Any]] = np.empty(0)
    if request.ids:
        scores = model.ranker.predict(request.features)
    not_finite = np.flatnonzero(~np.isfinite(scores))
    if not_finite.size:
        place = f"documents[{not_finite[0]}].features"
        raise RefusedRequestError(
            NOT_ACCEPTED, place, f"the model has no finite score for the values of {place}"
        )
    # A stable sort, so that documents with equal scores stay in the order of the request.
    order = np.argsort(-scores, kind="stable").tolist()
    values = scores.tolist()
    documents = [{"id": request.ids[d], "score": values[d]} for d in order]
    return {"query": request.query, "model": model.name, "documents": documents}


def _check_encoding(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise RefusedRequestError(
            _ENCODED, "", f"the body has the Content-Encoding {encoding[:20]!r}; send it uncompressed"
        )


async def _body(request: Request, most: int) -> bytes:
    """Returns the body of a request; at most `most` bytes are held at any time.

    Raises:
        RefusedRequestError: the body is larger, or does not arrive in time or before the service is stopped.
    """
    size, parts = 0, []
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size <= most:
                    parts.append(part)
                    continue
                parts.clear()
                if size > _MOST_DISCARDED * most:
                    break
    except TimeoutError:
        raise RefusedRequestError(
            _TIMED_OUT, "", f"the body did not arrive within {_BODY_SECONDS} s"
        ) from None
    except asyncio.CancelledError:  # by the server, a few seconds after Ctrl-C
        raise RefusedRequestError(
            _STOPPING, "", "the service has been stopped; send the request again"
        ) from None
    if size > most:
        raise RefusedRequestError(
            TOO_LARGE, "", f"the body is larger than {most:,} bytes (--max-bytes); send fewer documents"
        )
    return b"".join(parts)


def _as_json(value: Any) -> bytes:
    # ASCII, because half a surrogate pair in an id, which JSON allows, has no UTF-8.
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def _answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(_as_json(value), status, headers, media_type="application/json")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedRequestError)
    # The rest of a body that was not read to its end would be taken for the next request.
    headers = {"connection": "close"} if error.status in (TOO_LARGE, _TIMED_OUT, _STOPPING) else None
    return _answer({"error": str(error), "place": error.place}, error.status, headers)


async def _not_routed(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: the routes are POST /rank, GET /health and GET /model"
    headers = dict(error.headers) if error.headers else None
    return _answer({"error": message, "place": ""}, error.status_code, headers)


async def _disconnected(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # nobody receives it


async def _failed(_: Request, __: Exception) -> Response:
    return _answer({"error": "internal error; the service has logged it", "place": ""}, 500)


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
            f"the service cannot listen on {host}, port {port}: {_reason(error)}. Choose another "
            "--port, or --port 0 for a free one, or another --host."
        ) from None
    # Connections inherit it. Otherwise the body of an answer waits 40 ms until the client has confirmed the
    # header; asyncio sets it only on sockets that it has created.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _reason(error: OSError) -> str:
    # Python adds the address to the text of the system.
    if error.errno is None or isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    return os.strerror(error.errno)


def url_of(listener: socket.socket) -> str:
    """Returns the address of a socket, such as http://127.0.0.1:8000."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def warm_up(model: LoadedModel) -> None:
    """Ranks one document without any value, so that the first request does not wait for compilation."""
    reader = QuickReader(RequestReader(model.feature_names, RequestLimits()))
    documents = [{"id": 0, "features": [None] * len(model.feature_names)}]
    model.ranker.predict(reader.read(json.dumps({"documents": documents}).encode()).features)


def run_service(model: LoadedModel, listener: socket.socket, limits: RequestLimits) -> None:
    """Answers requests until Ctrl-C or SIGTERM; requests that have begun are answered first."""
    config = uvicorn.Config(
        ranking_app(model, limits),
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
