"""Growth: which of a tree's open leaves is cut next, namely that of the least key. By name, it is

    best_first    the leaf whose cut gains most (LightGBM, XGBoost's lossguide); first among equals the leaf
                  that was made first
    by_deviance   the leaf whose gradients differ most, sum g^2 - (sum g)^2 / n, whatever its cut gains, so
                  that large leaves come first (RankLib); the leaf made last comes first among equals
    depth_wise    level by level (XGBoost's depthwise; pyltr, whose trees are bounded by depth alone)

Only where num_leaves ends the tree does the order matter. To add one, write a function and name it in ORDERS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ltrbench.native.tree.binning import Rows
from ltrbench.native.tree.histogram import Quantised
from ltrbench.native.tree.splitting import Split


class OpenLeaf(NamedTuple):
    """A leaf that can be cut.

    Attributes:
        node: its number; nodes are numbered as they are made, a left one before its right one.
        rows: (n,), its documents.
        split: its best cut.
    """

    node: int
    rows: Rows
    split: Split


Order = Callable[[OpenLeaf, Quantised], tuple[float, int]]


def best_first(leaf: OpenLeaf, quantised: Quantised) -> tuple[float, int]:
    del quantised
    return -leaf.split.gain, leaf.node


def by_deviance(leaf: OpenLeaf, quantised: Quantised) -> tuple[float, int]:
    gradients = (quantised.packed[leaf.rows] >> 32) * quantised.gradient_unit
    # About their mean, because the difference of two large sums would leave mostly rounding.
    deviance = np.square(gradients - gradients.mean()).sum()
    return -float(deviance), -leaf.node


def depth_wise(leaf: OpenLeaf, quantised: Quantised) -> tuple[float, int]:
    del quantised
    # All nodes of a level are made before those of the next.
    return 0.0, leaf.node


ORDERS: dict[str, Order] = {"best_first": best_first, "by_deviance": by_deviance, "depth_wise": depth_wise}
