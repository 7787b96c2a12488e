"""Compares each model of finished runs with itself, to measure the rate of false claims.

    python -m results.calibration.own_runs multirun --metric map

Reads the finished runs in and below the given folders. The replicates of a model (its seeds or resamples) are
split into two halves, which are compared like two models. A model needs at least eight replicates. This file
measures the runs of a user; run.py measures simulated values.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.cli.console import terminal_width, wrapped
from ltrbench.compare import Settings
from ltrbench.compare.cells import (
    cell_of,
    newest_runs,
    runs_by_label,
    runs_by_table,
)
from ltrbench.compare.derived import default_metric
from ltrbench.compare.table import (
    ModelRow,
    PairedQueries,
    evaluate_rows,
    pair_queries,
)
from ltrbench.errors import ResultError
from ltrbench.runs.record import Run, find_runs
from ltrbench.statistics import (
    BETTER,
    LEVEL,
    WORSE,
    Interval,
    PairedSample,
    claim_of,
    fold_variations,
    independent_replicates,
)
from ltrbench.statistics.claims import EQUIVALENT
from ltrbench.statistics.paired import excludes, student_intervals, unknown_spread
from ltrbench.statistics.repeated import ReplicateValues
from ltrbench.tables import Table, TableRow, columns_of

# ---- Rate of claims between a model and itself, where there is no difference.
#
# The replicates of a model are split into two halves, which are compared like two models. No half is
# better, so every interval that excludes 0 is wrong; about 5 % are expected. The halvings of one set of
# replicates are not independent: each has the same lucky training in one half. A rate therefore describes
# this set only and has no standard error; over many models the rates have a mean of about 5 %.
#
# On one split of the data, `independent_replicates` compares the halves, for seeds and for resamples of the
# training queries. Halves of resamples share the resampled training set, whose effect cancels: the claim is
# about trainings on its resamples.
#
# With folds, a half has the same replicates in every fold, and `fold_variations` compares the halves like two
# models.

FEWEST_TO_HALVE = 8
"""Minimum number of replicates. With fewer, a half has fewer than four, and there are at most 35 halvings."""

MOST_HALVINGS = 1_000

Halving = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Indices of the replicates of each half."""


@dataclass(frozen=True, kw_only=True)
class SelfComparison:
    """Counts of claims between two halves of the replicates of one model.

    Attributes:
        num_halvings: number of halvings compared.
        num_distinct: number of distinct halvings.
        num_intervals: number of halvings with an interval that excludes 0.
        num_different, num_equivalent: number of halvings with the claim better or worse, or equivalent, given
            the region of equivalence; the other halvings are undecided.
        num_by_queries: number of halvings for which Student's interval over queries alone, of the means of
            the halves, excludes 0: the claims if the variation of training were ignored.
    """

    num_halvings: int
    num_distinct: int
    num_intervals: int
    num_different: int
    num_equivalent: int
    num_by_queries: int


def against_itself(
    values: ReplicateValues,
    sample: PairedSample,
    *,
    test_share: float | None = None,
    rope: float,
    seed: int = 0,
) -> SelfComparison:
    """Compares halves of the replicates of one model.

    Args:
        values: (R, Q).
        sample: sample of the same Q queries, with their shares and folds; its values are not used.
        test_share: n_test / n_train; required with several folds.
        seed: draws `MOST_HALVINGS` halvings if there are more.
    """
    intervals: list[Interval | None] = []
    num_by_queries = 0
    for first, second in halvings(len(values), MOST_HALVINGS, seed):
        a = values[first]
        b = values[second]
        intervals.append(_interval_of_halves(a, b, sample, test_share))
        (over_queries,) = student_intervals(_differences(a, b, sample))
        num_by_queries += excludes(over_queries)
    claims = [claim_of(interval, rope) for interval in intervals]
    return SelfComparison(
        num_halvings=len(intervals),
        num_distinct=num_distinct_halvings(len(values)),
        num_intervals=sum(map(excludes, intervals)),
        num_different=claims.count(BETTER) + claims.count(WORSE),
        num_equivalent=claims.count(EQUIVALENT),
        num_by_queries=num_by_queries,
    )


def num_distinct_halvings(num_replicates: int) -> int:
    """Returns the number of ways to split replicates into two unordered halves.

    >>> num_distinct_halvings(8), num_distinct_halvings(9)
    (35, 126)
    """
    count = math.comb(num_replicates, num_replicates // 2)
    return count if num_replicates % 2 else count // 2


def halvings(num_replicates: int, most: int, seed: int) -> list[Halving]:
    """Returns all distinct halvings, in order, or `most` of them, drawn by `seed`, if there are more.

    For odd R the halves have (R - 1) / 2 and (R + 1) / 2 replicates.
    """
    size = num_replicates // 2
    if num_distinct_halvings(num_replicates) > most:
        chosen = _drawn(num_replicates, most, seed)
    else:
        chosen = list(itertools.combinations(range(num_replicates), size))
        if num_replicates % 2 == 0:
            # Of two halves of equal size, the half with replicate 0 is the first.
            chosen = [first for first in chosen if first[0] == 0]
    everything = np.arange(num_replicates)
    return [(np.array(first), np.setdiff1d(everything, first)) for first in chosen]


def _drawn(num_replicates: int, count: int, seed: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    size = num_replicates // 2
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < count:
        order = rng.permutation(num_replicates).tolist()
        half = order[:size]
        if num_replicates % 2 == 0 and 0 not in half:
            half = order[size:]
        drawn[tuple(sorted(half))] = None
    return list(drawn)


def _interval_of_halves(
    a: ReplicateValues,
    b: ReplicateValues,
    sample: PairedSample,
    test_share: float | None,
) -> Interval | None:
    """Returns the interval of the difference of two halves, as a comparison of two models has it."""
    if len(sample.cells) == 1:
        return independent_replicates(a, b, sample.weights).interval(LEVEL)
    differences = _differences(a, b, sample)
    (variation,) = fold_variations(
        differences, num_folds=len(sample.cells), test_share=test_share or 0.0
    )
    (over_queries,) = student_intervals(differences)
    return variation.interval(over_queries, LEVEL)


def _differences(
    a: ReplicateValues, b: ReplicateValues, sample: PairedSample
) -> PairedSample:
    """Returns the differences of the means of two halves, on the queries of the sample."""
    difference = a.mean(axis=0) - b.mean(axis=0)
    return PairedSample(difference[None], sample.weights, sample.strata)


# ---- The runs of a model in two halves, compared like two models.

READING = (
    "Each model is compared with itself: its replicates are split into two halves, which are compared like "
    "two models. About 5 % of the intervals should exclude 0, and fewer over folds. Intervals over queries "
    "alone ignore the variation of training: they show how often two trainings of one method look like "
    "different methods. The halvings are not independent: a share describes these trainings."
)
OF_RESAMPLES = (
    "The halves are resamples of one training set, whose effect cancels: their claims are about trainings on "
    "its resamples."
)


@dataclass(frozen=True, kw_only=True)
class AgainstItself:
    """One row against itself.

    Attributes:
        data: Name of the data set.
        kind: Kind of replicates, "seeds" or "resamples".
        num_folds: Number of folds; 1 without cross-validation.
        num_replicates: Number of replicates in every fold.
        halved: Result over the halvings; None if there is a reason against it.
        reason: Why there is no result; empty if there is one.
    """

    data: str
    label: str
    metric: str
    kind: str
    num_folds: int
    num_replicates: int
    halved: SelfComparison | None
    reason: str = ""


def each_against_itself(runs: Sequence[Run], settings: Settings) -> list[AgainstItself]:
    """Returns each row of all data sets against itself, in the primary metric.

    Raises:
        ResultError: No run is finished.
    """
    finished, _ = newest_runs([run for run in runs if run.result.is_compared])
    if not finished:
        raise ResultError(
            "there is no finished run with replicates to split into halves."
        )
    metric = settings.claimed_metrics[0] or default_metric(finished)
    results: list[AgainstItself] = []
    for name, of_table in runs_by_table(finished).items():
        rows = evaluate_rows(
            runs_by_label(of_table), [metric], [], settings.convention, cell_of
        )
        results.extend(row_against_itself(name, row, metric, settings) for row in rows)
    return results


def row_against_itself(
    data: str, row: ModelRow, metric: str, settings: Settings
) -> AgainstItself:
    """Returns one row of a data set against itself."""
    queries = pair_queries([row], metric)
    if queries is None:
        return AgainstItself(
            data=data,
            label=row.label,
            metric=metric,
            kind="seeds",
            num_folds=1,
            num_replicates=0,
            halved=None,
            reason="no query counts",
        )
    trainings = queries.trainings[0]
    keys = sorted(set.intersection(*(set(fold.keys) for fold in trainings)))
    has_resamples = any(fold.resample is not None for fold in trainings)
    reason = _why_not_halved(queries, len(keys))
    return AgainstItself(
        data=data,
        label=row.label,
        metric=metric,
        kind="resamples" if has_resamples else "seeds",
        num_folds=len(queries.cells),
        num_replicates=len(keys),
        halved=None if reason else _halved(queries, keys, metric, settings),
        reason=reason,
    )


def _why_not_halved(queries: PairedQueries, num_replicates: int) -> str:
    """Returns a reason; empty if the replicates can be halved."""
    if num_replicates < FEWEST_TO_HALVE:
        count = f"{num_replicates} replicates" if num_replicates != 1 else "1 replicate"
        are_constant = any(fold.is_constant for fold in queries.trainings[0])
        more = " (seeds change nothing)" if are_constant else ", or with more seeds"
        return (
            f"{count}; at least {FEWEST_TO_HALVE} are needed. Train with "
            f"replicates={FEWEST_TO_HALVE}{more}"
        )
    num_folds = len(queries.cells)
    if num_folds > 1 and not queries.are_folds:
        return f"{num_folds} test sets that are not folds of a cross-validation"
    if num_folds > 1 and queries.distinct is not queries.sample:
        return "repeats of a cross-validation; name the runs of one data.split_seed"
    return unknown_spread(queries.sample)


def _halved(
    queries: PairedQueries, keys: Sequence[int], metric: str, settings: Settings
) -> SelfComparison:
    sample = queries.sample
    trainings = queries.trainings[0]
    if len(queries.cells) == 1:
        sample = queries.distinct
        trainings = (queries.distinct_trainings(0),)
    return against_itself(
        np.concatenate([fold.values_of(keys) for fold in trainings], axis=1),
        sample,
        test_share=queries.test_share,
        rope=settings.rope_of(metric),
        seed=settings.seed,
    )


def _render(rows: Sequence[AgainstItself]) -> str:
    shares = (
        "interval excludes 0",
        "better or worse",
        "equivalent",
        "by queries alone",
    )
    names = dict.fromkeys(("replicates", "halvings", *shares), "")
    columns = columns_of({"data": None, "model": None, **names})
    table = Table(columns, [_cells(row) for row in rows]).markdown(
        terminal_width() or 100_000
    )
    parts = [f"Models against themselves, {rows[0].metric}", table, wrapped(READING)]
    if any(row.kind == "resamples" for row in rows):
        parts.append(wrapped(OF_RESAMPLES))
    return "\n\n".join([*parts, *_reasons(rows)])


def _cells(row: AgainstItself) -> TableRow:
    kind = row.kind if row.num_replicates != 1 else row.kind.removesuffix("s")
    folds = f"{row.num_folds} folds x " if row.num_folds > 1 else ""
    cells: TableRow = [row.data, row.label, f"{folds}{row.num_replicates} {kind}"]
    halved = row.halved
    if halved is None:
        return [*cells, None, None, None, None, None]
    halvings_in_words = f"{halved.num_halvings:,}"
    if halved.num_halvings < halved.num_distinct:
        halvings_in_words += f" of {halved.num_distinct:,}"
    counts = (
        halved.num_intervals,
        halved.num_different,
        halved.num_equivalent,
        halved.num_by_queries,
    )
    shares = [
        f"{count} ({100 * count / halved.num_halvings:.1f} %)" for count in counts
    ]
    return [*cells, halvings_in_words, *shares]


def _reasons(rows: Sequence[AgainstItself]) -> list[str]:
    """Returns one line for each row without a result."""
    return [
        f"{row.data}, {row.label}: {row.reason}." for row in rows if row.halved is None
    ]


def table_of(folders: Sequence[Path], metric: str | None = None) -> str:
    """Returns the table of the runs below the folders, and the reasons for models without a result.

    Raises:
        ResultError: No model has enough replicates.
    """
    rows = each_against_itself(find_runs(folders), Settings(metric=metric))
    if all(row.halved is None for row in rows):
        lead = "no model has enough replicates for two halves."
        raise ResultError("\n".join([lead, *_reasons(rows)]))
    return _render(rows)


def main() -> None:
    """Prints the table of the folders on the command line."""
    parser = argparse.ArgumentParser(description="Compare each model with itself.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--metric", help="default: the ndcg with the largest cutoff")
    given = parser.parse_args()
    try:
        print(table_of(given.folders, given.metric))
    except ResultError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
