"""`mlflow.models.evaluate(..., model_type="ranker")`: the metrics and conventions of ltrbench for any model.

MLflow finds `RankerEvaluator` through the entry point in pyproject.toml when ltrbench is installed. It
imports the evaluator at the first evaluation, not at `import mlflow`.

The data is a DataFrame with one row per document. The columns of `ltrbench.data.dataset.ROLES`
are the query, weight and document id; the other columns are the features of the model. `evaluator_config`
takes the keys of `_KEYS`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ltrbench.data import RankingDataset, read_table
from ltrbench.data.dataset import ROLES
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.metrics import DEFAULT, Convention, evaluate, parse_metric, preset, with_settings
from ltrbench.shapes import Scores
from ltrbench.tracking.mlflow_entities import metric_key

try:
    import mlflow
    from mlflow import MlflowClient
    from mlflow.entities import Metric, RunTag
    from mlflow.models.evaluation import EvaluationDataset, EvaluationResult, ModelEvaluator
    from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact
except ImportError as error:
    raise ImportError("evaluating with MLflow needs the package mlflow: pip install mlflow") from error

METRICS_OF_EVALUATOR = ("ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr", "precision@10")
"""The metrics of conf/config.yaml, which only Hydra reads; a test checks that the two agree."""

# Key of evaluator_config -> its value, for the documentation.
_KEYS = {
    **dict.fromkeys(("query", "document", "weight", "position"), "the name of a column"),
    "features": "a list of columns, the features of the model in this order",
    "metrics": "names of metrics, as in ['ndcg@10', 'map']",
    "convention": "the name of a convention, or a Convention",
    "settings": "a dictionary of settings of the convention, as in {'no_relevant': 0}",
    "sort_queries": "True or False",
    "metric_prefix": "a prefix for the names of metrics and artifacts",
}
# Columns that `_read_judged` adds; the tab avoids a clash with columns of the user.
_ROW, _NO_FEATURE = "\trow", "\tfeature"


class RankerEvaluator(ModelEvaluator):
    """The evaluator that MLflow calls for the model type "ranker", and for no other."""

    @classmethod
    def can_evaluate(cls, *, model_type: str | None, **_: Any) -> bool:
        return model_type == "ranker"

    def evaluate(
        self,
        *,
        dataset: EvaluationDataset,
        run_id: str,
        evaluator_config: Mapping[str, Any],
        model: Any = None,
        predictions: str | None = None,
        model_id: str | None = None,
        **_: Any,
    ) -> EvaluationResult:
        """Scores the documents, computes the metrics, and logs them to the run.

        Args:
            dataset: the DataFrame; `targets` is the column of labels.
            evaluator_config: see `_KEYS`.
            model: the user's model, loaded by MLflow; None: the scores are in the dataset.
            predictions: column of the scores in the output of the model, if the output has several columns.

        Raises:
            ConfigError: A key, metric or convention is unknown.
            DataError: A column is missing, a value is invalid, or there is not one score per document.
        """
        metrics, convention = _check_config(evaluator_config)
        frame = dataset.features_data
        if not isinstance(frame, pd.DataFrame):
            kind = type(frame).__name__
            raise DataError(f"data has type {kind}; use a DataFrame with a column for the query.")
        columns = _find_columns(frame, dataset, evaluator_config)
        judged = _read_judged(frame, dataset, columns, evaluator_config.get("sort_queries", False))
        listed = evaluator_config.get("features")
        if listed is None:  # MLflow has removed the label from the frame if it was given as `targets`
            features = frame.drop(columns=list(columns.values()), errors="ignore")
        else:
            features = frame[[_existing(column, frame) for column in listed]]
        scores = _score(model, features, dataset, predictions)
        evaluation = evaluate(judged, scores[judged.positions], metrics, convention)

        def key(name: str) -> str:
            return metric_key(f"{evaluator_config.get('metric_prefix', '')}{name}")

        means = {key(name): mean for name, mean in evaluation.means.items()}
        now = int(time.time() * 1000)
        of_data = {"dataset_name": dataset.name, "dataset_digest": dataset.digest}
        points = [
            Metric(name, mean, now, step=0, model_id=model_id, run_id=run_id, **of_data)
            for name, mean in means.items()
        ]
        client = MlflowClient()
        client.log_batch(run_id, metrics=points, tags=[RunTag(key("convention"), evaluation.convention.name)])
        record = {
            "convention": evaluation.convention.describe(),
            "documents": judged.num_documents,
            "queries": judged.num_queries,
            "share_without_relevant": evaluation.share_without_relevant,
            "metrics": {n: None if math.isnan(mean) else mean for n, mean in evaluation.means.items()},
            "skipped": dict(evaluation.skipped),
            "columns": columns,
            "features": [] if model is None else list(map(str, features)),
        }
        # As objects, because MLflow tests for object columns and pandas 3 warns about that test on text.
        queries = pd.Series(judged.query_ids, dtype=object)
        table = pd.DataFrame(
            {"query_id": queries, "num_documents": judged.query_sizes, **evaluation.per_query}
        )
        per_query = json.loads(table.to_json(orient="split", index=False))
        artifacts = {}
        client.log_table(run_id, table, f"{key('per_query')}.json")
        client.log_dict(run_id, record, f"{key('evaluation')}.json")
        for name, content in ((key("per_query"), per_query), (key("evaluation"), record)):
            # MLflow has made the run the active one.
            uri = mlflow.get_artifact_uri(f"{name}.json")
            artifacts[name] = JsonEvaluationArtifact(uri, content)  # type: ignore[no-untyped-call]
        return EvaluationResult(metrics=means, artifacts=artifacts, run_id=run_id)  # type: ignore[no-untyped-call]


def _check_config(given: Mapping[str, Any]) -> tuple[list[str], Convention]:
    """Checks `evaluator_config`; returns the metrics, without duplicates, and their convention."""
    for key in given:
        if key not in _KEYS:
            raise ConfigError(
                f"evaluator_config has no key '{key}'{did_you_mean(str(key), _KEYS)} The keys are "
                f"{', '.join(_KEYS)}; `targets` of mlflow.models.evaluate names the column of the labels."
            )
    metrics = given.get("metrics", METRICS_OF_EVALUATOR)
    names = [name.strip() for name in (metrics.split(",") if isinstance(metrics, str) else metrics)]
    for name in names:
        parse_metric(name)
    convention = given.get("convention", DEFAULT)
    # In the syntax of the command line, where True is true.
    settings = {str(key): str(value).lower() for key, value in given.get("settings", {}).items()}
    chosen = preset(convention) if isinstance(convention, str) else convention
    return list(dict.fromkeys(names)), with_settings(chosen, settings)


def _existing(column: str, frame: pd.DataFrame) -> str:
    if column not in frame.columns:
        raise DataError(f"there is no column '{column}'{did_you_mean(column, map(str, frame.columns))}")
    return column


def _find_columns(
    frame: pd.DataFrame, dataset: EvaluationDataset, given: Mapping[str, Any]
) -> dict[str, str]:
    """Returns role -> its column, for the roles in the data.

    Raises:
        DataError: A named column is missing, or there is no column for label or query.
    """
    columns = {} if dataset.targets_name is None else {"label": dataset.targets_name}
    for role, names in ROLES.items():
        # As in `read_table`: a column listed as a feature has a role only if one is set explicitly.
        usual = [name for name in names if name in frame.columns and name not in given.get("features", ())]
        if role in given:
            columns[role] = _existing(given[role], frame)
        elif role not in columns and usual:
            columns[role] = usual[0]
    for role, remedy in (("label", "targets='COLUMN'"), ("query", "evaluator_config={'query': 'COLUMN'}")):
        if role not in columns:
            raise DataError(
                f"data has no column {' or '.join(ROLES[role])} for the {role}; name it with {remedy}. With "
                "feature_names MLflow removes it: list features in evaluator_config={'features': [...]}."
            )
    return columns


def _read_judged(
    frame: pd.DataFrame, dataset: EvaluationDataset, columns: Mapping[str, str], sort_queries: bool
) -> RankingDataset:
    """Returns the labels, queries and weights; `positions` is the row of each document in the frame."""
    given = {role: columns[role] for role in ("query", "document", "weight") if role in columns}
    labels = frame[columns["label"]] if dataset.labels_data is None else dataset.labels_data
    judged = frame[list(dict.fromkeys(given.values()))].copy()
    judged[columns["label"]] = np.asarray(labels)
    judged[_ROW], judged[_NO_FEATURE] = np.arange(len(frame)), 0.0
    roles: dict[str, Any] = {**given, "label": columns["label"], "position": _ROW}
    return read_table(judged, features=[_NO_FEATURE], sort_queries=sort_queries, **roles)


def _score(model: Any, features: pd.DataFrame, dataset: EvaluationDataset, output: str | None) -> Scores:
    """Returns scores (D,) from the model, or from the column that MLflow has removed as the predictions."""
    given = dataset.predictions_data if model is None else model.predict(features)
    if given is None:
        raise ConfigError(
            "there are no scores to evaluate; pass a model, or name their column with predictions='COLUMN'."
        )
    if model is not None and isinstance(given, pd.DataFrame):
        if output is None and given.shape[1] > 1:
            raise DataError(
                f"the model returns the columns {', '.join(map(str, given.columns))}; name the column of the "
                "scores with predictions='COLUMN'."
            )
        given = given.iloc[:, 0] if output is None else given[_existing(output, given)]
    scores = np.asarray(given)
    if scores.dtype.kind not in "iuf":  # other dtypes are kept, because scores may tie in them
        scores = pd.to_numeric(pd.Series(scores.reshape(-1)), errors="coerce").to_numpy(np.float64)
    if scores.size != len(features):
        raise DataError(
            f"the scores have shape {np.shape(given)}, but the data has {len(features)} documents; return "
            "one score per document, in the order of the rows."
        )
    scores = scores.reshape(-1)
    # Checked here, because `evaluate` does not know the rows of the frame.
    missing = np.flatnonzero(np.isnan(scores))
    if missing.size:
        raise DataError(f"the score of row {missing[0] + 1} is NaN or no number; every document needs one.")
    return scores
