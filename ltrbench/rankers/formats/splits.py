"""What holds of the nodes of any tree, in whichever format it is saved."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


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


def check_features(features: NDArray[np.number[Any]], num_features: int) -> None:
    """Raises ValueError where a split is on a feature that there is not."""
    if ((features < 0) | (features >= num_features)).any():
        raise ValueError(f"a tree splits on a feature that is none of the {num_features}")
