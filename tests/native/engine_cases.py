"""Synthetic data sets and settings for the tests of the engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray

from ltrbench.compilation import config
from ltrbench.data import RankingDataset
from ltrbench.native.objectives.pairs import PairSettings
from ltrbench.rankers.native import NativeRanker, pairs_of

MAY_COMPILE = settings(deadline=None, max_examples=10 if config.DISABLE_JIT else 50)
"""Settings of property tests: no deadline, because the first call of a kernel compiles for seconds; fewer
examples if numba is disabled."""
COMPILED = pytest.mark.skipif(
    config.DISABLE_JIT, reason="for compiled loops: threads, many documents"
)
"""Mark of tests that would take minutes without compilation, or only concern compiled code."""
USUAL_QUERIES = 12 if config.DISABLE_JIT else 40


def dialect(name: str) -> PairSettings:
    """Returns the pair settings of a library's preset."""
    return pairs_of(NativeRanker.from_preset(name))


def query(labels: list[float], features: Any = None) -> RankingDataset:
    """Returns a data set of one query."""
    columns = (
        np.arange(len(labels))[:, None] if features is None else np.asarray(features)
    )
    return dataset(columns, np.asarray(labels, dtype=np.float64), [len(labels)])


def dataset(
    features: NDArray[Any],
    labels: NDArray[Any],
    sizes: list[int],
    weights: NDArray[np.float64] | None = None,
) -> RankingDataset:
    return RankingDataset(
        features=features.astype(np.float32),
        labels=labels.astype(np.float64),
        query_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        query_weights=weights,
    )


def make_dataset(
    seed: int,
    num_queries: int = USUAL_QUERIES,
    num_features: int = 9,
    weighted: bool = False,
) -> RankingDataset:
    """Returns data whose labels depend on three features, with missing values and an all-missing column."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, num_queries)
    features = rng.normal(size=(sizes.sum(), num_features))
    utility = (
        features[:, 0]
        + features[:, 1] * features[:, 2]
        + 0.3 * rng.normal(size=len(features))
    )
    features[:, 3] = np.round(features[:, 3])
    features[:, 4] = 7.0
    features[:, 5] = np.nan
    features[rng.random(features.shape) < 0.1] = np.nan
    weights = rng.uniform(0.5, 2.0, num_queries) if weighted else None
    return dataset(
        features, np.digitize(utility, [0.0, 1.0, 2.0]), sizes.tolist(), weights
    )
