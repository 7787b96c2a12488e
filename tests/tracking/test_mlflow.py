"""The MLflow mirror, read back through MLflow's own client."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from composed_jobs import composed
from messages import naming
from mlflow import MlflowClient
from mlflow.entities import LoggedModel, ViewType
from mlflow.entities import Run as MlflowRun
from mlflow.exceptions import MlflowException
from toy_runs import search_record

from ltrbench.data import Judgments
from ltrbench.data.sources import TableFiles
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import TrackingError
from ltrbench.experiment import Experiment, _begin
from ltrbench.experiment import run as run_experiment
from ltrbench.rankers import Ranker
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.runs.record import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    LearningCurve,
    Run,
    RunResult,
    ScoredSplit,
    load,
    read_run,
)
from ltrbench.runs.spec import RunSpec
from ltrbench.runs.writing import rewrite_result, write_run
from ltrbench.tracking.mlflow import OPENED_WITH, MLflowTracker
from ltrbench.tracking.mlflow import store as mlflow_store
from ltrbench.tracking.mlflow.entities import milliseconds, run_params, run_tags
from ltrbench.tracking.mlflow.models import save_model
from ltrbench.tracking.mlflow.store import MLflowStore, run_list_of

# MLflow uses what SQLAlchemy has deprecated, and leaves its database connections to the garbage collector,
# which complains of them from Python 3.13 on. It compares the columns of an input example with a range.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Operation with range:DeprecationWarning"),
]

ITERATIONS = 600


def make_run(folder: Path, status: str = FINISHED, **changes: Any) -> Run:
    curve = LearningCurve(
        list(range(1, ITERATIONS + 1)),
        {
            f"{split}/ndcg@{k}": [
                number / ITERATIONS for number in range(1, ITERATIONS + 1)
            ]
            for split in ("train", "valid")
            for k in (5, 10)
        },
    )
    result = RunResult(
        status=status,
        model="native",
        params="matched",
        seed=1,
        data={
            "name": "mq2008",
            "fold": 2,
            "test": {
                "fingerprint": "f00d",
                "documents": 2,
                "queries": 1,
                "features": 3,
            },
        },
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
        config={
            "model": {"num_leaves": 31, "extra": {}, "early_stopping": None},
            "metrics": ["ndcg@10"],
        },
    )
    ranker = RandomRanker()
    ranker._num_features = 3
    judged = Judgments(labels=np.array([1.0, 0.0]), query_start=np.array([0, 2]))
    return write_run(
        folder,
        replace(result, **changes),
        ranker=ranker,
        scored={
            "test": ScoredSplit(judged, np.array([0.5, 0.25]), np.array(["0" * 32]))
        },
        per_query={"ndcg@10": np.array([1.0])},
        curve=curve,
    )


def stored(
    tracker: MLflowTracker, kind: str, view: int = ViewType.ACTIVE_ONLY
) -> list[MlflowRun]:
    """The parents ("sweep") or the copies ("run") of the store, the first created first."""
    client = MlflowClient(tracker.uri)
    experiments = [item.experiment_id for item in client.search_experiments()]
    runs = client.search_runs(experiments, f"tags.kind = '{kind}'", run_view_type=view)
    return sorted(runs, key=lambda run: (run.info.start_time, run.info.run_name))


SWEPT = {
    "model": ("native", "lightgbm"),
    "params.num_leaves": ("15", "31"),
    "seed": ("1", "2"),
}


def make_job(folder: Path, model: str, num_leaves: int, seed: int) -> Run:
    """A job of a sweep over `SWEPT`."""
    varied = (f"model={model}", f"params.num_leaves={num_leaves}", f"seed={seed}")
    return make_run(
        folder / f"{model}-{num_leaves}-{seed}",
        model=model,
        seed=seed,
        sweep="multirun/today",
        swept=SWEPT,
        overrides=("data=mq2008", "params.num_trees=50", *varied),
        config={
            "model": {"num_leaves": num_leaves, "objective": "lambdarank"},
            "params": {"num_leaves": num_leaves, "num_trees": 50},
            "early_stopping": {"patience": 100},
            "metrics": ["ndcg@10"],
            "seed": seed,
        },
    )


def test_the_parent_has_a_title_and_the_settings_of_the_sweep_from_its_first_job_on(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    tracker.open("multirun/today")
    for seed in (1, 2):
        tracker.log(make_job(tmp_path, "native", 15, seed))
        (parent,) = stored(tracker, "sweep")
        assert parent.info.run_name == "native, lightgbm on mq2008: num_leaves, seed"
        assert f"native num_leaves=15 seed={seed}" in {
            run.info.run_name for run in stored(tracker, "run")
        }
        expected = {
            "model": "native, lightgbm",
            "params": "matched",
            "data": "mq2008",
            "params.num_leaves": "15, 31",
            "params.num_trees": "50",
            "seed": "1, 2",
        }
        assert expected.items() <= parent.data.tags.items()
    # A later command sweeps over more seeds, and its jobs need not be logged first.
    wider = make_run(
        tmp_path / "more",
        sweep="multirun/today",
        swept={**SWEPT, "seed": ("1", "2", "3")},
        started="2026-01-03T00:00:00+00:00",
    )
    for run in (wider, make_job(tmp_path, "native", 31, 1)):
        tracker.log(run)
        (parent,) = stored(tracker, "sweep")
        assert parent.data.tags["seed"] == "1, 2, 3"


def columns_of_view(tracker: MLflowTracker) -> list[str]:
    """The columns that the run list shows at the address that `python -m ltrbench ui` prints."""
    client = MlflowClient(tracker.uri)
    path = run_list_of(tracker.uri, tracker.experiment)
    experiment = client.get_experiment(
        path.partition("/experiments/")[2].partition("/")[0]
    )
    content = json.loads(
        experiment.tags[f"mlflow.sharedViewState.{path.rpartition('=')[2]}"]
    )
    assert json.loads(content["state"])["selectedColumns"] == content["selectedColumns"]
    return list(content["selectedColumns"])


def test_the_view_of_the_run_list_has_the_ndcg_and_grows_by_other_metrics(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    tracker.open(None)
    tracker.log(make_run(tmp_path / "ndcg"))
    shown = [
        "metrics.`test/ndcg_at_10`",
        "metrics.`valid/ndcg_at_10`",
        "metrics.`seconds/fit`",
    ]
    assert columns_of_view(tracker) == shown
    tracker.log(make_run(tmp_path / "err", metrics={"test/err": 0.5, "test/map": 0.5}))
    assert columns_of_view(tracker) == [
        *shown,
        "metrics.`test/err`",
        "metrics.`test/map`",
    ]


def test_a_run_carries_its_configuration_its_numbers_and_where_they_come_from(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    tracker.open(None)
    tracker.log(make_run(tmp_path / "run"))
    (run,) = stored(tracker, "run")
    assert run.data.params == {
        "model": "native",
        "params": "matched",
        "data": "mq2008",
        "model.num_leaves": "31",
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
        "mlflow.source.git.commit": "abc",
        "version.numpy": "2",
        "command": "python -m ltrbench model=native data=mq2008",
        "folder": str(tmp_path / "run"),
    }
    assert expected.items() <= run.data.tags.items()
    assert run.info.end_time - run.info.start_time == 60_000


def test_the_learning_curve_has_a_point_per_iteration_and_the_kept_models_values_one_at_step_0(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    tracker.open(None)
    tracker.log(make_run(tmp_path / "run"))
    (run,) = stored(tracker, "run")
    client = MlflowClient(tracker.uri)
    points = {
        name: {
            point.step: point.value
            for point in client.get_metric_history(run.info.run_id, name)
        }
        for name in run.data.metrics
    }
    whole = {number: number / ITERATIONS for number in range(1, ITERATIONS + 1)}
    curves = {name for name in points if "_by_iteration/" in name}
    assert curves == {
        f"{split}_by_iteration/ndcg_at_{k}"
        for split in ("train", "valid")
        for k in (5, 10)
    }
    assert all(
        of_name == whole if name in curves else [*of_name] == [0]
        for name, of_name in points.items()
    )
    assert run.data.metrics["valid/ndcg_at_10"] == 0.75
    # Train has no final evaluation: its value is that of the curve at the kept iteration, 450.
    assert run.data.metrics["train/ndcg_at_5"] == 450 / ITERATIONS


def test_parameters_are_logged_in_what_mlflow_allows(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    extra = {
        "a[0]": 1,
        "../up": 3,
        "long": "x" * 10_000,
        "address": "http://me:secret@host:5000/?token=secret",
    }
    tracker.open(None)
    tracker.log(make_run(tmp_path / "run", config={"extra": extra}))
    (run,) = stored(tracker, "run")
    params = run.data.params
    assert (params["extra.a_0_"], params["extra.../up"]) == ("1", "3")
    assert params["extra.long"] == "x" * 5999 + "…"
    assert params["extra.address"] == "http://me:***@host:5000/?token=***"


def test_a_final_run_names_its_search_a_failed_one_its_error_and_a_trial_itself(
    tmp_path: Path,
) -> None:
    config = {"model": {"l2": 0.5}, "search": {"trials": 50, "space": {"l2": [0, 100]}}}
    error = "ValueError: here" + "frame\n" * 2000
    result = make_run(
        tmp_path / "0", search=search_record(), config=config, error=error
    ).result
    params = {param.key: param.value for param in run_params(result)}
    expected = {
        "search.name": "random",
        "search.budget.trials": "3",
        "search.settings.l2": "0.5",
    }
    assert expected.items() <= params.items()
    assert "search.space.l2" not in params
    tags = run_tags(Run(tmp_path / "0", result), "")
    assert tags["search"] == "random"
    assert (len(tags["error"]), tags["error"][:10]) == (5000, "ValueError")


def test_the_parameters_of_a_run_begin_with_those_of_its_command() -> None:
    experiment = composed(
        "model=native", "data=mq2008", "data.fold=2", "params.num_leaves=7"
    )
    params = {param.key: param.value for param in run_params(_begin(experiment))}
    assert list(params)[:5] == [
        "model",
        "params",
        "data",
        "model.num_leaves",
        "data.fold",
    ]
    assert params["model.num_leaves"] == "7"
    assert "params.num_leaves" not in params


def test_an_absent_server_is_told_in_one_sentence_with_the_remedy() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed_port = probe.getsockname()[1]
    tracker = MLflowTracker(uri=f"http://me:secret@127.0.0.1:{closed_port}")
    environment, began = dict(os.environ), time.monotonic()
    with pytest.raises(
        TrackingError,
        match=naming(
            f"http://me:***@127.0.0.1:{closed_port}",
            "refused",
            "tracking.uri=",
            "tracking=none",
        ),
    ) as caught:
        tracker.open("sweep")
    assert time.monotonic() - began < 10
    assert "secret" not in str(caught.value)
    assert dict(os.environ) == environment


def test_an_interrupted_migration_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(tracking_uri: str) -> None:
        Path(tracking_uri.removeprefix("sqlite:///")).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(mlflow_store, "MlflowClient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        MLflowStore(f"sqlite:///{tmp_path / 'mlflow.db'}", "e", models=False).open(None)
    assert not list(tmp_path.iterdir())


def test_a_file_that_can_be_used_is_opened_for_the_first_run(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    tracker = MLflowTracker(uri=f"sqlite:///{database}")
    tracker.open("sweep")
    opened = time.time() * 1000
    assert not database.exists()
    tracker.log(make_run(tmp_path / "sweep/0"))
    (parent,) = stored(tracker, "sweep")
    assert parent.info.start_time <= opened

    client = MlflowClient(tracker.uri)
    experiment = client.get_experiment_by_name(tracker.experiment)
    assert experiment is not None
    # Another version of MLflow may have other tables.
    for version, is_opened in ((mlflow.__version__, False), ("0.1", True)):
        client.set_experiment_tag(experiment.experiment_id, OPENED_WITH, version)
        tracker.open("next")
        assert len(stored(tracker, "sweep")) == 1 + is_opened


# ---- A run folder has one copy in the store, whatever was interrupted.


def statuses(tracker: MLflowTracker, kind: str = "run") -> list[str]:
    return [run.info.status for run in stored(tracker, kind)]


def parents(tracker: MLflowTracker) -> set[str | None]:
    """The parents of all copies."""
    return {run.data.tags.get("mlflow.parentRunId") for run in stored(tracker, "run")}


def test_a_sweep_that_is_logged_twice_has_one_parent_and_one_copy_of_each_run(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    runs = [
        make_run(tmp_path / "sweep/0"),
        make_run(tmp_path / "sweep/1", status=FAILED),
    ]
    for _ in range(2):
        tracker.open(str(tmp_path / "sweep"), "abc")
        for run in (*runs, *runs):
            tracker.log(run)
        assert statuses(tracker, "sweep") == ["RUNNING"]
        tracker.close("failed")
    assert statuses(tracker, "sweep") == ["FAILED"]
    assert sorted(statuses(tracker)) == ["FAILED", "FINISHED"]
    (parent,) = stored(tracker, "sweep")
    assert parents(tracker) == {parent.info.run_id}
    assert parent.data.tags["sweep_id"] == "abc"
    assert {run.data.tags["job"] for run in stored(tracker, "run")} == {"0", "1"}


@pytest.mark.parametrize("status", ["RUNNING", "KILLED"])
def test_an_incomplete_copy_is_replaced(
    tracker: MLflowTracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    run = make_run(tmp_path / "sweep/0")
    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "log_artifacts", refuse)
        if (
            status == "RUNNING"
        ):  # as after a process was killed, or where the store fails again
            patched.setattr(MlflowClient, "set_terminated", refuse)
        tracker.open(str(tmp_path / "sweep"), "abc")
        for _ in range(2):
            with pytest.raises(
                TrackingError,
                match=naming(tracker.uri, "no space", "ltrbench sync DIR"),
            ):
                tracker.log(run)
        assert statuses(tracker) == [status, status]
    again = MLflowTracker(uri=tracker.uri)
    again.open(str(tmp_path / "sweep"), "abc")
    again.log(run)
    assert statuses(tracker) == ["FINISHED"]
    assert len(stored(tracker, "run", ViewType.ALL)) == 3


def refuse(*_: Any, **__: Any) -> None:
    raise OSError("no space")


def test_an_interrupted_job_is_killed_stored_once_and_replaced_by_its_finished_run(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep"
    interrupted = make_run(sweep / "0", status=FAILED, error=INTERRUPTED)
    for _ in range(2):  # a new process, such as sync, finds the copy in the store
        again = MLflowTracker(uri=tracker.uri)
        again.open(str(sweep), "abc")
        again.log(interrupted)
    (run,) = stored(tracker, "run", ViewType.ALL)
    assert (run.info.status, run.data.tags["error"]) == ("KILLED", "interrupted")
    shutil.rmtree(sweep / "0")
    again = MLflowTracker(uri=tracker.uri)
    again.open(str(sweep), "abc")
    again.log(make_run(sweep / "0", seed=2))
    assert statuses(tracker) == ["FINISHED"]


def test_a_run_that_was_logged_alone_becomes_a_child_of_its_sweep(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "sweep/0")
    for _ in range(2):
        tracker.open(None)
        tracker.log(run)
    assert parents(tracker) == {None}
    for _ in range(2):
        tracker.open(str(tmp_path / "sweep"), "abc")
        tracker.log(run)
    assert parents(tracker) == {stored(tracker, "sweep")[0].info.run_id}
    assert len(stored(tracker, "run")) == 1


def test_a_run_that_was_logged_alone_is_replaced_when_its_job_runs_again(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep"
    run = make_run(sweep / "0")
    for parent in (None, str(sweep)):
        tracker.open(parent, "abc")
        tracker.log(run)
    shutil.rmtree(sweep / "0")
    tracker.log(make_run(sweep / "0", seed=2, started="2026-01-03"))
    (copy,) = stored(tracker, "run")
    assert copy.info.start_time == milliseconds("2026-01-03")


def test_a_copied_sweep_replaces_no_run_of_the_original_and_a_moved_one_continues_it(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep"
    tracker.open(str(sweep), "abc")
    tracker.log(make_run(sweep / "0"))
    (parent,) = stored(tracker, "sweep")
    tracker.open(str(tmp_path / "copy"), "abc")
    again = make_run(tmp_path / "copy/0", seed=2, started="2026-01-03")
    tracker.log(again)
    (original, copied) = stored(tracker, "run")
    assert original.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert copied.data.tags["mlflow.parentRunId"] != parent.info.run_id
    sweep.rename(tmp_path / "moved")
    tracker.open(str(tmp_path / "moved"), "abc")
    tracker.log(read_run(tmp_path / "moved/0"))
    assert len(stored(tracker, "sweep")) == len(stored(tracker, "run")) == 2
    (original, _) = stored(tracker, "run")
    assert original.data.tags["folder"] == str(tmp_path / "moved/0")


def test_new_times_of_a_run_are_added_to_its_copy(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep"
    tracker.open(str(sweep), "abc")
    run = make_run(sweep / "0", shared_machine=True)
    tracker.log(run)
    (before,) = stored(tracker, "run")
    result = replace(run.result, seconds={"fit": 0.25}, shared_machine=False)
    tracker.log(rewrite_result(run, result))
    (after,) = stored(tracker, "run", ViewType.ALL)
    assert after.info.run_id == before.info.run_id
    assert after.data.metrics == {**before.data.metrics, "seconds/fit": 0.25}
    assert "shared_machine" not in after.data.tags
    tracker.log(read_run(run.path))
    assert len(stored(tracker, "run", ViewType.ALL)) == 1


# ---- Models: loaded, served and registered, with the scores that the run has.


RANKERS: dict[str, Ranker] = {
    "native": NativeRanker(num_trees=5),
    "lightgbm": LightGBMRanker(num_trees=5),
    "xgboost": XGBoostRanker(num_trees=5),
    "single_feature": SingleFeatureRanker(),
}


@pytest.fixture(scope="module")
def sweep(
    empty_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[MLflowTracker, dict[str, Run]]:
    """A finished and logged run of each ranker, in one sweep that is still open."""
    folder = tmp_path_factory.mktemp("sweep")
    shutil.copy(empty_database, folder / "mlflow.db")
    tracker = MLflowTracker(uri=f"sqlite:///{folder / 'mlflow.db'}")
    tracker.open("multirun/today")
    runs = {
        name: logged_run(name, ranker, tracker, folder)
        for name, ranker in RANKERS.items()
    }
    assert set(models(tracker)) == set(RANKERS)
    return tracker, runs


def logged_run(name: str, ranker: Ranker, tracker: MLflowTracker, folder: Path) -> Run:
    experiment = Experiment(
        model=name,
        ranker=ranker,
        source=Synthetic(name="small", num_queries=30),
        metrics=("ndcg@10",),
        spec=RunSpec(overrides=(f"model={name}",)),
    )
    return run_experiment(experiment, folder / name, tracker)


def models(tracker: MLflowTracker) -> dict[str, LoggedModel]:
    client = MlflowClient(tracker.uri)
    found = client.search_logged_models(
        [item.experiment_id for item in client.search_experiments()]
    )
    return {model.name: model for model in found}


@pytest.fixture
def store(sweep: tuple[MLflowTracker, dict[str, Run]]) -> Iterator[None]:
    """The store as MLflow's own for the length of a test."""
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(sweep[0].uri)
    yield
    mlflow.set_tracking_uri(before)


@pytest.mark.usefixtures("store")
def test_a_logged_model_gives_the_scores_of_its_run(
    sweep: tuple[MLflowTracker, dict[str, Run]],
) -> None:
    logged_to, runs = sweep
    test = Synthetic(name="small", num_queries=30).load().test.in_memory()
    named = pd.DataFrame(test.features, columns=list(test.feature_names))
    for name, model in models(logged_to).items():
        loaded = mlflow.pyfunc.load_model(f"models:/{model.model_id}")
        of_model = (
            MlflowClient(logged_to.uri).get_logged_model(model.model_id).metrics or []
        )
        assert {metric.key: metric.value for metric in of_model} == {
            "test/ndcg_at_10": runs[name].result.metrics["test/ndcg@10"]
        }
        expected = runs[name].scored("test").scores
        for features in (
            named,
            named.astype(np.float64),
            named[named.columns[::-1]].assign(other=1),
        ):
            assert np.array_equal(np.ravel(loaded.predict(features)), expected), name
        for unnamed in (named.drop(columns="bm25_body"), test.features):
            with pytest.raises(MlflowException):
                loaded.predict(unnamed)


@pytest.mark.parametrize(
    "ranker",
    [
        NativeRanker(num_trees=3),
        LightGBMRanker(num_trees=3),
        XGBoostRanker(num_trees=3),
        CatBoostRanker(num_trees=3),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
def test_a_logged_model_takes_the_rows_of_the_training_table(
    ranker: Ranker, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(30), 8),
            "label": rng.integers(0, 3, 240),
            "price [EUR]": rng.integers(0, 100, 240),
            "age": rng.integers(0, 9, 240) / 8,
            "colour": rng.choice(["red", "green", "blue"], 240),
        }
    )
    frame.to_parquet(tmp_path / "table.parquet")
    for categorical in ([], ["colour"]):
        features = ["price [EUR]", "age", *categorical]
        source = TableFiles(
            name="shop",
            train=str(tmp_path / "table.parquet"),
            features=features,
            categorical=categorical,
        )
        folder = tmp_path / f"{len(categorical)} categories"
        experiment = Experiment(model="shop", ranker=ranker, source=source)
        saved = folder / "mlflow"
        save_model(run_experiment(experiment, folder), saved)
        loaded = mlflow.pyfunc.load_model(str(saved))
        rows = frame[features[::-1]]
        expected = load(folder).predict(rows)
        assert len(set(expected.tolist())) > 3
        np.testing.assert_allclose(
            np.ravel(loaded.predict(rows)), expected, rtol=0, atol=1e-12
        )


@pytest.mark.usefixtures("store")
def test_a_peer_is_kept_in_its_own_flavour_and_nothing_as_a_pickle(
    sweep: tuple[MLflowTracker, dict[str, Run]], tmp_path: Path
) -> None:
    logged_to, runs = sweep
    for name, model in models(logged_to).items():
        info = mlflow.models.get_model_info(f"models:/{model.model_id}")
        flavours = (
            {"python_function", name}
            if name in ("lightgbm", "xgboost")
            else {"python_function"}
        )
        assert set(info.flavors) == flavours
        folder = Path(model.artifact_location.removeprefix("file://"))
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert not [
            path
            for path in files
            if path.suffix in (".pkl", ".pickle", ".joblib", ".py")
        ]
        assert not any(path.read_bytes().startswith(b"\x80\x04") for path in files)
        assert str(tmp_path) not in (folder / "MLmodel").read_text()
        assert (
            len(info.signature.inputs.inputs)
            == runs[name].result.data["train"]["features"]
        )
        example = json.loads((folder / "input_example.json").read_text())
        rows = np.array(example["data"])
        assert np.array_equal(rows.astype(np.float32), runs[name].input_example())
        assert example["columns"] == runs[name].result.feature_names


def test_the_parent_carries_the_comparison_and_the_best_run(
    sweep: tuple[MLflowTracker, dict[str, Run]], tmp_path: Path
) -> None:
    logged_to, runs = sweep
    (tmp_path / "comparison").mkdir()
    (tmp_path / "comparison/table.md").write_text("| model |")
    logged_to.summarize(
        tmp_path / "comparison", "| model |", runs["xgboost"], {"native/ndcg@10": 0.5}
    )
    client = MlflowClient(logged_to.uri)
    (parent,) = stored(logged_to, "sweep")
    assert [
        item.path for item in client.list_artifacts(parent.info.run_id, "comparison")
    ] == ["comparison/table.md"]
    assert parent.data.tags["mlflow.note.content"] == "| model |"
    assert (
        client.get_run(parent.data.tags["best_run"]).data.tags["backend"] == "xgboost"
    )
    assert parent.data.metrics["native/ndcg_at_10"] == 0.5
    assert (
        parent.data.metrics["test/ndcg_at_10"]
        == runs["xgboost"].result.metrics["test/ndcg@10"]
    )
    # Another model is the best, which has no trees, and a row is left out.
    best = runs["single_feature"]
    values = {"best/ndcg@10": 0.75}
    for _ in range(2):
        logged_to.summarize(tmp_path / "comparison", "| model |", best, values)
    (parent,) = stored(logged_to, "sweep")
    metrics = parent.data.metrics
    assert metrics["best/ndcg_at_10"] == 0.75
    assert metrics["test/ndcg_at_10"] == best.result.metrics["test/ndcg@10"]
    assert np.isnan([metrics["native/ndcg_at_10"], metrics["best_iteration"]]).all()
    history = client.get_metric_history(parent.info.run_id, "best_iteration")
    assert len(history) == 2
    logged_to.summarize(tmp_path / "comparison", "| model |", None, values)
    (parent,) = stored(logged_to, "sweep")
    assert "best_run" not in parent.data.tags


@pytest.mark.usefixtures("store")
def test_the_newest_registered_version_is_the_champion_and_says_why(
    sweep: tuple[MLflowTracker, dict[str, Run]],
) -> None:
    logged_to, runs = sweep
    client = MlflowClient(logged_to.uri)
    test = Synthetic(name="small", num_queries=30).load().test.in_memory()
    named = pd.DataFrame(test.features, columns=list(test.feature_names))
    for number, name in enumerate(("native", "lightgbm"), start=1):
        reason = f"{name}: best validation ndcg@10, 0.7188"
        registered = logged_to.register("ranker", runs[name], reason)
        assert registered == f"models:/ranker@champion is version {number}"
        version = client.get_model_version_by_alias("ranker", "champion")
        assert int(version.version) == number
        assert (version.description or "").startswith(
            f"{reason}\n\nOn small: python -m ltrbench"
        )
        expected = {
            "reason": reason,
            "backend": name,
            "data": "small",
            "folder": str(runs[name].path),
        }
        assert expected.items() <= version.tags.items()
        champion = mlflow.pyfunc.load_model("models:/ranker@champion")
        assert np.array_equal(
            np.ravel(champion.predict(named)), runs[name].scored("test").scores
        )
    # A run is one version, however often it is registered; it becomes the champion again.
    for number, name in enumerate(("native", "lightgbm"), start=1):
        address = f"models:/ranker@champion is version {number}"
        assert address in logged_to.register("ranker", runs[name], "again")
    assert len(client.search_model_versions("name = 'ranker'")) == 2


def test_a_job_that_runs_again_leaves_the_run_of_a_registered_version(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep"
    tracker.open(str(sweep), "abc")
    first = logged_run("0", SingleFeatureRanker(), tracker, sweep)
    tracker.register("ranker", first, "the first one")
    for _ in range(2):
        shutil.rmtree(sweep / "0")
        logged_run("0", SingleFeatureRanker(), tracker, sweep)
    (kept, child) = stored(tracker, "run")
    assert kept.data.tags["superseded"] == "true"
    assert "superseded" not in child.data.tags
    assert "mlflow.parentRunId" not in kept.data.tags
    client = MlflowClient(tracker.uri)
    version = client.get_model_version_by_alias("ranker", "champion")
    assert version.run_id == kept.info.run_id
    models_left = client.search_logged_models([kept.info.experiment_id])
    locations = {model.artifact_location for model in models_left}
    assert version.source in locations
    assert len(locations) == 2
