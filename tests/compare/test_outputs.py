# mypy: strict-optional=False
"""Outputs of a comparison: slices, CSV, files, published values, times, glossary, and reproduction."""

from __future__ import annotations

import csv
import errno
import io
import itertools
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claim_cases import only, runs_of
from messages import naming
from run_cases import finished_run
from toy_runs import NUM_QUERIES, judgments, mentions, write

from ltrbench.compare import (
    Comparison,
    Settings,
    compare,
    read_attributes,
    render,
    slices,
)
from ltrbench.compare.claim_sections import data_sets_chapters, leaderboard_section
from ltrbench.compare.derived import Fusing, fuse
from ltrbench.compare.groups import values_of_attribute
from ltrbench.compare.leaderboard import as_frame, comparisons_as_json, in_full
from ltrbench.compare.publish import (
    ENVIRONMENT_FILE,
    TOLERANCE,
    TOLERANCE_NOT_REPEATABLE,
    is_published,
    publish,
    reproduce,
    settings_to_rerun,
)
from ltrbench.compare.remarks import notes_of
from ltrbench.compare.report import chapters_of, terms_of, text_over_data_sets
from ltrbench.compare.slicing import across
from ltrbench.compare.views import Code, Figures, Shown
from ltrbench.errors import ResultError
from ltrbench.metrics import DEFAULT, PRESETS, with_settings
from ltrbench.rankers.importance import GAIN, Importances
from ltrbench.runs import Run
from ltrbench.tables import Table, anchor
from ltrbench.untrusted import in_markdown

FOLDS = (1, 2, 3, 4)


def comparison_of(
    folder: Path, settings: Settings | None = None, **fields: Any
) -> Comparison:
    """Three models over four folds; native ranks well, xgboost a little worse, random_ by lot."""
    runs = [
        write(folder / f"{model}{fold}", model, fold=fold, skill=skill, **fields)
        for model, skill in (("native", 2.0), ("xgboost", 1.8), ("random_", 0.0))
        for fold in FOLDS
    ]
    return only(runs, settings)


def test_slices_of_an_attribute_share_out_the_queries_and_their_means_average_to_the_whole(
    tmp_path: Path,
) -> None:
    comparison = comparison_of(tmp_path)
    for name in ("query_size", "num_relevant", "label_entropy"):
        sliced = slices(comparison, [name])
        assert sum(item.num_queries for item in sliced) == len(FOLDS) * (
            NUM_QUERIES - 1
        )
        means = [[row.mean for row in item.rows] for item in sliced]
        # Every fold has as many queries here, so that the mean of folds is that of queries.
        whole = np.average(means, axis=0, weights=[item.num_queries for item in sliced])
        assert whole == pytest.approx(comparison.queries.sample.means)


def test_queries_are_sliced_by_a_column_of_the_users_own(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    file = tmp_path / "kinds.csv"
    rows = [
        f"{query},{'long' if query % 2 else 'short'}"
        for query in range(1, NUM_QUERIES + 1)
    ]
    file.write_text("\n".join(["query_id,kind", *rows]))
    sliced = slices(comparison, ["kind"], read_attributes(file))
    assert [item.name for item in sliced] == ["long", "short"]
    # Numbers with an empty cell are ranges of numbers, and a slice of those without one.
    numbers = ["", *map(str, range(2, NUM_QUERIES + 1))]
    rows = [f"{query},{number}" for query, number in enumerate(numbers, start=1)]
    file.write_text("\n".join(["query_id,price", *rows, "31,"]))
    values = values_of_attribute(
        comparison.queries, "price", DEFAULT, read_attributes(file)
    )
    assert values.dtype.kind == "f"
    base = sliced[0].rows[0]
    assert (base.difference, base.interval) == (None, None)
    assert sliced[0].rows[1].difference == pytest.approx(
        sliced[0].rows[1].mean - base.mean
    )


def test_csv_frame_json_text_and_report_show_the_same_values(tmp_path: Path) -> None:
    """Every output of the leaderboard, against the comparison itself."""
    comparison = comparison_of(tmp_path)
    in_csv = list(csv.DictReader(io.StringIO(in_full([comparison]).csv())))
    in_json = json.loads(
        json.dumps(comparisons_as_json([comparison]), allow_nan=False)
    )["rows"]
    in_frame = as_frame(comparison).to_dict("records")
    text = render(comparison).splitlines()
    table, picture = leaderboard_section(Shown(comparison)).parts
    assert isinstance(table, Table)
    assert isinstance(picture, Figures)
    in_picture = [
        tuple(np.asarray(line.get_xdata()))
        for line in picture.figures[0].drawing.axes[0].lines
    ]
    in_report = {
        cells[0].text: [cell.text for cell in cells] for cells in table.cells()
    }
    for row, of_csv, of_json, of_frame in zip(
        comparison.rows, in_csv, in_json, in_frame, strict=True
    ):
        label = in_markdown(row.label, cell=True)
        line = next(line for line in text if line.startswith(f"| {label} "))
        cells = in_report[row.label]
        assert of_csv["model"] == of_json["label"] == of_frame["model"] == row.label
        assert float(of_csv["ndcg@10"]) == of_frame["ndcg@10"] == row.metrics["ndcg@10"]
        assert float(of_csv["trees"]) == of_json["trees"] == row.trees
        assert (
            float(of_csv["fit_seconds"])
            == of_json["seconds"]["fit"]
            == row.seconds["fit"]
        )
        assert f"{row.metrics['ndcg@10']:.4f}" in line
        assert f"{row.metrics['ndcg@10']:.4f}" in cells
        pair = comparison.claim(row.label)
        if pair is None:
            assert (of_csv["difference"], of_json["difference"]) == ("", None)
            continue
        claim = pair.models
        ends = [claim.interval.low, claim.interval.high]
        assert [float(of_csv[f"models_{end}"]) for end in ("low", "high")] == ends
        assert of_json["difference_interval"] == ends
        assert of_frame["p_holm"] == pair.p_adjusted["holm"]["randomisation"]
        for kind in ("models", "methods"):
            state = getattr(pair, kind).state
            assert of_csv[kind] == of_json[kind] == of_frame[kind] == state
        assert tuple(ends) in in_picture
        assert (claim.difference,) in in_picture
        assert mentions(
            line, f"{claim.difference:+.3f}", f"{ends[0]:+.3f}", f"| {claim.state} "
        )
        wins, losses = pair.statistics.wins, pair.statistics.losses
        counts = f"{wins}/{pair.statistics.ties}/{losses}"
        assert {f"{claim.difference:+.3f}", claim.state, counts} <= {*cells}
        assert counts in line


def test_over_fewer_than_five_data_sets_there_is_a_reason_instead_of_a_test(
    tmp_path: Path,
) -> None:
    def compared(count: int) -> Sequence[Comparison]:
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
                for model, skill in (
                    ("native", 2.0),
                    ("xgboost", 1.0),
                    ("random_", 0.0),
                )
            ]
        )

    assert across(compared(1)) is None
    few, enough = across(compared(4)), across(compared(5))
    assert few.test is None
    assert mentions(few.reason, "4 data sets", "5")
    assert enough.labels == ("native", "xgboost", "random_")
    assert enough.test.average_ranks == (1.0, 2.0, 3.0)


def test_tests_over_data_sets_leave_out_a_row_that_lacks_a_fold_of_one_of_them(
    tmp_path: Path,
) -> None:
    # The third fold, on which ranking is hard, is missing for one model on one data set.
    runs = []
    for number in range(5):
        for model, skill in (("native", 2.0), ("xgboost", 1.0), ("lacking", 1.0)):
            for fold in (1, 2, 3):
                if (model, fold, number) == ("lacking", 3, 4):
                    continue
                run = write(
                    tmp_path / f"{number}{model}{fold}",
                    model,
                    name=f"set {number}",
                    fold=fold,
                    skill=skill if fold < 3 else skill / 10,
                    judged=judgments(100 * number + fold),
                )
                runs.append(run)
    comparisons = compare(runs, settings=Settings(num_draws=200))
    over = across(comparisons)
    assert over.labels == ("native", "xgboost")
    assert over.left_out == ("lacking",)
    assert over.test.average_ranks == (1.0, 2.0)
    assert mentions(text_over_data_sets(comparisons, None), "Without lacking")


def over_data_sets(
    folder: Path, settings_of_data: Sequence[Sequence[dict[str, Any]]]
) -> list[Comparison]:
    """Returns comparisons of runs of one model, a data set for each list of settings."""
    runs = []
    for number, rows in enumerate(settings_of_data):
        for row, settings in enumerate(rows):
            run = write(
                folder / f"{number}-{row}",
                "native",
                name=f"set {number}",
                fold=None,
                settings=settings,
                judged=judgments(number),
            )
            runs.append(run)
    return list(compare(runs, settings=Settings(num_draws=200)))


def test_rows_are_matched_over_data_sets_by_their_settings(tmp_path: Path) -> None:
    small, large = {"num_leaves": 8}, {"num_leaves": 31}
    over = across(over_data_sets(tmp_path / "a", [[small, large], [large]]))
    assert over.labels == ("native num_leaves=31",)
    assert over.left_out == ("native num_leaves=8",)
    assert over.differing == {}
    comparisons = over_data_sets(tmp_path / "b", [[small, large], [{"num_leaves": 4}]])
    nothing = across(comparisons)
    assert (nothing.labels, len(nothing.left_out)) == ((), 3)
    sections = itertools.chain.from_iterable(
        chapter.sections for chapter in data_sets_chapters(comparisons)
    )
    parts = itertools.chain.from_iterable(section.parts for section in sections)
    assert not [part for part in parts if isinstance(part, Table)]


def test_settings_that_differ_between_data_sets_are_named(tmp_path: Path) -> None:
    rates = (0.1, 0.2, 0.3)
    comparisons = over_data_sets(
        tmp_path, [[{"learning_rate": rate, "num_leaves": 8}] for rate in rates]
    )
    over = across(comparisons)
    assert over.labels == ("native",)
    assert over.differing == {
        "native": {
            f"set {number}": f"native learning_rate={rate}"
            for number, rate in enumerate(rates)
        }
    }
    text = text_over_data_sets(comparisons, None)
    assert mentions(text, "native learning_rate=0.2 on set 1")


def test_data_sets_with_similar_names_have_folders_of_their_own(tmp_path: Path) -> None:
    names = ("shop A/B", "shop A?B", f"{'long ' * 20}1", f"{'long ' * 20}2")
    runs = []
    for number, name in enumerate(names):
        for model, skill in (("native", 2.0), ("xgboost", 1.0)):
            folder = tmp_path / f"{number}{model}"
            fields: dict[str, Any] = {"name": name, "skill": skill}
            judged = judgments(number)
            runs.append(write(folder, model, fold=None, judged=judged, **fields))
    publish(compare(runs, settings=Settings(num_draws=200)), tmp_path / "out")
    pictures = list((tmp_path / "out").glob("*/differences.png"))
    assert len(pictures) == len(names)


NDCG = 0.6896


def test_results_in_other_settings_are_reproduced_and_made_scores_are_named(
    tmp_path: Path,
) -> None:
    convention = with_settings(PRESETS["ranklib"], {"ties": "worst"})
    settings = Settings(metric="map", convention=convention)
    runs = []
    for model in ("native", "xgboost"):
        overrides = [f"model={model}"]
        runs.append(write(tmp_path / "runs" / model, model, overrides=overrides))
    fused = fuse(runs, Fusing(("rrf",)))
    publish(compare([*runs, *fused], settings=settings), tmp_path / "committed")
    again = settings_to_rerun(tmp_path / "committed")
    assert (again.metric, again.convention) == (settings.metric, convention)
    publish(compare(runs, settings=again), tmp_path / "rerun")
    reproduction = reproduce(tmp_path / "committed", tmp_path / "rerun")
    assert reproduction.differences == ()
    assert mentions(reproduction.not_compared, "per_query.csv", "rrf")
    # Other values of queries are no reproduction.
    changed = tmp_path / "rerun" / "per_query.csv"
    first, _, last = changed.read_text().rstrip().rpartition(",")
    changed.write_text(f"{first},{float(last) + 0.5}\n")
    (difference,) = reproduce(tmp_path / "committed", tmp_path / "rerun").differences
    assert mentions(difference, "per_query.csv")


def results(
    folder: Path, value: float | None = NDCG, per_query: str = "0.5", **changes: Any
) -> Path:
    folder.mkdir()
    environment = {
        "machine": {"cpu": "a processor", "cores": 2},
        "versions": {"numpy": "2"},
        "runs": [
            {
                "command": "python -m ltrbench model=native",
                "metrics": {"test/ndcg@10": value},
            }
        ],
    }
    (folder / "environment.json").write_text(json.dumps({**environment, **changes}))
    (folder / "per_query.csv").write_text(f"query_id,native\n1,{per_query}\n")
    return folder


CPU = {"machine": {"cpu": "another", "cores": 2}}


@pytest.mark.parametrize(
    ("changes", "differences", "reason"),
    [
        (
            {"value": NDCG + 1e-12},
            ("model=native", "test/ndcg@10", NDCG, NDCG + 1e-12),
            (),
        ),
        ({"per_query": "0.6"}, ("per_query.csv",), ()),
        ({"value": None}, ("test/ndcg@10", NDCG), ()),
        ({"runs": []}, ("model=native", "only"), ()),
        (
            {"value": NDCG + 0.9 * TOLERANCE, "per_query": "0.6", **CPU},
            (),
            ("cpu", "a processor", "another"),
        ),
        ({"value": NDCG + 1.1 * TOLERANCE, **CPU}, ("test/ndcg@10",), ("cpu",)),
        ({"versions": {"numpy": "3"}}, (), ("numpy", 2, 3)),
    ],
)
def test_a_rerun_is_identical_on_the_same_machine_and_close_on_others(
    tmp_path: Path,
    changes: Any,
    differences: tuple[object, ...],
    reason: tuple[object, ...],
) -> None:
    reproduction = reproduce(
        results(tmp_path / "committed"), results(tmp_path / "rerun", **changes)
    )
    assert reproduction.exact == (not reason)
    assert mentions(reproduction.reason, *reason)
    assert len(reproduction.differences) == bool(differences)
    assert mentions(" ".join(reproduction.differences), *differences)


def test_a_run_that_is_not_repeatable_may_differ_on_the_same_machine(
    tmp_path: Path,
) -> None:
    loose = {
        "command": "python -m ltrbench model=xgboost distributed=dask",
        "deterministic": False,
    }
    exact = {"command": "python -m ltrbench model=native distributed=dask"}

    def written(name: str, of_loose: float, of_exact: float) -> Path:
        runs = [
            {**loose, "metrics": {"map": of_loose}},
            {**exact, "metrics": {"map": of_exact}},
        ]
        return results(tmp_path / name, per_query=name, runs=runs)

    committed = written("committed", 0.5, 0.6)
    near = reproduce(
        committed, written("near", 0.5 + 0.9 * TOLERANCE_NOT_REPEATABLE, 0.6)
    )
    assert (near.exact, near.differences, near.num_not_repeatable) == (True, (), 1)
    (far,) = reproduce(
        committed, written("far", 0.5 + 1.1 * TOLERANCE_NOT_REPEATABLE, 0.6)
    ).differences
    assert mentions(far, "model=xgboost", "map", 0.5)
    (other,) = reproduce(committed, written("other", 0.5, 0.6 + 1e-12)).differences
    assert mentions(other, "model=native", "map", 0.6)


def test_a_reproduction_compares_every_run_or_names_those_without_a_command(
    tmp_path: Path,
) -> None:
    def written(name: str, *runs: tuple[str | None, float]) -> Path:
        records = [{"command": command, "metrics": {"map": x}} for command, x in runs]
        return results(tmp_path / name, runs=records, machine=CPU["machine"])

    python = (None, 0.5)
    committed = written("python", python, python)
    with pytest.raises(
        ResultError, match=naming("python", "2 of 2 runs", "numbers 1 and 2")
    ):
        reproduce(committed, written("again", (None, 0.1), (None, 0.1)))
    with pytest.raises(ResultError, match=naming("empty", "no run has")):
        reproduce(written("empty"), written("none"))

    ensemble = "python -m ltrbench ensemble runs"
    (difference,) = reproduce(
        written("folds", (ensemble, 0.1), (ensemble, 0.6)),
        written("again_folds", (ensemble, 0.5), (ensemble, 0.6)),
    ).differences
    assert mentions(difference, ensemble, 0.1, 0.5)

    mixed = reproduce(
        written("mixed", (ensemble, 0.5), python), written("one", (ensemble, 0.5))
    )
    (sentence,) = mixed.not_compared
    assert (mixed.num_values, mixed.differences) == (1, ())
    assert mentions(sentence, "committed", "1 of 2 runs", ENVIRONMENT_FILE)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("runs")
    sentences = ("It cannot bound leaves.", "It has other bins.")
    return only(
        [
            *runs_of(folder, "native", (1,), skill=3.0),
            *runs_of(
                folder,
                "xgboost",
                (1,),
                unmatched=sentences,
                seconds={"fit": 1.0, "fit_clean": 0.5},
            ),
        ]
    )


@pytest.fixture(scope="module")
def folder(comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "out"
    publish([comparison], folder)
    return folder


def test_a_table_in_markdown_links_each_note_and_column_to_the_extract_beside_it(
    comparison: Comparison, folder: Path
) -> None:
    linked = set(
        re.findall(r"\]\(glossary\.md#([\w-]+)\)", (folder / "table.md").read_text())
    )
    headings = re.findall(
        r"^## (.+)$", (folder / "glossary.md").read_text(), re.MULTILINE
    )
    assert linked == {anchor(term) for term in headings}
    assert set(headings) == set(terms_of(comparison))


def test_values_by_query_have_a_column_for_each_model(
    comparison: Comparison, folder: Path
) -> None:
    header, skipped, first, *_ = csv.reader(
        (folder / "per_query.csv").read_text().splitlines()
    )
    assert header == ["data", "fold", "query_id", "native ndcg@10", "xgboost ndcg@10"]
    assert skipped[2:] == ["1", "", ""]
    values = [
        row.evaluated[0].evaluation.per_query["ndcg@10"][1] for row in comparison.rows
    ]
    assert first[2:] == ["2", *(f"{value:.6f}" for value in values)]


def test_means_of_weighted_queries_follow_from_their_values_and_weights(
    tmp_path: Path,
) -> None:
    weights = np.arange(1.0, NUM_QUERIES + 1) / 3
    judged = replace(judgments(1), query_weights=weights)
    runs = [write(tmp_path / name, name, judged=judged) for name in ("a", "b")]
    comparison = only(runs)
    publish([comparison], tmp_path / "out")
    values = pd.read_csv(tmp_path / "out" / "per_query.csv").dropna()
    for row in comparison.rows:
        of_row = values[f"{row.label} ndcg@10"]
        mean = np.average(of_row, weights=values["weight"])
        assert mean == pytest.approx(row.metrics["ndcg@10"], abs=1e-6)


def test_a_comparison_does_not_replace_the_files_of_a_run(tmp_path: Path) -> None:
    run = finished_run(tmp_path, "native")
    with pytest.raises(ResultError, match=naming(run.path, "--output")):
        publish([], run.path)


def test_every_output_has_the_rows_in_one_order(tmp_path: Path) -> None:
    skills = {"worst": 0.0, "best": 3.0, "middle": 1.0}
    runs = [
        write(tmp_path / model, model, skill=skill, overrides=(f"model={model}",))
        for model, skill in skills.items()
    ]
    comparison = only(runs)
    publish([comparison], tmp_path / "out")
    texts = [(tmp_path / "out" / f"table.{end}").read_text() for end in ("md", "tex")]
    first_cells = [
        re.findall(r"^\|? ?(\w+) +[|&]", text, re.MULTILINE) for text in texts
    ]
    labels = [row["model"] for row in in_full([comparison]).records()]
    of_json = [row["label"] for row in comparisons_as_json([comparison])["rows"]]
    provenance = chapters_of([comparison])[-2]
    (commands,) = [
        view.text
        for section in provenance.sections
        for view in section.parts
        if isinstance(view, Code)
    ]
    of_commands = re.findall(r"model=(\w+)", commands)
    for cells in (*first_cells, labels, of_json, of_commands):
        assert [name for name in cells if name in skills] == ["best", "middle", "worst"]


def test_the_baseline_is_sorted_by_a_difference_of_0_which_no_file_has(
    tmp_path: Path,
) -> None:
    skills = {"low": 0.0, "high": 3.0}
    comparison = only(
        [write(tmp_path / m, m, skill=skill) for m, skill in skills.items()]
    )
    table = leaderboard_section(Shown(comparison)).parts[0]
    assert isinstance(table, Table)
    (column,) = [n for n, name in enumerate(table.header) if "difference" in name]
    keys = [row[column].known for row in table.cells()]
    assert keys == [0.0, pytest.approx(comparison.claim("low").shown_difference)]
    records = in_full([comparison]).records()
    assert records[0]["difference"] is None
    assert comparisons_as_json([comparison])["rows"][0]["difference"] is None


def test_every_machine_and_commit_of_the_runs_is_named(tmp_path: Path) -> None:
    here = {"cpu": "some", "cores": 2}
    there = {"cpu": "other", "cores": 8}
    runs = [
        write(tmp_path / "a", "native", machine=here, commit="abc"),
        write(tmp_path / "b", "xgboost", machine=there, commit="def"),
    ]
    publish([only(runs)], tmp_path / "out")
    text = (tmp_path / "out" / "table.md").read_text()
    made_by = text[text.rindex("Made by") :]
    assert mentions(made_by, "some (2 cores)", "other (8 cores)", "abc", "def")
    environment = json.loads((tmp_path / "out" / ENVIRONMENT_FILE).read_text())
    assert mentions(environment["machine"], "some", "other")
    machines_of_runs = [(run["machine"], run["commit"]) for run in environment["runs"]]
    assert machines_of_runs == [(here, "abc"), (there, "def")]


def test_files_of_an_earlier_comparison_do_not_stay(tmp_path: Path) -> None:
    shares = Importances(("a", "b"), {GAIN: np.array([0.9, 0.1])})
    fast = Settings(num_draws=20)

    def run(number: int, model: str, **fields: Any) -> Run:
        data = f"set {number}"
        folder = tmp_path / f"{number}{model}{len(fields)}"
        judged = judgments(number)
        return write(folder, model, name=data, fold=None, judged=judged, **fields)

    several = [
        run(number, model, importances=shares)
        for number in (1, 2)
        for model in ("native", "xgboost")
    ]
    fewer = [run(1, model) for model in ("native", "xgboost")]
    of_user = "mine.txt", "importances.txt", "set_1", "set_1/importances.csv"
    out = tmp_path / "out"
    publish(compare(several, settings=fast), out)
    for name in of_user:
        if name != "set_1":
            (out / name).write_text("")
    publish(compare(fewer, settings=fast), out)
    # A folder that no comparison was written to may have such a file of the user.
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    (fresh / "importances.csv").write_text("")
    publish(compare(fewer, settings=fast), fresh)
    in_out, in_fresh = (
        {str(path.relative_to(top)) for path in top.rglob("*")} for top in (out, fresh)
    )
    assert in_out == in_fresh - {"importances.csv"} | {*of_user}
    assert "importances.csv" in in_fresh


def test_a_comparison_is_published_until_its_runs_change_or_its_folder_cannot_be_written(
    comparison: Comparison,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(folder, tmp_path / "out")
    assert is_published([comparison], tmp_path / "out")
    assert not is_published(compare(comparison.rows[0].runs), tmp_path / "out")
    assert not is_published([comparison], tmp_path / "elsewhere")

    def full_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("ltrbench.compare.publish.chapters_of", full_disk)
    with pytest.raises(
        ResultError, match=naming(tmp_path / "out", "No space left", "--output")
    ):
        publish([comparison], tmp_path / "out")
    assert not is_published([comparison], tmp_path / "out")


TIMES = {
    "fit": 71.25,
    "monitor": 72.25,
    "fit_clean": 73.25,
    "predict": 74.25,
    "load": 75.25,
}
"""Times that another job has disturbed."""


def alone(
    folder: Path, seconds: float = 2.0, model: str = "native", **fields: Any
) -> list[Run]:
    times = dict.fromkeys(TIMES, seconds)
    return runs_of(folder, model, (1, 2, 3), skill=2.0, seconds=times, **fields)


def shared(
    folder: Path, model: str, seeds: tuple[int, ...] = (1, 2, 3), **fields: Any
) -> list[Run]:
    return runs_of(
        folder, model, seeds, skill=2.0, seconds=TIMES, shared_machine=True, **fields
    )


def test_a_mean_time_is_over_the_runs_that_ran_alone(tmp_path: Path) -> None:
    (last,) = shared(tmp_path, "native", (4,))
    comparison = only([*alone(tmp_path), last, *shared(tmp_path, "xgboost", sweep="s")])
    native, xgboost = comparison.rows
    assert len(native.runs) == 4
    assert (native.seconds, xgboost.seconds) == (dict.fromkeys(TIMES, 2.0), {})
    assert native.peak_memory_mb == xgboost.peak_memory_mb == 10.0
    notes = [
        str(note)
        for note in notes_of(comparison.remarks)
        if note.term == "shared machine"
    ]
    assert mentions(notes, "1 of 4 runs of native")
    record = json.loads(json.dumps(comparisons_as_json([comparison]), allow_nan=False))
    seconds = {row["label"]: row["seconds"] for row in record["rows"]}
    assert seconds == {"native": dict.fromkeys(TIMES, 2.0), "xgboost": {}}


def test_p_values_against_a_baseline_are_adjusted_over_fewer_pairs_than_over_all(
    tmp_path: Path,
) -> None:
    settings = (None, Settings(baseline="native"))
    of_all, of_two = (
        comparison_of(tmp_path / str(number), each)
        for number, each in enumerate(settings)
    )
    assert (len(of_all.family), len(of_two.family)) == (3, 2)
    all_pair, two_pair = (
        comparison.claim("random_") for comparison in (of_all, of_two)
    )
    p_value = all_pair.statistics.p_values["randomisation"]
    # Of three p-values Holm multiplies the least by three, and the next, its equal here, by two.
    assert all_pair.p_adjusted["holm"]["randomisation"] == pytest.approx(3 * p_value)
    assert two_pair.p_adjusted["holm"]["randomisation"] == pytest.approx(2 * p_value)
