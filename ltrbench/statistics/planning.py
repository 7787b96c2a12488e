"""Minimum detectable difference of a study, and the queries or trainings that a difference needs.

For planning, with a difference that matters. The power at the observed difference is not computed, because it
restates the p-value (Hoenig and Heisey, 2001). The variances of a pilot study are uncertain: a study that is
planned from their estimates has less power than planned in most cases. Plans therefore use upper confidence
limits (Kupper and Hafner, 1989, The American Statistician 43; Browne, 1995, Statistics in Medicine 14).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import scipy

from ltrbench.statistics.paired import LEVEL
from ltrbench.statistics.repeated import Inference

POWER = 0.8
LIMIT = 0.8
"""One-sided confidence of the limits of variances."""
_MOST = 10**12


@dataclass(frozen=True)
class Design:
    """Sample sizes of a study, and the variances that determine the standard error of a difference.

    With Q queries and R trainings of each model, the squared standard error is

        V = query / Q + (correction + 1/R) (training + by_query / Q)

    `replace(design, num_queries=n)` is the same study with another sample size. This assumes that the
    variances are the true ones, and that additional data are like the existing data: queries from the same
    distribution, trainings of the same methods on as many queries.

    Attributes:
        query, training, by_query: variances over queries, over trainings, and of their interaction, for a
            single query and training. Over folds `query` contains the square of `FoldVariation.factor`.
        correction: additional term for resampled training sets, which are not independent training sets: 1
            for bootstrap samples, p / (1 - p) for subsamples (`resampling_factor`); 0 for seeds.
        degrees_of_trainings: degrees of freedom of `training` for each training beyond the first: 1, or up
            to 2 if both models have their own trainings.
        is_pooled: whether trainings and queries have pooled degrees of freedom (Satterthwaite, 1946), or
            separate ones.
        effective_share: effective number of queries, as a share of the queries: below 1 if queries have
            different weights.
    """

    num_queries: int
    query: float
    num_trainings: int = 1
    training: float = 0.0
    by_query: float = 0.0
    correction: float = 0.0
    degrees_of_trainings: float = 1.0
    is_pooled: bool = False
    effective_share: float = 1.0

    @property
    def standard_error(self) -> float:
        return math.sqrt(self._of_queries + self._of_trainings)

    @property
    def degrees(self) -> tuple[tuple[float, float], ...]:
        """(share, degrees of freedom) of each part of V, as in `Inference.degrees`."""
        parts = [
            (self._of_trainings, self.training_degrees),
            (self._of_queries, self.query_degrees),
        ]
        parts = [part for part in parts if part[0] > 0]
        total = sum(variance for variance, _ in parts)
        if self.is_pooled and parts:
            squares = sum(variance**2 / free for variance, free in parts)
            return ((1.0, total**2 / squares),)
        return tuple((variance / total, free) for variance, free in parts)

    @property
    def query_degrees(self) -> float:
        """Degrees of freedom of the variance over queries."""
        return self.effective_share * self.num_queries - 1

    @property
    def training_degrees(self) -> float:
        """Degrees of freedom of the variance over trainings."""
        return self.degrees_of_trainings * (self.num_trainings - 1)

    @property
    def _of_queries(self) -> float:
        return self.query / self.num_queries

    @property
    def _of_trainings(self) -> float:
        of_one = self.training + self.by_query / self.num_queries
        return (self.correction + 1 / self.num_trainings) * of_one

    def at_limit(self, confidence: float = LIMIT) -> Design:
        """Returns the design with one-sided confidence limits of its variances; lower ones below 0.5.

            nu s^2 / chi^2(nu),   the quantile of chi^2 at 1 - confidence

        The degrees of freedom nu are those of the design, which must be the one that estimated the variances.
        """

        def limit(variance: float, degrees: float) -> float:
            if variance:
                chi2 = float(scipy.special.chdtri(degrees, confidence))
                return variance * degrees / chi2
            return 0.0

        degrees = self.training_degrees
        return replace(
            self,
            query=limit(self.query, self.query_degrees),
            training=limit(self.training, degrees),
            by_query=limit(self.by_query, degrees),
        )

    def detectable(self, power: float = POWER, level: float = LEVEL) -> float:
        """Returns the true difference that the interval of a pair at `level` detects with the given power.

        It is sum_i share_i delta_i SE. delta_i is the noncentrality at which Student's t with the degrees of
        freedom of part i exceeds its quantile in the interval with probability `power` (Cohen, 1988,
        chapter 2; rejections on the wrong side are neglected). The mean over parts corresponds to the mean of
        quantiles in the interval: in a simulation the power is 80 to 81 %, with 3 trainings or more.

        Infinite with fewer than two effective queries, which allow no estimate of the variance.
        """
        if self.query_degrees < 1:
            return math.inf
        noncentrality = 0.0
        for share, free in self.degrees:
            quantile = scipy.special.stdtrit(free, 1 - level / 2)
            noncentrality += share * float(
                scipy.special.nctdtrinc(free, 1 - power, quantile)
            )
        return noncentrality * self.standard_error


def design_of_replicates(inference: Inference, correction: float = 0.0) -> Design:
    """Returns the design of `independent_replicates` or `shared_replicates`.

    If one model has more trainings than the other, R is the larger number. This overestimates the error for
    other sample sizes, because `VarianceParts` does not separate the models.

    Args:
        correction: see `Design`.
    """
    parts = inference.parts
    num_queries = inference.num_queries
    num_trainings = max(inference.num_replicates)
    factor = correction + 1 / num_trainings
    trainings = parts.training + parts.training_by_query
    design = Design(
        num_queries=num_queries,
        query=parts.query * num_queries,
        num_trainings=num_trainings,
        training=parts.training / factor,
        by_query=parts.training_by_query * num_queries / factor,
        correction=correction,
        effective_share=inference.differing.num_queries / num_queries,
    )
    if trainings == 0 or len(inference.degrees) != 1:
        return design
    # V^2 / degrees is the sum of the squared variances, each divided by its degrees of freedom.
    degrees = inference.degrees[0][1]
    of_queries = parts.query**2 / design.query_degrees
    squares = parts.total**2 / degrees - of_queries
    degrees_of_trainings = math.inf
    if squares > 0:
        degrees_of_trainings = trainings**2 / squares / (num_trainings - 1)
    # If trainings are a small part of V, rounding could exceed the bounds.
    fewest = min(inference.num_replicates)
    lowest = max(fewest - 1, 1) / (num_trainings - 1)
    return replace(
        design,
        is_pooled=True,
        degrees_of_trainings=min(max(degrees_of_trainings, lowest), 2.0),
    )


def fewest(
    design_with: Callable[[int], Design],
    difference: float,
    least: int = 2,
    level: float = LEVEL,
) -> int | None:
    """Returns the smallest sample size that detects the difference with 80 % power; None if none does.

    Args:
        design_with: returns the design for a number of queries or trainings.
        least: smallest number to consider.

    >>> design = Design(num_queries=100, query=0.01, num_trainings=5, training=0.001)
    >>> fewest(lambda number: replace(design, num_trainings=number), 0.04)
    12
    >>> fewest(lambda number: replace(design, num_queries=number), 0.04) is None
    True
    """

    def detects(number: int) -> bool:
        return design_with(number).detectable(level=level) <= abs(difference)

    enough = least
    while not detects(enough):
        enough *= 2
        if enough > _MOST:
            return None
    # `enough` detects the difference, and half of it does not: bisect between them.
    lacking = max(least - 1, enough // 2)
    while enough - lacking > 1:
        middle = (lacking + enough) // 2
        lacking, enough = (lacking, middle) if detects(middle) else (middle, enough)
    return enough
