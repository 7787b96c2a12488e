from __future__ import annotations

import numpy as np
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltrbench.native import NO_FEATURE, Tree
from ltrbench.native.forest import Forest, add_scores, plant, reference_scores


def random_tree(rng: np.random.Generator, num_leaves: int, num_features: int) -> Tree:
    """Returns a tree in which random leaves were split until it had num_leaves leaves."""
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
        num_documents[first_new + 1] = max(1, num_documents[node] - num_documents[first_new])
        leaves += [first_new, first_new + 1]
    return Tree(
        feature=feature.astype(np.int32),
        threshold=steps(rng, size),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        missing_left=rng.random(size) < 0.5,
        gain=np.zeros(size),
        value=np.where(feature == NO_FEATURE, rng.normal(size=size), 0.0),
        num_documents=num_documents,
    )


def random_case(seed: int, num_documents: int = 100) -> tuple[Forest, NDArray[np.float32]]:
    """Returns a forest and features; values and thresholds are often equal."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 8, 80], size=rng.integers(3, 6))
    trees = [random_tree(rng, int(num_leaves), num_features=3) for num_leaves in sizes]
    features = steps(rng, (num_documents, 3))
    features[rng.random(features.shape) < 0.2] = np.nan
    return plant(trees, rng.normal(size=len(trees)).tolist()), features


def steps(rng: np.random.Generator, shape: int | tuple[int, int]) -> NDArray[np.float32]:
    return rng.choice(np.array([-np.inf, -1, -0.5, -0.0, 0.0, 0.5, 1, np.inf], dtype=np.float32), shape)


def scores_of(forest: Forest, features: NDArray[np.float32]) -> NDArray[np.float64]:
    scores = np.zeros(len(features))
    add_scores(forest, features, scores)
    return scores


@given(st.integers(0, 2**32 - 1), st.integers(1, 140))
@MAY_COMPILE
def test_the_kernel_does_what_the_reference_says(seed: int, num_documents: int) -> None:
    forest, features = random_case(seed, num_documents)
    np.testing.assert_array_equal(scores_of(forest, features), reference_scores(forest, features))


def test_the_score_of_a_document_does_not_depend_on_its_batch() -> None:
    forest, features = random_case(0, num_documents=200)
    together = scores_of(forest, features)
    for first, end in ((0, 1), (63, 65), (64, 200), (199, 200), (7, 7)):
        np.testing.assert_array_equal(scores_of(forest, features[first:end]), together[first:end])


def test_adding_trees_one_by_one_gives_the_bits_of_adding_all_at_once() -> None:
    forest, features = random_case(1)
    scores = np.zeros(len(features))
    for tree, weight in zip(forest.trees(), forest.weights, strict=True):
        add_scores(plant([tree], [weight]), features, scores)
    np.testing.assert_array_equal(scores, scores_of(forest, features))
