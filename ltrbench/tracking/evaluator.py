"""`mlflow.models.evaluate(..., model_type="ranker")`: our metrics and conventions for anyone's model.

MLflow finds `RankerEvaluator` by the entry point in pyproject.toml wherever ltrbench is installed, and looks
for it at the first evaluation only, never at `import mlflow`.

The data is a DataFrame, a row a document. The columns of `ltrbench.data.formats.table.tables.ROLES` hold its
query, weight and document id; the model is given the others. `evaluator_config` may hold the keys of `_KEYS`:
a new one is an entry there and a field of `_Config`.
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
from ltrbench.data.formats.table.tables import ROLES
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
"""Those of the command line, which this room does not know; a test holds the two together."""

_COLUMN = (str, "the name of a column")
_NAMES = (list, tuple)
# Key of evaluator_config -> the types that it may have, and what they are in words.
_KEYS: dict[str, tuple[Any, str]] = {
    "query": _COLUMN,
    "document": _COLUMN,
    "weight": _COLUMN,
    "position": _COLUMN,
    "features": (_NAMES, "a list of columns, those that the model is given, in this order"),
    "metrics": ((str, *_NAMES), "names of metrics, as in ['ndcg@10', 'map']"),
    "convention": ((str, Convention), "the name of a convention, or a Convention"),
    "settings": (Mapping, "a dictionary of settings of the convention, as in {'no_relevant': 0}"),
    "sort_queries": (bool, "True or False"),
    "metric_prefix": (str, "what the names of metrics and artifacts begin with"),
}
# Columns that `_read_judged` adds to the user's; the tab keeps them apart from those.
_ROW, _NO_FEATURE = "\trow", "\tfeature"


@dataclass(frozen=True)
class _Config:
    """What `evaluator_config` says, checked.

    Attributes:
        columns: role -> its column, as far as they are given; for the others the names of `ROLES` are tried.
        features: the columns that the model is given; None: all without a role.
        metrics: such as `ndcg@10`, each once.
        convention: what the metrics are computed under.
        sort_queries: whether rows of a query that do not stand together are brought together, not refused.
        prefix: what the names of metrics, tags and artifacts begin with.
    """

    columns: Mapping[str, str]
    features: Sequence[str] | None
    metrics: Sequence[str]
    convention: Convention
    sort_queries: bool
    prefix: str

    def key(self, name: str) -> str:
        """A name as MLflow keeps it."""
        return metric_key(f"{self.prefix}{name}")


class RankerEvaluator(ModelEvaluator):
    """What MLflow calls for the model type "ranker", and for no other."""

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
            dataset: the DataFrame, with what `targets` names as labels.
            evaluator_config: see `_KEYS`.
            model: whatever MLflow has made of the user's model; None: the scores are in the dataset.
            predictions: the column of the scores in what the model returns, where that has several.

        Raises:
            ConfigError: on an unknown key, metric or convention, or an argument that cannot be honoured.
            DataError: on an absent column, a value that cannot be used, or no score a document.
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
            raise ConfigError(f"{name} is not computed for model_type='{MODEL_TYPE}'; leave it out.")


def _frame_of(dataset: EvaluationDataset) -> pd.DataFrame:
    """All columns but those of the targets and of the predictions, which MLflow has taken out."""
    frame = dataset.features_data
    if not isinstance(frame, pd.DataFrame):
        raise DataError(
            f"data is of type {type(frame).__name__}; give a DataFrame, which has a column for the query."
        )
    return frame


def _read_config(given: Mapping[str, Any]) -> _Config:
    for key, value in given.items():
        if key not in _KEYS:
            raise ConfigError(
                f"evaluator_config has no key '{key}'{did_you_mean(str(key), _KEYS)} Keys are "
                f"{', '.join(_KEYS)}; the column of the labels is `targets` of mlflow.models.evaluate."
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
        raise ConfigError("evaluator_config: metrics names no metric; give some, as in ['ndcg@10', 'map'].")
    for name in names:
        parse_metric(name)
    return list(dict.fromkeys(names))


def _as_text(value: Any) -> str:
    """A setting as a command line writes it: True is true, and a table of gains [0, 1, 3, 7]."""
    return value if isinstance(value, str) else str(value).lower()


def _find_columns(frame: pd.DataFrame, dataset: EvaluationDataset, config: _Config) -> dict[str, str]:
    """Role -> its column, for the roles that the data has; label and query must be there."""
    columns = {} if dataset.targets_name is None else {"label": dataset.targets_name}
    for role, column in config.columns.items():
        if column not in frame.columns:
            raise DataError(f"data has no column '{column}' for {role}{_did_you_mean(column, frame)}")
        columns[role] = column
    for role, names in ROLES.items():
        # As in `read_table`: a column that is listed as a feature has no role unless it is given one.
        usual = [name for name in names if name in frame.columns and name not in (config.features or ())]
        if role not in columns and usual:
            columns[role] = usual[0]
    for role, remedy in (("label", "targets='COLUMN'"), ("query", "evaluator_config={'query': 'COLUMN'}")):
        if role not in columns:
            raise DataError(
                f"data has no column {' or '.join(ROLES[role])}; say which one holds it with {remedy}. "
                "Columns that feature_names of mlflow.models.evaluate leaves out are not seen here: list the "
                "model's in evaluator_config={'features': [...]} instead."
            )
    return columns


def _did_you_mean(column: object, frame: pd.DataFrame) -> str:
    return did_you_mean(str(column), map(str, frame.columns))


def _read_judged(
    frame: pd.DataFrame, dataset: EvaluationDataset, columns: Mapping[str, str], sort_queries: bool
) -> RankingDataset:
    """The labels, queries and weights; `positions` says in which row of the frame each document stands."""
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
        error.add_note("Here sort_queries is a key of evaluator_config: {'sort_queries': True}.")
        raise


def _take_features(
    frame: pd.DataFrame, columns: Mapping[str, str], features: Sequence[str] | None
) -> pd.DataFrame:
    """What the model is given, in the frame's own order of rows."""
    if features is None:
        # The label, where MLflow knows it as the targets, is not in the frame any more.
        return frame.drop(columns=list(columns.values()), errors="ignore")
    for column in features:
        if column not in frame.columns:
            raise DataError(f"data has no feature column '{column}'{_did_you_mean(column, frame)}")
    return frame[list(features)]


def _score(model: Any, features: pd.DataFrame, dataset: EvaluationDataset, output: str | None) -> Scores:
    """(D,), from the model, or from the column that MLflow has taken out as the predictions."""
    if model is not None:
        scores = _one_column(model.predict(features), output)
    elif dataset.predictions_data is not None:
        scores = dataset.predictions_data
    else:
        raise ConfigError("there is nothing to evaluate; give a model, or predictions='COLUMN' of data.")
    return _as_scores(scores, len(features))


def _one_column(given: Any, output: str | None) -> Any:
    """The scores in what a model returns, which may be a DataFrame with more than them."""
    if not isinstance(given, pd.DataFrame):
        return given
    if output is None and given.shape[1] > 1:
        raise DataError(
            f"the model returns the columns {', '.join(map(str, given.columns))}; say which one holds the "
            "scores with predictions='COLUMN'."
        )
    if output is not None and output not in given.columns:
        raise DataError(f"the model returns no column '{output}'{_did_you_mean(output, given)}")
    return given if output is None else given[output]


def _as_scores(given: Any, num_documents: int) -> Scores:
    """(D,), checked."""
    try:
        scores = np.asarray(given)
        # Scores are compared in their own type, in which they may tie.
        scores = scores if scores.dtype.kind in "iuf" else scores.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the scores are not numbers ({error}); give one number a document.") from None
    if scores.shape == (num_documents, 1):
        scores = scores[:, 0]
    if scores.shape != (num_documents,):
        raise DataError(
            f"the scores have shape {scores.shape}, but the data has {num_documents} documents; give one "
            "score a document, in the order of the rows."
        )
    missing = np.flatnonzero(np.isnan(scores))
    if missing.size:
        raise DataError(
            f"the score of row {missing[0] + 1} is NaN; a document without a score cannot be ranked."
        )
    return scores


def _figures(judged: RankingDataset, evaluation: Evaluation) -> dict[str, Any]:
    """The means and what stands behind them, in what JSON can hold."""
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
    """A row a query; a skipped query has NaN."""
    # MLflow looks for columns of objects, and pandas 3 warns of that where it finds text instead.
    queries = pd.Series(judged.query_ids, dtype=object)
    return pd.DataFrame({"query_id": queries, "num_documents": judged.query_sizes, **evaluation.per_query})


def _log_metrics(
    evaluation: Evaluation, config: _Config, dataset: EvaluationDataset, run_id: str, model_id: str | None
) -> None:
    """The means, as MLflow's own evaluators log theirs, and the convention's name as a tag."""
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
    """A table that the UI sets side by side over runs, and what stands behind the figures."""
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
