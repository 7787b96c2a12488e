"""Search with a tree-structured Parzen estimator (TPE), which learns from the trials so far.

Trials are proposed in batches of fixed size. A batch depends on the trials of earlier batches only, so that
the same seed gives the same search whatever the number of workers. The smaller the batch, the more each trial
learns from the others, and the fewer trials run at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ltrbench.errors import require
from ltrbench.search.base import BATCH, Trial
from ltrbench.search.optuna_study import ask, draw
from ltrbench.search.random import RandomSearch
from ltrbench.search.space import Range, Value


@dataclass(kw_only=True)
class TpeSearch(RandomSearch):
    """Proposes the settings that are most likely among the best trials, compared with the others.

    Attributes:
        startup: number of trials with random settings, the first ones; those of `RandomSearch` with the same
            seed.

    Raises:
        ConfigError: a value is unknown or out of range.
    """

    startup: int = BATCH

    def __post_init__(self) -> None:
        super().__post_init__()
        require("search.startup", self.startup, at_least=1)

    def _size_of_batch(self) -> int | None:
        return self.batch

    def _settings(
        self, space: Mapping[str, Range], trials: Sequence[Trial], numbers: range
    ) -> dict[int, dict[str, Value]]:
        begin = numbers.start - numbers.start % self.batch
        # Also the trials of this batch that have ended: the others depend on what was proposed before them.
        batch = range(begin, numbers.stop)
        settings = {number: draw(space, self.seed, number) for number in batch if number < self.startup}
        modelled = [number for number in batch if number >= self.startup]
        if modelled:
            settings |= zip(modelled, ask(space, self.seed, trials[:begin], modelled), strict=True)
        return settings
