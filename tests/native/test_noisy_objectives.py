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


def reference(
    objective: YetiRank, scores: Values, labels: Values, noise: NDArray[np.float64]
) -> tuple[Values, Values]:
    """Specification: returns the (n,) gradients and hessians of one query; noise is (orders, n)."""
    gradients, hessians = np.zeros((2, len(scores)))
    for row in noise:
        order = np.argsort(-(scores + row), kind="stable")
        y, s = labels[order], scores[order]
        upper_is_better = np.where(y[:, None] > y, 1.0, -1.0)
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
    if objective.mode == "Classic":
        weights = 0.15 * objective.decay ** (a - 1.0) * np.abs(y[:, None] - y)
    elif objective.mode in ("MRR", "MAP"):
        is_first: NDArray[np.bool_] = np.cumsum(relevant) - relevant == 0
        through = np.cumsum(relevant / b)
        of_mrr = is_first[:, None] * (1.0 / a - 1.0 / b)
        of_map = 1.0 / a + (through - relevant / b) - through[:, None]
        weights = (relevant[:, None] != relevant) * (of_mrr if objective.mode == "MRR" else of_map)
    elif objective.mode == "ERR":
        swapped = y[[[_swap(n, i, j) for j in range(n)] for i in range(n)]]
        reached = np.cumprod(np.insert(1.0 - swapped, 0, 1.0, axis=2), axis=2)[..., :-1]
        err = (swapped * reached / b).sum(axis=2)
        weights = np.abs(err - err[0, 0])
    else:
        gains = np.exp2(y) - 1.0 if objective.dcg_type == "Exp" else y
        discounts = np.where(b <= top, 1.0 / np.log2(b + 1.0), 0.0)
        best = np.sort(gains)[::-1] @ discounts if objective.mode == "NDCG" else 1.0
        weights = np.abs((gains[:, None] - gains) * (discounts[:, None] - discounts)) / (best or 1.0)
    neighbors = n if objective.num_neighbors is None else objective.num_neighbors
    return np.where((y[:, None] != y) & (a < b) & (b <= a + neighbors) & (a <= top), weights, 0.0)


def _swap(n: int, i: int, j: int) -> list[int]:
    """Returns 0, 1, ..., n - 1, with i and j swapped."""
    return [j if k == i else i if k == j else k for k in range(n)]


SETTINGS: list[dict[str, Any]] = [
    *({"mode": mode, "noise": noise} for mode, noise in product(MODES, ("Gumbel", "No"))),
    *({"mode": mode, "num_neighbors": None, "top": 3} for mode in MODES[1:]),
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
        (
            "StochasticRank:metric=DCG;top=3;type=Exp;num_estimations=2;mu=0.2;lambda=0.5;nu=0.3",
            StochasticRank(
                metric="DCG", top=3, dcg_type="Exp", num_estimations=2, mu=0.2, lambda_reg=0.5, nu=0.3
            ),
        ),
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
        ({"mode": "NDCG", "num_neighbors": 0}, ("num_neighbors is 0", "at least 1")),
        ({"noise": "Gaus"}, ("noise is 'Gaus'", "'Gauss'")),
        ({"noise_power": 2.0}, ("noise_power is 2.0", "noise to Gauss")),
    ):
        with pytest.raises(ConfigError, match=naming(*parts)):
            YetiRank(**refused)
    with pytest.raises(DataError, match=naming("labels[1] is 2.0", "from 0 to 1", "mode=NDCG")):
        YetiRank(mode="ERR").check(np.array([1.0, 2.0]), np.array([0, 2]))
