"""A comparison as files: what a sweep leaves in its folder, and what `make results` puts into results/.

    table.md            the tables, the published figures beside them, and what made them
    per_query.csv       a row a query of test, a column a model: the comparison's metric; empty where skipped
    environment.json    commands, commit, versions, machine, and of each run its metrics and fingerprints
    *.png               the pictures; in a folder a data set where there are several

No document of the data is in them: neither features nor labels nor document ids.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

from ltrbench.compare.comparison import Comparison, by_cell, mean_over_seeds
from ltrbench.compare.tables import render
from ltrbench.plots import Drawn, draw
from ltrbench.results import Run


def publish(comparisons: Sequence[Comparison], folder: Path) -> None:
    """Writes all of them into a folder, making it where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = [item.run for comparison in comparisons for row in comparison.rows for item in row.judged]
    tables = "\n".join(f"## {render(comparison)}" for comparison in comparisons)
    (folder / "table.md").write_text(f"# {folder.resolve().name}\n\n{tables}\n{_made_by(runs)}")
    (folder / "environment.json").write_text(json.dumps(_environment(runs), indent=2) + "\n")
    _write_per_query(comparisons, folder / "per_query.csv")
    for comparison in comparisons:
        pictures = folder if len(comparisons) == 1 else folder / re.sub(r"[^\w.-]+", "_", comparison.data)
        pictures.mkdir(exist_ok=True)
        draw(_series(comparison), comparison.metric, pictures)


def _series(comparison: Comparison) -> list[Drawn]:
    return [
        Drawn(row.label, row.judged[0].run.result.model, tuple(item.run for item in row.judged))
        for row in comparison.rows
    ]


def _made_by(runs: Sequence[Run]) -> str:
    result = runs[0].result
    versions = ", ".join(f"{name} {version}" for name, version in _versions(runs).items())
    # Outside git there is none.
    commit = f"commit {result.commit}, " if result.commit else ""
    return (
        f"Made by {len(runs)} run{'s' * (len(runs) > 1)}, {commit}on {result.machine['cpu']} "
        f"({result.machine['cores']} cores): {versions}. Each run's command stands in environment.json.\n"
    )


def _environment(runs: Sequence[Run]) -> dict[str, object]:
    first = runs[0].result
    return {
        "commit": first.commit,
        "versions": _versions(runs),
        "machine": dict(first.machine),
        "threads": sorted({run.result.threads for run in runs}),
        "convention": dict(first.convention),
        "runs": [
            {
                "command": " ".join(["python -m ltrbench", *run.result.overrides]),
                "seed": run.result.seed,
                "metrics": dict(run.result.metrics),
                "fingerprints": {
                    split: run.result.data[split]["fingerprint"]
                    for split in ("train", "valid", "test")
                    if split in run.result.data
                },
            }
            for run in runs
        ],
    }


def _versions(runs: Sequence[Run]) -> dict[str, str]:
    return {name: version for run in runs for name, version in run.result.versions.items()}


def _write_per_query(comparisons: Sequence[Comparison], path: Path) -> None:
    """A query that a model was not judged on, or that is skipped, has an empty cell."""
    labels = list(dict.fromkeys(row.label for comparison in comparisons for row in comparison.rows))
    values: dict[tuple[str, int | None, str], dict[str, float]] = {}
    for comparison in comparisons:
        for row in comparison.rows:
            for (fold, *_), judged in by_cell(row.judged).items():
                means = mean_over_seeds(judged, comparison.metric).tolist()
                for query_id, value in zip(judged[0].query_ids.tolist(), means, strict=True):
                    values.setdefault((comparison.data, fold, query_id), {})[row.label] = value
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["data", "fold", "query_id", *(f"{label} {comparisons[0].metric}" for label in labels)]
        )
        for (data, fold, query_id), by_label in values.items():
            cells = [by_label.get(label, math.nan) for label in labels]
            texts = ["" if math.isnan(cell) else format(cell, ".6f") for cell in cells]
            writer.writerow([data, "" if fold is None else fold, query_id, *texts])
