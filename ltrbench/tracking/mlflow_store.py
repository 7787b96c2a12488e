"""The connection to an MLflow store: its SQLite file, how long a call may take, and the errors of a call."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlflow import MlflowClient

from ltrbench.errors import TrackingError
from ltrbench.tracking.mlflow_entities import shortened

SQLITE = "sqlite:///"
_SECONDS_TO_UNLOCK = 5

ANSWER = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
"""Limits of a call without files: an unreachable server costs ten seconds; MLflow's default is minutes."""
UPLOAD = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "60", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
"""Limits of a call that sends files, which a server may copy to its store before it answers."""
LAST_CALL = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "2", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
"""Limits of a call to a store that has just failed."""

_ALWAYS = {
    # Standard output is reserved for the comparison; MLflow would print the URL of every run there.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # Opens a SQLite file for each transaction. A pooled connection would continue to write to a file that was
    # deleted, or replaced by its backup.
    "MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "NullPool",
}


@contextlib.contextmanager
def reaching(address: str, limits: Mapping[str, str], remedy: str) -> Iterator[None]:
    """Converts any error of the store into a TrackingError with the remedy.

    Args:
        address: address of the store, with its password masked.
        limits: `ANSWER`, `UPLOAD` or `LAST_CALL`.
    """
    with environment({**limits, **_ALWAYS}), _quiet():
        try:
            yield
        except TrackingError:
            raise
        # The store raises exceptions of MLflow, of its database and of its network layer.
        except Exception as error:
            raise TrackingError(
                f"the MLflow store {address} cannot be used: {_first_line(error)}. {remedy}"
            ) from error


def database_of(uri: str) -> Path | None:
    """Returns the file of a SQLite store; None for the address of a server."""
    name = uri.removeprefix(SQLITE)
    return None if name in (uri, "", ":memory:") else Path(name).resolve()


def prepare_database(database: Path) -> None:
    """Creates the database, completely or not at all; if it exists, checks that it is writable.

    Raises:
        sqlite3.Error: Not a database, locked, or read-only. MLflow would retry for minutes instead.
    """
    if not database.exists():
        create_database(database)
        return
    address = f"{database.as_uri()}?mode=rw"
    connecting = sqlite3.connect(address, uri=True, timeout=_SECONDS_TO_UNLOCK)
    with contextlib.closing(connecting) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.rollback()


def create_database(database: Path) -> None:
    """Creates and migrates a database under a temporary name, and renames it when it is complete.

    Two processes that migrate the same file corrupt it, and an interrupted migration cannot be continued.
    """
    database.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=database.parent, prefix=".partial-") as staging:
        whole = Path(staging, database.name)
        MlflowClient(tracking_uri=f"{SQLITE}{whole}")
        try:
            # Unlike a rename, a link never replaces a database that another process has just created.
            database.hardlink_to(whole)
        except FileExistsError:
            return
        except OSError:
            # The file system has no hard links.
            whole.rename(database)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or ["no reason given"]
    # Every network layer repeats the request; the innermost message has the cause.
    _, layered, innermost = lines[0].rpartition("(Caused by ")
    reason = innermost.rstrip("'\")") if layered else innermost.rstrip(".")
    return f"{type(error).__name__}: {shortened(reason, 300)}"


@contextlib.contextmanager
def environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables that MLflow reads, without replacing those of the user."""
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences messages that need no action: migrations of a new database, retries (a failure raises one
    error), the steps of saving a model, and a warning about MLflow's own types when `mlflow.pyfunc` is
    imported."""
    least = {
        "alembic": logging.CRITICAL,
        "mlflow.store.db": logging.CRITICAL,
        "urllib3.connectionpool": logging.CRITICAL,
        "mlflow.pyfunc": logging.WARNING,
    }
    loggers = [logging.getLogger(name) for name in least]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(least[logger.name])
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*type hint is inferred as AnyType", UserWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
