"""Rows of tuned models: what distinguishes them, which searches count, and what is claimed."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claim_cases import only
from run_cases import finished_run
from toy_runs import SPACE, judgments, mentions, searched, tuned, write

from ltrbench.compare import Comparison, compare, render, verdict
from ltrbench.compare.analysis.next_step import next_step
from ltrbench.compare.analysis.recommendation import recommend
from ltrbench.compare.output.publish import publish
from ltrbench.compare.output.record import comparisons_as_json
from ltrbench.compare.output.reproduce import reproduce
from ltrbench.compare.output.tables import as_latex
from ltrbench.results import Run, find_runs
from ltrbench.statistics import METHODS, MODELS, RETRAINED, RETUNED, SCOPES, TUNED_METHODS

FOLDS = (1, 2, 3)
SEEDS = (1, 2, 3)


def over_folds(folder: Path, model: str = "native", **fields: Any) -> list[Run]:
    """One tuned run per fold, each with another chosen setting."""
    return [tuned(folder / f"{model}{fold}", model, fold=fold, leaves=fold, **fields) for fold in FOLDS]


def labels(comparison: Comparison) -> list[str]:
    return [row.label for row in comparison.rows]


def changed(run: Run, **fields: Any) -> Run:
    return Run(run.path, replace(run.result, **fields))


def test_the_chosen_settings_of_the_folds_are_one_row(tmp_path: Path) -> None:
    assert labels(only(over_folds(tmp_path))) == ["native"]


def test_a_setting_that_was_not_searched_still_distinguishes_rows(tmp_path: Path) -> None:
    runs = [
        tuned(tmp_path / f"{l2}", leaves=leaves, settings={"l2": l2}) for leaves, l2 in ((4, 0.0), (8, 1.0))
    ]
    assert labels(only(runs)) == ["native l2=0.0", "native l2=1.0"]


def test_the_limit_of_a_trial_distinguishes_no_runs(tmp_path: Path) -> None:
    fields = {"seed": 0, "early_stopping": {"patience": 5}}
    limited = {**fields, "early_stopping": {"patience": 5, "minimum": []}}
    runs = [
        write(tmp_path / f"{seed}", "native", seed=seed, ranker={"class": "native", "fields": of_run})
        for seed, of_run in enumerate((fields, limited))
    ]
    assert labels(only(runs)) == ["native"]


def test_tuned_and_untuned_rows_of_a_model_are_named_by_their_search(tmp_path: Path) -> None:
    untuned = [
        write(tmp_path / f"u{leaves}", "native", settings={"num_leaves": leaves, "learning_rate": 0.1})
        for leaves in (31, 15)
    ]
    chosen = tuned(tmp_path / "t", leaves=31)
    assert labels(only([untuned[0], chosen])) == ["native search=none", "native search=random"]
    assert labels(only([*untuned, chosen])) == [
        "native num_leaves=31 search=none",
        "native num_leaves=15 search=none",
        "native search=random",
    ]


def test_searches_are_named_by_what_differs(tmp_path: Path) -> None:
    def rows_of(**fields: Any) -> list[str]:
        others = [tuned(tmp_path / "1"), tuned(tmp_path / "2", search=searched(**fields))]
        return labels(only(others))

    assert rows_of(name="tpe") == ["native search=random", "native search=tpe"]
    assert rows_of(metric="ndcg@5") == ["native search.metric=ndcg@10", "native search.metric=ndcg@5"]
    assert rows_of(choose="overall") == ["native search.choose=per_fold", "native search.choose=overall"]
    assert rows_of(space={**SPACE, "l2": "0 to 100"}) == [
        "native search.space.l2=fixed",
        "native search.space.l2=0 to 100",
    ]
    assert rows_of(seed=7) == ["native search.seed=0", "native search.seed=7"]


def test_seeds_that_repeat_search_and_training_are_replicates(tmp_path: Path) -> None:
    runs = [tuned(tmp_path / f"{seed}", seed=seed, leaves=seed) for seed in SEEDS]
    comparison = only(runs)
    assert labels(comparison) == ["native"]
    assert comparison.replicates == {"native": "3 seeds"}


def test_one_search_with_several_training_seeds_is_one_row(tmp_path: Path) -> None:
    runs = [tuned(tmp_path / f"{seed}", seed=seed, search=searched(seed=0)) for seed in SEEDS]
    assert labels(only(runs)) == ["native"]


def test_of_searches_that_differ_in_the_budget_the_one_with_most_trials_counts(tmp_path: Path) -> None:
    short = over_folds(tmp_path / "short", started="2026-01-02T00:00:00+00:00")
    long = over_folds(tmp_path / "long", search=searched(trials=32), started="2026-01-01T00:00:00+00:00")
    comparison = only([*short, *long[:2]])
    assert [run.path for run in comparison.rows[0].runs] == [short[2].path, *(run.path for run in long[:2])]
    notes = [note for note in comparison.note_entries if note.term == "searches with fewer trials"]
    assert len(notes) == 1
    assert mentions(notes[0], "native", "16 and 32 trials", "2 runs", "16 trials", "search.trials")
    assert not any(note.term == "repeated runs" for note in comparison.note_entries)


def test_searches_with_swept_budgets_are_rows(tmp_path: Path) -> None:
    runs = [
        tuned(tmp_path / f"{trials}", search=searched(trials=trials), swept={"search.trials": ["16", "32"]})
        for trials in (16, 32)
    ]
    comparison = only(runs)
    assert labels(comparison) == ["native search.trials=16", "native search.trials=32"]
    assert not any(note.term == "searches with fewer trials" for note in comparison.note_entries)


def both(folder: Path, seeds: tuple[int, ...], **fields: Any) -> list[Run]:
    """Tuned runs of two models on one split, each seed with its own search unless `search` says otherwise."""
    return [
        tuned(folder / f"{model}{seed}", model, seed=seed, skill=skill, fold=None, counted=150, **fields)
        for model, skill in (("native", 2.0), ("xgboost", 1.0))
        for seed in seeds
    ]


def test_seeds_that_repeat_the_search_make_claims_about_tuning(tmp_path: Path) -> None:
    comparison = only(both(tmp_path, SEEDS))
    assert [pair.scope for pair in comparison.pairs] == [RETUNED]
    assert SCOPES[RETUNED] in verdict(comparison).lower()
    assert SCOPES[RETUNED] in render(comparison)
    assert "not repeated" not in verdict(comparison)
    recommended = recommend(comparison)
    assert recommended is not None
    assert mentions(recommended.certainty, "trained and tuned", "same training queries")
    assert next_step(comparison) is None


def test_searches_that_choose_the_same_setting_are_still_repeated_trainings(tmp_path: Path) -> None:
    runs = both(tmp_path, SEEDS)
    same = [
        Run(run.path, run.result, held={"test": runs[number // 3 * 3].scored("test")})
        for number, run in enumerate(runs)
    ]
    comparison = only(same)
    (pair,) = comparison.pairs
    assert (pair.scope, pair.claim) == (RETUNED, "better")
    assert set(comparison.replicates.values()) == {"3 seeds"}
    assert not any(note.term == "seeds that change nothing" for note in comparison.note_entries)
    assert pair.inference is not None
    assert pair.inference.standard_error == pytest.approx(pair.statistics.standard_error, rel=0.01)


def test_one_search_for_all_seeds_is_no_repeated_tuning(tmp_path: Path) -> None:
    comparison = only(both(tmp_path, SEEDS, search=searched(seed=0)))
    assert [pair.scope for pair in comparison.pairs] == [RETRAINED]
    assert SCOPES[RETRAINED] in verdict(comparison).lower()
    assert mentions(verdict(comparison), "Tuning was", "not repeated", "native and xgboost")


def test_folds_with_one_search_each_state_that_tuning_was_not_repeated(tmp_path: Path) -> None:
    once = [*over_folds(tmp_path), *over_folds(tmp_path, "xgboost", skill=0.5)]
    comparison = only(once)
    assert {pair.scope for pair in comparison.pairs} == {METHODS}
    assert mentions(
        verdict(comparison), "Tuning was", "not repeated", "native and xgboost", "one search seed"
    )
    assert mentions(as_latex(comparison), "Tuning was", "not repeated")
    again = [run for seed in SEEDS for run in over_folds(tmp_path / f"{seed}", seed=seed)]
    others = [
        run for seed in SEEDS for run in over_folds(tmp_path / f"{seed}", "xgboost", seed=seed, skill=0.5)
    ]
    repeated = only([*again, *others])
    assert {pair.scope for pair in repeated.pairs} == {TUNED_METHODS}
    assert "not repeated" not in verdict(repeated)


def test_a_model_tuned_once_beside_one_tuned_again_is_named_alone(tmp_path: Path) -> None:
    runs = both(tmp_path, SEEDS)
    once = [changed(run, search=searched(seed=1)) if run.result.model == "native" else run for run in runs]
    comparison = only(once)
    assert [pair.scope for pair in comparison.pairs] == [RETRAINED]
    assert mentions(verdict(comparison), "Tuning was", "not repeated", "native has one", "search seed")


def test_an_untuned_rival_does_not_hide_that_tuning_was_repeated(tmp_path: Path) -> None:
    runs = [run for run in both(tmp_path, SEEDS) if run.result.model == "native"]
    random = [
        write(tmp_path / f"r{seed}", "random", seed=seed, skill=0.0, fold=None, counted=150) for seed in SEEDS
    ]
    assert [pair.scope for pair in only([*runs, *random]).pairs] == [RETUNED]


def test_without_repeated_training_the_scope_is_that_of_the_trained_models(tmp_path: Path) -> None:
    comparison = only(both(tmp_path, (1,)))
    assert [pair.scope for pair in comparison.pairs] == [MODELS]
    assert mentions(verdict(comparison), "training was not", "Tuning was not")


def in_sweep(runs: list[Run], folder: Path, *settings: str) -> list[Run]:
    return [
        changed(
            run,
            sweep=str(folder),
            overrides=(f"model={run.result.model}", "search=random", "search.trials=16", *settings),
        )
        for run in runs
    ]


def test_the_step_after_one_search_repeats_it_with_seeds_into_the_sweep(tmp_path: Path) -> None:
    runs = [*over_folds(tmp_path), *over_folds(tmp_path, "xgboost", skill=0.5)]
    runs = [run for fold in FOLDS for run in in_sweep(runs, tmp_path, f"data.fold={fold}")[fold - 1 :: 3]]
    step = next_step(only(runs))
    assert step is not None
    words = shlex.split(step.command)[3:]
    assert words == [
        "model=native,xgboost",
        "search=random",
        "search.trials=16",
        "data.fold=1,2,3",
        "seed=1,2",
        "-m",
        f"hydra.sweep.dir={tmp_path}",
    ]
    assert mentions(step.reason, "Tuning was", "not repeated", "3 seeds")
    # Two more seeds of a search of 16 trials and a training, on each fold.
    assert step.seconds == pytest.approx(2 * 2 * 3 * (2.5 * 16 + runs[0].result.total_seconds))


def test_a_pinned_search_seed_is_released_in_a_new_folder(tmp_path: Path) -> None:
    runs = in_sweep(both(tmp_path, SEEDS, search=searched(seed=7)), tmp_path, "search.seed=7")
    step = next_step(only(runs))
    assert step is not None
    assert shlex.split(step.command)[3:] == [
        "model=native,xgboost",
        "search=random",
        "search.trials=16",
        "seed=1,2,3",
        "-m",
    ]


def test_a_single_search_is_repeated_also_where_training_seeds_change_nothing(tmp_path: Path) -> None:
    runs = in_sweep(both(tmp_path, SEEDS, search=searched(seed=7)), tmp_path, "search.seed=7")
    same = [
        Run(run.path, run.result, held={"test": runs[number // 3 * 3].scored("test")})
        for number, run in enumerate(runs)
    ]
    step = next_step(only(same))
    assert step is not None
    assert {"model=native,xgboost", "seed=1,2,3"} <= set(shlex.split(step.command))


def with_validation(run: Run, value: float) -> Run:
    return changed(run, metrics={**run.result.metrics, "valid/ndcg@10": value})


def test_validation_chooses_between_tuned_and_untuned_rows(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"validated": judgments(9), "settings": {"num_leaves": 31, "learning_rate": 0.1}}
    untuned = with_validation(write(tmp_path / "u", "native", skill=3.0, **fields), 0.5)
    chosen = with_validation(tuned(tmp_path / "t", skill=0.5, validated=judgments(9)), 0.6)
    comparison = only([untuned, chosen, write(tmp_path / "r", "random", skill=0.0)])
    assert comparison.best == "native search=none"
    recommended = recommend(comparison)
    assert recommended is not None
    remarks = " ".join(recommended.remarks)
    assert mentions(remarks, "2 rows of native", "native search=random", "validation")
    assert "native search=none" not in recommended.models


@pytest.mark.parametrize("values", [(0.6, 0.6, 0.6), (0.6, 0.6, 0.4)])
def test_folds_that_share_queries_choose_a_row_only_together(
    tmp_path: Path, values: tuple[float, ...]
) -> None:
    # The validation set of a fold is the test set of the next one, as in LETOR.
    settings = {"num_leaves": 31, "learning_rate": 0.1}
    runs = [write(tmp_path / f"r{fold}", "random", fold=fold, skill=0.0) for fold in FOLDS]
    for fold, value in zip(FOLDS, values, strict=True):
        fields: dict[str, Any] = {"fold": fold, "validated": judgments(fold % 3 + 1)}
        untuned = write(tmp_path / f"u{fold}", "native", skill=3.0, settings=settings, **fields)
        chosen = tuned(tmp_path / f"t{fold}", skill=2.0, leaves=31, **fields)
        runs += [with_validation(untuned, 0.5), with_validation(chosen, value)]
    recommended = recommend(only(runs))
    assert recommended is not None
    if min(values) > 0.5:
        assert mentions(recommended.remarks, "2 rows of native", "native search=random", "every fold")
    else:
        assert mentions(recommended.remarks, "2 rows of native", "not considered", "validation queries")


def test_files_hold_the_searches(tmp_path: Path) -> None:
    runs = [
        run
        for model in ("native", "xgboost")
        for run in over_folds(tmp_path / model, model, skill=len(model))
    ]
    comparisons = compare([*runs, *(write(tmp_path / f"r{fold}", "random", fold=fold) for fold in FOLDS)])
    record = json.loads(json.dumps(comparisons_as_json(comparisons), allow_nan=False))
    assert [run["search"] for run in record["runs"]] == [searched()] * 6 + [None] * 3
    totals = {
        **{key: searched()[key] for key in ("name", "choose", "metric", "space")},
        **{"searches": 3, "trials": [16, 16], "failed": 0, "iterations": 4800, "seconds": 120.0},
    }
    assert [row["search"] for row in record["rows"]] == [totals, totals, None]
    for name in ("committed", "rerun"):
        publish(comparisons, tmp_path / name)
    environment = json.loads((tmp_path / "committed/environment.json").read_text())
    assert [run.get("search") for run in environment["runs"]] == [searched()] * 6 + [None] * 3
    assert reproduce(tmp_path / "committed", tmp_path / "rerun").differences == ()
    table = (tmp_path / "committed/table.md").read_text()
    assert mentions(
        table, "native (2 settings", "3 searches of 16 trials", "4,800 iterations in 120 s of fits"
    )
    assert "glossary.md#tuning-budget" in table


def test_a_frame_has_one_row_per_tuned_model(tmp_path: Path) -> None:
    frame = only([*over_folds(tmp_path), *over_folds(tmp_path, "xgboost", skill=0.5)]).to_frame()
    assert frame["model"].tolist() == ["native", "xgboost"]
    assert frame["trainings"].tolist() == ["3 folds x 1 seed"] * 2


def test_a_tuned_run_that_was_written_is_compared_like_the_one_in_memory(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / f"{fold}", "native", fold=fold, search=searched()) for fold in FOLDS]
    assert only(find_runs([tmp_path])).note_entries == only(runs).note_entries
