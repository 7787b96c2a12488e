"""Records the learning curve and reports progress while a ranker is fitted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Splits
from ltrbench.metrics import evaluate, improvement
from ltrbench.rankers import BoostingRanker, Iteration, Ranker
from ltrbench.results import LearningCurve
from ltrbench.shapes import Scores


class CurveRecorder:
    """The `on_iteration` callback that evaluates train and valid after each iteration, and the out-of-bag
    improvement if the iteration left out documents."""

    def __init__(self, splits: Splits, names: tuple[str, ...]) -> None:
        self.curve = LearningCurve()
        self._splits = splits
        self.names = names
        self._before: Scores | None = None

    def __call__(self, iteration: Iteration) -> None:
        train, valid = self._splits.train, self._splits.valid
        self.curve.iterations.append(iteration.number)
        self._append("train", evaluate(train, iteration.train_scores, self.names).means)
        if valid is not None and iteration.valid_scores is not None:
            self._append("valid", evaluate(valid, iteration.valid_scores, self.names).means)
        if iteration.left_out is not None:
            self._append("oob", self._improvement(iteration, iteration.left_out))
        self._before = iteration.train_scores

    def _improvement(self, iteration: Iteration, left_out: NDArray[np.int64]) -> Mapping[str, float]:
        before = np.zeros(len(iteration.train_scores)) if iteration.number == 1 else self._before
        if before is None:
            # The fit continues from a model whose scores were not reported.
            return dict.fromkeys(self.names, np.nan)
        return improvement(self._splits.train, left_out, before, iteration.train_scores, self.names)

    def _append(self, kind: str, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.curve.values.setdefault(f"{kind}/{name}", []).append(value)


@dataclass(frozen=True)
class Progress:
    """Progress of a fit, with values of the learning curve.

    Attributes:
        iteration: number of iterations so far.
        num_iterations: maximum number of iterations; None if the ranker does not report it.
        metric: metric of the values: the metric of early stopping, or else the first of the curve.
        train: value on train.
        valid: value on valid; None without a validation set.
        best: highest value on valid so far; None if there is none.
        best_iteration: the first iteration with the value `best`.
        out_of_bag: improvement of the last iteration on the documents that it left out; None if it left out
            none.
        seconds: time since the start of the fit.
        finished: True in the last report, which repeats the values of the last iteration.
    """

    iteration: int
    num_iterations: int | None
    metric: str
    train: float
    valid: float | None
    best: float | None
    best_iteration: int | None
    out_of_bag: float | None
    seconds: float
    finished: bool = False


OnProgress = Callable[[Progress], None]


class ProgressReporter:
    """The `on_iteration` callback that passes each iteration to a recorder and reports its values."""

    def __init__(self, recorder: CurveRecorder, ranker: Ranker, report: OnProgress) -> None:
        rule = ranker.early_stopping if isinstance(ranker, BoostingRanker) else None
        self._recorder, self._report = recorder, report
        self._metric = rule.metric if rule and rule.metric in recorder.names else recorder.names[0]
        self._num_iterations = ranker.num_trees if isinstance(ranker, BoostingRanker) else None
        self._best: tuple[float, int] | None = None
        self._last: Progress | None = None
        # For the display only: the recorded times are measured by a Stopwatch.
        self._began = time.perf_counter()

    def __call__(self, iteration: Iteration) -> None:
        self._recorder(iteration)
        valid = self._latest("valid")
        if valid is not None and valid > (self._best[0] if self._best else -np.inf):
            self._best = valid, iteration.number
        best, best_iteration = self._best or (None, None)
        self._last = Progress(
            iteration=iteration.number,
            num_iterations=self._num_iterations,
            metric=self._metric,
            train=self._recorder.curve.values[f"train/{self._metric}"][-1],
            valid=valid,
            best=best,
            best_iteration=best_iteration,
            out_of_bag=self._latest("oob"),
            seconds=time.perf_counter() - self._began,
        )
        self._report(self._last)

    def _latest(self, kind: str) -> float | None:
        values = self._recorder.curve.values.get(f"{kind}/{self._metric}")
        return values[-1] if values else None

    def finish(self) -> None:
        """Reports the last iteration again, with `finished` set."""
        if self._last is not None:
            self._report(replace(self._last, seconds=time.perf_counter() - self._began, finished=True))
