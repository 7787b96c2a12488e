"""The search space: the settings that a search varies, and their ranges, one space for all backends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ltrbench.errors import ConfigError, did_you_mean
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import SHARED

Value = bool | int | float | str | None
"""Value of a setting of a ranker."""


# Not frozen, because OmegaConf makes the fields of a frozen dataclass read-only.
@dataclass
class Range:
    """The values of one setting: an interval, or a list of values.

    Attributes:
        low, high: smallest and largest value. The range has whole numbers only if both are whole.
        log: whether small values are as likely as large ones, on a logarithmic scale.
        values: all values instead of an interval.

    Raises:
        ConfigError: the range has both or neither of the two forms, is empty, or has no logarithm.
    """

    low: float | int | None = None
    high: float | int | None = None
    log: bool = False
    values: list[Any] | None = None

    def __post_init__(self) -> None:
        if self.values is not None:
            if self.low is not None or self.high is not None or self.log or not self.values:
                raise ConfigError(f"the range {self} needs either low and high, or a list of values.")
            return
        if self.low is None or self.high is None:
            raise ConfigError(f"the range {self} needs low and high, or a list of values.")
        bounds = (self.low, self.high)
        if not all(math.isfinite(bound) for bound in bounds) or self.low >= self.high:
            raise ConfigError(f"the range {self} is empty; low must be below high.")
        if self.log and self.low <= 0:
            raise ConfigError(f"the range {self} has no logarithm; set low above 0, or log=false.")

    @property
    def is_integer(self) -> bool:
        """Whether an interval has whole numbers only."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def __contains__(self, value: Value) -> bool:
        if self.values is not None:
            return value in self.values
        assert self.low is not None
        assert self.high is not None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high  # type: ignore[operator]  # checked by is_number

    def __str__(self) -> str:
        if self.values is not None:
            return ", ".join(map(str, self.values))
        return f"{self.low} to {self.high}{' (log)' if self.log else ''}"


@dataclass
class Space:
    """Ranges of settings.

    Attributes:
        shared: shared parameter -> its range, the same for every model.
        own: model -> setting of its own -> its range.

    Raises:
        ConfigError: a name in `shared` is not a shared parameter.
    """

    shared: dict[str, Range] = field(default_factory=dict)
    own: dict[str, dict[str, Range]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.shared:
            if name not in SHARED:
                raise ConfigError(
                    f"search.space.shared.{name}: '{name}' is not a shared parameter"
                    f"{did_you_mean(name, list(SHARED))} Ranges of other settings belong to "
                    f"search.space.own.MODEL.{name}."
                )

    def of(self, model: str, ranker: Ranker) -> dict[str, Range]:
        """Returns setting -> range of the settings that a model can vary.

        A shared parameter that the backend does not have is left out, so that models may vary different
        numbers of settings.

        Raises:
            ConfigError: `own` names a setting that the model does not have, or a value that it refuses.
        """
        if ranker.is_yardstick:
            return {}
        known = {item.name for item in fields(ranker) if item.init}
        shared = {
            name: values
            for name, values in self.shared.items()
            if name in known and _takes(ranker, name, values)
        }
        of_model = self.own.get(model, {})
        for name, values in of_model.items():
            if name not in known:
                raise ConfigError(
                    f"search.space.own.{model}.{name}: {model} has no setting '{name}'"
                    f"{did_you_mean(name, sorted(known))}"
                )
            for value in _extremes(values):
                replace(ranker, **{name: value})
        return {**shared, **of_model}


def _takes(ranker: Ranker, name: str, values: Range) -> bool:
    """Returns whether a backend has a shared parameter; it raises ConfigError for one without effect."""
    try:
        for value in _extremes(values):
            replace(ranker, **{name: value})
    except ConfigError:
        return False
    return True


def _extremes(values: Range) -> list[Any]:
    return [values.low, values.high] if values.values is None else values.values


def settings_of(ranker: Ranker, space: Mapping[str, Range]) -> dict[str, Value]:
    """Returns the present values of the settings that a search varies: the default trial."""
    return {name: getattr(ranker, name) for name in space}
