"""Connections to a Dask scheduler, for one fit and for the jobs of a sweep.

It imports Dask alone: a worker of a sweep would otherwise start seconds later, with XGBoost for jobs of other
libraries.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import distributed
from distributed.deploy.cluster import Cluster

from ltrbench.errors import ConfigError

STOP_SECONDS = 10.0
"""Limit for the end of a connection and of a cluster."""

LOCAL_CLUSTER: Mapping[str, Any] = {
    "host": "127.0.0.1",
    "dashboard_address": "127.0.0.1:0",  # a free port, without a warning about a used one
    # Dask would pause a worker whose data fill most of its share, and give it no more tasks.
    "memory_limit": 0,
    "silence_logs": logging.ERROR,
}
"""Arguments of a `LocalCluster` that only this machine can reach."""


def silence_dask() -> None:
    """Hides Dask's reports of restarted workers and lost connections: ltrbench's own errors name them."""
    logging.getLogger("distributed").setLevel(logging.ERROR)
    # A lost connection is reported by the futures of the tasks. The scheduler of a LocalCluster runs here.
    for name in ("distributed.client", "distributed.scheduler"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Ignores warnings of Dask, such as about the size of what is sent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def connected(
    target: str | Cluster, seconds: float, name: str, setting: str
) -> distributed.Client:
    """Connects to a scheduler.

    Args:
        target: address of a running scheduler, or a cluster that was started.
        seconds: limit for the connection.
        name: the cluster in messages.
        setting: the setting that names the address.

    Raises:
        ConfigError: No scheduler answers.
    """
    try:
        return distributed.Client(target, timeout=seconds, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(
            f"{name}: no Dask scheduler answered within {seconds:g} s ({error}). Start one with "
            f"`dask scheduler`, and set {setting} to the address that it shows."
        ) from error


def disconnect(client: distributed.Client | None, cluster: Cluster | None) -> None:
    """Closes a connection, and a cluster that was started; either may be gone already."""
    with without_warnings():
        if client is not None:
            with contextlib.suppress(OSError, TimeoutError):
                client.close(timeout=STOP_SECONDS)
        if cluster is not None:
            with contextlib.suppress(OSError, TimeoutError):
                cluster.close()


def present_workers(client: distributed.Client) -> dict[str, int]:
    """Returns address -> number of threads of the workers of a scheduler.

    Raises:
        OSError: The scheduler is gone.
    """
    if client.status != "running":
        raise OSError("the scheduler is gone")
    workers: dict[str, int] = client.nthreads()
    return workers


def ignore_interrupts() -> None:
    """Runs in the main thread of a worker process that this computer's terminal reaches: Ctrl-C reaches every
    process of the terminal, and the process that submits the tasks decides."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def end_tasks(client: distributed.Client, tasks: Sequence[Any]) -> None:
    """Cancels tasks, and ends the processes of the workers that run one; their nannies start new ones."""
    # Of a scheduler that is gone too.
    with (
        without_warnings(),
        contextlib.suppress(OSError, TimeoutError),
    ):
        client.cancel(tasks, force=True)
        client.run(_end_if_running, [task.key for task in tasks], on_error="ignore")


def _end_if_running(keys: Sequence[str], dask_worker: distributed.Worker) -> None:
    """Runs in the event loop of a worker process. A task cannot be stopped by asking."""
    running = {task.key for task in dask_worker.state.executing}
    if dask_worker.nanny and not running.isdisjoint(keys):
        os.kill(os.getpid(), signal.SIGKILL)
