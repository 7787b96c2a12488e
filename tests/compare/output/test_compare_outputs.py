"""Outputs of a comparison: verdict, slices, LaTeX, CSV, JSON, and tests over data sets."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from messages import naming
from run_cases import finished_run
from scipy import stats
from toy_runs import NUM_QUERIES, judgments, mentions, write

from ltrbench.cli import main
from ltrbench.cli.jobs.session import Session
from ltrbench.compare import BEST, Comparison, Settings, compare, read_attributes, render, slices, verdict
from ltrbench.compare.analysis.across import across, across_in_words
from ltrbench.compare.analysis.methods import about_draws
from ltrbench.compare.output.publish import publish
from ltrbench.compare.output.record import comparisons_as_json, figures_by_name
from ltrbench.compare.output.tables import as_csv, as_latex
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.metrics import evaluate
from ltrbench.results import Run
from ltrbench.statistics import compare_pairs

FOLDS = (1, 2, 3, 4)


def comparison_of(folder: Path, settings: Settings | None = None) -> Comparison:
    """Three models over four folds; native ranks well, xgboost a little worse, random_ by lot."""
    runs = [
        write(folder / f"{model}{fold}", model, fold=fold, skill=skill)
        for model, skill in (("native", 2.0), ("xgboost", 1.8), ("random_", 0.0))
        for fold in FOLDS
    ]
    (comparison,) = compare(runs, settings)
    return comparison


def test_the_verdict_names_the_best_and_whom_it_beats(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    assert comparison.best is not None
    mean = comparison.row(comparison.best).metrics["ndcg@10"]
    parts = (f"ndcg@10, {mean:.4f}", "better than random_", "undecided against")
    assert mentions(verdict(comparison), comparison.best, "on other queries", *parts)


def test_the_verdict_against_a_baseline_says_better_worse_and_level(tmp_path: Path) -> None:
    said = verdict(comparison_of(tmp_path, Settings(baseline="xgboost")))
    assert mentions(said, "Against xgboost", "ndcg@10", "on other queries", "random_ (-0.", "worse")


def test_one_row_allows_no_verdict(tmp_path: Path) -> None:
    (comparison,) = compare([write(tmp_path, "native")])
    assert mentions(verdict(comparison), "nothing is claimed")


def test_p_values_against_a_baseline_are_adjusted_over_fewer_pairs_than_over_all(tmp_path: Path) -> None:
    everyone, against = (
        comparison_of(tmp_path / "a"),
        comparison_of(tmp_path / "b", Settings(baseline="native")),
    )
    assert (len(everyone.family), len(against.family)) == (3, 2)
    (of_all,) = (pair for pair in everyone.pairs if (pair.a, pair.b) == ("native", "random_"))
    (of_two,) = (pair for pair in against.family if pair.a == "random_")
    assert of_all.statistics.p_values == of_two.statistics.p_values
    p_value = of_all.statistics.p_values["randomisation"]
    assert p_value is not None
    # Of three p-values Holm multiplies the least by three, and the next, its equal here, by two.
    assert of_all.p_adjusted["holm"]["randomisation"] == pytest.approx(3 * p_value)
    assert of_two.p_adjusted["holm"]["randomisation"] == pytest.approx(2 * p_value)


def test_differences_to_the_best_have_simultaneous_intervals_wider_than_planned_ones(tmp_path: Path) -> None:
    planned = comparison_of(tmp_path / "a", Settings(baseline="native"))
    chosen = comparison_of(tmp_path / "b", Settings(baseline=BEST))
    best = planned.best
    assert chosen.baseline == best
    for label in {row.label for row in planned.rows} - {best, "native"}:
        wide = chosen.row(label).to_baseline
        assert wide is not None
        narrow = planned.row(label).to_baseline
        assert narrow is not None
        assert wide.interval is not None
        assert narrow.interval is not None
        assert wide.interval == chosen.row(label).to_best
        # Over all three pairs and not over two.
        assert wide.inference is not None
        error, factor = wide.inference.standard_error, stats.t.ppf(1 - 0.025 / 3, len(FOLDS) - 1)
        assert wide.interval.high - wide.interval.low == pytest.approx(2 * factor * error)
        assert narrow.interval.high - narrow.interval.low < wide.interval.high - wide.interval.low


def test_folds_are_tested_with_one_degree_of_freedom_less_than_there_are_and_a_third_of_test(
    tmp_path: Path,
) -> None:
    comparison = comparison_of(tmp_path)
    assert comparison.queries is not None
    assert comparison.queries.test_share == pytest.approx(1 / 3)
    pair = comparison.pairs[0]
    assert pair.over_folds is not None
    assert pair.over_folds.frequentist.degrees == len(FOLDS) - 1
    assert pair.over_folds.frequentist.difference == pytest.approx(pair.statistics.difference)
    chances = pair.over_folds.bayesian
    assert (chances.left or 0) + (chances.within or 0) + (chances.right or 0) == pytest.approx(1)


def test_a_difference_of_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match=naming("rope", "0;", "above 0")):
        Settings(rope=0)
    with pytest.raises(ConfigError, match=naming("detect", "0;", "above 0")):
        Settings(detect=0)


def test_slices_of_an_attribute_share_out_the_queries_and_their_means_average_to_the_whole(
    tmp_path: Path,
) -> None:
    comparison = comparison_of(tmp_path)
    assert comparison.queries is not None
    for name in ("query_size", "num_relevant", "label_entropy"):
        found = slices(comparison, [name])
        assert sum(item.num_queries for item in found) == len(FOLDS) * (NUM_QUERIES - 1)
        means = [[row.mean for row in item.rows] for item in found]
        # Every fold has as many queries here, so that the mean of folds is that of queries.
        whole = np.average(means, axis=0, weights=[item.num_queries for item in found])
        assert whole == pytest.approx(comparison.queries.sample.means)


def test_the_ranges_of_an_attribute_have_three_digits_where_these_tell_them_apart(tmp_path: Path) -> None:
    names = [item.name for item in slices(comparison_of(tmp_path), ["label_entropy"])]
    ends = [end for name in names for end in name.split(" to ")]
    assert len(set(ends)) > 4
    assert all(len(end.replace("0.", "").replace(".", "")) <= 3 for end in ends)


def test_queries_are_sliced_by_a_column_of_the_users_own(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    file = tmp_path / "kinds.csv"
    rows = [f"{query},{'long' if query % 2 else 'short'}" for query in range(1, NUM_QUERIES + 1)]
    file.write_text("\n".join(["query_id,kind", *rows]))
    found = slices(comparison, ["kind"], read_attributes(file))
    assert [item.name for item in found] == ["long", "short"]
    base = found[0].rows[0]
    assert (base.difference, base.interval) == (None, None)
    assert found[0].rows[1].difference == pytest.approx(found[0].rows[1].mean - base.mean)


def test_mistakes_in_attributes_are_told_with_their_line(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    file = tmp_path / "kinds.csv"
    with pytest.raises(ConfigError, match=naming("'query_sise'", "'query_size'?", "--attributes")):
        slices(comparison, ["query_sise"])
    file.write_text("query_id,kind\n1,a\n1,b\n")
    with pytest.raises(DataError, match=naming("kinds.csv:3", "query '1'", "one line")):
        read_attributes(file)
    file.write_text("query,kind\n1,a\n")
    with pytest.raises(DataError, match=naming("kinds.csv:1", "query, kind", "query_id")):
        read_attributes(file)
    file.write_text("query_id,kind\n1,a\n")
    with pytest.raises(DataError, match=naming("116 test queries", "kind", "query '2'")):
        slices(comparison, ["kind"], read_attributes(file))


def test_a_latex_table_has_a_row_a_model_and_nothing_unescaped(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    text = as_latex(comparison)
    body = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0]
    rows = [line.removesuffix(" \\\\").split(" & ") for line in body.strip().splitlines()]
    assert [row[0] for row in rows] == ["native", "xgboost", "random\\_"]
    columns = text.partition("{tabular}{")[2].partition("}")[0]
    assert {len(row) for row in rows} == {len(columns)}
    assert "fit" not in text


def test_latex_is_bold_where_a_row_is_claimed_better_than_every_other_and_in_no_other_metric(
    tmp_path: Path,
) -> None:
    undecided = as_latex(comparison_of(tmp_path / "all"))
    assert "textbf" not in undecided
    runs = [
        write(tmp_path / f"{model}{fold}", model, fold=fold, skill=skill)
        for model, skill in (("native", 2.0), ("random_", 0.0))
        for fold in FOLDS
    ]
    (comparison,) = compare(runs)
    text = as_latex(comparison)
    mean = comparison.row("native").metrics["ndcg@10"]
    assert text.count("textbf") == 1
    assert f"\\textbf{{{mean:.4f}}}" in text


def test_a_csv_table_holds_the_figures_in_full(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    rows = list(csv.DictReader(io.StringIO(as_csv([comparison]))))
    assert [row["model"] for row in rows] == ["native", "xgboost", "random_"]
    pair = comparison.rows[1].to_baseline
    assert pair is not None
    assert pair.interval is not None
    assert float(rows[1]["difference"]) == pair.statistics.difference
    assert float(rows[1]["difference_low"]) == pair.interval.low
    assert (rows[1]["claim"], rows[1]["scope"]) == (pair.claim, pair.scope) == ("undecided", "methods")
    assert rows[0]["difference"] == rows[0]["note"] == ""
    # In the baseline's row too, whose difference is empty, each figure stands under its own name.
    assert [(float(row["trees"]), float(row["fit_seconds"])) for row in rows] == [
        (row.trees, row.seconds["fit"]) for row in comparison.rows
    ]


def test_json_holds_each_pair_with_its_tests_and_is_valid_without_nan(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    found = {comparison.data: slices(comparison, ["num_relevant"])}
    record = json.loads(json.dumps(comparisons_as_json([comparison], found), allow_nan=False))
    assert (record["metric"], record["convention"], record["family"]) == ("ndcg@10", "default", "all 3 pairs")
    assert [(pair["a"], pair["b"]) for pair in record["pairs"]] == [
        ("native", "xgboost"),
        ("native", "random_"),
        ("xgboost", "random_"),
    ]
    pair = record["pairs"][1]
    low, high = pair["interval"]
    assert low < pair["difference"] < high
    assert set(pair["p_value"]) == {"randomisation", "t", "wilcoxon"}
    assert set(pair["p_adjusted"]["holm"]) == set(pair["p_value"])
    assert pair["wins"] + pair["ties"] + pair["losses"] == pair["num_queries"]
    assert record["slices"][0]["attribute"] == "num_relevant"


def test_flat_figures_are_those_of_the_rows(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    row = comparison.row("xgboost")
    assert row.to_baseline is not None
    found = figures_by_name([comparison])
    assert found["xgboost/ndcg@5"] == row.metrics["ndcg@5"]
    assert found["xgboost/ndcg@10 minus native"] == row.to_baseline.statistics.difference
    assert "native/ndcg@10 minus native" not in found


def test_ndcg_by_cutoff_is_the_evaluators_mean_over_folds_of_means_over_seeds(tmp_path: Path) -> None:
    # Fold 1 has two seeds, fold 2 one: it counts as much.
    runs = [write(tmp_path / f"{f}{s}", "native", fold=f, seed=s) for f, s in ((1, 0), (1, 1), (2, 0))]
    (comparison,) = compare(runs)
    names = [f"ndcg@{k}" for k in range(1, 7)]  # the longest query has six documents
    first, second, third = (
        np.array([*evaluate(own.judgments, own.scores, names).means.values()])
        for own in (run.scored("test") for run in runs)
    )
    expected = ((first + second) / 2 + third) / 2
    np.testing.assert_allclose(np.array(comparison.ndcg_by_cutoff["native"]), expected, rtol=1e-14)


def test_one_query_gives_nulls_with_the_reason(tmp_path: Path) -> None:
    runs = [write(tmp_path / model, model, counted=1) for model in ("native", "xgboost")]
    (pair,) = comparisons_as_json(compare(runs))["pairs"]
    assert (pair["interval"], pair["p_value"]["t"], pair["note"]) == (None, None, "one query only")


def test_over_fewer_than_five_data_sets_there_is_a_reason_instead_of_a_test(tmp_path: Path) -> None:
    def compared(count: int) -> list[Comparison]:
        return compare(
            [
                write(
                    tmp_path / f"{count}{model}{number}",
                    model,
                    name=f"set {number}",
                    fold=None,
                    skill=skill,
                    judged=judgments(number),
                )
                for number in range(count)
                for model, skill in (("native", 2.0), ("xgboost", 1.0), ("random_", 0.0))
            ]
        )

    assert across(compared(1)) is None
    few, enough = across(compared(4)), across(compared(5))
    assert few is not None
    assert enough is not None
    assert few.test is None
    assert mentions(few.reason, "4 data sets", "5")
    assert enough.test is not None
    assert enough.labels == ("native", "xgboost", "random_")
    assert enough.test.average_ranks == (1.0, 2.0, 3.0)


def test_a_pair_turned_round_is_the_pair_the_other_way(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    assert comparison.queries is not None
    forth, back = compare_pairs(comparison.queries.sample, [(0, 1), (1, 0)])
    assert forth.turned().turned() == forth
    assert (back.difference, back.wins, back.losses) == (
        forth.turned().difference,
        forth.turned().wins,
        forth.turned().losses,
    )
    assert forth.interval is not None
    assert back.interval is not None
    turned = forth.interval.turned()
    assert (back.interval.low, back.interval.high) == pytest.approx((turned.low, turned.high), abs=1e-12)


def test_the_table_says_what_these_queries_can_show_and_what_a_named_difference_takes(tmp_path: Path) -> None:
    text = render(comparison_of(tmp_path, Settings(baseline="native", detect=0.01)))
    assert mentions(text, "inimum detectable difference", "To detect 0.01", "±0.005")


def test_too_few_draws_are_told_with_the_remedy(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path, Settings(num_draws=10))
    assert mentions(about_draws(comparison), "10", "--draws 2000")
    assert about_draws(replace(comparison, settings=Settings())) == ""


def test_identical_rows_and_single_queries_have_a_verdict_of_their_own(tmp_path: Path) -> None:
    run = write(tmp_path / "a", "native")
    twin = Run(run.path, replace(run.result, model="twin"))
    assert "equivalent to twin" in verdict(compare([run, twin])[0])
    few = [write(tmp_path / f"few{model}", model, counted=1) for model in ("native", "xgboost")]
    assert mentions(verdict(compare(few)[0]), "Nothing is claimed", "one query only")


def test_settings_of_one_data_set_are_no_data_sets(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{model}{share}", model, fold=None, train=share, data_settings={"subset": share})
        for share in "12345"
        for model in ("native", "xgboost", "random_")
    ]
    found = across(compare(runs))
    assert found is not None
    assert found.test is None
    assert mentions(across_in_words(found), "data sets", "one data set")


class FullDisk:
    """Stands for the pictures, which are drawn when most files of a comparison are written."""

    def __call__(self, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("there_before", [False, True])
def test_what_cannot_be_written_whole_is_not_written_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there_before: bool
) -> None:
    runs = [write(tmp_path / "runs" / model, model) for model in ("native", "random")]
    folder = tmp_path / "comparison"
    if there_before:
        folder.mkdir()
        (folder / "mine.txt").write_text("mine")
    monkeypatch.setattr("ltrbench.compare.output.publish.draw_series", FullDisk())
    with pytest.raises(ResultError, match=naming(folder, "No space left", "--output")):
        publish(compare(runs), folder)
    left = [path.name for path in tmp_path.rglob("*") if "runs" not in path.parts]
    assert left == (["comparison", "mine.txt"] if there_before else [])


def test_files_of_a_comparison_replace_older_ones_and_leave_others(tmp_path: Path) -> None:
    runs = [write(tmp_path / "runs" / model, model) for model in ("native", "random")]
    folder = tmp_path / "comparison"
    folder.mkdir()
    for name in ("mine.txt", "table.md"):
        (folder / name).write_text("mine")
    publish(compare(runs), folder)
    assert (folder / "mine.txt").read_text() == "mine"
    assert (folder / "table.md").read_text().startswith("# comparison\n")
    assert not list(folder.glob(".*"))


def test_a_sweep_whose_comparison_cannot_be_written_prints_it_and_exits_with_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    folders = [tmp_path / model for model in ("native", "random")]
    for folder in folders:
        finished_run(folder, folder.name)
    monkeypatch.setattr("ltrbench.compare.output.publish.draw_series", FullDisk())
    session = Session(sweep=tmp_path)
    session.close("finished")
    session.report()
    printed = capsys.readouterr()
    assert "| native " in printed.out
    assert mentions(caplog.text, tmp_path / "comparison", "No space left")
    assert "Comparison:" not in printed.err
    assert not (tmp_path / "comparison").exists()
    assert session.exit_code == 2


def test_compare_prints_its_table_where_its_files_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for model in ("native", "random"):
        finished_run(tmp_path / "runs" / model, model)
    monkeypatch.setattr("ltrbench.compare.output.publish.draw_series", FullDisk())
    output = tmp_path / "output"
    assert main(["compare", str(tmp_path / "runs"), "--draws", "50", "--output", str(output)]) == 2
    printed = capsys.readouterr()
    assert "| native " in printed.out
    assert mentions(printed.err, output, "No space left")
    assert not output.exists()


def test_all_versions_are_published_where_runs_had_different_ones(tmp_path: Path) -> None:
    hashes = {"native": "sha256:bad5", "xgboost": "sha256:7abf"}
    runs = [
        write(tmp_path / model, model, versions={"python": "3", "rbpm": version})
        for model, version in hashes.items()
    ]
    publish(compare(runs), tmp_path / "out")
    environment = json.loads((tmp_path / "out/environment.json").read_text())
    assert environment["versions"] == {"python": "3", "rbpm": "sha256:7abf and sha256:bad5"}
    table = (tmp_path / "out/table.md").read_text()
    assert mentions(table, "rbpm", "sha256:7abf", "sha256:bad5")
