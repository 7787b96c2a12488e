from __future__ import annotations

import numpy as np
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltrbench.native import NO_FEATURE, Tree
from ltrbench.native.bins import (
    EQUAL_WIDTH,
    QUANTILE,
    BinnedFeatures,
    bin_alike,
    bin_features,
)
from ltrbench.native.forest import (
    Forest,
    add_binned_scores,
    add_scores,
    plant,
    reference_scores,
    reference_values,
)


def random_tree(rng: np.random.Generator, num_leaves: int, num_features: int) -> Tree:
    """Returns a tree in which random leaves were split until it had num_leaves leaves; the last feature is
    categorical."""
    size = 2 * num_leaves - 1
    feature, left, right = np.full(size, NO_FEATURE), np.arange(size), np.arange(size)
    num_documents = np.full(size, 1000)
    leaves = [0]
    for first_new in range(1, size, 2):
        node = leaves.pop(rng.integers(len(leaves)))
        feature[node] = rng.integers(num_features)
        left[node], right[node] = first_new, first_new + 1
        # max and min keep both children from being empty.
        num_documents[first_new] = rng.integers(1, max(2, num_documents[node]))
        num_documents[first_new + 1] = max(
            1, num_documents[node] - num_documents[first_new]
        )
        leaves += [first_new, first_new + 1]
    is_set = feature == num_features - 1
    return Tree(
        feature=feature.astype(np.int32),
        threshold=np.where(is_set, np.float32(np.nan), steps(rng, size)),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        missing_left=(rng.random(size) < 0.5) & ~is_set,
        gain=np.zeros(size),
        value=np.where(feature == NO_FEATURE, rng.normal(size=size), 0.0),
        num_documents=num_documents,
        left_categories=np.where(
            is_set[:, np.newaxis], steps(rng, (size, 3)), np.float32(np.nan)
        ),
    )


def random_case(
    seed: int, num_documents: int = 100
) -> tuple[Forest, NDArray[np.float32]]:
    """Returns a forest and features; values and thresholds are often equal."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 8, 80], size=rng.integers(3, 6))
    trees = [random_tree(rng, int(num_leaves), num_features=3) for num_leaves in sizes]
    features = steps(rng, (num_documents, 3))
    features[rng.random(features.shape) < 0.2] = np.nan
    return plant(trees, rng.normal(size=len(trees)).tolist()), features


def steps(
    rng: np.random.Generator, shape: int | tuple[int, int]
) -> NDArray[np.float32]:
    return rng.choice(
        np.array([-np.inf, -1, -0.5, -0.0, 0.0, 0.5, 1, np.inf], dtype=np.float32),
        shape,
    )


def scores_of(forest: Forest, features: NDArray[np.float32]) -> NDArray[np.float64]:
    scores = np.zeros(len(features))
    add_scores(forest, features, scores)
    return scores


@given(st.integers(0, 2**32 - 1), st.integers(1, 140))
@MAY_COMPILE
def test_the_kernel_does_what_the_reference_says(seed: int, num_documents: int) -> None:
    forest, features = random_case(seed, num_documents)
    np.testing.assert_array_equal(
        scores_of(forest, features), reference_scores(forest, features)
    )


def binned_case(
    seed: int, num_documents: int, max_bins: int, num_values: int
) -> tuple[Forest, BinnedFeatures, NDArray[np.float32], NDArray[np.float32]]:
    """Returns a forest, the bins whose thresholds it splits at, and the features of training documents and of
    others, whose values may lie outside the range of training."""
    rng = np.random.default_rng(seed)
    features = np.round(rng.normal(size=(600, 3)) * num_values / 6).astype(np.float32)
    others = np.round(rng.normal(size=(num_documents, 3)) * num_values / 4).astype(
        np.float32
    )
    for values in (features, others):
        values[rng.random(values.shape) < 0.1] = np.nan
    others[rng.random(others.shape) < 0.02] = np.inf
    others[rng.random(others.shape) < 0.02] = -np.inf
    binned = bin_features(
        features, max_bins, rng, EQUAL_WIDTH if rng.random() < 0.3 else QUANTILE
    )
    trees = [
        random_tree(rng, int(num_leaves), 3)
        for num_leaves in rng.choice([1, 2, 8, 80], size=3)
    ]
    for tree in trees:
        for node in np.flatnonzero(tree.feature != NO_FEATURE):
            column = rng.choice(
                np.flatnonzero(binned.feature_of_column == tree.feature[node])
            )
            tree.threshold[node] = binned.thresholds[
                column, rng.integers(binned.num_bins[column] - 1)
            ]
    return plant(trees, rng.normal(size=len(trees)).tolist()), binned, features, others


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 140),
    st.sampled_from([2, 9, 255, 600]),
    st.integers(1, 2000),
)
@MAY_COMPILE
def test_scores_from_bins_have_the_bits_of_scores_from_features(
    seed: int, num_documents: int, max_bins: int, num_values: int
) -> None:
    forest, binned, features, others = binned_case(
        seed, num_documents, max_bins, num_values
    )
    for values, bins in ((features, binned), (others, bin_alike(others, binned))):
        scores = np.zeros(len(values))
        add_binned_scores(forest, bins, scores)
        np.testing.assert_array_equal(scores, scores_of(forest, values))
        np.testing.assert_array_equal(
            scores, scores_of(forest, reference_values(bins, 3))
        )
