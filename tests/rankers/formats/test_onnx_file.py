"""ONNX models: what the file states, besides the scores."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from tree_cases import CASES, NUM_FEATURES, forest, values_around

import ltrbench
from ltrbench.models.trees import ensemble_scores
from ltrbench.shipping.targets.onnx import write_onnx

NAMES = [f"feature {number}" for number in range(NUM_FEATURES)]


def read(content: bytes) -> onnx.ModelProto:
    model = onnx.load_model_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    return model


def test_the_model_states_features_and_producer() -> None:
    names = ["a", "*/", "特徴", "\ud800", ""]
    model = read(write_onnx(forest(2), names, "a\x1b name\ud800", "float64"))
    assert {entry.key: json.loads(entry.value) for entry in model.metadata_props} == {"feature_names": names}
    assert (model.producer_name, model.producer_version) == ("ltrbench", ltrbench.__version__)
    assert model.graph.name.isprintable()
    (features,), (scores,) = model.graph.input, model.graph.output
    assert (features.name, scores.name) == ("features", "scores")
    assert [dim.dim_param or dim.dim_value for dim in features.type.tensor_type.shape.dim] == [
        "documents",
        len(names),
    ]
    assert [dim.dim_param for dim in scores.type.tensor_type.shape.dim] == ["documents"]


@pytest.mark.parametrize("name", ["LightGBM's arithmetic", "XGBoost's arithmetic", "one leaf"])
def test_the_reference_evaluator_of_onnx_reads_the_same_trees(name: str) -> None:
    """It sums in another order."""
    ensemble = CASES[name]
    features = values_around(ensemble, 40)
    evaluator = onnx.reference.ReferenceEvaluator(
        read(write_onnx(ensemble, NAMES, "a", ensemble.score_dtype))
    )
    outputs: Any = evaluator.run(None, {"features": features})
    scores = np.asarray(outputs[0], dtype=np.float64)
    unit = float(np.finfo(ensemble.score_dtype).eps)
    bound = 2 * (len(ensemble.trees) + 1) * unit * max(1.0, float(np.abs(scores).max()))
    assert np.abs(scores - ensemble_scores(ensemble, features)).max() <= bound
