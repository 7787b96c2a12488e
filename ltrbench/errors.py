"""The errors that a user can mend. Their message names the value, what was expected, and the remedy.

The command line prints them as one paragraph and exits with 2; anything else that escapes is a failed run,
exit code 1.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


class LtrbenchError(Exception):
    """A mistake in what the user gave: the message says what, where, and what to do about it."""


class DataError(LtrbenchError):
    """A data set or file that cannot be used as it is."""


class ConfigError(LtrbenchError):
    """A setting that does not exist, has the wrong type, or cannot be honoured."""


class UndefinedMetricError(ConfigError):
    """A metric that a convention does not define, at all or on these data."""


class TrackingError(LtrbenchError):
    """A tracking store that cannot be reached or refuses what it is given."""


class ResultError(LtrbenchError):
    """A folder that is not a run, or a run that cannot do what is asked of it."""


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The end of a sentence: `; did you mean 'x'?` for the choice closest to `word`, or a full stop.

    >>> did_you_mean("num_leavs", ["num_leaves", "num_trees"])
    "; did you mean 'num_leaves'?"
    >>> did_you_mean("zzz", ["num_leaves"])
    '.'
    """
    close = difflib.get_close_matches(word, list(choices), n=1)
    return f"; did you mean '{close[0]}'?" if close else "."


def require(
    name: str,
    value: float | None,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
) -> None:
    """Raises ConfigError where a value, if set, is out of its range.

    >>> require("num_leaves", 31, at_least=2)
    """
    if value is None:
        return
    inside = (
        (at_least is None or value >= at_least)
        and (above is None or value > above)
        and (at_most is None or value <= at_most)
    )
    if not inside:
        bounds = [
            f"{word} {bound}"
            for word, bound in (("at least", at_least), ("more than", above), ("at most", at_most))
            if bound is not None
        ]
        raise ConfigError(f"{name} is {value}; it must be {' and '.join(bounds)}.")


def require_choice(name: str, value: str | None, choices: Collection[str]) -> None:
    """Raises ConfigError where a value, if set, is none of the words that it may be.

    >>> require_choice("objective", "ndcg", ["ndcg", "map"])
    """
    if value is not None and value not in choices:
        close = did_you_mean(value, choices)
        raise ConfigError(f"{name} is '{value}'{close} It must be one of {', '.join(choices)}.")
