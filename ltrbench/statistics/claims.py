"""Claims: what an interval of a difference allows to be said, and of what it may be said.

The scope of a claim is what varied in the data that it rests on. A claim about trained models says nothing
about the methods that trained them: trained again, they may come out in another order.
"""

from __future__ import annotations

from ltrbench.statistics.intervals import Interval

BETTER = "better"
WORSE = "worse"
EQUIVALENT = "equivalent"
UNDECIDED = "undecided"

MODELS = "models"
RETRAINED = "retrained"
METHODS = "methods"
SCOPES = {
    MODELS: "these trained models",
    RETRAINED: "trained again on these queries",
    METHODS: "trained on other queries",
}
"""Scope -> its name in every sentence and table. `MODELS`: queries vary, training does not. `RETRAINED`:
queries and training randomness (seeds) vary. `METHODS`: queries and training sets vary."""


def claim_of(interval: Interval | None, rope: float) -> str:
    """Returns the claim that a simultaneous interval of a difference allows.

    An interval inside the region of practical equivalence, from -rope to rope, gives `EQUIVALENT`, whether or
    not it holds 0; any other that excludes 0 `BETTER` or `WORSE`; the rest, and None, `UNDECIDED`.

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
