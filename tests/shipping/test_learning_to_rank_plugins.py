"""Elasticsearch and OpenSearch: the uploaded models, read and scored as their plug-ins do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ensemble_cases import (
    around_thresholds,
    random_ensemble,
)
from messages import naming

from ltrbench.errors import ConfigError
from ltrbench.models.trees import LARGEST_ZERO, Node, ensemble_scores
from ltrbench.rankers import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.shapes import Features
from ltrbench.shipping.target import MISSING_VALUES, Export, Linear, ShippedModel
from ltrbench.shipping.targets.elasticsearch import ElasticsearchTarget, above_zero, with_absent_as_zero
from ltrbench.shipping.targets.opensearch import OpenSearchTarget

TARGETS: tuple[ElasticsearchTarget, ...] = (
    ElasticsearchTarget(absent="missing"),
    OpenSearchTarget(absent="missing"),
    OpenSearchTarget(version="3.5"),
    ElasticsearchTarget(version="8.9.2"),
)
every_target = pytest.mark.parametrize("target", TARGETS, ids=["es", "os", "os 3.5", "es 8.9"])


JSON = "-H 'Content-Type: application/json'"


def shipped(scorer: Ensemble | Linear, num_features: int = 3) -> ShippedModel:
    return ShippedModel("a_model", tuple(f"feature {number}" for number in range(num_features)), scorer)


def of_one(root: Node, **options: Any) -> Ensemble:
    return Ensemble((WeightedTree(1.0, root),), **options)


def scores_of(target: ElasticsearchTarget, model: ShippedModel, features: Features) -> np.ndarray:
    return target.engine(model, target.export(model)).scores(features)


def check_scores(target: ElasticsearchTarget, ensemble: Ensemble, features: Features) -> None:
    """Checks that float32 scores are the reference plus the offset, and others but for rounding."""
    model = shipped(ensemble, features.shape[1])
    export = target.export(model)
    scores = target.engine(model, export).scores(features)
    assert scores.dtype == np.float32
    assert (scores >= 0).all()
    reference = ensemble_scores(ensemble, features)
    if ensemble.score_dtype == "float32":
        np.testing.assert_array_equal(scores, reference + np.float32(export.offset))
    largest = max(export.offset, float(np.abs(scores).max()))
    rounding = (len(ensemble.trees) + 2) * 2.0**-24 * largest
    np.testing.assert_allclose(scores - export.offset, reference, rtol=0, atol=rounding)


@every_target
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_values_next_to_thresholds_reach_their_leaves(
    target: ElasticsearchTarget, comparison: str, dtype: str
) -> None:
    ensemble = random_ensemble(comparison=comparison, dtype=dtype)
    features = around_thresholds(ensemble, 3)
    if target.absent_features != "missing":
        features = np.where(np.isnan(features), np.float32(0.5), features)
    check_scores(target, ensemble, features)


@pytest.mark.parametrize("threshold", [0.0, 0.1, 1e-45, -1e300])
def test_a_threshold_between_two_float32_stays_between_them(threshold: float) -> None:
    ensemble = of_one(InnerNode(0, threshold, False, Leaf(-1.0), Leaf(1.0)), threshold_dtype="float64")
    check_scores(OpenSearchTarget(absent="missing"), ensemble, around_thresholds(ensemble, 1))


def test_the_offset_is_above_the_smallest_sum_and_at_most_an_eighth_larger() -> None:
    trees = random_ensemble(30)
    smallest = -sum(float((np.array(list(values_of(tree.root))) * tree.weight).min()) for tree in trees.trees)
    assert smallest < above_zero(trees)[1] < smallest * 1.125
    assert above_zero(of_one(Leaf(0.0)))[1] == above_zero(of_one(Leaf(2.0)))[1] == 0


def values_of(root: Node) -> list[float]:
    return [root.value] if isinstance(root, Leaf) else values_of(root.left) + values_of(root.right)


# Missing values and zeros


def limits_of(target: ElasticsearchTarget, node: InnerNode, **options: Any) -> set[str]:
    return set(target.export(shipped(of_one(node, **options))).limits)


@pytest.mark.parametrize(
    ("threshold", "missing_left", "limited"),
    [  # the targets of TARGETS: does a missing value go elsewhere?
        (0.5, True, (False, False, True, False)),
        (0.5, False, (False, False, False, True)),
        (-0.5, True, (False, False, True, True)),
        (-0.5, False, (False, False, False, False)),
        (0.0, True, (False, False, True, False)),
    ],
)
def test_a_limit_names_missing_values_that_go_elsewhere(
    threshold: float, missing_left: bool, limited: tuple[bool, ...]
) -> None:
    node = InnerNode(0, threshold, missing_left, Leaf(1.0), Leaf(2.0))
    assert tuple(MISSING_VALUES in limits_of(target, node) for target in TARGETS) == limited
    absent = np.full((1, 3), np.nan, dtype=np.float32)
    right = 1.0 if missing_left else 2.0
    scores = [float(scores_of(target, shipped(of_one(node)), absent)[0]) for target in TARGETS]
    assert [score != right for score in scores] == list(limited)


@pytest.mark.parametrize("missing_left", [True, False])
@pytest.mark.parametrize("threshold", [0.5, -0.5])
def test_zeros_that_count_as_missing_go_where_missing_values_go(threshold: float, missing_left: bool) -> None:
    node = InnerNode(0, threshold, missing_left, Leaf(1.0), Leaf(2.0), zero_missing=True)
    values = [0.0, -0.0, LARGEST_ZERO, -LARGEST_ZERO, 1e-30, -1e-30, 1.0, -1.0]
    features = np.repeat(np.array(values, dtype=np.float32)[:, None], 3, axis=1)
    for target in TARGETS:
        check_scores(target, of_one(node), features)


@pytest.mark.parametrize("target", TARGETS[:2], ids=["es", "os"])
@pytest.mark.parametrize("has_missing", [True, None])
def test_a_choice_is_required_if_the_training_data_may_have_missing_values(
    target: ElasticsearchTarget, has_missing: bool | None
) -> None:
    model = replace(shipped(random_ensemble()), has_missing_values=has_missing)
    with pytest.raises(ConfigError, match=naming("a_model", "--set absent=zero", "--set absent=missing")):
        replace(target, absent=None).export(model)
    default = replace(target, absent=None).export(shipped(random_ensemble()))
    assert default.files == replace(target, absent="zero").export(shipped(random_ensemble())).files


@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_a_missing_value_goes_where_zero_goes(comparison: str) -> None:
    for threshold in (-1.0, 0.0, 1.0):
        trees = of_one(InnerNode(0, threshold, True, Leaf(1.0), Leaf(2.0)), comparison=comparison)
        values = np.array([[0.0], [np.nan]], dtype=np.float32)
        zero, missing = ensemble_scores(with_absent_as_zero(trees), values)
        assert zero == missing == ensemble_scores(trees, values)[0]


def test_versions_of_opensearch_differ_in_absent_features() -> None:
    versions = ("2.19", "3.1.0", "3.2", "3.7", "3.8", "3.10", "4.0")
    meanings = [OpenSearchTarget(version=version).absent_features for version in versions]
    assert meanings == ["zero", "zero", "right", "right", "missing", "missing", "missing"]


def test_versions_of_elasticsearch_differ_in_absent_features() -> None:
    versions = ("7.17.10", "8.9.2", "8.11.4", "8.18", "9.0.3")
    meanings = [ElasticsearchTarget(version=version).absent_features for version in versions]
    assert meanings == ["zero", "zero", "missing", "missing", "missing"]


# RankLib's format

ranklib_targets = pytest.mark.parametrize(
    "target",
    [
        ElasticsearchTarget(form="ranklib"),
        OpenSearchTarget(form="ranklib"),
        OpenSearchTarget(form="ranklib", version="3.5"),
    ],
    ids=["es", "os", "os 3.5"],
)


@ranklib_targets
def test_ranklibs_format_is_a_text_with_features_by_their_place(target: ElasticsearchTarget) -> None:
    model = shipped(of_one(InnerNode(1, 0.5, True, Leaf(-1.0), Leaf(1.0))))
    export = target.export(model)
    assert list(export.files) == ["model.xml", "upload.json", "featureset.json"]
    record = json.loads(export.files["upload.json"])["model"]["model"]
    assert record == {"type": "model/ranklib", "definition": export.files["model.xml"].decode()}
    assert record["definition"].startswith("## LambdaMART\n")
    assert "<feature> 2 </feature>" in record["definition"]
    assert any("order" in note and "featureset.json" in note for note in export.notes)
    # The smallest score is -1, and the bound is above it by rounding.
    assert 1 < export.offset <= 1.125


# Linear models


@every_target
def test_linear_models_sum_weights_times_features_in_float32(target: ElasticsearchTarget) -> None:
    weights = np.array([0.1, 0.0, 1e-3])
    features = np.random.default_rng(8).random((50, 3)).astype(np.float32)
    model = shipped(Linear(weights))
    expected = np.zeros(50, dtype=np.float32)
    for feature, weight in enumerate(weights.astype(np.float32)):
        expected += weight * features[:, feature]
    np.testing.assert_array_equal(scores_of(target, model, features), expected)
    features[0] = np.nan
    assert scores_of(target, model, features)[0] == 0
    export = target.export(model)
    assert MISSING_VALUES in export.limits
    assert json.loads(export.files["upload.json"])["model"]["model"]["type"] == "model/linear"


# Uploads


@every_target
def test_the_upload_has_the_definition_as_text_and_the_feature_set_its_names(
    target: ElasticsearchTarget,
) -> None:
    model = replace(
        shipped(of_one(InnerNode(1, 0.5, True, Leaf(-1.0), Leaf(1.0)))), feature_names=("ü", '"', "c d")
    )
    export = target.export(model)
    assert list(export.files) == ["model.json", "upload.json", "featureset.json"]
    upload = json.loads(export.files["upload.json"])
    definition = export.files["model.json"].decode()
    assert upload == {
        "model": {"name": "a_model", "model": {"type": "model/xgboost+json", "definition": definition}}
    }
    feature_set = json.loads(export.files["featureset.json"])["featureset"]
    assert [feature["name"] for feature in feature_set["features"]] == list(model.feature_names)
    store, features, creation = export.request.splitlines()
    assert store.endswith('/_ltr"')
    assert features.endswith(
        f'/_ltr/_featureset/{feature_set["name"]}" {JSON} --data-binary @featureset.json'
    )
    assert f"/_ltr/_featureset/{feature_set['name']}/_createmodel" in creation
    assert "@upload.json" in creation
    assert any("featureset.json" in note and "template" in note for note in export.notes)


def test_scores_are_read_from_the_answer_of_a_search() -> None:
    hits = [{"_id": "d1", "_score": 1.5, "_source": {}}, {"_id": "d2", "_score": 2}]
    target = ElasticsearchTarget(absent="missing")
    assert target.answered_scores({"took": 1, "hits": {"hits": hits}}) == {"d1": 1.5, "d2": 2.0}
    assert target.answered_scores({"d1": 1.5}) == {"d1": 1.5}
    answers: list[Any] = [{"hits": {"hits": [{"_id": "d1", "_score": None}]}}, {"hits": {}}, [], {"a": "b"}]
    for answer in answers:
        with pytest.raises(ValueError, match="expected"):
            target.answered_scores(answer)


def test_the_engine_reads_the_written_files() -> None:
    model = shipped(of_one(Leaf(1.0)))
    export = ElasticsearchTarget(absent="missing").export(model)
    upload = json.loads(export.files["upload.json"])
    upload["model"]["model"]["definition"] = '[{"nodeid":0,"leaf":3.0}]'
    other = Export({**export.files, "upload.json": json.dumps(upload).encode()}, export.request)
    scores = (
        ElasticsearchTarget(absent="missing").engine(model, other).scores(np.zeros((1, 3), dtype=np.float32))
    )
    assert scores.tolist() == [3.0]
