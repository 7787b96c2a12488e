"""Compares the compiled objectives with the installed LightGBM and XGBoost, which do not expose gradients.

Instead, each library computes -g / (h + l2) of every document: LightGBM by refitting a tree with one document
per leaf, XGBoost by a linear model with one feature per document. Two values of l2 determine g and h; with a
large l2, the result depends almost only on g.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from engine_cases import dialect
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.metrics.conventions import TableGain, linear_gain
from ltrbench.native.objectives.cross_entropy import CrossEntropy
from ltrbench.native.objectives.lambdas import ObjectiveSettings, prepare
from ltrbench.native.objectives.pairs import PairSettings

Values = NDArray[np.float64]

LIGHTGBM, XGBOOST = dialect("lightgbm"), dialect("xgboost")
PLAIN: dict[str, Any] = {"normalize_query": False, "normalize_distance": False}


@dataclass
class Case:
    """Queries with tied scores, including one with one document, some with equal labels or equal scores."""

    data: RankingDataset
    scores: Values


def make_case(
    seed: int, highest: int = 3, weighted: bool = False, sizes: Any = None
) -> Case:
    rng = np.random.default_rng(seed)
    sizes = (
        np.concatenate([[1, 2], rng.integers(2, 50, 20)])
        if sizes is None
        else np.asarray(sizes)
    )
    start = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, highest + 1, start[-1]).astype(np.float64)
    scores = np.round(rng.normal(size=start[-1]), 1)
    labels[start[3] : start[4]] = 0.0
    labels[start[4] : start[5]] = 1.0
    scores[start[6] : start[7]] = 0.5
    data = RankingDataset(
        features=np.arange(start[-1], dtype=np.float32)[:, None],
        labels=labels,
        query_start=start,
        query_weights=rng.uniform(0.5, 2.0, len(sizes)) if weighted else None,
    )
    return Case(data, scores)


def steps(
    case: Case, settings: ObjectiveSettings, l2: float, rng: Any = None
) -> Values:
    """Returns the engine's (D,) values of -g / (h + l2)."""
    gradients, hessians = prepare(case.data, settings)(
        case.scores, None, rng or np.random.default_rng(0)
    )
    return -gradients / (hessians + l2)


def steps_of_lightgbm(case: Case, l2: float, **parameters: Any) -> Values:
    """Returns LightGBM's (D,) values of -g / (h + l2): a tree with one document per leaf, refitted."""
    data, num_documents = case.data, case.data.num_documents
    parameters_of_tree: dict[str, Any] = {
        **{
            "num_leaves": num_documents,
            "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 0.0,
        },
        **{
            "max_bin": num_documents + 1,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
        },
        **{
            "objective": "regression",
            "learning_rate": 1.0,
            "num_threads": 1,
            "verbosity": -1,
        },
    }
    # Labels with increasing distances, so that every document gets its own leaf.
    apart = lgb.Dataset(
        data.features, np.arange(num_documents) ** 2.0, params=parameters_of_tree
    )
    tree = lgb.train(parameters_of_tree, apart, 1)
    tree.params.update(parameters, lambda_l2=l2)
    refitted = tree.refit(
        data.features,
        data.labels,
        decay_rate=0.0,
        group=data.query_sizes,
        weight=None if data.query_weights is None else data.weight_of_document,
        init_score=case.scores,
    )
    return np.asarray(refitted.predict(data.features, raw_score=True))


def steps_of_xgboost(case: Case, l2: float, **parameters: Any) -> Values:
    """Returns XGBoost's (D,) values of -g / (h + l2): a linear model with one feature per document."""
    num_documents = case.data.num_documents
    documents = np.eye(num_documents, dtype=np.float32)
    matrix = xgb.DMatrix(
        documents,
        label=case.data.labels,
        group=case.data.query_sizes,
        base_margin=case.scores.astype(np.float32),
    )
    parameters_of_model = {
        # XGBoost multiplies reg_lambda by the number of documents.
        **{
            "booster": "gblinear",
            "updater": "coord_descent",
            "eta": 1.0,
            "reg_lambda": l2 / num_documents,
        },
        **{
            "base_score": 0.0,
            "nthread": 1,
            "disable_default_eval_metric": 1,
            "verbosity": 0,
        },
    }
    booster = xgb.Booster({**parameters_of_model, **parameters}, [matrix])
    booster.update(matrix, 0)
    nothing = xgb.DMatrix(np.zeros((1, num_documents), dtype=np.float32))
    bias = booster.predict(nothing, output_margin=True)
    of_documents = booster.predict(xgb.DMatrix(documents), output_margin=True)
    return np.asarray(of_documents - bias, dtype=np.float64)


def assert_alike(
    library: Callable[..., Values],
    case: Case,
    settings: ObjectiveSettings,
    parameters: dict[str, Any],
    draws: Any = None,
) -> None:
    for l2 in (0.1, 1.0, 100.0):
        got, expected = (
            steps(case, settings, l2, draws),
            library(case, l2, **parameters),
        )
        # Both libraries keep gradients and hessians in float32.
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6 / (1.0 + l2))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        (LIGHTGBM, {}),
        (replace(LIGHTGBM, **PLAIN), {"lambdarank_norm": False}),
        (replace(LIGHTGBM, truncation=3), {"lambdarank_truncation_level": 3}),
        (replace(LIGHTGBM, sigma=2.0), {"sigmoid": 2.0}),
        (
            replace(
                LIGHTGBM,
                convention=replace(
                    LIGHTGBM.convention, gain=TableGain((0.0, 1.0, 5.0, 6.0))
                ),
            ),
            {"label_gain": [0.0, 1.0, 5.0, 6.0]},
        ),
    ],
    ids=["default", "norm off", "truncation 3", "sigma 2", "label gain"],
)
def test_lambdas_are_lightgbms(
    settings: PairSettings, parameters: dict[str, Any], weighted: bool, seed: int
) -> None:
    parameters = {"objective": "lambdarank", **parameters}
    assert_alike(
        steps_of_lightgbm, make_case(seed, weighted=weighted), settings, parameters
    )


class LightGBMDraws:
    """LightGBM's random generator, one per query: include/LightGBM/utils/random.h, NextFloat."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.seed = case, seed

    def random(self, num_documents: int) -> Values:
        draws = []
        for query, size in enumerate(self.case.data.query_sizes):
            state = self.seed + query
            for _ in range(size):
                state = (214013 * state + 2531011) % 2**32
                draws.append((state >> 16 & 0x7FFF) / 32768.0)
        return np.array(draws)


@pytest.mark.parametrize("weighted", [False, True])
def test_xendcg_is_lightgbms_given_its_draws(weighted: bool) -> None:
    case = make_case(2, weighted=weighted)
    parameters = {"objective": "rank_xendcg", "objective_seed": 11}
    assert_alike(
        steps_of_lightgbm, case, CrossEntropy(), parameters, LightGBMDraws(case, 11)
    )


LINEAR = replace(XGBOOST, convention=replace(XGBOOST.convention, gain=linear_gain))


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        (XGBOOST, {}),
        (LINEAR, {"ndcg_exp_gain": False}),
        (replace(XGBOOST, truncation=3), {"lambdarank_num_pair_per_sample": 3}),
        (replace(XGBOOST, normalize_query=False), {"lambdarank_normalization": False}),
        (
            replace(XGBOOST, normalize_distance=False),
            {"lambdarank_score_normalization": False},
        ),
        (replace(XGBOOST, metric=None), {"objective": "rank:pairwise"}),
        (replace(XGBOOST, metric="map"), {"objective": "rank:map"}),
    ],
    ids=[
        "default",
        "linear",
        "truncation 3",
        "unnormalised",
        "no distance",
        "pairwise",
        "map",
    ],
)
def test_lambdas_are_xgboosts(
    settings: PairSettings, parameters: dict[str, Any], seed: int
) -> None:
    parameters = {"objective": "rank:ndcg", **parameters}
    # XGBoost's map only accepts labels 0 and 1.
    case = make_case(seed, highest=1 if settings.metric == "map" else 3)
    assert_alike(steps_of_xgboost, case, settings, parameters)
