"""The translation of each shared parameter in each backend, found by setting the parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from docs.macros.parameters import boosting_models
from docs.macros.tables import code, table
from ltrbench.errors import ConfigError
from ltrbench.rankers import BoostingRanker
from ltrbench.rankers.library import SHARED_FIELDS

Point = tuple[float, Any]
"""Value of a shared parameter, and value of a library's parameter."""


def translation() -> str:
    """Returns a table of library parameters with one row per shared parameter and one column per backend."""
    models = boosting_models()
    rows = []
    for field in SHARED_FIELDS:
        cells = [_translated(ranker, field) for ranker in models.values()]
        rows.append([code(field), *cells])
    return table(["parameter", *models], rows)


def _translated(ranker: BoostingRanker, field: str) -> str:
    """Returns the translation of a field, found with its matched value, another value, and null."""
    value = getattr(ranker, field)
    if value is None:
        return "not applied"
    usual = ranker.library_parameters()
    unset = _varied(ranker, field, None).library_parameters()
    set_by_field = [name for name in usual if usual[name] != unset.get(name)]
    other_value = _another(value)
    try:
        other = _varied(ranker, field, other_value).library_parameters()
    except ConfigError:
        fixed = _assigned(usual, set_by_field)
        return "; ".join([*fixed, f"{value:g} or null only"])
    common = [name for name in usual if name in other]
    changed = [name for name in common if usual[name] != other[name]]
    constant = [name for name in set_by_field if usual[name] == other.get(name)]
    relations = [
        _relation(name, (value, usual[name]), (other_value, other[name]))
        for name in changed
    ]
    return "; ".join([*relations, *_assigned(usual, constant)])


def _another(value: float) -> float:
    """Returns another value of a parameter."""
    if isinstance(value, int):
        return value // 2
    return value * 2 or 1.0


def _assigned(parameters: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [f"`{name} = {parameters[name]}`" for name in names]


def _varied(ranker: BoostingRanker, field: str, value: Any) -> BoostingRanker:
    settings: dict[str, Any] = {field: value}
    return replace(ranker, **settings)


def _relation(name: str, usual: Point, other: Point) -> str:
    """Returns the linear relation between a library's parameter and ltrbench's, from two points; the name
    alone if the value is unchanged.

    >>> _relation("eta", (0.1, 0.2), (0.2, 0.4)), _relation("border_count", (255, 254), (127, 126))
    ('`eta = 2 * value`', '`border_count = value - 1`')
    """
    x, y = usual
    other_x, other_y = other
    slope = (other_y - y) / (other_x - x)
    constant = y - slope * x
    has_factor = not math.isclose(slope, 1)
    has_shift = not math.isclose(constant, 0, abs_tol=1e-9)
    if not has_factor and not has_shift:
        return f"`{name}`"
    formula = f"{slope:g} * value" if has_factor else "value"
    if has_shift:
        sign = "-" if constant < 0 else "+"
        formula += f" {sign} {abs(constant):g}"
    return f"`{name} = {formula}`"
