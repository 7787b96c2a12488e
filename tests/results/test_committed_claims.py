"""The claims of committed comparisons, computed again from per_query.csv with NumPy and SciPy alone."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

RESULTS = Path(__file__).resolve().parents[2] / "results"
METRIC = "ndcg@10"


def values_by_model(study: str) -> pd.DataFrame:
    """Returns a row for each query with the mean value of each model over its trainings, and its fold."""
    table = pd.read_csv(RESULTS / study / "per_query.csv")
    values = pd.DataFrame({"fold": table["fold"]})
    for column in table.columns:
        match = re.fullmatch(rf"(\S+) (?:seed|resample)=.* {METRIC}", column)
        if match:
            values[f"{match[1]}|{column}"] = table[column]
    runs = values.drop(columns="fold")
    means = runs.T.groupby(lambda name: name.split("|")[0]).mean().T
    return means.assign(fold=values["fold"]).dropna()


@pytest.mark.parametrize("study", ["mq2008", "mq2007"])
def test_intervals_over_folds_follow_from_the_committed_values(study: str) -> None:
    claims = pd.read_csv(RESULTS / study / "table.csv").set_index("model")
    values = values_by_model(study)
    baseline = claims["baseline"].iloc[0]
    of_fold = values.groupby("fold")
    num_folds = of_fold.ngroups
    factors = []
    for model in claims.index.drop(baseline):
        differences = values[model] - values[baseline]
        by_fold = differences.groupby(values["fold"])
        row = claims.loc[model]
        assert row["difference"] == pytest.approx(by_fold.mean().mean(), abs=2e-6)
        error = np.sqrt((by_fold.var() / by_fold.size()).sum()) / num_folds
        half = (row["models_high"] - row["models_low"]) / 2
        factors.append(half / error)
        # Five folds: three train, one validates, one tests.
        widened = (row["methods_high"] - row["methods_low"]) / 2 / half
        fold_means = by_fold.mean()
        f = fold_means.var() / (by_fold.var() / by_fold.size()).mean()
        free = len(values) - num_folds
        if stats.f.sf(f, num_folds - 1, free) >= 0.05:
            assert widened == pytest.approx(np.sqrt(1 + 5 / 3), rel=0.01)
        else:
            assert widened >= np.sqrt(1 + 5 / 3) * 0.99
    # One factor for all pairs: above Student's for one pair, below Bonferroni's for all ten.
    assert np.ptp(factors) < 1e-3
    num_pairs = len(claims) * (len(claims) - 1) / 2
    assert (
        stats.norm.ppf(0.975)
        < factors[0]
        < stats.norm.ppf(1 - 0.025 / num_pairs) * 1.01
    )


def test_intervals_over_resamples_follow_from_the_committed_values() -> None:
    """One test set and five bootstrap resamples of the training queries."""
    claims = pd.read_csv(RESULTS / "smoke" / "table.csv").set_index("model")
    table = (
        pd.read_csv(RESULTS / "smoke" / "per_query.csv").drop(columns="fold").dropna()
    )
    baseline = claims["baseline"].iloc[0]

    def of_model(model: str) -> np.ndarray:
        columns = [name for name in table.columns if name.startswith(f"{model} ")]
        return table[sorted(columns)].to_numpy().T

    num_pairs = len(claims) * (len(claims) - 1) / 2
    for model in claims.index.drop(baseline):
        row = claims.loc[model]
        differences = of_model(model) - of_model(baseline)
        number, num_queries = differences.shape
        # Fewer than 100 queries: Student's quantile with Bonferroni's correction.
        of_query = differences.mean(axis=0)
        half = stats.t.ppf(1 - 0.025 / num_pairs, num_queries - 1) * stats.sem(of_query)
        assert row["models_high"] - row["models_low"] == pytest.approx(
            2 * half, rel=1e-4
        )
        factor = 1 + 1 / number
        training = factor * differences.mean(axis=1).var(ddof=1)
        centred = differences - of_query
        both = factor * (centred.var(axis=1, ddof=1) / num_queries).sum() / (number - 1)
        queries = max(of_query.var(ddof=1) / num_queries - both, 0)
        quantiles = stats.t.ppf(1 - 0.025 / num_pairs, [number - 1, num_queries - 1])
        quantile = (training * quantiles[0] + queries * quantiles[1]) / (
            training + queries
        )
        half = quantile * np.sqrt(training + queries)
        assert row["methods_high"] - row["methods_low"] == pytest.approx(
            2 * half, rel=1e-3
        )
