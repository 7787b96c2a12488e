"""Benchmark of short commands: seconds of the first and of later sweeps, resume, sync, inspect and --help.

    python tests/bench/bench_start.py [--repeats 3]

The first sweep finds no compiled code: it is what a user of a new wheel waits for. The median of the repeats
is printed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
from bench_jobs import Finished, Row, options, run_command

from ltrbench.data.letor import write_letor
from ltrbench.data.synthetic import make_synthetic
from ltrbench.measure import Stopwatch

_SWEEP = ("-m", "ltrbench", "model=native,lightgbm", "-m")


GOALS = {
    "first sweep, nothing compiled": 18.0,
    "answer of a sweep": 7.0,
    "sweep": 7.0,
    "resume": 2.5,
    "sync": 6.0,
    "inspect": 1.5,
    "--help": 0.4,
}
"""What is timed -> the goal in seconds on an idle machine with two cores."""


def bench(repeats: int) -> Iterator[tuple[str, float]]:
    """Prints the times of each command; yields its name and the median of the wall seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_letor(make_synthetic(60, 0).take_queries(range(34)), folder / "rows.txt")
        cold = []
        for number in range(repeats):
            words = [*_SWEEP, f"hydra.sweep.dir=first{number}"]
            empty = str(folder / f"cache{number}")
            cold.append(run_command(words, folder, NUMBA_CACHE_DIR=empty))
        yield _median("first sweep, nothing compiled", cold)
        run_command([*_SWEEP, "hydra.sweep.dir=compiled"], folder)
        sweeps = []
        for number in range(repeats):
            words = [*_SWEEP, f"hydra.sweep.dir={number}"]
            sweeps.append(run_command(words, folder))
        yield _median("sweep", sweeps)
        answers = [_answer(folder, number) for number in range(repeats)]
        yield _median("answer of a sweep", answers)
        for job in ("0", "1"):
            record = json.loads((folder / "0" / job / "result.json").read_text())
            seconds = record["seconds"]
            print(
                f"  {record['model']}: fit {seconds['fit']:.2f}, importances {seconds['importances']:.4f}"
            )
        commands = (
            ("resume", "0"),
            ("sync", "0"),
            ("inspect", "rows.txt"),
            ("--help",),
        )
        for command in commands:
            words = ["-m", "ltrbench", *command]
            yield _median(
                command[0], [run_command(words, folder) for _ in range(repeats)]
            )


def _answer(folder: Path, number: int) -> Finished:
    """Runs a sweep; returns the seconds until it prints its table, before its files are written."""
    words = [sys.executable, *_SWEEP, f"hydra.sweep.dir=answer{number}"]
    elapsed = Stopwatch()
    with elapsed:
        process = psutil.Popen(
            words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        process.stdout.readline()
    used = process.cpu_times()
    process.communicate()
    return Finished(elapsed.seconds, used.user + used.system, 0.0, "")


def _median(name: str, finished: list[Finished]) -> tuple[str, float]:
    wall = statistics.median(each.seconds for each in finished)
    cpu = statistics.median(each.cpu_seconds for each in finished)
    print(f"{name}: {wall:.1f} s, {cpu:.1f} s of processor time", flush=True)
    return name, wall


def rows() -> Iterator[Row]:
    """Yields the rows of the table of all benchmarks."""
    for name, seconds in bench(repeats=3):
        yield Row(name, seconds, GOALS[name], " s")


def main() -> None:
    for _ in bench(options(__doc__, repeats=3).repeats):
        pass


if __name__ == "__main__":
    main()
