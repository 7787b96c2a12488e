"""A baseline of one feature: the feature, ascending or descending, that ranks the training set best."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import as_array, csr_of
from ltrbench.metrics import evaluate, parse_metric
from ltrbench.rankers.base import Ranker, check_blocks, check_fitted, read_model_json
from ltrbench.shapes import Features

_FILE = "single_feature.json"


@dataclass(kw_only=True)
class SingleFeatureRanker(Ranker):
    """Scores each document by the feature, or negated feature, with the best `metric` on the training set.

    Of equal features the first one is kept, and a feature is preferred to its negative. Missing values rank
    last.
    """

    metric: str = "ndcg@10"
    """Metric that selects the feature on the training set, under the default convention."""

    is_yardstick: ClassVar[bool] = True
    reads_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_metric(self.metric)
        self._num_features: int | None = None
        self._feature = 0
        self._sign = 1.0

    def fit(self, train: RankingDataset, *_: object, **__: object) -> Self:
        self._num_features = train.num_features
        best = float("-inf")
        sparse = csr_of(train.features)
        columns = as_array(train.features).T if sparse is None else sparse.by_columns()
        for feature, values in enumerate(columns):
            for sign in (1.0, -1.0):
                scores = _signed(values, sign)
                value = evaluate(train, scores, [self.metric]).means[self.metric]
                if value > best:
                    best = value
                    self._feature = feature
                    self._sign = sign
        return self

    def predict(self, features: Features) -> NDArray[np.float64]:
        given = check_blocks(features, check_fitted(self._num_features))
        return _signed(given[:, self._feature], self._sign)

    @property
    def weights(self) -> NDArray[np.float64]:
        """(F,), the sign of the chosen feature, and 0 for all others: scores are weights times features."""
        weights = np.zeros(check_fitted(self._num_features))
        weights[self._feature] = self._sign
        return weights

    def importance(self) -> dict[str, NDArray[np.float64]]:
        return {"split": np.abs(self.weights)}

    def seed_matters(self, num_documents: int) -> bool:
        return False

    def save(self, folder: Path) -> None:
        content = {
            "num_features": check_fitted(self._num_features),
            "feature": self._feature,
            "sign": self._sign,
            "metric": self.metric,
        }
        (folder / _FILE).write_text(json.dumps(content) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        types = {"num_features": int, "feature": int, "sign": float, "metric": str}
        content = read_model_json(folder / _FILE, types)
        ranker = cls()
        # Not checked: prediction does not need the metric, which may be a plug-in's that is not imported.
        ranker.metric = content["metric"]
        ranker._num_features = content["num_features"]
        ranker._feature = content["feature"]
        ranker._sign = content["sign"]
        return ranker


def _signed(values: NDArray[np.float32], sign: float) -> NDArray[np.float64]:
    scores = sign * values.astype(np.float64)
    scores[np.isnan(scores)] = -np.inf
    return scores
