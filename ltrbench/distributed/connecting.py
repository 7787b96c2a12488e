"""Connections to a Dask scheduler, and the end of worker processes: for one fit, and for jobs of a sweep."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

try:
    import distributed
    from distributed.deploy.cluster import Cluster
except ImportError as error:
    raise ImportError("distributed=dask needs Dask: pip install 'ltrbench[dask]'") from error

from ltrbench.errors import ConfigError

ANSWER_SECONDS = 4.0
"""Limit for the answer of a worker, or of its nanny, to a short question."""
STOP_SECONDS = 10.0
"""Limit for the end of a connection and of a cluster."""


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


def connected(target: str | Cluster, seconds: float, place: str, setting: str) -> distributed.Client:
    """Connects to a scheduler.

    Args:
        target: address of a running scheduler, or a cluster that was started.
        seconds: limit for the connection.
        place: the cluster in messages.
        setting: the setting that names the address.

    Raises:
        ConfigError: No scheduler answers.
    """
    try:
        return distributed.Client(target, timeout=seconds, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(
            f"{place}: no Dask scheduler answered within {seconds:g} s ({error}). Start one with "
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


def present_workers(client: distributed.Client) -> dict[str, dict[str, Any]]:
    """Returns address -> description by the scheduler, of the workers that can run tasks.

    Raises:
        OSError: The scheduler is gone.
    """
    # Newer versions describe five workers unless told otherwise; older ones ignore the argument.
    workers = client.scheduler_info(n_workers=-1).get("workers")
    if workers is None:
        raise OSError("the scheduler is gone")
    return {address: info for address, info in workers.items() if info["status"] in ("running", "paused")}


def ignore_interrupts() -> None:
    """Runs in the main thread of a worker process that this computer's terminal reaches: Ctrl-C reaches every
    process of the terminal, and the process that submits the tasks decides."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def end_processes(client: distributed.Client, addresses: Iterable[str]) -> None:
    """Ends worker processes that have a nanny, whatever they do; their nannies start new ones.

    Returns when the scheduler has noticed it, within a few seconds.
    """
    ended = set(addresses)
    answers(client, ended, ANSWER_SECONDS, _kill_worker, nanny=True)
    end = time.monotonic() + ANSWER_SECONDS
    with contextlib.suppress(OSError, TimeoutError):  # of a scheduler that is gone too
        while time.monotonic() < end and not ended.isdisjoint(present_workers(client)):
            time.sleep(0.05)


def _kill_worker(dask_worker: distributed.Nanny) -> None:
    """Runs in the nanny of a worker process. A task cannot be stopped by asking."""
    if dask_worker.pid is not None:
        os.kill(dask_worker.pid, signal.SIGKILL)


def answers(
    client: distributed.Client,
    addresses: Iterable[str],
    seconds: float,
    function: Callable[..., Any],
    *arguments: Any,
    nanny: bool = False,
) -> dict[str, Any]:
    """Returns address -> what a function returned in the event loop of each worker, or its exception.

    A worker that does not answer within the limit has a TimeoutError. The other ones are not kept waiting.

    Args:
        seconds: limit for all workers together.
        nanny: call the function in the nanny of each worker.
    """
    loop = client.loop.asyncio_loop
    calls = {
        address: asyncio.run_coroutine_threadsafe(
            client.run(function, *arguments, workers=[address], nanny=nanny, asynchronous=True), loop
        )
        for address in addresses
    }
    concurrent.futures.wait(calls.values(), seconds)
    return {address: _answer(call, address) for address, call in calls.items()}


def _answer(call: concurrent.futures.Future[Any], address: str) -> Any:
    if not call.done():
        call.cancel()
        return TimeoutError("no answer")
    error = call.exception()
    return call.result().get(address, OSError("no answer")) if error is None else error
