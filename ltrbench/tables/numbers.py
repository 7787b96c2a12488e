"""Number formats: one function, and the formats of the report.

    figure     formats a number, such as "+.4f"; a dash if it is not available
    quality, difference, share, ...    typeset formats of the report: a true minus sign, an en dash if a
    number
               is not available, no sign on numbers that round to 0

A number is not available if it is None or not finite. A column of a `Table` accepts both kinds of format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

DASH = "-"
EN_DASH = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"

OptionalNumber = float | int | None
Form = str | Callable[[Any], str]
"""Format of a number: a format specification or a function."""


def is_available(value: OptionalNumber) -> bool:
    """Returns whether there is a finite number."""
    return value is not None and math.isfinite(value)


def figure(value: OptionalNumber | str, form: Form, missing: str = DASH) -> str:
    """Returns a formatted number, a text unchanged, or `missing` for a number that is not available.

    >>> figure(0.68964, ".4f"), figure(None, ".4f"), figure("baseline", ".4f")
    ('0.6896', '-', 'baseline')
    """
    if isinstance(value, str):
        return value
    if not is_available(value):
        return missing
    return format(value, form) if isinstance(form, str) else form(value)


def _typeset(value: OptionalNumber, form: Form) -> str:
    text = figure(value, form, EN_DASH)
    # A minus sign is as wide as a plus, so columns align.
    return text.replace("-", _MINUS) if any(digit in text for digit in "123456789") else text.lstrip("+-")


def quality(value: OptionalNumber) -> str:
    """Returns a metric with 4 decimals.

    >>> quality(0.68964), quality(float("nan"))
    ('0.6896', '–')
    """
    return _typeset(value, ".4f")


def difference(value: OptionalNumber) -> str:
    """Returns a signed difference with 4 decimals.

    >>> difference(-0.0027), difference(-1e-9)
    ('−0.0027', '0.0000')
    """
    return _typeset(value, "+.4f")


def minus(a: str, b: str) -> str:
    """Returns the text of a difference of two names."""
    return f"{a} {_MINUS} {b}"


def signed(value: OptionalNumber) -> str:
    """Returns a signed number with 3 decimals.

    >>> signed(0.1234)
    '+0.123'
    """
    return _typeset(value, "+.3f")


def interval(low: float, high: float, form: Form = quality) -> str:
    """Returns an interval with both ends in one format.

    >>> interval(-0.1, 0.25, difference), interval(-0.1, 0.25, "+.1f")
    ('[−0.1000, +0.2500]', '[-0.1, +0.2]')
    """
    return f"[{figure(low, form)}, {figure(high, form)}]"


def p_value(value: OptionalNumber) -> str:
    """Returns a p-value with 4 decimals.

    >>> p_value(0.00001), p_value(0.0412)
    ('< 0.0001', '0.0412')
    """
    return _typeset(value, lambda p: "< 0.0001" if p < 0.0001 else f"{p:.4f}")


def share(value: OptionalNumber) -> str:
    """Returns a share in per cent.

    >>> share(0.2807)
    '28.1 %'
    """
    return _typeset(value, lambda part: f"{100 * part:.1f} %")


def significant(value: OptionalNumber) -> str:
    """Returns a number with three significant figures, for times and sizes.

    >>> significant(0.0012345), significant(1234.5), significant(2)
    ('0.00123', '1,234', '2')
    """
    return _typeset(value, lambda number: f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}")


def count(value: OptionalNumber) -> str:
    """Returns a count with thousands separators.

    >>> count(30000)
    '30,000'
    """
    return _typeset(value, ",.0f")


def setting_in_words(value: object) -> str:
    """Returns a hyperparameter or a name in almost YAML notation.

    >>> setting_in_words(None), setting_in_words(True), setting_in_words(0.1), setting_in_words({})
    ('null', 'true', '0.1', '–')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping | list | tuple) and not value:
        return EN_DASH
    return str(value)


def size(megabytes: OptionalNumber) -> str:
    """Returns a size in MB, kB or B.

    >>> size(0.00007), size(1.5)
    ('70 B', '1.5 MB')
    """
    return _typeset(megabytes, lambda value: _in_units(1e6 * value, (("MB", 1e6), ("kB", 1e3), ("B", 1))))


def duration(seconds: OptionalNumber) -> str:
    """Returns a time in s, ms or µs.

    >>> duration(3e-7), duration(0.012), duration(75)
    ('0.3 µs', '12 ms', '75 s')
    """
    return _typeset(seconds, lambda time: _in_units(time, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))))


def _in_units(value: float, units: Sequence[tuple[str, float]]) -> str:
    """Returns the value in the largest unit not above it, or in the smallest unit."""
    if value == 0:
        return f"0 {units[0][0]}"
    name, factor = next((unit for unit in units if value >= unit[1]), units[-1])
    return f"{value / factor:,.3g} {name}" if value < 1000 * factor else f"{value / factor:,.0f} {name}"
