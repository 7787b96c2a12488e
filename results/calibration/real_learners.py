"""Folds with real learners: false claims about methods, and power, of the present and the earlier procedure.

A draw makes new queries, and trains all methods on the same folds of them. The methods are one learner, with
another part of the features each; the parts have the same distribution, so that no method is better on
average over training sets. Each claim of a difference is therefore false. The procedures have the same draws.

    new             the interval over queries, inflated (`ltrbench.statistics.FoldVariation`)
    earlier         corrected resampled t; from three methods on with a shared variance (`earlier`)
    paired t        the interval over queries, not inflated: the claim about the trained models

For several methods the claims are about all pairs together.

Shapes: M methods, Q queries of `DOCUMENTS` documents, F features of a part, K test sets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ltrbench.compare.table import clustered
from ltrbench.data import Judgments, RankingDataset
from ltrbench.metrics import evaluate
from ltrbench.rankers.native import NativeRanker
from ltrbench.statistics import (
    LEVEL,
    FoldVariation,
    Interval,
    PairedSample,
    fold_variations,
    simultaneous_intervals,
)
from ltrbench.statistics.paired import excludes
from results.calibration.earlier import intervals_over_folds
from results.calibration.rates import RateRow, Tables, rates
from results.calibration.two_way import Simulation

REAL_LEARNERS = "Folds with real learners: false claims at 5 %, and differences found"
NEW = "new"
EARLIER = "earlier"
PAIRED = "paired t"
FOUND = "found, "
MATTERS = "training sets matter"
TRAINING = "training, of queries"

DOCUMENTS = 8
GRADES = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0])
"""Grades of the documents of a query, by ascending relevance."""
DIFFICULTY = 0.5
"""Standard deviation over queries of the logarithm of the noise of their features."""
BOOTSTRAP_DRAWS = 500
DEVIATIONS = 3
"""The difference added for the power, in true standard deviations of the mean difference."""

Split = tuple[NDArray[np.intp], NDArray[np.intp]]  # training and test queries
RankingScores = NDArray[np.float64]  # (M, Q, DOCUMENTS)


@dataclass(frozen=True)
class Queries:
    """Queries with M parts of features.

    Attributes:
        features: (M, Q, DOCUMENTS, F).
        labels: (Q, DOCUMENTS).
    """

    features: NDArray[np.float64]
    labels: NDArray[np.float64]

    @classmethod
    def drawn(
        cls, noise: NDArray[np.float64], methods: int, size: int, rng: Generator
    ) -> Queries:
        """Returns queries whose features are noisy views of one relevance.

        Args:
            noise: (F,), standard deviations of the noise of each feature; that of the relevance is 1.
        """
        relevance = rng.normal(size=(size, DOCUMENTS))
        difficulty = np.exp(DIFFICULTY * rng.normal(size=(size, 1, 1)))
        views = rng.normal(size=(methods, size, DOCUMENTS, len(noise)))
        features = relevance[..., np.newaxis] + difficulty * noise * views
        ranks = relevance.argsort(axis=1).argsort(axis=1)
        return cls(features, GRADES[ranks])

    @cached_property
    def values_of_features(self) -> NDArray[np.float64]:
        """(M, F, Q), NDCG@10 of each feature alone."""
        values = [ndcg(self.labels, np.moveaxis(of, -1, 0)) for of in self.features]
        return np.array(values)


def ndcg(labels: NDArray[np.float64], scores: RankingScores) -> NDArray[np.float64]:
    """Returns (M, Q), NDCG@10 of each model on each query."""
    num_models, num_queries, num_documents = scores.shape
    start = num_documents * np.arange(num_models * num_queries + 1)
    judged = Judgments(labels=np.tile(labels.ravel(), num_models), query_start=start)
    values = evaluate(judged, scores.ravel(), ["ndcg@10"]).per_query["ndcg@10"]
    return values.reshape(num_models, num_queries)


class Learner(Protocol):
    """A learner of all M methods."""

    @property
    def name(self) -> str: ...

    @property
    def noise(self) -> NDArray[np.float64]:
        """(F,), noise of each feature of a part."""

    def scores(self, queries: Queries, split: Split) -> RankingScores:
        """Returns the scores of the test queries."""


@dataclass(frozen=True)
class Ridge:
    """Ridge regression of labels on features, both centred in each query."""

    name: str = "ridge"
    l2: float = 1.0
    num_features: int = 20

    @property
    def noise(self) -> NDArray[np.float64]:
        return np.full(self.num_features, 4.0)

    def scores(self, queries: Queries, split: Split) -> RankingScores:
        train, test = split
        features = queries.features[:, train]
        centred = features - features.mean(axis=2, keepdims=True)
        columns = centred.reshape(len(features), -1, self.num_features)
        labels = queries.labels[train]
        centred_labels = labels - labels.mean(axis=1, keepdims=True)
        target = centred_labels.reshape(-1, 1)
        transposed = columns.swapaxes(1, 2)
        gram = transposed @ columns + self.l2 * np.eye(self.num_features)
        weights = np.linalg.solve(gram, transposed @ target)
        scores: RankingScores = np.einsum(
            "mqdf,mf->mqd", queries.features[:, test], weights[..., 0]
        )
        return scores


@dataclass(frozen=True)
class OneFeature:
    """Selects the feature with the best NDCG@10 on the training queries."""

    num_features: int
    worst: float
    """Noise of the worst feature; that of the best is 1."""

    @property
    def name(self) -> str:
        return f"one of {self.num_features} features"

    @property
    def noise(self) -> NDArray[np.float64]:
        return np.linspace(1.0, self.worst, self.num_features)

    def scores(self, queries: Queries, split: Split) -> RankingScores:
        train, test = split
        means = queries.values_of_features[..., train].mean(axis=2)
        best = means.argmax(axis=1)
        of_best = queries.features[np.arange(len(best)), :, :, best]
        scores: RankingScores = of_best[:, test]
        return scores


@dataclass(frozen=True)
class Trees:
    """LambdaMART of the native engine, with few small trees."""

    name: str = "boosted trees"
    num_features: int = 5
    num_trees: int = 8
    num_leaves: int = 7

    @property
    def noise(self) -> NDArray[np.float64]:
        return np.full(self.num_features, 2.0)

    def scores(self, queries: Queries, split: Split) -> RankingScores:
        train, test = split
        scores = np.empty((len(queries.features), len(test), DOCUMENTS))
        for method, features in enumerate(queries.features):
            ranker = self._fitted(features[train], queries.labels[train])
            rows = features[test].reshape(-1, self.num_features).astype(np.float32)
            scores[method] = ranker.predict(rows).reshape(-1, DOCUMENTS)
        return scores

    def _fitted(
        self, features: NDArray[np.float64], labels: NDArray[np.float64]
    ) -> NativeRanker:
        ranker = NativeRanker(
            num_trees=self.num_trees,
            num_leaves=self.num_leaves,
            early_stopping=None,
            num_threads=1,
        )
        train = RankingDataset(
            features=features.reshape(-1, self.num_features).astype(np.float32),
            labels=labels.ravel(),
            query_start=DOCUMENTS * np.arange(len(labels) + 1),
        )
        return ranker.fit(train)


@dataclass(frozen=True)
class Cell:
    """A row of the table.

    Attributes:
        queries: number of queries of a draw.
        folds: J.
        repeats: number of cross-validations, each with another split of the same queries.
        forward: whether a fold is trained on the queries before its test queries only.
        share: share of the draws of the study.
    """

    learner: Learner
    queries: int
    folds: int = 5
    repeats: int = 1
    methods: int = 2
    forward: bool = False
    share: float = 0.25

    @property
    def name_of_folds(self) -> str:
        if self.forward:
            return f"{self.folds} forward"
        if self.repeats > 1:
            return f"{self.folds} x {self.repeats}"
        return str(self.folds)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(itertools.combinations(range(self.methods), 2))

    def splits(self, rng: Generator) -> list[Split]:
        everything = np.arange(self.queries)
        if self.forward:
            parts = np.array_split(everything, self.folds + 1)
            return [
                (np.concatenate(parts[:number]), parts[number])
                for number in range(1, self.folds + 1)
            ]
        tests: list[NDArray[np.intp]] = []
        for _ in range(self.repeats):
            tests += np.array_split(rng.permutation(self.queries), self.folds)
        return [(np.setdiff1d(everything, test), test) for test in tests]


RIDGE = Ridge()
ONE_OF_FEW = OneFeature(10, worst=1.5)
ONE_OF_MANY = OneFeature(20, worst=1.2)
"""The choice among many features of nearly the same quality depends on the training set."""
TREES = Trees()
CELLS = (
    Cell(RIDGE, 100, folds=3),
    Cell(RIDGE, 100),
    Cell(RIDGE, 500),
    Cell(RIDGE, 100, folds=3, forward=True),
    Cell(RIDGE, 100, repeats=3),
    Cell(RIDGE, 100, repeats=5),
    Cell(RIDGE, 100, methods=4),
    Cell(RIDGE, 100, methods=20),
    Cell(ONE_OF_FEW, 100, folds=3),
    Cell(ONE_OF_FEW, 100),
    Cell(ONE_OF_FEW, 100, folds=3, forward=True),
    Cell(ONE_OF_MANY, 100, folds=3, share=0.5),
    Cell(ONE_OF_MANY, 100, share=0.5),
    Cell(ONE_OF_MANY, 500),
    Cell(ONE_OF_MANY, 100, folds=10, share=0.5),
    Cell(ONE_OF_MANY, 100, folds=3, forward=True, share=0.5),
    Cell(ONE_OF_MANY, 100, repeats=5, share=0.5),
    Cell(ONE_OF_MANY, 100, methods=4, share=0.5),
    Cell(TREES, 100, folds=3, share=0.125),
    Cell(TREES, 100, share=0.125),
    Cell(TREES, 100, folds=3, forward=True, share=0.125),
    Cell(RIDGE, 100, folds=10),
    Cell(ONE_OF_FEW, 100, folds=10),
    Cell(ONE_OF_MANY, 500, folds=10),
    Cell(ONE_OF_MANY, 100, folds=10, repeats=3),
)


def real_learner_tables(simulation: Simulation) -> Tables:
    rows = []
    for number, cell in enumerate(CELLS):
        num_draws = max(1, round(cell.share * simulation.num_draws))
        rows.append(_row(cell, num_draws, simulation.rng(13, number)))
    return {REAL_LEARNERS: rows}


@dataclass(frozen=True)
class Judged:
    """The claims of one draw.

    Attributes:
        intervals: procedure -> intervals of all pairs.
        squares: mean over the pairs of the squared mean difference, and of its squared error over queries.
        variation: variation over folds of the first pair.
    """

    intervals: Mapping[str, Sequence[Interval | None]]
    squares: tuple[float, float]
    variation: FoldVariation

    def events(self, difference: float) -> dict[str, bool]:
        """Returns false claims, and whether a true difference of the first pair is found."""
        false = {
            procedure: any(map(excludes, intervals))
            for procedure, intervals in self.intervals.items()
        }
        found = {
            FOUND + procedure: excludes(self.intervals[procedure][0], -difference)
            for procedure in (NEW, EARLIER)
        }
        return {**false, **found, MATTERS: self.variation.matters}


def judged(cell: Cell, seed: int, rng: Generator) -> Judged:
    """Returns the claims of all procedures about the methods, on new queries."""
    queries = Queries.drawn(cell.learner.noise, cell.methods, cell.queries, rng)
    tested = _tested(cell, queries, cell.splits(rng))
    pairs = cell.pairs
    # A comparison has the values of each query once, averaged over repeats.
    distinct = clustered(tested.sample, tested.query_ids)
    over_queries = simultaneous_intervals(distinct, pairs, BOOTSTRAP_DRAWS, seed)
    variations = fold_variations(
        tested.sample.differences(pairs),
        num_folds=cell.folds,
        test_share=tested.test_share,
    )
    inflated = [
        variation.interval(interval, LEVEL / len(pairs))
        for variation, interval in zip(variations, over_queries, strict=True)
    ]
    earlier = intervals_over_folds(tested.means, tested.test_share, pairs)
    differences = distinct.differences(pairs)
    square = float((differences.means**2).mean())
    squared_error = float((differences.standard_errors**2).mean())
    return Judged(
        intervals={NEW: inflated, EARLIER: earlier, PAIRED: over_queries},
        squares=(square, squared_error),
        variation=variations[0],
    )


@dataclass(frozen=True)
class _Tested:
    """NDCG@10 of all methods on all test sets.

    Attributes:
        sample: values of the queries of all test sets, which are its strata.
        means: (M, K).
        query_ids: of the queries of the sample.
        test_share: mean of n_test / n_train.
    """

    sample: PairedSample
    means: NDArray[np.float64]
    query_ids: NDArray[np.str_]
    test_share: float


def _tested(cell: Cell, queries: Queries, splits: Sequence[Split]) -> _Tested:
    values: list[NDArray[np.float64]] = []
    shares: list[float] = []
    for train, test in splits:
        scores = cell.learner.scores(queries, (train, test))
        values.append(ndcg(queries.labels[test], scores))
        shares.append(len(test) / len(train))
    tests = [test for _, test in splits]
    strata = np.repeat(np.arange(len(tests)), [len(test) for test in tests])
    return _Tested(
        sample=PairedSample.of(np.concatenate(values, axis=1), strata=strata),
        means=np.stack([of_test.mean(axis=1) for of_test in values], axis=1),
        query_ids=np.concatenate(tests).astype(str),
        test_share=float(np.mean(shares)),
    )


def _row(cell: Cell, num_draws: int, rng: Generator) -> RateRow:
    draws = [judged(cell, seed, rng) for seed in range(num_draws)]
    # The true mean difference is 0.
    variance, of_queries = np.mean([draw.squares for draw in draws], axis=0)
    difference = DEVIATIONS * float(np.sqrt(variance))
    return {
        "learner": cell.learner.name,
        "queries": cell.queries,
        "methods": cell.methods,
        "folds": cell.name_of_folds,
        "draws": num_draws,
        TRAINING: f"{variance / of_queries - 1:.2f}",
        **rates(_events(draws, difference)),
    }


def _events(draws: Sequence[Judged], difference: float) -> Iterator[dict[str, bool]]:
    for draw in draws:
        yield draw.events(difference)
