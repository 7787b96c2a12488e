"""Runs whose models the tests of serving load."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ltrbench import RankingDataset
from ltrbench.data.sources import DataSource
from ltrbench.data.splits import Splits
from ltrbench.experiment import Experiment, run
from ltrbench.rankers import Ranker
from ltrbench.rankers.native import NativeRanker
from ltrbench.runs import LoadedModel, Run, load

NAMES = ("bm25", "age", "clicks", "length of title")


@dataclass(kw_only=True)
class NamedFeatures(DataSource):
    """Twelve queries of ten documents with four named features, on which the labels depend."""

    name: str = "named"

    def load(self) -> Splits:
        train, test = (_dataset(seed) for seed in (0, 1))
        return Splits(train, None, test)


def _dataset(seed: int) -> RankingDataset:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(120, len(NAMES))).astype(np.float32)
    labels = np.digitize(features @ [1.0, -0.5, 0.3, 0.0], [-0.5, 0.5]).astype(
        np.float64
    )
    return RankingDataset(
        features=features,
        labels=labels,
        query_start=np.arange(0, 121, 10),
        feature_names=NAMES,
    )


def finished_run(folder: Path, ranker: Ranker | None = None) -> Run:
    """Returns a finished run on `NamedFeatures`; by default of a native model of five small trees."""
    fitted = ranker or NativeRanker(
        num_trees=5, num_leaves=4, min_docs_in_leaf=1, min_sum_hessian=0.0
    )
    source = NamedFeatures()
    experiment = Experiment(
        model="small",
        ranker=fitted,
        source=source,
        metrics=("ndcg@10",),
        importance=None,
    )
    return run(experiment, folder)


@functools.cache
def native_run() -> Run:
    """Returns a finished run that all tests of a process share; they must not change its folder."""
    return finished_run(Path(tempfile.mkdtemp(), "run"))


@functools.cache
def small_model() -> LoadedModel:
    """Returns the model of `native_run`."""
    return load(native_run().path)
