"""Reports for the tests to read, and to look at in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from toy_runs import write as write_run

from ltrbench.compare import Comparison, Settings, compare
from ltrbench.compare.report import as_page, chapters_of
from ltrbench.data import Judgments
from ltrbench.runs.record import LearningCurve

HOSTILE_QUERY = (
    "<script>window.hacked = 1</script>\"><img src=x onerror='window.hacked = 1'>"
)
HOSTILE_MODEL = "</script><b onmouseover=alert(1)>&'x"
DRAWS = 300


def judged(fold: int, num_queries: int = 40) -> Judgments:
    """Queries of five documents, whose names are markup."""
    labels = (
        np.random.default_rng(fold).integers(0, 3, 5 * num_queries).astype(np.float64)
    )
    labels[:5] = [2, 0, 0, 0, 1]
    ids = [f"{HOSTILE_QUERY}{fold}-{number}" for number in range(num_queries)]
    return Judgments(
        labels=labels,
        query_start=np.arange(num_queries + 1) * 5,
        query_ids=np.array(ids),
    )


def comparisons(folder: Path) -> Sequence[Comparison]:
    """Three models on three folds: one clearly worse, one with a name that is markup."""
    models = {"native": 3.0, HOSTILE_MODEL: 2.9, "random": 0.0}
    runs = [
        write_run(
            folder / str(number) / str(fold),
            model,
            fold=fold,
            skill=skill,
            judged=judged(fold),
            settings={"num_leaves": 31 + number, "l2": 0.0},
            seconds={"fit": 1.0 + number, "predict": 0.1},
            curve=LearningCurve(
                [1, 2, 3], {"valid/ndcg@10": [0.2, 0.4 + number / 10, 0.5]}
            ),
        )
        for number, (model, skill) in enumerate(models.items())
        for fold in (1, 2, 3)
    ]
    return compare(
        runs, settings=Settings(metric="ndcg@10", detect=0.01, num_draws=DRAWS)
    )


def report(compared: Sequence[Comparison], path: Path) -> Path:
    chapters = chapters_of(compared, command="python -m ltrbench compare 'some folder'")
    path.write_text(as_page(compared, chapters), encoding="utf-8")
    return path
