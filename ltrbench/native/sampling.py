"""Sampling: the queries, documents and features that a tree learns from, drawn anew without repetition.

Friedman, 2002, "Stochastic Gradient Boosting", section 3: a tree that sees a part of the data is grown
faster, and differs more from the trees before it, which a small learning rate turns into a better model. A
whole query that is left out tells besides how much the tree helps where it has not learned: the out-of-bag
improvement. Lambdas are those of whole queries, also where some of their documents are left out.

A sample's size is a share of all there are up to 1, and a count above it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.native.tree.binning import Rows

SampleSize = int | float | str
"""A share (at most 1), a count (above 1), "sqrt" or "log2" of all."""

ROOTS = {"sqrt": math.sqrt, "log2": math.log2}
"""The sizes that have a name, as random forests know them (Breiman, 2001)."""


@dataclass(frozen=True)
class SamplingSettings:
    """What a tree learns from.

    Attributes:
        queries: how many of the queries.
        documents: how many of those queries' documents.
        features: how many of the features; drawn for each tree, whatever `every` says.
        features_per_split: how many of those a leaf may be cut by, drawn for each leaf.
        every: how many trees in turn learn from one draw of queries and documents.
    """

    queries: SampleSize = 1.0
    documents: SampleSize = 1.0
    features: SampleSize = 1.0
    features_per_split: SampleSize = 1.0
    every: int = 1


@dataclass(frozen=True, eq=False)
class Sample:
    """What one tree learns from.

    Attributes:
        queries: (q,), rising; None: all.
        rows: (n,), documents of those queries, rising.
        features: (F,), whether a feature may be used.
    """

    queries: NDArray[np.int64] | None
    rows: Rows
    features: NDArray[np.bool_]


class Sampler:
    """Draws a sample for each tree."""

    def __init__(self, train: RankingDataset, settings: SamplingSettings, rng: np.random.Generator) -> None:
        self._train = train
        self._settings = settings
        self._rng = rng
        self._queries: NDArray[np.int64] | None = None
        self._rows = np.arange(train.num_documents, dtype=np.uint32)
        self._num_drawn = 0

    def draw(self) -> Sample:
        if self._num_drawn % self._settings.every == 0:
            self._queries, self._rows = self._draw_rows()
        self._num_drawn += 1
        # A copy, because growing a tree puts its rows in another order.
        return Sample(self._queries, self._rows.copy(), self._draw_features())

    def features_of_leaf(self, features: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(F,), which of a tree's features one leaf may be cut by (Breiman, 2001, "Random Forests")."""
        return self._some(features, self._settings.features_per_split)

    def left_out(self) -> NDArray[np.int64] | None:
        """(n,) rising, the documents of the queries that the last draw left out, or where it took every
        query, those that it left out itself; None where it took all."""
        if len(self._rows) == self._train.num_documents:
            return None
        is_in = np.zeros(self._train.num_documents, dtype=np.bool_)
        if self._queries is None:
            is_in[self._rows] = True
        else:
            is_in = self._of_queries(self._queries)
        return np.flatnonzero(~is_in)

    def _draw_rows(self) -> tuple[NDArray[np.int64] | None, Rows]:
        queries, rows = None, np.arange(self._train.num_documents, dtype=np.uint32)
        num_queries = sample_size(self._settings.queries, self._train.num_queries)
        if num_queries < self._train.num_queries:
            queries = self._choose(self._train.num_queries, num_queries)
            rows = rows[self._of_queries(queries)]
        num_rows = sample_size(self._settings.documents, len(rows))
        if num_rows < len(rows):
            rows = rows[self._choose(len(rows), num_rows)]
        return queries, rows

    def _draw_features(self) -> NDArray[np.bool_]:
        return self._some(np.ones(self._train.num_features, dtype=np.bool_), self._settings.features)

    def _some(self, features: NDArray[np.bool_], size: SampleSize) -> NDArray[np.bool_]:
        """(F,), a sample of the features that are True; where it takes all, the array itself."""
        if size == 1:
            return features
        candidates = np.flatnonzero(features)
        num_chosen = sample_size(size, len(candidates))
        if num_chosen == len(candidates):
            return features
        chosen = np.zeros(len(features), dtype=np.bool_)
        chosen[candidates[self._choose(len(candidates), num_chosen)]] = True
        return chosen

    def _of_queries(self, queries: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(D,), whether a document is of one of them."""
        is_chosen = np.zeros(self._train.num_queries, dtype=np.bool_)
        is_chosen[queries] = True
        return np.repeat(is_chosen, self._train.query_sizes)

    def _choose(self, count: int, size: int) -> NDArray[np.int64]:
        """(size,), rising, of 0, ..., count - 1."""
        return np.sort(self._rng.choice(count, size, replace=False))


def sample_size(size: SampleSize, count: int) -> int:
    """How many of `count` a sample has: at least one, and at the most all.

    >>> [sample_size(size, 100) for size in (1.0, 0.25, 30, 3000, "sqrt", "log2")]
    [100, 25, 30, 100, 10, 7]
    """
    if isinstance(size, str):
        return max(1, round(ROOTS[size](count)))
    return min(count, max(1, round(size * count if size <= 1 else size)))
