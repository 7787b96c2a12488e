"""Sampling: the queries, documents and features of each tree, drawn without replacement.

Friedman, 2002, "Stochastic Gradient Boosting", section 3: a tree that is fitted to a sample is faster to grow
and differs more from earlier trees, which improves the model at small learning rates. Queries outside the
sample also measure how much a tree improves the ranking of unseen queries: the out-of-bag improvement.
Lambdas are always computed on whole queries, even if some documents of a query are not in the sample.

A sample size of at most 1 is a share; a larger one is a count.

GOSS samples by gradients instead: a tree is fitted to the documents with the largest gradients and to a
random sample of the others. Ke et al., 2017, "LightGBM: A Highly Efficient Gradient Boosting Decision Tree",
algorithm 2 (gradient-based one-side sampling), as implemented in LightGBM. Out of n documents,

    the a n documents with the largest |g h| are kept, and
    b n of the others are drawn; their g and h are multiplied by (n - a n) / (b n), the paper's (1 - a) / b,

so that the expected sums over a leaf equal the sums over all documents. GOSS only saves time on histograms,
because lambdas are computed for all documents. With a = 0.2 and b = 0.1, a fit of 200,000 documents took 0.85
of the time; validation NDCG@10 over MQ2008's folds was 0.687 instead of 0.690 (LightGBM: 0.681 instead of
0.682) [measured, with one thread, 50 and 100 trees]. The first 1 / learning_rate trees are fitted to all
documents, because early gradients carry little information about which documents are hard.
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
from ltrbench.native.team import Placement
from ltrbench.native.tree.binning import Rows

SampleSize = int | float | str
"""A share (at most 1), a count (above 1), or "sqrt" or "log2" of the total number."""

ROOTS = {"sqrt": math.sqrt, "log2": math.log2}
"""Named sample sizes, from random forests (Breiman, 2001)."""


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
    """Settings of the samples that trees are fitted to."""

    queries_per_tree: SampleSize = setting(1.0, refuse=_refuse_no_size)
    """Sample of queries for each tree: a share (at most 1) or a count (above 1)."""
    documents_per_tree: SampleSize = setting(1.0, refuse=_refuse_no_size)
    """Sample of the documents of these queries for each tree: a share (at most 1) or a count (above 1).
    Lambdas are still computed on whole queries."""
    features_per_tree: SampleSize = setting(1.0, refuse=_refuse_no_size_of_features)
    """Sample of the features that a tree may use, drawn for every tree whatever resample_every is: a share
    (at most 1), a count (above 1), or sqrt or log2 of all features."""
    features_per_split: SampleSize = setting(1.0, refuse=_refuse_no_size_of_features)
    """Sample of the tree's features that a leaf may be split on, drawn for each leaf, so that a strong
    feature does not hide the others (pyltr's max_features, LightGBM's feature_fraction_bynode, XGBoost's
    colsample_bynode): a share (at most 1), a count (above 1), or sqrt or log2 of them."""
    resample_every: int = setting(1, at_least=1)
    """Number of consecutive trees that share a sample of queries and documents (LightGBM's bagging_freq)."""
    goss_top_rate: float | None = setting(None, above=0, at_most=1)
    """GOSS (LightGBM): share of the documents that is kept because of large gradients; None: no GOSS."""
    goss_other_rate: float | None = setting(None, above=0, at_most=1)
    """GOSS: share that is drawn from the other documents, with their gradients amplified."""

    @property
    def goss_rates(self) -> tuple[float, float] | None:
        """The two rates of GOSS; None if GOSS is off."""
        if self.goss_top_rate is None or self.goss_other_rate is None:
            return None
        return self.goss_top_rate, self.goss_other_rate


@dataclass(frozen=True, eq=False)
class Sample:
    """The sample that one tree is fitted to.

    Attributes:
        queries: (q,), ascending; None: all queries.
        rows: (n,), documents of these queries, ascending.
        features: (F,), mask of the features that may be used.
    """

    queries: NDArray[np.int64] | None
    rows: Rows
    features: NDArray[np.bool_]


class Sampler:
    """Draws a sample for each tree.

    The sample is drawn from the whole training set; `draw` and `left_out` return the part of this member.

    Args:
        train: queries of this member.
        settings: sizes of the samples.
        rng: generator of the draws, the same one for every member.
        placement: where the queries are in the whole training set; None: they are all.
    """

    def __init__(
        self,
        train: RankingDataset,
        settings: SamplingSettings,
        rng: np.random.Generator,
        placement: Placement | None = None,
    ) -> None:
        self._train = train
        self._settings = settings
        self._rng = rng
        self._placement = placement or Placement.alone(train.query_sizes)
        self._queries: NDArray[np.int64] | None = None
        self._rows: Rows | None = None
        self._num_drawn = 0

    def draw(self) -> Sample:
        if self._num_drawn % self._settings.resample_every == 0:
            self._queries, self._rows = self._draw_rows()
        self._num_drawn += 1
        queries = None if self._queries is None else self._placement.queries_here(self._queries)
        # A new array, because growing a tree reorders its rows.
        if self._rows is None:
            rows = np.arange(self._train.num_documents, dtype=np.uint32)
        else:
            rows = self._placement.rows_here(self._rows).copy()
        return Sample(queries, rows, self._draw_features())

    def features_of_leaf(self, features: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns the (F,) mask of the features that one leaf may be split on, drawn from a tree's features.

        Breiman, 2001, "Random Forests".
        """
        return self._draw_from(features, self._settings.features_per_split)

    def left_out(self) -> NDArray[np.int64] | None:
        """Returns the (n,) out-of-bag documents of the last draw, ascending; None if it took all documents.

        If queries are sampled, these are the documents of the queries outside the sample; otherwise the
        documents outside the sample.
        """
        if self._rows is None:
            return None
        is_in = np.zeros(self._placement.num_documents, dtype=np.bool_)
        if self._queries is None:
            is_in[self._rows] = True
        else:
            is_in = self._of_queries(self._queries)
        return self._placement.rows_here(np.flatnonzero(~is_in))

    def _draw_rows(self) -> tuple[NDArray[np.int64] | None, Rows | None]:
        """Returns the queries and the rows of the whole training set; None: all."""
        queries, rows = None, None
        count, num_documents = self._placement.num_queries, self._placement.num_documents
        num_queries = sample_size(self._settings.queries_per_tree, count)
        if num_queries < count:
            queries = self._choose(count, num_queries)
            rows = np.flatnonzero(self._of_queries(queries)).astype(np.uint32)
            num_documents = len(rows)
        num_rows = sample_size(self._settings.documents_per_tree, num_documents)
        if num_rows < num_documents:
            places = self._choose(num_documents, num_rows)
            rows = places.astype(np.uint32) if rows is None else rows[places]
        return queries, rows

    def _draw_features(self) -> NDArray[np.bool_]:
        features = np.ones(self._train.num_features, dtype=np.bool_)
        return self._draw_from(features, self._settings.features_per_tree)

    def _draw_from(self, features: NDArray[np.bool_], size: SampleSize) -> NDArray[np.bool_]:
        """Returns the (F,) mask of a sample of `features`; if the sample takes all, the same array."""
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
        """Returns the (D,) mask of the documents of these queries."""
        is_chosen = np.zeros(self._placement.num_queries, dtype=np.bool_)
        is_chosen[queries] = True
        return np.repeat(is_chosen, self._placement.query_sizes)

    def _choose(self, count: int, size: int) -> NDArray[np.int64]:
        """Returns `size` different numbers out of 0, ..., count - 1, ascending."""
        return np.sort(self._rng.choice(count, size, replace=False))


def sample_size(size: SampleSize, count: int) -> int:
    """Returns the size of a sample of `count` items: at least 1, at most `count`.

    >>> [sample_size(size, 100) for size in (1.0, 0.25, 30, 3000, "sqrt", "log2")]
    [100, 25, 30, 100, 10, 7]
    """
    if isinstance(size, str):
        return max(1, round(ROOTS[size](count)))
    return min(count, max(1, round(size * count if size <= 1 else size)))


def one_side_sample(
    sizes: NDArray[np.float64], top_rate: float, other_rate: float, rng: np.random.Generator
) -> tuple[Rows, NDArray[np.float64]]:
    """Returns the sampled rows of GOSS, ascending, and the (D,) factors of all gradients and hessians.

    Args:
        sizes: (D,), |g h|.
        top_rate: a, share of the documents that is kept because of large gradients.
        other_rate: b, share of the documents that is drawn from the others.
        rng: generator of the draws.
    """
    num_documents = len(sizes)
    num_top = max(1, int(top_rate * num_documents))
    num_other = min(max(1, int(other_rate * num_documents)), num_documents - num_top)
    is_in = _largest(sizes, num_top)
    others = rng.choice(np.flatnonzero(~is_in), num_other, replace=False)
    is_in[others] = True
    factors = np.ones(num_documents)
    factors[others] = (num_documents - num_top) / max(1, num_other)
    return np.flatnonzero(is_in).astype(np.uint32), factors


def _largest(sizes: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """Returns the (D,) mask of the `count` largest sizes; among equal sizes the first ones are chosen."""
    threshold = np.partition(sizes, len(sizes) - count)[len(sizes) - count]
    is_largest: NDArray[np.bool_] = sizes > threshold
    equal = np.flatnonzero(sizes == threshold)
    is_largest[equal[: count - np.count_nonzero(is_largest)]] = True
    return is_largest
