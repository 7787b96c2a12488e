"""The lease on a folder: one process at a time, on whatever host; one that lost it publishes nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import resource
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.context import ForkContext, ForkProcess
from pathlib import Path

import pytest
from messages import naming

from ltrbench.errors import ResultError
from ltrbench.measure import now
from ltrbench.runs import (
    FAILED,
    LeaseHeldError,
    LeaseLostError,
    RunResult,
    claim,
    hold,
    holder,
    lease,
    write_run,
)

FORK: ForkContext = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
FAILED_RUN = RunResult(status=FAILED, model="native", params="matched", seed=0, data={"name": "toy"})
ELSEWHERE = {"host": "elsewhere", "boot": "b", "pid_namespace": 1}


def forked(work: Callable[[], None]) -> ForkProcess:
    process = FORK.Process(target=work)
    process.start()
    return process


def finished(*processes: ForkProcess) -> bool:
    """Returns whether all processes ended without an error; ends them after a minute."""
    for process in processes:
        process.join(60)
        process.kill()
    return all(process.exitcode == 0 for process in processes)


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def lease_of_another_host(folder: Path, age: float, generation: int = 1) -> Path:
    path = folder / f".lease-{generation}"
    record = {**ELSEWHERE, "pid": 7, "process_start": 1, "since": now(), "token": "t"}
    path.write_text(json.dumps(record))
    set_age(path, age)
    return path


def set_age(path: Path, age: float) -> None:
    os.utime(path, (time.time() - age,) * 2)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forked processes beat and poll much more often, with 15 beats until the expiry on a busy machine."""
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", 1.5)
    monkeypatch.setattr(lease, "_POLL_SECONDS", 0.002)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("seed", range(2))
def test_eight_processes_work_in_a_folder_one_at_a_time_although_some_of_them_die(
    seed: int, tmp_path: Path
) -> None:
    barrier, folder, mark = FORK.Barrier(8), tmp_path / "work", tmp_path / "somebody works"

    def work(number: int) -> None:
        rng = random.Random(100 * seed + number)
        barrier.wait()
        for _ in range(5):
            with hold(folder, wait=50) as held:
                mark.touch(exist_ok=False)  # an error if two processes are here
                time.sleep(rng.random() / 200)
                held.check()
                mark.unlink()
                if rng.random() < 0.1:
                    os._exit(0)  # without releasing the lease

    assert finished(*(forked(lambda number=number: work(number)) for number in range(8)))  # type: ignore[misc]
    assert holder(folder) is None
    assert len(files(folder)) == 1


@pytest.mark.parametrize("seed", range(2))
def test_of_eight_processes_that_find_an_expired_lease_one_takes_it_over(seed: int, tmp_path: Path) -> None:
    lease_of_another_host(tmp_path, age=2 * lease.EXPIRY_SECONDS)
    before, after, takers = FORK.Barrier(8), FORK.Barrier(8), FORK.Value("i", 0)

    def take(number: int) -> None:
        before.wait()
        time.sleep(random.Random(100 * seed + number).random() / 500)
        try:
            with hold(tmp_path):
                with takers.get_lock():
                    takers.value += 1
                after.wait()
        except LeaseHeldError:
            after.wait()

    assert finished(*(forked(lambda number=number: take(number)) for number in range(8)))  # type: ignore[misc]
    assert takers.value == 1
    assert files(tmp_path) == [".lease-2"]


def test_the_lease_of_a_dead_process_of_this_machine_is_taken_over_at_once(tmp_path: Path) -> None:
    def die() -> None:
        with hold(tmp_path):
            os.kill(os.getpid(), signal.SIGKILL)

    process = forked(die)
    # Its parent has not yet waited for it, so that it still has its process id.
    status = Path(f"/proc/{process.pid}/stat")
    wait_until(lambda: status.read_text().rpartition(") ")[2].startswith("Z"))
    assert (tmp_path / ".lease-1").exists()
    assert holder(tmp_path) is None
    with hold(tmp_path):
        assert files(tmp_path) == [".lease-2"]
    process.join()


def test_the_lease_of_another_host_is_taken_over_only_after_its_expiry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lease_of_another_host(tmp_path, age=lease.EXPIRY_SECONDS - 5)
    with pytest.raises(LeaseHeldError, match=naming(tmp_path, "process 7", "host elsewhere")), hold(tmp_path):
        raise AssertionError
    wrong = time.time() + 10 * lease.EXPIRY_SECONDS
    monkeypatch.setattr(time, "time", lambda: wrong)  # the clock of this host does not matter
    assert holder(tmp_path) == lease.Holder("elsewhere", 7, json.loads(path.read_text())["since"])
    monkeypatch.undo()
    set_age(path, lease.EXPIRY_SECONDS + 5)
    assert holder(tmp_path) is None
    with hold(tmp_path):
        assert files(tmp_path) == [".lease-2"]


@pytest.mark.usefixtures("quick")
def test_a_holder_that_beats_is_not_taken_over_and_one_that_was_suspended_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, lost = tmp_path / "go", tmp_path / "lost"
    folder = tmp_path / "run"

    def work() -> None:
        monkeypatch.setattr(lease, "_place", lambda: ELSEWHERE)
        with claim(folder):
            wait_until(released.exists)
            try:
                write_run(folder, FAILED_RUN)
            except LeaseLostError as error:
                lost.write_text(str(error))
                raise SystemExit(0) from None

    process = forked(work)
    assert process.pid is not None
    wait_until(lambda: holder(folder))
    end = time.monotonic() + 2 * lease.EXPIRY_SECONDS
    while time.monotonic() < end:
        assert holder(folder) is not None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGSTOP)
    with hold(folder, wait=30):
        released.touch()
        os.kill(process.pid, signal.SIGCONT)
        assert finished(process)
        message = naming(folder, "taken over", f"process {os.getpid()}", "command again")
        assert re.search(message, lost.read_text())
        assert files(folder) == [".lease-2"]


def test_a_run_is_not_published_after_its_lease_was_taken_over(tmp_path: Path) -> None:
    with claim(tmp_path):
        lease_of_another_host(tmp_path, age=0, generation=2)
        with pytest.raises(LeaseLostError, match=naming(tmp_path, "host elsewhere", "command again")):
            write_run(tmp_path, FAILED_RUN)
    assert files(tmp_path) == [".lease-1", ".lease-2"]
    assert holder(tmp_path) is not None, "the lease of the other process was released"


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"pid": -1}', '{"host": "a", "pid": 1}'])
def test_a_damaged_lease_is_judged_by_its_modification_time(content: str, tmp_path: Path) -> None:
    path = tmp_path / ".lease-1"
    path.write_text(content)
    held = holder(tmp_path)
    assert held is not None
    assert (held.host, held.pid) == ("unknown", 0)
    with pytest.raises(LeaseHeldError, match=naming(tmp_path, "unknown")), hold(tmp_path):
        raise AssertionError
    set_age(path, lease.EXPIRY_SECONDS + 5)
    with hold(tmp_path):
        assert files(tmp_path) == [".lease-2"]


def test_a_released_lease_is_held_by_nobody_and_complete_work_leaves_no_file(tmp_path: Path) -> None:
    for generation in (1, 2, 3):
        with hold(tmp_path):
            assert files(tmp_path) == [f".lease-{generation}"]
        assert holder(tmp_path) is None
    with hold(tmp_path) as held:
        held.is_complete = True
    assert files(tmp_path) == []
    assert holder(tmp_path / "not there") is None


def test_leases_of_other_names_are_independent(tmp_path: Path) -> None:
    with hold(tmp_path), hold(tmp_path, "plan"), hold(tmp_path, "plan-2"):
        assert files(tmp_path) == [".lease-1", ".plan-1", ".plan-2-1"]


def test_a_holder_is_waited_for(tmp_path: Path) -> None:
    released = threading.Event()

    def work() -> None:
        with hold(tmp_path):
            released.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: holder(tmp_path))
    threading.Timer(0.1, released.set).start()
    with hold(tmp_path, wait=30):
        assert released.is_set()
    thread.join()


def test_a_forked_process_does_not_release_the_lease(tmp_path: Path) -> None:
    with hold(tmp_path):
        child = os.fork()
        if child == 0:
            # Leaves the block as a forked process does that fails in it.
            try:
                lease_of_parent = lease._beats.of_folder(tmp_path.resolve())
                os._exit(0 if lease_of_parent is None else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        child = os.fork()
        if child == 0:
            lease.Lease(tmp_path, "lease", tmp_path / ".lease-1", "t", os.getppid())._release()
            os._exit(0)
        os.waitpid(child, 0)
        assert holder(tmp_path) is not None


def test_file_systems_without_hard_links_have_leases_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with hold(tmp_path):
        assert files(tmp_path) == [".lease-1"]
        with pytest.raises(LeaseHeldError), hold(tmp_path):
            raise AssertionError
    assert not lease.create_once(tmp_path / ".lease-1", b"")


def test_on_a_full_disk_a_lease_is_refused_with_the_remedy_and_a_held_one_is_released(tmp_path: Path) -> None:
    def work() -> None:
        with hold(tmp_path / "held") as held:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            with (
                pytest.raises(ResultError, match=naming(tmp_path / "new", "ulimit -f")),
                hold(tmp_path / "new"),
            ):
                raise AssertionError
            held.check()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    assert finished(forked(work))
    assert files(tmp_path / "new") == []
    assert holder(tmp_path / "held") is None
    with hold(tmp_path / "new"), hold(tmp_path / "held"):
        pass
