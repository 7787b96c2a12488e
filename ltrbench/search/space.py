"""The search space: the settings that a search varies, and their ranges, one space for all backends."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeGuard

from ltrbench.errors import ConfigError, did_you_mean
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import OF_EVERY_RANKER, SHARED
from ltrbench.results.files import TRIALS_FILE
from ltrbench.results.run import TRIAL_COLUMNS

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

    `Space` checks its ranges.
    """

    low: float | int | None = None
    high: float | int | None = None
    log: bool = False
    values: list[Any] | None = None

    def check(self, place: str) -> None:
        """
        Args:
            place: the setting, for the message.

        Raises:
            ConfigError: the range has both or neither of the two forms, is empty, has no logarithm, or a
                value of the wrong type.
        """
        if self.values is not None:
            self._check_values(place)
            return
        for name, bound in (("low", self.low), ("high", self.high)):
            if bound is None:
                raise ConfigError(f"{place}.{name} is not set; set low and high, or a list of values.")
            if not _is_number(bound) or not math.isfinite(bound):
                raise ConfigError(f"{place}.{name} is {bound!r}; it must be a number.")
        low, high = self.bounds
        if low >= high:
            raise ConfigError(f"{place} is the range {low} to {high}, which is empty; set low below high.")
        if self.log and low <= 0:
            raise ConfigError(f"{place}.low is {low}, which has no logarithm; set it above 0, or log=false.")

    def _check_values(self, place: str) -> None:
        if self.low is not None or self.high is not None or self.log:
            raise ConfigError(
                f"{place} has values and also low, high or log; leave out one of the two forms."
            )
        if not isinstance(self.values, list) or not self.values:
            raise ConfigError(f"{place}.values is {self.values!r}; give a list of values, or low and high.")
        for value in self.values:
            if not isinstance(value, bool | int | float | str | None):
                raise ConfigError(f"{place}.values has {value!r}; list numbers, words, true, false or null.")

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value of an interval."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    @property
    def is_integer(self) -> bool:
        """Whether an interval has whole numbers only."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def __contains__(self, value: Value) -> bool:
        if self.values is not None:
            return value in self.values
        low, high = self.bounds
        return _is_number(value) and low <= value <= high

    def __str__(self) -> str:
        if self.values is not None:
            return ", ".join(map(str, self.values))
        return f"{self.low} to {self.high}{' (log)' if self.log else ''}"


@dataclass
class Space:
    """Ranges of settings.

    Attributes:
        shared: shared parameter -> its range, the same for every model.
        models: model -> setting of its own -> its range.

    Raises:
        ConfigError: a name in `shared` is not a shared parameter, or a range is not valid.
    """

    shared: dict[str, Range] = field(default_factory=dict)
    models: dict[str, dict[str, Range]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.shared:
            if name not in SHARED:
                raise ConfigError(
                    f"search.space.shared.{name}: '{name}' is not a shared parameter"
                    f"{did_you_mean(name, list(SHARED))} Ranges of other settings belong to "
                    f"search.space.models.MODEL.{name}."
                )
            self.shared[name].check(f"search.space.shared.{name}")
        # OmegaConf leaves the values of a dict in a dict as they are.
        self.models = {
            model: {
                name: _range(f"search.space.models.{model}.{name}", values) for name, values in ranges.items()
            }
            for model, ranges in self.models.items()
        }

    def of(self, model: str, ranker: Ranker) -> dict[str, Range]:
        """Returns setting -> range of the settings that a model can vary.

        A shared parameter that the backend does not have is left out, so that models may vary different
        numbers of settings.

        Raises:
            ConfigError: `models` names a setting that the model does not have, or a range has a value that
                the model refuses.
        """
        if ranker.is_yardstick:
            return {}
        known = {item.name for item in fields(ranker) if item.init and item.name not in OF_EVERY_RANKER}
        shared = {
            name: values
            for name, values in self.shared.items()
            if name in known and _takes(ranker, name, values, f"search.space.shared.{name}")
        }
        of_model = self.models.get(model, {})
        for name, values in of_model.items():
            place = f"search.space.models.{model}.{name}"
            if name not in known:
                raise ConfigError(
                    f"{place}: {model} has no setting '{name}' that a search can vary"
                    f"{did_you_mean(name, sorted(known))}"
                )
            if name in TRIAL_COLUMNS:
                raise ConfigError(
                    f"{place}: '{name}' is a column of {TRIALS_FILE}, so that a search cannot vary a setting "
                    "of this name. Rename the field of the backend."
                )
            _check_types(ranker, name, values, place)
            if refused := _refusals(ranker, name, values):
                raise _refusal(place, refused)
        return {**shared, **of_model}


def _range(place: str, given: Range | Mapping[str, Any]) -> Range:
    """Returns a valid range, from a range or from its fields.

    Raises:
        ConfigError: a field does not exist, or a value is not valid.
    """
    if not isinstance(given, Range):
        known = [item.name for item in fields(Range)]
        if not isinstance(given, Mapping):
            raise ConfigError(f"{place} is {given!r}; set {{low: ..., high: ...}} or {{values: [...]}}.")
        for name in given:
            if name not in known:
                raise ConfigError(f"{place}.{name}: a range has no '{name}'{did_you_mean(str(name), known)}")
        given = Range(**given)
    given.check(place)
    return given


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _takes(ranker: Ranker, name: str, values: Range, place: str) -> bool:
    """Returns whether a backend has a shared parameter; it refuses every value of one without effect.

    Raises:
        ConfigError: a value has the wrong type, or the backend refuses one value and takes another.
    """
    _check_types(ranker, name, values, place)
    refused = _refusals(ranker, name, values)
    if refused and len(refused) < len(_extremes(values)):
        raise _refusal(place, refused)
    return not refused


def _refusals(ranker: Ranker, name: str, values: Range) -> list[tuple[Value, ConfigError]]:
    """Returns the ends or values of a range that a ranker refuses, with its errors."""
    refused: list[tuple[Value, ConfigError]] = []
    for value in _extremes(values):
        try:
            replace(ranker, **{name: value})
        except ConfigError as error:
            refused.append((value, error))
    return refused


def _refusal(place: str, refused: list[tuple[Value, ConfigError]]) -> ConfigError:
    value, error = refused[0]
    return ConfigError(f"{place} contains {value}: {error}")


def _check_types(ranker: Ranker, name: str, values: Range, place: str) -> None:
    """Raises ConfigError if a value of a range does not have the type of the ranker's field."""
    hint = typing.get_type_hints(type(ranker))[name]
    accepted = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if not set(accepted) <= {bool, int, float, str, types.NoneType}:
        return
    expected = " or ".join("null" if kind is types.NoneType else kind.__name__ for kind in accepted)
    if values.values is None and not values.is_integer and float not in accepted:
        low, high = values.bounds
        raise ConfigError(
            f"{place} is the range {low} to {high}, but the setting has the type {expected}. "
            + ("Write both ends as whole numbers." if int in accepted else "List its values instead.")
        )
    for value in _extremes(values):
        is_whole_number = type(value) is int and float in accepted
        if type(value) not in accepted and not is_whole_number:
            raise ConfigError(f"{place} contains {value!r}, but the setting has the type {expected}.")


def _extremes(values: Range) -> list[Any]:
    return list(values.bounds) if values.values is None else values.values


def settings_of(ranker: Ranker, space: Mapping[str, Range]) -> dict[str, Value]:
    """Returns the present values of the settings that a search varies: the default trial."""
    return {name: getattr(ranker, name) for name in space}
