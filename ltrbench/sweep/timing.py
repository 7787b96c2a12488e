"""Takes the times of finished runs again, one after another, because they shared the machine."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ltrbench.errors import ResultError
from ltrbench.experiment.run import run
from ltrbench.rankers.base import resolve_threads
from ltrbench.results import Run, RunResult, hold, read_run, rewrite_result
from ltrbench.sweep.job import Job
from ltrbench.sweep.state import DONE, JobState, states_of
from ltrbench.sweep.worker import experiment_of, with_choice


def untimed(states: Sequence[JobState]) -> list[Job]:
    """Returns the finished jobs whose times are taken again: those that shared the machine, or had another
    number of threads than they would have alone. Without trials and jobs that copied their training."""
    return [
        state.job for state in states if state.name == DONE and state.run and _is_untimed(state.run.result)
    ]


def _is_untimed(result: RunResult) -> bool:
    threads = resolve_threads(int(result.ranker["fields"]["num_threads"]))
    is_measured = result.reused is None and not result.trial
    return is_measured and (result.shared_machine or result.threads != threads)


def take_times(sweep: Path, job: Job, others: Sequence[Job]) -> list[Run]:
    """Runs a finished job once more in this process, and replaces the times in its result.json.

    Args:
        others: the jobs of the sweep. Those that copied the training of `job` get its times too.

    Returns:
        The runs whose times were replaced.

    Raises:
        ResultError: The scores differ from those of the first time, or another process uses the folder.
    """
    folder = sweep / job.folder
    with hold(folder) as lease:
        earlier = read_run(folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as scratch:
            experiment = with_choice(experiment_of(job), earlier.result.search)
            timed = run(experiment, Path(scratch, "run"))
            _check_equal(earlier, timed)
            replaced = [_with_times(earlier, timed.result)]
        lease.is_complete = True
    for state in states_of(sweep, [other for other in others if other.same_training == job.folder]):
        if state.name == DONE and state.run is not None and state.run.result.reused == job.folder:
            with hold(state.run.path) as lease:
                replaced.append(_with_times(state.run, timed.result))
                lease.is_complete = True
    return replaced


def _check_equal(earlier: Run, timed: Run) -> None:
    """Raises ResultError if two runs of a job gave different scores of test."""
    before, now = (each.scored("test").scores for each in (earlier, timed))
    if not np.array_equal(before, now):
        raise ResultError(
            f"{earlier.path}: the scores differ from those of the first run, so its times are kept. This "
            f"machine or its libraries differ from those of the first run ({earlier.result.machine}); delete "
            "the folder to run the job again."
        )


def _with_times(earlier: Run, timed: RunResult) -> Run:
    result = replace(
        earlier.result,
        seconds=timed.seconds,
        peak_memory_mb=timed.peak_memory_mb,
        shared_machine=timed.shared_machine,
        threads=timed.threads,
        machine=timed.machine,
    )
    return rewrite_result(earlier, result)
