"""Boosting: the loop that makes LambdaMART out of the other stages.

Burges, 2010, "From RankNet to LambdaRank to LambdaMART: An Overview", section 7. Scores begin at 0. An
iteration takes the lambdas of the scores, grows a tree that gathers documents of like lambdas in leaves,
gives each leaf its Newton step, and adds this value, shrunk, to the scores of the leaf's documents:

    value = -sum g / (sum h + l2), clipped to [-max_delta_step, max_delta_step]
    score += learning_rate * value

Lambdas are those of NDCG, or of another objective of `objectives.py`. With a leaf's mean instead of a Newton
step, or least squares as the criterion of splits, every document has a hessian of 1 there, times its weight;
a tree may be cut by one and have its values from the other.

Nothing here measures, prints or stops by itself: whoever wants to watch or to stop passes `on_iteration`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import parallel_kernel
from ltrbench.data import RankingDataset
from ltrbench.native.binning import QUANTILE, ThresholdRule, bin_features
from ltrbench.native.equal_width import EQUAL_WIDTH
from ltrbench.native.grower import Grower, GrownTree
from ltrbench.native.growth import ORDERS
from ltrbench.native.histogram import Rows, quantise
from ltrbench.native.lambdas import Gradients, Hessians
from ltrbench.native.objectives import prepare
from ltrbench.native.pairs import NATIVE, PairSettings
from ltrbench.native.splitting import SplitSettings
from ltrbench.native.tree import Forest, Scores, Tree, add_scores, plant
from ltrbench.shapes import Features

OnIteration = Callable[[int, Scores, Scores | None], bool]
"""Called after an iteration with its number, from 1, and the scores of train and valid; True ends the fit."""


BINNINGS: dict[str, ThresholdRule] = {"quantile": QUANTILE, "equal_width": EQUAL_WIDTH}


@dataclass(frozen=True)
class BoostingSettings:
    """All settings of the engine, as in NativeRanker.

    Attributes:
        query_fraction: share of the queries that a tree learns from, drawn anew for each.
        row_fraction: share of those queries' documents, drawn anew; the lambdas are those of whole queries.
        feature_fraction: share of the features that a tree may use, drawn anew.
        binning: where thresholds lie, a name in BINNINGS.
        growth: which leaf is cut next, a name in ORDERS.
        split_criterion: "newton", second-order gain; or "least_squares".
        leaf_value: "newton", -sum g / (sum h + l2); or "mean", of -g.
    """

    num_trees: int = 100
    learning_rate: float = 0.1
    num_leaves: int = 31
    max_bins: int = 255
    query_fraction: float = 1.0
    row_fraction: float = 1.0
    feature_fraction: float = 1.0
    binning: str = "quantile"
    growth: str = "best_first"
    split_criterion: str = "newton"
    leaf_value: str = "newton"
    seed: int = 0
    objective: PairSettings = NATIVE
    splits: SplitSettings = field(default_factory=SplitSettings)


def boost(
    train: RankingDataset,
    settings: BoostingSettings,
    valid_features: Features | None = None,
    on_iteration: OnIteration | None = None,
) -> Forest:
    """Learns the trees of a LambdaMART model, one an iteration.

    Args:
        train: what to learn from.
        settings: how.
        valid_features: (V, F), documents whose scores `on_iteration` is to see.
        on_iteration: is given copies of the scores, and may keep them.
    """
    rng = np.random.default_rng(settings.seed)
    binned = bin_features(train.features, settings.max_bins, rng, BINNINGS[settings.binning])
    objective = prepare(train, settings.objective)
    grower = Grower(binned, settings.num_leaves, settings.splits, ORDERS[settings.growth])
    document_weights = train.weight_of_document.copy()
    train_scores = np.zeros(train.num_documents)
    valid_scores = None if valid_features is None else np.zeros(len(valid_features))
    trees: list[Tree] = []
    weights: list[float] = []
    for iteration in range(1, settings.num_trees + 1):
        sample = _draw(train, settings, rng)
        gradients, hessians = objective(train_scores, sample.queries, rng)
        split_hessians = hessians if settings.split_criterion == "newton" else document_weights
        grown = grower.grow(quantise(gradients, split_hessians), sample.rows, sample.features)
        leaf_hessians = hessians if settings.leaf_value == "newton" else document_weights
        tree = _with_values(grown, gradients, leaf_hessians, settings.splits)
        trees.append(tree)
        weights.append(settings.learning_rate)
        latest = plant(trees[-1:], weights[-1:])
        if len(sample.rows) == train.num_documents:
            shrunk = weights[-1] * tree.value[grown.leaf_node]
            _add_leaf_values(grown.rows, grown.leaf_start, shrunk, train_scores)
        else:
            add_scores(latest, train.features, train_scores)
        if valid_features is not None and valid_scores is not None:
            add_scores(latest, valid_features, valid_scores)
        if on_iteration is not None:
            seen = None if valid_scores is None else valid_scores.copy()
            if on_iteration(iteration, train_scores.copy(), seen):
                break
    return plant(trees, weights)


@dataclass(frozen=True, eq=False)
class _Sample:
    """What a tree learns from.

    Attributes:
        queries: (q,), rising; None: all.
        rows: (n,), documents of those queries, rising.
        features: (F,), whether a feature may be used.
    """

    queries: NDArray[np.int64] | None
    rows: Rows
    features: NDArray[np.bool_]


def _draw(train: RankingDataset, settings: BoostingSettings, rng: np.random.Generator) -> _Sample:
    queries, rows = None, np.arange(train.num_documents, dtype=np.uint32)
    if settings.query_fraction < 1:
        queries = _draw_share(train.num_queries, settings.query_fraction, rng)
        rows = rows[np.isin(train.query_of_document, queries)]
    if settings.row_fraction < 1:
        rows = rows[_draw_share(len(rows), settings.row_fraction, rng)]
    features = np.ones(train.num_features, dtype=np.bool_)
    if settings.feature_fraction < 1:
        features[:] = False
        features[_draw_share(train.num_features, settings.feature_fraction, rng)] = True
    return _Sample(queries, rows, features)


def _draw_share(count: int, share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """That share of 0, ..., count - 1, but at least one; without repetition, rising."""
    return np.sort(rng.choice(count, max(1, round(share * count)), replace=False))


def _with_values(grown: GrownTree, gradients: Gradients, hessians: Hessians, settings: SplitSettings) -> Tree:
    """The tree, each of its leaves with its Newton step."""
    g, h = np.empty(len(grown.leaf_node)), np.empty(len(grown.leaf_node))
    _sum_by_leaf(grown.rows, grown.leaf_start, gradients, hessians, g, h)
    # Only a root that was never cut can have less than the least hessian; it takes no step.
    has_step = h >= settings.least_hessian
    step = np.divide(-g, h + settings.l2, out=np.zeros_like(g), where=has_step)
    largest = settings.largest_step
    value = grown.tree.value.copy()
    value[grown.leaf_node] = np.clip(step, -largest, largest)
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


@parallel_kernel
def _add_leaf_values(
    rows: Rows, leaf_start: NDArray[np.int64], values: NDArray[np.float64], scores: Scores
) -> None:
    for leaf in numba.prange(len(values)):
        for row in rows[leaf_start[leaf] : leaf_start[leaf + 1]]:
            scores[row] += values[leaf]
