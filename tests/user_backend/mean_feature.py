"""A user's backend: one file outside the package, named by one YAML."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.rankers import OnIteration, Ranker
from ltrbench.rankers.base import check_features, check_fitted, read_model_json
from ltrbench.shapes import Features


@dataclass(kw_only=True)
class MeanFeatureRanker(Ranker):
    """Scores a document by the sum of its features, weighted by their covariance with the training labels."""

    power: float = 1.0
    """Exponent of the absolute covariance; the sign is kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._weights: NDArray[np.float64] | None = None

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        del valid, on_iteration
        features = np.nan_to_num(train.features.astype(np.float64))
        spread = features.std(axis=0)
        centred = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        covariance = (
            centred.T @ (train.labels - train.labels.mean()) / train.num_documents
        )
        strength = np.sign(covariance) * np.abs(covariance) ** self.power
        self._weights = strength / np.where(spread > 0, spread, 1.0)
        return self

    def predict(self, features: Features) -> NDArray[np.float64]:
        weights = check_fitted(self._weights)
        features = check_features(features, len(weights))
        # Not a matrix product: its order of summation, and therefore the last bit, depends on the batch size.
        scores: NDArray[np.float64] = (
            np.nan_to_num(features.astype(np.float64)) * weights
        ).sum(axis=1)
        return scores

    def save(self, folder: Path) -> None:
        (folder / "weights.json").write_text(
            json.dumps({"weights": check_fitted(self._weights).tolist()})
        )

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker = cls()
        content = read_model_json(folder / "weights.json", {"weights": list[float]})
        ranker._weights = np.array(content["weights"], dtype=np.float64)
        return ranker
