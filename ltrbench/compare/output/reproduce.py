"""Comparison of a rerun with the committed results, for `make reproduce`.

On the same type of machine with the same versions all values must be identical. Otherwise floating-point
sums, and with them splits, can differ, and values may differ by `TOLERANCE`. The values of a run that is not
repeatable (`distributed.deterministic` is false) may differ by `TOLERANCE_NOT_REPEATABLE` on any machine.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from ltrbench.errors import ResultError
from ltrbench.results.overrides import of_job
from ltrbench.untrusted.reading import read_bytes, read_json
from ltrbench.untrusted.records import mistake

TOLERANCE = 1e-3
"""Maximum difference from the committed value of a metric on another type of machine."""

TOLERANCE_NOT_REPEATABLE = 2e-2
"""Maximum difference from the committed value of a metric of a run whose fit is not repeatable [two fits of
LightGBM on two workers differed by 0.013 in NDCG@10 on 80 test queries]."""

_REMEDY = "Name a folder with the results of a study; `make results` writes them"

ENVIRONMENT_FILE, PER_QUERY_TABLE = "environment.json", "per_query.csv"


@dataclass(frozen=True)
class Reproduction:
    """Result of the comparison of a rerun with the committed results.

    Attributes:
        exact: Whether the values have to be identical.
        reason: Why, or why not.
        num_figures: Number of compared metrics.
        largest: Largest difference of two values.
        differences: One sentence for each value with too large a difference; empty if all agree.
        num_not_repeatable: Number of runs whose metrics may differ by `TOLERANCE_NOT_REPEATABLE`.
    """

    exact: bool
    reason: str
    num_figures: int
    largest: float
    differences: tuple[str, ...]
    num_not_repeatable: int = 0


def reproduce(committed: Path, rerun: Path) -> Reproduction:
    """Compares the files that `publish` wrote for a rerun with the committed ones.

    Raises:
        ResultError: A folder does not have these files.
    """
    before, after = _read(committed), _read(rerun)
    reason = _why_not_exact(before, after)
    pairs = list(_figures(before, after))
    loose = _not_repeatable(before) | _not_repeatable(after)
    differences = [
        f"{command}: {name}: committed {_shown(old)}, rerun {_shown(new)}"
        for command, name, old, new in pairs
        if _distance(old, new)
        > (TOLERANCE_NOT_REPEATABLE if command in loose else TOLERANCE if reason else 0.0)
    ]
    missing = set(_commands(before)) ^ set(_commands(after))
    differences += [f"{command}: only in one of the two" for command in sorted(missing)]
    per_query = [read_bytes(folder / PER_QUERY_TABLE, _REMEDY) for folder in (committed, rerun)]
    bytes_differ = per_query[0] != per_query[1]
    if not reason and not loose and bytes_differ:
        differences.append(f"{PER_QUERY_TABLE}: the values of some queries differ")
    return Reproduction(
        exact=not reason,
        reason=reason or "same machine type and versions",
        num_figures=len(pairs),
        largest=max((_distance(old, new) for *_, old, new in pairs), default=0.0),
        differences=tuple(differences),
        num_not_repeatable=len(loose),
    )


class _PerhapsDeterministic(TypedDict, total=False):
    deterministic: bool


class _RunRecord(_PerhapsDeterministic):
    command: str | None
    metrics: Mapping[str, float | None]


class _EnvironmentRecord(TypedDict):
    """The part of environment.json that is read."""

    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    runs: Sequence[_RunRecord]


def _read(folder: Path) -> dict[str, Any]:
    path = folder / ENVIRONMENT_FILE
    content = read_json(path, _REMEDY, finite=False)
    reason = mistake(content, _EnvironmentRecord, "environment")
    if reason:
        raise ResultError(f"{path}: {reason}. {_REMEDY}.")
    return dict(content)


def _why_not_exact(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Returns the first difference of machine or versions; empty if they are equal."""
    for key in ("cpu", "cores"):
        old, new = before["machine"].get(key), after["machine"].get(key)
        if old != new:
            return f"committed on {key} {old}, rerun on {new}"
    for package in sorted({*before["versions"], *after["versions"]}):
        old, new = before["versions"].get(package), after["versions"].get(package)
        if old != new:
            return f"committed with {package} {old}, rerun with {new}"
    return ""


def _not_repeatable(content: Mapping[str, Any]) -> set[str]:
    """Returns the commands of the runs whose fits are not repeatable."""
    return {
        _settings(run["command"])
        for run in content["runs"]
        if run["command"] is not None and not run.get("deterministic", True)
    }


def _figures(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """Yields (command, metric, committed value, value of the rerun) for the common runs."""
    rerun = _commands(after)
    for command, metrics in _commands(before).items():
        for name, old in metrics.items() if command in rerun else ():
            yield command, name, old, rerun[command].get(name)


def _commands(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    # Runs made from Python have no command to match them by.
    return {
        _settings(run["command"]): run["metrics"] for run in content["runs"] if run["command"] is not None
    }


def _settings(command: str) -> str:
    """Returns a command without the settings that cannot change a figure, such as its executor."""
    return shlex.join(of_job(shlex.split(command)))


def _distance(old: float | None, new: float | None) -> float:
    if old is None or new is None:
        return 0.0 if old is new else float("inf")
    return abs(old - new)


def _shown(figure: float | None) -> str:
    return "no value" if figure is None else repr(figure)
