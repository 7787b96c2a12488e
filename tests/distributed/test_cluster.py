"""The settings of the group distributed, and clusters that a command starts: they end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from messages import naming
from paths import CONF, ROOT

from ltrbench.config import build
from ltrbench.distributed import Distribution
from ltrbench.errors import ConfigError

pytest.importorskip("distributed", reason="needs Dask")

PROGRAM = """
import signal, sys
import member_functions
from ltrbench.distributed.cluster import DaskWorkers

if __name__ == "__main__":
    folder = sys.argv[1]
    with DaskWorkers(workers=2, threads_per_worker=1).open() as workers:
        print(*(member.pid for member in workers.members), flush=True)
        workers.run_team(member_functions.loop, [(f"{folder}/{rank}",) for rank in range(2)])
"""
"""Prints the process numbers of its workers, and lets them exchange values without end."""


def built(name: str, **settings: Any) -> Distribution:
    """Where a fit runs by a YAML in conf/distributed."""
    node = yaml.safe_load(
        (CONF / "distributed" / f"{name}.yaml").read_text(encoding="utf-8")
    )
    return build({"distributed": {**node, **settings}}, "distributed", Distribution)


def lives(process: int) -> bool:
    """Whether a process exists and has not ended: one that nobody waits for stays as a zombie."""
    try:
        status = Path("/proc", str(process), "stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"workers": 0}, ("distributed.workers is 0", "at least 1")),
        (
            {"workers": None},
            (
                "distributed.workers is null",
                "distributed.workers=2",
                "distributed.scheduler=tcp",
            ),
        ),
        ({"nodes": 3}, ("distributed.nodes", "DaskWorkers")),
    ],
)
def test_a_wrong_setting_is_an_error(
    settings: dict[str, Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        built("dask", **settings)


@pytest.mark.slow
def test_workers_end_with_the_command_that_started_them(tmp_path: Path) -> None:
    program, folder = tmp_path / "program.py", tmp_path / "begun"
    program.write_text(PROGRAM, encoding="utf-8")
    folder.mkdir()
    paths = [str(ROOT), str(Path(__file__).parent), str(ROOT / "tests")]
    command = subprocess.Popen(
        [sys.executable, str(program), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
    assert command.stdout is not None
    processes = [int(word) for word in command.stdout.readline().split()]
    assert len(processes) == 2
    while len(list(folder.iterdir())) < 2 and command.poll() is None:
        time.sleep(0.02)
    begin = time.monotonic()
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does
    _, errors = command.communicate(timeout=60)
    while (
        any(lives(process) for process in processes) and time.monotonic() - begin < 30
    ):
        time.sleep(0.02)
    assert not any(lives(process) for process in processes)
    assert time.monotonic() - begin < 30
    assert "KeyboardInterrupt" in errors
