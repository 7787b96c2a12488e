"""The state of each job, from disk, and the time left."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from plan_cases import fail, finish, jobs, numbered

from ltrbench.results import INTERRUPTED, hold
from ltrbench.sweep.plan import Plan, prepare_sweep, read_plan
from ltrbench.sweep.planning import plan_jobs
from ltrbench.sweep.state import as_json, seconds_left, state_of, states_of, wanted


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    prepare_sweep(tmp_path)
    plan_jobs(read_plan(tmp_path), jobs(*(f"seed={seed}" for seed in range(6))), numbered)
    plan = read_plan(tmp_path)
    finish(plan, plan.jobs[0], started="2026-01-01T00:00:00+00:00", finished="2026-01-01T00:00:30+00:00")
    fail(plan, plan.jobs[1], "MemoryError: no memory")
    fail(plan, plan.jobs[2], INTERRUPTED)
    finish(plan, plan.jobs[3], key="another")
    return plan


def test_json_has_the_four_states_with_counts_and_folders(plan: Plan) -> None:
    with hold(plan.sweep / "4"):
        states = states_of(plan.sweep, plan.jobs.values())
    assert as_json(states) == {
        "finished": {"count": 1, "folders": ["0"]},
        "running": {"count": 1, "folders": ["4"]},
        "failed": {"count": 2, "folders": ["1", "3"]},
        "waiting": {"count": 2, "folders": ["2", "5"]},
    }
    assert [state.reason for state in states if state.job.number == 1] == ["MemoryError: no memory"]
    assert [state.job.number for state in wanted(states, only_failed=True)] == [1, 3]
    assert [state.job.number for state in wanted(states, only_failed=False)] == [1, 2, 3, 4, 5]


def test_trials_run_only_if_the_job_of_their_search_does(plan: Plan) -> None:
    states = states_of(plan.sweep, plan.jobs.values())
    trials = [replace(state, job=replace(state.job, is_trial=True)) for state in states[:3]]
    for only_failed, numbers in ((True, [3]), (False, [3, 4, 5])):
        assert [state.job.number for state in wanted([*trials, *states[3:]], only_failed)] == numbers


def test_a_job_is_running_while_its_lease_is_held_even_if_its_folder_is_damaged(plan: Plan) -> None:
    (plan.sweep / "1/result.json").write_text("{")
    assert state_of(plan.sweep, plan.jobs[1]).name == "failed"
    with hold(plan.sweep / "1"):
        assert state_of(plan.sweep, plan.jobs[1]).name == "running"


def test_the_time_left_is_that_of_finished_jobs_for_each_job_that_waits(plan: Plan) -> None:
    states = states_of(plan.sweep, plan.jobs.values())
    assert seconds_left(states) == 3 * 30.0
    assert seconds_left([state for state in states if state.name != "finished"]) is None


@pytest.mark.parametrize(("outcome", "left"), [("waiting", 2 * 30.0), ("failed", 3 * 30.0)])
def test_a_job_that_copies_a_training_takes_no_time(tmp_path: Path, outcome: str, left: float) -> None:
    prepare_sweep(tmp_path)
    drafts = [*jobs("seed=0"), *jobs("seed=1", "seed=2", "seed=3", training="same"), *jobs("seed=4")]
    plan_jobs(read_plan(tmp_path), drafts, numbered)
    plan = read_plan(tmp_path)
    assert [job.same_training for job in plan.jobs.values()] == [None, None, "1", "1", None]
    finish(plan, plan.jobs[0], started="2026-01-01T00:00:00+00:00", finished="2026-01-01T00:00:30+00:00")
    if outcome == "failed":
        fail(plan, plan.jobs[1], "MemoryError: no memory")
    assert seconds_left(states_of(tmp_path, plan.jobs.values())) == left


def test_the_state_of_1000_jobs_is_read_in_two_seconds(tmp_path: Path) -> None:
    prepare_sweep(tmp_path)
    plan_jobs(read_plan(tmp_path), jobs(*(f"seed={seed}" for seed in range(1000))), numbered)
    plan = read_plan(tmp_path)
    finish(plan, plan.jobs[0])
    content = (tmp_path / "0/result.json").read_bytes()
    for number in range(1, 1000):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/result.json").write_bytes(content)
    began = time.process_time()
    states_of(tmp_path, read_plan(tmp_path).jobs.values())
    assert time.process_time() - began < 2.0
