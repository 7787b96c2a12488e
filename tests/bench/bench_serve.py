"""Benchmark of the service: latency of lists of 100 documents, and requests per second for lists of 20.

    python tests/bench/bench_serve.py [--trees 300] [--leaves 64] [--requests 2000] [--connections 4]
    [--rounds 5] [--run FOLDER]

The service is a process of its own, as `python -m ltrbench serve` starts it. This process is the client. It
uses sockets without a library for HTTP, connections that stay open, and requests that are encoded before the
time starts. Of each answer it compares the status and the body with those of the first answer to the same
request. The processor time of both per request is printed: with two cores and no other programs, the service
has one core, of which it uses all, and the client needs a small part of the other one.

Throughput: each connection sends its next request when its answer has arrived, so that as many requests as
connections are on their way. A round is a fixed number of requests; the forms of requests alternate, and the
median round is printed with the slowest and the fastest one. Other programs change the throughput more than
the processor time.

Latency: one connection, from the first byte of the request to the last byte of the answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import psutil
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
        train, test = make_dataset(LEARNED_FROM, seed=0), make_dataset(LEARNED_FROM // 5, seed=1)
        return Splits(train, None, test)


def requests_of(features: Features, size: int, *, by_name: bool) -> list[bytes]:
    """Returns requests in the bytes of HTTP, a list of `size` documents each."""
    head = b"POST /rank HTTP/1.1\r\nhost: bench\r\ncontent-length: %d\r\n\r\n"
    requests = []
    for number in range(NUM_LISTS):
        rows = features[number * size : (number + 1) * size].astype(float).round(4).tolist()
        documents = [
            {
                "id": f"document-{d}",
                "features": {str(f): value for f, value in enumerate(row, start=1)} if by_name else row,
            }
            for d, row in enumerate(rows)
        ]
        body = json.dumps({"query": f"query-{number}", "documents": documents}).encode()
        requests.append(head % len(body) + body)
    return requests


class Connection:
    """A connection that stays open."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> None:
        self.socket.sendall(request)

    def first_answer(self) -> tuple[int, bytes]:
        """Reads an answer of unknown length; returns its length and its body."""
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._received(1 << 16, 0)
        head, _, body = answer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(answer[:500].decode())
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(body) < size:
            body += self._received(size - len(body), 0)
        return len(head) + 4 + size, body

    def check(self, expected: tuple[int, bytes]) -> None:
        """Reads an answer of known length with one call, and compares its body."""
        answer = self._received(expected[0], socket.MSG_WAITALL)
        if not answer.startswith(b"HTTP/1.1 200") or not answer.endswith(expected[1]):
            raise SystemExit(f"another answer than before: {answer[:500].decode()}")

    def _received(self, size: int, flags: int) -> bytes:
        part = self.socket.recv(size, flags)
        if not part:
            raise SystemExit("the service has closed the connection")
        return part


@contextlib.contextmanager
def service(folder: Path) -> Iterator[tuple[tuple[str, int], psutil.Process]]:
    """Starts the service of a run; yields its address and its process."""
    command = [sys.executable, "-m", "ltrbench", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = next((line for line in process.stderr if "http://" in line), "")
        url = urlsplit(next(word for word in line.split() if word.startswith("http://")))
        yield (str(url.hostname), int(url.port or 0)), psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


class Workload:
    """Requests of one form, and the answers to them."""

    def __init__(self, address: tuple[str, int], requests: list[bytes], num_connections: int) -> None:
        self.requests = requests
        self.connections = [Connection(address) for _ in range(num_connections)]
        self.answers: list[tuple[int, bytes]] = []
        for request in requests:
            self.connections[0].send(request)
            self.answers.append(self.connections[0].first_answer())

    def exchange(self, count: int) -> None:
        """Sends `count` requests, at most one at a time over each connection."""
        num_ahead, num_requests = len(self.connections), len(self.requests)
        for number in range(count + num_ahead):
            # A connection has its next request after its last answer.
            connection = self.connections[number % num_ahead]
            if number >= num_ahead:
                connection.check(self.answers[(number - num_ahead) % num_requests])
            if number < count:
                connection.send(self.requests[number % num_requests])


def latency(workload: Workload, count: int) -> str:
    workload.exchange(NUM_LISTS)
    first = workload.connections[0]

    def exchange(number: int) -> None:
        first.send(workload.requests[number % NUM_LISTS])
        first.check(workload.answers[number % NUM_LISTS])

    taken = [1e3 * seconds(partial(exchange, number)) for number in range(count)]
    return f"median {statistics.median(taken):5.2f} ms, 99% within {np.quantile(taken, 0.99):5.2f} ms"


@dataclass(frozen=True)
class Round:
    """One round of a throughput: requests per second, and microseconds of both processors per request."""

    rate: float
    of_service: float
    of_client: float


def throughput(workload: Workload, process: psutil.Process, count: int) -> Round:
    client = psutil.Process()
    before = [used(process), used(client)]
    elapsed = seconds(partial(workload.exchange, count))
    of_service, of_client = (
        1e6 * (after - earlier) / count
        for after, earlier in zip((used(process), used(client)), before, strict=True)
    )
    return Round(count / elapsed, of_service, of_client)


def used(process: psutil.Process) -> float:
    """Returns the processor time of a process, s."""
    times = process.cpu_times()
    return float(times.user + times.system)


def bench(address: tuple[str, int], process: psutil.Process, arguments: Namespace) -> None:
    features = make_dataset(5000, seed=2).features
    for form, by_name in FORMS.items():
        workload = Workload(address, requests_of(features, LONG, by_name=by_name), 1)
        print(
            f"  {LONG} documents, features {form:9}: {latency(workload, arguments.requests // 4)} "
            f"({len(workload.requests[0]) / 1000:.0f} KB)"
        )
    workloads = {
        form: Workload(address, requests_of(features, SHORT, by_name=by_name), arguments.connections)
        for form, by_name in FORMS.items()
    }
    rounds: dict[str, list[Round]] = {form: [] for form in FORMS}
    for _ in range(arguments.rounds):
        for form, workload in workloads.items():
            rounds[form].append(throughput(workload, process, arguments.requests))
    for form, measured in rounds.items():
        rates = sorted(each.rate for each in measured)
        of_service = statistics.median(each.of_service for each in measured)
        of_client = statistics.median(each.of_client for each in measured)
        print(
            f"  {SHORT} documents, features {form:9}: {statistics.median(rates):,.0f} requests per second "
            f"({rates[0]:,.0f} to {rates[-1]:,.0f}); processor time of a request: {of_service:.0f} us of the "
            f"service, {of_client:.0f} us of the client"
        )


def main() -> None:
    arguments = options(__doc__, trees=300, leaves=64, requests=2000, connections=4, rounds=5, run=None)
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run
        if run is None:
            run = Path(folder, "run")
            ranker = NativeRanker(num_trees=arguments.trees, num_leaves=arguments.leaves)
            experiment = ltrbench.Experiment(
                model="native", ranker=ranker, source=BenchSource(), metrics=("ndcg@10",), importance=None
            )
            ltrbench.run(experiment, run)
            print(f"native, {arguments.trees} trees of {arguments.leaves} leaves, {NUM_FEATURES} features")
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        print(f"{os.cpu_count()} cores, load before the start {load}, {arguments.connections} connections")
        with service(run) as (address, process):
            bench(address, process, arguments)


if __name__ == "__main__":
    main()
