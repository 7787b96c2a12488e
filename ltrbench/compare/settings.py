"""Settings of a comparison: metrics, guards, baseline, level, convention and draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ltrbench.compare.guards import COSTS, Guard
from ltrbench.compare.table import ModelRow
from ltrbench.errors import ConfigError, require
from ltrbench.metrics import (
    DEFAULT,
    Convention,
    rope_of,
)
from ltrbench.statistics import LEVEL

BEST = "best"
"""Baseline name for the row with the highest mean. Its intervals are simultaneous over all pairs, because the
same numbers chose it."""


@dataclass(frozen=True)
class Settings:
    """Settings of a comparison.

    Attributes:
        metric: Primary metric, which carries claims; None for the ndcg with the largest cutoff that the runs
            report.
        guards: Conditions on a model that replaces the baseline. Their metrics carry claims, too.
        latency: Returns the time to score a list with the model of a row, in ms, for the guard of latency;
            None without a model.
        family: Metrics that carry claims together with the primary metric, corrected for their number. The
            first one is the primary metric if `metric` is None.
        baseline: Label of a row or name of a model; "best" or None for the row with the highest mean.
        convention: Convention of every metric.
        allow_mismatch: Whether runs on different data or splits may be in one table.
        rope: Half the width of the region of practical equivalence, in units of the claimed metrics, which
            must declare the same one; None for the region that each metric declares.
        detect: Difference for which queries are planned; None for the width of the region of equivalence.
        level: Error level of all claims of the comparison together. Divide it by the number of comparisons of
            the same runs that you make; the command line does so (`ltrbench.sweep.ledger`).
        selected: Reason why runs are left out. With a reason, a row that lacks test sets is paired with the
            others over the common test sets; without one, it is left out of paired tests.
        num_draws: Number of draws of the bootstrap and of the randomisation test.
        seed: Seed of both.
    """

    metric: str | None = None
    family: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    latency: Callable[[ModelRow], float | None] | None = None
    baseline: str | None = None
    convention: Convention = DEFAULT
    allow_mismatch: bool = False
    rope: float | None = None
    detect: float | None = None
    level: float = LEVEL
    selected: str = ""
    num_draws: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ConfigError if a metric is unknown, a number is out of range, or `rope` has no unit."""
        numbers = {"rope": self.rope, "detect": self.detect, "level": self.level}
        for name, value in numbers.items():
            require(name, value, above=0)
        for name in filter(None, self.claimed_metrics):
            self.rope_of(name)

    def rope_of(self, metric: str) -> float:
        """Returns half the width of the region of practical equivalence of a metric; 0: it declares none.

        Raises:
            ConfigError: `rope` is set, but a metric declares no region, or they have different ones, so the
                unit of `rope` is not known.
        """
        names = (name for name in (*self.claimed_metrics, metric) if name is not None)
        regions = {name: rope_of(self.guard_of(name).metric) for name in names}
        if self.rope is None:
            return regions[metric]
        has_several = len(set(regions.values())) > 1
        if has_several or not regions[metric]:
            declared = ", ".join(
                f"{rope:g} of {name}" for name, rope in regions.items()
            )
            raise ConfigError(
                f"rope is {self.rope}, but its unit is not clear: the metrics declare the regions of "
                f"equivalence {declared} (0: none). Leave out rope, or declare it: @metric(NAME, rope=2.0)."
            )
        return self.rope

    def detect_of(self, metric: str) -> float:
        """Returns the difference for which queries are planned: `detect`, or the width of the region of
        practical equivalence; 0 if the metric declares none."""
        return self.detect or 2 * self.rope_of(metric)

    @property
    def confidence(self) -> str:
        """The confidence of the simultaneous intervals, such as "95 %", which is 100 % minus the level."""
        return _confidence(self.level)

    def confidence_of(self, metric: str) -> str:
        """Returns the confidence of all claims in a metric together, as `level_of`."""
        return _confidence(self.level_of(metric))

    @property
    def names_baseline(self) -> bool:
        """Whether the baseline is a named row or model, and not the row with the highest mean."""
        return self.baseline not in (None, BEST)

    def level_of(self, metric: str) -> float:
        """Returns the error level of all claims in a metric.

        The primary metric and those of `family` share the level, because any of them may lead to a claim. A
        guard has the whole level: a model is shipped only if every guard holds, so that several guards make a
        false decision less likely, not more (intersection-union test: Berger, 1982, Technometrics 24).
        """
        primary = self.metric or next(iter(self.family), None)
        sharing = dict.fromkeys((primary, *self.family))
        if metric in sharing:
            return self.level / len(sharing)
        return self.level

    @property
    def claimed_metrics(self) -> tuple[str | None, ...]:
        """The metrics that carry claims, the primary one first; None for the default metric."""
        primary = self.metric or next(iter(self.family), None)
        guards = (guard.name for guard in self.guards if guard.metric not in COSTS)
        return tuple(dict.fromkeys((primary, *self.family, *guards)))

    def guard_of(self, claimed: str) -> Guard:
        """Returns the guard of a claimed metric, with its metric and group; without one, the metric alone."""
        return next(
            (guard for guard in self.guards if guard.name == claimed),
            Guard(claimed, 0.0),
        )


def _confidence(level: float) -> str:
    """Returns 100 % minus an error level, with as many digits as the level has.

    >>> _confidence(0.05), _confidence(0.05 / 132)
    ('95 %', '99.9621 %')
    """
    percents = float(f"{100 * level:.3g}")
    return f"{100 - percents:g} %"
