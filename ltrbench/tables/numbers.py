"""Number formats of all outputs: format specifications, functions, and `format_number`, which applies them.

A number is not available if it is None or not finite. The report replaces hyphens of numbers by minus signs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

DASH = "-"
"""Text of a number that is not available."""

OptionalNumber = float | int | None
Form = str | Callable[[Any], str]
"""Format of a number: a format specification or a function."""

QUALITY = ".4f"  # a metric
# z: no minus sign on values that round to 0
DIFFERENCE = "+z.4f"
SIGNED = "+z.3f"
COUNT = ",.0f"


def is_available(value: OptionalNumber) -> bool:
    """Returns whether there is a finite number."""
    return value is not None and math.isfinite(value)


def format_number(value: OptionalNumber | str, form: Form, missing: str = DASH) -> str:
    """Returns a formatted number, a text unchanged, or `missing` for a number that is not available.

    >>> format_number(0.68964, QUALITY), format_number(None, QUALITY), format_number("baseline", QUALITY)
    ('0.6896', '-', 'baseline')
    """
    if isinstance(value, str):
        return value
    if not is_available(value):
        return missing
    return format(value, form) if isinstance(form, str) else form(value)


def minus(a: str, b: str) -> str:
    """Returns the text of a difference of two names."""
    return f"{a} \N{MINUS SIGN} {b}"


def interval(low: float, high: float, form: Form = QUALITY) -> str:
    """Returns an interval with both ends in one format.

    >>> interval(-0.1, 0.25, DIFFERENCE)
    '[-0.1000, +0.2500]'
    """
    return f"[{format_number(low, form)}, {format_number(high, form)}]"


def p_value(value: float) -> str:
    """Returns a p-value with 4 decimals.

    >>> p_value(0.00001), p_value(0.0412)
    ('< 0.0001', '0.0412')
    """
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def share(value: float) -> str:
    """Returns a share in per cent.

    >>> share(0.2807)
    '28.1 %'
    """
    return f"{100 * value:.1f} %"


def significant(value: float) -> str:
    """Returns a number with three significant figures, for times and sizes.

    >>> significant(0.0012345), significant(1234.5), significant(2)
    ('0.00123', '1,234', '2')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def format_setting(value: object) -> str:
    """Returns a hyperparameter or a name in almost YAML notation.

    >>> format_setting(None), format_setting(True), format_setting(0.1), format_setting({})
    ('null', 'true', '0.1', '-')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping | list | tuple) and not value:
        return DASH
    return str(value)


def size(megabytes: float) -> str:
    """Returns a size in MB, kB or B.

    >>> size(0.00007), size(1.5)
    ('70 B', '1.5 MB')
    """
    return _in_units(1e6 * megabytes, (("MB", 1e6), ("kB", 1e3), ("B", 1)))


def duration(seconds: float) -> str:
    """Returns a time in s, ms or µs.

    >>> duration(3e-7), duration(0.012), duration(75)
    ('0.3 µs', '12 ms', '75 s')
    """
    return _in_units(seconds, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)))


def _in_units(value: float, units: Sequence[tuple[str, float]]) -> str:
    """Returns the value in the largest unit not above it, or in the smallest unit."""
    if value == 0:
        return f"0 {units[0][0]}"
    name, factor = next((unit for unit in units if value >= unit[1]), units[-1])
    return f"{value / factor:,.3g} {name}" if value < 1000 * factor else f"{value / factor:,.0f} {name}"
