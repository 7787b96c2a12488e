"""Values that an engine cannot treat as the model does (`Export.limits`), and documents with them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import AnyFeatures, row_blocks
from ltrbench.native.tree.nodes import NO_FEATURE
from ltrbench.rankers.models.formats.boosters.xgboost_dump import divides_by_presence
from ltrbench.rankers.models.scoring import flat
from ltrbench.rankers.models.trees import LARGEST_ZERO, Ensemble
from ltrbench.shapes import Features
from ltrbench.shipping.model import Linear
from ltrbench.shipping.target import INFINITE_VALUES, MISSING_VALUES, TINY_VALUES, ZERO_VALUES

_Values = NDArray[np.float32]

_HAS: Final[Mapping[str, Callable[[_Values], NDArray[np.bool_]]]] = {
    MISSING_VALUES: np.isnan,
    ZERO_VALUES: lambda values: np.abs(values) <= LARGEST_ZERO,
    TINY_VALUES: lambda values: (np.abs(values) <= LARGEST_ZERO) & (values != 0),
    INFINITE_VALUES: np.isinf,
}


def features_read(scorer: Ensemble | Linear) -> list[int]:
    """Returns the features that scores depend on, ascending."""
    if isinstance(scorer, Linear):
        return [int(feature) for feature in np.flatnonzero(scorer.weights)]
    used = {int(feature) for tree in scorer.trees for feature in flat(tree.root).feature}
    return sorted(used - {NO_FEATURE})


def limits_of_infinity(ensemble: Ensemble) -> dict[str, str]:
    """Returns the limit of formats whose thresholds are finite: a split needs an infinite one."""
    if not divides_by_presence(ensemble):
        return {}
    return {
        INFINITE_VALUES: "A split of the model separates missing values from all others. The format has no "
        "infinite thresholds and sends an infinite value to the missing ones. Use finite values."
    }


def documents_with(kind: str, scorer: Ensemble | Linear, features: AnyFeatures) -> int | None:
    """Returns how many documents have a value of a kind in a used feature; None for an unknown kind."""
    if kind not in _HAS:
        return None
    used = features_read(scorer)
    return sum(int(_HAS[kind](block[:, used]).any(axis=1).sum()) for _, block in row_blocks(features))


def decided_by(kinds: Iterable[str], scorer: Ensemble | Linear, features: Features) -> NDArray[np.bool_]:
    """Returns (D,), whether a value of one of the kinds decides at a split that a document passes, or is
    multiplied by a weight.

    Args:
        features: (D, F).
    """
    conditions = [_HAS[kind] for kind in kinds if kind in _HAS]
    is_met = np.zeros(len(features), dtype=np.bool_)
    if not conditions:
        return is_met

    def has(values: _Values) -> NDArray[np.bool_]:
        return functools.reduce(np.logical_or, (condition(values) for condition in conditions))

    if isinstance(scorer, Linear):
        return np.asarray(has(features[:, features_read(scorer)]).any(axis=1))
    goes_left = np.less_equal if scorer.comparison == "<=" else np.less
    for weighted in scorer.trees:
        tree = flat(weighted.root)
        threshold = tree.threshold.astype(scorer.threshold_dtype)
        node = np.zeros(len(features), dtype=np.int64)
        rows = np.flatnonzero(~tree.is_leaf[node])
        while len(rows):
            here = node[rows]
            x = features[rows, tree.feature[here]]
            is_met[rows] |= has(x)
            is_missing = np.isnan(x) | (tree.zero_missing[here] & (np.abs(x) <= LARGEST_ZERO))
            left = np.where(is_missing, tree.missing_left[here], goes_left(x, threshold[here]))
            node[rows] = np.where(left, tree.left[here], tree.right[here])
            rows = rows[~tree.is_leaf[node[rows]]]
    return is_met
