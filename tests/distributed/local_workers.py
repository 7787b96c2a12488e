"""A cluster of three workers on this machine, with one thread each, which the tests of this folder share.

A worker takes seconds of computing time to start.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from typing import Any

import dask
import distributed

from ltrbench.distributed.cluster import DaskWorkers, Workers

NUM_WORKERS = 3


@functools.cache
def started_cluster() -> Any:
    """Starts the cluster at the first call. It waits for a lost worker on a busy machine."""
    dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"})
    return distributed.LocalCluster(
        n_workers=NUM_WORKERS,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.ERROR,
    )


def end_cluster() -> None:
    """Ends the cluster, if it was started; `conftest.py` calls it behind the last test of this folder."""
    if started_cluster.cache_info().currsize:
        started_cluster().close()
        started_cluster.cache_clear()


def local_workers(num_workers: int) -> contextlib.AbstractContextManager[Workers]:
    return DaskWorkers(
        workers=num_workers,
        threads_per_worker=1,
        scheduler=started_cluster().scheduler_address,
        wait=120,
    ).open()
