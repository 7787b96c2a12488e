"""The leaderboard of ltrbench's own models, from the tables in results/."""

from __future__ import annotations

import csv
from pathlib import Path

from ltrbench.tables import Table, format_number

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ("mq2007", "mq2008", "clueweb09")
TUNED = "tuned"
METRIC = "ndcg@10"
_WIDEST = 1000  # columns, far more than the table has
Rows = dict[str, dict[str, str]]


def leaderboard() -> str:
    """Returns what the values and claims are, and a table with one row per model."""
    tables = {study: _rows(ROOT / "results" / study / "table.csv") for study in STUDIES}
    models = dict.fromkeys(model for rows in tables.values() for model in rows)
    timed = STUDIES[0]
    cells = [
        [
            model,
            *(_cell(rows[model]) if model in rows else "-" for rows in tables.values()),
            format_number(_number(tables[timed][model]["fit_seconds"]), ".2f"),
        ]
        for model in models
    ]
    header = [
        "model",
        *(f"[{study}](results.md#{study})" for study in STUDIES),
        f"fit s on {timed}",
    ]
    # With a width, links in cells stay links.
    return f"{_CAPTION}\n\n{Table.of(header, cells).markdown(_WIDEST)}\n"


def tuned() -> str:
    """Returns the means of tuned and untuned models: one row each, and one column per data set."""
    tables: dict[str, Rows] = {}
    for row in _records(ROOT / "results" / TUNED / "table.csv"):
        tables.setdefault(row["data"], {})[row["model"]] = row
    models = dict.fromkeys(model for rows in tables.values() for model in rows)
    cells = []
    for model in models:
        means = [
            f"{float(rows[model][METRIC]):.4f}" if model in rows else "-"
            for rows in tables.values()
        ]
        cells.append([model, *means])
    header = ["model", *(f"[{data}](results.md#{TUNED})" for data in tables)]
    lead = (
        f"Mean {METRIC} of models that were tuned with one search space and equal budgets, each fold by its "
        "own validation set, and untuned:"
    )
    return f"{lead}\n\n{Table.of(header, cells).markdown(_WIDEST)}\n"


def _rows(path: Path) -> Rows:
    return {row["model"]: row for row in _records(path)}


def _records(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _number(cell: str) -> float | None:
    """Returns the number of a cell; None for an empty cell, as for runs that shared the machine."""
    return float(cell) if cell else None


_CAPTION = (
    f"Mean {METRIC} on the test queries, and two claims against the model with the highest mean of the data "
    "set: about these trained models, and about the methods when they are trained again on other queries."
)


def _cell(row: dict[str, str]) -> str:
    mean = f"{float(row[METRIC]):.4f}"
    if not row["models"]:
        return f"{mean} highest"
    return f"{mean} {row['models']}, {row['methods'] or 'not known'}"
