"""Logs run folders to MLflow: one parent run per sweep, one child run per job, the run folder as artifacts.

A child has the parameters, tags, data sets, learning curve and metrics of the run, its per-query values and
importances as tables and pictures, and its model. A trial of a search is a child with the tag `trial`, and
without tables, pictures and model. The parent has the title and parameters of the sweep, and the comparison.
`mlflow_entities.py` converts a run to MLflow's entities and defines the columns of the run list,
`mlflow_models.py` converts its model, and `mlflow_store.py` has the connection and the earlier copies.

Each content of a run folder is stored once, however often it is logged, as long as one
process at a time logs the folders of a sweep. A call that fails leaves at most an incomplete copy, which the
next `log` of the same run replaces; other runs are not affected.

Only `MlflowClient` is used, with an explicit address, so the MLflow state of the caller is never changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import LoggedModelOutput, Metric, RunTag
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS, MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NOTE
from mlflow.utils.validation import MAX_PARAMS_TAGS_PER_BATCH
from numpy.typing import NDArray

from ltrbench.errors import TrackingError
from ltrbench.measure import now
from ltrbench.plots import draw_run
from ltrbench.provenance import without_password
from ltrbench.rankers.importance import Importances
from ltrbench.runs import FAILED, FINISHED, INTERRUPTED, RUN_FILES, Run, RunResult
from ltrbench.tracking.base import Tracker
from ltrbench.tracking.mlflow_entities import (
    MAX_TAG_LENGTH,
    MOST_PARAMS,
    command,
    end_metrics,
    experiment_tags,
    metric_key,
    milliseconds,
    model_name,
    origin_tags,
    plain_metrics,
    run_inputs,
    run_list,
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
from ltrbench.tracking.mlflow_store import (
    ANSWER,
    INTERRUPTED_TAG,
    LAST_CALL,
    SQLITE,
    SWEEP_ID,
    UPLOAD,
    Copy,
    RunIdentity,
    as_tag,
    children_of,
    copies_of,
    database_of,
    delete,
    parent_of,
    prepare_database,
    reaching,
    stored_identity,
)
from ltrbench.untrusted import check_regular

# ---- CPU, memory, disk and network usage during a run, measured by MLflow's monitors.

_SECONDS_BETWEEN = 2.0


class SystemMetrics:
    """Samples while a block runs. MLflow's sampler needs an open run, but ltrbench logs only completed runs.

    Raises:
        TrackingError: psutil is not installed.
    """

    def __init__(self) -> None:
        try:
            import psutil  # noqa: F401  # required by MLflow's monitors
        except ImportError:
            raise TrackingError(
                "tracking.system_metrics=true needs psutil: pip install 'ltrbench[system]'."
            ) from None
        self._points: list[Metric] = []

    @contextlib.contextmanager
    def sampling(self) -> Iterator[None]:
        """Discards earlier samples, and samples in a thread until the block ends."""
        self._points, ended = [], threading.Event()
        thread = threading.Thread(target=self._sample, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def metrics(self) -> list[Metric]:
        """Returns the samples, under the names that MLflow's UI shows as system metrics."""
        return self._points

    def _sample(self, ended: threading.Event) -> None:
        from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
        from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
        from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor

        kinds: list[Any] = [CPUMonitor, DiskMonitor, NetworkMonitor]
        monitors = [kind() for kind in kinds]
        step = 0
        while True:
            for monitor in monitors:
                monitor.collect_metrics()
                for name, value in monitor.aggregate_metrics().items():
                    self._points.append(Metric(f"system/{name}", value, int(1000 * time.time()), step))
                monitor.clear_metrics()
            step += 1
            if ended.wait(_SECONDS_BETWEEN):
                return


CHAMPION = "champion"
"""The alias of the version of a registered model that users should load."""

# Maximum length of the description of a run on a server.
_MAX_NOTE_LENGTH = 5000

_OTHER_STORE = (
    "Set another store with tracking.uri=sqlite:///FILE or http://HOST:PORT, or disable tracking with "
    "tracking=none."
)
_SYNC = "The run folders are not affected: python -m ltrbench sync DIR stores the missing runs of DIR later."

# Makes the UI show runs with their metrics first, not the traces of language models.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}

_CLAIM = "claim/"
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
        num_stored: number of runs that this tracker has stored, without those that the store had already.
    """

    uri: str = "sqlite:///mlflow.db"
    experiment: str = "ltrbench"
    models: bool = True
    system_metrics: bool = False

    def __post_init__(self) -> None:
        self.num_stored = 0
        self._client: MlflowClient | None = None
        self._database: Path | None = None
        self._experiment_id = ""
        self._sweep: Path | None = None
        self._parent = ""
        self._parent_params: set[str] = set()
        self._parent_is_described = False
        self._experiment_tags: dict[str, str] = {}
        self._opened = ""
        self._copies: dict[str, Copy] = {}
        self._system = SystemMetrics() if self.system_metrics else None

    def open(self, sweep: str | None, identity: str = "") -> None:
        if not self.uri:
            # MLflow would choose a default store.
            raise TrackingError(
                "tracking.uri is empty. Set tracking.uri=sqlite:///FILE or http://HOST:PORT, or disable "
                "tracking with tracking=none."
            )
        self._client, self._database, self._parent = None, database_of(self.uri), ""
        self._sweep = None if sweep is None else Path(sweep).resolve()
        self._parent_params, self._parent_is_described = set(), False
        self._experiment_tags, self._copies = {}, {}
        self._opened = now()
        with reaching(self._address, ANSWER, _OTHER_STORE):
            address = self.uri
            if self._database is not None:
                prepare_database(self._database)
                # Absolute, because MLflow caches a store by its address, regardless of the current folder.
                address = f"{SQLITE}{self._database}"
            client = MlflowClient(tracking_uri=address)
            self._experiment_id = self._find_or_create_experiment(client)
            if sweep is not None and not (identity and self._reuse_parent(client, identity)):
                tags = {**origin_tags(), "sweep": sweep, "kind": "sweep"}
                if identity:
                    tags[SWEEP_ID] = as_tag(identity)
                parent = client.create_run(self._experiment_id, run_name=sweep, tags=tags)
                self._parent = parent.info.run_id
        self._client = client

    def _reuse_parent(self, client: MlflowClient, identity: str) -> bool:
        """Continues the parent run of a sweep with its children; returns whether there is one."""
        parent = parent_of(client, self._experiment_id, identity)
        if parent is None or self._sweep is None:
            return False
        self._parent, self._parent_params = parent.info.run_id, set(parent.data.params)
        client.update_run(self._parent, status="RUNNING")
        children = children_of(client, self._experiment_id, self._parent, self._sweep)
        self._copies = {child.run_id: child for child in children}
        return True

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
        client, identity = self._opened_client(), stored_identity(run, self._sweep)
        with self._reaching(ANSWER):
            self._describe_parent(client, run.result)
            same = self._copies_with_content(client, identity, run.result)
        kept = next((copy for copy in same if copy.is_complete), None)
        if kept is None:
            kept = self._store(client, run, identity)
        with self._reaching(ANSWER):
            if self._parent and not kept.parent:
                # The run was logged without its sweep.
                client.set_tag(kept.run_id, MLFLOW_PARENT_RUN_ID, self._parent)
                kept = kept._replace(parent=self._parent)
            self._copies[kept.run_id] = kept
            # Last, so that an interruption leaves too many copies, which the next call deletes, and not none.
            for copy in self._obsolete(kept, same, identity):
                delete(client, copy)
                self._copies.pop(copy.run_id, None)

    def _copies_with_content(
        self, client: MlflowClient, identity: RunIdentity, result: RunResult
    ) -> list[Copy]:
        """Returns the copies with the content of a run, those of this sweep first."""
        same = [copy for copy in self._copies.values() if copy.digest == identity.digest]
        # A run that finished later cannot be in the store: only one process logs the folders of a sweep.
        if result.finished < self._opened and not any(copy.is_complete for copy in same):
            known = {copy.run_id for copy in same}
            stored = copies_of(client, self._experiment_id, identity, self._sweep)
            same += [copy for copy in stored if copy.run_id not in known]
        return same

    def _obsolete(self, kept: Copy, same: list[Copy], identity: RunIdentity) -> list[Copy]:
        """Returns the copies that `kept` replaces: incomplete ones, and those of its folder in this sweep."""
        of_folder = [copy for copy in self._copies.values() if self._parent and copy.job == identity.job]
        copies = {copy.run_id: copy for copy in (*same, *of_folder) if copy.run_id != kept.run_id}
        return [
            copy
            for copy in copies.values()
            if (copy.parent == self._parent and self._parent)
            or (not copy.is_complete and copy.parent in ("", self._parent))
        ]

    def _store(self, client: MlflowClient, run: Run, identity: RunIdentity) -> Copy:
        """Stores a run as a new MLflow run."""
        # Read before anything is sent, so that a damaged folder leaves nothing in the store.
        content = read_all(run)
        with tempfile.TemporaryDirectory() as temporary:
            files = Path(temporary, "run")
            with self._reaching(ANSWER):
                tables = _stage(run, content, files)
                copy = self._create(client, run, identity, tables)
            with _killed_where_incomplete(client, copy.run_id):
                with self._reaching(ANSWER):
                    model_id = self._create_model(client, copy.run_id, run)
                    self._send_values(client, copy.run_id, run.result, content.metrics, model_id)
                with self._reaching(UPLOAD):
                    client.log_artifacts(copy.run_id, str(files))
                    if model_id:
                        saved = Path(temporary, "model")
                        save_model(run, saved, mlflow_model=Model(run_id=copy.run_id, model_id=model_id))
                        client.log_model_artifacts(model_id, str(saved))
                with self._reaching(ANSWER):
                    if model_id:
                        client.finalize_logged_model(model_id, "READY")
                    is_interrupted = run.result.status == FAILED and run.result.error == INTERRUPTED
                    if is_interrupted:
                        # Only now, because with this tag the copy counts as complete although it is KILLED.
                        client.set_tag(copy.run_id, INTERRUPTED_TAG, "true")
                    status = _MLFLOW_STATUS["interrupted" if is_interrupted else run.result.status]
                    client.set_terminated(copy.run_id, status, milliseconds(run.result.finished))
        self.num_stored += 1
        return copy._replace(is_complete=True, models=(model_id,) if model_id else ())

    def _create(self, client: MlflowClient, run: Run, identity: RunIdentity, tables: list[str]) -> Copy:
        """Creates the MLflow run of a run, with its tags."""
        tags = {**run_tags(run, self._parent), **identity.tags, "folder": identity.folder}
        if tables:
            # Makes the UI offer the tables for a comparison of runs.
            tags[MLFLOW_LOGGED_ARTIFACTS] = json.dumps([{"path": path, "type": "table"} for path in tables])
        created = client.create_run(
            self._experiment_id, milliseconds(run.result.started), tags, run_name(run.result)
        )
        run_id = created.info.run_id
        copy = Copy(run_id, identity.digest, identity.job, self._parent, is_complete=False)
        self._copies[run_id] = copy
        return copy

    def _create_model(self, client: MlflowClient, run_id: str, run: Run) -> str:
        """Creates the MLflow model of a run, without its files; returns its id, "" if there is none."""
        if not (self.models and run.result.status == FINISHED and can_be_logged(run)):
            return ""
        made = client.create_logged_model(
            self._experiment_id,
            name=model_name(run.result),
            source_run_id=run_id,
            model_type="ranker",
            params={
                param.key: shortened(param.value, 250) for param in run_params(run.result) if param.value
            },
        )
        client.log_outputs(run_id, [LoggedModelOutput(made.model_id, run.result.best_iteration or 0)])
        self._copies[run_id] = self._copies[run_id]._replace(models=(made.model_id,))
        return str(made.model_id)

    def _send_values(
        self, client: MlflowClient, run_id: str, result: RunResult, metrics: list[Metric], model_id: str
    ) -> None:
        """Sends data sets, metrics and parameters, and adds the metrics to the columns of the run list."""
        client.log_inputs(run_id, run_inputs(result))
        if self._system is not None:
            metrics = [*metrics, *self._system.metrics()]
        # The client splits both into requests of the size that a server accepts.
        client.log_batch(run_id, metrics=_of_model(metrics, model_id), params=run_params(result))
        tags = experiment_tags(self._experiment_id, self._experiment_tags, (item.key for item in metrics))
        for key, value in tags.items():
            client.set_experiment_tag(self._experiment_id, key, value)
        self._experiment_tags |= tags

    def _describe_parent(self, client: MlflowClient, result: RunResult) -> None:
        """Sets the title and the parameters of the sweep, from the first logged job that is not a trial: the
        settings of a trial do not hold for all jobs."""
        if not self._parent or self._parent_is_described or result.trial:
            return
        client.update_run(self._parent, name=sweep_title(result))
        tags = [RunTag("command", shortened(sweep_command(result), MAX_TAG_LENGTH))]
        # MLflow refuses to change a parameter.
        added = [param for param in sweep_params(result) if param.key not in self._parent_params]
        client.log_batch(self._parent, params=added[: MOST_PARAMS - len(self._parent_params)], tags=tags)
        self._parent_is_described = True

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
        with self._reaching(UPLOAD):
            client.log_artifacts(self._parent, str(folder), artifact_path=folder.name)
        with self._reaching(ANSWER):
            before = client.get_run(self._parent).data
            texts = {MLFLOW_RUN_NOTE: shortened(text, _MAX_NOTE_LENGTH)}
            shown = plain_metrics(figures)
            logged = None if best is None else self._find_logged(client, best)
            if best is not None and logged is not None:
                texts |= {"best_run": logged.run_id, "best_run_name": run_name(best.result)}
                # The mean over folds and seeds if `figures` has it, else the value of the best run.
                of_best = end_metrics(best, best.learning_curve())
                shown = plain_metrics({item.key: item.value for item in (*of_best, *shown)})
            claimed = {metric_key(f"{_CLAIM}{pair}"): claim for pair, claim in claims.items()}
            room = MAX_PARAMS_TAGS_PER_BATCH - len(texts)
            tags = [RunTag(*item) for item in (*texts.items(), *list(claimed.items())[:room])]
            changed = [item for item in shown if before.metrics.get(item.key) != item.value]
            client.log_batch(self._parent, metrics=changed, tags=tags)
            for key in before.tags:
                if key.startswith(_CLAIM) and key not in claimed:
                    # A claim of the comparison before the last runs.
                    client.delete_tag(self._parent, key)

    def register(self, name: str, run: Run, reason: str) -> str:
        client = self._opened_client()
        with self._reaching(ANSWER):
            logged = self._find_logged(client, run)
        if logged is None:
            raise TrackingError(
                f"{run.path} is not in {self.where}: it was not tracked, or it is in another store, and "
                f"'{name}' can only be registered from this store. Store it with python -m ltrbench sync "
                f"{run.path} --uri {self._address}, or run it again with tracking=mlflow and a new sweep "
                "folder."
            )
        if not logged.models:
            raise TrackingError(
                f"{run.path} has no MLflow model to register as '{name}'. Only models of ltrbench's own "
                "classes have one; set tracking.models=true and run it again."
            )
        (model_id, *_) = logged.models
        with self._reaching(UPLOAD):
            with contextlib.suppress(MlflowException):
                # If the name exists already, the model becomes its next version.
                client.create_registered_model(name)
            source = client.get_logged_model(model_id).artifact_location
            made = client.create_model_version(
                name,
                source,
                logged.run_id,
                tags=version_tags(run, reason),
                description=f"{reason}\n\nOn {run.result.data['name']}: {command(run.result)}",
                model_id=model_id,
            )
            client.set_registered_model_alias(name, CHAMPION, made.version)
        return f"models:/{name}@{CHAMPION} is version {made.version}"

    def _find_logged(self, client: MlflowClient, run: Run) -> Copy | None:
        """Returns the complete copy of a run, stored by this command or an earlier one, or None."""
        identity = stored_identity(run, self._sweep)
        same = [copy for copy in self._copies.values() if copy.digest == identity.digest]
        if not any(copy.is_complete for copy in same):
            same = copies_of(client, self._experiment_id, identity, self._sweep)
        return next((copy for copy in same if copy.is_complete), None)

    def close(self, status: str) -> None:
        if self._parent:
            client = self._opened_client()
            with self._reaching(ANSWER):
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
            # Checked here, because SQLite would create an empty file.
            raise TrackingError(
                f"the MLflow store {self._address} was moved or deleted while it was in use, so this call "
                "stored nothing. Move it back, and the next call uses it again; python -m ltrbench sync DIR "
                "stores the missing runs of DIR later. Or disable tracking with tracking=none."
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

    def _reaching(self, limits: Mapping[str, str]) -> AbstractContextManager[None]:
        return reaching(self._address, limits, _SYNC)


def run_list_of(store: str, experiment: str) -> str:
    """Returns the path of the run list of an experiment in the UI, to append to the address of its server;
    "/" if the store does not have the experiment.

    Raises:
        TrackingError: The store cannot be reached.
    """
    with reaching(without_password(store), ANSWER, "Give another store with --uri."):
        entity = MlflowClient(tracking_uri=store).get_experiment_by_name(experiment)
    return "/" if entity is None else run_list(str(entity.experiment_id))


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
    run.trials()
    return Content(run_metrics(run), run.per_query(), run.importances())


def _files(folder: Path) -> Iterator[Path]:
    """Yields the files that `_stage` collects, to check their types: a named pipe never ends."""
    for path in (folder / name for name in RUN_FILES):
        if path.is_dir():
            yield from (file for file in path.rglob("*") if not file.is_dir())
        elif path.exists() or path.is_symlink():
            yield path


def _stage(run: Run, content: Content, folder: Path) -> list[str]:
    """Collects all files of a run in a new folder, so that one call sends them; returns the tables."""
    folder.mkdir()
    for name in RUN_FILES:
        source = (run.path / name).resolve()
        if source.is_dir():
            shutil.copytree(source, folder / name, copy_function=os.symlink)
        elif source.exists():
            (folder / name).symlink_to(source)
    tables = []
    if run.result.status == FINISHED:
        if not run.result.trial:  # a search has many trials, and MLflow draws their learning curves itself
            draw_run(run, folder / "pictures")
        for name, table in _tables(content):
            (folder / "tables").mkdir(exist_ok=True)
            # The form of MLflow's own tables, which the UI compares between runs.
            table.to_json(folder / "tables" / name, orient="split", index=False)
            tables.append(f"tables/{name}")
    return tables


def _tables(content: Content) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yields the name and the contents of each table."""
    if content.per_query:
        yield "per_query.json", pd.DataFrame(content.per_query)
    importances = content.importances
    if importances.values:
        names = np.array(importances.feature_names, dtype=object)
        yield "importances.json", pd.DataFrame({"feature": names, **importances.values})


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


@contextlib.contextmanager
def _killed_where_incomplete(client: MlflowClient, run_id: str) -> Iterator[None]:
    """Marks an MLflow run as KILLED if the block fails, because it would otherwise be shown as running."""
    try:
        yield
    except BaseException:
        # A store that has just failed may fail again; the first error is the one to report.
        with contextlib.suppress(TrackingError), reaching("", LAST_CALL, ""):
            client.set_terminated(run_id, "KILLED")
        raise
