"""What models are trained and tested on: queries drawn from a pool, and data of two exchangeable halves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import make_synthetic

GRADES = (1.2, 2.4, 3.6)
"""Relevances from which on a document of `two_halves` has the grades 1, 2 and 3."""
FEATURES_OF_HALF = 5
"""Of each half of `two_halves`."""


@dataclass(frozen=True)
class Pool:
    """Synthetic queries that training and test queries are drawn from, without an overlap."""

    data: RankingDataset

    @classmethod
    def of(cls, num_queries: int, num_documents: int, seed: int) -> Pool:
        """The built-in synthetic data, cut to the first documents of each query, which are any documents."""
        data = make_synthetic(num_queries, seed)
        kept = data.ranks_of_rows < num_documents
        sizes = np.minimum(data.query_sizes, num_documents)
        return cls(_dataset(data.features[kept], data.labels[kept], sizes))

    def draw(self, num_train: int, num_test: int, rng: Generator) -> tuple[RankingDataset, RankingDataset]:
        """Returns training and test queries."""
        queries = rng.permutation(self.data.num_queries)
        train, test = queries[:num_train], queries[num_train : num_train + num_test]
        return self.data.take_queries(train), self.data.take_queries(test)


def two_halves(num_queries: int, num_documents: int, rng: Generator) -> RankingDataset:
    """Returns queries whose features come in two halves with one law: noisy views of the same relevance.

    A method that sees the first half is as good on average as one that sees the second, while on one
    training set, and on one query, they differ.

        relevance = t + max(t, 0) u + s + e      topic t, authority u, standard normal; s is the query's
        features of a half: t, t, u, u and t + u, each with noise of its own
    """
    shape = num_queries * num_documents
    topic, authority, judgment = rng.normal(size=(3, shape))
    level = np.repeat(rng.normal(size=num_queries), num_documents)
    relevance = topic + np.maximum(topic, 0) * authority + level + 0.5 * judgment
    seen = np.stack([topic, topic, authority, authority, topic + authority] * 2, axis=1)
    features = seen + rng.normal(size=seen.shape)
    labels = np.searchsorted(GRADES, relevance).astype(np.float64)
    return _dataset(features, labels, np.full(num_queries, num_documents))


def half(data: RankingDataset, number: int, queries: NDArray[np.int64] | None = None) -> RankingDataset:
    """Returns one half of the features, 0 or 1, of all queries or of those given; one may be given twice."""
    features = data.features[:, number * FEATURES_OF_HALF : (number + 1) * FEATURES_OF_HALF]
    if queries is None:
        return _dataset(features, data.labels, data.query_sizes)
    rows = np.concatenate([np.arange(data.query_start[q], data.query_start[q + 1]) for q in queries])
    return _dataset(features[rows], data.labels[rows], data.query_sizes[queries])


def _dataset(
    features: NDArray[np.floating], labels: NDArray[np.float64], sizes: NDArray[np.int64]
) -> RankingDataset:
    return RankingDataset(
        features=np.ascontiguousarray(features, np.float32),
        labels=labels,
        query_start=np.concatenate([[0], np.cumsum(sizes)]),
    )
