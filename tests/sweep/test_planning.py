"""What is refused when jobs are planned: figures of changed jobs are never mixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from messages import naming
from plan_cases import fail, finish, job, jobs, numbered

from ltrbench.errors import ResultError
from ltrbench.results import hold
from ltrbench.sweep.plan import Plan, prepare_sweep, read_plan
from ltrbench.sweep.planning import plan_jobs


def planned(folder: Path, *names: str, **parts: Any) -> Plan:
    prepare_sweep(folder)
    plan_jobs(read_plan(folder), jobs(*names, **parts), numbered)
    return read_plan(folder)


@pytest.mark.parametrize(
    ("part", "before", "now"),
    [
        ("settings", {"l2": 1.0}, {"l2": 2.0}),
        ("data", {"train": "abc"}, {"train": "xyz"}),
        ("code", {"ltrbench": "abc"}, {"ltrbench": "xyz"}),
        ("versions", {"numpy": "2.1"}, {"numpy": "2.2"}),
    ],
)
def test_a_finished_job_that_has_changed_is_refused_with_the_difference(
    tmp_path: Path, part: str, before: dict[str, Any], now: dict[str, Any]
) -> None:
    plan = planned(tmp_path, "seed=1", **{part: before})
    finish(plan, plan.jobs[0])
    ((name, old),), ((_, new),) = before.items(), now.items()
    with pytest.raises(
        ResultError,
        match=naming(f"{part}.{name}", old, new, tmp_path / "0", "hydra.sweep.dir=", "delete"),
    ):
        plan_jobs(plan, jobs("seed=1", "seed=2", **{part: now}), numbered)
    assert read_plan(tmp_path).jobs == plan.jobs


def test_a_running_job_that_has_changed_is_refused_too(tmp_path: Path) -> None:
    plan = planned(tmp_path, "seed=1")
    with hold(tmp_path / "0"), pytest.raises(ResultError, match=naming("settings.l2", tmp_path / "0")):
        plan_jobs(plan, jobs("seed=1", settings={"l2": 2.0}), numbered)


def test_finished_jobs_of_other_commands_with_other_versions_are_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path, "model=b", versions={"lightgbm": "4.5"})
    finish(plan, plan.jobs[0])
    now = [job("model=a", versions={"numpy": "1"}), job("model=c", versions={"lightgbm": "4.6"})]
    with pytest.raises(ResultError, match=naming("versions.lightgbm", "4.5", "4.6")):
        plan_jobs(plan, now, numbered)


@pytest.mark.parametrize("state", ["waiting", "failed"])
def test_a_changed_job_that_has_not_finished_gets_the_new_key(tmp_path: Path, state: str) -> None:
    plan = planned(tmp_path, "seed=1")
    if state == "failed":
        fail(plan, plan.jobs[0], "out of memory")
    (changed,) = plan_jobs(plan, jobs("seed=1", settings={"l2": 2.0}), numbered)
    assert changed.number == 0
    assert read_plan(tmp_path).jobs[0].digest == changed.digest


def test_the_message_about_a_thousand_changed_jobs_is_short(tmp_path: Path) -> None:
    names = [f"seed={seed}" for seed in range(50)]
    plan = planned(tmp_path, *names)
    for item in plan.jobs.values():
        finish(plan, item)
    with pytest.raises(ResultError, match=naming("jobs 0 to 49")) as refusal:
        plan_jobs(plan, jobs(*names, settings={"l2": list(range(1000))}), numbered)
    assert len(str(refusal.value)) < 1500


def test_a_finished_run_that_is_not_planned_is_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path, "seed=1")
    other = finish(plan, plan.jobs[0])
    prepare_sweep(tmp_path / "new")
    with pytest.raises(ResultError, match=naming(tmp_path / "0", "seed=1", "hydra.sweep.dir=")):
        plan_jobs(read_plan(tmp_path / "new"), jobs("seed=1"), numbered, [other])
    assert not read_plan(tmp_path / "new").jobs
