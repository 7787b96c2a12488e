"""Benchmark of reading LETOR text: CPU time and memory relative to XGBoost's text reader, dense and sparse.

    python tests/bench/bench_read.py [--megabytes 200] [--repeats 3] [--kinds dense sparse commented]

A file of each kind is generated: dense with 136 features per line, as in MSLR; sparse with about a third of
700 features, as in Yahoo's set 1; commented with 46 features and a document id in the comment, as in LETOR 4.
Each reader runs in a separate process, alternating; a small file is read first, so that compilation and
imports do not count. CPU time is that of all threads. The peak is the increase of resident memory, relative
to the arrays of the data set. XGBoost keeps values and indices of the present features only; its own text
reader is deprecated since 3.1.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from bench_jobs import Row, in_new_process, options

from ltrbench.data import read_letor
from ltrbench.measure import MemoryMeter

READERS = ("ltrbench", "ltrbench, 1 thread", "XGBoost")
KINDS = ("dense", "sparse", "commented")
DOCUMENTS_PER_QUERY = 100


def write_file(kind: str, path: Path, num_bytes: int) -> None:
    rng = np.random.default_rng(0)
    num_features = {"dense": 136, "sparse": 700, "commented": 46}[kind]
    chance = 0.32 if kind == "sparse" else 1.0
    written = query = 0
    with path.open("wb") as file:
        while written < num_bytes:
            query += 1
            values = rng.random((DOCUMENTS_PER_QUERY, num_features)) * rng.choice(
                [1, 10, 1000], num_features
            )
            present = rng.random(values.shape) < chance
            for row, label in enumerate(
                rng.integers(0, 5, DOCUMENTS_PER_QUERY).tolist()
            ):
                columns = np.flatnonzero(present[row])
                pairs = zip(
                    (columns + 1).tolist(), values[row, columns].tolist(), strict=True
                )
                line = f"{label} qid:{query} " + " ".join(
                    f"{index}:{value:.6g}" for index, value in pairs
                )
                if kind == "commented":
                    line += (
                        f" #docid = GX{query:03}-{row:02}-0000000 inc = 1 prob = 0.5"
                    )
                written += file.write(f"{line}\n".encode())


def read_by_xgboost(path: Path) -> int:
    import xgboost as xgb

    xgb.set_config(verbosity=0)
    data = xgb.DMatrix(f"{path}?format=libsvm")
    # Indices and values of 8 bytes per present feature, and a label.
    return int(8 * data.num_nonmissing() + 4 * data.num_row())


def read_by_ltrbench(path: Path) -> int:
    data = read_letor(path)
    arrays = (data.features, data.labels, data.document_ids)
    return sum(array.nbytes for array in arrays if array is not None)


def measure(reader: str, path: Path) -> dict[str, float | None]:
    """Returns CPU and wall time, and the peak relative to the result; runs in the reader's process."""
    if reader == "ltrbench, 1 thread":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    read: Callable[[Path], int] = (
        read_by_xgboost if reader == "XGBoost" else read_by_ltrbench
    )
    read(path.with_name("small.txt"))
    with MemoryMeter() as meter:
        cpu, wall = time.process_time(), time.perf_counter()
        num_bytes = read(path)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "cpu": cpu,
        "wall": wall,
        "peak": None if meter.rise_mb is None else 1e6 * meter.rise_mb / num_bytes,
    }


def main() -> None:
    arguments = options(__doc__, megabytes=200, repeats=3, kinds=list(KINDS))
    with tempfile.TemporaryDirectory() as folder:
        for kind in arguments.kinds:
            write_file(kind, Path(folder, "small.txt"), 1000)
            path = Path(folder, f"{kind}.txt")
            write_file(kind, path, arguments.megabytes * 10**6)
            compare(kind, path, arguments.repeats)
            path.unlink()


def rows() -> Iterator[Row]:
    """Yields the rows of the table of all benchmarks."""
    goals = {"dense": 0.33, "sparse": 0.5}
    with tempfile.TemporaryDirectory() as folder:
        for kind, goal in goals.items():
            write_file(kind, Path(folder, "small.txt"), 1000)
            path = Path(folder, f"{kind}.txt")
            write_file(kind, path, 80 * 10**6)
            ratio = compare(kind, path, 3)
            yield Row(f"read {kind} LETOR text, CPU time / XGBoost", ratio, goal)


def compare(kind: str, path: Path, repeats: int) -> float:
    """Prints the times of all readers; returns ltrbench / XGBoost, with one thread."""
    print(f"{kind}, {path.stat().st_size / 1e6:.0f} MB")
    runs = [
        {reader: in_new_process(measure, reader, path) for reader in READERS}
        for _ in range(repeats)
    ]
    cpu = {
        reader: statistics.median(run[reader]["cpu"] for run in runs)
        for reader in READERS
    }
    for reader in READERS:
        wall = statistics.median(run[reader]["wall"] for run in runs)
        peak = statistics.median(run[reader]["peak"] for run in runs)
        ratio = (
            ""
            if reader == "XGBoost"
            else f"; CPU / XGBoost = {cpu[reader] / cpu['XGBoost']:.2f}"
        )
        print(
            f"  {reader:18} {cpu[reader]:6.2f} s CPU, {wall:6.2f} s wall, peak / result = {peak:.2f}{ratio}",
            flush=True,
        )
    return float(cpu["ltrbench, 1 thread"] / cpu["XGBoost"])


if __name__ == "__main__":
    main()
