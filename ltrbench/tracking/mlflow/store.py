"""What is stored in MLflow, and when: each content of a run folder once, however often it is logged.

A child run has the parameters, tags, data sets, learning curve and metrics of the run, its per-query values
and importances as tables and pictures, and its model. A trial of a search is a child with the tag `trial`,
and without tables, pictures and model. The parent has the title and the settings of the sweep, as tags, and
the comparison.

Each content is stored once as long as one process at a time logs the folders of a sweep. A copy carries the
digest of the folder's result.json, which has the times, metrics and settings of the run, and in a sweep the
folder relative to that of the sweep, by which a job that was run again is recognized. The copy of its
earlier run is deleted, unless a registered model needs it: it stays, outside the sweep, with the tag
`superseded`. Times that were taken again are added to the copy of their run. A call that fails
leaves at most a copy without the tag `complete`, which the next `log` of the same run replaces.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import LoggedModelOutput, RunTag
from mlflow.entities import Run as MlflowRun
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.utils.mlflow_tags import (
    MLFLOW_PARENT_RUN_ID,
    MLFLOW_RUN_NAME,
    MLFLOW_RUN_NOTE,
)

from ltrbench.errors import LtrbenchError, TrackingError
from ltrbench.measure import versions, without_password
from ltrbench.plots import draw_run
from ltrbench.rankers.base import is_ours
from ltrbench.runs.origin import Trial
from ltrbench.runs.record import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    MODEL_FOLDER,
    RESULT_FILE,
    RUN_FILES,
    Run,
)
from ltrbench.tracking.mlflow import CHAMPION, OPENED_WITH, SQLITE, SYNC
from ltrbench.tracking.mlflow.entities import (
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
    sweep_tags,
    sweep_title,
)
from ltrbench.tracking.mlflow.models import class_of_model, save_model

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
    **dict.fromkeys(
        ("alembic", "mlflow.store.db", "urllib3.connectionpool"), logging.CRITICAL
    ),
    "mlflow.pyfunc": logging.WARNING,
}

_MAX_NOTE_LENGTH = 5000  # of the description of a run on a server
# Makes the UI show runs with their metrics first, not the traces of language models.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
# Tags of copies.
_COMPLETE = "complete"
_FOLDER = "folder"
_JOB = "job"
_SUPERSEDED = "superseded"
# Tags of a parent.
_OF_BEST = ("best_run", "best_run_name")
_MLFLOW_STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


@contextlib.contextmanager
def reaching(address: str, remedy: str) -> Iterator[None]:
    """Converts any error of the store into a TrackingError with the remedy, and silences MLflow's loggers.

    Environment variables and the levels of loggers are restored afterwards; variables that the user has set
    are kept.
    """
    variables = {**LIMITS, **_VARIABLES}
    missing = [name for name in variables if name not in os.environ]
    added = {name: variables[name] for name in missing}
    levels = {name: logging.getLogger(name).level for name in _LEVELS}
    os.environ.update(added)
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)
    try:
        with warnings.catch_warnings():
            # A warning about MLflow's own types when `mlflow.pyfunc` is imported.
            warnings.filterwarnings(
                "ignore", ".*type hint is inferred as AnyType", UserWarning
            )
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
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        for name in added:
            del os.environ[name]


class MLflowStore:
    """An MLflow experiment, and the sweep whose runs are logged.

    Args:
        uri: address of the store, of a file with its absolute path.
        experiment: name of the experiment; created if it does not exist.
        models: whether models are logged.
    """

    def __init__(self, uri: str, experiment: str, models: bool) -> None:
        self._uri = uri
        self._experiment = experiment
        self._models = models
        self._experiment_id = ""
        self._experiment_tags: dict[str, str] = {}
        self._sweep: Path | None = None
        self._parent = ""
        self._described = ""  # when the run began that describes the parent
        self._description: dict[str, str] = {}

    def open(
        self,
        sweep: str | None,
        identity: str = "",
        started: float = 0.0,
        remedy: str = SYNC,
    ) -> None:
        """Connects to the store, and opens the parent run of a sweep.

        Args:
            sweep, identity: as in `Tracker.open`.
            started: Unix time at which the sweep began.
            remedy: what to do if the store cannot be opened, for the message.

        Raises:
            TrackingError: The store cannot be used.
        """
        with reaching(self._uri, remedy):
            artifacts = None
            if self._uri.startswith(SQLITE):
                database = Path(self._uri.removeprefix(SQLITE))
                _prepare_database(database)
                artifacts = (database.parent / "mlruns").as_uri()
            client = MlflowClient(tracking_uri=self._uri)
            self._experiment_id = self._find_or_create_experiment(client, artifacts)
            if sweep is not None:
                self._sweep = Path(sweep).resolve()
                self._described = ""
                self._description = {}
                known_as = re.sub(r"[^\w.-]", "_", identity)
                self._parent = self._open_parent(client, sweep, known_as, started)
        self._client = client

    def _find_or_create_experiment(
        self, client: MlflowClient, artifacts: str | None
    ) -> str:
        mlflow = versions(["mlflow"])["mlflow"]
        tags = {**_EXPERIMENT_TAGS, OPENED_WITH: mlflow}
        experiment = client.get_experiment_by_name(self._experiment)
        if experiment is None:
            # Another process may create it in the meantime.
            with contextlib.suppress(MlflowException):
                return str(
                    client.create_experiment(self._experiment, artifacts, tags=tags)
                )
            experiment = client.get_experiment_by_name(self._experiment)
        if experiment is None or experiment.lifecycle_stage != "active":
            raise TrackingError(
                f"{self._where} was deleted or cannot be created; choose another tracking.experiment=NAME."
            )
        self._experiment_tags = dict(experiment.tags)
        if self._experiment_tags.get(OPENED_WITH) != mlflow:
            client.set_experiment_tag(experiment.experiment_id, OPENED_WITH, mlflow)
        return str(experiment.experiment_id)

    def _open_parent(
        self, client: MlflowClient, sweep: str, identity: str, started: float
    ) -> str:
        """Continues the oldest parent run with the identity of the sweep, or creates one; returns its id.

        A copied sweep has the same identity, but a parent run of its own.
        """
        query = f"tags.sweep_id = '{identity}' AND tags.kind = 'sweep'"
        order = ["attributes.start_time ASC"]
        found: list[MlflowRun] = []
        if identity:
            found = client.search_runs([self._experiment_id], query, order_by=order)
        folder = str(self._sweep)
        parent = _of_folder(found, folder)
        if parent is not None:
            parent_id = str(parent.info.run_id)
            client.update_run(parent_id, status="RUNNING")
            client.set_tag(parent_id, _FOLDER, folder)
            return parent_id
        tags = {
            **origin_tags(),
            "sweep": sweep,
            "kind": "sweep",
            "sweep_id": identity,
            _FOLDER: folder,
        }
        created = client.create_run(
            self._experiment_id, int(started * 1000), tags, run_name=sweep
        )
        return str(created.info.run_id)

    def log(self, run: Run) -> bool:
        """Logs a run, unless the store has it; returns whether it was new."""
        identity = self._identity_tags(run)
        with self._reaching() as client:
            self._describe_parent(client, run)
            same = self._copies(f"tags.run_digest = '{identity['run_digest']}'")
            of_job = self._copies_of_job(identity)
            kept = next(filter(_is_complete, same), None)
            timed = next(
                (copy for copy in of_job if _is_same_training(copy, run)), None
            )
            if kept is not None:
                run_id = kept.info.run_id
                self._adopt(kept, identity)
            elif timed is not None:
                run_id = timed.info.run_id
                self._store_times(run, identity, timed)
            else:
                run_id = self._store(run, identity)
            # Last, so that an interruption leaves too many copies, which the next call deletes, and not none.
            incomplete = [copy for copy in same if not _is_complete(copy)]
            left = [copy for copy in incomplete if self._may_adopt(copy)]
            by_id = {copy.info.run_id: copy for copy in (*left, *of_job)}
            by_id.pop(run_id, None)
            for copy in by_id.values():
                self._replace(copy)
        return kept is None

    def _copies_of_job(self, identity: Mapping[str, str]) -> list[MlflowRun]:
        """Returns the copies of earlier runs of the job of a run; none for a run of no sweep."""
        if not self._parent or _JOB not in identity:
            return []
        job = f"tags.{_JOB} = '{identity[_JOB]}'"
        return self._copies(
            f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{self._parent}' AND {job}"
        )

    def _may_adopt(self, copy: MlflowRun) -> bool:
        return _parent_of(copy) in ("", self._parent)

    def _adopt(self, copy: MlflowRun, identity: Mapping[str, str]) -> None:
        """Makes a copy a child of the sweep: it was logged without its sweep, or the sweep was moved."""
        if not self._parent or not self._may_adopt(copy):
            return
        client = self._client
        run_id = copy.info.run_id
        for key, value in {**identity, MLFLOW_PARENT_RUN_ID: self._parent}.items():
            if copy.data.tags.get(key) != value:
                client.set_tag(run_id, key, value)
        if _SUPERSEDED in copy.data.tags:
            client.delete_tag(run_id, _SUPERSEDED)

    def _replace(self, copy: MlflowRun) -> None:
        """Deletes a copy that another one replaces, or takes it out of the sweep if a registered model needs
        it."""
        client = self._client
        replaced = copy.info.run_id
        if client.search_model_versions(f"run_id = '{replaced}'"):
            client.set_tag(replaced, _SUPERSEDED, "true")
            for key in (_JOB, MLFLOW_PARENT_RUN_ID):
                if key in copy.data.tags:
                    client.delete_tag(replaced, key)
            return
        client.delete_run(replaced)
        for model_id in _models_of(copy):
            client.delete_logged_model(model_id)

    def _identity_tags(self, run: Run) -> dict[str, str]:
        """Returns the tags that identify the copy of a run."""
        content = (run.path / RESULT_FILE).read_bytes()
        folder = run.path.resolve()
        tags = {
            "run_digest": hashlib.sha256(content).hexdigest(),
            _FOLDER: str(folder),
        }
        if self._sweep is None or folder == self._sweep:
            return tags
        if folder.is_relative_to(self._sweep):
            job = str(folder.relative_to(self._sweep))
            tags[_JOB] = job.replace("'", "_")
        return tags

    def _copies(self, query: str) -> list[MlflowRun]:
        """Returns the MLflow runs of a query, those of this sweep first."""
        copies = list(self._client.search_runs([self._experiment_id], query))
        return sorted(copies, key=lambda copy: _parent_of(copy) != self._parent)

    def _store(self, run: Run, identity: Mapping[str, str]) -> str:
        """Stores a run as a new MLflow run; returns its id."""
        client = self._client
        result = run.result
        # Read before anything is sent, so that a damaged folder leaves nothing in the store.
        tables = read_all(run)
        tags = {**run_tags(run, self._parent), **identity}
        created = client.create_run(
            self._experiment_id, milliseconds(result.started), tags, run_name(result)
        )
        run_id = str(created.info.run_id)
        try:
            with tempfile.TemporaryDirectory() as temporary:
                model_id = self._log_model(run, run_id, Path(temporary, "model"))
                client.log_inputs(run_id, run_inputs(result))
                # The client splits both into requests of the size that a server accepts.
                metrics = run_metrics(run, model_id)
                client.log_batch(run_id, metrics=metrics, params=run_params(result))
                self._log_files(run, run_id)
                # A search has many trials, and MLflow draws their learning curves itself.
                is_trial = isinstance(result.origin, Trial)
                if result.status == FINISHED and not is_trial:
                    pictures = Path(temporary, "pictures")
                    draw_run(run, pictures)
                    client.log_artifacts(run_id, str(pictures), "pictures")
                    for name, table in tables.items():
                        client.log_table(run_id, table, f"tables/{name}.json")
                self._describe_experiment(item.key for item in metrics)
            is_interrupted = result.status == FAILED and result.error == INTERRUPTED
            status = _MLFLOW_STATUS["interrupted" if is_interrupted else result.status]
            client.set_terminated(run_id, status, milliseconds(result.finished))
            client.set_tag(run_id, _COMPLETE, "true")
        except BaseException:
            # It would otherwise be shown as running. A store that has just failed may fail again.
            with contextlib.suppress(TrackingError), reaching("", ""):
                client.set_terminated(run_id, "KILLED")
            raise
        return run_id

    def _store_times(
        self, run: Run, identity: Mapping[str, str], copy: MlflowRun
    ) -> None:
        """Stores the times of a run that were taken again in its copy, on which a registered model may
        depend."""
        client = self._client
        run_id = copy.info.run_id
        tags = run_tags(run, self._parent)
        shared = "shared_machine"
        if shared in copy.data.tags and shared not in tags:
            client.delete_tag(run_id, shared)
        before = copy.data.metrics
        of_run = end_metrics(run, run.learning_curve())
        changed = {
            item.key: item.value
            for item in of_run
            if before.get(item.key) != item.value
        }
        client.log_batch(run_id, metrics=plain_metrics(changed))
        client.log_artifact(run_id, str(run.path / RESULT_FILE))
        # Last, because the digest says that the copy is that of the run.
        for key, value in identity.items():
            client.set_tag(run_id, key, value)

    def _log_files(self, run: Run, run_id: str) -> None:
        """Copies the files of a run folder, and those in its folders."""
        for name in RUN_FILES:
            path = run.path / name
            if path.is_dir():
                self._client.log_artifacts(run_id, str(path), name)
            elif path.exists():
                self._client.log_artifact(run_id, str(path))

    def _describe_experiment(self, keys: Iterable[str]) -> None:
        """Chooses the metrics that the list of runs shows."""
        shown = experiment_tags(self._experiment_id, self._experiment_tags, [*keys])
        for key, value in shown.items():
            self._client.set_experiment_tag(self._experiment_id, key, value)
        self._experiment_tags |= shown

    def _log_model(self, run: Run, run_id: str, folder: Path) -> str:
        """Logs the MLflow model of a run; returns its id, "" if there is none."""
        # Only classes of ltrbench: other classes named in a folder are not trusted.
        has_model = (run.path / MODEL_FOLDER).is_dir() and is_ours(class_of_model(run))
        if not (self._models and run.result.status == FINISHED and has_model):
            return ""
        client = self._client
        name = model_name(run.result)
        made = client.create_logged_model(
            self._experiment_id, name=name, source_run_id=run_id, model_type="ranker"
        )
        model_id = str(made.model_id)
        client.log_outputs(
            run_id, [LoggedModelOutput(model_id, run.result.best_iteration or 0)]
        )
        save_model(run, folder, mlflow_model=Model(run_id=run_id, model_id=model_id))
        client.log_model_artifacts(model_id, str(folder))
        client.finalize_logged_model(model_id, "READY")
        return model_id

    def _describe_parent(self, client: MlflowClient, run: Run) -> None:
        """Sets the title and the settings of the sweep, from the newest job that is not a trial.

        The settings are tags: MLflow refuses to change a parameter, and a later command may sweep over more
        values.
        """
        result = run.result
        is_older = result.started <= self._described
        if not self._parent or is_older or isinstance(result.origin, Trial):
            return
        self._described = result.started
        tags = {**sweep_tags(result), MLFLOW_RUN_NAME: sweep_title(result)}
        if tags != self._description:
            _log_tags(client, self._parent, tags)
        self._description = tags

    def summarize(
        self,
        folder: Path,
        text: str,
        best: Run | None,
        values: Mapping[str, float],
    ) -> None:
        if not self._parent:
            return
        with self._reaching() as client:
            client.log_artifacts(self._parent, str(folder), artifact_path=folder.name)
            before = client.get_run(self._parent).data
            tags = {MLFLOW_RUN_NOTE: shortened(text, _MAX_NOTE_LENGTH)}
            # A metric cannot be deleted, and that of an earlier best run must not stay.
            shown = dict.fromkeys(before.metrics, math.nan)
            logged = None
            if best is not None:
                logged = self._find_logged(best)
            if best is not None and logged is not None:
                of_run = (logged.info.run_id, run_name(best.result))
                tags |= dict(zip(_OF_BEST, of_run, strict=True))
                of_best = end_metrics(best, best.learning_curve())
                shown |= {item.key: item.value for item in of_best}
            for key in _OF_BEST:
                if key in before.tags and key not in tags:
                    client.delete_tag(self._parent, key)
            # The mean over folds and seeds if `values` has it, else the value of the best run.
            shown |= {metric_key(name): value for name, value in values.items()}
            changed = {
                key: value
                for key, value in shown.items()
                if not _is_equal(before.metrics.get(key), value)
            }
            client.log_batch(self._parent, metrics=plain_metrics(changed))
            _log_tags(client, self._parent, tags)

    def register(self, name: str, run: Run, reason: str, again: bool) -> str:
        """Registers the model of a run, as `Tracker.register`."""
        with self._reaching() as client:
            logged = self._find_logged(run)
            if logged is None or not _models_of(logged):
                raise TrackingError(
                    f"{run.path} has no MLflow model in {self._where} to register as '{name}'. Store it with "
                    f"python -m ltrbench sync {run.path}, with tracking.models=true and a class of ltrbench."
                )
            with contextlib.suppress(MlflowException):
                # If the name exists already, the model becomes its next version.
                client.create_registered_model(name)
            (model_id, *_) = _models_of(logged)
            data = str(run.result.data["name"])
            tags = {
                "backend": run.result.model,
                "data": data,
                "folder": str(run.path),
                "reason": reason,
            }
            known = _version_of(client, name, logged.info.run_id)
            stays = not again and (known is not None or self._has_version(name))
            made = known
            if made is None:
                logged_model = client.get_logged_model(model_id)
                made = client.create_model_version(
                    name,
                    logged_model.artifact_location,
                    logged.info.run_id,
                    tags=tags,
                    description=f"{reason}\n\nOn {data}: {command(run.result)}",
                    model_id=model_id,
                )
            if stays:
                return f"models:/{name}/{made.version}, and the {CHAMPION} is unchanged"
            client.set_registered_model_alias(name, CHAMPION, made.version)
        already = ", as which the run was registered before" if known else ""
        return f"models:/{name}@{CHAMPION} is version {made.version}{already}"

    def _has_version(self, name: str) -> bool:
        """Returns whether a run in the folder of the sweep was registered under a name."""
        if self._sweep is None:
            return False
        for version in self._client.search_model_versions(f"name = '{name}'"):
            if not version.run_id:
                continue
            tags = self._client.get_run(version.run_id).data.tags
            if Path(tags.get(_FOLDER, "")).is_relative_to(self._sweep):
                return True
        return False

    def _find_logged(self, run: Run) -> MlflowRun | None:
        """Returns the complete copy of a run, stored by this command or an earlier one, or None."""
        digest = self._identity_tags(run)["run_digest"]
        return next(
            filter(_is_complete, self._copies(f"tags.run_digest = '{digest}'")), None
        )

    def close(self, status: str) -> None:
        if self._parent:
            with self._reaching() as client:
                client.set_terminated(self._parent, _MLFLOW_STATUS[status])
            self._parent = ""

    @property
    def _where(self) -> str:
        return f"{without_password(self._uri)}, experiment '{self._experiment}'"

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[MlflowClient]:
        with reaching(self._uri, SYNC):
            yield self._client


def _log_tags(client: MlflowClient, run_id: str, tags: Mapping[str, str]) -> None:
    """Sets tags of an MLflow run in one call."""
    items = [RunTag(key, value) for key, value in tags.items()]
    client.log_batch(run_id, tags=items)


def _is_equal(before: float | None, value: float) -> bool:
    """Returns whether a metric has a value already; NaN is equal to NaN."""
    if before is None:
        return False
    return before == value or (math.isnan(before) and math.isnan(value))


def _version_of(client: MlflowClient, name: str, run_id: str) -> ModelVersion | None:
    """Returns the version of a registered model that has the model of an MLflow run; None without one."""
    found = client.search_model_versions(f"name = '{name}' and run_id = '{run_id}'")
    return next(iter(found), None)


def _of_folder(parents: Sequence[MlflowRun], folder: str) -> MlflowRun | None:
    """Returns the first parent run of the sweep in a folder, or else of a sweep that was moved; None without
    one."""
    of_folder = []
    moved = []
    for parent in parents:
        recorded = parent.data.tags.get(_FOLDER, "")
        if recorded == folder:
            of_folder.append(parent)
        elif not Path(recorded).exists():
            moved.append(parent)
    return next(iter([*of_folder, *moved]), None)


def _is_same_training(copy: MlflowRun, run: Run) -> bool:
    """Returns whether a copy of an earlier run of a job differs from a run only by times that were taken
    again."""
    result = run.result
    finished = _MLFLOW_STATUS[FINISHED]
    if result.status != FINISHED or copy.info.status != finished:
        return False
    return _is_complete(copy) and copy.info.start_time == milliseconds(result.started)


def _is_complete(copy: MlflowRun) -> bool:
    return _COMPLETE in copy.data.tags


def _parent_of(copy: MlflowRun) -> str:
    """Returns the id of the parent run; "" if there is none."""
    return str(copy.data.tags.get(MLFLOW_PARENT_RUN_ID, ""))


def _models_of(copy: MlflowRun) -> list[str]:
    """Returns the ids of the MLflow models of a run."""
    if copy.outputs:
        return [output.model_id for output in copy.outputs.model_outputs]
    return []


def _prepare_database(database: Path) -> None:
    """Creates the database, completely or not at all, if it does not exist.

    Two processes that migrate the same file corrupt it, and an interrupted migration cannot be continued, so
    a new database gets its name when it is complete.
    """
    if database.exists():
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=database.parent, prefix=".partial-"
    ) as staging:
        whole = Path(staging, database.name)
        MlflowClient(tracking_uri=f"{SQLITE}{whole}")
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
    if entity is None:
        return "/"
    return run_list(str(entity.experiment_id))


def read_all(run: Run) -> dict[str, pd.DataFrame]:
    """Reads all files of a run, and returns the tables that the UI compares between runs.

    Raises:
        ResultError: A file of the run is damaged.
    """
    run.input_example()
    run.trials()
    run.learning_curve()
    importances = run.importances()
    columns: dict[str, Mapping[str, Any]] = {
        "per_query": run.per_query(),
        "importances": {"feature": importances.feature_names, **importances.values},
    }
    # Text as objects, because MLflow tests for object columns and pandas 3 warns about that test on text.
    frames = {}
    for name, of_table in columns.items():
        first = next(iter(of_table))
        if len(of_table) > 1 and len(of_table[first]):
            frames[name] = pd.DataFrame(of_table).astype({first: object})
    return frames
