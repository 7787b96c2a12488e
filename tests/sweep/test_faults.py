"""Sweeps survive: kills, interruptions, full disks, crashes, two commands."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import COMMAND, run, statuses

QUICK = (
    "data.num_queries=20",
    "params.num_trees=3",
    "importance=null",
    "metrics=[ndcg@10]",
    "progress=none",
)
TWO_WORKERS = ("executor=processes", "executor.workers=2")
DASK = (
    "executor=dask",
    "executor.cluster._target_=dask.distributed.LocalCluster",
    "executor.cluster.n_workers=2",
)
SLOW = """
import time
from pathlib import Path
from ltrbench.rankers.random import RandomRanker

class Slow(RandomRanker):
    def fit(self, train, valid=None, on_iteration=None):
        with Path(__file__).with_name("fits").open("a") as log:
            log.write(f"seed={self.seed}\\n")
        time.sleep(0.2)
        return super().fit(train, valid, on_iteration)

    def save(self, folder):
        super().save(folder)
        time.sleep(0.2)
"""
"""A backend that takes a moment to be trained and to be saved, and notes each fit in a file."""
SWEEP = "sweep"
"""Folder of the sweep, in the folder in which its command is started."""


def prepare(folder: Path, *words: str) -> list[str]:
    """Puts the backend into a folder, as `model=slow`, and returns the words of a quick sweep."""
    models = folder / "conf" / "model"
    models.mkdir(parents=True)
    (folder / "slow.py").write_text(SLOW)
    (models / "slow.yaml").write_text(
        "defaults: [_yardstick, _self_]\n_target_: slow.Slow\n"
    )
    tracking = (
        ()
        if any(word.startswith("tracking=") for word in words)
        else ("tracking=none",)
    )
    return [
        "-m",
        "--config-dir",
        "conf",
        f"hydra.sweep.dir={SWEEP}",
        *QUICK,
        *tracking,
        *words,
    ]


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
        return [
            pid
            for pid in _descendants(self.process.pid)
            if b"spawn_main" in _command_line(pid)
        ]


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


Moment = tuple[str, Callable[[], object]]
"""What is killed, and the condition to wait for."""


def disturb(command: Command, moments: list[Moment], draws: random.Random) -> None:
    """Kills processes of a command at moments, which are removed, until it is dead or has ended."""
    while moments and command.is_running:
        victim, condition = moments[0]
        if not command.wait_until(condition):
            return
        time.sleep(draws.uniform(0, 0.05))
        workers = command.workers()
        if victim == "worker" and workers:
            os.kill(draws.choice(workers), signal.SIGKILL)
        elif victim == "command":
            command.process.kill()
            command.process.wait()
        elif victim == "all":
            kill_all(command.process)
        else:
            continue
        moments.pop(0)


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
    """The fits of `SLOW`, one line each."""
    file = folder / "fits"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def results(sweep: Path) -> dict[str, Any]:
    """Folder of a run -> its result.json."""
    return {
        path.parent.relative_to(sweep).as_posix(): json.loads(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(sweep.glob("*/result.json"))
    }


def all_finished(sweep: Path, number: int) -> bool:
    return len(list(sweep.glob("*/result.json"))) == number and all(
        result["status"] == "finished" for result in results(sweep).values()
    )


def bits(sweep: Path) -> dict[str, Any]:
    """Folder of a run -> its metrics, and the bytes of its scores, values per query and model."""
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


pytestmark = pytest.mark.slow

SEED = 20261122


def appears(sweep: Path, pattern: str) -> Callable[[], set[Path]]:
    """Returns a condition: a file of this name is new since the condition was first asked."""
    before: list[set[Path]] = []

    def condition() -> set[Path]:
        files = {*sweep.glob(pattern), *sweep.glob(f"*/{pattern}")}
        before.append(files)
        return files - before[0]

    return condition


JOBS = ("model=slow,random,single_feature,native", "seed=1,2")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep of `JOBS` in one process, which nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(*prepare(folder, *JOBS), folder=folder)
    assert all_finished(folder / SWEEP, 8)
    return folder / SWEEP


def test_a_sweep_on_two_workers_that_is_killed_ends_with_the_same_bytes(
    tmp_path: Path, undisturbed: Path
) -> None:
    words = prepare(tmp_path, *JOBS, *TWO_WORKERS)
    sweep = tmp_path / SWEEP
    moments: list[Moment] = [
        ("command", (sweep / "plan").exists),
        ("worker", appears(sweep, ".lease-lock")),
        ("command", lambda: len(results(sweep)) >= 2),
        ("all", appears(sweep, ".partial-*")),
    ]
    draws = random.Random(SEED)
    for again in itertools.islice(itertools.cycle([words, ["resume", SWEEP]]), 12):
        if moments:
            with started(*again, folder=tmp_path) as command:
                disturb(command, moments, draws)
    assert not moments
    run(*words, folder=tmp_path)
    assert all_finished(sweep, 8)
    assert (sweep / "comparison/table.csv").exists()
    assert bits(sweep) == bits(undisturbed)


def test_a_sweep_on_a_cluster_has_the_same_bytes(
    tmp_path: Path, undisturbed: Path
) -> None:
    pytest.importorskip("distributed", reason="needs Dask")
    run(*prepare(tmp_path, *JOBS, *DASK), folder=tmp_path)
    assert all_finished(tmp_path / SWEEP, 8)
    assert bits(tmp_path / SWEEP) == bits(undisturbed)


@pytest.mark.usefixtures("migrated_store")
def test_two_commands_that_start_together_run_each_job_once(tmp_path: Path) -> None:
    words = prepare(tmp_path, "model=slow", "tracking=mlflow")
    with (
        started(*words, "seed=1,2,3", folder=tmp_path) as narrow,
        started(*words, "seed=1,2,3,4,5", folder=tmp_path) as wide,
    ):
        ended = [narrow.ended(), wide.ended()]
    assert [command.returncode for command in ended] == [0, 0], ended
    assert sorted(fits(tmp_path)) == [f"seed={seed}" for seed in (1, 2, 3, 4, 5)]
    assert all_finished(tmp_path / SWEEP, 5)
    assert "5 trainings" in ended[1].stdout
    of_jobs = [(f"slow seed={seed}", "FINISHED") for seed in (1, 2, 3, 4, 5)]
    assert statuses(tmp_path) == [("slow on synthetic: seed", "FINISHED"), *of_jobs]
