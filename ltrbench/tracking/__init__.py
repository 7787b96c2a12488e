"""Tracking of runs in external stores. Each tracker is one file; only its YAML imports it.

mlflow      logs run folders to MLflow: tags, parameters, metrics, data sets and models
evaluator   the metrics of ltrbench in `mlflow.models.evaluate`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ltrbench.errors import TrackingError
from ltrbench.runs import Run


class Tracker(ABC):
    """Opened before any timing starts, receives every run of the command, and is always closed.

    All methods raise `TrackingError` if the store cannot be reached.
    """

    @abstractmethod
    def open(self, sweep: str | None, identity: str = "") -> None:
        """Connects to the store, or finds that this will work later, so that a wrong address is reported
        before hours of training.

        Args:
            sweep: folder of the sweep, for which a parent run is opened; None for a single run.
            identity: identity of the sweep; its parent run is used again if the store has one. Empty: a new
                parent run.
        """

    @abstractmethod
    def log(self, run: Run) -> None:
        """Logs a finished or failed run from its folder, as a child of the parent run if there is one.

        A run that is in the store already is not logged again. After a failure the next call works if the
        store is available again.
        """

    def summarize(  # noqa: B027  # optional: a tracker may have no parent runs
        self,
        folder: Path,
        text: str,
        best: Run | None,
        values: Mapping[str, float],
    ) -> None:
        """Logs the comparison of a sweep to its parent run; called before `close`.

        Args:
            folder: folder with the tables and pictures of the comparison.
            text: the tables as Markdown.
            best: the best run by validation; None if no run has a validation metric.
            values: metric of each row over its folds and seeds, such as "native/ndcg@10", and of the best
                row, such as "test/ndcg@10".
        """

    @property
    def has_registry(self) -> bool:
        """Whether `register` is supported."""
        return False

    def register(self, name: str, run: Run, reason: str, again: bool = True) -> str:
        """Registers the model of a logged run as the next version and the champion of `name`; a run that is
        a version already stays that version.

        Args:
            reason: which model it is and why it was chosen, for the description of the version.
            again: whether it becomes the champion although a run of the sweep has been registered before.

        Returns:
            The address of the version, for the closing lines of a command.
        """
        raise TrackingError(
            f"{type(self).__name__} has no model registry; use tracking=mlflow."
        )

    @abstractmethod
    def close(self, status: str) -> None:
        """Ends the parent run, if there is one.

        Args:
            status: "finished"; "failed" if any job failed; "interrupted".
        """

    @property
    def where(self) -> str:
        """Location of the store, for the closing lines of a command; empty if there is none."""
        return ""


@dataclass(frozen=True)
class NoTracking(Tracker):
    """Writes only the run folders, and imports no tracking library."""

    def open(self, sweep: str | None, identity: str = "") -> None:
        """Does nothing."""

    def log(self, run: Run) -> None:
        """Does nothing."""

    def close(self, status: str) -> None:
        """Does nothing."""
