"""Decisions with a guard: how often a model is shipped that should not be, and one that should be.

A query has one document for each training of a model, which the model ranks first. `value@1` of a column
then has the drawn value of that training: revenue, the primary metric, and quality, that of the guard. The
true differences to the model in use are therefore known. The decision is that of `compare --guard`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

    @property
    def shape(self) -> tuple[int, int, int]:
        """(models + 1, trainings, queries), of the values."""
        return self.models + 1, self.trainings, self.queries


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
    weights = None
    is_guarded = np.ones(case.queries, dtype=np.bool_)
    if case.group:
        weights = 1.0 / np.arange(1, case.queries + 1)
        middle_of_query = weights.cumsum() - weights / 2
        is_guarded = middle_of_query / weights.sum() >= 2 / 3
    for _ in range(num_draws):
        revenue = _revenue(case, rng)
        quality = _quality(case, rng)
        better = revenue.copy()
        better[1:] += 100.0  # more than any interval is wide
        worse = quality.copy()
        worse[1:, :, is_guarded] -= MARGIN
        worse[1:, :, ~is_guarded] += MARGIN
        guard = Guard("value@1:quality", -MARGIN, case.group)
        loose = Guard("value@1:quality", -1.0, case.group)
        yield {
            "better, at the margin": _ships(_runs(better, worse, weights), guard),
            "not better, guard holds": _ships(_runs(revenue, quality, weights), loose),
            "better, quality equal": _ships(_runs(better, quality, weights), guard),
        }


def _revenue(case: Case, rng: Generator) -> NDArray[np.float64]:
    """Returns values with equal means, mostly 0, with a long tail: (models + 1, trainings, queries)."""
    is_sold = rng.random(case.shape) < 0.3
    return np.where(is_sold, rng.lognormal(1.0, 1.0, case.shape), 0.0)


def _quality(case: Case, rng: Generator) -> NDArray[np.float64]:
    """Returns values with equal means that vary with queries, trainings and both, in the same shape."""
    num_models, num_trainings, num_queries = case.shape
    training = SPREAD["training"] * rng.normal(size=(num_models, num_trainings, 1))
    if num_trainings == 1:
        training = np.zeros_like(training)
    residual = SPREAD["residual"] * rng.normal(size=case.shape)
    query = SPREAD["query"] * rng.normal(size=num_queries)
    return 0.5 + query + training + residual


def _ships(runs: Sequence[Run], guard: Guard) -> bool:
    """Returns whether a model replaces the one in use."""
    settings = Settings(
        "value@1:revenue", guards=(guard,), baseline="in use", num_draws=1000
    )
    (comparison,) = compare(runs, settings=settings)
    decision = decide(comparison)
    return decision is not None and decision.kind == SHIP


def _runs(
    revenue: NDArray[np.float64],
    quality: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
) -> list[Run]:
    """Returns a run of each training, given (models + 1, trainings, queries) values; model 0 is in use."""
    num_models, num_trainings, num_queries = revenue.shape
    num_documents = num_models * num_trainings
    judgments = Judgments(
        labels=np.ones(num_documents * num_queries),
        query_start=num_documents * np.arange(num_queries + 1),
        query_weights=weights,
        kept={"revenue": _by_document(revenue), "quality": _by_document(quality)},
    )
    parts = {split: {"fingerprint": split} for split in ("train", "test")}
    runs = []
    for number in range(num_documents):
        model, seed = divmod(number, num_trainings)
        scores = np.zeros((num_queries, num_documents))
        scores[:, number] = 1.0
        scored = ScoredSplit(judgments, scores.ravel(), judgments.query_ids)
        result = RunResult(
            status=FINISHED,
            model=f"new {model}" if model else "in use",
            params="own",
            seed=seed,
            data={"name": "drawn", **parts},
            metrics={"test/value@1:revenue": 0.0},
        )
        runs.append(Run(Path(f"{model}/{seed}"), result, {"test": scored}))
    return runs


def _by_document(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the values of all documents of the first query, then of the second, and so on."""
    num_queries = values.shape[-1]
    return values.reshape(-1, num_queries).T.ravel()
