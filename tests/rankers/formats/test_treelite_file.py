"""Checkpoints of treelite: what the file states, besides the scores."""

from __future__ import annotations

import json

import pytest
import treelite
from tree_cases import XGBOOST, forest

from ltrbench.models.trees import Ensemble
from ltrbench.shipping.targets.treelite import write_treelite


@pytest.mark.parametrize(
    ("ensemble", "dtype"), [(forest(3), "float64"), (forest(3, **XGBOOST), "float32")], ids=["<=", "<"]
)
def test_the_checkpoint_states_features_comparison_and_dtype(ensemble: Ensemble, dtype: str) -> None:
    names = ["a", "*/", "特徴", "\ud800", "", "f"]
    model = treelite.Model.deserialize_bytes(write_treelite(ensemble, names))
    dumped = json.loads(model.dump_as_json())
    assert (model.num_feature, model.num_tree) == (len(names), len(ensemble.trees))
    assert (model.input_type, model.output_type) == (dtype, dtype)
    assert json.loads(dumped["attributes"])["feature_names"] == [*names[:3], "\\ud800", *names[4:]]
    nodes = [node for tree in dumped["trees"] for node in tree["nodes"]]
    comparisons = {node["comparison_op"] for node in nodes if "split_feature_id" in node}
    assert comparisons == {ensemble.comparison}
