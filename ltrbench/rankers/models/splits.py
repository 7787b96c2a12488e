"""What holds of the nodes of any tree, in whichever format it is saved."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MOST_LEVELS: Final = 1024
"""Levels of a tree that a library explains or writes out: the memory for contributions grows with their
square, and LightGBM's dump of a tree calls itself at each level."""


def check_children(children: NDArray[np.int64], parents: NDArray[np.int64], num_nodes: int) -> None:
    """Raises ValueError where a tree of N nodes, 0 the root, is none.

    Args:
        children: (N - 1,), every node but the root once.
        parents: (N - 1,), their parents, each before its child.
    """
    if len(children) != num_nodes - 1 or (np.sort(children) != np.arange(1, num_nodes)).any():
        raise ValueError("a node is not the child of exactly one other node")
    if (parents >= children).any():
        raise ValueError("a node stands before its parent")


def check_split_features(features: NDArray[np.number[Any]], num_features: int) -> None:
    """Raises ValueError where a split is on a feature that there is not."""
    if ((features < 0) | (features >= num_features)).any():
        raise ValueError(f"a tree splits on a feature that is none of the {num_features}")


def is_deep(left: NDArray[np.integer[Any]], right: NDArray[np.integer[Any]]) -> bool:
    """Whether a checked tree has more than `MOST_LEVELS` levels.

    Args:
        left: (N,), the child of each node, 0 the root; negative: a leaf, or none.
        right: (N,), likewise.
    """
    if len(left) <= MOST_LEVELS:
        return False
    level = np.zeros(1, dtype=np.int64)
    for _ in range(MOST_LEVELS):
        below = np.concatenate([left[level], right[level]])
        level = below[below >= 0]
    return len(level) > 0
