"""Guards: what a model must keep, besides a better primary metric, to replace the baseline.

ndcg@10=-0.005                  not lower than the baseline by more than 0.005
ndcg@10:tail=-0.01              the same among the queries of a group: head, torso or tail of the traffic
ndcg@10:device=phone=-0.01      or those with a value of an attribute, as in `compare --slice device`
value@10:revenue:tail=-0.2      after the column of a metric
latency=2ms memory=200MB size=5MB
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ltrbench.errors import ConfigError, require_choice
from ltrbench.metrics import parse_metric
from ltrbench.metrics.functions import ALIASES, METRICS, OF_COLUMNS

LATENCY, MEMORY, SIZE = "latency", "memory", "size"
COSTS = {LATENCY: {"ms": 1.0, "s": 1e3}, MEMORY: {"MB": 1.0, "GB": 1e3}, SIZE: {"MB": 1.0, "GB": 1e3}}
"""Cost -> unit -> its factor to ms or MB. Latency is the median time to score one list of the test set on one
thread, memory the peak memory of the fit, and size that of the files of the model."""


@dataclass(frozen=True)
class Guard:
    """A condition on a model.

    Attributes:
        metric: Name of a metric; or "latency", "memory" or "size".
        limit: Lowest difference to the baseline, 0 or less; of a cost its highest value, in ms or MB.
        group: Group of queries, such as "tail" or "device=phone"; empty for all queries.
    """

    metric: str
    limit: float
    group: str = ""

    @property
    def is_cost(self) -> bool:
        return self.metric in COSTS

    @property
    def name(self) -> str:
        """Name of the metric in the group, such as "ndcg@10:tail"."""
        return f"{self.metric}:{self.group}" if self.group else self.metric

    @classmethod
    def parse(cls, text: str) -> Guard:
        """Returns the guard that a text describes, as in the table above.

        Raises:
            ConfigError: The metric or cost is unknown, the number is missing, or it has the wrong sign.

        >>> Guard.parse("ndcg@10:device=phone=-0.01"), Guard.parse("latency=0.5s").limit
        (Guard(metric='ndcg@10', limit=-0.01, group='device=phone'), 500.0)
        """
        name, _, number = text.rpartition("=") if "=" in text else (text, "", "")
        word = re.split("[@:]", name)[0]
        require_choice(f"--guard {text}: the name", word, [*COSTS, *METRICS, *ALIASES, *OF_COLUMNS])
        if word in COSTS:
            return cls(word, _cost(text, number, COSTS[word]))
        num_parts = 2 if word in OF_COLUMNS else 1
        parts = name.split(":", num_parts)
        metric, group = ":".join(parts[:num_parts]), "".join(parts[num_parts:])
        parse_metric(metric)
        try:
            limit = float(number)
        except ValueError:
            limit = math.nan
        if not -math.inf < limit <= 0:
            raise ConfigError(
                f"--guard {text}: '{number}' must be the lowest difference to the baseline, a number of 0 or "
                f"less, as in --guard {name}=-0.005."
            )
        return cls(metric, limit, group)


def _cost(text: str, number: str, units: Mapping[str, float]) -> float:
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+) *([A-Za-z]+)", number)
    if not match or match[2] not in units:
        example = f"{text.partition('=')[0]}=2{next(iter(units))}"
        raise ConfigError(
            f"--guard {text}: '{number}' must be a number with a unit, {' or '.join(units)}, as in "
            f"--guard {example}."
        )
    return float(match[1]) * units[match[2]]
