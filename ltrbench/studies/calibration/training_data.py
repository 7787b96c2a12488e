"""Training and test data: queries drawn from a pool, and data with two exchangeable halves of features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import make_synthetic

GRADES = (1.2, 2.4, 3.6)
"""Minimum relevance of the grades 1, 2 and 3 in `two_halves`."""
FEATURES_OF_HALF = 5
"""Number of features of each half in `two_halves`."""


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

    def draw(self, num_train: int, num_test: int, rng: Generator) -> tuple[RankingDataset, RankingDataset]:
        """Returns training and test queries."""
        queries = rng.permutation(self.data.num_queries)
        train, test = queries[:num_train], queries[num_train : num_train + num_test]
        return self.data.take_queries(train), self.data.take_queries(test)


def two_halves(num_queries: int, num_documents: int, rng: Generator) -> RankingDataset:
    """Returns queries with two halves of features of the same distribution: noisy views of one relevance.

    Methods that use different halves are equally good on average, but differ on one training set and on one
    query.

        relevance = t + max(t, 0) u + s + e      topic t, authority u: standard normal; s: effect of the query
        features of a half: t, t, u, u and t + u, each with independent noise
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
    """Returns one half of the features, 0 or 1, of all or the given queries, which may repeat."""
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
