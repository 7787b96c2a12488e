"""The sections of the report on a data set, found by themselves.

A section is a function from `Shown` to a `Section`, or to None where there is nothing to show:

    @section(place=125)
    def energy_section(shown: Shown) -> Section | None: ...

`place` says where on the page it stands: places are in steps of ten, from 10 for the leaderboard downwards.
To add one, write such a function in a file of the folder that it belongs to; nothing else changes.

    evidence   what may be claimed, and on what the claims rest
    queries    single queries and kinds of queries
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
"""Place -> what makes the section there."""


def section(place: int) -> Callable[[MakeSection], MakeSection]:
    """Registers a function as a section of the report.

    Args:
        place: on the page, counted from its top; unlike that of any other section.
    """

    def register(make: MakeSection) -> MakeSection:
        if place in _MAKERS:
            raise ValueError(f"{make.__name__} and {_MAKERS[place].__name__} are both sections at {place}.")
        _MAKERS[place] = make
        return make

    return register


def sections_by_place() -> dict[int, MakeSection]:
    """Returns place -> what makes the section there, from the top of the page downwards."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(_MAKERS.items()))
