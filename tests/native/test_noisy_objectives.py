"""YetiRank and StochasticRank: kernels against specifications, means over random orders against CatBoost."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from messages import naming
from numpy.typing import NDArray

from ltrbench.errors import ConfigError, DataError
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.query_kernels import draw, draw_normal
from ltrbench.native.objectives.stochastic_rank import StochasticRank
from ltrbench.native.objectives.yetirank import MODES, YetiRank, reference

Values = NDArray[np.float64]

LABELS = np.array([0.0, 2.0, 1.0, 0.0, 3.0, 0.0, 1.0, 2.0])
SCORES = np.array([0.5, -0.3, 1.2, 0.0, -1.0, 0.8, 0.1, 0.9])


def gradients(
    objective: Objective, scores: Values, labels: Values, num_queries: int, seed: int = 5
) -> tuple[Values, Values]:
    """Returns (Q, n) gradients and hessians of Q equal queries."""
    n = len(scores)
    data = ObjectiveData(
        np.tile(labels, num_queries),
        np.ones(n * num_queries),
        np.arange(num_queries + 1) * n,
        np.arange(num_queries),
    )
    g, h = objective.gradients(np.tile(scores, num_queries), data, seed)
    return g.reshape(num_queries, n), h.reshape(num_queries, n)


SETTINGS: list[dict[str, Any]] = [
    *({"mode": mode, "noise": noise} for mode, noise in product(MODES, ("Gumbel", "No"))),
    *({"mode": mode, "num_neighbors": -1, "top": 3} for mode in MODES[1:]),
    {"mode": "NDCG", "num_neighbors": 2, "dcg_type": "Exp", "noise": "Gauss", "noise_power": 0.5},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_yetiranks_kernel_computes_the_specification(settings: dict[str, Any]) -> None:
    objective = YetiRank(**settings)
    for seed in range(16):
        rng, n = np.random.default_rng(seed), seed // 2 + 1
        scores = np.round(rng.normal(size=n), seed % 3)
        labels = rng.integers(0, 5, n) / (4.0 if objective.mode == "ERR" else 1.0)
        index = range(n * objective.permutations)
        u, normal = (np.array([function(seed, 0, i) for i in index]) for function in (draw, draw_normal))
        logistic = np.log(u / (1.000001 - u))
        noise = {"Gumbel": logistic, "Gauss": objective.noise_power * normal, "No": 0.0 * u}[objective.noise]
        expected = reference(objective, scores, labels, noise.reshape(-1, n))
        actual = [part[0] for part in gradients(objective, scores, labels, 1, seed)]
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


def dcg(labels: Values, order: NDArray[np.int64], objective: StochasticRank) -> Values:
    """Returns DCG of (..., n) orders of documents."""
    gains = np.exp2(labels) - 1.0 if objective.dcg_type == "Exp" else labels
    ranks = np.arange(1, len(labels) + 1)
    discounts = np.where(ranks <= (objective.top or len(labels)), 1.0 / np.log2(ranks + 1.0), 0.0)
    best = np.sort(gains)[::-1] @ discounts if objective.metric == "NDCG" else 1.0
    values: Values = (gains[order] * discounts).sum(axis=-1) / best
    return values


def reference_stochastic_rank(objective: StochasticRank, scores: Values, noise: Values) -> Values:
    """Specification: document i moves to every position between the others; noise is (estimations, n)."""
    n, sigma = len(scores), objective.sigma
    total = np.zeros(n)
    deviation = sigma * np.sqrt(n / (n - 1))
    for e in noise:
        z = scores - sigma * objective.mu * LABELS
        x = z + sigma * e
        for i in range(n):
            others = np.delete(np.argsort(-x, kind="stable"), np.argsort(-x, kind="stable").tolist().index(i))
            own = sigma if objective.dialect == "catboost" else 1.0
            moved = (e.sum() - own * e[i]) / (n - 1) * (1.0 if objective.dialect == "catboost" else sigma)
            distances = (x[others] - z[i] - moved) / deviation
            density = np.exp(-(distances**2) / 2) / (deviation * np.sqrt(2 * np.pi))
            values = [dcg(LABELS, np.insert(others, k, i), objective) for k in range(n)]
            total[i] += (values[:-1] - np.array(values[1:])) @ density
    g = -(total - total.mean()) / len(noise)
    centred = scores - scores.mean()
    norm = np.linalg.norm(centred) + objective.nu
    result: Values = g - objective.lambda_reg * (g @ centred) / norm**2 * centred
    return result


STOCHASTIC: list[dict[str, Any]] = [
    {},
    {"metric": "DCG", "dcg_type": "Exp", "top": 3, "num_estimations": 3, "mu": 0.2, "lambda_reg": 0.5},
    {"sigma": 0.5, "dialect": "catboost", "nu": 0.3},
]


@pytest.mark.parametrize("settings", STOCHASTIC, ids=str)
def test_stochastic_ranks_kernel_computes_the_specification(settings: dict[str, Any]) -> None:
    objective = StochasticRank(**settings)
    size = (objective.num_estimations, len(SCORES))
    noise = np.array([draw_normal(5, 0, i) for i in range(size[0] * size[1])]).reshape(size)
    expected = reference_stochastic_rank(objective, SCORES, noise)
    np.testing.assert_allclose(gradients(objective, SCORES, LABELS, 1)[0][0], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_stochastic_rank_is_an_unbiased_gradient_of_the_smoothed_metric() -> None:
    """For normal noise, the derivative of E[M(s + sigma e)] is E[M(s + sigma e) e] / sigma."""
    objective, num_draws = StochasticRank(sigma=0.5, lambda_reg=0.0), 20_000
    e = np.random.default_rng(0).normal(size=(10 * num_draws, len(SCORES)))
    values = dcg(LABELS, np.argsort(-(SCORES + 0.5 * e), axis=1), objective)
    slopes = -(values - values.mean())[:, None] * e / 0.5
    assert_means_agree(gradients(objective, SCORES, LABELS, num_draws)[0], slopes)


def assert_means_agree(a: Values, b: Values) -> None:
    """Asserts that the means of (draws, n) values agree within 3 standard errors."""
    error = np.sqrt(sum(part.var(axis=0) / len(part) for part in (a, b)))
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 3 * error).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "objective"),
    [
        ("YetiRank:permutations=2", YetiRank(permutations=2)),
        (
            "YetiRank:mode=NDCG;noise=Gauss;permutations=2",
            YetiRank(mode="NDCG", noise="Gauss", permutations=2),
        ),
        ("StochasticRank:metric=NDCG;sigma=0.5", StochasticRank(sigma=0.5, dialect="catboost")),
    ],
)
def test_the_mean_step_over_10_000_draws_agrees_with_catboost(loss: str, objective: Objective) -> None:
    """Each of the 8 documents of 10,000 equal queries has its own leaf, with the step -sum g / sum h.
    CatBoost moves all leaves by a constant, which is removed. The standard error is that of a ratio."""
    catboost = pytest.importorskip("catboost")
    n, num_queries = len(SCORES), 10_000
    bits = np.array([[int(bit) for bit in f"{number:03b}"] for number in range(n)], dtype=np.float32)
    pool = catboost.Pool(
        np.tile(bits, (num_queries, 1)),
        np.tile(LABELS, num_queries),
        group_id=np.repeat(np.arange(num_queries), n),
        baseline=np.tile(SCORES, num_queries),
    )
    plain = {
        **{"loss_function": loss, "iterations": 1, "depth": 3, "learning_rate": 1, "l2_leaf_reg": 0},
        **{"boosting_type": "Plain", "bootstrap_type": "No", "random_strength": 0, "thread_count": 1},
        **{"boost_from_average": False, "verbose": False, "allow_writing_files": False},
    }
    theirs = catboost.CatBoost(plain).fit(pool).predict(bits)
    g, h = gradients(objective, SCORES, LABELS, num_queries)
    step = -g.mean(axis=0) / h.mean(axis=0)
    residuals = (-g - step * h) / h.mean(axis=0)
    error = np.std(residuals - residuals.mean(axis=1, keepdims=True), axis=0) * np.sqrt(2 / num_queries)
    difference = theirs - step
    assert (np.abs(difference - difference.mean()) < 3 * error).all()


def test_settings_and_labels_that_do_not_apply_are_refused() -> None:
    for refused, parts in (
        ({"mode": "Classic", "top": 3}, ("top is 3", "mode=Classic", "mode to DCG")),
        ({"mode": "NDCG", "top": 0}, ("top is 0", "at least 1")),
        ({"mode": "NDCG", "num_neighbors": 0}, ("num_neighbors is 0", "-1")),
        ({"noise": "Gaus"}, ("noise is 'Gaus'", "'Gauss'")),
        ({"noise_power": 2.0}, ("noise_power is 2.0", "noise to Gauss")),
    ):
        with pytest.raises(ConfigError, match=naming(*parts)):
            YetiRank(**refused)
    with pytest.raises(DataError, match=naming("labels[1] is 2.0", "from 0 to 1", "mode=NDCG")):
        YetiRank(mode="ERR").check(np.array([1.0, 2.0]), np.array([0, 2]))
