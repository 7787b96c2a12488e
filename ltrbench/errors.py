"""The errors that a user can mend. Their message names the value, what was expected, and the remedy.

The command line prints them as one paragraph and exits with 2; anything else that escapes is a failed run,
exit code 1.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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
