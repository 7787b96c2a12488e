"""The executor on Dask: clusters that run already, cluster classes, and messages about both."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import executor_works
import pytest
from messages import naming

from ltrbench.errors import ConfigError
from ltrbench.sweep.executors.base import WorkerLostError

distributed = pytest.importorskip("distributed", reason="needs Dask")
from ltrbench.sweep.executors import dask  # noqa: E402
from ltrbench.sweep.executors.dask import DaskExecutor  # noqa: E402

TARGET = "dask.distributed.LocalCluster"


def started_cluster() -> Any:
    """A cluster of somebody else."""
    return distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0", silence_logs=logging.ERROR
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    started = started_cluster()
    yield started
    started.close()


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@pytest.mark.slow
def test_a_worker_with_two_threads_runs_one_job_at_a_time(cluster: Any, tmp_path: Path) -> None:
    executor = DaskExecutor(scheduler=cluster.scheduler_address)
    executor.open(executor_works.call, 0)
    file = tmp_path / "jobs"
    futures = [executor.submit(("alone", str(file))) for _ in range(4)]
    assert all(future.result(timeout=60) for future in futures)
    assert executor.num_workers == 1
    executor.close()


@pytest.mark.slow
def test_a_cluster_of_others_stays_and_its_job_ends_with_close(cluster: Any, tmp_path: Path) -> None:
    executor = DaskExecutor(scheduler=cluster.scheduler_address)
    executor.open(executor_works.call, 0)
    file = tmp_path / "jobs"
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


@pytest.mark.slow
def test_the_number_of_workers_follows_the_cluster(cluster: Any, tmp_path: Path) -> None:
    executor = DaskExecutor(scheduler=cluster.scheduler_address)
    executor.open(executor_works.call, 1)
    cluster.scale(2)
    futures = [executor.submit(("cores", str(tmp_path / "jobs"))) for _ in range(2)]
    assert len({future.result(timeout=60)[0] for future in futures}) == 2
    assert executor.num_workers == 2
    executor.close()


@pytest.mark.slow
def test_a_cluster_without_workers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "CONNECT_SECONDS", 1.0)
    executor = DaskExecutor(cluster={"_target_": TARGET, "n_workers": 0})
    with pytest.raises(ConfigError, match=naming(TARGET, "1 s", "dask worker tcp://", "n_workers")):
        executor.open(executor_works.call, 1)


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "CONNECT_SECONDS", 1.0)
    executor = DaskExecutor(scheduler="tcp://127.0.0.1:1")
    with pytest.raises(ConfigError, match=naming("executor.scheduler=tcp://127.0.0.1:1", "`dask scheduler`")):
        executor.open(executor_works.call, 1)


@pytest.mark.slow
def test_jobs_of_a_scheduler_that_is_gone_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dask, "CONNECT_SECONDS", 2.0)
    cluster = started_cluster()
    executor = DaskExecutor(scheduler=cluster.scheduler_address)
    executor.open(executor_works.call, 1)
    running = executor.submit(("hang", str(tmp_path / "jobs")))
    waiting = executor.submit(("square", 3))
    while not lines(tmp_path / "jobs"):
        time.sleep(0.02)
    cluster.close()
    for future in (running, waiting, executor.submit(("square", 3))):
        with pytest.raises(
            WorkerLostError, match=naming(f"executor.scheduler={executor.scheduler}", "resume")
        ):
            future.result(timeout=30)
    executor.close()


@pytest.mark.slow
def test_workers_that_lack_a_package_are_an_error(tmp_path: Path) -> None:
    preload = tmp_path / "preload.py"
    preload.write_text("import sys\nsys.modules['executor_works'] = None\n")
    executor = DaskExecutor(cluster={"_target_": TARGET, "n_workers": 1, "preload": [str(preload)]})
    with pytest.raises(ConfigError, match=naming("executor_works", "pip install 'ltrbench[dask]'")):
        executor.open(executor_works.call, 1)


def test_neither_or_both_of_scheduler_and_cluster_is_an_error() -> None:
    remedies = ("executor.scheduler=tcp://HOST:8786", f"executor.cluster._target_={TARGET}")
    with pytest.raises(ConfigError, match=naming("executor.scheduler", "executor.cluster", *remedies)):
        DaskExecutor()
    with pytest.raises(ConfigError, match=naming("both set", *remedies)):
        DaskExecutor(scheduler="tcp://127.0.0.1:1", cluster={"_target_": TARGET})


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"n_workers": 2}, ("executor.cluster._target_", TARGET)),
        ({"_target_": "os.system"}, ("executor.cluster._target_", "os.system", TARGET)),
        ({"_target_": "ltrbench.data.RankingDataset"}, ("RankingDataset", TARGET)),
        ({"_target_": "no_such_queue.Cluster"}, ("no_such_queue", "pip install no-such-queue")),
        ({"_target_": TARGET, "processes": False}, ("executor.cluster.processes", False)),
        ({"_target_": "distributed.SpecCluster", "colour": 3}, ("SpecCluster", "executor.cluster", "colour")),
    ],
)
def test_a_cluster_that_cannot_be_started_is_an_error(
    settings: dict[str, Any], parts: tuple[Any, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        DaskExecutor(cluster=settings).open(executor_works.call, 1)


def test_a_missing_extra_is_named() -> None:
    code = "import sys; sys.modules['distributed'] = None; import ltrbench.sweep.executors.dask"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'ltrbench[dask]'" in done.stderr
