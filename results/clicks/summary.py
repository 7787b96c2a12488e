"""Summary of the study of corrections of clicks, from its table: python -m results.clicks.summary."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean

from ltrbench.rankers.base import DEBIASING, NO_DEBIASING
from ltrbench.tables import Table, columns_of

FOLDER = Path(__file__).parent
DATA = ("mq2008", "synthetic")
LOGS: Mapping[str, str] = {
    "poor": "poor and shuffle:0.1",
    "mixed": "poor and good",
    "good": "good and shuffle:0.1",
}
"""Quality of the logging rankers -> their names in `data.name` of the experiment."""
MODELS = ("native", "lightgbm", "xgboost", "catboost", "linear", "mlp")
METRIC = "ndcg@10"
_MARKS = {"better": " +", "worse": " -"}
_EXPLAINED = (
    "NDCG@10 by the true labels. +, -: significantly better or worse than `native debias=none` on these "
    "queries (97.5 % confidence over all rows of a log: there are two looks)."
)

Row = Mapping[str, str]
"""Column of table.csv -> cell."""
Rows = Mapping[tuple[str, str], Row]
"""Data set and label -> row."""


def main() -> None:
    with (FOLDER / "table.csv").open(encoding="utf-8") as file:
        listed = [*csv.DictReader(file)]
    rows = {(row["data"], row["model"]): row for row in listed}
    sentences = [_sentence(rows, quality) for quality in LOGS]
    text = "\n\n".join(["# clicks", *sentences, _table(rows), _EXPLAINED])
    (FOLDER / "summary.md").write_text(f"{text}\n", encoding="utf-8")


def _sentence(rows: Rows, quality: str) -> str:
    """Returns what each correction changes in logs of one quality."""
    parts = []
    for debias in DEBIASING:
        if debias == NO_DEBIASING:
            continue
        changes = [*_changes(rows, quality, debias)]
        extent = f"{min(changes):+.3f} to {max(changes):+.3f}"
        parts.append(f"`{debias}` by {fmean(changes):+.3f} ({extent})")
    return (
        f"**Logs of {quality} rankers.** Against the same backend without a correction, the mean NDCG@10 "
        f"changes with {', '.join(parts)}."
    )


def _changes(rows: Rows, quality: str, debias: str) -> Iterator[float]:
    """Yields the change of each backend on each data set."""
    for data, model in itertools.product(DATA, MODELS):
        name = _name(data, quality)
        row = _row(rows, name, model, debias)
        plain = _row(rows, name, model, NO_DEBIASING)
        if row is not None and plain is not None:
            yield float(row[METRIC]) - float(plain[METRIC])


def _table(rows: Rows) -> str:
    logs = [*itertools.product(DATA, LOGS)]
    names = [_name(data, quality) for data, quality in logs]
    headers = [f"{data}, {quality}" for data, quality in logs]
    cells = []
    for model, debias in itertools.product(MODELS, DEBIASING):
        of_logs = [_row(rows, name, model, debias) for name in names]
        values = [_cell(row) for row in of_logs if row is not None]
        if values:
            cells.append([f"{model} debias={debias}", *values])
    columns = columns_of({"model": None, **dict.fromkeys(headers, "")})
    return Table(columns, cells).markdown()


def _cell(row: Row) -> str:
    value = float(row[METRIC])
    mark = _MARKS.get(row["models"], "")
    return f"{value:.4f}{mark}"


def _name(data: str, quality: str) -> str:
    return f"{data}, log of {LOGS[quality]}"


def _row(rows: Rows, name: str, model: str, debias: str) -> Row | None:
    """Returns the row of a backend and a correction; a backend with a single row is named without it."""
    row = rows.get((name, f"{model} debias={debias}"))
    if row is None and debias == NO_DEBIASING:
        return rows.get((name, model))
    return row


if __name__ == "__main__":
    main()
