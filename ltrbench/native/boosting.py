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

Variants are in other files: `sampling.py` draws the documents that a tree is fitted to, `dart.py` chooses the
trees to drop, and `ensemble.py` keeps the scores.

This module does not measure, print or stop by itself; pass `on_iteration` to watch or stop the fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import AnyFeatures, SparseRows, csr_of, require_memory
from ltrbench.native.dart import DartSettings, choose_dropped, rescale
from ltrbench.native.ensemble import BoostedTrees, Documents
from ltrbench.native.forest.scoring import Forest
from ltrbench.native.objectives import Objective, ObjectiveSettings, prepare
from ltrbench.native.objectives.dialects import PairSettings
from ltrbench.native.sampling import Sampler, SamplingSettings, one_side_sample
from ltrbench.native.settings import setting
from ltrbench.native.sums import sums_by_leaf
from ltrbench.native.team import Placement
from ltrbench.native.tree.binning import (
    EQUAL_WIDTH,
    QUANTILE,
    BinnedFeatures,
    Rows,
    ThresholdRule,
    bin_alike,
    bin_features,
)
from ltrbench.native.tree.constrained import monotone_signs, prepare_constrained
from ltrbench.native.tree.grower import ORDERS, Grower, GrownTree
from ltrbench.native.tree.histogram import quantise
from ltrbench.native.tree.nodes import Tree
from ltrbench.native.tree.sparse.bins import bin_sparse, takes_less_memory
from ltrbench.native.tree.sparse.layout import AnyBins
from ltrbench.native.tree.splitting import PrepareSearch, SplitSettings, newton_step
from ltrbench.shapes import Gradients, Hessians, Values

WatchIteration = Callable[[int, Values, Values | None, NDArray[np.int64] | None], bool]
"""Called after each iteration with the number of trees, the scores of the training and validation documents,
and the (n,) training documents returned by `Sampler.left_out`. Returning True ends the fit."""


BINNINGS: dict[str, ThresholdRule] = {"quantile": QUANTILE, "equal_width": EQUAL_WIDTH}


@dataclass(kw_only=True)
class TreeOptions:
    """Settings of growing a tree."""

    binning: str = setting("quantile", choices=tuple(BINNINGS))
    """Thresholds at which a feature may be split. `quantile`: between bins of equal weight (LightGBM,
    XGBoost, CatBoost); `equal_width`: at every value if there are fewer than max_bins, otherwise at equal
    distances (RankLib)."""
    split_criterion: str = setting("newton", choices=("newton", "least_squares"))
    """Criterion of splits. `newton`: the second-order gain (LightGBM, XGBoost); `least_squares`: the same
    with every hessian 1 (RankLib, and pyltr's friedman_mse), so that documents that the model already ranks
    with confidence still influence the thresholds. min_sum_hessian then counts documents per side."""
    leaf_value: str = setting("newton", choices=("newton", "mean"))
    """Value of a leaf before shrinkage. `newton`: -G / (H + l2), the value in all libraries; `mean`: the mean
    of the negative gradients, a plain gradient step, which is smaller if hessians are below 1."""
    growth: str = setting("best_first", choices=tuple(ORDERS))
    """Order in which leaves are split. `best_first`: highest gain first (LightGBM); `by_deviance`: largest
    deviance of gradients first, whatever the gain (RankLib); `depth_wise`: by level (XGBoost, pyltr)."""


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
    objective: Objective | None = None,
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
    binned = _binned(features, settings, rng, placement)
    objective = objective or prepare(train, settings.objective)
    grower = Grower(
        binned,
        settings.num_leaves,
        settings.splits,
        settings.growth,
        _constrained_search(train, settings),
        placement.team,
    )
    document_weights = train.weight_of_document.copy()
    sampler = Sampler(train, settings.sampling, rng, placement)
    features_of_leaf = None if settings.sampling.features_per_split == 1 else sampler.features_of_leaf
    goss_rates = settings.sampling.goss_rates
    num_unsampled = int(1.0 / settings.learning_rate)
    in_float32 = isinstance(settings.objective, PairSettings) and settings.objective.float32_scores
    may_drop = settings.dart.drop_rate > 0
    documents = Documents(features, binned if isinstance(binned, BinnedFeatures) else None)
    valid = None if valid_features is None else _valid_documents(valid_features, binned)
    ensemble = BoostedTrees(documents, valid, start, may_drop, in_float32)
    while ensemble.num_trees < settings.num_trees:
        dropped = choose_dropped(ensemble.weights, settings.dart, rng)
        ensemble.drop(dropped)
        sample = sampler.draw()
        gradients, hessians = objective(ensemble.train_scores, sample.queries, draws)
        task = _Task(sample.rows, gradients, hessians, document_weights)
        if goss_rates is not None and ensemble.num_trees >= num_unsampled:
            task = _one_sided(task, goss_rates, rng, placement)
        split_hessians = task.hessians if settings.split_criterion == "newton" else task.weights
        quantised = quantise(task.gradients, split_hessians, placement.team, placement.num_documents)
        grown = grower.grow(quantised, task.rows, sample.features, features_of_leaf)
        leaf_hessians = task.hessians if settings.leaf_value == "newton" else task.weights
        tree = _with_values(grown, task.gradients, leaf_hessians, settings.splits, placement)
        ensemble.add(tree, grown, rescale(len(dropped), settings.learning_rate, settings.dart.drop_normalize))
        if on_iteration is not None and _ends(ensemble, sampler, on_iteration):
            break
    return ensemble


def _stored_or_same(features: AnyFeatures) -> AnyFeatures:
    """Returns the stored values of sparse features, and other features as they are."""
    sparse = csr_of(features)
    return features if sparse is None else sparse


def _binned(
    features: AnyFeatures, settings: BoostingSettings, rng: np.random.Generator, placement: Placement
) -> AnyBins:
    rule = BINNINGS[settings.binning]
    if not placement.is_alone:
        _require_dense_bins(features, rule)
        return bin_features(features, settings.max_bins, rng, rule, placement)
    if not isinstance(features, SparseRows) or not takes_less_memory(features):
        return bin_features(features, settings.max_bins, rng, rule)
    # Estimated counts may exceed the true number of documents, so that every column may be split.
    min_docs = 1 if settings.splits.counts_by_hessian else max(1, settings.splits.min_docs_in_leaf)
    return bin_sparse(features, settings.max_bins, rng, rule, min_docs)


def _require_dense_bins(features: AnyFeatures, rule: ThresholdRule) -> None:
    """Raises DataError if the dense bins of sparse features, and their sampled values, do not fit into
    memory."""
    if isinstance(features, SparseRows):
        num_documents, num_features = features.shape
        num_sampled = min(num_documents, rule.sample_size or 0)
        require_memory(
            f"the dense bins of {num_documents} documents with {num_features} sparse features",
            (num_documents + 4 * num_sampled) * num_features,
            "A fit of several members stores a byte per document and feature even if most values are 0. Use "
            "more members or fewer features, or fit in one process.",
        )


def _valid_documents(features: AnyFeatures, binned: AnyBins) -> Documents:
    """Returns validation documents, with bins if they and the training documents are dense."""
    features = _stored_or_same(features)
    if isinstance(features, SparseRows) or not isinstance(binned, BinnedFeatures):
        return Documents(features, None)
    return Documents(features, bin_alike(features, binned))


def _constrained_search(train: RankingDataset, settings: BoostingSettings) -> PrepareSearch | None:
    if settings.splits.monotone or settings.splits.l1 > 0:
        return prepare_constrained(monotone_signs(train.feature_names, settings.splits.monotone))
    return None


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
    task: _Task, rates: tuple[float, float], rng: np.random.Generator, placement: Placement
) -> _Task:
    sizes = placement.in_order(np.abs(task.gradients * task.hessians))
    all_rows, all_factors = one_side_sample(sizes, *rates, rng)
    rows, factors = placement.rows_here(all_rows), all_factors[placement.rows]
    return _Task(rows, factors * task.gradients, factors * task.hessians, factors * task.weights)


def _ends(ensemble: BoostedTrees, sampler: Sampler, on_iteration: WatchIteration) -> bool:
    valid_scores = None if ensemble.valid_scores is None else ensemble.valid_scores.copy()
    return on_iteration(ensemble.num_trees, ensemble.train_scores.copy(), valid_scores, sampler.left_out())


def _with_values(
    grown: GrownTree, gradients: Gradients, hessians: Hessians, settings: SplitSettings, placement: Placement
) -> Tree:
    """Returns the tree with leaf values: the Newton step of each leaf, clipped to the leaf's bounds."""
    team, count = placement.team, placement.num_documents
    g, h = sums_by_leaf(grown.rows, grown.leaf_start, [gradients, hessians], team, count)
    value = grown.tree.value.copy()
    low, high = grown.leaf_bounds.T
    value[grown.leaf_node] = np.clip(newton_step(g, h, settings), low, high)
    return grown.tree._replace(value=value)
