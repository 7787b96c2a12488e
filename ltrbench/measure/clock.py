"""The one clock. Every number of seconds that ltrbench reports was taken here, on the monotonic wall
clock; `now` is for the moments at which a run began and ended."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Self


def now() -> str:
    """Returns the date and time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Stopwatch:
    """Adds up the wall time of the `with` blocks it guards.

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
