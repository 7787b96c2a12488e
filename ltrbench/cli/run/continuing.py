"""Continues a sweep in an existing folder, and reports which jobs are finished and how to run the others.

Several commands may write to one sweep folder, one after another; all runs in the folder are compared. A
later command therefore announces the existing runs, numbers its jobs after them, and rejects a job that is
already finished. A failed or interrupted job may run again; its new run replaces the old one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ltrbench.cli.program import program
from ltrbench.errors import ResultError
from ltrbench.measure.provenance import without_password
from ltrbench.results import FINISHED, Run, find_runs, holds_runs
from ltrbench.results.overrides import Overrides, as_products, quoted

SWEEP_FILE = "multirun.yaml"
"""The file that Hydra writes into the folder of a sweep."""

_STATES = ("finished", "failed", "interrupted", "not started")


@dataclass
class Sweep:
    """The jobs of one command and the folder of their runs.

    Attributes:
        words: the words of the command line that every job needs: flags and Hydra's settings.
        jobs: job number -> overrides.
        started: numbers of the jobs that have started.
        failed: numbers of the jobs that ended with an error of any kind.
    """

    folder: Path
    words: Sequence[str] = ()
    jobs: Mapping[int, Overrides] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)

    def command(self, overrides: Iterable[str]) -> str:
        """Returns the command line that runs jobs with these overrides in the same folder."""
        words = [*self.words, "-m", f"hydra.sweep.dir={quoted(str(self.folder))}", *overrides]
        return " ".join([program(), *map(shlex.quote, words)])


def runs_of(folder: Path) -> list[Run]:
    """Returns the runs in the folder of a sweep, possibly none, without the runs of sweeps in its subfolders.

    Raises:
        ResultError: A run is damaged.
    """
    runs = find_runs([folder]) if holds_runs(folder) else []
    return [run for run in runs if not _is_of_another_sweep(run.path, folder)]


def _is_of_another_sweep(path: Path, folder: Path) -> bool:
    between = [place for place in path.parents if folder in place.parents]
    return any((place / SWEEP_FILE).exists() for place in between)


def numbered(sweep: Sweep, jobs: Sequence[Sequence[str]], runs: Sequence[Run]) -> dict[int, Overrides]:
    """Returns job number -> overrides. A job that repeats a failed run gets its number, others a free number.

    Raises:
        ResultError: A job is already finished; the message has the commands for the other jobs.
    """
    done = {_key(run.result.overrides or ()): run for run in runs if run.result.status == FINISHED}
    if any(_key(job) in done for job in jobs):
        raise ResultError(_already_done(sweep, jobs, done))
    failed = {_key(run.result.overrides or ()): _number(run.path) for run in runs}
    taken = [_number(path) for path in (*sweep.folder.iterdir(), *(run.path for run in runs))]
    free = max((number for number in taken if number is not None), default=-1) + 1
    numbers: dict[int, Overrides] = {}
    for job in jobs:
        number = failed.pop(_key(job), None)
        if number is None:
            number, free = free, free + 1
        numbers[number] = tuple(job)
    return dict(sorted(numbers.items()))


def _number(path: Path) -> int | None:
    """Returns the job number of a run folder, from its name or from the file that Hydra wrote, or None."""
    if path.name.isdecimal():
        return int(path.name)
    settings = path / ".hydra" / "hydra.yaml"
    if not settings.is_file():
        return None
    match = re.search(
        r"^    num: (\d+)$", settings.read_text(encoding="utf-8", errors="replace"), re.MULTILINE
    )
    return None if match is None else int(match[1])


def _already_done(sweep: Sweep, jobs: Sequence[Sequence[str]], done: Mapping[Overrides, Run]) -> str:
    repeated = [_key(job) for job in jobs if _key(job) in done]
    message = (
        f"{sweep.folder} already contains finished runs of {len(repeated)} of these {len(jobs)} jobs, such "
        f"as {done[repeated[0]].path}; a comparison would count them twice. Choose another folder "
        "with hydra.sweep.dir=..., or delete the folders of those runs"
    )
    others = [job for job in jobs if _key(job) not in done]
    if not others:
        return f"{message}."
    return "\n  ".join([f"{message}, or run only the other jobs:", *map(sweep.command, as_products(others))])


def announcement(sweep: Sweep, runs: Sequence[Run]) -> str:
    """Returns the message about the existing runs in the folder, printed before the first job starts."""
    begun = sorted({run.result.started[:16].replace("T", " ") for run in runs})
    when = begun[0] if len(begun) == 1 else f"{begun[0]} to {begun[-1]}"
    finished = sum(run.result.status == FINISHED for run in runs)
    repeated = {_number(run.path) for run in runs}
    what = {
        "repeats": [number for number in sweep.jobs if number in repeated],
        "adds": [number for number in sweep.jobs if number not in repeated],
    }
    does = " and ".join(f"{verb} {_in_words(numbers)}" for verb, numbers in what.items() if numbers)
    products = as_products([run.result.overrides or () for run in runs])
    settings = "; ".join(" ".join(product) for product in products)
    return (
        f"{sweep.folder} already contains runs of earlier commands ({finished} finished, "
        f"{len(runs) - finished} failed, started {when} UTC: {settings}). This command {does}. The table "
        "will contain every run in the folder; for a table of this command alone, choose another folder with "
        "hydra.sweep.dir=..."
    )


def _in_words(numbers: Sequence[int]) -> str:
    """
    >>> _in_words([3, 4, 5]), _in_words([1, 3]), _in_words([7])
    ('jobs 3 to 5', 'jobs 1, 3', 'job 7')
    """
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return f"job {first}"
    is_range = len(numbers) > 2 and last - first == len(numbers) - 1
    return f"jobs {first} to {last}" if is_range else f"jobs {', '.join(map(str, numbers))}"


def interruption(sweep: Sweep, runs: Sequence[Run]) -> str:
    """Returns the message of an interrupted command: the state of each job, and the commands that run the
    unfinished jobs."""
    results = {_key(run.result.overrides or ()): run.result for run in runs}
    of_state: dict[str, list[Overrides]] = {name: [] for name in _STATES}
    for number, job in sweep.jobs.items():
        result = results.get(_key(job))
        if result is not None and result.status == FINISHED:
            of_state["finished"].append(job)
        elif number in sweep.failed:
            of_state["failed"].append(job)
        else:
            of_state["interrupted" if number in sweep.started else "not started"].append(job)
    counts = ", ".join(f"{len(jobs)} {state}" for state, jobs in of_state.items() if jobs)
    lines = [f"interrupted; of {len(sweep.jobs)} jobs: {counts}"]
    for state, jobs in of_state.items():
        lines += [f"  {state + ':':<12} {' '.join(product)}" for product in as_products(jobs)]
    remaining = [*of_state["interrupted"], *of_state["not started"]]
    for what, wanted in (("failed", of_state["failed"]), ("remaining", remaining)):
        if wanted:
            lines += [f"To run the {what} jobs in the same folder:"]
            lines += [f"  {sweep.command(product)}" for product in as_products(wanted)]
    if not remaining:
        lines += [
            "No job remains. To compare the runs in the folder: "
            f"{program()} compare {shlex.quote(str(sweep.folder))}"
        ]
    return "\n".join(lines)


def _key(overrides: Iterable[str]) -> Overrides:
    """Returns the overrides of a job as stored in result.json, sorted."""
    of_run = (line for line in overrides if not line.lstrip("+~").startswith(("hydra.", "hydra/")))
    return tuple(sorted(map(without_password, of_run)))
