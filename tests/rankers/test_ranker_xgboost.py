"""XGBoost's adapter: it passes its parameters on, and refuses settings and data that it does not support."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from messages import naming
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError
from ltrbench.rankers.capabilities import concerns_of, departures_of
from ltrbench.rankers.xgboost import XGBoostRanker


def graded(seed: int = 0, num_queries: int = 60, highest: int = 3, **more: Any) -> RankingDataset:
    rng = np.random.default_rng(seed)
    query_start = np.concatenate([[0], np.cumsum(rng.integers(5, 40, num_queries))])
    features = rng.normal(size=(query_start[-1], 5)).astype(np.float32)
    labels = np.clip(np.round(features[:, 0] + rng.normal(size=len(features))), 0, highest)
    return RankingDataset(features=features, labels=labels, query_start=query_start, **more)


def dataset(features: Any, labels: Any, query_start: Any) -> RankingDataset:
    return RankingDataset(features=features, labels=labels, query_start=query_start)


def scores_of(data: RankingDataset, **fields: Any) -> NDArray[np.float32]:
    return XGBoostRanker(num_trees=6, num_threads=1, **fields).fit(data).predict(data.features)


def test_by_default_the_adapter_trains_the_model_of_xgboost_itself() -> None:
    weights = np.linspace(0.5, 2.0, 60)
    data = graded(query_weights=weights)
    matrix = xgb.DMatrix(data.features, label=data.labels, group=data.query_sizes, weight=weights)
    booster = xgb.train({"objective": "rank:ndcg", "nthread": 1}, matrix, num_boost_round=6)

    np.testing.assert_array_equal(scores_of(data), booster.predict(matrix, output_margin=True))


@pytest.mark.parametrize(
    "fields",
    [
        {"objective": "map"},
        {"objective": "pairwise"},
        {"lambdarank_pair_method": "mean"},
        {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 5},
        {"lambdarank_num_pair_per_sample": 2},
        {"truncation": 2},
        {"lambdarank_normalization": False},
        {"lambdarank_score_normalization": False},
        {"lambdarank_unbiased": True},
        {"lambdarank_unbiased": True, "lambdarank_bias_norm": 0.1},
        {"grow_policy": "lossguide", "max_depth": 2},
        {"max_depth": 2},
        {"num_leaves": 5, "max_depth": 2},
        {"subsample": 0.5},
        {"colsample_bytree": 0.5},
        {"colsample_bylevel": 0.5},
        {"colsample_bynode": 0.5},
        {"extra": {"reg_alpha": 1.0}},
    ],
    ids=str,
)
def test_every_parameter_arrives(fields: dict[str, Any]) -> None:
    data = graded(highest=1)
    assert not np.array_equal(scores_of(data, **fields), scores_of(data))


def test_gains_may_be_linear() -> None:
    data = graded()
    assert not np.array_equal(scores_of(data, ndcg_exp_gain=False), scores_of(data))


def test_a_tree_method_of_extra_is_used() -> None:
    data = graded(num_queries=10)
    exact = scores_of(data, num_leaves=4, max_bins=4, extra={"tree_method": "approx"})
    assert not np.array_equal(exact, scores_of(data, num_leaves=4, max_bins=4))


@pytest.mark.parametrize(
    ("fields", "labels", "parts"),
    [
        ({}, [0, 1, 0.5], ("labels[2] is 0.5", "0, 1, ..., 31", "ndcg_exp_gain=false")),
        ({}, [0, 32, 1], ("labels[1] is 32.0", "0, 1, ..., 31", "ndcg_exp_gain=false")),
        ({"objective": "map"}, [0, 1, 2], ("labels[2] is 2.0", "objective=map", "0 and 1", "objective=ndcg")),
    ],
)
def test_labels_that_xgboost_does_not_accept_are_named(
    fields: dict[str, Any], labels: list[float], parts: tuple[object, ...]
) -> None:
    data = dataset(np.eye(3), labels, [0, 3])
    with pytest.raises(DataError, match=naming(*parts)):
        scores_of(data, **fields)


def test_without_gains_or_with_linear_gains_every_label_is_accepted() -> None:
    data = dataset(np.eye(3), [0, 0.5, 40], [0, 3])
    assert np.isfinite(scores_of(data, objective="pairwise")).all()
    assert np.isfinite(scores_of(data, ndcg_exp_gain=False)).all()


def test_clicks_must_be_in_the_order_shown() -> None:
    plain = graded()
    shown = np.concatenate([np.arange(size) for size in plain.query_sizes])
    unbiased = scores_of(graded(positions=shown), lambdarank_unbiased=True)
    assert not np.array_equal(unbiased, scores_of(graded(positions=shown)))
    swapped = shown.copy()
    swapped[[2, 3]] = shown[[3, 2]]
    with pytest.raises(DataError, match=naming("positions[2:4] is [3, 2]", "Sort the rows", "position")):
        scores_of(graded(positions=swapped), lambdarank_unbiased=True)


def test_positions_that_are_not_used_as_given_are_a_caution() -> None:
    plain = graded()
    ranks = plain.ranks_of_rows
    unbiased = XGBoostRanker(lambdarank_unbiased=True)

    def cautions(ranker: XGBoostRanker, positions: NDArray[np.int64]) -> list[str]:
        sentences = concerns_of(ranker, graded(positions=positions))
        return [sentence for sentence in sentences if "position" in sentence]

    assert cautions(unbiased, ranks + 1) == []
    (gap,) = cautions(unbiased, 7 * ranks + 3)
    assert all(part in gap for part in ("positions[1] is 10", "XGBoost", "rank 2", "model=lightgbm"))
    (later,) = cautions(unbiased, ranks + 10 * (plain.query_of_document == 1))
    assert all(part in later for part in (f"positions[{plain.query_start[1]}] is 10", "rank 1"))
    (unused,) = cautions(XGBoostRanker(), ranks)
    assert "model.lambdarank_unbiased=true" in unused


def test_the_place_of_weights_that_vary_within_a_query_is_named() -> None:
    plain = graded()
    weights = np.ones(plain.num_documents)
    weights[plain.query_start[1] + 2 :] = 2.0
    varying = graded(document_weights=weights).with_mean_weight_one()
    parts = ("documents 2 and 3 of query 2", "XGBoost", "equal weights", "model=lightgbm")
    with pytest.raises(DataError, match=naming(*parts)):
        scores_of(varying)


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        (
            {"min_docs_in_leaf": 20},
            ("min_docs_in_leaf is 20", "Set min_docs_in_leaf=null", "min_sum_hessian"),
        ),
        (
            {"truncation": 30, "lambdarank_num_pair_per_sample": 5},
            ("truncation is 30", "lambdarank_num_pair_per_sample is 5", "to null"),
        ),
        (
            {"truncation": 30, "lambdarank_pair_method": "mean"},
            ("truncation is 30", "lambdarank_pair_method=mean", "truncation=null"),
        ),
        ({"num_leaves": 31, "grow_policy": "depthwise"}, ("num_leaves is 31", "depthwise", "to null")),
        ({"grow_policy": "breadth"}, ("grow_policy", "'breadth'", "depthwise", "lossguide")),
        ({"lambdarank_pair_method": "all"}, ("lambdarank_pair_method", "'all'", "topk", "mean")),
        ({"subsample": 1.5}, ("subsample", 1.5)),
        ({"extra": {"eta": 0.1}}, ("extra.eta", "set the field learning_rate")),
        ({"extra": {"nthread": 1}}, ("extra.nthread", "set the field num_threads")),
        ({"extra": {"eval_metric": "ndcg"}}, ("extra.eval_metric", "XGBoost", "set metrics")),
        ({"extra": {"num_parallel_tree": 2}}, ("extra.num_parallel_tree", "set the field num_trees")),
        ({"extra": {"booster": "dart"}}, ("extra.booster is dart", "gbtree", "Remove")),
        ({"extra": {"reg_alfa": 1}}, ("extra.reg_alfa", "no effect", "remove")),
        ({"extra": {"reg_alpha": "much"}}, ("XGBoost", "extra {'reg_alpha': 'much'}")),
        ({"extra": {"monotone_constraints": [1, 0]}}, ("XGBoost", "extra {'monotone_constraints': [1, 0]}")),
    ],
    ids=str,
)
def test_an_unsupported_setting_is_refused_with_the_remedy(
    fields: dict[str, Any], parts: tuple[object, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        XGBoostRanker(**fields)


def test_an_ignored_parameter_is_named_even_if_the_library_is_silenced() -> None:
    expected = naming("extra.reg_alfa", "no effect")
    with xgb.config_context(verbosity=0), pytest.raises(ConfigError, match=expected):
        XGBoostRanker(extra={"reg_alfa": 1})


def test_differences_of_xgboost_are_reported_when_they_apply() -> None:
    plain, other = XGBoostRanker(l2=0.0), XGBoostRanker(l2=0.0, subsample=0.5, objective="pairwise")
    assert len(departures_of(other)) == len(departures_of(plain)) + 2
    assert any("min_docs_in_leaf" in sentence for sentence in departures_of(plain))
