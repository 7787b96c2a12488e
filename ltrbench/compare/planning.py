"""Power of a comparison, and the next step: the data that a smaller difference needs, and commands.

Power is the minimum detectable difference of a pair, and the data that a smaller difference needs.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ltrbench.compare.cells import (
    PairedQueries,
    Trainings,
    first_by,
    fold_of,
    replicate_of,
    resample_of,
    tuned_once,
)
from ltrbench.compare.fairness import distinct_searches
from ltrbench.metrics import bounds_of
from ltrbench.runs.record import FUSED, IMPORTED, Run, as_products, quoted
from ltrbench.statistics import (
    FEWEST_REPLICATES,
    Design,
    Inference,
    PairStatistics,
    fewest,
    resampling_factor,
)
from ltrbench.statistics.planning import design_of_folds, design_of_replicates

if TYPE_CHECKING:
    from ltrbench.compare.comparison import Comparison, Pair

QUERIES, SEEDS, RESAMPLES = "queries", "seeds", "resamples"
FOLDS, REPEATS = "folds", "repeats"


@dataclass(frozen=True)
class Need:
    """The number of queries, trainings, folds or repeats that detects a difference, all else unchanged.

    Attributes:
        kind: "queries", "seeds", "resamples" (of the training queries), "folds" or "repeats" (of a
            cross-validation).
        present: The present number; the larger one if the two models differ.
        number: The minimum that detects the difference; None if no number is enough.
        seconds: Estimated wall time of the additional trainings, one after another; None for queries, which
            need judgments, if no number is enough, and if the time of a training is not known.
    """

    kind: str
    present: int
    number: int | None
    seconds: float | None = None


@dataclass(frozen=True)
class Power:
    """Power of a pair. It follows from the standard error of the difference, not from the difference.

    Attributes:
        detectable: Minimum detectable difference (80 % power) in the scope of the pair, at the level of the
            pair in its family; None if the error is not known, or if the metric cannot differ so much.
        detect: The difference named by the user.
        needs: One need per kind for `detect`; empty if none is named or the error is not known.
        cheapest: Kind of the need with the shortest time; queries if nothing else is enough. None if the data
            are enough, nothing is enough, or the times are not known.
    """

    detectable: float | None = None
    detect: float | None = None
    needs: tuple[Need, ...] = ()
    cheapest: str | None = None

    @property
    def is_enough(self) -> bool:
        """Whether the present data detect the difference named by the user."""
        return self.detectable is not None and self.detect is not None and self.detectable <= self.detect


def power_of(queries: PairedQueries, pair: Pair, detect: float | None, level: float) -> Power:
    """Returns the power of a pair, from the error that its claim uses.

    Args:
        detect: Difference to compute needs for; None for no needs.
        level: Level of the test of this pair: that of the family, divided by its number of claims.
    """
    rows = [queries.labels.index(label) for label in (pair.a, pair.b)]
    trainings = [of_cell for row in rows for of_cell in queries.trainings[row]]
    design = _design(trainings, pair.statistics, pair.inference, queries)
    if design is None:
        return Power(None, detect)
    detectable = design.detectable(level=level)
    low, high = bounds_of(pair.metric) or (-math.inf, math.inf)
    means = [float(queries.sample.means[row]) for row in rows]
    # How far a mean can be from one of these means.
    largest = max(max(mean - low, high - mean) for mean in means)
    power = Power(detectable if detectable <= largest else None, detect)
    if detect is None:
        return power
    repeats = None if any(cell.repeat is None for cell in queries.cells) else round(queries.times_counted)
    power = replace(power, needs=_needs(design, trainings, detect, level, repeats))
    return power if power.is_enough else replace(power, cheapest=_cheapest(power.needs))


def _design(
    trainings: Sequence[Trainings],
    statistics: PairStatistics,
    inference: Inference | None,
    queries: PairedQueries,
) -> Design | None:
    """Returns the design of the experiment; None if the error is not known, or 0, which no study has."""
    if inference is None:
        error, num_queries = statistics.standard_error, statistics.num_queries
        return Design(num_queries, error**2 * num_queries) if error else None
    if not inference.standard_error:
        return None
    resample = trainings[0].resample
    is_over_folds = inference.parts.fold is not None
    number = (
        max(len(of_cell.keys) for of_cell in trainings) if is_over_folds else max(inference.num_replicates)
    )
    correction = 0.0
    if resample is not None:
        correction = resampling_factor(resample["kind"], number, resample["share"]) - 1 / number
    if is_over_folds:
        return design_of_folds(
            inference, queries.test_share or 0.0, number, correction, queries.times_counted
        )
    return design_of_replicates(inference, correction)


def _needs(
    design: Design, trainings: Sequence[Trainings], detect: float, level: float, repeats: int | None
) -> tuple[Need, ...]:
    """Returns the needs; of trainings only if they were repeated, otherwise their variance is not known.

    Args:
        repeats: Number of repeats of a cross-validation; None for folds that cannot be drawn again.
    """
    number = fewest(lambda queries: replace(design, num_queries=queries), detect, level=level)
    needs = [Need(QUERIES, design.num_queries, number)]
    if design.training + design.by_query > 0:
        kind = SEEDS if trainings[0].resample is None else RESAMPLES
        number = fewest(
            lambda count: replace(design, num_trainings=count), detect, FEWEST_REPLICATES, level=level
        )
        # A model whose seeds change nothing has one training and needs no others.
        missing = [
            max((number or 0) - len(of_cell.keys), 0) if len(of_cell.keys) > 1 else 0 for of_cell in trainings
        ]
        needs.append(Need(kind, design.num_trainings, number, _seconds(number, missing, trainings)))
    if design.num_folds > 1:
        kind, present, size = FOLDS, design.num_folds, 1
        if repeats is not None:
            kind, present, size = REPEATS, repeats, round(design.num_folds / repeats)
        number = fewest(
            lambda count: replace(design, num_folds=count * size), detect, 1 + (size == 1), level=level
        )
        more = max((number or 0) - present, 0) / present
        missing_folds = [more * len(of_cell.keys) for of_cell in trainings]
        needs.append(Need(kind, present, number, _seconds(number, missing_folds, trainings)))
    return tuple(needs)


def _seconds(number: int | None, missing: Sequence[float], trainings: Sequence[Trainings]) -> float | None:
    """Returns the time of the missing trainings; None if one has no time, or no number is enough."""
    if number is None or not all(of_cell.seconds for of_cell in trainings):
        return None
    return sum(count * of_cell.seconds for count, of_cell in zip(missing, trainings, strict=True))


def _cheapest(needs: Sequence[Need]) -> str | None:
    trained = [need for need in needs if need.kind != QUERIES and need.number is not None]
    if not trained:
        return next((need.kind for need in needs if need.number is not None), None)
    times = {need.kind: need.seconds for need in trained if need.seconds is not None}
    return min(times, key=times.__getitem__) if len(times) == len(trained) else None


# ---- Next step if there is no claim about the methods: the command that would allow one.
#
# It trains every model on resamples of the training queries; or with more seeds, each of which tunes again.
# Its time is estimated from the times that the runs recorded.

_NUM_RESAMPLES = 5
_NUM_SEARCHES = FEWEST_REPLICATES  # a search takes as long as all of its trials
_TO_RESAMPLE = (
    "Training was not repeated often enough for claims about the methods. Train every model on "
    f"{_NUM_RESAMPLES} resamples of the training queries"
)
_TO_TUNE_AGAIN = (
    f"Tuning was not repeated. Train and tune with {_NUM_SEARCHES} seeds for claims that cover the variation "
    "between searches"
)
_REPEATED = "multirun/repeated"  # folder of several commands, so that their runs are compared
_OF_A_RESAMPLE = ("replicates", "replicates.number", "replicates.index")


@dataclass(frozen=True)
class NextStep:
    """A command that would allow a claim.

    Attributes:
        command: Shell command; empty for runs made from Python and for imported scores.
        seconds: Estimated time of the command.
        reason: Why there is no claim about the methods, and what the command does.
    """

    command: str
    seconds: float
    reason: str

    @property
    def sentence(self) -> str:
        """The reason with the estimated time, to be followed by the command."""
        time = f" ({about(self.seconds)})" if self.seconds else ""
        return f"{self.reason}{time}{':' if self.command else '.'}"


def next_step(comparison: Comparison) -> NextStep | None:
    """Returns the step to a claim about the methods.

    None if training and tuning were repeated often enough, even if pairs are undecided; also if untuned rows
    have several test or training sets, or only some rows were trained on resamples.
    """
    queries = comparison.queries
    if queries is None or any(cell.train is None for cell in queries.cells):
        return None
    rows = [comparison.row(label).runs for label in queries.labels]
    resampled = {resample_of(runs[0]) is not None for runs in rows}
    runs = [_one_a_fold(row) for row in rows]
    if tuned_once(queries) and not any(resampled):
        # Each seed repeats the search of a tuned row.
        present = sorted({run.result.seed for row in rows for run in row})
        seeds = [*present, *range(present[-1] + 1, present[-1] + 1 + _NUM_SEARCHES)][:_NUM_SEARCHES]
        overrides = [_without(run, ("seed", "search.seed")) for row in runs for run in row]
        jobs = [[*of_run, f"seed={seed}"] for of_run in overrides for seed in seeds]
        return _step(runs, jobs, _NUM_SEARCHES, _TO_TUNE_AGAIN)
    has_enough = not any(_lacks_replicates(pair) for pair in comparison.family)
    if has_enough or len(queries.cells) > 1 or len(resampled) > 1:
        return None
    jobs = [[*_without(run, _OF_A_RESAMPLE), f"replicates={_NUM_RESAMPLES}"] for row in runs for run in row]
    return _step(runs, jobs, _NUM_RESAMPLES, _TO_RESAMPLE)


def about(seconds: float) -> str:
    """Returns a duration in words.

    >>> about(0.2), about(41.3), about(170), about(7000)
    ('about 1 second', 'about 41 seconds', 'about 3 minutes', 'about 2 hours')
    """
    units = (("hour", 3600), ("minute", 60), ("second", 1))
    unit, size = next((unit for unit in units if seconds >= 1.5 * unit[1]), units[-1])
    count = max(round(seconds / size), 1)
    return f"about {count} {unit}{'s' * (count > 1)}"


def _lacks_replicates(pair: Pair) -> bool:
    """Returns whether training was not repeated, or not often enough for an interval."""
    if pair.inference is None:
        return True
    too_few = any(1 < number < FEWEST_REPLICATES for number in pair.inference.num_replicates)
    return pair.interval is None and too_few


def _step(rows: Sequence[Sequence[Run]], jobs: Iterable[Sequence[str]], number: int, reason: str) -> NextStep:
    """Returns the step whose jobs train each run of the rows `number` times; without a command if a run has
    none."""
    results = [run.result for row in rows for run in row]
    searches = [search for row in rows for search in distinct_searches(row)]
    seconds = sum(result.total_seconds for result in results)
    seconds += sum(search.get("seconds", 0.0) for search in searches)
    # --config-dir only adds names, so that runs without it are unchanged.
    flags = {tuple(result.flags) for result in results} - {()}
    started_in = {result.started_in for result in results}
    is_derived = any(item.overrides is None or item.params in (IMPORTED, FUSED) for item in results)
    if is_derived or len(started_in) > 1 or len(flags) > 1:
        return NextStep("", number * seconds, reason)
    products = as_products(dict.fromkeys(map(tuple, jobs)))
    into = [f"hydra.sweep.dir={quoted(_REPEATED)}"] if len(products) > 1 else []
    words = [["python", "-m", "ltrbench", *sum(flags, ()), *product, "-m", *into] for product in products]
    folder = Path(started_in.pop())
    if folder.is_dir() and not folder.samefile(Path.cwd()):
        words.insert(0, ["cd", str(folder)])
    return NextStep(" && ".join(map(shlex.join, words)), number * seconds, reason)


def _one_a_fold(runs: Iterable[Run]) -> list[Run]:
    """Returns the run with the first resample and seed of each fold."""
    in_order = sorted(runs, key=lambda run: (replicate_of(run).resample or 0, run.result.seed))
    return [*first_by(in_order, fold_of).values()]


def _without(run: Run, keys: Iterable[str]) -> list[str]:
    """Returns the overrides of a run without these keys."""
    return [line for line in run.result.overrides or () if line.partition("=")[0].lstrip("+~") not in keys]
