"""How small a difference so many queries can show, and how many a given difference needs.

Asked before a study, or of a difference that matters: never of the one that was seen, whose power is only
another way to write its p-value (Hoenig and Heisey, 2001).
"""

from __future__ import annotations

import math

from scipy.special import nctdtrinc, stdtrit

from ltrbench.errors import ConfigError

POWER = 0.8
LEVEL = 0.05
_MOST_QUERIES = 10**12


def minimum_detectable_difference(
    sd_of_differences: float, num_queries: int, power: float = POWER, level: float = LEVEL
) -> float | None:
    """The true mean difference that the two-sided paired t test finds with that power.

    delta sd / sqrt(Q), where Student's t with Q - 1 degrees of freedom and noncentrality delta exceeds its
    quantile at 1 - level / 2 with probability `power` (Cohen, 1988, chapter 2; the chance to reject on the
    wrong side is left out). From some dozens of queries on delta is close to z(1 - level/2) + z(power), 2.80
    at 80 % and 5 %.

    None under two queries. With weights or folds give the standard error times sqrt(Q) for the standard
    deviation, as `PairStatistics.sd_of_differences` does.

    >>> round(minimum_detectable_difference(0.1, 784), 4)
    0.01
    """
    _check(sd_of_differences, power, level)
    if num_queries < 2:
        return None
    degrees = num_queries - 1
    noncentrality = nctdtrinc(degrees, 1 - power, stdtrit(degrees, 1 - level / 2))
    return float(noncentrality) * sd_of_differences / math.sqrt(num_queries)


def queries_needed(
    sd_of_differences: float, difference: float, power: float = POWER, level: float = LEVEL
) -> int | None:
    """The fewest queries with which `difference` is detectable; None where a million million would not do.

    >>> queries_needed(0.1, 0.01)
    787
    """
    _check(sd_of_differences, power, level)
    if not math.isfinite(difference) or difference == 0:
        raise ConfigError(f"the difference to detect is {difference}; name one that matters, such as 0.005.")

    def detects(num_queries: int) -> bool:
        detectable = minimum_detectable_difference(sd_of_differences, num_queries, power, level)
        return detectable is not None and detectable <= abs(difference)

    enough = 2
    while not detects(enough):
        enough *= 2
        if enough > _MOST_QUERIES:
            return None
    # `enough` does, and half of it does not: the fewest lie between.
    lacking = enough // 2
    while enough - lacking > 1:
        middle = (lacking + enough) // 2
        lacking, enough = (lacking, middle) if detects(middle) else (middle, enough)
    return enough


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
