"""LightGBM's dump: the JSON of `Booster.dump_model`, in the form that Vespa imports.

    {"objective", "feature_names", "tree_info": [{"tree_structure": node}], "pandas_categorical", ...}

A node is {"split_feature", "threshold", "decision_type", "default_left", "missing_type", "left_child",
"right_child"}, or a leaf {"leaf_value"}. LightGBM means that a value of at most the threshold goes left, but
Vespa sends only smaller values left. So the threshold written here is the next float32 above the largest one
that goes left: Vespa sends every float32 where the model did, and LightGBM does not read such a file. Numbers
are the shortest texts of float64, which Java and C++ read back exactly. N nodes of a tree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.rankers.models.scoring import FlatTree, flat, float32_thresholds, weighted_values
from ltrbench.rankers.models.trees import Ensemble, Leaf, without_zero_missing

MOST_LEVELS_OF_DUMP: Final = 400
"""Maximum depth of a tree: Vespa reads and prints trees recursively, and JSON up to 1,000 levels."""

ABOVE_FLOAT32: Final = 2.0**128
"""Threshold above every finite float32: as float32 it is infinite, so that infinity goes right."""


def write_lightgbm_json(ensemble: Ensemble, feature_names: Sequence[str]) -> bytes:
    """Returns the trees as LightGBM dumps them, with thresholds for the comparison `<`.

    Leaf values contain the weights, and the base score is a first tree with one leaf.

    Args:
        feature_names: F names of the features.

    Raises:
        ConfigError: A leaf value is beyond float32, which Vespa needs for many trees, or a tree is too deep.
    """
    trees = ",\n".join(
        f'{{"tree_index":{number},"num_leaves":{int(tree.is_leaf.sum())},"num_cat":0,"shrinkage":1,'
        f'"tree_structure":{_nested(tree, number)}}}'
        for number, tree in enumerate(smaller_left_trees(ensemble))
    )
    head = {
        "name": "tree",
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": len(feature_names) - 1,
        "objective": "lambdarank",
        "average_output": False,
        "feature_names": list(feature_names),
        "feature_infos": {},
    }
    return f'{json.dumps(head)[:-1]},\n"tree_info":[{trees}],\n"pandas_categorical":[]}}\n'.encode()


def smaller_left_trees(ensemble: Ensemble) -> Iterator[FlatTree]:
    """Yields the trees for the comparison `<` in float32 or float64, the base score first.

    A float32 value goes where it went before, for any comparison and dtype of the ensemble. The exceptions
    are infinities: positive infinity never goes left by its value, and negative infinity always.

    Raises:
        ConfigError: A leaf value is beyond float32, or too many splits count zeros as missing.
    """
    if ensemble.base_score or not ensemble.trees:
        leaf = flat(Leaf(ensemble.base_score))
        yield leaf._replace(value=_checked(leaf.value, "the base score"))
    for number, weighted in enumerate(without_zero_missing(ensemble).trees):
        tree = flat(weighted.root)
        with np.errstate(over="ignore"):
            values = weighted_values(tree, weighted.weight, ensemble.score_dtype).astype(np.float64)
        thresholds = smallest_right(tree.threshold, ensemble.comparison)
        yield tree._replace(
            threshold=np.where(tree.is_leaf, 0.0, thresholds),
            value=_checked(values, f"a leaf value of tree {number}"),
        )


def smallest_right(thresholds: NDArray[np.float64], comparison: str) -> NDArray[np.float64]:
    """Returns the (N,) float32 above the largest ones that go left, at most `ABOVE_FLOAT32`.

    >>> float(smallest_right(np.array([0.0]), "<=")[0]) == 2.0**-149
    True
    """
    with np.errstate(over="ignore", under="ignore"):
        above = np.nextafter(float32_thresholds(thresholds, comparison), np.float32(np.inf))
    return np.minimum(above.astype(np.float64), ABOVE_FLOAT32)


def _checked(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        is_finite = np.isfinite(values.astype(np.float32)).all()
    if not is_finite:
        raise ConfigError(
            f"{name} is not finite as float32, in which Vespa keeps the leaves of large models. Train the "
            "model again with labels or weights of a smaller scale."
        )
    return values


def _nested(tree: FlatTree, number: int) -> str:
    """Returns the JSON of a tree, written from left to right without recursion."""
    texts = [repr(value) for value in np.where(tree.is_leaf, tree.value, tree.threshold).tolist()]
    is_leaf, feature = tree.is_leaf.tolist(), tree.feature.tolist()
    default_left = ["true" if left else "false" for left in tree.missing_left.tolist()]
    parts: list[str] = []
    children_to_come: list[int] = []  # of each split above the node
    for node, text in enumerate(texts):
        if not is_leaf[node]:
            parts.append(
                f'{{"split_feature":{feature[node]},"threshold":{text},"decision_type":"<=",'
                f'"default_left":{default_left[node]},"missing_type":"NaN","left_child":'
            )
            children_to_come.append(2)
            if len(children_to_come) > MOST_LEVELS_OF_DUMP:
                raise ConfigError(
                    f"tree {number} has more than {MOST_LEVELS_OF_DUMP} levels, but Vespa reads trees "
                    "recursively. Limit the depth of the trees, for example with max_depth."
                )
            continue
        parts.append(f'{{"leaf_value":{text}}}')
        while children_to_come:
            children_to_come[-1] -= 1
            if children_to_come[-1]:
                parts.append(',"right_child":')
                break
            children_to_come.pop()
            parts.append("}")
    return "".join(parts)
