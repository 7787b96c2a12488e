"""The Tracker contract: where finished runs are shown, beside the folders that hold them.

The folder is the truth and a tracker its mirror: it is given a run after the run stands on disk, and losing
the tracker loses nothing. To add one, write a dataclass in one file and one YAML in conf/tracking.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from ltrbench.errors import TrackingError
from ltrbench.results import Run


class Tracker(ABC):
    """Opened before any clock runs, handed every run of the command, closed whatever happens.

    All methods raise `TrackingError` when the store cannot be reached.
    """

    @abstractmethod
    def open(self, sweep: str | None) -> None:
        """Reaches the store, so that a wrong address is known before hours of training.

        Args:
            sweep: the name of the sweep, for which a parent run is opened; None for a single run.
        """

    @abstractmethod
    def log(self, run: Run) -> None:
        """Mirrors a run, finished or failed, from its folder; under the parent where there is one."""

    def watching(self) -> AbstractContextManager[None]:
        """Held around the work of a run, for a tracker that measures the machine meanwhile."""
        return contextlib.nullcontext()

    def summarize(  # noqa: B027  # a mirror may have no room
        self,
        folder: Path,
        text: str,
        best: Run | None,
        figures: Mapping[str, float],
        claims: Mapping[str, str],
    ) -> None:
        """Mirrors the comparison of a sweep to its parent run, before `close`.

        Args:
            folder: the comparison's tables and pictures.
            text: its tables, as Markdown.
            best: the best run by validation; None where no run has one.
            figures: of each row over its folds and seeds, such as "native/ndcg@10", and of the best one such
                as "test/ndcg@10".
            claims: what is claimed of each pair of rows, and of what, by the names of the pairs.
        """

    @property
    def has_registry(self) -> bool:
        """Whether `register` can be asked for."""
        return False

    def register(self, name: str, run: Run, reason: str) -> str:
        """Makes a logged run's model the next version of the registered model `name`, and its champion.

        Args:
            reason: which model it is and why it was chosen, for the version's description.

        Returns:
            Where it is now, for the closing lines of a command.
        """
        raise TrackingError(f"{type(self).__name__} has no registry for '{name}' and {run.path} ({reason}).")

    @abstractmethod
    def close(self, status: str) -> None:
        """Ends the parent run, where there is one.

        Args:
            status: "finished"; "failed" where any job failed; "interrupted".
        """

    @property
    def where(self) -> str:
        """Where to look, for the closing lines of a command; empty where there is nothing to look at."""
        return ""


@dataclass(frozen=True)
class NoTracking(Tracker):
    """Keeps the run folders only, and imports no tracking library."""

    def open(self, sweep: str | None) -> None:
        del sweep

    def log(self, run: Run) -> None:
        del run

    def close(self, status: str) -> None:
        del status
