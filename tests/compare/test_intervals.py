# mypy: strict-optional=False
"""The intervals of a comparison, computed again with NumPy and SciPy from the formulas of their sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from claim_cases import SEEDS, deterministic, folds, only, resampled, runs_of, values_of
from numpy.typing import NDArray
from scipy import stats
from toy_runs import mentions, write

from ltrbench.compare import Comparison, Settings
from ltrbench.compare.claim_notes import all_notes
from ltrbench.compare.claims import against
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


def standard_error(models: Models, a: str, b: str) -> float:
    """Standard error of the mean over folds of the differences of the trained models, over queries."""
    pairs = zip(models[a], models[b], strict=True)
    folds_of_pair = [x.mean(axis=0) - y.mean(axis=0) for x, y in pairs]
    total = sum(np.var(fold, ddof=1) / len(fold) for fold in folds_of_pair)
    return float(np.sqrt(total)) / len(folds_of_pair)


def inflated(num_pairs: int) -> Half:
    """Student's t over the queries of all folds, times sqrt(1 + J n_test / n_train)."""

    def half(models: Models, a: str, b: str) -> float:
        num_folds = len(models[a])
        sizes = [fold.shape[1] for fold in models[a]]
        parts = [
            np.var(x.mean(axis=0) - y.mean(axis=0), ddof=1) / size
            for x, y, size in zip(models[a], models[b], sizes, strict=True)
        ]
        # Satterthwaite
        degrees = sum(parts) ** 2 / sum(
            part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True)
        )
        quantile = t_of(float(degrees), 0.05 / num_pairs)
        factor = float(np.sqrt(1 + num_folds * TEST / TRAIN))
        return quantile * factor * standard_error(models, a, b)

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
    ("kind", "method", "build", "half", "baseline"),
    [
        (
            "models",
            "t",
            of_models(deterministic, "native", "xgboost"),
            by_queries(1),
            None,
        ),
        (
            "models",
            "bonferroni-t",
            of_models(deterministic, *FIVE[:3], counted=60),
            by_queries(3),
            None,
        ),
        (
            "methods",
            "mrmc-t",
            of_models(runs_of, "native", "xgboost"),
            split_plot,
            None,
        ),
        (
            "methods",
            "paired-mrmc-t",
            of_models(runs_of, "native", "other", **SAME),
            crossed(1 / len(SEEDS)),
            None,
        ),
        (
            "methods",
            "resampled-t",
            of_models(resampled, "native", "xgboost", numbers=SEEDS),
            crossed(1.25),
            None,
        ),
        (
            "methods",
            "inflated",
            of_models(folds, "native", "xgboost", seeds=SEEDS),
            inflated(1),
            None,
        ),
        (
            "methods",
            "inflated",
            of_models(folds, *FIVE[:3], seeds=(1, 2), counted=18),
            inflated(2),
            "lightgbm",
        ),
    ],
)
def test_every_interval_is_that_of_its_formula(
    tmp_path: Path,
    kind: str,
    method: str,
    build: Callable[[Path], list[Run]],
    half: Half,
    baseline: str | None,
) -> None:
    comparison = only(build(tmp_path), Settings(baseline=baseline, num_draws=100))
    models = values_by_row(comparison)
    family = comparison.family
    assert len(family) == len(
        against(comparison.pairs, baseline) if baseline else comparison.pairs
    )
    for pair in family:
        claim = getattr(pair, kind)
        assert claim.interval.method == method
        means = [
            np.mean([fold.mean() for fold in models[label]])
            for label in (pair.a, pair.b)
        ]
        difference = means[0] - means[1]
        expected = half(models, pair.a, pair.b)
        ends = difference - expected, difference + expected
        assert (claim.interval.low, claim.interval.high) == pytest.approx(
            ends, rel=0, abs=1e-9
        )


def values_by_row(comparison: Comparison) -> dict[str, list[Values]]:
    """Returns label -> (R, Q) values in each fold."""
    models = {}
    for row in comparison.rows:
        of_fold: dict[int, list[Run]] = {}
        for run in row.runs:
            of_fold.setdefault(run.result.data["fold"] or 0, []).append(run)
        models[row.label] = [values_of(runs) for runs in of_fold.values()]
    return models


def test_folds_that_differ_more_than_their_queries_explain_widen_the_claim_on_methods(
    tmp_path: Path,
) -> None:
    """One model is much better in some folds and much worse in others."""
    runs = []
    for fold, skill in enumerate((9.0, 0.0, 9.0, 0.0, 9.0), start=1):
        for model, of_model in (("native", 1.0), ("xgboost", skill)):
            folder = tmp_path / f"{model}{fold}"
            runs.append(write(folder, model, fold=fold, skill=of_model))
    comparison = only(runs)
    (pair,) = comparison.pairs
    assert pair.variation.matters
    models = values_by_row(comparison)
    differences = np.array([x.mean() for x in models[pair.a]]) - np.array(
        [x.mean() for x in models[pair.b]]
    )
    error = np.sqrt((1 / 5 + TEST / TRAIN) * np.var(differences, ddof=1))
    half = (pair.methods.interval.high - pair.methods.interval.low) / 2
    assert half == pytest.approx(t_of(4) * error)
    assert half > inflated(1)(models, pair.a, pair.b)
    assert any(
        mentions(note.sentence, "Training sets matter")
        for note in all_notes(comparison)
    )
