"""Benchmark of fitting: time of `native` relative to LightGBM in one process, over a grid of jobs.

    python tests/bench/bench_fit.py [--jobs 200000 mq2007 1000000] [--leaves 31 255] [--threads 2 1]
    [--trees 100] [--repeats 5]

The engines alternate, so that both are affected by slow periods of the machine, and native is compiled before
timing starts. LightGBM builds histograms by row or by column; the faster of the two counts. Its time includes
building the Dataset, as native's time includes binning; both parts are also reported separately. Times are
medians, followed by minimum and maximum. NDCG@10 is measured on the job's test set; its difference has a
paired 95 % confidence interval (Student's t).

The complete grid takes hours, mostly for a million documents.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from bench_jobs import (
    Model,
    Row,
    fit_lightgbm,
    fit_native,
    lightgbm_dataset,
    lightgbm_parameters,
    load_job,
    options,
    scores_of,
    take_turns,
)
from numpy.typing import NDArray

from ltrbench.compilation import threads
from ltrbench.data import RankingDataset
from ltrbench.metrics import evaluate
from ltrbench.native.bins import bin_features
from ltrbench.rankers.native import NativeRanker
from ltrbench.statistics import PairedSample, compare_pairs

LAYOUTS = ("force_row_wise", "force_col_wise")
NDCG = "ndcg@10"


def bench_cell(
    train: RankingDataset,
    test: RankingDataset,
    num_leaves: int,
    num_threads: int,
    trees: int,
    repeats: int,
) -> float:
    """Prints one cell of the grid; returns the ratio of the fits."""
    fitted: dict[str, Model] = {}

    def native() -> None:
        fitted["native"] = fit_native(train, trees, num_leaves, num_threads)

    def lightgbm(layout: str) -> Callable[[], None]:
        def fit() -> None:
            parameters = lightgbm_parameters(num_leaves, num_threads, layout)
            fitted[layout] = fit_lightgbm(train, trees, parameters)

        return fit

    taken = medians(
        {"native": native, **{name: lightgbm(name) for name in LAYOUTS}}, repeats
    )
    best = min(LAYOUTS, key=taken.__getitem__)
    print(f"  fit: native / LightGBM = {taken['native'] / taken[best]:.2f}")
    values = {name: per_query_ndcg(fitted[name], test) for name in ("native", best)}
    print(
        f"  {NDCG} on test: "
        + ", ".join(f"{name} {np.mean(each):.4f}" for name, each in values.items())
    )
    (pair,) = compare_pairs(
        PairedSample.of(np.stack([values["native"], values[best]])), [(0, 1)]
    )
    if pair.interval is not None:
        print(
            f"  native - {best}: {pair.interval.low:+.4f} to {pair.interval.high:+.4f}",
            flush=True,
        )
    return taken["native"] / taken[best]


def medians(ways: Mapping[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Returns the median seconds of each variant, and prints them with their range."""
    taken = take_turns(ways, repeats)
    for name, values in taken.items():
        print(
            f"  {name:16} {statistics.median(values):7.2f} s   from {min(values):.2f} to {max(values):.2f}"
        )
    return {name: statistics.median(values) for name, values in taken.items()}


def per_query_ndcg(model: Model, test: RankingDataset) -> NDArray[np.float64]:
    values = evaluate(test, scores_of(model, test), [NDCG]).per_query[NDCG]
    return values[~np.isnan(values)]


def bench_binning(train: RankingDataset, num_threads: int, repeats: int) -> None:
    def native() -> None:
        with threads(num_threads):
            bin_features(train.features, 255, np.random.default_rng(0))

    def lightgbm() -> None:
        lightgbm_dataset(train, lightgbm_parameters(31, num_threads, LAYOUTS[0]))

    taken = medians({"binning native": native, "Dataset": lightgbm}, repeats)
    print(
        f"  binning: native / LightGBM = {taken['binning native'] / taken['Dataset']:.2f}",
        flush=True,
    )


def rows() -> Iterator[Row]:
    """Yields the rows of the table of all benchmarks."""
    NativeRanker().warm_up()
    train, test = load_job("150000")
    for num_threads in (1, 2):
        ratio = bench_cell(train, test, 31, num_threads, 50, 5)
        yield Row(f"fit, threads: {num_threads} / LightGBM", ratio, 0.28)


def main() -> None:
    arguments = options(
        __doc__,
        jobs=["200000", "mq2007", "1000000"],
        leaves=[31, 255],
        threads=[2, 1],
        trees=100,
        repeats=5,
    )
    NativeRanker().warm_up()
    ratios = []
    for job in arguments.jobs:
        train, test = load_job(job)
        for num_threads in arguments.threads:
            print(
                f"{job}: {train.num_documents} x {train.num_features}, {num_threads} threads"
            )
            bench_binning(train, num_threads, arguments.repeats)
            for num_leaves in arguments.leaves:
                print(f" {num_leaves} leaves, {arguments.trees} trees")
                ratios.append(
                    bench_cell(
                        train,
                        test,
                        num_leaves,
                        num_threads,
                        arguments.trees,
                        arguments.repeats,
                    )
                )
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(
        f"native / LightGBM, geometric mean of {len(ratios)} cells: {mean:.2f}; largest {max(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
