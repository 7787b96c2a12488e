"""Decisions with a guard: how often a model is shipped that should not be, and one that should be.

A query has one document for each training of a model, which the model ranks first. `value@1` of a column
then has the drawn value of that training: revenue, the primary metric, and quality, that of the guard. The
true differences to the model in use are therefore known. The decision is that of `compare --guard`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ltrbench.compare import Guard, Settings, compare
from ltrbench.compare.decision import SHIP, decide
from ltrbench.data import Judgments
from ltrbench.runs.record import FINISHED, Run, RunResult, ScoredSplit
from results.calibration.rates import RateRow, Tables, rates
from results.calibration.two_way import Simulation

DECISIONS = "Decisions with a guard: how often a model is shipped that is at the margin, or not better"
MARGIN = 0.02
SPREAD = {"query": 0.2, "residual": 0.1, "training": 0.005}
"""Standard deviations of quality: of queries, of a model on a query, and of trainings."""


@dataclass(frozen=True)
class Case:
    """Models that are compared with the one in use.

    Attributes:
        group: group of the guard; the quality of all other queries is higher by the margin.
    """

    models: int
    queries: int
    trainings: int = 1
    group: str = ""


CASES = (
    Case(1, 100),
    Case(1, 1000),
    Case(3, 200),
    Case(1, 1000, group="tail"),
    Case(1, 200, trainings=5),
)


def decision_tables(simulation: Simulation) -> Tables:
    rows: list[RateRow] = []
    for number, case in enumerate(CASES):
        draws = _draws(case, simulation.num_draws // 8, simulation.rng(12, number))
        row = {
            "models": case.models,
            "trainings": case.trainings,
            "queries": case.queries,
        }
        rows.append({"guard of": case.group or "all queries", **row, **rates(draws)})
    return {DECISIONS: rows}


def _draws(case: Case, num_draws: int, rng: Generator) -> Iterator[Mapping[str, bool]]:
    weights = 1.0 / np.arange(1, case.queries + 1)
    share = (weights.cumsum() - weights / 2) / weights.sum()
    is_guarded = share >= 2 / 3 if case.group else np.ones(case.queries, dtype=np.bool_)
    for _ in range(num_draws):
        revenue, quality = (
            _values(case, rng, of_revenue) for of_revenue in (True, False)
        )
        # 100 in revenue is more than any interval is wide.
        better = (
            revenue
            + np.where(np.arange(case.models + 1) > 0, 100.0, 0.0)[:, None, None]
        )
        worse = quality.copy()
        worse[1:, :, is_guarded] -= MARGIN
        worse[1:, :, ~is_guarded] += MARGIN
        given = weights if case.group else None
        yield {
            "better, at the margin": _ships(better, worse, case, given),
            "not better, guard holds": _ships(
                revenue, quality, case, given, margin=1.0
            ),
            "better, quality equal": _ships(better, quality, case, given),
        }


def _values(case: Case, rng: Generator, of_revenue: bool) -> NDArray[np.float64]:
    """Returns (models + 1, trainings, queries) values with equal means: revenue, mostly 0, with a long tail;
    or quality, with variation of queries, trainings and both."""
    shape = (case.models + 1, case.trainings, case.queries)
    if of_revenue:
        return np.where(rng.random(shape) < 0.3, rng.lognormal(1.0, 1.0, shape), 0.0)
    training = (
        SPREAD["training"] * rng.normal(size=(*shape[:2], 1)) * (case.trainings > 1)
    )
    residual = SPREAD["residual"] * rng.normal(size=shape)
    return 0.5 + SPREAD["query"] * rng.normal(size=shape[2]) + training + residual


def _ships(
    revenue: NDArray[np.float64],
    quality: NDArray[np.float64],
    case: Case,
    weights: NDArray[np.float64] | None,
    margin: float = MARGIN,
) -> bool:
    """Returns whether a model replaces the first one, given (models + 1, trainings, queries) values."""
    num_models, num_trainings, num_queries = revenue.shape
    num_documents = num_models * num_trainings
    by_document = {"revenue": revenue, "quality": quality}
    judgments = Judgments(
        labels=np.ones(num_documents * num_queries),
        query_start=num_documents * np.arange(num_queries + 1),
        query_weights=weights,
        kept={
            name: each.reshape(num_documents, -1).T.ravel()
            for name, each in by_document.items()
        },
    )
    parts = {split: {"fingerprint": split} for split in ("train", "test")}
    runs = []
    for number in range(num_documents):
        model, seed = divmod(number, num_trainings)
        scores = np.tile(np.arange(num_documents) == number, num_queries).astype(
            np.float64
        )
        held = {"test": ScoredSplit(judgments, scores, judgments.query_ids)}
        result = RunResult(
            status=FINISHED,
            model=f"new {model}" if model else "in use",
            params="own",
            seed=seed,
            data={"name": "drawn", **parts},
            metrics={"test/value@1:revenue": 0.0},
        )
        runs.append(Run(Path(f"{model}/{seed}"), result, held))
    guard = Guard("value@1:quality", -margin, case.group)
    settings = Settings(
        "value@1:revenue", guards=(guard,), baseline="in use", num_draws=1000
    )
    (comparison,) = compare(runs, settings=settings)
    decision = decide(comparison)
    return decision is not None and decision.kind == SHIP
