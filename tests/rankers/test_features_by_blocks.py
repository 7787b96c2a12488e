"""LightGBM and XGBoost read features by blocks: models and scores have the same bits as with one array."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from ltrbench.data import RankingDataset, Splits
from ltrbench.data import features as matrix
from ltrbench.data.features import AnyFeatures, FeatureMatrix, SparseRows, StackedRows
from ltrbench.rankers import Iteration
from ltrbench.rankers import xgboost as of_xgboost
from ltrbench.rankers.library import LibraryRanker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.xgboost import XGBoostRanker

NUM_FEATURES = 7
QUERIES = np.random.default_rng(0).permutation(60)

BACKENDS = [LightGBMRanker, XGBoostRanker]
of_every_backend = pytest.mark.parametrize("backend", BACKENDS)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 50 documents, so that a data set consists of several, and queries lie across two."""
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 50 * NUM_FEATURES * 4)


def make_data(seed: int, missing: float = 0.1, **more: Any) -> RankingDataset:
    """Returns 60 queries, of which one is longer than a block, with features of few and of many values."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 25, 60)
    sizes[7] = 120
    query_start = np.concatenate([[0], np.cumsum(sizes)])
    features = rng.normal(size=(query_start[-1], NUM_FEATURES)).astype(np.float32)
    features[:, 1:4] = np.round(features[:, 1:4])
    features[rng.random(len(features)) < missing, 2] = np.nan
    features[:, 5] = 1.5
    labels = np.clip(np.round(2 * features[:, 0] + rng.normal(size=len(features))), 0, 4)
    return RankingDataset(features=features, labels=labels, query_start=query_start, **more)


def with_features(data: RankingDataset, features: AnyFeatures) -> RankingDataset:
    return RankingDataset(
        features=features,  # type: ignore[arg-type]
        labels=data.labels,
        query_start=data.query_start,
        query_weights=data.query_weights,
        positions=data.positions,
    )


def stacked(data: RankingDataset) -> RankingDataset:
    return with_features(data, StackedRows([data.features[:3], data.features[3:211], data.features[211:]]))


def view(data: RankingDataset) -> RankingDataset:
    return data.take_queries(QUERIES)


def view_of_stacked(data: RankingDataset) -> RankingDataset:
    return stacked(data).take_queries(QUERIES)


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


FORMS = [stacked, view, view_of_stacked, opaque]
of_every_form = pytest.mark.parametrize("form", FORMS)


class Fit(NamedTuple):
    ranker: LibraryRanker
    model: bytes
    curve: list[Any]


def fit(backend: type[LibraryRanker], splits: Splits, **settings: Any) -> Fit:
    """Fits a model and returns it with the scores of training and validation after each iteration."""
    curve: list[Any] = []

    def note(iteration: Iteration) -> None:
        curve.extend((iteration.train_scores, iteration.valid_scores))

    shared = {"num_trees": 6, "num_leaves": 9, "learning_rate": 0.3, "seed": 3}
    ranker = backend(**{**shared, **settings}).fit(splits.train, splits.valid, note)
    return Fit(ranker, ranker._to_bytes(ranker._model), curve)


def make_splits(form: Any, **more: Any) -> Splits:
    return Splits(*(form(make_data(seed, **more)) for seed in (1, 2, 3)))


def assert_same(one: Fit, other: Fit) -> None:
    assert one.model == other.model
    assert len(one.curve) == len(other.curve) > 0
    for of_one, of_other in zip(one.curve, other.curve, strict=True):
        np.testing.assert_array_equal(of_one, of_other)


@of_every_form
@of_every_backend
def test_a_fit_by_blocks_gives_the_model_and_the_scores_of_an_array(
    backend: type[LibraryRanker], form: Any
) -> None:
    splits = make_splits(form)
    assert isinstance(splits.train.features, FeatureMatrix)
    by_blocks, in_memory = fit(backend, splits), fit(backend, splits.in_memory())
    assert_same(by_blocks, in_memory)
    test = splits.test.in_memory()
    scores = by_blocks.ranker.predict(splits.test.features)
    assert scores.dtype == backend.score_dtype
    np.testing.assert_array_equal(scores, in_memory.ranker.predict(test.features))
    np.testing.assert_array_equal(
        by_blocks.ranker.contributions(splits.test.features), in_memory.ranker.contributions(test.features)
    )


@of_every_form
@of_every_backend
def test_a_fit_and_a_prediction_never_have_the_features_as_one_array(
    backend: type[LibraryRanker], form: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "available_bytes", lambda: 0)  # no copy of a whole matrix
    splits = make_splits(form)
    ranker = fit(backend, splits).ranker
    assert len(ranker.predict(splits.test.features)) == splits.test.num_documents
    assert ranker.contributions(splits.test.features) is not None


# Sparse features


def make_sparse(seed: int, absent: float) -> Any:
    """Returns the dense and the sparse form of a data set with few values per document."""
    dense = make_data(seed)
    features = dense.features.copy()
    features[np.random.default_rng(seed).random(features.shape) < 0.7] = absent
    sparse = SparseRows.of(features, absent)
    assert len(sparse.values) < features.size
    return with_features(dense, features), with_features(dense, sparse)


@pytest.mark.parametrize("settings", [{}, {"max_bins": 16}, {"num_leaves": None, "learning_rate": None}])
@pytest.mark.parametrize("takes", ["all", "some queries"])
@pytest.mark.parametrize("absent", [0.0, np.nan])
@of_every_backend
def test_sparse_features_give_the_model_of_dense_features(
    backend: type[LibraryRanker], absent: float, takes: str, settings: dict[str, Any]
) -> None:
    queries = np.arange(60) if takes == "all" else QUERIES[:50]
    forms = [make_sparse(seed, absent) for seed in (1, 2, 3)]
    dense, sparse = (Splits(*(pair[form].take_queries(queries) for pair in forms)) for form in (0, 1))
    of_dense, of_sparse = fit(backend, dense.in_memory(), **settings), fit(backend, sparse, **settings)
    assert_same(of_sparse, of_dense)
    np.testing.assert_array_equal(
        of_sparse.ranker.predict(sparse.test.features),
        of_dense.ranker.predict(dense.test.in_memory().features),
    )
    np.testing.assert_array_equal(
        of_sparse.ranker.contributions(sparse.test.features),
        of_dense.ranker.contributions(dense.test.in_memory().features),
    )


@pytest.mark.parametrize("form", [opaque, view_of_stacked])
@pytest.mark.parametrize("in_files", [False, True])
def test_xgboost_honours_the_weights_of_queries_in_batches(form: Any, in_files: bool, tmp_path: Path) -> None:
    """Fails if a version of XGBoost reads the weights as weights of documents, or not at all."""
    weights = np.random.default_rng(1).uniform(0.1, 3.0, 60)
    train = form(make_data(1, missing=0.0, query_weights=weights))
    made = of_xgboost.training_matrix(train, 1, None, tmp_path if in_files else None)
    assert made.get_weight().shape == (train.num_queries,)
    np.testing.assert_array_equal(made.get_weight(), train.query_weights.astype(np.float32))
    np.testing.assert_array_equal(made.get_group(), train.query_sizes)
    heavy = replace(train, query_weights=np.where(np.arange(60) < 20, 9.0, 1.0))
    fits = [XGBoostRanker(num_trees=3, num_leaves=6).fit(each) for each in (heavy, heavy.in_memory())]
    scores = [ranker.predict(train.features) for ranker in fits]
    np.testing.assert_array_equal(scores[0], scores[1])
    unweighted = XGBoostRanker(num_trees=3, num_leaves=6).fit(replace(train, query_weights=None))
    assert np.abs(scores[0] - unweighted.predict(train.features)).max() > 1e-3
