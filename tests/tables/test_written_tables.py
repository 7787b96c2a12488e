"""The table: one object, with one writer per output format."""

from __future__ import annotations

import csv
import math

from ltrbench.tables import STRONG, Table, TableCell, TableColumn

TABLE = Table(
    [TableColumn("model", left=True), TableColumn("ndcg@10", ".2f")],
    [["=native", TableCell(0.12345, emphasis=STRONG, note="seen in the report only")], ["<b>", math.nan]],
    "means",
)


def test_markdown_and_latex_have_figures_in_the_format_of_their_column() -> None:
    assert TABLE.markdown().splitlines()[2:] == ["| =native |    0.12 |", "| &lt;b>  |       - |"]
    assert "=native & \\textbf{0.12} \\\\\n\\textless{}b> & - \\\\\n" in TABLE.latex().replace(
        r"\textgreater{}", ">"
    )
    assert TABLE.latex().startswith("\\begin{tabular}{lr}\n")


def test_csv_and_json_have_raw_values_and_nothing_where_there_is_none() -> None:
    assert list(csv.reader(TABLE.csv().splitlines())) == [
        ["model", "ndcg@10"],
        ["'=native", "0.12345"],
        ["<b>", ""],
    ]
    assert TABLE.records() == [{"model": "=native", "ndcg@10": 0.12345}, {"model": "<b>", "ndcg@10": None}]


def test_html_escapes_names_and_lists_notes() -> None:
    assert TABLE.html(["a < b"]) == (
        "<table><caption>means</caption><thead><tr><th>model</th><th>ndcg@10</th></tr></thead>"
        "<tbody><tr><td>=native</td><td>0.12</td></tr><tr><td>&lt;b&gt;</td><td>-</td></tr></tbody></table>"
        "<ul><li>a &lt; b</li></ul>"
    )


def test_a_column_of_numbers_accepts_text_and_a_cell_may_have_its_own_text() -> None:
    table = Table.of(["model", "wins"], [["native", "baseline"], ["random", TableCell(-3, "1/0/4")]], "+d")
    assert [row[1].text for row in table.cells()] == ["baseline", "1/0/4"]
    assert [record["wins"] for record in table.records()] == ["baseline", -3]
