"""Every executor satisfies the contract, and a lost worker costs its job only."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import executor_works
import pytest
import yaml  # type: ignore[import-untyped]
from executor_works import lines
from messages import naming
from paths import CONF, ROOT

from ltrbench.config import build
from ltrbench.errors import ConfigError
from ltrbench.sweep.executors import (
    AllWorkersLostError,
    Executor,
    WorkerLostError,
    message_on_threads,
)

TARGET = "dask.distributed.LocalCluster"
LOCAL_CLUSTER = {"_target_": TARGET, "n_workers": 2}
needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="needs Dask"
)
DASK = pytest.param("dask", marks=[needs_dask, pytest.mark.slow])
EVERY = ["inline", "processes", DASK]
needs_two_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs two cores"
)
Opened = Callable[..., Executor]


def built(kind: str, **settings: Any) -> Executor:
    """The executor of a YAML in conf/executor."""
    node = yaml.safe_load(
        (CONF / "executor" / f"{kind}.yaml").read_text(encoding="utf-8")
    )
    if kind == "dask" and "scheduler" not in settings:
        settings = {"cluster": LOCAL_CLUSTER, **settings}
    return build({"executor": {**node, **settings}}, "executor", Executor)


@pytest.fixture(scope="module", params=EVERY)
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """An executor that the tests of the contract share."""
    shared = built(request.param)
    shared.open(executor_works.call, num_threads=1)
    yield shared
    shared.close()


@pytest.fixture
def opened() -> Iterator[Opened]:
    """`opened("processes", retries=0)`: an open executor, closed at the end of the test."""
    executors = []

    def start(kind: str, num_threads: int = 1, **settings: Any) -> Executor:
        executors.append(built(kind, **settings))
        executors[-1].open(executor_works.call, num_threads)
        return executors[-1]

    yield start
    for each in executors:
        each.close()


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def lives(process: int) -> bool:
    """Whether a process exists and has not ended: one that nobody waits for stays as a zombie."""
    try:
        return (
            Path(f"/proc/{process}/stat")
            .read_text(encoding="utf-8")
            .rpartition(")")[2]
            .split()[0]
            != "Z"
        )
    except FileNotFoundError:
        return False


def test_a_future_has_the_exception_that_the_job_raised(executor: Executor) -> None:
    error = executor.submit(("fail", "label 7")).exception(timeout=60)
    assert isinstance(error, ValueError)
    assert error.args == ("label 7",)


def test_a_crash_costs_its_job_only(opened: Opened, tmp_path: Path) -> None:
    executor = opened("processes", retries=1)
    file = tmp_path / "attempts"
    with pytest.raises(WorkerLostError, match=naming("SIGSEGV")):
        executor.submit(("die", str(file), signal.SIGSEGV)).result(timeout=60)
    assert lines(file) == ["attempt"] * 2
    assert executor.submit(("square", 3)).result(timeout=60) == 9


@pytest.mark.slow
def test_a_job_beyond_its_time_is_ended(opened: Opened, tmp_path: Path) -> None:
    file = tmp_path / "processes"
    executor = opened("processes", timeout=0.5, retries=1)
    with pytest.raises(WorkerLostError, match=naming("executor.timeout=0.5")):
        executor.submit(("hang", str(file))).result(timeout=60)
    assert len(set(lines(file))) == 2
    wait_until(lambda: not any(lives(int(line)) for line in lines(file)))
    assert executor.submit(("square", 3)).result(timeout=60) == 9


def test_close_ends_running_jobs_at_once(opened: Opened, tmp_path: Path) -> None:
    file = tmp_path / "processes"
    executor = opened("processes")
    running = executor.submit(("hang", str(file)))
    wait_until(lambda: bool(lines(file)))
    waiting = [executor.submit(("hang", str(file), 0.0)) for _ in range(20)]
    executor.close()
    executor.close()
    wait_until(lambda: not lives(int(lines(file)[0])))
    assert lines(file)[1] == "interrupted"
    assert isinstance(running.exception(timeout=0), WorkerLostError)
    assert all(future.done() for future in waiting)


@needs_two_cores
@pytest.mark.parametrize("num_threads", [0, 1])
def test_workers_divide_the_cores_if_num_threads_is_0(
    opened: Opened, num_threads: int, tmp_path: Path
) -> None:
    assert_cores_are_divided(
        opened("processes", num_threads), num_threads, tmp_path / "jobs"
    )


def assert_cores_are_divided(executor: Executor, num_threads: int, file: Path) -> None:
    futures = [executor.submit(("cores", str(file))) for _ in range(2)]
    (one, cores_of_one), (other, cores_of_other) = (
        future.result(timeout=60) for future in futures
    )
    all_cores = sorted(os.sched_getaffinity(0))
    assert one != other
    assert executor.num_workers == 2
    assert executor.message == message_on_threads(2, num_threads, len(all_cores), "")
    if num_threads == 0:
        assert len(cores_of_one) == len(cores_of_other) == len(all_cores) // 2
        assert not set(cores_of_one) & set(cores_of_other)
    else:
        assert cores_of_one == cores_of_other == all_cores
    assert sorted(os.sched_getaffinity(0)) == all_cores


@needs_dask
@needs_two_cores
@pytest.mark.slow
def test_dask_divides_the_cores_and_ends_workers_that_crash_or_exceed_their_time(
    opened: Opened, tmp_path: Path
) -> None:
    executor = opened("dask", num_threads=0, timeout=5.0, retries=0)
    assert_cores_are_divided(executor, 0, tmp_path / "jobs")
    for job in (
        ("die", str(tmp_path / "crash"), signal.SIGSEGV),
        ("hang", str(tmp_path / "hang")),
    ):
        with pytest.raises(
            WorkerLostError, match=naming("tcp://127.0.0.1", "executor.timeout=5")
        ):
            executor.submit(job).result(timeout=120)
    assert executor.submit(("square", 3)).result(timeout=120) == 9


def test_the_message_names_threads_beyond_the_cores_and_the_remedies() -> None:
    text = message_on_threads(3, 2, 4, "executor.workers")
    parts = (
        "3 workers x 2 threads",
        "4 cores",
        "6 threads",
        "executor.workers=2",
        "num_threads=1",
    )
    assert all(part in text for part in parts)
    assert "executor.workers=2" in message_on_threads(3, 0, 2, "executor.workers")
    assert "Set" not in message_on_threads(1, 64, 2, "executor.workers")


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "processes"
    script = tmp_path / "script.py"
    script.write_text(
        "import executor_works, time\n"
        "from ltrbench.sweep.executors import ProcessExecutor\n"
        "if __name__ == '__main__':\n"
        "    executor = ProcessExecutor()\n"
        "    executor.open(executor_works.call, 1)\n"
        f"    for _ in range(2): executor.submit(('hang_for_good', {str(file)!r}))\n"
        "    time.sleep(60)\n"
    )
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    parent = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": path}
    )
    wait_until(lambda: len(lines(file)) == 2)
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(lives(int(line)) for line in lines(file)), seconds=5)


# ---- Dask: clusters that run already, cluster classes, and messages about both.


@needs_dask
@pytest.mark.slow
def test_a_cluster_of_others_runs_one_job_at_a_time_and_stays_when_a_job_is_ended(
    tmp_path: Path,
) -> None:
    import distributed

    from ltrbench.sweep.dask import DaskExecutor

    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.ERROR,
    ) as cluster:
        executor = DaskExecutor(scheduler=cluster.scheduler_address)
        executor.open(executor_works.call, 0)
        futures = [executor.submit(("alone", str(tmp_path / "jobs"))) for _ in range(4)]
        assert all(future.result(timeout=60) for future in futures)
        assert executor.num_workers == 1
        file = tmp_path / "processes"
        future = executor.submit(("hang", str(file)))
        while not lines(file):
            time.sleep(0.02)
        executor.close()
        assert isinstance(future.exception(timeout=0), WorkerLostError)
        process = Path("/proc", lines(file)[0])
        end = time.monotonic() + 10
        while process.exists() and time.monotonic() < end:
            time.sleep(0.02)
        assert not process.exists()
        again = DaskExecutor(scheduler=cluster.scheduler_address)
        again.open(executor_works.call, 0)
        assert again.submit(("square", 3)).result(timeout=60) == 9
        again.close()


@needs_dask
@pytest.mark.slow
def test_a_cluster_without_workers_gives_up_its_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distributed

    from ltrbench.sweep import dask

    monkeypatch.setattr(dask, "ABSENT_SECONDS", 0.5)
    with distributed.LocalCluster(
        n_workers=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
    ) as cluster:
        executor = dask.DaskExecutor(scheduler=cluster.scheduler_address)
        executor.open(executor_works.call, 1)
        file = tmp_path / "processes"
        future = executor.submit(("hang", str(file)))
        wait_until(lambda: bool(lines(file)))
        cluster.sync(cluster.workers[0].close, timeout=1)
        lost = future.exception(timeout=20)
        assert isinstance(lost, AllWorkersLostError)
        assert re.search(
            naming("executor.scheduler", cluster.scheduler_address), str(lost)
        )
        executor.close()


REMEDIES = ("executor.scheduler=tcp://HOST:8786", f"executor.cluster._target_={TARGET}")


@pytest.mark.slow
@needs_dask
@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, ("executor.scheduler", "executor.cluster", *REMEDIES)),
        (
            {"scheduler": "tcp://127.0.0.1:1", "cluster": {"_target_": TARGET}},
            ("both set", *REMEDIES),
        ),
        (
            {"scheduler": "tcp://127.0.0.1:1"},
            ("executor.scheduler=tcp://127.0.0.1:1", "`dask scheduler`"),
        ),
        (
            {"cluster": {"_target_": "no_such_queue.Cluster"}},
            ("no_such_queue", "installed"),
        ),
        (
            {"cluster": {"_target_": TARGET, "n_workers": 0}},
            (TARGET, "1 s", "tcp://", "n_workers"),
        ),
        (
            {
                "cluster": {
                    "_target_": TARGET,
                    "n_workers": 1,
                    "preload": ["preload.py"],
                }
            },
            (
                "executor_works",
                "pip install 'ltrbench[dask]'",
            ),  # the workers lack a package
        ),
    ],
)
def test_a_cluster_that_cannot_be_used_is_an_error(
    settings: dict[str, Any],
    parts: tuple[Any, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ltrbench.sweep import dask

    monkeypatch.setattr(dask, "CONNECT_SECONDS", 1.0)
    monkeypatch.chdir(tmp_path)
    Path("preload.py").write_text("import sys\nsys.modules['executor_works'] = None\n")
    with pytest.raises(ConfigError, match=naming(*parts)):
        dask.DaskExecutor(**settings).open(executor_works.call, 1)
