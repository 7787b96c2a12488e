"""The verb `resume`: runs the jobs of a sweep that have not finished."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltrbench.cli.errors import OK
from ltrbench.cli.files import PATH, echo
from ltrbench.cli.program import program
from ltrbench.errors import ConfigError, ResultError

if TYPE_CHECKING:
    from ltrbench.sweep.job import Job
    from ltrbench.sweep.plan import Plan

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
    from ltrbench.sweep.plan import read_plan
    from ltrbench.sweep.planning import refuse_changed, with_shared_choices
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

    plan.refuse_damage()
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
    from ltrbench.sweep.planning import CHOSEN_WITH, draft

    settings: Any = job.settings
    experiment = build_experiment(settings, job.choices, tuple(job.overrides), job.sweep, job.swept)
    experiment = replace(experiment, is_trial=job.is_trial)
    again = draft(experiment, settings, job.choices, job.flags, job.started_in, job.chdir)
    # The folds that share a choice are those of the command that planned the job.
    together = {name: value for name, value in job.key["settings"].items() if name == CHOSEN_WITH}
    return replace(again, key={**again.key, "settings": {**again.key["settings"], **together}})


def _show(plan: Plan, failed: bool, timing: bool) -> int:
    from ltrbench.sweep.state import states_of, wanted
    from ltrbench.sweep.timing import untimed

    states = states_of(plan.sweep, plan.jobs.values())
    again = {job.number for job in untimed(states)}
    states = [state for state in states if state.job.number in again] if timing else wanted(states, failed)
    for state in states:
        echo(f"job {state.job.number} ({state.name}): {' '.join(state.job.settings_of_job)}")
    num_jobs = sum(not job.is_trial for job in plan.jobs.values())
    echo(f"{len(states)} of {num_jobs} jobs would run.")
    return OK


def _run(plan: Plan, drafts: list[Job], failed: bool, timing: bool) -> int:
    from ltrbench.cli.jobs.logs import default_logging
    from ltrbench.cli.jobs.rounds import SweepOrder
    from ltrbench.cli.jobs.session import Session, conduct

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
    return conduct(session, again, lambda: work(order))
