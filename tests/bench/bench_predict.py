"""Benchmark of prediction: time of `native` relative to XGBoost and LightGBM in one process.

    python tests/bench/bench_predict.py [--documents 100000] [--leaves 64] [--trees 300] [--threads 1 2]
    [--repeats 5] [--queries 1000]

Each backend scores with a model of the same number of trees and leaves, fitted to the same documents; XGBoost
with `inplace_predict`, LightGBM with `predict`. The backends alternate, so that all are affected by slow
periods of the machine, and each has one call before timing starts. The first part scores all documents in one
call, the second part single queries of 100 documents, as in a search engine.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

import numpy as np
import xgboost as xgb
from bench_jobs import Row, make_dataset, options, seconds, take_turns

from ltrbench.rankers import Ranker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.shapes import Features

LEARNED_FROM = 10_000  # training documents, enough for trees with all leaves
QUERY_SIZE = 100


def learn(num_trees: int, num_leaves: int) -> dict[str, Ranker]:
    train = make_dataset(LEARNED_FROM, seed=0)
    return {
        name: kind(num_trees=num_trees, num_leaves=num_leaves).fit(train)
        for name, kind in (
            ("native", NativeRanker),
            ("XGBoost", XGBoostRanker),
            ("LightGBM", LightGBMRanker),
        )
    }


def set_threads(rankers: dict[str, Ranker], num_threads: int) -> None:
    for ranker in rankers.values():
        ranker.num_threads = num_threads
    _, booster = rankers["XGBoost"].library_model() or ("", None)
    assert isinstance(booster, xgb.Booster)
    # XGBoost's number of threads is only set during the fit.
    booster.set_param({"nthread": num_threads})


def bench_batch(rankers: dict[str, Ranker], features: Features, repeats: int) -> float:
    """Prints the times of one call for all documents; returns native / XGBoost."""
    ways = {name: partial(ranker.predict, features) for name, ranker in rankers.items()}
    take_turns(ways, 1)
    taken = {
        name: [1e6 * each / len(features) for each in times]
        for name, times in take_turns(ways, repeats).items()
    }
    native = statistics.median(taken["native"])
    for name, times in taken.items():
        median = statistics.median(times)
        ratio = "" if name == "native" else f"; native / {name} = {native / median:.2f}"
        print(
            f"  {name:9} {median:6.2f} us per document, from {min(times):.2f} to {max(times):.2f}{ratio}"
        )
    return native / statistics.median(taken["XGBoost"])


def bench_queries(
    rankers: dict[str, Ranker],
    features: Features,
    num_queries: int,
    query_size: int = QUERY_SIZE,
) -> float:
    """Prints the times of a call for each query; returns native / XGBoost."""
    taken: dict[str, list[float]] = {name: [] for name in rankers}
    for query in range(num_queries):
        first = query * query_size % (len(features) - query_size)
        documents = features[first : first + query_size]
        for name, ranker in rankers.items():
            taken[name].append(1e3 * seconds(partial(ranker.predict, documents)))
    for name, times in taken.items():
        print(
            f"  {name:9} {statistics.median(times):6.3f} ms per query of {query_size}, "
            f"99% within {np.quantile(times, 0.99):.3f}, all within {max(times):.3f}"
        )
    return statistics.median(taken["native"]) / statistics.median(taken["XGBoost"])


def rows() -> Iterator[Row]:
    """Yields the rows of the table of all benchmarks."""
    rankers = learn(300, 64)
    features = make_dataset(100_000, seed=1).features
    for num_threads in (1, 2):
        set_threads(rankers, num_threads)
        ratio = bench_batch(rankers, features, 5)
        yield Row(f"predict, threads: {num_threads} / XGBoost", ratio, 0.25)
    ratio = bench_queries(rankers, features, 1000, query_size=20)
    yield Row("predict lists of 20 / XGBoost", ratio, 0.15)


def main() -> None:
    arguments = options(
        __doc__,
        documents=100_000,
        leaves=64,
        trees=300,
        threads=[1, 2],
        repeats=5,
        queries=1000,
    )
    rankers = learn(arguments.trees, arguments.leaves)
    features = make_dataset(arguments.documents, seed=1).features
    for num_threads in arguments.threads:
        print(
            f"{arguments.trees} trees of {arguments.leaves} leaves, {num_threads} threads"
        )
        set_threads(rankers, num_threads)
        bench_batch(rankers, features, arguments.repeats)
        bench_queries(rankers, features, arguments.queries)


if __name__ == "__main__":
    main()
