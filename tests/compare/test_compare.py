"""The comparison of toy runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from scipy import stats
from toy_runs import NUM_QUERIES, judgments, mentions, write

from ltrbench.compare import Settings, best_by_validation, compare, render
from ltrbench.compare.comparison import ModelRow
from ltrbench.compare.output.publish import publish
from ltrbench.compare.output.record import comparisons_as_json
from ltrbench.errors import ConfigError, ResultError
from ltrbench.metrics import evaluate
from ltrbench.results import FAILED, Run, RunResult, write_run
from ltrbench.statistics import PairStatistics
from ltrbench.tables import Table


def against_baseline(row: ModelRow) -> PairStatistics:
    assert row.to_baseline is not None
    return row.to_baseline.statistics


def test_the_difference_is_paired_by_query_and_its_interval_is_students(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", "native", skill=2.0), write(tmp_path / "b", "lightgbm", skill=0.5)
    (comparison,) = compare([a, b])
    values = [
        evaluate(judgments(1), run.scored("test").scores, ["ndcg@10"]).per_query["ndcg@10"][1:]
        for run in (a, b)
    ]
    differences = values[1] - values[0]
    expected = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    row = comparison.rows[1]
    said = against_baseline(row)
    assert said.num_queries == NUM_QUERIES - 1
    assert said.difference == pytest.approx(differences.mean())
    assert said.interval is not None
    assert (said.interval.low, said.interval.high) == pytest.approx((expected.low, expected.high))
    assert comparison.rows[0].to_baseline is None


def test_metrics_and_differences_are_means_over_folds_so_that_they_agree(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{model}{fold}", model, fold=fold)
        for model in ("native", "xgboost")
        for fold in (1, 2, 3)
    ]
    (comparison,) = compare(runs)
    native, xgboost = comparison.rows
    assert against_baseline(xgboost).num_queries == 3 * (NUM_QUERIES - 1)
    assert native.metrics["ndcg@5"] == pytest.approx(
        np.mean([run.result.metrics["test/ndcg@5"] for run in runs[:3]])
    )
    ours, theirs = native.metrics["ndcg@10"], xgboost.metrics["ndcg@10"]
    assert ours is not None
    assert theirs is not None
    assert against_baseline(xgboost).difference == pytest.approx(theirs - ours)
    assert "mean over 3 folds" in render(comparison)


def test_a_query_counts_once_however_many_seeds_there_are(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{model}{seed}", model, seed=seed)
        for model in ("native", "xgboost")
        for seed in (0, 1, 2)
    ]
    (comparison,) = compare(runs)
    assert against_baseline(comparison.rows[1]).num_queries == NUM_QUERIES - 1
    assert comparison.rows[1].seconds["fit"] == pytest.approx(np.mean([1.0, 2.0, 3.0]))


def test_a_model_that_lacks_a_fold_is_named_and_only_the_common_folds_are_counted(tmp_path: Path) -> None:
    runs = [write(tmp_path / f"n{fold}", "native", fold=fold) for fold in (1, 2)]
    runs.append(write(tmp_path / "x", "xgboost", fold=2))
    (comparison,) = compare(runs)
    native, xgboost = comparison.rows
    assert against_baseline(xgboost).num_queries == NUM_QUERIES - 1
    assert native.metrics["ndcg@10"] == pytest.approx(runs[1].result.metrics["test/ndcg@10"])
    assert any(mentions(note, "xgboost", "no run on fold 1") for note in comparison.notes)


def test_runs_on_different_splits_of_a_data_set_are_never_averaged(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / str(share), "native", fold=number, data_settings={"valid_share": share})
        for number, share in enumerate((0.1, 0.4))
    ]
    unfolded = [Run(run.path, replace(run.result, data={**run.result.data, "fold": None})) for run in runs]
    names = [comparison.data for comparison in compare(unfolded)]
    assert names == ["toy data.valid_share=0.1", "toy data.valid_share=0.4"]


def test_a_failure_on_a_data_set_that_nothing_finished_on_is_still_told(tmp_path: Path) -> None:
    failed = RunResult(
        status=FAILED,
        model="native",
        params="matched",
        seed=0,
        data={"name": "other"},
        error="no such file\nmore",
    )
    (comparison,) = compare([write(tmp_path / "a", "native"), write_run(tmp_path / "b", failed)])
    assert f"native failed ({tmp_path / 'b'}): no such file" in comparison.notes


def test_a_baseline_that_is_several_rows_is_refused(tmp_path: Path) -> None:
    runs = [write(tmp_path / name, "native", settings={"l2": name}) for name in ("0", "1")]
    with pytest.raises(ConfigError, match=naming("'native'", "2 rows", "native l2=0, native l2=1")):
        compare(runs, Settings(baseline="native"))


def test_settings_that_vary_tell_rows_of_a_model_apart(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / leaves, "native", settings={"num_leaves": int(leaves), "l2": 1.0}, seed=4)
        for leaves in ("15", "31")
    ]
    (comparison,) = compare(runs)
    assert [row.label for row in comparison.rows] == [
        "native num_leaves=15",
        "native num_leaves=31",
    ]


def test_a_failed_run_is_named_and_does_not_stop_the_others(tmp_path: Path) -> None:
    good = write(tmp_path / "good", "native")
    failed = RunResult(
        status=FAILED, model="xgboost", params="matched", seed=0, data={"name": "toy"}, error="out of memory"
    )
    (comparison,) = compare([good, write_run(tmp_path / "bad", failed)])
    assert f"xgboost failed ({tmp_path / 'bad'}): out of memory" in comparison.notes
    with pytest.raises(ResultError, match=naming("no finished run", "out of memory")):
        compare([write_run(tmp_path / "bad", failed)])


def test_any_metric_can_be_asked_for_afterwards_and_any_model_be_the_baseline(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost")]
    (comparison,) = compare(runs, Settings(metric="precision@3", baseline="xgboost"))
    scored = runs[0].scored("test")
    expected = evaluate(scored.judgments, scored.scores, ["precision@3"]).means["precision@3"]
    assert comparison.rows[0].metrics["precision@3"] == expected
    assert against_baseline(comparison.rows[0]).difference is not None
    assert comparison.baseline == "xgboost"


def test_an_unknown_baseline_or_metric_is_refused(tmp_path: Path) -> None:
    run = write(tmp_path, "native")
    with pytest.raises(ConfigError, match=naming("baseline 'natve'", "'native'?", "rows are native")):
        compare([run], Settings(baseline="natve"))
    with pytest.raises(ConfigError, match=naming("'nope'")):
        compare([run], Settings(metric="nope"))


def test_identical_scores_differ_by_zero_with_an_empty_interval(tmp_path: Path) -> None:
    runs = [write(tmp_path / name, "native", settings={"l2": name}) for name in ("0", "1")]
    (comparison,) = compare(runs)
    said = against_baseline(comparison.rows[1])
    assert said.interval is not None
    assert (said.difference, said.interval.low, said.interval.high, said.note) == (0, 0, 0, "identical")
    assert set(said.p_values.values()) == {1.0}


def test_json_holds_no_nan_and_each_run_with_its_metrics_and_path(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost")]
    content = json.loads(json.dumps(comparisons_as_json(compare(runs)), allow_nan=False))
    assert content["metric"] == "ndcg@10"
    assert [run["model"] for run in content["runs"]] == ["native", "xgboost"]
    first = content["runs"][0]
    assert first["metrics"]["ndcg@10"] == first["metrics"]["test/ndcg@10"]
    assert first["seconds"]["fit"] == 1.0
    assert first["path"] == str(tmp_path / "a")


def test_what_is_published_is_the_same_bytes_twice_and_holds_no_label(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost")]
    comparisons = compare(runs)
    for name in ("once", "twice"):
        publish(comparisons, tmp_path / name / "toy")
    for name in ("table.md", "per_query.csv", "environment.json"):
        assert (tmp_path / "once/toy" / name).read_bytes() == (tmp_path / "twice/toy" / name).read_bytes()
    header, skipped, first, *_ = (tmp_path / "once/toy/per_query.csv").read_text().splitlines()
    assert header == "data,fold,query_id,native ndcg@10,xgboost ndcg@10"
    assert skipped == "toy,1,1,,"
    assert first.startswith("toy,1,2,")
    assert "python -m ltrbench model=native" in (tmp_path / "once/toy/environment.json").read_text()


def test_no_commit_is_said_of_runs_outside_git(tmp_path: Path) -> None:
    run = write(tmp_path / "a", "native")
    outside = Run(run.path, replace(run.result, commit=None))
    for name, item in (("within", run), ("outside", outside)):
        publish(compare([item]), tmp_path / name)
    texts = [(tmp_path / name / "table.md").read_text() for name in ("within", "outside")]
    assert [mentions(text, "commit abc") for text in texts] == [True, False]
    assert all(mentions(text, "1 run,", "on some") for text in texts)


def test_two_data_sets_make_two_tables(tmp_path: Path) -> None:
    toy = write(tmp_path / "a", "native")
    other = write(tmp_path / "b", "native")
    renamed = Run(
        other.path, RunResult(**{**vars(other.result), "data": {**other.result.data, "name": "other"}})
    )
    assert [comparison.data for comparison in compare([toy, renamed])] == ["toy", "other"]


def test_a_table_that_fits_the_terminal_is_the_one_that_a_file_gets(tmp_path: Path) -> None:
    (comparison,) = compare([write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost")])
    terminal, file = (
        [line for line in render(comparison, width).splitlines() if line.startswith("|")]
        for width in (1000, None)
    )
    assert terminal == file


def test_in_a_narrow_terminal_the_lines_are_within_it_and_no_word_is_lost(tmp_path: Path) -> None:
    (comparison,) = compare([write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost")])
    wide, narrow = render(comparison, width=1000), render(comparison, width=60)
    # A command stays in one line, so that it can be copied.
    lines = [line for line in narrow.splitlines() if not line.strip().startswith("python -m ltrbench")]
    assert max(map(len, lines)) <= 60 < max(map(len, wide.splitlines()))
    assert set(re.findall(r"[^\s|]*\w[^\s|]*", narrow)) == set(re.findall(r"[^\s|]*\w[^\s|]*", wide))


CELLS = st.text("abc0.", min_size=1, max_size=12)


@given(
    rows=st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=2))
)
def test_every_block_of_a_table_repeats_its_first_column_and_together_they_are_the_table(
    rows: list[list[str]],
) -> None:
    width = 40
    blocks = [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        for block in Table.of(rows[0], rows[1:]).markdown(width).split("\n\n")
    ]
    for number, row in enumerate([rows[0], [], *rows[1:]]):
        if number != 1:  # the rule
            assert {block[number][0] for block in blocks} == {row[0]}
            assert [cell for block in blocks for cell in block[number][1:]] == row[1:]
    # A cell is 12 wide at the most, and so two columns of them fit into the width.
    assert all(len(line) <= width for line in Table.of(rows[0], rows[1:]).markdown(width).splitlines())


def test_the_model_to_use_is_named_with_the_validation_value_that_it_was_chosen_by(tmp_path: Path) -> None:
    valid = {"native": {1: 0.70, 2: 0.72}, "lightgbm": {1: 0.75, 2: 0.65}}
    runs = []
    for model, values in valid.items():
        for fold, value in values.items():
            run = write(tmp_path / f"{model}{fold}", model, fold=fold)
            metrics = {**run.result.metrics, "valid/ndcg@10": value}
            runs.append(Run(run.path, replace(run.result, metrics=metrics)))
    (comparison,) = compare(runs)
    choice = best_by_validation(comparison)
    assert choice is not None
    assert choice.run.path == runs[1].path
    assert mentions(choice.reason, "native", "ndcg@10, 0.7100", "2 runs", "fold=2 seed=0", "0.7200")
    assert choice.figures["test/ndcg@10"] == comparison.row("native").metrics["ndcg@10"]
    assert choice.figures["valid/ndcg@10"] == pytest.approx((0.70 + 0.72) / 2)
    (single,) = compare([runs[0]])
    choice = best_by_validation(single)
    assert choice is not None
    assert choice.reason == "native: validation ndcg@10, 0.7000"
