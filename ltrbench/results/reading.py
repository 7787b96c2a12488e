"""Finds runs in folders and reads them."""

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
"""Maximum number of unreadable runs that a message describes."""


def read_run(folder: Path) -> Run:
    """Reads the run in a folder.

    Raises:
        ResultError: The folder is not a run, or this version cannot read its result.json.
    """
    path = folder / RESULT_FILE
    if not (path.exists() or path.is_symlink()):
        below = sorted(_places_of_runs(folder), key=_natural)
        hint = f"one of the {len(below)} in it, such as {below[0]}" if below else "such as outputs/DATE/TIME"
        raise ResultError(
            f"{folder} is not a run: it has no {RESULT_FILE}. Name the folder of a run, {hint}."
        )
    # `reason_to_refuse` reports a value that is not finite, with its field.
    record = read_json(path, RUN_REMEDY, finite=False)
    version = record.pop("format", None) if isinstance(record, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= FORMAT:
        is_newer = isinstance(version, int) and version > FORMAT
        remedy = "Read it with a newer ltrbench: pip install --upgrade ltrbench" if is_newer else RUN_REMEDY
        raise ResultError(
            f"{path} has format {reprlib.repr(version)}, but this version of ltrbench reads only formats 1 "
            f"to {FORMAT}. {remedy}."
        )
    known = {item.name for item in fields(RunResult)}
    values = {name: value for name, value in record.items() if name in known}
    reason = reason_to_refuse(values)
    if reason:
        raise ResultError(f"{path}: {reason}. {RUN_REMEDY}.")
    return Run(folder, RunResult(**values))


def find_runs(folders: Iterable[Path]) -> list[Run]:
    """Returns every run in or below the folders, each once, in the order of the folders and then by path.

    The trials of searches are left out: they have no metrics of test and cannot be compared.

    Raises:
        ResultError: A folder does not exist, contains no run, contains only trials, or contains a run that
            cannot be read; the message describes the first unreadable runs.
    """
    folders = list(folders)
    every = find_runs_and_trials(folders)
    runs = [run for run in every if not run.result.trial]
    for folder in folders:
        trials = [run.path for run in every if run.result.trial and _is_in(run.path, folder)]
        if trials and not any(_is_in(run.path, folder) for run in runs):
            raise ResultError(
                f"{folder} contains no run, only trials of a search ({len(trials)}, such as {trials[0]}), "
                "which have no metrics of test. Name the folder of the sweep with the final runs of the "
                "search; if the search was interrupted before them, repeat its command."
            )
    return runs


def _is_in(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def find_runs_and_trials(folders: Iterable[Path]) -> list[Run]:
    """Returns the runs of `find_runs` and the trials of searches, for example to log them.

    Raises:
        ResultError: A folder does not exist, contains neither, or contains one that cannot be read; the
            message describes the first unreadable ones.
    """
    runs: dict[Path, Run] = {}
    refused: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            raise ResultError(
                f"{folder} is not a folder. Name folders of runs or of a sweep, such as multirun/DATE/TIME."
            )
        places = sorted(_places_of_runs(folder), key=_natural)
        if not places:
            raise ResultError(f"{folder} contains no run: there is no {RESULT_FILE} in or below it.")
        for place in places:
            try:
                runs.setdefault(place.resolve(), read_run(place))
            except ResultError as error:
                refused.append(str(error))
    if refused:
        # A table without an unreadable run would look like the whole comparison.
        raise ResultError(
            " ".join(
                [*refused[:_SHOWN_REFUSALS], *_further(refused), "Or move the unreadable runs elsewhere."]
            )
        )
    return list(runs.values())


def _further(refused: Sequence[str]) -> list[str]:
    more = len(refused) - _SHOWN_REFUSALS
    return [f"{more} more runs cannot be read."] if more > 0 else []


def holds_runs(folder: Path) -> bool:
    """Returns whether there is a run in or below a folder; False if the folder does not exist."""
    return any(True for _ in _places_of_runs(folder))


def _places_of_runs(folder: Path) -> Iterator[Path]:
    """Yields folders with a result.json, without hidden folders and the copies of runs in an MLflow store."""
    for place, inside, files in os.walk(folder):
        # A folder with the name of the file is a damaged run, which `read_run` rejects.
        is_run = RESULT_FILE in files or RESULT_FILE in inside
        inside[:] = [name for name in inside if not name.startswith(".") and name not in _COPIES]
        if is_run:
            inside.clear()
            yield Path(place)


def _natural(path: Path) -> list[tuple[int, int, str]]:
    # Numbers are compared as numbers, so that job 2 of a sweep comes before job 10.
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in path.parts]
