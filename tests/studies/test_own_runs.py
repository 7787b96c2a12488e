"""Runs of a model against themselves, and the halves of its replicates."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from claim_cases import QUERIES, deterministic, runs_of, values_of
from hypothesis import given
from hypothesis import strategies as st
from run_cases import finished_run
from toy_runs import mentions

from ltrbench.compare import Settings
from ltrbench.runs import Run
from ltrbench.statistics import LEVEL, PairedSample, claim_of, independent_replicates
from ltrbench.statistics.paired import student_intervals
from ltrbench.statistics.repeated import ROPE
from results.calibration.own_runs import (
    AgainstItself,
    against_itself,
    each_against_itself,
    halvings,
    num_distinct_halvings,
    table_of,
)

EIGHT = (1, 2, 3, 4, 5, 6, 7, 8)


def only_row(runs: list[Run], **fields: Any) -> AgainstItself:
    (row,) = each_against_itself(runs, Settings(**fields))
    return row


def test_eight_seeds_are_split_into_halves_of_four(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, "native", EIGHT)
    row = only_row(runs, rope=0.02)
    values = values_of(runs)
    assert row.halved == against_itself(
        values, PairedSample.of(np.zeros((1, QUERIES))), rope=0.02
    )
    assert (row.kind, row.num_replicates, row.num_folds, row.reason) == (
        "seeds",
        8,
        1,
        "",
    )


def test_seeds_that_change_nothing_are_one_replicate(tmp_path: Path) -> None:
    row = only_row(deterministic(tmp_path, "third", EIGHT))
    assert mentions(row.reason, "1 replicate", "replicates=8")


def test_the_table_has_shares_and_what_is_missing(tmp_path: Path) -> None:
    for model, seeds in {"native": EIGHT, "other": (1, 2)}.items():
        for seed in seeds:
            finished_run(tmp_path / f"{model}{seed}", model, seed=seed)
    shown = table_of([tmp_path], "ndcg@5")
    assert "ndcg@5" in shown
    assert "independent" in shown
    (native,) = [
        line for line in shown.splitlines() if line.startswith("| toy  | native")
    ]
    assert "8 seeds |       35 " in native
    assert mentions(shown, "2 replicates", "replicates=8")


NUM_QUERIES = 40


def trainings(
    count: int, seed: int = 0, training: float = 0.03, queries: int = NUM_QUERIES
) -> np.ndarray:
    """Returns (R, Q) values of trainings with different means and different values on single queries."""
    rng = np.random.default_rng(seed)
    of_query, of_training = (
        rng.normal(0.5, 0.2, queries),
        rng.normal(0, training, (count, 1)),
    )
    return of_query + of_training + rng.normal(0, 0.05, (count, queries))


def on_one_split(values: np.ndarray) -> PairedSample:
    return PairedSample.of(values[:1])


@given(num_replicates=st.integers(2, 11))
def test_all_halvings_are_distinct_and_each_splits_the_replicates(
    num_replicates: int,
) -> None:
    result = halvings(num_replicates, most=10_000, seed=0)
    splits = {
        frozenset((frozenset(first.tolist()), frozenset(second.tolist())))
        for first, second in result
    }
    size = num_replicates // 2
    expected = math.comb(num_replicates, size) / (1 if num_replicates % 2 else 2)
    assert (
        len(splits) == len(result) == num_distinct_halvings(num_replicates) == expected
    )
    for first, second in result:
        assert (len(first), len(second)) == (size, num_replicates - size)
        assert sorted([*first, *second]) == list(range(num_replicates))


def test_halves_are_compared_like_two_models_with_independent_trainings() -> None:
    values = trainings(8, seed=3, training=0.05)
    shares = np.full(NUM_QUERIES, 1 / NUM_QUERIES)
    intervals, by_queries = [], 0
    # The half with the first training is the first one.
    for others in itertools.combinations(range(1, 8), 3):
        first = [0, *others]
        second = [place for place in range(8) if place not in first]
        intervals.append(
            independent_replicates(values[first], values[second], shares).interval(
                LEVEL
            )
        )
        means = values[first].mean(axis=0) - values[second].mean(axis=0)
        (of_queries,) = student_intervals(PairedSample.of(means[None]))
        by_queries += of_queries.low > 0 or of_queries.high < 0
    result = against_itself(values, on_one_split(values), rope=ROPE)
    assert (result.num_halvings, result.num_distinct) == (35, 35)
    known = [interval for interval in intervals if interval is not None]
    assert result.num_intervals == sum(
        interval.low > 0 or interval.high < 0 for interval in known
    )
    claims = [claim_of(interval, ROPE) for interval in intervals]
    assert result.num_different == claims.count("better") + claims.count("worse")
    assert result.num_equivalent == claims.count("equivalent")
    assert result.num_by_queries == by_queries > 0


@pytest.mark.slow
def test_about_five_percent_of_intervals_exclude_zero_where_queries_alone_claim_far_more() -> (
    None
):
    models = [trainings(8, seed, queries=400) for seed in range(60)]
    result = [
        against_itself(values, on_one_split(values), rope=ROPE) for values in models
    ]
    num_halvings = sum(item.num_halvings for item in result)
    assert sum(item.num_intervals for item in result) / num_halvings == pytest.approx(
        LEVEL, abs=0.03
    )
    assert sum(item.num_by_queries for item in result) / num_halvings > 0.5
