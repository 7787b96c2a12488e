"""Run folders for tests of the comparison."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
from messages import naming

from ltrbench.data import Judgments, RankingDataset
from ltrbench.data.dataset import QueryKeys
from ltrbench.metrics import DEFAULT, evaluate
from ltrbench.runs.origin import Final, Imported
from ltrbench.runs.record import FINISHED, NO_PARAMETERS, Run, RunResult, ScoredSplit
from ltrbench.runs.writing import write_run

NUM_QUERIES = 30
METRICS = ["ndcg@5", "ndcg@10"]
YARDSTICKS = ("random", "single_feature")
IMPORTED = Imported(file="scores.txt", has_model=False)
FINAL = Final(
    row="native",
    reason="the only row",
    settings="sweep/3",
    runs=["sweep/3"],
    trees=[20],
    scale=1.0,
    metric="ndcg@10",
    estimate=0.5,
    low=None,
    high=None,
)


def mentions(text: object, *parts: object) -> bool:
    """Returns whether a text names every part: values, places, remedies."""
    return re.search(naming(*parts), str(text)) is not None


def judgments(fold: int, counted: int = NUM_QUERIES - 1) -> Judgments:
    """Returns queries of six documents; the first has no relevant document and does not count."""
    rng = np.random.default_rng(fold)
    labels = rng.integers(0, 3, (counted + 1) * 6).astype(np.float64)
    labels[:6] = 0
    return Judgments(labels=labels, query_start=np.arange(counted + 2) * 6)


def write(
    folder: Path,
    model: str,
    *,
    fold: int | None = 1,
    seed: int = 0,
    skill: float = 1.0,
    **fields: Any,
) -> Run:
    """Writes a finished run with scores of `skill` times the label plus noise.

    Args:
        fields: `judged`, judgments of test, or the number of `counted` queries; `validated`, judgments of
            validation; `file_rows`, the row of each document in its file; the learning `curve`,
            `importances`, `trials` of the search; `settings` of the model, `data_settings`, `name` of the
            data, `train` and `valid` fingerprints; and fields of RunResult.
    """
    judged = fields.pop("judged", None) or judgments(
        fold or 0, fields.pop("counted", NUM_QUERIES - 1)
    )
    validated = fields.pop("validated", None)
    rng, file_rows = (
        np.random.default_rng([seed, len(model)]),
        fields.pop("file_rows", None),
    )
    scored = {
        split: _scored(of_split, skill, rng, file_rows)
        for split, of_split in (("test", judged), ("valid", validated))
        if of_split is not None
    }
    evaluations = {
        split: evaluate(item.judgments, item.scores, METRICS)
        for split, item in scored.items()
    }
    sizes = {"features": 1, "documents": judged.num_documents, "queries": NUM_QUERIES}
    of_valid = (
        sizes if validated is None else {**sizes, "documents": validated.num_documents}
    )
    config = {
        "model": {"_target_": model, "seed": seed, **fields.pop("settings", {})},
        "data": fields.pop("data_settings", {}),
    }
    result = RunResult(
        status=FINISHED,
        model=model,
        params=NO_PARAMETERS if model in YARDSTICKS else "matched",
        seed=seed,
        data={
            "name": fields.pop("name", "toy"),
            "fold": fold,
            "train": {
                **sizes,
                "fingerprint": fields.pop("train", f"train of fold {fold}"),
                "queries": 3 * NUM_QUERIES,
            },
            "valid": {
                **of_valid,
                "fingerprint": fields.pop("valid", f"valid of fold {fold}"),
            },
            "test": {
                **sizes,
                "fingerprint": f"test of fold {fold}",
                "queries_without_relevant_document": evaluations[
                    "test"
                ].share_without_relevant,
            },
        },
        metrics={
            f"{split}/{name}": value
            for split, evaluation in evaluations.items()
            for name, value in evaluation.means.items()
        },
        convention=DEFAULT.describe(),
        seconds={"fit": 1.0 + seed, "predict": 0.1},
        peak_memory_mb=10.0,
        best_iteration=20,
        threads=2,
        commit="abc",
        versions={"numpy": "2.4.6", "python": "3.11.7"},
        machine={"cpu": "some", "cores": 2},
        overrides=(f"model={model}",),
        config=config,
    )
    parts = {
        name: fields.pop(name)
        for name in ("curve", "importances", "trials")
        if name in fields
    }
    return write_run(folder, replace(result, **fields), scored=scored, **parts)


SPACE = {"num_leaves": "4 to 64 (log)", "learning_rate": "0.01 to 0.3 (log)"}


def searched(*, seed: int = 0, trials: int = 16, **fields: Any) -> dict[str, Any]:
    """The record of a search that varied `SPACE`, for `RunResult.search`."""
    return {
        "name": "random",
        "seed": seed,
        "metric": "ndcg@10",
        "choose": "per_fold",
        "budget": {"trials": trials, "seconds": None},
        "space": SPACE,
        "trials": trials,
        "failed": 0,
        "iterations": 100 * trials,
        "seconds": 2.5 * trials,
        "chosen": 3,
        "settings": {"num_leaves": 8, "learning_rate": 0.1},
        "default": {"num_leaves": 31, "learning_rate": 0.1},
        "importance": {},
        **fields,
    }


def search_record(**changes: Any) -> dict[str, Any]:
    """Returns the record of a search over one setting that chose the second of three trials."""
    values = {
        "space": {"l2": "0 to 100"},
        "settings": {"l2": 0.5},
        "default": {"l2": 0.0},
        "chosen": 1,
    }
    return searched(trials=3, **{**values, **changes})


def tuned(
    folder: Path, model: str = "native", *, leaves: int = 8, **fields: Any
) -> Run:
    """Writes a run whose settings a search chose: `num_leaves`, and the fields of `write`."""
    settings = {
        "num_leaves": leaves,
        "learning_rate": 0.1,
        **fields.pop("settings", {}),
    }
    seed = fields.get("seed", 0)
    ranker = {
        "class": model,
        "fields": {
            "seed": seed,
            **settings,
            "early_stopping": {"minimum": [[leaves, 0.2]]},
        },
    }
    fields = {"search": searched(seed=seed), "ranker": ranker, **fields}
    return write(folder, model, **fields)


def _scored(
    judged: Judgments,
    skill: float,
    rng: np.random.Generator,
    file_rows: list[int] | None,
) -> ScoredSplit:
    scores = skill * judged.labels + rng.normal(size=judged.num_documents)
    rows = None if file_rows is None else np.array(file_rows)
    return ScoredSplit(judged, scores, file_rows=rows, query_keys=keys_of(judged))


def keys_of(judged: Judgments) -> QueryKeys:
    """Returns keys of the queries; without features they differ from those of all other judgments."""
    if isinstance(judged, RankingDataset):
        return judged.query_keys
    content = md5(judged.labels.tobytes() + judged.query_start.tobytes())
    return np.array(
        [_key(content.copy(), query_id) for query_id in judged.query_ids.tolist()]
    )


def _key(digest: Any, query_id: str) -> str:
    digest.update(query_id.encode())
    return str(digest.hexdigest())
