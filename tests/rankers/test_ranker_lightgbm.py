"""LightGBM's adapter: it passes its parameters on, and refuses data on which LightGBM would crash."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from messages import naming
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError
from ltrbench.rankers import EarlyStopping, Iteration
from ltrbench.rankers.capabilities import departures_of
from ltrbench.rankers.lightgbm import MAX_QUERY_SIZE, LightGBMRanker


def graded(seed: int = 0, num_queries: int = 60, **more: Any) -> RankingDataset:
    rng = np.random.default_rng(seed)
    query_start = np.concatenate([[0], np.cumsum(rng.integers(5, 40, num_queries))])
    # Few values, so that bins do not depend on the number of copies of a document.
    features = np.round(4 * rng.normal(size=(query_start[-1], 5))).astype(np.float32)
    labels = np.clip(np.round(features[:, 0] / 4 + rng.normal(size=len(features))), 0, 3)
    return RankingDataset(features=features, labels=labels, query_start=query_start, **more)


def dataset(features: Any, labels: Any, query_start: Any) -> RankingDataset:
    return RankingDataset(features=features, labels=labels, query_start=query_start)


def scores_of(data: RankingDataset, **fields: Any) -> NDArray[np.floating[Any]]:
    return LightGBMRanker(num_trees=6, num_threads=1, **fields).fit(data).predict(data.features)


def test_the_adapter_trains_the_model_of_lightgbm_itself() -> None:
    data = graded()
    parameters = {
        "objective": "lambdarank",
        "learning_rate": 0.2,
        "num_leaves": 7,
        "lambdarank_truncation_level": 5,
        "num_threads": 1,
        "verbosity": -1,
    }
    train_set = lgb.Dataset(data.features, label=data.labels, group=data.query_sizes)
    expected = lgb.train(parameters, train_set, num_boost_round=6).predict(data.features)

    np.testing.assert_array_equal(scores_of(data, learning_rate=0.2, num_leaves=7, truncation=5), expected)


@pytest.mark.parametrize(
    "fields",
    [
        {"objective": "rank_xendcg"},
        {"label_gain": [0.0, 1.0, 2.0, 3.0]},
        {"lambdarank_norm": False},
        {"sigmoid": 2.0},
        {"truncation": 2},
        {"bagging_fraction": 0.5, "bagging_freq": 1},
        {"bagging_fraction": 0.5, "bagging_freq": 1, "bagging_by_query": True},
        {"feature_fraction": 0.4},
        {"feature_fraction_bynode": 0.4},
        {"extra": {"lambda_l1": 1.0}},
    ],
    ids=str,
)
def test_every_parameter_arrives(fields: dict[str, Any]) -> None:
    data = graded()
    assert not np.array_equal(scores_of(data, **fields), scores_of(data))


@pytest.mark.parametrize("boosting", ["gbdt", "dart", "rf"])
def test_contributions_add_up_to_scores_in_every_kind_of_boosting(boosting: str) -> None:
    data = graded()
    ranker = LightGBMRanker(
        num_trees=6, num_threads=1, bagging_fraction=0.5, bagging_freq=1, extra={"boosting": boosting}
    ).fit(data)
    contributions = ranker.contributions(data.features)
    assert contributions is not None
    np.testing.assert_allclose(contributions.sum(axis=1), ranker.predict(data.features), atol=1e-10)


def test_linear_leaves_have_no_contributions() -> None:
    data = graded()
    ranker = LightGBMRanker(num_trees=2, num_threads=1, extra={"linear_tree": True}).fit(data)
    assert ranker.contributions(data.features) is None


def test_query_weights_weigh_every_document_of_the_query() -> None:
    data = graded()
    # A query with weight 4 equals four copies of the query.
    weighted = graded(query_weights=np.where(np.arange(data.num_queries) < 10, 4.0, 1.0))
    end = data.query_start[10]
    repeated = dataset(
        np.concatenate([data.features, *[data.features[:end]] * 3]),
        np.concatenate([data.labels, *[data.labels[:end]] * 3]),
        np.cumsum([0, *data.query_sizes, *np.tile(data.query_sizes[:10], 3)]),
    )
    ranker = LightGBMRanker(num_trees=1, min_docs_in_leaf=1, num_leaves=4, extra={"min_data_in_bin": 1})
    expected = ranker.fit(repeated).predict(data.features)

    np.testing.assert_allclose(ranker.fit(weighted).predict(data.features), expected, rtol=1e-6)
    assert not np.allclose(ranker.fit(data).predict(data.features), expected, rtol=1e-6)


def test_rankers_of_different_label_gains_do_not_disturb_each_other() -> None:
    # LightGBM stores its gains in a static variable of the process, which every new booster overwrites.
    data = graded()
    linear = {"label_gain": [0.0, 1.0, 2.0, 3.0]}
    alone = [scores_of(data), scores_of(data, **linear)]
    seen: list[NDArray[np.floating[Any]]] = []

    def fit_the_other(iteration: Iteration) -> None:
        if iteration.number == 3:
            seen.append(scores_of(data, **linear))

    outer = LightGBMRanker(num_trees=6, num_threads=1).fit(data, None, fit_the_other)
    np.testing.assert_array_equal(outer.predict(data.features), alone[0])
    np.testing.assert_array_equal(seen[0], alone[1])


def test_positions_are_used_if_their_regularisation_is_set() -> None:
    plain = graded()
    positions = np.concatenate([np.arange(size) for size in plain.query_sizes])
    clicked = graded(positions=positions)

    np.testing.assert_array_equal(scores_of(clicked), scores_of(plain))
    learnt = scores_of(clicked, lambdarank_position_bias_regularization=0.0)
    assert not np.array_equal(learnt, scores_of(plain))
    assert not np.array_equal(learnt, scores_of(clicked, lambdarank_position_bias_regularization=9.0))
    parts = ("lambdarank_position_bias_regularization is 0.0", "RankingDataset(positions=...)", "null")
    with pytest.raises(ConfigError, match=naming(*parts)):
        scores_of(plain, lambdarank_position_bias_regularization=0.0)


def test_the_seed_matters_under_sampling_only() -> None:
    data = graded()
    sampled = {"bagging_fraction": 0.5, "bagging_freq": 1}
    np.testing.assert_array_equal(scores_of(data, seed=1), scores_of(data, seed=2))
    np.testing.assert_array_equal(scores_of(data, seed=1, **sampled), scores_of(data, seed=1, **sampled))
    assert not np.array_equal(scores_of(data, seed=1, **sampled), scores_of(data, seed=2, **sampled))


def test_iterations_without_a_split_count_as_iterations_but_not_as_trees() -> None:
    data = dataset(np.eye(40, 2), [0, 1] * 20, [0, 40])
    seen: list[int] = []
    ranker = LightGBMRanker(num_trees=5, num_threads=1, early_stopping=EarlyStopping(patience=2))
    summary = ranker.fit(data, data, lambda iteration: seen.append(iteration.number)).summary

    assert summary is not None
    assert (summary.num_trees, summary.num_iterations, seen) == (1, 5, [1])


@pytest.mark.parametrize(
    ("label", "fields", "highest"),
    [(1.5, {}, 30), (31.0, {}, 30), (4.0, {"label_gain": [0.0, 1.0, 2.0, 3.0]}, 3), (0.5, {"seed": 1}, 30)],
)
def test_a_label_without_a_gain_in_lightgbm_is_named(
    label: float, fields: dict[str, Any], highest: int
) -> None:
    labels = np.zeros(10)
    labels[7] = label
    data = dataset(np.eye(10, 2), labels, [0, 10])
    with pytest.raises(DataError, match=naming("labels[7]", label, f"..., {highest}", "label_gain")):
        scores_of(data, **fields)


def test_a_query_too_large_for_lambdarank_is_refused_and_xendcg_accepts_it() -> None:
    size = MAX_QUERY_SIZE + 1
    data = dataset(np.eye(size, 2), np.arange(size) % 2, [0, size])
    with pytest.raises(DataError, match=naming("query 1", size, MAX_QUERY_SIZE, "objective=rank_xendcg")):
        scores_of(data)
    assert np.isfinite(scores_of(data, objective="rank_xendcg")).all()


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"bagging_fraction": 0.5}, ("bagging_fraction is 0.5", "Set bagging_freq=1")),
        ({"bagging_fraction": 0.0, "bagging_freq": 1}, ("bagging_fraction", 0.0)),
        ({"sigmoid": 0.0}, ("sigmoid", 0.0)),
        (
            {"objective": "rank_xendcg", "truncation": 30},
            ("truncation is 30", "set truncation=null", "objective=lambdarank"),
        ),
        (
            {"objective": "rank_xendcg", "lambdarank_norm": False},
            ("objective=rank_xendcg", "set lambdarank_norm=true"),
        ),
        ({"objective": "lambdamart"}, ("objective", "'lambdamart'", "did you mean", "'lambdarank'")),
        ({"extra": {"num_iterations": 5}}, ("extra.num_iterations", "set the field num_trees")),
        ({"extra": {"metric": "ndcg"}}, ("extra.metric", "LightGBM", "set metrics")),
        ({"extra": {"lamda_l1": 1}}, ("extra.lamda_l1", "did you mean 'lambda_l1'")),
        ({"extra": {"label_column": "0"}}, ("extra.label_column", "no effect", "LightGBM")),
        (
            {"extra": {"boosting": "dart"}, "early_stopping": EarlyStopping()},
            ("extra.boosting is dart", "Set early_stopping=null"),
        ),
    ],
    ids=str,
)
def test_an_unsupported_setting_is_refused_with_the_remedy(
    fields: dict[str, Any], parts: tuple[object, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        LightGBMRanker(**fields)


def test_a_value_that_lightgbm_refuses_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=naming("LightGBM", "extra {'max_depth': 'deep'}")):
        scores_of(graded(), extra={"max_depth": "deep"})


def test_every_alias_of_a_parameter_that_a_field_sets_is_refused() -> None:
    decided = {
        *LightGBMRanker(label_gain=[0.0, 1.0], num_leaves=2).library_parameters(),
        "num_iterations",
        "max_bin",
    }
    decided -= {"force_col_wise", "verbosity"}
    # The library's private list of aliases.
    for alias in lgb.basic._ConfigAliases.get(*decided):
        with pytest.raises(ConfigError, match=naming(f"extra.{alias} cannot be set")):
            LightGBMRanker(extra={alias: 1})


def test_differences_of_lightgbm_are_reported_when_they_apply() -> None:
    assert not any("skips" in each or "samples" in each for each in departures_of(LightGBMRanker(l2=0.0)))
    fields: dict[str, Any] = {"l2": 1.0, "bagging_fraction": 0.5, "bagging_freq": 1}
    assert {"skips", "samples"} <= set(" ".join(departures_of(LightGBMRanker(**fields))).split())
