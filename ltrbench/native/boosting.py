"""Boosting: the loop that combines the other stages into LambdaMART.

Burges, 2010, "From RankNet to LambdaRank to LambdaMART: An Overview", section 7. All scores start at 0. Each
iteration computes the lambdas of the current scores, grows a tree whose leaves group documents with similar
lambdas, sets the value of each leaf to a Newton step, and adds the shrunken value to the scores of the leaf's
documents:

    value = -sum g / (sum h + l2), clipped to [-max_delta_step, max_delta_step]
    score += learning_rate * value

The gradients are the lambdas of NDCG, or those of another objective in `objectives`. With leaf_value=mean or
split_criterion=least_squares, the hessian of every document is its weight in that step. The two settings are
independent: splits may use one kind of hessian and leaf values the other.

The parts of this file: DART chooses the trees to drop, `BoostedTrees` keeps the scores, `Sampler` draws the
documents that a tree is fitted to, and `boost` is the loop.

This module does not measure, print or stop by itself; pass `on_iteration` to watch or stop the fit.
"""

from __future__ import annotations

import atexit
import functools
import math
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import Part, compiling_process, in_parts, is_cached, kernel
from ltrbench.data import RankingDataset
from ltrbench.data.features import (
    AnyFeatures,
    SparseRows,
    csr_of,
    is_sparse,
    require_memory,
    row_blocks,
)
from ltrbench.errors import ConfigError, DataError
from ltrbench.native import Tree
from ltrbench.native.bins import (
    COLUMN_BINS,
    EQUAL_WIDTH,
    QUANTILE,
    AnyBins,
    BinnedFeatures,
    CategoricalBins,
    Rows,
    ThresholdRule,
    bin_alike,
    bin_features,
    partition,
)
from ltrbench.native.forest import (
    Forest,
    add_binned_scores,
    add_scores,
    add_stored_scores,
    plant,
)
from ltrbench.native.growing import ORDERS, Grower, GrownTree, grow_best_first
from ltrbench.native.histogram import quantise, sums_by_leaf
from ltrbench.native.objectives.base import PreparedObjective
from ltrbench.native.objectives.lambdas import ObjectiveSettings, prepare
from ltrbench.native.objectives.pairs import PairSettings
from ltrbench.native.sparse import bin_sparse, takes_less_memory
from ltrbench.native.splitting import SplitSettings, monotone_signs, newton_step
from ltrbench.native.team import DocumentDraws, Placement
from ltrbench.settings import NOT_0, NOT_1, setting
from ltrbench.shapes import Gradients, Hessians, Values

# ---- DART: each tree is fitted with some earlier trees dropped, and all of them are rescaled afterwards.
#
# Vinayak and Gilad-Bachrach, 2015, "DART: Dropouts meet Multiple Additive Regression Trees". In plain
# boosting the first trees determine most of the ranking, and later trees correct a few documents. Before
# each iteration, DART drops k random trees and computes the lambdas from the scores of the remaining trees.
# It then rescales the new tree and the dropped trees so that their sum does not overshoot. With the
# learning rate eta:
#
#     drop_normalize  new tree's weight  factor of dropped weights  source
#     mean            eta / (k + 1)      k / (k + 1)                paper, algorithm 1 (eta = 1); LightGBM
#     tree            eta / (k + eta)    k / (k + eta)              XGBoost, normalize_type=tree
#     forest          eta / (1 + eta)    1 / (1 + eta)              XGBoost, normalize_type=forest
#
# If no tree is dropped, the weight is eta. If the new tree predicts exactly what the dropped trees
# predicted, the scores do not change. drop_rate=1 is close to a random forest; drop_rate=0 is plain
# boosting.

Weights = NDArray[np.float64]  # (T,), factor of each tree's values


class Rescaling(NamedTuple):
    """Weights after an iteration.

    Attributes:
        new: weight of the new tree.
        factor: factor of the weights of the dropped trees.
    """

    new: float
    factor: float


_OF_DART = {"drop_rate": NOT_0}
_OF_SAMPLES = {"queries_per_tree": NOT_1._replace(others=("documents_per_tree",))}


@dataclass(kw_only=True)
class DartSettings:
    """Settings of DART."""

    drop_rate: float = setting(0.0, at_least=0, at_most=1)
    """DART: probability that an earlier tree is dropped (LightGBM: 0.1, XGBoost: 0); 0: no DART. A tree is
    fitted without the dropped trees, so that late trees matter as much as early ones."""
    skip_drop: float = setting(0.0, at_least=0, at_most=1, only_with=_OF_DART)
    """DART: probability that an iteration drops no tree (LightGBM: 0.5, XGBoost: 0)."""
    max_drop: int = setting(0, at_least=0, only_with=_OF_DART)
    """DART: maximum number of dropped trees per iteration (LightGBM: 50); 0: no limit."""
    drop_by_weight: bool = setting(False, only_with=_OF_DART)
    """DART: drop probability proportional to the weight of a tree (LightGBM's default). The mean is drop_rate
    (XGBoost's sample_type=weighted)."""
    drop_normalize: str = setting(
        "tree", choices=("mean", "tree", "forest"), only_with=_OF_DART
    )
    """DART: rescaling of new and dropped trees: tree or forest (XGBoost), or mean (LightGBM)."""


def rescale(num_dropped: int, learning_rate: float, normalize: str) -> Rescaling:
    """Returns the weight of a new tree and the factor of the dropped trees' weights; see the table above.
    >>> rescale(3, 1.0, "mean")
    Rescaling(new=0.25, factor=0.75)
    >>> rescale(0, 0.1, "mean")
    Rescaling(new=0.1, factor=1.0)
    """
    if num_dropped == 0:
        return Rescaling(learning_rate, 1.0)
    if normalize == "forest":
        return Rescaling(
            learning_rate / (1.0 + learning_rate), 1.0 / (1.0 + learning_rate)
        )
    divisor = num_dropped + (1 if normalize == "mean" else learning_rate)
    return Rescaling(learning_rate / divisor, num_dropped / divisor)


def choose_dropped(
    weights: Weights, settings: DartSettings, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Returns the trees to drop, ascending, given the (T,) weights of all trees so far.

    As in LightGBM, the probabilities are reduced if the expected number of dropped trees exceeds `max_drop`.
    If more are drawn nevertheless, a random `max_drop` of them are dropped; LightGBM drops the earliest.
    """
    if (
        settings.drop_rate == 0
        or len(weights) == 0
        or rng.random() < settings.skip_drop
    ):
        return np.empty(0, dtype=np.int64)
    chances = np.full(len(weights), settings.drop_rate)
    if settings.drop_by_weight:
        chances *= weights / weights.mean()
    if settings.max_drop:
        chances *= min(1.0, settings.max_drop / chances.sum())
    dropped = np.flatnonzero(rng.random(len(weights)) < chances)
    if settings.max_drop and len(dropped) > settings.max_drop:
        dropped = np.sort(rng.choice(dropped, settings.max_drop, replace=False))
    return dropped


# ---- The ensemble during a fit: the trees so far, their weights and their scores.
#
#     score(x) = sum over t of weight_t leaf_t(x)
#
# The scores of the training and validation documents are updated after every tree, in the order of the
# trees, so that they have the same bits as a prediction. Optionally, training scores are float32, as in
# XGBoost. The scores come from the bins of the documents, or from the stored values of sparse documents;
# only the trees of an earlier fit need dense features, once.
#
# DART removes trees from the sum and adds them again rescaled. Subtracting their values would leave
# rounding errors between documents to which the other trees assign equal scores. These errors would
# determine the order of the documents and so their lambdas. The scores are therefore recomputed from the
# leaf of each document in each tree. With DART, the ensemble stores these leaves: one byte per document and
# tree of up to 128 leaves.

_NO_TREES = np.empty(0, dtype=np.int64)


class BoostedTrees:
    """Trees, weights and scores of a fit.

    Args:
        train: training documents.
        valid: validation documents, or None.
        start: initial trees, if the fit continues from a model.
    """

    def __init__(
        self,
        train: Documents,
        valid: Documents | None = None,
        start: Forest | None = None,
    ) -> None:
        self._train = train
        self._valid = valid
        self._trees: list[Tree] = []
        self._start_weights = np.empty(0) if start is None else start.weights
        self._rescalings: list[tuple[NDArray[np.int64], Rescaling]] = []
        self._dropped = _NO_TREES
        self.weights: Weights = self._start_weights
        if start is not None:
            self._trees = start.trees()
            for scored in self._all_scored():
                scored.add_start(self._trees, start.weights)

    @property
    def num_trees(self) -> int:
        return len(self._trees)

    @property
    def num_start(self) -> int:
        """Number of initial trees, with which the fit started."""
        return len(self._start_weights)

    @property
    def train_scores(self) -> Values:
        return self._train.scores

    @property
    def valid_scores(self) -> Values | None:
        if self._valid is None:
            return None
        return self._valid.scores

    @property
    def forest(self) -> Forest:
        """All trees with their current weights; at least one tree is required."""
        return plant(self._trees, self.weights)

    def first(self, num_trees: int) -> Forest:
        """Returns the model after `num_trees` trees, with the weights that it had at that time."""
        weights = self._start_weights
        for dropped, rescaling in self._rescalings[: num_trees - self.num_start]:
            weights = _rescaled(weights, dropped, rescaling)
        return plant(self._trees[:num_trees], weights)

    def drop(self, trees: NDArray[np.int64]) -> None:
        """Removes the values of these trees from the training scores until the next tree is added."""
        self._dropped = trees
        if len(trees):
            weights = self.weights.copy()
            weights[trees] = 0.0
            self._train.add_up(self._trees, weights)

    def add(self, tree: Tree, grown: GrownTree, rescaling: Rescaling) -> None:
        """Adds a fitted tree, restores the dropped trees, and updates all weights and scores.

        Args:
            tree: the tree with its leaf values.
            grown: the same tree with the training documents of its leaves.
            rescaling: weight of the new tree, and factor of the dropped trees' weights.
        """
        self.weights = _rescaled(self.weights, self._dropped, rescaling)
        if len(self._dropped):
            for scored in self._all_scored():
                scored.add_up(self._trees, self.weights[:-1])
        if len(grown.rows) == len(self.train_scores):
            self._train.add_grown(tree, grown, rescaling.new)
        else:
            self._train.add(tree, rescaling.new)
        if self._valid is not None:
            self._valid.add(tree, rescaling.new)
        self._trees.append(tree)
        self._rescalings.append((self._dropped, rescaling))
        self._dropped = _NO_TREES

    def _all_scored(self) -> list[Documents]:
        if self._valid is None:
            return [self._train]
        return [self._train, self._valid]


@dataclass(eq=False)
class Documents:
    """The documents of a data set, their scores and, if trees may be dropped, the leaves that they reach.

    Attributes:
        features: (D, F).
        binned: their bins, with thresholds from the training documents; None: scores come from the features.
        remembers_leaves: whether trees may be dropped.
        in_float32: whether scores, and the values added to them, are rounded to float32.
        scores: (D,).
        leaves: for each tree, the (D,) leaf nodes of the documents; empty without DART.
    """

    features: AnyFeatures
    binned: BinnedFeatures | None
    remembers_leaves: bool = False
    in_float32: bool = False

    def __post_init__(self) -> None:
        self.scores: Values = np.zeros(len(self.features))
        self.leaves: list[NDArray[np.unsignedinteger]] = []

    def add_scores(self, forest: Forest, scores: Values) -> None:
        """Adds the values of trees of this fit to the (D,) scores, in place."""
        if self.binned is not None:
            add_binned_scores(forest, self.binned, scores)
        elif isinstance(self.features, SparseRows):
            add_stored_scores(forest, self.features, scores)
        else:
            for start, block in row_blocks(self.features):
                add_scores(forest, block, scores[start : start + len(block)])

    def add_start(self, trees: list[Tree], weights: Weights) -> None:
        """Adds trees of an earlier fit, whose thresholds are not those of the bins."""
        forests = [
            self._alone(tree, weight)
            for tree, weight in zip(trees, weights, strict=True)
        ]
        numbered = []
        if self.remembers_leaves:
            numbered = [_numbered(tree) for tree in trees]
        self.leaves = []
        for tree in trees[: len(numbered)]:
            leaves = np.empty(len(self.scores), _leaf_dtype(tree))
            self.leaves.append(leaves)
        sparse = isinstance(self.features, SparseRows)
        for start, rows in (
            [(0, self.features)] if sparse else row_blocks(self.features)
        ):
            part = slice(start, start + len(rows))
            block = Documents(rows, None)
            for forest in forests:
                block.add_scores(forest, self.scores[part])
                self._round(part)
            for forest, leaves in zip(numbered, self.leaves, strict=True):
                nodes = np.zeros(len(rows))
                block.add_scores(forest, nodes)
                leaves[part] = nodes

    def add(self, tree: Tree, weight: float) -> None:
        self.add_scores(self._alone(tree, weight), self.scores)
        self._round()
        self._remember(tree)

    def add_grown(self, tree: Tree, grown: GrownTree, weight: float) -> None:
        """Adds a tree whose leaves are known for all documents, because it was grown on them."""
        values = self._weighted(tree, weight)[grown.leaf_node]
        arguments = grown.rows, grown.leaf_start, values, self.scores
        in_parts(_add_leaf_values, len(values), *arguments)
        self._round()
        self._remember(tree)

    def add_up(self, trees: list[Tree], weights: Weights) -> None:
        """Recomputes the scores with these weights."""
        self.scores[:] = 0.0
        for tree, weight, leaves in zip(trees, weights, self.leaves, strict=True):
            self.scores += self._weighted(tree, weight)[leaves]
            self._round()

    def _weighted(self, tree: Tree, weight: float) -> NDArray[np.float64]:
        """Returns the (N,) weighted leaf values of a tree."""
        if self.in_float32:
            return (np.float32(weight) * tree.value.astype(np.float32)).astype(
                np.float64
            )
        return weight * tree.value

    def _alone(self, tree: Tree, weight: float) -> Forest:
        """Returns a forest of one tree with its weighted leaf values."""
        weighted = tree._replace(value=self._weighted(tree, weight))
        return plant([weighted], [1.0])

    def _round(self, part: slice = slice(None)) -> None:
        if self.in_float32:
            self.scores[part] = self.scores[part].astype(np.float32)

    def _remember(self, tree: Tree) -> None:
        if self.remembers_leaves:
            nodes = np.zeros(len(self.scores))
            self.add_scores(_numbered(tree), nodes)
            self.leaves.append(nodes.astype(_leaf_dtype(tree)))


def _numbered(tree: Tree) -> Forest:
    """Returns a forest of one tree that scores a document with the number of its leaf."""
    numbers = np.arange(len(tree.value), dtype=np.float64)
    return plant([tree._replace(value=numbers)], [1.0])


def _leaf_dtype(tree: Tree) -> np.dtype[np.unsignedinteger]:
    """Returns the smallest dtype for the numbers of a tree's leaves."""
    return np.min_scalar_type(len(tree.value) - 1)


def _rescaled(
    weights: Weights, dropped: NDArray[np.int64], rescaling: Rescaling
) -> Weights:
    """Returns the (T + 1,) weights after a new tree, given the (T,) weights before it."""
    weights = np.append(weights, rescaling.new)
    weights[dropped] *= rescaling.factor
    return weights


@kernel
def _add_leaf_values(
    part: Part,
    rows: Rows,
    leaf_start: NDArray[np.int64],
    values: NDArray[np.float64],
    scores: Values,
) -> None:
    for leaf in range(part[0], part[1]):
        for row in rows[leaf_start[leaf] : leaf_start[leaf + 1]]:
            scores[row] += values[leaf]


# ---- Sampling: the queries, documents and features of each tree, drawn without replacement.
#
# Friedman, 2002, "Stochastic Gradient Boosting", section 3: a tree that is fitted to a sample is faster to
# grow and differs more from earlier trees, which improves the model at small learning rates. Queries
# outside the sample also measure how much a tree improves the ranking of unseen queries: the out-of-bag
# improvement. Lambdas are always computed on whole queries, even if some documents of a query are not in
# the sample.
#
# A sample size of at most 1 is a share; a larger one is a count.
#
# GOSS samples by gradients instead: a tree is fitted to the documents with the largest gradients and to a
# random sample of the others. Ke et al., 2017, "LightGBM: A Highly Efficient Gradient Boosting Decision
# Tree", algorithm 2 (gradient-based one-side sampling), as implemented in LightGBM. Out of n documents,
#
#     the a n documents with the largest |g h| are kept, and
#     b n of the others are drawn; their g and h are multiplied by (n - a n) / (b n), the paper's (1 - a) /
#     b,
#
# so that the expected sums over a leaf equal the sums over all documents. GOSS only saves time on
# histograms, because lambdas are computed for all documents. With a = 0.2 and b = 0.1, a fit of 200,000
# documents took 0.85 of the time; validation NDCG@10 over MQ2008's folds was 0.687 instead of 0.690
# (LightGBM: 0.681 instead of 0.682) [measured, with one thread, 50 and 100 trees]. The first 1 /
# learning_rate trees are fitted to all documents, because early gradients carry little information about
# which documents are hard.

SampleSize = int | float | str
"""A share (at most 1), a count (above 1), or "sqrt" or "log2" of the total number."""

ROOTS = {"sqrt": math.sqrt, "log2": math.log2}
"""Named sample sizes, from random forests (Breiman, 2001)."""


def _refuse_no_size(name: str, size: SampleSize, words: Collection[str] = ()) -> None:
    if isinstance(size, str):
        is_size = size in words
    else:
        is_number = size > 1 and float(size).is_integer()
        is_size = 0 < size <= 1 or is_number
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
    """Sample of queries per tree: a share (at most 1) or a count (above 1). The queries left out give the
    out-of-bag improvement."""
    documents_per_tree: SampleSize = setting(1.0, refuse=_refuse_no_size)
    """Sample of their documents per tree: a share (at most 1) or a count (above 1). Lambdas are still
    computed on whole queries; small samples are faster."""
    features_per_tree: SampleSize = setting(1.0, refuse=_refuse_no_size_of_features)
    """Sample of features per tree: a share (at most 1), a count (above 1), or sqrt or log2 of all. It is
    drawn for every tree, whatever resample_every is."""
    features_per_split: SampleSize = setting(1.0, refuse=_refuse_no_size_of_features)
    """Sample of the tree's features per leaf: a share, a count, or sqrt or log2 of them. A strong feature
    then does not hide the others (pyltr's max_features, LightGBM's feature_fraction_bynode, XGBoost's
    colsample_bynode)."""
    resample_every: int = setting(1, at_least=1, only_with=_OF_SAMPLES)
    """Number of trees per sample of queries and documents (LightGBM's bagging_freq)."""
    goss_top_rate: float | None = setting(None, above=0, at_most=1)
    """GOSS: share of documents kept for large gradients (LightGBM: 0.2); None: no GOSS."""
    goss_other_rate: float | None = setting(None, above=0, at_most=1)
    """GOSS: share drawn from the other documents, with amplified gradients (LightGBM: 0.1)."""

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


@dataclass(eq=False)
class Sampler:
    """Draws a sample for each tree.

    The sample is drawn from the whole training set; `draw` and `left_out` return the part of this member.

    Args:
        train: queries of this member.
        settings: sizes of the samples.
        rng: generator of the draws, the same one for every member.
        placement: where the queries are in the whole training set; None: they are all.
    """

    train: RankingDataset
    settings: SamplingSettings
    rng: np.random.Generator
    placement: InitVar[Placement | None] = None

    def __post_init__(self, placement: Placement | None) -> None:
        self._placement = placement or Placement.alone(self.train.query_sizes)
        self._queries: NDArray[np.int64] | None = None
        self._rows: Rows | None = None
        self._num_drawn = 0

    def draw(self) -> Sample:
        if self._num_drawn % self.settings.resample_every == 0:
            self._queries, self._rows = self._draw_rows()
        self._num_drawn += 1
        queries = None
        if self._queries is not None:
            queries = self._placement.queries_here(self._queries)
        # A new array, because growing a tree reorders its rows.
        if self._rows is None:
            rows = np.arange(self.train.num_documents, dtype=np.uint32)
        else:
            rows = self._placement.rows_here(self._rows).copy()
        every_feature = np.ones(self.train.num_features, dtype=np.bool_)
        return Sample(
            queries,
            rows,
            self._draw_from(every_feature, self.settings.features_per_tree),
        )

    def features_of_leaf(self, features: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns the (F,) mask of the features that one leaf may be split on, drawn from a tree's features.

        Breiman, 2001, "Random Forests".
        """
        return self._draw_from(features, self.settings.features_per_split)

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
        queries = None
        rows = None
        count = self._placement.num_queries
        num_documents = self._placement.num_documents
        num_queries = sample_size(self.settings.queries_per_tree, count)
        if num_queries < count:
            queries = self._choose(count, num_queries)
            rows = np.flatnonzero(self._of_queries(queries)).astype(np.uint32)
            num_documents = len(rows)
        num_rows = sample_size(self.settings.documents_per_tree, num_documents)
        if num_rows < num_documents:
            indices = self._choose(num_documents, num_rows)
            rows = indices.astype(np.uint32) if rows is None else rows[indices]
        return queries, rows

    def _draw_from(
        self, features: NDArray[np.bool_], size: SampleSize
    ) -> NDArray[np.bool_]:
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
        return np.sort(self.rng.choice(count, size, replace=False))


def sample_size(size: SampleSize, count: int) -> int:
    """Returns the size of a sample of `count` items: at least 1, at most `count`.

    >>> [sample_size(size, 100) for size in (1.0, 0.25, 30, 3000, "sqrt", "log2")]
    [100, 25, 30, 100, 10, 7]
    """
    if isinstance(size, str):
        return max(1, round(ROOTS[size](count)))
    number = size * count if size <= 1 else size
    return min(count, max(1, round(number)))


def one_side_sample(
    sizes: NDArray[np.float64],
    top_rate: float,
    other_rate: float,
    rng: np.random.Generator,
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
    num_other = max(1, int(other_rate * num_documents))
    num_other = min(num_other, num_documents - num_top)
    is_in = _largest(sizes, num_top)
    others = rng.choice(np.flatnonzero(~is_in), num_other, replace=False)
    is_in[others] = True
    factors = np.ones(num_documents)
    factors[others] = (num_documents - num_top) / max(1, num_other)
    return np.flatnonzero(is_in).astype(np.uint32), factors


def _largest(sizes: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """Returns the (D,) mask of the `count` largest sizes; among equal sizes the first ones are chosen."""
    num_smaller = len(sizes) - count
    threshold = np.partition(sizes, num_smaller)[num_smaller]
    is_largest: NDArray[np.bool_] = sizes > threshold
    equal = np.flatnonzero(sizes == threshold)
    is_largest[equal[: count - np.count_nonzero(is_largest)]] = True
    return is_largest


_LeftOut = NDArray[np.int64] | None
WatchIteration = Callable[[int, Values, Values | None, _LeftOut], bool]
"""Called after each iteration with the number of trees, the scores of the training and validation documents,
and the (n,) training documents returned by `Sampler.left_out`. Returning True ends the fit."""


BINNINGS: dict[str, ThresholdRule] = {"quantile": QUANTILE, "equal_width": EQUAL_WIDTH}


@dataclass(kw_only=True)
class TreeOptions:
    """Settings of growing a tree."""

    binning: str = setting("quantile", choices=tuple(BINNINGS))
    """Thresholds of a feature: quantile, or equal_width (RankLib). `quantile`: between bins of equal weight
    (LightGBM, XGBoost, CatBoost); `equal_width`: at every value if there are fewer than max_bins, otherwise
    at equal distances."""
    split_criterion: str = setting("newton", choices=("newton", "least_squares"))
    """Criterion of splits: newton (second-order gain) or least_squares (RankLib, pyltr). `newton` is that of
    LightGBM and XGBoost; `least_squares` is the same with every hessian 1 (pyltr's friedman_mse), so that
    documents that the model already ranks with confidence still influence the thresholds. min_sum_hessian
    then counts documents per side."""
    leaf_value: str = setting("newton", choices=("newton", "mean"))
    """Leaf value before shrinkage: newton, or mean: the mean of the negative gradients. `newton` is -G / (H +
    l2), the value in all libraries; the mean is a plain gradient step, which is smaller if hessians are below
    1."""
    growth: str = setting("best_first", choices=tuple(ORDERS))
    """Leaf to split next: best_first (highest gain), by_deviance (RankLib) or depth_wise (by level). LightGBM
    grows best-first, XGBoost and pyltr by level; `by_deviance` is the largest deviance of gradients, whatever
    the gain."""


@dataclass(kw_only=True)
class BoostingSettings(TreeOptions):
    """All settings of the engine; `num_trees` to `max_bins` are documented in BoostingRanker."""

    num_trees: int = 100
    learning_rate: float = 0.1
    num_leaves: int = 31
    max_bins: int = 255
    seed: int = 0
    objective: ObjectiveSettings = field(default_factory=PairSettings)
    splits: SplitSettings = field(default_factory=SplitSettings)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    dart: DartSettings = field(default_factory=DartSettings)


def boost(
    train: RankingDataset,
    settings: BoostingSettings,
    valid_features: AnyFeatures | None = None,
    on_iteration: WatchIteration | None = None,
    start: Forest | None = None,
    objective: PreparedObjective | None = None,
    placement: Placement | None = None,
) -> BoostedTrees:
    """Fits the trees of a LambdaMART model, one per iteration, up to `num_trees`.

    Several members that call this at the same time, each with its part of the queries, get the same trees as
    one process with all queries.

    Args:
        train: training data of this member.
        settings: settings of the engine.
        valid_features: (V, F), features of the validation documents; `on_iteration` receives their scores.
        on_iteration: callback; it receives copies of the scores of this member and may keep them. It must
            return the same on every member.
        start: initial trees, fitted to the same features; they count towards `num_trees`.
        objective: replaces the objective of the settings, for example one that also learns position bias.
        placement: where the queries are in the whole training set; None: they are all.

    Raises:
        DataError: The bins do not fit into memory.
    """
    rng = np.random.default_rng(settings.seed)
    placement = placement or Placement.alone(train.query_sizes)
    draws = placement.draws(rng)
    features = _stored_or_same(train.features)
    binned = _binned(features, settings, rng, placement, train.categorical_features)
    may_drop = settings.dart.drop_rate > 0
    in_float32 = (
        isinstance(settings.objective, PairSettings)
        and settings.objective.float32_scores
    )
    documents = Documents(features, _bins_of_values(binned), may_drop, in_float32)
    valid = None
    if valid_features is not None:
        valid = _valid_documents(valid_features, binned, may_drop)
    ensemble = BoostedTrees(documents, valid, start)
    fit = _Training(
        settings=settings,
        placement=placement,
        rng=rng,
        draws=draws,
        objective=objective or prepare(train, settings.objective, placement),
        grower=_grower(train, settings, binned, placement),
        sampler=Sampler(train, settings.sampling, rng, placement),
        document_weights=train.weight_of_document,
    )
    while ensemble.num_trees < settings.num_trees:
        fit.add_tree(ensemble)
        if on_iteration is not None:
            left_out = fit.sampler.left_out()
            if _is_stopped(ensemble, on_iteration, left_out):
                break
    return ensemble


def _grower(
    train: RankingDataset,
    settings: BoostingSettings,
    binned: AnyBins,
    placement: Placement,
) -> Grower:
    signs = None
    if settings.splits.monotone:
        signs = monotone_signs(
            train.feature_names, settings.splits.monotone, train.categories
        )
    return Grower(
        binned,
        settings.num_leaves,
        settings.splits,
        settings.growth,
        signs,
        placement.team,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Training:
    """What all iterations of a fit share."""

    settings: BoostingSettings
    placement: Placement
    rng: np.random.Generator
    draws: DocumentDraws
    objective: PreparedObjective
    grower: Grower
    sampler: Sampler
    document_weights: NDArray[np.float64]

    def add_tree(self, ensemble: BoostedTrees) -> None:
        """Grows the next tree, and adds it to the ensemble."""
        dart = self.settings.dart
        dropped = choose_dropped(ensemble.weights, dart, self.rng)
        ensemble.drop(dropped)
        sample = self.sampler.draw()
        task = self._task(ensemble, sample)
        grown = self._grown(task, sample)
        curvatures = self._curvatures(task, self.settings.leaf_value)
        tree = _with_values(
            grown,
            task.gradients,
            curvatures,
            self.settings.splits,
            self.placement,
        )
        step = rescale(len(dropped), self.settings.learning_rate, dart.drop_normalize)
        ensemble.add(tree, grown, step)

    def _task(self, ensemble: BoostedTrees, sample: Sample) -> _Task:
        """Returns the gradients of a sample of the queries, or of one side of them."""
        gradients, hessians = self.objective(
            ensemble.train_scores, sample.queries, self.draws
        )
        task = _Task(sample.rows, gradients, hessians, self.document_weights)
        rates = self.settings.sampling.goss_rates
        num_unsampled = int(1.0 / self.settings.learning_rate)
        if rates is None or ensemble.num_trees < num_unsampled:
            return task
        return _one_sided(task, rates, self.rng, self.placement)

    def _grown(self, task: _Task, sample: Sample) -> GrownTree:
        curvatures = self._curvatures(task, self.settings.split_criterion)
        quantised = quantise(
            task.gradients,
            curvatures,
            self.placement.team,
            self.placement.num_documents,
        )
        features_of_leaf = None
        if self.settings.sampling.features_per_split != 1:
            features_of_leaf = self.sampler.features_of_leaf
        return self.grower.grow(quantised, task.rows, sample.features, features_of_leaf)

    def _curvatures(self, task: _Task, criterion: str) -> NDArray[np.float64]:
        """Returns the (D,) hessians, or for least squares the weights."""
        return task.hessians if criterion == "newton" else task.weights.copy()


def _is_stopped(
    ensemble: BoostedTrees,
    on_iteration: WatchIteration,
    left_out: NDArray[np.int64] | None,
) -> bool:
    """Shows copies of the scores to the callback, and returns whether it stops the fit."""
    of_valid = None
    if ensemble.valid_scores is not None:
        of_valid = ensemble.valid_scores.copy()
    scores = ensemble.train_scores.copy()
    return bool(on_iteration(ensemble.num_trees, scores, of_valid, left_out))


def _stored_or_same(features: AnyFeatures) -> AnyFeatures:
    """Returns the stored values of sparse features, and other features as they are."""
    sparse = csr_of(features)
    return features if sparse is None else sparse


def _binned(
    features: AnyFeatures,
    settings: BoostingSettings,
    rng: np.random.Generator,
    placement: Placement,
    categorical: Sequence[int],
) -> AnyBins:
    rule = BINNINGS[settings.binning]
    if categorical and isinstance(features, SparseRows):
        raise DataError(
            f"{len(categorical)} features are categorical, but the features are sparse; native needs dense "
            "features for categories. Set data.sparse=false, or list no categorical features."
        )
    if not placement.is_alone:
        if isinstance(features, SparseRows):
            num_sampled = min(len(features), rule.sample_size or 0)
            bytes_of_feature = len(features) + 4 * num_sampled
            require_memory(
                f"the dense bins of {len(features)} documents with {features.num_features} sparse features",
                bytes_of_feature * features.num_features,
                "A fit of several members stores a byte per document and feature even if most values are 0. "
                "Use more members or fewer features, or fit in one process.",
            )
        return bin_features(
            features, settings.max_bins, rng, rule, placement, categorical
        )
    if not isinstance(features, SparseRows) or not takes_less_memory(features):
        return bin_features(
            features, settings.max_bins, rng, rule, categorical=categorical
        )
    # Estimated counts may exceed the true number of documents, so that every column may be split.
    min_docs = 1
    if not settings.splits.counts_by_hessian:
        min_docs = max(1, settings.splits.min_docs_in_leaf)
    return bin_sparse(features, settings.max_bins, rng, rule, min_docs)


def _bins_of_values(binned: AnyBins) -> BinnedFeatures | None:
    """Returns dense bins of features none of which is categorical, from which scores can be computed."""
    if isinstance(binned, BinnedFeatures) and not binned.categories.codes:
        return binned
    return None


def _valid_documents(
    features: AnyFeatures, binned: AnyBins, may_drop: bool
) -> Documents:
    """Returns validation documents, with bins if they and the training documents are dense."""
    features = _stored_or_same(features)
    dense = _bins_of_values(binned)
    if isinstance(features, SparseRows) or dense is None:
        return Documents(features, None, may_drop)
    return Documents(features, bin_alike(features, dense), may_drop)


class _Task(NamedTuple):
    """The gradients and hessians that a tree is fitted to.

    Attributes:
        rows: (n,), documents that the tree is fitted to, ascending.
        gradients: (D,).
        hessians: (D,).
        weights: (D,), document weights, which replace the hessians for least squares and mean leaf values.
    """

    rows: Rows
    gradients: Gradients
    hessians: Hessians
    weights: NDArray[np.float64]


def _one_sided(
    task: _Task,
    rates: tuple[float, float],
    rng: np.random.Generator,
    placement: Placement,
) -> _Task:
    sizes = placement.in_order(np.abs(task.gradients * task.hessians))
    all_rows, all_factors = one_side_sample(sizes, *rates, rng)
    rows = placement.rows_here(all_rows)
    factors = all_factors[placement.rows]
    gradients = factors * task.gradients
    hessians = factors * task.hessians
    return _Task(rows, gradients, hessians, factors * task.weights)


def _with_values(
    grown: GrownTree,
    gradients: Gradients,
    hessians: Hessians,
    settings: SplitSettings,
    placement: Placement,
) -> Tree:
    """Returns the tree with leaf values: the Newton step of each leaf, clipped to the leaf's bounds."""
    team = placement.team
    count = placement.num_documents
    g, h = sums_by_leaf(
        grown.rows, grown.leaf_start, [gradients, hessians], team, count
    )
    value = grown.tree.value.copy()
    low, high = grown.leaf_bounds.T
    steps = newton_step(g, h, settings, more_l2=grown.leaf_l2)
    value[grown.leaf_node] = np.clip(steps, low, high)
    return grown.tree._replace(value=value)


# ---- Warm-up: compiles what a fit and its predictions need before timing starts.

LOOSE_SPLITS = SplitSettings(min_docs_in_leaf=1)


def four_documents() -> RankingDataset:
    """Returns a small data set for the warm-up: two queries of two documents, with positions."""
    return RankingDataset(
        features=np.eye(4, 3, dtype=np.float32),
        labels=np.array([0.0, 1.0, 0.0, 1.0]),
        query_start=np.array([0, 2, 4]),
        positions=np.array([0, 1, 0, 1]),
    )


def four_sparse_documents() -> RankingDataset:
    """Returns four documents with one stored value; with more, they would be binned like dense features."""
    data = four_documents()
    is_kept = np.array([1, 0, 0], dtype=np.float32)
    sparse: Any = SparseRows.of(data.features * is_kept)
    return replace(data, features=sparse)


def compile_engine(
    objective: ObjectiveSettings, correction: PreparedObjective | None, num_threads: int
) -> None:
    """Compiles the engine, or loads the machine code from the cache.

    Args:
        objective: objective of the fit that follows.
        correction: replaces the objective if the fit corrects position bias; prepared on `four_documents`.
        num_threads: number of threads of the fit; with 1, no second process is started.
    """
    settings = BoostingSettings(
        num_trees=1, num_leaves=3, objective=objective, splits=LOOSE_SPLITS
    )
    begin_compiling(num_threads)
    if num_threads > 1 and _growth_process() is not None:
        _compile_partition()
    # Everything except growing trees.
    _fit(four_documents(), replace(settings, num_leaves=1), correction)
    if num_threads > 1:
        _wait_for_growth()
    _fit(four_documents(), settings, correction)


def compile_sparse_engine(
    objective: ObjectiveSettings, correction: PreparedObjective | None
) -> None:
    """Compiles what a fit to sparse features and its predictions need in addition to `compile_engine`."""
    settings = BoostingSettings(
        num_trees=1, num_leaves=3, objective=objective, splits=LOOSE_SPLITS
    )
    _fit(four_sparse_documents(), settings, correction)


def _fit(
    data: RankingDataset,
    settings: BoostingSettings,
    correction: PreparedObjective | None,
) -> None:
    # With a sample, scores are computed from bins or stored values, as those of validation documents.
    sampled = replace(settings, sampling=SamplingSettings(documents_per_tree=0.5))
    for each in (settings, sampled):
        forest = boost(data, each, objective=correction).forest
    if not is_sparse(data.features):
        add_scores(forest, data.features, np.zeros(4))


def begin_compiling(num_threads: int) -> None:
    """Starts `compile_growth` in a second process, if there is a thread for it and the kernels are not in the
    cache; `compile_engine` waits for it."""
    if num_threads > 1:
        _growth_process()


def _wait_for_growth() -> None:
    process = _growth_process()
    if process is not None:
        process.communicate()


@functools.cache
def _growth_process() -> subprocess.Popen[bytes] | None:
    if is_cached(grow_best_first):
        return None
    process = compiling_process(
        f"from {__name__} import compile_growth; compile_growth()"
    )
    # A command that fails before the warm-up leaves no process behind.
    atexit.register(process.terminate)
    return process


def _compile_partition() -> None:
    """Compiles the kernel that the second process needs last, so that both take about as long."""
    rows = np.arange(4, dtype=np.uint32)
    no_bins = np.zeros(0, dtype=np.bool_)
    words = two_bins().words
    scratch = rows.copy()
    cut = (0, 0, 2, 1)
    partition(words, None, cut, rows, scratch, 2, None, no_bins)


def compile_growth(
    growth: str = "best_first", l1: float = 0.0, binned: BinnedFeatures | None = None
) -> GrownTree:
    """Grows a tree without running the earlier stages; compiles the kernels that this needs. Those of several
    members are those of `depth_wise` growth, and those of monotone constraints are those of an l1 penalty.

    Args:
        binned: four documents; None: `two_bins()`.
    """
    gradients = np.array([-1.0, 1.0, -1.0, 1.0])
    quantised = quantise(gradients, np.ones(4))
    data = binned or two_bins()
    features = np.ones(len(data.num_bins), dtype=np.bool_)
    grower = Grower(data, 3, replace(LOOSE_SPLITS, l1=l1), growth)
    return grower.grow(quantised, np.arange(4, dtype=np.uint32), features)


def two_bins() -> BinnedFeatures:
    """Returns four documents with alternating bins, in arrays of the types that `bin_features` returns."""
    words = [[0], [1], [0], [1]]
    return BinnedFeatures(
        words=np.array(words, dtype=np.uint64),
        thresholds=np.zeros((1, COLUMN_BINS), dtype=np.float32),
        num_bins=np.array([3]),
        feature_of_column=np.array([0]),
    )


def two_categories() -> BinnedFeatures:
    """Returns `two_bins` with a categorical column of alternating categories."""
    numeric = two_bins()
    codes = np.array([np.nan, 0, 1], dtype=np.float32)
    bins = np.array([[1, 2, 1, 2]], dtype=np.uint16)
    return replace(
        numeric,
        thresholds=np.pad(numeric.thresholds, ((0, 1), (0, 0))),
        num_bins=np.array([3, 3]),
        feature_of_column=np.array([0, 1]),
        categories=CategoricalBins(bins, (codes,)),
    )
