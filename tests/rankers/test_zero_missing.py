"""Splits in which zeros count as missing values, written as splits in which they do not."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from ltrbench.data.synthetic import Synthetic
from ltrbench.models.trees import (
    LARGEST_ZERO,
    Ensemble,
    InnerNode,
    Leaf,
    WeightedTree,
    ensemble_scores,
    nodes_of,
    without_zero_missing,
)
from ltrbench.rankers.lightgbm import LightGBMRanker

BEYOND = float(np.nextafter(np.float32(LARGEST_ZERO), np.float32(1)))
LOWEST = float(np.finfo(np.float32).min)
EDGES = np.array([0.0, LARGEST_ZERO, BEYOND, 1e-45, 1.0, 3e38, np.inf], dtype=np.float32)
VALUES = np.unique(np.concatenate([-EDGES, EDGES, [np.nan]])).astype(np.float32)
VALUES = np.append(VALUES, np.float32(-0.0))
"""Values on both sides of each end of the zeros."""


def stump(threshold: float, missing_left: bool) -> InnerNode:
    return InnerNode(0, threshold, missing_left, Leaf(1.0), Leaf(2.0), zero_missing=True)


@pytest.mark.parametrize(
    ("comparison", "dtype", "missing_left"),
    list(itertools.product(("<=", "<"), ("float32", "float64"), (False, True))),
)
def test_every_value_goes_where_it_went(
    comparison: Literal["<=", "<"], dtype: Literal["float32", "float64"], missing_left: bool
) -> None:
    for threshold in (*VALUES[np.isfinite(VALUES)].tolist(), 0.5e-35, -0.5e-35, LOWEST, -LOWEST):
        root = stump(float(np.dtype(dtype).type(threshold)), missing_left)
        ensemble = Ensemble(
            (WeightedTree(1.0, root),), comparison=comparison, threshold_dtype=dtype, base_score=0.25
        )
        written = without_zero_missing(ensemble)
        assert not any(
            node.zero_missing for node in nodes_of(written.trees[0].root) if isinstance(node, InnerNode)
        )
        np.testing.assert_array_equal(
            ensemble_scores(written, VALUES[:, None]), ensemble_scores(ensemble, VALUES[:, None])
        )


@pytest.mark.parametrize("num_leaves", [2, 4, 8])
def test_scores_of_lightgbm_with_zeros_as_missing_are_equal_bit_for_bit(num_leaves: int) -> None:
    data = Synthetic(name="synthetic", num_queries=40).load()
    train = replace(data.train, features=with_zeros(np.asarray(data.train.features)))
    ranker = LightGBMRanker(num_trees=8, num_leaves=num_leaves, extra={"zero_as_missing": True})
    ensemble = ranker.fit(train).trees()
    features = with_zeros(np.asarray(data.test.features))
    written = without_zero_missing(ensemble)
    np.testing.assert_array_equal(ensemble_scores(written, features), ranker.predict(features))


def with_zeros(features: np.ndarray) -> np.ndarray:
    """Returns features of both signs, of which a third each are zeros and missing."""
    kind = np.random.default_rng(0).integers(0, 6, features.shape)
    signed = np.where(kind == 5, -features, features)
    return np.where(kind < 2, 0, np.where(kind < 4, np.nan, signed)).astype(np.float32)
