"""Check: a value, with its interval if it has one, against a limit.

Guards of a decision, thresholds of new data, tolerances of a shipped model and of a rerun, and the prices of
`frontier` are checks.

>>> Check("overlap", value=0.8, low=0.7, high=0.9, limit=0.95).state
'fails'
>>> Check("latency", value=3.0, limit=2.0, sense=AT_MOST).margin
-1.0
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from ltrbench.statistics.claims import UNDECIDED

Sense = Literal["at least", "more than", "at most"]
AT_LEAST: Sense = "at least"
MORE_THAN: Sense = "more than"
AT_MOST: Sense = "at most"
HOLDS = "holds"
FAILS = "fails"
STATES = (FAILS, UNDECIDED, HOLDS)
"""States of a check, the worst first."""


@dataclass(frozen=True)
class Check:
    """A value against a limit.

    Attributes:
        name: What is checked.
        value: The value; None if it is not available.
        limit: The limit, in the unit of the value.
        sense: On which side of the limit the value must be.
        low, high: Ends of the interval of the value; None of a value without uncertainty.
        state: "holds" or "fails" if the whole interval is on one side of the limit; otherwise "undecided".
    """

    name: str
    value: float | None
    _: KW_ONLY
    limit: float
    sense: Sense = AT_LEAST
    low: float | None = None
    high: float | None = None
    state: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", self._decide())

    def _decide(self) -> str:
        if self.value is None:
            return UNDECIDED
        ends = (
            self.value if self.low is None else self.low,
            self.value if self.high is None else self.high,
        )
        are_met = [self._is_met_by(end) for end in ends]
        if all(are_met):
            return HOLDS
        return UNDECIDED if any(are_met) else FAILS

    def _is_met_by(self, value: float) -> bool:
        if self.sense == AT_MOST:
            return value <= self.limit
        if self.sense == MORE_THAN:
            return value > self.limit
        return value >= self.limit

    @property
    def margin(self) -> float | None:
        """Distance of the value from the limit, negative on the wrong side; None if it is not available."""
        if self.value is None:
            return None
        distance = self.value - self.limit
        if self.sense == AT_MOST:
            return -distance
        return distance


def worst(checks: Iterable[Check]) -> str:
    """Returns the worst state of some checks; `HOLDS` without any."""
    return min((check.state for check in checks), key=STATES.index, default=HOLDS)
