"""native reads features by blocks: models, scores and importances have the same bits as with one array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ltrbench.data import RankingDataset, Splits
from ltrbench.data import features as matrix
from ltrbench.data.features import StackedRows
from ltrbench.native.bins import QUANTILE
from ltrbench.native.boosting import BINNINGS
from ltrbench.rankers.base import Iteration
from ltrbench.rankers.native import NativeRanker

QUERIES = np.random.default_rng(0).permutation(30)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 100 documents, so that a data set consists of several."""
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 100 * 9 * 4)


def in_blocks(seed: int) -> RankingDataset:
    """Returns 30 queries in random order, as a view of three stacked arrays with missing values."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 30, 40)
    features = rng.normal(size=(sizes.sum(), 9)).astype(np.float32)
    utility = features[:, 0] + features[:, 1] * features[:, 2] + 0.3 * rng.normal(size=len(features))
    features[:, 3] = np.round(features[:, 3])
    features[:, 4:6] = 7.0, np.nan
    features[rng.random(features.shape) < 0.1] = np.nan
    stacked = StackedRows([features[:7], features[7:200], features[200:]])
    return RankingDataset(
        features=stacked,  # type: ignore[arg-type]
        labels=np.digitize(utility, [0.0, 1.0, 2.0]).astype(np.float64),
        query_start=np.concatenate([[0], np.cumsum(sizes)]),
    ).take_queries(QUERIES)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return Splits(*(in_blocks(seed) for seed in (1, 2, 3)))


def assert_same_model(one: NativeRanker, other: NativeRanker) -> None:
    assert one._forest is not None
    assert other._forest is not None
    for of_one, of_other in zip(one._forest.nodes, other._forest.nodes, strict=True):
        np.testing.assert_array_equal(of_one, of_other)
    np.testing.assert_array_equal(one._forest.weights, other._forest.weights)


SETTINGS: list[dict[str, Any]] = [
    {"drop_rate": 0.5, "queries_per_tree": 0.7},
    {"binning": "equal_width", "max_bins": 20},
    {"float32_scores": True, "drop_rate": 0.3},
]


def fit_and_curve(splits: Splits, **settings: Any) -> tuple[NativeRanker, list[Any]]:
    """Returns the fitted ranker, and the scores of training and validation after each iteration."""
    curve: list[Any] = []

    def note(iteration: Iteration) -> None:
        curve.extend((iteration.train_scores, iteration.valid_scores))

    ranker = NativeRanker(**{"num_trees": 6, "min_docs_in_leaf": 5, **settings})
    return ranker.fit(splits.train, splits.valid, note), curve


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_fit_by_blocks_gives_the_same_model_and_curve(
    splits: Splits, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Fewer documents than the data have, so that thresholds come from a sample.
    monkeypatch.setitem(BINNINGS, "quantile", QUANTILE._replace(sample_size=200))
    (one, curve), (other, expected) = (
        fit_and_curve(data, **settings) for data in (splits, splits.in_memory())
    )
    assert_same_model(one, other)
    assert len(curve) == len(expected) == 12
    for by_blocks, in_memory in zip(curve, expected, strict=True):
        np.testing.assert_array_equal(by_blocks, in_memory)


def test_a_fit_and_a_prediction_never_have_the_features_as_one_array(
    splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BINNINGS, "quantile", QUANTILE._replace(sample_size=200))
    monkeypatch.setattr(matrix, "available_bytes", lambda: 10_000)  # for the bins, not for a whole matrix
    ranker, _ = fit_and_curve(splits, documents_per_tree=0.5)
    assert len(ranker.predict(splits.test.features)) == splits.test.num_documents
