"""Benchmark of sparse features: CPU time and memory of a fit with native and LightGBM on the same values.

    python tests/bench/bench_sparse.py [--trees 10] [--threads 2] [--data counts one_hot million]

Each fit runs in a separate process and includes the binning. The data sets:

    counts    200,000 documents with 50 of 20,000 features, such as counts of words, not exclusive
    one_hot   200,000 documents with 30 of 3,000 features, in 30 groups of 100 exclusive features
    million   50,000 documents with 30 of 1,000,000 features, in 30 groups; most features have few documents
"""

from __future__ import annotations

import time

import lightgbm as lgb
import numpy as np
from bench_jobs import fit_native, in_new_process, lightgbm_parameters, options

from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows
from ltrbench.measure import MemoryMeter
from ltrbench.rankers.native import NativeRanker

ENGINES = ("native", "lightgbm")
SIZES = {
    "counts": (200_000, 20_000, 50),
    "one_hot": (200_000, 3_000, 30),
    "million": (50_000, 1_000_000, 30),
}
"""Data set -> documents, features, and features of a document."""
NUM_LEAVES = 31


def make_data(name: str) -> tuple[SparseRows, RankingDataset]:
    """Returns the stored values, and the data set with them; frequent features have low numbers."""
    rng = np.random.default_rng(0)
    num_documents, num_features, per_document = SIZES[name]
    share = rng.random((num_documents, per_document)) ** 2
    if name == "counts":
        columns = np.sort((share * num_features).astype(np.int32), axis=1)
        values = np.ceil(rng.exponential(3, columns.shape)).astype(np.float32)
    else:
        size = num_features // per_document
        columns = ((share + np.arange(per_document)) * size).astype(np.int32)
        values = np.ones(columns.shape, dtype=np.float32)
    is_new = np.diff(columns, axis=1, prepend=-1) > 0
    row_start = np.concatenate([[0], np.cumsum(is_new.sum(axis=1))])
    features = SparseRows(row_start, columns[is_new], values[is_new], num_features)
    utility = features.to_scipy() @ rng.normal(size=num_features)
    utility = utility + utility.std() * rng.normal(size=num_documents)
    labels = np.digitize(utility, np.quantile(utility, [0.5, 0.8, 0.93, 0.98])).astype(np.float64)
    query_start = np.append(np.arange(0, num_documents, 100), num_documents)
    return features, RankingDataset(features=features, labels=labels, query_start=query_start)  # type: ignore[arg-type]


def fit(engine: str, name: str, num_trees: int, num_threads: int) -> dict[str, float | None]:
    """Returns CPU seconds and MB above the data; runs in the engine's process."""
    features, train = make_data(name)
    if engine == "native":
        NativeRanker().warm_up()
        NativeRanker().warm_up_sparse()
    stored_mb = sum(array.nbytes for array in features.arrays()) / 1e6
    before = time.process_time()
    with MemoryMeter() as meter:
        if engine == "native":
            fit_native(train, num_trees, NUM_LEAVES, num_threads)
        else:
            parameters = lightgbm_parameters(NUM_LEAVES, num_threads, "force_row_wise")
            matrix = features.to_scipy()
            data = lgb.Dataset(matrix, train.labels, group=train.query_sizes, params=parameters)
            lgb.train(parameters, data, num_trees)
    return {"seconds": time.process_time() - before, "above": meter.rise_mb, "data": stored_mb}


def measure(engine: str, name: str, num_trees: int, num_threads: int) -> dict[str, float]:
    figures: dict[str, float] = in_new_process(fit, engine, name, num_trees, num_threads)
    seconds, above, data = figures["seconds"], figures["above"], figures["data"]
    print(f"{name:8} {engine:9} {seconds:6.1f} CPU s, peak {above:5.0f} MB above {data:.0f} MB", flush=True)
    return figures


def main() -> None:
    arguments = options(__doc__, trees=10, threads=2, data=list(SIZES))
    for name in arguments.data:
        native, peer = (measure(engine, name, arguments.trees, arguments.threads) for engine in ENGINES)
        cpu, memory = native["seconds"] / peer["seconds"], native["above"] / peer["above"]
        print(f"{name:8} native / LightGBM: CPU time {cpu:.2f}, peak above the data {memory:.2f}")


if __name__ == "__main__":
    main()
