"""Logs run folders to MLflow: one parent run per sweep, one child run per job, the run folder as artifacts.

A child has the parameters, tags, data sets, learning curve and metrics of the run, its per-query values and
importances as tables and pictures, and its model. A trial of a search is a child with the tag `trial`, and
without tables, pictures and model. The parent has the title and parameters of the sweep, and the comparison.
To show more of a run, add an entry to `run_tags`, `run_params` or `run_metrics`.

MLflow does not allow `@`, so `ndcg@10` becomes `ndcg_at_10`. A key such as `valid/ndcg_at_10` is the value of
the kept model, one point at step 0. `valid_by_iteration/ndcg_at_10` is the learning curve, with one point per
iteration: MLflow shows the latest point of a metric, which need not be that of the kept model. MLflow's page
of a run lists metrics and parameters in the order in which they are logged, the important ones first.

Each content of a run folder is stored once, however often it is logged, as long as one process at a time logs
the folders of a sweep. A copy carries the digest of the folder's result.json, which has the times, metrics
and settings of the run, and in a sweep the folder relative to that of the sweep, by which a job that was run
again is recognized. A call that fails leaves at most a copy without the tag `complete`, which the next `log`
of the same run replaces.

Only `MlflowClient` is used, with an explicit address, so the MLflow state of the caller is never changed.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import importlib
import json
import logging
import os
import re
import shlex
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LoggedModelOutput,
    Metric,
    Param,
)
from mlflow.entities import Run as MlflowRun
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.utils.mlflow_tags import (
    MLFLOW_DATASET_CONTEXT,
    MLFLOW_GIT_COMMIT,
    MLFLOW_PARENT_RUN_ID,
    MLFLOW_RUN_NOTE,
    MLFLOW_SOURCE_NAME,
    MLFLOW_SOURCE_TYPE,
    MLFLOW_USER,
)

from ltrbench.data.tables import columns_of_features, encoded_names
from ltrbench.errors import LtrbenchError, TrackingError
from ltrbench.measure import versions, without_password
from ltrbench.plots import draw_run
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import is_ours, load_ranker
from ltrbench.rankers.importance import MOST_LISTED
from ltrbench.runs.origin import Copied, Final, Trial
from ltrbench.runs.record import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    MODEL_FOLDER,
    RESULT_FILE,
    RUN_FILES,
    LearningCurve,
    Run,
    RunResult,
)
from ltrbench.shapes import Features
from ltrbench.tracking import Tracker
from ltrbench.untrusted import read_json, visible

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
    **dict.fromkeys(
        ("alembic", "mlflow.store.db", "urllib3.connectionpool"), logging.CRITICAL
    ),
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
_COMPLETE = "complete"
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


@dataclass
class MLflowTracker(Tracker):
    """Logs runs to an MLflow store.

    Attributes:
        uri: address of the store: sqlite:///FILE, relative to the current folder, or the http address of a
            server.
        experiment: MLflow experiment of the runs; created if it does not exist.
        models: whether the model of a run is also logged as an MLflow model, to load, serve and register it.
        num_stored: number of runs that this tracker has stored, without those that the store had already.
        remedy: what to do if the store cannot be opened, for the message.
    """

    uri: str = "sqlite:///mlflow.db"
    experiment: str = "ltrbench"
    models: bool = True

    def __post_init__(self) -> None:
        self.num_stored = 0
        self.remedy = _OTHER_STORE
        self._experiment_id = ""
        self._sweep: Path | None = None
        self._parent = ""
        self._is_described = False
        self._experiment_tags: dict[str, str] = {}

    def open(self, sweep: str | None, identity: str = "") -> None:
        self._parent = ""
        self._is_described = sweep is None
        self._sweep = None if sweep is None else Path(sweep).resolve()
        with reaching(self.uri, self.remedy):
            address = self.uri
            artifacts = None
            if self.uri.startswith(_SQLITE):
                database = Path(self.uri.removeprefix(_SQLITE)).resolve()
                _prepare_database(database)
                # Absolute, because MLflow caches a store by its address, regardless of the current folder.
                address = f"{_SQLITE}{database}"
                artifacts = (database.parent / "mlruns").as_uri()
            client = MlflowClient(tracking_uri=address)
            self._experiment_id = self._find_or_create_experiment(client, artifacts)
            if sweep is not None:
                self._parent = self._open_parent(
                    client, sweep, re.sub(r"[^\w.-]", "_", identity)
                )
        self._client = client

    def _find_or_create_experiment(
        self, client: MlflowClient, artifacts: str | None
    ) -> str:
        experiment = client.get_experiment_by_name(self.experiment)
        if experiment is None:
            # Another process may create it in the meantime.
            with contextlib.suppress(MlflowException):
                return str(
                    client.create_experiment(
                        self.experiment, artifacts, tags=_EXPERIMENT_TAGS
                    )
                )
            experiment = client.get_experiment_by_name(self.experiment)
        if experiment is None or experiment.lifecycle_stage != "active":
            raise TrackingError(
                f"{self.where} was deleted or cannot be created; choose another tracking.experiment=NAME."
            )
        self._experiment_tags = dict(experiment.tags)
        return str(experiment.experiment_id)

    def _open_parent(self, client: MlflowClient, sweep: str, identity: str) -> str:
        """Continues the oldest parent run with the identity of the sweep, or creates one; returns its id."""
        query = f"tags.sweep_id = '{identity}' AND tags.kind = 'sweep'"
        order = ["attributes.start_time ASC"]
        found: list[Any] = []
        if identity:
            found = client.search_runs([self._experiment_id], query, order_by=order)
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
            kept = next(filter(_is_complete, same), None)
            run_id = self._store(run, identity) if kept is None else kept.info.run_id
            if kept is not None and self._parent and not _parent_of(kept):
                # The run was logged without its sweep.
                client.set_tag(run_id, MLFLOW_PARENT_RUN_ID, self._parent)
            # Last, so that an interruption leaves too many copies, which the next call deletes, and not none.
            others = [copy for copy in same if not _is_complete(copy)]
            replaced = [
                copy for copy in others if _parent_of(copy) in ("", self._parent)
            ]
            if self._parent and "job" in identity:
                job = f"tags.job = '{identity['job']}'"
                replaced += self._copies(
                    f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{self._parent}' AND {job}"
                )
            by_id = {copy.info.run_id: copy for copy in replaced}
            by_id.pop(run_id, None)
            for copy in by_id.values():
                client.delete_run(copy.info.run_id)
                for model_id in _models_of(copy):
                    client.delete_logged_model(model_id)

    def _identity_tags(self, run: Run) -> dict[str, str]:
        """Returns the tags that identify the copy of a run."""
        content = (run.path / RESULT_FILE).read_bytes()
        folder = run.path.resolve()
        tags = {
            "run_digest": hashlib.sha256(content).hexdigest(),
            "folder": str(folder),
        }
        if self._sweep is None or folder == self._sweep:
            return tags
        if folder.is_relative_to(self._sweep):
            job = str(folder.relative_to(self._sweep))
            tags["job"] = job.replace("'", "_")
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
        self.num_stored += 1
        return run_id

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
        has_model = (run.path / MODEL_FOLDER).is_dir() and is_ours(_target(run))
        if not (self.models and run.result.status == FINISHED and has_model):
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
        """Sets the title and the parameters of the sweep, from the first logged job that is not a trial."""
        if self._is_described or isinstance(run.result.origin, Trial):
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
        values: Mapping[str, float],
    ) -> None:
        if not self._parent:
            return
        with self._reaching() as client:
            client.log_artifacts(self._parent, str(folder), artifact_path=folder.name)
            before = client.get_run(self._parent).data.metrics
            tags = {MLFLOW_RUN_NOTE: shortened(text, _MAX_NOTE_LENGTH)}
            metrics = plain_metrics(values)
            logged = None
            if best is not None:
                logged = self._find_logged(best)
            if best is not None and logged is not None:
                tags |= {
                    "best_run": logged.info.run_id,
                    "best_run_name": run_name(best.result),
                }
                # The mean over folds and seeds if `values` has it, else the value of the best run.
                of_best = end_metrics(best, best.learning_curve())
                metrics = plain_metrics(
                    {item.key: item.value for item in (*of_best, *metrics)}
                )
            changed = [item for item in metrics if before.get(item.key) != item.value]
            client.log_batch(self._parent, metrics=changed)
            for key, value in tags.items():
                client.set_tag(self._parent, key, value)

    def register(self, name: str, run: Run, reason: str) -> str:
        with self._reaching() as client:
            logged = self._find_logged(run)
            if logged is None or not _models_of(logged):
                raise TrackingError(
                    f"{run.path} has no MLflow model in {self.where} to register as '{name}'. Store it with "
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
            client.set_registered_model_alias(name, CHAMPION, made.version)
        already = ", as which the run was registered before" if known else ""
        return f"models:/{name}@{CHAMPION} is version {made.version}{already}"

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
    def where(self) -> str:
        return f"{without_password(self.uri)}, experiment '{self.experiment}'"

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[MlflowClient]:
        with reaching(self.uri, _SYNC):
            yield self._client


def _version_of(client: MlflowClient, name: str, run_id: str) -> ModelVersion | None:
    """Returns the version of a registered model that has the model of an MLflow run; None without one."""
    versions = client.search_model_versions(f"name = '{name}' and run_id = '{run_id}'")
    return next(iter(versions), None)


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


# ---- Converts a run to MLflow's entities: tags, parameters, metric points and data sets

# ---- The columns of the run list in the MLflow UI: the NDCG of every run.
#
# By default the UI shows no metric in the list, and a server cannot change that default. But an experiment
# can store views: a tag with the columns. A view is selected in the address of the run list, or in the menu
# of views. `view` returns the value of the tag, `run_list` the address. The description of the experiment
# links to this address, for users who do not open the UI with `python -m ltrbench ui`.
#
# The value has both forms that MLflow reads: a name and a state as JSON (3.17), and the keys of the state
# themselves (earlier versions).

_VIEW = "ltrbench"  # the name of the view in the UI's menu of views and in the address of the run list
_VIEW_TAG = f"mlflow.sharedViewState.{_VIEW}"

_METRIC_WIDTH = 142  # pixels; fits the name of a metric and all digits of a value


def run_list(experiment_id: str) -> str:
    """Returns the path of the run list with the columns of the view, relative to the address of a server."""
    return f"/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={_VIEW}"


def experiment_tags(
    experiment_id: str, known: Mapping[str, str], keys: Iterable[str]
) -> dict[str, str]:
    """Returns the tags to set so that the view of an experiment shows these metrics; empty if it does
    already.

    Args:
        known: the tags of the experiment.
        keys: keys of metrics, such as "test/ndcg_at_10".
    """
    tags = {}
    before = []
    if _VIEW_TAG in known:
        before = json.loads(known[_VIEW_TAG]).get("selectedColumns", [])
    shown = [f"metrics.`{key}`" for key in shown_metrics(keys)]
    columns = list(dict.fromkeys([*before, *shown]))
    if columns != before:
        widths = dict.fromkeys(columns, _METRIC_WIDTH)
        state = {
            "selectedColumns": columns,
            "columnOrder": columns,
            "columnWidths": widths,
        }
        now = int(time.time() * 1000)
        value = {
            "name": _VIEW,
            "createdAt": now,
            "updatedAt": now,
            "state": json.dumps(state),
            **state,
        }
        tags[_VIEW_TAG] = json.dumps(value)
    # The key of the description is the same for experiments and runs.
    if MLFLOW_RUN_NOTE not in known:
        tags[MLFLOW_RUN_NOTE] = (
            f"[Runs with their metrics]({run_list(experiment_id)[1:]})"
        )
    return tags


def shown_metrics(keys: Iterable[str]) -> list[str]:
    """Returns the metrics of the list: NDCG on test, largest cutoff first (or all of test if there is no
    NDCG), the first of them on validation, and the time of the fit.

    >>> shown_metrics(["test/ndcg_at_5", "test/ndcg_at_10", "test/map", "valid/ndcg_at_10", "seconds/fit"])
    ['test/ndcg_at_10', 'test/ndcg_at_5', 'valid/ndcg_at_10', 'seconds/fit']
    """

    def largest_cutoff_first(key: str) -> tuple[int, str]:
        cutoff = re.sub(r".*_at_(\d+)$|.*", r"\1", key)
        return -int(cutoff or 0), key

    known = sorted(set(keys), key=largest_cutoff_first)
    of_test = [key for key in known if key.startswith("test/")]
    shown = [key for key in of_test if key.startswith("test/ndcg")] or of_test
    if not shown:
        return []
    beside = (f"valid/{shown[0].removeprefix('test/')}", "seconds/fit")
    return [*shown, *(key for key in beside if key in known)]


COMMAND = "python -m ltrbench"

_BY_ITERATION = (
    "_by_iteration/"  # of a learning curve, between the split and the metric
)

# Maximum lengths on a server.
_MAX_KEY_LENGTH = 250
_MAX_PARAM_LENGTH = 6000
MAX_TAG_LENGTH = 5000
_MAX_NAME_LENGTH = 250
_MAX_DIGEST_LENGTH = 36

# Settings that change no result, and explanatory texts of a data set's YAML.
_NO_PARAMETERS = ("tracking", "executor", "progress", "register", "study")
_TEXTS = re.compile(
    r"importance\.(?!kinds$)|data\.(_target_|obtain|fetch)|replicates\."
)

# The names of the splits in MLflow's UI.
_CONTEXTS = {"train": "training", "valid": "validation", "test": "testing"}


# Settings in the name of a single run, beside its model and its data set.
# Short names of settings whose last part is unclear.
_NAMES = {"replicates.index": "resample"}
_IN_NAMES = re.compile(r"(params|model|data\.fold|data\.split_seed|seed|cv)(\.|$)")


def run_name(result: RunResult) -> str:
    """Returns the name of a run. Job of a sweep: its model and the settings that differ between jobs. Other
    run: its model, data set, and the hyperparameters that the command set.

    >>> swept = {"model": ["native", "lightgbm"], "params.num_leaves": ["15", "31"]}
    >>> overrides = ["model=native", "params.num_leaves=15", "params.num_trees=50"]
    >>> of = {"status": "finished", "model": "native", "params": "matched", "seed": 0, "overrides": overrides}
    >>> run_name(RunResult(**of, swept=swept)), run_name(RunResult(**of, data={"name": "mq2008"}))
    ('native num_leaves=15', 'native on mq2008 num_leaves=15 num_trees=50')
    """
    values = settings_of_overrides(result.overrides or ())
    if result.sweep is not None or result.swept:
        named = {key: values[key] for key in result.swept if key in values}
        what = result.model
    else:
        named = {key: values[key] for key in values if _IN_NAMES.match(key)}
        what = result.model
        if "name" in result.data:
            what = f"{result.model} on {result.data['name']}"
    named.pop("model", None)
    short = short_names(named)
    what = f"{what} trial" if isinstance(result.origin, Trial) else what
    words = [f"{short[key]}={value}" for key, value in named.items()]
    return _name(" ".join([what, *words]))


def sweep_title(result: RunResult) -> str:
    """Returns the title of the sweep that a run belongs to: models, data sets, and swept settings.

    >>> swept = {"model": ["native", "lightgbm"], "params.num_leaves": ["15", "31"], "seed": ["1", "2"]}
    >>> of = {"status": "finished", "model": "native", "params": "matched", "seed": 1}
    >>> sweep_title(RunResult(**of, swept=swept, data={"name": "mq2008"}))
    'native, lightgbm on mq2008: num_leaves, seed'
    """
    swept = dict(result.swept)
    models = swept.pop("model", [result.model])
    data_sets = swept.pop("data", [str(result.data.get("name"))])
    title = f"{', '.join(models)} on {', '.join(data_sets)}"
    settings = ", ".join(short_names(swept).values())
    return _name(f"{title}: {settings}" if settings else title)


def sweep_params(result: RunResult) -> list[Param]:
    """Returns the parameters of the sweep that a run belongs to: its models and data sets, each swept setting
    with all of its values, and the other settings of the command."""
    swept = {key: ", ".join(values) for key, values in result.swept.items()}
    params = _names(result) | swept
    given = settings_of_overrides(result.overrides or ())
    for key, value in given.items():
        if value and key not in swept:
            params[key] = value
    return _params(params)


def settings_of_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """Returns key -> value of the settings of a command line, without the marks `+` and `~`.

    >>> settings_of_overrides(["model=native", "+model.extra.a=1", "~early_stopping"])
    {'model': 'native', 'model.extra.a': '1', 'early_stopping': ''}
    """
    pairs = (override.partition("=") for override in overrides)
    return {key.lstrip("+~"): value for key, _, value in pairs}


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Returns key -> its last part, or the whole key if several keys have the same last part.

    >>> short_names(["params.num_leaves", "data.seed", "seed"])
    {'params.num_leaves': 'num_leaves', 'data.seed': 'data.seed', 'seed': 'seed'}
    >>> short_names(["replicates.index"])
    {'replicates.index': 'resample'}
    """
    last = {}
    for key in keys:
        _, _, part = key.rpartition(".")
        last[key] = _NAMES.get(key, part)
    counts = Counter(last.values())
    return {key: key if counts[name] > 1 else name for key, name in last.items()}


def model_name(result: RunResult) -> str:
    """Returns the name of the model, in the characters that MLflow allows.

    >>> model_name(RunResult(status="finished", model="a/b: 50%", params="", seed=0))
    'a_b_ 50_'
    """
    return re.sub("[/:.%\"']", "_", _name(result.model))


def _name(text: str) -> str:
    """Returns a name on one line, of the length that MLflow allows."""
    return shortened(visible(text), _MAX_NAME_LENGTH)


def command(result: RunResult) -> str:
    """Returns the command that repeats the run, quoted for a shell; empty if there is none."""
    if result.command is None:
        return ""
    return shlex.join(result.command)


def origin_tags() -> dict[str, str]:
    """Returns the tags about source and user that MLflow's fluent interface sets."""
    tags = {MLFLOW_SOURCE_NAME: COMMAND, MLFLOW_SOURCE_TYPE: "LOCAL"}
    # A container may run under a user id without a name.
    with contextlib.suppress(ImportError, KeyError, OSError):
        tags[MLFLOW_USER] = getpass.getuser()
    return tags


def run_tags(run: Run, parent: str) -> dict[str, str]:
    result = run.result
    data = run.result.data
    tags: dict[str, object] = {
        **origin_tags(),
        MLFLOW_PARENT_RUN_ID: parent,
        MLFLOW_GIT_COMMIT: result.commit,
        "kind": "run",
        "backend": result.model,
        "params": result.params,
        "data": data.get("name"),
        "fold": data.get("fold"),
        "split_seed": result.repeat,
        "convention": result.convention.get("name"),
        "command": command(result),
        "folder": run.path,
        "unmatched": "\n".join(result.unmatched),
        "sweep": result.sweep,
        **_tags_of_origin(result),
        "shared_machine": "true" if result.shared_machine else None,
        "search": result.search.get("name"),
        "commit": result.commit,
        "error": result.error,
    }
    for split in ("train", "valid", "test"):
        tags[f"fingerprint.{split}"] = data.get(split, {}).get("fingerprint")
    for name, version in result.versions.items():
        tags[metric_key(f"version.{name}")] = version
    known = {name: value for name, value in tags.items() if value not in (None, "")}
    return {name: shortened(value, MAX_TAG_LENGTH) for name, value in known.items()}


def _tags_of_origin(result: RunResult) -> dict[str, str | None]:
    origin = result.origin
    return {
        "reused": origin.run if isinstance(origin, Copied) else None,
        "trial": "true" if isinstance(origin, Trial) else None,
        "final": "\n".join(result.notes) if isinstance(origin, Final) else None,
    }


def run_inputs(result: RunResult) -> list[DatasetInput]:
    """Returns the splits as MLflow data sets, identified by their fingerprints."""
    inputs = []
    for split, context in _CONTEXTS.items():
        described = result.data.get(split)
        if described is None:
            continue
        counts = {
            f"num_{name}": described.get(name)
            for name in ("documents", "queries", "features")
        }
        name = result.data["name"]
        fingerprint = described.get("fingerprint", "unknown")
        dataset = Dataset(
            name=_name(f"{name} {split}"),
            digest=shortened(fingerprint, _MAX_DIGEST_LENGTH),
            source_type="code",
            source=json.dumps({"name": name}),
            profile=json.dumps(counts),
        )
        inputs.append(
            DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, context)])
        )
    return inputs


def run_params(result: RunResult) -> list[Param]:
    """Returns the settings of the run: its model and data, those of the command, and every other setting that
    is not empty."""
    settings = {
        name: value
        for name, value in result.settings.items()
        if name not in _NO_PARAMETERS
    }
    if result.search:
        not_shown = ("default", "space")
        search = result.search.items()
        settings["search"] = {
            name: value for name, value in search if name not in not_shown
        }
    # The model repeats the shared parameters: `params.num_leaves` is shown as `model.num_leaves`.
    names = [name for name, _ in _flatten(settings)]
    repeated = {
        f"params.{name[6:]}": name for name in names if name.startswith("model.")
    }
    overrides = settings_of_overrides(result.overrides or ())
    given = {repeated.get(name, name) for name in overrides}
    params = _names(result)
    others = {}
    for name, value in _flatten(settings):
        if name in repeated or _TEXTS.match(name):
            continue
        if name in given:
            params[name] = value
        elif value not in (None, [], {}):
            others[name] = value
    return _params(params | others)


def _names(result: RunResult) -> dict[str, Any]:
    return {
        "model": result.model,
        "params": result.params,
        "data": result.data.get("name"),
    }


def _params(settings: Mapping[str, Any]) -> list[Param]:
    """Returns settings as parameters."""
    values = {}
    for name, value in settings.items():
        values[metric_key(name)] = "null" if value is None else value
    return [
        Param(key, shortened(value, _MAX_PARAM_LENGTH)) for key, value in values.items()
    ]


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def run_metrics(run: Run, model_id: str = "") -> list[Metric]:
    """Returns the values of the kept model, and the points of the learning curve.

    Args:
        model_id: model that the values of test are linked to, so that the model list shows them; "": none.
    """
    curve = run.learning_curve()
    moment = milliseconds(run.result.finished) or 0
    points = []
    for name, values in curve.values.items():
        key = metric_key(name.replace("/", _BY_ITERATION, 1))
        for iteration, value in zip(curve.iterations, values, strict=True):
            points.append(Metric(key, value, moment, iteration))
    return [*end_metrics(run, curve, model_id), *points]


def end_metrics(run: Run, curve: LearningCurve, model_id: str = "") -> list[Metric]:
    """Returns the values of the kept model at step 0: the NDCG, the other metrics, those of train, costs."""
    result = run.result
    moment = milliseconds(run.result.finished) or 0
    names = sorted(result.metrics, key=lambda name: not name.startswith("test/"))
    values: dict[str, float | None] = {name: result.metrics[name] for name in names}
    if result.best_iteration in curve.iterations:
        kept = curve.iterations.index(result.best_iteration)
        for name, of_curve in curve.values.items():
            # The metrics of result.json are the published ones.
            values.setdefault(name, of_curve[kept])
    values["best_iteration"] = result.best_iteration
    for kind, seconds in result.seconds.items():
        values[f"seconds/{kind}"] = seconds
    values["peak_memory_mb"] = result.peak_memory_mb
    known = {
        metric_key(name): value for name, value in values.items() if value is not None
    }
    points = []
    for name in dict.fromkeys([*shown_metrics(known), *known]):
        of_model = None
        if model_id and name.startswith("test/"):
            of_model = model_id
        points.append(Metric(name, known[name], moment, 0, model_id=of_model))
    return points


def plain_metrics(values: Mapping[str, float]) -> list[Metric]:
    """Returns one point at step 0 for each value."""
    now = int(time.time() * 1000)
    points = []
    for name, value in values.items():
        key = metric_key(name)
        points.append(Metric(key, value, now, 0))
    return points


def metric_key(name: str) -> str:
    """Returns a name in the characters that MLflow allows: letters, digits, blanks, _ - . and / between
    parts.

    >>> metric_key("valid/ndcg@10"), metric_key("extra.a[0]"), metric_key("../etc//x/")
    ('valid/ndcg_at_10', 'extra.a_0_', 'etc/x')
    """
    allowed = re.sub(r"[^\w/. -]", "_", name.replace("@", "_at_"))
    # A key may become a path in MLflow's store, and must not lead out of it.
    unsafe = ("", ".", "..")
    parts = [part for part in allowed.split("/") if part not in unsafe]
    return "/".join(parts)[:_MAX_KEY_LENGTH] or "_"


def shortened(value: object, length: int) -> str:
    """Returns a value as text of at most `length` characters, with passwords in addresses masked."""
    text = visible(without_password(str(value)), lines=True)
    if len(text) <= length:
        return text
    return f"{text[: length - 1]}…"


def milliseconds(moment: str) -> int | None:
    if moment:
        return int(datetime.fromisoformat(moment).timestamp() * 1000)
    return None


# ---- Logs models to MLflow: a model of a library in the library's MLflow flavor, other rankers as saved.

_CLASS_FILE = "class.json"
_QUERY_COLUMN = "qid"
"""Column of the queries, which a list-wise ranker needs."""


def save_model(run: Run, folder: Path, **of_mlflow: Any) -> None:
    """Writes the model of a finished run as an MLflow model, to a folder that does not exist yet.

    Args:
        of_mlflow: `mlflow_model`, with the ids assigned by MLflow.
    """
    # Imported late, because the import takes a second and is needed only when a model is logged.
    import mlflow.pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    ranker = load_ranker(_target(run), run.path / MODEL_FOLDER)
    ranker.feature_names = tuple(run.result.feature_names or ())
    library = _model_of_library(ranker)
    outputs = Schema([ColSpec(DataType.double)])
    signature = ModelSignature(_input_schema(run, ranker), outputs)
    common: dict[str, Any] = {
        "signature": signature,
        "input_example": _input_example(run, ranker),
        "pip_requirements": _requirements(ranker, library),
        **of_mlflow,
    }
    if library is not None:
        package, model = library
        flavor = importlib.import_module(f"mlflow.{package}")
        flavor.save_model(model, str(folder), **common)
        return
    saved = folder.with_name(f"{folder.name}-saved")
    shutil.copytree(run.path / MODEL_FOLDER, saved / MODEL_FOLDER)
    described = {"class": _target(run), "features": run.result.feature_names}
    (saved / _CLASS_FILE).write_text(json.dumps(described) + "\n")
    mlflow.pyfunc.save_model(
        str(folder), loader_module=__name__, data_path=str(saved), **common
    )


def _input_schema(run: Run, ranker: Ranker) -> Any:
    """Returns the columns of the input: MLflow finds them by name, in any order.

    A column may have integers, floats or texts, as in the training table: MLflow would refuse integers for a
    column of floats.
    """
    from mlflow.types import ColSpec, Schema, TensorSpec
    from mlflow.types.schema import AnyType

    num_features = int(run.result.data["train"]["features"])
    if num_features > MOST_LISTED:  # MLflow takes minutes to write a million columns.
        every_feature = TensorSpec(np.dtype(np.float64), (-1, num_features))
        return Schema([every_feature])
    queries = [_QUERY_COLUMN] if ranker.is_listwise else []
    columns = columns_of_features(ranker.feature_names, ranker.encoded, ranker.encoded)
    names = [*columns, *queries]
    return Schema([ColSpec(AnyType(), name) for name in names])  # type: ignore[no-untyped-call]


def _input_example(run: Run, ranker: Ranker) -> pd.DataFrame | None:
    """Returns a few documents as a table with the texts of categories; None if none were stored."""
    example = run.input_example()
    if not len(example):
        return None
    frame = pd.DataFrame(example, columns=list(ranker.feature_names))
    for name, texts in ranker.categories.items():
        codes = frame[name].tolist()
        known = [code for code in set(codes) if not np.isnan(code)]
        in_words = {code: texts[int(code)] for code in known}
        frame[name] = [in_words.get(code) for code in codes]
    for name, texts in ranker.encoded.items():
        of_category = frame[encoded_names(name, texts)].to_numpy()
        frame[name] = _texts_of_columns(of_category, texts)
    columns = columns_of_features(ranker.feature_names, ranker.encoded, ranker.encoded)
    frame = frame[list(columns)]
    for name, first in ranker.dates.items():
        days = pd.to_timedelta(frame[name], unit="D")
        frame[name] = (pd.Timestamp(first) + days).dt.strftime("%Y-%m-%dT%H:%M:%S")
    if ranker.is_listwise:
        frame[_QUERY_COLUMN] = "q1"
    return frame


def _texts_of_columns(of_category: Features, texts: Sequence[str]) -> list[str | None]:
    """Returns the text of each row, whose column of its category is 1; None if all columns are 0."""
    of_rows: list[str | None] = []
    for row in of_category:
        text = None
        if row.any():
            text = texts[int(row.argmax())]
        of_rows.append(text)
    return of_rows


def _model_of_library(ranker: Ranker) -> tuple[str, Any] | None:
    """Returns the package and the model with the names of the features, for the flavor of the package; None:
    the package cannot take the training table, whose names it forbids or whose categories have texts."""
    library = ranker.library_model()
    if library is None or ranker.categories or ranker.dates or ranker.encoded:
        return None
    package, model = library
    names = list(ranker.feature_names)
    if package == "xgboost" and names:
        if set("[]<") & set("".join(names)):
            return None
        model = model.copy()  # type: ignore[attr-defined]
        model.feature_names = names
    if package == "catboost" and names:
        model = model.copy()  # type: ignore[attr-defined]
        model.set_feature_names(names)
    return package, model


class ServedRanker:
    """The model object that MLflow calls to predict scores."""

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = ranker
        self.is_listwise = ranker.is_listwise

    # Without type annotations, because MLflow would interpret them as a schema.
    def predict(self, features, params=None):  # type: ignore[no-untyped-def]
        """Returns scores (D,), higher is ranked earlier, for features (D, F) in a DataFrame or an array."""
        del params
        return self._ranker.predict(features)


def _load_pyfunc(path: str) -> ServedRanker:
    """Loads a model for MLflow, which calls this function by name with the folder written by `save_model`."""
    folder = Path(path)
    content = read_json(folder / _CLASS_FILE, "Log the model again")
    ranker = load_ranker(content["class"], folder / MODEL_FOLDER)
    ranker.feature_names = tuple(content["features"] or ())
    return ServedRanker(ranker)


def _target(run: Run) -> str:
    return str(run.result.settings.get("model", {}).get("_target_"))


def _requirements(ranker: Ranker, library: tuple[str, Any] | None) -> list[str]:
    """Returns the pip requirements; MLflow would take seconds to infer them by loading the model in another
    process."""
    of_ranker = ["ltrbench", *ranker.packages]
    if library is not None:
        of_ranker = [library[0]]
    packages = ["mlflow", "numpy", *of_ranker]
    installed = versions(packages)
    return [f"{package}=={installed[package]}" for package in dict.fromkeys(packages)]
