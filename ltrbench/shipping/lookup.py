"""Finds the target of a name: the class in the file of that name in `targets`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from ltrbench.errors import ConfigError, did_you_mean
from ltrbench.shipping import targets
from ltrbench.shipping.target import Target


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
