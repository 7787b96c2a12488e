"""Logs run folders to MLflow: one parent run per sweep, one child run per job, the run folder as artifacts.

store       what is stored when, each content once
entities    converts a run to MLflow's tags, parameters, metric points and data sets
models      writes and loads MLflow models

This module imports MLflow only when a store is opened, because MLflow takes seconds. To show more of a run,
add an entry to `run_tags`, `run_params` or `run_metrics` of `entities`.

Only `MlflowClient` is used, with an explicit address, so the MLflow state of the caller is never changed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ltrbench.measure import versions, without_password
from ltrbench.runs.record import Run
from ltrbench.tracking import Tracker

if TYPE_CHECKING:
    from ltrbench.tracking.mlflow.store import MLflowStore

CHAMPION = "champion"
"""The alias of the version of a registered model that users should load."""

SQLITE = "sqlite:///"

OPENED_WITH = "ltrbench.opened_with"
"""Tag of an experiment: the version of MLflow that has opened it, and which can therefore open it again."""

_OTHER_STORE = (
    "Set another store with tracking.uri=sqlite:///FILE or http://HOST:PORT, or disable tracking with "
    "tracking=none."
)
SYNC = "The run folders are not affected: python -m ltrbench sync DIR stores the missing runs of DIR later."
"""What to do if runs could not be stored."""

_TAG_OF_EXPERIMENT = """
    SELECT tag.value FROM experiments AS experiment
    JOIN experiment_tags AS tag ON tag.experiment_id = experiment.experiment_id
    WHERE experiment.name = ? AND experiment.lifecycle_stage = 'active' AND tag.key = ?
"""


@dataclass
class MLflowTracker(Tracker):
    """Logs runs to an MLflow store.

    A store in a file that can certainly be used is opened for the first run that is logged, after the work:
    MLflow takes seconds to import and to open. Any other store is opened at once.

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
        self._store: MLflowStore | None = None
        self._sweep: str | None = None
        self._identity = ""
        self._started = 0.0
        self._database: Path | None = None

    def open(self, sweep: str | None, identity: str = "") -> None:
        self._store = None
        self._sweep = sweep
        self._identity = identity
        self._started = time.time()
        if self.uri.startswith(SQLITE):
            # Absolute, because MLflow caches a store by its address, regardless of the current folder.
            self._database = Path(self.uri.removeprefix(SQLITE)).resolve()
        if not self._is_certainly_usable():
            self._connect(self.remedy)

    def _is_certainly_usable(self) -> bool:
        """Returns whether the file can be created, or has the experiment in the form of this MLflow."""
        if self._database is None:
            return False
        folder = self._database.parent
        if not os.access(folder, os.W_OK | os.X_OK):
            return False
        if not self._database.exists():
            return folder.is_dir()
        if not os.access(self._database, os.R_OK | os.W_OK):
            return False
        address = f"file:{quote(str(self._database))}?mode=ro"
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(
                sqlite3.connect(address, uri=True, timeout=0.1)
            ) as connection,
        ):
            installed = versions(["mlflow"])["mlflow"]
            key = (self.experiment, OPENED_WITH)
            found = connection.execute(_TAG_OF_EXPERIMENT, key).fetchone()
            return bool(found and found[0] == installed)
        return False

    def _connect(self, remedy: str) -> MLflowStore:
        # Imported late, because MLflow takes seconds.
        from ltrbench.tracking.mlflow.store import MLflowStore

        address = self.uri
        if self._database is not None:
            address = f"{SQLITE}{self._database}"
        store = MLflowStore(address, self.experiment, self.models)
        store.open(self._sweep, self._identity, self._started, remedy)
        self._store = store
        return store

    def _opened(self) -> MLflowStore:
        return self._store or self._connect(SYNC)

    def log(self, run: Run) -> None:
        store = self._opened()
        self.num_stored += store.log(run)

    def summarize(
        self,
        folder: Path,
        text: str,
        best: Run | None,
        values: Mapping[str, float],
    ) -> None:
        store = self._opened()
        store.summarize(folder, text, best, values)

    @property
    def has_registry(self) -> bool:
        return self.models

    def register(self, name: str, run: Run, reason: str, again: bool = True) -> str:
        return self._opened().register(name, run, reason, again)

    def close(self, status: str) -> None:
        # Without a run to log, a sweep has no parent run either.
        if self._store is not None:
            self._store.close(status)

    @property
    def where(self) -> str:
        return f"{without_password(self.uri)}, experiment '{self.experiment}'"
