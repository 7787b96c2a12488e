"""Checks of the nodes of a tree, for every model format."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MOST_LEVELS: Final = 1024
"""Maximum depth of a tree that a library explains or writes as text: the memory for contributions grows with
the square of the depth, and LightGBM's dump recurses once per level."""


def check_children(children: NDArray[np.int64], parents: NDArray[np.int64], num_nodes: int) -> None:
    """Raises ValueError if N nodes, with root 0, are not a tree.

    Args:
        children: (N - 1,), each node except the root exactly once.
        parents: (N - 1,), the parent of each child, with a smaller index than the child.
    """
    if len(children) != num_nodes - 1 or (np.sort(children) != np.arange(1, num_nodes)).any():
        raise ValueError("a node is not the child of exactly one other node")
    if (parents >= children).any():
        raise ValueError("a node comes before its parent")


def check_split_features(features: NDArray[np.number[Any]], num_features: int) -> None:
    """Raises ValueError if the feature index of a split is out of range."""
    if ((features < 0) | (features >= num_features)).any():
        raise ValueError(f"a split has a feature index outside 0 to {num_features - 1}")


def is_deep(left: NDArray[np.integer[Any]], right: NDArray[np.integer[Any]]) -> bool:
    """Returns whether a checked tree has more than `MOST_LEVELS` levels.

    Args:
        left: (N,), left child of each node, with root 0; negative: a leaf or no child.
        right: (N,), right child of each node.
    """
    if len(left) <= MOST_LEVELS:
        return False
    level = np.zeros(1, dtype=np.int64)
    for _ in range(MOST_LEVELS):
        below = np.concatenate([left[level], right[level]])
        level = below[below >= 0]
    return len(level) > 0
