"""Models in MLflow: loaded, served and registered, with the scores that the run has."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import LoggedModel
from mlflow.entities import Run as MlflowRun

from ltrbench.data.synthetic import Synthetic
from ltrbench.experiment import Experiment, run
from ltrbench.rankers import Ranker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.runs import Run
from ltrbench.tracking.mlflow import MLflowTracker

pytestmark = [
    pytest.mark.slow,
    # MLflow's own, with SQLAlchemy 2.1.
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]

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
    runs = {name: logged_run(name, ranker, tracker, folder) for name, ranker in RANKERS.items()}
    assert set(models(tracker)) == set(RANKERS)
    return tracker, runs


def logged_run(name: str, ranker: Ranker, tracker: MLflowTracker, folder: Path) -> Run:
    experiment = Experiment(
        model=name,
        ranker=ranker,
        source=Synthetic(name="small", num_queries=30),
        metrics=("ndcg@10",),
        overrides=(f"model={name}",),
    )
    return run(experiment, folder / name, tracker)


def models(tracker: MLflowTracker) -> dict[str, LoggedModel]:
    client = MlflowClient(tracker.uri)
    found = client.search_logged_models([item.experiment_id for item in client.search_experiments()])
    return {model.name: model for model in found}


@pytest.fixture(autouse=True)
def store(sweep: tuple[MLflowTracker, dict[str, Run]]) -> Iterator[None]:
    """The store as MLflow's own for the length of a test."""
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(sweep[0].uri)
    yield
    mlflow.set_tracking_uri(before)


def test_a_logged_model_gives_the_scores_of_its_run(sweep: tuple[MLflowTracker, dict[str, Run]]) -> None:
    logged_to, runs = sweep
    test = Synthetic(name="small", num_queries=30).load().test.in_memory()
    named = pd.DataFrame(test.features, columns=list(test.feature_names))
    for name, model in models(logged_to).items():
        loaded = mlflow.pyfunc.load_model(f"models:/{model.model_id}")
        of_model = MlflowClient(logged_to.uri).get_logged_model(model.model_id).metrics or []
        assert {metric.key: metric.value for metric in of_model} == {
            "test/ndcg_at_10": runs[name].result.metrics["test/ndcg@10"]
        }
        expected = runs[name].scored("test").scores
        for features in (test.features, test.features.astype(np.float64), named, named.astype(np.float64)):
            assert np.array_equal(np.ravel(loaded.predict(features)), expected), name


def test_a_peer_is_kept_in_its_own_flavour_and_nothing_as_a_pickle(
    sweep: tuple[MLflowTracker, dict[str, Run]], tmp_path: Path
) -> None:
    logged_to, runs = sweep
    for name, model in models(logged_to).items():
        info = mlflow.models.get_model_info(f"models:/{model.model_id}")
        flavours = {"python_function", name} if name in ("lightgbm", "xgboost") else {"python_function"}
        assert set(info.flavors) == flavours
        folder = Path(model.artifact_location.removeprefix("file://"))
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert not [path for path in files if path.suffix in (".pkl", ".pickle", ".joblib", ".py")]
        assert not any(path.read_bytes().startswith(b"\x80\x04") for path in files)
        assert str(tmp_path) not in (folder / "MLmodel").read_text()
        assert len(info.signature.inputs.inputs) == runs[name].result.data["train"]["features"]
        example = np.array(json.loads((folder / "input_example.json").read_text()))
        assert np.array_equal(example.astype(np.float32), runs[name].input_example())


def test_the_parent_carries_the_comparison_and_the_best_run(
    sweep: tuple[MLflowTracker, dict[str, Run]], tmp_path: Path
) -> None:
    logged_to, runs = sweep
    (tmp_path / "comparison").mkdir()
    (tmp_path / "comparison/table.md").write_text("| model |")
    logged_to.summarize(tmp_path / "comparison", "| model |", runs["xgboost"], {"native/ndcg@10": 0.5})
    client = MlflowClient(logged_to.uri)
    (parent,) = (item for item in all_runs(logged_to) if item.data.tags["kind"] == "sweep")
    assert [item.path for item in client.list_artifacts(parent.info.run_id, "comparison")] == [
        "comparison/table.md"
    ]
    assert parent.data.tags["mlflow.note.content"] == "| model |"
    assert client.get_run(parent.data.tags["best_run"]).data.tags["backend"] == "xgboost"
    assert parent.data.metrics["native/ndcg_at_10"] == 0.5
    assert parent.data.metrics["test/ndcg_at_10"] == runs["xgboost"].result.metrics["test/ndcg@10"]


def test_the_newest_registered_version_is_the_champion_and_says_why(
    sweep: tuple[MLflowTracker, dict[str, Run]],
) -> None:
    logged_to, runs = sweep
    client = MlflowClient(logged_to.uri)
    test = Synthetic(name="small", num_queries=30).load().test.in_memory()
    for number, name in enumerate(("native", "lightgbm"), start=1):
        reason = f"{name}: best validation ndcg@10, 0.7188"
        registered = logged_to.register("ranker", runs[name], reason)
        assert registered == f"models:/ranker@champion is version {number}"
        version = client.get_model_version_by_alias("ranker", "champion")
        assert int(version.version) == number
        assert (version.description or "").startswith(f"{reason}\n\nOn small: python -m ltrbench")
        expected = {"reason": reason, "backend": name, "data": "small", "folder": str(runs[name].path)}
        assert expected.items() <= version.tags.items()
        champion = mlflow.pyfunc.load_model("models:/ranker@champion")
        assert np.array_equal(np.ravel(champion.predict(test.features)), runs[name].scored("test").scores)


def all_runs(tracker: MLflowTracker) -> list[MlflowRun]:
    client = MlflowClient(tracker.uri)
    return list(client.search_runs([item.experiment_id for item in client.search_experiments()]))
