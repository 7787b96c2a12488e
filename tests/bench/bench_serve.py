"""Benchmark of the service: latency of lists of 100 documents, and requests per second for lists of 20.

    python tests/bench/bench_serve.py [--trees 300] [--leaves 64] [--requests 500] [--connections 4]
    [--seconds 8]

The service runs in its own process, as `python -m ltrbench serve` starts it. The client sends requests that
are encoded before the time starts, over connections that stay open, and checks only the status and the length
of the answers, so that it needs little time. It still shares the cores with the service: with two cores, the
throughput is that of a service that has one core and part of the other one.

Latency is measured over one connection, from the first byte of the request to the last byte of the answer.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import contextlib
import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from bench_jobs import make_dataset, seconds

import ltrbench
from ltrbench.data.sources.base import DataSource
from ltrbench.data.splits import Splits
from ltrbench.rankers.native import NativeRanker
from ltrbench.shapes import Features

LEARNED_FROM = 10_000  # training documents, enough for trees with all leaves
LONG, SHORT = 100, 20  # documents per list
NUM_LISTS = 20  # different lists, so that no request is repeated at once


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

    def exchange(self, request: bytes) -> None:
        """Sends a request and reads its answer."""
        self.socket.sendall(request)
        answer = self.socket.recv(1 << 16)
        head, _, body = answer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(answer[:500].decode())
        left = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) - len(body)
        while left:
            left -= len(self.socket.recv(left))


@contextlib.contextmanager
def service(folder: Path) -> Iterator[tuple[str, int]]:
    """Starts the service of a run; yields its address."""
    command = [sys.executable, "-m", "ltrbench", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = next((line for line in process.stderr if "http://" in line), "")
        url = urlsplit(next(word for word in line.split() if word.startswith("http://")))
        yield str(url.hostname), int(url.port or 0)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def bench_latency(address: tuple[str, int], requests: list[bytes], count: int) -> str:
    connection = Connection(address)
    taken = [
        1e3 * seconds(partial(connection.exchange, requests[number % len(requests)]))
        for number in range(count)
    ]
    return (
        f"median {statistics.median(taken):5.2f} ms, 99% within {np.quantile(taken, 0.99):5.2f} ms "
        f"({len(requests[0]) / 1000:.0f} KB)"
    )


def bench_throughput(
    address: tuple[str, int], requests: list[bytes], num_connections: int, duration: float
) -> float:
    """Returns the requests per second that the service answers over several connections."""
    ended = threading.Event()
    counts = [0] * num_connections

    def send(client: int) -> None:
        connection = Connection(address)
        while not ended.is_set():
            connection.exchange(requests[counts[client] % len(requests)])
            counts[client] += 1

    def wait() -> None:
        clients = [threading.Thread(target=send, args=(client,)) for client in range(num_connections)]
        for client in clients:
            client.start()
        ended.wait(duration)
        ended.set()
        for client in clients:
            client.join()

    elapsed = seconds(wait)
    return sum(counts) / elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--leaves", type=int, default=64)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8.0)
    arguments = parser.parse_args()
    features = make_dataset(5000, seed=2).features
    with tempfile.TemporaryDirectory() as folder:
        ranker = NativeRanker(num_trees=arguments.trees, num_leaves=arguments.leaves)
        experiment = ltrbench.Experiment(
            model="native", ranker=ranker, source=BenchSource(), metrics=("ndcg@10",), importance=None
        )
        ltrbench.run(experiment, Path(folder, "run"))
        with service(Path(folder, "run")) as address:
            size = f"{arguments.trees} trees of {arguments.leaves} leaves"
            print(f"native, {size}, {features.shape[1]} features")
            for by_name in (False, True):
                form = "by name" if by_name else "as a list"
                requests = requests_of(features, LONG, by_name=by_name)
                bench_latency(address, requests, 20)
                latency = bench_latency(address, requests, arguments.requests)
                print(f"  {LONG} documents, features {form:9}: {latency}")
            for by_name in (False, True):
                form = "by name" if by_name else "as a list"
                requests = requests_of(features, SHORT, by_name=by_name)
                rate = bench_throughput(address, requests, arguments.connections, arguments.seconds)
                print(
                    f"  {SHORT} documents, features {form:9}: {rate:,.0f} requests per second over "
                    f"{arguments.connections} connections"
                )


if __name__ == "__main__":
    main()
