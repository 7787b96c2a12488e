"""XGBoost's model file and dump, compared with XGBoost itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from ensemble_cases import (
    random_ensemble,
)
from hypothesis import given
from hypothesis import strategies as st
from messages import naming

from ltrbench.models import ReadModel
from ltrbench.models.trees import ensemble_scores, float32_texts
from ltrbench.models.xgboost_files import (
    read_xgboost,
    write_xgboost_dump,
    write_xgboost_json,
)
from ltrbench.shapes import Features

BETWEEN = np.uint32(0x15AE43FD).view(np.float32)
"""A float32 whose shortest decimal number is the middle of two float32 when it is read as float64."""


def names_of(features: Features) -> list[str]:
    return [f"feature {number}" for number in range(features.shape[1])]


def loaded(content: bytes) -> xgb.Booster:
    return xgb.Booster({"nthread": 1}, model_file=bytearray(content))


def margin(booster: xgb.Booster, features: Features, **options: Any) -> np.ndarray:
    return np.asarray(
        booster.inplace_predict(features, predict_type="margin", **options)
    )


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_text_of_a_number_is_the_number_for_both_ways_of_reading(
    values: list[float],
) -> None:
    numbers = np.array([*values, BETWEEN], dtype=np.float32)
    texts = float32_texts(numbers)
    through_float64 = np.array([float(text) for text in texts]).astype(np.float32)
    np.testing.assert_array_equal(
        through_float64.view(np.uint32), numbers.view(np.uint32)
    )
    assert all(
        "." in text or "e" in text for text in texts
    )  # XGBoost reads other numbers as integers


def test_the_dump_is_that_of_xgboost_with_more_digits() -> None:
    ensemble, features = (
        random_ensemble(comparison="<", dtype="float32"),
        np.zeros((1, 3), dtype=np.float32),
    )
    names = names_of(features)
    written = json.loads(write_xgboost_dump(ensemble, names))
    booster = loaded(write_xgboost_json(ensemble, names))
    dumped = [json.loads(text) for text in booster.get_dump(dump_format="json")]
    waiting = list(zip(written, dumped, strict=True))
    while waiting:
        ours, theirs = waiting.pop()
        assert list(ours) == list(theirs)
        waiting += zip(
            ours.pop("children", []), theirs.pop("children", []), strict=True
        )
        for name, value in ours.items():
            assert (
                value == theirs[name]
                if isinstance(value, int | str)
                else value == pytest.approx(theirs[name])
            )


# Reading


def read(content: bytes) -> ReadModel:
    return read_xgboost(content)


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
    if parameters.get("objective") == "reg:gamma":
        matrix.set_label(labels + 1.0)
    booster = xgb.train(
        {"max_depth": 3, "nthread": 1, "seed": 1, **parameters}, matrix, 6
    )
    return booster, features


OBJECTIVES = (
    *(
        "rank:ndcg",
        "rank:map",
        "rank:pairwise",
        "binary:logistic",
        "binary:logitraw",
        "binary:hinge",
    ),
    *(
        "reg:logistic",
        "reg:squarederror",
        "reg:squaredlogerror",
        "reg:pseudohubererror",
    ),
    *(
        "reg:absoluteerror",
        "count:poisson",
        "reg:gamma",
        "reg:tweedie",
        "survival:cox",
        "survival:aft",
    ),
)
BASE_SCORES = (
    0.3,
    1e-7,
    1 - 2e-7,
    *np.random.default_rng(0).uniform(0.01, 0.99, 3).tolist(),
)


@pytest.mark.parametrize("form", ["json", "ubj"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_models_of_every_objective_are_read_bit_for_bit(
    objective: str, form: str
) -> None:
    for base_score in BASE_SCORES:
        booster, features = trained(objective=objective, base_score=base_score)
        model = read(bytes(booster.save_raw(form)))
        assert model.feature_names == ("a", "b", "c")
        assert model.num_features == 3
        np.testing.assert_array_equal(
            ensemble_scores(model.trees, features), margin(booster, features)
        )


def test_weights_of_dropped_trees_are_read() -> None:
    booster, features = trained(objective="rank:ndcg", booster="dart", rate_drop=0.5)
    model = read(bytes(booster.save_raw("json")))
    assert {tree.weight for tree in model.trees.trees} != {1.0}
    scores = ensemble_scores(model.trees, features)
    np.testing.assert_array_equal(scores, margin(booster, features))
    again = write_xgboost_json(model.trees, model.feature_names)
    np.testing.assert_array_equal(margin(loaded(again), features), scores)


# Refusals


@pytest.mark.parametrize("form", ["json", "ubj"])
def test_a_truncated_file_is_refused(form: str) -> None:
    content = bytes(trained()[0].save_raw(form))
    for kept in (len(content) // 2, len(content) - 1):
        with pytest.raises(ValueError):
            read(content[:kept])


def test_trees_after_early_stopping_are_refused_with_both_remedies() -> None:
    booster, _ = trained(objective="rank:ndcg")
    booster.set_attr(best_iteration="2")
    with pytest.raises(
        ValueError, match=naming("3 of 6", "booster[:3]", "best_iteration=None")
    ):
        read(bytes(booster.save_raw("json")))
    assert len(read(bytes(booster[:3].save_raw("json"))).trees.trees) == 3
    booster.set_attr(best_iteration=None)
    assert len(read(bytes(booster.save_raw("json"))).trees.trees) == 6


@pytest.mark.parametrize("trees_per_round", [1, 2])
def test_files_of_xgboost_1_have_no_rounds_and_are_refused_alike(
    trees_per_round: int,
) -> None:
    booster, _ = trained(objective="rank:ndcg", num_parallel_tree=trees_per_round)
    booster.set_attr(best_iteration="2")
    content = json.loads(booster.save_raw("json"))
    learner = content["learner"]
    del learner["gradient_booster"]["model"]["iteration_indptr"]
    with pytest.raises(ValueError, match=naming("3 of 6", "booster[:3]")):
        read(json.dumps(content).encode())
    learner["attributes"]["best_iteration"] = "5"
    of_all = read(json.dumps(content).encode())
    assert len(of_all.trees.trees) == 6 * trees_per_round


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_linear_boosters_and_classifiers_of_xgboost_are_refused() -> None:
    linear, _ = trained(objective="rank:ndcg", booster="gblinear")
    with pytest.raises(ValueError, match=naming("gblinear")):
        read(bytes(linear.save_raw("json")))
    classifier, _ = trained(objective="multi:softprob", num_class=3)
    with pytest.raises(ValueError, match=naming("one score")):
        read(bytes(classifier.save_raw("ubj")))
