"""Claims of a comparison: their scope follows from what varied, and one procedure decides them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from claim_cases import (
    QUERIES,
    SEEDS,
    _with_seed,
    deterministic,
    folds,
    only,
    pair_of,
    resampled,
    runs_of,
    values_of,
)
from messages import naming
from scipy import stats
from toy_runs import NUM_QUERIES, judgments, mentions

from ltrbench.compare import Comparison, Settings, compare, render, verdict
from ltrbench.compare.analysis.verdict import NOT_ALIKE, NOT_REPEATED
from ltrbench.compare.grouping import replicate_of
from ltrbench.compare.output.publish import publish
from ltrbench.compare.output.record import claims, comparisons_as_json
from ltrbench.compare.output.report.parts import Section
from ltrbench.compare.output.report.sections.evidence.leaderboard import leaderboard_section
from ltrbench.compare.output.report.sections.evidence.pairs import pairs_section
from ltrbench.compare.output.report.shown import Shown
from ltrbench.compare.output.tables import as_csv
from ltrbench.compare.scores.fusion import Fusing, fuse
from ltrbench.compare.scores.imported import Import, import_scores
from ltrbench.errors import ConfigError, UndefinedMetricError
from ltrbench.metrics import preset
from ltrbench.results import Run
from ltrbench.statistics import (
    METHODS,
    MODELS,
    RETRAINED,
    SCOPES,
    independent_replicates,
    resampling_factor,
    shared_replicates,
)
from ltrbench.tables import Table


def test_one_training_of_each_model_claims_nothing_about_the_methods(tmp_path: Path) -> None:
    comparison = only([*runs_of(tmp_path, "native", (1,)), *runs_of(tmp_path, "xgboost", (1,), skill=0.3)])
    pair = pair_of(comparison)
    assert (pair.scope, pair.claim, pair.inference) == (MODELS, "better", None)
    assert pair.interval == pair.statistics.interval
    assert NOT_REPEATED in verdict(comparison).lower()
    assert mentions(render(comparison), f"claim ({SCOPES[MODELS]})")


def test_seeds_of_two_libraries_are_independent_trainings(tmp_path: Path) -> None:
    native, xgboost = runs_of(tmp_path, "native"), runs_of(tmp_path, "xgboost", skill=0.9)
    pair = pair_of(only([*native, *xgboost]))
    shares = np.full(QUERIES, 1 / QUERIES)
    assert pair.scope == RETRAINED
    assert pair.inference is not None
    expected = independent_replicates(values_of(native), values_of(xgboost), shares)
    assert pair.inference.standard_error == pytest.approx(expected.standard_error)
    assert pair.inference.difference == pytest.approx(pair.statistics.difference)
    assert pair.inference.num_replicates == (len(SEEDS), len(SEEDS))


def test_seeds_of_one_library_are_shared_trainings(tmp_path: Path) -> None:
    one, other = (
        runs_of(tmp_path / "1", "native", settings={"l2": 1}),
        runs_of(tmp_path / "2", "native", settings={"l2": 2}, skill=0.9),
    )
    pair = pair_of(only([*one, *other]))
    expected = shared_replicates(values_of(one), values_of(other), np.full(QUERIES, 1 / QUERIES))
    assert pair.inference is not None
    assert (pair.scope, pair.inference.method) == (RETRAINED, "paired-mrmc-t")
    assert pair.inference.standard_error == pytest.approx(expected.standard_error)


def test_two_seeds_claim_nothing_and_say_so(tmp_path: Path) -> None:
    runs = [*runs_of(tmp_path, "native", (1, 2)), *runs_of(tmp_path, "random", (1, 2), skill=0.0)]
    comparison = only(runs)
    pair = pair_of(comparison)
    assert (pair.scope, pair.claim, pair.interval) == (RETRAINED, "undecided", None)
    assert "2 trainings" in pair.reason
    assert pair.reason in verdict(comparison)


def test_seeds_that_change_nothing_count_as_one_training(tmp_path: Path) -> None:
    both = only([*deterministic(tmp_path, "native"), *deterministic(tmp_path, "xgboost", skill=0.5)])
    assert (pair_of(both).scope, pair_of(both).inference) == (MODELS, None)
    # Beside a model whose seeds matter, it is known not to vary.
    mixed = pair_of(only([*deterministic(tmp_path / "2", "native"), *runs_of(tmp_path / "2", "random")]))
    assert mixed.scope == RETRAINED
    assert mixed.inference is not None
    assert mixed.inference.num_replicates == (1, len(SEEDS))


def test_one_training_beside_several_is_not_known_to_be_deterministic(tmp_path: Path) -> None:
    comparison = only([*runs_of(tmp_path, "native", (1,)), *runs_of(tmp_path, "random")])
    assert (pair_of(comparison).scope, pair_of(comparison).inference) == (MODELS, None)
    assert NOT_ALIKE in verdict(comparison)


@pytest.mark.parametrize("kind", ["bootstrap", "subsample"])
def test_resampled_training_sets_speak_of_the_methods(tmp_path: Path, kind: str) -> None:
    numbers = (1, 2, 3, 4, 5)
    native, xgboost = (resampled(tmp_path, model, numbers, kind) for model in ("native", "xgboost"))
    comparison = only([*native, *xgboost])
    pair = pair_of(comparison)
    expected = shared_replicates(
        values_of(native),
        values_of(xgboost),
        np.full(QUERIES, 1 / QUERIES),
        resampling_factor(kind, len(numbers), 0.5),
    )
    assert pair.inference is not None
    assert (pair.scope, pair.inference.method) == (METHODS, "resampled-t")
    assert pair.inference.standard_error == pytest.approx(expected.standard_error)
    assert SCOPES[METHODS] in render(comparison)


def test_resamples_that_only_one_row_has_are_left_out(tmp_path: Path) -> None:
    runs = [*resampled(tmp_path, "native", (1, 2, 3, 4, 5)), *resampled(tmp_path, "xgboost", (1, 3, 5))]
    pair = pair_of(only(runs))
    assert pair.inference is not None
    assert pair.inference.num_replicates == (3, 3)


def test_runs_on_resamples_are_no_repetitions_of_runs_on_the_whole_training_set(tmp_path: Path) -> None:
    whole = runs_of(tmp_path / "whole", "native", (1,), train="all")
    comparison = only([*whole, *resampled(tmp_path, "native", (1, 2, 3))])
    assert len(comparison.rows) == 2
    assert pair_of(comparison).scope == MODELS


def test_the_difference_is_over_the_resamples_that_its_interval_is_over(tmp_path: Path) -> None:
    native = [*resampled(tmp_path, "native", (1, 2, 3)), *resampled(tmp_path, "native", (4, 5), skill=9.0)]
    comparison = only([*native, *resampled(tmp_path, "xgboost", (1, 2, 3), skill=1.5)])
    row = comparison.row("xgboost")
    pair = row.to_baseline
    assert pair is not None
    assert pair.interval is not None
    common = values_of(native[:3]).mean()
    assert pair.difference == pytest.approx(values_of(list(row.runs)).mean() - common)
    assert pair.difference == pytest.approx((pair.interval.low + pair.interval.high) / 2)
    record = comparisons_as_json([comparison])
    assert record["rows"][1]["difference"] == pair.difference == -record["pairs"][0]["difference"]
    text = render(comparison)
    assert f"{pair.difference:+.4f} [{pair.interval.low:+.4f}" in text
    assert mentions(text, "xgboost", "resamples 4 and 5")


def test_seeds_on_one_resample_do_not_repeat_the_training_on_these_queries(tmp_path: Path) -> None:
    (one,) = resampled(tmp_path / "1", "native", (1,))
    seeds = []
    for seed in SEEDS:
        (run,) = runs_of(tmp_path / "seeds", "native", (seed,))
        held = {"test": run.scored("test")}
        seeds.append(Run(run.path, replace(one.result, seed=seed), held=held))
    comparison = only([*seeds, *runs_of(tmp_path, "xgboost", train="all")])
    assert (pair_of(comparison).scope, pair_of(comparison).inference) == (MODELS, None)


@pytest.mark.parametrize("kind", ["seeds", "resamples"])
def test_models_with_different_training_sets_say_nothing_about_training(tmp_path: Path, kind: str) -> None:
    if kind == "seeds":
        one, other = runs_of(tmp_path, "native", train="a"), runs_of(tmp_path, "xgboost", train="b")
    else:
        one = resampled(tmp_path, "native", (1, 2, 3))
        other = resampled(tmp_path, "xgboost", (1, 2, 3), train="another")
    pair = pair_of(only([*one, *other], Settings(allow_mismatch=True)))
    assert (pair.scope, pair.inference) == (MODELS, None)


def test_allowing_a_mismatch_changes_no_claim_where_there_is_none(tmp_path: Path) -> None:
    runs = [*runs_of(tmp_path, "native"), *runs_of(tmp_path, "xgboost", skill=0.3)]
    assert pair_of(only(runs, Settings(allow_mismatch=True))).scope == pair_of(only(runs)).scope == RETRAINED


def test_the_share_of_test_queries_is_that_of_the_training_set_that_was_resampled(tmp_path: Path) -> None:
    runs = resampled(tmp_path, "native", (1, 2, 3), "subsample")
    whole = only(runs).queries
    data = [{**run.result.data, "train": {**run.result.data["train"], "queries": 45}} for run in runs]
    halves = [replace(run, result=replace(run.result, data=own)) for run, own in zip(runs, data, strict=True)]
    half = only(halves).queries
    assert whole is not None
    assert half is not None
    assert half.test_share == whole.test_share == NUM_QUERIES / 90


def test_folds_speak_of_the_methods_and_seeds_within_them_add_to_the_error(tmp_path: Path) -> None:
    once = pair_of(only([*folds(tmp_path / "1", "native", (1,)), *folds(tmp_path / "1", "other", (1,))]))
    assert once.scope == METHODS
    assert once.inference is not None
    assert once.over_folds is not None
    frequentist = once.over_folds.frequentist
    assert frequentist.interval is not None
    assert once.interval is not None
    assert (once.interval.low, once.interval.high) == pytest.approx(
        (frequentist.interval.low, frequentist.interval.high)
    )
    seeds = only([*folds(tmp_path / "3", "native", SEEDS), *folds(tmp_path / "3", "other", SEEDS)])
    several = pair_of(seeds)
    assert several.inference is not None
    assert several.over_folds is not None
    interval = several.over_folds.frequentist.interval
    assert interval is not None
    corrected = (interval.high - interval.low) / 2 / stats.t.ppf(0.975, 4)
    # W_j / J^2 of each fold, from independent seeds.
    assert seeds.queries is not None
    within = 0.0
    for number in range(5):
        shares = np.full(int((seeds.queries.cell_of_query == number).sum()), 1.0)
        found = independent_replicates(
            seeds.queries.trainings[0][number].values,
            seeds.queries.trainings[1][number].values,
            shares / shares.sum(),
        )
        within += (found.parts.training + found.parts.training_by_query) / 25
    assert several.inference.standard_error == pytest.approx(np.sqrt(corrected**2 + within))


def test_folds_with_one_test_set_are_no_folds(tmp_path: Path) -> None:
    judged = judgments(1)
    runs = [
        *folds(tmp_path, "native", (1,), judged=judged),
        *folds(tmp_path, "other", (1,), judged=judged, skill=0.3),
    ]
    comparison = only(runs)
    pair = pair_of(comparison)
    assert (pair.scope, pair.inference, pair.over_folds) == (MODELS, None, None)


def test_a_difference_inside_the_region_of_equivalence_is_equivalent_even_if_it_excludes_zero(
    tmp_path: Path,
) -> None:
    runs = [*runs_of(tmp_path, "native", (1,), skill=3.0), *runs_of(tmp_path, "random", (1,), skill=0.0)]
    assert pair_of(only(runs)).claim == "better"
    wide = only(runs, Settings(rope=0.9))
    interval = pair_of(wide).interval
    assert interval is not None
    assert 0 < interval.low < interval.high < 0.9
    assert pair_of(wide).claim == "equivalent"
    assert mentions(verdict(wide), "equivalent to random", "±0.9")


def test_a_turned_pair_turns_its_claim_and_its_interval(tmp_path: Path) -> None:
    pair = pair_of(only([*runs_of(tmp_path, "native"), *runs_of(tmp_path, "random", skill=0.0)]))
    turned = pair.turned()
    assert (pair.claim, turned.claim) == ("better", "worse")
    assert pair.interval is not None
    assert turned.interval is not None
    assert (turned.interval.low, turned.interval.high) == (-pair.interval.high, -pair.interval.low)
    assert turned.turned() == pair


def test_more_pairs_or_metrics_in_the_family_widen_every_interval(tmp_path: Path) -> None:
    runs = [
        run
        for model, skill in (("native", 1.0), ("xgboost", 0.9), ("catboost", 0.8))
        for run in runs_of(tmp_path, model, skill=skill)
    ]
    everyone = only(runs)
    planned = only(runs, Settings(baseline="native"))
    declared = only(runs, Settings(baseline="native", family=("ndcg@10", "map")))

    def width(comparison: Comparison) -> float:
        pair = comparison.row("xgboost").to_baseline
        assert pair is not None
        assert pair.interval is not None
        return pair.interval.high - pair.interval.low

    assert width(planned) < width(everyone)
    assert width(planned) < width(declared)
    pair = declared.row("xgboost").to_baseline
    assert pair is not None
    assert pair.inference is not None
    # Two pairs in each of two metrics share 5 %.
    assert pair.interval == pair.inference.interval(0.05 / 4)


def test_only_the_primary_metric_carries_claims_unless_a_family_declares_others(tmp_path: Path) -> None:
    runs = [*runs_of(tmp_path, "native"), *runs_of(tmp_path, "random", skill=0.0)]
    alone = only(runs)
    assert {pair["metric"] for pair in comparisons_as_json([alone])["pairs"]} == {"ndcg@10"}
    assert mentions(render(alone), "Claims", "ndcg@10 only")
    both = only(runs, Settings(family=("ndcg@10", "ndcg@5")))
    assert [pair["metric"] for pair in comparisons_as_json([both])["pairs"]] == ["ndcg@10", "ndcg@5"]
    claim = both.claim("random", "ndcg@5")
    assert claim is not None
    assert claim.claim == "worse"
    mean = both.row("random").metrics["ndcg@5"]
    assert claim.interval is not None
    low, high = claim.interval.low, claim.interval.high
    difference = f"{claim.statistics.difference:+.4f} [{low:+.4f}, {high:+.4f}]"
    assert f"{mean:.4f}, {difference} worse ({SCOPES[RETRAINED]})" in render(both)
    in_declared = verdict(both).partition("ndcg@5:")[2]
    assert mentions(in_declared, "better than random", f"({SCOPES[RETRAINED]})")


def test_against_a_named_baseline_the_verdict_names_every_metric_of_the_family(tmp_path: Path) -> None:
    runs = [*runs_of(tmp_path, "native"), *runs_of(tmp_path, "random", skill=0.0)]
    both = only(runs, Settings(family=("ndcg@10", "ndcg@5"), baseline="native"))
    claim = both.claim("random", "ndcg@5")
    assert claim is not None
    in_declared = verdict(both).partition("ndcg@5:")[2]
    parts = (f"random ({claim.statistics.difference:+.4f})", "worse", f"({SCOPES[RETRAINED]})")
    assert mentions(in_declared, *parts)


def three_rows(folder: Path, **settings: Any) -> Comparison:
    """One clearly better than two others."""
    skills = {"native": 3.0, "random": 0.0, "xgboost": 0.1}
    runs = [run for model, skill in skills.items() for run in runs_of(folder, model, skill=skill)]
    return only(runs, Settings(**settings))


def table_of(make: Callable[[Shown], Section | None], comparison: Comparison) -> Table:
    """The first table of a section of the report."""
    made = make(Shown(comparison, "toy", []))
    assert made is not None
    table = made.parts[0]
    assert isinstance(table, Table)
    return table


def test_a_row_is_bold_in_the_report_only_where_it_is_claimed_to_be_better_than_every_other(
    tmp_path: Path,
) -> None:
    found = three_rows(tmp_path / "all")
    cells = {row[0].text: row[1] for row in table_of(leaderboard_section, found).cells()}
    assert {label for label, cell in cells.items() if cell.emphasis} == {"native"}
    level = only([*runs_of(tmp_path / "a", "native"), *runs_of(tmp_path / "b", "random")])
    assert pair_of(level).claim == "equivalent"
    assert not any(row[1].emphasis for row in table_of(leaderboard_section, level).cells())


def test_the_matrix_of_the_report_has_the_claims_of_the_leaderboard_and_no_others(tmp_path: Path) -> None:
    found = three_rows(tmp_path, baseline="random")
    table = table_of(pairs_section, found)
    matrix = {row[0].text: row[1:] for row in table.cells()}
    columns = [column.header for column in table.columns[1:]]
    notes = {(a, b): cell.note for a, cells in matrix.items() for b, cell in zip(columns, cells, strict=True)}
    pair = found.row("native").to_baseline
    assert pair is not None
    assert notes["native", "random"] == pair.claim
    assert SCOPES[pair.scope] in table.caption
    assert notes["native", "xgboost"] == notes["xgboost", "native"] == ""
    assert not found.beats_all("native")


def test_the_leaderboard_of_the_report_shows_the_claims_of_every_metric_of_the_family(tmp_path: Path) -> None:
    found = three_rows(tmp_path, family=("ndcg@10", "ndcg@5"))
    pair = found.claim("random", "ndcg@5")
    assert pair is not None
    rows = table_of(leaderboard_section, found).cells()
    (of_random,) = [row for row in rows if row[0].text == "random"]
    assert of_random[-1].note.endswith(f"worse ({SCOPES[RETRAINED]})")


def test_where_no_difference_has_an_interval_the_notes_claim_nothing(tmp_path: Path) -> None:
    runs = [*runs_of(tmp_path, "native", (1, 2)), *runs_of(tmp_path, "random", (1, 2), skill=0.0)]
    assert mentions(render(only(runs)), "no interval", "no claims")


def test_a_family_must_hold_the_metric_and_each_once() -> None:
    with pytest.raises(ConfigError, match=naming("ndcg@5")):
        Settings(metric="ndcg@5", family=("ndcg@10",))
    with pytest.raises(ConfigError, match=naming("each metric once")):
        Settings(family=("map", "map"))


def test_a_metric_of_the_family_that_the_convention_does_not_define_is_refused(tmp_path: Path) -> None:
    runs = [*runs_of(tmp_path, "native", (1,)), *runs_of(tmp_path, "random", (1,))]
    settings = Settings(family=("ndcg@10", "map"), convention=preset("xgboost"))
    with pytest.raises(UndefinedMetricError, match=naming("map")):
        compare(runs, settings)


def test_each_record_names_claim_and_scope(tmp_path: Path) -> None:
    comparison = only([*runs_of(tmp_path, "native"), *runs_of(tmp_path, "random", skill=0.0)])
    record = json.loads(json.dumps(comparisons_as_json([comparison]), allow_nan=False))
    (pair,) = record["pairs"]
    assert (pair["scope"], pair["claim"], pair["a"]) == (RETRAINED, "better", "native")
    parts = pair["inference"]["parts"]
    error = pair["inference"]["standard_error"]
    assert parts["query"] + parts["training"] + parts["training_by_query"] == pytest.approx(error**2)
    assert claims([comparison]) == {"native vs random, ndcg@10": f"better ({SCOPES[RETRAINED]})"}
    assert f",worse,{RETRAINED}," in as_csv([comparison])


def test_scopes_that_differ_stand_in_each_cell_and_sentence(tmp_path: Path) -> None:
    runs = [*deterministic(tmp_path, "native"), *deterministic(tmp_path, "xgboost", skill=0.9)]
    comparison = only([*runs, *runs_of(tmp_path, "random", skill=0.0)])
    text = render(comparison)
    assert f"worse ({SCOPES[RETRAINED]})" in text
    assert f"({SCOPES[MODELS]})" in text
    for scope in (MODELS, RETRAINED):
        assert SCOPES[scope] in verdict(comparison).lower()


def test_the_error_is_shared_out_where_some_pairs_are_of_trained_models(tmp_path: Path) -> None:
    runs = [*deterministic(tmp_path, "native"), *deterministic(tmp_path, "xgboost", skill=0.9)]
    comparison = only([*runs, *runs_of(tmp_path, "random", skill=0.0)])
    for pair in comparison.pairs:
        if pair.inference is not None:
            assert pair.interval == pair.inference.interval(0.05 / 3)


def test_every_declared_metric_has_its_claim_and_scope_in_report_and_csv(tmp_path: Path) -> None:
    runs = [*runs_of(tmp_path, "native"), *runs_of(tmp_path, "random", skill=0.0)]
    both = only(runs, Settings(family=("ndcg@10", "ndcg@5")))
    table = table_of(leaderboard_section, both)
    (column,) = [number for number, own in enumerate(table.columns) if own.header == "ndcg@5"]
    notes = [row[column].note for row in table.cells()]
    said = f"worse ({SCOPES[RETRAINED]})"
    assert notes[0] == ""
    assert notes[1].endswith(said)
    assert f",{said}," in as_csv([both])
    assert both.to_frame()["claim in ndcg@5"].tolist()[1] == said


def test_models_are_fused_on_the_same_resample_and_seed(tmp_path: Path) -> None:
    """Seed 2 of resample 1 and seed 1 of resample 2 are fitted with one seed."""
    members = [_with_resamples_and_seeds(tmp_path, model) for model in ("native", "xgboost")]
    made = fuse([*members[0], *reversed(members[1])], Fusing(methods=("rrf",)))
    assert [replicate_of(run) for run in made] == [(1, 1), (1, 2), (2, 2), (2, 3)]
    for run, native, xgboost in zip(made, *members, strict=True):
        (alone,) = fuse([native, xgboost], Fusing(methods=("rrf",)))
        np.testing.assert_array_equal(run.scored("test").scores, alone.scored("test").scores)


def test_each_resample_and_seed_has_a_column_of_values_by_query(tmp_path: Path) -> None:
    runs = _with_resamples_and_seeds(tmp_path, "native")
    publish([only(runs)], tmp_path / "out")
    header, _, first, *_ = (tmp_path / "out/per_query.csv").read_text().splitlines()
    places = ["resample=1 seed=1", "resample=1 seed=2", "resample=2 seed=2", "resample=2 seed=3"]
    assert header.split(",")[3:] == [f"native {place} ndcg@10" for place in places]
    assert first.split(",")[3:] == [f"{value:.6f}" for value in values_of(runs)[:, 0]]


def _with_resamples_and_seeds(folder: Path, model: str) -> list[Run]:
    """Two seeds on each of two resamples, as a sweep with seed=1,2 makes them."""
    runs = [*resampled(folder / "1", model, (1, 2)), *resampled(folder / "2", model, (1, 2), skill=2.0)]
    seeds = [number + offset for offset in (0, 1) for number in (1, 2)]
    made = [
        Run(run.path, _with_seed(run, seed), held=run.held) for run, seed in zip(runs, seeds, strict=True)
    ]
    return sorted(made, key=replicate_of)


def test_imported_scores_are_of_no_resample(tmp_path: Path) -> None:
    native = resampled(tmp_path, "native", (1, 2, 3))
    for run in native:
        lines = "".join(f"{score}\n" for score in run.scored("test").scores)
        (tmp_path / f"scores{run.result.seed}.txt").write_text(lines)
    imported = import_scores(Import("other", str(tmp_path / "scores{seed}.txt")), native)
    comparison = only([*native, *imported])
    assert (pair_of(comparison).scope, pair_of(comparison).inference) == (MODELS, None)
    assert "resample" not in comparison.replicates["other"]


def test_judgments_of_the_toy_runs_have_one_query_that_does_not_count() -> None:
    assert judgments(0, QUERIES).num_queries == QUERIES + 1
