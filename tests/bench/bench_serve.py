"""Benchmark of the service: latency of lists of 100 documents, and requests per second for lists of 20.

    python tests/bench/bench_serve.py [--trees 300] [--leaves 64] [--requests 2000] [--connections 4]
    [--rounds 5]

The service is a process of its own, as `python -m ltrbench serve` starts it. This process is the client: one
thread for each connection, which stays open and sends its next request when its answer has arrived. Every
answer must be the first answer to the same request. The forms of requests alternate, and the median round is
printed with the slowest and the fastest one. Latency is that of one connection.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from bench_jobs import NUM_FEATURES, make_dataset, options, seconds

import ltrbench
from ltrbench.data.sources import DataSource
from ltrbench.data.splits import Splits
from ltrbench.rankers.native import NativeRanker
from ltrbench.shapes import Features

LEARNED_FROM = 10_000  # training documents, enough for trees with all leaves
LONG, SHORT = 100, 20  # documents per list
NUM_LISTS = 20  # different lists, so that no request is repeated at once
FORMS = {"as a list": False, "by name": True}


@dataclass(kw_only=True)
class BenchSource(DataSource):
    """The data of the benchmarks as the source of a run."""

    name: str = "bench"

    def load(self) -> Splits:
        train, test = (
            make_dataset(LEARNED_FROM, seed=0),
            make_dataset(LEARNED_FROM // 5, seed=1),
        )
        return Splits(train, None, test)


def requests_of(features: Features, size: int, *, by_name: bool) -> list[bytes]:
    """Returns the bodies of requests, a list of `size` documents each."""
    bodies = []
    for number in range(NUM_LISTS):
        rows = (
            features[number * size : (number + 1) * size]
            .astype(float)
            .round(4)
            .tolist()
        )
        values = [
            {str(f): value for f, value in enumerate(row, start=1)} if by_name else row
            for row in rows
        ]
        documents = [
            {"id": f"document-{d}", "features": each} for d, each in enumerate(values)
        ]
        bodies.append(
            json.dumps({"query": f"query-{number}", "documents": documents}).encode()
        )
    return bodies


@contextlib.contextmanager
def service(folder: Path) -> Iterator[str]:
    """Starts the service of a run; yields its host and port."""
    command = [sys.executable, "-m", "ltrbench", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = next((line for line in process.stderr if "http://" in line), "")
        yield line.partition("http://")[2].split()[0].rstrip("/.")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


class Workload:
    """Requests of one form, and the first answers to them."""

    def __init__(self, address: str, bodies: list[bytes], num_connections: int) -> None:
        self.bodies = bodies
        self.connections = [
            http.client.HTTPConnection(address) for _ in range(num_connections)
        ]
        self.answers = [self.answer(self.connections[0], body) for body in bodies]

    def answer(self, connection: http.client.HTTPConnection, body: bytes) -> bytes:
        connection.request("POST", "/rank", body)
        response = connection.getresponse()
        answer = response.read()
        if response.status != http.HTTPStatus.OK:
            raise SystemExit(answer[:500].decode())
        return answer

    def exchange(self, count: int, connection: int = 0) -> None:
        """Sends `count` requests over one connection."""
        for number in range(count):
            of = number % len(self.bodies)
            if (
                self.answer(self.connections[connection], self.bodies[of])
                != self.answers[of]
            ):
                raise SystemExit(f"another answer than before to request {of}")

    def exchange_all(self, count: int) -> None:
        """Sends `count` requests, divided among all connections."""
        share = count // len(self.connections)
        with ThreadPoolExecutor(len(self.connections)) as pool:
            list(pool.map(partial(self.exchange, share), range(len(self.connections))))


def bench(
    address: str, num_requests: int, num_connections: int, num_rounds: int
) -> None:
    features = make_dataset(5000, seed=2).features
    for form, by_name in FORMS.items():
        workload = Workload(address, requests_of(features, LONG, by_name=by_name), 1)
        taken = [
            1e3 * seconds(partial(workload.exchange, 1))
            for _ in range(num_requests // 4)
        ]
        print(
            f"  {LONG} documents, features {form:9}: median {statistics.median(taken):5.2f} ms, "
            f"99% within {np.quantile(taken, 0.99):5.2f} ms ({len(workload.bodies[0]) / 1000:.0f} KB)"
        )
    workloads = {
        form: Workload(
            address, requests_of(features, SHORT, by_name=by_name), num_connections
        )
        for form, by_name in FORMS.items()
    }
    rates: dict[str, list[float]] = {form: [] for form in FORMS}
    for _ in range(num_rounds):
        for form, workload in workloads.items():
            rates[form].append(
                num_requests / seconds(partial(workload.exchange_all, num_requests))
            )
    for form, measured in rates.items():
        print(
            f"  {SHORT} documents, features {form:9}: {statistics.median(measured):,.0f} requests per second "
            f"({min(measured):,.0f} to {max(measured):,.0f})"
        )


def main() -> None:
    arguments = options(
        __doc__, trees=300, leaves=64, requests=2000, connections=4, rounds=5
    )
    ranker = NativeRanker(num_trees=arguments.trees, num_leaves=arguments.leaves)
    experiment = ltrbench.Experiment(
        model="native",
        ranker=ranker,
        source=BenchSource(),
        metrics=("ndcg@10",),
        importance=None,
    )
    with tempfile.TemporaryDirectory() as folder:
        ltrbench.run(experiment, Path(folder, "run"))
        print(
            f"native, {arguments.trees} trees of {arguments.leaves} leaves, {NUM_FEATURES} features"
        )
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        print(
            f"{os.cpu_count()} cores, load before the start {load}, {arguments.connections} connections"
        )
        with service(Path(folder, "run")) as address:
            bench(address, arguments.requests, arguments.connections, arguments.rounds)


if __name__ == "__main__":
    main()
