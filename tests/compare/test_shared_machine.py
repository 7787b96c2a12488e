"""Times of runs that shared the machine with another job are in no column, figure or recommendation."""

from __future__ import annotations

import csv
import importlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from claim_cases import only, runs_of
from toy_runs import mentions, write

from docs import leaderboard
from ltrbench.compare import Comparison, render
from ltrbench.compare.analysis.recommendation import recommend
from ltrbench.compare.notes import ON_COSTS, Note
from ltrbench.compare.output.publish import publish
from ltrbench.compare.output.record import comparisons_as_json
from ltrbench.compare.output.report import write_report
from ltrbench.compare.output.report.parts import Figures
from ltrbench.compare.output.report.sections.runs.costs import costs_section
from ltrbench.compare.output.report.shown import Shown
from ltrbench.compare.output.tables import as_csv, as_frame, as_html
from ltrbench.plots.costs import fit_seconds
from ltrbench.plots.drawing.series import Series
from ltrbench.results import Run
from ltrbench.tables import Table

TIMES = {"fit": 71.25, "monitor": 72.25, "fit_clean": 73.25, "predict": 74.25, "load": 75.25}
"""Times that another job has disturbed."""


def alone(folder: Path, seconds: float = 2.0, model: str = "native", **fields: Any) -> list[Run]:
    times = dict.fromkeys(TIMES, seconds)
    return runs_of(folder, model, (1, 2, 3), skill=2.0, seconds=times, **fields)


def shared(folder: Path, model: str, seeds: tuple[int, ...] = (1, 2, 3), **fields: Any) -> list[Run]:
    return runs_of(folder, model, seeds, skill=2.0, seconds=TIMES, shared_machine=True, **fields)


@pytest.fixture
def all_shared(tmp_path: Path) -> Comparison:
    """native ran alone; every run of xgboost shared the machine."""
    return only([*alone(tmp_path), *shared(tmp_path, "xgboost", sweep="s")])


def disturbed(text: str) -> list[str]:
    """The disturbed times that a text shows."""
    return [shown for shown in (f"{time:.2f}" for time in TIMES.values()) if shown in text]


def notes_on_sharing(comparison: Comparison) -> list[Note]:
    return [note for note in comparison.note_entries if note.term == "shared machine"]


def test_a_mean_time_is_over_the_runs_that_ran_alone(tmp_path: Path) -> None:
    (last,) = shared(tmp_path, "native", (4,))
    comparison = only([*alone(tmp_path), last, *alone(tmp_path, model="xgboost")])
    row = comparison.row("native")
    assert len(row.runs) == 4
    assert row.seconds == dict.fromkeys(TIMES, 2.0)
    assert row.peak_memory_mb == last.result.peak_memory_mb
    assert fit_seconds(Series("native", "native", row.runs)) == 2.0
    assert mentions(notes_on_sharing(comparison)[0], "1 of 4 runs of native")


def test_a_row_without_a_run_that_ran_alone_has_no_times_but_its_memory(all_shared: Comparison) -> None:
    row = all_shared.row("xgboost")
    assert row.seconds == {}
    assert row.peak_memory_mb == 10.0
    assert fit_seconds(Series("xgboost", "xgboost", row.runs)) is None
    lines = render(all_shared).splitlines()
    (header,) = (line for line in lines if line.startswith("| model"))
    (cells,) = ([cell.strip() for cell in line.split("|")] for line in lines if line.startswith("| xgboost"))
    columns = [name.strip() for name in header.split("|")]
    times = [name for name in columns if name.endswith(" s")]
    assert times == ["fit s", "evaluation s", "clean fit s", "predict s"]
    assert [cells[columns.index(name)] for name in times] == ["-"] * 4
    assert cells[columns.index("memory MB")] == "10"


def test_the_note_counts_the_runs_and_names_the_remedy(all_shared: Comparison, tmp_path: Path) -> None:
    (note,) = notes_on_sharing(all_shared)
    assert note.group == ON_COSTS
    assert mentions(note, "3 of 3 runs of xgboost", "python -m ltrbench resume DIR --timing")
    assert "native" not in str(note)
    single = only([*alone(tmp_path / "1"), *shared(tmp_path / "1", "xgboost", (1,))])
    (note,) = notes_on_sharing(single)
    assert mentions(note, "1 of 1 run of xgboost", "Repeat")
    assert "resume" not in str(note)
    (note,) = notes_on_sharing(
        only([*shared(tmp_path / "2", "native", sweep="s"), *shared(tmp_path, "mart")])
    )
    assert mentions(note, "3 of 3 runs of native", "3 of 3 runs of mart", "--timing", "Repeat")


def test_runs_that_ran_alone_have_no_such_note(tmp_path: Path) -> None:
    comparison = only([*alone(tmp_path), *alone(tmp_path, model="xgboost")])
    assert not notes_on_sharing(comparison)
    assert "shared" not in render(comparison)


def test_no_output_shows_a_disturbed_time(all_shared: Comparison, tmp_path: Path) -> None:
    publish([all_shared], tmp_path / "out")
    for name in ("table.md", "table.csv", "table.tex", "glossary.md"):
        assert not disturbed((tmp_path / "out" / name).read_text()), name
    assert not disturbed(as_html(all_shared))
    assert "## shared machine" in (tmp_path / "out/glossary.md").read_text()


def test_csv_keeps_its_columns_of_times_with_empty_cells(all_shared: Comparison, tmp_path: Path) -> None:
    rows = {row["model"]: row for row in csv.DictReader(io.StringIO(as_csv([all_shared])))}
    assert {rows["xgboost"][f"{kind}_seconds"] for kind in TIMES} == {""}
    assert {float(rows["native"][f"{kind}_seconds"]) for kind in TIMES} == {2.0}
    nobody = only([*shared(tmp_path / "1", "native"), *shared(tmp_path / "1", "xgboost")])
    assert as_frame(nobody)[[f"{kind}_seconds" for kind in TIMES]].isna().all(axis=None)


def test_json_keeps_the_times_of_a_run_and_marks_it(all_shared: Comparison) -> None:
    record = json.loads(json.dumps(comparisons_as_json([all_shared]), allow_nan=False))
    marked = {(run["model"], run["shared_machine"], run["seconds"]["fit"]) for run in record["runs"]}
    assert marked == {("native", False, 2.0), ("xgboost", True, 71.25)}
    assert [row["seconds"] for row in record["rows"]] == [dict.fromkeys(TIMES, 2.0), {}]


def test_the_report_leaves_the_row_out_of_its_figures_of_time(all_shared: Comparison, tmp_path: Path) -> None:
    write_report([all_shared], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert not disturbed(page)
    assert 'href="#glossary-shared-machine"' in page
    section = costs_section(Shown(all_shared, "toy", []))
    assert section is not None
    assert "shared the machine" in section.lead
    (figures,) = (part for part in section.parts if isinstance(part, Figures))
    with_xgboost = {figure.caption: ">xgboost<" in figure.drawing for figure in figures.figures}
    assert with_xgboost == {
        "Against the fit time": False,
        "Against the predict time": False,
        "Against the memory during the fit": True,
    }
    (table,) = (part for part in section.parts if isinstance(part, Table))
    (cells,) = (row for row in table.cells() if row[0].text == "xgboost")
    assert [cell.text for cell in cells[2:6]] == ["-"] * 4


def test_no_model_is_called_cheapest_without_times_of_all(tmp_path: Path) -> None:
    rivals = {"native": alone(tmp_path, 1.0), "xgboost": alone(tmp_path, 3.0, "xgboost")}
    found = recommend(only([run for runs in rivals.values() for run in runs]))
    assert found is not None
    assert mentions(found.remarks, "Cheapest to fit: native", "1.00 s", "3.00 s")
    rivals["xgboost"] = shared(tmp_path / "all", "xgboost")
    found = recommend(only([run for runs in rivals.values() for run in runs]))
    assert found is not None
    assert len(found.models) == 2
    assert not mentions(found.remarks, "heapest")


def test_the_cheapest_is_found_by_the_runs_that_ran_alone(tmp_path: Path) -> None:
    runs = [*alone(tmp_path, 1.0), *alone(tmp_path, 3.0, "xgboost"), *shared(tmp_path, "native", (4,))]
    found = recommend(only([*runs, *shared(tmp_path, "xgboost", (4,), threads=1)]))
    assert found is not None
    assert mentions(found.remarks, "Cheapest to fit: native", "1.00 s", "3.00 s")


def test_the_picture_of_time_has_only_rows_with_times(all_shared: Comparison, tmp_path: Path) -> None:
    plots = importlib.import_module("ltrbench.plots")
    series = [Series(row.label, row.label, row.runs, 0.5) for row in all_shared.rows]
    figure = plots.figures_of(series, "ndcg@10")["time_against_ndcg.png"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["native"]
    disturbed_only = [item for item in series if item.label == "xgboost"]
    assert plots.figures_of(disturbed_only, "ndcg@10")["time_against_ndcg.png"] is None


def test_the_leaderboard_of_the_readme_shows_a_dash_without_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [
        write(tmp_path / "a", "native", skill=3.0, seconds={"fit": 2.0}),
        write(tmp_path / "b", "xgboost", seconds={"fit": 71.25}, shared_machine=True),
    ]
    publish([only(runs)], tmp_path / "results/mq2007")
    monkeypatch.setattr(leaderboard, "ROOT", tmp_path)
    monkeypatch.setattr(leaderboard, "STUDIES", ("mq2007",))
    rows = [line.split("|") for line in leaderboard.leaderboard().splitlines() if line.startswith("|")]
    assert {cells[1].strip(): cells[-2].strip() for cells in rows[2:]} == {"native": "2.00", "xgboost": "-"}
