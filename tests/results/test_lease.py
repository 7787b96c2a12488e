"""The lease on a folder: one process at a time, whatever becomes of the others."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from datetime import datetime
from multiprocessing.context import ForkContext, ForkProcess
from pathlib import Path

import pytest
from messages import naming

from ltrbench.runs.writing import LeaseHeldError, hold, holder

FORK: ForkContext = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*multi-threaded.*fork:DeprecationWarning"
)


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


def test_eight_processes_work_in_a_folder_one_at_a_time_although_some_of_them_die(
    tmp_path: Path,
) -> None:
    barrier, folder, mark = (
        FORK.Barrier(8),
        tmp_path / "work",
        tmp_path / "somebody works",
    )

    def work(number: int) -> None:
        rng = random.Random(number)
        barrier.wait()
        for _ in range(5):
            with hold(folder, wait=50):
                mark.touch(exist_ok=False)  # an error if two processes are here
                time.sleep(rng.random() / 200)
                mark.unlink()
                if rng.random() < 0.1:
                    os._exit(0)  # without releasing the lease

    assert finished(
        *(forked(lambda number=number: work(number)) for number in range(8))  # type: ignore[misc]
    )
    assert holder(folder) is None


def test_the_lease_of_a_killed_process_is_taken_over_at_once(tmp_path: Path) -> None:
    def die() -> None:
        with hold(tmp_path):
            os.kill(os.getpid(), signal.SIGKILL)

    forked(die).join()
    assert holder(tmp_path) is None
    with hold(tmp_path):
        assert (found := holder(tmp_path)) is not None
        assert found.pid == os.getpid()


def test_a_held_folder_is_refused_with_the_name_of_its_holder(tmp_path: Path) -> None:
    released = FORK.Event()

    def work() -> None:
        with hold(tmp_path):
            released.wait(30)

    process = forked(work)
    wait_until(lambda: (found := holder(tmp_path)) and found.pid)
    message = naming(tmp_path, f"process {process.pid}")
    with pytest.raises(LeaseHeldError, match=message), hold(tmp_path):
        raise AssertionError
    (tmp_path / ".lease-lock").write_text("{")
    assert (found := holder(tmp_path)) is not None
    assert datetime.fromisoformat(found.since)
    with (
        pytest.raises(LeaseHeldError, match=naming(tmp_path, "unknown")),
        hold(tmp_path),
    ):
        raise AssertionError
    released.set()
    assert finished(process)
