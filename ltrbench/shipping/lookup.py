"""Finds and builds the target of a name: the class in the file of that name in `targets`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin

from ltrbench.errors import ConfigError, did_you_mean
from ltrbench.shipping import targets
from ltrbench.shipping.target import Target
from ltrbench.untrusted.records import mistake, types_of


def target_names() -> list[str]:
    """Returns the names of all targets, sorted; no target is imported."""
    return sorted(module.name for module in pkgutil.iter_modules(targets.__path__))


def find_target(name: str) -> type[Target]:
    """Returns the class of a target.

    Raises:
        ConfigError: There is no target of that name, or the package that it needs is not installed.
    """
    names = target_names()
    if name not in names:
        raise ConfigError(
            f"--to {name}: unknown target{did_you_mean(name, names)} Targets: {', '.join(names)}."
        )
    try:
        module = importlib.import_module(f"{targets.__name__}.{name}")
    except ImportError as error:
        if (error.name or "").startswith("ltrbench"):  # an error in the package, not a missing extra
            raise
        raise ConfigError(f"--to {name}: {error}") from error
    classes = [
        item
        for item in vars(module).values()
        if inspect.isclass(item)
        and issubclass(item, Target)
        and item.__module__ == module.__name__
        and not inspect.isabstract(item)
    ]
    if len(classes) != 1:
        raise ConfigError(
            f"--to {name}: {module.__name__} has {len(classes)} classes that derive from Target; a file in "
            "targets has exactly one."
        )
    return classes[0]


def takes_text(target_class: type[Target], option: str) -> bool:
    """Returns whether the values of an option are texts, also those that look like numbers."""
    declared = types_of(target_class).get(option)
    return declared is str or get_origin(declared) is Literal


def build_target(name: str, options: Mapping[str, Any]) -> Target:
    """Returns a target with options: fields of its class.

    Raises:
        ConfigError: There is no such target or option, or a value has the wrong type.
    """
    target_class = find_target(name)
    declared: Any = target_class  # a dataclass, by the contract
    types = {item.name: types_of(target_class)[item.name] for item in fields(declared) if item.init}
    for option, value in options.items():
        if option not in types:
            known = ", ".join(types) or "none"
            raise ConfigError(
                f"--set {option}: {name} has no such option{did_you_mean(option, types)} Options: {known}."
            )
        reason = _mistake(value, types[option], option)
        if reason:
            raise ConfigError(f"--set {reason}.")
    built: Target = declared(**options)
    return built


def _mistake(value: Any, declared: Any, option: str) -> str | None:
    if get_origin(declared) is not Literal:
        return mistake(value, declared, option)
    choices = get_args(declared)
    listed_choices = ", ".join(map(str, choices))
    return None if value in choices else f"{option} is {value!r}; one of {listed_choices} was expected"
