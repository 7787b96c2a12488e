"""Solr's models as JSON: thresholds to which Solr adds 1e-6."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from ensemble_cases import ensemble_for_java
from hypothesis import given
from hypothesis import strategies as st

from ltrbench.rankers import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.shipping.targets.solr import (
    SOLR_SLACK,
    slack_corrected,
    write_solr_linear,
    write_solr_trees,
)

NAMES = ("a", "b", "c")


def stumps(*thresholds: float) -> Ensemble:
    """Returns a tree for each threshold, all on the first feature."""
    roots = (InnerNode(0, threshold, threshold >= 0, Leaf(-1.0), Leaf(1.0)) for threshold in thresholds)
    return Ensemble(tuple(WeightedTree(1.0, root) for root in roots))


def record_of(ensemble: Ensemble) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(write_solr_trees(ensemble, "model", NAMES))
    return record


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1))
def test_a_corrected_threshold_is_exact_or_as_close_as_possible(thresholds: list[float]) -> None:
    wanted = np.array(thresholds, dtype=np.float32)
    corrected, exists = slack_corrected(wanted)
    with np.errstate(over="ignore", invalid="ignore"):
        reached = corrected + SOLR_SLACK
        np.testing.assert_array_equal(reached == wanted, exists)
        error = np.abs(reached.astype(float) - wanted)[~exists]
        for end in (-np.inf, np.inf):
            neighbour = np.nextafter(corrected, np.float32(end)) + SOLR_SLACK
            assert (error <= np.abs(neighbour.astype(float) - wanted)[~exists]).all()


@given(st.lists(st.floats(width=32, min_value=-(2.0**20), max_value=2.0**20), min_size=1, max_size=20))
def test_every_threshold_is_exact_in_units_of_the_normalizer(thresholds: list[float]) -> None:
    wanted = np.array(thresholds, dtype=np.float32)
    wanted = wanted[(wanted == 0) | (np.abs(wanted) > 2.0**-100)]
    ensemble = stumps(*map(float, wanted))
    record = record_of(ensemble)
    if not len(wanted):
        return
    (feature,) = record["features"]
    std = np.float32(feature["norm"]["params"]["std"] if "norm" in feature else 1)
    written = np.array([tree["root"]["threshold"] for tree in record["params"]["trees"]], dtype=np.float32)
    np.testing.assert_array_equal((written + SOLR_SLACK) * std, wanted)


def test_all_numbers_of_trees_are_texts() -> None:
    def numbers(value: Any) -> list[Any]:
        if not isinstance(value, dict | list):
            return [] if isinstance(value, str) else [value]
        parts = value.values() if isinstance(value, dict) else value
        return [number for part in parts for number in numbers(part)]

    assert numbers(record_of(ensemble_for_java())) == []


def test_weights_of_a_linear_model_are_numbers() -> None:
    weights = np.array([0.1, 0.0, -2.0])
    record = json.loads(write_solr_linear(weights, "model", NAMES, store="shop"))
    assert record["store"] == "shop"
    assert record["features"] == [{"name": "a"}, {"name": "c"}]
    assert record["params"]["weights"] == {"a": 0.1, "c": -2.0}
