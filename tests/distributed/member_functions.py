"""The functions that tests run on workers. Worker processes import them from here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.distributed.cluster import CollectiveTeam


def add(a: int, b: int) -> int:
    return a + b


def exchange(
    team: CollectiveTeam,
    integers: NDArray[np.int64],
    floats: NDArray[np.float64],
    arrays: list[NDArray[Any]],
) -> tuple[Any, ...]:
    """Returns rank, size, and the results of each exchange."""
    return (
        team.rank,
        team.size,
        team.total(integers),
        team.largest(floats),
        [team.joined(array) for array in arrays],
    )


def fail_in_loop(team: CollectiveTeam, rank: int, how: str) -> None:
    """All members add arrays without end; one of them fails after a while."""
    for step in range(10**9):
        team.total(np.ones(1000, dtype=np.int64))
        if step == 100 and team.rank == rank:
            fail(how)


def fail(how: str) -> None:
    if how == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exception":
        raise ValueError("7 is not a label")
    time.sleep(600)


def loop(team: CollectiveTeam, file: str) -> None:
    """Adds arrays without end; the file says that it began."""
    Path(file).touch()
    while True:
        team.total(np.ones(1000, dtype=np.int64))
