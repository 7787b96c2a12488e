"""The executor on Dask: clusters that run already, cluster classes, and messages about both."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import executor_works
import pytest
from executor_works import lines
from messages import naming

from ltrbench.errors import ConfigError
from ltrbench.sweep.executors import WorkerLostError

distributed = pytest.importorskip("distributed", reason="needs Dask")
from ltrbench.sweep import dask  # noqa: E402
from ltrbench.sweep.dask import DaskExecutor  # noqa: E402

TARGET = "dask.distributed.LocalCluster"


@pytest.mark.slow
def test_a_cluster_of_others_runs_one_job_at_a_time_and_stays_when_a_job_is_ended(tmp_path: Path) -> None:
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0", silence_logs=logging.ERROR
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


REMEDIES = ("executor.scheduler=tcp://HOST:8786", f"executor.cluster._target_={TARGET}")


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, ("executor.scheduler", "executor.cluster", *REMEDIES)),
        ({"scheduler": "tcp://127.0.0.1:1", "cluster": {"_target_": TARGET}}, ("both set", *REMEDIES)),
        ({"scheduler": "tcp://127.0.0.1:1"}, ("executor.scheduler=tcp://127.0.0.1:1", "`dask scheduler`")),
        ({"cluster": {"_target_": "no_such_queue.Cluster"}}, ("no_such_queue", "installed")),
        ({"cluster": {"_target_": TARGET, "n_workers": 0}}, (TARGET, "1 s", "tcp://", "n_workers")),
        (
            {"cluster": {"_target_": TARGET, "n_workers": 1, "preload": ["preload.py"]}},
            ("executor_works", "pip install 'ltrbench[dask]'"),  # the workers lack a package
        ),
    ],
)
def test_a_cluster_that_cannot_be_used_is_an_error(
    settings: dict[str, Any], parts: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "CONNECT_SECONDS", 1.0)
    monkeypatch.chdir(tmp_path)
    Path("preload.py").write_text("import sys\nsys.modules['executor_works'] = None\n")
    with pytest.raises(ConfigError, match=naming(*parts)):
        DaskExecutor(**settings).open(executor_works.call, 1)
