"""LightGBM's text model files, compared with LightGBM itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming

from ltrbench.errors import ResultError
from ltrbench.models import ReadModel
from ltrbench.models.files import read_model_file
from ltrbench.models.lightgbm_files import read_lightgbm_text, write_lightgbm_text
from ltrbench.models.trees import LARGEST_ZERO, Node, ensemble_scores
from ltrbench.rankers import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.shapes import Features

NAMES = ["a", "b", "c"]

TRAININGS: dict[str, dict[str, Any]] = {
    "ranking": {},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "goss": {"data_sample_strategy": "goss"},
    "zero_as_missing": {"zero_as_missing": True},
    "one leaf": {"min_data_in_leaf": 10_000},
    "one leaf with an average": {"min_data_in_leaf": 10_000, "objective": "regression"},
    "monotone": {"monotone_constraints": [1, 0, -1]},
    **{
        name: {"objective": name}
        for name in (
            "rank_xendcg",
            "regression",
            "regression_l1",
            "huber",
            "quantile",
            "binary",
        )
    },
    **{
        name: {"objective": name}
        for name in ("cross_entropy", "poisson", "gamma", "tweedie")
    },
}
MISSING = np.float32(np.nan)


def read(text: str) -> ReadModel:
    return read_lightgbm_text(text.encode())


def loaded(content: bytes) -> lgb.Booster:
    return lgb.Booster(model_str=content.decode())


def raw(booster: lgb.Booster, features: Features) -> np.ndarray:
    return np.asarray(booster.predict(features, raw_score=True, num_threads=1))


def trained(
    num_trees: int = 12,
    missing: float = 0.2,
    names: list[str] | None = None,
    **parameters: Any,
) -> tuple[lgb.Booster, Features]:
    rng = np.random.default_rng(4)
    features = rng.normal(size=(400, 3)).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = 0
    features[rng.random(features.shape) < missing] = MISSING
    features[:, 2] = np.abs(np.nan_to_num(features[:, 2]))  # without missing values
    # Missing values matter most, so that a split separates them from all others.
    labels = np.clip(
        2 * np.isnan(features[:, 0]) + (np.nan_to_num(features[:, 1]) > 0), 0, 3
    )
    labels = labels + (rng.random(len(labels)) < 0.2)
    objective = parameters.get("objective", "lambdarank")
    if objective in ("binary", "cross_entropy"):
        labels = labels > 0
    elif objective in ("gamma",):
        labels = labels + 1
    is_ranking = objective in ("lambdarank", "rank_xendcg")
    data = lgb.Dataset(
        features,
        labels,
        group=[40] * 10 if is_ranking else None,
        feature_name=names or NAMES,
    )
    settings = {
        "num_leaves": 9,
        "min_data_in_leaf": 5,
        "verbose": -1,
        "num_threads": 1,
        "seed": 1,
    }
    return lgb.train(
        {**settings, "objective": "lambdarank", **parameters}, data, num_trees
    ), features


def trees_part(text: str) -> str:
    """Returns the text from the first tree to the end of the trees."""
    return text[text.index("Tree=0\n") : text.index("end of trees\n")]


def of_one(root: Node, **options: Any) -> Ensemble:
    return Ensemble((WeightedTree(1.0, root),), **options)


def check_rounds(content: bytes) -> None:
    """Checks that a written file is the same after it was read by us, and by LightGBM."""
    model = read_lightgbm_text(content)
    assert write_lightgbm_text(model.trees, model.feature_names) == content
    assert loaded(content).model_to_string() == content.decode()


# Files of LightGBM


@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("num_trees", [1, 12])
def test_a_file_of_lightgbm_is_written_again_byte_for_byte(
    training: str, num_trees: int
) -> None:
    booster, features = trained(num_trees, **TRAININGS[training])
    text = booster.model_to_string()
    model = read(text)
    assert model.feature_names == ("a", "b", "c")
    content = write_lightgbm_text(model.trees, model.feature_names)
    assert trees_part(content.decode()) == trees_part(text)
    check_rounds(content)
    expected = raw(booster, features)
    np.testing.assert_array_equal(raw(loaded(content), features), expected)
    np.testing.assert_array_equal(ensemble_scores(model.trees, features), expected)
    # The objective of the written file does not transform scores.
    np.testing.assert_array_equal(loaded(content).predict(features), expected)


def test_a_random_forest_is_the_mean_of_its_trees_also_when_it_is_written_again() -> (
    None
):
    booster, features = trained(
        boosting="rf", bagging_freq=1, bagging_fraction=0.5, objective="regression"
    )
    model = read(booster.model_to_string())
    expected = booster.predict(features)
    np.testing.assert_allclose(ensemble_scores(model.trees, features), expected, 1e-12)
    content = write_lightgbm_text(model.trees, model.feature_names)
    np.testing.assert_allclose(loaded(content).predict(features), expected, 1e-12)


def test_a_file_with_the_line_ends_of_windows_is_the_same_model(
    tmp_path: Path,
) -> None:
    booster, features = trained()
    path = tmp_path / "model.txt"
    path.write_bytes(booster.model_to_string().replace("\n", "\r\n").encode())
    scores = ensemble_scores(read_model_file(path).model.trees, features)
    np.testing.assert_array_equal(scores, raw(booster, features))


# Trees of all backends


@given(
    st.lists(
        st.floats(
            allow_nan=False, allow_infinity=False, max_value=1e300, min_value=-1e300
        )
    )
)
def test_numbers_keep_their_bits_in_lightgbm(values: list[float]) -> None:
    given = [*values, 0.1, -0.0, 5e-324, 2.2250738585072014e-308]
    trees = tuple(WeightedTree(1.0, Leaf(value)) for value in given)
    content = write_lightgbm_text(Ensemble(trees), ["only"])
    booster = loaded(content)
    assert [booster.get_leaf_output(number, 0) for number in range(len(given))] == given
    assert [tree.root for tree in read_lightgbm_text(content).trees.trees] == [
        *map(Leaf, given)
    ]


# Refusals


def test_a_truncated_file_is_refused() -> None:
    text = trained(2)[0].model_to_string()
    for kept in (
        text[: text.index("Tree=1")],
        text[: text.index("end of trees")],
        "tree\n",
    ):
        with pytest.raises(ValueError, match="end of trees"):
            read(kept)


def test_classifiers_and_linear_trees_of_lightgbm_are_refused() -> None:
    with pytest.raises(ValueError, match=naming("num_class")):
        read(trained(objective="multiclass", num_class=5)[0].model_to_string())
    with pytest.raises(ValueError, match=naming("linear_tree")):
        read(trained(objective="regression", linear_tree=True)[0].model_to_string())


def test_categories_of_lightgbm_are_written_again_byte_for_byte_but_not_imported(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 70, (4000, 2)).astype(np.float32)
    features[::9, 0] = MISSING
    labels = np.isin(features[:, 0], [0, 31, 32, 69]) + (features[:, 1] % 3)
    data = lgb.Dataset(
        features, labels, categorical_feature=[0], feature_name=["shop", "price"]
    )
    booster = lgb.train(
        {"objective": "regression", "verbose": -1, "num_threads": 1}, data, 4
    )
    text = booster.model_to_string()
    model = read(text)
    content = write_lightgbm_text(model.trees, model.feature_names)
    assert "cat_threshold" in text
    assert trees_part(content.decode()) == trees_part(text)
    check_rounds(content)
    every = np.stack([[*range(100), MISSING], rng.integers(0, 70, 101)], axis=1).astype(
        np.float32
    )
    np.testing.assert_array_equal(
        ensemble_scores(model.trees, every), raw(booster, every)
    )
    (tmp_path / "model.txt").write_text(text)
    with pytest.raises(
        ResultError, match=naming("model.txt", "shop", "data.categorical")
    ):
        read_model_file(tmp_path / "model.txt")


@pytest.mark.parametrize("value", [LARGEST_ZERO, -LARGEST_ZERO, 1e-38, -1e-38, 0.0])
def test_tiny_values_get_the_scores_of_zero_as_in_lightgbm(value: float) -> None:
    """Zeros between negative and positive values have the threshold -LARGEST_ZERO below them."""
    rng = np.random.default_rng(0)
    features = np.round(rng.normal(size=(400, 1)), 1) * (rng.random((400, 1)) < 0.5)
    labels = np.where(features[:, 0] < 0, 1.0, np.where(features[:, 0] == 0, 3.0, 2.0))
    booster = lgb.train(
        {"verbose": -1, "num_leaves": 4}, lgb.Dataset(features, labels), 3
    )
    text = booster.model_to_string().encode()
    assert f"{-LARGEST_ZERO:.17g}" in text.decode()
    document = np.array([[value]], dtype=np.float32)
    trees = read_lightgbm_text(text).trees
    np.testing.assert_array_equal(
        ensemble_scores(trees, document), booster.predict(document)
    )


@pytest.mark.parametrize("threshold", ["0.0", "0.5", "-.5"])
def test_without_a_missing_type_a_missing_value_is_0_as_in_lightgbm(
    threshold: str,
) -> None:
    content = write_lightgbm_text(
        of_one(InnerNode(0, 0.5, False, Leaf(-1.0), Leaf(1.0))), NAMES
    ).decode()
    text = content.replace("threshold=0.5\n", f"threshold={threshold}\n")
    text = re.sub(r"decision_type=\d\b", "decision_type=0", text)
    features = np.zeros((4, len(NAMES)), dtype=np.float32)
    features[:, 0] = [np.nan, 0, 1, -1]
    np.testing.assert_array_equal(
        raw(loaded(text.encode()), features),
        ensemble_scores(read(text).trees, features),
    )
