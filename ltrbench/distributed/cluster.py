"""The settings of a Dask cluster on which one fit runs: it is started here, or it runs already."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import dask
import distributed

from ltrbench.distributed.base import Distribution
from ltrbench.distributed.connecting import connected, disconnect, silence_dask, without_warnings
from ltrbench.distributed.workers import Workers
from ltrbench.errors import ConfigError, require
from ltrbench.measure.available import available_cores

_MOST_PER_CORE, _MOST_ON_FEW_CORES = 4, 16
"""Maximum number of workers that are started on this machine: per core, and in any case. Each is a process
with its own libraries."""
_CONNECT_SECONDS = 30.0
"""Limit for the connection to a scheduler."""
_RETURN_TIME = "10 minutes"
"""How long a cluster that is started here waits for a worker process that is started again. Dask's default of
15 seconds is too short on a busy machine."""


@dataclass(kw_only=True)
class DaskWorkers(Distribution):
    """Fits on the workers of a Dask cluster: of `scheduler`, or of a cluster that is started on this machine
    and ends with the context."""

    workers: int | None = 2
    """Number of workers that fit one model; None: all of the scheduler's that are there."""
    scheduler: str | None = None
    """Address of a running scheduler, such as tcp://HOST:8786; None: start a cluster on this machine."""
    threads_per_worker: int | None = None
    """Threads of each worker; None: a started worker has its share of the cores, any other as many as Dask
    gives it."""
    wait: float = 30.0
    """Maximum seconds until the workers are there, and until all have begun a fit."""
    timeout: float = 600.0
    """Maximum seconds that a worker waits for the others in one exchange."""

    def __post_init__(self) -> None:
        require("distributed.workers", self.workers, at_least=1)
        require("distributed.threads_per_worker", self.threads_per_worker, at_least=1)
        require("distributed.wait", self.wait, above=0)
        require("distributed.timeout", self.timeout, at_least=1)
        if self.scheduler is None and self.workers is None:
            raise ConfigError(
                "distributed.workers is null, but distributed.scheduler is null too, so the workers are "
                "started here. Set their number, as in distributed.workers=2, or the address of a running "
                "scheduler, as in distributed.scheduler=tcp://HOST:8786."
            )
        most = max(_MOST_PER_CORE * available_cores(), _MOST_ON_FEW_CORES)
        if self.scheduler is None and self.workers is not None and self.workers > most:
            raise ConfigError(
                f"distributed.workers is {self.workers}, but the workers are started on this machine, which "
                f"has {available_cores()} cores. Set it to at most {most}, or name a cluster of several "
                "machines with distributed.scheduler=tcp://HOST:8786."
            )

    def open(self) -> AbstractContextManager[Workers]:
        return self._opened()

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Workers]:
        silence_dask()
        cluster, client = None, None
        dask.config.set({"distributed.deploy.lost-worker-timeout": _RETURN_TIME})
        try:
            with without_warnings():
                cluster = self._started() if self.scheduler is None else None
                client = connected(
                    self.scheduler or cluster, _CONNECT_SECONDS, self._place, "distributed.scheduler"
                )
                workers = Workers(
                    client,
                    number=self.workers,
                    num_threads=self.threads_per_worker,
                    place=self._place,
                    is_local=cluster is not None,
                    wait=self.wait,
                    timeout=self.timeout,
                )
            yield workers
        finally:
            disconnect(client, cluster)

    @property
    def _place(self) -> str:
        """The cluster in messages."""
        if self.scheduler is None:
            return f"distributed.workers={self.workers} on this machine"
        return f"distributed.scheduler={self.scheduler}"

    def _started(self) -> distributed.LocalCluster:
        """Starts workers that only this machine can reach, and that end with this process."""
        assert self.workers is not None  # __post_init__ checked it; repeated for the type checker
        return distributed.LocalCluster(
            n_workers=self.workers,
            threads_per_worker=self.threads_per_worker or max(available_cores() // self.workers, 1),
            processes=True,
            host="127.0.0.1",
            # A free port for requests by HTTP, which answers without the pages of the dashboard.
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            # Dask would pause a worker whose data fill most of its share, and the fit would wait for it.
            memory_limit=0,
            silence_logs=logging.ERROR,
        )
