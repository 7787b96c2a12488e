"""Commands that are disturbed while they run, and what a sweep leaves on the disk."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fault_backend
from command_line import COMMAND
from forked import run_forked

QUICK = ("data.num_queries=20", "params.num_trees=3", "importance=null", "metrics=[ndcg@10]", "progress=none")
TWO_WORKERS = ("executor=processes", "executor.workers=2")
DASK = (
    "executor=dask",
    "executor.cluster._target_=dask.distributed.LocalCluster",
    "executor.cluster.n_workers=2",
)
SWEEP = "sweep"
"""Folder of the sweep, in the folder in which its command is started."""


def prepare(folder: Path, *words: str) -> list[str]:
    """Puts the backend into a folder, as `model=slow`, and returns the words of a quick sweep."""
    models = folder / "conf" / "model"
    models.mkdir(parents=True)
    shutil.copy(fault_backend.__file__, folder)
    (models / "slow.yaml").write_text("defaults: [_yardstick, _self_]\n_target_: fault_backend.Slow\n")
    tracking = () if any(word.startswith("tracking=") for word in words) else ("tracking=none",)
    return ["-m", "--config-dir", "conf", f"hydra.sweep.dir={SWEEP}", *QUICK, *tracking, *words]


@dataclass
class Command:
    """A command that runs, in a session of its own, with the files of its output."""

    process: subprocess.Popen[bytes]
    files: tuple[Path, Path]

    def ended(self, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Returns the exit code and the output after the command has ended."""
        code = self.process.wait(seconds)
        out, error = (file.read_text(encoding="utf-8") for file in self.files)
        return subprocess.CompletedProcess([], code, out, error)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_until(self, condition: Callable[[], object], seconds: float = 60) -> bool:
        """Returns whether a condition became true before the command ended."""
        end = time.monotonic() + seconds
        while self.is_running:
            if condition():
                return True
            assert time.monotonic() < end
            time.sleep(0.004)
        return False

    def workers(self) -> list[int]:
        """Process ids of the workers, also those of a Dask cluster."""
        return [pid for pid in _descendants(self.process.pid) if b"spawn_main" in _command_line(pid)]


@contextlib.contextmanager
def started(*words: str, folder: Path) -> Iterator[Command]:
    """Starts a command; none of its processes outlives the block."""
    number = len(list(folder.glob("*.stdout")))
    files = (folder / f"{number}.stdout", folder / f"{number}.stderr")
    with files[0].open("wb") as out, files[1].open("wb") as error:
        process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=error,
            start_new_session=True,
        )
    try:
        yield Command(process, files)
    finally:
        kill_all(process)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kills a command and its workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass
class Killer:
    """Kills processes of commands at given moments, in this order.

    Attributes:
        moments: victim, and the condition to wait for.
        log: what was killed when, for a replay.
    """

    moments: list[tuple[str, Callable[[], object]]]
    draws: random.Random
    log: list[str] = field(default_factory=list)

    def disturb(self, command: Command) -> None:
        """Kills processes of a command until the command itself is dead, or has ended."""
        while self.moments and command.is_running:
            victim, condition = self.moments[0]
            delay = self.draws.uniform(0, 0.05)
            if not command.wait_until(condition):
                return
            time.sleep(delay)
            workers = command.workers()
            if victim == "worker" and workers:
                os.kill(self.draws.choice(workers), signal.SIGKILL)
            elif victim == "command":
                command.process.kill()
                command.process.wait()
            elif victim == "all":
                kill_all(command.process)
            else:
                continue
            self.moments.pop(0)
            self.log.append(f"{victim} +{delay:.3f} s")


def done(*words: str, folder: Path) -> None:
    """Runs a command to its end."""
    with started(*words, folder=folder) as command:
        result = command.ended()
    assert result.returncode == 0, result.stdout + result.stderr


def _descendants(pid: int) -> list[int]:
    found_here: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text(encoding="ascii").split():
                found_here += [int(child), *_descendants(int(child))]
    return found_here


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def fits(folder: Path) -> list[str]:
    """The fits of `fault_backend`, one line each."""
    file = folder / fault_backend.LOG
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def results(sweep: Path) -> dict[str, Any]:
    """Folder of a run -> its result.json."""
    return {
        path.parent.relative_to(sweep).as_posix(): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(sweep.glob("*/result.json"))
    }


def all_finished(sweep: Path, number: int) -> bool:
    return len(list(sweep.glob("*/result.json"))) == number and all(
        result["status"] == "finished" for result in results(sweep).values()
    )


def bits(sweep: Path) -> dict[str, Any]:
    """Folder of a run -> its metrics, and the bytes of its scores, figures per query and model."""
    return {
        name: (
            result["metrics"],
            {
                path.relative_to(sweep / name).as_posix(): path.read_bytes()
                for path in sorted((sweep / name).rglob("*"))
                if path.name in ("scores.npz", "per_query.csv", "model.npz")
            },
        )
        for name, result in results(sweep).items()
    }


def logged(folder: Path) -> dict[str, list[str]]:
    """Folder of a job, or "parents" -> status of each of its runs in the MLflow store of a folder."""
    code = (
        "import json; from mlflow import MlflowClient\n"
        "runs = MlflowClient('sqlite:///mlflow.db').search_runs(['1'])\n"
        "print(json.dumps([(run.data.tags.get('job', 'parents'), run.info.status) for run in runs]))\n"
    )
    ended = run_forked(code, [], folder, os.environ)
    assert ended.returncode == 0, ended.stderr
    statuses: dict[str, list[str]] = {}
    for name, status in json.loads(ended.stdout):
        statuses.setdefault(name, []).append(status)
    return statuses
