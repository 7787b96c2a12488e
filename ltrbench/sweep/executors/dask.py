"""Runs jobs on a Dask cluster: one that runs already, or one that is started by a cluster class of Dask.

Dask transports jobs and results; which worker runs which job is decided here, in one thread, the dispatcher.
A worker process runs one job at a time, whatever its number of threads, and a job is bound to its worker. So
the dispatcher notices a lost worker, and repeats the job on another one. Dask itself would repeat it as often
as its scheduler is configured to.

Jobs run in a thread of the worker process, not in its main thread: no signal handlers can be set there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import socket
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

try:
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
PATIENCE_SECONDS = 60.0
"""How long jobs wait while there is no worker, except for a queue system, which may start workers later."""
LOOK_SECONDS = 0.5
"""Time between two looks at the workers of the cluster."""

_one_job = threading.Lock()
"""Held by the job of this worker process; a job of another client waits for it."""


@dataclass(kw_only=True)
class DaskExecutor(Executor):
    """Runs jobs on the workers of a Dask cluster, one at a time on each. Set `scheduler` or `cluster`."""

    scheduler: str | None = None
    """Address of a running scheduler, such as tcp://HOST:8786."""
    cluster: dict[str, Any] | None = None
    """`_target_`: a class derived from `distributed.deploy.cluster.Cluster`; other keys: its arguments. Null
    values alone are no cluster."""
    timeout: float | None = None
    """Maximum seconds of a job, counted from its dispatch to a worker; None: no limit."""
    retries: int = 1
    """How often a job is repeated whose worker was lost or which exceeded `timeout`."""

    def __post_init__(self) -> None:
        require("executor.timeout", self.timeout, above=0)
        require("executor.retries", self.retries, at_least=0)
        self._started: Cluster | None = None
        self._client: distributed.Client | None = None
        self._dispatcher: _Dispatcher | None = None
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
        with without_warnings():
            try:
                self._client = self._connect()
                self._dispatcher = _Dispatcher(self, self._client, pickle.dumps(work), num_threads)
                self._dispatcher.wait_for_workers()
            except BaseException:
                self.close()
                raise
        self._dispatcher.thread.start()

    def submit(self, job: Any) -> Future[Any]:
        assert self._dispatcher is not None  # open comes first
        future: Future[Any] = Future()
        try:
            pending = _Pending(pickle.dumps(job), future, self.retries)
        except Exception as error:  # a job that cannot be pickled
            future.set_exception(error)
        else:
            self._dispatcher.events.put(partial(self._dispatcher.add, pending))
        return future

    def close(self) -> None:
        dispatcher, self._dispatcher = self._dispatcher, None
        client, self._client = self._client, None
        started, self._started = self._started, None
        if dispatcher is not None:
            dispatcher.stop()
        disconnect(client, started)

    @property
    def num_workers(self) -> int:
        """Number of usable workers now, at least 1; it follows a cluster that grows."""
        return max(self._dispatcher.num_usable if self._dispatcher else 0, 1)

    @property
    def message(self) -> str | None:
        return self._dispatcher.message() if self._dispatcher else None

    @property
    def is_queued(self) -> bool:
        """Whether a queue system starts the workers, perhaps much later."""
        return self._started is not None and not isinstance(self._started, distributed.LocalCluster)

    @property
    def is_local(self) -> bool:
        """Whether the workers are child processes of this one."""
        return isinstance(self._started, distributed.LocalCluster)

    @property
    def place(self) -> str:
        """The cluster in messages."""
        if self.cluster is None:
            return f"executor.scheduler={self.scheduler}"
        return f"executor.cluster._target_={self.cluster.get('_target_')}"

    def _connect(self) -> distributed.Client:
        if self.cluster is not None:
            self._started = _start_cluster(self.cluster)
        target = self.scheduler if self._started is None else self._started
        return connected(target, CONNECT_SECONDS, self.place, "executor.scheduler")


def _start_cluster(settings: Mapping[str, Any]) -> Cluster:
    """Starts the cluster that executor.cluster describes."""
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


@dataclass(eq=False)
class _Pending:
    """A job, and the limits of its current attempt."""

    job: bytes
    future: Future[Any]
    retries_left: int

    def is_wanted(self) -> bool:
        """Whether the job was not cancelled, which is no longer possible after this call."""
        return self.future.running() or self.future.set_running_or_notify_cancel()


@dataclass(eq=False)
class _DaskWorker:
    """A worker process of the cluster.

    Attributes:
        pending: its job; None: it has none, or the one that runs there was given up.
        reply: Dask's future of what runs there.
        end: time at which the job exceeds its limit.
    """

    address: str
    machine: _Machine
    has_nanny: bool
    pending: _Pending | None = None
    reply: Any = None
    end: float | None = None

    @property
    def is_stuck(self) -> bool:
        return self.pending is None and self.reply is not None


class _Dispatcher:
    """The thread that gives jobs to workers. All other threads only put events for it, which it calls."""

    def __init__(
        self, executor: DaskExecutor, client: distributed.Client, work: bytes, num_threads: int
    ) -> None:
        self.executor = executor
        self.client = client
        self.work = work
        self.num_threads = num_threads
        self.events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.waiting: deque[_Pending] = deque()
        self.workers: dict[tuple[str, str], _DaskWorker] = {}
        """Address and folder of a worker, which is another one after a restart at the same address."""
        self.broken: dict[tuple[str, str], BaseException] = {}
        """Workers that cannot import the work."""
        self.without_workers_since: float | None = None
        self.thread = threading.Thread(target=self.serve, name="ltrbench Dask dispatcher", daemon=True)

    def wait_for_workers(self) -> None:
        """Waits a bounded time for the first worker.

        Raises:
            ConfigError: There is none, or none has ltrbench.
        """
        end = time.monotonic() + CONNECT_SECONDS
        self.find_workers()
        while not self.workers and not self.broken and time.monotonic() < end:
            time.sleep(0.1)
            self.find_workers()
        if self.workers:
            return
        if self.broken:
            problem = next(iter(self.broken.values()))
            raise ConfigError(
                f"{self.executor.place}: the worker {next(iter(self.broken))[0]} cannot import what a job "
                f"needs: {type(problem).__name__}: {problem}. Install there what is installed here: "
                "pip install 'ltrbench[dask]', in the same version."
            )
        if not self.executor.is_queued:
            raise ConfigError(
                f"{self.executor.place}: no worker connected within {CONNECT_SECONDS:g} s. Start one with "
                f"`dask worker {self.client.scheduler.address}`, or set executor.cluster.n_workers."
            )

    @property
    def num_usable(self) -> int:
        return sum(not worker.is_stuck for worker in list(self.workers.values()))

    def message(self) -> str:
        """Returns the threads and cores of the machine with the most workers per core."""
        machines = Counter(worker.machine for worker in list(self.workers.values()))
        if not machines:
            return (
                f"{self.executor.place}: no worker has connected within {CONNECT_SECONDS:g} s; jobs begin as "
                "the queue system starts workers."
            )
        fullest = max(machines, key=lambda machine: machines[machine] / machine.num_cores)
        threads = self.num_threads or (0 if fullest.cores else fullest.num_cores)
        text = message_on_threads(machines[fullest], threads, fullest.num_cores, "executor.cluster.n_workers")
        return text if len(machines) == 1 else f"Workers on {len(machines)} machines, of which one has {text}"

    def serve(self) -> None:
        """Calls events and looks after the workers, until the executor is closed."""
        problem = "the executor was closed"
        next_look = 0.0
        try:
            while True:
                with contextlib.suppress(queue.Empty):
                    event = self.events.get(timeout=LOOK_SECONDS)
                    if event is None:
                        return
                    event()
                if time.monotonic() >= next_look:
                    self.look()
                    next_look = time.monotonic() + LOOK_SECONDS
                self.assign()
        except WorkerLostError as error:
            problem = str(error)
        except Exception as error:
            problem = f"the connection to Dask failed: {type(error).__name__}: {error}"
        finally:
            self.give_up_everything(WorkerLostError(problem))
            if problem != "the executor was closed":
                self.refuse_events(WorkerLostError(problem))

    def give_up_everything(self, problem: WorkerLostError) -> None:
        for worker in self.workers.values():
            if worker.pending is not None:
                worker.pending.future.set_exception(problem)
                worker.pending = None
        for pending in self.waiting:
            if pending.is_wanted():
                pending.future.set_exception(problem)
        self.waiting.clear()

    def refuse_events(self, problem: WorkerLostError) -> None:
        """Fails each further job at once, until the executor is closed."""
        while (event := self.events.get()) is not None:
            event()
            self.give_up_everything(problem)

    def add(self, pending: _Pending) -> None:
        self.waiting.append(pending)

    def assign(self) -> None:
        """Gives waiting jobs to workers without a job."""
        if self.client.status != "running":
            return
        idle = [worker for worker in self.workers.values() if worker.reply is None]
        while self.waiting and idle:
            pending = self.waiting.popleft()
            if pending.is_wanted():
                self.give(pending, idle.pop(0))

    def give(self, pending: _Pending, worker: _DaskWorker) -> None:
        limit = self.executor.timeout
        worker.pending = pending
        worker.end = None if limit is None else time.monotonic() + limit
        reply = worker.reply = self.client.submit(
            _run_job,
            self.work,
            pending.job,
            self.cores_of(worker),
            key=f"ltrbench-{uuid.uuid4().hex}",
            workers=[worker.address],
            allow_other_workers=False,
            pure=False,
        )
        reply.add_done_callback(lambda done: self.events.put(partial(self.receive, worker, done)))

    def cores_of(self, worker: _DaskWorker) -> list[int]:
        """Returns the share of its machine's cores; empty: the worker uses all cores it may use."""
        cores = worker.machine.cores
        if self.num_threads or not cores:
            return []
        here = [other for other in self.workers.values() if other.machine == worker.machine]
        return share_of_cores(cores, here.index(worker), len(here))

    def receive(self, worker: _DaskWorker, reply: Any) -> None:
        """Sets the future of a job from Dask's, which is done."""
        if reply is not worker.reply:
            return  # of an attempt that was lost
        pending, worker.pending = worker.pending, None
        worker.reply = None
        if pending is None:
            return  # of an attempt that exceeded its time
        try:
            settle(pending.future, reply.result(timeout=STOP_SECONDS))
        except (distributed.CancelledError, distributed.KilledWorker, OSError, TimeoutError):
            self.lose(pending, _reason_of_loss(worker))
        except Exception as error:
            pending.future.set_exception(error)

    def lose(self, pending: _Pending, reason: str) -> None:
        """Repeats a job whose attempt failed, or sets its exception."""
        if pending.retries_left:
            pending.retries_left -= 1
            self.waiting.appendleft(pending)
        else:
            pending.future.set_exception(WorkerLostError(reason))

    def release(self, worker: _DaskWorker, reason: str) -> None:
        """Gives up the attempt that runs on a lost worker."""
        pending, reply = worker.pending, worker.reply
        worker.pending = worker.reply = None
        if reply is not None:
            reply.cancel()
        if pending is not None:
            self.lose(pending, reason)

    def look(self) -> None:
        """Notices new, lost and overdue workers."""
        if not self.waiting and all(worker.reply is None for worker in self.workers.values()):
            return
        self.find_workers()
        self.end_overdue()
        if self.num_usable or self.executor.is_queued or not self.waiting:
            self.without_workers_since = None
        elif self.without_workers_since is None:
            self.without_workers_since = time.monotonic()
        elif time.monotonic() > self.without_workers_since + PATIENCE_SECONDS:
            raise WorkerLostError(
                f"{self.executor.place} had no worker for {PATIENCE_SECONDS:g} s; start workers, and resume"
            )

    def find_workers(self) -> None:
        """Updates `workers` from the scheduler."""
        if self.client.status == "connecting":
            return  # it tries again for CONNECT_SECONDS
        if self.client.status != "running":
            raise WorkerLostError(f"{self.executor.place} does not answer any more; start it, and resume")
        try:
            workers = present_workers(self.client)
        except OSError:
            return  # the next look finds the connection closed
        present = {(address, info["local_directory"]): info for address, info in workers.items()}
        for key in set(self.workers) - set(present):
            worker = self.workers.pop(key)
            self.release(worker, _reason_of_loss(worker))
        new = {key: present[key] for key in sorted(set(present) - set(self.workers) - set(self.broken))}
        if new:
            self.prepare(new)

    def prepare(self, new: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
        """Imports the work in new workers, and learns their machines."""
        machines = self.client.run(
            _prepare,
            self.work,
            self.executor.is_local,
            workers=[address for address, _ in new],
            on_error="return",
        )
        for key, info in new.items():
            machine = machines.get(key[0])
            if isinstance(machine, (OSError, type(None))):
                continue  # lost already
            if isinstance(machine, BaseException):
                self.broken[key] = machine
            else:
                self.workers[key] = _DaskWorker(key[0], machine, bool(info["nanny"]))

    def end_overdue(self) -> None:
        """Ends the jobs that exceed their time, with their worker processes."""
        now = time.monotonic()
        overdue = {
            key: worker
            for key, worker in self.workers.items()
            if worker.pending is not None and worker.end is not None and worker.end < now
        }
        ended = []
        for key, worker in overdue.items():
            reason = (
                f"the job exceeded executor.timeout={self.executor.timeout:g} s on the Dask worker "
                f"{worker.address}, which "
            )
            if worker.has_nanny:
                del self.workers[key]
                ended.append(worker.address)
                self.release(worker, f"{reason}was ended")
            elif worker.pending is not None:
                pending, worker.pending = worker.pending, None
                self.lose(
                    pending,
                    f"{reason}Dask cannot end because it has no nanny: the job still runs there, and the "
                    "worker gets no other job until it ends. Start workers without --no-nanny",
                )
        end_processes(self.client, ended)

    def stop(self) -> None:
        """Ends this thread, and the running jobs with their processes."""
        self.events.put(None)
        if self.thread.is_alive():
            self.thread.join(STOP_SECONDS)
        running = {worker: worker.reply for worker in self.workers.values() if worker.reply is not None}
        if self.client.status == "running":
            for reply in running.values():
                reply.cancel()
            end_processes(self.client, [worker.address for worker in running if worker.has_nanny])


def _reason_of_loss(worker: _DaskWorker) -> str:
    return (
        f"the Dask worker {worker.address} on {worker.machine.name} died during the job or lost its "
        "connection; its log or its queue system has the reason"
    )


def _prepare(pickled_work: bytes, is_child: bool) -> _Machine:
    """Runs in the main thread of a worker process, before its first job: imports the work."""
    if is_child:
        ignore_interrupts()
    pickle.loads(pickled_work)
    cores = tuple(usable_cores())
    return _Machine(socket.gethostname(), cores, len(cores) or os.cpu_count() or 1)


def _run_job(pickled_work: bytes, job: bytes, cores: list[int]) -> bytes:
    """Runs in a thread of a worker process."""
    with _one_job:
        if cores:
            # Of this thread, and of the threads that the libraries start in it.
            os.sched_setaffinity(0, cores)
        try:
            return reply_to(pickle.loads(pickled_work), job)
        except (KeyboardInterrupt, SystemExit) as error:  # would end the worker, with Dask's reports of it
            return pickle.dumps((None, WorkerLostError(f"the job raised {type(error).__name__}: {error}")))
