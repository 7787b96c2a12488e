"""How numbers are written in the report. What is not known is a dash, and NaN is not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ltrbench.statistics import Interval

NOTHING = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"

Number = float | int | None


def is_known(value: Number) -> bool:
    return value is not None and math.isfinite(value)


def _written(value: Number, write: Callable[[float], str]) -> str:
    if value is None or not math.isfinite(value):
        return NOTHING
    text = write(value)
    # What is rounded to nothing has no sign; a minus is as wide as the plus, so that columns align.
    return text.replace("-", _MINUS) if any(digit in text for digit in "123456789") else text.lstrip("+-")


def quality(value: Number) -> str:
    """
    >>> quality(0.68964), quality(float("nan"))
    ('0.6896', '–')
    """
    return _written(value, "{:.4f}".format)


def difference(value: Number) -> str:
    """
    >>> difference(-0.0027), difference(-1e-9)
    ('−0.0027', '0.0000')
    """
    return _written(value, "{:+.4f}".format)


def minus(a: str, b: str) -> str:
    """What is subtracted from what."""
    return f"{a} {_MINUS} {b}"


def signed(value: Number) -> str:
    """
    >>> signed(0.1234)
    '+0.123'
    """
    return _written(value, "{:+.3f}".format)


def interval(found: Interval | None, write: Callable[[Number], str] = quality) -> str:
    return "" if found is None else f"[{write(found.low)}, {write(found.high)}]"


def p_value(value: Number) -> str:
    """
    >>> p_value(0.00001), p_value(0.0412)
    ('< 0.0001', '0.0412')
    """
    return _written(value, lambda p: "< 0.0001" if p < 0.0001 else f"{p:.4f}")


def share(value: Number) -> str:
    """
    >>> share(0.2807)
    '28.1 %'
    """
    return _written(value, lambda part: f"{100 * part:.1f} %")


def significant(value: Number) -> str:
    """Three significant figures, as times and sizes need.

    >>> significant(0.0012345), significant(1234.5), significant(2)
    ('0.00123', '1,234', '2')
    """
    return _written(value, lambda number: f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}")


def count(value: Number) -> str:
    """
    >>> count(30000)
    '30,000'
    """
    return _written(value, "{:,.0f}".format)


def setting(value: object) -> str:
    """A hyperparameter or a name: as it is written in YAML, nearly.

    >>> setting(None), setting(True), setting(0.1), setting({})
    ('null', 'true', '0.1', '–')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping | list | tuple) and not value:
        return NOTHING
    return str(value)


def size(megabytes: Number) -> str:
    """
    >>> size(0.00007), size(1.5)
    ('70 B', '1.5 MB')
    """
    return _written(megabytes, lambda value: _in_units(1e6 * value, (("MB", 1e6), ("kB", 1e3), ("B", 1))))


def duration(seconds: Number) -> str:
    """Of the unit in which it is a number of a few figures.

    >>> duration(3e-7), duration(0.012), duration(75)
    ('0.3 µs', '12 ms', '75 s')
    """
    return _written(seconds, lambda time: _in_units(time, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))))


def _in_units(value: float, units: Sequence[tuple[str, float]]) -> str:
    """In the largest unit of which it is at least one; the smallest where it is less than any."""
    if value == 0:
        return f"0 {units[0][0]}"
    name, factor = next((unit for unit in units if value >= unit[1]), units[-1])
    return f"{value / factor:,.3g} {name}" if value < 1000 * factor else f"{value / factor:,.0f} {name}"
