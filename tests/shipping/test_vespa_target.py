"""Vespa: the written files, imported and scored as a content node does, have the scores of the model."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
from messages import naming
from shipped_models import certified, of_one, scores_of, shipped
from tree_cases import NUM_FEATURES, forest

from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError
from ltrbench.models.lightgbm_files import read_lightgbm_json
from ltrbench.models.trees import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.shipping.certificate import CERTIFIED, REFUSED
from ltrbench.shipping.target import MISSING_VALUES, Linear
from ltrbench.shipping.targets.vespa import (
    COMPILED,
    FAST_FOREST,
    FAST_FOREST_PROPERTY,
    VM_FOREST,
    WAYS,
    VespaTarget,
    names_in_vespa,
    way_of_vespa,
)

FILE, PROFILE = "a_model.json", "a_model.profile"


def imported(ensemble: Ensemble) -> Ensemble:
    content = VespaTarget().export(shipped(ensemble, NUM_FEATURES)).files[FILE]
    return read_lightgbm_json(
        content, {name: number for number, name in enumerate(names_of(NUM_FEATURES))}
    )


# Naive dumps


def names_of(num_features: int) -> list[str]:
    return [f"feature_{number}" for number in range(num_features)]


def test_the_certificate_refuses_the_dump_of_lightgbm_itself(tmp_path: Path) -> None:
    """Thresholds of LightGBM are just above the middle of two values; in float32 they are the middle."""
    splits = Synthetic(name="synthetic", num_queries=20).load()
    whole = np.round(np.array(splits.train.features)).astype(np.float32)
    halves = np.round(np.array(splits.test.features) * 2).astype(
        np.float32
    ) / np.float32(2)
    ranker = LightGBMRanker(num_trees=20).fit(replace(splits.train, features=whole))
    ensemble, data = ranker.trees(), replace(splits.test, features=halves)
    ranker.save(tmp_path)
    record = lgb.Booster(model_file=str(tmp_path / "model.txt")).dump_model()
    content = json.dumps(
        {**record, "feature_names": names_of(data.num_features)}
    ).encode()
    target = VespaTarget(fast_forest=True)
    certificate = certified(target, ensemble, data, {FILE: content})
    assert certificate.status == REFUSED
    assert "value equal to a threshold" in certificate.reason
    assert certified(target, ensemble, data).status == CERTIFIED


# How content nodes evaluate a sum


@pytest.mark.slow
def test_forests_of_more_than_25_000_leaves_are_a_vm_forest() -> None:
    large, small = (imported(forest(100, num_leaves=number)) for number in (251, 250))
    assert [way_of_vespa(trees, False) for trees in (large, small)] == [
        VM_FOREST,
        COMPILED,
    ]
    assert way_of_vespa(large, use_fast_forest=True) == FAST_FOREST
    assert way_of_vespa(imported(of_one(Leaf(0.5))), use_fast_forest=True) == COMPILED


def test_a_forest_is_summed_from_the_last_tree_to_the_third_and_then_the_first() -> (
    None
):
    leaves = [1e16, 1.0, -1e16, 3.0, 2.0**-40, 5.0, 7.0]
    trees = tuple(
        WeightedTree(1.0, InnerNode(0, 0.0, True, Leaf(x), Leaf(x))) for x in leaves
    )
    expected = 0.0
    for number in (6, 5, 4, 3, 2, 0, 1):
        expected += float(np.float32(leaves[number]))
    values = np.zeros((1, NUM_FEATURES), dtype=np.float32)
    assert WAYS[VM_FOREST].scores(imported(Ensemble(trees)), values).tolist() == [
        expected
    ]


# Linear models


def test_a_linear_model_is_a_ranking_expression() -> None:
    weights = np.array([0.1, 0.0, -1e-7, 1e20, 2.0, 3.0])
    model = shipped(Linear(weights), NUM_FEATURES)
    features = (
        np.random.default_rng(0).normal(size=(50, NUM_FEATURES)).astype(np.float32)
    )
    export = VespaTarget().export(model)
    profile = export.files[PROFILE].decode()
    assert next(iter(export.files)) == PROFILE
    assert "0.1 * feature_0 + -1e-07 * feature_2 + 1e+20 * feature_3" in profile
    assert "feature_1" not in profile
    assert set(export.limits) == {MISSING_VALUES}
    expected = sum(
        weight * features[:, index].astype(np.float64)
        for index, weight in enumerate(weights)
    )
    np.testing.assert_array_equal(scores_of(VespaTarget(), model, features), expected)


# Names and files


def test_names_become_rank_features_or_functions() -> None:
    names = [
        "bm25(title)",
        "fieldMatch(title).completeness",
        "nativeProximity",
        "price",
        "price-usd",
        "price usd",
        "price_usd",
    ]
    assert list(names_in_vespa(names).values()) == [
        *names[:4],
        "price_usd_2",
        "price_usd_3",
        "price_usd",
    ]
    assert [*names_in_vespa(["nativeRank?"]).values()] == ["feature_nativeRank"]
    assert list(names_in_vespa(["max", "if", "log(price)", "7", "ü", ""]).values()) == [
        *(
            "feature_max",
            "feature_if",
            "log_price",
            "feature_7",
            "feature",
            "feature_2",
        ),
    ]


def test_the_profile_ranks_with_the_model() -> None:
    export = VespaTarget(schema="music", phase="second", fast_forest=True).export(
        shipped(forest(2), NUM_FEATURES)
    )
    profile = export.files[PROFILE].decode()
    assert list(export.files) == [FILE, PROFILE, "features.json"]
    assert profile.startswith("rank-profile a_model inherits default {\n")
    assert (
        'second-phase {\n        expression: lightgbm("a_model.json")\n    }' in profile
    )
    assert (
        f"rank-properties {{\n        {FAST_FOREST_PROPERTY}: true\n    }}" in profile
    )
    assert f'cp {PROFILE} "$APPLICATION/schemas/music/"' in export.request
    other = (
        VespaTarget(form="xgboost")
        .export(shipped(forest(2), NUM_FEATURES))
        .files[PROFILE]
        .decode()
    )
    assert 'first-phase {\n        expression: xgboost("a_model.json")\n    }' in other
    assert "rank-properties" not in other


def test_rank_features_are_read_from_vespa_and_can_be_logged_for_training() -> None:
    names = ("nativeProximity", "queryTermCount", "price", "firstPhase", "bm25(title)")
    linear = Linear(np.array([1.0, 2.0, 3.0, 4.0, 0.0]))
    model = replace(shipped(linear, 5), feature_names=names)
    target = VespaTarget(phase="second")
    export = target.export(model)
    profile = export.files[PROFILE].decode()
    assert re.findall(r"function (\w+)", profile) == ["price"]
    (note,) = (note for note in export.notes if "match-features" in note)
    assert note.endswith("`match-features: nativeProximity queryTermCount firstPhase`")
    features = np.eye(5, dtype=np.float32)
    np.testing.assert_array_equal(scores_of(target, model, features), [1, 2, 3, 4, 0])
    with pytest.raises(ConfigError, match=naming("firstPhase", "phase=second")):
        VespaTarget().export(model)
    later = replace(model, feature_names=("secondPhase", *names[1:]))
    with pytest.raises(ConfigError, match=naming("secondPhase", "data.ignore")):
        target.export(later)
