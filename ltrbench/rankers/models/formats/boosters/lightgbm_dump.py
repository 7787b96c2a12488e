"""LightGBM's dump: the JSON of `Booster.dump_model`, with the splits that Vespa reads from it.

LightGBM sends a value left if it is at most the threshold. Vespa reads the same file, but sends a value left
if it is smaller. Thresholds are therefore those of `<`, and `decision_type` says so:

    {"objective", "feature_names", "tree_info": [{"tree_structure": node}], "pandas_categorical", ...}
    {"split_feature": number, "threshold", "decision_type": "<", "default_left", "left_child", "right_child"}
    {"leaf_value"}

The dump has neither a base score nor tree weights. Here leaf values contain the weights, and the base score
is a tree. N nodes of a tree.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np

from ltrbench.errors import ConfigError
from ltrbench.rankers.models.formats.boosters.xgboost_dump import (
    base_score_as_tree,
    smallest_right,
    without_infinite_thresholds,
)
from ltrbench.rankers.models.scoring import FlatTree, flat, weighted_values
from ltrbench.rankers.models.trees import Ensemble, without_zero_missing

OBJECTIVE: Final = "lambdarank"
"""Vespa does not transform scores of this objective."""


def write_lightgbm_dump(ensemble: Ensemble, feature_names: Sequence[str]) -> bytes:
    """Returns the trees as Vespa reads them.

    A finite float32 value goes where it went before. So does infinity, unless `divides_by_presence`.

    Thresholds are exact float32 numbers, and leaf values exact numbers of the dtype of the scores. A tree
    that is one leaf is written as a split with two equal leaves: Vespa compiles a sum of trees, not one of
    trees and numbers.

    Args:
        feature_names: F names of the features, at least one.

    Raises:
        ConfigError: A leaf value is not finite, or zeros count as missing in too many splits.
    """
    trees = base_score_as_tree(without_zero_missing(ensemble))
    flat_trees = [
        _with_values(
            flat(without_infinite_thresholds(tree.root, trees.comparison)),
            tree.weight,
            trees.score_dtype,
            number,
        )
        for number, tree in enumerate(trees.trees)
    ]
    any_feature = next((int(tree.feature[0]) for tree in flat_trees if not tree.is_leaf[0]), 0)
    infos = ",\n".join(
        f'{{"tree_index":{number},"tree_structure":{_nested(tree, trees.comparison, any_feature)}}}'
        for number, tree in enumerate(flat_trees)
    )
    names = json.dumps(list(feature_names))
    return (
        f'{{"name":"tree","version":"v4","objective":"{OBJECTIVE}","average_output":false,\n'
        f'"feature_names":{names},\n"feature_infos":{{}},\n"tree_info":[\n{infos}],\n'
        '"pandas_categorical":[]}\n'
    ).encode()


def _with_values(tree: FlatTree, weight: float, score_dtype: str, number: int) -> FlatTree:
    """Returns the tree with leaf values that contain its weight."""
    values = np.where(tree.is_leaf, weighted_values(tree, weight, score_dtype).astype(np.float64), 0.0)
    if not np.isfinite(values).all():
        raise ConfigError(
            f"tree {number} has a leaf value that is not finite. Train the model again with labels or "
            "weights of a smaller scale."
        )
    return tree._replace(value=values)


def _nested(tree: FlatTree, comparison: str, any_feature: int) -> str:
    """Returns the JSON of a tree, written from left to right, so that its depth is not limited."""
    thresholds = smallest_right(tree.threshold, comparison).tolist()
    feature, is_leaf, values = tree.feature.tolist(), tree.is_leaf.tolist(), tree.value.tolist()
    missing_left = tree.missing_left.tolist()
    if is_leaf[0]:
        leaf = f'{{"leaf_value":{values[0]!r}}}'
        return f'{_split(any_feature, 0.0, True)}{leaf},"right_child":{leaf}}}'
    parts: list[str] = []
    children_to_come: list[int] = []  # of each split above the node
    for node, value in enumerate(values):
        if not is_leaf[node]:
            parts.append(_split(feature[node], thresholds[node], missing_left[node]))
            children_to_come.append(2)
            continue
        parts.append(f'{{"leaf_value":{value!r}}}')
        while children_to_come:
            children_to_come[-1] -= 1
            if children_to_come[-1]:
                parts.append(',"right_child":')
                break
            children_to_come.pop()
            parts.append("}")
    return "".join(parts)


def _split(feature: int, threshold: float, missing_left: bool) -> str:
    """Returns the JSON of a split up to its left child."""
    return (
        f'{{"split_feature":{feature},"threshold":{threshold!r},"decision_type":"<",'
        f'"default_left":{"true" if missing_left else "false"},"missing_type":"NaN","left_child":'
    )
