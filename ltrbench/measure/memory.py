"""Memory growth of a block of code, from the peak resident size that the kernel records."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
from pathlib import Path
from types import TracebackType
from typing import Self

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

    Otherwise every MemoryMeter visits them: 0.05 to 0.1 s per run. An excluded object is still freed with its
    last reference, but a reference cycle that exists now is never freed. Call it in a process that only runs
    experiments, after the first run of each backend, when all its libraries are imported.

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
