"""The plan of a sweep: one file per job, whoever plans it, and nothing outside the sweep."""

from __future__ import annotations

import json
import math
import multiprocessing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from messages import naming
from plan_cases import job, jobs, names_of, numbered, numbers_on_disk

from ltrbench.config import Config
from ltrbench.errors import ConfigError
from ltrbench.sweep.job import SettingsRecord, as_record, from_record, in_ranges
from ltrbench.sweep.plan import prepare_sweep, read_plan
from ltrbench.sweep.planning import plan_jobs


def plan_in_process(sweep: Path, first: int) -> None:
    drafts = jobs(*(f"seed={seed}" for seed in range(first, first + 20)))
    plan_jobs(read_plan(sweep), drafts, numbered)


def test_commands_that_plan_at_once_end_with_one_dense_number_per_job(tmp_path: Path) -> None:
    prepare_sweep(tmp_path)
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=plan_in_process, args=(tmp_path, 5 * place)) for place in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 8
    plan = read_plan(tmp_path)
    assert numbers_on_disk(tmp_path) == list(range(55))
    assert sorted(names_of(list(plan.jobs.values()))) == sorted(f"seed={seed}" for seed in range(55))


@pytest.mark.parametrize("is_trial", [False, True], ids=["job", "trial"])
def test_a_job_that_another_command_has_planned_and_started_is_not_planned_again(
    is_trial: bool, tmp_path: Path
) -> None:
    prepare_sweep(tmp_path)
    drafts = [replace(draft, is_trial=is_trial) for draft in jobs("seed=1", "seed=2")]
    earlier = read_plan(tmp_path)
    for planned in plan_jobs(read_plan(tmp_path), drafts, numbered):
        (tmp_path / planned.folder).mkdir(parents=True)
    assert [planned.number for planned in plan_jobs(earlier, drafts, numbered)] == [0, 1]
    assert numbers_on_disk(tmp_path) == [0, 1]


def test_a_wider_sweep_extends_the_plan_and_repeated_jobs_are_planned_once(tmp_path: Path) -> None:
    prepare_sweep(tmp_path)
    first = plan_jobs(read_plan(tmp_path), jobs("seed=1", "seed=2", "seed=1"), numbered)
    wider = plan_jobs(read_plan(tmp_path), jobs("seed=3", "seed=2", "seed=1"), numbered)
    assert names_of(first) == ["seed=1", "seed=2"]
    assert names_of(wider) == ["seed=1", "seed=2", "seed=3"]
    assert numbers_on_disk(tmp_path) == [0, 1, 2]


def test_the_same_job_written_with_other_overrides_is_one_job(tmp_path: Path) -> None:
    prepare_sweep(tmp_path)
    implicit = job("model=native")
    explicit = replace(job("model=native", "seed=0"), key=implicit.key)
    (planned,) = plan_jobs(read_plan(tmp_path), [implicit, explicit], numbered)
    assert (planned.number, planned.overrides) == (0, ["model=native"])


def test_numbers_avoid_folders_that_exist_and_stay_small(tmp_path: Path) -> None:
    prepare_sweep(tmp_path)
    for name in ("1", "20260131"):
        (tmp_path / name).mkdir()
    planned = plan_jobs(read_plan(tmp_path), jobs("seed=1", "seed=2"), numbered)
    assert [item.folder for item in planned] == ["0", "2"]


def test_all_damaged_files_are_replaced_under_their_numbers(tmp_path: Path) -> None:
    prepare_sweep(tmp_path)
    drafts = jobs("seed=1", "seed=2", "seed=3")
    plan_jobs(read_plan(tmp_path), drafts, numbered)
    for number in (0, 2):
        (tmp_path / "plan" / f"{number}.json").write_text("{")
    assert names_of(plan_jobs(read_plan(tmp_path), drafts, numbered)) == names_of(drafts)
    assert read_plan(tmp_path).damaged == {}


@pytest.mark.parametrize(
    ("folder", "part"), [("a", "another job"), ("../a", "outside"), ("/a", "outside"), ("plan/{}", "plan")]
)
def test_a_subdir_that_gives_no_job_a_folder_of_its_own_is_refused(
    tmp_path: Path, folder: str, part: str
) -> None:
    prepare_sweep(tmp_path)
    with pytest.raises(ConfigError, match=naming("hydra.sweep.subdir", folder.format(0), part)):
        plan_jobs(read_plan(tmp_path), jobs("seed=1", "seed=2"), lambda job, number: folder.format(number))
    assert numbers_on_disk(tmp_path) == []


def test_a_folder_inside_that_of_another_job_is_refused(tmp_path: Path) -> None:
    prepare_sweep(tmp_path)
    with pytest.raises(ConfigError, match=naming("a/b")):
        plan_jobs(read_plan(tmp_path), jobs("x=1", "x=2"), lambda job, number: ["a", "a/b"][number])


def test_a_job_on_disk_has_the_settings_of_the_draft_with_infinite_numbers_too() -> None:
    values = {"data": {"absent": math.nan, "most": [math.inf, -math.inf, 1.5, None, "inf"]}}
    again: Any = from_record(
        json.loads(json.dumps(as_record(replace(job("a=1", values=values), folder="0"))))
    )
    assert math.isnan(again.settings["data"]["absent"])
    assert again.settings["data"]["most"] == values["data"]["most"]


def test_the_record_of_the_settings_has_the_fields_of_the_configuration() -> None:
    assert set(get_type_hints(SettingsRecord)) == {item.name for item in fields(Config)}


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"folder": "../x"}, ["folder", "../x"]),
        ({"folder": "/x"}, ["folder", "/x"]),
        ({"folder": ""}, ["folder"]),
        ({"folder": "comparison"}, ["folder", "comparison"]),
        ({"folder": "plan/x"}, ["folder", "plan/x"]),
        ({"number": -1}, ["number", "-1"]),
        ({"started_in": "multirun"}, ["started_in", "multirun"]),
        ({"settings": {}}, ["settings"]),
        ({"settings": {**as_record(job("a=1"))["settings"], "plugins": "os"}}, ["settings.plugins", "os"]),
        ({"choices": {"model": None}}, ["choices"]),
        ({"key": {}}, ["key"]),
        ({"overrides": "a=1"}, ["overrides", "a=1"]),
        ({"format": 99}, ["format", "99"]),
    ],
)
def test_a_file_that_no_command_wrote_is_refused_with_the_field(
    tmp_path: Path, changes: dict[str, Any], parts: list[str]
) -> None:
    prepare_sweep(tmp_path)
    record = json.loads(json.dumps(as_record(replace(job("a=1"), folder="0"))))
    assert not isinstance(from_record(record), str)
    (tmp_path / "plan/0.json").write_text(json.dumps({**record, **changes}))
    plan = read_plan(tmp_path)
    assert not plan.jobs
    assert all(part in plan.damaged[0] for part in ["0.json", *parts])


def test_the_first_job_of_a_training_leads_and_only_its_training_is_copied(tmp_path: Path) -> None:
    prepare_sweep(tmp_path)
    drafts = jobs("seed=1", "seed=2", "seed=3", training="t")
    planned = plan_jobs(read_plan(tmp_path), drafts, numbered)
    assert [item.same_training for item in planned] == [None, "0", "0"]
    plan = read_plan(tmp_path)
    leader = plan.trained_before(plan.jobs[1])
    assert leader is not None
    assert leader.number == 0
    # The first job changes, the second one does not.
    plan.change(replace(plan.jobs[0], training="u"))
    assert read_plan(tmp_path).trained_before(plan.jobs[1]) is None


def test_a_thousand_numbers_are_short_in_a_message() -> None:
    assert in_ranges(range(1000)) == "jobs 0 to 999"
    assert len(in_ranges(range(0, 1000, 2))) < 100
