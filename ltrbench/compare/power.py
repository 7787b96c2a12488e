"""The power of a claim: its minimum detectable difference, and the queries that a difference needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ltrbench.compare.settings import (
    Settings,
)
from ltrbench.compare.table import (
    PairedQueries,
)
from ltrbench.errors import require
from ltrbench.metrics import bounds_of
from ltrbench.statistics import (
    Design,
    FoldVariation,
    Inference,
    Interval,
    PairStatistics,
    fewest,
    resampling_factor,
)
from ltrbench.statistics.paired import DIFFERING
from ltrbench.statistics.planning import design_of_replicates


@dataclass(frozen=True)
class Power:
    """Power of a claim. It follows from the standard error of the difference, not from the difference.

    Attributes:
        detectable: Minimum detectable difference (80 % power) at the level of the pair in its family; None
            without a design, or if the metric cannot differ so much.
        design: Sample sizes and variances of the present data; None if the error is not known, or if the
            interval does not follow from it.
        level: Error level of the pair alone.
    """

    detectable: float | None = None
    design: Design | None = None
    level: float = 0.0

    def queries_for(self, difference: float) -> int | None:
        """Returns the number of queries that detects a difference with 80 % power, trainings unchanged.

        It is computed from upper confidence limits of the variances (`Design.at_limit`). None if no number is
        enough, or the error is not known.
        """
        if self.design is None or difference == 0:
            return None
        pilot = self.design.at_limit()
        return fewest(
            lambda queries: replace(pilot, num_queries=queries),
            difference,
            level=self.level,
        )


def power_of(
    queries: PairedQueries,
    metric: str,
    rows: tuple[int, int],
    design: Design | None,
    settings: Settings,
    level: float,
) -> Power:
    """Returns the power of a pair of rows.

    Args:
        level: Error level of this pair alone.

    Raises:
        ConfigError: `settings.detect` is larger than the metric can differ.
    """
    unbounded = (-math.inf, math.inf)
    low, high = bounds_of(settings.guard_of(metric).metric) or unbounded
    require(f"detect (in {metric})", settings.detect, at_most=high - low)
    if design is None:
        return Power()
    detectable = design.detectable(level=level)
    means = [float(queries.sample.means[row]) for row in rows]
    # How far a mean can be from one of these means.
    farthest = [max(mean - low, high - mean) for mean in means]
    largest = max(farthest)
    return Power(detectable if detectable <= largest else None, design, level)


def design_of_models(
    statistics: PairStatistics, interval: Interval | None
) -> Design | None:
    """Returns the design of the claim about trained models; None if the error is not known, or 0, or if the
    interval does not follow from it, because few queries differ.

    Args:
        interval: Interval that decides the claim.
    """
    error = statistics.standard_error
    is_bound = interval is not None and interval.method == DIFFERING
    if not error or statistics.degrees is None or is_bound:
        return None
    num_queries = statistics.num_queries
    return Design(
        num_queries,
        error**2 * num_queries,
        effective_share=(statistics.degrees + 1) / num_queries,
    )


def design_of_methods(
    queries: PairedQueries,
    row: int,
    *,
    statistics: PairStatistics,
    inference: Inference | None,
    variation: FoldVariation | None,
    over_queries: Interval | None,
) -> Design | None:
    """Returns the design of the claim about methods; None if the error is not known, or 0, if few queries
    differ, or if training sets matter, whose variance is known from a few folds only.

    Args:
        over_queries: Interval of the trained models.
    """
    if variation is not None:
        of_models = design_of_models(statistics, over_queries)
        if of_models is None or variation.matters:
            return None
        return _over_folds(of_models, variation)
    if inference is None or not inference.standard_error or inference.differing.are_few:
        return None
    correction = 0.0
    resample = queries.trainings[row][0].resample
    if resample is not None:
        number = max(inference.num_replicates)
        factor = resampling_factor(resample["kind"], number, resample["share"])
        correction = factor - 1 / number
    return design_of_replicates(inference, correction)


def _over_folds(of_models: Design, variation: FoldVariation) -> Design:
    """Returns the design of the claim about methods over folds, which has the wider of two intervals."""
    num_queries = of_models.num_queries
    error = variation.factor * of_models.standard_error
    if error >= variation.of_round:
        return replace(of_models, query=error**2 * num_queries)
    return replace(
        of_models,
        query=variation.of_round**2 * num_queries,
        effective_share=(variation.free + 1) / num_queries,
    )
