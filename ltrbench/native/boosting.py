"""Boosting: the loop that makes LambdaMART out of the other stages.

Burges, 2010, "From RankNet to LambdaRank to LambdaMART: An Overview", section 7. Values begin at 0. An
iteration takes the lambdas of the scores, grows a tree that gathers documents of like lambdas in leaves,
gives each leaf its Newton step, and adds this value, shrunk, to the scores of the leaf's documents:

    value = -sum g / (sum h + l2), clipped to [-max_delta_step, max_delta_step]
    score += learning_rate * value

Lambdas are those of NDCG, or of another one of `objectives`. With a leaf's mean instead of a Newton
step, or least squares as the criterion of splits, every document has a hessian of 1 there, times its weight;
a tree may be cut by one and have its values from the other.

The further dialects stand beside: `sampling.py` chooses the documents that a tree learns from, `dart.py`
which earlier trees are put aside for it, `ensemble.py` keeps the scores.

Nothing here measures, prints or stops by itself: whoever wants to watch or to stop passes `on_iteration`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import parallel_kernel
from ltrbench.data import RankingDataset
from ltrbench.native.dart import DartSettings, choose_dropped, rescale
from ltrbench.native.ensemble import BoostedTrees
from ltrbench.native.forest.scoring import Forest
from ltrbench.native.objectives import Objective, ObjectiveSettings, prepare
from ltrbench.native.objectives.dialects import PairSettings
from ltrbench.native.sampling import Sampler, SamplingSettings, one_side_sample
from ltrbench.native.settings import setting
from ltrbench.native.tree.binning import EQUAL_WIDTH, QUANTILE, Rows, ThresholdRule, bin_features
from ltrbench.native.tree.constrained import monotone_signs, prepare_constrained
from ltrbench.native.tree.grower import ORDERS, Grower, GrownTree
from ltrbench.native.tree.histogram import quantise
from ltrbench.native.tree.nodes import Tree
from ltrbench.native.tree.splitting import PrepareSearch, SplitSettings, newton_step
from ltrbench.shapes import Features, Gradients, Hessians, Values

WatchIteration = Callable[[int, Values, Values | None, NDArray[np.int64] | None], bool]
"""Called after an iteration with the number of trees, the scores of train and valid, and the (n,) documents
of train that `Sampler.left_out` names; True ends the fit."""


BINNINGS: dict[str, ThresholdRule] = {"quantile": QUANTILE, "equal_width": EQUAL_WIDTH}


@dataclass(kw_only=True)
class TreeOptions:
    """How a tree is grown."""

    binning: str = setting("quantile", choices=tuple(BINNINGS))
    """Where a feature may be cut. `quantile`: between bins of equal weight (LightGBM, XGBoost, CatBoost);
    `equal_width`: at every value where there are fewer than max_bins, else at equal distances (RankLib)."""
    split_criterion: str = setting("newton", choices=("newton", "least_squares"))
    """Criterion of cuts. `newton`: the second-order gain (LightGBM, XGBoost); `least_squares`: the same
    with every hessian 1 (RankLib, and the friedman_mse of pyltr), so that documents whose order the model is
    sure of already keep their say in where the cuts lie. min_sum_hessian then counts documents in a cut."""
    leaf_value: str = setting("newton", choices=("newton", "mean"))
    """Value of a leaf, before shrinkage. `newton`: -G / (H + l2), on which all libraries agree; `mean`: of
    the negative gradients, a plain gradient step, smaller where the hessians are below 1."""
    growth: str = setting("best_first", choices=tuple(ORDERS))
    """Order in which leaves are cut. `best_first`: the highest gain first (LightGBM); `by_deviance`: the
    most differing gradients, whatever the gain (RankLib); `depth_wise`: by level (XGBoost, pyltr)."""


@dataclass(kw_only=True)
class BoostingSettings(TreeOptions):
    """All settings of the engine; `num_trees` to `max_bins` are those of BoostingRanker."""

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
    valid_features: Features | None = None,
    on_iteration: WatchIteration | None = None,
    start: Forest | None = None,
    objective: Objective | None = None,
) -> BoostedTrees:
    """Learns the trees of a LambdaMART model, one an iteration, up to `num_trees`.

    Args:
        train: what to learn from.
        settings: how.
        valid_features: (V, F), documents whose scores `on_iteration` is to see.
        on_iteration: is given copies of the scores, and may keep them.
        start: trees of the same features to begin with; they count among `num_trees`.
        objective: instead of that of the settings, where it learns something itself.
    """
    rng = np.random.default_rng(settings.seed)
    binned = bin_features(train.features, settings.max_bins, rng, BINNINGS[settings.binning])
    objective = objective or prepare(train, settings.objective)
    grower = Grower(
        binned, settings.num_leaves, settings.splits, settings.growth, _constrained_search(train, settings)
    )
    document_weights = train.weight_of_document.copy()
    sampler = Sampler(train, settings.sampling, rng)
    features_of_leaf = None if settings.sampling.features_per_split == 1 else sampler.features_of_leaf
    goss_rates = settings.sampling.goss_rates
    num_unsampled = int(1.0 / settings.learning_rate)
    in_float32 = isinstance(settings.objective, PairSettings) and settings.objective.float32_scores
    may_drop = settings.dart.drop_rate > 0
    ensemble = BoostedTrees(train.features, valid_features, start, may_drop, in_float32)
    while ensemble.num_trees < settings.num_trees:
        dropped = choose_dropped(ensemble.weights, settings.dart, rng)
        ensemble.drop(dropped)
        sample = sampler.draw()
        gradients, hessians = objective(ensemble.train_scores, sample.queries, rng)
        task = _Task(sample.rows, gradients, hessians, document_weights)
        if goss_rates is not None and ensemble.num_trees >= num_unsampled:
            task = _one_sided(task, goss_rates, rng)
        split_hessians = task.hessians if settings.split_criterion == "newton" else task.weights
        quantised = quantise(task.gradients, split_hessians)
        grown = grower.grow(quantised, task.rows, sample.features, features_of_leaf)
        leaf_hessians = task.hessians if settings.leaf_value == "newton" else task.weights
        tree = _with_values(grown, task.gradients, leaf_hessians, settings.splits)
        ensemble.add(tree, grown, rescale(len(dropped), settings.learning_rate, settings.dart.drop_normalize))
        if on_iteration is not None and _ends(ensemble, sampler, on_iteration):
            break
    return ensemble


def _constrained_search(train: RankingDataset, settings: BoostingSettings) -> PrepareSearch | None:
    if settings.splits.monotone or settings.splits.l1 > 0:
        return prepare_constrained(monotone_signs(train.feature_names, settings.splits.monotone))
    return None


class _Task(NamedTuple):
    """What a tree is fitted to.

    Attributes:
        rows: (n,), the documents that it learns from, rising.
        gradients: (D,).
        hessians: (D,).
        weights: (D,), the hessians where each document has one of 1, times its weight.
    """

    rows: Rows
    gradients: Gradients
    hessians: Hessians
    weights: NDArray[np.float64]


def _one_sided(task: _Task, rates: tuple[float, float], rng: np.random.Generator) -> _Task:
    rows, factors = one_side_sample(task.gradients, task.hessians, *rates, rng)
    return _Task(rows, factors * task.gradients, factors * task.hessians, factors * task.weights)


def _ends(ensemble: BoostedTrees, sampler: Sampler, on_iteration: WatchIteration) -> bool:
    valid_scores = None if ensemble.valid_scores is None else ensemble.valid_scores.copy()
    return on_iteration(ensemble.num_trees, ensemble.train_scores.copy(), valid_scores, sampler.left_out())


def _with_values(grown: GrownTree, gradients: Gradients, hessians: Hessians, settings: SplitSettings) -> Tree:
    """The tree, each of its leaves with its Newton step."""
    g, h = np.empty(len(grown.leaf_node)), np.empty(len(grown.leaf_node))
    _sum_by_leaf(grown.rows, grown.leaf_start, gradients, hessians, g, h)
    value = grown.tree.value.copy()
    low, high = grown.leaf_bounds.T
    value[grown.leaf_node] = np.clip(newton_step(g, h, settings), low, high)
    return grown.tree._replace(value=value)


@parallel_kernel
def _sum_by_leaf(
    rows: Rows,
    leaf_start: NDArray[np.int64],
    gradients: Gradients,
    hessians: Hessians,
    g: NDArray[np.float64],
    h: NDArray[np.float64],
) -> None:
    """(L,) sums of the unrounded gradients and hessians, each leaf's in the order of rows."""
    for leaf in numba.prange(len(g)):
        sum_g, sum_h = 0.0, 0.0
        for row in rows[leaf_start[leaf] : leaf_start[leaf + 1]]:
            sum_g += gradients[row]
            sum_h += hessians[row]
        g[leaf], h[leaf] = sum_g, sum_h
