"""The verb show: one run for a person, from its folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from messages import naming

from ltrbench.data.sources import LetorFiles, TableFiles
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import DataError
from ltrbench.experiment import Experiment, run
from ltrbench.rankers import EarlyStopping
from ltrbench.rankers.importance import (
    ACROSS,
    GAIN,
    SHAP,
    SPLIT,
    WITHIN,
    ImportanceSettings,
)
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.linear import LinearRanker
from ltrbench.runs.record import FORMAT, RESULT_FILE, Run
from ltrbench.runs.spec import RunSpec

METRICS = ("ndcg@5", "ndcg@10", "map")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    ranker = LightGBMRanker(
        num_trees=10, early_stopping=EarlyStopping("ndcg@10", 5), seed=3
    )
    experiment = Experiment(
        model="lightgbm",
        ranker=ranker,
        source=Synthetic(name="synthetic", num_queries=40),
        metrics=METRICS,
        spec=RunSpec(
            overrides=("model=lightgbm", "metrics=[ndcg@5,ndcg@10,map]"),
            flags=("--config-dir", "my conf"),
            settings={"params": {"num_trees": 10, "learning_rate": None}},
        ),
        params="matched",
        importance=ImportanceSettings(kinds=[WITHIN, ACROSS, SHAP, GAIN, SPLIT]),
    )
    return run(experiment, tmp_path_factory.mktemp("runs") / "finished")


def cells(text: str, first: str) -> list[str]:
    """The other cells of the row of that first cell."""
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {first} ")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_a_run_says_what_it_was_and_how_to_make_it_again(
    finished: Run, printed: Callable[..., str]
) -> None:
    text = printed("show", finished.path)
    assert text.startswith(f"lightgbm on synthetic: finished\n{finished.path}\n")
    # As a shell takes it, to which brackets mean something.
    assert (
        "python -m ltrbench --config-dir 'my conf' model=lightgbm 'metrics=[ndcg@5,ndcg@10,map]'"
        in text
    )
    assert f" in {Path.cwd()} " in text
    assert (
        "matched: num_trees=10, early_stopping.metric=ndcg@10, early_stopping.patience=5"
        in text
    )
    assert "l2=" not in text
    assert "class    ltrbench.rankers.lightgbm.LightGBMRanker\n" in text
    assert f"trees    {finished.result.best_iteration} of at most 10\n" in text
    (unmatched,) = finished.result.unmatched
    assert text.endswith(f"\n- {unmatched}\n")


def test_a_failed_run_says_why(tmp_path: Path, printed: Callable[..., str]) -> None:
    experiment = Experiment(
        model="lightgbm",
        ranker=LightGBMRanker(),
        source=LetorFiles(name="mine", train=str(tmp_path / "none.txt")),
    )
    with pytest.raises(DataError):
        run(experiment, tmp_path)
    text = printed("show", tmp_path)
    assert text.startswith("lightgbm on mine: failed\n")
    assert re.search(naming("error: ", "none.txt"), text)
    assert "| metric" not in text
    assert json.loads(printed("show", tmp_path, "--json"))["status"] == "failed"


def test_json_is_the_record_of_the_run_and_its_importances(
    finished: Run, printed: Callable[..., str]
) -> None:
    record = json.loads(printed("show", finished.path, "--json"))
    stored = json.loads((finished.path / RESULT_FILE).read_text())
    assert stored.pop("format") == FORMAT
    assert stored.items() <= record.items()
    assert record["path"] == str(finished.path)
    worth = finished.importances()
    assert [row["feature"] for row in record["importances"]] == list(
        worth.feature_names
    )
    assert [row["gain"] for row in record["importances"]] == worth.values[
        "gain"
    ].tolist()


def test_names_are_printed_as_they_are(
    tmp_path: Path, printed: Callable[..., str]
) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(20), 5),
            "label": rng.integers(0, 3, 100),
            "age<5": rng.integers(0, 9, 100),
        }
    )
    frame.to_csv(tmp_path / "table.csv", index=False)
    source = TableFiles(name="table", train=str(tmp_path / "table.csv"))
    run(Experiment(model="linear", ranker=LinearRanker(), source=source), tmp_path)
    assert "| age<5 " in printed("show", tmp_path)
