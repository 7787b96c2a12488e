"""MLflow, fed from run folders: a parent run a sweep, a child a job, and the folder itself as artifacts.

A child has the run's parameters, tags, data sets, learning curve and figures, its per-query values and
importances as tables and pictures, and its model. The parent has the sweep's title and parameters, and the
comparison. What a run is in MLflow's words stands in `mlflow_entities.py`, its model in `mlflow_models.py`,
the columns of the run list in `mlflow_view.py`.

Only `MlflowClient` is used, with its address given, so that the caller's own MLflow state is never touched.
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
"""The alias of the version that a registered model's users should load."""

# What a server takes as a run's description.
_MAX_NOTE_LENGTH = 5000

# An absent server should be known in seconds; MLflow's own patience is minutes.
_TO_ANSWER = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
# A run is worth waiting for, and a server may pass a large artifact on to its own store before it answers.
_TO_STORE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "60", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3"}
# Standard output is the comparison's, not the place for a greeting at the end of every run.
_NO_GREETING = {"MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
_SECONDS_TO_UNLOCK = 5

# Makes the UI open on runs and their metrics, not on the traces of language models.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}

_MLFLOW_STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


@dataclass
class MLflowTracker(Tracker):
    """Mirrors runs into an MLflow store.

    Attributes:
        uri: the store: sqlite:///FILE, relative to the current folder, or the http address of a server.
        experiment: the MLflow experiment that the runs go to, made where it is not there.
        models: whether a run's model is kept as an MLflow model too, to be loaded, served and registered.
        system_metrics: whether processor, memory, disk and network are measured while a run is at work;
            needs the extra `system`, and takes a little of the time that is on the clock.
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

    def open(self, sweep: str | None) -> None:
        if not self.uri:
            # MLflow would choose a store of its own.
            raise TrackingError("tracking.uri is empty; name a store, or go without: tracking=none.")
        self._client, self._database, self._parent = None, _database_of(self.uri), ""
        self._parent_is_described = False
        self._experiment_tags = {}
        with self._reaching_the_store(_TO_ANSWER):
            address = self.uri
            if self._database is not None:
                _prepare_database(self._database)
                # Absolute, because MLflow keeps one store an address, in whatever folder it is asked.
                address = f"{SQLITE}{self._database}"
            client = MlflowClient(tracking_uri=address)
            self._experiment_id = self._find_or_create_experiment(client)
            if sweep is not None:
                tags = {**origin_tags(), "sweep": sweep, "kind": "sweep"}
                parent = client.create_run(self._experiment_id, run_name=sweep, tags=tags)
                self._parent = parent.info.run_id
        self._client = client

    @property
    def has_registry(self) -> bool:
        return self.models

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        with self._system.sampling() if self._system else contextlib.nullcontext():
            yield

    def log(self, run: Run) -> None:
        # Before anything is sent, so that a damaged folder leaves nothing in the store.
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
                # The client splits both into requests of the size that a server takes.
                client.log_batch(run_id, metrics=_of_model(metrics, model_id), params=run_params(result))
                status = "FINISHED" if result.status == FINISHED else "FAILED"
                client.set_terminated(run_id, status, milliseconds(result.finished))
            self._describe_parent(client, result)
            self._extend_view(client, metrics)
            self._logged[run.path.resolve()] = _Logged(run_id, model_id)

    def _describe_parent(self, client: MlflowClient, result: RunResult) -> None:
        """Gives the sweep its title and its parameters, which any of its jobs knows."""
        if not self._parent or self._parent_is_described:
            return
        client.update_run(self._parent, name=sweep_title(result))
        tags = [RunTag("command", shortened(sweep_command(result), MAX_TAG_LENGTH))]
        client.log_batch(self._parent, params=sweep_params(result), tags=tags)
        self._parent_is_described = True

    def _extend_view(self, client: MlflowClient, metrics: list[Metric]) -> None:
        """Has the run list show the metrics of a run."""
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
                # Over folds and seeds where `figures` has it so, else of the best run.
                shown = _end_points([*run_metrics(best), *shown])
            client.log_batch(self._parent, metrics=shown)

    def register(self, name: str, run: Run, reason: str) -> str:
        client = self._opened_client()
        with self._reaching_the_store(_TO_ANSWER):
            logged = self._find_logged(client, run)
        if logged is None:
            raise TrackingError(
                f"{run.path} is not in {self.where}: it was made without tracking, or tracked elsewhere, and "
                f"'{name}' can be a model of this store only. Run it again with tracking=mlflow, or choose a "
                "new sweep folder."
            )
        if not logged.model_id:
            raise TrackingError(
                f"{run.path} has no MLflow model to register as '{name}'; only models of ltrbench's own "
                "classes have one, where tracking.models is true."
            )
        with self._reaching_the_store(_TO_STORE):
            with contextlib.suppress(MlflowException):
                # Where there is one of that name, this is its next version.
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
        """Where a run went, by this command or an earlier one into the same folder; None: it is not there."""
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
        experiment = client.get_experiment_by_name(self.experiment)
        if experiment is None:
            # Beside the database file, whichever folder the UI is started in; a server decides for itself.
            beside = (self._database.parent / "mlruns").as_uri() if self._database else None
            try:
                return str(client.create_experiment(self.experiment, beside, tags=_EXPERIMENT_TAGS))
            except MlflowException:
                # Another process may have made it in between.
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


def run_list_of(store: str, experiment: str) -> str:
    """Where the UI of a store shows the runs of an experiment with their metrics, behind the address of its
    server; "/" where the store has no such experiment.

    Raises:
        TrackingError: where the store cannot be reached.
    """
    tracker = MLflowTracker(uri=store, experiment=experiment)
    with tracker._reaching_the_store(_TO_ANSWER):
        entity = MlflowClient(tracking_uri=store).get_experiment_by_name(experiment)
    return "/" if entity is None else run_list(str(entity.experiment_id))


class _Logged(NamedTuple):
    """Where a run went: the ids of its MLflow run and of its MLflow model, "" for none."""

    run_id: str
    model_id: str


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


class Content(NamedTuple):
    """What a run's files hold, read and checked."""

    metrics: list[Metric]
    per_query: Mapping[str, NDArray[Any]]
    importances: Importances


def read_all(run: Run) -> Content:
    """Reads every file of a run that is mirrored.

    Raises:
        ResultError: where one is damaged, or is not a regular file.
    """
    for path in _files(run.path):
        check_regular(path)
    run.input_example()
    return Content(run_metrics(run), run.per_query(), run.importances())


def _files(folder: Path) -> Iterator[Path]:
    """Whatever `_log_artifacts` sends; to read a named pipe would never end."""
    for path in (folder / name for name in RUN_FILES):
        if path.is_dir():
            yield from (file for file in path.rglob("*") if not file.is_dir())
        elif path.exists() or path.is_symlink():
            yield path


def _log_tables_and_pictures(client: MlflowClient, run_id: str, run: Run, content: Content) -> None:
    """Tables that the UI sets side by side over runs, and pictures."""
    if content.per_query:
        # Texts as objects, because MLflow's look at a table's columns warns of any other text.
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
    """Keeps the run's model as an MLflow model; returns its id."""
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
    """The same points, those of test as the model's too, so that the list of models shows them."""
    if not model_id:
        return metrics
    return [
        Metric(item.key, item.value, item.timestamp, item.step, model_id=model_id)
        if item.key.startswith("test/")
        else item
        for item in metrics
    ]


def _end_points(metrics: list[Metric]) -> list[Metric]:
    """The last point of each metric, at step 0."""
    last = {item.key: item for item in metrics}
    return [Metric(item.key, item.value, item.timestamp, 0) for item in last.values()]


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


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or ["no reason given"]
    # Network layers repeat the request in every layer; what went wrong stands in the innermost one.
    _, layered, innermost = lines[0].rpartition("(Caused by ")
    reason = innermost.rstrip("'\")") if layered else innermost.rstrip(".")
    return f"{type(error).__name__}: {shortened(reason, 300)}"


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
    """Silences what no user can act on: the report of a new database's migrations, retries, because what
    fails is told in one error, a step of saving a model, and a warning of MLflow's own types when
    `mlflow.pyfunc` is imported."""
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
