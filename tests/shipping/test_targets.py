"""Every target: the written files, scored as the engine does, have the scores of the model."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from ensemble_cases import around_thresholds, ensemble_for_java, without_missing
from messages import naming
from shipped_models import (
    certified,
    every_target_and_version,
    of_one,
    random_data,
    scores_of,
    shipped,
    target_of,
)
from tree_cases import CASES, NUM_FEATURES, forest, values_around

from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError
from ltrbench.models.trees import (
    LARGEST_ZERO,
    ensemble_scores,
    flat,
    weighted_values,
)
from ltrbench.rankers import Ensemble, InnerNode, Leaf
from ltrbench.shapes import Features
from ltrbench.shipping.certificate import CERTIFIED
from ltrbench.shipping.target import (
    INFINITE_VALUES,
    LARGEST_VALUES,
    MISSING_VALUES,
    TINY_VALUES,
    Linear,
    ShippedModel,
    has_values,
)
from ltrbench.shipping.targets.c import CTarget
from ltrbench.shipping.targets.lightgbm import LightGBMTarget
from ltrbench.shipping.targets.ranklib import RankLibTarget
from ltrbench.shipping.targets.solr import SolrTarget


def largest_sum(ensemble: Ensemble) -> float:
    """Returns the base score and the largest absolute leaf value of each tree, added up."""
    leaves = (
        np.abs(
            weighted_values(flat(tree.root), tree.weight, ensemble.score_dtype)
        ).max()
        for tree in ensemble.trees
    )
    return abs(ensemble.base_score) + float(sum(leaves))


@pytest.mark.parametrize("case", CASES)
@every_target_and_version
def test_scores_are_those_of_the_model_to_the_last_bit_or_but_for_rounding(
    name: str, options: dict[str, Any], case: str
) -> None:
    """Documents with values that are limits of the target are left out."""
    if name == "solr" and case == "thresholds beyond float32, <":
        pytest.skip(
            "thresholds of a feature range over more than 40 orders of magnitude"
        )
    ensemble, target = CASES[case], target_of(name, options)
    features = values_around(ensemble)
    model = shipped(ensemble, NUM_FEATURES)
    export = target.export(model)
    engine = target.engine(model, export)
    assert engine is not None
    features = features[~has_values(export.limits, ensemble, features)]
    scores, expected = engine.scores(features), ensemble_scores(ensemble, features)
    assert scores.dtype == np.dtype(engine.score_dtype)
    assert not export.offset or (scores >= 0).all()
    if engine.is_in_order and engine.score_dtype == ensemble.score_dtype:
        offset = scores.dtype.type(export.offset)
        np.testing.assert_array_equal(scores, expected + offset if offset else expected)
    steps = (len(ensemble.trees) + 2) * 2.0**-24
    bound = steps * (largest_sum(ensemble) + export.offset)
    np.testing.assert_allclose(scores - export.offset, expected, rtol=0, atol=bound)


@pytest.mark.parametrize("name", ["onnx", "treelite", "c"])
def test_a_score_does_not_depend_on_the_batch(name: str) -> None:
    target, ensemble = target_of(name, {}), forest(120, base_score=0.3)
    features = values_around(ensemble, 1200)
    expected = ensemble_scores(ensemble, features)
    for size in (1, 20, 51, 129, 1200):
        scores = scores_of(target, shipped(ensemble, NUM_FEATURES), features[:size])
        np.testing.assert_array_equal(scores, expected[:size])


# Values that engines treat in another way


@pytest.mark.parametrize("missing_left", [True, False])
@pytest.mark.parametrize("threshold", [1e300, math.inf])
@pytest.mark.parametrize("name", ["elasticsearch", "opensearch", "vespa", "xgboost"])
def test_a_split_that_separates_missing_values_limits_infinity_only(
    name: str, threshold: float, missing_left: bool
) -> None:
    """Vespa has thresholds above all float32, but no infinite ones."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 2)).astype(np.float32)
    features[rng.random(60) < 0.4, 0] = np.nan
    left = InnerNode(1, 0.5, True, Leaf(0.0), Leaf(1.0))
    ensemble = of_one(
        InnerNode(0, threshold, missing_left, left, Leaf(2.0)),
        threshold_dtype="float64",
    )
    options = {"absent": "missing"} if name in ("elasticsearch", "opensearch") else {}
    certificate = certified(target_of(name, options), ensemble, random_data(features))
    assert certificate.status == CERTIFIED
    is_exact = name == "vespa" and threshold < math.inf
    assert set(certificate.limits) == (set() if is_exact else {INFINITE_VALUES})


@pytest.mark.parametrize("name", ["ranklib", "solr"])
def test_missing_values_are_limited_only_if_the_model_sends_them_elsewhere_than_zero(
    name: str,
) -> None:
    target = target_of(name, {})
    for threshold in (-1.0, 0.0, 1.0):
        for missing_left in (False, True):
            ensemble = of_one(
                InnerNode(0, threshold, missing_left, Leaf(1.0), Leaf(2.0))
            )
            rows = np.array([[0, 0, 0], [np.nan, 0, 0]], dtype=np.float32)
            zero, missing = scores_of(target, shipped(ensemble), rows)
            assert zero == missing
            limits = target.export(shipped(ensemble)).limits
            assert (MISSING_VALUES in limits) == (
                missing != ensemble_scores(ensemble, rows)[1]
            )


def stump(threshold: float, **options: bool) -> Ensemble:
    return of_one(InnerNode(0, threshold, False, Leaf(1.0), Leaf(2.0), **options))


@pytest.mark.parametrize(
    ("ensemble", "is_limited"),
    [
        (stump(0.0), True),
        (stump(-LARGEST_ZERO), True),
        (stump(LARGEST_ZERO), False),
        (replace(stump(0.0), comparison="<"), True),
        (stump(0.5), False),
        (stump(0.0, zero_missing=True), False),
    ],
)
def test_tiny_values_are_a_limit_of_lightgbm_where_a_split_has_them_and_0_on_two_sides(
    ensemble: Ensemble, is_limited: bool
) -> None:
    certificate = certified(
        LightGBMTarget(), ensemble, Synthetic(name="s", num_queries=12).load().test
    )
    assert (TINY_VALUES in certificate.limits) == is_limited
    assert (certificate.status, certificate.reason) == (CERTIFIED, "")


# LightGBM, ONNX, C, RankLib


def test_without_a_compiler_c_source_is_not_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    model = shipped(forest(1), NUM_FEATURES)
    assert CTarget().engine(model, CTarget().export(model)) is None


def test_ranklib_is_given_the_number_of_each_name() -> None:
    export = RankLibTarget().export(shipped(ensemble_for_java()))
    assert next(iter(export.files)) == "model.xml"
    numbers = {f"feature {number}": number + 1 for number in range(3)}
    assert json.loads(export.files["features.json"]) == numbers


# Solr


@pytest.mark.slow
@pytest.mark.parametrize("comparison", ["<=", "<"])
@pytest.mark.parametrize("scale", [1e-12, 1e-5, 1e9])
def test_thresholds_of_any_magnitude_are_exact_in_solr(
    comparison: Any, scale: float
) -> None:
    ensemble = ensemble_for_java(comparison=comparison, scale=scale)
    features = around_thresholds(ensemble, 3)
    expected = ensemble_scores(ensemble, without_missing(features))
    np.testing.assert_array_equal(
        scores_of(SolrTarget(), shipped(ensemble), features), expected
    )


def test_solr_needs_a_version_and_trees_for_missing_values() -> None:
    for version in ("8.11", "9.1.1"):
        with pytest.raises(ConfigError, match=naming("missing", version, "9.2")):
            SolrTarget(version=version, absent="missing")
    with pytest.raises(ConfigError, match=naming("version", "newest")):
        SolrTarget(version="newest")
    with pytest.raises(ConfigError, match=naming("absent", "linear")):
        SolrTarget(absent="missing").export(shipped(Linear(np.ones(3))))
    limits = SolrTarget(version="8.11").export(shipped(stump(1.0))).limits
    assert "absent=missing" in limits[MISSING_VALUES]


# Names of features


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_a_library_reads_the_names_of_features_beyond_ascii(name: str) -> None:
    names = ("größe", "日本", "plain")
    stump = InnerNode(1, 0.5, True, left=Leaf(1.0), right=Leaf(2.0))
    model = replace(shipped(of_one(stump)), feature_names=names)
    target = target_of(name, {})
    (content,) = target.export(model).files.values()
    if name == "xgboost":
        read = xgb.Booster(model_file=bytearray(content)).feature_names
    else:
        read = lgb.Booster(model_str=content.decode()).feature_name()
    assert tuple(read or ()) == names
    assert target.engine(model, target.export(model)) is not None


def test_a_name_that_xgboost_reads_otherwise_is_refused() -> None:
    stump = InnerNode(0, 0.5, True, left=Leaf(1.0), right=Leaf(2.0))
    model = replace(shipped(of_one(stump)), feature_names=("a\x01b", "b", "c"))
    target = target_of("xgboost", {})
    with pytest.raises(ConfigError, match=naming("XGBoost", repr("a\x01b"))):
        target.engine(model, target.export(model))


# Linear models


def linear(*weights: float) -> ShippedModel:
    return shipped(Linear(np.array(weights)), len(weights))


@pytest.mark.parametrize("name", ["elasticsearch", "opensearch", "solr"])
def test_a_linear_model_is_a_float32_sum_in_the_order_of_the_features(
    name: str,
) -> None:
    features: Features = np.random.default_rng(0).random((100, 3)).astype(np.float32)
    features[0] = np.nan
    known = without_missing(features)
    target, model = target_of(name, {}), linear(0.1, 0.0, -2.0)
    expected = known[:, 0] * np.float32(0.1) + known[:, 2] * np.float32(-2)
    np.testing.assert_array_equal(scores_of(target, model, features), expected)
    assert set(target.export(model).limits) == {MISSING_VALUES, LARGEST_VALUES}


# Answers of servers

ANSWERS: dict[str, tuple[Any, Any]] = {
    "elasticsearch": (
        {
            "took": 1,
            "hits": {
                "hits": [{"_id": "d1", "_score": 1.5}, {"_id": "d2", "_score": 2}]
            },
        },
        {"hits": {"hits": [{"_id": "d1"}]}},
    ),
    "solr": (
        {
            "response": {
                "docs": [
                    {"id": "ltrbench-check-d1", "score": 1.5},
                    {"id": "d2", "score": 2},
                ]
            }
        },
        {"response": {"docs": [{"id": "d1"}]}},
    ),
    "vespa": (
        {
            "root": {
                "children": [
                    {"id": "id:shop:music::d1", "relevance": 1.5},
                    {"id": "d2", "relevance": 2},
                ]
            }
        },
        {"root": {"children": [{"id": "d1"}]}},
    ),
}
"""Target -> an answer, and one without a score."""


@pytest.mark.parametrize("name", ANSWERS)
def test_scores_are_read_from_the_answer_of_a_search(name: str) -> None:
    target, (answer, without_score) = target_of(name, {}), ANSWERS[name]
    assert target.answered_scores(answer) == {"d1": 1.5, "d2": 2.0}
    assert target.answered_scores({"d1": 1.5}) == {"d1": 1.5}
    refused: list[Any] = [without_score, [], {"d1": "1"}]
    for other in refused:
        with pytest.raises(ValueError, match="expected"):
            target.answered_scores(other)
