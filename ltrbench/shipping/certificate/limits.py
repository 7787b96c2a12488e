"""Values that an engine cannot treat as the model does (`Export.limits`), and documents with them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import AnyFeatures, row_blocks
from ltrbench.native.tree.nodes import NO_FEATURE
from ltrbench.rankers.models.formats.boosters.xgboost_dump import divides_by_presence
from ltrbench.rankers.models.scoring import flat
from ltrbench.rankers.models.trees import LARGEST_ZERO, Ensemble, InnerNode, nodes_of, sends_zero_left
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


def limits_of_zeros(ensemble: Ensemble) -> dict[str, str]:
    """Returns the limit of formats in which zeros are never missing: a split sends them elsewhere."""
    if not any(node.zero_missing for node in _splits_on_zero(ensemble)):
        return {}
    return {
        ZERO_VALUES: "The model treats zeros as missing, which the format cannot express. Train it without "
        "zero_as_missing."
    }


def limits_with_missing_as_zero(ensemble: Ensemble, engine: str) -> dict[str, str]:
    """Returns the limits of an engine in which a missing value is 0.

    Args:
        engine: name of the engine in the sentences.
    """
    if not any(_splits_on_zero(ensemble)):
        return {}
    missing = (
        f"A missing value is 0 in {engine}, but the model sends it elsewhere in a split. Train with "
        "0 instead of missing values."
    )
    return {MISSING_VALUES: missing, **limits_of_zeros(ensemble)}


def _splits_on_zero(ensemble: Ensemble) -> Iterator[InnerNode]:
    """Yields the splits that send a missing value to another side than 0."""
    nodes = (node for tree in ensemble.trees for node in nodes_of(tree.root))
    for node in nodes:
        if isinstance(node, InnerNode) and node.missing_left != sends_zero_left(node, ensemble.comparison):
            yield node


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
