"""Adapters of LightGBM, XGBoost and CatBoost, beyond the Ranker contract, which test_conformance.py tests.

A parameter arrives, a setting or label that the library misreads is refused, and the trees of the default are
those of the library itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import catboost as cb
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from messages import naming
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError
from ltrbench.models.trees import ensemble_scores
from ltrbench.native.objectives.lambdarank import LambdaRank, RankNet
from ltrbench.rankers import EarlyStopping, Iteration
from ltrbench.rankers.base import BoostingRanker, departures_of, refuse
from ltrbench.rankers.catboost import LOSSES, CatBoostRanker
from ltrbench.rankers.library import LibraryRanker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.xgboost import XGBoostRanker

LIGHT, XGB, CAT = LightGBMRanker, XGBoostRanker, CatBoostRanker
BAGGING = {"bagging_fraction": 0.5, "bagging_freq": 1}
LAMBDAMART: dict[str, Any] = {
    "num_leaves": 15,
    "learning_rate": 0.1,
    "l2": 0.0,
    "truncation": 30,
}
UNNORMALIZED: dict[str, Any] = {"normalize_distance": False, "normalize_query": False}
YETIRANK: dict[str, Any] = {
    "loss": "YetiRank",
    "num_leaves": 15,
    "learning_rate": 0.1,
    "l2": 0.0,
}

Kind = type[LibraryRanker]
every_library = pytest.mark.parametrize("kind", [LIGHT, XGB, CAT])


def graded(
    seed: int = 0, num_queries: int = 60, highest: int = 3, **more: Any
) -> RankingDataset:
    rng = np.random.default_rng(seed)
    query_start = np.concatenate([[0], np.cumsum(rng.integers(5, 40, num_queries))])
    # Few values, so that bins do not depend on the number of copies of a document.
    features = np.round(4 * rng.normal(size=(query_start[-1], 5))).astype(np.float32)
    labels = np.clip(
        np.round(features[:, 0] / 4 + rng.normal(size=len(features))), 0, highest
    )
    return RankingDataset(
        features=features, labels=labels, query_start=query_start, **more
    )


def dataset(features: Any, labels: Any, query_start: Any) -> RankingDataset:
    return RankingDataset(features=features, labels=labels, query_start=query_start)


def fitted(kind: Kind, data: RankingDataset, **fields: Any) -> Any:
    return kind(**{"num_trees": 6, "num_threads": 1, **fields}).fit(data)


def scores_of(kind: Kind, data: RankingDataset, **fields: Any) -> NDArray[Any]:
    scores: NDArray[Any] = fitted(kind, data, **fields).predict(data.features)
    return scores


# The model of the library itself


def test_the_adapter_trains_the_model_of_lightgbm_itself() -> None:
    data = graded()
    parameters = {
        **{
            "objective": "lambdarank",
            "learning_rate": 0.2,
            "num_leaves": 7,
            "verbosity": -1,
        },
        **{"lambdarank_truncation_level": 5, "num_threads": 1},
    }
    train_set = lgb.Dataset(data.features, label=data.labels, group=data.query_sizes)
    expected = lgb.train(parameters, train_set, num_boost_round=6).predict(
        data.features
    )
    scores = scores_of(LIGHT, data, learning_rate=0.2, num_leaves=7, truncation=5)
    np.testing.assert_array_equal(scores, expected)


def test_by_default_the_adapter_trains_the_model_of_xgboost_itself() -> None:
    # A fit scales weights to a mean of 1.
    data = graded(query_weights=np.linspace(0.5, 2.0, 60)).with_mean_weight_one()
    matrix = xgb.DMatrix(
        data.features, data.labels, group=data.query_sizes, weight=data.query_weights
    )
    booster = xgb.train(
        {"objective": "rank:ndcg", "nthread": 1}, matrix, num_boost_round=6
    )
    np.testing.assert_array_equal(
        scores_of(XGB, data), booster.predict(matrix, output_margin=True)
    )


def test_by_default_the_adapter_trains_the_model_of_catboost_itself() -> None:
    # A fit scales weights to a mean of 1.
    data = graded(query_weights=np.linspace(0.5, 2.0, 60)).with_mean_weight_one()
    queries = data.query_of_document
    pool = cb.Pool(
        data.features,
        label=data.labels,
        group_id=queries,
        group_weight=data.weight_of_document,
    )
    parameters = {
        "loss_function": "YetiRank",
        "iterations": 6,
        "random_seed": 0,
        "thread_count": 1,
    }
    model = cb.CatBoost(
        {**parameters, "allow_writing_files": False, "logging_level": "Silent"}
    ).fit(pool)
    np.testing.assert_array_equal(scores_of(CAT, data), model.predict(data.features))


@pytest.mark.parametrize(
    ("fields", "of_native"),
    [
        ({"learning_rate": 0.5}, {"learning_rate": 0.5}),
        ({"truncation": 3}, {"truncation": 3}),
        ({"sigma": 2.0}, {"objective": LambdaRank(sigma=2.0)}),
        ({"norm": False}, {"objective": LambdaRank(**UNNORMALIZED)}),
        (
            {"loss": "PairLogit", "truncation": None},
            {"objective": RankNet(**UNNORMALIZED), "truncation": 99},
        ),
    ],
    ids=str,
)
def test_with_only_one_possible_split_catboosts_lambdamart_and_pairlogit_equal_native(
    fields: dict[str, Any], of_native: dict[str, Any]
) -> None:
    """The gradients, the hessians and the steps are the same; only the choice of splits differs."""
    plain = graded()
    data = replace(
        plain,
        features=(plain.features[:, :1] > 1.2).astype(np.float32),
        feature_names=(),
    )
    shared: dict[str, Any] = {
        **LAMBDAMART,
        "num_trees": 5,
        "num_leaves": 2,
        "max_bins": 255,
    }
    unbounded = {"min_docs_in_leaf": 1, "min_sum_hessian": 0.0}
    native = (
        NativeRanker(**{**shared, **unbounded, **of_native})
        .fit(data)
        .predict(data.features)
    )
    scores = scores_of(CAT, data, **{**shared, **fields})
    if "loss" in fields:  # CatBoost moves the leaves of PairLogit by a constant
        native = native + (scores - native).mean()
    # CatBoost stores the learning rate in float32.
    np.testing.assert_allclose(scores, native, rtol=1e-6)


# Every parameter arrives. Each item of a row is a test.

EACH_ALONE: list[tuple[Kind, dict[str, Any], dict[str, Any]]] = [
    (
        LIGHT,
        {},
        {
            "objective": "rank_xendcg",
            "label_gain": [0.0, 1.0, 2.0, 3.0],
            "lambdarank_norm": False,
        },
    ),
    (LIGHT, {}, {"sigmoid": 2.0, "truncation": 2, "extra": {"lambda_l1": 1.0}}),
    (LIGHT, {}, {"feature_fraction": 0.4, "feature_fraction_bynode": 0.4}),
    (LIGHT, BAGGING, {"bagging_fraction": 0.3, "bagging_freq": 2}),
    (LIGHT, BAGGING, {"bagging_by_query": True, "seed": 1}),
    (
        XGB,
        {},
        {
            "objective": "pairwise",
            "lambdarank_pair_method": "mean",
            "truncation": 2,
            "max_depth": 2,
        },
    ),
    (
        XGB,
        {},
        {"lambdarank_normalization": False, "lambdarank_score_normalization": False},
    ),
    (
        XGB,
        {},
        {
            "lambdarank_num_pair_per_sample": 2,
            "ndcg_exp_gain": False,
            "extra": {"reg_alpha": 1.0},
        },
    ),
    (
        XGB,
        {},
        {
            "subsample": 0.5,
            "colsample_bytree": 0.5,
            "colsample_bylevel": 0.5,
            "colsample_bynode": 0.5,
        },
    ),
    (XGB, {"lambdarank_pair_method": "mean"}, {"lambdarank_num_pair_per_sample": 5}),
    (XGB, {}, {"lambdarank_unbiased": True}),
    (XGB, {"lambdarank_unbiased": True}, {"lambdarank_bias_norm": 0.1}),
    (XGB, {"num_leaves": 5}, {"max_depth": 2}),
    (XGB, {"num_leaves": 4, "max_bins": 4}, {"extra": {"tree_method": "approx"}}),
    (
        CAT,
        LAMBDAMART,
        {"truncation": 2, "sigma": 2.0, "norm": False, "exponential_gain": False},
    ),
    (
        CAT,
        LAMBDAMART,
        {"num_leaves": 5, "learning_rate": 0.5, "max_bins": 4, "depth": 2},
    ),
    (
        CAT,
        LAMBDAMART,
        {
            "score_function": "Cosine",
            "random_strength": 2.0,
            "subsample": 0.5,
            "rsm": 0.5,
        },
    ),
    (
        CAT,
        LAMBDAMART,
        {"bootstrap_type": "Bayesian", "extra": {"min_data_in_leaf": 100}},
    ),
    (CAT, LAMBDAMART | {"num_leaves": None}, {"grow_policy": "Depthwise"}),
    (
        CAT,
        YETIRANK,
        {
            "permutations": 2,
            "decay": 0.5,
            "l2": 5.0,
            "seed": 1,
            "noise": "No",
            "mode": "MAP",
        },
    ),
    (
        CAT,
        YETIRANK | {"mode": "NDCG"},
        {"num_neighbors": -1, "top": 2, "dcg_type": "Exp"},
    ),
    (CAT, YETIRANK | {"noise": "Gauss"}, {"noise_power": 2.0}),
    (CAT, YETIRANK | {"mode": "NDCG"}, {"dcg_denominator": "Position"}),
    (CAT, LAMBDAMART, {"dcg_denominator": "Position"}),
    (CAT, LAMBDAMART | {"truncation": None}, {"metric": "MRR"}),
    (
        CAT,
        {"loss": "StochasticRank"},
        {"metric": "MRR", "sigma": 2.0, "top": 2, "num_estimations": 3, "mu": 0.5},
    ),
    (
        CAT,
        {"loss": "StochasticRank"},
        {"dcg_type": "Exp", "dcg_denominator": "Position"},
    ),
    (CAT, {"loss": "StochasticRank"}, {"nu": 1.0, "lambda_reg": 0.5}),
    (CAT, {"loss": "QuerySoftMax"}, {"leaf_estimation_method": "Newton", "beta": 2.0}),
    (
        CAT,
        {"loss": "QuerySoftMax", "leaf_estimation_method": "Newton"},
        {"lambda_reg": 0.5},
    ),
    (CAT, {"loss": "PairLogit"}, {"max_pairs": 3}),
]


@pytest.mark.parametrize(
    ("kind", "usual", "field", "value"),
    [(kind, usual, *item) for kind, usual, row in EACH_ALONE for item in row.items()],
)
def test_every_parameter_arrives(
    kind: Kind, usual: dict[str, Any], field: str, value: Any
) -> None:
    data = graded(num_queries=30)
    data = replace(data, positions=data.ranks_of_rows)
    varied = scores_of(kind, data, **{**usual, field: value})
    assert not np.array_equal(varied, scores_of(kind, data, **usual))


def test_catboosts_default_denominator_is_logarithmic() -> None:
    usual = YETIRANK | {"mode": "NDCG"}
    given = scores_of(CAT, graded(), **usual, dcg_denominator="LogPosition")
    np.testing.assert_array_equal(given, scores_of(CAT, graded(), **usual))


@pytest.mark.parametrize(
    "boosting", ["gbdt", "dart", "rf", "RF", "random_forest", "'rf' "]
)
def test_contributions_and_trees_add_up_to_scores_in_every_kind_of_boosting(
    boosting: str,
) -> None:
    data = graded()
    ranker = fitted(LIGHT, data, **BAGGING, extra={"boosting": boosting})
    contributions, scores = (
        ranker.contributions(data.features),
        ranker.predict(data.features),
    )
    np.testing.assert_allclose(contributions.sum(axis=1), scores, atol=1e-10)
    np.testing.assert_allclose(
        ensemble_scores(ranker.trees(), data.features), scores, atol=1e-12
    )


@pytest.mark.parametrize("value", [False, "False", "-", True, "TRUE", "+", "true "])
def test_a_truth_value_of_extra_is_read_as_lightgbm_reads_it(value: object) -> None:
    data = graded()
    for name in ("zero_as_missing", "linear_tree"):
        ranker = fitted(LIGHT, data, extra={name: value})
        _, model = ranker.library_model()
        is_true = f"[{name}: 1]" in model.model_to_string()
        if name == "linear_tree":
            assert (ranker.contributions(data.features) is None) == is_true
        else:
            assert ranker.zero_is_missing == is_true


@pytest.mark.parametrize(
    "fields", [{}, {"bootstrap_type": "Bernoulli", "subsample": 0.5}], ids=str
)
@pytest.mark.parametrize("loss", LOSSES)
def test_catboost_takes_labels_that_are_equal_within_every_query(
    loss: str, fields: dict[str, Any]
) -> None:
    data = graded()
    for labels in (np.zeros(data.num_documents), data.query_of_document % 3):
        equal = data.with_fields(labels=labels.astype(np.float64))
        assert not np.ptp(scores_of(CAT, equal, loss=loss, **fields))
        seen: list[Iteration] = []
        ranker = CAT(num_trees=2, loss=loss, **fields)
        ranker.fit(data, equal, seen.append)
        assert len(seen) == 2


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_of_catboost_ranks_relevant_documents_higher_and_is_repeatable(
    loss: str,
) -> None:
    data = graded(num_queries=30)
    ranker = fitted(CAT, data, loss=loss)
    scores = ranker.predict(data.features)
    assert scores[data.labels >= 2].mean() > scores[data.labels == 0].mean()
    assert loss in ranker.library_parameters()["loss_function"]
    np.testing.assert_array_equal(
        scores_of(CAT, data, loss=loss, num_threads=2), scores
    )


# Weights and positions


def test_query_weights_weigh_every_document_of_the_query() -> None:
    data = graded()
    # A query with weight 4 equals four copies of the query.
    weighted = graded(
        query_weights=np.where(np.arange(data.num_queries) < 10, 4.0, 1.0)
    )
    end = data.query_start[10]
    repeated = dataset(
        np.concatenate([data.features, *[data.features[:end]] * 3]),
        np.concatenate([data.labels, *[data.labels[:end]] * 3]),
        np.cumsum([0, *data.query_sizes, *np.tile(data.query_sizes[:10], 3)]),
    )
    ranker = LIGHT(
        num_trees=1, min_docs_in_leaf=1, num_leaves=4, extra={"min_data_in_bin": 1}
    )
    expected = ranker.fit(repeated).predict(data.features)
    np.testing.assert_allclose(
        ranker.fit(weighted).predict(data.features), expected, rtol=1e-6
    )
    assert not np.allclose(ranker.fit(data).predict(data.features), expected, rtol=1e-6)


def test_positions_are_used_by_lightgbm_if_their_regularisation_is_set() -> None:
    plain = graded()
    clicked = graded(positions=plain.ranks_of_rows)
    np.testing.assert_array_equal(scores_of(LIGHT, clicked), scores_of(LIGHT, plain))
    learnt, strict = (
        scores_of(LIGHT, clicked, lambdarank_position_bias_regularization=value)
        for value in (0.0, 9.0)
    )
    assert not np.array_equal(learnt, scores_of(LIGHT, plain))
    assert not np.array_equal(learnt, strict)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        (LIGHT, {"lambdarank_position_bias_regularization": 0.0}),
        (XGB, {"lambdarank_unbiased": True}),
        (NativeRanker, {"position_bias": "additive"}),
    ],
)
def test_a_correction_without_positions_is_refused_before_and_in_a_fit(
    kind: type[BoostingRanker], setting: dict[str, Any]
) -> None:
    ranker = kind(num_trees=2, **setting)
    (name,) = setting
    named = naming(name, f"model.{name}=")
    with pytest.raises(DataError, match=named):
        refuse(ranker, graded())
    with pytest.raises(DataError, match=named):
        ranker.fit(graded())


def test_xgboost_corrects_only_lists_without_gaps_in_the_order_shown() -> None:
    plain = graded()
    from_1 = plain.ranks_of_rows + 1
    second_page = np.where(plain.query_of_document == 9, from_1 + 10, from_1)
    first = plain.query_start[9]
    for positions, row in (
        (second_page, first),
        (from_1 * 2, 1),
        (from_1[::-1].copy(), 0),
    ):
        with pytest.raises(
            DataError, match=naming(f"positions[{row}] is {positions[row]}", "native")
        ):
            scores_of(XGB, graded(positions=positions), lambdarank_unbiased=True)
    expected = scores_of(XGB, graded(positions=from_1), lambdarank_unbiased=True)
    below = np.where(from_1 > 32, 99, from_1)
    scores = scores_of(XGB, graded(positions=below), lambdarank_unbiased=True)
    np.testing.assert_array_equal(scores, expected)


def test_position_biases_of_xgboost_are_not_learned_by_several_workers() -> None:
    with pytest.raises(
        ConfigError, match=naming("lambdarank_unbiased", "distributed=none")
    ):
        XGB(lambdarank_unbiased=True).check_distributed()


# The scores of the monitor


@pytest.mark.parametrize(
    ("kind", "fields"), [(LIGHT, {}), (XGB, {}), (CAT, LAMBDAMART), (CAT, YETIRANK)]
)
def test_the_monitor_gets_the_scores_of_the_current_trees(
    kind: Kind, fields: dict[str, Any]
) -> None:
    train, valid = graded(0), graded(1)
    valid = replace(
        valid, features=np.where(valid.features < -6, np.nan, valid.features)
    )
    seen: list[Iteration] = []
    ranker = kind(**{**fields, "num_trees": 6, "num_threads": 1}).fit(
        train, valid, seen.append
    )
    first = fitted(kind, train, **{**fields, "num_trees": 1})
    assert [iteration.number for iteration in seen] == [1, 2, 3, 4, 5, 6]
    for iteration, current in ((seen[-1], ranker), (seen[0], first)):
        np.testing.assert_array_equal(
            iteration.train_scores, current.predict(train.features)
        )
        np.testing.assert_array_equal(
            iteration.valid_scores, current.predict(valid.features)
        )
    alone: list[Iteration] = []
    kind(**{**fields, "num_trees": 2, "num_threads": 1}).fit(train, None, alone.append)
    np.testing.assert_array_equal(alone[-1].train_scores, seen[1].train_scores)
    assert [iteration.valid_scores for iteration in alone] == [None, None]


# Refusals


@pytest.mark.parametrize(
    ("kind", "fields", "labels", "parts"),
    [
        (LIGHT, {}, [0, 1, 1.5], ("labels[2]", 1.5, "..., 30", "label_gain")),
        (LIGHT, {}, [0, 31, 1], ("labels[1]", 31.0, "..., 30", "label_gain")),
        (
            LIGHT,
            {"label_gain": [0.0, 1.0, 3.0]},
            [0, 3, 1],
            ("labels[1]", 3.0, "..., 2", "label_gain"),
        ),
        (
            XGB,
            {},
            [0, 1, 0.5],
            ("labels[2] is 0.5", "0, 1, ..., 31", "ndcg_exp_gain=false"),
        ),
        (
            XGB,
            {},
            [0, 32, 1],
            ("labels[1] is 32.0", "0, 1, ..., 31", "ndcg_exp_gain=false"),
        ),
        (
            XGB,
            {"objective": "map"},
            [0, 1, 2],
            ("labels[2] is 2.0", "objective=map", "objective=ndcg"),
        ),
        (CAT, {"mode": "ERR"}, [0, 1, 2], ("labels[2] is 2.0", "from 0 to 1", "NDCG")),
    ],
)
def test_labels_that_the_library_does_not_accept_are_named(
    kind: Kind, fields: dict[str, Any], labels: list[float], parts: tuple[object, ...]
) -> None:
    with pytest.raises(DataError, match=naming(*parts)):
        scores_of(kind, dataset(np.eye(3), labels, [0, 3]), **fields)


def test_lightgbm_names_a_query_that_is_too_long_and_data_without_usable_features() -> (
    None
):
    sizes = [3, 10_001]
    long = dataset(np.eye(sum(sizes), 1), np.zeros(sum(sizes)), [0, 3, sum(sizes)])
    remedies = ("query 2", "10,001", "10,000", "rank_xendcg", "native")
    with pytest.raises(DataError, match=naming(*remedies)):
        scores_of(LIGHT, long)
    scores_of(LIGHT, long, objective="rank_xendcg", num_trees=1)
    constant = dataset(np.zeros((3, 2)), [0, 1, 2], [0, 3])
    with pytest.raises(DataError, match=naming("2 features", "min_docs_in_leaf")):
        scores_of(LIGHT, constant, objective="query_rmse")


REFUSED: list[tuple[Kind, dict[str, Any], tuple[object, ...]]] = [
    (
        LIGHT,
        {"bagging_fraction": 0.5},
        ("bagging_fraction is 0.5", "Set bagging_freq=1"),
    ),
    (LIGHT, {"bagging_freq": 5}, ("bagging_freq is 5", "bagging_fraction=1.0")),
    (
        LIGHT,
        {"bagging_by_query": True},
        ("bagging_by_query is True", "bagging_fraction=1.0"),
    ),
    (
        XGB,
        {"lambdarank_bias_norm": 3.0},
        ("lambdarank_bias_norm is 3.0", "lambdarank_unbiased=false"),
    ),
    (
        LIGHT,
        {"objective": "rank_xendcg", "truncation": 30},
        ("truncation is 30", "set truncation=null"),
    ),
    (
        LIGHT,
        {"objective": "lambdamart"},
        ("objective", "'lambdamart'", "did you mean", "'lambdarank'"),
    ),
    (
        LIGHT,
        {"extra": {"num_iterations": 5}},
        ("extra.num_iterations", "set the field num_trees"),
    ),
    (LIGHT, {"extra": {"metric": "ndcg"}}, ("extra.metric", "LightGBM", "set metrics")),
    (LIGHT, {"extra": {"lamda_l1": 1}}, ("extra.lamda_l1", "did you mean 'lambda_l1'")),
    (
        LIGHT,
        {"extra": {"label_column": "0"}},
        ("extra.label_column", "no effect", "remove"),
    ),
    *(
        (
            LIGHT,
            {"extra": {"boosting": name}, "early_stopping": EarlyStopping()},
            ("early_stopping=null",),
        )
        for name in ("dart", "DART", "dart ")
    ),
    *(
        (
            LIGHT,
            {"monotone": {"1": 1}, "extra": {name: value}},
            (f"extra.{name}={value}", "monotone=null"),
        )
        for name, value in (
            ("linear_tree", True),
            ("linear_tree", "+"),
            ("monotone_constraints_method", "advanced"),
            ("monotone_constraints_method", "intermediate"),
        )
    ),
    (
        XGB,
        {"min_docs_in_leaf": 20},
        ("min_docs_in_leaf is 20", "Set min_docs_in_leaf=null"),
    ),
    (
        XGB,
        {"truncation": 30, "lambdarank_num_pair_per_sample": 5},
        ("truncation is 30", "to null"),
    ),
    (
        XGB,
        {"truncation": 30, "lambdarank_pair_method": "mean"},
        ("truncation is 30", "truncation=null"),
    ),
    (
        XGB,
        {"num_leaves": 31, "grow_policy": "depthwise"},
        ("num_leaves is 31", "grow_policy=depthwise", "num_leaves=null"),
    ),
    (
        XGB,
        {"extra": {"booster": "dart"}},
        ("extra.booster is dart", "gbtree", "Remove"),
    ),
    (XGB, {"extra": {"reg_alfa": 1}}, ("extra.reg_alfa", "no effect", "remove")),
    (XGB, {"extra": {"reg_alpha": "much"}}, ("XGBoost", "extra {'reg_alpha': 'much'}")),
    (
        CAT,
        {"min_docs_in_leaf": 20},
        ("min_docs_in_leaf is 20", "Set min_docs_in_leaf=null"),
    ),
    (CAT, {"max_bins": 65537}, ("max_bins", 65537, 65536)),
    # With l2, the steps of CatBoost's LambdaMart have the wrong sign.
    (CAT, {"l2": 1.0}, ("l2 is 1.0", "LambdaMart", "Set l2=0", "loss=YetiRank")),
    (
        CAT,
        {"loss": "YetiRank", "sigma": 2.0},
        ("sigma is 2.0", "set sigma=1.0", "loss to LambdaMart"),
    ),
    (
        CAT,
        {"subsample": 0.5, "bootstrap_type": "No"},
        ("subsample is 0.5", "bootstrap_type to Bernoulli"),
    ),
    (
        CAT,
        {"leaf_estimation_method": "Gradient"},
        ("leaf_estimation_method is Gradient", "loss=YetiRank"),
    ),
    (CAT, {"noise": "Gaus"}, ("noise is 'Gaus'", "'Gauss'")),
    (CAT, {"top": 3}, ("top is 3", "mode=Classic", "mode to DCG")),
    (CAT, {"mode": "NDCG", "top": 0}, ("top is 0", "at least 1")),
    (CAT, {"mode": "NDCG", "num_neighbors": 0}, ("num_neighbors is 0", "at least 1")),
    # CatBoost ends the process with a segmentation fault.
    (
        CAT,
        {"loss": "StochasticRank", "metric": "MRR", "top": 3},
        ("top is 3", "metric=MRR", "metric to NDCG"),
    ),
    (
        CAT,
        {"noise": "No", "permutations": 5},
        ("permutations is 5", "noise=No", "permutations=null"),
    ),
    (
        CAT,
        {"loss": "StochasticRank", "lambda_reg": 0.0, "nu": 0.5},
        ("nu is 0.5", "lambda_reg=0", "nu=null"),
    ),
    (
        CAT,
        {"extra": {"dcg_denominator": "Position"}},
        ("extra.dcg_denominator", "field dcg_denominator"),
    ),
    (
        CAT,
        {"loss": "StochasticRank", "metric": "MAP"},
        ("metric is MAP", "StochasticRank", "NDCG"),
    ),
    (
        CAT,
        {"loss": "QuerySoftMax", "lambda_reg": 0.5},
        ("lambda_reg is 0.5", "leaf_estimation_method to Newton"),
    ),
    (
        CAT,
        {"loss": "PairLogitPairwise", "num_leaves": 31},
        ("num_leaves is 31", "SymmetricTree", "num_leaves=null"),
    ),
    *(
        (
            CAT,
            {"monotone": {"1": 1}, "loss": loss, "grow_policy": "SymmetricTree"},
            ("monotone is {'1': 1}", loss, "loss=QueryRMSE", "num_leaves=null"),
        )
        for loss in ("LambdaMart", "YetiRank", "PairLogit", "StochasticRank")
    ),
    (
        CAT,
        {"extra": {"model_size_regg": 1}},
        ("extra.model_size_regg", "CatBoost", "'model_size_reg'"),
    ),
]


@pytest.mark.parametrize(("kind", "fields", "parts"), REFUSED)
def test_an_unsupported_setting_is_refused_with_the_remedy(
    kind: Kind, fields: dict[str, Any], parts: tuple[object, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        kind(**fields)


@pytest.mark.parametrize(
    ("kind", "name"), [(LIGHT, "max_depth"), (CAT, "model_size_reg")]
)
def test_a_value_of_extra_that_the_library_refuses_in_a_fit_is_a_config_error(
    kind: Kind, name: str
) -> None:
    with pytest.raises(
        ConfigError, match=naming(kind.library, f"{{'{name}': 'deep'}}")
    ):
        scores_of(kind, graded(), extra={name: "deep"})


@every_library
def test_a_fit_writes_no_files_and_prints_nothing(
    kind: Kind,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    kind(num_trees=2, early_stopping=EarlyStopping(patience=1)).fit(
        graded(0), graded(1)
    )
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@every_library
def test_without_shared_parameters_nothing_is_reported_as_matched(kind: Kind) -> None:
    (sentence,) = departures_of(kind(num_trees=3))
    assert all(
        part in sentence for part in (kind.library, "defaults", "shared parameters")
    )
    assert any("learning_rate" in each for each in departures_of(kind(num_leaves=31)))


@pytest.mark.parametrize(
    ("plain", "other", "more"),
    [
        (LIGHT(l2=0.0), LIGHT(l2=1.0, **BAGGING), 2),  # type: ignore[arg-type]
        (XGB(l2=0.0), XGB(l2=0.0, subsample=0.5, objective="pairwise"), 2),
        (CAT(**LAMBDAMART), CAT(**YETIRANK, subsample=0.5), 2),
    ],
)
def test_differences_are_reported_when_they_apply(
    plain: LibraryRanker, other: LibraryRanker, more: int
) -> None:
    assert len(departures_of(other)) == len(departures_of(plain)) + more


def test_iterations_without_a_split_count_as_iterations_but_not_as_trees() -> None:
    data = dataset(np.eye(40, 2), [0, 1] * 20, [0, 40])
    seen: list[int] = []
    ranker = LightGBMRanker(
        num_trees=5, num_threads=1, early_stopping=EarlyStopping(patience=2)
    )
    summary = ranker.fit(
        data, data, lambda iteration: seen.append(iteration.number)
    ).summary
    assert summary is not None
    assert (summary.num_trees, summary.num_iterations, seen) == (1, 5, [1])
