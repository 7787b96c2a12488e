"""Random ensembles and documents for tests of shipped models."""

from __future__ import annotations

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree

NUM_FEATURES = 4


def random_ensemble(
    seed: int, comparison: str = "<=", num_trees: int = 8, score_dtype: str = "float64"
) -> Ensemble:
    """Returns trees with missing values on both sides, and thresholds between 0 and 1."""
    rng = np.random.default_rng(seed)
    # Leaves are numbers of float32, as libraries with float32 scores have them.
    trees = tuple(WeightedTree(1.0, _tree(rng, depth=3)) for _ in range(num_trees))
    return Ensemble(trees, 0.5, comparison, "float32", score_dtype)  # type: ignore[arg-type]


def _tree(rng: np.random.Generator, depth: int) -> Node:
    if depth == 0 or rng.random() < 0.1:
        return Leaf(float(np.float32(rng.normal())))
    threshold = float(np.float32(rng.random()))
    left, right = _tree(rng, depth - 1), _tree(rng, depth - 1)
    return InnerNode(
        int(rng.integers(NUM_FEATURES)), threshold, bool(rng.integers(2)), left, right
    )


def random_documents(
    seed: int, num_queries: int = 8, missing: float = 0.0
) -> RankingDataset:
    """Returns queries of ten documents, with a share of missing values."""
    rng = np.random.default_rng([seed, 1])
    features = rng.random((10 * num_queries, NUM_FEATURES)).astype(np.float32)
    features[rng.random(features.shape) < missing] = np.nan
    return RankingDataset(
        features=features,
        labels=rng.integers(0, 3, len(features)).astype(np.float64),
        query_start=np.arange(num_queries + 1) * 10,
        query_ids=np.array([f"q{query}" for query in range(num_queries)]),
        document_ids=np.array([f"d{row}" for row in range(len(features))]),
    )
