"""Verbs on sweeps: `resume`, `status`, `sync`.

The verb `resume`: runs the jobs of a sweep that have not finished.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltrbench.cli.console import OK, PATH, echo, program
from ltrbench.cli.mirroring import TRACKING, Store, mirror, recorded_store, status_of, sweep_identity
from ltrbench.cli.session import SWEEP_FILE
from ltrbench.errors import ConfigError, ResultError
from ltrbench.runs import FAILED, Run, find_runs_and_trials, hold

if TYPE_CHECKING:
    from ltrbench.sweep.job import Job
    from ltrbench.sweep.plan import JobState, Plan

_LOCAL_CLUSTERS = ("dask.distributed.LocalCluster", "distributed.LocalCluster")
_HARMLESS = {"_target_", "n_workers", "threads_per_worker", "memory_limit"}
"""Arguments of a local cluster that run no program of the user."""


@click.command("resume")
@click.argument("sweep", type=PATH, metavar="DIR")
@click.option("--failed", is_flag=True, help="Run only the jobs that failed.")
@click.option("--dry-run", is_flag=True, help="Only show which jobs would run.")
@click.option(
    "--timing",
    is_flag=True,
    help="Instead, take the times of finished jobs that shared the machine again, one after another.",
)
@click.option(
    "--start-cluster", is_flag=True, help="Start the cluster of Dask that the plan names; read it first."
)
def resume_verb(sweep: Path, failed: bool, dry_run: bool, timing: bool, start_cluster: bool) -> int:
    """Runs the jobs of the sweep in DIR that have not finished, with the executor and the tracking of the
    last job of its plan.

    A job that another command runs is waited for. The command that started the sweep does the same if it
    is repeated with the same hydra.sweep.dir.

    The plan in DIR names data files and a tracking store, which the command uses. A cluster that it names
    is started only with --start-cluster, because the arguments of a cluster class may run programs.

    \b
        python -m ltrbench resume multirun/DATE/TIME
    """
    from ltrbench.sweep.plan import read_plan, refuse_changed, with_shared_choices
    from ltrbench.user_modules import searching_only

    plan = read_plan(sweep.resolve())
    check_plan(plan, sweep)
    if timing and failed:
        raise ConfigError("--timing is about finished jobs, and --failed about the others; leave one out.")
    if not (start_cluster or timing or dry_run):
        _refuse_cluster(plan, sweep)
    # Modules of the user are in the current folder of this command, never in a folder that the plan names.
    with searching_only(Path.cwd()):
        enter(plan)
        drafts = with_shared_choices([redrafted(job) for job in plan.jobs.values()])
        if dry_run:
            refuse_changed(plan, drafts)
            return _show(plan, failed, timing)
        return _run(plan, drafts, failed, timing)


def check_plan(plan: Plan, sweep: Path) -> None:
    """
    Raises:
        ResultError: The folder has no plan, a file of the plan is damaged, or the plan lacks a value that
            only the original command has.
    """
    from ltrbench.sweep.plan import sweep_id

    plan.refuse_gaps()
    sweep_id(plan.sweep)  # refuses a damaged id
    if not plan.jobs:
        raise ResultError(
            f"{sweep} has no plan of a sweep. Name the folder of a sweep, such as multirun/DATE/TIME; sweeps "
            "of earlier versions of ltrbench have no plan and cannot be resumed."
        )
    again = f"Run the command that started the sweep again, with hydra.sweep.dir={sweep}."
    for job in plan.jobs.values():
        masked = next((name for name, value in job.settings.items() if ":***@" in str(value)), None)
        if masked is not None:
            raise ResultError(
                f"{sweep}: the plan does not contain the password in the address of {masked} of job "
                f"{job.number}. {again}"
            )
        if job.environment:
            raise ResultError(
                f"{sweep}: the plan does not contain the values of hydra.job.env_set "
                f"({', '.join(job.environment)}) of job {job.number}. {again}"
            )


def _refuse_cluster(plan: Plan, sweep: Path) -> None:
    """
    Raises:
        ResultError: The plan names a cluster with arguments that may run programs.
    """
    last = plan.jobs[max(plan.jobs)]
    cluster = last.settings["executor"].get("cluster") or {}
    target = cluster.get("_target_")
    if target in (None, *_LOCAL_CLUSTERS) and cluster.keys() <= _HARMLESS:
        return
    arguments = ", ".join(name for name in cluster if name != "_target_")
    raise ResultError(
        f"{sweep}/plan/{last.number}.json starts a cluster of the class {target} with the arguments "
        f"{arguments}, which may run programs. If they are yours, add --start-cluster, or repeat the command "
        f"that started the sweep, with hydra.sweep.dir={sweep}."
    )


def enter(plan: Plan) -> None:
    """Changes into the folder in which the sweep was started, where relative paths of its data begin.

    Raises:
        ResultError: The commands of the sweep were started in several folders.
    """
    folders = sorted({job.started_in for job in plan.jobs.values()})
    if len(folders) > 1:
        raise ResultError(
            f"{plan.sweep}: its commands were started in {' and '.join(folders)}, where the relative paths "
            "of their data begin. Repeat each command in its folder, with the same hydra.sweep.dir."
        )
    # On another host the folder may be absent; a relative path of the data then fails with its name.
    if Path(folders[0]).is_dir():
        os.chdir(folders[0])


def redrafted(job: Job) -> Job:
    """Returns a planned job with its present key."""
    from ltrbench.config import build_experiment
    from ltrbench.sweep.plan import CHOSEN_WITH, draft

    settings: Any = job.settings
    experiment = build_experiment(settings, job.choices, tuple(job.overrides), job.sweep, job.swept)
    experiment = replace(experiment, is_trial=job.is_trial)
    again = draft(experiment, settings, job.choices, job.flags, job.started_in, job.chdir)
    # The folds that share a choice are those of the command that planned the job.
    together = {name: value for name, value in job.key["settings"].items() if name == CHOSEN_WITH}
    return replace(again, key={**again.key, "settings": {**again.key["settings"], **together}})


def _show(plan: Plan, failed: bool, timing: bool) -> int:
    from ltrbench.sweep.plan import states_of, wanted
    from ltrbench.sweep.running import untimed

    states = states_of(plan.sweep, plan.jobs.values())
    again = {job.number for job in untimed(states)}
    states = [state for state in states if state.job.number in again] if timing else wanted(states, failed)
    for state in states:
        echo(f"job {state.job.number} ({state.name}): {' '.join(state.job.settings_of_job)}")
    num_jobs = sum(not job.is_trial for job in plan.jobs.values())
    echo(f"{len(states)} of {num_jobs} jobs would run.")
    return OK


def _run(plan: Plan, drafts: list[Job], failed: bool, timing: bool) -> int:
    from ltrbench.cli.progress import default_logging
    from ltrbench.cli.session import Session, SweepOrder, run_command

    last = plan.jobs[max(plan.jobs)]
    order = SweepOrder(
        folder=plan.sweep,
        drafts=drafts,
        folder_of=lambda job, number: job.folder,
        settings=last.settings,
        logging=default_logging(),
        chdir=last.chdir,
        only_failed=failed,
    )
    session = Session()
    again = f"{program()} resume {shlex.quote(str(plan.sweep))}"
    work = session.time_sweep if timing else session.run_sweep
    return run_command(session, again, lambda: work(order))


# ---- The verb `status`: shows how far a sweep is.

_SECONDS_BETWEEN_LOOKS = 2.0
_SECONDS_WITHOUT_WORKER = 60.0
"""Time after which --watch ends if no process works on the sweep: a command may be about to start."""
_SHOWN = 20
"""Maximum number of jobs of a state that are listed."""


@click.command("status")
@click.argument("sweep", type=PATH, metavar="DIR")
@click.option(
    "--watch",
    is_flag=True,
    help="Show each change of the status, until every job has ended, or until no process has worked on the "
    "sweep for a minute.",
)
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object, with --watch one per line.")
def status_verb(sweep: Path, watch: bool, as_object: bool) -> int:
    """Shows the jobs of the sweep in DIR, and the trials of its searches: finished, running, failed and
    waiting ones, and the time left.

    \b
        python -m ltrbench status multirun/DATE/TIME
    """
    last_work, shown = time.monotonic(), ""
    while True:
        began = time.monotonic()
        states, text = _look(sweep, as_object)
        if text != shown:
            echo(_with_elapsed(text, states))
        shown = text
        if not watch or not _are_open(states):
            return OK
        if _is_worked_on(sweep, states):
            last_work = time.monotonic()
        elif time.monotonic() - last_work >= _SECONDS_WITHOUT_WORKER:
            folder = shlex.quote(str(sweep))
            echo(f"No process works on the sweep. To run its jobs: {program()} resume {folder}", err=True)
            return OK
        # A look at thousands of jobs takes seconds, which the jobs need more.
        time.sleep(max(_SECONDS_BETWEEN_LOOKS, 4 * (time.monotonic() - began)))


def _look(sweep: Path, as_object: bool) -> tuple[list[JobState], str]:
    """Returns the state of each job, and the text that shows them."""
    from ltrbench.sweep.plan import as_json, read_plan, states_of

    plan = read_plan(sweep)
    if not plan.jobs and not plan.damaged:
        raise ResultError(
            f"{sweep} has no plan of a sweep. Name the folder of a sweep, such as multirun/DATE/TIME."
        )
    states = states_of(sweep, plan.jobs.values())
    if as_object:
        return states, json.dumps(as_json(states))
    reasons = [*plan.damaged.values(), *filter(None, [plan.incompleteness])]
    return states, "\n".join([_status_text(sweep, states), *(f"{reason}." for reason in reasons)])


def _are_open(states: Sequence[JobState]) -> bool:
    from ltrbench.sweep.plan import RUNNING, WAITING

    return any(state.name in (RUNNING, WAITING) for state in states)


def _is_worked_on(sweep: Path, states: Sequence[JobState]) -> bool:
    """Returns whether a job runs, or a command that runs jobs of the sweep, such as one that waits for a
    cluster."""
    from ltrbench.cli.mirroring import TRACKING
    from ltrbench.runs import holder
    from ltrbench.sweep.plan import RUNNING

    return any(state.name == RUNNING for state in states) or holder(sweep, TRACKING) is not None


def _status_text(sweep: Path, states: Sequence[JobState]) -> str:
    from ltrbench.sweep.plan import DONE, STATES, seconds_left

    counts = [
        _counts(kind, names)
        for kind in ("job", "trial")
        if (names := [state.name for state in states if state.job.kind == kind])
    ]
    lines = [f"{sweep}: {'; '.join(counts)}"]
    for name in STATES:
        listed = [state for state in states if state.name == name and name != DONE]
        lines += [f"  {name} {_line(state)}" for state in listed[:_SHOWN]]
        if len(listed) > _SHOWN:
            lines.append(f"  {name}: {len(listed) - _SHOWN} more")
    left = seconds_left(states)
    if left:
        lines.append(f"About {_duration(left)} left, if jobs take as long as the finished ones.")
    return "\n".join(lines)


def _counts(kind: str, names: Sequence[str]) -> str:
    """Returns the number of jobs or trials with these states, such as "2 jobs, 1 finished, 0 running"."""
    from ltrbench.sweep.plan import STATES

    count_of = Counter(names)
    of_states = ", ".join(f"{count_of[name]} {name}" for name in STATES)
    return f"{len(names)} {kind}{'s' * (len(names) != 1)}, {of_states}"


def _line(state: JobState) -> str:
    detail = f" ({state.holder})" if state.holder is not None else ""
    reason = f": {state.reason.strip().splitlines()[0]}" if state.reason else ""
    return f"{state.job.folder}  {' '.join(state.job.settings_of_job)}{detail}{reason}"


def _with_elapsed(text: str, states: Sequence[JobState]) -> str:
    """Returns the text with the elapsed time of each running job instead of the time of its start.

    The elapsed time is not part of the text before, because it alone is no change that --watch shows.
    """
    from ltrbench.sweep.plan import elapsed

    for working in [state.holder for state in states if state.holder is not None]:
        text = text.replace(f"since {working.since}", f"for {_duration(elapsed(working))}")
    return text


def _duration(seconds: float) -> str:
    """
    >>> [_duration(seconds) for seconds in (0.4, 61, 3600)]
    ['1 s', '1 min', '1.0 h']
    """
    if seconds < 60:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


# ---- The verb `sync`: stores finished runs in MLflow that are not stored yet.

_DEFAULT = Store("sqlite:///mlflow.db", "ltrbench")
_SECONDS_TO_WAIT = 60.0


@click.command("sync")
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "--uri", help="Tracking store; default: the store that the runs recorded, or sqlite:///mlflow.db."
)
@click.option("--experiment", help="MLflow experiment; default: the one that the runs recorded, or ltrbench.")
def sync_verb(folder: Path, uri: str | None, experiment: str | None) -> None:
    """Stores the runs and the trials of searches in DIR in MLflow, each exactly once.

    DIR is the folder of a run or of a sweep, or contains several of them. Runs that are stored already stay
    as they are, so the command can be repeated, for example after a tracking server was unreachable. The
    parent run of a sweep gets the comparison and the status of the sweep. A command that runs jobs of the
    sweep with tracking stores them itself; sync then waits for a minute at most.

    \b
        python -m ltrbench sync multirun/2026-01-31/12-00-00
    """
    from ltrbench.tracking.mlflow import MLflowTracker

    runs = find_runs_and_trials([folder])
    store = _store(runs)
    tracker = MLflowTracker(uri=uri or store.uri, experiment=experiment or store.experiment)
    for sweep, members in _by_sweep(runs, folder).items():
        if sweep is None:
            mirror(tracker, None, "", members, _status(None, members))
            continue
        with hold(sweep, TRACKING, wait=_SECONDS_TO_WAIT):
            mirror(tracker, sweep, sweep_identity(sweep), members, _status(sweep, members))
    count = f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} of {folder}"
    are = "is" if len(runs) == 1 else "are"
    click.echo(f"{count} {are} in {tracker.where}, {tracker.num_stored} of them new", err=True)


def _store(runs: Sequence[Run]) -> Store:
    """Returns the recorded store if it can be used here, else the default."""
    store = recorded_store(runs)
    if store is None:
        return _DEFAULT
    if ":***@" in store.uri:
        reason = f"the password of the recorded store {store.uri} is not recorded"
    elif store.database is not None and not store.database.parent.is_dir():
        reason = f"the folder of the recorded store {store.uri} does not exist here"
    else:
        return store
    click.echo(f"{reason}; the default is {_DEFAULT.uri}. Choose another store with --uri.", err=True)
    return _DEFAULT


def _by_sweep(runs: Sequence[Run], folder: Path) -> dict[Path | None, list[Run]]:
    """Returns folder of a sweep -> its runs; None -> the runs of no sweep."""
    groups: dict[Path | None, list[Run]] = {}
    for run in runs:
        groups.setdefault(_sweep_of(run, folder), []).append(run)
    return groups


def _sweep_of(run: Run, folder: Path) -> Path | None:
    """Returns the folder of the sweep of a run; None for a run that is not in a sweep, or is DIR itself."""
    if run.result.sweep is None or run.path == folder:
        return None
    inside = [place for place in run.path.parents if place == folder or folder in place.parents]
    return next((place for place in inside if (place / SWEEP_FILE).exists()), folder)


def _status(sweep: Path | None, runs: Sequence[Run]) -> str:
    """Returns the status of a sweep, or of runs without a plan."""
    status = "finished" if sweep is None else status_of(sweep)
    has_failed = any(run.result.status == FAILED and not run.result.trial for run in runs)
    return "failed" if has_failed and status == "finished" else status
