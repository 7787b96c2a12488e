"""Functions on all workers at the same time: exchanges, and failures of one member."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import member_functions
import numpy as np
import pytest
from messages import naming
from numpy.typing import NDArray

pytest.importorskip("distributed", reason="needs Dask")
from local_workers import local_workers, started_cluster

from ltrbench.distributed import MemberError
from ltrbench.distributed.cluster import DaskWorkers, Workers
from ltrbench.errors import ConfigError

pytestmark = pytest.mark.slow

LIMIT = 30.0
"""Maximum seconds until a failure is an error."""


@pytest.fixture
def three() -> Iterator[Workers]:
    with local_workers(3) as opened:
        yield opened


def test_exchanges_are_exact_and_the_same_on_each_member(three: Workers) -> None:
    size = len(three.addresses)
    rng = np.random.default_rng(size)
    integers = rng.integers(-(2**60), 2**60, (size, 3, 1000))
    floats = rng.normal(size=(size, 50)) * 10.0 ** rng.integers(-300, 300, (size, 50))
    floats[0, 0], floats[-1, 0] = -0.0, 0.0
    # Any bits: NaNs with payloads, denormal numbers; and no values at all.
    bits = [
        rng.integers(0, 256, 8 * (3 * rank), dtype=np.uint8).view(np.float64)
        for rank in range(size)
    ]
    odd = [np.arange(5 * rank + 3, dtype=np.uint8) for rank in range(size)]
    types = [np.ones(4, dtype=kind) for kind in (np.int16, np.float32, np.bool_)][:size]
    arguments = [
        (integers[rank], floats[rank], [bits[rank], odd[rank], types[rank]])
        for rank in range(size)
    ]
    for rank, result in enumerate(three.run_team(member_functions.exchange, arguments)):
        assert result[:2] == (rank, size)
        np.testing.assert_array_equal(result[2], integers.sum(axis=0))
        assert result[3].tobytes() == (floats.max(axis=0) + 0.0).tobytes()
        kinds: list[list[NDArray[Any]]] = [bits, odd, types]
        for parts, expected in zip(result[4], kinds, strict=True):
            assert [part.tobytes() for part in parts] == [
                part.tobytes() for part in expected
            ]
            assert [part.dtype for part in parts] == [part.dtype for part in expected]


@pytest.mark.parametrize(
    ("how", "reason"), [("exception", "7 is not a label"), ("SIGKILL", "lost")]
)
def test_the_error_names_the_member_that_failed_and_the_workers_are_free_afterwards(
    how: str, reason: str
) -> None:
    begin = time.monotonic()
    with local_workers(3) as workers:
        member = workers.members[2]
        with pytest.raises(
            MemberError,
            match=naming("member 2", member.address, member.host, member.pid, reason),
        ) as raised:
            workers.run_team(member_functions.fail_in_loop, [(2, how)] * 3)
    assert time.monotonic() - begin < LIMIT
    if how == "exception":
        assert "fail_in_loop" in "".join(raised.value.__cause__.__notes__)  # type: ignore[union-attr]
    with local_workers(3) as workers:
        assert workers.run(member_functions.add, [(1, 1)] * 3) == [2] * 3


def test_too_few_workers_are_an_error() -> None:
    address = started_cluster().scheduler_address
    begin = time.monotonic()
    with (
        pytest.raises(
            ConfigError,
            match=naming(
                "distributed.workers is 5",
                address,
                "3 workers",
                "dask worker tcp://",
            ),
        ),
        DaskWorkers(workers=5, scheduler=address, wait=1).open(),
    ):
        pass
    assert time.monotonic() - begin < LIMIT
