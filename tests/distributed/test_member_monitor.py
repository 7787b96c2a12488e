"""The monitors of the members record the curve of one process, bit for bit, and stop where it stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ltrbench.data import RankingDataset, Splits
from ltrbench.distributed.base import Deal, PlacedShards, contiguous, divide_queries
from ltrbench.experiment.loading import CurveRecorder
from ltrbench.rankers import EarlyStopping, Monitor
from ltrbench.rankers.base import MemberMonitor

METRICS = ("ndcg@5", "map")
NUM_ITERATIONS, NUM_MEMBERS = 8, 3


@dataclass
class Meeting:
    """Where the members of a fit in threads of this process exchange arrays."""

    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(NUM_MEMBERS))
    brought: dict[int, NDArray[Any]] = field(default_factory=dict)


@dataclass
class ThreadTeam:
    rank: int
    meeting: Meeting

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        self.meeting.brought[self.rank] = values
        self.meeting.barrier.wait(timeout=30)
        arrays = [self.meeting.brought[rank] for rank in range(NUM_MEMBERS)]
        self.meeting.barrier.wait(timeout=30)
        return arrays


def data_set(seed: int) -> RankingDataset:
    rng = np.random.default_rng(seed)
    query_start = np.concatenate([[0], np.cumsum(rng.integers(1, 12, 40))])
    return RankingDataset(
        features=rng.normal(size=(query_start[-1], 2)).astype(np.float32),
        labels=rng.integers(0, 3, query_start[-1]).astype(np.float64),
        query_start=query_start,
        query_weights=rng.uniform(0.5, 2.0, 40),
    )


def scattered(query_sizes: NDArray[np.int64], num_shards: int) -> list[NDArray[np.int64]]:
    member = np.random.default_rng(3).integers(0, num_shards, len(query_sizes))
    return [np.flatnonzero(member == rank) for rank in range(num_shards)]


def divided(dataset: RankingDataset, deal: Deal) -> PlacedShards:
    shards = tuple(divide_queries(dataset, NUM_MEMBERS, deal))
    return PlacedShards(("",) * NUM_MEMBERS, shards)


@pytest.mark.parametrize("deal", [contiguous, scattered])
@pytest.mark.parametrize("samples", [False, True])
def test_members_record_and_stop_as_one_process(deal: Callable[..., Any], samples: bool) -> None:
    # Splits scale the weights.
    splits = Splits(train=data_set(0), valid=data_set(1), test=data_set(2))
    train, valid = splits.train, splits.valid
    assert valid is not None
    rng = np.random.default_rng(2)
    of_train = rng.normal(size=(NUM_ITERATIONS, train.num_documents))
    of_valid = rng.normal(size=(NUM_ITERATIONS, valid.num_documents))
    is_left_out = rng.random((NUM_ITERATIONS, train.num_documents)) < 0.3
    # One iteration leaves out documents of the first query only, so that some members have none.
    is_left_out[4] = train.query_of_document == 0
    rule = EarlyStopping(metric="ndcg@10", patience=2)

    recorder = CurveRecorder(splits, METRICS)
    alone = Monitor(rule, valid, recorder)
    stops = []
    for i in range(NUM_ITERATIONS):
        left_out = np.flatnonzero(is_left_out[i]) if samples else None
        stops.append(alone.should_stop(i + 1, of_train[i], of_valid[i], left_out))

    trains, valids, meeting = divided(train, deal), divided(valid, deal), Meeting()

    def member(rank: int) -> tuple[MemberMonitor, list[bool]]:
        team = ThreadTeam(rank, meeting)
        monitor = MemberMonitor(rule, team, trains.shards[rank], valids.shards[rank], METRICS)
        decisions = []
        for i in range(NUM_ITERATIONS):
            rows = np.flatnonzero(trains.documents_by_shard(is_left_out[i])[rank]) if samples else None
            scores = [placed.documents_by_shard(of[i])[rank] for placed, of in both]
            decisions.append(monitor.should_stop(i + 1, scores[0], scores[1], rows))
        return monitor, decisions

    both = ((trains, of_train), (valids, of_valid))
    with ThreadPoolExecutor(NUM_MEMBERS) as threads:
        members = list(threads.map(member, range(NUM_MEMBERS)))
    for monitor, decisions in members:
        assert decisions == stops
        assert (monitor.best_iteration, monitor.best_value) == (alone.best_iteration, alone.best_value)
        numbers, values = monitor.curve
        assert numbers == recorder.curve.iterations
        assert values.keys() == recorder.curve.values.keys()
        for name, of_name in values.items():
            np.testing.assert_array_equal(of_name, recorder.curve.values[name], err_msg=name)
