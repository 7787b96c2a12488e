"""The power of the present study, and the cheapest study that detects a difference.

A study is changed in its queries alone, or in its repeats of a cross-validation, seeds or resamples together.
A number is a range, from the estimated variances to their upper limits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ltrbench.compare.cells import PairedQueries, Settings, Trainings
from ltrbench.compare.pairs import Pair
from ltrbench.compare.power import (
    MOST,
    QUERIES,
    REPEATS,
    RESAMPLES,
    SEEDS,
    Need,
    PlannedPair,
    Power,
)
from ltrbench.errors import require
from ltrbench.metrics import bounds_of
from ltrbench.statistics import (
    LEVEL,
    Design,
    Inference,
    PairStatistics,
    fewest,
    resampling_factor,
)
from ltrbench.statistics.claims import UNDECIDED
from ltrbench.statistics.planning import LIMIT, design_of_folds, design_of_replicates

_NEAR = 1.1
"""If no study is enough, the cheapest one is planned that detects at most this multiple of the smallest
difference that the largest one detects, which may take many times as long."""

_CLEARLY = 0.85
"""A study is planned only if it detects at most this share of the difference that is detectable now: claims
after it are at a lower level, so that a slightly larger study may detect no less."""

_UNLIMITED = 10**6
"""Number of repeats, seeds or resamples that reduces their part of the variance to 0."""

_KNOWN = 10
"""Degrees of freedom from which a variance over trainings can show that more queries are not enough."""


def power_of(
    queries: PairedQueries, pair: Pair, settings: Settings, level: float
) -> Power:
    """Returns the power of a pair, from the error that its claim uses.

    Args:
        level: Level of the test of this pair: that of the family, divided by its number of claims.

    Raises:
        ConfigError: `settings.detect` is larger than the metric can differ.
    """
    low, high = bounds_of(settings.guard_of(pair.metric).metric) or (
        -math.inf,
        math.inf,
    )
    require(f"detect (in {pair.metric})", settings.detect, at_most=high - low)
    rows = [queries.labels.index(label) for label in (pair.a, pair.b)]
    trainings = [of_cell for row in rows for of_cell in queries.trainings[row]]
    design = _design(trainings, pair.statistics, pair.inference, queries)
    if design is None:
        return Power(None, settings.detect)
    detectable = design.detectable(level=level)
    means = [float(queries.sample.means[row]) for row in rows]
    # How far a mean can be from one of these means.
    largest = max(max(mean - low, high - mean) for mean in means)
    # The study that follows is a further look at the sweep: LEVEL / k becomes LEVEL / (k + 1).
    planned = PlannedPair(design, level / (1 + settings.level / LEVEL), level)
    needs: tuple[Need, ...] = ()
    if settings.detect is not None and pair.claim == UNDECIDED and not pair.withheld:
        # More trainings change nothing in a claim about these trained models.
        study = (
            ()
            if pair.inference is None
            else cheapest(queries, [planned], settings.detect).needs
        )
        needs = (queries_needed(planned, settings.detect), *study)
    return Power(
        detectable if detectable <= largest else None, settings.detect, needs, planned
    )


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
        max(len(of_cell.keys) for of_cell in trainings)
        if is_over_folds
        else max(inference.num_replicates)
    )
    correction = 0.0
    if resample is not None:
        correction = (
            resampling_factor(resample["kind"], number, resample["share"]) - 1 / number
        )
    if is_over_folds:
        return design_of_folds(
            inference,
            queries.test_share or 0.0,
            number,
            correction,
            queries.times_counted,
        )
    return design_of_replicates(inference, correction)


def queries_needed(planned: PlannedPair, detect: float) -> Need:
    """Returns the number of queries that detects a difference, with everything else unchanged."""
    design, level, _ = planned

    def number(variances: Design) -> int | None:
        return fewest(
            lambda queries: replace(variances, num_queries=queries), detect, level=level
        )

    low, note = number(design), ""
    if (
        low is None
        and design.training_degrees >= _KNOWN
        and number(design.at_limit(1 - LIMIT)) is None
    ):
        note = "more queries alone are not enough"
    elif low is None:
        count = (
            f"{design.num_folds} folds"
            if design.num_folds > 1
            else f"{design.num_trainings} trainings"
        )
        note = f"the number of queries cannot be estimated from {count}"
    return Need(QUERIES, design.num_queries, low, number(design.at_limit()), note)


class Study(NamedTuple):
    """The cheapest study that detects a difference; if none does, one that detects little more (`_NEAR`).

    Attributes:
        numbers: "repeats", and "seeds" or "resamples", if it can be changed -> its number; empty if no study
            detects clearly less than the present data (`_CLEARLY`).
        needs: One for each that can be changed.
        smallest: The difference that it detects with the estimated variances, and with their upper limits.
        now: The same for the present data, at the level of the present claims.
    """

    numbers: Mapping[str, int]
    needs: tuple[Need, ...]
    smallest: Sequence[float]
    now: Sequence[float]


def cheapest(
    queries: PairedQueries, pairs: Sequence[PlannedPair], detect: float
) -> Study:
    """Returns the cheapest study of all rows, with the present trainings, in which each pair detects the
    difference."""
    present = _present(queries)
    ranges = [
        range(number, max(MOST[kind], number) + 1) for kind, number in present.items()
    ]
    studies = [
        dict(zip(present, numbers, strict=True))
        for numbers in itertools.product(*ranges)
    ]
    studies.sort(
        key=lambda numbers: (seconds_of(queries, numbers), math.prod(numbers.values()))
    )

    def smallest(numbers: Mapping[str, int], pairs: Iterable[PlannedPair]) -> float:
        """Returns the smallest difference that all pairs detect."""
        return max(
            replace(
                design,
                num_folds=design.num_folds
                * numbers.get(REPEATS, 1)
                // present.get(REPEATS, 1),
                num_trainings=numbers.get(SEEDS)
                or numbers.get(RESAMPLES)
                or design.num_trainings,
            ).detectable(level=level)
            for design, level, _ in pairs
        )

    limits = [pair._replace(design=pair.design.at_limit()) for pair in pairs]
    detected = [
        (numbers, smallest(numbers, pairs), smallest(numbers, limits))
        for numbers in studies
    ]
    low: Mapping[str, int] = next(
        (numbers for numbers, estimate, _ in detected if estimate <= detect), {}
    )
    high: Mapping[str, int] = next(
        (numbers for numbers, _, limit in detected if limit <= detect), {}
    )
    is_possible = smallest(dict.fromkeys(present, _UNLIMITED), pairs) <= detect
    needs = tuple(
        Need(
            kind,
            number,
            low.get(kind),
            high.get(kind),
            "" if is_possible else f"no number of {kind}",
        )
        for kind, number in present.items()
    )
    now = [
        max(design.detectable(level=level) for design, _, level in of)
        for of in (pairs, limits)
    ]
    largest = detect if high else _NEAR * detected[-1][2]
    clear = (
        each for each in detected if each[1] <= _CLEARLY * now[0] and each[2] <= largest
    )
    chosen = next(clear, None)
    return (
        Study({}, needs, now, now)
        if chosen is None
        else Study(chosen[0], needs, chosen[1:], now)
    )


def _present(queries: PairedQueries) -> dict[str, int]:
    """Returns "repeats", and "seeds" or "resamples", if it can be changed -> the present number.

    Folds can be drawn again if they are those of a random cross-validation. Trainings can be added if there
    are several, because their variance is not known otherwise.
    """
    repeats, present = {cell.repeat for cell in queries.cells}, {}
    if queries.are_folds and None not in repeats:
        present[REPEATS] = len(repeats)
    # The seeds of a yardstick and of imported scores say nothing about the others.
    repeated = [
        row
        for row in queries.trainings
        if not (row[0].is_yardstick or row[0].is_imported)
    ]
    num_trainings = max(
        (len(of_cell.keys) for row in repeated for of_cell in row), default=1
    )
    is_resampled = any(row[0].resample is not None for row in queries.trainings)
    if num_trainings > 1 and not (queries.are_folds and is_resampled):
        present[RESAMPLES if is_resampled else SEEDS] = num_trainings
    return present


def seconds_of(queries: PairedQueries, numbers: Mapping[str, int]) -> float:
    """Returns the time of all trainings with these numbers; 0 if it is not known."""
    times = [
        # A model whose seeds change nothing needs one training on each fold.
        sum(of_cell.seconds for of_cell in row)
        * (
            1
            if row[0].is_constant
            else numbers.get(SEEDS) or numbers.get(RESAMPLES) or len(row[0].keys)
        )
        for row in queries.trainings
    ]
    num_repeats = len({cell.repeat for cell in queries.cells})
    return (
        sum(times) * numbers.get(REPEATS, num_repeats) / num_repeats
        if all(times)
        else 0.0
    )
