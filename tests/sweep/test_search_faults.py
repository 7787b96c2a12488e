"""Searches survive: kills of the command and of workers, a second command, and trials that fail."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from fault_cases import (
    SWEEP,
    TWO_WORKERS,
    Command,
    age,
    done,
    fits,
    kill_all,
    logged,
    prepare,
    results,
    started,
    strays,
)
from fault_native import FATAL_LEAVES

pytestmark = pytest.mark.slow

SEED = 20261123
SEARCHES = ("model=steady", "search=random,tpe", "search.trials=12", "num_threads=1")
"""Two searches. Their first 8 trials are the same; the last 4 of TPE depend on how these ended."""
FIRST_ROUND, NUM_TRIALS = 12, 16
GRID = (
    *("model=fragile", "search=grid", "search.trials=3"),
    *("~search.space.shared", f"+search.space.shared.num_leaves={{values: [4, {FATAL_LEAVES}, 16]}}"),
)


def outcome(sweep: Path) -> dict[str, Any]:
    """Folder of a searched job -> its trials, search, metrics and scores, without times."""
    return {
        name: (
            _without_seconds(
                csv.DictReader((sweep / name / "trials.csv").read_text(encoding="utf-8").splitlines())
            ),
            _without_seconds([result["search"]]),
            result["metrics"],
            (sweep / name / "scores.npz").read_bytes(),
        )
        for name, result in results(sweep).items()
    }


def _without_seconds(rows: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def num_trials(sweep: Path) -> int:
    """Number of trials that have ended."""
    return len(list(sweep.glob("trials/*/result.json")))


def is_held(folder: Path) -> bool:
    return any(folder.glob(".lease-*"))


@dataclass
class Killer:
    """Kills processes of commands at given moments, in this order.

    Attributes:
        moments: victim, and the condition to wait for.
        log: what was killed when, for a replay.
    """

    moments: list[tuple[str, Callable[[], bool]]]
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


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outcome of the searches if nothing happens."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done(*prepare(folder, *SEARCHES, *TWO_WORKERS), folder=folder)
    assert num_trials(folder / SWEEP) == NUM_TRIALS
    return outcome(folder / SWEEP)


def test_searches_that_are_killed_end_with_the_same_bytes(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    words = prepare(tmp_path, *SEARCHES, *TWO_WORKERS)
    sweep = tmp_path / SWEEP
    killer = Killer(
        [
            ("worker", lambda: num_trials(sweep) >= 1),
            ("command", lambda: num_trials(sweep) >= 4),
            ("all", lambda: num_trials(sweep) >= FIRST_ROUND),  # the end of the first round
            ("command", lambda: is_held(sweep / "0")),  # a final run, beside the last trials of TPE
            ("worker", lambda: is_held(sweep / "1")),
        ],
        random.Random(SEED),
    )
    for again in (words, ["resume", SWEEP], words, ["resume", SWEEP]):
        with started(*again, folder=tmp_path) as command:
            killer.disturb(command)
            if not killer.moments:
                command.ended()
    assert len(killer.log) >= 4, killer.log
    age(sweep)
    ended = run(*words, folder=tmp_path)
    assert outcome(sweep) == undisturbed, killer.log
    assert num_trials(sweep) == NUM_TRIALS, killer.log
    assert strays(sweep) == [], killer.log
    assert "trials failed" not in ended.stderr


def test_two_commands_on_the_same_searches_share_the_trials(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    words = prepare(tmp_path, *SEARCHES)
    with (
        started(*words, folder=tmp_path) as first,
        started(*words, folder=tmp_path) as second,
    ):
        ended = [first.ended(), second.ended()]
    assert [command.returncode for command in ended] == [0, 0], ended
    assert len(fits(tmp_path)) == NUM_TRIALS + 2
    assert ended[0].stdout == ended[1].stdout
    assert outcome(tmp_path / SWEEP) == undisturbed


@pytest.mark.usefixtures("migrated_store")
def test_a_trial_whose_process_crashes_costs_only_itself(tmp_path: Path) -> None:
    words = prepare(tmp_path, *GRID, *TWO_WORKERS, "executor.retries=0", "tracking=mlflow")
    sweep = tmp_path / SWEEP
    for ended in (done(*words, folder=tmp_path), run("resume", SWEEP, folder=tmp_path)):
        assert all(part in ended.stderr for part in ("1 of 3 trials failed", f"{SWEEP}/trials/", "SIGSEGV"))
        assert "3 trials of which 1 failed" in ended.stdout
    (trials, (search,), _, _) = outcome(sweep)["0"]
    states = {trial["num_leaves"]: trial["state"] for trial in trials}
    assert states == {"4": "complete", str(FATAL_LEAVES): "failed", "16": "complete"}
    assert search["settings"]["num_leaves"] in (4, 16)
    assert len(fits(tmp_path)) == 3
    status = run("status", SWEEP, folder=tmp_path).stdout
    assert "1 job, 1 finished, 0 running, 0 failed" in status
    assert "3 trials, 2 finished, 0 running, 1 failed" in status
    by_state = json.loads(run("status", SWEEP, "--json", folder=tmp_path).stdout)
    counts = [by_state[name]["count"] for name in ("finished", "running", "failed", "waiting")]
    assert counts == [3, 0, 1, 0]
    (fatal,) = by_state["failed"]["folders"]
    others = {folder: ["FINISHED"] for folder in by_state["finished"]["folders"]}
    for _ in range(2):
        assert logged(tmp_path) == {"parents": ["FINISHED"], **others, fatal: ["FAILED"]}
        run("sync", SWEEP, folder=tmp_path)


def test_trials_that_cannot_be_written_end_the_search_which_resume_repeats(tmp_path: Path) -> None:
    words = prepare(tmp_path, "model=steady", "search=random", "search.trials=3")
    sweep = tmp_path / SWEEP
    sweep.mkdir()
    (sweep / "trials").touch()
    ended = run(*words, folder=tmp_path, check=2)
    assert all(part in ended.stderr for part in (f"{SWEEP}/trials/", "3 of 3 trials failed"))
    (sweep / "trials").unlink()
    run("resume", SWEEP, "--failed", folder=tmp_path)
    assert num_trials(sweep) == 3
    assert list(outcome(sweep)) == ["0"]
