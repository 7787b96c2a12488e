"""The translation of each shared parameter in each backend, found by setting the parameter."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from docs.macros.parameters import boosting_models
from docs.macros.tables import code, table
from ltrbench.errors import ConfigError
from ltrbench.rankers import BoostingRanker
from ltrbench.rankers.library import SHARED_FIELDS


def translation() -> str:
    """Returns a table of library parameters with one row per shared parameter and one column per backend."""
    models = boosting_models()
    rows = [
        [code(field), *(_translated(ranker, field) for ranker in models.values())]
        for field in SHARED_FIELDS
    ]
    return table(["parameter", *models], rows)


def _translated(ranker: BoostingRanker, field: str) -> str:
    """Returns the translation of a field, found with its matched value, another value, and null."""
    value = getattr(ranker, field)
    if value is None:
        return "not applied"
    usual, unset = (
        ranker.library_parameters(),
        _varied(ranker, field, None).library_parameters(),
    )
    other_value = value // 2 if isinstance(value, int) else value * 2 or 1.0
    try:
        other = _varied(ranker, field, other_value).library_parameters()
    except ConfigError:
        fixed = [
            f"`{name} = {usual[name]}`"
            for name in usual
            if usual[name] != unset.get(name)
        ]
        return "; ".join([*fixed, f"{value:g} or null only"])
    relations = [
        _relation(name, (value, usual[name]), (other_value, other[name]))
        for name in usual
        if name in other
    ]
    implied = [
        f"`{name} = {usual[name]}`"
        for name in usual
        if usual[name] == other.get(name) and usual[name] != unset.get(name)
    ]
    return "; ".join([*filter(None, relations), *implied])


def _varied(ranker: BoostingRanker, field: str, value: Any) -> BoostingRanker:
    settings: dict[str, Any] = {field: value}
    return replace(ranker, **settings)


def _relation(name: str, usual: tuple[float, Any], other: tuple[float, Any]) -> str:
    """Returns the linear relation between a library's parameter and ltrbench's, from two points; "" if there
    is none, and the name alone if the value is unchanged.

    >>> _relation("eta", (0.1, 0.2), (0.2, 0.4)), _relation("border_count", (255, 254), (127, 126))
    ('`eta = 2 * value`', '`border_count = value - 1`')
    """
    (x, y), (other_x, other_y) = usual, other
    if y == other_y:
        return ""
    slope = (other_y - y) / (other_x - x)
    constant = y - slope * x
    if math.isclose(slope, 1) and math.isclose(constant, 0, abs_tol=1e-9):
        return f"`{name}`"
    factor = "" if math.isclose(slope, 1) else f"{slope:g} * "
    sign = "-" if constant < 0 else "+"
    shift = (
        "" if math.isclose(constant, 0, abs_tol=1e-9) else f" {sign} {abs(constant):g}"
    )
    return f"`{name} = {factor}value{shift}`"
