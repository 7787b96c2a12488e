"""RankLib and Solr: the written files, read and scored as the engines do, have the scores of the model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from ensemble_cases import (
    around_thresholds,
    ensemble_for_java,
    without_missing,
)
from messages import naming

from ltrbench.errors import ConfigError
from ltrbench.models.trees import Node, ensemble_scores, float32_texts
from ltrbench.rankers import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.shapes import Features
from ltrbench.shipping.target import MISSING_VALUES, Export, Linear, ShippedModel, Target
from ltrbench.shipping.targets.ranklib import RankLibTarget
from ltrbench.shipping.targets.solr import SolrTarget

TARGETS: tuple[Target, ...] = (RankLibTarget(), SolrTarget())
every_target = pytest.mark.parametrize("target", TARGETS, ids=["ranklib", "solr"])


def shipped(scorer: Ensemble | Linear, num_features: int = 3) -> ShippedModel:
    return ShippedModel("a_model", tuple(f"feature {number}" for number in range(num_features)), scorer)


def of_one(root: Node, **options: Any) -> Ensemble:
    return Ensemble((WeightedTree(1.0, root),), **options)


def scores_of(target: Target, model: ShippedModel, features: Features) -> np.ndarray:
    engine = target.engine(model, target.export(model))
    assert engine is not None
    assert engine.is_simulated
    scores = engine.scores(features)
    assert scores.dtype == np.dtype(engine.score_dtype) == np.float32
    return np.asarray(scores)


def check_scores(target: Target, ensemble: Ensemble, features: Features) -> None:
    """Checks that float32 scores are equal bit for bit, and others but for the rounding of a float32 sum."""
    expected = ensemble_scores(ensemble, without_missing(features))
    scores = scores_of(target, shipped(ensemble, features.shape[1]), features)
    if ensemble.score_dtype == "float32":
        np.testing.assert_array_equal(scores, expected)
    largest = sum(abs(tree.weight) * largest_leaf(tree.root) for tree in ensemble.trees)
    steps = 2 * len(ensemble.trees) + 2
    bound = steps * 2.0**-24 * (largest + abs(ensemble.base_score))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=bound)


def largest_leaf(root: Node) -> float:
    waiting, largest = [root], 0.0
    while waiting:
        node = waiting.pop()
        if isinstance(node, Leaf):
            largest = max(largest, abs(node.value))
        else:
            waiting += [node.left, node.right]
    return largest


@pytest.mark.slow
@pytest.mark.parametrize("comparison", ["<=", "<"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1e-12, 1e-5, 1.0, 1e9])
@every_target
def test_values_next_to_thresholds_reach_their_leaves(
    target: Target, comparison: Any, dtype: Any, scale: float
) -> None:
    ensemble = ensemble_for_java(comparison=comparison, dtype=dtype, scale=scale)
    check_scores(target, ensemble, around_thresholds(ensemble, 3))


@pytest.mark.parametrize("threshold", [0.0, 0.1, 1e-45, 1e-46, -1e-46, 1e-35, 1e300, -1e300, 2.0**24 + 1])
@every_target
def test_a_threshold_between_two_float32_stays_between_them(target: Target, threshold: float) -> None:
    root = InnerNode(0, threshold, threshold >= 0, Leaf(-1.0), Leaf(1.0))
    ensemble = of_one(root, threshold_dtype="float64")
    check_scores(target, ensemble, around_thresholds(ensemble, 1))


@every_target
def test_a_linear_sum_of_leaves_may_be_negative_without_an_offset(target: Target) -> None:
    model = shipped(of_one(Leaf(-120.0)))
    assert target.export(model).offset == 0
    assert scores_of(target, model, np.zeros((1, 3), dtype=np.float32)).tolist() == [-120.0]


@every_target
def test_missing_values_are_limited_only_if_the_model_sends_them_elsewhere_than_zero(target: Target) -> None:
    for threshold in (-1.0, 0.0, 1.0):
        for missing_left in (False, True):
            model = shipped(of_one(InnerNode(0, threshold, missing_left, Leaf(1.0), Leaf(2.0))))
            zero, missing = scores_of(target, model, np.array([[0, 0, 0], [np.nan, 0, 0]], dtype=np.float32))
            assert zero == missing
            wanted = ensemble_scores(model.trees("any"), np.array([[np.nan, 0, 0]], dtype=np.float32))[0]
            assert (MISSING_VALUES in target.export(model).limits) == (missing != wanted)


@pytest.mark.parametrize("threshold", [1e-8, 0.5, np.inf])
def test_solr_sends_missing_values_where_the_model_does(threshold: float) -> None:
    target = SolrTarget(absent="missing")
    below = InnerNode(0, 2.0, False, Leaf(2.0), Leaf(3.0))
    ensemble = of_one(InnerNode(1, threshold, True, Leaf(1.0), below), score_dtype="float32")
    features = around_thresholds(ensemble, 3)
    features = np.concatenate([features, np.where(np.arange(3) == 1, np.float32(np.nan), features)])
    assert target.export(shipped(ensemble)).limits == {}
    np.testing.assert_array_equal(
        scores_of(target, shipped(ensemble), features), ensemble_scores(ensemble, features)
    )


def test_missing_values_need_trees_and_a_version_that_has_them() -> None:
    for version in ("8.11", "9.1.1"):
        with pytest.raises(ConfigError, match=naming("missing", version, "9.2")):
            SolrTarget(version=version, absent="missing")
    with pytest.raises(ConfigError, match=naming("version", "newest")):
        SolrTarget(version="newest")
    with pytest.raises(ConfigError, match=naming("absent", "linear")):
        SolrTarget(absent="missing").export(shipped(Linear(np.ones(3))))
    limited = SolrTarget(version="8.11").export(
        shipped(of_one(InnerNode(0, 1.0, False, Leaf(1.0), Leaf(2.0))))
    )
    assert "absent=missing" in limited.limits[MISSING_VALUES]


def test_ranklib_is_given_the_number_of_each_name() -> None:
    export = RankLibTarget().export(shipped(ensemble_for_java()))
    assert next(iter(export.files)) == "model.xml"
    numbers = {f"feature {number}": number + 1 for number in range(3)}
    assert json.loads(export.files["features.json"]) == numbers
    assert export.request.startswith("java -jar RankLib.jar -load model.xml -rank test.txt -score scores.txt")


def tiny_model() -> tuple[ShippedModel, Features]:
    """Returns trees on features up to 2e-5, and 1,000 documents."""
    rng = np.random.default_rng(3)
    features = (rng.random((1000, 3)) * 2e-5).astype(np.float32)
    trees = []
    for _ in range(200):
        thresholds = [float(value) for value in rng.choice(features[:, 0], 2)]
        inner = InnerNode(1, thresholds[1], True, Leaf(rng.random()), Leaf(rng.random()))
        trees.append(WeightedTree(1.0, InnerNode(0, thresholds[0], True, inner, Leaf(rng.random()))))
    return shipped(Ensemble(tuple(trees), score_dtype="float32")), features


def with_naive_thresholds(content: bytes, model: ShippedModel) -> bytes:
    """Returns the model with its thresholds as they are, without correction and normalizers."""
    record = json.loads(content)
    for feature in record["features"]:
        feature.pop("norm", None)
    for tree, original in zip(record["params"]["trees"], model.trees("solr").trees, strict=True):
        waiting = [(tree["root"], original.root)]
        while waiting:
            written, node = waiting.pop()
            if isinstance(node, InnerNode):
                (written["threshold"],) = float32_texts(np.array([node.threshold]))
                waiting += [(written["left"], node.left), (written["right"], node.right)]
    return json.dumps(record).encode()


def test_features_near_1e_5_keep_their_scores_only_with_corrected_thresholds() -> None:
    model, features = tiny_model()
    target = SolrTarget()
    files = target.export(model).files
    expected = ensemble_scores(model.trees("solr"), features)
    naive = Export({"model.json": with_naive_thresholds(files["model.json"], model)}, "")
    changed = int((target.engine(model, naive).scores(features) != expected).sum())
    assert changed > len(features) // 2
    np.testing.assert_array_equal(scores_of(target, model, features), expected)


def test_a_linear_model_is_a_float32_sum_in_the_order_of_the_features() -> None:
    weights = np.array([0.1, 0.0, -2.0])
    features = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    features[0, 0] = np.nan
    model = shipped(Linear(weights))
    scores = scores_of(SolrTarget(), model, features)
    known = without_missing(features)
    expected = known[:, 0] * np.float32(0.1) + known[:, 2] * np.float32(-2)
    np.testing.assert_array_equal(scores, expected)
    assert set(SolrTarget().export(model).limits) == {MISSING_VALUES}


def test_answers_of_solr_are_read() -> None:
    answers = {"response": {"numFound": 2, "docs": [{"id": "1", "score": -1.5}, {"id": "2", "score": 3}]}}
    assert SolrTarget().answered_scores(answers) == {"1": -1.5, "2": 3.0}
    assert SolrTarget().answered_scores({"1": -1.5}) == {"1": -1.5}
    with pytest.raises(ValueError, match=naming("id", "score")):
        SolrTarget().answered_scores({"response": {"docs": [{"id": "1"}]}})
