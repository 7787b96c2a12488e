"""Early stopping and the learning curve: the one place where a fit is watched, the same for every backend.

A backend opens a `Monitor` at the beginning of `fit`, hands it the scores after every iteration, and stops
when told to. It never evaluates itself, so that no two backends can be stopped by different rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.measure.clock import Stopwatch
from ltrbench.metrics import evaluate, parse_metric, preset
from ltrbench.shapes import Scores


@dataclass(frozen=True, eq=False)
class Iteration:
    """What an iteration led to.

    Attributes:
        number: how many trees there are now; the first iteration's is 1.
        train_scores: (D,).
        valid_scores: (V,); None without a validation set.
        left_out: (n,), rising, the documents of train that this iteration had nothing to do with, where the
            ranker samples: those of the queries that it left out, or else those that it left out one by one.
    """

    number: int
    train_scores: Scores
    valid_scores: Scores | None = None
    left_out: NDArray[np.int64] | None = None


OnIteration = Callable[[Iteration], None]
"""Called after each iteration."""


# Not frozen, because OmegaConf takes the fields of a frozen dataclass for read-only.
@dataclass
class EarlyStopping:
    """Stop when `metric` on the validation set has not grown for `patience` iterations; keep the best
    iteration.

    Strictly greater improves, so that the earliest of equals is kept.

    Attributes:
        metric: what is watched, such as ndcg@10.
        patience: iterations without improvement before the fit ends, 1 or more.
        convention: the preset under which it is watched; a library's own, to stop where that library stops.

    Raises:
        ConfigError: on an unknown metric or convention, or a patience below 1.
    """

    metric: str = "ndcg@10"
    patience: int = 100
    convention: str = "default"

    def __post_init__(self) -> None:
        parse_metric(self.metric)
        preset(self.convention)
        if self.patience < 1:
            raise ConfigError(
                f"early_stopping.patience is {self.patience}; it must be 1 or more, or early_stopping=null."
            )


@dataclass
class Monitor:
    """Watches one fit: feeds `on_iteration` and applies the stopping rule.

    Attributes:
        rule: when to stop; None: never.
        valid: what the rule looks at; without it the rule cannot be applied and every tree is kept.
        on_iteration: who else wants the scores, such as the learning curve.
        best_iteration: the number of trees at which the rule's metric was best; 0 where there is no rule to
            apply.
        best_value: that metric's value there.
        seconds: wall time spent in here, which is the price of watching and not of learning.
    """

    rule: EarlyStopping | None
    valid: RankingDataset | None
    on_iteration: OnIteration | None = None
    best_iteration: int = 0
    best_value: float = float("-inf")
    _watch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def seconds(self) -> float:
        return self._watch.seconds

    @property
    def wants_scores(self) -> bool:
        """Whether anyone looks at the scores; if not, a backend need not compute them."""
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
        """Takes note of an iteration; True when the fit must end.

        Args:
            iteration: how many trees there are now, from 1.
            train_scores: (D,) of train; may be None where `wants_train_scores` is False.
            valid_scores: (V,) of valid, None where there is no validation set.
            left_out: as in `Iteration`; for a ranker that samples.
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
        return iteration - self.best_iteration >= self.rule.patience
