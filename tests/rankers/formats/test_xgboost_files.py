"""XGBoost's model file and dump, compared with XGBoost itself."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from xgboost_cases import (
    BACKENDS,
    KINDS,
    LARGEST,
    around_thresholds,
    deep,
    fitted,
    leaf_values_of,
    random_ensemble,
)

from ltrbench.errors import ConfigError, ResultError
from ltrbench.rankers import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.rankers.models.formats import ReadModel
from ltrbench.rankers.models.formats.boosters.xgboost_dump import write_xgboost_dump
from ltrbench.rankers.models.formats.boosters.xgboost_json import (
    nearest_float32,
    read_xgboost_json,
    write_xgboost_json,
)
from ltrbench.rankers.models.formats.float32 import float32_texts
from ltrbench.rankers.models.scoring import ensemble_scores
from ltrbench.rankers.models.trees import Node
from ltrbench.shapes import Features

PATH = Path("model.json")
BETWEEN = np.uint32(0x15AE43FD).view(np.float32)
"""A float32 whose shortest decimal number is the middle of two float32 when it is read as float64."""


def names_of(features: Features) -> list[str]:
    return [f"feature {number}" for number in range(features.shape[1])]


def loaded(content: bytes) -> xgb.Booster:
    return xgb.Booster({"nthread": 1}, model_file=bytearray(content))


def margin(booster: xgb.Booster, features: Features, **options: Any) -> np.ndarray:
    return np.asarray(booster.inplace_predict(features, predict_type="margin", **options))


def of_one(root: Node, **options: Any) -> Ensemble:
    return Ensemble((WeightedTree(1.0, root),), **options)


def check_leaves(ensemble: Ensemble, features: Features) -> None:
    """Checks the leaf of each tree in XGBoost, and the sum in the order of the trees."""
    booster = loaded(write_xgboost_json(ensemble, names_of(features)))
    dump = [leaves_of_dump(json.loads(text)) for text in booster.get_dump(dump_format="json")]
    types = ["float"] * features.shape[1]
    matrix = xgb.DMatrix(features, feature_names=names_of(features), feature_types=types)
    leaves = booster.predict(matrix, pred_leaf=True).reshape(len(features), -1)
    expected = np.full(len(features), ensemble.base_score, dtype=np.float32)
    for number in range(len(ensemble.trees)):
        values = leaf_values_of(ensemble, number, features)
        numbers = leaves[:, number].astype(int)
        np.testing.assert_allclose([dump[number][each] for each in numbers], values, rtol=1e-6)
        expected += values
    np.testing.assert_array_equal(margin(booster, features), expected)


def leaves_of_dump(root: dict[str, Any]) -> dict[int, float]:
    leaves, waiting = {}, [root]
    while waiting:
        node = waiting.pop()
        waiting += node.get("children", [])
        if "leaf" in node:
            leaves[node["nodeid"]] = node["leaf"]
    return leaves


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_xgboost_sends_documents_to_the_leaves_of_the_backend(backend: str, kind: str) -> None:
    check_leaves(*fitted(backend, kind))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_values_next_to_thresholds_reach_their_leaves(comparison: str, dtype: str) -> None:
    ensemble = random_ensemble(comparison=comparison, dtype=dtype)
    check_leaves(ensemble, around_thresholds(ensemble, 3))


@pytest.mark.parametrize(
    "threshold", [0.1, -0.1, 0.0, 1e-45, -1e-45, 1e-300, -1e300, 16777217.0, float(BETWEEN)]
)
@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_a_threshold_between_two_float32_stays_between_them(comparison: str, threshold: float) -> None:
    stump = InnerNode(0, threshold, False, Leaf(-1.0), Leaf(1.0))
    ensemble = of_one(stump, comparison=comparison, threshold_dtype="float64")
    check_leaves(ensemble, around_thresholds(ensemble, 1))


@pytest.mark.parametrize("missing_left", [True, False])
@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_a_threshold_above_every_float32_separates_missing_values(
    comparison: str, missing_left: bool
) -> None:
    node = InnerNode(1, 0.5, True, Leaf(2.0), Leaf(3.0))
    root = InnerNode(0, 1e300, missing_left, InnerNode(0, 0.0, False, Leaf(-1.0), Leaf(1.0)), node)
    ensemble = of_one(root, comparison=comparison, threshold_dtype="float64")
    values = np.array([0, -1, 1, LARGEST, -LARGEST, np.nan], dtype=np.float32)
    check_leaves(ensemble, np.stack([values, np.roll(values, 1)], axis=1))


def test_thresholds_that_are_one_float32_keep_their_order() -> None:
    close = 0.1, 0.1 + 1e-12
    inner = InnerNode(0, close[0], False, Leaf(1.0), Leaf(2.0))
    ensemble = of_one(InnerNode(0, close[1], False, inner, Leaf(3.0)), threshold_dtype="float64")
    check_leaves(ensemble, around_thresholds(ensemble, 1))


@pytest.mark.parametrize("depth", [0, 1, 60, 500])
def test_trees_of_any_depth_are_written_and_read(depth: int) -> None:
    ensemble = of_one(deep(depth), score_dtype="float32")
    features = around_thresholds(ensemble, 3)
    content = write_xgboost_json(ensemble, names_of(features))
    expected = ensemble_scores(ensemble, features)
    np.testing.assert_array_equal(margin(loaded(content), features), expected)
    np.testing.assert_array_equal(ensemble_scores(read(content).trees, features), expected)


@pytest.mark.slow
def test_ten_thousand_trees_have_the_scores_of_the_reference() -> None:
    ensemble = random_ensemble(10_000, "<", "float32", num_leaves=4)
    features = np.random.default_rng(3).normal(size=(50, 3)).astype(np.float32)
    content = write_xgboost_json(ensemble, names_of(features))
    expected = ensemble_scores(ensemble, features)
    np.testing.assert_array_equal(margin(loaded(content), features), expected)
    np.testing.assert_array_equal(ensemble_scores(read(content).trees, features), expected)


def test_a_model_without_trees_is_its_base_score() -> None:
    features = np.zeros((2, 1), dtype=np.float32)
    content = write_xgboost_json(Ensemble((), base_score=0.3), ["only"])
    np.testing.assert_array_equal(margin(loaded(content), features), np.full(2, 0.3, dtype=np.float32))


def test_numbers_beyond_float32_are_refused() -> None:
    with pytest.raises(ConfigError, match=naming("tree 0", "float32")):
        write_xgboost_json(of_one(Leaf(1e39)), ["only"])
    with pytest.raises(ConfigError, match=naming("base score", "float32")):
        write_xgboost_json(of_one(Leaf(1.0), base_score=1e39), ["only"])


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_text_of_a_number_is_the_number_for_both_ways_of_reading(values: list[float]) -> None:
    numbers = np.array([*values, BETWEEN], dtype=np.float32)
    texts = float32_texts(numbers)
    through_float64 = np.array([float(text) for text in texts]).astype(np.float32)
    np.testing.assert_array_equal(through_float64.view(np.uint32), numbers.view(np.uint32))
    assert all("." in text or "e" in text for text in texts)  # XGBoost reads other numbers as integers


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_shortest_numbers_are_read_as_the_float32_that_they_stand_for(values: list[float]) -> None:
    numbers = np.array([*values, BETWEEN], dtype=np.float32)
    shortest = np.array([float(str(number)) for number in numbers])
    np.testing.assert_array_equal(nearest_float32(shortest), numbers)


def test_the_dump_is_that_of_xgboost_with_more_digits() -> None:
    ensemble, features = random_ensemble(comparison="<", dtype="float32"), np.zeros((1, 3), dtype=np.float32)
    names = names_of(features)
    written = json.loads(write_xgboost_dump(ensemble, names))
    booster = loaded(write_xgboost_json(ensemble, names))
    dumped = [json.loads(text) for text in booster.get_dump(dump_format="json")]
    waiting = list(zip(written, dumped, strict=True))
    while waiting:
        ours, theirs = waiting.pop()
        assert list(ours) == list(theirs)
        waiting += zip(ours.pop("children", []), theirs.pop("children", []), strict=True)
        for name, value in ours.items():
            assert (
                value == theirs[name]
                if isinstance(value, int | str)
                else value == pytest.approx(theirs[name])
            )


# Reading


def read(content: bytes) -> ReadModel:
    return read_xgboost_json(content, PATH)


def trained(**parameters: Any) -> tuple[xgb.Booster, Features]:
    rng = np.random.default_rng(4)
    features = rng.normal(size=(200, 3)).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = np.nan
    labels = rng.integers(0, 2, 200)
    matrix = xgb.DMatrix(features, labels, feature_names=["a", "b", "c"], nthread=1)
    if str(parameters.get("objective")).startswith("rank:"):
        matrix.set_group([20] * 10)
    if parameters.get("objective") == "survival:aft":
        matrix.set_float_info("label_lower_bound", labels + 1.0)
        matrix.set_float_info("label_upper_bound", labels + 1.0)
    booster = xgb.train({"max_depth": 3, "nthread": 1, "seed": 1, **parameters}, matrix, 6)
    return booster, features


OBJECTIVES = (
    *("rank:ndcg", "rank:map", "rank:pairwise", "binary:logistic", "binary:logitraw", "binary:hinge"),
    *("reg:logistic", "reg:squarederror", "reg:squaredlogerror", "reg:pseudohubererror"),
    *("reg:absoluteerror", "count:poisson", "reg:tweedie", "survival:cox", "survival:aft"),
)


@pytest.mark.parametrize("form", ["json", "ubj"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_margin_of_every_objective_is_read(objective: str, form: str) -> None:
    booster, features = trained(objective=objective, base_score=0.3)
    model = read(bytes(booster.save_raw(form)))
    assert model.feature_names == ("a", "b", "c")
    assert model.num_features == 3
    scores = ensemble_scores(model.trees, features)
    np.testing.assert_allclose(scores, margin(booster, features), rtol=0, atol=1e-6)


def test_ranking_models_are_read_bit_for_bit() -> None:
    booster, features = trained(objective="rank:ndcg", num_parallel_tree=2, base_score=0.1)
    for form in ("json", "ubj"):
        scores = ensemble_scores(read(bytes(booster.save_raw(form))).trees, features)
        np.testing.assert_array_equal(scores, margin(booster, features))


def test_weights_of_dropped_trees_are_read() -> None:
    booster, features = trained(objective="rank:ndcg", booster="dart", rate_drop=0.5)
    model = read(bytes(booster.save_raw("json")))
    assert {tree.weight for tree in model.trees.trees} != {1.0}
    scores = ensemble_scores(model.trees, features)
    np.testing.assert_allclose(scores, margin(booster, features), rtol=0, atol=1e-6)
    again = write_xgboost_json(model.trees, model.feature_names)
    np.testing.assert_array_equal(margin(loaded(again), features), scores)


@pytest.mark.parametrize("base_score", ["5E-1", "[5E-1]", "[ 0.5 ]", ".5"])
def test_base_scores_of_all_versions_are_read(base_score: str) -> None:
    record = json.loads(write_xgboost_json(of_one(Leaf(1.0)), ["only"]))
    record["learner"]["learner_model_param"]["base_score"] = base_score
    assert read(json.dumps(record).encode()).trees.base_score == 0.5


def test_pruned_nodes_are_ignored() -> None:
    booster, features = trained(objective="rank:ndcg", gamma=1.0, max_depth=6, tree_method="exact")
    record = json.loads(bytes(booster.save_raw("json")))
    trees = record["learner"]["gradient_booster"]["model"]["trees"]
    assert any(tree["tree_param"]["num_deleted"] != "0" for tree in trees)
    scores = ensemble_scores(read(bytes(booster.save_raw("json"))).trees, features)
    np.testing.assert_array_equal(scores, margin(booster, features))


def test_files_without_parameters_of_newer_versions_are_read() -> None:
    record = json.loads(write_xgboost_json(random_ensemble(2, "<", "float32"), ["a", "b", "c"]))
    learner = record["learner"]
    del learner["learner_model_param"]["num_target"], learner["feature_names"], learner["attributes"]
    for tree in learner["gradient_booster"]["model"]["trees"]:
        tree["default_left"] = [bool(each) for each in tree["default_left"]]
        del tree["split_type"], tree["categories"]
    model = read(json.dumps(record).encode())
    assert model.feature_names == ()
    assert model.num_features == 3


# Refusals


def valid() -> dict[str, Any]:
    root = InnerNode(0, 0.5, True, Leaf(-1.0), InnerNode(1, 1.5, False, Leaf(1.0), Leaf(2.0)))
    record: dict[str, Any] = json.loads(write_xgboost_json(of_one(root), ["a", "b"]))
    return record


def tree_of(record: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = record["learner"]["gradient_booster"]["model"]["trees"][0]
    return tree


def changed(change: Callable[[dict[str, Any]], Any]) -> bytes:
    record = copy.deepcopy(valid())
    change(record)
    return json.dumps(record).encode()


VALID = {
    "json": json.dumps(valid()).encode(),
    "ubj": bytes(loaded(json.dumps(valid()).encode()).save_raw("ubj")),
}
DAMAGES: dict[str, tuple[Callable[[dict[str, Any]], Any], tuple[object, ...]]] = {
    "cycle": (lambda r: tree_of(r).update(left_children=[1, -1, 0, -1, -1]), ("tree 0", "child index")),
    "shared child": (lambda r: tree_of(r).update(left_children=[1, -1, 1, -1, -1]), ("tree 0", "two nodes")),
    "loop": (lambda r: tree_of(r).update(right_children=[2, -1, 2, -1, -1]), ("tree 0", "two nodes")),
    "child out of range": (lambda r: tree_of(r).update(left_children=[1, -1, 99, -1, -1]), ("1 to 4",)),
    "fractional child": (lambda r: tree_of(r).update(left_children=[1, -1, 2.5, -1, -1]), ("child index",)),
    "no left child": (lambda r: tree_of(r).update(left_children=[-1, -1, 3, -1, -1]), ("one child",)),
    "feature out of range": (lambda r: tree_of(r).update(split_indices=[0, 0, 7, 0, 0]), ("0 to 1",)),
    "many nodes": (lambda r: tree_of(r)["tree_param"].update(num_nodes="999999999"), ("999,999,999",)),
    "too many nodes": (lambda r: tree_of(r)["tree_param"].update(num_nodes="1" * 99), ("num_nodes",)),
    "NaN": (lambda r: tree_of(r).update(split_conditions=[float("nan"), 1, 1, 1, 1]), ("tree 0", "finite")),
    "infinite": (lambda r: tree_of(r).update(split_conditions=[1, 1e39, 1, 1, 1]), ("tree 0", "finite")),
    "infinite sum": (lambda r: tree_of(r).update(split_conditions=[1, 3.4028235e38, 1, 1, 1]), ("sum",)),
    "huge integer": (lambda r: tree_of(r).update(split_conditions=[10**400, 1, 1, 1, 1]), ("split_cond",)),
    "nested values": (lambda r: tree_of(r).update(split_conditions=[[1]] * 5), ("split_conditions",)),
    "text": (lambda r: tree_of(r).update(left_children="12345"), ("left_children",)),
    "categorical": (lambda r: tree_of(r).update(split_type=[1, 0, 0, 0, 0]), ("categorical", "numbers")),
    "vector leaves": (lambda r: tree_of(r)["tree_param"].update(size_leaf_vector="3"), ("per leaf",)),
    "no tree": (lambda r: r["learner"]["gradient_booster"]["model"].update(trees=[7]), ("tree_param",)),
    "linear": (lambda r: r["learner"]["gradient_booster"].update(name="gblinear"), ("gblinear", "gbtree")),
    "classes": (lambda r: r["learner"]["learner_model_param"].update(num_class="3"), ("one score",)),
    "targets": (lambda r: r["learner"]["learner_model_param"].update(num_target="2"), ("one score",)),
    "outputs": (lambda r: r["learner"]["gradient_booster"]["model"].update(tree_info=[1]), ("tree_info",)),
    "objective": (lambda r: r["learner"]["objective"].update(name="mine"), ("mine", "rank:ndcg")),
    "base scores": (lambda r: r["learner"]["learner_model_param"].update(base_score="[1,2]"), ("1,2",)),
    "base score": (lambda r: r["learner"]["learner_model_param"].update(base_score="nan"), ("nan",)),
    "large base score": (lambda r: r["learner"]["learner_model_param"].update(base_score="1e99"), ("1e99",)),
    "names": (lambda r: r["learner"].update(feature_names=["a"]), ("feature_names", 2)),
    "same names": (lambda r: r["learner"].update(feature_names=["a", "a"]), ("feature_names", 2)),
    "many features": (
        lambda r: (
            r["learner"].pop("feature_names"),
            r["learner"]["learner_model_param"].update(num_feature="900000000"),
        ),
        ("900,000,000",),
    ),
    "no learner": (lambda r: r.pop("learner"), ("learner",)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused_with_the_place(damage: str) -> None:
    change, parts = DAMAGES[damage]
    with pytest.raises(ResultError, match=naming(PATH, "save_model", *parts)):
        read(changed(change))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"learner": ' + b"[" * 10**6,
        b"\xff\xfe",
        b"{L\x7f",
        b"{[#L" + b"\x7f" * 8,
    ],
)
def test_files_that_are_not_models_are_refused(content: bytes) -> None:
    with pytest.raises(ResultError, match=naming(PATH, "save_model")):
        read(content)


@pytest.mark.parametrize("form", ["json", "ubj"])
@given(data=st.data())
def test_files_with_changed_bytes_are_read_or_refused(form: str, data: st.DataObject) -> None:
    content = bytearray(VALID[form])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    try:
        model = read(bytes(content))
    except ResultError:
        return
    scores = ensemble_scores(model.trees, np.zeros((1, model.num_features), dtype=np.float32))
    assert np.isfinite(scores).all()


def test_logistic_base_scores_outside_0_to_1_are_refused() -> None:
    def change(record: dict[str, Any]) -> None:
        record["learner"]["objective"]["name"] = "binary:logistic"
        record["learner"]["learner_model_param"]["base_score"] = "1.5"

    with pytest.raises(ResultError, match=naming(PATH, "binary:logistic", 1.5)):
        read(changed(change))


def test_trees_after_early_stopping_are_refused_with_both_remedies() -> None:
    booster, _ = trained(objective="rank:ndcg")
    booster.set_attr(best_iteration="2")
    with pytest.raises(ResultError, match=naming("3 of 6", "booster[:3]", "best_iteration=None")):
        read(bytes(booster.save_raw("json")))
    assert len(read(bytes(booster[:3].save_raw("json"))).trees.trees) == 3
    booster.set_attr(best_iteration=None)
    assert len(read(bytes(booster.save_raw("json"))).trees.trees) == 6


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_linear_boosters_and_classifiers_of_xgboost_are_refused() -> None:
    linear, _ = trained(objective="rank:ndcg", booster="gblinear")
    with pytest.raises(ResultError, match=naming("gblinear")):
        read(bytes(linear.save_raw("json")))
    classifier, _ = trained(objective="multi:softprob", num_class=3)
    with pytest.raises(ResultError, match=naming("one score")):
        read(bytes(classifier.save_raw("ubj")))
