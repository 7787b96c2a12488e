"""Runs jobs on a Dask cluster: one that runs already, or one that is started by a cluster class of Dask.

Dask chooses the worker of a job, and repeats a job whose worker was lost. A worker process runs one job at
a time, whatever its number of threads. A job that exceeds its time ends its own process, which Dask notices
as a lost worker.

Jobs run in a thread of the worker process, not in its main thread: no signal handlers can be set there.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import time
import uuid
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
    raise ImportError(
        "executor=dask needs Dask: pip install 'ltrbench[dask]'"
    ) from error

from ltrbench.distributed.scheduler import (
    LOCAL_CLUSTER,
    STOP_SECONDS,
    connected,
    disconnect,
    end_tasks,
    ignore_interrupts,
    present_workers,
    silence_dask,
    without_warnings,
)
from ltrbench.errors import ConfigError
from ltrbench.folders import import_user_module
from ltrbench.settings import check, setting
from ltrbench.sweep.executors import (
    HAS_AFFINITY,
    AllWorkersLostError,
    Executor,
    Work,
    WorkerLostError,
    message_on_threads,
    reply_to,
    result_of,
    share_of_cores,
    usable_cores,
)

CONNECT_SECONDS = 30.0
"""Limit for the connection to a scheduler, and for the arrival of the first worker."""

ABSENT_SECONDS = 30.0
"""Time without any worker after which the jobs are given up, unless a queue system may start others."""

_one_job = threading.Lock()
"""Held by the job of this worker process; another job waits for it."""

_Machine = tuple[str, tuple[int, ...]]
"""Name of a machine, and the cores on it that a worker process may use."""


@dataclass(kw_only=True)
class DaskExecutor(Executor):
    """Runs jobs on the workers of a Dask cluster, one at a time on each. Set `scheduler` or `cluster`."""

    scheduler: str | None = None
    """Address of a running scheduler, such as tcp://HOST:8786."""
    cluster: dict[str, Any] | None = None
    """`_target_`: a class derived from `distributed.deploy.cluster.Cluster`; other keys: its arguments. Null
    values alone are no cluster."""
    timeout: float | None = setting(None, above=0)
    """Maximum seconds of a job; None: no limit."""
    retries: int = setting(1, at_least=0)
    """How often a job is repeated whose worker was lost or which exceeded `timeout`. With `scheduler`, its
    own setting distributed.scheduler.allowed-failures applies."""

    def __post_init__(self) -> None:
        check(self, "executor.")
        # The null keys of conf/executor/dask.yaml: the defaults of the class.
        given = self.cluster or {}
        self.cluster = {key: item for key, item in given.items() if item is not None}
        self._started: Cluster | None = None
        self._client: distributed.Client | None = None
        self._pending: dict[str, tuple[Future[Any], Any]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        if bool(self.scheduler) == bool(self.cluster):
            raise ConfigError(
                f"executor.scheduler and executor.cluster are both {'set' if self.scheduler else 'null'}. "
                "Set only executor.scheduler=tcp://HOST:8786, or to start one "
                "executor.cluster._target_=dask.distributed.LocalCluster and executor.cluster.n_workers=2."
            )

    def open(self, work: Work, num_threads: int) -> None:
        silence_dask()
        self._work = pickle.dumps(work)
        self._num_threads = num_threads
        self._machines: dict[str, _Machine] = {}
        with without_warnings():
            try:
                if self.cluster:
                    self._started = _start_cluster(self.cluster, self.retries)
                target = self.scheduler if self._started is None else self._started
                self._client = connected(
                    target, CONNECT_SECONDS, self._name, "executor.scheduler"
                )
                self._wait_for_workers(self._client)
                self.message = self._about_threads()
                if not self._has_queue:
                    watch = partial(self._watch, self._client)
                    threading.Thread(target=watch, daemon=True).start()
            except BaseException:
                self.close()
                raise

    def submit(self, job: Any) -> Future[Any]:
        assert self._client is not None  # open comes first
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        pickled = pickle.dumps(job)
        key = f"ltrbench-{uuid.uuid4().hex}"
        try:
            self._find_workers(self._client)
            reply = self._client.submit(
                _run_job,
                self._work,
                pickled,
                self._cores(),
                self.timeout,
                key=key,
                pure=False,
            )
        except Exception as error:  # of Dask, whose scheduler is gone
            future.set_exception(self._lost(error))
            return future
        with self._lock:
            self._pending[key] = future, reply
        reply.add_done_callback(partial(self._receive, key))
        return future

    def _watch(self, client: distributed.Client) -> None:
        """Gives up the jobs when all workers have been absent for a while: Dask would wait for ever."""
        seen = time.monotonic()
        while not self._closed.wait(1.0):
            try:
                if present_workers(client):
                    seen = time.monotonic()
            except (OSError, TimeoutError):  # the scheduler is gone, too
                pass
            if time.monotonic() - seen < ABSENT_SECONDS:
                continue
            with self._lock:
                pending = self._pending
                self._pending = {}
            reason = f"none came back within {ABSENT_SECONDS:g} s"
            error = AllWorkersLostError(
                f"{self._name}: all workers are lost, and {reason}; their logs tell why."
            )
            for future, _ in pending.values():
                future.set_exception(error)

    def _receive(self, key: str, reply: Any) -> None:
        """Sets the future of a job from Dask's, which is done."""
        with self._lock:
            future, _ = self._pending.pop(key, (None, None))
        if future is None:
            return  # the executor was closed
        try:
            packed = reply.result(timeout=STOP_SECONDS)
        except Exception as error:
            future.set_exception(self._lost(error))
            return
        try:
            future.set_result(result_of(packed))
        except Exception as error:
            future.set_exception(error)

    def _lost(self, error: Exception) -> WorkerLostError | AllWorkersLostError:
        if isinstance(error, distributed.KilledWorker):
            limit = ""
            if self.timeout:
                limit = f", or the job exceeded executor.timeout={self.timeout:g} s"
            return WorkerLostError(
                f"{self._name}: the Dask worker {error.last_worker.address} died or lost its connection"
                f"{limit}; its log or its queue system has the reason"
            )
        name = type(error).__name__
        return AllWorkersLostError(
            f"{self._name} does not answer any more ({name}); start it again."
        )

    def close(self) -> None:
        self._closed.set()
        client = self._client
        self._client = None
        started = self._started
        self._started = None
        with self._lock:
            pending = self._pending
            self._pending = {}
        if client is not None and client.status == "running" and pending:
            end_tasks(client, [reply for _, reply in pending.values()])
        disconnect(client, started)
        for future, _ in pending.values():
            future.set_exception(WorkerLostError("the executor was closed"))

    @property
    def num_workers(self) -> int:
        """Number of workers now, at least 1; it follows a cluster that grows."""
        if self._client is None:
            return 1
        try:
            return max(len(present_workers(self._client)), 1)
        except OSError:  # the next `submit` reports it
            return 1

    def _about_threads(self) -> str:
        """Returns the threads and cores of the machine of the first worker."""
        if not self._machines:
            return f"{self._name}: jobs begin as the queue system starts workers."
        machines = list(self._machines.values())
        num_cores = len(machines[0][1])
        threads = self._num_threads
        if not threads and not HAS_AFFINITY:
            threads = num_cores
        return message_on_threads(
            machines.count(machines[0]),
            threads,
            num_cores,
            "executor.cluster.n_workers",
        )

    @property
    def _name(self) -> str:
        """The cluster in messages."""
        if self.scheduler is not None:
            return f"executor.scheduler={self.scheduler}"
        return f"executor.cluster._target_={(self.cluster or {}).get('_target_')}"

    @property
    def _has_queue(self) -> bool:
        """Whether workers may begin later, as a queue system starts them."""
        return self._started is not None and not isinstance(
            self._started, distributed.LocalCluster
        )

    def _wait_for_workers(self, client: distributed.Client) -> None:
        """Waits a bounded time for the first worker.

        Raises:
            ConfigError: There is none, or one cannot import the work. A queue system may start workers later.
        """
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            if not self._has_queue:
                raise ConfigError(
                    f"{self._name}: no worker connected within {CONNECT_SECONDS:g} s. Start one with "
                    f"`dask worker {client.scheduler.address}`, or set executor.cluster.n_workers."
                ) from None
        self._find_workers(client)

    def _find_workers(self, client: distributed.Client) -> None:
        """Updates the machines of the workers from the scheduler."""
        present = present_workers(client)
        new = [address for address in sorted(present) if address not in self._machines]
        is_child = isinstance(self._started, distributed.LocalCluster)
        answers = {}
        if new:
            answers = client.run(
                _prepare, self._work, is_child, workers=new, on_error="return"
            )
        for address, answer in answers.items():
            # An OSError: the worker is lost already.
            if isinstance(answer, Exception) and not isinstance(answer, OSError):
                raise ConfigError(
                    f"{self._name}: the worker {address} cannot import what a job needs ({answer!r}). "
                    "Install the same version there: pip install 'ltrbench[dask]'."
                )
        known = {**self._machines, **answers}
        self._machines = {
            name: known[name] for name in present if isinstance(known.get(name), tuple)
        }

    def _cores(self) -> dict[str, list[int]]:
        """Returns address -> its share of its machine's cores; a worker that is left out uses all of them."""
        if self._num_threads or not HAS_AFFINITY:
            return {}
        shares: dict[str, list[int]] = {}
        machines = self._machines
        for address, machine in machines.items():
            here = [name for name, other in machines.items() if other == machine]
            _, cores = machine
            shares[address] = share_of_cores(cores, here.index(address), len(here))
        return shares


def _start_cluster(settings: Mapping[str, Any], retries: int) -> Cluster:
    """Starts the cluster that executor.cluster describes; its scheduler repeats a task `retries` times."""
    arguments = dict(settings)
    target = str(arguments.pop("_target_", None))
    try:
        module_name, _, class_name = target.rpartition(".")
        cluster_class = getattr(import_user_module(module_name), class_name)
        if not issubclass(cluster_class, Cluster):
            raise TypeError("it is not derived from distributed.deploy.cluster.Cluster")
        if issubclass(cluster_class, distributed.LocalCluster):
            arguments = {**LOCAL_CLUSTER, "threads_per_worker": 1, **arguments}
        with dask.config.set({"distributed.scheduler.allowed-failures": retries}):
            return cluster_class(**arguments)
    # A cluster class may raise anything: about its arguments, a queue system, or an account of a cloud.
    except Exception as error:
        raise ConfigError(
            f"executor.cluster._target_ is {target}, which could not be started with the arguments "
            f"{', '.join(arguments) or 'none'} ({error!r}). Name a cluster class of an installed package, "
            "such as dask_jobqueue.SLURMCluster, and its arguments."
        ) from error


def _prepare(pickled_work: bytes, is_child: bool) -> _Machine:
    """Runs in the main thread of a worker process, before its first job: imports the work."""
    if is_child:
        ignore_interrupts()
    pickle.loads(pickled_work)
    return socket.gethostname(), tuple(usable_cores())


def _run_job(
    pickled_work: bytes,
    job: bytes,
    cores: Mapping[str, list[int]],
    timeout: float | None,
) -> bytes:
    """Runs in a thread of a worker process."""
    with _one_job:
        if cores_of_worker := cores.get(distributed.get_worker().address):
            # Of this thread, and of the threads that the libraries start in it.
            os.sched_setaffinity(0, cores_of_worker)
        watch = threading.Timer(timeout or 0, os.kill, (os.getpid(), signal.SIGKILL))
        watch.daemon = True
        if timeout is not None:
            watch.start()
        try:
            return reply_to(pickle.loads(pickled_work), job)
        # They would end the worker, with Dask's reports of it.
        except (KeyboardInterrupt, SystemExit) as error:
            name = type(error).__name__
            lost = WorkerLostError(f"the job raised {name}: {error}")
            return pickle.dumps((None, lost))
        finally:
            watch.cancel()
