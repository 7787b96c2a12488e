"""The sections of the report on a data set, registered by a decorator.

A section is a function from `Shown` to a `Section`, or to None if there is nothing to show:

    @section(place=125)
    def energy_section(shown: Shown) -> Section | None: ...

`place` is its position on the page, in steps of ten, from 10 for the leaderboard downwards. To add a section,
write such a function in a file of one of these folders; nothing else changes:

    evidence   claims and their evidence
    queries    single queries and kinds of queries
    search     searches for settings: budgets, values, importance of settings
    runs       quality by cutoff and iteration, costs, features, settings, data, notes
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from ltrbench.compare.output.report.parts import Section
from ltrbench.compare.output.report.shown import Shown

MakeSection = Callable[[Shown], Section | None]

_MAKERS: dict[int, MakeSection] = {}
"""Place -> function that makes the section."""


def section(place: int) -> Callable[[MakeSection], MakeSection]:
    """Registers a function as a section of the report.

    Args:
        place: Position on the page, from its top; unique.

    Raises:
        ValueError: Another section has this place.
    """

    def register(make: MakeSection) -> MakeSection:
        if place in _MAKERS:
            raise ValueError(f"{make.__name__} and {_MAKERS[place].__name__} are both sections at {place}.")
        _MAKERS[place] = make
        return make

    return register


def sections_by_place() -> dict[int, MakeSection]:
    """Returns place -> function that makes the section, from the top of the page downwards."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(_MAKERS.items()))
