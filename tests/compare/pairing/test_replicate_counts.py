"""How many folds, resamples and seeds a row stands for, and how many of them it lacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_runs import write

from ltrbench.compare import compare
from ltrbench.compare.pairing.cells import EvaluatedRow, EvaluatedRun
from ltrbench.compare.replicate_counts import replicate_counts
from ltrbench.results import IMPORTED, Run


def rows(folder: Path, model: str, places: Iterable[tuple[int | None, int]], **fields: Any) -> list[Run]:
    """Runs of a model, one in each fold and of each seed."""
    return [
        write(folder / f"{model}-{fold}-{seed}", model, fold=fold, seed=seed, **fields)
        for fold, seed in places
    ]


def counts(runs: list[Run]) -> dict[str, str]:
    (comparison,) = compare(runs)
    return replicate_counts([row.group for row in comparison.rows])


def seeds(count: int, fold: int | None = None) -> list[tuple[int | None, int]]:
    return [(fold, seed) for seed in range(count)]


def with_resample(run: Run, index: int, number: int) -> Run:
    """As a run is that was trained on a resample of the training queries."""
    resample = {"kind": "bootstrap", "share": 1.0, "number": number, "index": index, "seed": 0}
    data = {**run.result.data, "resample": resample, "train": {"fingerprint": f"resample {index}"}}
    return Run(run.path, replace(run.result, data=data))


def resampled(folder: Path, model: str, indices: Iterable[int], number: int, num_seeds: int = 1) -> list[Run]:
    return [
        with_resample(run, index, number)
        for index in indices
        for run in rows(folder / str(index), model, seeds(num_seeds))
    ]


def of_resamples(runs: list[Run]) -> dict[str, str]:
    """Counts of runs of one model, as the cells of resamples are made by their settings."""
    evaluated: list[EvaluatedRun] = []
    for run in runs:
        (comparison,) = compare([run])
        evaluated += comparison.rows[0].evaluated
    return replicate_counts([EvaluatedRow(runs[0].result.model, tuple(evaluated))])


def test_a_row_with_every_seed_states_their_number(tmp_path: Path) -> None:
    runs = rows(tmp_path, "native", seeds(5)) + rows(tmp_path, "xgboost", seeds(5))
    assert counts(runs) == {"native": "5 seeds", "xgboost": "5 seeds"}
    assert counts(rows(tmp_path / "one", "native", seeds(1))) == {"native": "1 seed"}


def test_seeds_picked_from_a_larger_sweep_are_told(tmp_path: Path) -> None:
    swept = {"seed": [str(seed) for seed in range(9)], "model": ["native", "xgboost"]}
    assert counts(rows(tmp_path, "native", seeds(3), swept=swept)) == {"native": "3 of 9 seeds"}


def test_a_range_that_was_drawn_from_says_nothing_of_how_many(tmp_path: Path) -> None:
    assert counts(rows(tmp_path, "native", seeds(3), swept={"seed": ["range(0,9)"]})) == {"native": "3 seeds"}


def test_a_row_without_the_seeds_of_another_row_is_told(tmp_path: Path) -> None:
    runs = rows(tmp_path, "native", seeds(5)) + rows(tmp_path, "xgboost", [(None, 3), (None, 7)])
    assert counts(runs) == {"native": "5 of 6 seeds", "xgboost": "2 of 6 seeds"}


def test_seeds_that_change_nothing_count_as_one(tmp_path: Path) -> None:
    runs = rows(tmp_path, "native", seeds(3))
    same = [Run(runs[0].path, run.result) for run in runs]
    assert counts(same) == {"native": "1 (seeds change nothing)"}


def test_imported_scores_have_no_seed_of_their_own_and_ask_none_of_others(tmp_path: Path) -> None:
    runs = rows(tmp_path, "native", [(None, 0), (None, 1)])
    runs += rows(tmp_path, "ranklib", [(None, 7)], params=IMPORTED, seconds={})
    assert counts(runs) == {"native": "2 seeds", "ranklib": "1 (imported)"}


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ([*seeds(3, 1), *seeds(3, 2)], "2 folds x 3 seeds"),
        ([*seeds(3, 1), *seeds(2, 2)], "2 folds x 2 to 3 of 3 seeds"),
        ([(1, 0), (1, 1), (2, 2), (2, 3)], "2 folds x 2 of 4 seeds"),
    ],
)
def test_with_folds_the_seeds_are_those_of_each_fold(
    tmp_path: Path, places: list[tuple[int | None, int]], text: str
) -> None:
    assert counts(rows(tmp_path, "native", places)) == {"native": text}


def test_folds_that_a_row_lacks_are_told(tmp_path: Path) -> None:
    runs = rows(tmp_path, "native", [(1, 0), (2, 0), (3, 0)]) + rows(tmp_path, "xgboost", [(1, 0), (2, 0)])
    runs += rows(tmp_path, "lightgbm", [(1, 0), (2, 0), (3, 0)])
    found = counts(runs)
    assert found["native"] == "3 folds x 1 seed"
    assert found["xgboost"] == "2 of 3 folds x 1 seed"


def test_a_fold_picked_from_a_larger_sweep_is_told(tmp_path: Path) -> None:
    swept = {"data.fold": ["1", "2", "3"]}
    assert counts(rows(tmp_path, "native", [(2, 0)], swept=swept)) == {"native": "1 of 3 folds x 1 seed"}


@pytest.mark.parametrize(
    ("indices", "num_seeds", "text"),
    [
        (range(5), 1, "5 resamples"),
        ((0, 2, 4), 1, "3 of 5 resamples"),
        (range(5), 2, "5 resamples x 2 seeds"),
    ],
)
def test_resamples_of_the_training_queries_are_counted(
    tmp_path: Path, indices: Iterable[int], num_seeds: int, text: str
) -> None:
    assert of_resamples(resampled(tmp_path, "native", indices, 5, num_seeds)) == {"native": text}
