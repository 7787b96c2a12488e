"""MLflow, fed from run folders: a parent run a sweep, a child a job, and the folder itself as artifacts.

MLflow allows no `@`, so `ndcg@10` is `ndcg_at_10` here. A key such as `valid/ndcg_at_10` is the learning
curve, a point an iteration; the value of the kept model is added as its last point, so that the figure that
MLflow shows for the run is that of the model that was kept, not of the last iteration that was tried.

Only `MlflowClient` is used, with its address given, so that the caller's own MLflow state is never touched.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ltrbench.errors import TrackingError
from ltrbench.results import FINISHED, LearningCurve, Run, RunResult
from ltrbench.tracking.base import Tracker

try:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param
    from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_SOURCE_NAME
except ImportError as error:
    raise ImportError("tracking=mlflow needs the package mlflow: pip install mlflow") from error

SQLITE = "sqlite:///"

# What the server takes in one request, and in one text.
_MAX_METRICS = 1000
_MAX_PARAMS = 100
_MAX_PARAM_LENGTH = 6000
_MAX_TAG_LENGTH = 5000

# An absent server should be known in seconds; MLflow's own patience is minutes.
_HTTP_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}

# Makes the UI open on runs and their metrics, not on the traces of language models.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}

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

    _client: Any = field(default=None, init=False, repr=False)
    _experiment_id: str = field(default="", init=False, repr=False)
    _parent: str = field(default="", init=False, repr=False)
    _sweep: str = field(default="", init=False, repr=False)

    def open(self, sweep: str | None) -> None:
        with self._reaching_the_store():
            self._client = MlflowClient(tracking_uri=self.uri)
            self._experiment_id = self._find_or_create_experiment()
            if sweep is not None:
                tags = {MLFLOW_SOURCE_NAME: "python -m ltrbench", "sweep": sweep, "kind": "sweep"}
                parent = self._client.create_run(self._experiment_id, run_name=sweep, tags=tags)
                self._parent, self._sweep = parent.info.run_id, sweep

    def log(self, run: Run) -> None:
        result = run.result
        with self._reaching_the_store():
            created = self._client.create_run(
                self._experiment_id,
                start_time=_milliseconds(result.started),
                run_name=_run_name(result),
                tags=_tags(result, self._parent),
            )
            run_id = created.info.run_id
            for batch in _batches(_params(result), _MAX_PARAMS):
                self._client.log_batch(run_id, params=batch)
            for batch in _batches(_metrics(run), _MAX_METRICS):
                self._client.log_batch(run_id, metrics=batch)
            for path in sorted(run.path.iterdir()):
                # Hydra's own hidden folder repeats the configuration that result.json holds.
                if not path.name.startswith("."):
                    self._log_artifact(run_id, path)
            status = "FINISHED" if result.status == FINISHED else "FAILED"
            self._client.set_terminated(run_id, status, _milliseconds(result.finished))

    def close(self, status: str) -> None:
        if self._parent:
            with self._reaching_the_store():
                self._client.set_terminated(self._parent, _MLFLOW_STATUS[status])
            self._parent = ""

    @property
    def where(self) -> str:
        return f"{self.uri}, experiment '{self.experiment}'"

    def _log_artifact(self, run_id: str, path: Path) -> None:
        if path.is_dir():
            self._client.log_artifacts(run_id, str(path), artifact_path=path.name)
        else:
            self._client.log_artifact(run_id, str(path))

    def _find_or_create_experiment(self) -> str:
        found = self._client.get_experiment_by_name(self.experiment)
        if found is None:
            location = _artifact_location(self.uri)
            return str(self._client.create_experiment(self.experiment, location, tags=_EXPERIMENT_TAGS))
        if found.lifecycle_stage != "active":
            raise TrackingError(
                f"the MLflow experiment '{self.experiment}' at {self.uri} was deleted; choose another with "
                "tracking.experiment=NAME, or restore it with `mlflow experiments restore`."
            )
        return str(found.experiment_id)

    @contextlib.contextmanager
    def _reaching_the_store(self) -> Iterator[None]:
        """Turns whatever a store says into one sentence with the remedy."""
        with _patience(), _quiet():
            try:
                yield
            except TrackingError:
                raise
            # A store answers with exceptions of MLflow, of its database and of its network layer alike.
            except Exception as error:
                raise TrackingError(
                    f"the MLflow store {self.uri} cannot be used: {_first_line(error)}. Name another with "
                    "tracking.uri=sqlite:///FILE or http://HOST:PORT, or go without: tracking=none."
                ) from error


def _artifact_location(uri: str) -> str | None:
    """Beside the database file, whichever folder the UI is started in later; a server decides for itself."""
    if not uri.startswith(SQLITE):
        return None
    database = Path(uri.removeprefix(SQLITE)).resolve()
    return (database.parent / "mlruns").as_uri()


def _run_name(result: RunResult) -> str:
    fold = result.data.get("fold")
    return result.model if fold is None else f"{result.model} fold {fold}"


def _tags(result: RunResult, parent: str) -> dict[str, str]:
    data = result.data
    tags = {
        MLFLOW_SOURCE_NAME: "python -m ltrbench",
        "kind": "run",
        "backend": result.model,
        "params": result.params,
        "data": str(data.get("name", "")),
        "convention": str(result.convention.get("name", "")),
        "command": " ".join(["python -m ltrbench", *result.overrides]),
    }
    if data.get("fold") is not None:
        tags["fold"] = str(data["fold"])
    for split in ("train", "valid", "test"):
        if split in data:
            tags[f"fingerprint.{split}"] = data[split]["fingerprint"]
    if result.commit:
        tags["commit"] = result.commit
    for name, version in result.versions.items():
        tags[f"version.{name}"] = version
    if result.error:
        tags["error"] = result.error
    if result.sweep:
        tags["sweep"] = result.sweep
    if parent:
        tags[MLFLOW_PARENT_RUN_ID] = parent
    return {name: _shortened(text, _MAX_TAG_LENGTH) for name, text in tags.items()}


def _params(result: RunResult) -> list[Any]:
    flat = dict(_flatten(result.config))
    return [Param(name, _shortened(str(value), _MAX_PARAM_LENGTH)) for name, value in flat.items()]


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        key = _key(f"{prefix}{name}")
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{key}.")
        else:
            yield key, "null" if value is None else value


def _metrics(run: Run) -> list[Any]:
    """The learning curve, then the final values one step behind its end, so that they are the latest."""
    result, curve = run.result, run.learning_curve()
    now = _milliseconds(result.finished)
    points = [
        Metric(_key(name), value, now, iteration)
        for name, values in curve.values.items()
        for iteration, value in zip(curve.iterations, values, strict=True)
    ]
    last = curve.iterations[-1] + 1 if curve.iterations else 0
    final: dict[str, float | None] = {
        **_at_iteration(curve, result.best_iteration),
        **result.metrics,
        **{f"seconds/{kind}": value for kind, value in result.seconds.items()},
        "peak_memory_mb": result.peak_memory_mb,
        "best_iteration": result.best_iteration,
    }
    points += [Metric(_key(name), value, now, last) for name, value in final.items() if value is not None]
    return points


def _at_iteration(curve: LearningCurve, iteration: int | None) -> dict[str, float | None]:
    """The curve's values at the iteration that was kept."""
    if iteration not in curve.iterations:
        return {}
    place = curve.iterations.index(iteration)
    return {name: values[place] for name, values in curve.values.items()}


def _key(name: str) -> str:
    """A name as MLflow allows it: letters, digits, and _ - . / and blanks."""
    replaced = name.replace("@", "_at_")
    return "".join(
        character if character.isalnum() or character in "_-./ " else "_" for character in replaced
    )


def _batches(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _milliseconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or ["no reason given"]
    # Network layers repeat the request in every layer; what went wrong stands in the innermost one.
    innermost = lines[0].rpartition("(Caused by ")[2].rstrip(") .'\"")
    return f"{type(error).__name__}: {_shortened(innermost, 300)}"


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """MLflow reads its patience from the environment; what the user has set there stays."""
    added = {name: value for name, value in _HTTP_PATIENCE.items() if name not in os.environ}
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
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
