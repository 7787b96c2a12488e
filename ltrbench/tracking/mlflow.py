"""MLflow, fed from run folders: a parent run a sweep, a child a job, and the folder itself as artifacts.

MLflow allows no `@`, so `ndcg@10` is `ndcg_at_10` here. A key such as `valid/ndcg_at_10` is the learning
curve, a point an iteration. Where the kept model is not that of the last iteration, its value follows one
step behind the end of the curve, so that the figure that MLflow shows for a run, the latest, is that of the
model that was kept. The metrics of test have no curve and stand at the same step.

Only `MlflowClient` is used, with its address given, so that the caller's own MLflow state is never touched.
What else a run should show is one more entry in `_tags`, `_params` or `_metrics`.
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ltrbench.errors import TrackingError
from ltrbench.provenance import without_password
from ltrbench.results import FINISHED, RUN_FILES, LearningCurve, Run, RunResult
from ltrbench.tracking.base import Tracker

try:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param
    from mlflow.exceptions import MlflowException
    from mlflow.utils.mlflow_tags import (
        MLFLOW_GIT_COMMIT,
        MLFLOW_PARENT_RUN_ID,
        MLFLOW_SOURCE_NAME,
        MLFLOW_SOURCE_TYPE,
        MLFLOW_USER,
    )
except ImportError as error:
    raise ImportError("tracking=mlflow needs the package mlflow: pip install mlflow") from error

SQLITE = "sqlite:///"
COMMAND = "python -m ltrbench"

# What a server takes in one text. A key has ten characters to spare, for `_params` to make it unique.
_MAX_KEY_LENGTH = 240
_MAX_PARAM_LENGTH = 6000
_MAX_TAG_LENGTH = 5000

# An absent server should be known in seconds; MLflow's own patience is minutes.
_TO_ANSWER = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
# A run is worth waiting for, and a server may pass a large artifact on to its own store before it answers.
_TO_STORE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "60", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3"}
# Standard output is the comparison's, not the place for a greeting at the end of every run.
_NO_GREETING = {"MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
_SECONDS_TO_UNLOCK = 5

# Makes the UI open on runs and their metrics, not on the traces of language models.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}

# Texts of a data set's YAML for people, in which no two runs differ.
_NO_PARAMETERS = ("data.obtain", "data.published")

_MLFLOW_STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


@dataclass
class MLflowTracker(Tracker):
    """Mirrors runs into an MLflow store.

    Attributes:
        uri: the store: sqlite:///FILE, relative to the current folder, or the http address of a server.
        experiment: the MLflow experiment that the runs go to, made where it is not there.
    """

    uri: str = "sqlite:///mlflow.db"
    experiment: str = "ltrbench"

    def __post_init__(self) -> None:
        self._client: MlflowClient | None = None
        self._database: Path | None = None
        self._experiment_id = ""
        self._parent = ""

    def open(self, sweep: str | None) -> None:
        if not self.uri:
            # MLflow would choose a store of its own.
            raise TrackingError("tracking.uri is empty; name a store, or go without: tracking=none.")
        self._client, self._database, self._parent = None, _database_of(self.uri), ""
        with self._reaching_the_store(_TO_ANSWER):
            address = self.uri
            if self._database is not None:
                _prepare_database(self._database)
                # Absolute, because MLflow keeps one store an address, in whatever folder it is asked.
                address = f"{SQLITE}{self._database}"
            client = MlflowClient(tracking_uri=address)
            self._experiment_id = self._find_or_create_experiment(client)
            if sweep is not None:
                tags = {**_origin(), "sweep": sweep, "kind": "sweep"}
                parent = client.create_run(self._experiment_id, run_name=sweep, tags=tags)
                self._parent = parent.info.run_id
        self._client = client

    def log(self, run: Run) -> None:
        client, result, metrics = self._opened_client(), run.result, _metrics(run)
        with self._reaching_the_store(_TO_STORE):
            created = client.create_run(
                self._experiment_id,
                start_time=_milliseconds(result.started),
                run_name=_run_name(result),
                tags=_tags(run, self._parent),
            )
            run_id = created.info.run_id
            with _killed_where_incomplete(client, run_id):
                # The client splits both into requests of the size that a server takes.
                client.log_batch(run_id, metrics=metrics, params=_params(result))
                _log_artifacts(client, run_id, run.path)
                status = "FINISHED" if result.status == FINISHED else "FAILED"
                client.set_terminated(run_id, status, _milliseconds(result.finished))

    def close(self, status: str) -> None:
        if self._parent:
            client = self._opened_client()
            with self._reaching_the_store(_TO_ANSWER):
                client.set_terminated(self._parent, _MLFLOW_STATUS[status])
            self._parent = ""

    @property
    def where(self) -> str:
        return f"{self._address}, experiment '{self.experiment}'"

    @property
    def _address(self) -> str:
        """The store's, as people may read it."""
        return without_password(self.uri)

    def _opened_client(self) -> MlflowClient:
        if self._client is None:
            raise TrackingError(f"the MLflow store {self._address} is not open; call open first.")
        if self._database is not None and not self._database.exists():
            # Said here, because SQLite goes on writing into a file that has been deleted.
            raise TrackingError(
                f"the MLflow store {self._address} was deleted while it was in use, and keeps nothing "
                "more. Start again, or go without: tracking=none."
            )
        return self._client

    def _find_or_create_experiment(self, client: MlflowClient) -> str:
        found = client.get_experiment_by_name(self.experiment)
        if found is None:
            # Beside the database file, whichever folder the UI is started in; a server decides for itself.
            beside = (self._database.parent / "mlruns").as_uri() if self._database else None
            try:
                return str(client.create_experiment(self.experiment, beside, tags=_EXPERIMENT_TAGS))
            except MlflowException:
                # Another process may have made it in between.
                found = client.get_experiment_by_name(self.experiment)
                if found is None:
                    raise
        if found.lifecycle_stage != "active":
            raise TrackingError(
                f"the MLflow experiment '{self.experiment}' at {self._address} was deleted; choose another "
                "with tracking.experiment=NAME, or restore it with "
                f"`mlflow experiments restore --experiment-id {found.experiment_id}`."
            )
        return str(found.experiment_id)

    @contextlib.contextmanager
    def _reaching_the_store(self, patience: Mapping[str, str]) -> Iterator[None]:
        """Turns whatever a store says into one sentence with the remedy."""
        with _environment({**patience, **_NO_GREETING}), _quiet():
            try:
                yield
            except TrackingError:
                raise
            # A store answers with exceptions of MLflow, of its database and of its network layer alike.
            except Exception as error:
                raise TrackingError(
                    f"the MLflow store {self._address} cannot be used: {_first_line(error)}. Name another "
                    "with tracking.uri=sqlite:///FILE or http://HOST:PORT, or go without: tracking=none."
                ) from error


def _database_of(uri: str) -> Path | None:
    """The file of an embedded store; None for a server's address."""
    name = uri.removeprefix(SQLITE)
    return None if name in (uri, "", ":memory:") else Path(name).resolve()


def _prepare_database(database: Path) -> None:
    """Makes the database, whole or not at all, where it is not there; else makes sure that it can be written.

    Raises:
        sqlite3.Error: at once, where MLflow would try again for minutes: no database, locked, or read-only.
    """
    if not database.exists():
        _create_database(database)
        return
    address = f"{database.as_uri()}?mode=rw"
    connecting = sqlite3.connect(address, uri=True, timeout=_SECONDS_TO_UNLOCK)
    with contextlib.closing(connecting) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.rollback()


def _create_database(database: Path) -> None:
    """Migrates an empty database under another name first, and names it when it is done.

    Two processes that migrate one file break each other, and an interrupted migration cannot be taken up.
    """
    database.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=database.parent, prefix=".partial-") as staging:
        whole = Path(staging, database.name)
        MlflowClient(tracking_uri=f"{SQLITE}{whole}")
        try:
            # Unlike a rename, a link never replaces what another process has put there meanwhile.
            database.hardlink_to(whole)
        except FileExistsError:
            return
        except OSError:
            # A file system without hard links.
            whole.rename(database)


def _log_artifacts(client: MlflowClient, run_id: str, folder: Path) -> None:
    """What the run has written; a user may have chosen a folder that holds more than that."""
    for path in (folder / name for name in RUN_FILES):
        if path.is_dir():
            client.log_artifacts(run_id, str(path), artifact_path=path.name)
        elif path.exists():
            client.log_artifact(run_id, str(path))


@contextlib.contextmanager
def _killed_where_incomplete(client: MlflowClient, run_id: str) -> Iterator[None]:
    """A run that was cut off in the middle must not be shown as running for ever."""
    try:
        yield
    except BaseException:
        # The store that has just failed may fail again; the first error is the one to tell.
        with contextlib.suppress(Exception):
            client.set_terminated(run_id, "KILLED")
        raise


def _run_name(result: RunResult) -> str:
    fold = result.data.get("fold")
    return result.model if fold is None else f"{result.model} fold {fold}"


def _origin() -> dict[str, str]:
    """What MLflow's own fluent interface says of whoever logs a run."""
    tags = {MLFLOW_SOURCE_NAME: COMMAND, MLFLOW_SOURCE_TYPE: "LOCAL"}
    # A container may run under a number that has no name.
    with contextlib.suppress(ImportError, KeyError, OSError):
        tags[MLFLOW_USER] = getpass.getuser()
    return tags


def _tags(run: Run, parent: str) -> dict[str, str]:
    result, data = run.result, run.result.data
    tags: dict[str, object] = {
        **_origin(),
        MLFLOW_PARENT_RUN_ID: parent,
        MLFLOW_GIT_COMMIT: result.commit,
        "kind": "run",
        "backend": result.model,
        "params": result.params,
        "data": data.get("name"),
        "fold": data.get("fold"),
        "convention": result.convention.get("name"),
        "command": " ".join([COMMAND, *result.overrides]),
        "folder": run.path,
        "unmatched": "\n".join(result.unmatched),
        "drift": _drift(result),
        "sweep": result.sweep,
        "commit": result.commit,
    }
    for split in ("train", "valid", "test"):
        tags[f"fingerprint.{split}"] = data.get(split, {}).get("fingerprint")
    for name, version in result.versions.items():
        tags[_key(f"version.{name}")] = version
    if result.error:
        # Of a traceback the end says what happened.
        too_many = len(result.error) > _MAX_TAG_LENGTH
        tags["error"] = f"…{result.error[1 - _MAX_TAG_LENGTH :]}" if too_many else result.error
    return {name: _text(value, _MAX_TAG_LENGTH) for name, value in tags.items() if value not in (None, "")}


def _drift(result: RunResult) -> str:
    """Where the library's own figures are not ours; empty where they are."""
    if not result.drift.get("drifted"):
        return ""
    pairs = ((name, result.drift["own"][name], value) for name, value in result.drift["ours"].items())
    return ", ".join(f"{name}: own {own:.9f}, ours {ours:.9f}" for name, own, ours in pairs)


def _params(result: RunResult) -> list[Param]:
    values: dict[str, Any] = {}
    for name, value in _flatten(result.config):
        if name.startswith(_NO_PARAMETERS):
            continue
        key = _key(name)
        while key in values:
            # Two names that differ in what MLflow does not allow, which must not cost one of them its value.
            key += "_"
        values[key] = "null" if value is None else value
    return [Param(key, _text(value, _MAX_PARAM_LENGTH)) for key, value in values.items()]


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _metrics(run: Run) -> list[Metric]:
    """The learning curve, then what the kept model reaches, where the curve does not end with it."""
    result, curve = run.result, run.learning_curve()
    kept: dict[str, float | None] = {
        **_at_iteration(curve, result.best_iteration),
        # After those of the curve, because what result.json says of the kept model is what is published.
        **result.metrics,
        **{f"seconds/{kind}": value for kind, value in result.seconds.items()},
        "peak_memory_mb": result.peak_memory_mb,
        "best_iteration": result.best_iteration,
    }
    moment = _milliseconds(result.finished) or 0
    points = [
        Metric(_key(name), value, moment, iteration)
        for name, values in curve.values.items()
        for iteration, value in zip(curve.iterations, values, strict=True)
    ]
    behind_the_end = curve.iterations[-1] + 1 if curve.iterations else 0
    points += [
        Metric(_key(name), value, moment, behind_the_end)
        for name, value in kept.items()
        if value is not None and not (name in curve.values and value == curve.values[name][-1])
    ]
    return points


def _at_iteration(curve: LearningCurve, iteration: int | None) -> dict[str, float | None]:
    """The curve's values at the iteration that was kept."""
    if iteration not in curve.iterations:
        return {}
    place = curve.iterations.index(iteration)
    return {name: values[place] for name, values in curve.values.items()}


def _key(name: str) -> str:
    """A name as MLflow allows it: letters, digits, blanks and _ - . and the / between parts.

    >>> _key("valid/ndcg@10"), _key("extra.a[0]"), _key("../etc//x/")
    ('valid/ndcg_at_10', 'extra.a_0_', 'etc/x')
    """
    allowed = re.sub(r"[^\w/. -]", "_", name.replace("@", "_at_"))
    # A key may become a path in MLflow's store, and must not lead out of it.
    parts = [part for part in allowed.split("/") if part not in ("", ".", "..")]
    return "/".join(parts)[:_MAX_KEY_LENGTH] or "_"


def _text(value: object, length: int) -> str:
    """A value as MLflow takes it: not too long, and without the password of an address."""
    text = without_password(str(value))
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _milliseconds(moment: str) -> int | None:
    return int(datetime.fromisoformat(moment).timestamp() * 1000) if moment else None


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or ["no reason given"]
    # Network layers repeat the request in every layer; what went wrong stands in the innermost one.
    _, layered, innermost = lines[0].rpartition("(Caused by ")
    reason = innermost.rstrip("'\")") if layered else innermost.rstrip(".")
    return f"{type(error).__name__}: {_text(reason, 300)}"


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """MLflow reads its settings from the environment; what the user has set there stays."""
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences the report of a new database's migrations, and of retries: what fails is told in one error."""
    loggers = [logging.getLogger(name) for name in ("alembic", "mlflow.store.db", "urllib3.connectionpool")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
