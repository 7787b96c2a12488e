"""Number of trainings of a row: its folds, resamples and seeds, and how many are missing.

5 seeds                       every seed of the table and of the sweep
3 of 9 seeds                  the sweep or another row has six more
1 (seeds change nothing)      several seeds gave the same scores
5 folds x 2 to 3 of 3 seeds   a seed is missing in some folds
3 of 5 resamples              resamples of the training queries
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ltrbench.compare.grouping import fold_of, replicate_of
from ltrbench.compare.pairing.cells import EvaluatedRow
from ltrbench.results import IMPORTED, Run


def replicate_counts(rows: Sequence[EvaluatedRow]) -> dict[str, str]:
    """Returns label -> text of the column "trainings".

    Args:
        rows: All rows of a table, with the runs that count.
    """
    runs = [run for row in rows for run in row.runs]
    # Imported scores have the seed of the run that they replace.
    seeds = {run.result.seed for run in runs if run.result.params != IMPORTED}
    num_folds = len({fold_of(run) for run in runs} | _swept(runs, "data.fold"))
    return {row.label: _of_row(row, seeds, num_folds) for row in rows}


def _of_row(row: EvaluatedRow, seeds: set[int], num_folds: int) -> str:
    """Returns the factors of the number of runs of a row, such as 5 folds x 3 seeds.

    Args:
        seeds: Seeds of all rows.
        num_folds: Number of folds of all rows and of their sweeps.
    """
    runs = row.runs
    resamples_of_fold: dict[int | None, set[int]] = {}
    seeds_of_place: dict[tuple[int | None, int | None], set[int]] = {}
    for run in runs:
        fold, (resample, seed) = fold_of(run), replicate_of(run)
        resamples_of_fold.setdefault(fold, set()).update(() if resample is None else (resample,))
        seeds_of_place.setdefault((fold, resample), set()).add(seed)
    parts = [] if num_folds == 1 else [_count([len(resamples_of_fold)], num_folds, "fold")]
    num_resamples = [*map(len, resamples_of_fold.values())]
    if any(num_resamples):
        planned = max(run.result.data["resample"]["number"] for run in runs if "resample" in run.result.data)
        parts.append(_count(num_resamples, planned, "resample"))
    num_seeds = [*map(len, seeds_of_place.values())]
    if row.seeds_change_nothing:
        parts.append("1 (seeds change nothing)")
    elif all(run.result.params == IMPORTED for run in runs) and max(num_seeds) == 1:
        parts.append("1 (imported)")
    elif not any(num_resamples) or max(num_seeds) > 1:
        expected = seeds | {run.result.seed for run in runs} | _swept(runs, "seed")
        parts.append(_count(num_seeds, len(expected), "seed"))
    return " x ".join(parts)


def _swept(runs: Iterable[Run], setting: str) -> set[int]:
    """Returns all values of a setting in the sweeps of the runs; ranges are left out."""
    return {int(value) for run in runs for value in run.result.swept.get(setting, ()) if value.isdecimal()}


def _count(counts: Sequence[int], expected: int, noun: str) -> str:
    """Returns the number of replicates in words.

    >>> _count([3, 3], 3, "seed"), _count([1], 1, "seed"), _count([2, 3], 9, "seed")
    ('3 seeds', '1 seed', '2 to 3 of 9 seeds')
    """
    low, high = min(counts), max(counts)
    span = f"{low}" if low == high else f"{low} to {high}"
    of = f" of {expected}" if low < expected else ""
    return f"{span}{of} {noun}{'s' * (expected > 1)}"
