"""The verb `sync`: stores finished runs in MLflow that are not stored yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ltrbench.cli.files import PATH
from ltrbench.cli.jobs.continuing import SWEEP_FILE
from ltrbench.cli.jobs.mirroring import TRACKING, Store, mirror, recorded_store, status_of, sweep_identity
from ltrbench.results import FAILED, Run, find_runs_and_trials, hold

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
