"""Reference: the whole algorithm of the native engine on one page, in plain NumPy.

This is LambdaMART with the engine's default settings, from top to bottom: bins, lambdas, the best cut, a
tree, boosting, prediction. It is written to be read, and it is slow. tests/native/test_reference.py requires
that the compiled engine grows the same trees. The other files of this package make it fast, and hold all
other settings.

    Burges (2010), "From RankNet to LambdaRank to LambdaMART: An Overview", MSR-TR-2010-82
    Chen and Guestrin (2016), "XGBoost: A Scalable Tree Boosting System", KDD
    Friedman (2001), "Greedy Function Approximation: A Gradient Boosting Machine", Annals of Statistics 29
    Ke et al. (2017), "LightGBM: A Highly Efficient Gradient Boosting Decision Tree", NeurIPS

Shapes: D documents, F features, B bins of a feature with the one of missing values, which is the last; n
documents of a query or of a leaf.
"""

# ruff: noqa: N806, SIM300  # G and H are the sums of g and h, as in the papers.

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.shapes import Features, Labels, Scores

Bins = NDArray[np.int64]  # (D, F)
Thresholds = list[NDArray[np.float32]]  # of each feature, rising
Rows = NDArray[np.int64]  # (n,), documents of a leaf, rising
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """The hyperparameters; the defaults are those of `params=matched`.

    Attributes:
        num_trees: number of iterations, one tree each.
        learning_rate: factor on the value of every leaf.
        num_leaves: maximum number of leaves of a tree.
        min_docs_in_leaf: minimum number of documents of a leaf.
        min_sum_hessian: minimum sum of the hessians of a leaf, above 0.
        min_split_gain: a cut must gain more than this.
        l2: added to the sum of the hessians of a leaf.
        max_bins: maximum number of bins of a feature, without the bin of missing values.
        truncation: a pair counts if one of its documents ranks above this.
        sigma: slope of the sigmoid on score differences.
    """

    num_trees: int = 300
    learning_rate: float = 0.1
    num_leaves: int = 31
    min_docs_in_leaf: int = 20
    min_sum_hessian: float = 1e-3
    min_split_gain: float = 0.0
    l2: float = 0.0
    max_bins: int = 255
    truncation: int = 30
    sigma: float = 1.0


class Split(NamedTuple):
    """A cut: bins of at most `bin` go left, and missing values go left if `missing_left`."""

    gain: float
    feature: int
    bin: int
    missing_left: bool


@dataclass
class Node:
    """A node of a tree. A tree is a list of nodes; node 0 is the root.

    Attributes:
        rows: the training documents that reach it.
        split: its best cut; None where no cut is allowed.
        left: number of the left node below it, the right one follows; 0 at a leaf.
        value: what a leaf adds to a score, before the learning rate.
    """

    rows: Rows
    split: Split | None
    left: int = 0
    value: float = 0.0


class Model(NamedTuple):
    """A fitted model."""

    settings: Settings
    thresholds: Thresholds
    trees: list[list[Node]]


def choose_thresholds(values: NDArray[np.float32], max_bins: int) -> NDArray[np.float32]:
    """Returns the thresholds of one feature; bin b holds thresholds[b - 1] < x <= thresholds[b].

    Up to max_bins distinct values have a bin each. More share bins of equal weight, where a value weighs its
    count, and at most one bin. A threshold lies halfway between the values beside it; the last is infinity,
    so that a cut can separate all values from the missing ones.
    """
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    bin_of_value = np.arange(len(distinct))
    if len(distinct) > max_bins:
        # The capacity of a bin solves sum(min(counts, capacity)) = max_bins * capacity.
        capacity, next_capacity = np.inf, counts.sum() / max_bins
        while next_capacity < capacity:
            capacity = next_capacity
            fills_a_bin = counts >= capacity
            next_capacity = counts[~fills_a_bin].sum() / (max_bins - fills_a_bin.sum())
        weights = np.minimum(counts, capacity)
        middles = np.cumsum(weights) - weights / 2
        bin_of_value = np.minimum((middles / capacity).astype(np.int64), max_bins - 1)
    last_of_bin = np.flatnonzero(np.diff(bin_of_value))
    low, high = distinct[last_of_bin], distinct[last_of_bin + 1]
    halfway = low / 2 + high / 2
    # Between neighbouring floats there is no number halfway.
    cuts = np.where((low <= halfway) & (halfway < high), halfway, low)
    return np.append(cuts, np.float32(np.inf))


def bin_features(features: Features, thresholds: Thresholds, missing_bin: int) -> Bins:
    """Returns the (D, F) bins: the number of thresholds below each value."""
    bins = np.empty(features.shape, dtype=np.int64)
    for f, thresholds_of_feature in enumerate(thresholds):
        bin_of_value = np.searchsorted(thresholds_of_feature, features[:, f], side="left")
        bins[:, f] = np.where(np.isnan(features[:, f]), missing_bin, bin_of_value)
    return bins


@np.errstate(over="ignore")  # exp is infinite, and rho is 0, for two scores far apart in the right order
def lambdas_of_query(labels: Labels, s: Scores, settings: Settings) -> tuple[Values, Values]:
    """Returns the (n,) gradients g and hessians h of one query's cost by its scores s.

    In the (n, n) arrays, document i of the row has a higher label than document j of the column. Both
    normalisations are those of LightGBM's lambdarank_norm, and not in the paper.
    """
    T, sigma = settings.truncation, settings.sigma
    ranks = np.empty(len(s), dtype=np.int64)
    ranks[np.argsort(-s, kind="stable")] = np.arange(len(s))  # ties in the order of rows
    gains, discounts = 2.0**labels - 1.0, 1.0 / np.log2(ranks + 2.0)  # Burges, section 3: DCG
    best_gains = np.sort(gains)[::-1][:T]
    max_dcg = best_gains @ (1.0 / np.log2(np.arange(len(best_gains)) + 2.0))
    if max_dcg == 0.0:
        return np.zeros(len(s)), np.zeros(len(s))
    counts = (labels[:, None] > labels) & (np.minimum(ranks[:, None], ranks) < T)
    # |Delta NDCG| of swapping i and j: Burges, section 4.
    delta = counts * np.abs((gains[:, None] - gains) * (discounts[:, None] - discounts)) / max_dcg
    difference = s[:, None] - s
    if s.min() < s.max():
        delta /= np.float32(0.01).astype(np.float64) + np.abs(difference)  # LightGBM's 0.01 is a float32
    rho = 1.0 / (1.0 + np.exp(sigma * difference))  # Burges, section 7: the probability of the wrong order
    lambda_ij = sigma * rho * delta  # pushes i up and j down
    hessian_ij = sigma**2 * rho * (1.0 - rho) * delta  # Burges, section 7: the second derivative
    g = lambda_ij.sum(axis=0) - lambda_ij.sum(axis=1)
    h = hessian_ij.sum(axis=0) + hessian_ij.sum(axis=1)
    S = 2.0 * lambda_ij.sum()  # each pair pushes two documents
    scale = np.log2(1.0 + S) / S if S > 0.0 else 1.0
    return scale * g, scale * h


def lambdas(train: RankingDataset, scores: Scores, settings: Settings) -> tuple[Values, Values]:
    """Returns the (D,) gradients and hessians, times the weights of queries and documents."""
    g, h = np.zeros(len(scores)), np.zeros(len(scores))
    for first, end in zip(train.query_start[:-1], train.query_start[1:], strict=True):
        g[first:end], h[first:end] = lambdas_of_query(train.labels[first:end], scores[first:end], settings)
    return g * train.weight_of_document, h * train.weight_of_document


def round_to_units(values: Values, limit: int) -> tuple[Values, float]:
    """Returns the values as whole numbers of a unit, and the unit: about 1e-9 of the sum of |values|.

    The engine rounds so that the sum over any documents fits 32 bits. The reference has to round as well:
    sums of whole numbers have no rounding error, so that two cuts into the same documents gain exactly the
    same, and the first one wins. In sums of floats their last bits would choose.
    """
    unit = np.abs(values).sum() / (limit - 1 - len(values))
    unit = unit if unit >= np.finfo(np.float64).tiny else 1.0
    return np.rint(values / unit), unit


def histograms(bins: Bins, terms: Values, num_bins: int) -> Values:
    """Returns the (3, F, B, 1) sums by bin of the (3, n) terms of a leaf's documents."""
    num_features = bins.shape[1]
    cells = (bins + num_bins * np.arange(num_features)).ravel()
    # Floats hold these sums exactly: they are whole numbers below 2^53.
    sums = [np.bincount(cells, np.repeat(term, num_features), num_features * num_bins) for term in terms]
    return np.reshape(sums, (len(terms), num_features, num_bins, 1))


def split_gain(leaf: Values, left: Values, right: Values, l2: float) -> Values:
    """Returns G_L^2 / (H_L + l2) + G_R^2 / (H_R + l2) - G^2 / (H + l2); the arguments are (G, H) of each.

    Chen and Guestrin, equation 7, without the factor 1/2. The order of operations is that of the engine, so
    that the last bit is the same. It counts where nothing can be gained: before the first tree all scores are
    equal, rho is 1/2, and g / h is 2 / sigma for every document whose pairs all push it down. The engine cuts
    a leaf of such documents if the rounding error of its gain is positive.
    """
    (G, H), (G_L, H_L), (G_R, H_R) = leaf, left, right
    H, H_L, H_R = H + l2, H_L + l2, H_R + l2
    w = -G / H
    gain: Values = (G_L**2 * H_R + G_R**2 * H_L) / (H_L * H_R) + w * (2.0 * G + H * w)
    return gain


@np.errstate(divide="ignore", invalid="ignore")  # of cuts that leave a side without any hessian
def best_split(sums: Values, units: Values, settings: Settings) -> Split | None:
    """Returns the cut of highest gain, the first of equals by feature, bin, missing values right before left.

    Args:
        sums: (3, F, B, 1), a leaf's sums of g and of h in units, and its numbers of documents, by bin.
        units: (2,), the units of g and of h.
    """
    g_unit, h_unit = units
    missing, total = sums[:, :, -1:], sums[:, :1].sum(axis=2, keepdims=True)
    missing_right = np.cumsum(sums[:, :, :-1], axis=2)
    left = np.concatenate([missing_right, missing_right + missing], axis=3)  # (3, F, B - 1, 2)
    right = total - left  # Chen and Guestrin, algorithm 3, tries both directions of missing values
    gain = g_unit * g_unit / h_unit * split_gain(total[:2], left[:2], right[:2], settings.l2 / h_unit)
    smaller = np.minimum(left, right)
    is_allowed = smaller[1] >= settings.min_sum_hessian / h_unit
    is_allowed &= smaller[2] >= settings.min_docs_in_leaf
    # Missing values without any gradient or hessian, as where a leaf has none, are tried on the right only
    has_direction = (missing[0, :, 0, 0] != 0.0) | (missing[1, :, 0, 0] != 0.0)
    is_allowed[:, :, 1] &= has_direction[:, None]
    gain[~is_allowed] = -np.inf
    f, b, side = np.unravel_index(np.argmax(gain), gain.shape)
    if not gain[f, b, side] > settings.min_split_gain:
        return None
    # and then follow the larger sum of hessians. As in the engine, documents are not counted again.
    missing_left = side == 1 if has_direction[f] else left[1, f, b, side] >= right[1, f, b, side]
    return Split(float(gain[f, b, side]), int(f), int(b), bool(missing_left))


def goes_left(bins: Bins, split: Split, missing_bin: int) -> NDArray[np.bool_]:
    """Returns for each document, (n,), whether it goes left."""
    bin_of_document = bins[:, split.feature]
    return np.where(bin_of_document == missing_bin, split.missing_left, bin_of_document <= split.bin)


def newton_value(g: Values, h: Values, settings: Settings) -> float:
    """Returns the value of a leaf, one Newton step: Burges, section 7; Chen and Guestrin, equation 5."""
    G, H = float(g.sum()), float(h.sum())
    return -G / (H + settings.l2) if H >= settings.min_sum_hessian else 0.0


def grow_tree(bins: Bins, g: Values, h: Values, settings: Settings) -> list[Node]:
    """Returns a tree, grown leaf-wise (Ke et al.): the leaf of the highest gain is cut next."""
    (whole_g, g_unit), (whole_h, h_unit) = round_to_units(g, 2**31), round_to_units(h, 2**32)
    terms = np.stack([whole_g, whole_h, np.ones(len(g))])
    units = np.array([g_unit, h_unit])

    def node_of(rows: Rows) -> Node:
        sums = histograms(bins[rows], terms[:, rows], settings.max_bins + 1)
        return Node(rows, best_split(sums, units, settings))

    nodes = [node_of(np.arange(len(g)))]
    while len(nodes) < 2 * settings.num_leaves - 1:
        gains = [node.split.gain if node.split and not node.left else -np.inf for node in nodes]
        leaf = nodes[int(np.argmax(gains))]
        if leaf.split is None or leaf.left:
            break
        is_left = goes_left(bins[leaf.rows], leaf.split, settings.max_bins)
        leaf.left = len(nodes)
        nodes += [node_of(leaf.rows[is_left]), node_of(leaf.rows[~is_left])]
    for node in nodes:
        if not node.left:
            # Unlike the gains, from gradients that are not rounded.
            node.value = newton_value(g[node.rows], h[node.rows], settings)
    return nodes


def boost(train: RankingDataset, settings: Settings) -> Model:
    """Fits a model: Burges, section 7; Friedman, section 5, for the learning rate.

    Data of more than 200,000 documents have other thresholds in the engine, which then takes a sample.
    """
    thresholds = [choose_thresholds(values, settings.max_bins) for values in train.features.T]
    model = Model(settings, thresholds, trees=[])
    bins = bin_features(train.features, thresholds, settings.max_bins)
    scores = np.zeros(train.num_documents)
    for _ in range(settings.num_trees):
        tree = grow_tree(bins, *lambdas(train, scores, settings), settings)
        model.trees.append(tree)
        scores += settings.learning_rate * values_of(tree, bins, settings.max_bins)
    return model


def values_of(tree: list[Node], bins: Bins, missing_bin: int) -> Values:
    """Returns the (D,) values of the leaves that documents reach."""
    node_of_document = np.zeros(len(bins), dtype=np.int64)
    for number, node in enumerate(tree):  # a node stands after the one above it
        if node.left and node.split:
            here = np.flatnonzero(node_of_document == number)
            is_left = goes_left(bins[here], node.split, missing_bin)
            node_of_document[here] = np.where(is_left, node.left, node.left + 1)
    return np.array([node.value for node in tree])[node_of_document]


def predict(model: Model, features: Features) -> Scores:
    """Returns the (D,) scores: the sum over trees of learning rate times value."""
    missing_bin = model.settings.max_bins
    bins = bin_features(features, model.thresholds, missing_bin)
    scores = np.zeros(len(features))
    for tree in model.trees:
        scores += model.settings.learning_rate * values_of(tree, bins, missing_bin)
    return scores
