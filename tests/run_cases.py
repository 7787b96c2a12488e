"""Toy runs with what is asked of stored scores: documents with ids, folds that differ in size, and valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from toy_runs import write

from ltrbench.data import Judgments
from ltrbench.runs import Run
from ltrbench.shapes import Scores

NUM_QUERIES, DOCUMENTS_OF_QUERY = 20, 6


def judged(fold: int, split: str) -> Judgments:
    """Queries that no other fold or split has, and documents with an id each."""
    rng = np.random.default_rng([fold, len(split)])
    count = NUM_QUERIES * DOCUMENTS_OF_QUERY + fold  # the folds differ in size
    start = np.append(np.arange(NUM_QUERIES) * DOCUMENTS_OF_QUERY, count)
    return Judgments(
        labels=rng.integers(0, 3, count).astype(np.float64),
        query_start=start,
        query_ids=np.array([f"{split}{fold}-{query}" for query in range(NUM_QUERIES)]),
        document_ids=np.array([f"d{row}" for row in rng.permutation(count)]),
    )


def noisy(judgments: Judgments, skill: float, seed: int) -> Scores:
    """Scores that follow the labels with the given skill."""
    noise = np.random.default_rng([seed, int(100 * skill)]).normal(
        size=judgments.num_documents
    )
    return skill * judgments.labels + noise


def finished_run(
    folder: Path, model: str, *, fold: int = 1, valid: bool = True, **fields: Any
) -> Run:
    """A toy run with scores of these queries, of valid too, and with the fields of `toy_runs.write`."""
    validated = judged(fold, "valid") if valid else None
    return write(
        folder,
        model,
        fold=fold,
        judged=judged(fold, "test"),
        validated=validated,
        **fields,
    )
