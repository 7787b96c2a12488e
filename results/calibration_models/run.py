"""The study with trained models of the native engine: false claims about methods that do not differ.

Each model is used in one draw of one row, so the draws of a rate are independent given the data.

    one method against itself    a sampling ranker with other seeds; trained again on these queries
    exchangeable methods         parts of the features with the same distribution, on a new training set for
                                 each draw, resampled; trained on other queries

`results.calibration.real_learners` has the folds.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.sources import DataSource
from ltrbench.data.synthetic import make_synthetic
from ltrbench.experiment import Study
from ltrbench.measure import described
from ltrbench.metrics import DEFAULT, evaluate
from ltrbench.rankers import BoostingRanker, Ranker
from ltrbench.statistics import (
    BETTER,
    LEVEL,
    ROPE,
    WORSE,
    Inference,
    Interval,
    claim_of,
    independent_replicates,
    resampling_factor,
    shared_replicates,
)
from ltrbench.statistics.paired import excludes
from ltrbench.statistics.repeated import ReplicateValues
from ltrbench.tables import assignments
from results.calibration.linear_learner import resampled, resampling_name
from results.calibration.rates import (
    RateRow,
    Tables,
    equal_shares,
    over_queries,
    rates,
    recorded,
    rendered,
)
from results.studies import load_or_reason, publish_study

log = logging.getLogger("ltrbench")

SAMPLING, PLAIN = "sampling", "plain"
"""Names of the two models: one that depends on the seed, and one that depends on the data only."""
SYNTHETIC = "synthetic"
_METRIC = "ndcg@10"

SAME_METHOD = "One method against itself, trained with other seeds: false claims at 5 %"
EXCHANGEABLE = "Exchangeable methods, one training set resampled: false claims at 5 %"
CLAIMS = ("claimed", "claimed, and not equivalent")
OVER_QUERIES = ("queries only, means of R models", "queries only, one model each")
NAIVE = "1/R instead"

Draw = Callable[[Generator], tuple[RankingDataset, RankingDataset]]


@dataclass(kw_only=True)
class SameMethod:
    """A row of one method against itself.

    Args:
        data: `synthetic`, or the name of a data set of the study, with its whole training and test sets.
        num_train, num_test: numbers of queries per draw from the synthetic pool.
        trainings: R of each side.
        draws: number of draws; each trains 2 R models.
    """

    data: str
    trainings: int
    draws: int
    num_train: int = 0
    num_test: int = 0


@dataclass(kw_only=True)
class Exchangeable:
    """A row of exchangeable methods.

    Args:
        num_train, num_test: numbers of queries of the data generated for each draw.
        kind: bootstrap or subsample.
        share: share of the training queries in a subsample.
        trainings: R, number of resamples.
        draws: number of draws; each trains 2 R models.
    """

    num_train: int
    num_test: int
    kind: str
    trainings: int
    draws: int
    share: float = 1.0


@dataclass(kw_only=True)
class ModelCalibration(Study):
    """Counts false claims, and writes the table.

    Args:
        output: output folder.
        pool: number of synthetic queries in the pool.
        num_documents: maximum number of documents per query; the first ones are kept.
        same_method: rows of one method against itself, with the model `sampling`.
        exchangeable: rows of exchangeable methods, with the model `plain`.
        seed: seed of data, draws and models.
    """

    output: str
    pool: int
    num_documents: int
    same_method: list[SameMethod]
    exchangeable: list[Exchangeable]
    seed: int

    def run(self, models: Mapping[str, Ranker], data: Mapping[str, DataSource]) -> Path:
        """Trains and compares all models; returns the path of the table.

        Args:
            models: `sampling` and `plain`.
            data: data sets by name; if one is not available, its row gives the reason.
        """
        rankers = {
            name: ranker
            for name, ranker in models.items()
            if isinstance(ranker, BoostingRanker)
        }
        loaded = {name: load_or_reason(source) for name, source in data.items()}
        pool = Pool.of(self.pool, self.num_documents, self.seed)
        draws: dict[str, Draw | str] = {
            name: reason if splits is None else _always(splits.train, splits.test)
            for name, (splits, reason) in loaded.items()
        }
        tables = self._tables(rankers, pool, draws)
        return publish_study(
            Path(self.output),
            f"{self._how(rankers)}\n\n{rendered(tables, bounds=True)}",
            command="python -m ltrbench experiment=calibration_models",
            packages=("numba",),
            conventions=[DEFAULT],
            data={
                name: splits
                for name, (splits, _) in loaded.items()
                if splits is not None
            },
            findings={
                "rates": recorded(tables),
                "rankers": {
                    name: described(ranker) for name, ranker in rankers.items()
                },
                "pool": {
                    "fingerprint": pool.data.fingerprint,
                    "queries": self.pool,
                    "seed": self.seed,
                },
            },
        )

    def _how(self, rankers: Mapping[str, BoostingRanker]) -> str:
        settings = "; ".join(
            f"`{name}`: {assignments(_shown(ranker))}"
            for name, ranker in rankers.items()
        )
        return (
            f"Native, {settings}. The synthetic queries have their first {self.num_documents} documents, and "
            f"each draw takes its own from a pool of {self.pool}; those of exchangeable methods have "
            f"{self.num_documents} documents and are made anew for each draw. Rates stand with their "
            f"one-sided upper bound of 95 %. Region of equivalence: {ROPE}. Seed {self.seed}."
        )

    def _tables(
        self,
        rankers: Mapping[str, BoostingRanker],
        pool: Pool,
        draws: Mapping[str, Draw | str],
    ) -> Tables:
        seeds = itertools.count(self.seed)
        same: list[RateRow] = []
        for number, case in enumerate(self.same_method):
            log.info("calibration: %s", case)
            draw = (
                _from_pool(pool, case) if case.data == SYNTHETIC else draws[case.data]
            )
            rng = np.random.default_rng([self.seed, number])
            same.append(_same_method(case, rankers[SAMPLING], draw, seeds, rng))
        halves: list[RateRow] = []
        for number, row in enumerate(self.exchangeable):
            log.info("calibration: %s", row)
            rng = np.random.default_rng([self.seed, number, 1])
            halves.append(_exchangeable(row, rankers[PLAIN], self.num_documents, rng))
        return {
            SAME_METHOD: same,
            EXCHANGEABLE: halves,
        }


def _shown(ranker: BoostingRanker) -> dict[str, object]:
    """Returns the settings shown in the table."""
    names = (
        "num_trees",
        "num_leaves",
        "learning_rate",
        "queries_per_tree",
        "documents_per_tree",
    )
    return {name: getattr(ranker, name, None) for name in names}


def _always(train: RankingDataset, test: RankingDataset) -> Draw:
    return lambda _: (train, test)


def _from_pool(pool: Pool, case: SameMethod) -> Draw:
    return lambda rng: pool.draw(case.num_train, case.num_test, rng)


def _same_method(
    case: SameMethod,
    ranker: BoostingRanker,
    draw: Draw | str,
    seeds: Iterator[int],
    rng: Generator,
) -> RateRow:
    if isinstance(draw, str):
        what: RateRow = {"data": f"{case.data}, skipped: {draw}"}
        return (
            what
            | _what("-", "-", case.trainings, 0)
            | dict.fromkeys((*CLAIMS, *OVER_QUERIES), "-")
        )
    sizes: set[tuple[int, int]] = set()

    def judged(draw: Draw) -> Iterator[Mapping[str, bool]]:
        for _ in range(case.draws):
            train, test = draw(rng)
            models = [
                replace(ranker, seed=next(seeds)).fit(train)
                for _ in range(2 * case.trainings)
            ]
            values = _values([(model, test) for model in models])
            a, b = values[: case.trainings], values[case.trainings :]
            sizes.add((train.num_queries, test.num_queries))
            yield _claimed(independent_replicates(a, b, equal_shares(a.shape[1])), a, b)

    counted = rates(judged(draw))
    ((num_train, num_test),) = sizes
    return (
        {"data": case.data}
        | _what(num_train, num_test, case.trainings, case.draws)
        | counted
    )


def _exchangeable(
    case: Exchangeable, ranker: BoostingRanker, num_documents: int, rng: Generator
) -> RateRow:
    factor = resampling_factor(case.kind, case.trainings, case.share)

    def judged() -> Iterator[Mapping[str, bool]]:
        for _ in range(case.draws):
            train, test = (
                views(size, num_documents, rng)
                for size in (case.num_train, case.num_test)
            )
            resamples = resampled(
                case.kind, case.share, case.trainings, case.num_train, rng
            )
            fitted = [
                (
                    replace(ranker).fit(part_of(train, method, queries)),
                    part_of(test, method),
                )
                for method in (0, 1)
                for queries in resamples
            ]
            values = _values(fitted)
            a, b = values[: case.trainings], values[case.trainings :]
            shares = equal_shares(a.shape[1])
            naive = shared_replicates(a, b, shares).interval(LEVEL)
            yield _claimed(shared_replicates(a, b, shares, factor), a, b) | {
                NAIVE: excludes(naive)
            }

    what = {"resamples": resampling_name(case.kind, case.share)}
    return (
        what
        | _what(case.num_train, case.num_test, case.trainings, case.draws)
        | rates(judged())
    )


def _what(
    num_train: object, num_test: object, trainings: int, draws: int
) -> dict[str, object]:
    return {
        "training queries": num_train,
        "test queries": num_test,
        "R": trainings,
        "draws": draws,
    }


def _values(models: Sequence[tuple[Ranker, RankingDataset]]) -> ReplicateValues:
    """Returns (models, Q) values on the test queries for which the metric is defined."""
    values = np.array(
        [
            evaluate(test, model.predict(test.features), [_METRIC]).per_query[_METRIC]
            for model, test in models
        ]
    )
    defined: ReplicateValues = values[:, ~np.isnan(values[0])]
    return defined


def _claimed(
    inference: Inference, a: ReplicateValues, b: ReplicateValues
) -> dict[str, bool]:
    by_queries = (excludes(over_queries(a, b)), excludes(over_queries(a[:1], b[:1])))
    return _verdicts(inference.interval(LEVEL)) | dict(
        zip(OVER_QUERIES, by_queries, strict=True)
    )


def _verdicts(interval: Interval | None) -> dict[str, bool]:
    verdicts = (excludes(interval), claim_of(interval, ROPE) in (BETTER, WORSE))
    return dict(zip(CLAIMS, verdicts, strict=True))


GRADES = (1.2, 2.4, 3.6)
"""Minimum relevance of the grades 1, 2 and 3 in `views`."""
FEATURES_OF_PART = 5
"""Number of features of each part in `views`."""


@dataclass(frozen=True)
class Pool:
    """Synthetic queries from which disjoint training and test queries are drawn."""

    data: RankingDataset

    @classmethod
    def of(cls, num_queries: int, num_documents: int, seed: int) -> Pool:
        """Returns a pool of synthetic queries with their first documents, which are a random sample."""
        data = make_synthetic(num_queries, seed)
        kept = data.ranks_of_rows < num_documents
        sizes = np.minimum(data.query_sizes, num_documents)
        return cls(_dataset(data.features[kept], data.labels[kept], sizes))

    def draw(
        self, num_train: int, num_test: int, rng: Generator
    ) -> tuple[RankingDataset, RankingDataset]:
        """Returns training and test queries."""
        queries = rng.permutation(self.data.num_queries)
        train, test = queries[:num_train], queries[num_train : num_train + num_test]
        return self.data.take_queries(train), self.data.take_queries(test)


def views(num_queries: int, num_documents: int, rng: Generator) -> RankingDataset:
    """Returns queries with two parts of features of the same distribution: noisy views of one relevance.

    Methods that use different parts are equally good on average, but differ on one training set and on one
    query.

        relevance = t + max(t, 0) u + s + e      topic t, authority u: standard normal; s: effect of the query
        features of a part: t, t, u, u and t + u, each with independent noise
    """
    shape = num_queries * num_documents
    topic, authority, judgment = rng.normal(size=(3, shape))
    level = np.repeat(rng.normal(size=num_queries), num_documents)
    relevance = topic + np.maximum(topic, 0) * authority + level + 0.5 * judgment
    seen = np.stack([topic, topic, authority, authority, topic + authority] * 2, axis=1)
    features = seen + rng.normal(size=seen.shape)
    labels = np.searchsorted(GRADES, relevance).astype(np.float64)
    return _dataset(features, labels, np.full(num_queries, num_documents))


def part_of(
    data: RankingDataset, number: int, queries: NDArray[np.int64] | None = None
) -> RankingDataset:
    """Returns one part of the features, by its number, of all or the given queries, which may repeat."""
    features = data.features[
        :, number * FEATURES_OF_PART : (number + 1) * FEATURES_OF_PART
    ]
    if queries is None:
        return _dataset(features, data.labels, data.query_sizes)
    rows = np.concatenate(
        [np.arange(data.query_start[q], data.query_start[q + 1]) for q in queries]
    )
    return _dataset(features[rows], data.labels[rows], data.query_sizes[queries])


def _dataset(
    features: NDArray[np.floating],
    labels: NDArray[np.float64],
    sizes: NDArray[np.int64],
) -> RankingDataset:
    return RankingDataset(
        features=np.ascontiguousarray(features, np.float32),
        labels=labels,
        query_start=np.concatenate([[0], np.cumsum(sizes)]),
    )
