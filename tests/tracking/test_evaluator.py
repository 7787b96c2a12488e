"""`mlflow.models.evaluate(model_type="ranker")`, through the installed entry point: its figures are those of
`ltrbench.metrics.evaluate`."""

from __future__ import annotations

import subprocess
import sys
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
from mlflow.data.pandas_dataset import from_pandas

from ltrbench.cli.verbs.data.evaluate import METRICS_OF_A_RUN
from ltrbench.data import read_table
from ltrbench.errors import ConfigError, DataError, LtrbenchError, UndefinedMetricError
from ltrbench.metrics import DEFAULT, Convention, evaluate, preset, with_settings
from ltrbench.tracking.evaluator import METRICS_OF_EVALUATOR, RankerEvaluator
from ltrbench.tracking.mlflow import MLflowTracker

pytestmark = [
    pytest.mark.slow,
    # MLflow uses what SQLAlchemy has deprecated, and leaves its database connections to the garbage
    # collector, which complains of them from Python 3.13 on.
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
    # MLflow's own way with a DataFrame, which pandas 3 has deprecated.
    pytest.mark.filterwarnings("ignore:Starting with pandas version 4.0 all arguments of all will be"),
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.drop is deprecated"),
    # MLflow's advice on the schema of any data whose labels are integers.
    pytest.mark.filterwarnings("ignore:Hint. Inferred schema contains integer column:UserWarning"),
    # Of a type that MLflow itself declares, at its first evaluation; the text begins with a colour.
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType:UserWarning"),
]

METRICS = ["ndcg@10", "map", "mrr"]
KEYS = {"ndcg@10": "ndcg_at_10", "map": "map", "mrr": "mrr"}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with its migrations done, which take seconds."""
    uri = f"sqlite:///{tmp_path_factory.mktemp('database') / 'mlflow.db'}"
    MLflowTracker(uri=uri, experiment="warm").open(None)
    return uri


@pytest.fixture(autouse=True)
def store(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """MLflow is told by its environment only, so that nothing of it is left behind."""
    client = MlflowClient(database)
    client.create_experiment(str(tmp_path), artifact_location=(tmp_path / "artifacts").as_uri())
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
    arguments = {"targets": "label", "model_type": "ranker", "evaluator_config": config, **given}
    return mlflow.models.evaluate(model, data, **arguments)  # type: ignore[no-untyped-call]


def expected(frame: pd.DataFrame, convention: Convention = DEFAULT, **columns: Any) -> dict[str, float]:
    means = evaluate(read_table(frame, **columns), frame["clicks"].to_numpy(), METRICS, convention).means
    return {KEYS[name]: mean for name, mean in means.items()}


@pytest.mark.parametrize("evaluators", [None, "ltrbench"])
def test_a_function_of_the_features_gets_the_metrics_of_ltrbench(
    frame: pd.DataFrame, evaluators: str | None
) -> None:
    assert run_evaluation(frame, evaluators=evaluators).metrics == expected(frame)


def test_a_list_of_evaluators_takes_a_configuration_each(frame: pd.DataFrame) -> None:
    config = {"ltrbench": {"metrics": METRICS}}
    assert run_evaluation(frame, evaluators=["ltrbench"], evaluator_config=config).metrics == expected(frame)


def test_scores_may_stand_in_a_column_of_the_data(frame: pd.DataFrame) -> None:
    scored = frame.assign(score=frame["clicks"])
    assert run_evaluation(scored, model=None, predictions="score").metrics == expected(frame)


def test_mlflows_own_data_set_names_its_columns_itself(frame: pd.DataFrame) -> None:
    data = from_pandas(frame, targets="label")
    assert run_evaluation(data, targets=None).metrics == expected(frame)


def test_a_logged_model_is_given_its_features_only_and_carries_the_metrics(frame: pd.DataFrame) -> None:
    booster = lightgbm.train(
        {"objective": "lambdarank", "min_data_in_leaf": 1, "verbosity": -1, "num_threads": 1},
        lightgbm.Dataset(frame[["price", "clicks"]], frame["label"], group=np.arange(1, 10)),
        num_boost_round=3,
    )
    logged = mlflow.lightgbm.log_model(booster, name="ranker", pip_requirements=["lightgbm"])
    scored = frame.assign(clicks=booster.predict(frame[["price", "clicks"]]))
    # LightGBM refuses another number of features.
    assert run_evaluation(frame, model=logged.model_uri).metrics == expected(scored)
    assert run_evaluation(frame, model=mlflow.pyfunc.load_model(logged.model_uri)).metrics == expected(scored)
    of_model = MlflowClient().get_logged_model(logged.model_id).metrics
    assert {metric.key: metric.value for metric in of_model or []} == expected(scored)


def test_the_metrics_and_the_convention_are_logged_to_the_active_run(frame: pd.DataFrame) -> None:
    with mlflow.start_run() as active:
        result = run_evaluation(frame, config={"convention": "ranklib"})
    run = mlflow.get_run(active.info.run_id)
    assert result.run_id == active.info.run_id
    assert run.data.metrics == result.metrics == expected(frame, preset("ranklib"))
    assert run.data.tags["convention"] == "ranklib"


def test_the_artifacts_hold_the_value_of_every_query_and_what_was_skipped(frame: pd.DataFrame) -> None:
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
    assert about["columns"] == {"label": "label", "query": "query_id", "document": "document_id"}
    assert about["features"] == ["price", "clicks"]
    stored = mlflow.artifacts.load_dict(result.artifacts["evaluation"].uri)
    assert stored == about


def test_a_saved_result_is_loaded_with_its_artifacts(frame: pd.DataFrame, tmp_path: Path) -> None:
    result = run_evaluation(frame)
    result.save(str(tmp_path / "saved"))
    loaded = mlflow.models.EvaluationResult.load(str(tmp_path / "saved"))  # type: ignore[no-untyped-call]
    assert loaded.metrics == result.metrics
    assert {name: artifact.content for name, artifact in loaded.artifacts.items()} == {
        name: artifact.content for name, artifact in result.artifacts.items()
    }


def test_two_evaluations_of_one_run_stand_side_by_side_under_their_prefixes(frame: pd.DataFrame) -> None:
    with mlflow.start_run() as active:
        for name in ("default", "ranklib"):
            run_evaluation(frame, config={"convention": name, "metric_prefix": f"{name}_"})
    run = mlflow.get_run(active.info.run_id)
    assert run.data.metrics == {
        f"{name}_{key}": mean
        for name in ("default", "ranklib")
        for key, mean in expected(frame, preset(name)).items()
    }
    assert {run.data.tags[f"{name}_convention"] for name in ("default", "ranklib")} == {"default", "ranklib"}
    files = {item.path for item in MlflowClient().list_artifacts(run.info.run_id)}
    assert {"default_per_query.json", "ranklib_per_query.json", "ranklib_evaluation.json"} <= files


def test_without_a_list_the_metrics_are_those_of_the_command_line(frame: pd.DataFrame) -> None:
    assert ",".join(METRICS_OF_EVALUATOR) == METRICS_OF_A_RUN
    result = run_evaluation(frame, evaluator_config=None)
    means = evaluate(read_table(frame), frame["clicks"].to_numpy(), METRICS_OF_EVALUATOR).means
    assert result.metrics == {name.replace("@", "_at_"): mean for name, mean in means.items()}


def test_metrics_may_be_written_as_on_the_command_line(frame: pd.DataFrame) -> None:
    assert run_evaluation(frame, config={"metrics": "ndcg@10, map,mrr"}).metrics == expected(frame)


@pytest.mark.parametrize(
    ("given", "convention"),
    [
        ({"convention": "trec_eval"}, preset("trec_eval")),  # its ties go by the document ids
        ({"convention": preset("catboost")}, preset("catboost")),
        ({"settings": {"no_relevant": 0}}, with_settings(DEFAULT, {"no_relevant": "0"})),
        (
            {"convention": "ranklib", "settings": {"gain": [0, 1, 3, 5], "average_precision_cutoff": True}},
            with_settings(preset("ranklib"), {"gain": "[0, 1, 3, 5]", "average_precision_cutoff": "true"}),
        ),
    ],
)
def test_the_convention_is_a_name_or_an_object_with_settings(
    frame: pd.DataFrame, given: dict[str, Any], convention: Convention
) -> None:
    result = run_evaluation(frame, config=given)
    assert result.metrics == expected(frame, convention)
    assert result.artifacts["evaluation"].content["convention"] == convention.describe()


@pytest.mark.parametrize("column", ["weight", "importance"])
def test_a_weight_of_the_queries_counts_in_the_mean(frame: pd.DataFrame, column: str) -> None:
    frame = frame.assign(**{column: frame["query_id"].astype(float)})
    result = run_evaluation(frame, config={} if column == "weight" else {"weight": column})
    assert result.metrics == expected(frame, weight=column) != expected(frame.drop(columns=column))


def test_columns_of_other_names_take_the_roles_that_they_are_given(frame: pd.DataFrame) -> None:
    renamed = frame.rename(columns={"query_id": "session", "label": "grade", "document_id": "sku"})
    config = {"query": "session", "document": "sku", "convention": "trec_eval"}
    assert run_evaluation(renamed, targets="grade", config=config).metrics == expected(
        frame, preset("trec_eval")
    )


def test_without_targets_the_label_is_found_by_its_usual_name(frame: pd.DataFrame) -> None:
    assert run_evaluation(frame, targets=None).metrics == expected(frame)


def test_rows_of_a_query_apart_are_refused_as_by_read_table(frame: pd.DataFrame) -> None:
    apart = frame.iloc[[0, 1, 3, 2]]
    with pytest.raises(DataError) as refusal:
        read_table(apart)
    with pytest.raises(DataError) as ours:
        run_evaluation(apart)
    assert str(ours.value) == str(refusal.value)
    assert "sort_queries=true" in str(ours.value)
    assert any("evaluator_config" in note for note in ours.value.__notes__)


@pytest.mark.parametrize("seed", range(3))
def test_scores_follow_their_rows_where_queries_are_brought_together(frame: pd.DataFrame, seed: int) -> None:
    shuffled = frame.sample(frac=1, random_state=seed)
    result = run_evaluation(shuffled, config={"sort_queries": True})
    # The queries are summed in another order, in that of their first rows.
    assert result.metrics == pytest.approx(expected(frame), rel=1e-12)


def seen_columns(frame: pd.DataFrame, **config: Any) -> list[str]:
    """What the model is given."""
    seen: list[str] = []

    def model(features: pd.DataFrame) -> pd.Series[float]:
        seen.extend(features.columns)
        return features["clicks"]

    run_evaluation(frame, model=model, config=config)
    return seen


def test_the_model_sees_no_column_that_has_a_role(frame: pd.DataFrame) -> None:
    frame = frame.assign(weight=1.0, position=1, session=frame["query_id"])
    assert seen_columns(frame, query="session") == ["query_id", "price", "clicks"]
    assert seen_columns(frame) == ["price", "clicks", "session"]


def test_the_model_sees_the_listed_features_in_their_order(frame: pd.DataFrame) -> None:
    frame = frame.assign(weight=frame["query_id"].astype(float), position=1)
    listed = ["clicks", "weight", "price"]
    assert seen_columns(frame, features=listed) == listed
    # A feature that is called weight weighs nothing.
    assert run_evaluation(frame, config={"features": listed}).metrics == expected(
        frame.drop(columns="weight")
    )


@pytest.mark.parametrize(
    "model",
    [
        lambda features: features["clicks"].to_numpy(),
        lambda features: features["clicks"].tolist(),
        lambda features: features[["clicks"]],
        lambda features: features[["clicks"]].to_numpy(),
        lambda features: features["clicks"].astype(object),
        lambda features: features["clicks"].astype("float32"),
        lambda features: features["clicks"].astype(int),
    ],
)
def test_any_form_of_one_number_a_document_is_a_score(
    frame: pd.DataFrame, model: Callable[[pd.DataFrame], Any]
) -> None:
    assert run_evaluation(frame, model=model).metrics == expected(frame)


def test_of_several_columns_that_a_model_returns_one_is_named(frame: pd.DataFrame) -> None:
    result = run_evaluation(frame, model=lambda features: features, predictions="clicks")
    assert result.metrics == expected(frame)
    with pytest.raises(DataError, match=naming("price, clicks", "predictions='COLUMN'")):
        run_evaluation(frame, model=lambda features: features)
    with pytest.raises(DataError, match=naming("'click'", "'clicks'")):
        run_evaluation(frame, model=lambda features: features, predictions="click")


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        (lambda features: features["clicks"][1:], ("shape (44,)", "45 documents")),
        (lambda features: features.to_numpy(), ("shape (45, 2)", "45 documents")),
        (lambda features: 1.0, ("shape ()", "45 documents")),
        (lambda features: ["high"] * len(features), ("not numbers", "high")),
        (lambda features: [[1.0], [1.0, 2.0]], ("not numbers",)),
        (lambda features: features["clicks"].where(features.index != 3), ("row 4", "NaN")),
    ],
)
def test_what_is_no_score_a_document_is_refused(
    frame: pd.DataFrame, model: Callable[[pd.DataFrame], Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(DataError, match=naming(*parts)):
        run_evaluation(frame, model=model)


@pytest.mark.parametrize(
    ("config", "kind", "parts"),
    [
        ({"metrics": ["ndgc@10"]}, ConfigError, ("'ndgc@10'", "'ndcg'")),
        ({"metrics": []}, ConfigError, ("evaluator_config", "metrics", "['ndcg@10', 'map']")),
        ({"metrics": 10}, ConfigError, ("metrics is 10", "['ndcg@10', 'map']")),
        ({"convention": "lightgmb"}, ConfigError, ("'lightgmb'", "'lightgbm'")),
        ({"convention": "lightgbm"}, UndefinedMetricError, ("lightgbm", "mrr")),
        ({"settings": {"tie": "worst"}}, ConfigError, ("'tie'", "'ties'")),
        ({"querry": "query_id"}, ConfigError, ("key 'querry'", "'query'", "targets")),
        ({"sort_queries": "false"}, ConfigError, ("sort_queries is 'false'", "True or False")),
        ({"query": "query"}, DataError, ("column 'query'", "'query_id'")),
        ({"weight": "wait"}, DataError, ("column 'wait'", "weight")),
        ({"features": ["prize"]}, DataError, ("column 'prize'", "'price'")),
    ],
)
def test_a_mistake_in_the_configuration_is_told_with_its_remedy(
    frame: pd.DataFrame, config: dict[str, Any], kind: type[LtrbenchError], parts: tuple[str, ...]
) -> None:
    with pytest.raises(kind, match=naming(*parts)):
        run_evaluation(frame, config=config)


def test_an_absent_query_or_label_is_told_with_where_to_name_it(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=naming("query_id or qid", "evaluator_config={'query': 'COLUMN'}")):
        run_evaluation(frame.drop(columns="query_id"))
    with pytest.raises(DataError, match=naming("label or relevance", "targets='COLUMN'")):
        run_evaluation(frame.drop(columns="label"), targets=None)
    with pytest.raises(DataError, match=naming("feature_names", "evaluator_config={'features': [...]}")):
        run_evaluation(frame, feature_names=["clicks", "price"])


def test_a_label_that_is_none_is_told_with_its_row(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=naming("row 2:", "-1.0", "column 'label'")):
        run_evaluation(frame.assign(label=frame["label"].where(frame.index != 1, -1)))


def test_what_cannot_be_evaluated_is_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(ConfigError, match=naming("model", "predictions='COLUMN'")):
        run_evaluation(frame, model=None)
    with pytest.raises(ConfigError, match=naming("custom_artifacts", "'ranker'", "leave it out")):
        run_evaluation(frame, custom_artifacts=[lambda table, metrics, folder: {}])
    with pytest.raises(DataError, match=naming("type ndarray", "DataFrame", "query")):
        run_evaluation(frame[["price"]].to_numpy(), targets=frame["label"].to_numpy())


def test_where_no_query_counts_a_metric_is_nan(frame: pd.DataFrame) -> None:
    result = run_evaluation(frame.assign(label=0))
    assert np.isnan(list(result.metrics.values())).all()
    assert result.artifacts["evaluation"].content["metrics"] == dict.fromkeys(METRICS)


def test_a_failed_evaluation_logs_no_metric(frame: pd.DataFrame) -> None:
    with mlflow.start_run() as active, pytest.raises(DataError):
        run_evaluation(frame, model=lambda features: 1.0)
    assert mlflow.get_run(active.info.run_id).data.metrics == {}


def test_rankers_are_evaluated_and_nothing_else() -> None:
    kinds = ["ranker", "regressor", "classifier", "retriever", "text", "", None]
    can = [kind for kind in kinds if RankerEvaluator.can_evaluate(model_type=kind, evaluator_config={})]
    assert can == ["ranker"]


def test_a_regressor_on_the_same_data_is_evaluated_as_if_ltrbench_were_not_there(
    frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def regress() -> Any:
        return run_evaluation(frame, model_type="regressor", config={"log_model_explainability": False})

    beside = regress()
    # MLflow loads its evaluators, and with them ours, when this is first imported.
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry

    monkeypatch.delitem(_model_evaluation_registry._registry, "ltrbench")
    alone = regress()
    assert beside.metrics == alone.metrics
    assert beside.artifacts.keys() == alone.artifacts.keys()


def test_importing_mlflow_does_not_import_ltrbench() -> None:
    script = "import sys, mlflow; print('ltrbench' in sys.modules, 'numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
