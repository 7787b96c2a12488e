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
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST, ErrorCode
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from ltrbench.errors import ResultError, TrackingError
from ltrbench.runs import RESULT_FILE, Run
from ltrbench.runs.record import RUN_REMEDY
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


# ---- The copies of run folders in an experiment.

_COMPLETE = ("FINISHED", "FAILED")
_RUN_DIGEST, _JOB, SWEEP_ID = "run_digest", "job", "sweep_id"

INTERRUPTED_TAG = "interrupted"
"""Tag of the copy of an interrupted run, set when only its end is not stored yet."""


@dataclass(frozen=True)
class RunIdentity:
    """The folder and the content of a run.

    Attributes:
        digest: digest of result.json.
        folder: absolute path.
        job: folder relative to the folder of the sweep; the absolute path if it is not below it.
    """

    digest: str
    folder: str
    job: str

    @property
    def tags(self) -> dict[str, str]:
        """The tags that identify a copy."""
        below = {} if self.job == self.folder else {_JOB: self.job}
        return {_RUN_DIGEST: self.digest, **below}


class Copy(NamedTuple):
    """The MLflow run of a run folder.

    Attributes:
        parent: id of the parent run; "" if there is none.
        models: ids of the MLflow models of the run.
    """

    run_id: str
    digest: str
    job: str
    parent: str
    is_complete: bool
    models: tuple[str, ...] = ()


def stored_identity(run: Run, sweep: Path | None) -> RunIdentity:
    """Returns the identity of a run in the sweep with this folder; None: in no sweep.

    Raises:
        ResultError: result.json cannot be read.
    """
    path = run.path / RESULT_FILE
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror}. {RUN_REMEDY}.") from None
    folder = run.path.resolve()
    return RunIdentity(digest, str(folder), _job(folder, sweep))


def _job(folder: Path, sweep: Path | None) -> str:
    is_below = sweep is not None and folder.is_relative_to(sweep) and folder != sweep
    return str(folder.relative_to(sweep) if is_below and sweep is not None else folder)


def parent_of(client: MlflowClient, experiment_id: str, identity: str) -> MlflowRun | None:
    """Returns the oldest parent run of the sweep with this identity, or None."""
    query = f"tags.{SWEEP_ID} = '{as_tag(identity)}' AND tags.kind = 'sweep'"
    order = ["attributes.start_time ASC"]
    return next(iter(client.search_runs([experiment_id], query, max_results=1, order_by=order)), None)


def as_tag(identity: str) -> str:
    """Returns the identity of a sweep in characters that need no quotation in a query."""
    return re.sub(r"[^\w.-]", "_", identity)


def children_of(client: MlflowClient, experiment_id: str, parent: str, sweep: Path) -> list[Copy]:
    query = f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{parent}'"
    return [_copy(entity, sweep) for entity in _search(client, experiment_id, query)]


def copies_of(
    client: MlflowClient, experiment_id: str, identity: RunIdentity, sweep: Path | None
) -> list[Copy]:
    """Returns every copy of a content in the experiment, with any parent or none."""
    query = f"tags.{_RUN_DIGEST} = '{identity.digest}'"
    return [_copy(entity, sweep) for entity in _search(client, experiment_id, query)]


def _search(client: MlflowClient, experiment_id: str, query: str) -> Iterator[MlflowRun]:
    token = None
    while True:
        page = client.search_runs([experiment_id], query, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _copy(entity: MlflowRun, sweep: Path | None) -> Copy:
    tags, status = entity.data.tags, entity.info.status
    models = entity.outputs.model_outputs if entity.outputs else []
    return Copy(
        run_id=entity.info.run_id,
        digest=tags.get(_RUN_DIGEST, ""),
        job=tags.get(_JOB) or _job(Path(tags.get("folder", "")).resolve(), sweep),
        parent=tags.get(MLFLOW_PARENT_RUN_ID, ""),
        is_complete=status in _COMPLETE or (status == "KILLED" and INTERRUPTED_TAG in tags),
        models=tuple(item.model_id for item in models),
    )


def delete(client: MlflowClient, copy: Copy) -> None:
    """Marks a copy and its models as deleted; MLflow keeps their files until `mlflow gc`."""
    client.delete_run(copy.run_id)
    for model_id in copy.models:
        try:
            client.delete_logged_model(model_id)
        except MlflowException as error:
            # An earlier call may have ended after it.
            if error.error_code != ErrorCode.Name(RESOURCE_DOES_NOT_EXIST):
                raise
