"""A run on workers leaves the folder of a local run, with the same predictions and metrics of its model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from plan_cases import job

from ltrbench.cli.session import check_executor_of_distributed
from ltrbench.data import Splits
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError
from ltrbench.experiment import CLEAN, Experiment, run
from ltrbench.metrics import evaluate
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import load_ranker
from ltrbench.rankers.importance import ImportanceSettings
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.runs.record import FINISHED, MODEL_FOLDER, Run, read_run
from ltrbench.sweep.executors import InlineExecutor, ProcessExecutor

pytest.importorskip("distributed", reason="needs Dask")
from local_workers import local_workers

from ltrbench.distributed.cluster import Workers

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "num_trees": 8,
    "num_leaves": 15,
    "learning_rate": 0.1,
    "num_threads": 1,
}
METRICS = ("ndcg@10", "map", "mrr")
SOURCE = Synthetic(name="synthetic", num_queries=120)


@dataclass(kw_only=True)
class OpenWorkers:
    """Workers that are open already."""

    number: int

    def open(self) -> contextlib.AbstractContextManager[Workers]:
        return contextlib.nullcontext(_open[self.number])


_open: dict[int, Workers] = {}


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    with local_workers(2) as two:
        _open[2] = two
        yield
        _open.clear()


def experiment(ranker: Ranker, number: int | None = 2, **changes: Any) -> Experiment:
    settings: dict[str, Any] = {
        "source": SOURCE,
        "metrics": METRICS,
        "importance": ImportanceSettings(kinds=["split", "gain"]),
        "distributed": None if number is None else OpenWorkers(number=number),
    }
    return Experiment(**{"model": "toy", "ranker": ranker, **settings, **changes})


def assert_predictions_of_its_model(done: Run, splits: Splits) -> None:
    """Scores, metrics per query and means have the bits of a local evaluation of the saved model."""
    ranker = load_ranker(done.result.ranker["class"], done.path / MODEL_FOLDER)
    for name in ("valid", "test"):
        dataset = getattr(splits, name)
        scores = ranker.predict(dataset.features)
        np.testing.assert_array_equal(done.scored(name).scores, scores)
        evaluation = evaluate(dataset, scores, METRICS)
        for metric in METRICS:
            assert done.result.metrics[f"{name}/{metric}"] == evaluation.means[metric]
        if name == "test":
            for metric in METRICS:
                np.testing.assert_array_equal(
                    done.per_query()[metric], evaluation.per_query[metric]
                )


@pytest.mark.parametrize("kind", [LightGBMRanker, XGBoostRanker])
def test_a_run_on_two_workers_has_the_folder_of_a_local_run(
    kind: type[LightGBMRanker | XGBoostRanker], tmp_path: Path
) -> None:
    local = run(experiment(kind(**SETTINGS), None), tmp_path / "local")
    done = run(experiment(kind(**SETTINGS), timing=CLEAN), tmp_path / "workers")
    assert done.result.status == FINISHED
    # lightgbm.dask reports no scores during a fit.
    absent = {"learning_curve.csv"} if kind is LightGBMRanker else set()
    files, of_local_run = (
        {path.name for path in each.path.rglob("*")} for each in (done, local)
    )
    assert files == of_local_run - absent
    assert_predictions_of_its_model(done, SOURCE.load())
    ndcg, of_local = (each.result.metrics["test/ndcg@10"] for each in (done, local))
    assert ndcg == pytest.approx(of_local, abs=0.08)  # 24 test queries, and other bins
    if kind is XGBoostRanker:
        assert (
            done.learning_curve().values.keys() == local.learning_curve().values.keys()
        )
        assert done.learning_curve().iterations == local.learning_curve().iterations
    assert done.result.seconds.keys() == local.result.seconds.keys() | {"fit_clean"}


def test_result_json_records_the_workers(tmp_path: Path) -> None:
    done = run(experiment(XGBoostRanker(**SETTINGS)), tmp_path / "run")
    record = json.loads((tmp_path / "run" / "result.json").read_text())
    splits = dict(SOURCE.load())
    distributed = record["distributed"]
    assert distributed["workers"] == 2
    assert distributed["threads"] == [1, 1]
    assert distributed["deterministic"] is False
    assert record["threads"] == 2
    (note,) = record["notes"]
    assert all(part in note for part in ("2 workers", "not repeatable"))
    assert record["versions"].keys() >= {"dask", "distributed", "xgboost"}
    assert distributed["shards"].keys() == {"train", "valid"}
    for name, sizes in distributed["shards"].items():
        assert [part.keys() for part in sizes] == [{"queries", "documents"}] * 2
        assert sum(part["queries"] for part in sizes) == splits[name].num_queries
        assert sum(part["documents"] for part in sizes) == splits[name].num_documents
    assert read_run(tmp_path / "run").result.distributed == distributed
    assert done.result.peak_memory_mb is None
    assert (
        run(experiment(RandomRanker(), None), tmp_path / "local").result.distributed
        == {}
    )


def test_an_experiment_that_cannot_be_distributed_is_refused_before_anything_is_read() -> (
    None
):
    with pytest.raises(
        ConfigError, match=naming("RandomRanker", "model=xgboost", "distributed=none")
    ):
        experiment(RandomRanker())


def test_jobs_that_run_at_the_same_time_cannot_be_distributed() -> None:
    jobs = [
        job("seed=1"),
        job("seed=2", values={"distributed": {"workers": 2}}),
    ]
    check_executor_of_distributed(jobs, InlineExecutor())
    check_executor_of_distributed(jobs[:1], ProcessExecutor())
    with pytest.raises(
        ConfigError,
        match=naming("ProcessExecutor", "executor=inline", "distributed=none"),
    ):
        check_executor_of_distributed(jobs, ProcessExecutor())
