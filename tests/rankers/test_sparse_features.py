"""Backends with sparse features: the same scores and importances as with an array, without an array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor

from ltrbench.data import RankingDataset, Splits
from ltrbench.data import features as matrix
from ltrbench.data.features import AnyFeatures, SparseRows
from ltrbench.rankers import Ranker
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.importance import SHUFFLES, ImportanceSettings, importances
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.scikit_learn import SklearnRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.shapes import Features

NUM_FEATURES = 30


@dataclass(kw_only=True)
class ForestRanker(SklearnRanker):
    def estimator(self) -> Any:
        return RandomForestRegressor(n_estimators=5)


RANKERS: dict[str, Callable[[], Ranker]] = {
    "native": lambda: NativeRanker(num_trees=5),
    "native, several columns per feature": lambda: NativeRanker(num_trees=3, max_bins=300),
    "native, equal width": lambda: NativeRanker(num_trees=3, binning="equal_width", max_bins=20),
    "catboost lambdamart": lambda: CatBoostRanker(num_trees=5, num_leaves=7, learning_rate=0.1),
    "catboost yetirank": lambda: CatBoostRanker(num_trees=5),
    "scikit-learn": ForestRanker,
    "single_feature": SingleFeatureRanker,
    "random": RandomRanker,
}


def features_of(seed: int, num_documents: int, background: float = 0.0) -> Features:
    rng = np.random.default_rng(seed)
    shape = num_documents, NUM_FEATURES
    features = np.where(rng.random(shape) < 0.15, rng.normal(size=shape), background).astype(np.float32)
    features[:, 0] = rng.random(num_documents)  # a dense feature
    features[:, 1] = rng.random(num_documents) < 0.01
    features[:, 2] = background  # a constant feature
    return features


def splits_of(background: float, missing: bool) -> Splits:
    parts = []
    for seed in range(3):
        features = features_of(seed, 600, background)
        relevance = np.nansum(features[:, 3:8] > 0.5, axis=1) + (features[:, 0] > 0.6)
        if missing:
            features[np.random.default_rng(seed).random(features.shape) < 0.02] = np.nan
        labels = relevance.astype(np.float64)
        parts.append(RankingDataset(features=features, labels=labels, query_start=np.arange(0, 601, 20)))
    return Splits(*parts)


def as_sparse(splits: Splits, absent: float = 0.0, shuffled: bool = False) -> Splits:
    """Returns splits with sparse features; `shuffled`: as views of the queries of a larger matrix."""

    def convert(split: RankingDataset) -> RankingDataset:
        if not shuffled:
            return with_features(split, SparseRows.of(split.features, absent))
        # The first half of the queries goes to the end, and comes back by the view.
        half, num_queries = split.num_queries // 2, split.num_queries
        turned = split.take_queries([*range(half, num_queries), *range(half)]).in_memory()
        turned = with_features(turned, SparseRows.of(turned.features, absent))
        return turned.take_queries([*range(num_queries - half, num_queries), *range(num_queries - half)])

    assert splits.valid is not None
    return Splits(convert(splits.train), convert(splits.valid), convert(splits.test))


def with_features(dataset: RankingDataset, features: AnyFeatures) -> RankingDataset:
    return replace(dataset, features=cast(Features, features))


@pytest.fixture
def no_large_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 60 rows, and no memory for more than 200 rows as an array."""
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 60 * NUM_FEATURES * 4)
    monkeypatch.setattr(matrix, "available_bytes", lambda: 200 * NUM_FEATURES * 4)


def takes_missing(name: str) -> bool:
    return not name.startswith("scikit-learn")


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("name", RANKERS)
def test_scores_are_those_of_an_array(name: str, shuffled: bool, request: pytest.FixtureRequest) -> None:
    splits = splits_of(0.0, missing=takes_missing(name))
    sparse = as_sparse(splits, shuffled=shuffled)
    assert sparse.train.fingerprint == splits.train.fingerprint
    expected = RANKERS[name]().fit(splits.train, splits.valid)
    request.getfixturevalue("no_large_arrays")
    ranker = RANKERS[name]().fit(sparse.train, sparse.valid)
    scores = expected.predict(splits.test.features)
    assert np.unique(scores).size > 10
    np.testing.assert_array_equal(ranker.predict(sparse.test.features), scores)
    np.testing.assert_array_equal(expected.predict(sparse.test.features), scores)
    np.testing.assert_array_equal(ranker.predict(splits.test.features), scores)


@pytest.mark.parametrize("name", ["native", "catboost yetirank", "single_feature"])
def test_importances_are_those_of_an_array(name: str) -> None:
    splits = splits_of(0.0, missing=True)
    settings = ImportanceSettings(kinds=list(SHUFFLES), repeats=2)
    figures: list[dict[str, NDArray[np.float64]]] = []
    for part in (splits, as_sparse(splits, shuffled=True)):
        ranker = RANKERS[name]().fit(part.train)
        figures.append(dict(importances(ranker, part, settings, seed=0).values))
    assert figures[0].keys() == figures[1].keys()
    for kind, values in figures[0].items():
        np.testing.assert_array_equal(figures[1][kind], values)
