"""LightGBM's adapter: its own parameters arrive, and what LightGBM would die of is refused before."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError
from ltrbench.rankers import EarlyStopping, Iteration
from ltrbench.rankers.capabilities import departures_of
from ltrbench.rankers.lightgbm import MAX_QUERY_SIZE, LightGBMRanker


def graded(seed: int = 0, num_queries: int = 60, **more: Any) -> RankingDataset:
    rng = np.random.default_rng(seed)
    query_start = np.concatenate([[0], np.cumsum(rng.integers(5, 40, num_queries))])
    # Few values, so that bins do not depend on how often a document is there.
    features = np.round(4 * rng.normal(size=(query_start[-1], 5))).astype(np.float32)
    labels = np.clip(np.round(features[:, 0] / 4 + rng.normal(size=len(features))), 0, 3)
    return RankingDataset(features=features, labels=labels, query_start=query_start, **more)


def dataset(features: Any, labels: Any, query_start: Any) -> RankingDataset:
    return RankingDataset(features=features, labels=labels, query_start=query_start)


def scores_of(data: RankingDataset, **fields: Any) -> NDArray[np.floating[Any]]:
    return LightGBMRanker(num_trees=6, num_threads=1, **fields).fit(data).predict(data.features)


def test_the_adapter_trains_what_lightgbm_itself_trains() -> None:
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
    # A query that counts four times is a query that is there four times.
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
    # LightGBM keeps its gains in one static of the process, which every new booster overwrites.
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


def test_positions_are_used_where_their_regularisation_is_set() -> None:
    plain = graded()
    positions = np.concatenate([np.arange(size) for size in plain.query_sizes])
    clicked = graded(positions=positions)

    np.testing.assert_array_equal(scores_of(clicked), scores_of(plain))
    learnt = scores_of(clicked, lambdarank_position_bias_regularization=0.0)
    assert not np.array_equal(learnt, scores_of(plain))
    assert not np.array_equal(learnt, scores_of(clicked, lambdarank_position_bias_regularization=9.0))
    with pytest.raises(ConfigError, match="the training data has no positions"):
        scores_of(plain, lambdarank_position_bias_regularization=0.0)


def test_the_seed_matters_under_sampling_only() -> None:
    data = graded()
    sampled = {"bagging_fraction": 0.5, "bagging_freq": 1}
    np.testing.assert_array_equal(scores_of(data, seed=1), scores_of(data, seed=2))
    np.testing.assert_array_equal(scores_of(data, seed=1, **sampled), scores_of(data, seed=1, **sampled))
    assert not np.array_equal(scores_of(data, seed=1, **sampled), scores_of(data, seed=2, **sampled))


def test_iterations_that_find_no_split_count_as_iterations_but_not_as_trees() -> None:
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
def test_a_label_that_lightgbm_has_no_gain_for_is_named(
    label: float, fields: dict[str, Any], highest: int
) -> None:
    labels = np.zeros(10)
    labels[7] = label
    data = dataset(np.eye(10, 2), labels, [0, 10])
    with pytest.raises(DataError, match=rf"labels\[7\] is {label}; .* \.\.\., {highest} only"):
        scores_of(data, **fields)


def test_a_query_that_lightgbm_would_die_of_is_refused_and_xendcg_takes_it() -> None:
    size = MAX_QUERY_SIZE + 1
    data = dataset(np.eye(size, 2), np.arange(size) % 2, [0, size])
    with pytest.raises(DataError, match=f"query 1 has {size} documents; .*{MAX_QUERY_SIZE} at the most"):
        scores_of(data)
    assert np.isfinite(scores_of(data, objective="rank_xendcg")).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bagging_fraction": 0.5}, "set bagging_freq=1"),
        ({"bagging_fraction": 0.0, "bagging_freq": 1}, "bagging_fraction is 0.0"),
        ({"sigmoid": 0.0}, "sigmoid is 0.0"),
        ({"objective": "rank_xendcg", "truncation": 30}, "truncation=null, or objective=lambdarank"),
        ({"objective": "rank_xendcg", "lambdarank_norm": False}, "lambdarank_norm=true"),
        ({"objective": "lambdamart"}, "did you mean 'lambdarank'"),
        ({"extra": {"num_iterations": 5}}, "set the field num_trees"),
        ({"extra": {"metric": "ndcg"}}, "metrics are off"),
        ({"extra": {"lamda_l1": 1}}, "did you mean 'lambda_l1'"),
        ({"extra": {"label_column": "0"}}, "has no effect in LightGBM"),
        (
            {"extra": {"boosting": "dart"}, "early_stopping": EarlyStopping()},
            "set early_stopping=null",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_refused_with_the_remedy(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LightGBMRanker(**fields)


def test_a_value_that_lightgbm_cannot_read_is_a_users_mistake() -> None:
    with pytest.raises(ConfigError, match="max_depth should be of type int"):
        scores_of(graded(), extra={"max_depth": "deep"})


def test_every_alias_of_what_a_field_decides_is_refused() -> None:
    decided = {
        *LightGBMRanker(label_gain=[0.0, 1.0], num_leaves=2).library_parameters(),
        "num_iterations",
        "max_bin",
    }
    decided -= {"force_col_wise", "verbosity"}
    # The library's own list of aliases, which it offers to itself only.
    for alias in lgb.basic._ConfigAliases.get(*decided):
        with pytest.raises(ConfigError, match=rf"extra\.{alias} cannot be set"):
            LightGBMRanker(extra={alias: 1})


def test_what_lightgbm_alone_does_is_said_when_it_applies() -> None:
    assert not any("tried" in each or "sampled" in each for each in departures_of(LightGBMRanker(l2=0.0)))
    fields: dict[str, Any] = {"l2": 1.0, "bagging_fraction": 0.5, "bagging_freq": 1}
    assert {"tried", "sampled"} <= set(" ".join(departures_of(LightGBMRanker(**fields))).split())
