"""How long `native` takes to fit beside LightGBM, as ratios taken in one process.

    python tests/bench/bench_fit.py [--documents 200000] [--leaves 31] [--trees 100] [--threads 1 2]
    [--repeats 3]

The engines take turns, so that a slow minute of the machine meets both, and each has one fit before the
clock, so that nothing is compiled on it. LightGBM builds histograms row by row or column by column, and what
counts is the better. Its time includes making the Dataset, as native's includes binning; both are also given
alone.
"""

from __future__ import annotations

import os

# Before the engines are imported: threads that spin while they wait disturb whoever runs next.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import statistics
from collections.abc import Callable

import lightgbm as lgb
import numpy as np

from ltrbench.clock import Stopwatch
from ltrbench.compilation import threads
from ltrbench.data import RankingDataset
from ltrbench.metrics import evaluate
from ltrbench.native.binning import bin_features
from ltrbench.rankers.native import NativeRanker

NUM_FEATURES = 136
GRADE_SHARES = (0.515, 0.325, 0.133, 0.019, 0.008)  # grades 0 to 4 in MSLR-WEB30K


def make_dataset(num_documents: int, seed: int) -> RankingDataset:
    """Shaped like MSLR-WEB30K: about 120 documents a query; columns dense, of counts, or mostly 0."""
    rng = np.random.default_rng(seed)
    sizes = np.clip(np.exp(rng.normal(4.6, 0.6, num_documents // 50)), 5, 1000).astype(np.int64)
    query_start = np.concatenate([[0], np.cumsum(sizes)])
    query_start = np.append(query_start[query_start < num_documents], num_documents)
    latent = rng.normal(size=(num_documents, 6))
    relevance = latent[:, 0] + latent[:, 1] * latent[:, 2] + 0.5 * np.abs(latent[:, 3])
    relevance += rng.normal(size=num_documents)
    cuts = np.quantile(relevance, np.cumsum(GRADE_SHARES)[:-1])
    features = np.empty((num_documents, NUM_FEATURES), dtype=np.float32)
    for f in range(NUM_FEATURES):
        seen = latent[:, f % 6] * rng.uniform(0.2, 1.0) + rng.normal(size=num_documents)
        if f % 3 == 0:
            features[:, f] = np.exp(seen * rng.uniform(0.5, 2.0))
        elif f % 3 == 1:
            features[:, f] = np.floor(np.exp(seen * rng.uniform(0.5, 1.5)) * rng.uniform(1, 5))
        else:
            features[:, f] = np.where(rng.random(num_documents) < 0.3, seen, 0.0)
    labels = np.searchsorted(cuts, relevance).astype(np.float64)
    return RankingDataset(features=features, labels=labels, query_start=query_start)


def seconds(call: Callable[[], object]) -> float:
    watch = Stopwatch()
    with watch:
        call()
    return watch.seconds


def lightgbm_dataset(train: RankingDataset, parameters: dict[str, object]) -> lgb.Dataset:
    return lgb.Dataset(train.features, train.labels, group=train.query_sizes, params=parameters).construct()


def bench(train: RankingDataset, num_threads: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Medians of the seconds of each way to fit, and of binning alone."""
    parameters = {
        "objective": "lambdarank",
        "num_leaves": arguments.leaves,
        "num_threads": num_threads,
        "verbose": -1,
    }

    def fit_native() -> None:
        fitted["native"] = NativeRanker(
            num_trees=arguments.trees, num_leaves=arguments.leaves, num_threads=num_threads
        ).fit(train)

    def fit_lightgbm(layout: str) -> Callable[[], None]:
        def fit() -> None:
            wanted = {**parameters, layout: True}
            fitted[layout] = lgb.train(wanted, lightgbm_dataset(train, wanted), arguments.trees)

        return fit

    def bin_native() -> None:
        with threads(num_threads):
            bin_features(train.features, 255, np.random.default_rng(0))

    fitted: dict[str, NativeRanker | lgb.Booster] = {}
    ways = {
        "native": fit_native,
        "force_row_wise": fit_lightgbm("force_row_wise"),
        "force_col_wise": fit_lightgbm("force_col_wise"),
        "binning native": bin_native,
        "binning LightGBM": lambda: lightgbm_dataset(train, parameters),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.repeats):
        for name, way in ways.items():
            taken[name].append(seconds(way))
    for name in ("native", "force_row_wise"):
        ndcg = evaluate(train, np.asarray(fitted[name].predict(train.features)), ["ndcg@10"]).means["ndcg@10"]
        print(f"  NDCG@10 on train, {name}: {ndcg:.4f}")
    for name, values in taken.items():
        print(f"  {name:18} {statistics.median(values):7.2f} s   from {min(values):.2f} to {max(values):.2f}")
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    train = make_dataset(arguments.documents, seed=0)
    NativeRanker().warm_up()
    for num_threads in arguments.threads:
        print(f"{arguments.documents} x {NUM_FEATURES}, {arguments.leaves} leaves, {num_threads} threads")
        taken = bench(train, num_threads, arguments)
        best = min(taken["force_row_wise"], taken["force_col_wise"])
        print(f"  fit:     native / LightGBM = {taken['native'] / best:.2f}")
        print(f"  binning: native / LightGBM = {taken['binning native'] / taken['binning LightGBM']:.2f}")


if __name__ == "__main__":
    main()
