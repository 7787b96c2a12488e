"""Logs run folders to MLflow: one parent run per sweep, one child run per job, the run folder as artifacts.

A child has the parameters, tags, data sets, learning curve and metrics of the run, its per-query values and
importances as tables and pictures, and its model. The parent has the title and parameters of the sweep, and
the comparison. `mlflow_entities.py` converts a run to MLflow's entities, `mlflow_models.py` its model;
`mlflow_view.py` defines the columns of the run list.

Only `MlflowClient` is used, with an explicit address, so the MLflow state of the caller is never changed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import LoggedModelOutput, Metric, RunTag
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE
from mlflow.utils.validation import MAX_PARAMS_TAGS_PER_BATCH
from numpy.typing import NDArray

from ltrbench.errors import TrackingError
from ltrbench.measure.provenance import without_password
from ltrbench.plots import draw_run
from ltrbench.rankers.models.importance import Importances
from ltrbench.results import FINISHED, RUN_FILES, Run, RunResult
from ltrbench.tracking.base import Tracker
from ltrbench.tracking.mlflow_entities import (
    MAX_TAG_LENGTH,
    command,
    metric_key,
    milliseconds,
    model_name,
    origin_tags,
    plain_metrics,
    run_inputs,
    run_metrics,
    run_name,
    run_params,
    run_tags,
    shortened,
    sweep_command,
    sweep_params,
    sweep_title,
    version_tags,
)
from ltrbench.tracking.mlflow_models import can_be_logged, save_model
from ltrbench.tracking.mlflow_view import experiment_tags, run_list
from ltrbench.tracking.system_metrics import SystemMetrics
from ltrbench.untrusted.reading import check_regular

SQLITE = "sqlite:///"
CHAMPION = "champion"
"""The alias of the version of a registered model that users should load."""

# Maximum length of the description of a run on a server.
_MAX_NOTE_LENGTH = 5000

# An unreachable server is reported within seconds; MLflow's default is minutes.
_TO_ANSWER = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
# Storing a run may take longer, because a server may copy a large artifact to its store before it answers.
_TO_STORE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "60", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3"}
# Standard output is reserved for the comparison; MLflow would print the URL of every run there.
_NO_GREETING = {"MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
_SECONDS_TO_UNLOCK = 5

# Makes the UI show runs with their metrics first, not the traces of language models.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}

_MLFLOW_STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


@dataclass
class MLflowTracker(Tracker):
    """Logs runs to an MLflow store.

    Attributes:
        uri: address of the store: sqlite:///FILE, relative to the current folder, or the http address of a
            server.
        experiment: MLflow experiment of the runs; created if it does not exist.
        models: whether the model of a run is also logged as an MLflow model, to load, serve and register it.
        system_metrics: whether CPU, memory, disk and network usage are measured during a run. Needs the extra
            `system`, and slightly increases the measured times.
    """

    uri: str = "sqlite:///mlflow.db"
    experiment: str = "ltrbench"
    models: bool = True
    system_metrics: bool = False

    def __post_init__(self) -> None:
        self._client: MlflowClient | None = None
        self._database: Path | None = None
        self._experiment_id = ""
        self._parent = ""
        self._experiment_tags: dict[str, str] = {}
        self._parent_is_described = False
        self._logged: dict[Path, _Logged] = {}
        self._system = SystemMetrics() if self.system_metrics else None

    def open(self, sweep: str | None, identity: str = "") -> None:
        if not self.uri:
            # MLflow would choose a default store.
            raise TrackingError(
                "tracking.uri is empty. Set tracking.uri=sqlite:///FILE or http://HOST:PORT, or disable "
                "tracking with tracking=none."
            )
        self._client, self._database, self._parent = None, _database_of(self.uri), ""
        self._parent_is_described = False
        self._experiment_tags = {}
        with self._reaching_the_store(_TO_ANSWER):
            address = self.uri
            if self._database is not None:
                _prepare_database(self._database)
                # Absolute, because MLflow caches a store by its address, regardless of the current folder.
                address = f"{SQLITE}{self._database}"
            client = MlflowClient(tracking_uri=address)
            self._experiment_id = self._find_or_create_experiment(client)
            if sweep is not None:
                tags = {**origin_tags(), "sweep": sweep, "kind": "sweep"}
                parent = client.create_run(self._experiment_id, run_name=sweep, tags=tags)
                self._parent = parent.info.run_id
        self._client = client

    @property
    def measures_machine(self) -> bool:
        return self.system_metrics

    @property
    def has_registry(self) -> bool:
        return self.models

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        with self._system.sampling() if self._system else contextlib.nullcontext():
            yield

    def log(self, run: Run) -> None:
        # Read before anything is sent, so that a damaged folder leaves nothing in the store.
        content = read_all(run)
        client, result, metrics = self._opened_client(), run.result, content.metrics
        with self._reaching_the_store(_TO_STORE):
            created = client.create_run(
                self._experiment_id,
                start_time=milliseconds(result.started),
                run_name=run_name(result),
                tags=run_tags(run, self._parent),
            )
            run_id = created.info.run_id
            with _killed_where_incomplete(client, run_id):
                client.log_inputs(run_id, run_inputs(result))
                _log_artifacts(client, run_id, run.path)
                model_id = ""
                if result.status == FINISHED:
                    _log_tables_and_pictures(client, run_id, run, content)
                    if self.models and can_be_logged(run):
                        model_id = _log_model(client, self._experiment_id, run_id, run)
                if self._system is not None:
                    metrics += self._system.metrics()
                # The client splits both into requests of the size that a server accepts.
                client.log_batch(run_id, metrics=_of_model(metrics, model_id), params=run_params(result))
                status = "FINISHED" if result.status == FINISHED else "FAILED"
                client.set_terminated(run_id, status, milliseconds(result.finished))
            self._describe_parent(client, result)
            self._extend_view(client, metrics)
            self._logged[run.path.resolve()] = _Logged(run_id, model_id)

    def _describe_parent(self, client: MlflowClient, result: RunResult) -> None:
        """Sets the title and the parameters of the sweep, from the first logged job."""
        if not self._parent or self._parent_is_described:
            return
        client.update_run(self._parent, name=sweep_title(result))
        tags = [RunTag("command", shortened(sweep_command(result), MAX_TAG_LENGTH))]
        client.log_batch(self._parent, params=sweep_params(result), tags=tags)
        self._parent_is_described = True

    def _extend_view(self, client: MlflowClient, metrics: list[Metric]) -> None:
        """Adds the metrics of a run to the columns of the run list."""
        tags = experiment_tags(self._experiment_id, self._experiment_tags, (item.key for item in metrics))
        for key, value in tags.items():
            client.set_experiment_tag(self._experiment_id, key, value)
        self._experiment_tags |= tags

    def summarize(
        self,
        folder: Path,
        text: str,
        best: Run | None,
        figures: Mapping[str, float],
        claims: Mapping[str, str],
    ) -> None:
        client = self._opened_client()
        if not self._parent:
            return
        with self._reaching_the_store(_TO_STORE):
            client.log_artifacts(self._parent, str(folder), artifact_path=folder.name)
            client.set_tag(self._parent, MLFLOW_RUN_NOTE, shortened(text, _MAX_NOTE_LENGTH))
            tags = [RunTag(metric_key(f"claim/{pair}"), claim) for pair, claim in claims.items()]
            client.log_batch(self._parent, tags=tags[:MAX_PARAMS_TAGS_PER_BATCH])
            shown = plain_metrics(figures)
            logged = None if best is None else self._find_logged(client, best)
            if best is not None and logged is not None:
                client.set_tag(self._parent, "best_run", logged.run_id)
                client.set_tag(self._parent, "best_run_name", run_name(best.result))
                # The mean over folds and seeds if `figures` has it, else the value of the best run.
                shown = _end_points([*run_metrics(best), *shown])
            client.log_batch(self._parent, metrics=shown)

    def register(self, name: str, run: Run, reason: str) -> str:
        client = self._opened_client()
        with self._reaching_the_store(_TO_ANSWER):
            logged = self._find_logged(client, run)
        if logged is None:
            raise TrackingError(
                f"{run.path} is not in {self.where}: it was not tracked, or it is in another store, and "
                f"'{name}' can only be registered from this store. Run it again with tracking=mlflow, or "
                "choose a new sweep folder."
            )
        if not logged.model_id:
            raise TrackingError(
                f"{run.path} has no MLflow model to register as '{name}'. Only models of ltrbench's own "
                "classes have one; set tracking.models=true and run it again."
            )
        with self._reaching_the_store(_TO_STORE):
            with contextlib.suppress(MlflowException):
                # If the name exists already, the model becomes its next version.
                client.create_registered_model(name)
            source = client.get_logged_model(logged.model_id).artifact_location
            made = client.create_model_version(
                name,
                source,
                logged.run_id,
                tags=version_tags(run, reason),
                description=f"{reason}\n\nOn {run.result.data['name']}: {command(run.result)}",
                model_id=logged.model_id,
            )
            client.set_registered_model_alias(name, CHAMPION, made.version)
        return f"models:/{name}@{CHAMPION} is version {made.version}"

    def _find_logged(self, client: MlflowClient, run: Run) -> _Logged | None:
        """Returns the ids of a run logged by this command or an earlier one; None if it is not in the
        store."""
        logged = self._logged.get(run.path.resolve())
        if logged is not None:
            return logged
        query = f"attributes.start_time = {milliseconds(run.result.started)} AND tags.kind = 'run'"
        for entity in client.search_runs([self._experiment_id], query):
            if Path(entity.data.tags.get("folder", "")).resolve() == run.path.resolve():
                models = entity.outputs.model_outputs if entity.outputs else []
                return _Logged(entity.info.run_id, models[0].model_id if models else "")
        return None

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
        """The address of the store, with its password masked."""
        return without_password(self.uri)

    def _opened_client(self) -> MlflowClient:
        if self._client is None:
            raise TrackingError(f"the MLflow store {self._address} is not open; call open first.")
        if self._database is not None and not self._database.exists():
            # Checked here, because SQLite continues to write to a deleted file.
            raise TrackingError(
                f"the MLflow store {self._address} was deleted while it was in use, so nothing more is "
                "stored. Start the command again, or disable tracking with tracking=none."
            )
        return self._client

    def _find_or_create_experiment(self, client: MlflowClient) -> str:
        experiment = client.get_experiment_by_name(self.experiment)
        if experiment is None:
            # Beside the database file, independent of the folder of the UI; a server chooses its own
            # location.
            beside = (self._database.parent / "mlruns").as_uri() if self._database else None
            try:
                return str(client.create_experiment(self.experiment, beside, tags=_EXPERIMENT_TAGS))
            except MlflowException:
                # Another process may have created it in the meantime.
                experiment = client.get_experiment_by_name(self.experiment)
                if experiment is None:
                    raise
        if experiment.lifecycle_stage != "active":
            raise TrackingError(
                f"the MLflow experiment '{self.experiment}' at {self._address} was deleted; choose another "
                "with tracking.experiment=NAME, or restore it with "
                f"`mlflow experiments restore --experiment-id {experiment.experiment_id}`."
            )
        self._experiment_tags = dict(experiment.tags)
        return str(experiment.experiment_id)

    @contextlib.contextmanager
    def _reaching_the_store(self, patience: Mapping[str, str]) -> Iterator[None]:
        """Converts any error of the store into a TrackingError with the remedy."""
        with _environment({**patience, **_NO_GREETING}), _quiet():
            try:
                yield
            except TrackingError:
                raise
            # The store raises exceptions of MLflow, of its database and of its network layer.
            except Exception as error:
                raise TrackingError(
                    f"the MLflow store {self._address} cannot be used: {_first_line(error)}. Set another "
                    "store with tracking.uri=sqlite:///FILE or http://HOST:PORT, or disable tracking with "
                    "tracking=none."
                ) from error


def run_list_of(store: str, experiment: str) -> str:
    """Returns the path of the run list of an experiment in the UI, to append to the address of its server;
    "/" if the store does not have the experiment.

    Raises:
        TrackingError: The store cannot be reached.
    """
    tracker = MLflowTracker(uri=store, experiment=experiment)
    with tracker._reaching_the_store(_TO_ANSWER):
        entity = MlflowClient(tracking_uri=store).get_experiment_by_name(experiment)
    return "/" if entity is None else run_list(str(entity.experiment_id))


class _Logged(NamedTuple):
    """The ids of a logged run and of its MLflow model; "" for no model."""

    run_id: str
    model_id: str


def _database_of(uri: str) -> Path | None:
    """Returns the file of a SQLite store; None for the address of a server."""
    name = uri.removeprefix(SQLITE)
    return None if name in (uri, "", ":memory:") else Path(name).resolve()


def _prepare_database(database: Path) -> None:
    """Creates the database, completely or not at all; if it exists, checks that it is writable.

    Raises:
        sqlite3.Error: Not a database, locked, or read-only. MLflow would retry for minutes instead.
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


def _log_artifacts(client: MlflowClient, run_id: str, folder: Path) -> None:
    """Logs only the files of the run, because the folder may contain other files of the user."""
    for path in (folder / name for name in RUN_FILES):
        if path.is_dir():
            client.log_artifacts(run_id, str(path), artifact_path=path.name)
        elif path.exists():
            client.log_artifact(run_id, str(path))


class Content(NamedTuple):
    """The contents of the files of a run, read and checked."""

    metrics: list[Metric]
    per_query: Mapping[str, NDArray[Any]]
    importances: Importances


def read_all(run: Run) -> Content:
    """Reads every file of a run that will be logged.

    Raises:
        ResultError: A file is damaged, or is not a regular file.
    """
    for path in _files(run.path):
        check_regular(path)
    run.input_example()
    return Content(run_metrics(run), run.per_query(), run.importances())


def _files(folder: Path) -> Iterator[Path]:
    """Yields the files that `_log_artifacts` will send, to check their types: a named pipe never ends."""
    for path in (folder / name for name in RUN_FILES):
        if path.is_dir():
            yield from (file for file in path.rglob("*") if not file.is_dir())
        elif path.exists() or path.is_symlink():
            yield path


def _log_tables_and_pictures(client: MlflowClient, run_id: str, run: Run, content: Content) -> None:
    """Logs tables, which the UI compares between runs, and pictures."""
    if content.per_query:
        # As objects, because MLflow's inspection of the columns warns about other text types.
        per_query = pd.DataFrame(content.per_query).astype({"query_id": object})
        client.log_table(run_id, per_query, "tables/per_query.json")
    importances = content.importances
    if importances.values:
        names = np.array(importances.feature_names, dtype=object)
        table = pd.DataFrame({"feature": names, **importances.values}).astype({"feature": object})
        client.log_table(run_id, table, "tables/importances.json")
    with tempfile.TemporaryDirectory() as folder:
        for picture in draw_run(run, Path(folder)):
            client.log_artifact(run_id, str(picture), artifact_path="pictures")


def _log_model(client: MlflowClient, experiment_id: str, run_id: str, run: Run) -> str:
    """Logs the model of the run as an MLflow model and returns its id."""
    made = client.create_logged_model(
        experiment_id,
        name=model_name(run.result),
        source_run_id=run_id,
        model_type="ranker",
        params={param.key: shortened(param.value, 250) for param in run_params(run.result) if param.value},
    )
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder, "model")
        save_model(run, saved, mlflow_model=Model(run_id=run_id, model_id=made.model_id))
        client.log_model_artifacts(made.model_id, str(saved))
    client.finalize_logged_model(made.model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(made.model_id, run.result.best_iteration or 0)])
    return str(made.model_id)


def _of_model(metrics: list[Metric], model_id: str) -> list[Metric]:
    """Returns the same points, with those of test linked to the model, so that the model list shows them."""
    if not model_id:
        return metrics
    return [
        Metric(item.key, item.value, item.timestamp, item.step, model_id=model_id)
        if item.key.startswith("test/")
        else item
        for item in metrics
    ]


def _end_points(metrics: list[Metric]) -> list[Metric]:
    """Returns the last point of each metric, moved to step 0."""
    last = {item.key: item for item in metrics}
    return [Metric(item.key, item.value, item.timestamp, 0) for item in last.values()]


@contextlib.contextmanager
def _killed_where_incomplete(client: MlflowClient, run_id: str) -> Iterator[None]:
    """Marks an MLflow run as KILLED if the block fails, because it would otherwise be shown as running."""
    try:
        yield
    except BaseException:
        # A store that has just failed may fail again; the first error is the one to report.
        with contextlib.suppress(Exception):
            client.set_terminated(run_id, "KILLED")
        raise


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or ["no reason given"]
    # Every network layer repeats the request; the innermost message has the cause.
    _, layered, innermost = lines[0].rpartition("(Caused by ")
    reason = innermost.rstrip("'\")") if layered else innermost.rstrip(".")
    return f"{type(error).__name__}: {shortened(reason, 300)}"


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
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
