"""Toy runs with what is asked of stored scores: documents with ids, folds that differ in size, and valid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import toy_runs

from ltrbench.data import Judgments
from ltrbench.metrics import evaluate
from ltrbench.runs.record import Run, ScoredSplit
from ltrbench.runs.writing import write_run
from ltrbench.shapes import Scores

NUM_QUERIES, DOCUMENTS_OF_QUERY = 20, 6
METRICS = ["ndcg@5", "ndcg@10"]


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
    noise = np.random.default_rng([seed, int(100 * skill)]).normal(size=judgments.num_documents)
    return skill * judgments.labels + noise


def finished_run(
    folder: Path,
    model: str,
    *,
    fold: int = 1,
    seed: int = 0,
    skill: float = 1.0,
    valid: bool = True,
    file_rows: list[int] | None = None,
    **fields: Any,
) -> Run:
    """A toy run with scores of these queries, of valid too, and with these fields of RunResult."""
    rows = None if file_rows is None else np.array(file_rows)
    scored = {
        split: ScoredSplit(
            judged(fold, split),
            noisy(judged(fold, split), skill, seed),
            file_rows=rows,
            query_keys=toy_runs.keys_of(judged(fold, split)),
        )
        for split in (("test", "valid") if valid else ("test",))
    }
    metrics = {
        f"{split}/{name}": mean
        for split, item in scored.items()
        for name, mean in evaluate(item.judgments, item.scores, METRICS).means.items()
    }
    toy = toy_runs.write(folder, model, fold=fold, seed=seed).result
    sizes = {
        "features": 1,
        "documents": 120 + fold,
        "queries": NUM_QUERIES,
        "queries_without_relevant_document": 0.0,
    }
    data = {**toy.data, **{split: {**sizes, **toy.data[split]} for split in ("train", "valid", "test")}}
    return write_run(folder, replace(toy, metrics=metrics, data=data, **fields), scored=scored)
