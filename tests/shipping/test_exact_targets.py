"""Targets whose engines give the scores of a model bit for bit: ONNX, treelite and C."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tree_cases import CASES, NUM_FEATURES, forest, timestamps, values_around, zeros_as_missing

from ltrbench.models.trees import Ensemble, ensemble_scores, weighted_values
from ltrbench.models.trees import flat as flat_tree
from ltrbench.shapes import Features
from ltrbench.shipping.target import ShippedModel, Target
from ltrbench.shipping.targets.c import CTarget
from ltrbench.shipping.targets.onnx import OnnxTarget
from ltrbench.shipping.targets.treelite import TreeliteTarget

TARGETS: dict[str, Target] = {target.name: target for target in (OnnxTarget(), TreeliteTarget(), CTarget())}
each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())


def shipped(ensemble: Ensemble, num_features: int = NUM_FEATURES) -> ShippedModel:
    return ShippedModel("a model", tuple(f"feature {number}" for number in range(num_features)), ensemble)


def engine_scores(target: Target, ensemble: Ensemble, features: Features) -> np.ndarray[Any, Any]:
    model = shipped(ensemble, features.shape[1])
    export = target.export(model)
    engine = target.engine(model, export)
    assert engine is not None
    assert not export.limits
    assert export.offset == 0
    assert engine.version
    scores = engine.scores(features)
    assert scores.dtype == np.dtype(engine.score_dtype)
    return scores


def largest_leaves(ensemble: Ensemble) -> float:
    """Returns the base score and the largest absolute leaf value of each tree, added up."""
    leaves = (
        np.abs(weighted_values(flat_tree(tree.root), tree.weight, ensemble.score_dtype)).max()
        for tree in ensemble.trees
    )
    return abs(ensemble.base_score) + float(sum(leaves))


@each_target
@pytest.mark.parametrize("ensemble", CASES.values(), ids=CASES.keys())
def test_scores_are_those_of_the_ensemble_bit_for_bit(target: Target, ensemble: Ensemble) -> None:
    features = values_around(ensemble)
    scores = engine_scores(target, ensemble, features)
    np.testing.assert_array_equal(scores, ensemble_scores(ensemble, features), strict=True)


@each_target
def test_a_score_does_not_depend_on_the_batch(target: Target) -> None:
    ensemble = forest(120, base_score=0.3)
    features = values_around(ensemble, 1200)
    expected = ensemble_scores(ensemble, features)
    for size in (0, 1, 20, 51, 129, 1200):
        np.testing.assert_array_equal(engine_scores(target, ensemble, features[:size]), expected[:size])


@pytest.mark.parametrize("scale", [1.6e9, 1.6e12])
def test_the_float32_form_of_onnx_sends_every_time_where_it_went(scale: float) -> None:
    """Its leaf values are exact here: the scores are counts."""
    ensemble = timestamps(scale)
    features = values_around(ensemble)
    expected = ensemble_scores(ensemble, features)
    np.testing.assert_array_equal(engine_scores(OnnxTarget(form="float32"), ensemble, features), expected)
    nearest = replace(ensemble, threshold_dtype="float32")  # what a converter writes
    assert np.any(ensemble_scores(nearest, features) != expected)


def test_the_float32_form_of_onnx_differs_by_rounding_only() -> None:
    """T + 1 leaf values and base score are rounded, and T sums: each by at most half a unit of 2^-23."""
    ensemble = zeros_as_missing(forest(200, base_score=0.3))
    features = values_around(ensemble)
    scores = engine_scores(OnnxTarget(form="float32"), ensemble, features)
    bound = (len(ensemble.trees) + 1) * 2.0**-24 * largest_leaves(ensemble)
    errors = np.abs(scores - ensemble_scores(ensemble, features))
    assert 0 < errors.max() <= bound


def test_without_a_compiler_c_source_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    model = shipped(forest(1))
    assert CTarget().engine(model, CTarget().export(model)) is None
