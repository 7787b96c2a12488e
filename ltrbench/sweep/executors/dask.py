"""Runs jobs on a Dask cluster: one that runs already, or one that is started by a cluster class of Dask.

Dask chooses the worker of a job, and repeats a job whose worker was lost. A worker process runs one job at
a time, whatever its number of threads. A job that exceeds its time ends its own process, which Dask notices
as a lost worker.

Jobs run in a thread of the worker process, not in its main thread: no signal handlers can be set there.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

try:
    import dask
    import distributed
    from distributed.deploy.cluster import Cluster
except ImportError as error:
    raise ImportError("executor=dask needs Dask: pip install 'ltrbench[dask]'") from error

from ltrbench.distributed.members import (
    STOP_SECONDS,
    connected,
    disconnect,
    end_processes,
    ignore_interrupts,
    present_workers,
    silence_dask,
    without_warnings,
)
from ltrbench.errors import ConfigError, require
from ltrbench.sweep.executors.base import (
    Executor,
    Work,
    WorkerLostError,
    message_on_threads,
    reply_to,
    settle,
    share_of_cores,
    usable_cores,
)
from ltrbench.user_modules import import_user_module

CONNECT_SECONDS = 30.0
"""Limit for the connection to a scheduler, and for the arrival of the first worker."""

_one_job = threading.Lock()
"""Held by the job of this worker process; another job waits for it."""


@dataclass(kw_only=True)
class DaskExecutor(Executor):
    """Runs jobs on the workers of a Dask cluster, one at a time on each. Set `scheduler` or `cluster`."""

    scheduler: str | None = None
    """Address of a running scheduler, such as tcp://HOST:8786."""
    cluster: dict[str, Any] | None = None
    """`_target_`: a class derived from `distributed.deploy.cluster.Cluster`; other keys: its arguments. Null
    values alone are no cluster."""
    timeout: float | None = None
    """Maximum seconds of a job; None: no limit."""
    retries: int = 1
    """How often a job is repeated whose worker was lost or which exceeded `timeout`. With `scheduler`, its
    own setting distributed.scheduler.allowed-failures applies."""

    def __post_init__(self) -> None:
        require("executor.timeout", self.timeout, above=0)
        require("executor.retries", self.retries, at_least=0)
        self._started: Cluster | None = None
        self._client: distributed.Client | None = None
        self._pending: dict[str, tuple[Future[Any], Any]] = {}
        self._lock = threading.Lock()
        if self.cluster is not None and all(value is None for value in self.cluster.values()):
            self.cluster = None  # the null keys of conf/executor/dask.yaml
        if (self.scheduler is None) == (self.cluster is None):
            state = "are both set; set one of them" if self.scheduler else "are both null"
            raise ConfigError(
                f"executor.scheduler and executor.cluster {state}. For a running scheduler set "
                "executor.scheduler=tcp://HOST:8786; to start a cluster set "
                "executor.cluster._target_=dask.distributed.LocalCluster and executor.cluster.n_workers=2."
            )

    def open(self, work: Work, num_threads: int) -> None:
        silence_dask()
        self._work, self._num_threads = pickle.dumps(work), num_threads
        self._machines: dict[str, _Machine] = {}
        with without_warnings():
            try:
                if self.cluster is not None:
                    self._started = _start_cluster(self.cluster, self.retries)
                target = self.scheduler if self._started is None else self._started
                self._client = connected(target, CONNECT_SECONDS, self._name, "executor.scheduler")
                self._wait_for_workers(self._client)
            except BaseException:
                self.close()
                raise

    def submit(self, job: Any) -> Future[Any]:
        assert self._client is not None  # open comes first
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            pickled = pickle.dumps(job)
        except Exception as error:  # a job that cannot be pickled
            future.set_exception(error)
            return future
        key = f"ltrbench-{uuid.uuid4().hex}"
        try:
            self._find_workers(self._client)
            reply = self._client.submit(
                _run_job, self._work, pickled, self._cores(), self.timeout, key=key, pure=False
            )
        except Exception as error:  # of Dask, whose scheduler is gone
            future.set_exception(self._lost(error))
            return future
        with self._lock:
            self._pending[key] = future, reply
        reply.add_done_callback(partial(self._receive, key))
        return future

    def _receive(self, key: str, reply: Any) -> None:
        """Sets the future of a job from Dask's, which is done."""
        with self._lock:
            future, _ = self._pending.pop(key, (None, None))
        if future is None:
            return  # the executor was closed
        try:
            settle(future, reply.result(timeout=STOP_SECONDS))
        except Exception as error:
            future.set_exception(self._lost(error))

    def _lost(self, error: Exception) -> WorkerLostError:
        if isinstance(error, distributed.KilledWorker):
            limit = (
                "" if self.timeout is None else f", or the job exceeded executor.timeout={self.timeout:g} s"
            )
            return WorkerLostError(
                f"{self._name}: the Dask worker {error.last_worker.address} died during the job or lost its "
                f"connection{limit}; its log or its queue system has the reason"
            )
        return WorkerLostError(
            f"{self._name} does not answer any more ({type(error).__name__}); start it, and resume"
        )

    def close(self) -> None:
        client, self._client = self._client, None
        started, self._started = self._started, None
        with self._lock:
            pending, self._pending = self._pending, {}
        if client is not None and client.status == "running" and pending:
            with without_warnings():
                tasks = client.processing()
                client.cancel([reply for _, reply in pending.values()], force=True)
                end_processes(
                    client, [worker for worker, keys in tasks.items() if not pending.keys().isdisjoint(keys)]
                )
        disconnect(client, started)
        for future, _ in pending.values():
            future.set_exception(WorkerLostError("the executor was closed"))

    @property
    def num_workers(self) -> int:
        """Number of workers now, at least 1; it follows a cluster that grows."""
        if self._client is None or self._client.status != "running":
            return 1
        try:
            return max(len(present_workers(self._client)), 1)
        except OSError:  # the next `submit` reports it
            return 1

    @property
    def message(self) -> str | None:
        """The threads and cores of the machine with the most workers per core."""
        if self._client is None:
            return None
        machines = Counter(self._machines.values())
        if not machines:
            return (
                f"{self._name}: no worker has connected within {CONNECT_SECONDS:g} s; jobs begin as the "
                "queue system starts workers."
            )
        fullest = max(machines, key=lambda machine: machines[machine] / machine.num_cores)
        threads = self._num_threads or (0 if fullest.cores else fullest.num_cores)
        text = message_on_threads(machines[fullest], threads, fullest.num_cores, "executor.cluster.n_workers")
        return text if len(machines) == 1 else f"Workers on {len(machines)} machines, of which one has {text}"

    @property
    def _name(self) -> str:
        """The cluster in messages."""
        if self.cluster is None:
            return f"executor.scheduler={self.scheduler}"
        return f"executor.cluster._target_={self.cluster.get('_target_')}"

    def _wait_for_workers(self, client: distributed.Client) -> None:
        """Waits a bounded time for the first worker.

        Raises:
            ConfigError: There is none, or one cannot import the work. A queue system may start workers later.
        """
        end = time.monotonic() + CONNECT_SECONDS
        while not self._machines and time.monotonic() < end:
            self._find_workers(client)
            time.sleep(0.05)
        is_queued = self._started is not None and not isinstance(self._started, distributed.LocalCluster)
        if not self._machines and not is_queued:
            raise ConfigError(
                f"{self._name}: no worker connected within {CONNECT_SECONDS:g} s. Start one with "
                f"`dask worker {client.scheduler.address}`, or set executor.cluster.n_workers."
            )

    def _find_workers(self, client: distributed.Client) -> None:
        """Updates the machines of the workers from the scheduler."""
        present = present_workers(client)
        self._machines = {
            address: self._machines[address] for address in self._machines if address in present
        }
        new = [address for address in sorted(present) if address not in self._machines]
        if not new:
            return
        is_child = isinstance(self._started, distributed.LocalCluster)
        answers = client.run(_prepare, self._work, is_child, workers=new, on_error="return")
        for address, answer in answers.items():
            if isinstance(answer, _Machine):
                self._machines[address] = answer
            elif not isinstance(answer, OSError):  # an OSError: the worker is lost already
                raise ConfigError(
                    f"{self._name}: the worker {address} cannot import what a job needs: "
                    f"{type(answer).__name__}: {answer}. Install there what is installed here: "
                    "pip install 'ltrbench[dask]', in the same version."
                )

    def _cores(self) -> dict[str, list[int]]:
        """Returns address -> its share of its machine's cores; a worker that is left out uses all of them."""
        shares: dict[str, list[int]] = {}
        for address, machine in self._machines.items():
            if self._num_threads == 0 and machine.cores:
                here = [name for name, other in self._machines.items() if other == machine]
                shares[address] = share_of_cores(machine.cores, here.index(address), len(here))
        return shares


def _start_cluster(settings: Mapping[str, Any], retries: int) -> Cluster:
    """Starts the cluster that executor.cluster describes; its scheduler repeats a task `retries` times."""
    arguments = dict(settings)
    target = arguments.pop("_target_", None)
    if arguments.get("n_workers", 0) is None:  # null in conf/executor/dask.yaml: the default of the class
        del arguments["n_workers"]
    cluster_class = _cluster_class(target)
    if issubclass(cluster_class, distributed.LocalCluster):
        if arguments.get("processes", True) is not True:
            raise ConfigError(
                f"executor.cluster.processes is {arguments['processes']}; jobs need processes. Remove it."
            )
        defaults = {
            "threads_per_worker": 1,
            "host": "127.0.0.1",
            "dashboard_address": "127.0.0.1:0",  # a free port, without a warning about a used one
            # Dask would pause a worker whose loaded data fill most of its share, and give it no more jobs.
            "memory_limit": 0,
            "silence_logs": logging.ERROR,
        }
        arguments = {**defaults, **arguments}
    try:
        with dask.config.set({"distributed.scheduler.allowed-failures": retries}):
            return cluster_class(**arguments)
    # A cluster class may raise anything: about its arguments, a queue system, or an account of a cloud.
    except Exception as error:
        raise ConfigError(
            f"executor.cluster: {target} with the arguments {', '.join(arguments) or 'none'} could not be "
            f"started: {type(error).__name__}: {error}. Change the keys of executor.cluster, which are the "
            "arguments of that class."
        ) from error


def _cluster_class(target: Any) -> type[Any]:
    """Imports the class that executor.cluster._target_ names."""
    key = f"executor.cluster._target_ is {target!r}"
    if not isinstance(target, str) or "." not in target:
        raise ConfigError(f"{key}; name a cluster class, as in dask.distributed.LocalCluster.")
    module_name, _, class_name = target.rpartition(".")
    try:
        cluster_class = getattr(import_user_module(module_name), class_name, None)
    except ImportError as error:
        package = module_name.partition(".")[0].replace("_", "-")
        raise ConfigError(
            f"{key}, which cannot be imported: {error}. Install its package, as in pip install {package}."
        ) from None
    if not (isinstance(cluster_class, type) and issubclass(cluster_class, Cluster)):
        raise ConfigError(
            f"{key}, which is not a class derived from distributed.deploy.cluster.Cluster. Name one, such as "
            "dask.distributed.LocalCluster or dask_jobqueue.SLURMCluster."
        )
    return cluster_class


@dataclass(frozen=True)
class _Machine:
    """Name of a machine, and the cores on it that a worker process may use; empty: the system names none."""

    name: str
    cores: tuple[int, ...]
    num_cores: int


def _prepare(pickled_work: bytes, is_child: bool) -> _Machine:
    """Runs in the main thread of a worker process, before its first job: imports the work."""
    if is_child:
        ignore_interrupts()
    pickle.loads(pickled_work)
    cores = tuple(usable_cores())
    return _Machine(socket.gethostname(), cores, len(cores) or os.cpu_count() or 1)


def _run_job(pickled_work: bytes, job: bytes, cores: Mapping[str, list[int]], timeout: float | None) -> bytes:
    """Runs in a thread of a worker process."""
    with _one_job:
        if own_cores := cores.get(distributed.get_worker().address):
            # Of this thread, and of the threads that the libraries start in it.
            os.sched_setaffinity(0, own_cores)
        watch = threading.Timer(timeout or 0, os.kill, (os.getpid(), signal.SIGKILL))
        watch.daemon = True
        if timeout is not None:
            watch.start()
        try:
            return reply_to(pickle.loads(pickled_work), job)
        except (KeyboardInterrupt, SystemExit) as error:  # would end the worker, with Dask's reports of it
            return pickle.dumps((None, WorkerLostError(f"the job raised {type(error).__name__}: {error}")))
        finally:
            watch.cancel()
