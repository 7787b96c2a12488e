"""The connection to an MLflow store, and the copies of run folders in it.

Each content of a run folder is stored once. A copy carries the digest of the folder's result.json, which has
the times, metrics and settings of the run. The copy is complete when its MLflow run has ended as FINISHED or
FAILED, because this is the last call that stores it. KILLED is the status of an incomplete copy and of a run
that was interrupted; the copy of an interrupted run is complete when it has the tag `interrupted`.

A copy in a sweep also carries the folder relative to the folder of the sweep. A folder with new content, such
as a failed job that was run again, is thereby recognized on another host, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from ltrbench.errors import ResultError, TrackingError
from ltrbench.runs import RESULT_FILE, Run
from ltrbench.runs.record import RUN_REMEDY
from ltrbench.tracking.mlflow_entities import shortened

SQLITE = "sqlite:///"

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
# Logger -> its level during a call: silent are migrations, retries (a failure raises one error), and the
# steps of saving a model.
_LEVELS = {
    **dict.fromkeys(("alembic", "mlflow.store.db", "urllib3.connectionpool"), logging.CRITICAL),
    "mlflow.pyfunc": logging.WARNING,
}


@contextlib.contextmanager
def reaching(address: str, limits: Mapping[str, str], remedy: str) -> Iterator[None]:
    """Converts any error of the store into a TrackingError with the remedy, and silences MLflow's loggers.

    Environment variables and the levels of loggers are restored afterwards; variables that the user has set
    are kept.

    Args:
        address: address of the store, with its password masked.
        limits: `ANSWER`, `UPLOAD` or `LAST_CALL`.
    """
    added = {name: value for name, value in {**limits, **_ALWAYS}.items() if name not in os.environ}
    levels = {name: logging.getLogger(name).level for name in _LEVELS}
    os.environ.update(added)
    _set_levels(_LEVELS)
    try:
        with warnings.catch_warnings():
            # A warning about MLflow's own types when `mlflow.pyfunc` is imported.
            warnings.filterwarnings("ignore", ".*type hint is inferred as AnyType", UserWarning)
            yield
    except TrackingError:
        raise
    # The store raises exceptions of MLflow, of its database and of its network layer.
    except Exception as error:
        raise TrackingError(
            f"the MLflow store {address} cannot be used: {_first_line(error)}. {remedy}"
        ) from error
    finally:
        _set_levels(levels)
        for name in added:
            del os.environ[name]


def _set_levels(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or ["no reason given"]
    # Every network layer repeats the request; the innermost message has the cause.
    _, layered, innermost = lines[0].rpartition("(Caused by ")
    reason = innermost.rstrip("'\")") if layered else innermost.rstrip(".")
    return f"{type(error).__name__}: {shortened(reason, 300)}"


def database_of(uri: str) -> Path | None:
    """Returns the file of a SQLite store; None for the address of a server."""
    name = uri.removeprefix(SQLITE)
    return None if name in (uri, "", ":memory:") else Path(name).resolve()


def prepare_database(database: Path) -> None:
    """Creates the database, completely or not at all; if it exists, checks that it is writable.

    Two processes that migrate the same file corrupt it, and an interrupted migration cannot be continued, so
    a new database gets its name when it is complete.

    Raises:
        sqlite3.Error: Not a database, locked, or read-only. MLflow would retry for minutes instead.
    """
    if database.exists():
        connecting = sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=5)
        with contextlib.closing(connecting) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=database.parent, prefix=".partial-") as staging:
        whole = Path(staging, database.name)
        MlflowClient(tracking_uri=f"{SQLITE}{whole}")
        try:
            # Unlike a rename, a link never replaces a database that another process has just created.
            database.hardlink_to(whole)
        except FileExistsError:
            return
        except OSError:  # the file system has no hard links
            whole.rename(database)


# ---- The copies of run folders in an experiment.

INTERRUPTED_TAG = "interrupted"
"""Tag of the copy of an interrupted run, set when only its end is not stored yet."""


class Copy(NamedTuple):
    """The MLflow run of a run folder.

    Attributes:
        parent: id of the parent run; "" if there is none.
        models: ids of the MLflow models of the run.
    """

    run_id: str
    parent: str
    is_complete: bool
    models: tuple[str, ...]


def identity_tags(run: Run, sweep: Path | None) -> dict[str, str]:
    """Returns the tags that identify the copy of a run: the digest of its result.json and its folder, and in
    the sweep with this folder the folder relative to it.

    Raises:
        ResultError: result.json cannot be read.
    """
    path, folder = run.path / RESULT_FILE, run.path.resolve()
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror}. {RUN_REMEDY}.") from None
    tags = {"run_digest": digest, "folder": str(folder)}
    if sweep is not None and folder.is_relative_to(sweep) and folder != sweep:
        tags["job"] = str(folder.relative_to(sweep))
    return tags


def as_tag(identity: str) -> str:
    """Returns the identity of a sweep in characters that need no quotation in a query."""
    return re.sub(r"[^\w.-]", "_", identity)


def copies_with_digest(client: MlflowClient, experiment_id: str, digest: str) -> list[Copy]:
    """Returns every copy of a content in the experiment, with any parent or none."""
    return _search(client, experiment_id, f"tags.run_digest = '{digest}'")


def copies_of_job(client: MlflowClient, experiment_id: str, parent: str, job: str) -> list[Copy]:
    """Returns every copy of a folder in a sweep."""
    quote = '"' if "'" in job else "'"
    query = f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{parent}' AND tags.job = {quote}{job}{quote}"
    return _search(client, experiment_id, query)


def _search(client: MlflowClient, experiment_id: str, query: str) -> list[Copy]:
    copies = []
    for entity in client.search_runs([experiment_id], query):
        tags, status = entity.data.tags, entity.info.status
        models = entity.outputs.model_outputs if entity.outputs else []
        is_complete = status in ("FINISHED", "FAILED") or (status == "KILLED" and INTERRUPTED_TAG in tags)
        ids = tuple(item.model_id for item in models)
        copies.append(Copy(entity.info.run_id, tags.get(MLFLOW_PARENT_RUN_ID, ""), is_complete, ids))
    return copies


def delete(client: MlflowClient, copy: Copy) -> None:
    """Marks a copy and its models as deleted; MLflow keeps their files until `mlflow gc`."""
    client.delete_run(copy.run_id)
    for model_id in copy.models:
        # An earlier call may have ended after it.
        with contextlib.suppress(MlflowException):
            client.delete_logged_model(model_id)
