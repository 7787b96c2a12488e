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

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ltrbench.measure import Stopwatch
from ltrbench.runs import FINISHED, RunResult, read_run

INTERVAL = 0.1
"""Seconds between two readings of the memory."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A finished sweep.

    Attributes:
        results: the results of its jobs, in the order in which they started.
        processor: seconds of processor time of the process and its children.
        wall: seconds from its start to its end.
        resident: number of finished jobs -> resident size in MB when it was first reached.
    """

    results: list[RunResult]
    processor: float
    wall: float
    resident: dict[int, float]

    @property
    def recorded(self) -> float:
        """Recorded seconds of load, fit with evaluation, predict and importances of all jobs."""
        seconds = [result.seconds for result in self.results]
        loads = {each["load"] for each in seconds}
        return sum(loads) + sum(each["fit"] + each["predict"] + each["importances"] for each in seconds)


def run_sweep(num_jobs: int, num_queries: int, tracking: str) -> Sweep:
    """Runs a sweep of `random` over seeds from the command line, in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "sweep")
        command = [sys.executable, "-m", "ltrbench", "-m", "model=random", f"data.num_queries={num_queries}"]
        command += [f"seed={','.join(map(str, range(1, num_jobs + 1)))}", "importance=null"]
        command += [f"tracking={tracking}", f"hydra.sweep.dir={folder}"]
        watch = Stopwatch()
        with watch, Path(name, "output").open("w") as output:
            process = subprocess.Popen(command, cwd=name, stdout=output, stderr=output)
            watcher = MemoryWatcher(process.pid, folder)
            watcher.start()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            watcher.stop()
        if process.returncode:
            sys.exit(Path(name, "output").read_text())
        results = [read_run(path.parent).result for path in folder.glob("*/result.json")]
    if [result.status for result in results] != [FINISHED] * num_jobs:
        sys.exit(f"{len(results)} of {num_jobs} jobs have a result, and not all of them have finished.")
    return Sweep(
        results=sorted(results, key=lambda result: result.started),
        processor=usage.ru_utime + usage.ru_stime,
        wall=watch.seconds,
        resident=watcher.resident,
    )


class MemoryWatcher(threading.Thread):
    """Reads the resident size of a process and counts the finished jobs in its folder, until stopped."""

    def __init__(self, pid: int, folder: Path) -> None:
        super().__init__(daemon=True)
        self.resident: dict[int, float] = {}
        self._status, self._folder = Path(f"/proc/{pid}/status"), folder
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(INTERVAL):
            num_finished = sum(1 for _ in self._folder.glob("*/result.json"))
            try:
                lines = self._status.read_text().splitlines()
            except OSError:  # the process has ended, or the system has no /proc
                continue
            for line in lines:
                if line.startswith("VmRSS:"):
                    self.resident.setdefault(num_finished, int(line.split()[1]) * 1024 / 1e6)

    def stop(self) -> None:
        self._ended.set()
        self.join()


def overhead_ms(few: int, many: int, num_queries: int, tracking: str) -> float:
    """Returns milliseconds of processor time per job beyond the recorded work."""
    short, long = (run_sweep(number, num_queries, tracking) for number in (few, many))
    beyond = (long.processor - long.recorded) - (short.processor - short.recorded)
    return 1000 * beyond / (many - few)


def seconds_between(results: Sequence[RunResult]) -> float:
    """Returns the seconds from the start of the first run to the end of the last."""
    began, ended = results[0].started, results[-1].finished
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()


def report_many(sweep: Sweep) -> None:
    """Prints memory and time of each quarter of a sweep, and the ratio of the last quarter to the first."""
    num_jobs = len(sweep.results)
    size = num_jobs // 4
    ends = [size, 2 * size, 3 * size, num_jobs]
    print(f"{num_jobs:,} jobs, tracking=none: {sweep.wall:.1f} s, {sweep.processor:.1f} s of processor time")
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, nargs=2, default=[20, 120])
    parser.add_argument("--many", type=int, default=1000, help="0: only the processor time per job")
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--tracking", nargs="+", default=["none", "mlflow"])
    arguments = parser.parse_args()
    few, many = arguments.jobs
    print(f"processor time per job beyond load, fit, predict and importances; {few} and {many} jobs:")
    for tracking in arguments.tracking:
        overhead = overhead_ms(few, many, arguments.queries, tracking)
        print(f"  tracking={tracking:8} {overhead:7.0f} ms", flush=True)
    if arguments.many:
        report_many(run_sweep(arguments.many, arguments.queries, "none"))


if __name__ == "__main__":
    main()
