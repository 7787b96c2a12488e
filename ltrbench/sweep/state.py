"""The state of each job of a sweep, as the folders on disk show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from ltrbench.errors import ResultError
from ltrbench.measure.clock import now
from ltrbench.results import FAILED as FAILED  # a state of a job too
from ltrbench.results import FINISHED, RESULT_FILE, Run, read_run
from ltrbench.results.lease import Holder, holder
from ltrbench.results.record import INTERRUPTED
from ltrbench.sweep.job import Job

DONE, RUNNING, WAITING = FINISHED, "running", "waiting"
STATES = (DONE, RUNNING, FAILED, WAITING)


@dataclass(frozen=True)
class JobState:
    """The state of a job.

    Attributes:
        name: one of `STATES`. A job that was interrupted is waiting.
        run: its run, finished or failed; None without one.
        reason: why it failed; None for other states.
        holder: the process that runs it; None for other states.
    """

    job: Job
    name: str
    run: Run | None = None
    reason: str | None = None
    holder: Holder | None = None


def state_of(sweep: Path, job: Job) -> JobState:
    """Returns the state of a job."""
    folder = sweep / job.folder
    run, reason = None, None
    try:
        run = read_run(folder) if (folder / RESULT_FILE).exists() else None
    except (ResultError, OSError) as error:
        reason = str(error)
    if run is not None and run.result.status == FINISHED:
        if run.result.key == job.digest:
            return JobState(job, DONE, run)
        reason = f"{folder} contains a finished run of another job"
    elif run is not None and run.result.error != INTERRUPTED:
        reason = run.result.error or "no reason was recorded"
    working = holder(folder)
    if working is not None:
        return JobState(job, RUNNING, run, holder=working)
    return JobState(job, WAITING if reason is None else FAILED, run, reason)


def states_of(sweep: Path, jobs: Iterable[Job]) -> list[JobState]:
    """Returns the state of each job."""
    return [state_of(sweep, job) for job in jobs]


def wanted(states: Iterable[JobState], only_failed: bool) -> list[JobState]:
    """Returns the jobs that a command runs: all that have not finished, or only those that failed.

    Trials are left out: the search of a job plans them again, and runs those that have not finished.
    """
    jobs = (state for state in states if not state.job.is_trial)
    return [state for state in jobs if (state.name == FAILED if only_failed else state.name != DONE)]


def seconds_left(states: Sequence[JobState]) -> float | None:
    """Returns an estimate of the time until all jobs have ended; None if no job has finished yet.

    A job takes as long as the finished jobs of its model on average, or else as all finished jobs. Running
    jobs share the work that is left. A job that copies the training of another takes no time, unless that
    training failed.
    """
    taken: dict[str, list[float]] = {}
    for state in states:
        if state.name == DONE and state.run is not None and state.run.result.reused is None:
            taken.setdefault(state.run.result.model, []).append(_seconds(state.run))
    if not taken:
        return None
    overall = fmean(value for values in taken.values() for value in values)
    left = {RUNNING: 0.0, WAITING: 0.0}
    failed = {state.job.folder for state in states if state.name == FAILED}
    for state in states:
        if state.name in left and state.job.same_training in (None, *failed):
            expected = fmean(taken.get(str(state.job.choices.get("model")), [overall]))
            left[state.name] += max(expected - elapsed(state.holder), 0.0)
    num_running = sum(state.name == RUNNING for state in states)
    return sum(left.values()) / max(num_running, 1)


def _seconds(run: Run) -> float:
    return _between(run.result.started, run.result.finished)


def elapsed(working: Holder | None) -> float:
    """Returns the seconds since a process acquired a lease; 0 without one."""
    return 0.0 if working is None else _between(working.since, now())


def _between(begin: str, end: str) -> float:
    try:
        seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    except (ValueError, TypeError):  # a time that is absent, or that has no time zone
        return 0.0
    return max(seconds, 0.0)


def as_json(states: Sequence[JobState]) -> Mapping[str, Any]:
    """Returns state -> number and folders of its jobs."""
    folders = {name: [state.job.folder for state in states if state.name == name] for name in STATES}
    return {name: {"count": len(places), "folders": places} for name, places in folders.items()}
