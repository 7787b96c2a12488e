"""The README's leaderboard, from the tables in results/: `python docs/leaderboard.py` writes it there."""

from __future__ import annotations

import csv
from pathlib import Path

from ltrbench.statistics import SCOPES
from ltrbench.tables import Table

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ("mq2007", "mq2008", "clueweb09")
METRIC = "ndcg@10"
_WIDEST = 1000  # columns, far more than the table has
BEGIN, END = "<!-- leaderboard: docs/leaderboard.py writes what follows -->\n", "<!-- leaderboard ends -->\n"


def leaderboard() -> str:
    """A row a model, a column a study: mean NDCG@10 on test, its 95 % interval, and the claim on the row."""
    tables = {study: _rows(ROOT / "results" / study / "table.csv") for study in STUDIES}
    models = dict.fromkeys(model for rows in tables.values() for model in rows)
    cells = [
        [model, *(_cell(rows[model]) if model in rows else "-" for rows in tables.values())]
        for model in models
    ]
    header = ["model", *(f"[{study}](results/{study}/table.md){_scope(tables[study])}" for study in STUDIES)]
    # With a width, links in cells stay links.
    return Table.of(header, cells).markdown(_WIDEST) + "\n"


def _rows(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return {row["model"]: row for row in csv.DictReader(file)}


def _scope(rows: dict[str, dict[str, str]]) -> str:
    """The scope of the claims of a study, and what the differences are to."""
    scopes = {SCOPES[row["scope"]] for row in rows.values() if row["scope"]}
    baseline = next(iter(rows.values()))["baseline"]
    return f": against {baseline}, {' or '.join(sorted(scopes))}"


def _cell(row: dict[str, str]) -> str:
    mean, low, high = (float(row[name]) for name in (METRIC, "low", "high"))
    return f"{mean:.4f} [{low:.4f}, {high:.4f}] {row['claim'] or 'baseline'}"


def in_readme(text: str) -> str:
    """The README with the leaderboard as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{leaderboard()}\n{END}{after}"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(in_readme(readme.read_text(encoding="utf-8")), encoding="utf-8")
