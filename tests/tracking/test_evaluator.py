"""`mlflow.models.evaluate(model_type="ranker")`, through the installed entry point: its values are those of
`ltrbench.metrics.evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightgbm
import mlflow
import numpy as np
import pandas as pd
import pytest
from messages import naming
from mlflow import MlflowClient

from ltrbench.data import read_table
from ltrbench.errors import LtrbenchError
from ltrbench.metrics import (
    DEFAULT,
    METRICS_OF_A_RUN,
    Convention,
    evaluate,
    preset,
    with_settings,
)
from ltrbench.tracking.mlflow.store import MLflowStore

pytestmark = [
    pytest.mark.slow,
    # MLflow uses what SQLAlchemy has deprecated, and leaves its database connections to the garbage
    # collector, which complains of them from Python 3.13 on.
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
    # MLflow's own way with a DataFrame, which pandas 3 has deprecated.
    pytest.mark.filterwarnings(
        "ignore:Starting with pandas version 4.0 all arguments of all will be"
    ),
    pytest.mark.filterwarnings(
        "ignore:The inplace keyword in DataFrame.drop is deprecated"
    ),
    # MLflow's advice on the schema of any data whose labels are integers.
    pytest.mark.filterwarnings(
        "ignore:Hint. Inferred schema contains integer column:UserWarning"
    ),
    # Of a type that MLflow itself declares, at its first evaluation; the text begins with a colour.
    pytest.mark.filterwarnings(
        "ignore:.*Any type hint is inferred as AnyType:UserWarning"
    ),
]

METRICS = ["ndcg@10", "map", "mrr"]
KEYS = {"ndcg@10": "ndcg_at_10", "map": "map", "mrr": "mrr"}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with its migrations done, which take seconds."""
    uri = f"sqlite:///{tmp_path_factory.mktemp('database') / 'mlflow.db'}"
    MLflowStore(uri, "warm", models=False).open(None)
    return uri


@pytest.fixture(autouse=True)
def store(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """MLflow is told by its environment only, so that nothing of it is left behind."""
    client = MlflowClient(database)
    client.create_experiment(
        str(tmp_path), artifact_location=(tmp_path / "artifacts").as_uri()
    )
    monkeypatch.setenv("MLFLOW_TRACKING_URI", database)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", str(tmp_path))
    yield
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.clear_active_model()


@pytest.fixture
def frame() -> pd.DataFrame:
    """Nine queries of one to nine documents; in the first there is nothing to find, and scores tie."""
    rng = np.random.default_rng(7)
    sizes = np.arange(1, 10)
    queries = np.repeat([f"00{size}" for size in sizes], sizes)
    documents = len(queries)
    labels = rng.integers(0, 4, documents)
    labels[0] = 0
    return pd.DataFrame(
        {
            "query_id": queries,
            "document_id": [f"d{row}" for row in rng.permutation(documents)],
            "label": labels,
            "price": rng.normal(size=documents),
            "clicks": rng.integers(0, 5, documents).astype(float),
        }
    )


def by_clicks(features: pd.DataFrame) -> pd.Series[float]:
    return features["clicks"]


def run_evaluation(data: Any, model: Any = by_clicks, **given: Any) -> Any:
    """MLflow's evaluation with the usual arguments."""
    config = {"metrics": METRICS, **given.pop("config", {})}
    arguments = {
        "targets": "label",
        "model_type": "ranker",
        "evaluator_config": config,
        **given,
    }
    return mlflow.models.evaluate(model, data, **arguments)  # type: ignore[no-untyped-call]


def expected(
    frame: pd.DataFrame, convention: Convention = DEFAULT, **columns: Any
) -> dict[str, float]:
    means = evaluate(
        read_table(frame, **columns), frame["clicks"].to_numpy(), METRICS, convention
    ).means
    return {KEYS[name]: mean for name, mean in means.items()}


def test_a_logged_model_is_given_its_features_only_and_carries_the_metrics(
    frame: pd.DataFrame,
) -> None:
    booster = lightgbm.train(
        {
            "objective": "lambdarank",
            "min_data_in_leaf": 1,
            "verbosity": -1,
            "num_threads": 1,
        },
        lightgbm.Dataset(
            frame[["price", "clicks"]], frame["label"], group=np.arange(1, 10)
        ),
        num_boost_round=3,
    )
    logged = mlflow.lightgbm.log_model(
        booster, name="ranker", pip_requirements=["lightgbm"]
    )
    scored = frame.assign(clicks=booster.predict(frame[["price", "clicks"]]))
    # LightGBM refuses another number of features.
    assert run_evaluation(frame, model=logged.model_uri).metrics == expected(scored)
    assert run_evaluation(
        frame, model=mlflow.pyfunc.load_model(logged.model_uri)
    ).metrics == expected(scored)
    of_model = MlflowClient().get_logged_model(logged.model_id).metrics
    assert {metric.key: metric.value for metric in of_model or []} == expected(scored)


def test_the_artifacts_hold_the_value_of_every_query_and_what_was_skipped(
    frame: pd.DataFrame,
) -> None:
    result = run_evaluation(frame)
    evaluation = evaluate(read_table(frame), frame["clicks"].to_numpy(), METRICS)
    queries = [row[0] for row in result.artifacts["per_query"].content["data"]]
    assert queries == [f"00{size}" for size in range(1, 10)]
    table = result.tables["per_query"]
    assert table["num_documents"].tolist() == list(range(1, 10))
    for name in METRICS:
        # A table of MLflow keeps ten decimals.
        np.testing.assert_allclose(table[name], evaluation.per_query[name], atol=1e-9)
    about = result.artifacts["evaluation"].content
    assert about["skipped"] == evaluation.skipped == dict.fromkeys(METRICS, 1)
    assert about["share_without_relevant"] == 1 / 9
    assert about["convention"] == DEFAULT.describe()
    assert about["columns"] == {
        "label": "label",
        "query": "query_id",
        "document": "document_id",
    }
    assert about["features"] == ["price", "clicks"]
    stored = mlflow.artifacts.load_dict(result.artifacts["evaluation"].uri)
    assert stored == about


def test_without_a_list_the_metrics_are_those_of_the_command_line(
    frame: pd.DataFrame,
) -> None:
    result = run_evaluation(frame, evaluator_config=None)
    means = evaluate(
        read_table(frame), frame["clicks"].to_numpy(), METRICS_OF_A_RUN
    ).means
    assert result.metrics == {
        name.replace("@", "_at_"): mean for name, mean in means.items()
    }


def seen_columns(frame: pd.DataFrame, **config: Any) -> list[str]:
    """What the model is given."""
    seen: list[str] = []

    def model(features: pd.DataFrame) -> pd.Series[float]:
        seen.extend(features.columns)
        return features["clicks"]

    run_evaluation(frame, model=model, config=config)
    return seen


def test_the_model_sees_the_listed_features_in_their_order(frame: pd.DataFrame) -> None:
    frame = frame.assign(weight=frame["query_id"].astype(float), position=1)
    listed = ["clicks", "weight", "price"]
    assert seen_columns(frame, features=listed) == listed
    # A feature that is called weight weighs nothing.
    assert run_evaluation(frame, config={"features": listed}).metrics == expected(
        frame.drop(columns="weight")
    )


def renamed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(
        columns={"query_id": "session", "label": "grade", "document_id": "sku"}
    )


RANKLIB = with_settings(
    preset("ranklib"), {"gain": "[0, 1, 3, 5]", "average_precision_cutoff": "true"}
)


@pytest.mark.parametrize(
    ("change", "given", "convention"),
    [
        (None, {}, DEFAULT),
        (
            lambda frame: frame.assign(weight=frame["query_id"].astype(float)),
            {"targets": None},
            DEFAULT,
        ),
        (
            lambda frame: frame.sample(frac=1, random_state=1),
            {"config": {"sort_queries": True}},
            DEFAULT,
        ),
        (
            lambda frame: frame.assign(score=frame["clicks"]),
            {"model": None, "predictions": "score"},
            DEFAULT,
        ),
        (None, {"model": lambda features: features, "predictions": "clicks"}, DEFAULT),
        (
            None,
            {"config": {"convention": RANKLIB}},
            RANKLIB,
        ),
        (
            renamed,
            {
                "targets": "grade",
                "config": {
                    "query": "session",
                    "document": "sku",
                    "convention": "trec_eval",
                },
            },
            preset("trec_eval"),
        ),
    ],
)
def test_the_metrics_are_those_of_ltrbench(
    frame: pd.DataFrame, change: Any, given: dict[str, Any], convention: Convention
) -> None:
    changed = change(frame) if change else frame
    weight = {"weight": "weight"} if "weight" in changed else {}
    result = run_evaluation(changed, **given)
    means = expected(changed if weight else frame, convention, **weight)
    assert result.metrics == pytest.approx(means, rel=1e-12)
    assert result.artifacts["evaluation"].content["convention"] == convention.describe()


def of_model(
    model: Callable[[pd.DataFrame], Any], **given: Any
) -> Callable[[pd.DataFrame], Any]:
    return lambda frame: run_evaluation(frame, model=model, **given)


def of_config(**config: Any) -> Callable[[pd.DataFrame], Any]:
    return lambda frame: run_evaluation(frame, config=config)


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (
            of_model(lambda features: features["clicks"][1:]),
            ("shape (44,)", "45 documents"),
        ),
        (of_model(lambda features: ["high"] * len(features)), ("row 1", "no number")),
        (
            of_model(lambda features: features),
            ("shape (45, 2)", "predictions='COLUMN'"),
        ),
        (
            lambda frame: run_evaluation(frame, model=None),
            ("model", "predictions='COLUMN'"),
        ),
        (of_config(metrics=["ndgc@10"]), ("'ndgc@10'", "'ndcg'")),
        (of_config(querry="query_id"), ("key 'querry'", "'query'", "targets")),
        (of_config(query="query"), ("column 'query'", "'query_id'")),
    ],
)
def test_a_mistake_is_told_with_its_remedy_and_logs_no_metric(
    frame: pd.DataFrame, call: Callable[[pd.DataFrame], Any], parts: tuple[str, ...]
) -> None:
    with (
        mlflow.start_run() as active,
        pytest.raises(LtrbenchError, match=naming(*parts)),
    ):
        call(frame)
    assert mlflow.get_run(active.info.run_id).data.metrics == {}
