"""A slow backend, which commands import from the folder in which they are started."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Self

from ltrbench.data import RankingDataset
from ltrbench.rankers.base import OnIteration
from ltrbench.rankers.random import RandomRanker

LOG = Path("fits")
"""File beside this module: one line per fit."""
SECONDS = 0.2


class Slow(RandomRanker):
    """Takes a moment to be trained and to be saved, and notes each fit."""

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        with _beside(LOG).open("a", encoding="utf-8") as log:
            log.write(f"{type(self).__name__} seed={self.seed}\n")
        time.sleep(SECONDS)
        return super().fit(train, valid, on_iteration)

    def save(self, folder: Path) -> None:
        super().save(folder)
        time.sleep(SECONDS)


def _beside(name: Path) -> Path:
    return Path(__file__).parent / name
