"""The scores of documents from their bins have the bits of their scores from the features."""

from __future__ import annotations

import numpy as np
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_forest import random_tree, scores_of

from ltrbench.native import NO_FEATURE
from ltrbench.native.bins import EQUAL_WIDTH, QUANTILE, BinnedFeatures, bin_alike, bin_features
from ltrbench.native.forest import Forest, add_binned_scores, plant, reference_values


def random_case(
    seed: int, num_documents: int, max_bins: int, num_values: int
) -> tuple[Forest, BinnedFeatures, NDArray[np.float32], NDArray[np.float32]]:
    """Returns a forest, the bins whose thresholds it splits at, and the features of training documents and of
    others, whose values may lie outside the range of training."""
    rng = np.random.default_rng(seed)
    features = np.round(rng.normal(size=(600, 3)) * num_values / 6).astype(np.float32)
    others = np.round(rng.normal(size=(num_documents, 3)) * num_values / 4).astype(np.float32)
    for values in (features, others):
        values[rng.random(values.shape) < 0.1] = np.nan
    others[rng.random(others.shape) < 0.02] = np.inf
    others[rng.random(others.shape) < 0.02] = -np.inf
    binned = bin_features(features, max_bins, rng, EQUAL_WIDTH if rng.random() < 0.3 else QUANTILE)
    trees = [random_tree(rng, int(num_leaves), 3) for num_leaves in rng.choice([1, 2, 8, 80], size=3)]
    for tree in trees:
        for node in np.flatnonzero(tree.feature != NO_FEATURE):
            column = rng.choice(np.flatnonzero(binned.feature_of_column == tree.feature[node]))
            tree.threshold[node] = binned.thresholds[column, rng.integers(binned.num_bins[column] - 1)]
    return plant(trees, rng.normal(size=len(trees)).tolist()), binned, features, others


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 140), st.sampled_from([2, 9, 255, 600]), st.integers(1, 2000)
)
@MAY_COMPILE
def test_scores_from_bins_have_the_bits_of_scores_from_features(
    seed: int, num_documents: int, max_bins: int, num_values: int
) -> None:
    forest, binned, features, others = random_case(seed, num_documents, max_bins, num_values)
    for values, bins in ((features, binned), (others, bin_alike(others, binned))):
        scores = np.zeros(len(values))
        add_binned_scores(forest, bins, scores)
        np.testing.assert_array_equal(scores, scores_of(forest, values))
        np.testing.assert_array_equal(scores, scores_of(forest, reference_values(bins, 3)))


def test_other_documents_have_the_bins_of_their_values() -> None:
    features = np.arange(10, dtype=np.float32)[:, None]
    binned = bin_features(features, 5, np.random.default_rng(0))
    others = np.array([[-3.0], [np.nan], [4.0], [50.0]], dtype=np.float32)
    bins = bin_alike(np.concatenate([features, others]), binned).bins_of(0, np.arange(14, dtype=np.uint32))
    assert bins[:10].tolist() == binned.bins_of(0, np.arange(10, dtype=np.uint32)).tolist()
    assert bins[10:].tolist() == [0, 5, bins[4], 4]
