"""The ensemble under construction: the trees so far, their weights, and the scores that they give.

    score(x) = sum over t of weight_t leaf_t(x)

for the documents of train and of a validation set, kept up to date from tree to tree. Where DART drops trees
their part is taken out of the scores and comes back with the new tree, rescaled; the scores are then those of
the sum but for rounding, otherwise they are its bits.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import parallel_kernel
from ltrbench.native.dart import Rescaling, Weights
from ltrbench.native.grower import GrownTree
from ltrbench.native.histogram import Rows
from ltrbench.native.tree import Forest, Scores, Tree, add_scores, plant
from ltrbench.shapes import Features

_NO_TREES = np.empty(0, dtype=np.int64)


class Ensemble:
    """Trees, weights and scores.

    Args:
        train_features: (D, F).
        valid_features: (V, F), or None.
        start: the trees to begin with, where learning continues from a model.
    """

    def __init__(
        self, train_features: Features, valid_features: Features | None = None, start: Forest | None = None
    ) -> None:
        self._train = _Scored(train_features)
        self._valid = None if valid_features is None else _Scored(valid_features)
        self._trees = [] if start is None else start.trees()
        self._start_weights = np.empty(0) if start is None else start.weights
        self._rescalings: list[tuple[NDArray[np.int64], Rescaling]] = []
        self._dropped = _NO_TREES
        self.weights: Weights = self._start_weights
        if start is not None:
            for scored in self._all_scored():
                scored.add(start)

    @property
    def num_trees(self) -> int:
        return len(self._trees)

    @property
    def train_scores(self) -> Scores:
        return self._train.scores

    @property
    def valid_scores(self) -> Scores | None:
        return None if self._valid is None else self._valid.scores

    @property
    def forest(self) -> Forest:
        """All trees; there must be one."""
        return plant(self._trees, self.weights)

    def first(self, num_trees: int) -> Forest:
        """The model as it was when it had so many trees: with the weights that they had then."""
        weights = self._start_weights
        for dropped, rescaling in self._rescalings[: num_trees - len(self._start_weights)]:
            weights = _rescaled(weights, dropped, rescaling)
        return plant(self._trees[:num_trees], weights)

    def drop(self, trees: NDArray[np.int64]) -> None:
        """Takes what these trees give out of the scores, until the next tree is added."""
        self._dropped = trees
        if len(trees):
            dropped = plant([self._trees[tree] for tree in trees], self.weights[trees])
            for scored in self._all_scored():
                scored.take_out(dropped)

    def add(self, tree: Tree, grown: GrownTree, rescaling: Rescaling) -> None:
        """Adds a tree, with values now, that was grown on train; puts back those that were dropped for it."""
        self._trees.append(tree)
        if len(self._dropped):
            for scored in self._all_scored():
                scored.put_back(rescaling.factor)
        self.weights = _rescaled(self.weights, self._dropped, rescaling)
        self._rescalings.append((self._dropped, rescaling))
        self._dropped = _NO_TREES
        latest = plant([tree], [rescaling.new])
        if len(grown.rows) == len(self.train_scores):
            # Growing has brought every document to its leaf already.
            values = rescaling.new * tree.value[grown.leaf_node]
            _add_leaf_values(grown.rows, grown.leaf_start, values, self.train_scores)
        else:
            self._train.add(latest)
        if self._valid is not None:
            self._valid.add(latest)

    def _all_scored(self) -> list[_Scored]:
        return [self._train] if self._valid is None else [self._train, self._valid]


class _Scored:
    """The documents of a data set with their scores."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.scores: Scores = np.zeros(len(features))
        self._taken_out: Scores = np.zeros(0)

    def add(self, forest: Forest) -> None:
        add_scores(forest, self.features, self.scores)

    def take_out(self, forest: Forest) -> None:
        self._taken_out = np.zeros(len(self.scores))
        add_scores(forest, self.features, self._taken_out)
        self.scores -= self._taken_out

    def put_back(self, factor: float) -> None:
        self.scores += factor * self._taken_out


def _rescaled(weights: Weights, dropped: NDArray[np.int64], rescaling: Rescaling) -> Weights:
    """(T,) weights -> (T + 1,)."""
    weights = np.append(weights, rescaling.new)
    weights[dropped] *= rescaling.factor
    return weights


@parallel_kernel
def _add_leaf_values(
    rows: Rows, leaf_start: NDArray[np.int64], values: NDArray[np.float64], scores: Scores
) -> None:
    for leaf in numba.prange(len(values)):
        for row in rows[leaf_start[leaf] : leaf_start[leaf + 1]]:
            scores[row] += values[leaf]
