"""Benchmark of a sweep: processor time per job beyond the work of its model; memory and time of many jobs.

    python tests/bench/bench_sweep.py [--jobs 20 120] [--many 1000] [--queries 40] [--tracking none mlflow]

Each sweep runs the model `random`, one job per seed, in a new process. The processor time of a job is that of
the longer sweep minus that of the shorter one, per additional job: imports and everything else that a command
does once cancel out. The recorded times of load, fit (with evaluation), predict and importances are then
subtracted; what remains includes the metrics of the run and its part of the comparison. A job that shares the
data of an earlier job records the time of that loading, so equal times of load count once.

The memory of the long sweep is its resident size, read from outside while it runs.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench_jobs import Finished, options, run_command

from ltrbench.runs.record import FINISHED, RunResult, read_run


@dataclass(frozen=True)
class Sweep:
    """A finished sweep.

    Attributes:
        results: the results of its jobs, in the order in which they started.
        resident: number of finished jobs -> resident size in MB when it was first reached.
    """

    process: Finished
    results: list[RunResult]
    resident: dict[int, float]

    @property
    def recorded(self) -> float:
        """Recorded seconds of load, fit with evaluation, predict and importances of all jobs."""
        seconds = [result.seconds for result in self.results]
        loads = {each["load"] for each in seconds}
        return sum(loads) + sum(
            each["fit"] + each["predict"] + each["importances"] for each in seconds
        )


def run_sweep(num_jobs: int, num_queries: int, tracking: str) -> Sweep:
    """Runs a sweep of `random` over seeds from the command line, in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "sweep")
        words = [
            "-m",
            "ltrbench",
            "-m",
            "model=random",
            f"data.num_queries={num_queries}",
        ]
        words += [
            f"seed={','.join(map(str, range(1, num_jobs + 1)))}",
            "importance=null",
        ]
        words += [f"tracking={tracking}", f"hydra.sweep.dir={folder}"]
        resident: dict[int, float] = {}

        def note(resident_mb: float) -> None:
            resident.setdefault(
                sum(1 for _ in folder.glob("*/result.json")), resident_mb
            )

        process = run_command(words, Path(name), note)
        results = [
            read_run(path.parent).result for path in folder.glob("*/result.json")
        ]
    if [result.status for result in results] != [FINISHED] * num_jobs:
        sys.exit(
            f"{len(results)} of {num_jobs} jobs have a result, and not all of them have finished."
        )
    return Sweep(process, sorted(results, key=lambda result: result.started), resident)


def overhead_ms(few: int, many: int, num_queries: int, tracking: str) -> float:
    """Returns milliseconds of processor time per job beyond the recorded work."""
    short, long = (run_sweep(number, num_queries, tracking) for number in (few, many))
    beyond = (long.process.cpu_seconds - long.recorded) - (
        short.process.cpu_seconds - short.recorded
    )
    return 1000 * beyond / (many - few)


def seconds_between(results: Sequence[RunResult]) -> float:
    """Returns the seconds from the start of the first run to the end of the last."""
    began, ended = results[0].started, results[-1].finished
    return (
        datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    ).total_seconds()


def report_many(sweep: Sweep) -> None:
    """Prints memory and time of each quarter of a sweep, and the ratio of the last quarter to the first."""
    num_jobs = len(sweep.results)
    size = num_jobs // 4
    ends = [size, 2 * size, 3 * size, num_jobs]
    seconds, cpu_seconds = sweep.process.seconds, sweep.process.cpu_seconds
    print(
        f"{num_jobs:,} jobs, tracking=none: {seconds:.1f} s, {cpu_seconds:.1f} s of processor time"
    )
    print(f"{'jobs':>8} {'resident':>12} {'jobs take':>12}")
    memory, times = [], []
    for end in ends:
        # The comparison at the end of the command needs memory of its own, so the job before is read.
        reached = [count for count in sweep.resident if 0 < count < max(end, 2)]
        memory.append(sweep.resident[max(reached)] if reached else float("nan"))
        times.append(seconds_between(sweep.results[end - size : end]))
        print(f"{end:8,} {memory[-1]:9.0f} MB {times[-1]:10.2f} s")
    longer, larger = times[-1] / times[0], memory[-1] / memory[0]
    print(f"last quarter / first quarter: time {longer:.2f}, memory {larger:.2f}")


def main() -> None:
    arguments = options(
        __doc__, jobs=[20, 120], many=1000, queries=40, tracking=["none", "mlflow"]
    )
    few, many = arguments.jobs
    print(
        f"processor time per job beyond load, fit, predict and importances; {few} and {many} jobs:"
    )
    for tracking in arguments.tracking:
        overhead = overhead_ms(few, many, arguments.queries, tracking)
        print(f"  tracking={tracking:8} {overhead:7.0f} ms", flush=True)
    if arguments.many:
        report_many(run_sweep(arguments.many, arguments.queries, "none"))


if __name__ == "__main__":
    main()
