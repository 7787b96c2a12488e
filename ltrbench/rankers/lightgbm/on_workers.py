"""LightGBM's fit on the workers of a Dask cluster, with `lightgbm.dask.DaskLGBMRanker`.

Every worker turns its shard into one partition of each Dask array. The partitions stay on their workers, and
the group sizes of a partition sum to its rows, because no query is divided. LightGBM then connects the
workers by sockets of its own and adds their histograms (tree_learner=data).
"""

from __future__ import annotations

import contextlib
import io
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import FeatureMatrix, as_array
from ltrbench.distributed.shards import (
    MemberKeys,
    PlacedShards,
    QueryShard,
    held,
    held_by_member,
    keys_of_members,
)
from ltrbench.errors import ConfigError, LtrbenchError
from ltrbench.rankers.base import threads_of_workers
from ltrbench.rankers.capabilities import FitsTogether
from ltrbench.rankers.early_stopping import FitCurve, JoinsArrays, MemberMonitor
from ltrbench.rankers.library import weights_of_documents
from ltrbench.rankers.lightgbm.features import csr_of_zeros

_LOOK_SECONDS = 1.0
"""Time between two looks at the workers."""

_SET_BY_DASK = ("num_threads",)
"""Parameters that `lightgbm.dask` sets: each worker uses the threads that Dask gives it."""


def fit_on_workers(
    workers: FitsTogether, train: PlacedShards, num_trees: int, parameters: Mapping[str, Any]
) -> str:
    """Returns the text of the model.

    Args:
        parameters: under LightGBM's names, as for a local fit.

    Raises:
        ImportError: A package that `lightgbm.dask` needs is missing.
        LtrbenchError: A worker has ended.
    """
    try:
        from lightgbm.dask import DaskLGBMRanker
    except ImportError as error:
        raise ImportError(_NEEDS) from error
    left = {name: value for name, value in parameters.items() if name not in _SET_BY_DASK}
    ranker = DaskLGBMRanker(client=workers.client, n_estimators=num_trees, **left)
    arrays = {name: _array(workers, train, make) for name, make in _PARTS.items()}
    if all(shard.dataset.query_weights is None for shard in train.shards):
        del arrays["sample_weight"]

    def fit() -> str:
        with workers.client.as_current():
            ranker.fit(arrays.pop("X"), arrays.pop("y"), **arrays)
        return str(ranker.booster_.model_to_string())

    # lightgbm.dask prints how it chooses ports, and always warns of n_jobs, which has a default. Output and
    # warnings belong to all threads, and the thread of a fit whose worker has ended may never restore them.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Parameter .* will be ignored")
        return _watched(workers, fit)


def check_threads(workers: FitsTogether, num_threads: int) -> None:
    """Raises ConfigError if the recorded number of threads would not be that of `lightgbm.dask`."""
    of_dask = workers.client.nthreads()
    wanted = threads_of_workers(workers, num_threads)
    for address, count in zip(workers.addresses, wanted, strict=True):
        if of_dask.get(address, count) != count:
            raise ConfigError(
                f"the Dask worker {address} has {of_dask[address]} threads, which lightgbm.dask uses, but "
                f"this fit is to use {count}. Set num_threads=0, and distributed.threads_per_worker=null for "
                "a running scheduler."
            )


_NEEDS = (
    "a distributed fit of model=lightgbm needs Dask and scikit-learn: pip install 'ltrbench[dask,sklearn]'"
)


def _features(shard: QueryShard) -> Any:
    features = shard.dataset.features
    sparse = csr_of_zeros(features) if isinstance(features, FeatureMatrix) else None
    return as_array(features) if sparse is None else sparse


def _labels(shard: QueryShard) -> NDArray[np.float64]:
    return shard.dataset.labels


def _query_sizes(shard: QueryShard) -> NDArray[np.int64]:
    return shard.dataset.query_sizes


def _weights(shard: QueryShard) -> NDArray[np.float64] | None:
    return weights_of_documents(shard.dataset)


_PARTS: dict[str, Callable[[QueryShard], Any]] = {
    "X": _features,
    "y": _labels,
    "group": _query_sizes,
    "sample_weight": _weights,
}
"""Argument of `DaskLGBMRanker.fit` -> function that makes it from a shard."""


def _part(make: Callable[[QueryShard], Any], key: str) -> Any:
    return make(held(key))


def _array(workers: FitsTogether, placed: PlacedShards, make: Callable[[QueryShard], Any]) -> Any:
    """Returns a Dask array with one partition on each worker, made there from its shard."""
    try:
        import dask
        import dask.array
    except ImportError as error:
        raise ImportError(_NEEDS) from error
    parts = []
    for address, key, shard in zip(workers.addresses, placed.keys, placed.shards, strict=True):
        future = workers.client.submit(_part, make, key, workers=[address], pure=False)
        rows = shard.dataset.num_queries if make is _query_sizes else shard.dataset.num_documents
        shape = (rows, shard.dataset.num_features) if make is _features else (rows,)
        parts.append(dask.array.from_delayed(dask.delayed(future), shape, dtype=np.float64))
    return dask.array.concatenate(parts)


def _watched(workers: FitsTogether, fit: Callable[[], str]) -> str:
    """Returns the result of a fit; ends it if a worker has ended, for which `lightgbm.dask` would wait
    without limit.

    Raises:
        LtrbenchError: A worker has ended.
    """
    results: list[str] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(fit())
        except BaseException as error:  # raised again in the thread of the caller
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True, name="lightgbm.dask")
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK_SECONDS)
        present = workers.client.nthreads()
        lost = [address for address in workers.addresses if address not in present]
        if lost:
            _end_others(workers, [address for address in workers.addresses if address in present])
            raise LtrbenchError(
                f"the Dask worker {lost[0]} (rank {workers.addresses.index(lost[0])}) ended during the fit "
                "of model=lightgbm, perhaps because memory ran out; the other workers were started again. "
                "Run the job again, with more memory or more workers (distributed.workers)."
            )
    if errors:
        raise errors[0]
    return results[0]


def _end_others(workers: FitsTogether, addresses: list[str]) -> None:
    """Starts the processes of workers again, which wait in LightGBM for the lost one."""
    # Without a nanny a worker cannot be started again; the error about the lost worker matters more.
    with contextlib.suppress(Exception):
        workers.client.restart_workers(addresses, timeout=10, raise_for_error=False)


def replayed_curve(
    workers: FitsTogether,
    train: PlacedShards,
    valid: PlacedShards | None,
    model: str,
    metrics: tuple[str, ...],
) -> tuple[FitCurve, float]:
    """Returns the learning curve of a model, and the seconds that it took.

    `lightgbm.dask` reports no scores during a fit. The workers compute those of each tree afterwards, with
    the final weights of the trees (extra.boosting=dart changes the weights during a fit).
    """
    if not metrics:
        return ([], {}), 0.0
    began = time.perf_counter()
    arguments = [
        (keys, model, metrics, member.num_threads)
        for keys, member in zip(keys_of_members(train, valid), workers.members, strict=True)
    ]
    curve: FitCurve = workers.run_team(_member_curve, arguments)[0]
    return curve, time.perf_counter() - began


def _member_curve(
    team: JoinsArrays, keys: MemberKeys, model: str, metrics: tuple[str, ...], num_threads: int
) -> FitCurve:
    train, valid = held_by_member(keys)
    shards = [train] if valid is None else [train, valid]
    booster, features = lgb.Booster(model_str=model), [_features(shard) for shard in shards]
    scores = [np.zeros(shard.dataset.num_documents) for shard in shards]
    monitor = MemberMonitor(None, team, train, valid, metrics)
    for tree in range(booster.num_trees()):
        for of_split, values in zip(scores, features, strict=True):
            of_split += np.asarray(
                booster.predict(values, start_iteration=tree, num_iteration=1, num_threads=num_threads)
            )
        monitor.should_stop(tree + 1, scores[0].copy(), None if valid is None else scores[1])
    return monitor.curve
