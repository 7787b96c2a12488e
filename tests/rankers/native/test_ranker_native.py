"""The native backend, beyond the Ranker contract, which test_conformance.py tests."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming

from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import make_synthetic
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.native.objectives.lambdarank import LambdaRank
from ltrbench.rankers.base import EarlyStopping, Iteration, concerns_of
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.shapes import Scores


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_synthetic(num_queries=80, seed=3)


@pytest.fixture(scope="module")
def valid() -> RankingDataset:
    return make_synthetic(num_queries=40, seed=4)


GOSS = {"goss_top_rate": 0.2, "goss_other_rate": 0.1}


OF_PAIRS = {item.name for item in dataclasses.fields(LambdaRank)}


def small(**fields: Any) -> NativeRanker:
    """A ranker with these settings, of which those of lambdarank are in its objective."""
    of_pairs = {name: fields.pop(name) for name in OF_PAIRS & fields.keys()}
    if of_pairs:
        fields["objective"] = LambdaRank(**of_pairs)
    return NativeRanker(**({"num_trees": 8, "num_leaves": 7} | fields))


EACH_ALONE: list[dict[str, Any]] = [
    {
        "learning_rate": 0.3,
        "num_leaves": 3,
        "min_docs_in_leaf": 300,
        "min_docs_in_split": 3000,
    },
    {
        "min_sum_hessian": 30.0,
        "min_split_gain": 20.0,
        "max_delta_step": 0.1,
        "l2": 50.0,
        "l1": 5.0,
    },
    {
        "truncation": 1,
        "sigma": 2.0,
        "normalize_distance": False,
        "normalize_query": False,
        "ties": "worst",
    },
    {
        "objective": "ranknet",
        "metric": "err",
        "gain": "linear",
        "label_gain": [0.0, 1.0, 2.0, 3.0, 10.0],
    },
    {
        "sigmoid": "table",
        "distance_offset": 1.0,
        "hessian_factor": 2.0,
        "least_hessian": 0.2,
    },
    {
        "float32_scores": True,
        "float32_sums": True,
        "float32_norm": True,
        "max_bins": 4,
        "max_depth": 2,
    },
    {
        "binning": "equal_width",
        "split_criterion": "least_squares",
        "leaf_value": "mean",
    },
    {
        "growth": "by_deviance",
        "sigmoid": "float32",
        "drop_rate": 0.5,
        "monotone": {"bm25_title": -1},
    },
    {"queries_per_tree": 0.5, "documents_per_tree": 0.5, "features_per_tree": "sqrt"},
    {"growth": "depth_wise", "features_per_split": "log2"},
]
TOGETHER: list[dict[str, Any]] = [
    {"pairs_per_document": 2, "query_norm": "pairs"},
    {"learning_rate": 0.3} | GOSS,
]


@pytest.fixture(scope="module")
def default_scores(data: RankingDataset) -> Scores:
    return small().fit(data).predict(data.features)


@pytest.mark.parametrize(
    "fields",
    [*({name: value} for row in EACH_ALONE for name, value in row.items()), *TOGETHER],
    ids=str,
)
def test_every_setting_changes_the_model(
    data: RankingDataset, default_scores: Scores, fields: dict[str, Any]
) -> None:
    assert (small(**fields).fit(data).predict(data.features) != default_scores).any()


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"min_docs_in_split": 1}, ("min_docs_in_split is 1", "at least 2")),
        ({"learning_rate": "0.1"}, ("learning_rate", "'0.1'", "a number")),
        ({"num_leaves": 7.5}, ("num_leaves", 7.5, "a whole number")),
        ({"l2": [1]}, ("l2", "[1]", "a number")),
        ({"cut_without_gain": "no"}, ("cut_without_gain", "'no'", "True or False")),
        (
            {"cut_without_gain": True, "min_split_gain": 0.5},
            ("min_split_gain is 0.5", "cut_without_gain"),
        ),
        ({"metric": "ndcg@0"}, ("ndcg@0", 1)),
        (
            {"highest_grade": 2.0},
            ("highest_grade", 2.0, "metric=ndcg", "highest_grade=4.0", "err"),
        ),
        (
            {"metric": "map", "gain": "linear"},
            ("gain", "linear", "metric=map", "gain=exponential"),
        ),
        (
            {"objective": "xendcg", "truncation": 5},
            ("truncation is 5", "set truncation=null"),
        ),
        (
            {"pairs_per_document": 2, "truncation": 5},
            ("pairs_per_document is 2", "truncation is 5"),
        ),
        (
            {"query_norm": "pairs"},
            ("query_norm", "pairs", "pairs_per_document", "query_norm=log2"),
        ),
        (
            {"label_gain": [0.0, 1.0], "gain": "linear"},
            ("label_gain is [0.0, 1.0]", "gain=linear"),
        ),
        ({"label_gain": [0.0, 2.0, 1.0]}, ("gain", "decrease", "2.0, 1.0")),
        (
            {"documents_per_tree": 1.5},
            ("documents_per_tree is 1.5", "above 0", "up to 1", "from 2"),
        ),
        ({"monotone": {"age": 2}}, ("monotone.age", 2, "1, -1")),
        (
            {"monotone": {"age": 1}, "split_criterion": "least_squares"},
            ("monotone", "leaf_value=mean"),
        ),
        (
            {"goss_top_rate": 0.7, "goss_other_rate": 0.6},
            ("goss_top_rate + goss_other_rate", "1.29"),
        ),
        (
            GOSS | {"documents_per_tree": 0.5},
            ("goss_top_rate", "documents_per_tree=0.5"),
        ),
        ({"skip_drop": 0.5}, ("skip_drop is 0.5", "drop_rate=0.0")),
        ({"max_drop": 50}, ("max_drop is 50", "drop_rate=0.0")),
        ({"drop_by_weight": True}, ("drop_by_weight is True", "drop_rate=0.0")),
        ({"drop_normalize": "mean"}, ("drop_normalize is mean", "drop_rate=0.0")),
        (
            {"resample_every": 5},
            ("resample_every is 5", "queries_per_tree=1.0", "documents_per_tree=1.0"),
        ),
        (
            {"distance_offset": 0.5, "normalize_distance": False},
            ("distance_offset is 0.5", "normalize_distance=false"),
        ),
        (
            {
                "query_norm": "pairs",
                "normalize_query": False,
                "pairs_per_document": 2,
            },
            ("query_norm is pairs", "normalize_query=false"),
        ),
        (
            {"position_bias_l2": 1.0},
            ("position_bias_l2", 1.0, "position_bias to additive"),
        ),
        (
            {"position_bias": "propensity", "metric": "map"},
            ("lambdarank", "metric=ndcg", "additive"),
        ),
    ],
)
def test_an_unsupported_setting_is_refused(
    fields: dict[str, Any], parts: tuple[object, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        small(**fields)


def test_labels_that_an_objective_cannot_learn_from_are_refused_before_the_fit(
    data: RankingDataset,
) -> None:
    high = replace(data, labels=data.labels + 3.0)
    assert not concerns_of(small(), data)
    (concern,) = concerns_of(small(objective=LambdaRank(metric="err")), high)
    assert concern.startswith("Refused: labels[")
    with pytest.raises(DataError, match=naming("labels[", "ERR", 4, "highest_grade")):
        small(objective=LambdaRank(metric="err")).fit(high)


@pytest.fixture(scope="module")
def clicked(data: RankingDataset) -> RankingDataset:
    return replace(data, positions=data.ranks_of_rows)


@pytest.mark.parametrize(
    ("fields", "varied"),
    [
        ({}, {"position_bias": "additive"}),
        ({}, {"position_bias": "propensity"}),
        ({"position_bias": "additive"}, {"position_bias_l2": 1.0}),
        ({"position_bias": "propensity"}, {"position_bias_norm": 0.1}),
        ({"position_bias": "propensity"}, {"position_bias_cost": "logistic"}),
        ({"position_bias": "additive", "objective": "xendcg"}, {"seed": 1}),
        ({"metric": "map"}, {"relevance_threshold": 3.0}),
        ({"metric": "err"}, {"highest_grade": 6.0}),
        ({"pairs_per_document": 1}, {"seed": 1}),
    ],
)
def test_a_setting_of_one_objective_or_correction_changes_its_model(
    clicked: RankingDataset, fields: dict[str, Any], varied: dict[str, Any]
) -> None:
    one, other = small(**fields).fit(clicked), small(**fields, **varied).fit(clicked)
    assert (one.predict(clicked.features) != other.predict(clicked.features)).any()


@pytest.mark.parametrize("correction", ["additive", "propensity"])
def test_position_factors_are_saved_continued_and_trimmed_with_the_trees(
    clicked: RankingDataset, tmp_path: Path, correction: str
) -> None:
    first = small(num_trees=4, position_bias=correction).fit(clicked)
    first.save(tmp_path)
    loaded = NativeRanker.load(tmp_path)
    continued = small(
        num_trees=8, position_bias=correction, warm_start=str(tmp_path)
    ).fit(clicked)
    whole = small(num_trees=8, position_bias=correction).fit(clicked)
    rule = EarlyStopping("ndcg@1", patience=2)
    trimmed = small(num_trees=60, position_bias=correction, early_stopping=rule).fit(
        clicked, clicked
    )
    assert trimmed.summary is not None
    assert trimmed.summary.num_trees != trimmed.summary.num_iterations
    as_trimmed = trimmed.clean_copy().fit(clicked)
    for name, values in whole.position_factors.items():
        np.testing.assert_array_equal(
            loaded.position_factors[name], first.position_factors[name]
        )
        np.testing.assert_array_equal(continued.position_factors[name], values)
        np.testing.assert_array_equal(
            as_trimmed.position_factors[name], trimmed.position_factors[name]
        )
    np.testing.assert_array_equal(
        continued.predict(clicked.features), whole.predict(clicked.features)
    )


@pytest.mark.parametrize("fields", [{}, {"drop_rate": 0.4}, {"queries_per_tree": 0.5}])
def test_a_model_continues_where_it_was_saved(
    data: RankingDataset, tmp_path: Path, fields: dict[str, Any]
) -> None:
    (tmp_path / "model").mkdir()
    first = small(num_trees=5, **fields).fit(data)
    first.save(tmp_path / "model")
    numbers: list[int] = []
    # Given by the folder of the run, and by the folder of the model.
    whole, by_model = (
        small(num_trees=10, warm_start=str(folder), **fields).fit(
            data, on_iteration=lambda iteration: numbers.append(iteration.number)
        )
        for folder in (tmp_path, tmp_path / "model")
    )
    assert numbers == [6, 7, 8, 9, 10] * 2
    assert whole.summary is not None
    assert whole.summary.num_trees == 10
    np.testing.assert_array_equal(
        whole.predict(data.features), by_model.predict(data.features)
    )
    if not fields:
        # Without sampling: the same bits as in one fit.
        at_once = small(num_trees=10).fit(data)
        np.testing.assert_array_equal(
            whole.predict(data.features), at_once.predict(data.features)
        )


def test_only_a_native_model_of_the_same_features_can_be_continued(
    data: RankingDataset, tmp_path: Path
) -> None:
    small(num_trees=5).fit(data).save(tmp_path)
    continued = small(num_trees=6, warm_start=str(tmp_path))
    names = ("other", *data.feature_names[1:])
    with pytest.raises(
        DataError, match=naming("warm_start", tmp_path, "other features")
    ):
        continued.fit(data.with_fields(feature_names=names))
    parts = ("num_trees is 5", "warm_start", "5 trees", "Set params.num_trees higher")
    with pytest.raises(ConfigError, match=naming(*parts)):
        small(num_trees=5, warm_start=str(tmp_path)).fit(data)
    with pytest.raises(
        ResultError, match=naming("warm_start", tmp_path / "absent", "model folder")
    ):
        small(warm_start=str(tmp_path / "absent")).fit(data)
    peer = tmp_path / "peer"
    peer.mkdir()
    LightGBMRanker(num_trees=2).fit(data).save(peer)
    with pytest.raises(
        ResultError, match=naming(peer, "NativeRanker", "Load the model")
    ):
        small(warm_start=str(peer)).fit(data)


@pytest.mark.parametrize("normalize", ["tree", "forest", "mean"])
def test_dart_with_early_stopping_keeps_the_tree_weights_of_the_best_iteration(
    data: RankingDataset, valid: RankingDataset, normalize: str
) -> None:
    seen: list[Scores] = []

    def watch(iteration: Iteration) -> None:
        assert iteration.valid_scores is not None
        seen.append(iteration.valid_scores)

    fields = {"learning_rate": 0.5, "drop_rate": 0.3, "drop_normalize": normalize}
    rule = EarlyStopping("ndcg@5", patience=6)
    ranker = small(num_trees=60, early_stopping=rule, **fields).fit(data, valid, watch)
    assert ranker.summary is not None
    best = ranker.summary.num_trees
    assert best is not None
    assert best < ranker.summary.num_iterations < 60
    np.testing.assert_array_equal(ranker.predict(valid.features), seen[best - 1])
    shorter = small(num_trees=best, **fields).fit(data)
    np.testing.assert_array_equal(
        ranker.predict(valid.features), shorter.predict(valid.features)
    )
