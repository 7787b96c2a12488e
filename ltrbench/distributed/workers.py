"""The workers that fit one model together.

with DaskWorkers(workers=2).open() as workers:
    workers.run(function, [(1,), (2,)])        # function(1) on rank 0, function(2) on rank 1
    workers.run_team(function, [(1,), (2,)])   # function(team, 1) and function(team, 2)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import distributed

from ltrbench.distributed.connecting import ANSWER_SECONDS, answers, present_workers, without_warnings
from ltrbench.distributed.members import LIBRARIES, Member, introduce, remember_process
from ltrbench.distributed.rounds import Circumstances, Round
from ltrbench.errors import ConfigError
from ltrbench.measure.provenance import versions

_LOOK_SECONDS = 0.1
"""Time between two looks for workers."""
_INTRODUCTION_SECONDS = 30.0
"""Limit for a worker to import ltrbench and its libraries."""
_MUST_AGREE = ("ltrbench", "numpy", "numba", "xgboost", "lightgbm")
"""Versions that must be the same everywhere: members exchange figures that each computes by itself."""


class Workers:
    """The workers of a Dask cluster on which one function runs at the same time.

    Attributes:
        client: the connection to the scheduler.
    """

    def __init__(
        self,
        client: distributed.Client,
        *,
        number: int | None,
        num_threads: int | None,
        place: str,
        is_local: bool,
        wait: float,
        timeout: float,
    ) -> None:
        """Waits for the workers and checks their versions.

        Args:
            number: how many workers are needed; None: all that are there.
            num_threads: number of threads of each worker; None: as many as Dask gives it.
            place: the cluster in messages.
            is_local: whether this process started the cluster.
            wait: maximum seconds until the workers are there, and until all have begun.
            timeout: maximum seconds that a member waits for another one in an exchange.

        Raises:
            ConfigError: There are too few workers, or their versions differ from those of this process.
        """
        self.client = client
        self._number = number
        self._num_threads = num_threads
        self._place = place
        self._is_local = is_local
        self._wait = wait
        self._timeout = timeout
        self._members = self._chosen()

    @property
    def members(self) -> tuple[Member, ...]:
        """The workers by rank."""
        return self._members

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses by rank."""
        return tuple(member.address for member in self._members)

    def run(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls a function once on each worker, at the same time, and returns the results by rank.

        Workers that were lost since the last call are replaced first, if others are there; what a lost
        worker held in memory is gone.

        Args:
            function: of a module that the workers can import.
            arguments: the arguments of each call, by rank.

        Raises:
            MemberError: A member failed, ended, or did not begin. All others have been stopped.
            ConfigError: There are too few workers.
        """
        return self._round(function, arguments, in_team=False)

    def run_team(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Like `run`, for functions that exchange values: the first argument of each is a `CollectiveTeam`.

        The collective of XGBoost is open in the thread of the function, so its training is distributed too.
        """
        return self._round(function, arguments, in_team=True)

    def _round(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], in_team: bool
    ) -> list[Any]:
        with without_warnings():
            self._replace_lost()
            if len(arguments) != len(self._members):
                raise ValueError(
                    f"there are arguments for {len(arguments)} members and {len(self._members)} members"
                )
            circumstances = Circumstances(
                self.client, self._members, self._place, self._is_local, self._wait, self._timeout
            )
            return Round(circumstances, function, arguments, in_team).results()

    def _replace_lost(self) -> None:
        """Chooses the members again if one is gone."""
        try:
            present = present_workers(self.client)
        except (OSError, TimeoutError):
            return  # the round reports a scheduler that does not answer
        if not set(self.addresses) <= set(present):
            self._number = len(self._members)
            self._members = self._chosen()

    def _chosen(self) -> tuple[Member, ...]:
        """Waits for the workers; returns the least occupied ones, sorted by address."""
        infos = self._present()
        tasks = self.client.processing(list(infos))
        addresses = sorted(infos, key=lambda address: (len(tasks.get(address, ())), _order(address)))
        addresses = sorted(addresses[: self._number], key=_order)
        introductions = answers(self.client, addresses, _INTRODUCTION_SECONDS, introduce, self._is_local)
        for address in addresses:
            self._check(address, introductions[address])
        with_nanny = [address for address in addresses if infos[address]["nanny"]]
        answers(self.client, with_nanny, ANSWER_SECONDS, remember_process, nanny=True)
        return tuple(
            Member(
                rank=rank,
                address=address,
                host=introductions[address][0],
                pid=introductions[address][1],
                num_threads=self._num_threads or infos[address]["nthreads"],
                nanny=infos[address]["nanny"],
            )
            for rank, address in enumerate(addresses)
        )

    def _present(self) -> dict[str, dict[str, Any]]:
        """Returns the workers, as soon as there are enough."""
        needed = self._number or 1
        end = time.monotonic() + self._wait
        while len(present := present_workers(self.client)) < needed:
            if time.monotonic() > end:
                number = "null (all that are there)" if self._number is None else needed
                raise ConfigError(
                    f"distributed.workers is {number}, but {self._place} has {len(present)} "
                    f"{'worker' if len(present) == 1 else 'workers'} after {self._wait:g} s. Start "
                    f"{needed - len(present)} more with `dask worker {self.client.scheduler.address}`, set "
                    "distributed.workers to fewer, or distributed.wait to more seconds."
                )
            time.sleep(_LOOK_SECONDS)
        return present

    def _check(self, address: str, introduction: Any) -> None:
        """
        Raises:
            ConfigError: The worker cannot import ltrbench, or has other versions.
        """
        remedy = "Install there what is installed here: pip install 'ltrbench[dask]', in the same version."
        if isinstance(introduction, BaseException):
            raise ConfigError(
                f"{self._place}: the worker {address} cannot import what a fit needs: "
                f"{type(introduction).__name__}: {introduction}. {remedy}"
            )
        there, here = introduction[2], versions(LIBRARIES)
        different = [
            f"{name} {there[name]} (here {here[name]})" for name in _MUST_AGREE if there[name] != here[name]
        ]
        if different:
            raise ConfigError(
                f"{self._place}: the worker {address} on {introduction[0]} has {', '.join(different)}, and "
                f"the members of a fit need the same versions. {remedy}"
            )


def _order(address: str) -> tuple[str, int, str]:
    """Sorts addresses by host and by the number of the port.

    >>> sorted(["tcp://10.0.0.1:9999", "tcp://10.0.0.1:10000"], key=_order)
    ['tcp://10.0.0.1:9999', 'tcp://10.0.0.1:10000']
    """
    host, _, port = address.rpartition(":")
    return (host, int(port), "") if port.isdigit() else (address, 0, port)
