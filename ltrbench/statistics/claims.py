"""Claims about a difference, derived from its interval, and the scopes of claims.

The scope of a claim is the set of sources of variation in its data. A claim about trained models is not a
claim about the methods that trained them: trained again, the models may be in another order.
"""

from __future__ import annotations

from ltrbench.statistics.intervals import Interval

BETTER = "better"
WORSE = "worse"
EQUIVALENT = "equivalent"
UNDECIDED = "undecided"

MODELS = "models"
RETRAINED = "retrained"
RETUNED = "retuned"
METHODS = "methods"
TUNED_METHODS = "tuned methods"
SCOPES = {
    MODELS: "these trained models",
    RETRAINED: "trained again on these queries",
    RETUNED: "trained and tuned again on these queries",
    METHODS: "trained on other queries",
    TUNED_METHODS: "trained and tuned again on other queries",
}
"""Scope -> name in sentences and tables. `MODELS`: queries vary, training does not. `RETRAINED`: queries and
training randomness (seeds) vary. `METHODS`: queries and training sets vary. `RETUNED` and `TUNED_METHODS`:
the searches that chose the settings have several seeds as well."""


def claim_of(interval: Interval | None, rope: float) -> str:
    """Returns the claim that follows from a simultaneous interval of a difference.

    `EQUIVALENT`: the interval is inside the region of practical equivalence, from -rope to rope, whether or
    not it contains 0. `BETTER` or `WORSE`: any other interval that excludes 0. `UNDECIDED`: otherwise, and
    None.

    >>> claim_of(Interval(0.001, 0.004, "t"), rope=0.005), claim_of(Interval(0.001, 0.02, "t"), rope=0.005)
    ('equivalent', 'better')
    """
    if interval is None:
        return UNDECIDED
    if -rope <= interval.low and interval.high <= rope:
        return EQUIVALENT
    if interval.low > 0:
        return BETTER
    return WORSE if interval.high < 0 else UNDECIDED
