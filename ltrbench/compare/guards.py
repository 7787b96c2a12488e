"""Guards: what a model must keep, besides a better primary metric, to replace the baseline.

ndcg@10=-0.005                  not lower than the baseline by more than 0.005
ndcg@10:tail=-0.01              the same among the queries of a group: head, torso or tail of the traffic
ndcg@10:device=phone=-0.01      or those with a value of an attribute, as in `compare --slice device`
value@10:revenue:tail=-0.2      after the column of a metric
latency=2ms memory=200MB
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ltrbench.errors import ConfigError, require_choice
from ltrbench.metrics.functions import ALIASES, METRICS, OF_COLUMNS

LATENCY = "latency"
MEMORY = "memory"
COSTS = {
    LATENCY: {"ms": 1.0, "s": 1e3},
    MEMORY: {"MB": 1.0, "GB": 1e3},
}
"""Cost -> unit -> its factor to ms or MB. Latency is the median time to score one list of the test set on one
thread, and memory the peak memory of the fit."""


@dataclass(frozen=True)
class Guard:
    """A condition on a model.

    Attributes:
        metric: Name of a metric; or "latency" or "memory".
        limit: Lowest difference to the baseline, 0 or less; of a cost its highest value, in ms or MB.
        group: Group of queries, such as "tail" or "device=phone"; empty for all queries.
    """

    metric: str
    limit: float
    group: str = ""

    @property
    def name(self) -> str:
        """Name of the metric in the group, such as "ndcg@10:tail"."""
        if self.group:
            return f"{self.metric}:{self.group}"
        return self.metric

    def __str__(self) -> str:
        """Returns the guard as `parse` reads it, a cost in ms or MB."""
        unit = ""
        if self.metric in COSTS:
            unit = next(iter(COSTS[self.metric]))
        return f"{self.name}={self.limit:.10g}{unit}"

    @classmethod
    def parse(cls, text: str) -> Guard:
        """Returns the guard that a text describes, as in the table above.

        Raises:
            ConfigError: The name is unknown, or the limit is missing or has the wrong sign or unit.

        >>> Guard.parse("ndcg@10:device=phone=-0.01"), str(Guard.parse("latency=0.5s"))
        (Guard(metric='ndcg@10', limit=-0.01, group='device=phone'), 'latency=500ms')
        """
        name = text
        number = ""
        if "=" in text:
            name, _, number = text.rpartition("=")
        word = re.split("[@:]", name)[0]
        known = [*COSTS, *METRICS, *ALIASES, *OF_COLUMNS]
        require_choice(f"--guard {text}: the name", word, known)
        num_parts = 2 if word in OF_COLUMNS else 1
        parts = name.split(":", num_parts)
        metric = ":".join(parts[:num_parts])
        group = "".join(parts[num_parts:])
        units = COSTS.get(word, {"": 1.0})
        match = re.fullmatch(r"(-?\d*\.?\d+)([A-Za-z]*)", number)
        limit = math.nan
        if match and match[2] in units:
            limit = float(match[1]) * units[match[2]]
        if not (limit > 0 if word in COSTS else limit <= 0):
            raise ConfigError(
                f"--guard {text}: '{number}' is no limit. Give the lowest difference to the baseline, as in "
                "ndcg@10=-0.005, or the highest cost with its unit, as in latency=2ms and memory=200MB."
            )
        return cls(metric, limit, group)
