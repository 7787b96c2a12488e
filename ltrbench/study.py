"""The contract of a study that is no run: it trains and measures as it needs, and leaves a table.

Its YAML is in conf/experiment and sets `study`: `what`, whose `_target_` names the class, and the `models`
and `data` that it is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from ltrbench.data.sources import DataSource
from ltrbench.rankers import Ranker


class Study(ABC):
    """A dataclass of its settings, as a Ranker is."""

    @abstractmethod
    def run(self, models: Mapping[str, Ranker], data: Mapping[str, DataSource]) -> Path:
        """Does all of it; returns the file of the table."""
