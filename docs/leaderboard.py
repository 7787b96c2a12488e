"""The leaderboard of ltrbench's own models, from the tables in results/."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from ltrbench.tables import Table, format_number

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ("mq2007", "mq2008", "clueweb09")
TUNED = "tuned"
METRIC = "ndcg@10"
_WIDEST = 1000  # columns, far more than the table has
Rows = dict[str, dict[str, str]]
"""Model -> its row of table.csv."""


def leaderboard() -> str:
    """Returns what the values and claims are, and a table with one row per model."""
    tables = {study: _rows(study) for study in STUDIES}
    timed = STUDIES[0]
    rows = []
    for model in _models_of(tables):
        claims = [_cell(of_study.get(model)) for of_study in tables.values()]
        seconds = _number(tables[timed][model]["fit_seconds"])
        rows.append([model, *claims, format_number(seconds, ".2f")])
    links = [f"[{study}](results.md#{study})" for study in STUDIES]
    header = ["model", *links, f"fit s on {timed}"]
    # With a width, links in cells stay links.
    return f"{_CAPTION}\n\n{Table.of(header, rows).markdown(_WIDEST)}\n"


def tuned() -> str:
    """Returns the means of tuned and untuned models: one row each, and one column per data set."""
    tables: dict[str, Rows] = {}
    for row in _records(TUNED):
        tables.setdefault(row["data"], {})[row["model"]] = row
    rows = []
    for model in _models_of(tables):
        means = [_mean(of_data.get(model)) for of_data in tables.values()]
        rows.append([model, *means])
    links = [f"[{data}](results.md#{TUNED})" for data in tables]
    header = ["model", *links]
    lead = (
        f"Mean {METRIC} of models that were tuned with one search space and equal budgets, each fold by its "
        "own validation set, and untuned:"
    )
    return f"{lead}\n\n{Table.of(header, rows).markdown(_WIDEST)}\n"


def _models_of(tables: Mapping[str, Rows]) -> list[str]:
    """Returns the models of some tables, without repeats, in the order of their first table."""
    models: dict[str, None] = {}
    for rows in tables.values():
        models |= dict.fromkeys(rows)
    return list(models)


def _rows(study: str) -> Rows:
    return {row["model"]: row for row in _records(study)}


def _records(study: str) -> list[dict[str, str]]:
    path = ROOT / "results" / study / "table.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _number(cell: str) -> float | None:
    """Returns the number of a cell; None for an empty cell, as for runs that shared the machine."""
    return float(cell) if cell else None


_CAPTION = (
    f"Mean {METRIC} on the test queries, and two claims against the model with the highest mean of the data "
    "set: about these trained models, and about the methods when they are trained again on other queries."
)


def _mean(row: dict[str, str] | None) -> str:
    """Returns the mean of a row; None stands for a model that a study does not have."""
    return "-" if row is None else f"{float(row[METRIC]):.4f}"


def _cell(row: dict[str, str] | None) -> str:
    """Returns the mean and the claims of a row."""
    if row is None:
        return "-"
    if not row["models"]:
        return f"{_mean(row)} highest"
    return f"{_mean(row)} {row['models']}, {row['methods'] or 'not known'}"
