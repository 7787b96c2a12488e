# mypy: strict-optional=False
"""The intervals of a comparison, computed again with NumPy and SciPy from the formulas of their sources."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from claim_cases import SEEDS, deterministic, folds, only, resampled, runs_of, values_of
from numpy.typing import NDArray
from scipy import stats

from ltrbench.compare import Settings
from ltrbench.compare.pairs import against
from ltrbench.runs import Run

Values = NDArray[np.float64]  # (R, Q)
Models = Mapping[
    str, Sequence[Values]
]  # label -> values in each fold, or on the only split
Half = Callable[[Models, str, str], float]

TRAIN, TEST = 90, 30
"""Numbers of queries of a fold of the toy runs."""


def t_of(degrees: float, level: float = 0.05) -> float:
    return float(stats.t.ppf(1 - level / 2, degrees))


@lru_cache
def tukey(num_models: int, degrees: int, level: float) -> float:
    return float(
        stats.studentized_range.ppf(1 - level, num_models, degrees) / np.sqrt(2)
    )


def by_queries(num_pairs: int) -> Half:
    """Student's t over queries, at 5 % divided by the number of pairs."""

    def half(models: Models, a: str, b: str) -> float:
        differences = models[a][0][0] - models[b][0][0]
        return t_of(len(differences) - 1, 0.05 / num_pairs) * float(
            stats.sem(differences)
        )

    return half


def split_plot(models: Models, a: str, b: str) -> float:
    """Hillis (2007), trainings nested in models."""
    values = [models[a][0], models[b][0]]
    num_queries = values[0].shape[1]
    trainings = [
        np.var(of_model.mean(axis=1), ddof=1) / len(of_model) for of_model in values
    ]
    both = sum(
        np.var(of_model - of_model.mean(axis=0), axis=1, ddof=1).sum()
        / num_queries
        / (len(of_model) * (len(of_model) - 1))
        for of_model in values
    )
    differences = values[0].mean(axis=0) - values[1].mean(axis=0)
    queries = max(np.var(differences, ddof=1) / num_queries - both, 0)
    variance = sum(trainings) + queries
    terms = [
        (part, len(of_model) - 1)
        for part, of_model in zip(trainings, values, strict=True)
    ]
    degrees = variance**2 / sum(
        part**2 / free for part, free in [*terms, (queries, num_queries - 1)]
    )
    return t_of(degrees) * float(np.sqrt(variance))


def crossed(factor: float) -> Half:
    """Paired differences over R common trainings, with the factor of var_t: 1/R, or 1 + 1/R (bootstrap)."""

    def half(models: Models, a: str, b: str) -> float:
        differences = models[a][0] - models[b][0]
        number, num_queries = differences.shape
        training = factor * np.var(differences.mean(axis=1), ddof=1)
        centred = differences - differences.mean(axis=0)
        both = (
            factor * np.var(centred, axis=1, ddof=1).sum() / num_queries / (number - 1)
        )
        queries = max(np.var(differences.mean(axis=0), ddof=1) / num_queries - both, 0)
        variance = training + queries
        quantile = (
            training * t_of(number - 1) + queries * t_of(num_queries - 1)
        ) / variance
        return float(quantile * np.sqrt(variance))

    return half


def over_folds(models: Models, a: str, b: str, variance: float | None = None) -> float:
    """Standard error of Nadeau and Bengio (2003), and the variance of seeds within folds."""
    number = len(models[a])
    if variance is None:
        variance = float(np.var(means_of(models, a) - means_of(models, b), ddof=1))
    within = sum(
        np.var(fold.mean(axis=1), ddof=1) / len(fold)
        for label in (a, b)
        for fold in models[label]
        if len(fold) > 1
    )
    return float(np.sqrt((1 / number + TEST / TRAIN) * variance + within / number**2))


def means_of(models: Models, label: str) -> Values:
    return np.array([fold.mean() for fold in models[label]])


def corrected(num_pairs: int) -> Half:
    return lambda models, a, b: (
        t_of(len(models[a]) - 1, 0.05 / num_pairs) * over_folds(models, a, b)
    )


def shared(num_pairs: int, num_sharing: int) -> Half:
    """Variances of Grubbs (1948), from the variances of all pairs of the pool, and the quantile of Tukey."""

    def half(models: Models, a: str, b: str) -> float:
        if "random" in (a, b):
            return corrected(num_pairs)(models, a, b)
        pool = [label for label in models if label != "random"]
        of_pairs = {
            frozenset(pair): np.var(
                means_of(models, pair[0]) - means_of(models, pair[1]), ddof=1
            )
            for pair in itertools.combinations(pool, 2)
        }
        total = sum(of_pairs.values()) / (len(pool) - 1)
        least = total / len(pool)
        variance = sum(
            max(
                least,
                (sum(of_pairs[pair] for pair in of_pairs if label in pair) - total)
                / (len(pool) - 2),
            )
            for label in (a, b)
        )
        degrees = (len(pool) - 1) * (len(models[a]) - 1)
        level = 0.05 * num_sharing / num_pairs
        quantile = min(
            tukey(len(pool), degrees, level), t_of(degrees, 0.05 / num_pairs)
        )
        return quantile * over_folds(models, a, b, float(variance))

    return half


def of_models(
    make: Callable[..., list[Run]], *models: str, **options: object
) -> Callable[[Path], list[Run]]:
    def build(folder: Path) -> list[Run]:
        skills = enumerate(models, start=1)
        return [
            run
            for skill, model in skills
            for run in make(folder, model, skill=skill / 2, **options)
        ]

    return build


FIVE = ("native", "xgboost", "lightgbm", "linear", "random")
SAME = {"ranker": {"class": "native", "fields": {}}}


@pytest.mark.parametrize(
    ("method", "build", "half", "baseline"),
    [
        ("t", of_models(deterministic, "native", "xgboost"), by_queries(1), None),
        (
            "bonferroni-t",
            of_models(deterministic, *FIVE[:3], counted=60),
            by_queries(3),
            None,
        ),
        ("mrmc-t", of_models(runs_of, "native", "xgboost"), split_plot, None),
        (
            "paired-mrmc-t",
            of_models(runs_of, "native", "other", **SAME),
            crossed(1 / len(SEEDS)),
            None,
        ),
        (
            "resampled-t",
            of_models(resampled, "native", "xgboost", numbers=SEEDS),
            crossed(1.25),
            None,
        ),
        (
            "corrected-t",
            of_models(folds, "native", "xgboost", seeds=SEEDS),
            corrected(1),
            None,
        ),
        (
            "shared-corrected-t",
            of_models(folds, *FIVE[:3], seeds=(1,)),
            shared(3, 3),
            None,
        ),
        (
            "shared-corrected-t",
            of_models(folds, *FIVE, seeds=(1, 2)),
            shared(10, 6),
            None,
        ),
        (
            "shared-corrected-t",
            of_models(folds, *FIVE, seeds=(1,)),
            shared(4, 3),
            "linear",
        ),
    ],
)
def test_every_interval_is_that_of_its_formula(
    tmp_path: Path,
    method: str,
    build: Callable[[Path], list[Run]],
    half: Half,
    baseline: str | None,
) -> None:
    comparison = only(build(tmp_path), Settings(baseline=baseline, num_draws=100))
    models = {}
    for row in comparison.rows:
        of_fold: dict[int, list[Run]] = {}
        for run in row.runs:
            of_fold.setdefault(run.result.data["fold"] or 0, []).append(run)
        models[row.label] = [values_of(runs) for runs in of_fold.values()]
    family = comparison.family
    assert method in {pair.interval.method for pair in family}
    assert len(family) == len(
        against(comparison.pairs, baseline) if baseline else comparison.pairs
    )
    for pair in family:
        means = [
            np.mean([fold.mean() for fold in models[label]])
            for label in (pair.a, pair.b)
        ]
        difference, expected = means[0] - means[1], half(models, pair.a, pair.b)
        ends = difference - expected, difference + expected
        assert (pair.interval.low, pair.interval.high) == pytest.approx(
            ends, rel=0, abs=1e-9
        )
