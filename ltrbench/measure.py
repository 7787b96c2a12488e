"""Measurement: the clock, memory, available resources, and the load of the machine.

The only clock: all durations that ltrbench reports are measured here, with the monotonic wall clock.

`now` gives the start and end times of a run.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
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


# ---- Memory growth of a block of code, from the peak resident size that the kernel records.

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
# proc(5): writing 5 resets the peak resident size to the current size. ru_maxrss cannot be reset.
_RESET_PEAK = "5"


class MemoryMeter:
    """Growth of resident memory inside a `with` block: peak minus start.

    Attributes:
        rise_mb: growth in MB (10^6 bytes); None if not available, as outside Linux.

    >>> meter = MemoryMeter()
    >>> with meter:
    ...     block = bytearray(50_000_000)
    >>> meter.rise_mb is None or meter.rise_mb > 40
    True
    """

    def __init__(self) -> None:
        self.rise_mb: float | None = None
        self._before: float | None = None

    def __enter__(self) -> Self:
        _give_back()
        try:
            _CLEAR.write_text(_RESET_PEAK)
            self._before = _resident_mb("VmRSS")
        except OSError:  # not Linux, or forbidden in a container: not available, not zero
            self._before = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            self.rise_mb = max(_resident_mb("VmHWM") - self._before, 0.0)


@functools.cache
def spare_imports(module: str) -> None:
    """Excludes the objects that exist now, most of them from imported libraries, from garbage collection.

    Otherwise every MemoryMeter visits them: 0.1 to 0.2 s per run. An excluded object is still freed with its
    last reference, but a reference cycle that exists now is never freed. Call it in a process that only runs
    experiments, before the first run of each backend, when its library is imported.

    Args:
        module: module of the backend; a second call for the same module does nothing.
    """
    gc.collect()
    gc.freeze()


def _give_back() -> None:
    """Returns freed memory to the system; otherwise a block could reuse it without visible growth."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # not available in C libraries other than glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _resident_mb(key: str) -> float:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"{_STATUS} has no {key}")


# ---- Available memory and cores: what a process can still use, given the machine and its control groups.
#
# A container or a batch system limits memory by control groups. A process that exceeds the limit is killed
# without an exception, even if the machine has free memory.

_MACHINE = Path("/proc/meminfo")
_GROUPS = Path("/sys/fs/cgroup")
_GROUPS_OF_PROCESS = Path("/proc/self/cgroup")
# File cache in memory.stat, which the system frees when memory is short.
_CACHE = ("active_file", "inactive_file")


def available_cores() -> int:
    """Returns the number of cores that this process may use; a launcher or container may restrict it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_bytes() -> int:
    """Returns the bytes that this process can still allocate without swapping.

    This is the minimum of the machine's available memory and, for each control group of the process, its
    limit minus its usage. Outside Linux it is the memory of the machine.
    """
    try:
        available = [_amount(_MACHINE, "MemAvailable:") * 1024]
    except OSError:
        available = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for group in _groups():
        with contextlib.suppress(OSError, ValueError):  # no control groups, or "max": without a limit
            usage = int((group / "memory.current").read_text())
            used = usage - sum(_amount(group / "memory.stat", key) for key in _CACHE)
            available.append(max(int((group / "memory.max").read_text()) - used, 0))
    return min(available)


def _groups() -> Iterator[Path]:
    """Yields the folder of the control group (version 2) of this process and of the groups that contain
    it."""
    path = ""
    with contextlib.suppress(OSError):
        lines = [line.split(":", 2) for line in _GROUPS_OF_PROCESS.read_text().splitlines()]
        path = next((line[2] for line in lines if not line[1]), "")
    # Inside a container the path may be that of the host, which does not exist here; the root always does.
    group = _GROUPS / path.lstrip("/")
    yield group
    while group != _GROUPS:
        group = group.parent
        yield group


def _amount(path: Path, key: str) -> int:
    """Returns the number that follows a key, the first word of a line of the file."""
    for line in path.read_text().splitlines():
        words = line.split()
        if words and words[0] == key:
            return int(words[1])
    raise OSError(f"{path} has no {key}")


def load_average() -> float | None:
    """Returns the mean number of busy threads on this machine in the last minute; None where the system does
    not report it."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
