"""Warm-up: compiles what a fit and its predictions need before timing starts.

`compile_engine` is for dense features, `compile_sparse_engine` adds what only sparse ones use, and
`compile_joint_growth` what only several members use. Permutation importances and TreeSHAP, which are not
timed, compile at their first use. Within a process, numba compiles one kernel after another, and half of the
time is spent on the kernels that grow a tree. If these are not in the cache yet, a second process compiles
them into the cache while this process compiles the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ltrbench.compilation import compiling_process, is_cached
from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows, is_sparse
from ltrbench.native.bins import COLUMN_BINS, BinnedFeatures, partition
from ltrbench.native.boosting import BoostingSettings, SamplingSettings, boost
from ltrbench.native.forest import add_scores
from ltrbench.native.growing import Grower, GrownTree, grow_best_first
from ltrbench.native.histogram import bin_starts, build_histogram, quantise
from ltrbench.native.objectives import Objective, ObjectiveSettings
from ltrbench.native.splitting import LeafToCut, SplitSettings, find_splits, prepare_search

LOOSE_SPLITS = SplitSettings(min_docs_in_leaf=1)


def four_documents() -> RankingDataset:
    """Returns a small data set for the warm-up: two queries of two documents, with positions."""
    return RankingDataset(
        features=np.eye(4, 3, dtype=np.float32),
        labels=np.array([0.0, 1.0, 0.0, 1.0]),
        query_start=np.array([0, 2, 4]),
        positions=np.array([0, 1, 0, 1]),
    )


def four_sparse_documents() -> RankingDataset:
    """Returns four documents with one stored value; with more, they would be binned like dense features."""
    data = four_documents()
    sparse: Any = SparseRows.of(data.features * np.array([1, 0, 0], dtype=np.float32))
    return replace(data, features=sparse)


def compile_engine(objective: ObjectiveSettings, correction: Objective | None, num_threads: int) -> None:
    """Compiles the engine, or loads the machine code from the cache.

    Args:
        objective: objective of the fit that follows.
        correction: replaces the objective if the fit corrects position bias; prepared on `four_documents`.
        num_threads: number of threads of the fit; with 1, no second process is started.
    """
    settings = BoostingSettings(num_trees=1, num_leaves=3, objective=objective, splits=LOOSE_SPLITS)
    with _growth_compiled_beside(num_threads):
        _fit(four_documents(), replace(settings, num_leaves=1), correction)  # everything except growing trees
    _fit(four_documents(), settings, correction)


def compile_sparse_engine(objective: ObjectiveSettings, correction: Objective | None) -> None:
    """Compiles what a fit to sparse features and its predictions need in addition to `compile_engine`."""
    settings = BoostingSettings(num_trees=1, num_leaves=3, objective=objective, splits=LOOSE_SPLITS)
    _fit(four_sparse_documents(), settings, correction)


def _fit(data: RankingDataset, settings: BoostingSettings, correction: Objective | None) -> None:
    # With a sample, scores are computed from bins or stored values, as those of validation documents.
    sampled = replace(settings, sampling=SamplingSettings(documents_per_tree=0.5))
    for each in (settings, sampled):
        forest = boost(data, each, objective=correction).forest
    if not is_sparse(data.features):
        add_scores(forest, data.features, np.zeros(4))


@contextmanager
def _growth_compiled_beside(num_threads: int) -> Iterator[None]:
    """Runs `compile_growth` in a second process during the block, if there is a thread for it and the kernels
    are not in the cache."""
    if num_threads == 1 or is_cached(grow_best_first):
        yield
        return
    with compiling_process(f"from {__name__} import compile_growth; compile_growth()"):
        yield


def compile_growth() -> GrownTree:
    """Grows a tree without running the earlier stages; compiles the kernels that this needs."""
    quantised, features = quantise(np.array([-1.0, 1.0, -1.0, 1.0]), np.ones(4)), np.ones(1, dtype=np.bool_)
    return Grower(_two_bins(), 3, LOOSE_SPLITS).grow(quantised, np.arange(4, dtype=np.uint32), features)


def compile_joint_growth() -> None:
    """Compiles the kernels that grow a tree whose documents several members have."""
    quantised, features = quantise(np.array([-1.0, 1.0, -1.0, 1.0]), np.ones(4)), np.ones(1, dtype=np.bool_)
    rows, binned = np.arange(4, dtype=np.uint32), _two_bins()
    for settings in (LOOSE_SPLITS, replace(LOOSE_SPLITS, min_docs_in_leaf=3)):
        histogram = np.empty(3, dtype=np.int64)
        build_histogram(binned, bin_starts(binned), rows, quantised.packed, histogram)
        search = prepare_search(binned, bin_starts(binned), quantised, settings)
        find_splits([search(LeafToCut(histogram, rows, features))])
        partition(binned.words, None, binned.num_bins, 0, 0, False, rows, rows.copy(), 1)


def _two_bins() -> BinnedFeatures:
    """Returns four documents with alternating bins, in arrays of the types that `bin_features` returns."""
    return BinnedFeatures(
        words=np.array([[0], [1], [0], [1]], dtype=np.uint64),
        thresholds=np.zeros((1, COLUMN_BINS), dtype=np.float32),
        num_bins=np.array([3]),
        feature_of_column=np.array([0]),
    )
