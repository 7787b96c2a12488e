"""Benchmark of the verb `compare`: seconds and peak memory from run folders to the table, in a new process.

    python tests/bench/bench_compare.py [--models 10] [--queries 30000] [--output]

With --output it also writes the files: the report, the tables and the images.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from bench_jobs import Row, options, run_command

from ltrbench.data import Judgments
from ltrbench.metrics import DEFAULT, METRICS_OF_A_RUN
from ltrbench.runs.record import FINISHED, RunResult, ScoredSplit
from ltrbench.runs.writing import write_run

DOCUMENTS = 40
"""Number of documents per query."""

SPLITS = ("train", "valid", "test")


def write_runs(folder: Path, num_models: int, num_queries: int) -> None:
    """Writes runs on one test set with MSLR-WEB30K's shares of grades; each model is slightly better than the
    previous one."""
    rng = np.random.default_rng(0)
    labels = rng.choice(
        5, size=num_queries * DOCUMENTS, p=[0.52, 0.32, 0.13, 0.02, 0.01]
    ).astype(np.float64)
    judged = Judgments(
        labels=labels, query_start=np.arange(num_queries + 1) * DOCUMENTS
    )
    keys = np.array([f"{query:032x}" for query in range(num_queries)])
    of_split = {"queries": num_queries, "features": 1, "documents": len(labels)}
    of_split["queries_without_relevant_document"] = 0
    for number in range(num_models):
        scores = (0.5 + 0.01 * number) * labels + rng.normal(size=len(labels))
        result = RunResult(
            status=FINISHED,
            model=f"model{number}",
            params="matched",
            seed=0,
            data={
                "name": "made up",
                **{name: {**of_split, "fingerprint": name} for name in SPLITS},
            },
            metrics={f"test/{name}": None for name in METRICS_OF_A_RUN},
            convention=DEFAULT.describe(),
            seconds={"fit": 1.0 + number, "predict": 0.1},
            machine={"cpu": "any", "cores": 1},
        )
        write_run(
            folder / str(number),
            result,
            scored={"test": ScoredSplit(judged, scores, query_keys=keys)},
        )


def bench(folder: Path, with_files: bool) -> float:
    """Prints time and memory of a comparison of the runs in a folder; returns the seconds."""
    words = ["-m", "ltrbench", "compare", str(folder / "runs")]
    if with_files:
        words += ["--output", str(folder / "out")]
    done = run_command(words)
    files = "table and files" if with_files else "table"
    print(
        f"  {files}: {done.seconds:.1f} s, {done.cpu_seconds:.1f} s of processor time, peak "
        f"{done.peak_mb:.0f} MB",
        flush=True,
    )
    return done.seconds


def rows() -> Iterator[Row]:
    """Yields the rows of the table of all benchmarks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_runs(folder / "runs", 10, 30_000)
        compared = "compare 10 models x 30,000 queries"
        yield Row(compared, bench(folder, with_files=False), 4, " s")
        yield Row(f"{compared}, with files", bench(folder, with_files=True), 8, " s")


def main() -> None:
    arguments = options(__doc__, models=10, queries=30_000, output=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_runs(folder / "runs", arguments.models, arguments.queries)
        print(f"{arguments.models} models x {arguments.queries:,} queries:")
        bench(folder, arguments.output)


if __name__ == "__main__":
    main()
