"""Toy runs whose settings a search chose, with their trials."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from toy_runs import write

from ltrbench.runs import Run
from ltrbench.runs.record import COMPLETE, TRIAL_COLUMNS, TRIALS_FILE, UNSUCCESSFUL, TrialRow

METRIC = "ndcg@10"
DEFAULT = {"num_leaves": 31, "learning_rate": 0.1}
SPACE = {"num_leaves": "4 to 64", "learning_rate": "0.01 to 0.5 (log)"}


def trials(
    values: Sequence[float], seed: int = 0, alike: float = 0.01, iterations: Sequence[int] | None = None
) -> list[TrialRow]:
    """Trials with these values, the first with the default settings; NaN is a failed trial.

    A trial cannot be told apart from the best one if its value is less than `alike` lower.
    """
    rng = np.random.default_rng(seed)
    best = float(np.nanmax(values))
    rows = []
    for number, value in enumerate(values):
        drawn = {
            "num_leaves": int(rng.integers(4, 64)),
            "learning_rate": float(np.exp(rng.uniform(-4.6, -0.7))),
        }
        settings = {name: str(setting) for name, setting in (drawn if number else DEFAULT).items()}
        difference = value - best
        half = alike if difference else 0.0
        rows.append(
            TrialRow(
                trial=number,
                state=UNSUCCESSFUL if np.isnan(value) else COMPLETE,
                value=value,
                iterations=100 - 5 * number if iterations is None else iterations[number],
                seconds=1.0 + number,
                low=difference - half,
                high=difference + half,
                settings=settings,
            )
        )
    return rows


def searched(folder: Path, model: str, rows: Sequence[TrialRow], **fields: Any) -> Run:
    """Writes a run that a search with these trials chose the settings of.

    Args:
        fields: fields of the `search` record, of RunResult, and arguments of `toy_runs.write`.
    """
    chosen = max((row for row in rows if row.state == COMPLETE), key=lambda row: (row.value, -row.trial))
    record = {
        "name": "random",
        "seed": 0,
        "metric": METRIC,
        "choose": "per_fold",
        "budget": {"trials": len(rows)},
        "space": SPACE,
        "trials": len(rows),
        "iterations": sum(row.iterations for row in rows),
        "seconds": sum(row.seconds for row in rows),
        "chosen": chosen.trial,
        "settings": dict(chosen.settings),
        "default": DEFAULT,
        "importance": {"num_leaves": 0.25, "learning_rate": 0.75},
        **fields.pop("search", {}),
    }
    run = write(folder, model, search=record, **fields)
    with (folder / TRIALS_FILE).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*TRIAL_COLUMNS, *SPACE])
        for row in rows:
            values = asdict(row)
            writer.writerow([*(_cell(values[name]) for name in TRIAL_COLUMNS), *row.settings.values()])
    return run


def _cell(value: object) -> object:
    return "" if isinstance(value, float) and np.isnan(value) else value
