"""Benchmark of networks: time of an epoch and of a score of the MLP 136-256-128-1.

    python tests/bench/bench_networks.py [--documents 222000] [--epochs 3] [--threads 2] [--repeats 3]

The limits of the project are 6 s for an epoch on two cores, and 3 microseconds for a score. Functions are
compiled before. The time of an epoch is the difference of a fit of several epochs and a fit of one, so that
the preparation of the data does not count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

from bench_jobs import Row, make_dataset, options

from ltrbench.rankers.mlp import MlpRanker


def seconds_and_cpu(call: Callable[[], object]) -> tuple[float, float]:
    began, began_cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began, time.process_time() - began_cpu


def show(
    name: str, unit: str, taken: list[tuple[float, float]], factor: float
) -> float:
    """Prints the median times; returns the wall time."""
    wall, cpu = (factor * statistics.median(each) for each in zip(*taken, strict=True))
    print(f"{name}: {wall:.2f} {unit}, of which {cpu:.2f} on processors", flush=True)
    return float(wall)


def bench(num_documents: int, epochs: int, threads: int, repeats: int) -> float:
    """Prints the times of an epoch and of a score; returns that of an epoch."""
    train = make_dataset(num_documents, seed=0)
    one, several = (
        MlpRanker(num_epochs=number, num_threads=threads) for number in (1, 1 + epochs)
    )
    one.fit(train).predict(train.features)
    of_epochs, of_scores = [], []
    for _ in range(repeats):
        of_one, of_several = (
            seconds_and_cpu(partial(ranker.fit, train)) for ranker in (one, several)
        )
        of_epochs.append((of_several[0] - of_one[0], of_several[1] - of_one[1]))
        of_scores.append(seconds_and_cpu(partial(one.predict, train.features)))
    show("a score", "us", of_scores, 1e6 / train.num_documents)
    return show("an epoch", "s", of_epochs, 1 / epochs)


def rows() -> Iterator[Row]:
    """Yields the rows of the table of all benchmarks."""
    yield Row("mlp, an epoch of 222,000 documents", bench(222_000, 3, 2, 3), 0.7, " s")


def main() -> None:
    arguments = options(__doc__, documents=222_000, epochs=3, threads=2, repeats=3)
    bench(arguments.documents, arguments.epochs, arguments.threads, arguments.repeats)


if __name__ == "__main__":
    main()
