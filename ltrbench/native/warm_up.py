"""Warm-up: all that a fit and its scores need is compiled before the clock starts.

numba compiles one kernel of a process after the other, and half of its time goes into those that grow a
tree. Where the cache has none of them yet, another process compiles them into it, while this one compiles the
rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ltrbench.compilation import config, is_cached
from ltrbench.data import RankingDataset
from ltrbench.native.boosting import BoostingSettings, boost
from ltrbench.native.objectives import Objective, ObjectiveSettings
from ltrbench.native.sampling import SamplingSettings
from ltrbench.native.tree.binning import COLUMN_BINS, BinnedFeatures
from ltrbench.native.tree.fast_growth import grow_best_first
from ltrbench.native.tree.grower import Grower, GrownTree
from ltrbench.native.tree.histogram import quantise
from ltrbench.native.tree.partition import partition
from ltrbench.native.tree.splitting import SplitSettings

LOOSE_SPLITS = SplitSettings(min_docs_in_leaf=1)


def four_documents() -> RankingDataset:
    """What there is to learn from."""
    return RankingDataset(
        features=np.eye(4, 3, dtype=np.float32),
        labels=np.array([0.0, 1.0, 0.0, 1.0]),
        query_start=np.array([0, 2, 4]),
        positions=np.array([0, 1, 0, 1]),
    )


def compile_engine(objective: ObjectiveSettings, correction: Objective | None, num_threads: int) -> None:
    """Compiles the engine, or loads it where this machine has compiled it.

    Args:
        objective: the objective of the fit to come.
        correction: on `four_documents`, what stands in its place where the fit learns of positions.
        num_threads: with one, there is no other process.
    """
    settings = BoostingSettings(num_trees=1, num_leaves=3, objective=objective, splits=LOOSE_SPLITS)
    with _growth_compiled_beside(num_threads):
        _fit(replace(settings, num_leaves=1), correction)  # all but growth
        # The other process needs it last, and then finds it in the cache.
        binned, rows = _two_bins(), np.arange(4, dtype=np.uint32)
        partition(binned.words, binned.num_bins, 0, 0, False, rows, rows.copy(), num_threads)
    _fit(settings, correction)


def _fit(settings: BoostingSettings, correction: Objective | None) -> None:
    boost(four_documents(), settings, objective=correction)
    # Rows that a tree has not learned from take another way to their score, which is also predict's.
    boost(four_documents(), replace(settings, sampling=SamplingSettings(documents_per_tree=0.5)))


@contextmanager
def _growth_compiled_beside(num_threads: int) -> Iterator[None]:
    """Has another process do `compile_growth` during the block, if there are threads for it and it is not
    done. Should that process fail it says so, and growth is compiled here when it is needed."""
    if num_threads == 1 or is_cached(grow_best_first):
        yield
        return
    # -P and PYTHONPATH, so that it imports from where this process does, and not from its working folder too.
    command = [sys.executable, "-P", "-c", f"from {__name__} import compile_growth; compile_growth()"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    if config.CACHE_DIR:  # the folder that this process has settled on, where it can't write to the usual one
        environment["NUMBA_CACHE_DIR"] = config.CACHE_DIR
    with subprocess.Popen(command, env=environment):  # waits for its end
        yield


def compile_growth() -> GrownTree:
    """Grows a tree, without the stages before it."""
    quantised = quantise(np.array([-1.0, 1.0, -1.0, 1.0]), np.ones(4))
    rows, features = np.arange(4, dtype=np.uint32), np.ones(1, dtype=np.bool_)
    return Grower(_two_bins(), 3, LOOSE_SPLITS).grow(quantised, rows, features)


def _two_bins() -> BinnedFeatures:
    """Four documents, in two bins by turns; of the types that `bin_features` has."""
    return BinnedFeatures(
        words=np.array([[0], [1], [0], [1]], dtype=np.uint64),
        thresholds=np.zeros((1, COLUMN_BINS), dtype=np.float32),
        num_bins=np.array([3]),
        feature_of_column=np.array([0]),
    )
