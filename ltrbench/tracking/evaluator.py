"""`mlflow.models.evaluate(..., model_type="ranker")`: the metrics and conventions of ltrbench for any model.

MLflow finds `RankerEvaluator` through the entry point in pyproject.toml when ltrbench is installed. It
imports the evaluator at the first evaluation, not at `import mlflow`.

The data is a DataFrame with one row per document. The columns of `ltrbench.data.dataset.ROLES`
are the query, weight and document id; the other columns are the features of the model. `evaluator_config`
takes the keys of `_KEYS`: to add a key, add an entry there and a field to `_Config`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ltrbench.data import RankingDataset, read_table
from ltrbench.data.dataset import ROLES
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.metrics import DEFAULT, Convention, Evaluation, evaluate, parse_metric, preset, with_settings
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

MODEL_TYPE = "ranker"
METRICS_OF_EVALUATOR = ("ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr", "precision@10")
"""The metrics of conf/config.yaml, which only Hydra reads; a test checks that the two agree."""

_COLUMN = (str, "the name of a column")
_NAMES = (list, tuple)
# Key of evaluator_config -> (allowed types, description for error messages).
_KEYS: dict[str, tuple[Any, str]] = {
    "query": _COLUMN,
    "document": _COLUMN,
    "weight": _COLUMN,
    "position": _COLUMN,
    "features": (_NAMES, "a list of columns, the features of the model in this order"),
    "metrics": ((str, *_NAMES), "names of metrics, as in ['ndcg@10', 'map']"),
    "convention": ((str, Convention), "the name of a convention, or a Convention"),
    "settings": (Mapping, "a dictionary of settings of the convention, as in {'no_relevant': 0}"),
    "sort_queries": (bool, "True or False"),
    "metric_prefix": (str, "a prefix for the names of metrics and artifacts"),
}
# Columns that `_read_judged` adds; the tab avoids a clash with columns of the user.
_ROW, _NO_FEATURE = "\trow", "\tfeature"


@dataclass(frozen=True)
class _Config:
    """The checked contents of `evaluator_config`.

    Attributes:
        columns: role -> its column, for the given roles; for the others the names of `ROLES` are tried.
        features: the features of the model; None: all columns without a role.
        metrics: such as `ndcg@10`, without duplicates.
        convention: the convention of the metrics.
        sort_queries: whether the rows of a query may be non-contiguous; they are then grouped, not rejected.
        prefix: prefix of the names of metrics, tags and artifacts.
    """

    columns: Mapping[str, str]
    features: Sequence[str] | None
    metrics: Sequence[str]
    convention: Convention
    sort_queries: bool
    prefix: str

    def key(self, name: str) -> str:
        """Returns a name with the prefix, in the characters that MLflow allows."""
        return metric_key(f"{self.prefix}{name}")


class RankerEvaluator(ModelEvaluator):
    """The evaluator that MLflow calls for the model type "ranker", and for no other."""

    @classmethod
    def can_evaluate(
        cls, *, model_type: str | None, evaluator_config: Mapping[str, Any], **kwargs: Any
    ) -> bool:
        del evaluator_config, kwargs
        return model_type == MODEL_TYPE

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: EvaluationDataset,
        run_id: str,
        evaluator_config: Mapping[str, Any],
        model: Any = None,
        extra_metrics: Sequence[Any] | None = None,
        custom_artifacts: Sequence[Any] | None = None,
        predictions: str | None = None,
        model_id: str | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Scores the documents, computes the metrics, and logs them to the run.

        Args:
            dataset: the DataFrame; `targets` is the column of labels.
            evaluator_config: see `_KEYS`.
            model: the user's model, loaded by MLflow; None: the scores are in the dataset.
            predictions: column of the scores in the output of the model, if the output has several columns.

        Raises:
            ConfigError: A key, metric or convention is unknown, or an argument is not supported.
            DataError: A column is missing, a value is invalid, or there is not one score per document.
        """
        del model_type, kwargs
        _refuse(extra_metrics=extra_metrics, custom_artifacts=custom_artifacts)
        config = _read_config(evaluator_config)
        frame = _frame_of(dataset)
        columns = _find_columns(frame, dataset, config)
        judged = _read_judged(frame, dataset, columns, config.sort_queries)
        features = _take_features(frame, columns, config.features)
        scores = _score(model, features, dataset, predictions)
        evaluation = evaluate(judged, scores[judged.positions], config.metrics, config.convention)
        _log_metrics(evaluation, config, dataset, run_id, model_id)
        seen = [] if model is None else list(map(str, features))
        record = {**_figures(judged, evaluation), "columns": columns, "features": seen}
        return EvaluationResult(  # type: ignore[no-untyped-call]
            metrics={config.key(name): mean for name, mean in evaluation.means.items()},
            artifacts=_log_artifacts(_per_query(judged, evaluation), record, config, run_id),
            run_id=run_id,
        )


def _refuse(**given: Sequence[Any] | None) -> None:
    for name, value in given.items():
        if value:
            raise ConfigError(f"{name} is not supported for model_type='{MODEL_TYPE}'; leave it out.")


def _frame_of(dataset: EvaluationDataset) -> pd.DataFrame:
    """Returns all columns except the targets and the predictions, which MLflow has removed."""
    frame = dataset.features_data
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"data has type {type(frame).__name__}; use a DataFrame with a column for the query.")
    return frame


def _read_config(given: Mapping[str, Any]) -> _Config:
    for key, value in given.items():
        if key not in _KEYS:
            raise ConfigError(
                f"evaluator_config has no key '{key}'{did_you_mean(str(key), _KEYS)} The keys are "
                f"{', '.join(_KEYS)}. To name the column of the labels, use `targets` of "
                "mlflow.models.evaluate."
            )
        types, expected = _KEYS[key]
        if not isinstance(value, types):
            raise ConfigError(f"evaluator_config: {key} is {value!r}; it must be {expected}.")
    convention = given.get("convention", DEFAULT)
    if isinstance(convention, str):
        convention = preset(convention)
    settings = {str(key): _as_text(value) for key, value in given.get("settings", {}).items()}
    return _Config(
        columns={role: given[role] for role in ROLES if role in given},
        features=given.get("features"),
        metrics=_read_metrics(given.get("metrics", METRICS_OF_EVALUATOR)),
        convention=with_settings(convention, settings),
        sort_queries=given.get("sort_queries", False),
        prefix=given.get("metric_prefix", ""),
    )


def _read_metrics(given: str | Sequence[Any]) -> list[str]:
    names = [str(name).strip() for name in (given.split(",") if isinstance(given, str) else given)]
    if not names:
        raise ConfigError("evaluator_config: metrics is empty; list metrics, as in ['ndcg@10', 'map'].")
    for name in names:
        parse_metric(name)
    return list(dict.fromkeys(names))


def _as_text(value: Any) -> str:
    """Returns a setting in the syntax of the command line: True becomes true."""
    return value if isinstance(value, str) else str(value).lower()


def _find_columns(frame: pd.DataFrame, dataset: EvaluationDataset, config: _Config) -> dict[str, str]:
    """Returns role -> its column, for the roles in the data.

    Raises:
        DataError: A named column is missing, or there is no column for label or query.
    """
    columns = {} if dataset.targets_name is None else {"label": dataset.targets_name}
    for role, column in config.columns.items():
        if column not in frame.columns:
            raise DataError(f"data has no column '{column}' for {role}{_did_you_mean(column, frame)}")
        columns[role] = column
    for role, names in ROLES.items():
        # As in `read_table`: a column listed as a feature has a role only if one is set explicitly.
        usual = [name for name in names if name in frame.columns and name not in (config.features or ())]
        if role not in columns and usual:
            columns[role] = usual[0]
    for role, remedy in (("label", "targets='COLUMN'"), ("query", "evaluator_config={'query': 'COLUMN'}")):
        if role not in columns:
            raise DataError(
                f"data has no column {' or '.join(ROLES[role])} for the {role}; name the column with "
                f"{remedy}. If mlflow.models.evaluate has feature_names, all other columns are removed: list "
                "the features in evaluator_config={'features': [...]} instead."
            )
    return columns


def _did_you_mean(column: object, frame: pd.DataFrame) -> str:
    return did_you_mean(str(column), map(str, frame.columns))


def _read_judged(
    frame: pd.DataFrame, dataset: EvaluationDataset, columns: Mapping[str, str], sort_queries: bool
) -> RankingDataset:
    """Returns the labels, queries and weights; `positions` is the row of each document in the frame."""
    read = [columns[role] for role in ("query", "document", "weight") if role in columns]
    labels = frame[columns["label"]] if dataset.labels_data is None else dataset.labels_data
    judged = frame[list(dict.fromkeys(read))].copy()
    judged[columns["label"]] = np.asarray(labels)
    judged[_ROW], judged[_NO_FEATURE] = np.arange(len(frame)), 0.0
    try:
        return read_table(
            judged,
            label=columns["label"],
            query=columns["query"],
            document=columns.get("document"),
            weight=columns.get("weight"),
            position=_ROW,
            features=[_NO_FEATURE],
            sort_queries=sort_queries,
        )
    except DataError as error:
        error.add_note("In MLflow, set sort_queries with evaluator_config={'sort_queries': True}.")
        raise


def _take_features(
    frame: pd.DataFrame, columns: Mapping[str, str], features: Sequence[str] | None
) -> pd.DataFrame:
    """Returns the features of the model, in the order of the frame's rows."""
    if features is None:
        # MLflow has removed the label from the frame if it was given as `targets`.
        return frame.drop(columns=list(columns.values()), errors="ignore")
    for column in features:
        if column not in frame.columns:
            raise DataError(f"data has no feature column '{column}'{_did_you_mean(column, frame)}")
    return frame[list(features)]


def _score(model: Any, features: pd.DataFrame, dataset: EvaluationDataset, output: str | None) -> Scores:
    """Returns scores (D,) from the model, or from the column that MLflow has removed as the predictions."""
    if model is not None:
        scores = _one_column(model.predict(features), output)
    elif dataset.predictions_data is not None:
        scores = dataset.predictions_data
    else:
        raise ConfigError(
            "there are no scores to evaluate; pass a model, or name their column with predictions='COLUMN'."
        )
    return _as_scores(scores, len(features))


def _one_column(given: Any, output: str | None) -> Any:
    """Returns the scores in the output of a model, which may be a DataFrame with several columns."""
    if not isinstance(given, pd.DataFrame):
        return given
    if output is None and given.shape[1] > 1:
        raise DataError(
            f"the model returns the columns {', '.join(map(str, given.columns))}; name the column of the "
            "scores with predictions='COLUMN'."
        )
    if output is not None and output not in given.columns:
        raise DataError(f"the model returns no column '{output}'{_did_you_mean(output, given)}")
    return given if output is None else given[output]


def _as_scores(given: Any, num_documents: int) -> Scores:
    """Returns checked scores (D,)."""
    try:
        scores = np.asarray(given)
        # The dtype is kept, because scores may tie in it.
        scores = scores if scores.dtype.kind in "iuf" else scores.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the scores are not numbers ({error}); return one number per document.") from None
    if scores.shape == (num_documents, 1):
        scores = scores[:, 0]
    if scores.shape != (num_documents,):
        raise DataError(
            f"the scores have shape {scores.shape}, but the data has {num_documents} documents; return one "
            "score per document, in the order of the rows."
        )
    missing = np.flatnonzero(np.isnan(scores))
    if missing.size:
        raise DataError(
            f"the score of row {missing[0] + 1} is NaN; every document needs a score. Replace it by a number."
        )
    return scores


def _figures(judged: RankingDataset, evaluation: Evaluation) -> dict[str, Any]:
    """Returns the means with their convention and counts, as JSON values."""
    means = evaluation.means.items()
    return {
        "convention": evaluation.convention.describe(),
        "documents": judged.num_documents,
        "queries": judged.num_queries,
        "share_without_relevant": evaluation.share_without_relevant,
        "metrics": {name: None if math.isnan(mean) else mean for name, mean in means},
        "skipped": dict(evaluation.skipped),
    }


def _per_query(judged: RankingDataset, evaluation: Evaluation) -> pd.DataFrame:
    """Returns one row per query; a skipped query has NaN."""
    # As objects, because MLflow tests for object columns and pandas 3 warns about that test on text columns.
    queries = pd.Series(judged.query_ids, dtype=object)
    return pd.DataFrame({"query_id": queries, "num_documents": judged.query_sizes, **evaluation.per_query})


def _log_metrics(
    evaluation: Evaluation, config: _Config, dataset: EvaluationDataset, run_id: str, model_id: str | None
) -> None:
    """Logs the means like MLflow's own evaluators, and the name of the convention as a tag."""
    now = int(time.time() * 1000)
    points = [
        Metric(
            config.key(name),
            mean,
            now,
            step=0,
            model_id=model_id,
            dataset_name=dataset.name,
            dataset_digest=dataset.digest,
            run_id=run_id,
        )
        for name, mean in evaluation.means.items()
    ]
    tags = [RunTag(config.key("convention"), evaluation.convention.name)]
    MlflowClient().log_batch(run_id, metrics=points, tags=tags)


def _log_artifacts(
    per_query: pd.DataFrame, record: dict[str, Any], config: _Config, run_id: str
) -> dict[str, JsonEvaluationArtifact]:
    """Logs a table of per-query values, which the UI compares between runs, and the record of the metrics."""
    client = MlflowClient()
    table, about = config.key("per_query.json"), config.key("evaluation.json")
    client.log_table(run_id, per_query, table)
    client.log_dict(run_id, record, about)
    contents = {table: json.loads(per_query.to_json(orient="split", index=False)), about: record}
    # MLflow has made the run the active one.
    return {
        name.removesuffix(".json"): JsonEvaluationArtifact(  # type: ignore[no-untyped-call]
            mlflow.get_artifact_uri(name), content
        )
        for name, content in contents.items()
    }
