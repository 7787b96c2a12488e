"""Verbs on sweeps: `resume`, `status`, `sync`."""

from __future__ import annotations

import functools
import json
import os
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from ltrbench.cli.console import OK, PATH, PROGRAM, echo, refuse_ineffective
from ltrbench.cli.session import (
    SWEEP_FILE,
    TRACKING,
    Session,
    Store,
    mirror,
    recorded_store,
    run_command,
)
from ltrbench.cli.verbs.runs import ANYWAY_OPTION
from ltrbench.config import check_registered_name
from ltrbench.errors import ConfigError, ResultError, require
from ltrbench.folders import searching_only
from ltrbench.measure import lacks_password
from ltrbench.runs.origin import Final
from ltrbench.runs.record import (
    Run,
    class_and_folder_of_model,
    find_runs_and_trials,
    read_run,
)
from ltrbench.runs.writing import holder
from ltrbench.sweep.plan import (
    CHOSEN_WITH,
    DONE,
    RUNNING,
    STATES,
    WAITING,
    Job,
    JobState,
    Plan,
    as_json,
    draft,
    read_plan,
    refuse_changed,
    seconds_left,
    states_of,
    sweep_id,
    wanted,
    with_shared_choices,
)
from ltrbench.sweep.running import untimed
from ltrbench.tables import duration


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
    "--start-cluster",
    is_flag=True,
    help="Start the cluster of Dask that the plan names; read it first.",
)
@click.option(
    "--stop-after",
    type=float,
    metavar="MINUTES",
    help="End after this time, as a sweep with the setting stop_after.",
)
def resume_verb(
    sweep: Path,
    *,
    failed: bool,
    dry_run: bool,
    timing: bool,
    start_cluster: bool,
    stop_after: float | None,
) -> int:
    """Runs the jobs of the sweep in DIR that have not finished, with the executor and the tracking of the
    last job of its plan.

    A job that another command runs is waited for. The command that started the sweep does the same if it
    is repeated with the same hydra.sweep.dir. The stop_after of earlier commands has no effect.

    The plan in DIR names data files and a tracking store, which the command uses. A cluster that it names
    is started only with --start-cluster, because the arguments of a cluster class may run programs.

    \b
        python -m ltrbench resume multirun/DATE/TIME
    """
    plan = _read_plan(sweep.resolve())
    sweep_id(plan.sweep)  # refuses a damaged id
    _refuse_unstored(plan)
    if timing and (failed or stop_after is not None):
        raise ConfigError(
            "--timing is about finished jobs, --failed and --stop-after are about the others; leave one out."
        )
    require("--stop-after", stop_after, above=0)
    last = _last_job(plan)
    if not (start_cluster or timing or dry_run):
        _refuse_cluster(last, sweep)
    # Modules of the user are in the current folder of this command, never in a folder that the plan names.
    with searching_only(Path.cwd()):
        # Relative paths of the data begin in this folder. On another host it may be absent; a relative path
        # of the data then fails with its name.
        if Path(last.spec.started_in).is_dir():
            os.chdir(last.spec.started_in)
        *others, of_command = _with_last(plan.jobs.values(), last)
        spec = of_command.spec.with_settings(stop_after=stop_after)
        drafts = [*others, replace(of_command, spec=spec)]
        if dry_run:
            refuse_changed(plan, drafts)
            return _show(plan, failed, timing)
        session = Session(is_resumed=True)
        work = functools.partial(
            session.time_sweep if timing else session.run_sweep,
            plan.sweep,
            drafts,
            lambda job, number: job.folder,
        )
        again = f"{PROGRAM} resume {shlex.quote(str(plan.sweep))}"
        if timing:
            again = f"{again} --timing"
        else:
            work = functools.partial(work, only_failed=failed)
        return run_command(session, again, work)


def _last_job(plan: Plan) -> Job:
    """Returns the last job that is no trial, whose settings are those of the command."""
    jobs = [job for job in plan.jobs.values() if not job.is_trial]
    if not jobs:
        raise ResultError(
            f"the plan of {plan.sweep} has only trials of a search; repeat the command with only_trials that "
            "tried them."
        )
    return jobs[-1]


def _with_last(jobs: Iterable[Job], last: Job) -> list[Job]:
    """Returns the drafts of jobs; `last` is the last one."""
    in_order = [*(job for job in jobs if job is not last), last]
    return with_shared_choices(list(map(redrafted, in_order)))


def _read_plan(sweep: Path) -> Plan:
    plan = read_plan(sweep)
    if not plan.jobs:
        raise ResultError(
            f"{sweep} has no plan of a sweep. Name the folder of a sweep, such as multirun/DATE/TIME."
        )
    return plan


def _refuse_cluster(job: Job, sweep: Path) -> None:
    """Raises ResultError if a job starts a cluster, whose arguments may run programs."""
    cluster = job.spec.settings["executor"].get("cluster") or {}
    if not cluster.get("_target_"):
        return
    arguments = ", ".join(name for name in cluster if name != "_target_")
    raise ResultError(
        f"{sweep}/plan/{job.number}.json starts a cluster of the class {cluster['_target_']} with the "
        f"arguments {arguments}, which may run programs. "
        "If they are yours, add --start-cluster."
    )


def _refuse_unstored(plan: Plan) -> None:
    """Raises ResultError if a job needs a value that is not stored, or the jobs have several folders."""
    again = f"Run the command that started the sweep again, with hydra.sweep.dir={plan.sweep}."
    for job in plan.jobs.values():
        if lacks_password(str(job.spec.settings)):
            raise ResultError(
                f"{plan.sweep}: the plan has no passwords, but job {job.number} needs one. {again}"
            )
    folders = sorted({job.spec.started_in for job in plan.jobs.values()})
    if len(folders) > 1:
        raise ResultError(
            f"{plan.sweep}: its commands were started in {' and '.join(folders)}, where the relative paths "
            "of their data begin. Repeat each command in its folder, with the same hydra.sweep.dir."
        )


def redrafted(job: Job) -> Job:
    """Returns a planned job with its present key."""
    again = draft(job.experiment())
    # The folds that share a choice are those of the command that planned the job.
    if CHOSEN_WITH not in job.key.settings:
        return again
    together = {CHOSEN_WITH: job.key.settings[CHOSEN_WITH]}
    key = replace(again.key, settings={**again.key.settings, **together})
    return replace(again, key=key)


def _show(plan: Plan, failed: bool, timing: bool) -> int:
    states = states_of(plan.sweep, plan.jobs.values())
    if timing:
        again = {job.number for job in untimed(states)}
        states = [state for state in states if state.job.number in again]
    else:
        states = wanted(states, failed)
    for state in states:
        echo(f"job {state.job.number} ({state.name}): {state.job.in_words}")
    num_jobs = sum(not job.is_trial for job in plan.jobs.values())
    echo(f"{len(states)} of {num_jobs} jobs would run.")
    return OK


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
@click.option(
    "--json",
    "as_object",
    is_flag=True,
    help="Print one JSON object, with --watch one per line.",
)
def status_verb(sweep: Path, watch: bool, as_object: bool) -> int:
    """Shows the jobs of the sweep in DIR, and the trials of its searches: finished, running, failed and
    waiting ones, and the time left.

    \b
        python -m ltrbench status multirun/DATE/TIME
    """
    last_work = time.monotonic()
    shown = ""
    while True:
        began = time.monotonic()
        plan = _read_plan(sweep)
        states = states_of(sweep, plan.jobs.values())
        names = {state.name for state in states}
        text = json.dumps(as_json(states)) if as_object else _status_text(plan, states)
        if text != shown:
            echo(text)
        shown = text
        if not watch or names.isdisjoint((RUNNING, WAITING)):
            return OK
        # A command that waits for a cluster runs no job yet.
        if RUNNING in names or holder(sweep, TRACKING) is not None:
            last_work = time.monotonic()
        elif time.monotonic() - last_work >= _SECONDS_WITHOUT_WORKER:
            folder = shlex.quote(str(sweep))
            echo(
                f"No process works on the sweep. To run its jobs: {PROGRAM} resume {folder}",
                err=True,
            )
            return OK
        # A look at thousands of jobs takes seconds, which the jobs need more.
        time.sleep(max(_SECONDS_BETWEEN_LOOKS, 4 * (time.monotonic() - began)))


def _status_text(plan: Plan, states: Sequence[JobState]) -> str:
    counts = []
    for kind in ("job", "trial"):
        names = [state.name for state in states if state.job.kind == kind]
        if names:
            of_states = ", ".join(f"{names.count(name)} {name}" for name in STATES)
            kinds = kind if len(names) == 1 else f"{kind}s"
            counts.append(f"{len(names)} {kinds}, {of_states}")
    lines = [f"{plan.sweep}: {'; '.join(counts)}"]
    for name in STATES:
        if name == DONE:
            continue
        listed = [state for state in states if state.name == name]
        lines += map(_line_of, listed[:_SHOWN])
        if len(listed) > _SHOWN:
            lines.append(f"  {name}: {len(listed) - _SHOWN} more")
    if left := seconds_left(states):
        lines.append(
            f"About {duration(left)} left, if jobs take as long as the finished ones."
        )
    return "\n".join(lines)


def _line_of(state: JobState) -> str:
    job = state.job
    line = f"  {state.name} {job.folder}  {job.in_words}"
    if state.holder is not None:
        line += f" ({state.holder})"
    if state.reason:
        line += f": {state.reason.strip().splitlines()[0]}"
    return line


# ---- The verb `sync`: stores finished runs in MLflow that are not stored yet.

_DEFAULT = Store("sqlite:///mlflow.db", "ltrbench")
_OTHER_URI = (
    "Check the address and its password in --uri, or name another store: --uri sqlite:///FILE or "
    "--uri http://USER:PASSWORD@HOST:PORT."
)


@click.command("sync")
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "--uri",
    help="Tracking store; default: the store that the runs recorded, or sqlite:///mlflow.db.",
)
@click.option(
    "--experiment",
    help="MLflow experiment; default: the one that the runs recorded, or ltrbench.",
)
@click.option(
    "--register",
    metavar="NAME",
    help="Register the model of the run in DIR as the next version of NAME, with the alias champion.",
)
@ANYWAY_OPTION
def sync_verb(
    folder: Path,
    uri: str | None,
    experiment: str | None,
    register: str | None,
    anyway: bool,
) -> None:
    """Stores the runs and the trials of searches in DIR in MLflow, each exactly once.

    DIR is the folder of a run or of a sweep, or contains several of them. Runs that are stored already stay
    as they are, so the command can be repeated, for example after a tracking server was unreachable. The
    parent run of a sweep gets the comparison and the status of the sweep. A command that runs jobs of the
    sweep with tracking stores them itself; sync then waits for a minute at most.

    To register the best model of a sweep that trained on all training queries, set register=NAME in its
    command.

    \b
        python -m ltrbench sync multirun/2026-01-31/12-00-00
        python -m ltrbench sync multirun/2026-01-31/12-00-00/final --register shop
    """
    from ltrbench.compare.final import refuse_part
    from ltrbench.tracking.mlflow import MLflowTracker

    if register is None:
        refuse_ineffective("--anyway", without="--register NAME")
    else:
        check_registered_name("--register", register)
        chosen = read_run(folder)
        refuse_part(chosen, "registered", anyway)
        class_and_folder_of_model(chosen)  # refuses a run without a model
    runs = find_runs_and_trials([folder])
    trackers: dict[Store, MLflowTracker] = {}
    for store, groups in _by_store(runs, folder, uri).items():
        tracker = MLflowTracker(
            uri=store.uri, experiment=experiment or store.experiment
        )
        tracker.remedy = _OTHER_URI
        trackers[store] = tracker
        for sweep, members in groups.items():
            mirror(tracker, sweep, members)
        num_runs = sum(map(len, groups.values()))
        count = "1 run" if num_runs == 1 else f"{num_runs} runs"
        click.echo(
            f"{count} of {folder} in {tracker.where}, {tracker.num_stored} of them new",
            err=True,
        )
    if register is not None:
        # DIR is a run.
        (tracker,) = trackers.values()
        origin = chosen.result.origin
        reason = origin.reason if isinstance(origin, Final) else "named in the command"
        echo(f"{tracker.register(register, chosen, reason)} ({tracker.where})")


_BySweep = dict[Path | None, list[Run]]
"""Folder of a sweep, or None -> its runs."""


def _by_store(
    runs: Sequence[Run], folder: Path, uri: str | None
) -> dict[Store, _BySweep]:
    """Returns the runs of DIR by the store to use: `uri`, or else the one that a run recorded, of a sweep the
    one that its newest run recorded, or else the newest one of all runs, or the default.

    Raises:
        TrackingError: A recorded store needs a password.
    """
    sweeps: dict[object, list[Run]] = {}
    for run in runs:
        # Runs of no sweep have nothing in common.
        together = _sweep_of(run, folder) or run.path
        sweeps.setdefault(together, []).append(run)
    otherwise = recorded_store(runs) or _DEFAULT
    usable = functools.cache(_usable)
    by_store: dict[Store, _BySweep] = {}
    for members in sweeps.values():
        recorded = recorded_store(members) or otherwise
        store = Store(uri or "", recorded.experiment)
        if uri is None:
            store = usable(recorded)
        of_store = by_store.setdefault(store, {})
        of_store.setdefault(_sweep_of(members[0], folder), []).extend(members)
    return by_store


def _usable(store: Store) -> Store:
    """Returns a recorded store if its folder exists, or else the default.

    Raises:
        TrackingError: The store needs a password.
    """
    store.check_password()
    if store.database is None or store.database.parent.is_dir():
        return store
    click.echo(
        f"the folder of the recorded store {store.uri} does not exist here; the default is {_DEFAULT.uri}. "
        "Choose another store with --uri.",
        err=True,
    )
    return _DEFAULT


def _sweep_of(run: Run, folder: Path) -> Path | None:
    """Returns the folder of the sweep of a run; None for a run that is not in a sweep, or is DIR itself."""
    if run.result.sweep is None or run.path == folder:
        return None
    inside = [
        path for path in run.path.parents if path == folder or folder in path.parents
    ]
    return next((path for path in inside if (path / SWEEP_FILE).exists()), folder)
