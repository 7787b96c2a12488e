"""Whether a rerun gives the figures that were committed: what `make reproduce` asks.

On a machine of the same type, with the same versions, all figures must be the same to the bit. Elsewhere
floating-point sums may end otherwise, and with them a split: figures may then differ by `TOLERANCE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from ltrbench.errors import ResultError
from ltrbench.untrusted.reading import read_bytes, read_json
from ltrbench.untrusted.records import mistake

TOLERANCE = 1e-3
"""How far a metric may be from the committed one on a machine of another type."""

_REMEDY = "Name a folder with the results of a study; `make results` writes them"

ENVIRONMENT_FILE, PER_QUERY_TABLE = "environment.json", "per_query.csv"


@dataclass(frozen=True)
class Reproduction:
    """What came of holding a rerun against what was committed.

    Attributes:
        exact: whether it was asked for to the bit.
        reason: why, or why not.
        num_figures: metrics of runs that were compared.
        largest: the largest difference of two figures.
        differences: each figure that differs by more than it may, a sentence each; empty where all agree.
    """

    exact: bool
    reason: str
    num_figures: int
    largest: float
    differences: tuple[str, ...]


def reproduce(committed: Path, rerun: Path) -> Reproduction:
    """Holds the files that `publish` wrote for a rerun against those committed before.

    Raises:
        ResultError: where one of the folders does not hold them.
    """
    before, after = _read(committed), _read(rerun)
    reason = _why_not_exact(before, after)
    pairs = list(_figures(before, after))
    allowed = 0.0 if not reason else TOLERANCE
    differences = [
        f"{where}: {_shown(old)} was committed, the rerun gives {_shown(new)}"
        for where, old, new in pairs
        if _distance(old, new) > allowed
    ]
    missing = set(_commands(before)) ^ set(_commands(after))
    differences += [f"{command}: is in one of the two only" for command in sorted(missing)]
    per_query = [read_bytes(folder / PER_QUERY_TABLE, _REMEDY) for folder in (committed, rerun)]
    bytes_differ = per_query[0] != per_query[1]
    if not reason and bytes_differ:
        differences.append(f"{PER_QUERY_TABLE}: the values of some queries differ")
    return Reproduction(
        exact=not reason,
        reason=reason or "same machine type and versions",
        num_figures=len(pairs),
        largest=max((_distance(old, new) for _, old, new in pairs), default=0.0),
        differences=tuple(differences),
    )


class _RunRecord(TypedDict):
    command: str | None
    metrics: Mapping[str, float | None]


class _EnvironmentRecord(TypedDict):
    """environment.json, as far as it is read."""

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
    """Empty where the two were made alike."""
    for key in ("cpu", "cores"):
        old, new = before["machine"].get(key), after["machine"].get(key)
        if old != new:
            return f"committed on {key} {old}, rerun on {new}"
    for package in sorted({*before["versions"], *after["versions"]}):
        old, new = before["versions"].get(package), after["versions"].get(package)
        if old != new:
            return f"committed with {package} {old}, rerun with {new}"
    return ""


def _figures(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(command and metric, the committed figure, the rerun's) of the runs that both have."""
    rerun = _commands(after)
    for command, metrics in _commands(before).items():
        for name, old in metrics.items() if command in rerun else ():
            yield f"{command}: {name}", old, rerun[command].get(name)


def _commands(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    # A run that was made from Python has no command, and nothing to be found by.
    return {run["command"]: run["metrics"] for run in content["runs"] if run["command"] is not None}


def _distance(old: float | None, new: float | None) -> float:
    if old is None or new is None:
        return 0.0 if old is new else float("inf")
    return abs(old - new)


def _shown(figure: float | None) -> str:
    return "nothing" if figure is None else repr(figure)
