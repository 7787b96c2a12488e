"""Random search: every setting is drawn from its range, independently of the others and of other trials.

Bergstra and Bengio, 2012, "Random Search for Hyper-Parameter Optimization": few settings matter, and random
trials try more values of each of them than a grid of the same size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ltrbench.errors import ConfigError, require, require_choice
from ltrbench.search.base import BATCH, PER_FOLD, Proposal, Search, SearchedModel, Trial
from ltrbench.search.optuna_study import draw
from ltrbench.search.pruning import MINIMA
from ltrbench.search.space import Range, Value


@dataclass(kw_only=True)
class RandomSearch(Search):
    """Proposes random settings; all backends try the same values of the settings that they share.

    Attributes:
        batch: number of trials that are proposed together. Without `seconds` and `pruning`, random search
            proposes all trials at once.
        pruning: rule that ends fits without prospect, by the learning curves of earlier batches: median or
            hyperband; None: no pruning. It needs choose=per_fold, because folds differ in difficulty.
        warm_up: number of trials that are not pruned, the first ones.

    Raises:
        ConfigError: a value is unknown or out of range.
    """

    batch: int = BATCH
    pruning: str | None = None
    warm_up: int = BATCH

    def __post_init__(self) -> None:
        super().__post_init__()
        require("search.batch", self.batch, at_least=1)
        require("search.warm_up", self.warm_up, at_least=1)
        require_choice("search.pruning", self.pruning, list(MINIMA))
        if self.pruning is not None and self.choose != PER_FOLD:
            raise ConfigError(
                f"search.pruning is {self.pruning}, which compares fits on one fold, but search.choose is "
                f"{self.choose}. Set search.choose={PER_FOLD} or search.pruning=null; search=halving ends "
                "trials early on several folds."
            )

    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        if not model.space:
            return [] if trials else [Proposal(0, dict(model.default))]
        numbers = self.next_numbers(trials, self._size_of_batch())
        settings = self._settings(model.space, trials, numbers)
        return [
            Proposal(
                number,
                settings[number] if number > 0 else dict(model.default),
                minimum=self._minimum(number, trials, model.num_trees),
            )
            for number in numbers
        ]

    def _size_of_batch(self) -> int | None:
        """Returns None if no trial depends on an earlier one."""
        return None if self.seconds is None and self.pruning is None else self.batch

    def _settings(
        self, space: Mapping[str, Range], trials: Sequence[Trial], numbers: range
    ) -> dict[int, dict[str, Value]]:
        """Returns number of a trial -> its settings."""
        return {number: draw(space, self.seed, number) for number in numbers}

    def _minimum(self, number: int, trials: Sequence[Trial], num_trees: int) -> dict[int, float]:
        if self.pruning is None or number < self.warm_up:
            return {}
        # Not the trials of the same batch, so that a trial does not depend on where a search was interrupted.
        earlier = trials[: number - number % self.batch]
        return MINIMA[self.pruning](number, earlier, num_trees)
