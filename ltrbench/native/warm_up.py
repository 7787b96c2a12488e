"""Warm-up: compiles everything that a fit and its predictions need before timing starts.

Within a process, numba compiles one kernel after another, and half of the time is spent on the kernels that
grow a tree. If these are not in the cache yet, a second process compiles them into the cache while this
process compiles the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ltrbench.compilation import config, is_cached
from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows
from ltrbench.native.boosting import BoostingSettings, boost
from ltrbench.native.forest.replaced import replaced_scores
from ltrbench.native.forest.scoring import add_scores
from ltrbench.native.objectives import Objective, ObjectiveSettings
from ltrbench.native.sampling import SamplingSettings
from ltrbench.native.team import ALONE
from ltrbench.native.tree.binning import COLUMN_BINS, BinnedFeatures
from ltrbench.native.tree.fast_growth import grow_best_first
from ltrbench.native.tree.grower import Grower, GrownTree
from ltrbench.native.tree.histogram import bin_starts, build_histogram, quantise
from ltrbench.native.tree.joint import prepare_joint_search
from ltrbench.native.tree.partition import partition
from ltrbench.native.tree.sparse.layout import NO_CELL, SparseBins, SparseLayout
from ltrbench.native.tree.splitting import LeafToCut, SplitSettings

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
        _fit(replace(settings, num_leaves=1), correction)  # everything except growing trees
        # The second process needs `partition` last and then finds it in the cache.
        binned, rows = _two_bins(), np.arange(4, dtype=np.uint32)
        partition(binned.words, None, binned.num_bins, 0, 0, False, rows, rows.copy(), num_threads)
    _fit(settings, correction)


def _fit(settings: BoostingSettings, correction: Objective | None) -> None:
    data, sparse = four_documents(), four_sparse_documents()
    boost(data, settings, objective=correction)
    # With a sample, scores are computed from bins or stored values, as those of validation documents.
    sampled = replace(settings, sampling=SamplingSettings(documents_per_tree=0.5))
    boost(sparse, settings, objective=correction)
    boost(sparse, sampled, objective=correction)
    forest = boost(data, sampled).forest
    add_scores(forest, data.features, np.zeros(4))
    replaced_scores(forest, data.features, np.arange(1), np.zeros((1, 1, 4), dtype=np.float32))


@contextmanager
def _growth_compiled_beside(num_threads: int) -> Iterator[None]:
    """Runs `compile_growth` in a second process during the block, if there is a thread for it and the kernels
    are not in the cache. If that process fails, it prints its error, and this process compiles them later."""
    if num_threads == 1 or is_cached(grow_best_first):
        yield
        return
    # -P and PYTHONPATH: the second process has this import path, without the working directory in addition.
    command = [sys.executable, "-P", "-c", f"from {__name__} import compile_growth; compile_growth()"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    if config.CACHE_DIR:  # the replacement that this process uses if the default cache is not writable
        environment["NUMBA_CACHE_DIR"] = config.CACHE_DIR
    with subprocess.Popen(command, env=environment):  # waits for the process at the end of the block
        yield


def compile_growth() -> list[GrownTree]:
    """Grows trees on dense and sparse bins without running the earlier stages; compiles the kernels that this
    needs."""
    quantised, features = quantise(np.array([-1.0, 1.0, -1.0, 1.0]), np.ones(4)), np.ones(1, dtype=np.bool_)
    return [
        Grower(binned, 3, LOOSE_SPLITS).grow(quantised, np.arange(4, dtype=np.uint32), features)
        for binned in (_two_bins(), _two_sparse_bins())
    ]


def compile_joint_growth() -> None:
    """Compiles the kernels that grow a tree whose documents several members have."""
    quantised, features = quantise(np.array([-1.0, 1.0, -1.0, 1.0]), np.ones(4)), np.ones(1, dtype=np.bool_)
    rows, binned = np.arange(4, dtype=np.uint32), _two_bins()
    for settings in (LOOSE_SPLITS, replace(LOOSE_SPLITS, min_docs_in_leaf=3)):
        task = binned, bin_starts(binned), quantised, settings, ALONE
        histogram = np.empty(3, dtype=np.int64)
        build_histogram(binned, bin_starts(binned), rows, quantised.packed, histogram)
        prepare_joint_search(*task)([LeafToCut(histogram, rows, features)])
        partition(binned.words, None, binned.num_bins, 0, 0, False, rows, rows.copy(), 1)


def _two_bins() -> BinnedFeatures:
    """Returns four documents with alternating bins, in arrays of the types that `bin_features` returns."""
    return BinnedFeatures(
        words=np.array([[0], [1], [0], [1]], dtype=np.uint64),
        thresholds=np.zeros((1, COLUMN_BINS), dtype=np.float32),
        num_bins=np.array([3]),
        feature_of_column=np.array([0]),
    )


def _two_sparse_bins() -> SparseBins:
    """Returns the same documents, in arrays of the types that `bin_sparse` returns."""
    zero, cell_of_byte = np.zeros(1, dtype=np.int64), np.full((1, 256), NO_CELL, dtype=np.int64)
    cell_of_byte[0, 1] = 1
    layout = SparseLayout(
        bin_start=np.array([0, 3]),
        default_bin=zero,
        lane=zero,
        cell_of_byte=cell_of_byte,
        row_start=np.zeros(5, dtype=np.int64),
        cells=np.zeros(0, dtype=np.uint32),
        listed_before=np.zeros(2, dtype=np.int64),
    )
    binned = _two_bins()
    edges = np.zeros(3, dtype=np.float32)
    return SparseBins(binned.words, layout, edges, binned.num_bins, binned.feature_of_column)
