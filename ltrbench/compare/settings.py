"""Settings of a comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ltrbench.errors import ConfigError
from ltrbench.metrics import DEFAULT, Convention, parse_metric
from ltrbench.statistics import ROPE

BEST = "best"
"""Baseline name for the row with the highest mean. Its intervals are simultaneous over all pairs, because the
same numbers chose it."""


@dataclass(frozen=True)
class Settings:
    """Settings of a comparison.

    Attributes:
        metric: Primary metric, which carries claims; None for the ndcg with the largest cutoff that the runs
            report.
        family: Metrics that carry claims together, corrected for their number; empty for the primary metric
            alone. The first one is the primary metric if `metric` is None.
        baseline: Label of a row, name of a model, or "best"; None for the first row.
        convention: Convention of every metric.
        allow_mismatch: Whether runs on different data or splits may be in one table.
        rope: Half the width of the region of practical equivalence, in units of the metric.
        detect: Difference whose required number of queries, seeds or folds is computed; None for none.
        num_draws: Number of draws of the bootstrap and of the randomisation test.
        seed: Seed of both.
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
        """Raises ConfigError if a metric is unknown or a number is out of range."""
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
                    f"{name} is {value}; it must be a difference of the metric above 0, such as 0.005."
                )
        if self.num_draws < 1:
            raise ConfigError(f"the number of draws is {self.num_draws}; it must be at least 1.")
        if self.seed < 0:
            raise ConfigError(f"the seed of the draws is {self.seed}; it must be 0 or more.")

    @property
    def names_baseline(self) -> bool:
        """Whether the baseline is a named row or model, and not "best" or the first row."""
        return self.baseline not in (None, BEST)

    @property
    def claimed_metrics(self) -> tuple[str | None, ...]:
        """The metrics that carry claims, the primary one first; None for the default metric."""
        primary = self.metric or next(iter(self.family), None)
        return (primary, *(name for name in self.family if name != primary))
