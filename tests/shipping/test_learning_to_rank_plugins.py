"""Elasticsearch and OpenSearch: the uploaded models, read and scored as their plug-ins do."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from ensemble_cases import random_ensemble
from messages import naming
from shipped_models import of_one, scores_of, shipped

from ltrbench.errors import ConfigError
from ltrbench.models.trees import Node
from ltrbench.rankers import InnerNode, Leaf
from ltrbench.shipping.target import MISSING_VALUES
from ltrbench.shipping.targets.elasticsearch import ElasticsearchTarget, above_zero
from ltrbench.shipping.targets.opensearch import OpenSearchTarget

TARGETS: tuple[ElasticsearchTarget, ...] = (
    ElasticsearchTarget(absent="missing"),
    OpenSearchTarget(absent="missing"),
    OpenSearchTarget(version="3.5"),
    ElasticsearchTarget(version="8.9.2"),
)


def test_the_offset_is_above_the_smallest_sum_and_at_most_an_eighth_larger() -> None:
    trees = random_ensemble(30)
    of_trees = (min(values_of(tree.root)) * tree.weight for tree in trees.trees)
    smallest = -sum(of_trees, start=trees.base_score)
    assert smallest < above_zero(trees)[1] < smallest * 1.125
    assert above_zero(of_one(Leaf(0.0)))[1] == above_zero(of_one(Leaf(2.0)))[1] == 0


def values_of(root: Node) -> list[float]:
    return (
        [root.value]
        if isinstance(root, Leaf)
        else values_of(root.left) + values_of(root.right)
    )


# Missing values and zeros


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
    model = shipped(of_one(node))
    assert (
        tuple(MISSING_VALUES in target.export(model).limits for target in TARGETS)
        == limited
    )
    absent = np.full((1, 3), np.nan, dtype=np.float32)
    right = 1.0 if missing_left else 2.0
    scores = [float(scores_of(target, model, absent)[0]) for target in TARGETS]
    assert [score != right for score in scores] == list(limited)


@pytest.mark.parametrize("target", TARGETS[:2], ids=["es", "os"])
@pytest.mark.parametrize("has_missing", [True, None])
def test_a_choice_is_required_if_the_training_data_may_have_missing_values(
    target: ElasticsearchTarget, has_missing: bool | None
) -> None:
    model = replace(shipped(random_ensemble()), has_missing_values=has_missing)
    with pytest.raises(
        ConfigError,
        match=naming("a_model", "--set absent=zero", "--set absent=missing"),
    ):
        replace(target, absent=None).export(model)
    default = replace(target, absent=None).export(shipped(random_ensemble()))
    assert (
        default.files
        == replace(target, absent="zero").export(shipped(random_ensemble())).files
    )


def test_versions_differ_in_absent_features() -> None:
    zero, right, missing = ("zero", "right", "missing")
    of_opensearch = {
        "2.19": zero,
        "3.1.0": zero,
        "3.2": right,
        "3.7": right,
        "3.8": missing,
        "3.10": missing,
    }
    for version, meaning in of_opensearch.items():
        assert OpenSearchTarget(version=version).absent_features == meaning
    for version, meaning in {
        "7.17.10": zero,
        "8.9.2": zero,
        "8.11.4": missing,
        "9.0.3": missing,
    }.items():
        assert ElasticsearchTarget(version=version).absent_features == meaning


# RankLib's format


def test_ranklibs_format_is_a_text_with_features_by_their_number() -> None:
    target = OpenSearchTarget(form="ranklib", version="3.5")
    model = shipped(of_one(InnerNode(1, 0.5, True, Leaf(-1.0), Leaf(1.0))))
    export = target.export(model)
    assert list(export.files) == ["model.xml", "upload.json", "featureset.json"]
    record = json.loads(export.files["upload.json"])["model"]["model"]
    assert record == {
        "type": "model/ranklib",
        "definition": export.files["model.xml"].decode(),
    }
    assert record["definition"].startswith("## LambdaMART\n")
    assert "<feature> 2 </feature>" in record["definition"]
    assert any("order" in note and "featureset.json" in note for note in export.notes)
    # The smallest score is -1, and the bound is above it by rounding.
    assert 1 < export.offset <= 1.125


# Uploads


@pytest.mark.parametrize("target", TARGETS[:2], ids=["es", "os"])
def test_the_upload_has_the_definition_as_text_and_the_feature_set_its_names(
    target: ElasticsearchTarget,
) -> None:
    model = replace(
        shipped(of_one(InnerNode(1, 0.5, True, Leaf(-1.0), Leaf(1.0)))),
        feature_names=("ü", '"', "c d"),
    )
    export = target.export(model)
    assert list(export.files) == ["model.json", "upload.json", "featureset.json"]
    upload = json.loads(export.files["upload.json"])
    definition = export.files["model.json"].decode()
    assert upload == {
        "model": {
            "name": "a_model",
            "model": {"type": "model/xgboost+json", "definition": definition},
        }
    }
    feature_set = json.loads(export.files["featureset.json"])["featureset"]
    assert [feature["name"] for feature in feature_set["features"]] == list(
        model.feature_names
    )
    assert f"/_ltr/_featureset/{feature_set['name']}/_createmodel" in export.request
