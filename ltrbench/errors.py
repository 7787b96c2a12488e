"""Errors that a user can fix. The message names the value, what was expected, and the remedy.

The command line prints such an error as one paragraph and exits with code 2. Any other exception is a failed
run, exit code 1.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Collection, Iterable
from typing import Any


class LtrbenchError(Exception):
    """Invalid user input. The message names the value, its place and the remedy."""


class DataError(LtrbenchError, ValueError):
    """Invalid data set or data file."""


class DivergenceError(DataError):
    """Training that diverged.

    Attributes:
        curve: the learning curve until then, as `FitCurve`.
    """

    curve: Any = None


class ConfigError(LtrbenchError, ValueError):
    """Setting that does not exist, has the wrong type, or is not supported."""


class DebiasingError(ConfigError):
    """Correction of clicks that a backend does not have. A sweep leaves the job out and says so."""


class UndefinedMetricError(ConfigError):
    """Metric that a convention does not define, in general or for these data."""


class TrackingError(LtrbenchError):
    """Tracking store that cannot be reached or rejects a record."""


class ResultError(LtrbenchError):
    """Folder that is not a run, or a run that does not support the requested operation."""


class DamagedRunError(ResultError):
    """Run whose result or scores cannot be read: it counts as unfinished, and may be trained again."""


def error_text(error: BaseException) -> str:
    """Returns the message of a user error, or the type, the message and the remedy of any other failure."""
    if isinstance(error, LtrbenchError):
        return f"error: {error}"
    remedy = "" if debugging() else " (LTRBENCH_DEBUG=1 shows the traceback)"
    return f"failed: {type(error).__name__}: {error}{remedy}"


def debugging() -> bool:
    """Returns whether tracebacks are shown: LTRBENCH_DEBUG=1."""
    return os.environ.get("LTRBENCH_DEBUG") == "1"


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Returns the end of a sentence: `; did you mean 'x'?` with the choice closest to `word`, or a full stop.

    Upper and lower case count as equal.

    >>> did_you_mean("num_leavs", ["num_leaves", "num_trees"])
    "; did you mean 'num_leaves'?"
    >>> did_you_mean("ndgc", ["NDCV", "NDCG"])
    "; did you mean 'NDCG'?"
    >>> did_you_mean("zzz", ["num_leaves"])
    '.'
    """
    word = word.lower()
    spelt = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word, spelt)
    # Transposed letters are more likely than another word of equal distance.
    close.sort(key=lambda choice: sorted(choice) != sorted(word))
    if close:
        return f"; did you mean '{spelt[close[0]]}'?"
    return "."


def require(
    name: str,
    value: float | None,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
) -> None:
    """Raises ConfigError if a value is set and out of range or infinite.

    >>> require("num_leaves", 31, at_least=2)
    """
    if value is None:
        return
    inside = (
        (at_least is None or value >= at_least)
        and (above is None or value > above)
        and (at_most is None or value <= at_most)
        and value not in (math.inf, -math.inf)
    )
    if not inside:
        limits = {"at least": at_least, "more than": above, "at most": at_most}
        bounds = [
            f"{word} {limit}" for word, limit in limits.items() if limit is not None
        ]
        if value in (math.inf, -math.inf):
            bounds.append("finite")
        raise ConfigError(f"{name} is {value}; it must be {' and '.join(bounds)}.")


def require_choice(name: str, value: str | None, choices: Collection[str]) -> None:
    """Raises ConfigError if a value is set and not one of the choices.

    >>> require_choice("objective", "ndcg", ["ndcg", "map"])
    """
    if value is not None and value not in choices:
        close = did_you_mean(str(value), choices)
        raise ConfigError(
            f"{name} is '{value}'{close} It must be one of {', '.join(choices)}."
        )
