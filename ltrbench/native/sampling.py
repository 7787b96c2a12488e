"""Sampling: the queries, documents and features that a tree learns from, drawn anew without repetition.

Friedman, 2002, "Stochastic Gradient Boosting", section 3: a tree that sees a part of the data is grown
faster, and differs more from the trees before it, which a small learning rate turns into a better model. A
whole query that is left out tells besides how much the tree helps where it has not learned: the out-of-bag
improvement. Lambdas are those of whole queries, also where some of their documents are left out.

A sample's size is a share of all there are up to 1, and a count above it.

GOSS draws by gradients instead: a tree learns from the documents of the largest gradients, and from a sample
of the others. Ke et al., 2017, "LightGBM: A Highly Efficient Gradient Boosting Decision Tree", algorithm 2
(gradient-based one-side sampling), as LightGBM has it. Of n documents

    the a n documents of the largest |g h| are kept,
    of the others b n are drawn, and their g and h multiplied by (n - a n) / (b n), the paper's (1 - a) / b,

so that sums over a leaf stay, in the mean, those over all documents. It saves time on histograms alone, since
lambdas are of all documents: with a = 0.2 and b = 0.1 a fit of 200,000 documents took 0.85 of the time, and
validation NDCG@10 over MQ2008's folds was 0.687 for 0.690, LightGBM's 0.681 for 0.682 [measured, with
one thread, 50 and 100 trees]. The first 1 / learning_rate trees learn from all documents, because before them
gradients say little about which documents are hard.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.native.settings import setting
from ltrbench.native.tree.binning import Rows
from ltrbench.shapes import Gradients, Hessians

SampleSize = int | float | str
"""A share (at most 1), a count (above 1), "sqrt" or "log2" of all."""

ROOTS = {"sqrt": math.sqrt, "log2": math.log2}
"""The sizes that have a name, as random forests know them (Breiman, 2001)."""


def _refuse_no_size(name: str, size: SampleSize, words: Collection[str] = ()) -> None:
    if isinstance(size, str):
        is_size = size in words
    else:
        is_size = 0 < size <= 1 or (size > 1 and float(size).is_integer())
    if not is_size:
        alternatives = "".join(f" or {word}" for word in words)
        raise ConfigError(
            f"{name} is {size}; it must be a share above 0 and up to 1, or a count from 2{alternatives}."
        )


_refuse_no_size_of_features = partial(_refuse_no_size, words=ROOTS)


@dataclass(kw_only=True)
class SamplingSettings:
    """What a tree learns from."""

    queries_per_tree: SampleSize = setting(1.0, refuse=_refuse_no_size)
    """Number of queries that a tree learns from: a share up to 1, above 1 a count."""
    documents_per_tree: SampleSize = setting(1.0, refuse=_refuse_no_size)
    """Number of those queries' documents that it learns from; the lambdas are those of whole queries."""
    features_per_tree: SampleSize = setting(1.0, refuse=_refuse_no_size_of_features)
    """Number of features that it may use, drawn for each tree whatever resample_every is; also sqrt or log2
    of all."""
    features_per_split: SampleSize = setting(1.0, refuse=_refuse_no_size_of_features)
    """Number of these that a leaf may be cut by, drawn for each leaf (pyltr's max_features,
    feature_fraction_bynode, colsample_bynode), so that a strong feature does not hide the others; also sqrt
    or log2 of them."""
    resample_every: int = setting(1, at_least=1)
    """Number of trees in turn that learn from one draw of queries and documents (LightGBM's bagging_freq)."""
    goss_top_rate: float | None = setting(None, above=0, at_most=1)
    """GOSS (LightGBM): share of the documents that is kept for its large gradients; None: no GOSS."""
    goss_other_rate: float | None = setting(None, above=0, at_most=1)
    """GOSS: share that is drawn from the other documents, and whose gradients are amplified."""

    @property
    def goss_rates(self) -> tuple[float, float] | None:
        """The two rates of GOSS; None where it is off."""
        if self.goss_top_rate is None or self.goss_other_rate is None:
            return None
        return self.goss_top_rate, self.goss_other_rate


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
        if self._num_drawn % self._settings.resample_every == 0:
            self._queries, self._rows = self._draw_rows()
        self._num_drawn += 1
        # A copy, because growing a tree puts its rows in another order.
        return Sample(self._queries, self._rows.copy(), self._draw_features())

    def features_of_leaf(self, features: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(F,), which of a tree's features one leaf may be cut by (Breiman, 2001, "Random Forests")."""
        return self._draw_from(features, self._settings.features_per_split)

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
        num_queries = sample_size(self._settings.queries_per_tree, self._train.num_queries)
        if num_queries < self._train.num_queries:
            queries = self._choose(self._train.num_queries, num_queries)
            rows = rows[self._of_queries(queries)]
        num_rows = sample_size(self._settings.documents_per_tree, len(rows))
        if num_rows < len(rows):
            rows = rows[self._choose(len(rows), num_rows)]
        return queries, rows

    def _draw_features(self) -> NDArray[np.bool_]:
        features = np.ones(self._train.num_features, dtype=np.bool_)
        return self._draw_from(features, self._settings.features_per_tree)

    def _draw_from(self, features: NDArray[np.bool_], size: SampleSize) -> NDArray[np.bool_]:
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


def one_side_sample(
    gradients: Gradients, hessians: Hessians, top_rate: float, other_rate: float, rng: np.random.Generator
) -> tuple[Rows, NDArray[np.float64]]:
    """Returns the rows to learn from, rising, and the (D,) factors of every document's gradient and hessian.

    Args:
        top_rate: a, the share of the documents that is kept for its gradients.
        other_rate: b, the share that is drawn from the others.
    """
    num_documents = len(gradients)
    num_top = max(1, int(top_rate * num_documents))
    num_other = min(max(1, int(other_rate * num_documents)), num_documents - num_top)
    is_in = _largest(np.abs(gradients * hessians), num_top)
    others = rng.choice(np.flatnonzero(~is_in), num_other, replace=False)
    is_in[others] = True
    factors = np.ones(num_documents)
    factors[others] = (num_documents - num_top) / max(1, num_other)
    return np.flatnonzero(is_in).astype(np.uint32), factors


def _largest(sizes: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """(D,), whether a size is among the `count` largest; of equal ones the earliest are."""
    threshold = np.partition(sizes, len(sizes) - count)[len(sizes) - count]
    is_largest: NDArray[np.bool_] = sizes > threshold
    equal = np.flatnonzero(sizes == threshold)
    is_largest[equal[: count - np.count_nonzero(is_largest)]] = True
    return is_largest
