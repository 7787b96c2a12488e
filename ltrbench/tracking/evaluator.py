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

import mlflow
import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Metric, RunTag
from mlflow.models.evaluation import EvaluationDataset, EvaluationResult, ModelEvaluator
from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact

from ltrbench.data import RankingDataset, read_table
from ltrbench.data.dataset import ROLES
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.metrics import DEFAULT, METRICS_OF_A_RUN, Evaluation, evaluate, preset
from ltrbench.shapes import Scores
from ltrbench.tracking.mlflow.entities import metric_key

# Key of evaluator_config -> its value, for the documentation.
_KEYS = {
    **dict.fromkeys(
        ("query", "document", "weight", "position"), "the name of a column"
    ),
    "features": "a list of columns, the features of the model in this order",
    "metrics": "names of metrics, as in ['ndcg@10', 'map']",
    "convention": "the name of a convention, or a Convention",
    "sort_queries": "True or False",
}
# Columns that `_read_judged` adds; the tab avoids a clash with columns of the user.
_ROW = "\trow"
_NO_FEATURE = "\tfeature"


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
        _check_config(evaluator_config)
        metrics = evaluator_config.get("metrics", METRICS_OF_A_RUN)
        convention = evaluator_config.get("convention", DEFAULT)
        if isinstance(convention, str):
            convention = preset(convention)
        frame = dataset.features_data
        if not isinstance(frame, pd.DataFrame):
            raise DataError(
                f"data has type {type(frame).__name__}; use a DataFrame with a column for the query."
            )
        listed = list(evaluator_config.get("features", ()))
        named = {**evaluator_config, "label": dataset.targets_name}
        columns = _columns_of_roles(frame, named, listed)
        # MLflow has removed the label from the frame if it was given as `targets`.
        in_roles = columns.values()
        features = listed or [name for name in frame if name not in in_roles]
        others = [name for name in listed if name not in in_roles]
        judged = _read_judged(
            frame.drop(columns=others),
            dataset,
            columns,
            evaluator_config.get("sort_queries", False),
        )
        scores = _score(model, frame[features], dataset, predictions)
        evaluation = evaluate(judged, scores[judged.positions], metrics, convention)
        names = [] if model is None else list(map(str, features))
        record = {
            **_record(evaluation, judged),
            "columns": columns,
            "features": names,
        }
        per_query = _per_query(evaluation, judged)
        means = {metric_key(name): mean for name, mean in evaluation.means.items()}
        now = int(time.time() * 1000)
        of_data = {"dataset_name": dataset.name, "dataset_digest": dataset.digest}
        linked = {"model_id": model_id, "run_id": run_id, **of_data}
        points = [
            Metric(name, mean, now, step=0, **linked) for name, mean in means.items()
        ]
        client = MlflowClient()
        tag = RunTag("convention", evaluation.convention.name)
        client.log_batch(run_id, points, tags=[tag])
        client.log_table(run_id, per_query, "per_query.json")
        client.log_dict(run_id, record, "evaluation.json")
        in_columns = json.loads(per_query.to_json(orient="split", index=False))
        artifacts = {
            "per_query": _artifact("per_query", in_columns),
            "evaluation": _artifact("evaluation", record),
        }
        return EvaluationResult(metrics=means, artifacts=artifacts, run_id=run_id)  # type: ignore[no-untyped-call]


def _columns_of_roles(
    frame: pd.DataFrame, named: Mapping[str, Any], listed: list[str]
) -> dict[str, str]:
    """Returns role -> its column.

    As in `read_table`, a column listed as a feature has a role only if one is set explicitly.
    """
    columns: dict[str, str] = {}
    for role, names in ROLES.items():
        usual = [name for name in names if name in frame and name not in listed]
        if named.get(role) or usual:
            columns[role] = named.get(role) or usual[0]
    return columns


def _record(evaluation: Evaluation, judged: RankingDataset) -> dict[str, Any]:
    known = {}
    for name, mean in evaluation.means.items():
        known[name] = None if math.isnan(mean) else mean
    return {
        "convention": evaluation.convention.describe(),
        "documents": judged.num_documents,
        "queries": judged.num_queries,
        "share_without_relevant": evaluation.share_without_relevant,
        "metrics": known,
        "skipped": dict(evaluation.skipped),
    }


def _per_query(evaluation: Evaluation, judged: RankingDataset) -> pd.DataFrame:
    """Returns a row of values for each query."""
    # As objects, because MLflow tests for object columns and pandas 3 warns about that test on text.
    queries = pd.Series(judged.query_ids, dtype=object)
    columns = {**judged.columns_of_queries, "query_id": queries}
    return pd.DataFrame({**columns, **evaluation.per_query})


def _artifact(name: str, content: Any) -> JsonEvaluationArtifact:
    # MLflow has made the run the active one.
    address = mlflow.get_artifact_uri(f"{name}.json")
    return JsonEvaluationArtifact(address, content)  # type: ignore[no-untyped-call]


def _check_config(given: Mapping[str, Any]) -> None:
    for key in given:
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS)
            raise ConfigError(
                f"evaluator_config has no key '{key}'{hint} The keys are "
                f"{', '.join(_KEYS)}; `targets` of mlflow.models.evaluate names the column of the labels."
            )


def _read_judged(
    frame: pd.DataFrame,
    dataset: EvaluationDataset,
    columns: Mapping[str, str],
    sort_queries: bool,
) -> RankingDataset:
    """Returns the labels, queries and weights; `positions` is the row of each document in the frame."""
    given = {
        role: columns.get(role) for role in ("label", "query", "document", "weight")
    }
    judged = frame
    if dataset.labels_data is not None:
        labels = np.asarray(dataset.labels_data)
        judged = judged.assign(**{str(given["label"]): labels})
    num_rows = len(frame)
    added = {_ROW: np.arange(num_rows), _NO_FEATURE: np.zeros(num_rows)}
    judged = judged.assign(**added)
    roles: dict[str, Any] = {**given, "position": _ROW}
    return read_table(
        judged, features=[_NO_FEATURE], sort_queries=sort_queries, **roles
    )


def _score(
    model: Any, features: pd.DataFrame, dataset: EvaluationDataset, output: str | None
) -> Scores:
    """Returns scores (D,) from the model, or from the column that MLflow has removed as the predictions."""
    if getattr(getattr(model, "_model_impl", None), "is_listwise", False):
        raise DataError(
            "the model scores the documents of a query together, but MLflow passes all queries at once. "
            "Write scores of predict_lists into a column, and set predictions='COLUMN'."
        )
    given = dataset.predictions_data if model is None else model.predict(features)
    if model is not None and isinstance(given, pd.DataFrame) and output is not None:
        given = given[output]
    scores = np.asarray(given)
    if scores.size != len(features):
        raise DataError(
            f"the scores have shape {np.shape(given)}, but the data has {len(features)} documents; the "
            "model returns one score per document, or name their column with predictions='COLUMN'."
        )
    scores = scores.reshape(-1)
    # Other dtypes are kept, because scores may tie in them.
    if scores.dtype.kind not in "iuf":
        numbers = pd.to_numeric(pd.Series(scores), errors="coerce")
        scores = numbers.to_numpy(np.float64)
    missing = np.flatnonzero(np.isnan(scores))
    if missing.size:
        raise DataError(
            f"the score of row {missing[0] + 1} is NaN or no number; every document needs one."
        )
    return scores
