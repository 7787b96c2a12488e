"""A trained model for other programs: loaded in Python, or as a service over HTTP.

    loaded      loads the model of a finished run, without MLflow and Hydra
    app         the service: reads and checks requests, ranks their documents, until Ctrl-C

`app` needs the extra `serve`: Starlette, uvicorn and orjson.
"""

from __future__ import annotations

from dataclasses import dataclass

from ltrbench.errors import require


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
