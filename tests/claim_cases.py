"""Runs of models whose training was repeated, and what a comparison claims of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from toy_runs import write

from ltrbench.compare import Comparison, NotebookComparison, Settings, compare
from ltrbench.compare.claims import Pair
from ltrbench.metrics import evaluate
from ltrbench.runs import Run

SEEDS = (1, 2, 3, 4)
QUERIES = 150
"""Counted ones: enough for bootstrap intervals."""


def runs_of(
    folder: Path, model: str, seeds: tuple[int, ...] = SEEDS, **fields: Any
) -> list[Run]:
    """Trainings of one model on one split, which differ in their seed."""
    fields = {"fold": None, "counted": QUERIES, **fields}
    return [
        write(folder / f"{model}{seed}", model, seed=seed, **fields) for seed in seeds
    ]


def deterministic(
    folder: Path, model: str, seeds: tuple[int, ...] = SEEDS, **fields: Any
) -> list[Run]:
    """Runs under several seeds with the same scores."""
    (first,) = runs_of(folder, model, seeds[:1], **fields)
    held = {"test": first.scored("test")}
    return [
        Run(folder / f"{model}{seed}", replace(first.result, seed=seed), held=held)
        for seed in seeds
    ]


def resampled(
    folder: Path,
    model: str,
    numbers: tuple[int, ...],
    kind: str = "bootstrap",
    train: str = "all",
    skill: float = 1.0,
) -> list[Run]:
    runs = []
    for number in numbers:
        (run,) = runs_of(
            folder / str(number),
            model,
            (number,),
            train=f"resample {number}",
            skill=skill,
        )
        resample = {"kind": kind, "share": 0.5, "number": 5, "index": number, "seed": 0}
        data = {
            **run.result.data,
            "resample": {**resample, "train": train, "queries": 90},
        }
        runs.append(
            Run(
                run.path,
                replace(run.result, data=data),
                held={"test": run.scored("test")},
            )
        )
    return runs


def only(runs: list[Run], settings: Settings | None = None) -> NotebookComparison:
    (comparison,) = compare(runs, settings=settings)
    return comparison


def pair_of(comparison: Comparison) -> Pair:
    (pair,) = comparison.pairs
    return pair


def values_of(runs: list[Run]) -> np.ndarray[Any, Any]:
    """(R, Q), NDCG@10 of the queries that count."""
    scored = [run.scored("test") for run in runs]
    values = [
        evaluate(item.judgments, item.scores, ["ndcg@10"]).per_query["ndcg@10"]
        for item in scored
    ]
    return np.stack([of_run[~np.isnan(of_run)] for of_run in values])


def folds(folder: Path, model: str, seeds: tuple[int, ...], **fields: Any) -> list[Run]:
    return [
        write(folder / f"{model}{fold}{seed}", model, fold=fold, seed=seed, **fields)
        for fold in (1, 2, 3, 4, 5)
        for seed in seeds
    ]
