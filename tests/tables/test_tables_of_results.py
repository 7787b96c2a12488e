"""Tables in every format; runs, comparisons and data sets in a notebook."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

from claim_cases import only
from toy_runs import write

from ltrbench.data import RankingDataset
from ltrbench.runs.record import FAILED
from ltrbench.tables import STRONG, Table, TableCell, TableColumn

MARKUP = '<img src=x onerror="alert(1)">\n\u202e'


# repr


def test_untrusted_names_cannot_break_the_line_or_become_markup(tmp_path: Path) -> None:
    run = write(tmp_path / "run", MARKUP, name=MARKUP)
    other = write(tmp_path / "other", "other", name=MARKUP)
    failed = replace(run, result=replace(run.result, status=FAILED, error=MARKUP))
    named = RankingDataset(
        features=[[1]],  # type: ignore[arg-type]
        labels=[0],  # type: ignore[arg-type]
        query_start=[0, 1],  # type: ignore[arg-type]
        feature_names=(MARKUP,),
    )
    for item in (run, other, failed, only([run, other]), named):
        assert repr(item).isprintable()
    for run_or_comparison in (run, other, failed, only([run, other])):
        shown = run_or_comparison._repr_html_()
        assert "<img" not in shown
        assert "\u202e" not in shown
    assert "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;\\n" in run._repr_html_()


TABLE = Table(
    [TableColumn("model", left=True), TableColumn("ndcg@10", ".2f")],
    [
        [
            "=native",
            TableCell(0.12345, emphasis=STRONG, note="seen in the report only"),
        ],
        ["<b>", math.nan],
    ],
    "means",
)


def test_markdown_and_latex_have_numbers_in_the_format_of_their_column() -> None:
    assert TABLE.markdown().splitlines()[2:] == [
        "| =native |    0.12 |",
        "| &lt;b>  |       - |",
    ]
    assert (
        "=native & \\textbf{0.12} \\\\\n\\textless{}b> & - \\\\\n"
        in TABLE.latex().replace(r"\textgreater{}", ">")
    )
    assert TABLE.latex().startswith("\\begin{tabular}{lr}\n")


def test_csv_and_json_have_raw_values_and_nothing_where_there_is_none() -> None:
    assert list(csv.reader(TABLE.csv().splitlines())) == [
        ["model", "ndcg@10"],
        ["=native", "0.12345"],
        ["<b>", ""],
    ]
    assert TABLE.records() == [
        {"model": "=native", "ndcg@10": 0.12345},
        {"model": "<b>", "ndcg@10": None},
    ]


def test_html_escapes_names_and_lists_notes() -> None:
    assert TABLE.html(["a < b"]) == (
        "<table><caption>means</caption><thead><tr><th>model</th><th>ndcg@10</th></tr></thead>"
        "<tbody><tr><td>=native</td><td>0.12</td></tr><tr><td>&lt;b&gt;</td><td>-</td></tr></tbody></table>"
        "<ul><li>a &lt; b</li></ul>"
    )


def test_a_column_of_numbers_accepts_text_and_a_cell_may_have_its_own_text() -> None:
    table = Table.of(
        ["model", "wins"],
        [["native", "baseline"], ["random", TableCell(-3, "1/0/4")]],
        "+d",
    )
    assert [row[1].text for row in table.cells()] == ["baseline", "1/0/4"]
    assert [record["wins"] for record in table.records()] == ["baseline", -3]
