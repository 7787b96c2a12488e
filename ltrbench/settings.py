"""Settings: one declaration for each setting of a ranker, from which everything else about it follows.

A setting is one field of a dataclass. The field has the name that users write, in a YAML and on the command
line. `setting` contains its default, its range, the other settings that it depends on, and its name and unit
in each library. The string below the field is its documentation:

    l2: float | None = setting(None, at_least=0, lightgbm=In("lambda_l2"), xgboost=In("reg_lambda", twice))
    '''L2 regularisation.'''

From it come the checks of the value, the refusal of a setting without effect, the parameters that a library
is passed, the names that `extra` refuses, the lines of conf/model (`make settings`; the first sentence is the
comment), and the tables of the documentation. To add a setting, add the
field to the class that uses it: `ltrbench.rankers.base.BoostingRanker` for a setting that all backends share,
the class of a backend for a setting of one library, and a dataclass of an engine stage for the native engine.
`part` copies the values of a native setting to the engine by name.
"""

from __future__ import annotations

import itertools
import json
import numbers
import reprlib
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import copy
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import cache, partial
from types import UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

import numpy as np

from ltrbench.errors import ConfigError, require, require_choice

ValueT = TypeVar("ValueT")
SettingsT = TypeVar("SettingsT")

Check = Callable[[str, Any], Any]
"""(name, value of a setting) -> None, or the value that replaces it; raises ConfigError if the value is out
of range."""


class Condition(NamedTuple):
    """Values of a number or a switch for which another setting has an effect.

    Attributes:
        words: the values, as the end of "set it to".
        holds: returns whether a value is one of them.
        others: names of settings of which one may have such a value instead.
    """

    words: str
    holds: Callable[[Any], bool]
    others: tuple[str, ...] = ()


IS_ON = Condition("true", bool)
NOT_0 = Condition("a value above 0", lambda value: value != 0)
BELOW_1 = Condition("a value below 1", lambda value: value < 1)
NOT_1 = Condition("another value than 1", lambda value: value != 1)

Choices = Mapping[str, Collection[str]]
"""Name of another setting -> its words for which a setting has an effect."""

Needs = Mapping[str, Collection[str] | Condition]
"""The same, or a condition on a number or a switch."""

Convert = Callable[[Any, float], Any]
"""(value of a setting, factor of the weights of the data) -> value in the units of a library."""


@dataclass(frozen=True)
class In:
    """A setting in one library.

    Attributes:
        names: the library's name of the parameter, followed by its aliases, separated by blanks; "": the
            adapter passes it in another way.
        convert: conversion to the library's units; None: the value is passed as it is.
        only_with: other settings, of the backend, that the setting depends on.
        is_passed: whether the parameter is passed; if not, its names are only refused in `extra`.
        lacks: what the library does not have, if it has no such parameter, as the end of a sentence: every
            value but None and 0 is refused.
    """

    names: str = ""
    convert: Convert | None = None
    only_with: Choices | None = None
    is_passed: bool = True
    lacks: str = ""


def setting(
    default: ValueT,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    choices: Collection[str] | None = None,
    refuse: Check | None = None,
    only_with: Needs | None = None,
    names: str = "",
    **libraries: In,
) -> ValueT:
    """Declares a field of a settings dataclass.

    Args:
        default: default of the field; a dict or a dataclass is copied for each object.
        at_least, above, at_most: range of a number.
        choices: allowed values of a string.
        refuse: check of the value, if neither a range nor choices describe it.
        only_with: other settings that the setting depends on.
        names: of a setting of one library only: its name there and its aliases, separated by blanks.
        libraries: of a setting that all backends share: module of the backend -> the setting in its library.
    """
    if choices is not None:
        refuse = partial(require_choice, choices=choices)
    if refuse is None:
        refuse = partial(require, at_least=at_least, above=above, at_most=at_most)
    metadata = {
        "refuse": refuse,
        "only_with": only_with or {},
        "in": {"": In(names), **libraries} if names else libraries,
        "is_share": above == 0 and at_most == 1,
    }
    if isinstance(default, dict) or is_dataclass(default):
        return field(default_factory=partial(copy, default), metadata=metadata)
    return field(default=default, metadata=metadata)


def check(settings: Any, prefix: str = "") -> None:
    """Raises ConfigError for the first setting of a wrong type or out of range; replaces values that are
    names.

    Args:
        prefix: before the name of a setting in messages, such as "search.".
    """
    kinds = _kinds_of_fields(type(settings))  # type: ignore[arg-type]
    for item in fields(settings):
        refuse = item.metadata.get("refuse")
        value = getattr(settings, item.name)
        if item.name in kinds:
            _check_kind(f"{prefix}{item.name}", value, kinds[item.name])
        if (
            refuse
            and (replacement := refuse(f"{prefix}{item.name}", value)) is not None
        ):
            setattr(settings, item.name, replacement)


_KINDS: Mapping[Any, tuple[Any, str]] = {
    bool: ((bool, np.bool_), "True or False"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "a text"),
    type(None): (type(None), "None"),
}
"""Type in the declaration of a setting -> types of its values, and their name in messages.

Numbers of NumPy are accepted, which `untrusted.type_error` refuses, because files do not have them.
"""


@cache
def _kinds_of_fields(kind: type[Any]) -> Mapping[str, tuple[Any, ...]]:
    """Returns the types of the fields whose values are single numbers, texts or truth values; empty if
    annotations cannot be resolved."""
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError, AttributeError):
        return {}
    kinds = {}
    for name, hint in hints.items():
        is_union = isinstance(hint, UnionType)
        of_field = get_args(hint) if is_union else (hint,)
        if all(each in _KINDS for each in of_field):
            kinds[name] = of_field
    return kinds


def _check_kind(name: str, value: object, kinds: tuple[Any, ...]) -> None:
    """Raises ConfigError for a value of another type."""
    accepted = [_KINDS[kind] for kind in kinds]
    if not any(isinstance(value, types) for types, _ in accepted):
        expected = " or ".join(words for _, words in accepted)
        raise ConfigError(f"{name} is {reprlib.repr(value)}; it must be {expected}.")


def check_effects(
    settings: Any, chosen: Mapping[str, str | None], library: str = ""
) -> None:
    """Raises ConfigError for the first setting that is set but has no effect because of another setting.

    Args:
        settings: a settings dataclass.
        chosen: name of a setting that others depend on -> the value to compare their `only_with` with.
        library: module of a backend, whose conditions on the shared settings are checked too.
    """
    unmet = itertools.chain(
        without_effect(settings, chosen, library), _unmet_conditions(settings, library)
    )
    for item, other, needed in unmet:
        value = getattr(settings, item.name)
        default = _default(item)
        if value != default:
            names = _names(other, needed)
            present = [_present(settings, name, chosen) for name in names]
            is_condition = isinstance(needed, Condition)
            wanted = needed.words if is_condition else " or ".join(needed)
            remedy = (
                f"{item.name}={_text(default)}, or {' or '.join(names)} to {wanted}"
            )
            raise ConfigError(
                f"{item.name} is {value}, but does not apply with {' and '.join(present)}; leave it out or "
                f"set {remedy}."
            )


def _names(other: str, needed: Collection[str] | Condition) -> tuple[str, ...]:
    """Returns the settings of which one must fulfil a need."""
    if isinstance(needed, Condition):
        return (other, *needed.others)
    return (other,)


def _present(settings: Any, name: str, chosen: Mapping[str, str | None]) -> str:
    value = getattr(settings, name)
    if value is None:
        value = chosen.get(name)
    return f"{name}={_text(value)}"


def _text(value: object) -> str:
    """Returns a value as it is written in YAML."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return str(value)


def without_effect(
    kind: Any, chosen: Mapping[str, str | None], library: str = ""
) -> Iterator[tuple[Any, ...]]:
    """Yields each setting of a class that has no effect, the setting that excludes it, and the values for an
    effect; arguments as in `check_effects`."""
    for item, other, needed in _needs(kind, library):
        is_known = other in chosen and not isinstance(needed, Condition)
        if is_known and str(chosen[other]) not in needed:
            yield item, other, needed


def _unmet_conditions(settings: Any, library: str) -> Iterator[tuple[Any, ...]]:
    """Yields the same for the conditions on numbers and switches of an object."""
    for item, other, needed in _needs(settings, library):
        if not isinstance(needed, Condition):
            continue
        names = _names(other, needed)
        values = [getattr(settings, name) for name in names]
        if not any(map(needed.holds, values)):
            yield item, other, needed


def _needs(kind: Any, library: str) -> Iterator[tuple[Any, ...]]:
    """Yields each setting that depends on another one, the other one, and its values for an effect."""
    for item in fields(kind):
        in_library = item.metadata.get("in", {}).get(library, In())
        needs = {**item.metadata.get("only_with", {}), **(in_library.only_with or {})}
        for other, needed in needs.items():
            yield item, other, needed


def in_library(kind: Any, library: str) -> Iterator[tuple[str, In]]:
    """Yields the settings of a settings dataclass that are parameters of a library: name, and how.

    Args:
        library: module of the backend, as the shared settings name it.
    """
    for item in fields(kind):
        declared = item.metadata.get("in", {})
        for key in ("", library):
            if key in declared:
                yield item.name, declared[key]


def samples(settings: Any) -> bool:
    """Returns whether a setting that is a share, above 0 and at most 1, is below 1."""
    values = (
        getattr(settings, item.name)
        for item in fields(settings)
        if item.metadata.get("is_share")
    )
    return any(value is not None and value < 1 for value in values)


def _default(item: Field[Any]) -> Any:
    if item.default_factory is MISSING:
        return item.default
    return item.default_factory()


def changed(settings: Any, *kinds: type[Any]) -> list[str]:
    """Returns the names of the settings, declared in `kinds`, whose values differ from their defaults."""
    declared = list(itertools.chain.from_iterable(fields(kind) for kind in kinds))
    return [
        item.name for item in declared if getattr(settings, item.name) != _default(item)
    ]


def replaced(settings: Any, values: Mapping[str, Any]) -> Any:
    """Returns a settings dataclass with other values by full names, such as `objective.mode`.

    Raises:
        ConfigError: A name does not exist, or a value is invalid.
    """
    known = [item.name for item in fields(settings)]
    whole: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        first, _, rest = name.partition(".")
        require_choice(f"a setting of {type(settings).__name__}", first, known)
        if rest:
            nested.setdefault(first, {})[rest] = value
        else:
            whole[first] = value
    changed = replace(settings, **whole)
    for name, of_part in nested.items():
        if not is_dataclass(part := getattr(changed, name)):
            raise ConfigError(
                f"{name} is {part}, which has no setting '{next(iter(of_part))}'."
            )
        changed = replace(changed, **{name: replaced(part, of_part)})
    return changed


def part(source: object, kind: type[SettingsT], **others: Any) -> SettingsT:
    """Returns a dataclass or named tuple `kind` whose fields have the values of the same names in `source`.

    A value of None keeps the default of `kind`. If `kind` declares a float, integers and NumPy numbers are
    converted to a Python float, because kernels are compiled for the types of their arguments.

    Args:
        source: object with attributes of the same names.
        kind: class of the result.
        others: values of fields that `source` does not have, or has in another form.
    """
    values = {}
    for name, is_float in _floats(kind).items():  # type: ignore[arg-type]
        if name in others:
            continue
        value = getattr(source, name)
        if value is not None:
            values[name] = float(value) if is_float else value
    return kind(**values, **others)


@cache
def _floats(kind: type[Any]) -> dict[str, bool]:
    """Returns, for each field name, whether the field is declared as a float and not as an integer."""
    are_floats = {}
    for name, hint in get_type_hints(kind).items():
        possible = get_args(hint) or (hint,)
        are_floats[name] = float in possible and int not in possible
    return are_floats
