"""Compares both corrections of position bias with their specifications and with LightGBM and XGBoost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from engine_cases import MAY_COMPILE, dialect
from hypothesis import given, settings
from hypothesis import strategies as st

from ltrbench.data import RankingDataset
from ltrbench.native.objectives.lambdas import prepare
from ltrbench.native.objectives.pairs import PairSettings
from ltrbench.native.objectives.position_bias import (
    AdditiveBias,
    Propensities,
    UnbiasedPairs,
    reference_unbiased,
)
from ltrbench.rankers.native import NativeRanker
from ltrbench.shapes import Scores

NUM_QUERIES, SIZE = 200, 12


def clicked() -> RankingDataset:
    """Returns clicks whose probability depends on relevance and, as 1 / (1 + position), on the position."""
    rng = np.random.default_rng(0)
    features = rng.integers(0, 40, size=(NUM_QUERIES * SIZE, 5)).astype(np.float32)
    utility = (
        features[:, 0] / 20
        + features[:, 1] * features[:, 2] / 800
        + 0.3 * rng.normal(size=len(features))
    )
    positions = np.tile(np.arange(SIZE), NUM_QUERIES)
    clicks = rng.random(len(features)) < 1 / (1 + positions) / (
        1 + np.exp(-2 * (utility - 1.5))
    )
    return RankingDataset(
        features=features,
        labels=clicks.astype(np.float64),
        query_start=np.arange(0, len(features) + 1, SIZE),
        positions=positions,
    )


CLICKED = clicked()


def shown_and_judged(seed: int) -> RankingDataset:
    """Returns queries of 12 documents, in the order of a feature that is not relevant, with grades."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(300, SIZE, 4)).astype(np.float32)
    order = np.argsort(-features[:, :, 3], axis=1)[:, :, np.newaxis]
    rows = np.take_along_axis(features, order, axis=1).reshape(-1, 4)
    utility = rows[:, 0] + 0.5 * rows[:, 1] + 0.3 * rng.normal(size=len(rows))
    return RankingDataset(
        features=rows,
        labels=np.digitize(utility, [0.5, 1.2, 2.0]).astype(np.float64),
        query_start=np.arange(0, len(rows) + 1, SIZE),
    )


def by_position(attraction: np.ndarray, severity: float) -> np.ndarray:
    """Returns clicks of users who examine rank r with the probability 1 / r^severity."""
    rng = np.random.default_rng(1)
    examination = (1.0 + np.arange(SIZE)) ** -severity
    clicks: np.ndarray = rng.random(attraction.shape) < attraction * examination
    return clicks


def in_a_cascade(attraction: np.ndarray, severity: float) -> np.ndarray:
    """Returns clicks of users who examine from the top, and end after most clicks and after some ranks."""
    rng = np.random.default_rng(1)
    clicks = np.zeros(attraction.shape, dtype=np.bool_)
    reads = np.ones(len(attraction), dtype=np.bool_)
    for rank in range(SIZE):
        clicks[:, rank] = reads & (rng.random(len(reads)) < attraction[:, rank])
        is_satisfied = clicks[:, rank] & (rng.random(len(reads)) < 0.6)
        reads &= ~is_satisfied & (rng.random(len(reads)) < 1.0 - 0.2 * severity)
    return clicks


@pytest.mark.parametrize("severity", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("click", [by_position, in_a_cascade])
def test_by_default_propensities_rank_better_than_no_correction_and_the_papers_cost(
    click: Callable[[np.ndarray, float], np.ndarray], severity: float
) -> None:
    shown, test = shown_and_judged(2), shown_and_judged(3)
    attraction = 0.05 + 0.95 * shown.labels.reshape(-1, SIZE) / 3
    clicks = shown.with_fields(
        labels=click(attraction, severity).astype(np.float64).ravel(),
        positions=shown.ranks_of_rows,
    )
    plain = NativeRanker(num_trees=30, num_leaves=8)
    corrected = replace(plain, position_bias="propensity")
    papers = replace(corrected, position_bias_cost="logistic")
    none, default, logistic = (
        ranker.fit(clicks).score(test) for ranker in (plain, corrected, papers)
    )
    assert default > max(none, logistic)


def call(
    correction: AdditiveBias | UnbiasedPairs,
    scores: Scores,
    queries: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    return correction(
        np.asarray(scores, dtype=np.float64), queries, np.random.default_rng(0)
    )


def test_biases_are_those_that_lightgbm_learns() -> None:
    rate, l2 = 0.2, 0.05
    messages: list[str] = []

    class Log:
        def info(self, message: str) -> None:
            messages.append(message)

        warning = info

    parameters = {
        "objective": "lambdarank",
        "lambdarank_position_bias_regularization": l2,
        "learning_rate": rate,
        "num_threads": 1,
        "verbose": 2,
    }
    lgb.register_logger(Log())
    try:
        train_set = lgb.Dataset(
            CLICKED.features,
            CLICKED.labels,
            group=CLICKED.query_sizes,
            position=CLICKED.positions,
        )
        booster = lgb.train(parameters, train_set, 4)
    finally:
        lgb.register_logger(_Silent())
    printed = re.findall(r"\[Debug\]\s+(\d+)\s+(-?[\d.e-]+)", "".join(messages))
    theirs = np.array([float(bias) for _, bias in printed]).reshape(4, SIZE)

    objective = prepare(CLICKED, dialect("lightgbm"))
    ours = AdditiveBias(objective, CLICKED, rate, l2)
    for iteration in range(4):
        raw = (
            booster.predict(CLICKED.features, num_iteration=iteration)
            if iteration
            else np.zeros(2400)
        )
        call(ours, np.asarray(raw))
        # LightGBM prints six digits.
        np.testing.assert_allclose(
            ours.biases[-1], theirs[iteration], rtol=2e-5, atol=1e-7
        )


class _Silent:
    def info(self, _: str) -> None:
        pass

    warning = info


def xgboost_config(booster: xgb.Booster) -> Propensities:
    objective = json.loads(booster.save_config())["learner"]["objective"]
    return Propensities(np.array(objective["ti+"]), np.array(objective["tj-"]))


XGBOOST = replace(dialect("xgboost"), truncation=8)
XGBOOST_PARAMETERS = {
    "objective": "rank:ndcg",
    "lambdarank_unbiased": True,
    "lambdarank_pair_method": "topk",
    "lambdarank_num_pair_per_sample": 8,
    "lambdarank_bias_norm": 0.5,
    "eta": 0.2,
    "reg_lambda": 0.0,
    "min_child_weight": 2e-3,
    "max_depth": 0,
    "max_leaves": 8,
    "grow_policy": "lossguide",
    "tree_method": "hist",
    "base_score": 0.0,
    "nthread": 1,
}


def test_propensities_are_those_that_xgboost_learns() -> None:
    data = xgb.DMatrix(CLICKED.features, CLICKED.labels, qid=CLICKED.query_of_document)
    ours = UnbiasedPairs(CLICKED, XGBOOST, norm=0.5, mirrored=True)
    papers = UnbiasedPairs(CLICKED, XGBOOST, norm=0.5, mirrored=False)
    scores = np.zeros(CLICKED.num_documents)
    for iteration in range(1, 5):
        booster = xgb.train(XGBOOST_PARAMETERS, data, iteration)
        call(ours, scores)
        call(papers, scores)
        for t, theirs in zip(
            ours.propensities[-1], xgboost_config(booster), strict=True
        ):
            np.testing.assert_allclose(t, theirs, rtol=2e-5)
        scores = booster.predict(data, output_margin=True)
    # XGBoost's cost is not the paper's: propensities differ as soon as scores differ.
    assert (
        np.abs(papers.propensities[1].t_plus - ours.propensities[1].t_plus).max()
        < 1e-12
    )
    assert (
        np.abs(papers.propensities[2].t_plus - ours.propensities[2].t_plus).max() > 1e-3
    )


@pytest.mark.parametrize("truncation", [4, 30])
def test_propensities_do_not_depend_on_the_number_of_the_first_position(
    truncation: int, tmp_path: Path
) -> None:
    assert CLICKED.positions is not None
    ranker = NativeRanker(
        num_trees=3, position_bias="propensity", truncation=truncation
    )
    from_0 = ranker.fit(CLICKED)
    data = replace(CLICKED, positions=CLICKED.positions + 5)
    from_5 = replace(ranker).fit(data)
    scores = from_0.predict(CLICKED.features)
    np.testing.assert_array_equal(from_5.predict(CLICKED.features), scores)
    factors = from_5.position_factors
    np.testing.assert_array_equal(
        factors["position"], from_0.position_factors["position"] + 5
    )
    assert factors["t_plus"][0] == 1 > factors["t_plus"][1]
    from_5.save(tmp_path)
    more = replace(ranker, num_trees=5)
    continued = replace(more, warm_start=str(tmp_path)).fit(data)
    scores = more.fit(CLICKED).predict(CLICKED.features)
    np.testing.assert_array_equal(continued.predict(CLICKED.features), scores)


def test_propensities_are_relative_to_the_first_position_with_clicks() -> None:
    is_first = CLICKED.positions == 0
    data = replace(CLICKED, labels=np.where(is_first, 0.0, CLICKED.labels))
    ranker = NativeRanker(num_trees=3, position_bias="propensity").fit(data)
    t_plus = ranker.position_factors["t_plus"]
    assert t_plus[0] == 0
    assert t_plus[1] == 1 > t_plus[SIZE - 1] > 0


@settings(MAY_COMPILE, max_examples=min(MAY_COMPILE.max_examples, 25))
@given(
    n=st.integers(1, 9),
    truncation=st.integers(1, 9),
    sigma=st.sampled_from([0.5, 1.0, 2.0]),
    normalize=st.tuples(st.booleans(), st.booleans()),
    mirrored=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_kernel_computes_what_the_formulas_say(
    n: int,
    truncation: int,
    sigma: float,
    normalize: tuple[bool, bool],
    mirrored: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    data = RankingDataset(
        features=np.zeros((n, 1), np.float32),
        labels=rng.integers(0, 3, n).astype(np.float64),
        query_start=np.array([0, n]),
        positions=rng.permutation(12)[:n],
    )
    assert data.positions is not None
    scores = rng.integers(0, 4, n).astype(np.float64)
    pairs = PairSettings(
        truncation=truncation,
        sigma=sigma,
        normalize_distance=normalize[0],
        normalize_query=normalize[1],
        hessian_factor=2.0,
    )
    t = Propensities(
        rng.choice([0.0, 0.3, 1.0, 1.5], truncation),
        rng.choice([0.0, 0.5, 1.0], truncation),
    )
    correction = UnbiasedPairs(data, pairs, norm=0.0, mirrored=mirrored)
    correction.propensities = [t]
    g, h = call(correction, scores)
    lowest = data.positions.min()
    g_expected, h_expected, plus, minus = reference_unbiased(
        data.labels, scores, data.positions - lowest, t, pairs, mirrored
    )
    np.testing.assert_allclose(g, g_expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(h, h_expected, rtol=1e-9, atol=1e-12)
    can_be = (data.labels > data.labels.min(), data.labels < data.labels.max())
    for learned, before, costs, chosen in zip(
        correction.propensities[1], t, (plus, minus), can_be, strict=True
    ):
        possible = [*data.positions[chosen] - lowest, truncation]
        reference = min(possible) % truncation
        sums = [
            costs[data.positions == lowest + position].sum()
            for position in range(truncation)
        ]
        expected = before
        if sums[reference] >= 1e-16:
            expected = np.array(sums) / sums[reference]
        np.testing.assert_allclose(learned, expected, rtol=1e-9, atol=1e-12)
