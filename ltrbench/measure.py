"""Measurement and provenance: time, memory and load; settings, versions, machine and commit of a result.

The only clock: all durations that ltrbench reports are measured here, with the monotonic wall clock.

Versions, machine and commit are read once per process: they describe the code that the process has imported,
and a sweep of a thousand runs would otherwise start git two thousand times.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import hashlib
import itertools
import math
import os
import platform
import re
import subprocess
import time
import timeit
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self, get_args, get_type_hints

import numpy as np

from ltrbench.version import __version__


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

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._started


def latency_of(
    predict: Callable[[Any], object], lists: Sequence[Any], num_timed: int = 200
) -> tuple[float, float]:
    """Returns the median and the 99th percentile of the time to score one list, in ms.

    The lists are scored one at a time, in turn, after each was scored once without timing.

    Args:
        lists: Features of the documents of each list.
    """
    in_turn = itertools.cycle(lists)
    seconds = timeit.repeat(
        lambda: predict(next(in_turn)), number=1, repeat=len(lists) + num_timed
    )
    timed = seconds[len(lists) :]
    median, p99 = np.quantile(timed, [0.5, 0.99]).tolist()
    return 1e3 * median, 1e3 * p99


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
            self._before = _resident_mb("VmRSS:")
        # Not Linux, or forbidden in a container: not available, not zero.
        except OSError:
            self._before = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self.rise_mb = max(_resident_mb("VmHWM:") - self._before, 0.0)


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
    # Not available in C libraries other than glibc.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _resident_mb(key: str) -> float:
    return _amount(_STATUS, key) * 1024 / 1e6


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
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
        # No control groups, or "max": without a limit.
        with contextlib.suppress(OSError, ValueError):
            usage = int((group / "memory.current").read_text())
            cached = [_amount(group / "memory.stat", key) for key in _CACHE]
            limit = int((group / "memory.max").read_text())
            available.append(max(limit - (usage - sum(cached)), 0))
    return min(available)


def _groups() -> list[Path]:
    """Returns the folder of the control group (version 2) of this process and of the groups that contain
    it."""
    found = None
    with contextlib.suppress(OSError):
        found = re.search(r"^0::/(.*)$", _GROUPS_OF_PROCESS.read_text(), re.MULTILINE)
    # Inside a container the path may be that of the host, which does not exist here; the root always does.
    group = _GROUPS / (found[1] if found else "")
    return [
        folder for folder in (group, *group.parents) if folder.is_relative_to(_GROUPS)
    ]


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


# ---- Provenance of results: settings, versions, machine and commit.

_CHANGES = ("status", "--porcelain", "--untracked-files=no", "--")
_CODE = ((":(top,exclude)results",), (":(top)results/*.py",))
"""Paths whose changes mark the commit: everything but results/, and the code in results/."""
_ALWAYS = ("numpy", "scipy", "numba", "hydra-core")
_ALTERNATIVES = {"xgboost": ("xgboost-cpu",)}
"""Other distributions of the same package."""


def versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Returns the versions of Python, ltrbench, its core dependencies and the given distributions.

    The version of a distribution that is not installed is "absent"; xgboost may be installed as xgboost-cpu.
    """
    installed = {"python": platform.python_version(), "ltrbench": __version__}
    return installed | {name: _version(name) for name in (*_ALWAYS, *packages)}


@functools.cache
def _version(name: str) -> str:
    for distribution in (name, *_ALTERNATIVES.get(name, ())):
        with contextlib.suppress(PackageNotFoundError):
            return version(distribution)
    return "absent"


def machine() -> dict[str, str | int]:
    """Returns system, processor and number of cores of this machine."""
    return {
        "system": platform.platform(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count() or 1,
    }


def commit() -> str | None:
    """Returns the git commit of the current folder, with "-dirty" if files differ; None outside git.

    Changes below results/ other than of code are ignored: `make results` writes files there that no later
    study reads. A process reads the commit of a folder once, because a later commit does not change the code
    that it has imported.
    """
    return _commit_of(Path.cwd())


@functools.cache
def _commit_of(folder: Path) -> str | None:
    head = _git(folder, "rev-parse", "HEAD")
    if head is None:
        return None
    if any(_git(folder, *_CHANGES, *paths) for paths in _CODE):
        return f"{head}-dirty"
    return head


def without_password(text: str) -> str:
    """Returns the text with the passwords of addresses masked, because results are published.

    A password may contain /, ? and @, although an address should have them as %2F, %3F and %40. Only in http
    addresses, where a password cannot contain them, is a number before / or ? a port. Values behind `?` are
    masked whatever their name is, such as token and sslpassword; SQLite has no secrets there.

    >>> without_password("http://me:secret@host:5000, postgresql://me@work:s/cr@t@host/name")
    'http://me:***@host:5000, postgresql://me@work:***@host/name'
    >>> without_password("http://host:5000/files/a@b")
    'http://host:5000/files/a@b'
    >>> without_password("postgresql://me:12/34secret@host/name, postgresql://me@host:5432/name")
    'postgresql://me:***@host/name, postgresql://me@host:5432/name'
    >>> without_password("postgresql://host:5432/name?user=me&sslpassword=secr@t")
    'postgresql://host:5432/name?user=***&sslpassword=***'
    """
    # Values behind the last @ of user and host come first, because they may contain @ as well.
    text = _QUERY_WITH_USER.sub(_with_masked_query, text)
    for password in (_PASSWORD, _PASSWORD_OF_HTTP):
        text = password.sub(r"\1:***@", text)
    return _QUERY.sub(_with_masked_query, text)


# A port, a name and values behind ?, which have an @, are no password.
_PASSWORD = re.compile(
    r"((?<!http)(?<!https)://[^\s:/\"']*):(?!\d+/[^\s\"'@?]*\?[^\s\"'=@]*=)[^\s\"']+@"
)
_PASSWORD_OF_HTTP = re.compile(
    r"((?:(?<=http)|(?<=https))://[^\s:/\"']*):(?!\d+[/?])[^\s\"']+@"
)
_QUERY_WITH_USER = re.compile(r"(://[^\s\"']*?@[^\s\"'?@]*\?)([^\s\"']+)")
_QUERY = re.compile(r"((?<!sqlite)://[^\s\"'?]*\?)([^\s\"']+)")


def _with_masked_query(address: re.Match[str]) -> str:
    return address[1] + re.sub(r"=[^&]+", "=***", address[2])


def lacks_password(text: str) -> bool:
    """Returns whether `without_password` has masked something in a text."""
    return ":***@" in text or "=***" in text


def described(instance: Any) -> dict[str, Any]:
    """Returns the class and the constructor arguments of a dataclass object, as JSON values.

    Returns:
        "class": dotted name, as in `_target_` of a YAML file; "fields": fields of the constructor with their
        values. An array is given by type, shape and digest, a data set by its fingerprint.

    >>> from ltrbench.rankers.single_feature import SingleFeatureRanker
    >>> described(SingleFeatureRanker(seed=3))["fields"]
    {'seed': 3, 'num_threads': 0, 'metric': 'ndcg@10'}
    """
    return {"class": _dotted(type(instance)), "fields": _fields(instance)}


def _fields(instance: Any) -> dict[str, Any]:
    declared = _declared(type(instance))
    recorded: dict[str, Any] = {}
    for item in fields(instance):
        if not item.init:
            continue
        value = getattr(instance, item.name)
        # The class of a dataclass is recorded with its fields, unless the annotation names it.
        is_declared = type(value) in declared.get(item.name, ())
        if is_declared and is_dataclass(value):
            recorded[item.name] = _fields(value)
        else:
            recorded[item.name] = plain(value)
    return recorded


def _declared(kind: type[Any]) -> dict[str, tuple[Any, ...]]:
    """Returns field -> classes in its annotation; empty if annotations cannot be resolved."""
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError, AttributeError):
        return {}
    classes = {}
    for name, hint in hints.items():
        classes[name] = get_args(hint) or (hint,)
    return classes


def plain(value: Any) -> Any:
    """Returns the value of a setting as a JSON value, with passwords of addresses masked; NaN is None.

    >>> plain((Path("a"), math.inf, np.float32(0.5), {"b": math.nan}))
    ['a', 'inf', 0.5, {'b': None}]
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isfinite(value):
            return float(value)
        return str(float(value))
    if isinstance(value, (str, Path)):
        return without_password(str(value))
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        digest = hashlib.blake2b(value.tobytes(), digest_size=8).hexdigest()
        return f"{value.dtype} array of shape {value.shape}, digest {digest}"
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    fingerprint = getattr(value, "fingerprint", None)
    if isinstance(fingerprint, str):
        return {"fingerprint": fingerprint}
    if is_dataclass(value) and not isinstance(value, type):
        return {"_target_": _dotted(type(value)), **_fields(value)}
    if hasattr(value, "__qualname__"):
        return _dotted(value)
    # Memory addresses differ between processes.
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))


def _dotted(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"


@functools.cache
def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    for line in lines:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return ""


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode == 0:
        return done.stdout.strip()
    return None
