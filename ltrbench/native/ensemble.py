"""The ensemble during a fit: the trees so far, their weights and their scores.

    score(x) = sum over t of weight_t leaf_t(x)

The scores of the training and validation documents are updated after every tree, in the order of the trees,
so that they have the same bits as a prediction. Optionally, training scores are float32, as in XGBoost. The
scores come from the bins of the documents, or from the stored values of sparse documents; only the trees of
an earlier fit need dense features, once.

DART removes trees from the sum and adds them again rescaled. Subtracting their values would leave rounding
errors between documents to which the other trees assign equal scores. These errors would determine the order
of the documents and so their lambdas. The scores are therefore recomputed from the leaf of each document in
each tree. With DART, the ensemble stores these leaves: one byte per document and tree of up to 128 leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import parallel_kernel
from ltrbench.data.features import AnyFeatures, SparseRows, row_blocks
from ltrbench.native.dart import Rescaling, Weights
from ltrbench.native.forest.binned import add_binned_scores
from ltrbench.native.forest.scoring import Forest, add_scores, plant
from ltrbench.native.forest.stored import add_stored_scores
from ltrbench.native.tree.binning import BinnedFeatures, Rows
from ltrbench.native.tree.grower import GrownTree
from ltrbench.native.tree.nodes import Tree
from ltrbench.shapes import Values

_NO_TREES = np.empty(0, dtype=np.int64)


class Documents(NamedTuple):
    """The documents of a data set.

    Attributes:
        features: (D, F).
        binned: their bins, with thresholds from the training documents; None: scores come from the features.
    """

    features: AnyFeatures
    binned: BinnedFeatures | None

    def add_scores(self, forest: Forest, scores: Values) -> None:
        """Adds the values of trees of this fit to the (D,) scores, in place."""
        if self.binned is not None:
            add_binned_scores(forest, self.binned, scores)
        elif isinstance(self.features, SparseRows):
            add_stored_scores(forest, self.features, scores)
        else:
            for start, block in row_blocks(self.features):
                add_scores(forest, block, scores[start : start + len(block)])


class BoostedTrees:
    """Trees, weights and scores of a fit.

    Args:
        train: training documents.
        valid: validation documents, or None.
        start: initial trees, if the fit continues from a model.
        may_drop: whether `drop` will be called.
        in_float32: whether training scores, and the values added to them, are rounded to float32.
    """

    def __init__(
        self,
        train: Documents,
        valid: Documents | None = None,
        start: Forest | None = None,
        may_drop: bool = False,
        in_float32: bool = False,
    ) -> None:
        self._train = _Scored(train, may_drop, in_float32)
        self._valid = None if valid is None else _Scored(valid, may_drop)
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
        return None if self._valid is None else self._valid.scores

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

    def _all_scored(self) -> list[_Scored]:
        return [self._train] if self._valid is None else [self._train, self._valid]


class _Scored:
    """The scores of a data set's documents and, if trees may be dropped, the leaves that they reach.

    Attributes:
        scores: (D,).
        leaves: for each tree, the (D,) leaf nodes of the documents; empty without DART.
    """

    def __init__(self, documents: Documents, remembers_leaves: bool, in_float32: bool = False) -> None:
        self.scores: Values = np.zeros(len(documents.features))
        self.leaves: list[NDArray[np.unsignedinteger]] = []
        self._documents = documents
        self._remembers_leaves = remembers_leaves
        self._in_float32 = in_float32

    def add_start(self, trees: list[Tree], weights: Weights) -> None:
        """Adds trees of an earlier fit, whose thresholds are not those of the bins."""
        forests = [self._alone(tree, weight) for tree, weight in zip(trees, weights, strict=True)]
        numbered = [_numbered(tree) for tree in trees] if self._remembers_leaves else []
        self.leaves = [np.empty(len(self.scores), _leaf_dtype(tree)) for tree in trees][: len(numbered)]
        for start, rows in _parts(self._documents.features):
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
        self._documents.add_scores(self._alone(tree, weight), self.scores)
        self._round()
        self._remember(tree)

    def add_grown(self, tree: Tree, grown: GrownTree, weight: float) -> None:
        """Adds a tree whose leaves are known for all documents, because it was grown on them."""
        values = self._weighted(tree, weight)[grown.leaf_node]
        _add_leaf_values(grown.rows, grown.leaf_start, values, self.scores)
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
        if self._in_float32:
            return (np.float32(weight) * tree.value.astype(np.float32)).astype(np.float64)
        return weight * tree.value

    def _alone(self, tree: Tree, weight: float) -> Forest:
        """Returns a forest of one tree with its weighted leaf values."""
        return plant([tree._replace(value=self._weighted(tree, weight))], [1.0])

    def _round(self, part: slice = slice(None)) -> None:
        if self._in_float32:
            self.scores[part] = self.scores[part].astype(np.float32)

    def _remember(self, tree: Tree) -> None:
        if self._remembers_leaves:
            nodes = np.zeros(len(self.scores))
            self._documents.add_scores(_numbered(tree), nodes)
            self.leaves.append(nodes.astype(_leaf_dtype(tree)))


def _parts(features: AnyFeatures) -> Iterator[tuple[int, AnyFeatures]]:
    """Yields parts of the rows and their first row: blocks, or sparse rows as a whole."""
    if isinstance(features, SparseRows):
        yield 0, features
    else:
        yield from row_blocks(features)


def _numbered(tree: Tree) -> Forest:
    """Returns a forest of one tree that scores a document with the number of its leaf."""
    return plant([tree._replace(value=np.arange(len(tree.value), dtype=np.float64))], [1.0])


def _leaf_dtype(tree: Tree) -> np.dtype[np.unsignedinteger]:
    """Returns the smallest dtype for the numbers of a tree's leaves."""
    return np.min_scalar_type(len(tree.value) - 1)


def _rescaled(weights: Weights, dropped: NDArray[np.int64], rescaling: Rescaling) -> Weights:
    """Returns the (T + 1,) weights after a new tree, given the (T,) weights before it."""
    weights = np.append(weights, rescaling.new)
    weights[dropped] *= rescaling.factor
    return weights


@parallel_kernel
def _add_leaf_values(
    rows: Rows, leaf_start: NDArray[np.int64], values: NDArray[np.float64], scores: Values
) -> None:
    for leaf in numba.prange(len(values)):
        for row in rows[leaf_start[leaf] : leaf_start[leaf + 1]]:
            scores[row] += values[leaf]
