"""Finding runs in folders, and reading them."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path

from ltrbench.errors import ResultError
from ltrbench.results.files import RESULT_FILE, RUN_REMEDY
from ltrbench.results.record import FORMAT, RunResult, reason_to_refuse
from ltrbench.results.run import Run
from ltrbench.untrusted.reading import read_json

_COPIES = ("mlruns", "mlartifacts")
_SHOWN_REFUSALS = 3
"""Runs that cannot be read which a message names, of all in the folders."""


def read_run(folder: Path) -> Run:
    """Reads the run in a folder.

    Raises:
        ResultError: where the folder is not a run's, or its result.json is not one that this version reads.
    """
    path = folder / RESULT_FILE
    if not (path.exists() or path.is_symlink()):
        below = sorted(_places_of_runs(folder), key=_natural)
        hint = f"one of the {len(below)} in it, such as {below[0]}" if below else "such as outputs/DATE/TIME"
        raise ResultError(f"{folder} is not a run: it has no {RESULT_FILE}. Give a run's folder, {hint}.")
    # What is not finite is refused below, with its place.
    record = read_json(path, RUN_REMEDY, finite=False)
    version = record.pop("format", None) if isinstance(record, dict) else None
    if not isinstance(record, dict) or version != FORMAT:
        raise ResultError(
            f"{path} is not a result of format {FORMAT}, the one that this version reads; its format is "
            f"{reprlib.repr(version)}. {RUN_REMEDY}."
        )
    known = {item.name for item in fields(RunResult)}
    values = {name: value for name, value in record.items() if name in known}
    reason = reason_to_refuse(values)
    if reason:
        raise ResultError(f"{path}: {reason}. {RUN_REMEDY}.")
    return Run(folder, RunResult(**values))


def find_runs(folders: Iterable[Path]) -> list[Run]:
    """Every run in or below the given folders, each once, in the order given and then by path.

    Raises:
        ResultError: where a folder does not exist, holds no run, or holds one that cannot be read; the
            message names the first of those.
    """
    runs: dict[Path, Run] = {}
    refused: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            raise ResultError(
                f"{folder} is not a folder. Give folders of runs or of a sweep, such as multirun/DATE/TIME."
            )
        places = sorted(_places_of_runs(folder), key=_natural)
        if not places:
            raise ResultError(f"{folder} holds no run: there is no {RESULT_FILE} in or below it.")
        for place in places:
            try:
                runs.setdefault(place.resolve(), read_run(place))
            except ResultError as error:
                refused.append(str(error))
    if refused:
        # A table without a run that is there would look like the whole comparison.
        raise ResultError(
            " ".join(
                [*refused[:_SHOWN_REFUSALS], *_further(refused), "Or move what cannot be read elsewhere."]
            )
        )
    return list(runs.values())


def _further(refused: Sequence[str]) -> list[str]:
    more = len(refused) - _SHOWN_REFUSALS
    return [f"{more} more runs cannot be read."] if more > 0 else []


def holds_runs(folder: Path) -> bool:
    """Whether there is a run in or below a folder, which need not exist."""
    return any(True for _ in _places_of_runs(folder))


def _places_of_runs(folder: Path) -> Iterator[Path]:
    """Folders with a result, but not copies of runs in an MLflow store, nor what is hidden."""
    for place, inside, files in os.walk(folder):
        # A folder of the file's name makes a damaged run, which `read_run` refuses.
        is_run = RESULT_FILE in files or RESULT_FILE in inside
        inside[:] = [name for name in inside if not name.startswith(".") and name not in _COPIES]
        if is_run:
            inside.clear()
            yield Path(place)


def _natural(path: Path) -> list[tuple[int, int, str]]:
    # Jobs 2 and 10 of a sweep in the order in which they ran.
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in path.parts]
