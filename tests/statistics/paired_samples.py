"""Realistic samples: values of NDCG, with queries on which systems have the same value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltrbench.statistics import PairedSample


def ndcg_like(num_systems: int, num_queries: int, seed: int = 0) -> NDArray[np.float64]:
    """Returns (M, Q) in [0, 1]: hard and easy queries, systems of increasing skill, a fifth of ties."""
    rng = np.random.default_rng(seed)
    hard = rng.beta(2, 2, num_queries)
    skill = 0.02 * np.arange(num_systems)[:, np.newaxis]
    noise = rng.normal(scale=0.15, size=(num_systems, num_queries)) * (
        rng.random(num_queries) > 0.2
    )
    values: NDArray[np.float64] = np.clip(hard + skill * (noise != 0) + noise, 0, 1)
    return values


def folded(
    num_systems: int, num_queries: int, num_folds: int, seed: int = 0
) -> PairedSample:
    """Returns a sample with folds of different sizes and queries of different weights."""
    rng = np.random.default_rng([seed, 1])
    strata = np.sort(rng.integers(num_folds, size=num_queries))
    return PairedSample.of(
        ndcg_like(num_systems, num_queries, seed),
        rng.uniform(0.5, 2, num_queries),
        strata,
    )
