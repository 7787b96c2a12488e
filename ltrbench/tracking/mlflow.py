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
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import LoggedModelOutput, Metric, RunTag
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS, MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NOTE
from mlflow.utils.validation import MAX_PARAMS_TAGS_PER_BATCH

from ltrbench.errors import TrackingError
from ltrbench.plots import draw_run
from ltrbench.provenance import without_password
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
    UPLOAD,
    Copy,
    as_tag,
    copies_of_job,
    copies_with_digest,
    database_of,
    delete,
    identity_tags,
    prepare_database,
    reaching,
)

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
        num_stored: number of runs that this tracker has stored, without those that the store had already.
    """

    uri: str = "sqlite:///mlflow.db"
    experiment: str = "ltrbench"
    models: bool = True

    def __post_init__(self) -> None:
        self.num_stored = 0
        self._client: MlflowClient | None = None
        self._database: Path | None = None
        self._experiment_id = ""
        self._sweep: Path | None = None
        self._parent = ""
        self._parent_params: set[str] | None = None  # None when the parent run has its title
        self._experiment_tags: dict[str, str] = {}

    def open(self, sweep: str | None, identity: str = "") -> None:
        if not self.uri:
            # MLflow would choose a default store.
            raise TrackingError(
                "tracking.uri is empty. Set tracking.uri=sqlite:///FILE or http://HOST:PORT, or disable "
                "tracking with tracking=none."
            )
        self._client, self._database, self._parent = None, database_of(self.uri), ""
        self._sweep = None if sweep is None else Path(sweep).resolve()
        with reaching(self._address, ANSWER, _OTHER_STORE):
            address = self.uri
            if self._database is not None:
                prepare_database(self._database)
                # Absolute, because MLflow caches a store by its address, regardless of the current folder.
                address = f"{SQLITE}{self._database}"
            client = MlflowClient(tracking_uri=address)
            self._experiment_id = self._find_or_create_experiment(client)
            if sweep is not None:
                self._open_parent(client, sweep, as_tag(identity))
        self._client = client

    def _open_parent(self, client: MlflowClient, sweep: str, identity: str) -> None:
        """Continues the oldest parent run with the identity of the sweep, or creates one."""
        query = f"tags.sweep_id = '{identity}' AND tags.kind = 'sweep'"
        order = ["attributes.start_time ASC"]
        found = client.search_runs([self._experiment_id], query, order_by=order) if identity else []
        if found:
            parent = found[0]
            client.update_run(parent.info.run_id, status="RUNNING")
        else:
            tags = {**origin_tags(), "sweep": sweep, "kind": "sweep"}
            tags |= {"sweep_id": identity} if identity else {}
            parent = client.create_run(self._experiment_id, run_name=sweep, tags=tags)
        self._parent, self._parent_params = parent.info.run_id, set(parent.data.params)

    @property
    def has_registry(self) -> bool:
        return self.models

    def log(self, run: Run) -> None:
        client, identity = self._opened_client(), identity_tags(run, self._sweep)
        with self._reaching(ANSWER):
            self._describe_parent(client, run.result)
            same = self._copies_of(client, identity["run_digest"])
        kept = next((copy for copy in same if copy.is_complete), None) or self._store(client, run, identity)
        with self._reaching(ANSWER):
            if self._parent and not kept.parent:
                # The run was logged without its sweep.
                client.set_tag(kept.run_id, MLFLOW_PARENT_RUN_ID, self._parent)
            # Last, so that an interruption leaves too many copies, which the next call deletes, and not none.
            replaced = [copy for copy in same if copy.parent in ("", self._parent) and not copy.is_complete]
            if self._parent and "job" in identity:
                replaced += copies_of_job(client, self._experiment_id, self._parent, identity["job"])
            for copy in {copy.run_id: copy for copy in replaced if copy.run_id != kept.run_id}.values():
                delete(client, copy)

    def _copies_of(self, client: MlflowClient, digest: str) -> list[Copy]:
        """Returns the copies of a content, those of this sweep first."""
        copies = copies_with_digest(client, self._experiment_id, digest)
        return sorted(copies, key=lambda copy: copy.parent != self._parent)

    def _store(self, client: MlflowClient, run: Run, identity: Mapping[str, str]) -> Copy:
        """Stores a run as a new MLflow run."""
        # Read before anything is sent, so that a damaged folder leaves nothing in the store.
        content, result, model_id = read_all(run), run.result, ""
        with tempfile.TemporaryDirectory() as temporary:
            files = Path(temporary, "run")
            tags = {**run_tags(run, self._parent), **identity}
            if tables := _stage(run, content, files):
                # Makes the UI offer the tables for a comparison of runs.
                tags[MLFLOW_LOGGED_ARTIFACTS] = json.dumps(
                    [{"path": path, "type": "table"} for path in tables]
                )
            with self._reaching(ANSWER):
                started = milliseconds(result.started)
                created = client.create_run(self._experiment_id, started, tags, run_name(result))
            run_id = str(created.info.run_id)
            with _killed_where_incomplete(client, run_id):
                with self._reaching(ANSWER):
                    model_id = self._create_model(client, run_id, run)
                    self._send_values(client, run_id, result, content.metrics, model_id)
                with self._reaching(UPLOAD):
                    client.log_artifacts(run_id, str(files))
                    if model_id:
                        saved = Path(temporary, "model")
                        save_model(run, saved, mlflow_model=Model(run_id=run_id, model_id=model_id))
                        client.log_model_artifacts(model_id, str(saved))
                with self._reaching(ANSWER):
                    if model_id:
                        client.finalize_logged_model(model_id, "READY")
                    is_interrupted = result.status == FAILED and result.error == INTERRUPTED
                    if is_interrupted:
                        # Only now, because with this tag the copy counts as complete although it is KILLED.
                        client.set_tag(run_id, INTERRUPTED_TAG, "true")
                    status = _MLFLOW_STATUS["interrupted" if is_interrupted else result.status]
                    client.set_terminated(run_id, status, milliseconds(result.finished))
        self.num_stored += 1
        return Copy(run_id, self._parent, is_complete=True, models=(model_id,) if model_id else ())

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
        return str(made.model_id)

    def _send_values(
        self, client: MlflowClient, run_id: str, result: RunResult, metrics: list[Metric], model_id: str
    ) -> None:
        """Sends data sets, metrics and parameters, and adds the metrics to the columns of the run list."""
        client.log_inputs(run_id, run_inputs(result))
        # The client splits both into requests of the size that a server accepts.
        client.log_batch(run_id, metrics=_of_model(metrics, model_id), params=run_params(result))
        tags = experiment_tags(self._experiment_id, self._experiment_tags, (item.key for item in metrics))
        for key, value in tags.items():
            client.set_experiment_tag(self._experiment_id, key, value)
        self._experiment_tags |= tags

    def _describe_parent(self, client: MlflowClient, result: RunResult) -> None:
        """Sets the title and the parameters of the sweep, from the first logged job that is not a trial."""
        if not self._parent or self._parent_params is None or result.trial:
            return
        client.update_run(self._parent, name=sweep_title(result))
        tags = [RunTag("command", shortened(sweep_command(result), MAX_TAG_LENGTH))]
        # MLflow refuses to change a parameter.
        added = [param for param in sweep_params(result) if param.key not in self._parent_params]
        client.log_batch(self._parent, params=added[: MOST_PARAMS - len(self._parent_params)], tags=tags)
        self._parent_params = None

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
        copies = self._copies_of(client, identity_tags(run, self._sweep)["run_digest"])
        return next((copy for copy in copies if copy.is_complete), None)

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
    tables: dict[str, pd.DataFrame]


def read_all(run: Run) -> Content:
    """Reads every file of a run that will be logged.

    Raises:
        ResultError: A file is damaged.
    """
    run.input_example()
    run.trials()
    per_query, importances, tables = run.per_query(), run.importances(), {}
    if per_query:
        tables["per_query"] = pd.DataFrame(per_query)
    if importances.values:
        names = np.array(importances.feature_names, dtype=object)
        tables["importances"] = pd.DataFrame({"feature": names, **importances.values})
    return Content(run_metrics(run), tables)


def _stage(run: Run, content: Content, folder: Path) -> list[str]:
    """Collects all files of a run in a new folder, so that one call sends them; returns the tables."""
    folder.mkdir()
    for name in RUN_FILES:
        source = (run.path / name).resolve()
        if source.is_dir():
            shutil.copytree(source, folder / name, copy_function=os.symlink)
        elif source.exists():
            (folder / name).symlink_to(source)
    if run.result.status != FINISHED:
        return []
    if not run.result.trial:  # a search has many trials, and MLflow draws their learning curves itself
        draw_run(run, folder / "pictures")
    for name, table in content.tables.items():
        (folder / "tables").mkdir(exist_ok=True)
        # The form of MLflow's own tables, which the UI compares between runs.
        table.to_json(folder / "tables" / f"{name}.json", orient="split", index=False)
    return [f"tables/{name}.json" for name in content.tables]


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
