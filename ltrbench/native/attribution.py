"""TreeSHAP: the contribution of each feature to the difference between a score and the expected score.

Let S be the set of known features of a document x. The expected value v(S) of a tree is computed as
follows: at a node whose feature is in S, follow x; at any other node take both branches, weighted by
their shares of the training documents (Lundberg, Erion and Lee, 2018, "Consistent Individualized Feature
Attribution for Tree Ensembles", Algorithm 1). The contribution of a feature is its Shapley value in this
game of F features:

    phi_j = sum over S without j of |S|! (F - |S| - 1)! / F! (v(S + j) - v(S))

For the path from the root to a leaf, let m be the number of features on the path, o_i = 1 if x follows
the path at all nodes that split on feature i and 0 otherwise, and z_i the product of the shares of
training documents that follow the path at these nodes. Then

    v(S) = sum over leaves of value prod_{i in S} o_i prod_{i not in S} z_i

Lundberg's Algorithm 2 turns the sum over subsets into a recursion on the coefficients of a polynomial,
and removes a feature from the polynomial by subtraction. Here, each path is a separate game, as in
GPUTreeShap (Mitchell, Frank and Holmes, 2022), and the polynomial is integrated over the probability t
that a feature is known (Owen, 1972, "Multilinear Extensions of Games", theorem 5):

    phi_j = sum over leaves of value (o_j - z_j) integral_0^1 prod_{i != j} (t o_i + (1 - t) z_i) dt

The integrand has degree m - 1, so that Gauss-Legendre quadrature with ceil(m / 2) points is exact. The
result equals that of Algorithm 2 at the same cost, without cancellation: the integral contains no
subtraction.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import chain, combinations
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import Part, in_parts, kernel
from ltrbench.native import NO_FEATURE, Tree, goes_left
from ltrbench.native.forest import Forest
from ltrbench.shapes import Features, Values

Contributions = NDArray[np.float64]
"""(D, F + 1), one column per feature, then the expected score; the sum of a row is the document's score."""


def reference_contributions(forest: Forest, features: Features) -> Contributions:
    """Specification: the sum over all subsets of features; exponential in their number."""
    num_documents, num_features = features.shape
    contributions = np.zeros((num_documents, num_features + 1))
    for tree, weight in zip(forest.trees(), forest.weights, strict=True):
        expected = _expected(tree, features[0], frozenset(), 0)
        contributions[:, -1] += weight * expected
        for d, document in enumerate(features):
            for j in range(num_features):
                contributions[d, j] += weight * _shapley_value(tree, document, j)
    return contributions


def _shapley_value(tree: Tree, document: NDArray[np.float32], j: int) -> float:
    num_features = len(document)
    total = 0.0
    others = [feature for feature in range(num_features) if feature != j]
    for size in range(num_features):
        share = (
            factorial(size)
            * factorial(num_features - size - 1)
            / factorial(num_features)
        )
        for subset in map(frozenset, combinations(others, size)):
            with_j = _expected(tree, document, subset | {j}, 0)
            total += share * (with_j - _expected(tree, document, subset, 0))
    return total


def _expected(
    tree: Tree, document: NDArray[np.float32], known: frozenset[int], node: int
) -> float:
    """Returns v(known) of the subtree at a node: Algorithm 1."""
    feature = int(tree.feature[node])
    left = int(tree.left[node])
    right = int(tree.right[node])
    if feature == NO_FEATURE:
        return float(tree.value[node])
    if feature in known:
        is_left = goes_left(tree, node, document[feature])
        return _expected(tree, document, known, left if is_left else right)
    shares = tree.num_documents[[left, right]] / tree.num_documents[node]
    of_left, of_right = (
        _expected(tree, document, known, below) for below in (left, right)
    )
    return float(shares[0] * of_left + shares[1] * of_right)


def tree_shap(forest: Forest, features: Features) -> Contributions:
    """Returns the contributions for documents with features (D, F) in C order.

    The result has the same bits in every batch and on any number of threads: contributions of a document are
    added path by path. Features that no tree uses take memory in the result only.
    """
    paths, used = _paths(forest)
    num_documents, num_features = features.shape
    contributions = np.zeros((num_documents, num_features + 1))
    longest = int(np.diff(paths.first).max())
    # Always read-only, so that one compilation serves read-only and writable arrays.
    of_used = features.take(used, axis=1)
    of_used.flags.writeable = False
    sums = np.zeros((len(features), len(used) + 1))
    rules = _rules((longest + 1) // 2)
    num_blocks = (len(features) + LANES - 1) // LANES
    in_parts(_add_to_blocks, num_blocks, paths, rules, of_used, sums)
    contributions[:, [*used, -1]] = sums
    return contributions


class _Paths(NamedTuple):
    """P paths from a root to a leaf with E steps in total; a path has one step per feature it splits on.

    x follows a step if low < x <= high, or if x is missing and `missing` is True. On a categorical feature it
    follows if it is one of the categories or, if `missing` is True, none of them.

    Attributes:
        first: (P + 1,), index of each path's first step, followed by E.
        feature: (E,), index of the step's feature among the features in use.
        low: (E,), exclusive lower bound of x; NaN: no bound.
        high: (E,), inclusive upper bound of x; NaN: the feature is categorical.
        missing: (E,), whether a missing value follows the step.
        share: (E,), z: share of the training documents at the step's nodes that follow the step.
        value: (P,), leaf value times the weight of the tree.
        first_category: (E + 1,), index of each step's first category, followed by their number.
        categories: codes of the categories of all steps.
    """

    first: NDArray[np.uint64]
    feature: NDArray[np.uint32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    missing: NDArray[np.bool_]
    share: NDArray[np.float64]
    value: NDArray[np.float64]
    first_category: NDArray[np.uint64]
    categories: NDArray[np.float32]


class _Step(NamedTuple):
    low: float = np.nan
    high: float = np.inf
    missing: bool = True
    share: float = 1.0
    categories: frozenset[float] = frozenset()


@lru_cache(maxsize=1)  # for consecutive blocks of documents
def _paths(forest: Forest) -> tuple[_Paths, NDArray[np.intp]]:
    """Returns the paths, and the features that they use in ascending order."""
    first = [0]
    values = []
    features: list[int] = []
    steps: list[_Step] = []
    for tree, weight in zip(forest.trees(), forest.weights, strict=True):
        in_lists = Tree._make(array.tolist() for array in tree)
        for path, value in _paths_below_root(in_lists):
            features += path.keys()
            steps += path.values()
            first.append(len(steps))
            values.append(weight * value)
    features_of_steps = np.array(features, dtype=np.intp)
    used, indices = np.unique(features_of_steps, return_inverse=True)
    categories = [sorted(step.categories) for step in steps]
    in_order = chain.from_iterable(categories)
    sizes = map(len, categories)
    paths = _Paths(
        first=np.array(first, dtype=np.uint64),
        feature=indices.astype(np.uint32),
        low=np.array([step.low for step in steps], dtype=np.float32),
        high=np.array([step.high for step in steps], dtype=np.float32),
        missing=np.array([step.missing for step in steps], dtype=np.bool_),
        share=np.array([step.share for step in steps], dtype=np.float64),
        value=np.array(values, dtype=np.float64),
        first_category=np.cumsum([0, *sizes], dtype=np.uint64),
        categories=np.fromiter(in_order, dtype=np.float32),
    )
    return paths, used


def _paths_below_root(tree: Tree) -> Iterator[tuple[dict[int, _Step], float]]:
    """Yields for each leaf, from left to right, its path as feature -> step, and its value.

    The arrays of `tree` are lists here.
    """
    # An explicit stack, because recursion would limit the depth of trees.
    open_nodes: list[tuple[int, dict[int, _Step]]] = [(0, {})]
    while open_nodes:
        node, path = open_nodes.pop()
        feature = tree.feature[node]
        if feature == NO_FEATURE:
            yield path, tree.value[node]
            continue
        step = path.get(feature, _Step())
        sides = ((tree.right[node], False), (tree.left[node], True))
        for below, is_left in sides:
            taken = _taken(step, tree, node, below, is_left)
            open_nodes.append((below, {**path, feature: taken}))


def _taken(step: _Step, tree: Tree, node: int, below: int, is_left: bool) -> _Step:
    """Returns a step after a further node on its feature, on the side of one of the children of the node."""
    low, high = _interval(step, tree.threshold[node], is_left)
    share = tree.num_documents[below] / tree.num_documents[node]
    # Without NaN.
    codes = tree.left_categories[node]
    of_node = frozenset(code for code in codes if code == code)
    missing = step.missing and tree.missing_left[node] == is_left
    return _Step(
        low=low,
        high=high,
        missing=missing,
        share=step.share * share,
        categories=_followed(step, of_node, is_left),
    )


def _interval(step: _Step, threshold: float, is_left: bool) -> tuple[float, float]:
    """Returns the ends of the values that follow a step after a further node; the upper end is NaN if the
    node has categories, and its threshold is NaN."""
    if np.isnan(threshold):
        return step.low, np.nan
    if is_left:
        return step.low, min(step.high, threshold)
    return np.fmax(step.low, threshold), step.high


def _followed(
    step: _Step, of_node: frozenset[float], is_left: bool
) -> frozenset[float]:
    """Returns the categories of a step after a further node that sends some categories left.

    As long as missing values follow the step, they are the categories that do not follow it.
    """
    if is_left:
        if step.missing:
            return of_node - step.categories
        return of_node & step.categories
    if step.missing:
        return step.categories | of_node
    return step.categories - of_node


class _Rules(NamedTuple):
    """Gauss-Legendre points and weights on [0, 1]; row n - 1 has the rule with n points."""

    points: NDArray[np.float64]
    weights: NDArray[np.float64]


@cache
def _rules(most: int) -> _Rules:
    """Returns the rules with 1, ..., `most` points."""
    points = np.zeros((most, most))
    weights = np.zeros((most, most))
    for n in range(1, most + 1):
        points_on_both_sides, weights_of_rule = np.polynomial.legendre.leggauss(n)
        points[n - 1, :n] = (points_on_both_sides + 1) / 2
        weights[n - 1, :n] = weights_of_rule / 2
    return _Rules(points, weights)


LANES = 32
"""Number of documents per block; the innermost loops run over these documents and are vectorised."""


@kernel
def _add_to_blocks(
    part: Part,
    paths: _Paths,
    rules: _Rules,
    features: Features,
    contributions: Contributions,
) -> None:
    for block in range(part[0], part[1]):
        documents = slice(block * LANES, min((block + 1) * LANES, len(features)))
        _one_block(paths, rules, features[documents], contributions[documents])


@kernel
def _one_block(
    paths: _Paths, rules: _Rules, features: Features, contributions: Contributions
) -> None:
    columns = np.zeros((features.shape[1], LANES), dtype=np.float32)
    columns[:, : len(features)] = features.T
    sums = np.zeros((contributions.shape[1], LANES))
    longest = 2 * len(rules.points)
    along = np.empty((longest, LANES))
    before = np.empty((longest, LANES))
    integral = np.empty((longest, LANES))
    for p in range(len(paths.value)):
        path = np.uint64(p)
        first = paths.first[path]
        m = paths.first[path + np.uint64(1)] - paths.first[path]
        expected = paths.value[path]
        for k in range(m):
            i = np.uint64(k)
            _go_along(paths, first + i, columns, along[i])
            integral[i] = 0.0
            expected *= paths.share[first + i]
        sums[len(sums) - 1] += expected
        rule = (m + np.uint64(1)) // np.uint64(2)
        share = paths.share[first : first + m]
        for k in range(rule):
            row = rule - np.uint64(1)
            point = np.uint64(k)
            _add_products(
                share,
                along,
                rules.points[row, point],
                rules.weights[row, point],
                before,
                integral,
            )
        for k in range(m):
            i = np.uint64(k)
            _add_step(
                paths.value[path],
                share[i],
                along[i],
                integral[i],
                sums[paths.feature[first + i]],
            )
    contributions[:] = sums[:, : len(features)].T


@kernel
def _go_along(paths: _Paths, step: np.uint64, columns: Features, along: Values) -> None:
    """Writes 1.0 for each document that follows a step, and 0.0 for the others."""
    values = columns[np.uint64(paths.feature[step])]
    low = paths.low[step]
    high = paths.high[step]
    missing = paths.missing[step]
    if high != high:
        categories = paths.categories[
            paths.first_category[step] : paths.first_category[step + np.uint64(1)]
        ]
        for d in range(LANES):
            is_one = False
            for i in range(len(categories)):
                is_one |= categories[i] == values[d]
            along[d] = is_one != missing
        return
    for d in range(LANES):
        x = values[np.uint64(d)]
        along[np.uint64(d)] = (x <= high and not x <= low) or (x != x and missing)


@kernel
def _add_products(
    share: Values,
    along: Values,
    t: float,
    weight: float,
    before: Values,
    integral: Values,
) -> None:
    """Adds one quadrature point to the integral of each step: weight times the factors of all other steps."""
    product = np.full(LANES, weight)
    for k in range(len(share)):
        i = np.uint64(k)
        known = along[i]
        unknown = (1.0 - t) * share[i]
        for lane in range(LANES):
            d = np.uint64(lane)
            before[i, d] = product[d]
            product[d] *= t * known[d] + unknown
    product[:] = 1.0
    for k in range(len(share)):
        i = np.uint64(len(share) - 1 - k)
        known = along[i]
        unknown = (1.0 - t) * share[i]
        for lane in range(LANES):
            d = np.uint64(lane)
            integral[i, d] += before[i, d] * product[d]
            product[d] *= t * known[d] + unknown


@kernel
def _add_step(
    value: float, share: float, along: Values, integral: Values, sums: Values
) -> None:
    for lane in range(LANES):
        d = np.uint64(lane)
        sums[d] += value * (along[d] - share) * integral[d]
