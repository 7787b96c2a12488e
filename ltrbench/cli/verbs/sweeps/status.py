"""The verb `status`: shows how far a sweep is."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltrbench.cli.errors import OK
from ltrbench.cli.files import PATH, echo
from ltrbench.errors import ResultError

if TYPE_CHECKING:
    from ltrbench.sweep.state import JobState

_SECONDS_BETWEEN_LOOKS = 2.0
_SHOWN = 20
"""Maximum number of jobs of a state that are listed."""


@click.command("status")
@click.argument("sweep", type=PATH, metavar="DIR")
@click.option("--watch", is_flag=True, help="Show the status again and again, until every job has ended.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object.")
def status_verb(sweep: Path, watch: bool, as_object: bool) -> int:
    """Shows the jobs of the sweep in DIR: finished, running, failed and waiting ones, and the time left.

    \b
        python -m ltrbench status multirun/DATE/TIME
    """
    from ltrbench.sweep.plan import read_plan
    from ltrbench.sweep.state import RUNNING, WAITING, as_json, states_of

    while True:
        plan = read_plan(sweep)
        if not plan.jobs and not plan.damaged:
            raise ResultError(
                f"{sweep} has no plan of a sweep. Name the folder of a sweep, such as multirun/DATE/TIME."
            )
        states = states_of(sweep, plan.jobs.values())
        text = json.dumps(as_json(states)) if as_object else _in_words(sweep, states)
        reasons = [*plan.damaged.values(), *filter(None, [plan.incompleteness])]
        echo("\n".join([text, *([] if as_object else [f"{reason}." for reason in reasons])]))
        if not watch or not any(state.name in (RUNNING, WAITING) for state in states):
            return OK
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _in_words(sweep: Path, states: Sequence[JobState]) -> str:
    from ltrbench.sweep.state import DONE, STATES, seconds_left

    counts = [(name, sum(state.name == name for state in states)) for name in STATES]
    lines = [f"{sweep}: {len(states)} jobs, {', '.join(f'{count} {name}' for name, count in counts)}"]
    for name in STATES:
        listed = [state for state in states if state.name == name and name != DONE]
        lines += [f"  {name} {_line(state)}" for state in listed[:_SHOWN]]
        if len(listed) > _SHOWN:
            lines.append(f"  {name}: {len(listed) - _SHOWN} more")
    left = seconds_left(states)
    if left:
        lines.append(f"About {_duration(left)} left, if jobs take as long as the finished ones.")
    return "\n".join(lines)


def _line(state: JobState) -> str:
    detail = f" ({state.holder})" if state.holder is not None else ""
    reason = f": {state.reason.strip().splitlines()[0]}" if state.reason else ""
    return f"{state.job.folder}  {' '.join(state.job.settings_of_job)}{detail}{reason}"


def _duration(seconds: float) -> str:
    """
    >>> [_duration(seconds) for seconds in (0.4, 61, 3600)]
    ['1 s', '1 min', '1.0 h']
    """
    if seconds < 60:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
