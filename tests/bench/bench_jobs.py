"""What the benchmarks share: options, measured processes, data sets, and equal parameters of engines.

OMP_WAIT_POLICY is set before the engines are imported: waiting threads that spin would slow down the engine
that runs next.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import contextlib
import multiprocessing
import resource
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import psutil
from numpy.typing import NDArray

from ltrbench.data import RankingDataset, read_letor
from ltrbench.measure import Stopwatch
from ltrbench.rankers.native import NativeRanker

NUM_FEATURES = 136
GRADE_SHARES = (0.515, 0.325, 0.133, 0.019, 0.008)  # grades 0 to 4 in MSLR-WEB30K
NUM_TEST_DOCUMENTS = 50_000

Model = NativeRanker | lgb.Booster


def options(doc: str | None, **defaults: Any) -> argparse.Namespace:
    """Returns the options of a benchmark; a default gives the type, and a list takes several values."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in defaults.items():
        if isinstance(default, bool):
            parser.add_argument(f"--{name}", action="store_true")
        elif isinstance(default, list):
            parser.add_argument(
                f"--{name}", nargs="+", type=type(default[0]), default=default
            )
        else:
            parser.add_argument(
                f"--{name}",
                type=Path if default is None else type(default),
                default=default,
            )
    return parser.parse_args()


def in_new_process(function: Callable[..., Any], *arguments: object) -> Any:
    """Returns the result of a function of a benchmark's module, called in a new process."""
    with ProcessPoolExecutor(
        1, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        return pool.submit(function, *arguments).result()


@dataclass(frozen=True)
class Row:
    """A row of the table of all benchmarks.

    Attributes:
        what: what is measured, and against what.
        value: a ratio, or a value in `unit`; the smaller the better.
        goal: value that the project aims at.
        unit: unit of both; empty for a ratio.
    """

    what: str
    value: float
    goal: float
    unit: str = ""

    def __str__(self) -> str:
        return (
            f"{self.what}: {self.value:.2f}{self.unit} (goal {self.goal:g}{self.unit})"
        )


@dataclass(frozen=True)
class Finished:
    """A finished command: wall and processor seconds, the largest resident memory, and its output."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    output: str


def run_command(
    words: Sequence[str],
    folder: Path | None = None,
    note: Callable[[float], object] = lambda resident_mb: None,
    **environment: str,
) -> Finished:
    """Runs Python with these arguments; ends the benchmark if it fails.

    Args:
        note: called with the resident memory every 50 ms. The maximum that the system records is not used,
            because a run of ltrbench resets it.
    """
    ended, before, peak = threading.Event(), children_cpu_seconds(), 0.0

    def watch(process: psutil.Process) -> None:
        nonlocal peak
        with contextlib.suppress(psutil.NoSuchProcess):
            while not ended.wait(0.05):
                resident_mb = process.memory_info().rss / 1e6
                peak = max(peak, resident_mb)
                note(resident_mb)

    elapsed = Stopwatch()
    with elapsed:
        process = psutil.Popen(
            [sys.executable, *words],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=watch, args=(process,), daemon=True).start()
        output, _ = process.communicate()
    ended.set()
    if process.returncode:
        sys.exit(output)
    return Finished(elapsed.seconds, children_cpu_seconds() - before, peak, output)


def children_cpu_seconds() -> float:
    """Returns the processor time of all ended child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def take_turns(
    ways: Mapping[str, Callable[[], object]], repeats: int
) -> dict[str, list[float]]:
    """Returns the seconds of each way; they alternate, so that slow periods of the machine affect all."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            taken[name].append(seconds(way))
    return taken


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    return statistics.median(seconds(call) for _ in range(repeats))


def make_dataset(num_documents: int, seed: int) -> RankingDataset:
    """Returns data similar to MSLR-WEB30K: about 120 documents per query; dense, count, sparse features."""
    rng = np.random.default_rng(seed)
    sizes = np.clip(np.exp(rng.normal(4.6, 0.6, num_documents // 50)), 5, 1000).astype(
        np.int64
    )
    query_start = np.concatenate([[0], np.cumsum(sizes)])
    query_start = np.append(query_start[query_start < num_documents], num_documents)
    latent = rng.normal(size=(num_documents, 6))
    relevance = latent[:, 0] + latent[:, 1] * latent[:, 2] + 0.5 * np.abs(latent[:, 3])
    relevance += rng.normal(size=num_documents)
    cuts = np.quantile(relevance, np.cumsum(GRADE_SHARES)[:-1])
    features = np.empty((num_documents, NUM_FEATURES), dtype=np.float32)
    for f in range(NUM_FEATURES):
        # Features have the same distribution for every seed, so that one set can be the test set of another.
        slope, spread, scale = np.random.default_rng(f).uniform(
            [0.2, 0.5, 1.0], [1.0, 1.5, 5.0]
        )
        seen = latent[:, f % 6] * slope + rng.normal(size=num_documents)
        if f % 3 == 0:
            features[:, f] = np.exp(seen * spread)
        elif f % 3 == 1:
            features[:, f] = np.floor(np.exp(seen * spread) * scale)
        else:
            features[:, f] = np.where(rng.random(num_documents) < 0.3, seen, 0.0)
    labels = np.searchsorted(cuts, relevance).astype(np.float64)
    return RankingDataset(features=features, labels=labels, query_start=query_start)


def data_folder() -> Path:
    """Returns the folder of real data: LTRBENCH_DATA, or data/ of the checkout."""
    return Path(
        os.environ.get("LTRBENCH_DATA", Path(__file__).resolve().parents[2] / "data")
    )


def load_job(name: str) -> tuple[RankingDataset, RankingDataset]:
    """Returns training and test set of a job: "mq2007", or a number of documents such as "200000"."""
    if name == "mq2007":
        fold = data_folder() / "MQ2007" / "Fold1"
        return read_letor(fold / "train.txt"), read_letor(fold / "test.txt")
    return make_dataset(int(name), seed=0), make_dataset(NUM_TEST_DOCUMENTS, seed=1)


def fit_native(
    train: RankingDataset, num_trees: int, num_leaves: int, num_threads: int
) -> NativeRanker:
    return NativeRanker(
        num_trees=num_trees, num_leaves=num_leaves, num_threads=num_threads
    ).fit(train)


def lightgbm_parameters(
    num_leaves: int, num_threads: int, layout: str
) -> dict[str, object]:
    """Returns LightGBM's parameters: defaults, which native shares, and histograms by row or by column."""
    return {
        "objective": "lambdarank",
        "num_leaves": num_leaves,
        "num_threads": num_threads,
        "verbose": -1,
        layout: True,
    }


def lightgbm_dataset(
    train: RankingDataset, parameters: dict[str, object], features: Any = None
) -> lgb.Dataset:
    """Returns a data set of LightGBM with other features than those of `train`, such as a sparse matrix."""
    features = train.features if features is None else features
    return lgb.Dataset(
        features,
        train.labels,
        group=train.query_sizes,
        categorical_feature=list(train.categorical_features),
        params=parameters,
    ).construct()


def fit_lightgbm(
    train: RankingDataset,
    num_trees: int,
    parameters: dict[str, object],
    features: Any = None,
) -> lgb.Booster:
    return lgb.train(
        parameters, lightgbm_dataset(train, parameters, features), num_trees
    )


def scores_of(model: Model, data: RankingDataset) -> NDArray[np.float64]:
    return np.asarray(model.predict(data.features), dtype=np.float64)


def seconds(call: Callable[[], object]) -> float:
    watch = Stopwatch()
    with watch:
        call()
    return watch.seconds
