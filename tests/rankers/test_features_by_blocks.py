"""Features that are not one array: models, scores and importances have the same bits as with one array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ltrbench.data import RankingDataset, Splits
from ltrbench.data import features as matrix
from ltrbench.data.features import AnyFeatures, FeatureMatrix, SparseRows, StackedRows
from ltrbench.native.bins import QUANTILE
from ltrbench.native.boosting import BINNINGS
from ltrbench.native.objectives.lambdarank import LambdaRank
from ltrbench.rankers import Iteration, Ranker
from ltrbench.rankers import xgboost as of_xgboost
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.importance import SHUFFLES, ImportanceSettings, importances
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.rankers.xgboost import XGBoostRanker

NUM_FEATURES = 7
QUERIES = np.random.default_rng(0).permutation(60)
SHARED: dict[str, Any] = {
    "num_trees": 6,
    "num_leaves": 9,
    "learning_rate": 0.3,
    "seed": 3,
}

RANKERS: dict[str, Callable[[], Ranker]] = {
    "native": lambda: NativeRanker(**SHARED, drop_rate=0.5, queries_per_tree=0.7),
    "native, several columns per feature": lambda: NativeRanker(**SHARED, max_bins=300),
    "native, equal width": lambda: NativeRanker(
        **SHARED, binning="equal_width", max_bins=20
    ),
    "native, float32": lambda: NativeRanker(
        **SHARED,
        objective=LambdaRank(float32_scores=True),
        documents_per_tree=0.5,
    ),
    "lightgbm": lambda: LightGBMRanker(**SHARED),
    "lightgbm, few bins": lambda: LightGBMRanker(**SHARED, max_bins=16),
    "xgboost": lambda: XGBoostRanker(**SHARED),
    "xgboost, few bins": lambda: XGBoostRanker(**SHARED, max_bins=16),
    "xgboost, its defaults": lambda: XGBoostRanker(num_trees=6),
    "catboost lambdamart": lambda: CatBoostRanker(**SHARED),
    "catboost yetirank": lambda: CatBoostRanker(num_trees=5),
    "single_feature": SingleFeatureRanker,
    "random": RandomRanker,
}
BY_BLOCKS = [
    name for name in RANKERS if not name.startswith(("catboost", "single_feature"))
]


def make_data(seed: int, **more: Any) -> RankingDataset:
    """Returns 60 queries, of which one is longer than a block, with features of few and of many values."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 25, 60)
    sizes[7] = 120
    query_start = np.concatenate([[0], np.cumsum(sizes)])
    features = rng.normal(size=(query_start[-1], NUM_FEATURES)).astype(np.float32)
    features[:, 1:4] = np.round(features[:, 1:4])
    features[rng.random(len(features)) < 0.1, 2] = np.nan
    features[:, 5] = 1.5
    labels = np.clip(
        np.round(2 * features[:, 0] + rng.normal(size=len(features))), 0, 4
    )
    return RankingDataset(
        features=features, labels=labels, query_start=query_start, **more
    )


def with_features(data: RankingDataset, features: AnyFeatures) -> RankingDataset:
    return replace(data, features=features)  # type: ignore[arg-type]


class Opaque(FeatureMatrix):
    """A matrix of a kind that the backends do not know."""

    def __init__(self, array: NDArray[np.float32]) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, int]:
        return self._array.shape[0], self._array.shape[1]

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        return self._array[start:stop]

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return self._array[rows]

    def arrays(self) -> Any:
        yield self._array


def opaque(data: RankingDataset) -> RankingDataset:
    return with_features(data, Opaque(data.features))


def view_of_stacked(data: RankingDataset) -> RankingDataset:
    parts = [data.features[:3], data.features[3:211], data.features[211:]]
    return with_features(data, StackedRows(parts)).take_queries(QUERIES)


def sparse(data: RankingDataset, absent: float = 0.0) -> RankingDataset:
    """Returns sparse features with few values per document."""
    features = data.features.copy()
    features[np.random.default_rng(1).random(features.shape) < 0.7] = absent
    return with_features(data, SparseRows.of(features, absent))


def sparse_with_missing(data: RankingDataset) -> RankingDataset:
    return sparse(data, np.nan)


def view_of_sparse(data: RankingDataset) -> RankingDataset:
    return sparse(data).take_queries(QUERIES[:50])


CASES = [
    *(
        (form, name)
        for form in (view_of_stacked, opaque, sparse_with_missing)
        for name in BY_BLOCKS
    ),
    *((form, name) for form in (sparse, view_of_sparse) for name in RANKERS),
]


def make_splits(form: Any) -> Splits:
    return Splits(*(form(make_data(seed)) for seed in (1, 2, 3)))


def fit(name: str, splits: Splits) -> tuple[Ranker, list[Any]]:
    """Returns the ranker, and the scores of training and validation after each iteration."""
    curve: list[Any] = []

    def note(iteration: Iteration) -> None:
        curve.extend((iteration.train_scores, iteration.valid_scores))

    return RANKERS[name]().fit(splits.train, splits.valid, note), curve


def refuse_arrays(what: str, num_bytes: int, remedy: str) -> None:
    assert num_bytes < 15_000, (
        f"{what} would be made"
    )  # less than all values of a split


def model_files(ranker: Ranker, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    ranker.save(folder)
    # The settings hold the seconds of the fit.
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.name != "settings.json"
    }


@pytest.mark.parametrize(("form", "name"), CASES)
def test_models_and_scores_are_those_of_one_array_which_is_never_made(
    form: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Fewer documents than the data have, so that thresholds come from a sample.
    monkeypatch.setitem(BINNINGS, "quantile", QUANTILE._replace(sample_size=400))
    splits = make_splits(form)
    expected, expected_curve = fit(name, splits.in_memory())
    features = np.asarray(splits.test.features)
    scores, contributions = expected.predict(features), expected.contributions(features)
    # Blocks of 50 documents, so that queries lie across two.
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 50 * NUM_FEATURES * 4)
    monkeypatch.setattr(matrix, "require_memory", refuse_arrays)
    ranker, curve = fit(name, splits)
    assert len(curve) == len(expected_curve)
    for one, other in zip(curve, expected_curve, strict=True):
        np.testing.assert_array_equal(one, other)
    for each in (ranker, expected):
        np.testing.assert_array_equal(each.predict(splits.test.features), scores)
    if not name.startswith("catboost"):
        assert model_files(ranker, tmp_path / "a") == model_files(
            expected, tmp_path / "b"
        )
    if name.startswith(("lightgbm", "xgboost")):
        np.testing.assert_array_equal(
            ranker.contributions(splits.test.features), contributions
        )


@pytest.mark.parametrize("name", ["native", "catboost yetirank", "single_feature"])
def test_importances_of_sparse_features_are_those_of_an_array(name: str) -> None:
    splits = make_splits(sparse)
    settings = ImportanceSettings(kinds=list(SHUFFLES), repeats=2)
    expected, taken = (
        importances(RANKERS[name]().fit(part.train), part, settings, seed=0).values
        for part in (splits.in_memory(), splits)
    )
    assert taken.keys() == expected.keys()
    for kind, values in expected.items():
        np.testing.assert_array_equal(taken[kind], values)


@pytest.mark.parametrize("form", [opaque, view_of_stacked])
@pytest.mark.parametrize("in_files", [False, True])
def test_xgboost_honours_the_weights_of_queries_in_batches(
    form: Any, in_files: bool, tmp_path: Path
) -> None:
    """Fails if a version of XGBoost reads the weights as weights of documents, or not at all."""
    weights = np.random.default_rng(1).uniform(0.1, 3.0, 60)
    train = form(make_data(1, query_weights=weights))
    made = of_xgboost.training_matrix(train, 1, None, tmp_path if in_files else None)
    np.testing.assert_array_equal(
        made.get_weight(), train.query_weights.astype(np.float32)
    )
    np.testing.assert_array_equal(made.get_group(), train.query_sizes)
    heavy = replace(train, query_weights=np.where(np.arange(60) < 20, 9.0, 1.0))
    fits = [
        XGBoostRanker(num_trees=3, num_leaves=6).fit(each)
        for each in (heavy, heavy.in_memory())
    ]
    scores = [ranker.predict(train.features) for ranker in fits]
    np.testing.assert_array_equal(scores[0], scores[1])
    unweighted = XGBoostRanker(num_trees=3, num_leaves=6).fit(
        replace(train, query_weights=None)
    )
    assert np.abs(scores[0] - unweighted.predict(train.features)).max() > 1e-3
