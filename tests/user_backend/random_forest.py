"""A user's backend on a scikit-learn regressor."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.ensemble import RandomForestRegressor

from ltrbench.errors import require
from ltrbench.rankers.scikit_learn import SklearnRanker


@dataclass(kw_only=True)
class RandomForestRanker(SklearnRanker):
    """Scores a document by a random forest that is fitted to the labels."""

    num_trees: int = 100
    min_docs_in_leaf: int = 5
    features_per_split: float = 0.33
    """Fraction of the features sampled per split."""

    def __post_init__(self) -> None:
        require("num_trees", self.num_trees, at_least=1)
        super().__post_init__()

    def estimator(self) -> RandomForestRegressor:
        return RandomForestRegressor(
            n_estimators=self.num_trees,
            min_samples_leaf=self.min_docs_in_leaf,
            max_features=self.features_per_split,
        )
