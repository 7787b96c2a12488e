"""LightGBM's dump as written for Vespa: every float32 goes left by `<` where the model sends it left."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tree_cases import CASES, NUM_FEATURES, values_around

from ltrbench.models.lightgbm_files import write_lightgbm_json
from ltrbench.models.trees import (
    Ensemble,
    Node,
    WeightedTree,
    base_score_as_tree,
    ensemble_scores,
    float32_trees,
    leaves_of,
    smallest_right,
)
from ltrbench.shapes import Features

NAMES = [f"feature_{number}" for number in range(NUM_FEATURES)]
INFINITY = np.float32(np.inf)


def of_one(root: Node, **options: Any) -> Ensemble:
    return Ensemble((WeightedTree(1.0, root),), **options)


def written(ensemble: Ensemble) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(write_lightgbm_json(ensemble, NAMES))
    return record


def score_of(node: dict[str, Any], document: Features) -> float:
    """Returns the value of the leaf that a document reaches, by the definition of the format in Vespa."""
    while "leaf_value" not in node:
        value, threshold = float(document[node["split_feature"]]), node["threshold"]
        left = not value >= threshold if node["default_left"] else value < threshold
        node = node["left_child"] if left else node["right_child"]
    leaf: float = node["leaf_value"]
    return leaf


@pytest.mark.parametrize("ensemble", CASES.values(), ids=CASES.keys())
def test_the_written_trees_have_the_leaves_of_the_model(ensemble: Ensemble) -> None:
    features = values_around(ensemble, 60)
    trees = [tree["tree_structure"] for tree in written(ensemble)["tree_info"]]
    sums = []
    for document in features:
        total = np.dtype(ensemble.score_dtype).type(0)
        for tree in trees:
            total += total.dtype.type(score_of(tree, document))
        sums.append(total)
    np.testing.assert_array_equal(sums, ensemble_scores(ensemble, features))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("ensemble", CASES.values(), ids=CASES.keys())
def test_trees_are_the_same_in_float32_and_float64(dtype: str, ensemble: Ensemble) -> None:
    features = values_around(ensemble)
    trees = float32_trees(base_score_as_tree(ensemble), "<", "float64")
    with np.errstate(over="ignore"):
        sums = sum(tree.value[leaves_of(tree, features, "<", dtype)] for tree in trees)
    expected = ensemble_scores(replace(ensemble, score_dtype="float64"), features)
    np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bound", [0.0, -0.0, 0.1, -0.1, 1e-45, -1e-45, 1e-46, -1e-46, 1e-35, 1.7e12, 3e38])
@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_a_threshold_is_the_smallest_float32_that_goes_right(bound: float, comparison: str) -> None:
    threshold = float(smallest_right(np.array([bound]), comparison)[0])
    below = float(np.nextafter(np.float32(threshold), -INFINITY))
    for value, goes_left in ((below, True), (threshold, False)):
        assert (value <= bound if comparison == "<=" else value < bound) == goes_left
        assert (value < threshold) == goes_left
