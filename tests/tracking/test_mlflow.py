"""The MLflow mirror, read back through MLflow's own client."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun

from ltrbench.errors import TrackingError
from ltrbench.rankers.random import RandomRanker
from ltrbench.results import FAILED, FINISHED, LearningCurve, Run, RunResult, write_run
from ltrbench.tracking.mlflow import MLflowTracker

# MLflow uses what SQLAlchemy has deprecated, and leaves its database connections to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ITERATIONS = 600


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its migrations done, which take seconds, to copy from."""
    folder = tmp_path_factory.mktemp("database")
    MLflowTracker(uri=f"sqlite:///{folder / 'mlflow.db'}", experiment="warm").open(None)
    return folder / "mlflow.db"


@pytest.fixture
def tracker(tmp_path: Path, empty_database: Path) -> MLflowTracker:
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return MLflowTracker(uri=f"sqlite:///{tmp_path / 'mlflow.db'}")


def make_run(folder: Path, status: str = FINISHED) -> Run:
    curve = LearningCurve(
        list(range(1, ITERATIONS + 1)),
        {
            f"{split}/ndcg@{k}": [number / ITERATIONS for number in range(1, ITERATIONS + 1)]
            for split in ("train", "valid")
            for k in (5, 10)
        },
    )
    result = RunResult(
        status=status,
        model="native",
        params="matched",
        seed=1,
        data={"name": "mq2008", "fold": 2, "test": {"fingerprint": "f00d"}},
        metrics={"test/ndcg@10": 0.5, "valid/ndcg@10": 0.75, "test/map": None},
        convention={"name": "default"},
        seconds={"fit": 1.5},
        best_iteration=450,
        overrides=("model=native", "data=mq2008"),
        started="2026-01-02T03:04:05.678+00:00",
        finished="2026-01-02T03:05:05.678+00:00",
        commit="abc",
        versions={"numpy": "2"},
        error="boom" if status == FAILED else None,
        config={"model": {"num_leaves": 31, "extra": {}, "early_stopping": None}, "metrics": ["ndcg@10"]},
    )
    ranker = RandomRanker()
    ranker._num_features = 3
    return write_run(folder, result, ranker=ranker, curve=curve)


def logged(tracker: MLflowTracker) -> list[MlflowRun]:
    """All runs of the store, the first first."""
    client = MlflowClient(tracker.uri)
    experiment = client.get_experiment_by_name(tracker.experiment)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time"])
    return sorted(runs, key=lambda run: run.data.tags["kind"], reverse=True)  # the sweep before its runs


def test_a_sweep_is_a_parent_and_its_jobs_are_children(tracker: MLflowTracker, tmp_path: Path) -> None:
    tracker.open("multirun/today")
    tracker.log(make_run(tmp_path / "0"))
    tracker.log(make_run(tmp_path / "1", status=FAILED))
    tracker.close("failed")
    parent, *children = logged(tracker)
    assert (parent.info.run_name, parent.info.status) == ("multirun/today", "FAILED")
    assert {child.info.status for child in children} == {"FINISHED", "FAILED"}
    assert {child.data.tags["mlflow.parentRunId"] for child in children} == {parent.info.run_id}


@pytest.mark.parametrize(
    ("status", "theirs"), [("finished", "FINISHED"), ("failed", "FAILED"), ("interrupted", "KILLED")]
)
def test_the_parent_is_closed_with_the_status_of_the_sweep(
    tracker: MLflowTracker, status: str, theirs: str
) -> None:
    tracker.open("sweep")
    tracker.close(status)
    tracker.close(status)  # a second time changes nothing
    assert [run.info.status for run in logged(tracker)] == [theirs]


def test_a_single_run_has_no_parent(tracker: MLflowTracker, tmp_path: Path) -> None:
    tracker.open(None)
    tracker.log(make_run(tmp_path / "run"))
    tracker.close("finished")
    (run,) = logged(tracker)
    assert "mlflow.parentRunId" not in run.data.tags


def test_a_run_carries_its_configuration_its_numbers_and_where_they_come_from(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    tracker.open(None)
    tracker.log(make_run(tmp_path / "run"))
    (run,) = logged(tracker)
    assert run.data.params == {
        "model.num_leaves": "31",
        "model.extra": "{}",
        "model.early_stopping": "null",
        "metrics": "['ndcg@10']",
    }
    assert run.data.metrics["test/ndcg_at_10"] == 0.5
    assert run.data.metrics["seconds/fit"] == 1.5
    assert "test/map" not in run.data.metrics
    expected = {
        "backend": "native",
        "data": "mq2008",
        "fold": "2",
        "fingerprint.test": "f00d",
        "commit": "abc",
        "version.numpy": "2",
        "command": "python -m ltrbench model=native data=mq2008",
    }
    assert expected.items() <= run.data.tags.items()
    assert run.info.end_time - run.info.start_time == 60_000


def test_the_learning_curve_is_whole_and_the_kept_models_value_is_the_latest(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    tracker.open(None)
    tracker.log(make_run(tmp_path / "run"))
    (run,) = logged(tracker)
    history = MlflowClient(tracker.uri).get_metric_history(run.info.run_id, "valid/ndcg_at_10")
    points = {point.step: point.value for point in history}
    assert points == {
        **{number: number / ITERATIONS for number in range(1, ITERATIONS + 1)},
        ITERATIONS + 1: 0.75,
    }
    assert run.data.metrics["valid/ndcg_at_10"] == 0.75
    assert run.data.metrics["train/ndcg_at_5"] == 450 / ITERATIONS


def test_the_folder_is_there_as_artifacts(tracker: MLflowTracker, tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    (tmp_path / "run/.hydra").mkdir()
    tracker.open(None)
    tracker.log(made)
    (run,) = logged(tracker)
    client = MlflowClient(tracker.uri)
    assert {item.path for item in client.list_artifacts(run.info.run_id)} == {
        "result.json",
        "learning_curve.csv",
        "model",
    }
    copy = Path(client.download_artifacts(run.info.run_id, "result.json", str(tmp_path)))
    assert copy.read_bytes() == (tmp_path / "run/result.json").read_bytes()


def test_a_store_can_be_filled_again_from_the_folders(tracker: MLflowTracker, tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    again = MLflowTracker(uri=tracker.uri, experiment="again")
    for store in (tracker, again):
        store.open(None)
        store.log(made)
    assert logged(tracker)[0].data.metrics == logged(again)[0].data.metrics


def test_a_failed_run_says_why(tracker: MLflowTracker, tmp_path: Path) -> None:
    tracker.open(None)
    tracker.log(make_run(tmp_path / "run", status=FAILED))
    (run,) = logged(tracker)
    assert (run.info.status, run.data.tags["error"]) == ("FAILED", "boom")


def test_an_absent_server_is_told_in_one_sentence_with_the_remedy() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed_port = probe.getsockname()[1]
    tracker = MLflowTracker(uri=f"http://127.0.0.1:{closed_port}")
    with pytest.raises(
        TrackingError, match=rf"http://127.0.0.1:{closed_port} cannot be used: .*tracking=none"
    ):
        tracker.open("sweep")


def test_a_store_of_no_known_kind_is_refused() -> None:
    with pytest.raises(TrackingError, match=r"gopher://x cannot be used: .*tracking.uri=sqlite:///FILE"):
        MLflowTracker(uri="gopher://x").open(None)


def test_a_deleted_experiment_is_told_apart_from_an_absent_one(tracker: MLflowTracker) -> None:
    tracker.open(None)
    client = MlflowClient(tracker.uri)
    experiment = client.get_experiment_by_name("ltrbench")
    assert experiment is not None
    client.delete_experiment(experiment.experiment_id)
    with pytest.raises(TrackingError, match=r"'ltrbench' at .* was deleted; choose another"):
        tracker.open(None)
