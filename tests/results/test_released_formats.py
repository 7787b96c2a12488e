"""A newer ltrbench reads the runs of older ones: tests/results/released has a run of each format.

They were written by the command in their result.json; names of folders and of the machine were removed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ltrbench.compare import compare
from ltrbench.data.synthetic import Synthetic
from ltrbench.metrics import evaluate
from ltrbench.rankers.base import load_ranker
from ltrbench.runs import record
from ltrbench.runs.record import FINISHED, MODEL_FOLDER, find_runs, read_run

RELEASED = Path(__file__).parent / "released"


@pytest.fixture(params=range(1, record.FORMAT))
def folder(request: pytest.FixtureRequest) -> Path:
    return RELEASED / f"format-{request.param}"


def test_the_folders_have_the_formats_of_their_names() -> None:
    formats = {
        path.parent.name: json.loads(path.read_text())["format"] for path in RELEASED.glob("*/result.json")
    }
    assert formats == {f"format-{number}": number for number in range(1, record.FORMAT)}


def test_an_older_run_is_read_with_its_metrics_and_scores(folder: Path) -> None:
    run = read_run(folder)
    assert (run.result.status, run.result.model, run.result.seed) == (FINISHED, "random", 0)
    (found,) = find_runs([folder])
    assert found.path == folder
    for split in ("valid", "test"):
        scored = run.scored(split)
        mean = evaluate(scored.judgments, scored.scores, ["ndcg@10"]).means["ndcg@10"]
        assert run.result.metrics[f"{split}/ndcg@10"] == mean


def test_an_older_run_is_compared(folder: Path) -> None:
    run = read_run(folder)
    (comparison,) = compare([run])
    (row,) = comparison.rows
    assert row.label == "random"
    assert row.metrics["ndcg@10"] == run.result.metrics["test/ndcg@10"]


def test_the_model_of_an_older_run_predicts_its_scores(folder: Path) -> None:
    run = read_run(folder)
    ranker = load_ranker(run.result.ranker["class"], folder / MODEL_FOLDER)
    test = Synthetic(name="synthetic", num_queries=12).load().test
    assert test.fingerprint == run.result.data["test"]["fingerprint"]
    np.testing.assert_array_equal(ranker.predict(test.features), run.scored("test").scores)
