"""Early stopping and learning curves, implemented once for all backends.

A backend creates a `Monitor` at the beginning of `fit`, passes it the scores after every iteration, and stops
when `should_stop` returns True. A backend never evaluates itself, so all backends stop by the same rule.

In a fit by several members each member has the scores of its shard only. `MemberMonitor` joins the values of
the queries of all members, so that every member decides alike, by the values that one process would have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.distributed.shards import QueryShard
from ltrbench.errors import ConfigError
from ltrbench.measure.clock import Stopwatch
from ltrbench.metrics import Evaluation, evaluate, left_out_judgments, parse_metric, preset
from ltrbench.metrics.evaluation import Weighting
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
        value = self._mean(evaluate(self.valid, valid_scores, [metric], convention=convention), metric)
        if value > self.best_value:
            self.best_iteration, self.best_value = iteration, value
        self.is_pruned = any(
            iteration == number and self.best_value < value for number, value in self.rule.minimum
        )
        return self.is_pruned or iteration - self.best_iteration >= self.rule.patience

    def _mean(self, evaluation: Evaluation, metric: str) -> float:
        """Returns the mean of a metric of the validation set."""
        return evaluation.means[metric]


class JoinsArrays(Protocol):
    """The members of a fit, as far as backends and monitors use them.

    Attributes:
        rank: number of this member, from 0.
    """

    rank: int

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns the one-dimensional arrays of all members, by rank."""


FitCurve = tuple[list[int], dict[str, list[float]]]
"""Number of trees of each recorded iteration; and "train/ndcg@10", "valid/ndcg@10", ... -> its values."""


class MemberMonitor(Monitor):
    """The monitor of one member of a fit: every member records the same curve and decides alike.

    Every member calls `should_stop` in every iteration, because the members exchange values in it.

    Args:
        team: the members.
        train: training queries of this member.
        valid: validation queries of this member; None: no member has any.
        metrics: metrics of the learning curve; empty: no curve is recorded.

    Attributes:
        curve: the learning curve of the whole training and validation set.
    """

    def __init__(
        self,
        rule: EarlyStopping | None,
        team: JoinsArrays,
        train: QueryShard,
        valid: QueryShard | None,
        metrics: Sequence[str],
    ) -> None:
        super().__init__(rule, None if valid is None else valid.dataset, self._record if metrics else None)
        self.curve: FitCurve = ([], {})
        self._team, self._train_shard, self._valid_shard = team, train, valid
        self._metrics = tuple(metrics)
        self._before: Scores | None = None

    def _record(self, iteration: Iteration) -> None:
        train, valid = self._train_shard, self._valid_shard
        self.curve[0].append(iteration.number)
        self._append("train", self._means(train, iteration.train_scores))
        if valid is not None and iteration.valid_scores is not None:
            self._append("valid", self._means(valid, iteration.valid_scores))
        if iteration.left_out is not None:
            before = np.zeros(len(iteration.train_scores)) if iteration.number == 1 else self._before
            self._append("oob", self._improvement(iteration, iteration.left_out, before))
        self._before = iteration.train_scores

    def _append(self, kind: str, means: Mapping[str, float]) -> None:
        for name, mean in means.items():
            self.curve[1].setdefault(f"{kind}/{name}", []).append(mean)

    def _means(self, shard: QueryShard, scores: Scores) -> dict[str, float]:
        evaluation = evaluate(shard.dataset, scores, self._metrics)
        return joined_means(self._team, shard.queries, evaluation, self._metrics)

    def _improvement(
        self, iteration: Iteration, left_out: NDArray[np.int64], before: Scores | None
    ) -> dict[str, float]:
        """Returns the out-of-bag improvement; NaN if the scores before the iteration were not reported."""
        if before is None:
            return dict.fromkeys(self._metrics, np.nan)
        after = iteration.train_scores
        queries: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        evaluations: list[Evaluation | None] = [None, None]
        if left_out.size:  # another member may have left out documents although this one did not
            chosen, judgments = left_out_judgments(self._train_shard.dataset, left_out)
            queries = self._train_shard.queries[chosen]
            evaluations = [evaluate(judgments, of[left_out], self._metrics) for of in (before, after)]
        old, new = (joined_means(self._team, queries, each, self._metrics) for each in evaluations)
        return {name: new[name] - old[name] for name in self._metrics}

    def _mean(self, evaluation: Evaluation, metric: str) -> float:
        assert self._valid_shard is not None  # a rule applies only with a validation set
        return joined_means(self._team, self._valid_shard.queries, evaluation, [metric])[metric]


def joined_means(
    team: JoinsArrays, queries: NDArray[np.int64], evaluation: Evaluation | None, metrics: Sequence[str]
) -> dict[str, float]:
    """Returns the means over the queries of all members, with the bits of an evaluation in one process.

    Args:
        queries: (n,), numbers of the queries of this member in the whole data set.
        evaluation: of these queries; None: n is 0.
        metrics: names of metrics that every member has evaluated.
    """
    rows: list[NDArray[Any]] = [queries.astype(np.float64)]
    if evaluation is not None:
        for name in metrics:
            rows += [evaluation.per_query[name], *evaluation.weightings[name]]
    height = 1 + 3 * len(metrics)
    parts = [part.reshape(height, -1) for part in team.joined(np.concatenate(rows))]
    whole = np.concatenate(parts, axis=1)
    ordered = whole[1:, np.argsort(whole[0])].reshape(len(metrics), 3, -1)
    return {
        name: Weighting(factors, weights).mean(values)
        for name, (values, factors, weights) in zip(metrics, ordered, strict=True)
    }
