"""Grid search: every combination of evenly spaced values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ltrbench.errors import ConfigError, require
from ltrbench.search.base import Proposal, Search, SearchedModel, Trial
from ltrbench.search.space import Range, Value


@dataclass(kw_only=True)
class FullGrid(Search):
    """Proposes the Cartesian product of the values of each setting. The default is not a trial.

    Attributes:
        levels: number of values of an interval, from its smallest to its largest value, with a constant ratio
            on a logarithmic range. Fewer if whole numbers coincide. A range with `values` has those.

    Raises:
        ConfigError: a value is out of range.
    """

    levels: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require("search.levels", self.levels, at_least=2)

    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        levels = {name: spaced_values(values, self.levels) for name, values in model.space.items()}
        size = math.prod(map(len, levels.values()))
        if self.seconds is None and size > self.trials:
            counts = " x ".join(f"{len(values)} {name}" for name, values in levels.items())
            raise ConfigError(
                f"the grid has {size} combinations ({counts}), but search.trials is {self.trials}. Set "
                f"search.trials={size}, fewer search.levels, or a smaller search.space."
            )
        numbers = range(len(trials), size)
        if self.seconds is not None:
            numbers = numbers[: len(self.next_numbers(trials, None))]
        grid = itertools.product(*levels.values())
        combinations = itertools.islice(grid, numbers.start, numbers.stop)
        return [
            Proposal(number, dict(zip(levels, values, strict=True)))
            for number, values in zip(numbers, combinations, strict=True)
        ]


def spaced_values(values: Range, number: int) -> list[Value]:
    """Returns evenly spaced values of a range, both ends included.

    >>> spaced_values(Range(1, 100, log=True), 3)
    [1, 10, 100]
    >>> spaced_values(Range(0.0, 1.0), 3)
    [0.0, 0.5, 1.0]
    >>> spaced_values(Range(1, 2), 3)
    [1, 2]
    """
    if values.values is not None:
        return values.values
    low, high = values.bounds
    spaced = np.geomspace(low, high, number) if values.log else np.linspace(low, high, number)
    if values.is_integer:
        return [int(value) for value in np.unique(np.rint(spaced).astype(np.int64))]
    # The ends exactly; values between them with few digits, because a table shows them.
    return [float(low), *(float(f"{value:.4g}") for value in spaced[1:-1]), float(high)]
