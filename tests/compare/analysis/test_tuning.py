"""Searches of a comparison: budgets, tunability, expected best values, settings that are as good."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
from searched_runs import DEFAULT, METRIC, searched, trials
from toy_runs import write

from ltrbench.compare import Comparison, Settings, compare
from ltrbench.compare.analysis.tuning import Tuning, tunings
from ltrbench.metrics import preset
from ltrbench.results import Run
from ltrbench.results.run import PARTIAL

VALUES = {1: [0.40, 0.45, 0.47, 0.44], 2: [0.50, 0.49, 0.52, math.nan]}
"""Fold -> values of its trials."""


def of_folds(folder: Path) -> list[Run]:
    return [
        searched(folder / f"native{fold}", "native", trials(values, fold), fold=fold, skill=2.0)
        for fold, values in VALUES.items()
    ]


def compared(runs: list[Run], **settings: object) -> Comparison:
    (comparison,) = compare(runs, replace(Settings(metric=METRIC, num_draws=200), **settings))  # type: ignore[arg-type]
    return comparison


def only(runs: list[Run]) -> Tuning:
    (tuning,) = tunings(compared(runs))
    return tuning


def test_a_row_without_a_search_has_no_tuning(tmp_path: Path) -> None:
    assert tunings(compared([write(tmp_path / "native", "native")])) == []


def test_budgets_are_means_over_searches(tmp_path: Path) -> None:
    tuning = only(of_folds(tmp_path))
    assert [search.fold for search in tuning.searches] == [1, 2]
    assert (tuning.num_settings, tuning.trials) == (2, 4)
    assert (tuning.iterations, tuning.seconds) == (100 + 95 + 90 + 85, 1 + 2 + 3 + 4)


def test_tunability_is_chosen_minus_default_on_validation_and_the_gap_is_to_test(tmp_path: Path) -> None:
    runs = of_folds(tmp_path)
    tuning = only(runs)
    assert tuning.default_value == fmean([0.40, 0.50])
    assert tuning.chosen_value == fmean([0.47, 0.52])
    assert tuning.tunability == pytest.approx(fmean([0.07, 0.02]))
    test = fmean(run.result.metrics[f"test/{METRIC}"] or 0 for run in runs)
    assert tuning.gap == pytest.approx(fmean([0.47, 0.52]) - test)


def test_under_another_convention_there_is_no_gap(tmp_path: Path) -> None:
    (tuning,) = tunings(compared(of_folds(tmp_path), convention=preset("lightgbm")))
    assert tuning.gap is None
    assert tuning.tunability is not None


def test_without_the_default_settings_among_the_trials_there_is_no_tunability(tmp_path: Path) -> None:
    search = {"default": {**DEFAULT, "num_leaves": 15}}
    run = searched(tmp_path / "native", "native", trials([0.4, 0.5]), search=search)
    tuning = only([run])
    assert (tuning.default_value, tuning.tunability) == (None, None)


def test_a_search_for_several_folds_or_seeds_counts_once(tmp_path: Path) -> None:
    rows = trials([0.4, 0.5])
    runs = [
        searched(
            tmp_path / f"{fold}-{seed}", "native", rows, fold=fold, seed=seed, search={"choose": "overall"}
        )
        for fold in (1, 2)
        for seed in (1, 2)
    ]
    tuning = only(runs)
    assert [search.fold for search in tuning.searches] == [None]
    assert (tuning.repeated, tuning.sd_over_searches) == (1, None)
    assert tuning.chosen_value == 0.5


def test_repeated_searches_give_a_standard_deviation_of_the_value_on_test(tmp_path: Path) -> None:
    runs = [
        searched(
            tmp_path / f"{fold}-{seed}",
            "native",
            trials([0.4, 0.5 + seed / 100 + fold / 10], seed),
            fold=fold,
            seed=seed,
            skill=seed,
            search={"seed": seed, "seconds": 1.0 + seed + fold / 10},
        )
        for fold in (1, 2)
        for seed in (1, 2, 3)
    ]
    tuning = only(runs)
    means = [fmean(run.result.metrics[f"test/{METRIC}"] or 0 for run in runs[seed::3]) for seed in range(3)]
    assert (len(tuning.searches), tuning.repeated) == (6, 3)
    assert tuning.sd_over_searches == pytest.approx(stdev(means))


def test_the_expected_best_value_is_the_mean_over_the_orders_of_the_random_trials(tmp_path: Path) -> None:
    run = searched(tmp_path / "native", "native", trials([0.42, 0.45, 0.40, math.nan, 0.47]))
    tuning = only([run])
    first, *others = [0.42, 0.45, 0.40, 0.0, 0.47]  # a failed trial improves nothing
    orders = [np.maximum.accumulate([first, *order]) for order in permutations(others)]
    assert tuning.is_expected
    assert tuning.best_by_trials == pytest.approx(np.mean(orders, axis=0).tolist())


@pytest.mark.parametrize("reason", ["tpe", "partial", "default failed"])
def test_for_other_searches_it_is_the_best_complete_value_so_far(tmp_path: Path, reason: str) -> None:
    rows = trials([math.nan if reason == "default failed" else 0.42, 0.45, 0.40, 0.47])
    best = [rows[0].value, 0.45, 0.45, 0.47]
    if reason == "partial":
        rows[1] = replace(rows[1], state=PARTIAL, low=math.nan, high=math.nan)
        best[1:3] = [0.42, 0.42]
    search = {"name": "tpe" if reason == "tpe" else "random"}
    tuning = only([searched(tmp_path / "native", "native", rows, search=search)])
    assert tuning.is_expected == (reason == "default failed")
    assert tuning.best_by_trials == pytest.approx(best, nan_ok=True)


def test_lines_of_several_searches_end_with_the_shortest(tmp_path: Path) -> None:
    runs = [
        searched(tmp_path / str(fold), "native", trials([0.5 - fold / 10] * count), fold=fold)
        for fold, count in ((1, 5), (2, 3))
    ]
    assert only(runs).best_by_trials == pytest.approx([0.35] * 3)


def test_the_cheapest_of_the_settings_that_are_not_told_apart_has_the_fewest_iterations(
    tmp_path: Path,
) -> None:
    rows = trials([0.40, 0.47, 0.465, 0.464, 0.30], iterations=[10, 90, 50, 50, 5])
    (search,) = only([searched(tmp_path / "native", "native", rows)]).searches
    assert [trial.trial for trial in search.alike] == [1, 2, 3]
    assert search.cheapest is not None
    assert search.cheapest.trial == 2
    assert search.chosen is not None
    assert search.chosen.trial == 1


def test_importance_is_the_mean_over_searches_in_descending_order(tmp_path: Path) -> None:
    shares = [{"num_leaves": 0.2, "learning_rate": 0.8}, {"num_leaves": 0.9, "learning_rate": 0.1}, {}]
    runs = [
        searched(
            tmp_path / str(fold),
            "native",
            trials([0.4, 0.5 + fold / 10]),
            fold=fold,
            search={"importance": share},
        )
        for fold, share in enumerate(shares, start=1)
    ]
    importance = only(runs).importance
    assert list(importance) == ["num_leaves", "learning_rate"]
    assert importance == pytest.approx({"num_leaves": 0.55, "learning_rate": 0.45})


def test_a_tuned_row_is_compared_with_the_default_settings_of_the_same_model_on_test(tmp_path: Path) -> None:
    tuned = of_folds(tmp_path)
    untuned = [
        write(tmp_path / f"default{fold}", "native", fold=fold, skill=0.1, settings=DEFAULT, params="library")
        for fold in VALUES
    ]
    tuning = only([*tuned, *untuned])
    assert tuning.untuned is not None
    pair = tuning.untuned.pair
    assert pair is not None
    assert (pair.a, pair.b) == (tuning.label, tuning.untuned.label)
    assert pair.difference == pytest.approx(
        fmean(run.result.metrics[f"test/{METRIC}"] or 0 for run in tuned)
        - fmean(run.result.metrics[f"test/{METRIC}"] or 0 for run in untuned)
    )


@pytest.mark.parametrize(
    "fields", [{"settings": {**DEFAULT, "num_leaves": 15}}, {"settings": DEFAULT, "fold": 3}]
)
def test_other_settings_or_other_folds_are_no_default(tmp_path: Path, fields: dict[str, object]) -> None:
    untuned = write(tmp_path / "default", "native", **{"fold": 1, "params": "library", **fields})  # type: ignore[arg-type]
    tuned = searched(tmp_path / "tuned", "native", trials([0.4, 0.5]), fold=1)
    assert only([tuned, untuned]).untuned is None
