"""Where a run fits, predicts and evaluates: in this process, or on several workers together.

A model has the same scores and metrics in both places: on workers every shard is predicted and evaluated
where it is held, and the values are joined in the order of the whole data set.
"""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Splits
from ltrbench.distributed.shards import PlacedShards, divide_queries, held, place, release_shard
from ltrbench.experiment.watching import CurveRecorder, OnProgress, ProgressReporter
from ltrbench.measure.memory import MemoryMeter
from ltrbench.metrics import (
    DEFAULT,
    Evaluation,
    evaluate,
    has_relevant_document,
    load_plugins,
    warm_up_metrics,
)
from ltrbench.metrics.evaluation import Weighting
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import threads_of_workers
from ltrbench.rankers.capabilities import (
    FitsTogether,
    SupportsMemberWarmUp,
    SupportsWarmUp,
    check_distributed,
    clean_copy_of,
    refuse,
)
from ltrbench.results import LearningCurve
from ltrbench.shapes import PerQuery, Scores


class OpensWorkers(Protocol):
    """The setting `Experiment.distributed`."""

    def open(self) -> AbstractContextManager[FitsTogether | None]:
        """Returns a context with the workers that fit together; None: this process fits alone."""


class Place(ABC):
    """Where a run works. Call `prepare` first.

    Attributes:
        splits: set by `prepare`.
        record: `RunResult.distributed`.
    """

    def __init__(self) -> None:
        self.splits: Splits
        self.record: Mapping[str, Any] = {}

    def prepare(self, ranker: Ranker, splits: Splits, names: Sequence[str]) -> None:
        """Takes the splits.

        Args:
            names: the splits that will be used.
        """
        self.splits = splits

    @abstractmethod
    def warm_up(self, ranker: Ranker, metrics: Sequence[str]) -> None:
        """Compiles and imports everything that a fit and an evaluation need."""

    @abstractmethod
    def fit(
        self,
        ranker: Ranker,
        metrics: tuple[str, ...],
        on_progress: OnProgress | None,
        timing: AbstractContextManager[None],
    ) -> tuple[LearningCurve, float | None]:
        """Fits the ranker; returns the learning curve, and the peak increase of memory in MB.

        Args:
            metrics: metrics of the learning curve.
            timing: entered for the fit only.
        """

    @abstractmethod
    def fit_clean(self, ranker: Ranker) -> None:
        """Fits an unfitted copy of the ranker without an evaluator."""

    @abstractmethod
    def predict(self, ranker: Ranker, name: str) -> NDArray[np.floating[Any]]:
        """Returns the scores of the documents of a split by the ranker that was fitted last."""

    @abstractmethod
    def evaluate(self, name: str, scores: Scores, metrics: Sequence[str]) -> Evaluation:
        """Returns the metrics of the scores of a split."""


class ThisProcess(Place):
    """The process of the run."""

    def warm_up(self, ranker: Ranker, metrics: Sequence[str]) -> None:
        _warm_up(ranker, metrics)

    def fit(
        self,
        ranker: Ranker,
        metrics: tuple[str, ...],
        on_progress: OnProgress | None,
        timing: AbstractContextManager[None],
    ) -> tuple[LearningCurve, float | None]:
        memory, recorder = MemoryMeter(), CurveRecorder(self.splits, metrics)
        watcher = recorder if on_progress is None else ProgressReporter(recorder, ranker, on_progress)
        with memory, timing:
            ranker.fit(self.splits.train, self.splits.valid, watcher)
        if isinstance(watcher, ProgressReporter):
            watcher.finish()
        return recorder.curve, memory.rise_mb

    def fit_clean(self, ranker: Ranker) -> None:
        clean_copy_of(ranker).fit(self.splits.train)

    def predict(self, ranker: Ranker, name: str) -> NDArray[np.floating[Any]]:
        return ranker.predict(getattr(self.splits, name).features)

    def evaluate(self, name: str, scores: Scores, metrics: Sequence[str]) -> Evaluation:
        return evaluate(getattr(self.splits, name), scores, metrics)


class OnWorkers(Place):
    """Workers that fit together. No progress is reported, and their memory is not measured.

    Args:
        plugins: modules with metrics, which the workers import.
    """

    def __init__(self, workers: FitsTogether, plugins: Sequence[str] = ()) -> None:
        super().__init__()
        self._workers, self._plugins = workers, tuple(plugins)
        self._placed: dict[str, PlacedShards] = {}
        self._key_of_ranker = uuid.uuid4().hex

    def prepare(self, ranker: Ranker, splits: Splits, names: Sequence[str]) -> None:
        super().prepare(ranker, splits, names)
        refuse(ranker, splits.train)
        num_workers = len(self._workers.addresses)
        for name in names:
            dataset = getattr(splits, name)
            if dataset is not None:
                self._placed[name] = place(self._workers, divide_queries(dataset, num_workers))
        self.record = {
            "workers": num_workers,
            "threads": threads_of_workers(self._workers, ranker.num_threads),
            "shards": {name: _sizes(placed) for name, placed in self._placed.items()},
            "deterministic": check_distributed(ranker).is_repeatable_on_workers,
        }

    def close(self) -> None:
        """Releases what the workers hold, as far as they answer; a cluster of the user may run for months."""
        # Imported here, because it needs Dask.
        from ltrbench.distributed.connecting import ANSWER_SECONDS, answers

        keys = [key for placed in self._placed.values() for key in placed.keys]
        arguments = (keys, self._key_of_ranker)
        answers(self._workers.client, self._workers.addresses, ANSWER_SECONDS, _release, *arguments)

    def warm_up(self, ranker: Ranker, metrics: Sequence[str]) -> None:
        self._everywhere(_warm_up_member, ranker, tuple(metrics), self._plugins)

    def fit(
        self,
        ranker: Ranker,
        metrics: tuple[str, ...],
        on_progress: OnProgress | None,
        timing: AbstractContextManager[None],
    ) -> tuple[LearningCurve, float | None]:
        train, valid = self._placed["train"], self._placed.get("valid")
        with timing:
            numbers, values = check_distributed(ranker).fit_distributed(self._workers, train, valid, metrics)
        files = _files_of(ranker, min(threads_of_workers(self._workers, ranker.num_threads)))
        self._everywhere(_hold_ranker, self._key_of_ranker, type(ranker), files)
        return LearningCurve(numbers, values), None

    def fit_clean(self, ranker: Ranker) -> None:
        check_distributed(clean_copy_of(ranker)).fit_distributed(self._workers, self._placed["train"])

    def predict(self, ranker: Ranker, name: str) -> NDArray[np.floating[Any]]:
        placed = self._placed[name]
        arguments = [(self._key_of_ranker, key) for key in placed.keys]
        return placed.documents_in_order(self._workers.run(_predict, arguments))

    def evaluate(self, name: str, scores: Scores, metrics: Sequence[str]) -> Evaluation:
        placed = self._placed[name]
        arguments = [
            (key, of_shard, tuple(metrics))
            for key, of_shard in zip(placed.keys, placed.documents_by_shard(scores), strict=True)
        ]
        parts = self._workers.run(_evaluate, arguments)
        return _joined(placed, parts, getattr(self.splits, name))

    def _everywhere(self, function: Any, *arguments: Any) -> None:
        self._workers.run(function, [arguments] * len(self._workers.addresses))


@contextlib.contextmanager
def place_of_run(distributed: OpensWorkers | None, plugins: Sequence[str] = ()) -> Iterator[Place]:
    """Provides the place of a run.

    Args:
        distributed: None: this process.
        plugins: modules with metrics.
    """
    if distributed is None:
        yield ThisProcess()
        return
    with distributed.open() as workers:
        if workers is None:
            yield ThisProcess()
            return
        on_workers = OnWorkers(workers, plugins)
        try:
            yield on_workers
        finally:
            # A worker that is lost only here must neither turn a finished run into a failed one nor hide an
            # error.
            with contextlib.suppress(Exception):
                on_workers.close()


def _sizes(placed: PlacedShards) -> list[dict[str, int]]:
    datasets = [shard.dataset for shard in placed.shards]
    return [{"queries": each.num_queries, "documents": each.num_documents} for each in datasets]


def _warm_up(ranker: Ranker, metrics: Sequence[str]) -> None:
    warm_up_metrics(metrics)
    if isinstance(ranker, SupportsWarmUp):
        ranker.warm_up()


def _warm_up_member(ranker: Ranker, metrics: Sequence[str], plugins: Sequence[str]) -> None:
    load_plugins(list(plugins), "plugins")
    _warm_up(ranker, metrics)
    if isinstance(ranker, SupportsMemberWarmUp):
        ranker.warm_up_member()


_rankers: dict[str, Ranker] = {}
"""The fitted rankers that this worker holds."""


def _files_of(ranker: Ranker, num_threads: int) -> dict[str, bytes]:
    """Returns the saved ranker, as relative path -> content.

    Args:
        num_threads: number of threads of its predictions.
    """
    before, ranker.num_threads = ranker.num_threads, num_threads
    with tempfile.TemporaryDirectory() as folder:
        try:
            ranker.save(Path(folder))
        finally:
            ranker.num_threads = before
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _hold_ranker(key: str, kind: type[Ranker], files: Mapping[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        _rankers[key] = kind.load(Path(folder))


def _release(keys_of_shards: Sequence[str], key_of_ranker: str) -> None:
    """Runs in the event loop of a worker, also beside a function that does not end."""
    for key in keys_of_shards:
        release_shard(key)
    _rankers.pop(key_of_ranker, None)


def _predict(key_of_ranker: str, key: str) -> NDArray[np.floating[Any]]:
    # First, because its error names the cause if the process was started again, without shard and ranker.
    features = held(key).dataset.features
    return _rankers[key_of_ranker].predict(features)


_OfShard = tuple[dict[str, PerQuery], dict[str, Weighting]]
"""Metric -> values and weights of the queries of a shard."""


def _evaluate(key: str, scores: Scores, metrics: Sequence[str]) -> _OfShard:
    evaluation = evaluate(held(key).dataset, scores, metrics)
    return dict(evaluation.per_query), dict(evaluation.weightings)


def _joined(placed: PlacedShards, parts: Sequence[_OfShard], dataset: Any) -> Evaluation:
    """Returns the evaluation of a whole data set, with the bits that `evaluate` gives it."""
    per_query = {name: placed.in_order([values[name] for values, _ in parts]) for name in parts[0][0]}
    weightings = {
        name: Weighting(
            placed.in_order([of_shard[name].factors for _, of_shard in parts]),
            placed.in_order([of_shard[name].weights for _, of_shard in parts]),
        )
        for name in per_query
    }
    return Evaluation(
        means={name: weightings[name].mean(values) for name, values in per_query.items()},
        per_query=per_query,
        weightings=weightings,
        skipped={name: int(np.isnan(values).sum()) for name, values in per_query.items()},
        share_without_relevant=float(np.mean(~has_relevant_document(dataset))),
        convention=DEFAULT,
    )
