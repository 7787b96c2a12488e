"""The verb `serve` in its own process, over loopback."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from served_runs import NAMES, NamedFeatures, native_run, small_model

from ltrbench.errors import ConfigError
from ltrbench.serve import listen, url_of

TEST = NamedFeatures().load().test


@contextlib.contextmanager
def serving(
    folder: Path, *words: str
) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """Starts the service on a free port; yields its process, its port, and what it printed at the start."""
    command = [
        sys.executable,
        "-m",
        "ltrbench",
        "serve",
        str(folder),
        "--port",
        "0",
        *words,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    printed = ""
    try:
        while not (address := re.search(r"http://\S+:(\d+)", printed)):
            line = process.stderr.readline()
            assert line, printed
            printed += line
        yield process, int(address[1]), printed
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


def exchange(
    connection: http.client.HTTPConnection, body: bytes | None, path: str
) -> tuple[int, Any]:
    connection.request("GET" if body is None else "POST", path, body)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


@pytest.mark.slow
def test_the_service_ranks_over_a_connection_that_stays_open() -> None:
    scores = small_model().predict(TEST.features)
    with serving(native_run().path, "--max-bytes", "100000") as (
        process,
        port,
        printed,
    ):
        assert "warning" not in printed
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        assert exchange(connection, None, "/health") == (
            200,
            {"status": "ok", "model": "small"},
        )
        for query in (slice(0, 10), slice(10, 20), slice(0, 120)):
            rows = TEST.features[query].astype(float).tolist()
            documents = [
                {"id": d, "features": dict(zip(NAMES, row, strict=True))}
                for d, row in enumerate(rows)
            ]
            body = json.dumps({"query": "q", "documents": documents}).encode()
            status, answer = exchange(connection, body, "/rank")
            assert status == 200
            order = np.argsort(-scores[query], kind="stable").tolist()
            assert [document["id"] for document in answer["documents"]] == order
            assert [d["score"] for d in answer["documents"]] == scores[query][
                order
            ].tolist()
        assert exchange(connection, b"[" * 50_000, "/rank")[0] == 400
        assert exchange(connection, b" " * 200_000, "/rank")[0] == 413
        assert exchange(connection, None, "/health")[0] == 200  # over a new connection
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


@pytest.mark.slow
def test_a_host_that_others_can_reach_gets_a_warning() -> None:
    with serving(native_run().path, "--host", "0.0.0.0") as (_, port, printed):
        assert re.search(
            naming("warning", "0.0.0.0", "authentication", "127.0.0.1"), printed
        )
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        assert exchange(connection, None, "/health")[0] == 200
        connection.close()


def test_a_port_in_use_is_refused_with_the_remedy() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        with pytest.raises(ConfigError, match=naming("127.0.0.1", port, "--port 0")):
            listen("127.0.0.1", port)
