"""The only clock: all durations that ltrbench reports are measured here, with the monotonic wall clock.

`now` gives the start and end times of a run.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Self


def now() -> str:
    """Returns the date and time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Stopwatch:
    """Sums the wall time of its `with` blocks.

    Attributes:
        seconds: sum so far, in seconds.

    >>> watch = Stopwatch()
    >>> with watch:
    ...     pass
    >>> watch.seconds >= 0.0
    True
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += time.perf_counter() - self._started
