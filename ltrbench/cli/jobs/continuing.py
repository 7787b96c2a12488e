"""Messages of a sweep that continues in an existing folder, or that was interrupted."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from ltrbench.cli.program import program
from ltrbench.results import Run, find_runs_and_trials, holds_runs
from ltrbench.results.overrides import as_products
from ltrbench.sweep.job import Job, in_ranges
from ltrbench.sweep.plan import Plan
from ltrbench.sweep.state import DONE, FAILED, STATES, WAITING, JobState, states_of, wanted

SWEEP_FILE = "multirun.yaml"
"""The file with the settings of a sweep, in its folder."""


def runs_of(folder: Path) -> list[Run]:
    """Returns the runs in the folder of a sweep, possibly none, without the runs of sweeps in its subfolders
    and without trials of searches.

    Raises:
        ResultError: A run is damaged.
    """
    return [run for run in runs_and_trials_of(folder) if not run.result.trial]


def runs_and_trials_of(folder: Path) -> list[Run]:
    """Returns the runs of `runs_of`, and the trials of searches.

    Raises:
        ResultError: A run is damaged.
    """
    runs = find_runs_and_trials([folder]) if holds_runs(folder) else []
    return [run for run in runs if not _is_of_another_sweep(run.path, folder)]


def _is_of_another_sweep(path: Path, folder: Path) -> bool:
    between = [place for place in path.parents if folder in place.parents]
    return any((place / SWEEP_FILE).exists() for place in between)


def unplanned_runs(plan: Plan) -> list[Run]:
    """Returns the runs in the folder of a sweep that its plan does not contain.

    Raises:
        ResultError: A run is damaged.
    """
    planned = plan.folders
    others = [path for path in plan.sweep.iterdir() if path.is_dir() and path not in planned]
    return [
        run
        for folder in others
        for run in runs_of(folder)
        if run.path not in planned and not _is_of_another_sweep(run.path, plan.sweep)
    ]


def announcement(sweep: Path, plan: Plan, states: Sequence[JobState], only_failed: bool) -> str:
    """Returns the message about earlier runs in the folder of a sweep; empty if all jobs are new.

    Args:
        states: the jobs of this command.
        only_failed: whether only failed jobs run.
    """
    states = [state for state in states if not state.job.is_trial]
    begun = [state for state in states if state.name != WAITING or state.run is not None]
    others = sum(not job.is_trial for job in plan.jobs.values()) - len(states)
    if not begun and not others:
        return ""
    numbers = [state.job.number for state in wanted(states, only_failed)]
    more = f" The table also contains {others} jobs of other commands in this folder." if others else ""
    return (
        f"{sweep}: of the {len(states)} {'job' if len(states) == 1 else 'jobs'} of this command, "
        f"{_in_states(states)}. "
        f"This command runs {in_ranges(numbers)}.{more}"
    )


def _counts(states: Iterable[JobState]) -> list[tuple[str, int]]:
    names = [state.name for state in states]
    return [(name, names.count(name)) for name in STATES]


def waiting_for(states: Sequence[JobState]) -> str:
    """Returns the message about jobs that other processes run."""
    numbers = in_ranges([state.job.number for state in states])
    return f"waiting for {numbers} of another command ({states[0].holder})"


def interruption(sweep: Path, states: Sequence[JobState]) -> str:
    """Returns the message of an interrupted command: the state of each job, and how to run the others."""
    trials = [state for state in states if state.job.is_trial]
    others = [state for state in states if not state.job.is_trial]
    of_trials = f"; of {len(trials)} trials: {_in_states(trials)}" if trials else ""
    lines = [f"interrupted; of {len(others)} jobs: {_in_states(others)}{of_trials}"]
    for name in STATES:
        # The settings of trials have nothing in common, so that their list would be long.
        jobs = [state.job.settings_of_job for state in others if state.name == name]
        lines += [f"  {name + ':':<9} {' '.join(product)}" for product in as_products(jobs)]
    folder = shlex.quote(str(sweep))
    if all(state.name == DONE for state in others):
        return "\n".join([*lines, f"No job remains. To compare the runs: {program()} compare {folder}"])
    lines += ["To run the jobs that have not finished:", f"  {program()} resume {folder}"]
    if any(state.name == FAILED for state in others):
        lines += ["To run only the failed jobs:", f"  {program()} resume {folder} --failed"]
    return "\n".join(lines)


def failed_trials(sweep: Path, jobs: Iterable[Job]) -> str:
    """Returns the warning about failed trials among the jobs of a sweep; empty if there are none."""
    trials = states_of(sweep, [job for job in jobs if job.is_trial])
    failed = [state for state in trials if state.name == FAILED]
    if not failed:
        return ""
    folder, reason = sweep / failed[0].job.folder, (failed[0].reason or "").strip().partition("\n")[0]
    return (
        f"{len(failed)} of {len(trials)} trials failed; a search chooses among the others. The first one is "
        f"{folder}: {reason.rstrip('.')}. To repeat all trials after a repair, choose a new hydra.sweep.dir."
    )


def partial_table(states: Sequence[JobState]) -> str:
    """Returns the line above the table of an interrupted sweep; empty if all of its jobs have finished."""
    states = [state for state in states if not state.job.is_trial]
    count = sum(state.name == DONE for state in states)
    if count == len(states):
        return ""
    return f"{count} of {len(states)} jobs {'has' if count == 1 else 'have'} finished; the table is partial."


def timing_announcement(states: Sequence[JobState], timed: Sequence[Job]) -> str:
    """Returns the message about the jobs whose times are taken again.

    Args:
        states: the jobs of the sweep.
        timed: the jobs that run again.
    """
    again = f"times of {len(timed)} of {len(states)} jobs are taken again"
    if not timed:
        return f"{again}: no training shared the machine or had fewer threads"
    folders = {job.folder for job in timed}
    copies = sum(state.run is not None and state.run.result.reused in folders for state in states)
    if not copies:
        return again
    return f"{again} ({copies} {'other copies' if copies == 1 else 'others copy'} their training)"


def _in_states(states: Sequence[JobState]) -> str:
    return ", ".join(f"{count} {name}" for name, count in _counts(states) if count)
