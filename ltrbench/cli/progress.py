"""Progress of a fit on standard error: a bar in a terminal, plain lines elsewhere.

A `Progress` arrives after each iteration, inside the measured time, so most of them are not drawn. No thread
is used: the display is as old as the last iteration.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ltrbench.cli.console import SCRIPT
from ltrbench.conf_folder import settings_in
from ltrbench.sweep.running import FOLDER
from ltrbench.tables import format_number

if TYPE_CHECKING:
    from rich.console import Console

    from ltrbench.experiment.loading import OnProgress, Progress

log = logging.getLogger("ltrbench")

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_DRAWINGS = 0.3
"""A drawing takes some milliseconds; this interval limits drawing to about 1 % of the time of the fit."""

_BAR_WIDTH = 10  # minimum width of the bar in columns; the figures are shortened to make room for it
# Figures that are dropped in a narrow terminal, in this order.
_DISPENSABLE = ("out_of_bag", "metric", "train", "time", "best", "valid")


@contextlib.contextmanager
def showing(kind: str, model: str) -> Iterator[OnProgress | None]:
    """Yields the callback for `run` according to the setting `progress`; always restores the terminal."""
    bar = _find_bar(model) if kind == "auto" else None
    if bar is not None:
        with contextlib.closing(bar):
            yield bar
    else:
        yield None if kind == "none" else Lines(model)


def _find_bar(model: str) -> Bar | None:
    """Returns a bar, or None without a terminal, in a terminal without cursor movement, or without rich."""
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        # rich is an optional dependency; plain lines replace the bar.
        return None
    console = Console(stderr=True)
    return Bar(model, console) if console.is_terminal and not console.is_dumb_terminal else None


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
            parts = figures(progress)
            iteration, metric = parts.pop("iteration"), parts.pop("metric")
            log.info("%s %s: %s %s", self._model, iteration, metric, ", ".join(parts.values()))


class Bar:
    """Draws one line, at most every `SECONDS_BETWEEN_DRAWINGS`; log messages appear above it."""

    def __init__(self, model: str, console: Console) -> None:
        from rich import progress as rich

        self._rich = rich.Progress(
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(bar_width=None),
            rich.TextColumn("{task.fields[figures]}", markup=False),
            console=console,
            expand=True,
            auto_refresh=False,
            # Otherwise text for a redirected standard output would be drawn in the terminal.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._margin = len(model) + _BAR_WIDTH + 2
        self._task = self._rich.add_task(model, total=None, figures="")
        self._handlers: list[tuple[logging.StreamHandler[Any], Any]] = []
        self._longest = 0
        self._drawn = -math.inf
        self._closed = False

    def __call__(self, progress: Progress) -> None:
        too_soon = progress.seconds - self._drawn < SECONDS_BETWEEN_DRAWINGS
        if self._closed or (too_soon and not progress.finished):
            return
        try:
            self._draw(progress)
        except OSError:
            # A closed terminal ends the bar, not the fit.
            self.close()
        if progress.finished:
            self.close()

    def _draw(self, progress: Progress) -> None:
        room = self._rich.console.width - self._margin
        text = fitting(figures(progress), room)
        # A constant width, because the bar must not jump when a number gains or loses a digit.
        self._longest = min(max(self._longest, len(text)), room)
        self._rich.update(
            self._task,
            # A fit that stopped early is also shown as complete.
            total=progress.iteration if progress.finished else progress.num_iterations,
            completed=progress.iteration,
            figures=text.rjust(self._longest),
        )
        if self._drawn == -math.inf:
            self._start()
        else:
            self._rich.refresh()
        self._drawn = progress.seconds

    def _start(self) -> None:
        """Starts the bar and routes log messages through rich, which writes them above the bar."""
        stderr = sys.stderr
        self._rich.start()
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is stderr:
                self._handlers.append((handler, stderr))
                handler.setStream(sys.stderr)

    def close(self) -> None:
        """Stops the bar, restores the cursor, and routes log messages to standard error again."""
        self._closed = True
        while self._handlers:
            handler, stream = self._handlers.pop()
            handler.setStream(stream)
        with contextlib.suppress(OSError):
            self._rich.stop()


def figures(progress: Progress) -> dict[str, str]:
    """Returns name -> text of the figures of an iteration, in this order: iteration, metric, train, valid,
    best, out_of_bag, time."""
    total = "" if progress.num_iterations is None else f"/{progress.num_iterations}"
    parts = {
        "iteration": f"{progress.iteration}{total}",
        "metric": progress.metric,
        "train": f"train {format_number(progress.train, '.4f')}",
    }
    if progress.valid is not None:
        parts["valid"] = f"valid {format_number(progress.valid, '.4f')}"
    if progress.best is not None:
        parts["best"] = f"best {format_number(progress.best, '.4f')} @{progress.best_iteration}"
    if progress.out_of_bag is not None:
        parts["out_of_bag"] = f"oob {format_number(progress.out_of_bag, '+.4f')}"
    if progress.finished:
        parts["time"] = f"in {_duration(progress.seconds)}"
    elif progress.num_iterations is not None and progress.iteration > 1:
        # The first iteration includes one-time work, such as binning, so it gives no estimate.
        left = progress.num_iterations - progress.iteration
        parts["time"] = f"{_duration(progress.seconds / progress.iteration * left)} left"
    return parts


def fitting(parts: dict[str, str], room: int) -> str:
    """Joins as many figures as fit into `room` columns; the iteration is always included."""
    kept = dict(parts)
    for name in _DISPENSABLE:
        if len(" ".join(kept.values())) <= room:
            break
        kept.pop(name, None)
    return " ".join(kept.values())


def _duration(seconds: float) -> str:
    """
    >>> [_duration(seconds) for seconds in (0.4, 61, 3600)]
    ['0:00', '1:01', '1:00:00']
    """
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"


# ---- Configurations of Python's logging for jobs: which handlers write into the folder of a run.


def default_logging() -> dict[str, Any]:
    """Returns conf/hydra/job_logging/plain.yaml, with `FOLDER` for the folder of a run."""
    settings = settings_in("hydra/job_logging", "plain")
    settings["handlers"]["file"]["filename"] = f"{FOLDER}/{SCRIPT}.log"
    return settings


def handlers_kept(configuration: Mapping[str, Any], *, into_folders: bool) -> dict[str, Any]:
    """Returns a configuration of Python's logging with some of its handlers.

    Args:
        into_folders: keep the handlers that write into the folder of a run; False: keep the others.
    """
    kept = copy.deepcopy(dict(configuration))
    handlers = kept.get("handlers", {})
    dropped = [name for name, handler in handlers.items() if (FOLDER in str(handler)) != into_folders]
    for name in dropped:
        del handlers[name]
    for logger in [kept.get("root") or {}, *kept.get("loggers", {}).values()]:
        if "handlers" in logger:
            logger["handlers"] = [name for name in logger["handlers"] if name not in dropped]
    return kept
