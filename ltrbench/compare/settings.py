"""How a comparison is made."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ltrbench.errors import ConfigError
from ltrbench.metrics import DEFAULT, Convention, parse_metric
from ltrbench.statistics import ROPE

BEST = "best"
"""A baseline of this name is the row with the highest mean; its intervals are simultaneous, because it was
chosen by the same numbers."""


@dataclass(frozen=True)
class Settings:
    """How a comparison is made.

    Attributes:
        metric: the primary metric, which carries the claims; None: the ndcg with the largest cutoff that the
            runs report.
        family: metrics that carry claims together, corrected for their number; empty: the primary one alone.
            The first is the primary metric where `metric` is None.
        baseline: a row's label, a model's name, or "best"; None: the first model.
        convention: what every metric is computed under.
        allow_mismatch: whether runs on different data or splits may stand in one table.
        rope: the region of practical equivalence is a difference of at most so much either way.
        detect: the difference for which the needed number of queries is computed; None: it is not.
        num_draws: of the bootstrap and of the randomisation test.
        seed: of both.
    """

    metric: str | None = None
    family: tuple[str, ...] = ()
    baseline: str | None = None
    convention: Convention = DEFAULT
    allow_mismatch: bool = False
    rope: float = ROPE
    detect: float | None = None
    num_draws: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ConfigError on an unknown metric or a number out of range."""
        for name in (self.metric, *self.family):
            if name is not None:
                parse_metric(name)
        if len(set(self.family)) < len(self.family):
            raise ConfigError(f"the family of metrics is {', '.join(self.family)}; name each metric once.")
        if self.metric is not None and self.family and self.metric not in self.family:
            raise ConfigError(
                f"the family of metrics is {', '.join(self.family)}, without the metric {self.metric} that "
                "carries the claims; add it."
            )
        for name, value in (("rope", self.rope), ("detect", self.detect)):
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(
                    f"{name} is {value}; it is a difference of the metric, above 0, such as 0.005."
                )
        if self.num_draws < 1:
            raise ConfigError(f"the number of draws is {self.num_draws}; it must be at least 1.")
        if self.seed < 0:
            raise ConfigError(f"the seed of the draws is {self.seed}; it must be 0 or more.")

    @property
    def names_baseline(self) -> bool:
        """Whether a row or model is named as the baseline; "best" is whichever the numbers name."""
        return self.baseline not in (None, BEST)

    @property
    def claimed_metrics(self) -> tuple[str | None, ...]:
        """The metrics that carry claims, the primary one first; None stands for the default one."""
        primary = self.metric or next(iter(self.family), None)
        return (primary, *(name for name in self.family if name != primary))
