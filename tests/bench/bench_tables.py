"""Benchmark of reading tables: CPU time and memory of CSV and Parquet files.

    python tests/bench/bench_tables.py [--megabytes 300] [--documents 1000000] [--features 100] [--repeats 3]

The files have a label, a query id and features with random values. The CSV file has `--megabytes`; the
Parquet files have `--documents`, one with a row group per 100,000 documents and one with a single row group.
A scattered file has the documents of its queries in random order, and is read with sort_queries=true. Each
file is read in a separate process; a small file is read first, so that imports do not count. CPU time is that
of all threads. The peak is the increase of resident memory, relative to the arrays of the data set.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import csv, parquet

from ltrbench.data import read_table
from ltrbench.measure import MemoryMeter

DOCUMENTS_PER_QUERY = 100
ROWS_PER_BLOCK = 100_000  # of the generator
KINDS = {
    "csv": "table.csv",
    "csv, compressed": "table.csv.gz",
    "csv, scattered": "scattered.csv",
    "parquet, row groups": "groups.parquet",
    "parquet, one row group": "one.parquet",
    "parquet, scattered": "scattered.parquet",
}


def rows(first: int, num_rows: int, num_features: int, scattered: bool) -> pyarrow.Table:
    """Returns rows of queries of 100 documents, or of random queries, with six digits per value as in CSV."""
    rng = np.random.default_rng(first)
    numbers = np.arange(first, first + num_rows) // DOCUMENTS_PER_QUERY
    queries = rng.permutation(numbers) if scattered else numbers
    columns = {
        "label": pyarrow.array(rng.integers(0, 5, num_rows)),
        "query_id": pyarrow.array([f"query{number}" for number in queries.tolist()]),
    }
    for number in range(num_features):
        values = rng.integers(0, 10**6, num_rows) / 10**6
        columns[f"feature{number}"] = pyarrow.array(values.astype(np.float32))
    return pyarrow.table(columns)


def write_csv(path: Path, num_bytes: int, num_features: int, scattered: bool) -> None:
    with path.open("wb") as plain:
        stream = pyarrow.CompressedOutputStream(plain, "gzip") if path.suffix == ".gz" else plain
        first = written = 0
        while written < num_bytes:
            block = rows(
                first, min(ROWS_PER_BLOCK, max(num_bytes // (10 * num_features), 1)), num_features, scattered
            )
            sink = pyarrow.BufferOutputStream()
            csv.write_csv(block, sink, csv.WriteOptions(include_header=first == 0))
            text = sink.getvalue()
            stream.write(text)
            written += len(text)
            first += block.num_rows
        stream.close()


def write_parquet(path: Path, num_rows: int, num_features: int, scattered: bool) -> None:
    size = num_rows if path.name.startswith("one") else ROWS_PER_BLOCK
    blocks = [
        rows(first, min(ROWS_PER_BLOCK, num_rows - first), num_features, scattered)
        for first in range(0, num_rows, ROWS_PER_BLOCK)
    ]
    parquet.write_table(pyarrow.concat_tables(blocks), path, row_group_size=size)


def measure(path: Path) -> dict[str, float | None]:
    """Returns CPU and wall time, the peak relative to the result, and its size; runs in its own process."""
    read_table(path.with_name("small" + "".join(path.suffixes)))
    with MemoryMeter() as meter:
        cpu, wall = time.process_time(), time.perf_counter()
        data = read_table(path, sort_queries=True)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    arrays = (data.features, data.labels, data.file_rows)
    num_bytes = sum(array.nbytes for array in arrays if array is not None)
    peak = None if meter.rise_mb is None else 1e6 * meter.rise_mb / num_bytes
    return {"cpu": cpu, "wall": wall, "peak": peak, "megabytes": num_bytes / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.path:
        print(json.dumps(measure(arguments.path)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in ("small.csv", "small.csv.gz"):
            write_csv(Path(folder, name), 1000, 2, scattered=False)
        write_parquet(Path(folder, "small.parquet"), 10, 2, scattered=False)
        for kind in arguments.kinds:
            path = Path(folder, KINDS[kind])
            scattered = path.name.startswith("scattered")
            if path.suffix == ".parquet":
                write_parquet(path, arguments.documents, arguments.features, scattered)
            else:
                write_csv(path, arguments.megabytes * 10**6, arguments.features, scattered)
            report(kind, path, arguments.repeats)
            path.unlink()


def report(kind: str, path: Path, repeats: int) -> None:
    command = [sys.executable, __file__, "--path", str(path)]
    answers = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(repeats)
    ]
    runs = [json.loads(answer.splitlines()[-1]) for answer in answers]
    cpu, wall, peak, size = (
        statistics.median(run[key] for run in runs) for key in ("cpu", "wall", "peak", "megabytes")
    )
    print(
        f"{kind:23} file {path.stat().st_size / 1e6:5.0f} MB, result {size:5.0f} MB: {cpu:6.2f} s CPU, "
        f"{wall:6.2f} s wall, peak / result = {peak:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
