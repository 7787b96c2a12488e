"""Progress of a fit on standard error: one line that is redrawn in a terminal, plain lines elsewhere.

A `Progress` arrives after each iteration, inside the measured time, so most of them are not shown. No thread
is used: the display is as old as the last iteration.
"""

from __future__ import annotations

import contextlib
import logging
import math
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ltrbench.tables import format_number

if TYPE_CHECKING:
    from ltrbench.experiment.loading import OnProgress, Progress

log = logging.getLogger("ltrbench")

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_DRAWINGS = 0.3


@contextlib.contextmanager
def showing(kind: str, model: str) -> Iterator[OnProgress | None]:
    """Yields the callback for `run` according to the setting `progress`; always ends the drawn line."""
    if kind == "auto" and sys.stderr.isatty():
        with contextlib.closing(DrawnLine(model)) as line:
            yield line
    else:
        yield None if kind == "none" else Lines(model)


class Lines:
    """Logs one line after the first iteration, after the last, and every `SECONDS_BETWEEN_LINES` in
    between."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._last_shown: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        last = self._last_shown
        is_due = last is None or progress.seconds - last.seconds >= SECONDS_BETWEEN_LINES
        is_last = progress.finished and (last is None or progress.iteration > last.iteration)
        if is_due or is_last:
            self._last_shown = progress
            log.info("%s %s", self._model, described(progress))


class DrawnLine:
    """Draws one line again and again, at most every `SECONDS_BETWEEN_DRAWINGS`."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._drawn = -math.inf

    def __call__(self, progress: Progress) -> None:
        if progress.finished or progress.seconds - self._drawn >= SECONDS_BETWEEN_DRAWINGS:
            self._drawn = progress.seconds
            text = f"{self._model} {described(progress)}"[: shutil.get_terminal_size().columns - 1]
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the line, if one was drawn."""
        if self._drawn > -math.inf:
            print(file=sys.stderr, flush=True)


def described(progress: Progress) -> str:
    """Returns the metrics of an iteration, and the time left or, at the end, the time taken."""
    total = "" if progress.num_iterations is None else f"/{progress.num_iterations}"
    parts = [f"train {format_number(progress.train, '.4f')}"]
    if progress.valid is not None:
        parts.append(f"valid {format_number(progress.valid, '.4f')}")
    if progress.best is not None:
        parts.append(f"best {format_number(progress.best, '.4f')} @{progress.best_iteration}")
    if progress.out_of_bag is not None:
        parts.append(f"oob {format_number(progress.out_of_bag, '+.4f')}")
    if progress.finished:
        parts.append(f"in {_duration(progress.seconds)}")
    elif progress.num_iterations is not None and progress.iteration > 1:
        # The first iteration includes one-time work, such as binning, so it gives no estimate.
        left = progress.num_iterations - progress.iteration
        parts.append(f"{_duration(progress.seconds / progress.iteration * left)} left")
    return f"{progress.iteration}{total}: {progress.metric} {', '.join(parts)}"


def _duration(seconds: float) -> str:
    """
    >>> [_duration(seconds) for seconds in (0.4, 61, 3600)]
    ['0:00', '1:01', '1:00:00']
    """
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"
