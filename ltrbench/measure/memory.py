"""How far a block of work lifts the memory of this process, from the kernel's own high-water mark."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from pathlib import Path
from types import TracebackType
from typing import Self

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
# proc(5): writing 5 sets the peak resident size back to the current one. ru_maxrss can never be set back.
_RESET_PEAK = "5"


class MemoryMeter:
    """The rise of resident memory inside a `with` block, peak against beginning.

    Attributes:
        rise_mb: MB (10^6 bytes); None where the system does not tell, as outside Linux.

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
        except OSError:  # not Linux, or a container that forbids it: the figure is then unknown, not zero
            self._before = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            self.rise_mb = max(_resident_mb("VmHWM") - self._before, 0.0)


def _give_back() -> None:
    """Returns freed memory to the system, or a block would reuse unseen what the one before it has freed."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # a C library other than glibc keeps what it keeps
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _resident_mb(key: str) -> float:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{key}:"):
            kilobytes = int(line.split()[1])
            return kilobytes * 1024 / 1e6
    raise OSError(f"{_STATUS} has no {key}")
