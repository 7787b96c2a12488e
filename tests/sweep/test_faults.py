"""Sweeps survive: kills, interruptions, full disks, crashes, two commands."""

from __future__ import annotations

import csv
import itertools
import json
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from fault_cases import (
    DASK,
    SWEEP,
    TWO_WORKERS,
    Killer,
    age,
    all_finished,
    contents,
    done,
    fits,
    logged,
    prepare,
    results,
    started,
    strays,
)
from fault_native import FATAL_LEAVES

from ltrbench.disk import delete_abandoned
from ltrbench.runs import hold, tidy

pytestmark = pytest.mark.slow

SEED = 20261122
GRID = (
    *("model=fragile", "search=grid", "search.trials=3"),
    *("~search.space.shared", f"+search.space.shared.num_leaves={{values: [4, {FATAL_LEAVES}, 16]}}"),
)


def appears(sweep: Path, pattern: str) -> Callable[[], set[Path]]:
    """Returns a condition: a file of this name is new since the condition was first asked."""
    before: list[set[Path]] = []

    def condition() -> set[Path]:
        files = {*sweep.glob(pattern), *sweep.glob(f"*/{pattern}")}
        before.append(files)
        return files - before[0]

    return condition


def killed(words: list[str], folder: Path, killer: Killer) -> None:
    """Starts the command and `resume` in turn, until all kills of the list are done."""
    for again in itertools.islice(itertools.cycle([words, ["resume", SWEEP]]), 12):
        if killer.moments:
            with started(*again, folder=folder) as command:
                killer.disturb(command)
    assert not killer.moments, killer.log
    age(folder / SWEEP)


def test_a_sweep_that_is_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    folders = tmp_path / "undisturbed", tmp_path / "killed"
    jobs = ("model=slow,random,single_feature,native", "seed=1,2,3")
    words = [prepare(folder, *jobs, *TWO_WORKERS) for folder in folders][-1]
    sweep = folders[1] / SWEEP
    moments: list[tuple[str, Callable[[], object]]] = [
        ("command", (sweep / "plan").exists),
        ("worker", appears(sweep, ".lease-*")),
        ("command", lambda: len(results(sweep)) >= 2),
        ("all", appears(sweep, ".partial-*")),
        ("worker", lambda: len(results(sweep)) >= 6),
        ("command", appears(sweep, ".partial-*")),
        ("all", appears(sweep, ".comparison-*")),
    ]
    killer = Killer(moments, random.Random(SEED))
    with started(*words, folder=folders[0]) as reference:
        killed(words, folders[1], killer)
        assert reference.ended().returncode == 0
    done(*words, folder=folders[1])
    assert all_finished(sweep, 12), killer.log
    assert contents(sweep) == contents(folders[0] / SWEEP), killer.log
    assert strays(sweep) == [], killer.log


def test_an_interrupted_sweep_names_the_command_that_completes_it(tmp_path: Path) -> None:
    words = prepare(tmp_path, "model=slow,random", "seed=1,2,3", *TWO_WORKERS)
    with started(*words, folder=tmp_path) as command:
        assert command.wait_until(lambda: fits(tmp_path))
        os.killpg(command.process.pid, signal.SIGINT)  # Ctrl-C in a terminal reaches the workers, too
        ended = command.ended()
        assert command.left_nothing_running()
    assert ended.returncode == 130
    assert all(part in ended.stderr for part in ("interrupted", "6 jobs", f"resume {SWEEP}"))
    left = results(tmp_path / SWEEP).values()
    assert all(result["status"] == "finished" or result["error"] == "interrupted" for result in left)
    assert not all_finished(tmp_path / SWEEP, 6)
    done("resume", SWEEP, folder=tmp_path)
    assert all_finished(tmp_path / SWEEP, 6)


def test_a_job_whose_files_do_not_fit_on_the_disk_costs_only_itself(tmp_path: Path) -> None:
    words = prepare(tmp_path, "model=large,random", "seed=1", *TWO_WORKERS)
    sweep = tmp_path / SWEEP
    ended = done(*words, folder=tmp_path, check=2, limit=1_500_000)
    assert all(part in ended.stderr for part in (f"{SWEEP}/0", "ulimit -f", "run the command again"))
    assert "Traceback" not in ended.stderr
    assert results(sweep)["1"]["status"] == "finished"
    assert strays(sweep) == []
    assert not (sweep / "0" / "model").exists()
    done("resume", SWEEP, folder=tmp_path)
    assert all_finished(sweep, 2)


def test_a_disk_that_is_full_before_the_first_job_leaves_no_part_of_the_plan(tmp_path: Path) -> None:
    words, limit = prepare(tmp_path, "model=random", "seed=1,2"), 3_500
    ended = done(*words, folder=tmp_path, check=2, limit=limit)
    assert all(part in ended.stderr for part in (SWEEP, "ulimit -f"))
    assert not [path for path in (tmp_path / SWEEP).rglob("*") if path.stat().st_size >= limit]
    assert not list((tmp_path / SWEEP).glob("plan/.*"))
    done(*words, folder=tmp_path)
    assert all_finished(tmp_path / SWEEP, 2)


@pytest.mark.usefixtures("migrated_store")
def test_two_commands_that_start_together_run_each_job_once(tmp_path: Path) -> None:
    words = prepare(tmp_path, "model=slow", "tracking=mlflow")
    with (
        started(*words, "seed=1,2,3", folder=tmp_path) as narrow,
        started(*words, "seed=1,2,3,4,5", folder=tmp_path) as wide,
    ):
        ended = [narrow.ended(), wide.ended()]
    assert [command.returncode for command in ended] == [0, 0], ended
    assert sorted(fits(tmp_path)) == [f"Slow seed={seed}" for seed in (1, 2, 3, 4, 5)]
    assert all_finished(tmp_path / SWEEP, 5)
    assert "5 seeds" in ended[1].stdout
    assert logged(tmp_path) == {"parents": ["FINISHED"], **{str(n): ["FINISHED"] for n in range(5)}}


def test_every_executor_gives_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs Dask")
    words = ["model=native,random", "replicates=2"]
    bits = []
    for name, executor in {"inline": (), "processes": TWO_WORKERS, "dask": DASK}.items():
        folder = tmp_path / name
        done(*prepare(folder, *words, *executor), folder=folder)
        assert all_finished(folder / SWEEP, 4)
        metrics = {run: result["metrics"] for run, result in results(folder / SWEEP).items()}
        scores = {path.parent.name: path.read_bytes() for path in (folder / SWEEP).glob("*/scores.npz")}
        bits.append((metrics, scores))
    assert bits[0] == bits[1]
    assert bits[0] == bits[2]


def test_a_job_that_hangs_and_one_that_crashes_cost_only_themselves(tmp_path: Path) -> None:
    limits = ("executor.timeout=4", "executor.retries=1")
    words = prepare(tmp_path, "model=hanging,crashing,random", *TWO_WORKERS, *limits)
    ended = done(*words, folder=tmp_path, check=1)
    assert all(
        part in ended.stderr for part in ("job 0 failed", "executor.timeout=4", "job 1 failed", "SIGSEGV")
    )
    assert sorted(fits(tmp_path)) == ["Crashing seed=0"] * 2 + ["Hanging seed=0"] * 2
    status = done("status", SWEEP, folder=tmp_path).stdout
    assert all(part in status for part in ("1 finished", "2 failed", "executor.timeout=4", "SIGSEGV"))
    (tmp_path / "calm").touch()
    done("resume", SWEEP, "--failed", folder=tmp_path)
    assert all_finished(tmp_path / SWEEP, 3)


def test_what_a_process_left_that_was_killed_after_its_last_file_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "result.json").touch()
    with hold(tmp_path):
        (tmp_path / ".partial-1").mkdir()
        tidy(tmp_path)
        assert len(list(tmp_path.iterdir())) == 3  # it is still at work
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


@pytest.mark.usefixtures("migrated_store")
def test_a_trial_whose_process_crashes_costs_only_itself(tmp_path: Path) -> None:
    words = prepare(tmp_path, *GRID, *TWO_WORKERS, "executor.retries=0", "tracking=mlflow")
    sweep = tmp_path / SWEEP
    ended = done(*words, folder=tmp_path)
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
    assert logged(tmp_path) == {"parents": ["FINISHED"], **others, fatal: ["FAILED"]}
