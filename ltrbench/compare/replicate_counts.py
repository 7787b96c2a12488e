"""How many runs a row stands for: its folds, resamples and seeds, and how many it lacks.

5 seeds                       every seed of the table and of the sweep
3 of 9 seeds                  the sweep, or another row, has six more
1 (seeds change nothing)      several seeds that gave the same scores
5 folds x 2 to 3 of 3 seeds   in some folds a seed is missing
3 of 5 resamples              of the training queries
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ltrbench.compare.pairing.cells import Judged, seeds_change_nothing
from ltrbench.compare.scores.imported import IMPORTED
from ltrbench.results import Run

_Folds = dict[int | None, list[Run]]


def replicate_counts(rows: Mapping[str, Sequence[Judged]]) -> dict[str, str]:
    """Returns label -> a short text for the column "trainings".

    Args:
        rows: all rows of a table, label -> its runs that count.
    """
    runs = [item.run for judged in rows.values() for item in judged]
    # Scores from elsewhere have the seed of the run in whose place they stand.
    trained = [run for run in runs if run.result.params != IMPORTED]
    seeds = {run.result.seed for run in trained}
    num_folds = len({run.result.data.get("fold") for run in runs} | _swept(runs, "data.fold"))
    return {label: _of_row(judged, seeds, num_folds) for label, judged in rows.items()}


def _of_row(judged: Sequence[Judged], seeds: set[int], num_folds: int) -> str:
    """The factors of a row's number of runs, such as 5 folds x 3 seeds.

    Args:
        seeds: of all rows.
        num_folds: of all rows, and of their sweeps.
    """
    runs = [item.run for item in judged]
    folds: _Folds = {}
    for run in runs:
        folds.setdefault(run.result.data.get("fold"), []).append(run)
    parts = [] if num_folds == 1 else [_count([len(folds)], num_folds, "fold")]
    resamples = [len({_resample(run) for run in own} - {None}) for own in folds.values()]
    if any(resamples):
        planned = max(run.result.data["resample"]["number"] for run in runs if _resample(run) is not None)
        parts.append(_count(resamples, planned, "resample"))
    per_place = [len(own) for own in _seeds_of_places(runs).values()]
    if seeds_change_nothing(judged):
        parts.append("1 (seeds change nothing)")
    elif all(run.result.params == IMPORTED for run in runs) and max(per_place) == 1:
        parts.append("1 (imported)")
    elif not any(resamples) or max(per_place) > 1:
        expected = seeds | {run.result.seed for run in runs} | _swept(runs, "seed")
        parts.append(_count(per_place, len(expected), "seed"))
    return " x ".join(parts)


def _resample(run: Run) -> int | None:
    """Which resample of the training queries the run has; None: it has all."""
    resample = run.result.data.get("resample")
    return None if resample is None else resample["index"]


def _seeds_of_places(runs: Iterable[Run]) -> dict[tuple[int | None, int | None], set[int]]:
    """Fold and resample -> seeds."""
    places: dict[tuple[int | None, int | None], set[int]] = {}
    for run in runs:
        places.setdefault((run.result.data.get("fold"), _resample(run)), set()).add(run.result.seed)
    return places


def _swept(runs: Iterable[Run], setting: str) -> set[int]:
    """All values of a setting in the sweeps of the runs; a range that was drawn from has none."""
    return {int(value) for run in runs for value in run.result.swept.get(setting, ()) if value.isdecimal()}


def _count(counts: Sequence[int], expected: int, noun: str) -> str:
    """
    >>> _count([3, 3], 3, "seed"), _count([1], 1, "seed"), _count([2, 3], 9, "seed")
    ('3 seeds', '1 seed', '2 to 3 of 9 seeds')
    """
    low, high = min(counts), max(counts)
    found = f"{low}" if low == high else f"{low} to {high}"
    of = f" of {expected}" if low < expected else ""
    return f"{found}{of} {noun}{'s' * (expected > 1)}"
