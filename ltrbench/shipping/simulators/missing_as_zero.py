"""Limits of engines in which a missing value is 0."""

from __future__ import annotations

from ltrbench.rankers.models.formats.float32 import at_most_trees
from ltrbench.rankers.models.trees import Ensemble
from ltrbench.shipping.target import MISSING_VALUES, ZERO_VALUES


def limits_with_missing_as_zero(ensemble: Ensemble, engine: str) -> dict[str, str]:
    """Returns the limits of an engine in which a missing value is 0, see `Export.limits`.

    Args:
        engine: name of the engine in the sentences.
    """
    limits = {}
    for tree in at_most_trees(ensemble):
        differs = ~tree.is_leaf & (tree.missing_left != (tree.threshold >= 0))
        if differs.any():
            limits[MISSING_VALUES] = (
                f"A missing value is 0 in {engine}, but the model sends it elsewhere in a split. Train with "
                "0 instead of missing values."
            )
        if (differs & tree.zero_missing).any():
            limits[ZERO_VALUES] = (
                "The model treats zeros as missing, which the format cannot express. Train it without "
                "zero_as_missing."
            )
    return limits
