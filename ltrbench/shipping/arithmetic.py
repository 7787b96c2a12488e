"""Scores in the arithmetic of an engine, as its source code computes them. D documents, F features.

An engine is data: how it compares, in which dtypes it computes, what a missing value is, and in which order
it adds the trees. To simulate another engine, read its file as an `Ensemble` and state its `Arithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ltrbench.models.trees import Ensemble, flat, leaves_of
from ltrbench.shapes import Features

Dtype = Literal["float32", "float64"]


@dataclass(frozen=True)
class Arithmetic:
    """How an engine computes scores.

    Attributes:
        comparison: a value goes left if it is at most the threshold (`<=`), or smaller (`<`).
        dtype: of thresholds, leaf values and weights.
        product: dtype of a leaf value times the weight of its tree.
        sum: dtype of the score, which starts with 0 and is rounded after each tree.
        missing: what a missing value does: "side": goes where the split says; "right"; "zero": counts as 0.
        shift: number that is added to each threshold, in `dtype`.
        order: number of trees -> the trees in the order of the sum.
    """

    comparison: Literal["<=", "<"]
    dtype: Dtype = "float32"
    product: Dtype = "float32"
    sum: Dtype = "float32"
    missing: Literal["side", "right", "zero"] = "side"
    shift: float = 0.0
    order: Callable[[int], Iterable[int]] = range

    def scores(self, ensemble: Ensemble, features: Features) -> NDArray[np.floating[Any]]:
        """Returns the (D,) scores of (D, F) features; NaN is a missing value."""
        dtype, product = np.dtype(self.dtype).type, np.dtype(self.product).type
        values, scores = self._values(features), np.zeros(len(features), dtype=self.sum)
        with np.errstate(over="ignore", under="ignore"):
            for number in self.order(len(ensemble.trees)):
                tree = flat(ensemble.trees[number].root)
                threshold = tree.threshold.astype(dtype) + dtype(self.shift)
                missing_left = tree.missing_left & (self.missing != "right")
                tree = tree._replace(threshold=threshold.astype(np.float64), missing_left=missing_left)
                leaves = leaves_of(tree, values, self.comparison, self.dtype)
                products = tree.value.astype(dtype).astype(product) * product(ensemble.trees[number].weight)
                scores = (scores + products[leaves]).astype(self.sum)
        return scores

    def linear_scores(self, weights: Mapping[int, float], features: Features) -> NDArray[np.floating[Any]]:
        """Returns the (D,) sums of weights times (D, F) features, in the order of the weights.

        Args:
            weights: feature -> weight.
        """
        dtype, values = np.dtype(self.sum).type, self._values(features)
        scores = np.zeros(len(features), dtype=dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for feature, weight in weights.items():
                scores += dtype(weight) * values[:, feature].astype(dtype)
        return scores

    def _values(self, features: Features) -> Features:
        return np.where(np.isnan(features), np.float32(0), features) if self.missing == "zero" else features
