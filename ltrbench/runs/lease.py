"""A lease on a folder with a heartbeat: one process at a time works in the folder, on whatever host.

    with hold(folder) as lease:
        ...                # compute
        lease.check()      # before files are published

The file system may be shared by hosts and containers (NFS): only exclusive creation, hard links and
modification times are relied on, no locks and no clock of a host.

The lease is a file `.NAME-GENERATION` in the folder; the highest generation counts. A process acquires the
lease by creating the next generation, which only one process can do. It may do so if there is none yet, or if
the holder of the highest one has

- released it: its modification time is `_RELEASED`, which needs no space on a full disk;
- died: host, boot and pid namespace are those of the reader, where the process no longer exists;
- expired, judged from elsewhere: the modification time, which the holder renews every `BEAT_SECONDS`, is
  older than `EXPIRY_SECONDS` by the clock of the file system. Damaged content is judged by this alone.

A generation is not used twice, so that a process that was suspended cannot touch the lease of a later holder.
Only the holder deletes files: earlier generations, drafts of killed processes, and its own file if the work
in the folder is complete. A holder that was suspended notices in `Lease.check` that its lease was taken over.
A computation that keeps Python's other threads from running for `EXPIRY_SECONDS` loses its lease to other
hosts too.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import math
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypedDict

from ltrbench.disk import delete_abandoned
from ltrbench.errors import ResultError
from ltrbench.measure import now
from ltrbench.runs.record import writing_to
from ltrbench.untrusted import Count, Must, Name, mistake, read_json

BEAT_SECONDS = 10.0
EXPIRY_SECONDS = 60.0
"""Six beats, so that a file server that is away for some beats costs no lease."""
_POLL_SECONDS = 0.2
_CLOCK_SECONDS = 10.0
"""Time for which the clock of a file system is extrapolated: it is read by creating a file."""
_MOST_ATTEMPTS = 20
_UNKNOWN = "unknown"
_RELEASED = 1_000_000_000
"""Modification time of a released lease, seconds: in 2001, which every file system can represent."""
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
"""Errors of `link` on file systems without hard links."""


class LeaseHeldError(ResultError):
    """Folder in which another process works."""


class LeaseLostError(ResultError):
    """Folder that another process has taken over."""


@dataclass(frozen=True)
class Holder:
    """Process that holds a lease. If the file is damaged, the host is "unknown" and pid 0.

    Attributes:
        since: date and time at which it acquired the lease.
    """

    host: str
    pid: int
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host} since {self.since}"


class _Place(TypedDict):
    """Where a process runs. Two processes in the same place see each other under their process ids."""

    host: Name
    boot: Name | None
    pid_namespace: int | None


class _LeaseRecord(_Place):
    """Content of the file; process_start is in clock ticks since the boot, None without /proc."""

    pid: Annotated[Count, Must("1 or more", lambda pid: pid >= 1)]
    process_start: int | None
    since: Name
    token: Name


@dataclass
class Lease:
    """A lease that this process holds.

    Attributes:
        folder: with symbolic links resolved.
        path: file of the generation.
        token: random text in the file, which identifies the holder.
        pid: process that acquired the lease; a process forked from it does not release it.
        is_complete: the work in the folder is complete: the lease leaves no file. Whoever acquires the lease
            afterwards must find the work and do nothing.
    """

    folder: Path
    name: str
    path: Path
    token: str
    pid: int
    is_complete: bool = False

    def check(self) -> None:
        """Checks that no other process has taken the lease over; call it before files are published.

        Raises:
            LeaseLostError: Another process has taken it over.
        """
        if not self._is_held():
            other = holder(self.folder, self.name) or "another process"
            raise LeaseLostError(
                f"{self.folder} was taken over by {other}, because process {self.pid} on host "
                f"{socket.gethostname()} gave no sign of life for {EXPIRY_SECONDS:g} s, as if it had been "
                "suspended. Its results are discarded; if the other process does not finish the work, run "
                "the command again."
            )

    def _is_held(self) -> bool:
        # A network file system may list a folder from a cache, but checks a file when it opens it.
        record = _read(self.path)
        if record is None or record["token"] != self.token:
            return False
        return self.path == _path(self.folder, self.name, max(_generations(self.folder, self.name)))

    def _release(self) -> None:
        if os.getpid() != self.pid or not self._is_held():
            return
        if self.is_complete:
            self.path.unlink(missing_ok=True)
        else:
            os.utime(self.path, (_RELEASED, _RELEASED))


@contextlib.contextmanager
def hold(folder: Path, name: str = "lease", wait: float = 0.0) -> Iterator[Lease]:
    """Holds the lease on a folder for the duration of the block; creates the folder if it does not exist.

    Args:
        wait: seconds to wait for another holder.

    Raises:
        LeaseHeldError: Another process, or another thread of this process, holds the lease.
        ResultError: The folder cannot be written.
    """
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lease = _acquire(folder, name, wait)
    _beats.add(lease)
    try:
        yield lease
    finally:
        _beats.remove(lease)
        lease._release()


def holder(folder: Path, name: str = "lease") -> Holder | None:
    """Returns the process that holds the lease on a folder, or None; costs one listing of the folder."""
    try:
        return _holder_of(folder, name, max(_generations(folder, name), default=0))
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_abandoned(folder: Path, name: str = "lease") -> bool:
    """Returns whether the last holder of the lease on a folder ended before its work was complete."""
    try:
        latest = max(_generations(folder, name), default=0)
        return latest > 0 and _holder_of(folder, name, latest) is None
    except (FileNotFoundError, NotADirectoryError):
        return False


def check_lease(folder: Path) -> None:
    """Checks the lease of this process on a folder, if it holds one, as `Lease.check` does.

    Raises:
        LeaseLostError: Another process has taken it over.
    """
    lease = _beats.of_folder(folder.resolve())
    if lease is not None:
        lease.check()


def _acquire(folder: Path, name: str, wait: float) -> Lease:
    end = time.monotonic() + wait
    place = folder.resolve()
    while True:
        taken = _take(place, name)
        if isinstance(taken, Lease):
            return taken
        if time.monotonic() >= end:
            raise LeaseHeldError(
                f"{folder} is in use by {taken}. Wait until that process ends, end it, or choose another "
                "folder."
            )
        time.sleep(_POLL_SECONDS)


def _take(folder: Path, name: str) -> Lease | Holder:
    """Acquires the lease, or returns its holder."""
    for _ in range(_MOST_ATTEMPTS):
        latest = max(_generations(folder, name), default=0)
        current = _holder_of(folder, name, latest)
        if current is not None:
            return current
        path = _path(folder, name, latest + 1)
        lease = Lease(folder, name, path, secrets.token_hex(8), os.getpid())
        if not create_once(path, json.dumps(_record_of(lease)).encode()):
            continue
        generations = _generations(folder, name)
        if max(generations, default=0) == latest + 1 and (latest == 0 or latest in generations):
            _delete(folder, name, generations - {latest + 1})
            return lease
        # The generations were read before another process acquired the lease, and completed its work.
        path.unlink(missing_ok=True)
    return Holder(_UNKNOWN, 0, now())


def _path(folder: Path, name: str, generation: int) -> Path:
    return folder / f".{name}-{generation}"


def _generations(folder: Path, name: str) -> set[int]:
    pattern = re.compile(rf"\.{re.escape(name)}-([1-9][0-9]*)")
    matches = (pattern.fullmatch(file.name) for file in folder.iterdir())
    return {int(match[1]) for match in matches if match}


def _delete(folder: Path, name: str, generations: set[int]) -> None:
    for generation in generations:
        # A generation that cannot be deleted, such as a folder of that name, does no harm.
        with contextlib.suppress(OSError):
            _path(folder, name, generation).unlink()
    delete_abandoned(folder, f".{name}-*-*")
    delete_abandoned(folder, ".clock-*")


def create_once(path: Path, content: bytes) -> bool:
    """Creates a file with its content in one step; returns False if it exists."""
    draft = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    try:
        draft.write_bytes(content)
        os.link(draft, path)
    except FileExistsError:
        # The answer of a file server may be lost, and the repeated request find the link that the first made.
        return draft.stat().st_nlink == 2
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        return _create_without_link(path, content)
    finally:
        with contextlib.suppress(OSError):  # where nothing can be written, nothing was
            draft.unlink(missing_ok=True)
    return True


def _create_without_link(path: Path, content: bytes) -> bool:
    # A reader that finds the file still empty judges it by its modification time: as held.
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


def _holder_of(folder: Path, name: str, generation: int) -> Holder | None:
    """Returns the holder of a generation; None if it released its lease, died or expired."""
    if generation == 0:
        return None
    path = _path(folder, name, generation)
    # Read first: when it opens a file, a network file system renews the modification time that it has cached.
    record = _read(path)
    try:
        changed = path.lstat().st_mtime
    except FileNotFoundError:
        return None
    if changed <= _RELEASED:
        return None
    is_alive = None if record is None else _is_alive(record)
    if is_alive is None:
        is_alive = _clock.now_in(folder) - changed <= EXPIRY_SECONDS
    if not is_alive:
        return None
    if record is None:
        return Holder(_UNKNOWN, 0, datetime.fromtimestamp(changed, UTC).isoformat(timespec="milliseconds"))
    return Holder(record["host"], record["pid"], record["since"])


def _read(path: Path) -> _LeaseRecord | None:
    """Returns the content of a lease; None if it is damaged or missing."""
    try:
        record: _LeaseRecord = read_json(path)
    except ResultError:
        return None
    return record if mistake(record, _LeaseRecord, "") is None else None


def _record_of(lease: Lease) -> _LeaseRecord:
    return {
        **_place(),
        "pid": lease.pid,
        "process_start": _start_of(lease.pid),
        "since": now(),
        "token": lease.token,
    }


@functools.cache
def _place() -> _Place:
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    return {
        # The boot id alone is also that of a virtual machine cloned from the same snapshot.
        "host": socket.gethostname(),
        "boot": boot.read_text(encoding="ascii").strip() if boot.exists() else None,
        "pid_namespace": namespace.stat().st_ino if namespace.exists() else None,
    }


def _is_alive(record: _LeaseRecord) -> bool | None:
    """Returns whether a process of this place still exists; None if that cannot be known."""
    place = _place()
    if None in place.values() or not place.items() <= record.items():
        return None
    try:
        os.kill(record["pid"], 0)  # sends no signal
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # a process of another user
    start = _start_of(record["pid"])
    return None if start is None else start == record["process_start"]


def _start_of(pid: int) -> int | None:
    """Returns the start of a process in clock ticks since the boot, -1 if it has ended; None if unknown."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:  # no /proc, or one that hides processes of other users
        return None
    # The name of the program, in parentheses, may contain anything.
    values = status.rpartition(")")[2].split()
    return -1 if values[0] in "ZX" else int(values[19])


class _Clock:
    """The clocks of file systems; those of hosts may differ from them."""

    def __init__(self) -> None:
        self._read: dict[int, tuple[float, float]] = {}

    def now_in(self, folder: Path) -> float:
        """Returns the time of the file system of a folder, seconds since 1970."""
        device = folder.stat().st_dev
        time_there, read_at = self._read.get(device, (0.0, -math.inf))
        if time.monotonic() - read_at > _CLOCK_SECONDS:
            read_at = time.monotonic()
            time_there = self._read_in(folder)
            self._read[device] = time_there, read_at
        return time_there + time.monotonic() - read_at

    def _read_in(self, folder: Path) -> float:
        file = folder / f".clock-{secrets.token_hex(8)}"
        try:
            file.touch()
            os.utime(file)
            return file.stat().st_mtime
        except OSError:  # a folder that is only read
            return time.time()
        finally:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)


class _Beats:
    """The leases of this process, and the thread that sets the modification times of their files."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # A forked process holds no lease, and the thread is not forked.
        self._leases: list[Lease] = []
        self._lock = threading.Lock()
        self._is_running = False

    def add(self, lease: Lease) -> None:
        with self._lock:
            self._leases.append(lease)
            if not self._is_running:
                threading.Thread(target=self._beat, name="ltrbench leases", daemon=True).start()
                self._is_running = True

    def remove(self, lease: Lease) -> None:
        with self._lock:
            # A forked process has forgotten the lease.
            self._leases = [other for other in self._leases if other is not lease]

    def of_folder(self, folder: Path) -> Lease | None:
        with self._lock:
            return next((lease for lease in self._leases if lease.folder == folder), None)

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_SECONDS)
            with self._lock:
                for lease in self._leases:
                    # A file server that is away, or a lease that is lost: `Lease.check` finds out.
                    with contextlib.suppress(OSError):
                        os.utime(lease.path)


_clock, _beats = _Clock(), _Beats()
