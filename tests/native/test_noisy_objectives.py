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
from ltrbench.native.objectives.yetirank import MODES, YetiRank

Values = NDArray[np.float64]

LABELS = np.array([0.0, 2.0, 1.0, 0.0, 3.0, 0.0, 1.0, 2.0])
SCORES = np.array([0.5, -0.3, 1.2, 0.0, -1.0, 0.8, 0.1, 0.9])


def gradients(
    objective: Objective,
    scores: Values,
    labels: Values,
    num_queries: int,
    seed: int = 5,
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


def reference(
    objective: YetiRank, scores: Values, labels: Values, noise: NDArray[np.float64]
) -> tuple[Values, Values]:
    """Specification: returns the (n,) gradients and hessians of one query; noise is (orders, n)."""
    gradients, hessians = np.zeros((2, len(scores)))
    for row in noise:
        order = np.argsort(-(scores + row), kind="stable")
        y, s = labels[order], scores[order]
        upper_is_better = np.where(y[:, None] > y, 1.0, -1.0)
        with np.errstate(over="ignore"):
            p = 1.0 / (1.0 + np.exp(upper_is_better * (s[:, None] - s)))
        push = reference_weights(objective, y) * p * upper_is_better
        bend = np.abs(push) * (1.0 - p)
        gradients[order] += push.sum(axis=0) - push.sum(axis=1)
        hessians[order] += bend.sum(axis=0) + bend.sum(axis=1)
    return gradients / len(noise), hessians / len(noise)


def reference_weights(objective: YetiRank, y: Values) -> NDArray[np.float64]:
    """Specification: returns the (n, n) weights of the pairs of ranks a < b; y are the labels by rank."""
    n = len(y)
    b, relevant = np.arange(1, n + 1), y > 0
    a, top = b[:, None], objective.top or n
    gains = np.exp2(y) - 1.0 if objective.dcg_type == "Exp" else y
    discounts = np.where(b <= top, 1.0 / np.log2(b + 1.0), 0.0)
    of_dcg = np.abs((gains[:, None] - gains) * (discounts[:, None] - discounts))
    through = np.cumsum(relevant / b)
    is_first: NDArray[np.bool_] = (
        np.cumsum(relevant) - relevant == 0
    )  # no relevant document above
    differ = relevant[:, None] != relevant
    errs = np.array([[err_of_swap(y, i, j) for j in range(n)] for i in range(n)])
    weights = {
        "Classic": 0.15 * objective.decay ** (a - 1.0) * np.abs(y[:, None] - y),
        "DCG": of_dcg,
        "NDCG": of_dcg / (np.sort(gains)[::-1] @ discounts or 1.0),
        "MRR": differ * is_first[:, None] * (1.0 / a - 1.0 / b),
        "MAP": differ * (1.0 / a + (through - relevant / b) - through[:, None]),
        "ERR": np.abs(errs - errs[0, 0]),
    }
    counts = (
        (y[:, None] != y)
        & (a < b)
        & (b <= a + (objective.num_neighbors or n))
        & (a <= top)
    )
    return np.where(counts, weights[objective.mode], 0.0)


def err_of_swap(y: Values, i: int, j: int) -> float:
    y = y.copy()
    y[[i, j]] = y[[j, i]]
    return float(
        (y * np.cumprod([1.0, *(1.0 - y[:-1])]) / np.arange(1, len(y) + 1)).sum()
    )


SETTINGS: list[dict[str, Any]] = [
    *(
        {"mode": mode, "noise": noise}
        for mode, noise in product(MODES, ("Gumbel", "No"))
    ),
    *({"mode": mode, "num_neighbors": None, "top": 3} for mode in MODES[1:]),
    {
        "mode": "NDCG",
        "num_neighbors": 2,
        "dcg_type": "Exp",
        "noise": "Gauss",
        "noise_power": 0.5,
    },
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_yetiranks_kernel_computes_the_specification(settings: dict[str, Any]) -> None:
    objective = YetiRank(**settings)
    for seed in range(16):
        rng, n = np.random.default_rng(seed), seed // 2 + 1
        scores = np.round(rng.normal(size=n), seed % 3)
        if seed % 4 == 3:
            scores *= 1000  # too far apart for a common base of exponentials
        labels = rng.integers(0, 5, n) / (4.0 if objective.mode == "ERR" else 1.0)
        index = range(n * objective.permutations)
        u, normal = (
            np.array([function(seed, 0, i) for i in index])
            for function in (draw, draw_normal)
        )
        logistic = np.log(u / (1.000001 - u))
        noise = {
            "Gumbel": logistic,
            "Gauss": objective.noise_power * normal,
            "No": 0.0 * u,
        }[objective.noise]
        expected = reference(objective, scores, labels, noise.reshape(-1, n))
        actual = [part[0] for part in gradients(objective, scores, labels, 1, seed)]
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_stochastic_rank_is_an_unbiased_gradient_of_the_smoothed_metric() -> None:
    """For normal noise, the derivative of E[M(s + sigma e)] is E[M(s + sigma e) e] / sigma."""
    e = np.random.default_rng(0).normal(size=(100_000, len(SCORES)))
    discounts = 1 / np.log2(np.arange(2, len(SCORES) + 2))
    values = LABELS[np.argsort(-(SCORES + 0.5 * e), axis=1)] @ discounts
    slopes = -(values - values.mean())[:, None] * e / 0.5
    objective = StochasticRank(metric="DCG", sigma=0.5, lambda_reg=0.0)
    ours, _ = gradients(objective, SCORES, LABELS, num_queries=20_000)
    error = np.sqrt(slopes.var(axis=0) / len(slopes) + ours.var(axis=0) / len(ours))
    assert (np.abs(slopes.mean(axis=0) - ours.mean(axis=0)) < 3 * error).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "objective"),
    [
        ("YetiRank:permutations=2", YetiRank(permutations=2)),
        (
            "YetiRank:mode=NDCG;noise=Gauss;permutations=2",
            YetiRank(mode="NDCG", noise="Gauss", permutations=2),
        ),
        (
            "StochasticRank:metric=NDCG;sigma=0.5",
            StochasticRank(sigma=0.5, dialect="catboost"),
        ),
        (
            "StochasticRank:metric=DCG;top=3;type=Exp;mu=0.2;lambda=0.5",
            StochasticRank(metric="DCG", top=3, dcg_type="Exp", mu=0.2, lambda_reg=0.5),
        ),
    ],
)
def test_the_mean_step_over_10_000_draws_agrees_with_catboost(
    loss: str, objective: Objective
) -> None:
    """Each of the 8 documents of 10,000 equal queries has its own leaf, with the step -sum g / sum h.
    CatBoost moves all leaves by a constant, which is removed. The standard error is that of a ratio."""
    catboost = pytest.importorskip("catboost")
    n, num_queries = len(SCORES), 10_000
    bits = np.array(
        [[int(bit) for bit in f"{number:03b}"] for number in range(n)], dtype=np.float32
    )
    pool = catboost.Pool(
        np.tile(bits, (num_queries, 1)),
        np.tile(LABELS, num_queries),
        group_id=np.repeat(np.arange(num_queries), n),
        baseline=np.tile(SCORES, num_queries),
    )
    plain = {
        **{
            "loss_function": loss,
            "iterations": 1,
            "depth": 3,
            "learning_rate": 1,
            "l2_leaf_reg": 0,
        },
        **{
            "boosting_type": "Plain",
            "bootstrap_type": "No",
            "random_strength": 0,
            "thread_count": 1,
        },
        **{"boost_from_average": False, "verbose": False, "allow_writing_files": False},
    }
    theirs = catboost.CatBoost(plain).fit(pool).predict(bits)
    g, h = gradients(objective, SCORES, LABELS, num_queries)
    step = -g.mean(axis=0) / h.mean(axis=0)
    residuals = (-g - step * h) / h.mean(axis=0)
    error = np.std(residuals - residuals.mean(axis=1, keepdims=True), axis=0) * np.sqrt(
        2 / num_queries
    )
    difference = theirs - step
    assert (np.abs(difference - difference.mean()) < 3 * error).all()


def test_err_refuses_labels_that_are_no_probabilities() -> None:
    with pytest.raises(
        DataError, match=naming("labels[1] is 2.0", "from 0 to 1", "mode=NDCG")
    ):
        YetiRank(mode="ERR").check(np.array([1.0, 2.0]), np.array([0, 2]))


def test_nu_without_the_projection_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=naming("nu is 0.5", "lambda_reg=0", "nu=0.01")
    ):
        StochasticRank(lambda_reg=0.0, nu=0.5)


@pytest.mark.parametrize(
    "objective", [YetiRank(mode="DCG", dcg_type="Exp"), StochasticRank(dcg_type="Exp")]
)
def test_labels_with_an_infinite_gain_are_refused(objective: Objective) -> None:
    with pytest.raises(DataError, match=naming("labels[1] is 2000")):
        objective.check(np.array([1.0, 2000.0]), np.array([0, 2]))
