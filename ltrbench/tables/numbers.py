"""How numbers are written: one function, and the formats of the report.

    figure     a number in its format, such as "+.4f"; a dash where it is not available
    quality, difference, share, ...    the report's formats, typeset: a minus sign as wide as the plus, an en
               dash where a number is not available, no sign on what rounds to 0

A number is not available where it is None or no finite number. A column of a `Table` takes either kind.
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
"""How a number is written: as a format specification says, or by a function."""


def is_available(value: OptionalNumber) -> bool:
    """Whether there is a number, and it is finite."""
    return value is not None and math.isfinite(value)


def figure(value: OptionalNumber | str, form: Form, missing: str = DASH) -> str:
    """Returns a number in its format, a text as it is, and `missing` for a number that is not available.

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
    # A minus is as wide as the plus, so that columns align.
    return text.replace("-", _MINUS) if any(digit in text for digit in "123456789") else text.lstrip("+-")


def quality(value: OptionalNumber) -> str:
    """
    >>> quality(0.68964), quality(float("nan"))
    ('0.6896', '–')
    """
    return _typeset(value, ".4f")


def difference(value: OptionalNumber) -> str:
    """
    >>> difference(-0.0027), difference(-1e-9)
    ('−0.0027', '0.0000')
    """
    return _typeset(value, "+.4f")


def minus(a: str, b: str) -> str:
    """Returns what is subtracted from what."""
    return f"{a} {_MINUS} {b}"


def signed(value: OptionalNumber) -> str:
    """
    >>> signed(0.1234)
    '+0.123'
    """
    return _typeset(value, "+.3f")


def interval(low: float, high: float, form: Form = quality) -> str:
    """
    >>> interval(-0.1, 0.25, difference), interval(-0.1, 0.25, "+.1f")
    ('[−0.1000, +0.2500]', '[-0.1, +0.2]')
    """
    return f"[{figure(low, form)}, {figure(high, form)}]"


def p_value(value: OptionalNumber) -> str:
    """
    >>> p_value(0.00001), p_value(0.0412)
    ('< 0.0001', '0.0412')
    """
    return _typeset(value, lambda p: "< 0.0001" if p < 0.0001 else f"{p:.4f}")


def share(value: OptionalNumber) -> str:
    """
    >>> share(0.2807)
    '28.1 %'
    """
    return _typeset(value, lambda part: f"{100 * part:.1f} %")


def significant(value: OptionalNumber) -> str:
    """Returns three significant figures, as times and sizes need.

    >>> significant(0.0012345), significant(1234.5), significant(2)
    ('0.00123', '1,234', '2')
    """
    return _typeset(value, lambda number: f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}")


def count(value: OptionalNumber) -> str:
    """
    >>> count(30000)
    '30,000'
    """
    return _typeset(value, ",.0f")


def setting_in_words(value: object) -> str:
    """Returns a hyperparameter or a name nearly as YAML has it.

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
    """
    >>> size(0.00007), size(1.5)
    ('70 B', '1.5 MB')
    """
    return _typeset(megabytes, lambda value: _in_units(1e6 * value, (("MB", 1e6), ("kB", 1e3), ("B", 1))))


def duration(seconds: OptionalNumber) -> str:
    """Returns a time in the unit in which it has a few figures.

    >>> duration(3e-7), duration(0.012), duration(75)
    ('0.3 µs', '12 ms', '75 s')
    """
    return _typeset(seconds, lambda time: _in_units(time, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))))


def _in_units(value: float, units: Sequence[tuple[str, float]]) -> str:
    """In the largest unit of which it is at least one; the smallest where it is less than any."""
    if value == 0:
        return f"0 {units[0][0]}"
    name, factor = next((unit for unit in units if value >= unit[1]), units[-1])
    return f"{value / factor:,.3g} {name}" if value < 1000 * factor else f"{value / factor:,.0f} {name}"
