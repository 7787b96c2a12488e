"""Benchmark of fits, each in a separate process: CPU time and peak memory of native and LightGBM.

    python tests/bench/bench_memory.py [--data dense counts one_hot million] [--documents 1000000]
    [--trees 10] [--threads 2]

The time includes the binning. The peak is the increase during the fit above the data. The data sets:

    dense     `--documents` documents with 136 features, read from a file that is generated once
    counts    200,000 documents with 50 of 20,000 features, such as counts of words, not exclusive
    one_hot   200,000 documents with 30 of 3,000 features, in 30 groups of 100 exclusive features
    million   50,000 documents with 30 of 1,000,000 features, in 30 groups; most features have few documents
    categories 200,000 documents with 30 categorical features of 4 to 400 categories

LightGBM builds the histograms of dense data by row or by column; the better of the two counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_jobs import (
    Row,
    fit_lightgbm,
    fit_native,
    in_new_process,
    lightgbm_parameters,
    make_dataset,
    options,
)

from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows
from ltrbench.measure import MemoryMeter
from ltrbench.rankers.native import NativeRanker

NATIVE, BY_ROW, BY_COLUMN = "native", "force_row_wise", "force_col_wise"
DENSE = "dense"
SIZES = {
    "counts": (200_000, 20_000, 50),
    "one_hot": (200_000, 3_000, 30),
    "million": (50_000, 1_000_000, 30),
}
"""Sparse data set -> documents, features, and features of a document."""
CATEGORIES = "categories"
NUM_LEAVES = {DENSE: 255, **dict.fromkeys((*SIZES, CATEGORIES), 31)}
FIELDS = ("features", "labels", "query_start")


def make_sparse(name: str) -> tuple[SparseRows, RankingDataset]:
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
    labels = np.digitize(utility, np.quantile(utility, [0.5, 0.8, 0.93, 0.98])).astype(
        np.float64
    )
    query_start = np.append(np.arange(0, num_documents, 100), num_documents)
    return features, RankingDataset(
        features=features,  # type: ignore[arg-type]
        labels=labels,
        query_start=query_start,
    )


def make_categories() -> RankingDataset:
    """Returns a data set of categorical features, whose categories have random effects."""
    rng = np.random.default_rng(0)
    num_documents = 200_000
    numbers = np.geomspace(4, 400, 30).astype(int)
    features = np.empty((num_documents, len(numbers)), dtype=np.float32)
    utility = rng.normal(size=num_documents)
    for column, number in enumerate(numbers):
        values = (rng.random(num_documents) ** 2 * number).astype(int)
        features[:, column] = values
        utility += rng.normal(scale=0.3, size=number)[values]
    labels = np.digitize(utility, np.quantile(utility, [0.5, 0.8, 0.93, 0.98]))
    names = tuple(f"f{column}" for column in range(len(numbers)))
    categories = {
        name: tuple(map(str, range(number)))
        for name, number in zip(names, numbers.tolist(), strict=True)
    }
    return RankingDataset(
        features=features,
        labels=labels.astype(np.float64),
        query_start=np.append(np.arange(0, num_documents, 100), num_documents),
        feature_names=names,
        categories=categories,
    )


class Used(NamedTuple):
    """What native's fit used: CPU time and peak relative to LightGBM, and the peak in MB."""

    seconds: float
    above: float
    megabytes: float


def fit(
    engine: str, name: str, folder: Path, num_trees: int, num_threads: int
) -> dict[str, float | None]:
    """Returns CPU seconds, MB above the data, and MB of the data; runs in the engine's process."""
    features: Any
    if name == DENSE:
        train = RankingDataset(
            **{field: np.load(folder / f"{field}.npy") for field in FIELDS}
        )
        features, size = train.features, train.features.nbytes
    elif name == CATEGORIES:
        train = make_categories()
        features, size = train.features, train.features.nbytes
    else:
        rows, train = make_sparse(name)
        features, size = rows.to_scipy(), sum(array.nbytes for array in rows.arrays())
    if engine == NATIVE:
        NativeRanker().warm_up()
        NativeRanker().warm_up_sparse()
        NativeRanker().warm_up_categories()
    before = time.process_time()
    with MemoryMeter() as meter:
        if engine == NATIVE:
            fit_native(train, num_trees, NUM_LEAVES[name], num_threads)
        else:
            parameters = lightgbm_parameters(NUM_LEAVES[name], num_threads, engine)
            fit_lightgbm(train, num_trees, parameters, features)
    return {
        "seconds": time.process_time() - before,
        "above": meter.rise_mb,
        "data": size / 1e6,
    }


def measured(name: str, folder: Path, num_trees: int, num_threads: int) -> Used:
    """Prints the fits of all engines to a data set; returns native's, relative to LightGBM's better one."""
    taken = {}
    engines = [NATIVE, BY_ROW]
    if name == DENSE:
        engines.append(BY_COLUMN)
    for engine in engines:
        used = in_new_process(fit, engine, name, folder, num_trees, num_threads)
        print(
            f"{name:10} {engine:14} {used['seconds']:6.1f} CPU s, peak {used['above']:5.0f} MB above "
            f"{used['data']:.0f} MB",
            flush=True,
        )
        taken[engine] = used
    native = taken.pop(NATIVE)
    ratios = {}
    for kind in ("seconds", "above"):
        ratios[kind] = native[kind] / min(peer[kind] for peer in taken.values())
    print(
        f"{name:10} native / LightGBM: CPU time {ratios['seconds']:.2f}, peak above the data "
        f"{ratios['above']:.2f}"
    )
    return Used(ratios["seconds"], ratios["above"], native["above"])


def write_dense(num_documents: int, folder: Path) -> None:
    made = make_dataset(num_documents, seed=0)
    for field in FIELDS:
        np.save(folder / f"{field}.npy", getattr(made, field))


def rows() -> Iterator[Row]:
    """Yields the rows of the table of all benchmarks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for data in ("counts", "one_hot", CATEGORIES):
            used = measured(data, folder, 20, 1)
            yield Row(f"fit to {data}, CPU time / LightGBM", used.seconds, 0.5)
        write_dense(1_000_000, folder)
        used = measured(DENSE, folder, 10, 2)
        yield Row("peak of a fit above dense data", used.megabytes, 250, " MB")


def main() -> None:
    arguments = options(
        __doc__,
        data=[DENSE, *SIZES, CATEGORIES],
        documents=1_000_000,
        trees=10,
        threads=2,
    )
    with tempfile.TemporaryDirectory() as folder:
        if DENSE in arguments.data:
            write_dense(arguments.documents, Path(folder))
        for name in arguments.data:
            measured(name, Path(folder), arguments.trees, arguments.threads)


if __name__ == "__main__":
    main()
