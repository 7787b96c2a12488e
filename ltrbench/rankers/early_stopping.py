"""Early stopping and learning curves, implemented once for all backends.

A backend creates a `Monitor` at the beginning of `fit`, passes it the scores after every iteration, and stops
when `should_stop` returns True. A backend never evaluates itself, so all backends stop by the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.measure.clock import Stopwatch
from ltrbench.metrics import evaluate, parse_metric, preset
from ltrbench.shapes import Scores


@dataclass(frozen=True, eq=False)
class Iteration:
    """Result of one boosting iteration.

    Attributes:
        number: number of trees after the iteration; 1 after the first.
        train_scores: (D,) scores of the training documents.
        valid_scores: (V,) scores of the validation documents; None without a validation set.
        left_out: (n,), in ascending order, the training documents that were not sampled in this iteration:
            the documents of the queries left out, or the documents left out one by one. None: no sampling.
    """

    number: int
    train_scores: Scores
    valid_scores: Scores | None = None
    left_out: NDArray[np.int64] | None = None


OnIteration = Callable[[Iteration], None]
"""Called after each iteration."""


# Not frozen, because OmegaConf makes the fields of a frozen dataclass read-only.
@dataclass
class EarlyStopping:
    """Early stopping: ends a fit when `metric` on the validation set has not improved for `patience`
    iterations, and keeps the best iteration.

    Only a strictly greater value is an improvement, so the earliest of equal iterations is kept.

    Attributes:
        metric: validation metric, such as ndcg@10.
        patience: number of iterations without improvement before the fit ends, 1 or more.
        convention: preset of the metric's convention; a library's preset stops where that library stops.
        minimum: pairs of a number of trees and a value: the fit ends there if its best value so far is below
            it. A search sets them to end trials without prospect.

    Raises:
        ConfigError: the metric or convention is unknown, the patience is below 1, or `minimum` does not
            consist of such pairs.
    """

    metric: str = "ndcg@10"
    patience: int = 100
    convention: str = "default"
    # Any, because OmegaConf refuses a whole number of trees in a list of floats.
    minimum: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        parse_metric(self.metric)
        preset(self.convention)
        if self.patience < 1:
            raise ConfigError(
                f"early_stopping.patience is {self.patience}; set it to 1 or more, or set "
                "early_stopping=null for no early stopping."
            )
        for place, pair in enumerate(self.minimum):
            if not _is_minimum(pair):
                raise ConfigError(
                    f"early_stopping.minimum[{place}] is {pair}; give pairs of a number of trees and "
                    "a value of the metric, as in early_stopping.minimum=[[50,0.4]]."
                )


def _is_minimum(pair: object) -> bool:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return False
    if any(isinstance(item, bool) or not isinstance(item, int | float) for item in pair):
        return False
    number, value = pair
    return number >= 1 and float(number).is_integer() and math.isfinite(value)


@dataclass
class Monitor:
    """Monitors one fit: calls `on_iteration` and applies early stopping.

    Attributes:
        rule: early-stopping rule; None: never stop.
        valid: validation set; without it the rule does not apply and every tree is kept.
        on_iteration: called with the scores of each iteration, for example for the learning curve.
        best_iteration: number of trees with the best value of the rule's metric; 0 if no rule applies.
        best_value: value of the metric at `best_iteration`.
        is_pruned: whether the fit ended below the rule's minimum.
        seconds: wall time spent in the monitor, which is evaluation time and not training time.
    """

    rule: EarlyStopping | None
    valid: RankingDataset | None
    on_iteration: OnIteration | None = None
    best_iteration: int = 0
    best_value: float = float("-inf")
    is_pruned: bool = False
    _watch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def seconds(self) -> float:
        return self._watch.seconds

    @property
    def wants_scores(self) -> bool:
        """Whether the scores are used; if not, a backend need not compute them."""
        return self.wants_train_scores or self._stops

    @property
    def wants_train_scores(self) -> bool:
        return self.on_iteration is not None

    @property
    def _stops(self) -> bool:
        return self.rule is not None and self.valid is not None

    def should_stop(
        self,
        iteration: int,
        train_scores: Scores | None,
        valid_scores: Scores | None,
        left_out: NDArray[np.int64] | None = None,
    ) -> bool:
        """Records an iteration; returns whether the fit must end.

        Args:
            iteration: number of trees after the iteration, from 1.
            train_scores: (D,) training scores; may be None if `wants_train_scores` is False.
            valid_scores: (V,) validation scores; None without a validation set.
            left_out: as in `Iteration`, from a ranker that samples.
        """
        with self._watch:
            if self.on_iteration is not None and train_scores is not None:
                self.on_iteration(Iteration(iteration, train_scores, valid_scores, left_out))
            return self._apply_rule(iteration, valid_scores)

    def _apply_rule(self, iteration: int, valid_scores: Scores | None) -> bool:
        if self.rule is None or self.valid is None or valid_scores is None:
            return False
        metric, convention = self.rule.metric, preset(self.rule.convention)
        value = evaluate(self.valid, valid_scores, [metric], convention=convention).means[metric]
        if value > self.best_value:
            self.best_iteration, self.best_value = iteration, value
        self.is_pruned = any(
            iteration == number and self.best_value < value for number, value in self.rule.minimum
        )
        return self.is_pruned or iteration - self.best_iteration >= self.rule.patience
