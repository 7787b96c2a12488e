"""Settings: declares, checks and converts the settings of the engine.

A setting is one field of a settings dataclass. The field has the name that users write. `setting` contains
its default, its range, and the other settings that it depends on. The string below the field is its
documentation:

    hessian_factor: float = setting(1.0, above=0, only_with=OF_PAIRS)
    '''Factor of hessians.'''

`ltrbench.rankers.native.NativeRanker` inherits these dataclasses, so that each field is also a command-line
key, an argument of the class and a row of the documentation. `part` copies the values back by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, field, fields
from functools import partial
from typing import Any, TypeVar, get_args, get_type_hints

from ltrbench.errors import ConfigError, require, require_choice

ValueT = TypeVar("ValueT")
SettingsT = TypeVar("SettingsT")

Check = Callable[[str, Any], None]
"""(name, value of a setting) -> None; raises ConfigError if the value is out of range."""

Needs = Mapping[str, Collection[str]]
"""Name of another setting -> its values for which a setting has an effect."""


def setting(
    default: ValueT,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    choices: Collection[str] | None = None,
    refuse: Check | None = None,
    only_with: Needs | None = None,
) -> ValueT:
    """Declares a field of a settings dataclass.

    Args:
        default: default of the field; a dict is copied for each object.
        at_least, above, at_most: range of a number.
        choices: allowed values of a string.
        refuse: check of the value, if neither a range nor choices describe it.
        only_with: other settings that the setting depends on.
    """
    if choices is not None:
        refuse = partial(require_choice, choices=choices)
    metadata = {
        "refuse": refuse or partial(require, at_least=at_least, above=above, at_most=at_most),
        "only_with": only_with or {},
    }
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)  # type: ignore[return-value]
    return field(default=default, metadata=metadata)


def check(settings: Any) -> None:
    """Raises ConfigError for the first setting that is out of range."""
    for item in fields(settings):
        if "refuse" in item.metadata:
            item.metadata["refuse"](item.name, getattr(settings, item.name))


def check_effects(settings: Any, chosen: Mapping[str, str | None]) -> None:
    """Raises ConfigError for the first setting that is set but has no effect because of another setting.

    Args:
        settings: a settings dataclass.
        chosen: name of a setting that others depend on -> the value to compare their `only_with` with.
    """
    for item in fields(settings):
        value, default = getattr(settings, item.name), _default(item)
        for other, values in item.metadata.get("only_with", {}).items():
            if chosen[other] not in values and value != default:
                raise ConfigError(
                    f"{item.name} is {value}, but has no effect with {other}="
                    f"{_word(getattr(settings, other))}; set {item.name}={json.dumps(default)}, or "
                    f"{other} to {' or '.join(values)}."
                )


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _word(value: object) -> str:
    return "null" if value is None else str(value)


def changed(settings: Any, *kinds: type[Any]) -> list[str]:
    """Returns the names of the settings, declared in `kinds`, whose values differ from their defaults."""
    declared = [item for kind in kinds for item in fields(kind)]
    return [item.name for item in declared if getattr(settings, item.name) != _default(item)]


def part(source: object, kind: type[SettingsT], **others: Any) -> SettingsT:
    """Returns a dataclass or named tuple `kind` whose fields have the values of the same names in `source`.

    A value of None keeps the default of `kind`. If `kind` declares a float, integers and NumPy numbers are
    converted to a Python float, because kernels are compiled for the types of their arguments.

    Args:
        source: object with attributes of the same names.
        kind: class of the result.
        others: values of fields that `source` does not have, or has in another form.
    """
    values = {
        name: float(value) if is_float else value
        for name, is_float in _floats(kind).items()
        if name not in others and (value := getattr(source, name)) is not None
    }
    return kind(**values, **others)


def _floats(kind: type[Any]) -> dict[str, bool]:
    """Returns, for each field name, whether the field is declared as a float and not as an integer."""
    types = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(kind).items()}
    return {name: float in possible and int not in possible for name, possible in types.items()}
