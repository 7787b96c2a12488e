"""Sweeps survive: kills, interruptions, full disks, crashes, two commands."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import statuses
from fault_cases import (
    DASK,
    SWEEP,
    TWO_WORKERS,
    Moment,
    all_finished,
    bits,
    disturb,
    done,
    fits,
    prepare,
    results,
    started,
)

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


def test_a_sweep_that_is_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    folders = tmp_path / "undisturbed", tmp_path / "killed"
    jobs = ("model=slow,random,single_feature,native", "seed=1,2")
    words = [prepare(folder, *jobs, *TWO_WORKERS) for folder in folders][-1]
    sweep = folders[1] / SWEEP
    moments: list[Moment] = [
        ("command", (sweep / "plan").exists),
        ("worker", appears(sweep, ".lease-lock")),
        ("command", lambda: len(results(sweep)) >= 2),
        ("all", appears(sweep, ".partial-*")),
    ]
    draws = random.Random(SEED)
    with started(*words, folder=folders[0]) as reference:
        for again in itertools.islice(itertools.cycle([words, ["resume", SWEEP]]), 12):
            if moments:
                with started(*again, folder=folders[1]) as command:
                    disturb(command, moments, draws)
        assert not moments
        assert reference.ended().returncode == 0
    done(*words, folder=folders[1])
    assert all_finished(sweep, 8)
    assert (sweep / "comparison/table.csv").exists()
    assert bits(sweep) == bits(folders[0] / SWEEP)


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
    assert "5 seeds" in ended[1].stdout
    of_jobs = [(f"slow seed={seed}", "FINISHED") for seed in (1, 2, 3, 4, 5)]
    assert statuses(tmp_path) == [("slow on synthetic: seed", "FINISHED"), *of_jobs]


def test_every_executor_gives_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs Dask")
    words = ["model=native,random", "replicates=2"]
    of_executors = []
    for name, executor in {"inline": (), "processes": TWO_WORKERS, "dask": DASK}.items():
        folder = tmp_path / name
        done(*prepare(folder, *words, *executor), folder=folder)
        assert all_finished(folder / SWEEP, 4)
        of_executors.append(bits(folder / SWEEP))
    assert of_executors[0] == of_executors[1] == of_executors[2]
