"""Sweeps survive: kills, interruptions, full disks, lost stores and workers, damaged plans, two commands."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fault_cases import (
    DASK,
    QUICK,
    SWEEP,
    TWO_WORKERS,
    Command,
    age,
    all_finished,
    contents,
    done,
    fits,
    kill_all,
    logged,
    prepare,
    results,
    started,
    strays,
)

from ltrbench.disk import delete_abandoned
from ltrbench.results import hold, tidy
from ltrbench.sweep.plan import read_plan

pytestmark = pytest.mark.slow

KILLS = 20
SEED = 20261122


@dataclass
class Killer:
    """Kills the commands of a sweep at random moments.

    Attributes:
        number: number of jobs of the sweep.
        moments: what was killed when, for a replay.
    """

    sweep: Path
    number: int
    draws: random.Random
    most: int = KILLS
    moments: list[str] = field(default_factory=list)

    def disturb(self, command: Command) -> None:
        """Kills processes of a command until the command itself is dead."""
        while command.is_running and len(self.moments) < self.most:
            kind, delay = self._wait_for_moment(command)
            time.sleep(delay)
            victim = self._kill(command, kind)
            if victim:
                self.moments.append(f"{kind} +{delay:.3f} s: {victim}")

    def _wait_for_moment(self, command: Command) -> tuple[str, float]:
        """Waits until the command works, and returns what it does, and how long to wait."""
        if len(self.moments) < 3:
            command.wait_until((self.sweep / "plan").exists)
            return "planning", self.draws.uniform(0, 0.01)
        if len(self.moments) >= self.most - 3 or all_finished(self.sweep, self.number):
            before = self._files(".comparison-*")
            command.wait_until(lambda: self._files(".comparison-*") - before)
            return "comparison", self.draws.uniform(0, 1.5)
        if self.draws.random() < 0.5:
            before = self._files(".lease-*")
            command.wait_until(lambda: self._files(".lease-*") != before)
            return "jobs", self.draws.uniform(0, 2)
        before = self._files(".partial-*")
        command.wait_until(lambda: self._files(".partial-*") - before)
        return "a folder is written", self.draws.uniform(0, 0.3)

    def _files(self, pattern: str) -> set[Path]:
        return {*self.sweep.glob(pattern), *self.sweep.glob(f"*/{pattern}")}

    def _kill(self, command: Command, kind: str) -> str:
        """Kills a process and returns its role; empty if the command had ended."""
        workers = command.workers()
        if not command.is_running:
            return ""
        victim = self.draws.choice(["command", "worker", "worker", "all"] if workers else ["command"])
        if victim == "worker":
            os.kill(self.draws.choice(workers), signal.SIGKILL)
        elif victim == "command":
            command.process.kill()
            command.process.wait()
        else:
            kill_all(command.process)
        return victim


@pytest.fixture(scope="module")
def jobs() -> list[str]:
    return ["model=slow,random,single_feature,native", "seed=1,2,3,4,5,6"]


def commands(words: list[str]) -> Iterator[list[str]]:
    """Alternates the command of a sweep and `resume`."""
    yield words
    while True:
        yield ["resume", SWEEP]
        yield words


def test_a_sweep_that_is_killed_twenty_times_ends_with_the_same_bytes(
    tmp_path: Path, jobs: list[str]
) -> None:
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    words = [prepare(folder, *jobs, *TWO_WORKERS) for folder in (undisturbed, killed)][-1]
    sweep = killed / SWEEP
    killer = Killer(sweep, 24, random.Random(SEED))
    with started(*words, folder=undisturbed) as reference:
        for again in itertools.islice(commands(words), 3 * KILLS):
            if len(killer.moments) < KILLS:
                with started(*again, folder=killed) as command:
                    killer.disturb(command)
        assert reference.ended().returncode == 0
    assert len(killer.moments) == KILLS
    age(sweep)
    done(*words, folder=killed)
    moments = "\n".join([f"seed {SEED}", *killer.moments])
    assert all_finished(sweep, 24), moments
    assert contents(sweep) == contents(undisturbed / SWEEP), moments
    assert strays(sweep) == [], moments


@pytest.mark.parametrize("executor", [(), TWO_WORKERS], ids=["inline", "processes"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_sweep_names_the_command_that_completes_it(
    tmp_path: Path, executor: tuple[str, ...], number: signal.Signals
) -> None:
    words = prepare(tmp_path, "model=slow,random", "seed=1,2,3", *executor)
    with started(*words, folder=tmp_path) as command:
        assert command.wait_until(lambda: fits(tmp_path))
        if number == signal.SIGINT:
            os.killpg(command.process.pid, number)  # Ctrl-C in a terminal reaches the workers, too
        else:
            command.process.send_signal(number)
        ended = command.ended()
        assert command.left_nothing_running()
    assert ended.returncode == 130
    assert all(part in ended.stderr for part in ("interrupted", "6 jobs", f"resume {SWEEP}"))
    left = results(tmp_path / SWEEP).values()
    assert all(result["status"] == "finished" or result["error"] == "interrupted" for result in left)
    assert not all_finished(tmp_path / SWEEP, 6)
    done("resume", SWEEP, folder=tmp_path)
    assert all_finished(tmp_path / SWEEP, 6)


@pytest.mark.parametrize("executor", [(), TWO_WORKERS], ids=["inline", "processes"])
def test_a_job_whose_files_do_not_fit_on_the_disk_costs_only_itself(
    tmp_path: Path, executor: tuple[str, ...]
) -> None:
    words = prepare(tmp_path, "model=large,random", "seed=1", *executor)
    sweep = tmp_path / SWEEP
    ended = done(*words, folder=tmp_path, check=2, limit=1_500_000)
    assert all(part in ended.stderr for part in (f"{SWEEP}/0", "ulimit -f", "run the command again"))
    assert "Traceback" not in ended.stderr
    assert results(sweep)["1"]["status"] == "finished"
    assert strays(sweep) == []
    assert not (sweep / "0" / "model").exists()
    done("resume", SWEEP, folder=tmp_path)
    assert all_finished(sweep, 2)


@pytest.mark.parametrize("limit", [1_000, 3_500])
def test_a_disk_that_is_full_before_the_first_job_leaves_no_part_of_the_plan(
    tmp_path: Path, limit: int
) -> None:
    words = prepare(tmp_path, "model=random", "seed=1,2")
    ended = done(*words, folder=tmp_path, check=2, limit=limit)
    assert all(part in ended.stderr for part in (SWEEP, "ulimit -f"))
    assert "Traceback" not in ended.stderr
    assert not [path for path in (tmp_path / SWEEP).rglob("*") if path.stat().st_size >= limit]
    assert not list((tmp_path / SWEEP).glob("plan/.*"))
    done(*words, folder=tmp_path)
    assert all_finished(tmp_path / SWEEP, 2)


def test_a_run_whose_disk_is_full_before_it_starts_names_the_remedy(tmp_path: Path) -> None:
    words = ["model=random", *QUICK, "tracking=none", "hydra.run.dir=run"]
    ended = done(*words, folder=tmp_path, check=2, limit=1_000)
    assert all(part in ended.stderr for part in ("hydra.run.dir", "ulimit -f"))
    assert "Traceback" not in ended.stderr


@pytest.mark.usefixtures("migrated_store")
def test_a_store_that_goes_away_and_returns_has_every_run_once(tmp_path: Path) -> None:
    words = prepare(tmp_path, "model=slow", "seed=1,2,3,4,5", "tracking=mlflow")
    database, away = tmp_path / "mlflow.db", tmp_path / "away.db"
    with started(*words, folder=tmp_path) as command:
        # During a fit in the command's own process, it does not use the store.
        assert command.wait_until(lambda: len(fits(tmp_path)) == 2)
        database.rename(away)
        assert command.wait_until(lambda: len(fits(tmp_path)) == 4)
        assert command.messages.count("not tracked") == 2
        away.rename(database)
        ended = command.ended()
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("not tracked") == 2
    assert all(f"{SWEEP}/{number}" in ended.stderr for number in (1, 2))
    for _ in range(2):
        assert logged(tmp_path) == {"parents": ["FINISHED"], **{str(n): ["FINISHED"] for n in range(5)}}
        done("sync", SWEEP, folder=tmp_path)


def test_a_dask_worker_that_dies_costs_no_job(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs Dask")
    words = prepare(tmp_path, "model=slow", "seed=1,2,3,4,5,6", *DASK)
    with started(*words, folder=tmp_path) as command:
        assert command.wait_until(lambda: fits(tmp_path))
        (victim, *others) = command.workers()
        assert others
        os.kill(victim, signal.SIGKILL)
        ended = command.ended()
    assert ended.returncode == 0, ended.stderr
    assert all_finished(tmp_path / SWEEP, 6)
    assert strays(tmp_path / SWEEP) == []
    assert len(fits(tmp_path)) <= 7


@pytest.mark.parametrize("subdir", [(), ("hydra.sweep.subdir=seed${seed}",)], ids=["numbers", "names"])
def test_the_same_command_repairs_a_truncated_plan_and_keeps_the_finished_run(
    tmp_path: Path, subdir: tuple[str, ...]
) -> None:
    words = prepare(tmp_path, "model=slow", "seed=1,2,3", *subdir)
    done(*words, folder=tmp_path)
    sweep = tmp_path / SWEEP
    entries = [sweep / "plan" / f"{number}.json" for number in (1, 2)]
    before = [path.read_bytes() for path in entries]
    for path in entries:
        path.write_bytes(path.read_bytes()[:200])
    refused = done("resume", SWEEP, folder=tmp_path, check=2)
    assert all(part in refused.stderr for part in ("plan/1.json", "hydra.sweep.dir"))
    ended = done(*words, folder=tmp_path)
    assert all(part in ended.stderr for part in ("plan/1.json", "plan/2.json", "seed=2", "seed=3"))
    assert [path.read_bytes() for path in entries] == before
    assert len(fits(tmp_path)) == 3
    assert len(results(sweep)) == 3
    assert "3 finished" in done("status", SWEEP, folder=tmp_path).stdout


def test_a_job_that_has_not_finished_gets_its_number_in_a_truncated_plan_back(tmp_path: Path) -> None:
    words = prepare(tmp_path, "model=slow", "seed=1,2,3")
    done(*words, folder=tmp_path)
    sweep = tmp_path / SWEEP
    entry = sweep / "plan" / "1.json"
    before = entry.read_bytes()
    entry.write_bytes(b"")
    (sweep / "1" / "result.json").unlink()
    shutil.rmtree(sweep / "1")
    (sweep / "1").mkdir()
    done(*words, folder=tmp_path)
    assert entry.read_bytes() == before
    assert all_finished(sweep, 3)
    assert fits(tmp_path) == [f"Slow seed={seed}" for seed in (1, 2, 3, 2)]


def test_the_same_command_repairs_a_truncated_id(tmp_path: Path) -> None:
    words = prepare(tmp_path, "model=random", "seed=1")
    done(*words, folder=tmp_path)
    identity = tmp_path / SWEEP / "plan" / "sweep.json"
    identity.write_bytes(identity.read_bytes()[:10])
    refused = done("resume", SWEEP, folder=tmp_path, check=2)
    assert all(part in refused.stderr for part in ("plan/sweep.json", "hydra.sweep.dir"))
    ended = done(*words, folder=tmp_path)
    assert "plan/sweep.json" in ended.stderr
    done("resume", SWEEP, folder=tmp_path)


def test_resume_and_status_report_a_command_that_was_killed_while_it_planned(tmp_path: Path) -> None:
    words = prepare(tmp_path, "model=random")
    done(*words, "seed=1", folder=tmp_path)
    sweep = tmp_path / SWEEP
    with contextlib.suppress(RuntimeError), read_plan(sweep).growing():
        assert read_plan(sweep).incompleteness is None
        raise RuntimeError("killed")
    refused = done("resume", SWEEP, folder=tmp_path, check=2)
    assert all(part in refused.stderr for part in (f"{SWEEP}/plan", "hydra.sweep.dir"))
    assert f"{SWEEP}/plan" in done("status", SWEEP, folder=tmp_path).stdout
    done(*words, "seed=1,2", folder=tmp_path)
    assert strays(sweep) == []
    done("resume", SWEEP, folder=tmp_path)
    assert all_finished(sweep, 2)


@pytest.mark.usefixtures("migrated_store")
@pytest.mark.parametrize("tracking", ["none", "mlflow"])
def test_two_commands_that_start_together_run_each_job_once(tmp_path: Path, tracking: str) -> None:
    words = prepare(tmp_path, "model=slow,random", "seed=1,2,3", f"tracking={tracking}")
    with (
        started(*words, folder=tmp_path) as first,
        started(*words, folder=tmp_path) as second,
    ):
        ended = [first.ended(), second.ended()]
    assert [command.returncode for command in ended] == [0, 0], ended
    assert sorted(fits(tmp_path)) == [f"Slow seed={seed}" for seed in (1, 2, 3)]
    assert all_finished(tmp_path / SWEEP, 6)
    assert ended[0].stdout == ended[1].stdout
    assert "3 seeds" in ended[0].stdout
    if tracking == "mlflow":
        assert logged(tmp_path) == {"parents": ["FINISHED"], **{str(n): ["FINISHED"] for n in range(6)}}


def test_a_wider_command_that_starts_in_the_same_second_shares_the_jobs(tmp_path: Path) -> None:
    words = prepare(tmp_path, "model=slow")
    with (
        started(*words, "seed=1,2,3", folder=tmp_path) as narrow,
        started(*words, "seed=1,2,3,4,5", folder=tmp_path) as wide,
    ):
        ended = [narrow.ended(), wide.ended()]
    assert [command.returncode for command in ended] == [0, 0], ended
    assert sorted(fits(tmp_path)) == [f"Slow seed={seed}" for seed in (1, 2, 3, 4, 5)]
    assert all_finished(tmp_path / SWEEP, 5)
    assert "5 seeds" in ended[1].stdout


def test_every_executor_gives_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs Dask")
    words = ["model=native,lightgbm,xgboost,random,single_feature", "replicates=2"]
    bits = []
    for name, executor in {"inline": (), "processes": TWO_WORKERS, "dask": DASK}.items():
        folder = tmp_path / name
        done(*prepare(folder, *words, *executor), folder=folder)
        assert all_finished(folder / SWEEP, 10)
        metrics = {run: result["metrics"] for run, result in results(folder / SWEEP).items()}
        scores = {path.parent.name: path.read_bytes() for path in (folder / SWEEP).glob("*/scores.npz")}
        bits.append((metrics, scores))
    assert bits[0] == bits[1]
    assert bits[0] == bits[2]


def test_a_job_that_hangs_and_one_that_crashes_cost_only_themselves(tmp_path: Path) -> None:
    limits = ("executor.timeout=6", "executor.retries=1")
    words = prepare(tmp_path, "model=hanging,crashing,random", *TWO_WORKERS, *limits)
    ended = done(*words, folder=tmp_path, check=1)
    assert all(
        part in ended.stderr for part in ("job 0 failed", "executor.timeout=6", "job 1 failed", "SIGSEGV")
    )
    assert sorted(fits(tmp_path)) == ["Crashing seed=0"] * 2 + ["Hanging seed=0"] * 2
    status = done("status", SWEEP, folder=tmp_path).stdout
    assert all(part in status for part in ("1 finished", "2 failed", "executor.timeout=6", "SIGSEGV"))
    (tmp_path / "calm").touch()
    done("resume", SWEEP, "--failed", folder=tmp_path)
    assert all_finished(tmp_path / SWEEP, 3)


def changed(file: Path, since: float) -> bool:
    return file.stat().st_mtime > since


@pytest.mark.usefixtures("migrated_store")
def test_a_tracked_sweep_that_is_killed_has_every_run_once_after_sync(tmp_path: Path) -> None:
    words = prepare(tmp_path, "model=slow,random", "seed=1,2,3", "tracking=mlflow")
    draws, moments = random.Random(SEED), [f"seed {SEED}"]
    sweep, once = tmp_path / SWEEP, {str(number): ["FINISHED"] for number in range(6)}
    for kill in range(4):
        with started(*words, folder=tmp_path) as command:
            command.wait_until(functools.partial(changed, tmp_path / "mlflow.db", time.time()))
            delay = draws.uniform(0.2, 2)
            time.sleep(delay)
        moments.append(f"store +{delay:.3f} s")
        if kill == 1 and results(sweep) and not all_finished(sweep, 6):
            done("sync", SWEEP, folder=tmp_path)
            finished = {name: once[name] for name in results(sweep)}
            assert logged(tmp_path) == {"parents": ["KILLED"], **finished}, moments
    done(*words, folder=tmp_path)
    done("sync", SWEEP, folder=tmp_path)
    assert all_finished(sweep, 6), moments
    assert logged(tmp_path) == {"parents": ["FINISHED"], **once}, moments


def test_what_a_process_left_that_was_killed_after_its_last_file_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "result.json").touch()
    with hold(tmp_path):
        (tmp_path / ".partial-1").mkdir()
        tidy(tmp_path)
        assert len(list(tmp_path.iterdir())) == 3  # it is still at work
    draft = tmp_path / ".lease-1-0123456789abcdef"
    draft.touch()
    os.utime(draft, (0, 0))
    tidy(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    tidy(tmp_path)


def test_only_temporary_files_that_are_an_hour_old_are_deleted(tmp_path: Path) -> None:
    new, old, kept = (tmp_path / name for name in (".partial-new", ".partial-old", "old"))
    for folder in (new, old, kept):
        (folder / "inside").mkdir(parents=True)
    for folder in (old, kept):
        os.utime(folder, (0, 0))
    delete_abandoned(tmp_path, ".partial-*")
    assert sorted(tmp_path.iterdir()) == [new, kept]
