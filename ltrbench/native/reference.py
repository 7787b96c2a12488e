"""Reference: the complete algorithm of the native engine on one page, in plain NumPy.

This is LambdaMART with the engine's default settings, from top to bottom: bins, lambdas, the best split, a
tree, boosting, prediction. The code is written for readers and is slow. tests/native/test_reference.py
requires that the compiled engine grows the same trees. The other files of this package contain the fast
implementation and all other settings.

    Burges (2010), "From RankNet to LambdaRank to LambdaMART: An Overview", MSR-TR-2010-82
    Chen and Guestrin (2016), "XGBoost: A Scalable Tree Boosting System", KDD
    Friedman (2001), "Greedy Function Approximation: A Gradient Boosting Machine", Annals of Statistics 29
    Ke et al. (2017), "LightGBM: A Highly Efficient Gradient Boosting Decision Tree", NeurIPS

Shapes: D documents, F features, n documents of a query or of a leaf. B is the number of bins of a feature,
including the bin of missing values, which is the last one.
"""

# ruff: noqa: N806, SIM300  # G and H are the sums of g and h, as in the papers.

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.shapes import Features, Labels, Scores

Bins = NDArray[np.int64]  # (D, F), the bin of each value
Thresholds = list[NDArray[np.float32]]  # ascending thresholds, one array per feature
Rows = NDArray[np.int64]  # (n,), row numbers of a leaf's documents, ascending
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """Hyperparameters; the defaults are those of `params=matched`.

    Attributes:
        num_trees: number of boosting iterations, one tree each.
        learning_rate: factor of every leaf value.
        num_leaves: maximum number of leaves per tree.
        min_docs_in_leaf: minimum number of documents per leaf.
        min_sum_hessian: minimum sum of hessians per leaf; above 0.
        min_split_gain: the gain of a split must exceed this value.
        l2: L2 penalty on leaf values, added to the sum of hessians.
        max_bins: maximum number of bins per feature, without the bin of missing values.
        truncation: a pair counts if at least one of its documents is among this many top ranks.
        sigma: slope of the sigmoid of a score difference.
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
    """A split: documents in bins up to `bin` go left; missing values go left if `missing_left`."""

    gain: float
    feature: int
    bin: int
    missing_left: bool


@dataclass
class Node:
    """A node of a tree. A tree is a list of nodes; node 0 is the root.

    Attributes:
        rows: training documents that reach the node.
        split: best split of the node; None if no split is allowed.
        left: index of the left child; the right child is the next node; 0 for a leaf.
        value: value of a leaf, before multiplication by the learning rate.
    """

    rows: Rows
    split: Split | None
    left: int = 0
    value: float = 0.0


class Model(NamedTuple):
    """A fitted model: its settings, the thresholds of all features, and its trees."""

    settings: Settings
    thresholds: Thresholds
    trees: list[list[Node]]


def choose_thresholds(
    values: NDArray[np.float32], max_bins: int
) -> NDArray[np.float32]:
    """Returns the thresholds of one feature; bin b holds thresholds[b - 1] < x <= thresholds[b].

    A feature with at most max_bins distinct values has one bin per value. Otherwise, neighbouring values are
    grouped into bins of equal weight. The weight of a value is its number of documents, but at most the
    weight of one bin. A threshold is halfway between the two neighbouring values. The last threshold is
    infinity: a split there separates missing values from all others.
    """
    known = values[~np.isnan(values)]
    distinct, counts = np.unique(known, return_counts=True)
    bin_of_value = np.arange(len(distinct))
    if len(distinct) > max_bins:
        # The weight of one bin, the capacity, solves sum(min(counts, capacity)) = max_bins * capacity.
        capacity = np.inf
        next_capacity = counts.sum() / max_bins
        while next_capacity < capacity:
            capacity = next_capacity
            fills_a_bin = counts >= capacity
            next_capacity = counts[~fills_a_bin].sum() / (max_bins - fills_a_bin.sum())
        weights = np.minimum(counts, capacity)
        middles = np.cumsum(weights) - weights / 2
        bin_of_middle = (middles / capacity).astype(np.int64)
        bin_of_value = np.minimum(bin_of_middle, max_bins - 1)
    last_of_bin = np.flatnonzero(np.diff(bin_of_value))
    low = distinct[last_of_bin]
    high = distinct[last_of_bin + 1]
    halfway = low / 2 + high / 2
    # No float32 is between two adjacent floats: then the lower one is the threshold.
    thresholds = np.where((low <= halfway) & (halfway < high), halfway, low)
    return np.append(thresholds, np.float32(np.inf))


def bin_features(features: Features, thresholds: Thresholds, missing_bin: int) -> Bins:
    """Returns the (D, F) bins; the bin of a value is the number of thresholds below it."""
    bins = np.empty(features.shape, dtype=np.int64)
    for f, thresholds_of_feature in enumerate(thresholds):
        bin_of_value = np.searchsorted(
            thresholds_of_feature, features[:, f], side="left"
        )
        is_missing = np.isnan(features[:, f])
        bins[:, f] = np.where(is_missing, missing_bin, bin_of_value)
    return bins


# For distant scores in the right order, exp is infinite and rho is 0.
@np.errstate(over="ignore")
def lambdas_of_query(
    labels: Labels, s: Scores, settings: Settings
) -> tuple[Values, Values]:
    """Returns the (n,) gradients g and hessians h of one query's cost with respect to its scores s.

    Entry (i, j) of the (n, n) arrays is the pair of documents i and j in which i has the higher label. The
    two normalisations, by score difference and by query, are LightGBM's lambdarank_norm; the paper has none.
    """
    T = settings.truncation
    sigma = settings.sigma
    ranks = np.empty(len(s), dtype=np.int64)
    # Tied documents keep the order of the rows.
    order = np.argsort(-s, kind="stable")
    ranks[order] = np.arange(len(s))
    gains = 2.0**labels - 1.0
    discounts = 1.0 / np.log2(ranks + 2.0)  # Burges, section 3: DCG
    best_gains = np.sort(gains)[::-1][:T]
    best_ranks = np.arange(len(best_gains))
    max_dcg = best_gains @ (1.0 / np.log2(best_ranks + 2.0))
    if max_dcg == 0.0:
        return np.zeros(len(s)), np.zeros(len(s))
    upper_ranks = np.minimum(ranks[:, None], ranks)
    counts = (labels[:, None] > labels) & (upper_ranks < T)
    # |Delta NDCG| when i and j are swapped: Burges, section 4.
    swapped = (gains[:, None] - gains) * (discounts[:, None] - discounts)
    delta = counts * np.abs(swapped) / max_dcg
    difference = s[:, None] - s
    if s.min() < s.max():
        # 0.01 is a float32 in LightGBM.
        offset = np.float32(0.01).astype(np.float64)
        delta /= offset + np.abs(difference)
    # Burges, section 7: probability of the wrong order.
    rho = 1.0 / (1.0 + np.exp(sigma * difference))
    lambda_ij = sigma * rho * delta  # pushes i up and j down
    # Burges, section 7: second derivative.
    hessian_ij = sigma**2 * rho * (1.0 - rho) * delta
    g = lambda_ij.sum(axis=0) - lambda_ij.sum(axis=1)
    h = hessian_ij.sum(axis=0) + hessian_ij.sum(axis=1)
    S = 2.0 * lambda_ij.sum()  # each pair pushes two documents
    scale = 1.0
    if S > 0.0:
        scale = np.log2(1.0 + S) / S
    return scale * g, scale * h


def lambdas(
    train: RankingDataset, scores: Scores, settings: Settings
) -> tuple[Values, Values]:
    """Returns the (D,) gradients and hessians of all queries, multiplied by query and document weights."""
    g = np.zeros(len(scores))
    h = np.zeros(len(scores))
    for first, end in itertools.pairwise(train.query_start):
        rows = slice(first, end)
        of_query = lambdas_of_query(train.labels[rows], scores[rows], settings)
        g[rows], h[rows] = of_query
    return g * train.weight_of_document, h * train.weight_of_document


def round_to_units(values: Values, limit: int) -> tuple[Values, float]:
    """Returns the values as integer multiples of a unit, and the unit, about 1e-9 of the sum of |values|.

    The engine rounds so that the sum over any set of documents fits into 32 bits. The reference must round in
    the same way. Sums of integers are exact: two splits into the same sets of documents have exactly the same
    gain, and the first one is chosen. With sums of floats, rounding errors would decide.
    """
    steps = limit - 1 - len(values)
    unit = np.abs(values).sum() / steps
    unit = unit if unit >= np.finfo(np.float64).tiny else 1.0
    return np.rint(values / unit), unit


def histograms(bins: Bins, terms: Values, num_bins: int) -> Values:
    """Returns the sums per bin, (3, F, B, 1), of the (3, n) terms of a leaf's documents."""
    num_features = bins.shape[1]
    cells = (bins + num_bins * np.arange(num_features)).ravel()
    # These sums are exact in float64: they are integers below 2^53.
    num_cells = num_features * num_bins
    sums = []
    for term in terms:
        of_cells = np.repeat(term, num_features)
        sums.append(np.bincount(cells, of_cells, num_cells))
    return np.reshape(sums, (len(terms), num_features, num_bins, 1))


def split_gain(leaf: Values, left: Values, right: Values, l2: float) -> Values:
    """Returns G_L^2 / (H_L + l2) + G_R^2 / (H_R + l2) - G^2 / (H + l2); each argument is a pair (G, H).

    Chen and Guestrin, equation 7, without the factor 1/2. The order of operations is the same as in the
    engine, so that the results are equal to the last bit. The last bit matters if the exact gain is 0. Before
    the first tree, for example, all scores are equal, rho is 1/2, and g / h is 2 / sigma for every document
    that all its pairs push down. The engine splits a leaf of such documents if the rounding error of the
    gain is positive.
    """
    (G, H) = leaf
    (G_L, H_L) = left
    (G_R, H_R) = right
    H = H + l2
    H_L = H_L + l2
    H_R = H_R + l2
    w = -G / H
    parts = (G_L**2 * H_R + G_R**2 * H_L) / (H_L * H_R)
    gain: Values = parts + w * (2.0 * G + H * w)
    return gain


# For splits with a side whose sum of hessians is 0.
@np.errstate(divide="ignore", invalid="ignore")
def best_split(sums: Values, units: Values, settings: Settings) -> Split | None:
    """Returns the split with the highest gain, or None if no split is allowed.

    Among equal gains the first is chosen, in the order of feature, bin, and missing values right before left.

    Args:
        sums: (3, F, B, 1), for each bin of a leaf: sum of g in units, sum of h in units, number of documents.
        units: (2,), the units of g and of h.
    """
    g_unit, h_unit = units
    missing = sums[:, :, -1:]
    total = sums[:, :1].sum(axis=2, keepdims=True)
    missing_right = np.cumsum(sums[:, :, :-1], axis=2)
    # (3, F, B - 1, 2).
    left = np.concatenate([missing_right, missing_right + missing], axis=3)
    # Chen and Guestrin, algorithm 3: missing values are tried on both sides.
    right = total - left
    l2 = settings.l2 / h_unit
    gain = split_gain(total[:2], left[:2], right[:2], l2)
    gain *= g_unit * g_unit / h_unit
    smaller = np.minimum(left, right)
    is_allowed = smaller[1] >= settings.min_sum_hessian / h_unit
    is_allowed &= smaller[2] >= settings.min_docs_in_leaf
    # Missing values with no gradient and no hessian gain the same on both sides: only the right is tried.
    g_missing, h_missing = missing[:2, :, 0, 0]
    has_direction = (g_missing != 0.0) | (h_missing != 0.0)
    is_allowed[:, :, 1] &= has_direction[:, None]
    gain[~is_allowed] = -np.inf
    f, b, side = np.unravel_index(np.argmax(gain), gain.shape)
    if not gain[f, b, side] > settings.min_split_gain:
        return None
    # Such missing values go to the side with the larger sum of hessians. As in the engine, min_docs_in_leaf
    # is not checked again.
    missing_left = side == 1
    if not has_direction[f]:
        h_left = left[1, f, b, side]
        missing_left = h_left >= right[1, f, b, side]
    highest = float(gain[f, b, side])
    return Split(highest, int(f), int(b), bool(missing_left))


def goes_left(bins: Bins, split: Split, missing_bin: int) -> NDArray[np.bool_]:
    """Returns the (n,) mask of the documents that go left."""
    bin_of_document = bins[:, split.feature]
    return np.where(
        bin_of_document == missing_bin, split.missing_left, bin_of_document <= split.bin
    )


def newton_value(g: Values, h: Values, settings: Settings) -> float:
    """Returns the value of a leaf, one Newton step: Burges, section 7; Chen and Guestrin, equation 5."""
    G = float(g.sum())
    H = float(h.sum())
    if H >= settings.min_sum_hessian:
        return -G / (H + settings.l2)
    return 0.0


def grow_tree(bins: Bins, g: Values, h: Values, settings: Settings) -> list[Node]:
    """Returns a tree that is grown leaf-wise (Ke et al.): the leaf with the highest gain is split next."""
    (whole_g, g_unit) = round_to_units(g, 2**31)
    (whole_h, h_unit) = round_to_units(h, 2**32)
    terms = np.stack([whole_g, whole_h, np.ones(len(g))])
    units = np.array([g_unit, h_unit])

    def gain_of(node: Node) -> float:
        return node.split.gain if node.split and not node.left else -np.inf

    def node_of(rows: Rows) -> Node:
        terms_of_rows = terms[:, rows]
        sums = histograms(bins[rows], terms_of_rows, settings.max_bins + 1)
        return Node(rows, best_split(sums, units, settings))

    nodes = [node_of(np.arange(len(g)))]
    while len(nodes) < 2 * settings.num_leaves - 1:
        leaf = max(nodes, key=gain_of)
        if leaf.split is None or leaf.left:
            break
        is_left = goes_left(bins[leaf.rows], leaf.split, settings.max_bins)
        leaf.left = len(nodes)
        nodes.append(node_of(leaf.rows[is_left]))
        nodes.append(node_of(leaf.rows[~is_left]))
    for node in nodes:
        if not node.left:
            # Gains are computed from rounded gradients and hessians, leaf values from the exact ones.
            node.value = newton_value(g[node.rows], h[node.rows], settings)
    return nodes


def boost(train: RankingDataset, settings: Settings) -> Model:
    """Fits a model: Burges, section 7; the learning rate: Friedman, section 5.

    Codes of categories are read as numbers. With more than 200,000 documents, the engine chooses thresholds
    from a sample, and they differ from these.
    """
    features = np.asarray(train.features)
    thresholds = [choose_thresholds(values, settings.max_bins) for values in features.T]
    model = Model(settings, thresholds, trees=[])
    bins = bin_features(features, thresholds, settings.max_bins)
    scores = np.zeros(train.num_documents)
    for _ in range(settings.num_trees):
        tree = grow_tree(bins, *lambdas(train, scores, settings), settings)
        model.trees.append(tree)
        scores += settings.learning_rate * values_of(tree, bins, settings.max_bins)
    return model


def values_of(tree: list[Node], bins: Bins, missing_bin: int) -> Values:
    """Returns the (D,) values of the leaves that the documents reach."""
    node_of_document = np.zeros(len(bins), dtype=np.int64)
    for number, node in enumerate(tree):  # a parent comes before its children
        if node.left and node.split:
            here = np.flatnonzero(node_of_document == number)
            is_left = goes_left(bins[here], node.split, missing_bin)
            node_of_document[here] = np.where(is_left, node.left, node.left + 1)
    return np.array([node.value for node in tree])[node_of_document]


def predict(model: Model, features: Features) -> Scores:
    """Returns the (D,) scores: the sum over all trees of learning rate times leaf value."""
    missing_bin = model.settings.max_bins
    bins = bin_features(features, model.thresholds, missing_bin)
    scores = np.zeros(len(features))
    for tree in model.trees:
        scores += model.settings.learning_rate * values_of(tree, bins, missing_bin)
    return scores
