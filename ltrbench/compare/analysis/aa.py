"""Models against themselves: the replicates of each row in two halves, compared like two models.

`ltrbench.statistics.repeated.aa` has the computation and the limits of its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ltrbench.compare.analysis.next_step import NextStep, more_seeds, resamples
from ltrbench.compare.comparison import default_metric
from ltrbench.compare.grouping import cell_of, group_runs, newest_runs
from ltrbench.compare.pairing.cells import EvaluatedRow, PairedQueries, evaluate_rows, pair_queries
from ltrbench.compare.pairing.inference import are_folds, of_distinct_queries
from ltrbench.compare.settings import Settings
from ltrbench.errors import ResultError
from ltrbench.results import FINISHED, Run
from ltrbench.statistics.intervals import unknown_spread
from ltrbench.statistics.repeated.aa import FEWEST_TO_HALVE, SelfComparison, against_itself

READING = (
    "Each model is compared with itself: its replicates are split into two halves, which are compared like "
    "two models. An interval that excludes 0 is an error. About 5 % of the intervals should exclude 0, and "
    "fewer over folds, where intervals are conservative. Intervals over queries alone ignore the variation "
    "of training: they show how often two trainings of one method look like different methods. The halvings "
    "are not independent: a share describes these trainings and has no standard error."
)
OF_RESAMPLES = (
    "The halves are resamples of one training set, whose effect cancels: their claims are about trainings on "
    "its resamples."
)


@dataclass(frozen=True)
class AgainstItself:
    """One row against itself.

    Attributes:
        data: Name of the data set.
        kind: Kind of replicates, "seeds" or "resamples".
        num_folds: Number of folds; 1 without cross-validation.
        num_replicates: Number of replicates in every fold.
        halved: Result over the halvings; None if there is a reason against it.
        reason: Why there is no result; empty if there is one.
        next_step: Command that makes enough replicates; None if there are enough.
    """

    data: str
    label: str
    metric: str
    kind: str
    num_folds: int
    num_replicates: int
    halved: SelfComparison | None
    reason: str = ""
    next_step: NextStep | None = None


def each_against_itself(runs: Sequence[Run], settings: Settings, num_halvings: int) -> list[AgainstItself]:
    """Returns each row of all data sets against itself, in the primary metric.

    Raises:
        ResultError: No run is finished.
    """
    finished, _ = newest_runs([run for run in runs if run.result.status == FINISHED])
    if not finished:
        raise ResultError("there is no finished run with replicates to split into halves.")
    metric = settings.claimed_metrics[0] or default_metric(finished)
    return [
        row_against_itself(table.name, row, metric, settings, num_halvings)
        for table in group_runs(finished)
        for row in evaluate_rows(table.rows, [metric], [], settings.convention, cell_of)
    ]


def row_against_itself(
    data: str, row: EvaluatedRow, metric: str, settings: Settings, num_halvings: int
) -> AgainstItself:
    """Returns one row of a data set against itself."""
    queries = pair_queries([row], metric)
    if queries is None:
        return AgainstItself(data, row.label, metric, "seeds", 1, 0, None, "no query counts")
    trainings = queries.trainings[0]
    keys = sorted(set(trainings[0].keys).intersection(*(fold.keys for fold in trainings)))
    kind = "resamples" if any(fold.resample is not None for fold in trainings) else "seeds"
    of_row = (data, row.label, metric, kind, len(queries.cells), len(keys))
    if len(keys) < FEWEST_TO_HALVE:
        return AgainstItself(*of_row, None, *_too_few(row, queries, len(keys), kind))
    reason = unknown_spread(queries.sample)
    if len(queries.cells) > 1 and not are_folds(queries):
        reason = f"{len(queries.cells)} test sets that are not folds of a cross-validation"
    if reason:
        return AgainstItself(*of_row, None, reason)
    sample = queries.sample
    if len(queries.cells) == 1:
        sample, trainings = queries.distinct, (of_distinct_queries(queries, 0),)
    halved = against_itself(
        np.concatenate([fold.values_of(keys) for fold in trainings], axis=1),
        sample,
        test_share=queries.test_share,
        rope=settings.rope,
        num_halvings=num_halvings,
        seed=settings.seed,
    )
    return AgainstItself(*of_row, halved)


def _too_few(row: EvaluatedRow, queries: PairedQueries, count: int, kind: str) -> tuple[str, NextStep]:
    """Returns why there is no result, and the command that makes enough replicates."""
    number = FEWEST_TO_HALVE
    reason = f"{count} replicate{'s' * (count != 1)}; at least {number} are needed"
    if any(fold.is_constant for fold in queries.trainings[0]):
        reason += " (seeds change nothing)"
    elif kind == "seeds" and count > 1:
        return reason, more_seeds([row.runs], number, f"{reason}. Train with {number} seeds")
    return reason, resamples(
        [row.runs], number, f"{reason}. Train on {number} resamples of the training queries"
    )
