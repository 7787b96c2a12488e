"""Processes that fit a model together in tests: a `Team` over pipes, whose sums this process computes."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray


class PipeTeam:
    """A `Team` whose members send their arrays to the process that started them."""

    def __init__(self, rank: int, size: int, pipe: Connection) -> None:
        self.rank = rank
        self.size = size
        self._pipe = pipe

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        assert values.dtype == np.int64
        return np.asarray(self._exchanged("total", values))

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        assert values.dtype == np.float64
        return np.asarray(self._exchanged("largest", values))

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        assert values.ndim == 1
        return list(self._exchanged("joined", values))

    def _exchanged(self, kind: str, values: NDArray[Any]) -> Any:
        self._pipe.send((kind, values))
        return self._pipe.recv()


COMBINE: dict[str, Callable[[list[Any]], Any]] = {
    "total": lambda arrays: np.sum(arrays, axis=0),
    "largest": lambda arrays: np.max(arrays, axis=0),
    "joined": lambda arrays: arrays,
    "result": lambda results: None,
}


class LocalMembers:
    """Processes, of which the first n run a function together."""

    def __init__(self, pipes: Sequence[Connection]) -> None:
        self._pipes = pipes

    def run(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls function(team, *arguments) on one process for each tuple; returns the results by rank."""
        pipes = self._pipes[: len(arguments)]
        for rank, pipe in enumerate(pipes):
            pipe.send((function, rank, len(pipes), arguments[rank]))
        while True:
            messages = [pipe.recv() for pipe in pipes]
            kinds = {kind for kind, _ in messages}
            assert len(kinds) == 1, kinds  # the members made different calls, or one had an error
            assert kinds <= COMBINE.keys(), kinds
            (kind,) = kinds
            values = [value for _, value in messages]
            if kind == "result":
                return values
            for pipe in pipes:
                pipe.send(COMBINE[kind](values))


@contextmanager
def local_members(count: int) -> Iterator[LocalMembers]:
    """Starts processes, and ends them after the block."""
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(count)]
    processes = [context.Process(target=_serve, args=(pipe,), daemon=True) for _, pipe in pairs]
    for process in processes:
        process.start()
    try:
        yield LocalMembers([pipe for pipe, _ in pairs])
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _serve(pipe: Connection) -> None:
    while True:
        function, rank, size, arguments = pipe.recv()
        try:
            pipe.send(("result", function(PipeTeam(rank, size, pipe), *arguments)))
        except Exception:
            pipe.send((f"error of member {rank}: {traceback.format_exc()}", None))
            return
