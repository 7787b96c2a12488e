"""Runs the service of a model on a socket until Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import signal
import socket

from ltrbench.errors import ConfigError, require
from ltrbench.serving.app import ranking_app
from ltrbench.serving.loaded import LoadedModel
from ltrbench.serving.quick import QuickReader
from ltrbench.serving.requests import RequestLimits, RequestReader

try:
    import uvicorn
except ImportError as error:
    raise ConfigError("serve needs Starlette and uvicorn: pip install 'ltrbench[serve]'") from error

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
