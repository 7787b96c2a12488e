"""How small a difference a study can show, and how many queries, trainings or folds a given difference needs.

Asked before a study, or of a difference that matters: never of the one that was seen, whose power is only
another way to write its p-value (Hoenig and Heisey, 2001).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from scipy.special import nctdtrinc, stdtrit

from ltrbench.errors import ConfigError
from ltrbench.statistics.intervals import LEVEL
from ltrbench.statistics.repeated.replicates import Inference

POWER = 0.8
_MOST = 10**12


@dataclass(frozen=True)
class Design:
    """The numbers of a study, and the variances that decide how the error of a difference falls with them.

    With Q queries, R trainings of each model on each of J training sets, the squared standard error is

        V = (1/J + n_test/n_train) (fold + query / Q) + (correction + 1/R) (training + by_query / Q) / J

    so that `replace(design, num_queries=n)` is the same study with other numbers. It assumes that the
    variances are the true ones, and that what is added is like what there is: queries from the same
    distribution, trainings of the same methods on as many queries. Without folds J is 1, fold and
    n_test/n_train are 0.

    Attributes:
        query, training, by_query, fold: variances over queries, over trainings, of their interaction, and
            over folds, of a single query, training and fold.
        correction: of resampled training sets, which do not replace other ones: 1 for bootstrap samples,
            p / (1 - p) for subsamples (`resampling_factor`); 0 for seeds.
        test_share: n_test/n_train, the correlation of folds that the corrected resampled t test assumes. It
            does not fall with J.
        degrees_of_trainings: of `training`, for each training beyond the first: 1, or up to 2 where both
            models have trainings of their own.
        is_pooled: whether trainings and queries have degrees of freedom together (Satterthwaite, 1946), or
            each their own.
    """

    num_queries: int
    query: float
    num_trainings: int = 1
    training: float = 0.0
    by_query: float = 0.0
    correction: float = 0.0
    num_folds: int = 1
    fold: float = 0.0
    test_share: float = 0.0
    degrees_of_trainings: float = 1.0
    is_pooled: bool = False

    @property
    def standard_error(self) -> float:
        return math.sqrt(self._of_queries + self._of_trainings)

    @property
    def degrees(self) -> tuple[tuple[float, float], ...]:
        """(share, degrees of freedom) of each part of V, as `Inference.degrees` has them."""
        if self.num_folds > 1:
            return ((1.0, self.num_folds - 1),)
        parts = [
            (self._of_trainings, self.degrees_of_trainings * (self.num_trainings - 1)),
            (self._of_queries, self.num_queries - 1),
        ]
        parts = [part for part in parts if part[0] > 0]
        total = sum(variance for variance, _ in parts)
        if self.is_pooled and parts:
            return ((1.0, total**2 / sum(variance**2 / free for variance, free in parts)),)
        return tuple((variance / total, free) for variance, free in parts)

    @property
    def _of_queries(self) -> float:
        return (1 / self.num_folds + self.test_share) * (self.fold + self.query / self.num_queries)

    @property
    def _of_trainings(self) -> float:
        of_one = self.training + self.by_query / self.num_queries
        return (self.correction + 1 / self.num_trainings) * of_one / self.num_folds

    def detectable(self, power: float = POWER, level: float = LEVEL) -> float:
        """Returns the true difference that the two-sided test finds with that power, unadjusted.

        sum_i share_i delta_i SE, where Student's t with the degrees of part i and noncentrality delta_i
        exceeds its quantile at 1 - level / 2 with probability `power` (Cohen, 1988, chapter 2; the chance to
        reject on the wrong side is left out). The mean over parts follows the interval's mean of quantiles:
        in a simulation the power is then 80 to 81 %, from 3 trainings on.
        """
        noncentrality = sum(
            share * float(nctdtrinc(free, 1 - power, stdtrit(free, 1 - level / 2)))
            for share, free in self.degrees
        )
        return noncentrality * self.standard_error


def design_of_replicates(inference: Inference, correction: float = 0.0) -> Design:
    """Returns the design of `independent_replicates` or `shared_replicates`.

    Where one model has more trainings than the other, R is the larger number, which overestimates the error
    of other numbers: `VarianceParts` does not tell the models apart.

    Args:
        correction: see `Design`.
    """
    parts, num_queries = inference.parts, inference.num_queries
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
    )
    if trainings == 0 or len(inference.degrees) != 1:
        return design
    # V^2 / degrees is the sum of squared variances, each over its own degrees of freedom.
    ((_, degrees),) = inference.degrees
    squares = parts.total**2 / degrees - parts.query**2 / (num_queries - 1)
    degrees_of_trainings = trainings**2 / squares / (num_trainings - 1) if squares > 0 else math.inf
    # Where trainings are a small part of V, rounding must not take it out of its bounds.
    lowest = max(min(inference.num_replicates) - 1, 1) / (num_trainings - 1)
    return replace(design, is_pooled=True, degrees_of_trainings=min(max(degrees_of_trainings, lowest), 2.0))


def design_of_folds(
    inference: Inference, test_share: float, num_trainings: int = 1, correction: float = 0.0
) -> Design:
    """Returns the design of `fold_replicates`, V = (1/J + n_test/n_train) s^2 + sum_j W_j / J^2.

    The variance over folds s^2 holds the queries' own, the mean squared standard error of a fold; what is
    left is the training sets'. Of V that is 1 + J n_test/n_train times `VarianceParts.query`, because the
    correction multiplies the queries' part too.

    More folds are more ways of dealing the same queries into training and test sets of the same sizes, as in
    a repeated cross-validation: V falls to (n_test/n_train) s^2 and no further. More queries make larger test
    sets of the folds. Two things are left out, which overestimates the error: methods also learn more from
    larger training sets, and more seeds also take away a part of s^2.

    Args:
        num_trainings: trainings of a model in each fold.
        correction: see `Design`.
    """
    parts, num_folds = inference.parts, inference.num_replicates[0]
    variance = (parts.query + (parts.fold or 0.0)) / (1 / num_folds + test_share)
    of_queries = min(parts.query * num_folds, variance)
    return Design(
        num_queries=inference.num_queries,
        query=of_queries * inference.num_queries,
        num_trainings=num_trainings,
        training=parts.training * num_folds / (correction + 1 / num_trainings),
        correction=correction,
        num_folds=num_folds,
        fold=variance - of_queries,
        test_share=test_share,
    )


def fewest(
    design_with: Callable[[int], Design],
    difference: float,
    least: int = 2,
    power: float = POWER,
    level: float = LEVEL,
) -> int | None:
    """Returns the smallest number whose design detects the difference; None where no number is enough.

    Args:
        design_with: the design with a number of queries, trainings or folds.
        least: the smallest number to consider.

    >>> design = Design(num_queries=100, query=0.01, num_trainings=5, training=0.001)
    >>> fewest(lambda number: replace(design, num_trainings=number), 0.04)
    12
    >>> fewest(lambda number: replace(design, num_queries=number), 0.04) is None
    True
    """
    if not math.isfinite(difference) or difference == 0:
        raise ConfigError(f"the difference to detect is {difference}; name one that matters, such as 0.005.")

    def detects(number: int) -> bool:
        return design_with(number).detectable(power, level) <= abs(difference)

    enough = least
    while not detects(enough):
        enough *= 2
        if enough > _MOST:
            return None
    # `enough` does, and half of it does not: the fewest lie between.
    lacking = max(least - 1, enough // 2)
    while enough - lacking > 1:
        middle = (lacking + enough) // 2
        lacking, enough = (lacking, middle) if detects(middle) else (middle, enough)
    return enough


def minimum_detectable_difference(
    sd_of_differences: float, num_queries: int, power: float = POWER, level: float = LEVEL
) -> float | None:
    """The true mean difference that the two-sided paired t test over queries finds with that power.

    None under two queries. With weights or folds give the standard error times sqrt(Q) for the standard
    deviation, as `PairStatistics.sd_of_differences` does.

    >>> round(minimum_detectable_difference(0.1, 784), 4)
    0.01
    """
    _check(sd_of_differences, power, level)
    return None if num_queries < 2 else Design(num_queries, sd_of_differences**2).detectable(power, level)


def queries_needed(
    sd_of_differences: float, difference: float, power: float = POWER, level: float = LEVEL
) -> int | None:
    """The fewest queries with which `difference` is detectable; None where a million million would not do.

    >>> queries_needed(0.1, 0.01)
    787
    """
    _check(sd_of_differences, power, level)
    return fewest(lambda number: Design(number, sd_of_differences**2), difference, 2, power, level)


def _check(sd_of_differences: float, power: float, level: float) -> None:
    if not math.isfinite(sd_of_differences) or sd_of_differences < 0:
        raise ConfigError(
            f"the standard deviation of the differences is {sd_of_differences}; it must be 0 or more."
        )
    for name, value in (("power", power), ("level", level)):
        if not 0 < value < 1:
            raise ConfigError(f"{name} is {value}; it must be between 0 and 1, such as 0.8 or 0.05.")
    if power <= level:
        raise ConfigError(f"power {power} is no more than the level {level}: no data are needed for it.")
