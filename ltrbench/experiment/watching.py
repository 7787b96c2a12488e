"""What is recorded and reported while a ranker is fitted: the learning curve, and progress."""

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
    """Evaluates train and valid after each iteration, and its out-of-bag improvement where it left documents
    out; `on_iteration` of a fit."""

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
            # The fit continues from a model, whose scores nobody has shown.
            return dict.fromkeys(self.names, np.nan)
        return improvement(self._splits.train, left_out, before, iteration.train_scores, self.names)

    def _append(self, kind: str, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.curve.values.setdefault(f"{kind}/{name}", []).append(value)


@dataclass(frozen=True)
class Progress:
    """How far a fit has come, in figures of the learning curve.

    Attributes:
        iteration: iterations so far.
        num_iterations: how many there will be at the most; None where the ranker does not say.
        metric: what the figures are of: early stopping's metric, or the curve's first where it has not that.
        train: its value on train.
        valid: its value on valid; None without a validation set.
        best: the highest of valid so far; None where there is none.
        best_iteration: where that was, the earliest of equals.
        out_of_bag: what the last iteration brought on what it left out; None where it left out nothing.
        seconds: since the fit began.
        finished: True once, with the figures of the last iteration, when the fit is over.
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
    """`on_iteration` of a fit that lets a recorder record, and reports what it recorded."""

    def __init__(self, recorder: CurveRecorder, ranker: Ranker, report: OnProgress) -> None:
        rule = ranker.early_stopping if isinstance(ranker, BoostingRanker) else None
        self._recorder, self._report = recorder, report
        self._metric = rule.metric if rule and rule.metric in recorder.names else recorder.names[0]
        self._num_iterations = ranker.num_trees if isinstance(ranker, BoostingRanker) else None
        self._best: tuple[float, int] | None = None
        self._last: Progress | None = None
        # Only shown: what a run reports is taken by a Stopwatch.
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
        """Reports the last iteration once more, as the last."""
        if self._last is not None:
            self._report(replace(self._last, seconds=time.perf_counter() - self._began, finished=True))
