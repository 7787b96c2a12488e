"""Vespa: the written files, imported and evaluated as Vespa does, have the scores of the model."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from java_engine_cases import BACKENDS, around_thresholds, deep, fitted, random_ensemble
from messages import naming

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, ResultError
from ltrbench.rankers import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.rankers.models.formats.boosters.lightgbm_dump import write_lightgbm_dump
from ltrbench.rankers.models.scoring import ensemble_scores
from ltrbench.rankers.models.trees import LARGEST_ZERO, Node
from ltrbench.shapes import Features
from ltrbench.shipping.certificate.certifying import certify
from ltrbench.shipping.certificate.record import CERTIFIED, REFUSED
from ltrbench.shipping.model import Linear, ShippedModel
from ltrbench.shipping.simulators.vespa import VespaForest, parse_vespa
from ltrbench.shipping.target import INFINITE_VALUES, MISSING_VALUES, Engine, Export
from ltrbench.shipping.targets.vespa import VespaTarget

FORMS = ("lightgbm", "xgboost")
every_form = pytest.mark.parametrize("form", FORMS)


def shipped(scorer: Ensemble | Linear, num_features: int = 3) -> ShippedModel:
    return ShippedModel("a_model", tuple(f"feature_of_{number}" for number in range(num_features)), scorer)


def of_one(root: Node, **options: Any) -> Ensemble:
    return Ensemble((WeightedTree(1.0, root),), **options)


def forest_of(form: Any, model: ShippedModel) -> VespaForest:
    export = VespaTarget(form=form).export(model)
    return parse_vespa(export.files["a_model.json"], form, model.feature_names)


def with_missing(features: Features) -> Features:
    chosen = np.random.default_rng(3).random(features.shape) < 0.2
    return np.where(chosen, np.float32(np.nan), features)


def check_scores(form: str, ensemble: Ensemble, features: Features) -> None:
    """Checks the three evaluators: that float64 scores are equal bit for bit, and others but for rounding."""
    expected = ensemble_scores(ensemble, features)
    forest = forest_of(form, shipped(ensemble, features.shape[1]))
    compiled = forest.compiled_scores(features)
    if form == "lightgbm" and ensemble.score_dtype == "float64":
        np.testing.assert_array_equal(compiled, expected)
    largest = sum(np.abs(tree.value).max() for tree in forest.trees)
    bound = (2 * len(forest.trees) + 2) * 2.0**-24 * largest
    for scores in (compiled, forest.forest_scores(features), forest.fast_forest_scores(features)):
        np.testing.assert_allclose(scores, expected, rtol=0, atol=bound)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "missing", "zeros", "ties", "tiny"])
@pytest.mark.parametrize("backend", BACKENDS)
@every_form
def test_scores_are_those_of_the_backend(form: str, backend: str, kind: str) -> None:
    ensemble, features = fitted(backend, kind)
    check_scores(form, ensemble, features)
    check_scores(form, ensemble, with_missing(around_thresholds(ensemble, features.shape[1])))


@pytest.mark.parametrize("comparison", ["<=", "<"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
@every_form
def test_values_next_to_thresholds_reach_their_leaves(
    form: str, comparison: Any, dtype: Any, scale: float
) -> None:
    ensemble = random_ensemble(comparison=comparison, dtype=dtype, scale=scale)
    check_scores(form, ensemble, with_missing(around_thresholds(ensemble, 3)))


@pytest.mark.parametrize("missing_left", [True, False])
@pytest.mark.parametrize("threshold", [0.0, 0.1, 1e-46, -1e-46, 1e300, 2.0**24 + 1, 1.7e12])
def test_a_threshold_between_two_float32_stays_between_them(threshold: float, missing_left: bool) -> None:
    root = InnerNode(0, threshold, missing_left, Leaf(-1.0), Leaf(1.0))
    ensemble = of_one(root, threshold_dtype="float64")
    features = np.concatenate([around_thresholds(ensemble, 1), np.array([[np.nan]], dtype=np.float32)])
    is_limited = INFINITE_VALUES in VespaTarget().export(shipped(ensemble, 1)).limits
    assert is_limited == (threshold == 1e300)
    check_scores("lightgbm", ensemble, features[~np.isinf(features[:, 0])] if is_limited else features)


@pytest.mark.parametrize("missing_left", [True, False])
@pytest.mark.parametrize("threshold", [-0.5, 0.0, 0.5])
@every_form
def test_zeros_that_count_as_missing_reach_their_leaves(
    form: str, threshold: float, missing_left: bool
) -> None:
    ensemble = of_one(InnerNode(0, threshold, missing_left, Leaf(-1.0), Leaf(1.0), zero_missing=True))
    values = [0, -0.0, LARGEST_ZERO, -LARGEST_ZERO, 1e-30, -1e-30, np.nan, -1, 1]
    check_scores(form, ensemble, np.array(values, dtype=np.float32)[:, None])


@pytest.mark.parametrize("depth", [0, 1, 60])
@every_form
def test_deep_trees_and_single_leaves_are_scored(form: str, depth: int) -> None:
    features = np.arange(3.0 * depth + 3, dtype=np.float32).reshape(-1, 3) - 2
    check_scores(form, replace(of_one(deep(depth)), base_score=0.25), features)


@pytest.mark.slow
@every_form
def test_ten_thousand_trees_are_scored_as_a_forest(form: str) -> None:
    ensemble = random_ensemble(num_trees=10_000, num_leaves=16)
    features = around_thresholds(random_ensemble(num_trees=1), 3)
    check_scores(form, ensemble, features)
    model = shipped(ensemble)
    assert forest_of("lightgbm", model).is_forest
    engine = VespaTarget().engine(model, VespaTarget().export(model))
    assert engine.score_dtype == "float32"
    expected = forest_of("lightgbm", model).forest_scores(features)
    np.testing.assert_array_equal(engine.scores(features), expected)


def test_a_small_sum_is_compiled() -> None:
    assert not forest_of("lightgbm", shipped(random_ensemble(num_trees=300, num_leaves=8))).is_forest


def test_a_forest_adds_the_last_tree_first() -> None:
    leaves = [2.0**-53, 1.0, 2.0**-53]  # 1 + 2^-53 rounds to 1
    trees = tuple(WeightedTree(1.0, InnerNode(0, 0.5, True, Leaf(leaf), Leaf(leaf))) for leaf in leaves)
    forest = forest_of("lightgbm", shipped(Ensemble(trees)))
    features = np.zeros((1, 3), dtype=np.float32)
    assert forest.compiled_scores(features).tolist() == [1.0]
    assert forest.forest_scores(features).tolist() == [1.0 + 2.0**-52]


class UnchangedDump(VespaTarget):
    """Writes the thresholds of LightGBM's `<=` as its own dump has them."""

    def export(self, model: ShippedModel) -> Export:
        export = super().export(model)
        assert isinstance(model.scorer, Ensemble)
        content = write_lightgbm_dump(replace(model.scorer, comparison="<"), model.feature_names)
        return replace(export, files={**export.files, "a_model.json": content})


def status_of(target: VespaTarget, model: ShippedModel, data: RankingDataset) -> str:
    export = target.export(model)
    assert isinstance(model.scorer, Ensemble)
    predict = partial(ensemble_scores, model.scorer)
    return certify(model, predict, data, export, target.engine(model, export)).status


def test_the_unchanged_dump_of_lightgbm_is_refused() -> None:
    """Vespa sends a value that is equal to the threshold right, LightGBM left."""
    root = InnerNode(0, 2.0, True, Leaf(1.0), Leaf(-1.0))
    features = np.array([[1], [2], [3]], dtype=np.float32)
    data = RankingDataset(features=features, labels=np.array([2.0, 1, 0]), query_start=np.array([0, 3]))
    model = shipped(of_one(root), 1)
    assert status_of(VespaTarget(), model, data) == CERTIFIED
    assert status_of(UnchangedDump(), model, data) == REFUSED


@every_form
def test_infinity_is_a_limit_only_if_a_split_sends_it_left(form: Any) -> None:
    limits = [
        VespaTarget(form=form).export(shipped(of_one(InnerNode(0, t, True, Leaf(0.0), Leaf(1.0))))).limits
        for t in (1.0, float("inf"))
    ]
    assert [INFINITE_VALUES in each for each in limits] == [False, True]


def test_a_linear_model_is_an_expression() -> None:
    model = shipped(Linear(np.array([0.1, 0.0, -2.5e-7])))
    export = VespaTarget().export(model)
    assert MISSING_VALUES in export.limits
    profile = export.files["a_model.profile"].decode()
    assert "expression: (0.1 * feature_of_0) + (-2.5e-07 * feature_of_2)\n" in profile
    features = np.array([[1, 2, 3], [0.5, np.inf, -1]], dtype=np.float32)
    engine = VespaTarget().engine(model, export)
    expected = 0.1 * features[:, 0].astype(np.float64) + -2.5e-7 * features[:, 2].astype(np.float64)
    np.testing.assert_array_equal(engine.scores(features), expected)


def test_the_profile_has_a_function_for_every_name_that_is_read() -> None:
    def split(feature: int, left: Node) -> Node:
        return InnerNode(feature, 0.5, True, left, Leaf(1.0))

    names = ("price", "bm25(title)", "unused", "5", "max")
    root = split(0, split(1, split(3, split(4, Leaf(0.0)))))
    export = VespaTarget().export(ShippedModel("shop", names, of_one(root)))
    profile = export.files["shop.profile"].decode()
    assert [line.split()[1] for line in profile.splitlines() if " function " in line] == [
        "price()",
        "feature_4()",
        "feature_5()",
    ]
    assert 'expression: lightgbm("shop.json")' in profile
    written = json.loads(export.files["shop.json"])["feature_names"]
    assert written == ["price", "bm25(title)", "unused", "feature_4", "feature_5"]
    assert any("feature_1, feature_2" in note for note in export.notes)


def test_names_that_vespa_cannot_have_are_refused() -> None:
    ensemble = of_one(Leaf(1.0))
    with pytest.raises(ConfigError, match=naming("price", "given twice")):
        VespaTarget().export(ShippedModel("shop", ("price", "price"), ensemble))
    with pytest.raises(ConfigError, match=naming("my-shop", "--name")):
        VespaTarget().export(ShippedModel("my-shop", ("price",), ensemble))


@pytest.mark.parametrize(
    "change",
    [
        {"objective": "binary sigmoid:1"},
        {"pandas_categorical": [["a"]]},
        {"feature_names": []},
        {"tree_info": [{"tree_structure": {"leaf_value": 1, "left_child": {"leaf_value": 1}}}]},
    ],
)
def test_a_file_that_vespa_would_refuse_or_transform_is_refused(change: dict[str, Any]) -> None:
    content = json.loads(write_lightgbm_dump(of_one(InnerNode(0, 0.5, True, Leaf(0.0), Leaf(1.0))), ["a"]))
    with pytest.raises(ResultError, match=naming("Vespa would refuse")):
        parse_vespa(json.dumps(content | change).encode(), "lightgbm", ["a"])


def test_every_rule_has_a_source() -> None:
    model = shipped(of_one(Leaf(1.0)))
    for form in FORMS:
        target = VespaTarget(form=form)  # type: ignore[arg-type]
        engine: Engine = target.engine(model, target.export(model))
        assert engine.is_simulated
        assert all("commit" in rule.source for rule in engine.rules)
