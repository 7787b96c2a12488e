"""Files written for engines, besides their scores: C, ONNX, treelite, Solr, and LightGBM's dump for Vespa."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
import treelite
from ensemble_cases import ensemble_for_java
from hypothesis import given
from hypothesis import strategies as st
from tree_cases import CASES, NUM_FEATURES, XGBOOST, forest

import ltrbench
from ltrbench.models.trees import (
    Ensemble,
    InnerNode,
    Leaf,
    WeightedTree,
    smallest_right,
)
from ltrbench.shipping.targets.c import write_c
from ltrbench.shipping.targets.onnx import write_onnx
from ltrbench.shipping.targets.solr import (
    SOLR_SLACK,
    slack_corrected,
    write_solr_linear,
    write_solr_trees,
)
from ltrbench.shipping.targets.treelite import write_treelite

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="no C compiler cc"
)


def compiled(
    content: bytes, folder: Path, *flags: str
) -> subprocess.CompletedProcess[str]:
    (folder / "model.c").write_bytes(content)
    command = [
        "cc",
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Wcomment",
        "-Wtrigraphs",
        "-pedantic",
        "-Werror",
    ]
    return subprocess.run(
        [*command, *flags, "-c", "model.c", "-o", "model.o"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@needs_compiler
@pytest.mark.parametrize("ensemble", CASES.values(), ids=CASES.keys())
def test_compilers_have_no_warnings(ensemble: Ensemble, tmp_path: Path) -> None:
    names = [f"feature {number}" for number in range(NUM_FEATURES)]
    assert compiled(write_c(ensemble, names, "a"), tmp_path).stderr == ""


@given(st.lists(st.text(alphabet='*/\\?"\n a\u2028', max_size=8), max_size=4))
def test_no_name_ends_or_begins_a_comment(names: list[str]) -> None:
    text = write_c(Ensemble(()), names, "a").decode("ascii")
    comment = text[: text.index("#include")]
    assert comment.count("*/") == comment.count("/*") == 1
    assert "??" not in comment


@needs_compiler
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast"])
def test_flags_that_ignore_missing_values_are_refused(
    flag: str, tmp_path: Path
) -> None:
    result = compiled(write_c(forest(1), list("abcdef"), "a"), tmp_path, flag)
    assert result.returncode
    assert "missing values" in result.stderr


@needs_compiler
def test_the_file_needs_no_library(tmp_path: Path) -> None:
    """Nothing but the function is visible, and no other function is called."""
    assert (
        compiled(write_c(forest(2), list("abcdef"), "a"), tmp_path, "-O2").returncode
        == 0
    )
    listing = subprocess.run(
        ["nm", "model.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    symbols = [line.split()[-2:] for line in listing.stdout.splitlines()]
    visible = {name for kind, name in symbols if kind.isupper()} - {
        "_GLOBAL_OFFSET_TABLE_"
    }
    assert visible == {"a_score"}


# ONNX models: what the file states, besides the scores


def read(content: bytes) -> onnx.ModelProto:
    model = onnx.load_model_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    return model


def test_the_model_states_features_and_producer() -> None:
    names = ["a", "*/", "特徴", "\ud800", ""]
    model = read(write_onnx(forest(2), names, "a\x1b name\ud800", "float64"))
    assert {entry.key: json.loads(entry.value) for entry in model.metadata_props} == {
        "feature_names": names
    }
    assert (model.producer_name, model.producer_version) == (
        "ltrbench",
        ltrbench.__version__,
    )
    assert model.graph.name.isprintable()
    (features,), (scores,) = model.graph.input, model.graph.output
    assert (features.name, scores.name) == ("features", "scores")
    assert [
        dim.dim_param or dim.dim_value for dim in features.type.tensor_type.shape.dim
    ] == [
        "documents",
        len(names),
    ]
    assert [dim.dim_param for dim in scores.type.tensor_type.shape.dim] == ["documents"]


# Checkpoints of treelite: what the file states, besides the scores


@pytest.mark.parametrize(
    ("ensemble", "dtype"),
    [(forest(3), "float64"), (forest(3, **XGBOOST), "float32")],
    ids=["<=", "<"],
)
def test_the_checkpoint_states_features_comparison_and_dtype(
    ensemble: Ensemble, dtype: str
) -> None:
    names = ["a", "*/", "特徴", "\ud800", "", "f"]
    model = treelite.Model.deserialize_bytes(write_treelite(ensemble, names))
    dumped = json.loads(model.dump_as_json())
    assert (model.num_feature, model.num_tree) == (len(names), len(ensemble.trees))
    assert (model.input_type, model.output_type) == (dtype, dtype)
    assert json.loads(dumped["attributes"])["feature_names"] == [
        *names[:3],
        "\\ud800",
        *names[4:],
    ]
    nodes = [node for tree in dumped["trees"] for node in tree["nodes"]]
    comparisons = {
        node["comparison_op"] for node in nodes if "split_feature_id" in node
    }
    assert comparisons == {ensemble.comparison}


# Solr's models as JSON: thresholds to which Solr adds 1e-6


SOLR_NAMES = ("a", "b", "c")


def stumps(*thresholds: float) -> Ensemble:
    """Returns a tree for each threshold, all on the first feature."""
    roots = (
        InnerNode(0, threshold, threshold >= 0, Leaf(-1.0), Leaf(1.0))
        for threshold in thresholds
    )
    return Ensemble(tuple(WeightedTree(1.0, root) for root in roots))


def record_of(ensemble: Ensemble) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(write_solr_trees(ensemble, "model", SOLR_NAMES))
    return record


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1))
def test_a_corrected_threshold_is_exact_or_as_close_as_possible(
    thresholds: list[float],
) -> None:
    wanted = np.array(thresholds, dtype=np.float32)
    corrected, exists = slack_corrected(wanted)
    with np.errstate(over="ignore", invalid="ignore"):
        reached = corrected + SOLR_SLACK
        np.testing.assert_array_equal(reached == wanted, exists)
        error = np.abs(reached.astype(float) - wanted)[~exists]
        for end in (-np.inf, np.inf):
            neighbour = np.nextafter(corrected, np.float32(end)) + SOLR_SLACK
            assert (error <= np.abs(neighbour.astype(float) - wanted)[~exists]).all()


@given(
    st.lists(
        st.floats(width=32, min_value=-(2.0**20), max_value=2.0**20),
        min_size=1,
        max_size=20,
    )
)
def test_every_threshold_is_exact_in_units_of_the_normalizer(
    thresholds: list[float],
) -> None:
    wanted = np.array(thresholds, dtype=np.float32)
    wanted = wanted[(wanted == 0) | (np.abs(wanted) > 2.0**-100)]
    ensemble = stumps(*map(float, wanted))
    record = record_of(ensemble)
    if not len(wanted):
        return
    (feature,) = record["features"]
    std = np.float32(feature["norm"]["params"]["std"] if "norm" in feature else 1)
    written = np.array(
        [tree["root"]["threshold"] for tree in record["params"]["trees"]],
        dtype=np.float32,
    )
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
    record = json.loads(write_solr_linear(weights, "model", SOLR_NAMES, store="shop"))
    assert record["store"] == "shop"
    assert record["features"] == [{"name": "a"}, {"name": "c"}]
    assert record["params"]["weights"] == {"a": 0.1, "c": -2.0}


# LightGBM's dump as written for Vespa: every float32 goes left by `<` where the model sends it left


@pytest.mark.parametrize(
    "bound", [0.0, -0.0, 0.1, -0.1, 1e-45, -1e-45, 1e-46, -1e-46, 1e-35, 1.7e12, 3e38]
)
@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_a_threshold_is_the_smallest_float32_that_goes_right(
    bound: float, comparison: str
) -> None:
    threshold = float(smallest_right(np.array([bound]), comparison)[0])
    below = float(np.nextafter(np.float32(threshold), np.float32(-np.inf)))
    for value, goes_left in ((below, True), (threshold, False)):
        assert (value <= bound if comparison == "<=" else value < bound) == goes_left
        assert (value < threshold) == goes_left
