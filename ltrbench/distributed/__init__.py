"""One fit by several processes: the contract of where a fit runs, shards of a data set, failures of members.

To fit somewhere else, write one dataclass derived from `Distribution` and one YAML in conf/distributed whose
`_target_` names it. This module does not import Dask; `cluster` has the Dask cluster, the functions that all
of its workers run, and what they exchange.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import AnyFeatures, RowView, StackedRows, as_array, csr_of
from ltrbench.data.store import StoredRows
from ltrbench.errors import ConfigError, DataError, LtrbenchError


class FitsTogether(Protocol):
    """The workers of a distributed fit, as far as rankers use them.

    The lists of arguments and of results are by rank, in the order of `addresses`.
    """

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of the workers."""

    @property
    def client(self) -> Any:
        """The `distributed.Client` of the cluster."""

    @property
    def members(self) -> Sequence[Any]:
        """The workers by rank, each with its `num_threads`."""

    def run(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
    ) -> list[Any]:
        """Calls function(*arguments) once on each worker.

        Raises:
            MemberError: A member failed or ended.
        """

    def run_team(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
    ) -> list[Any]:
        """Calls function(team, *arguments) on all workers at the same time, inside a collective.

        Raises:
            LtrbenchError: A member failed or ended.
        """


@dataclass(kw_only=True)
class Distribution(ABC):
    """Where one fit runs."""

    @abstractmethod
    def open(self) -> AbstractContextManager[FitsTogether | None]:
        """Returns a context with the workers that fit together; None: this process fits alone.

        Raises:
            ConfigError: The workers cannot be reached or started, or are too few.
        """


@dataclass(kw_only=True)
class OneProcess(Distribution):
    """This process fits alone. `ltrbench.config.resolved` replaces it by null."""

    def open(self) -> AbstractContextManager[FitsTogether | None]:
        return nullcontext()


# ---- The error of a failed member; how a process ended, in words; exceptions that travel between
# processes.
#
# Imports neither Dask nor a numerical library: a worker of a sweep imports it before its cores are set.


class MemberError(LtrbenchError):
    """Member of a distributed fit that failed, ended, did not begin or cannot be reached any more."""


def describe_exit(exit_code: int) -> str:
    """Returns the end of a process in words.

    >>> describe_exit(3), describe_exit(-signal.SIGSEGV)
    ('ended with exit code 3', 'was killed by SIGSEGV')
    """
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    name = signal.Signals(-exit_code).name
    cause = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"was killed by {name}{cause}"


def portable(error: BaseException) -> BaseException:
    """Returns an exception that can be pickled, with the traceback of this process as a note."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    try:
        copy: BaseException = pickle.loads(pickle.dumps(error))
    # Whatever the methods of a foreign exception raise, its text can be kept.
    except Exception:
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    copy.add_note(f"In the worker process {os.getpid()}:\n{trace}")
    return copy


# ---- Divides a data set among workers, by query, and holds the parts on the workers.
#
# A shard consists of whole queries. It travels pickled, and unpickling neither checks nor reads the values
# again: the features of a store travel as references to its files, which every worker must find under the
# same path; other features travel as the values of the rows of the shard.
#
#     placed = send_shards(workers, divide_queries(dataset, len(workers.addresses)))
#     workers.run(function, [(key,) for key in placed.keys])    # function(key) reads held(key) on its
#     worker
#
# To deal queries in another way, pass a function like `contiguous`. Shapes: D documents, Q queries.

QueryNumbers = NDArray[np.int64]
"""Ascending numbers of queries."""
Deal = Callable[[NDArray[np.int64], int], Sequence[QueryNumbers]]
"""Returns the ascending numbers of the queries of each shard, given the documents of each query, (Q,), and
the number of shards."""


@dataclass(frozen=True, eq=False)
class QueryShard:
    """The part of a data set that one worker holds.

    Attributes:
        queries: (n,), numbers of its queries in the whole data set, ascending.
        dataset: these queries.
    """

    queries: NDArray[np.int64]
    dataset: RankingDataset

    @classmethod
    def whole(cls, dataset: RankingDataset) -> Self:
        """Returns all queries of a data set, of a fit in one process."""
        return cls(np.arange(dataset.num_queries), dataset)

    def __reduce__(self) -> tuple[Any, ...]:
        return QueryShard, (self.queries, _portable(self.dataset))


@dataclass(frozen=True, eq=False)
class PlacedShards:
    """The shards of a data set that workers hold.

    Attributes:
        keys: the key of each shard on its worker, by rank; `held` returns the shard.
        shards: the shards in this process, by rank.
    """

    keys: tuple[str, ...]
    shards: tuple[QueryShard, ...]


def contiguous(
    query_sizes: NDArray[np.int64], num_shards: int
) -> list[NDArray[np.int64]]:
    """Deals consecutive queries to each shard, with about equal numbers of documents: a worker then reads one
    part of a file from its beginning to its end.

    >>> [queries.tolist() for queries in contiguous(np.array([1, 1, 1, 3, 4, 2]), 3)]
    [[0, 1, 2], [3, 4], [5]]
    """
    num_queries = len(query_sizes)
    ends = np.cumsum(query_sizes)
    wanted = ends[-1] * np.arange(1, num_shards) / num_shards
    after = np.searchsorted(ends, wanted)
    # The cut before or after the query in which the wanted number of documents is reached.
    missing_before = wanted - (ends[after] - query_sizes[after])
    cuts = after + (ends[after] - wanted <= missing_before)
    ranks = np.arange(num_shards - 1)
    # No shard is empty.
    cuts = np.maximum(cuts - ranks, 1)
    cuts = np.maximum.accumulate(cuts) + ranks
    cuts = np.minimum(cuts, num_queries - num_shards + 1 + ranks)
    return np.split(np.arange(num_queries), cuts)


def divide_queries(
    dataset: RankingDataset, num_shards: int, deal: Deal = contiguous
) -> list[QueryShard]:
    """Divides a data set into shards; raises ConfigError if there are fewer queries than shards."""
    if dataset.num_queries < num_shards:
        raise ConfigError(
            f"distributed.workers is {num_shards}, but a split has {dataset.num_queries} queries. "
            "Set distributed.workers to at most that number."
        )
    dealt = deal(dataset.query_sizes, num_shards)
    return [QueryShard(queries, dataset.take_queries(queries)) for queries in dealt]


def send_shards(workers: FitsTogether, shards: Sequence[QueryShard]) -> PlacedShards:
    """Sends one shard to each worker, which holds it until `drop`.

    Raises:
        MemberError: A worker cannot open the files of the features, or finds other files there.
    """
    name = uuid.uuid4().hex
    keys = tuple(f"{name}-{rank}" for rank in range(len(shards)))
    pickled = map(pickle.dumps, shards)
    workers.run(_hold, list(zip(keys, pickled, strict=True)))
    return PlacedShards(keys, tuple(shards))


_held: dict[str, QueryShard] = {}
"""The shards that this process holds."""


def held(key: str) -> QueryShard:
    """Returns a shard that this worker holds.

    Raises:
        DataError: It holds no shard with this key, because its process was started again.
    """
    if key not in _held:
        raise DataError(
            "the worker has lost its shard of the data, because its process was started again. Run the job "
            "again, with more memory or more distributed.workers."
        )
    return _held[key]


def _hold(key: str, pickled: bytes) -> None:
    shard = pickle.loads(pickled)
    assert isinstance(shard, QueryShard)
    _held[key] = shard


def release_shard(key: str) -> None:
    """Releases a shard, if this worker holds it."""
    _held.pop(key, None)


def _portable(dataset: RankingDataset) -> RankingDataset:
    """Returns the data set without cached values, and with features that hold no other rows."""
    features: AnyFeatures = dataset.features
    if isinstance(features, RowView) and not _is_reference(features):
        sparse = csr_of(features)
        features = as_array(features) if sparse is None else sparse
    portable = object.__new__(RankingDataset)
    values = {item.name: getattr(dataset, item.name) for item in fields(RankingDataset)}
    portable.__setstate__({**values, "features": features})
    return portable


def _is_reference(features: AnyFeatures) -> bool:
    """Returns whether pickled features are references to files."""
    if isinstance(features, RowView):
        return _is_reference(features.base)
    if isinstance(features, StackedRows):
        return all(_is_reference(part) for part in features.parts)
    return isinstance(features, StoredRows)
