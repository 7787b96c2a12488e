"""A fit on sparse features has the trees and scores of a fit on the same features as an array."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_forest import random_tree, scores_of

from ltrbench.compilation import config
from ltrbench.data import RankingDataset
from ltrbench.data.features import AnyFeatures, SparseRows
from ltrbench.native.forest import add_stored_scores, plant
from ltrbench.native.sparse import takes_less_memory
from ltrbench.rankers.native import NativeRanker

NUM_DOCUMENTS = 120 if config.DISABLE_JIT else 600
SETTINGS: list[dict[str, Any]] = [
    {},
    {"num_threads": 1},
    {"min_docs_in_leaf": 20},
    {"max_bins": 1000},
    {"max_bins": 3},
    {"binning": "equal_width", "max_bins": 7},
    {"document_counts": "by_hessian", "equal_cuts": "highest"},
    {"growth": "by_deviance"},
    {"growth": "depth_wise", "max_depth": 3},
    {"cut_without_gain": True, "split_criterion": "least_squares"},
    {"l1": 0.1},
    {"monotone": {"7": 1, "30": -1, "33": 1}},
    {"features_per_split": 0.5},
    {"features_per_tree": 0.5},
    {"queries_per_tree": 0.5},
    {"documents_per_tree": 0.5, "float32_scores": True},
    {"goss_top_rate": 0.2, "goss_other_rate": 0.2, "learning_rate": 0.5},
    {"drop_rate": 0.5},
]


def dataset(seed: int, absent: float) -> RankingDataset:
    """Returns data with a group of exclusive features, rare, dense, constant and empty features."""
    rng = np.random.default_rng(seed)
    group = np.eye(25)[rng.integers(0, 25, NUM_DOCUMENTS)] * rng.integers(1, 4, (NUM_DOCUMENTS, 1))
    rare = np.where(rng.random((NUM_DOCUMENTS, 8)) < 0.05, rng.normal(size=(NUM_DOCUMENTS, 8)), 0.0)
    dense = np.column_stack([rng.normal(size=(NUM_DOCUMENTS, 2)), np.ones(NUM_DOCUMENTS)])
    features = np.column_stack([group, rare, dense, np.zeros((NUM_DOCUMENTS, 2))])
    if np.isnan(absent):
        features[features == 0] = np.nan
    else:
        features[rng.random(features.shape) < 0.02] = np.nan
    utility = np.nan_to_num(features) @ rng.normal(size=features.shape[1])
    labels = np.digitize(utility, np.quantile(utility, [0.5, 0.75, 0.9])).astype(np.float64)
    query_start = np.append(np.arange(0, NUM_DOCUMENTS, 15), NUM_DOCUMENTS)
    return RankingDataset(features=features.astype(np.float32), labels=labels, query_start=query_start)


def with_features(data: RankingDataset, features: AnyFeatures) -> RankingDataset:
    return RankingDataset(features=features, labels=data.labels, query_start=data.query_start)  # type: ignore[arg-type]


def sparse_of(data: RankingDataset, absent: float) -> RankingDataset:
    return with_features(data, SparseRows.of(data.features, absent))


def fit(
    train: RankingDataset, valid: RankingDataset | None = None, **changed: Any
) -> tuple[NativeRanker, list[NDArray[np.float64]]]:
    """Returns a fitted model, and the scores of training and validation documents after each tree."""
    curve: list[NDArray[np.float64]] = []

    def note(iteration: Any) -> None:
        curve.append(iteration.train_scores)
        if valid is not None:
            curve.append(iteration.valid_scores)

    fields = {"num_trees": 6, "num_leaves": 12, "min_docs_in_leaf": 2, "num_threads": 2, **changed}
    return NativeRanker(**fields).fit(train, valid, note), curve


def assert_same_fit(
    one: tuple[NativeRanker, list[NDArray[np.float64]]],
    other: tuple[NativeRanker, list[NDArray[np.float64]]],
    folder: Path,
) -> None:
    for name, (ranker, _) in (("one", one), ("other", other)):
        (folder / name).mkdir()
        ranker.save(folder / name)
    assert (folder / "one" / "model.npz").read_bytes() == (folder / "other" / "model.npz").read_bytes()
    assert len(one[1]) == len(other[1]) > 0
    for scores, expected in zip(one[1], other[1], strict=True):
        np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize("absent", [0.0, np.nan])
@pytest.mark.parametrize("changed", SETTINGS, ids=str)
def test_the_model_and_all_scores_are_those_of_an_array(
    changed: dict[str, Any], absent: float, tmp_path: Path
) -> None:
    train, valid = dataset(0, absent), dataset(1, absent)
    dense = fit(train, valid, **changed)
    sparse = fit(sparse_of(train, absent), sparse_of(valid, absent), **changed)
    assert len(dense[0].trees().trees) > 0
    assert_same_fit(sparse, dense, tmp_path)
    stored = sparse_of(valid, absent)
    np.testing.assert_array_equal(sparse[0].predict(stored.features), dense[0].predict(valid.features))


@given(seed=st.integers(0, 1000), min_docs=st.integers(1, 30), absent=st.sampled_from([0.0, np.nan]))
@MAY_COMPILE
def test_a_tree_of_any_data_is_that_of_an_array(seed: int, min_docs: int, absent: float) -> None:
    train = dataset(seed, absent)
    changed: dict[str, Any] = {"num_trees": 2, "min_docs_in_leaf": min_docs, "num_threads": 1 + seed % 2}
    (dense, _), (sparse, _) = fit(train, **changed), fit(sparse_of(train, absent), **changed)
    np.testing.assert_array_equal(sparse.predict(train.features), dense.predict(train.features))


@pytest.mark.parametrize("drop_rate", [0.0, 0.5])
def test_a_fit_on_sparse_features_continues_a_model(drop_rate: float, tmp_path: Path) -> None:
    train, valid = dataset(0, 0.0), dataset(1, 0.0)
    (tmp_path / "start").mkdir()
    fit(train, num_trees=3, seed=5)[0].save(tmp_path / "start")
    changed = {"warm_start": str(tmp_path / "start"), "drop_rate": drop_rate}
    dense = fit(train, valid, **changed)
    assert_same_fit(fit(sparse_of(train, 0.0), sparse_of(valid, 0.0), **changed), dense, tmp_path)


def test_features_with_many_stored_values_are_binned_like_an_array(tmp_path: Path) -> None:
    train, valid = dataset(0, 0.0), dataset(1, 0.0)
    rare, frequent = sparse_of(train, 0.0), SparseRows.of(train.features, np.nan)
    assert takes_less_memory(cast(SparseRows, rare.features))
    assert not takes_less_memory(frequent)
    sparse = fit(with_features(train, frequent), with_features(valid, SparseRows.of(valid.features, np.nan)))
    assert_same_fit(sparse, fit(train, valid), tmp_path)


@given(
    seed=st.integers(0, 2**32 - 1),
    num_documents=st.integers(1, 140),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    absent=st.sampled_from([0.0, np.nan]),
)
@MAY_COMPILE
def test_scores_from_stored_values_have_the_bits_of_scores_from_an_array(
    seed: int, num_documents: int, share: float, absent: float
) -> None:
    rng = np.random.default_rng(seed)
    features = np.where(rng.random((num_documents, 6)) < share, rng.normal(size=(num_documents, 6)), absent)
    features[rng.random(features.shape) < 0.1] = np.nan
    features = features.astype(np.float32)
    trees = [random_tree(rng, int(num_leaves), 6) for num_leaves in rng.choice([1, 2, 8, 80], size=3)]
    forest = plant(trees, rng.normal(size=len(trees)).tolist())
    scores = np.zeros(num_documents)
    add_stored_scores(forest, SparseRows.of(features, absent), scores)
    np.testing.assert_array_equal(scores, scores_of(forest, features))
