"""Copies runs and their comparison to a tracker, for the commands that start runs and for the verb `sync`."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ltrbench.errors import ResultError
from ltrbench.runs import FINISHED, Run
from ltrbench.sweep.job import COMPARISON_FOLDER
from ltrbench.sweep.plan import FAILED as JOB_FAILED
from ltrbench.sweep.plan import RUNNING, WAITING, JobState, read_plan, states_of, sweep_id
from ltrbench.tracking import Tracker

if TYPE_CHECKING:
    from ltrbench.compare import Choice, Comparison

log = logging.getLogger("ltrbench")

TRACKING = "tracking"
"""Lease on the folder of a sweep, held by the process that logs its runs while its tracker is open."""

_SQLITE = "sqlite:///"


def sweep_identity(folder: Path) -> str:
    """Returns the identity of the sweep in a folder, by which the tracker finds its parent run again.

    Raises:
        ResultError: The plan of the sweep cannot be read.
    """
    if identity := sweep_id(folder):
        return identity
    # A sweep of an earlier version of ltrbench, or of another sweeper, has no plan.
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()


def planned_states(sweep: Path) -> list[JobState]:
    """Returns the state of each planned job of a sweep; empty for a sweep without a plan."""
    return states_of(sweep, read_plan(sweep).jobs.values())


def status_of(sweep: Path) -> str:
    """Returns the status of a sweep: "interrupted" if planned jobs have not ended, else "failed" if a job
    failed, else "finished". Trials do not count: a search chooses among those that finished."""
    names = {state.name for state in planned_states(sweep) if not state.job.is_trial}
    if names & {RUNNING, WAITING}:
        return "interrupted"
    return "failed" if JOB_FAILED in names else "finished"


def mirror(tracker: Tracker, sweep: Path | None, identity: str, runs: Sequence[Run], status: str) -> None:
    """Logs the runs of a sweep that the tracker does not have yet, their comparison, and the sweep's status.

    The caller holds the lease `tracking` on the folder of the sweep, because the tracker searches the store
    for earlier runs only once.

    Args:
        tracker: not yet opened, or closed.
        sweep: folder of the sweep; None for runs of no sweep, which get no parent run and no comparison.
        identity: identity of the sweep, the same in every call.
        status: "finished", "failed" or "interrupted".

    Raises:
        TrackingError: The store cannot be used. Runs that were logged before are not logged again by the next
            call.
        ResultError: A run folder is damaged; the other runs were logged.
    """
    tracker.open(None if sweep is None else str(sweep), identity)
    damaged = []
    try:
        for run in runs:
            try:
                tracker.log(run)
            except ResultError as error:
                damaged.append(str(error))
        if sweep is not None:
            with tempfile.TemporaryDirectory() as folder:
                _compare(tracker, runs, sweep / COMPARISON_FOLDER, Path(folder, COMPARISON_FOLDER))
    finally:
        tracker.close(status)
    if damaged:
        raise ResultError(" ".join(damaged))


def log_comparison(tracker: Tracker, comparisons: Sequence[Comparison], folder: Path) -> None:
    """Passes the comparison of a sweep, and the folder that it was written to, to the opened tracker."""
    # Imported late, so that --help prints without delay.
    from ltrbench.compare.publish import as_markdown
    from ltrbench.compare.tables import claims, figures_by_name

    # Without links to glossary.md, which lead nowhere in a description.
    text, best = as_markdown(comparisons, folder.name, {}), best_of(comparisons)
    shown = figures_by_name(comparisons)
    if best is not None:
        text, shown = f"{best.reason}\n\n{text}", {**shown, **best.figures}
    tracker.summarize(folder, text, best.run if best else None, shown, claims(comparisons))


def best_of(comparisons: Sequence[Comparison]) -> Choice | None:
    """Returns the best model by validation; None if the runs have no data set in common."""
    from ltrbench.compare import best_by_validation

    return best_by_validation(comparisons[0]) if len(comparisons) == 1 else None


def _compare(tracker: Tracker, runs: Sequence[Run], published: Path, temporary: Path) -> None:
    """Compares the finished runs without the trials of searches, and passes the comparison to the tracker; a
    warning if there is none.

    Args:
        published: the folder with the comparison of the sweep, if it is there and up to date.
        temporary: where it is written otherwise, because the folder of the sweep may be read-only.
    """
    from ltrbench.compare import compare
    from ltrbench.compare.publish import is_published, publish

    runs = [run for run in runs if not run.result.trial]
    if all(run.result.status != FINISHED for run in runs):
        return
    try:
        comparisons = compare(runs)
        folder = published if is_published(comparisons, published) else temporary
        if folder is temporary:
            publish(comparisons, folder)
    except ResultError as error:
        log.warning("no comparison is available: %s", error)
        return
    log_comparison(tracker, comparisons, folder)


class Store(NamedTuple):
    """The tracking store that a run recorded: a SQLite address is independent of the current folder."""

    uri: str
    experiment: str

    @property
    def database(self) -> Path | None:
        """The file of a SQLite store; None for a server."""
        return Path(self.uri.removeprefix(_SQLITE)) if self.uri.startswith(_SQLITE) else None


def recorded_store(runs: Iterable[Run]) -> Store | None:
    """Returns the tracking store of the newest tracked run; None if no run was tracked."""
    tracked = [run.result for run in runs if run.result.config.get("tracking", {}).get("uri")]
    if not tracked:
        return None
    result = max(tracked, key=lambda result: result.started)
    uri, experiment = (str(result.config["tracking"].get(key)) for key in ("uri", "experiment"))
    database = uri.removeprefix(_SQLITE)
    # A relative path is relative to the folder in which the run was started.
    return Store(uri if database == uri else f"{_SQLITE}{Path(result.started_in, database)}", experiment)
