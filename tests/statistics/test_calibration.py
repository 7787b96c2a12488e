"""That tests reject and intervals cover as often as they say: measured anew at one size, and as committed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ltrbench.calibration import Calibration
from ltrbench.calibration.tests_and_intervals import (
    Drawn,
    coverage,
    differences_of,
    fold_levels,
    levels_of,
    population,
    simultaneous_coverage,
)
from ltrbench.statistics import TESTS

COMMITTED = Path(__file__).parents[2] / "results" / "calibration" / "environment.json"
SKEWED = "three queries in ten"
STUDIES = 5000


@pytest.fixture(scope="module")
def values() -> NDArray[np.float64]:
    return population(seed=1)


def test_under_exchangeable_nulls_each_test_rejects_one_in_twenty(values: NDArray[np.float64]) -> None:
    levels = levels_of(differences_of(values)[SKEWED], Drawn(150, STUDIES, num_draws=300, seed=1))
    assert set(levels) == set(TESTS)
    assert all(0.035 <= level <= 0.065 for level in levels.values()), levels


def test_the_reported_interval_of_skewed_differences_covers_their_mean(values: NDArray[np.float64]) -> None:
    covered = coverage(differences_of(values)[SKEWED], Drawn(150, STUDIES, num_draws=500, seed=1))
    assert 0.93 <= covered["as reported"] <= 0.97, covered


@pytest.mark.parametrize("num_folds", [5, 10])
def test_the_corrected_test_rejects_one_in_twenty_where_folds_are_correlated(num_folds: int) -> None:
    levels = fold_levels(num_folds, STUDIES, seed=1)
    assert 0.035 <= levels["corrected resampled t"] <= 0.065, levels
    assert levels["uncorrected t"] > 0.1


def test_simultaneous_intervals_hold_all_differences_at_once(values: NDArray[np.float64]) -> None:
    # 300 studies: four standard errors of a share of 95 % are 5 %.
    assert simultaneous_coverage(values, Drawn(150, 300, num_draws=300, seed=1)) > 0.9


def test_the_study_writes_each_figure_into_its_table(tmp_path: Path) -> None:
    study = Calibration(
        output=str(tmp_path),
        num_studies=20,
        num_draws=50,
        sizes=[20],
        simultaneous_sizes=[20],
        num_repeated=4,
        repeated_sizes=[20],
        replicates=[3],
        seed=1,
    )
    text = study.run({}, {}).read_text()
    assert text.count("\n## ") == 4
    assert text.count(f"| {SKEWED} ") == 2
    rates = json.loads((tmp_path / "environment.json").read_text())["rates"]
    assert [len(rows) for rows in rates.values()] == [2, 2, 2, 1]


def committed() -> list[list[dict[str, Any]]]:
    return list(json.loads(COMMITTED.read_text())["rates"].values())


def test_the_committed_levels_are_within_their_band() -> None:
    over_queries, over_folds, _, _ = committed()
    for row in over_queries:
        # Among 20 queries of which six differ the least p-value is 2 / 2^6, and a level of 5 % cannot be had.
        if row["queries"] > 20 or row["differences"] != SKEWED:
            assert all(0.035 <= row[test] <= 0.065 for test in TESTS), row
    assert all(0.035 <= row["corrected resampled t"] <= 0.065 for row in over_folds)


def test_the_committed_coverage_is_within_its_band_from_150_queries_on() -> None:
    _, _, covered, _ = committed()
    assert {20, 50, 150} <= {row["queries"] for row in covered}
    assert all(0.93 <= row["as reported"] <= 0.97 for row in covered if row["queries"] >= 150)
