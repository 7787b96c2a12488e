"""What the user asks for, what has been done, and the time spent."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ltrbench.cli.console import write_output
from ltrbench.errors import ConfigError
from ltrbench.runs.record import holds_runs
from ltrbench.tables import duration, listed
from ltrbench.untrusted import read_json

DEFAULT_METRIC = "ndcg@10"

JOURNAL_FILE = "auto.json"
SWEEP_FOLDER = "sweep"
"""Folder of the runs, in that of the results."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What the user asks for.

    Attributes:
        table: the file.
        valid, test: files with the queries of validation and test; None: they are held out of the table.
        columns: role -> column, of the given roles.
        kept: features that stay, whatever speaks against them.
        missing: texts that are missing values beside the usual ones.
        target: name of the target to ship to; None: the model stays as it is.
        options: options of the target.
        production: file with the scores of the ranking in use.
        metric: metric of the choice and of the decision.
        output: folder of the results.
        seed: random seed of the split, all fits and searches.
    """

    table: Path
    valid: Path | None = None
    test: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    target: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    production: Path | None = None
    metric: str = DEFAULT_METRIC
    output: Path = Path("auto")
    seed: int = 0

    @property
    def record(self) -> dict[str, Any]:
        """The order as it is in the journal, with the size and the time of each file."""
        # Imported here, because it takes half a second, too long for --help.
        from ltrbench.data.sources import files_of

        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        for name, path in self.files.items():
            stamps = []
            for file in files_of(path):
                status = file.stat()
                stamps += [status.st_size, status.st_mtime_ns]
            plain[f"content of {name}"] = stamps
        return plain

    @property
    def files(self) -> dict[str, Path]:
        """Name of an option -> the file that it names; "table" is the argument."""
        named = {
            "table": self.table,
            "valid": self.valid,
            "test": self.test,
            "production": self.production,
        }
        return {name: path for name, path in named.items() if path is not None}

    def check_paths(self) -> None:
        """Raises ConfigError if a file does not exist, or if the results cannot be written to a folder."""
        for name, path in self.files.items():
            if not path.exists():
                option = "" if name == "table" else f"--{name} "
                raise ConfigError(f"{option}{path} does not exist. Check the path.")
        if self.output.exists() and not self.output.is_dir():
            raise ConfigError(
                f"{self.output} is a file; name a new folder with --output."
            )


@dataclass
class Journal:
    """What has been done, on disk after each step.

    Attributes:
        order: record of the order.
        seconds: time spent in all commands.
        left_out: model -> why it gets no more time.
        folds: number of folds on which models are trained, if there is no time for all of them; 0: all.
        tried: whether all models have been tried with default settings.
        trials: number of settings that each model of the search has tried; the first one is the default,
            which counts as soon as it has been tried on one fold.
        searched: whether the search has ended.
        chosen: model that validation chooses; empty before.
        done: whether the answer is written.
    """

    order: Mapping[str, Any]
    seconds: float = 0.0
    left_out: dict[str, str] = field(default_factory=dict)
    folds: int = 0
    tried: bool = False
    trials: int = 0
    searched: bool = False
    chosen: str = ""
    done: bool = False

    @classmethod
    def of(cls, order: Order) -> Journal:
        """Reads the journal of an order, or begins it.

        Raises:
            ConfigError: The folder has the results of another order.
        """
        path = order.output / JOURNAL_FILE
        if path.exists():
            journal = cls(**read_json(path, "Delete the folder and repeat the command"))
            if journal.order == order.record:
                return journal
            if holds_runs(order.output):
                names = [
                    name
                    for name, value in order.record.items()
                    if journal.order.get(name) != value
                ]
                raise ConfigError(
                    f"{order.output} has the results of a command with a different {listed(names)}. Name "
                    "another folder with --output, or delete it."
                )
            # Nothing has been trained by its plan.
            shutil.rmtree(order.output / SWEEP_FOLDER, ignore_errors=True)
            return cls(order.record)
        if order.output.exists() and any(order.output.iterdir()):
            raise ConfigError(
                f"{order.output} has other files; name another folder with --output."
            )
        return cls(order.record)

    def write(self, folder: Path) -> None:
        text = json.dumps(vars(self), indent=2)
        write_output(f"{text}\n", folder / JOURNAL_FILE)


_EMPTY_LINE = "\r\x1b[K"
"""Text after which a terminal writes over its last line."""


class Clock:
    """The time spent, of the time asked for, and the line on standard error that shows it.

    Args:
        budget: time asked for, in seconds.
        spent: time that earlier commands have spent.
    """

    def __init__(self, budget: float, spent: float = 0.0) -> None:
        self.budget = budget
        self._began = time.monotonic() - spent
        self._line = sys.stderr
        self._text = ""
        self._ended = threading.Event()

    @property
    def spent(self) -> float:
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        return self.budget - self.spent

    def say(self, text: str) -> None:
        """Shows what is done now; outside a terminal as a line of its own."""
        self._text = text
        if not self._line.isatty():
            print(self._now(), file=self._line, flush=True)

    def print(self, text: str) -> None:
        """Prints a text of its own."""
        if self._line.isatty():
            text = f"{_EMPTY_LINE}{text}"
        print(text, file=self._line, flush=True)

    def _now(self) -> str:
        share = min(self.spent / self.budget, 1.0)
        left = duration(max(self.left, 0.0))
        return f"{share:4.0%}  {self._text}  (about {left} left)"

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Draws the line every second while the steps run."""
        if not self._line.isatty():
            yield
            return
        drawing = threading.Thread(target=self._draw, daemon=True)
        drawing.start()
        try:
            yield
        finally:
            self._ended.set()
            drawing.join()
            print(_EMPTY_LINE, end="", file=self._line, flush=True)

    def _draw(self) -> None:
        while not self._ended.wait(1.0):
            # A line that is wrapped could not be drawn over.
            room = shutil.get_terminal_size().columns - 1
            text = f"{_EMPTY_LINE}{self._now()[:room]}"
            print(text, end="", file=self._line, flush=True)
