"""Native rankers for searches, one with a fault; commands import them as they import fault_backend."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Self

from ltrbench.data import RankingDataset
from ltrbench.rankers.base import OnIteration
from ltrbench.rankers.native import NativeRanker

LOG = Path("fits")
"""File beside this module: one line per fit."""
SECONDS = 0.1
FATAL_LEAVES = 8


class Steady(NativeRanker):
    """Takes a moment to be trained, and notes each fit."""

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        with (Path(__file__).parent / LOG).open("a", encoding="utf-8") as log:
            log.write(f"{type(self).__name__} num_leaves={self.num_leaves}\n")
        time.sleep(SECONDS)
        return super().fit(train, valid, on_iteration)


class Fragile(Steady):
    """Ends its process by a segmentation fault if its trees have `FATAL_LEAVES` leaves."""

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        if self.num_leaves == FATAL_LEAVES:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().fit(train, valid, on_iteration)
