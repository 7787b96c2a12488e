"""Small finished runs, in folders, for the tests of what is made of stored scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ltrbench.data import Judgments
from ltrbench.metrics import DEFAULT, evaluate
from ltrbench.results import FINISHED, Run, RunResult, ScoredSplit, write_run
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
) -> Run:
    rows = None if file_rows is None else np.array(file_rows)
    scored = {
        split: ScoredSplit(judged(fold, split), noisy(judged(fold, split), skill, seed), rows)
        for split in (("test", "valid") if valid else ("test",))
    }
    evaluations = {split: evaluate(item.judgments, item.scores, METRICS) for split, item in scored.items()}
    result = RunResult(
        status=FINISHED,
        model=model,
        params="matched",
        seed=seed,
        data={
            "name": "toy",
            "fold": fold,
            **{
                split: {
                    "fingerprint": f"{split} of fold {fold}",
                    "queries": NUM_QUERIES,
                    "documents": 121,
                    "features": 1,
                    "queries_without_relevant_document": 0.0,
                }
                for split in ("train", *scored)
            },
        },
        metrics={
            f"{split}/{name}": mean
            for split, evaluation in evaluations.items()
            for name, mean in evaluation.means.items()
        },
        convention=DEFAULT.describe(),
        seconds={"fit": 1.0, "predict": 0.1},
        best_iteration=20,
        threads=2,
        started="2026-01-31T12:00:00.000+00:00",
        finished="2026-01-31T12:00:01.000+00:00",
        commit="abc",
        versions={"ltrbench": "1"},
        machine={"cpu": "some", "cores": 2},
        overrides=(f"model={model}",),
        config={"model": {"_target_": model, "seed": seed}, "data": {}},
    )
    return write_run(folder, result, scored=scored)
