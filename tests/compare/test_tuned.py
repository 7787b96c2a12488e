# mypy: strict-optional=False
"""Tuned models: their rows, budgets, tunability and claims, in notes and in the report."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from claim_cases import only
from toy_runs import SPACE, mentions, searched, tuned, write

from ltrbench.compare import Comparison, Settings, answer_of
from ltrbench.compare.claim_notes import about_tuning
from ltrbench.compare.report import as_latex
from ltrbench.compare.run_sections import search_section, settings_section
from ltrbench.compare.tuning import Tuning, tunings
from ltrbench.compare.views import Prose, Shown
from ltrbench.metrics import DEFAULT
from ltrbench.metrics.conventions import with_settings
from ltrbench.runs import Run
from ltrbench.runs.record import COMPLETE, UNSUCCESSFUL, TrialRow
from ltrbench.statistics.claims import Scope, Varied
from ltrbench.tables import Table

FOLDS = (1, 2, 3)
SEEDS = (1, 2, 3)


def over_folds(folder: Path, model: str = "native", **fields: Any) -> list[Run]:
    """One tuned run per fold, each with another chosen setting."""
    return [
        tuned(folder / f"{model}{fold}", model, fold=fold, leaves=fold, **fields)
        for fold in FOLDS
    ]


def labels(comparison: Comparison) -> list[str]:
    return [row.label for row in comparison.rows]


def test_tuned_and_untuned_rows_of_a_model_are_named_by_their_search(
    tmp_path: Path,
) -> None:
    untuned = [
        write(
            tmp_path / f"u{leaves}",
            "native",
            settings={"num_leaves": leaves, "learning_rate": 0.1},
        )
        for leaves in (31, 15)
    ]
    chosen = tuned(tmp_path / "t", leaves=31)
    assert labels(only([untuned[0], chosen])) == [
        "native search=none",
        "native search=random",
    ]
    assert labels(only([*untuned, chosen])) == [
        "native num_leaves=31 search=none",
        "native num_leaves=15 search=none",
        "native search=random",
    ]


def test_searches_are_named_by_what_differs(tmp_path: Path) -> None:
    def rows_of(**fields: Any) -> list[str]:
        others = [
            tuned(tmp_path / "1"),
            tuned(tmp_path / "2", search=searched(**fields)),
        ]
        return labels(only(others))

    assert rows_of(name="tpe") == ["native search=random", "native search=tpe"]
    assert rows_of(metric="ndcg@5") == [
        "native search.metric=ndcg@10",
        "native search.metric=ndcg@5",
    ]
    assert rows_of(choose="overall") == [
        "native search.choose=per_fold",
        "native search.choose=overall",
    ]
    assert rows_of(space={**SPACE, "l2": "0 to 100"}) == [
        "native search.space.l2=fixed",
        "native search.space.l2=0 to 100",
    ]


def both(folder: Path, seeds: tuple[int, ...], **fields: Any) -> list[Run]:
    """Tuned runs of two models on one split, each seed with its own search unless `search` says otherwise."""
    return [
        tuned(
            folder / f"{model}{seed}",
            model,
            seed=seed,
            skill=skill,
            fold=None,
            counted=150,
            **fields,
        )
        for model, skill in (("native", 2.0), ("xgboost", 1.0))
        for seed in seeds
    ]


def test_seeds_that_repeat_the_search_make_claims_about_tuning(tmp_path: Path) -> None:
    comparison = only(both(tmp_path, SEEDS))
    assert [pair.methods.scope for pair in comparison.pairs] == [Scope(Varied.RETUNED)]
    assert mentions(
        " ".join(answer_of(comparison).claims), "tuned again", "other seeds"
    )
    assert about_tuning(comparison) == ""


def test_folds_with_one_search_each_state_that_tuning_was_not_repeated(
    tmp_path: Path,
) -> None:
    once = [*over_folds(tmp_path), *over_folds(tmp_path, "xgboost", skill=0.5)]
    comparison = only(once)
    assert {pair.methods.scope for pair in comparison.pairs} == {Scope(Varied.METHODS)}
    assert mentions(
        about_tuning(comparison),
        "Tuning was",
        "not repeated",
        "native and xgboost",
        "one search seed",
    )
    assert mentions(as_latex(comparison), "Tuning was", "not repeated")
    again = [
        run for seed in SEEDS for run in over_folds(tmp_path / f"{seed}", seed=seed)
    ]
    others = [
        run
        for seed in SEEDS
        for run in over_folds(tmp_path / f"{seed}", "xgboost", seed=seed, skill=0.5)
    ]
    repeated = only([*again, *others])
    assert {pair.methods.scope for pair in repeated.pairs} == {
        Scope(Varied.TUNED_METHODS)
    }
    assert about_tuning(repeated) == ""


def test_unequal_trials_are_named(tmp_path: Path) -> None:
    rival = tuned(tmp_path / "x", "xgboost", search=searched(trials=32))
    notes = [
        note
        for note in only([tuned(tmp_path / "n"), rival]).notes
        if "Tuning budgets" in note
    ]
    assert len(notes) == 1
    assert mentions(notes[0], "differ in trials", "search.trials")
    assert "settings varied" not in notes[0]


METRIC = "ndcg@10"
FAST = Settings(metric=METRIC, num_draws=200)


def trials(
    values: list[float], seed: int = 0, iterations: list[int] | None = None
) -> list[TrialRow]:
    """Trials with these values, the first with the default settings; NaN is a failed trial.

    A trial cannot be told apart from the best one if its value is less than 0.01 lower.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for number, value in enumerate(values):
        difference = value - np.nanmax(values)
        half = 0.01 if difference else 0.0
        num_leaves = rng.integers(4, 64) if number else 31
        rows.append(
            TrialRow(
                trial=number,
                state=UNSUCCESSFUL if np.isnan(value) else COMPLETE,
                value=value,
                iterations=100 - 5 * number
                if iterations is None
                else iterations[number],
                seconds=1.0 + number,
                low=difference - half,
                high=difference + half,
                settings={
                    "num_leaves": str(num_leaves),
                    "learning_rate": "0.1",
                },
            )
        )
    return rows


def run_of(folder: Path, model: str, rows: list[TrialRow], **fields: Any) -> Run:
    """Writes a run that a search with these trials chose the settings of."""
    chosen = max(
        (row for row in rows if row.state == COMPLETE), key=lambda row: row.value
    )
    record = searched(
        trials=len(rows), chosen=chosen.trial, settings=dict(chosen.settings)
    )
    return write(folder, model, search=record, trials=rows, **fields)


VALUES = {1: [0.40, 0.45, 0.47, 0.465], 2: [0.50, 0.49, 0.52, math.nan]}
"""Fold -> values of its trials."""


def of_folds(folder: Path) -> list[Run]:
    return [
        run_of(
            folder / f"native{fold}",
            "native",
            trials(values, fold),
            fold=fold,
            skill=2.0,
        )
        for fold, values in VALUES.items()
    ]


def tuning_of(runs: list[Run]) -> Tuning:
    (tuning,) = tunings(only(runs, Settings(metric=METRIC, num_draws=200)))
    return tuning


def test_tunability_is_chosen_minus_default_on_validation_and_the_gap_is_to_test(
    tmp_path: Path,
) -> None:
    runs = of_folds(tmp_path)
    tuning = tuning_of(runs)
    assert tuning.default_value == fmean([0.40, 0.50])
    assert tuning.chosen_value == fmean([0.47, 0.52])
    assert tuning.tunability == pytest.approx(fmean([0.07, 0.02]))
    test = fmean(run.result.metrics[f"test/{METRIC}"] or 0 for run in runs)
    assert tuning.gap == pytest.approx(fmean([0.47, 0.52]) - test)


def tuned_and_untuned(folder: Path) -> list[Run]:
    """Returns one search at each of two settings that no search varies, and their defaults, all trained."""
    runs = []
    for depth in (2, 30):
        chosen = tuned(folder / f"t{depth}", settings={"max_depth": depth}, skill=depth)
        default = {"num_leaves": 31, "learning_rate": 0.1, "max_depth": depth}
        untuned = write(folder / f"u{depth}", "native", settings=default, skill=1.0)
        runs += [untuned, chosen]
    return runs


def test_a_tuned_row_is_compared_with_the_row_that_differs_in_the_search_alone(
    tmp_path: Path,
) -> None:
    runs = tuned_and_untuned(tmp_path)
    pairs = [item.untuned for item in tunings(only(runs, FAST))]
    assert [(pair.a, pair.b) for pair in pairs] == [
        (
            f"native max_depth={depth} search=random",
            f"native max_depth={depth} search=none",
        )
        for depth in (2, 30)
    ]
    of_first = [item.untuned for item in tunings(only([*runs[:2], runs[3]], FAST))]
    assert [pair is None for pair in of_first] == [False, True]


@pytest.mark.parametrize(
    "settings",
    [
        replace(FAST, metric="ndcg@5"),
        replace(FAST, convention=with_settings(DEFAULT, {"gain": "linear"})),
    ],
)
def test_tuned_minus_default_is_in_the_metric_and_convention_of_the_search(
    settings: Settings, tmp_path: Path
) -> None:
    runs = tuned_and_untuned(tmp_path)
    runs += [tuned(tmp_path / "again", settings={"max_depth": 2}, seed=1, skill=2)]
    items = tunings(only(runs, settings))
    assert [item.untuned for item in items] == [None, None]
    is_default = settings.convention == DEFAULT
    assert [item.sd_over_searches is not None for item in items] == [is_default, False]


@pytest.mark.parametrize(
    ("leaves", "default", "begins"),
    [([4, 31, 64], 0.45, False), ([4, 32, 64], None, False), ([31, 4], 0.40, True)],
)
def test_the_default_value_is_that_of_the_trial_with_the_default_settings(
    leaves: list[int], default: float | None, begins: bool, tmp_path: Path
) -> None:
    values = [0.40, 0.45, 0.47][: len(leaves)]
    rows = [
        replace(row, settings={"num_leaves": str(number), "learning_rate": "0.10"})
        for row, number in zip(trials(values), leaves, strict=True)
    ]
    comparison = only(
        [run_of(tmp_path / "native", "native", rows)], Settings(metric=METRIC)
    )
    (tuning,) = tunings(comparison)
    assert tuning.default_value == default
    assert (tuning.tunability is None) == (default is None)
    assert tuning.begins_with_default == begins
    prose = [
        part.text
        for part in search_section(Shown(comparison)).parts
        if isinstance(part, Prose)
    ]
    caption = " ".join(prose)
    assert ("first trial has" in caption) == begins
    assert ("no default value" in caption) == (default is None)


def test_the_expected_best_value_is_the_mean_over_the_orders_of_the_random_trials(
    tmp_path: Path,
) -> None:
    run = run_of(
        tmp_path / "native", "native", trials([0.42, 0.45, 0.40, math.nan, 0.47])
    )
    tuning = tuning_of([run])
    first, *others = [0.42, 0.45, 0.40, 0.0, 0.47]  # a failed trial improves nothing
    orders = [np.maximum.accumulate([first, *order]) for order in permutations(others)]
    assert tuning.is_expected
    assert tuning.best_by_trials == pytest.approx(np.mean(orders, axis=0).tolist())


def test_the_cheapest_of_the_settings_that_are_not_told_apart_has_the_fewest_iterations(
    tmp_path: Path,
) -> None:
    rows = trials([0.40, 0.47, 0.465, 0.464, 0.30], iterations=[10, 90, 50, 50, 5])
    (search,) = tuning_of([run_of(tmp_path / "native", "native", rows)]).searches
    assert [trial.trial for trial in search.alike] == [1, 2, 3]
    assert search.cheapest.trial == 2
    assert search.chosen.trial == 1


def test_the_report_has_budgets_values_and_the_cheapest_settings(
    tmp_path: Path,
) -> None:
    shown = Shown(only(of_folds(tmp_path), Settings(metric=METRIC, num_draws=200)))
    (budget,), (values,), (_, chosen, cheapest, *_) = (
        [
            dict(zip(table.header, (cell.text for cell in row), strict=True))
            for row in table.cells("-")
        ]
        for section in (search_section(shown), settings_section(shown))
        for table in [part for part in section.parts if isinstance(part, Table)][:2]
    )
    assert (budget["settings varied"], budget["searches"], budget["trials"]) == (
        "2",
        "2",
        "4",
    )
    assert (values["default, validation"], values["chosen, validation"]) == (
        "0.4500",
        "0.4950",
    )
    assert values["tunability"] == "+0.0450"
    assert (chosen["search"], chosen["iterations"]) == ("fold 1, seed 0", "90")
    assert cheapest["search"].endswith("cheapest not told apart")
    assert cheapest["iterations"] == "85"
