"""The ensemble under construction: the trees so far, their weights, and the scores that they give.

    score(x) = sum over t of weight_t leaf_t(x)

for the documents of train and of a validation set, in the order of the trees and kept up to date from tree to
tree, so that they have the bits of a prediction; or those of train in float32, as XGBoost learns from them.

DART takes trees out of the sum and puts them back rescaled. To subtract what they gave would leave rounding
errors between documents that the other trees cannot tell apart; these would decide their order, and with it
their lambdas. The scores are therefore added up anew, from the leaf of each document in each tree, which DART
makes the ensemble remember: a byte for a tree of up to 128 leaves.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import parallel_kernel
from ltrbench.native.dart import Rescaling, Weights
from ltrbench.native.forest.scoring import Forest, add_scores, plant
from ltrbench.native.tree.binning import Rows
from ltrbench.native.tree.grower import GrownTree
from ltrbench.native.tree.nodes import Tree
from ltrbench.shapes import Features, Values

_NO_TREES = np.empty(0, dtype=np.int64)


class BoostedTrees:
    """Trees, weights and scores.

    Args:
        train_features: (D, F).
        valid_features: (V, F), or None.
        start: the trees to begin with, where learning continues from a model.
        may_drop: whether `drop` will be called.
        in_float32: whether the scores of train are kept in float32, and what a tree adds to them is too.
    """

    def __init__(
        self,
        train_features: Features,
        valid_features: Features | None = None,
        start: Forest | None = None,
        may_drop: bool = False,
        in_float32: bool = False,
    ) -> None:
        self._train = _Scored(train_features, may_drop, in_float32)
        self._valid = None if valid_features is None else _Scored(valid_features, may_drop)
        self._trees: list[Tree] = []
        self._start_weights = np.empty(0) if start is None else start.weights
        self._rescalings: list[tuple[NDArray[np.int64], Rescaling]] = []
        self._dropped = _NO_TREES
        self.weights: Weights = self._start_weights
        if start is not None:
            self._trees = start.trees()
            for scored in self._all_scored():
                for tree, weight in zip(self._trees, start.weights, strict=True):
                    scored.add(tree, weight)

    @property
    def num_trees(self) -> int:
        return len(self._trees)

    @property
    def num_start(self) -> int:
        """How many of them were there to begin with."""
        return len(self._start_weights)

    @property
    def train_scores(self) -> Values:
        return self._train.scores

    @property
    def valid_scores(self) -> Values | None:
        return None if self._valid is None else self._valid.scores

    @property
    def forest(self) -> Forest:
        """All trees; there must be one."""
        return plant(self._trees, self.weights)

    def first(self, num_trees: int) -> Forest:
        """The model as it was when it had so many trees: with the weights that they had then."""
        weights = self._start_weights
        for dropped, rescaling in self._rescalings[: num_trees - self.num_start]:
            weights = _rescaled(weights, dropped, rescaling)
        return plant(self._trees[:num_trees], weights)

    def drop(self, trees: NDArray[np.int64]) -> None:
        """Takes what these trees give out of the scores of train, until the next tree is added."""
        self._dropped = trees
        if len(trees):
            weights = self.weights.copy()
            weights[trees] = 0.0
            self._train.add_up(self._trees, weights)

    def add(self, tree: Tree, grown: GrownTree, rescaling: Rescaling) -> None:
        """Adds a tree, with values now, that was grown on train; puts back those that were dropped for it."""
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
    """The documents of a data set with their scores and, where trees may be dropped, their leaves.

    Attributes:
        scores: (D,).
        leaves: for each tree the (D,) nodes that the documents end at; none where nothing is dropped.
    """

    def __init__(self, features: Features, remembers_leaves: bool, in_float32: bool = False) -> None:
        self.scores: Values = np.zeros(len(features))
        self.leaves: list[NDArray[np.unsignedinteger]] = []
        self._features = features
        self._remembers_leaves = remembers_leaves
        self._in_float32 = in_float32

    def add(self, tree: Tree, weight: float) -> None:
        weighted = tree._replace(value=self._weighted(tree, weight))
        add_scores(plant([weighted], [1.0]), self._features, self.scores)
        self._round()
        self._remember(tree)

    def add_grown(self, tree: Tree, grown: GrownTree, weight: float) -> None:
        """Likewise for documents that growing the tree has brought to their leaves already."""
        values = self._weighted(tree, weight)[grown.leaf_node]
        _add_leaf_values(grown.rows, grown.leaf_start, values, self.scores)
        self._round()
        self._remember(tree)

    def add_up(self, trees: list[Tree], weights: Weights) -> None:
        """Makes the scores those of these weights."""
        self.scores[:] = 0.0
        for tree, weight, leaves in zip(trees, weights, self.leaves, strict=True):
            self.scores += self._weighted(tree, weight)[leaves]
            self._round()

    def _weighted(self, tree: Tree, weight: float) -> NDArray[np.float64]:
        """(N,), what the leaves of a tree add to a score."""
        if self._in_float32:
            return (np.float32(weight) * tree.value.astype(np.float32)).astype(np.float64)
        return weight * tree.value

    def _round(self) -> None:
        if self._in_float32:
            self.scores[:] = self.scores.astype(np.float32)

    def _remember(self, tree: Tree) -> None:
        if self._remembers_leaves:
            numbers = np.arange(len(tree.value))
            nodes = np.zeros(len(self.scores))
            add_scores(plant([tree._replace(value=numbers.astype(np.float64))], [1.0]), self._features, nodes)
            self.leaves.append(nodes.astype(np.min_scalar_type(numbers[-1])))


def _rescaled(weights: Weights, dropped: NDArray[np.int64], rescaling: Rescaling) -> Weights:
    """(T,) weights -> (T + 1,)."""
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
