"""Logs run folders to MLflow: one parent run per sweep, one child run per job, the run folder as artifacts.

A child has the parameters, tags, data sets, learning curve and metrics of the run, its per-query values and
importances as tables and pictures, and its model. A trial of a search is a child with the tag `trial`, and
without tables, pictures and model. The parent has the title and parameters of the sweep, and the comparison.
`mlflow_entities.py` converts a run and its model to MLflow's entities, and defines the columns of the run
list.

Each content of a run folder is stored once, however often it is logged, as long as one process at a time logs
the folders of a sweep. A copy carries the digest of the folder's result.json, which has the times, metrics
and settings of the run, and in a sweep the folder relative to that of the sweep, by which a job that was run
again is recognized. A call that fails leaves at most a copy without the tag `complete`, which the next `log`
of the same run replaces.

Only `MlflowClient` is used, with an explicit address, so the MLflow state of the caller is never changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import LoggedModelOutput, Metric
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NOTE

from ltrbench.errors import LtrbenchError, ResultError, TrackingError
from ltrbench.plots import draw_run
from ltrbench.provenance import without_password
from ltrbench.runs import FAILED, FINISHED, RESULT_FILE, Run
from ltrbench.runs.record import INTERRUPTED, RUN_FILES
from ltrbench.tracking import Tracker
from ltrbench.tracking.mlflow_entities import (
    can_be_logged,
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
    save_model,
    shortened,
    sweep_params,
    sweep_title,
)

CHAMPION = "champion"
"""The alias of the version of a registered model that users should load."""

LIMITS = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "30", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
"""Limits of a call; by default MLflow waits for minutes for an unreachable server."""

_VARIABLES = {
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

_SQLITE = "sqlite:///"
_MAX_NOTE_LENGTH = 5000  # of the description of a run on a server
_OTHER_STORE = (
    "Set another store with tracking.uri=sqlite:///FILE or http://HOST:PORT, or disable tracking with "
    "tracking=none."
)
_SYNC = "The run folders are not affected: python -m ltrbench sync DIR stores the missing runs of DIR later."
# Makes the UI show runs with their metrics first, not the traces of language models.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
_CLAIM, _COMPLETE = "claim/", "complete"
_MLFLOW_STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


@contextlib.contextmanager
def reaching(address: str, remedy: str) -> Iterator[None]:
    """Converts any error of the store into a TrackingError with the remedy, and silences MLflow's loggers.

    Environment variables and the levels of loggers are restored afterwards; variables that the user has set
    are kept.
    """
    added = {name: value for name, value in {**LIMITS, **_VARIABLES}.items() if name not in os.environ}
    levels = {name: logging.getLogger(name).level for name in _LEVELS}
    os.environ.update(added)
    _set_levels(_LEVELS)
    try:
        with warnings.catch_warnings():
            # A warning about MLflow's own types when `mlflow.pyfunc` is imported.
            warnings.filterwarnings("ignore", ".*type hint is inferred as AnyType", UserWarning)
            yield
    except LtrbenchError:
        raise
    # The store raises exceptions of MLflow, of its database and of its network layer.
    except Exception as error:
        line = next(iter(str(error).strip().splitlines()), "no reason given")
        reason = f"{type(error).__name__}: {shortened(line, 500).rstrip('.')}"
        raise TrackingError(
            f"the MLflow store {without_password(address)} cannot be used: {reason}. {remedy}"
        ) from error
    finally:
        _set_levels(levels)
        for name in added:
            del os.environ[name]


def _set_levels(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


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
        self._opened: MlflowClient | None = None
        self._experiment_id = ""
        self._sweep: Path | None = None
        self._parent = ""
        self._is_described = False
        self._experiment_tags: dict[str, str] = {}

    def open(self, sweep: str | None, identity: str = "") -> None:
        self._opened, self._parent, self._is_described = None, "", sweep is None
        self._sweep = None if sweep is None else Path(sweep).resolve()
        with reaching(self.uri, _OTHER_STORE):
            address, artifacts = self.uri, None
            if self.uri.startswith(_SQLITE):
                database = Path(self.uri.removeprefix(_SQLITE)).resolve()
                _prepare_database(database)
                # Absolute, because MLflow caches a store by its address, regardless of the current folder.
                address, artifacts = f"{_SQLITE}{database}", (database.parent / "mlruns").as_uri()
            client = MlflowClient(tracking_uri=address)
            self._experiment_id = self._find_or_create_experiment(client, artifacts)
            if sweep is not None:
                self._parent = self._open_parent(client, sweep, re.sub(r"[^\w.-]", "_", identity))
        self._opened = client

    def _find_or_create_experiment(self, client: MlflowClient, artifacts: str | None) -> str:
        experiment = client.get_experiment_by_name(self.experiment)
        if experiment is None:
            # Another process may create it in the meantime.
            with contextlib.suppress(MlflowException):
                return str(client.create_experiment(self.experiment, artifacts, tags=_EXPERIMENT_TAGS))
            experiment = client.get_experiment_by_name(self.experiment)
        if experiment is None or experiment.lifecycle_stage != "active":
            raise TrackingError(
                f"the MLflow experiment of {self.where} was deleted or cannot be created; choose another one "
                "with tracking.experiment=NAME."
            )
        self._experiment_tags = dict(experiment.tags)
        return str(experiment.experiment_id)

    def _open_parent(self, client: MlflowClient, sweep: str, identity: str) -> str:
        """Continues the oldest parent run with the identity of the sweep, or creates one; returns its id."""
        query = f"tags.sweep_id = '{identity}' AND tags.kind = 'sweep'"
        order = ["attributes.start_time ASC"]
        found = client.search_runs([self._experiment_id], query, order_by=order) if identity else []
        if found:
            client.update_run(found[0].info.run_id, status="RUNNING")
            return str(found[0].info.run_id)
        tags = {**origin_tags(), "sweep": sweep, "kind": "sweep", "sweep_id": identity}
        created = client.create_run(self._experiment_id, run_name=sweep, tags=tags)
        return str(created.info.run_id)

    @property
    def has_registry(self) -> bool:
        return self.models

    def log(self, run: Run) -> None:
        identity = self._identity_tags(run)
        with self._reaching() as client:
            self._describe_parent(client, run)
            same = self._copies(f"tags.run_digest = '{identity['run_digest']}'")
            # Copies of this sweep first.
            same.sort(key=lambda copy: copy.parent != self._parent)
            kept = next((copy for copy in same if copy.is_complete), None) or self._store(run, identity)
            if self._parent and not kept.parent:
                # The run was logged without its sweep.
                client.set_tag(kept.run_id, MLFLOW_PARENT_RUN_ID, self._parent)
            # Last, so that an interruption leaves too many copies, which the next call deletes, and not none.
            replaced = [copy for copy in same if copy.parent in ("", self._parent) and not copy.is_complete]
            if self._parent and "job" in identity:
                job = f"tags.job = '{identity['job']}'"
                replaced += self._copies(f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{self._parent}' AND {job}")
            for copy in {copy.run_id: copy for copy in replaced if copy.run_id != kept.run_id}.values():
                client.delete_run(copy.run_id)
                for model_id in copy.models:
                    client.delete_logged_model(model_id)

    def _identity_tags(self, run: Run) -> dict[str, str]:
        """Returns the tags that identify the copy of a run."""
        path, folder = run.path / RESULT_FILE, run.path.resolve()
        try:
            tags = {"run_digest": hashlib.sha256(path.read_bytes()).hexdigest(), "folder": str(folder)}
        except OSError as error:
            raise ResultError(f"{path} cannot be read: {error.strerror}.") from None
        if self._sweep is not None and folder.is_relative_to(self._sweep) and folder != self._sweep:
            tags["job"] = str(folder.relative_to(self._sweep)).replace("'", "_")
        return tags

    def _copies(self, query: str) -> list[Copy]:
        copies = []
        for entity in self._client.search_runs([self._experiment_id], query):
            tags = entity.data.tags
            models = entity.outputs.model_outputs if entity.outputs else []
            ids = tuple(item.model_id for item in models)
            copies.append(
                Copy(entity.info.run_id, tags.get(MLFLOW_PARENT_RUN_ID, ""), _COMPLETE in tags, ids)
            )
        return copies

    def _store(self, run: Run, identity: Mapping[str, str]) -> Copy:
        """Stores a run as a new MLflow run."""
        client, result = self._client, run.result
        # Read before anything is sent, so that a damaged folder leaves nothing in the store.
        metrics, tables = read_all(run)
        tags = {**run_tags(run, self._parent), **identity}
        created = client.create_run(self._experiment_id, milliseconds(result.started), tags, run_name(result))
        run_id, model_id = str(created.info.run_id), ""
        try:
            with tempfile.TemporaryDirectory() as temporary:
                model_id = self._log_model(run, run_id, Path(temporary, "model"))
                client.log_inputs(run_id, run_inputs(result))
                # The client splits both into requests of the size that a server accepts.
                client.log_batch(run_id, metrics=_of_model(metrics, model_id), params=run_params(result))
                for name in RUN_FILES:
                    if (run.path / name).is_dir():
                        client.log_artifacts(run_id, str(run.path / name), name)
                    elif (run.path / name).exists():
                        client.log_artifact(run_id, str(run.path / name))
                # A search has many trials, and MLflow draws their learning curves itself.
                if result.status == FINISHED and not result.trial:
                    draw_run(run, Path(temporary, "pictures"))
                    client.log_artifacts(run_id, str(Path(temporary, "pictures")), "pictures")
                    for name, table in tables.items():
                        client.log_table(run_id, table, f"tables/{name}.json")
                self._show_metrics(metrics)
            is_interrupted = result.status == FAILED and result.error == INTERRUPTED
            status = _MLFLOW_STATUS["interrupted" if is_interrupted else result.status]
            client.set_terminated(run_id, status, milliseconds(result.finished))
            client.set_tag(run_id, _COMPLETE, "true")
        except BaseException:
            # It would otherwise be shown as running. A store that has just failed may fail again.
            with contextlib.suppress(TrackingError), reaching("", ""):
                client.set_terminated(run_id, "KILLED")
            raise
        self.num_stored += 1
        return Copy(run_id, self._parent, is_complete=True, models=(model_id,) if model_id else ())

    def _log_model(self, run: Run, run_id: str, folder: Path) -> str:
        """Logs the MLflow model of a run; returns its id, "" if there is none."""
        if not (self.models and run.result.status == FINISHED and can_be_logged(run)):
            return ""
        client, name = self._client, model_name(run.result)
        made = client.create_logged_model(
            self._experiment_id, name=name, source_run_id=run_id, model_type="ranker"
        )
        model_id = str(made.model_id)
        client.log_outputs(run_id, [LoggedModelOutput(model_id, run.result.best_iteration or 0)])
        save_model(run, folder, mlflow_model=Model(run_id=run_id, model_id=model_id))
        client.log_model_artifacts(model_id, str(folder))
        client.finalize_logged_model(model_id, "READY")
        return model_id

    def _show_metrics(self, metrics: list[Metric]) -> None:
        """Adds metrics to the columns of the run list."""
        tags = experiment_tags(self._experiment_id, self._experiment_tags, (item.key for item in metrics))
        for key, value in tags.items():
            self._client.set_experiment_tag(self._experiment_id, key, value)
        self._experiment_tags |= tags

    def _describe_parent(self, client: MlflowClient, run: Run) -> None:
        """Sets the title and the parameters of the sweep, from the first logged job that is not a trial."""
        if self._is_described or run.result.trial:
            return
        client.update_run(self._parent, name=sweep_title(run.result))
        # MLflow refuses to change a parameter.
        known = client.get_run(self._parent).data.params
        added = [param for param in sweep_params(run.result) if param.key not in known]
        client.log_batch(self._parent, params=added)
        self._is_described = True

    def summarize(
        self,
        folder: Path,
        text: str,
        best: Run | None,
        figures: Mapping[str, float],
        claims: Mapping[str, str],
    ) -> None:
        if not self._parent:
            return
        with self._reaching() as client:
            client.log_artifacts(self._parent, str(folder), artifact_path=folder.name)
            before = client.get_run(self._parent).data
            tags = {MLFLOW_RUN_NOTE: shortened(text, _MAX_NOTE_LENGTH)}
            tags |= {metric_key(f"{_CLAIM}{pair}"): claim for pair, claim in claims.items()}
            metrics = plain_metrics(figures)
            logged = None if best is None else self._find_logged(best)
            if best is not None and logged is not None:
                tags |= {"best_run": logged.run_id, "best_run_name": run_name(best.result)}
                # The mean over folds and seeds if `figures` has it, else the value of the best run.
                of_best = end_metrics(best, best.learning_curve())
                metrics = plain_metrics({item.key: item.value for item in (*of_best, *metrics)})
            changed = [item for item in metrics if before.metrics.get(item.key) != item.value]
            client.log_batch(self._parent, metrics=changed)
            for key, value in tags.items():
                client.set_tag(self._parent, key, value)
            for key in before.tags:
                if key.startswith(_CLAIM) and key not in tags:
                    # A claim of the comparison before the last runs.
                    client.delete_tag(self._parent, key)

    def register(self, name: str, run: Run, reason: str) -> str:
        with self._reaching() as client:
            logged = self._find_logged(run)
            if logged is None or not logged.models:
                raise TrackingError(
                    f"{run.path} has no MLflow model in {self.where} to register as '{name}': it was not "
                    "tracked there, tracking.models is false, or its class is not part of ltrbench. Store it "
                    f"with python -m ltrbench sync {run.path}, or run it again in a new folder."
                )
            with contextlib.suppress(MlflowException):
                # If the name exists already, the model becomes its next version.
                client.create_registered_model(name)
            (model_id, *_) = logged.models
            data = str(run.result.data["name"])
            tags = {"backend": run.result.model, "data": data, "folder": str(run.path), "reason": reason}
            made = client.create_model_version(
                name,
                client.get_logged_model(model_id).artifact_location,
                logged.run_id,
                tags=tags,
                description=f"{reason}\n\nOn {data}: {command(run.result)}",
                model_id=model_id,
            )
            client.set_registered_model_alias(name, CHAMPION, made.version)
        return f"models:/{name}@{CHAMPION} is version {made.version}"

    def _find_logged(self, run: Run) -> Copy | None:
        """Returns the complete copy of a run, stored by this command or an earlier one, or None."""
        copies = self._copies(f"tags.run_digest = '{self._identity_tags(run)['run_digest']}'")
        copies.sort(key=lambda copy: copy.parent != self._parent)
        return next((copy for copy in copies if copy.is_complete), None)

    def close(self, status: str) -> None:
        if self._parent:
            with self._reaching() as client:
                client.set_terminated(self._parent, _MLFLOW_STATUS[status])
            self._parent = ""

    @property
    def where(self) -> str:
        return f"{without_password(self.uri)}, experiment '{self.experiment}'"

    @property
    def _client(self) -> MlflowClient:
        assert self._opened is not None, "call open first"
        return self._opened

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[MlflowClient]:
        with reaching(self.uri, _SYNC):
            yield self._client


def _prepare_database(database: Path) -> None:
    """Creates the database, completely or not at all, if it does not exist.

    Two processes that migrate the same file corrupt it, and an interrupted migration cannot be continued, so
    a new database gets its name when it is complete.
    """
    if database.exists():
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=database.parent, prefix=".partial-") as staging:
        whole = Path(staging, database.name)
        MlflowClient(tracking_uri=f"{_SQLITE}{whole}")
        # Unlike a rename, a link never replaces a database that another process has just created.
        with contextlib.suppress(FileExistsError):
            database.hardlink_to(whole)


def run_list_of(store: str, experiment: str) -> str:
    """Returns the path of the run list of an experiment in the UI, to append to the address of its server;
    "/" if the store does not have the experiment.

    Raises:
        TrackingError: The store cannot be reached.
    """
    with reaching(store, "Give another store with --uri."):
        entity = MlflowClient(tracking_uri=store).get_experiment_by_name(experiment)
    return "/" if entity is None else run_list(str(entity.experiment_id))


def read_all(run: Run) -> tuple[list[Metric], dict[str, pd.DataFrame]]:
    """Returns the metrics of a run, and the tables that the UI compares between runs.

    Raises:
        ResultError: A file of the run is damaged.
    """
    run.input_example()
    run.trials()
    importances = run.importances()
    columns: dict[str, Mapping[str, Any]] = {
        "per_query": run.per_query(),
        "importances": {"feature": importances.feature_names, **importances.values},
    }
    # Text as objects, because MLflow tests for object columns and pandas 3 warns about that test on text.
    tables = {
        name: pd.DataFrame(of_table).astype({next(iter(of_table)): object})
        for name, of_table in columns.items()
        if len(of_table) > 1
    }
    return run_metrics(run), tables


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
