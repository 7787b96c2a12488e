"""The verb `status`: shows how far a sweep is."""

from __future__ import annotations

import json
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltrbench.cli.errors import OK
from ltrbench.cli.files import PATH, echo
from ltrbench.cli.program import program
from ltrbench.errors import ResultError

if TYPE_CHECKING:
    from ltrbench.sweep.state import JobState

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
    from ltrbench.sweep.plan import read_plan
    from ltrbench.sweep.state import as_json, states_of

    plan = read_plan(sweep)
    if not plan.jobs and not plan.damaged:
        raise ResultError(
            f"{sweep} has no plan of a sweep. Name the folder of a sweep, such as multirun/DATE/TIME."
        )
    states = states_of(sweep, plan.jobs.values())
    if as_object:
        return states, json.dumps(as_json(states))
    reasons = [*plan.damaged.values(), *filter(None, [plan.incompleteness])]
    return states, "\n".join([_in_words(sweep, states), *(f"{reason}." for reason in reasons)])


def _are_open(states: Sequence[JobState]) -> bool:
    from ltrbench.sweep.state import RUNNING, WAITING

    return any(state.name in (RUNNING, WAITING) for state in states)


def _is_worked_on(sweep: Path, states: Sequence[JobState]) -> bool:
    """Returns whether a job runs, or a command that runs jobs of the sweep, such as one that waits for a
    cluster."""
    from ltrbench.cli.jobs.mirroring import TRACKING
    from ltrbench.results import holder
    from ltrbench.sweep.state import RUNNING

    return any(state.name == RUNNING for state in states) or holder(sweep, TRACKING) is not None


def _in_words(sweep: Path, states: Sequence[JobState]) -> str:
    from ltrbench.sweep.state import DONE, STATES, seconds_left

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
    from ltrbench.sweep.state import STATES

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
    from ltrbench.sweep.state import elapsed

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
