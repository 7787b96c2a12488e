"""Available memory and cores: what a process can still use, given the machine and its control groups.

A container or a batch system limits memory by control groups. A process that exceeds the limit is killed
without an exception, even if the machine has free memory.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MACHINE = Path("/proc/meminfo")
_GROUPS = Path("/sys/fs/cgroup")
_GROUPS_OF_PROCESS = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class _Version:
    """Names of the files of one version of control groups; see cgroups(7)."""

    folder: str  # of the memory controller, below _GROUPS
    controllers: str  # of the line of the memory controller in /proc/self/cgroup
    limit: str
    usage: str
    cache: tuple[str, ...]  # keys of memory.stat: file cache, which the system frees when memory is short


_VERSIONS = (
    _Version("", "", "memory.max", "memory.current", ("active_file", "inactive_file")),
    _Version(
        "memory",
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
)


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
    for version in _VERSIONS:
        for group in _groups(version):
            with contextlib.suppress(OSError, ValueError):  # not this version, or "max": without a limit
                available.append(max(int((group / version.limit).read_text()) - _used(group, version), 0))
    return min(available)


def _groups(version: _Version) -> Iterator[Path]:
    """Yields the folder of the control group of this process and of the groups that contain it."""
    root = _GROUPS / version.folder
    path = ""
    with contextlib.suppress(OSError):
        lines = [line.split(":", 2) for line in _GROUPS_OF_PROCESS.read_text().splitlines()]
        path = next((line[2] for line in lines if version.controllers in line[1].split(",")), "")
    # Inside a container the path may be that of the host, which does not exist here; the root always does.
    group = root / path.lstrip("/")
    yield group
    while group != root:
        group = group.parent
        yield group


def _used(group: Path, version: _Version) -> int:
    usage = int((group / version.usage).read_text())
    return usage - sum(_amount(group / "memory.stat", key) for key in version.cache)


def _amount(path: Path, key: str) -> int:
    """Returns the number that follows a key, the first word of a line of the file."""
    for line in path.read_text().splitlines():
        words = line.split()
        if words and words[0] == key:
            return int(words[1])
    raise OSError(f"{path} has no {key}")
