"""The plan of a sweep and the keys of its jobs: equal exactly when the results are; the states of jobs."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import composed_jobs
import pytest
from messages import naming
from paths import CONF, ROOT
from plan_cases import fail, finish, job, jobs, numbered, numbers_on_disk

from ltrbench.cli.verbs.sweeps import redrafted
from ltrbench.errors import ConfigError, ResultError
from ltrbench.experiment.loading import forget
from ltrbench.folders import files_of_module, import_user_module
from ltrbench.runs.origin import Origin, Trained, Trial
from ltrbench.runs.record import INTERRUPTED
from ltrbench.runs.writing import hold
from ltrbench.sweep import plan as key
from ltrbench.sweep.plan import (
    DONE,
    FAILED,
    Job,
    Plan,
    as_json,
    as_text,
    key_of_trial,
    plan_jobs,
    prepare_sweep,
    read_job,
    read_plan,
    states_of,
    wanted,
)
from ltrbench.sweep.running import JobTask, run_task


@pytest.mark.parametrize("origin", [Trained(), Trial()], ids=["job", "trial"])
def test_a_job_that_another_command_has_planned_and_started_is_not_planned_again(
    origin: Origin, tmp_path: Path
) -> None:
    prepare_sweep(tmp_path)
    drafts = [replace(draft, origin=origin) for draft in jobs("seed=1", "seed=2")]
    earlier = read_plan(tmp_path)
    for planned in plan_jobs(read_plan(tmp_path), drafts, numbered):
        (tmp_path / planned.folder).mkdir(parents=True)
    assert [planned.number for planned in plan_jobs(earlier, drafts, numbered)] == [
        0,
        1,
    ]
    assert numbers_on_disk(tmp_path) == [0, 1]


def test_a_wider_sweep_extends_the_plan_and_repeated_jobs_are_planned_once(
    tmp_path: Path,
) -> None:
    prepare_sweep(tmp_path)
    first = plan_jobs(read_plan(tmp_path), jobs("seed=1", "seed=2", "seed=1"), numbered)
    wider = plan_jobs(read_plan(tmp_path), jobs("seed=3", "seed=2", "seed=1"), numbered)
    assert [job.number for job in first] == [0, 1, 0]
    assert [job.number for job in wider] == [2, 1, 0]
    assert numbers_on_disk(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize(
    ("folder", "part"),
    [
        ("a", "another job"),
        ("../a", "outside"),
        ("/a", "outside"),
        ("plan/{}", "reserved"),
    ],
)
def test_a_subdir_that_gives_no_job_a_folder_of_its_own_is_refused(
    tmp_path: Path, folder: str, part: str
) -> None:
    prepare_sweep(tmp_path)
    with pytest.raises(
        ConfigError, match=naming("hydra.sweep.subdir", folder.format(0), part)
    ):
        plan_jobs(
            read_plan(tmp_path),
            jobs("seed=1", "seed=2"),
            lambda job, number: folder.format(number),
        )
    assert numbers_on_disk(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"folder": "../x"}, ["folder", "../x"]),
        ({"spec": {"overrides": "a=1"}}, ["spec.overrides", "a=1"]),
        ({"format": 99}, ["format", "99"]),
        (None, ["line 1"]),
    ],
)
def test_a_damaged_file_is_refused_with_the_field_and_the_remedy(
    tmp_path: Path, changes: dict[str, Any] | None, parts: list[str]
) -> None:
    prepare_sweep(tmp_path)
    plan_jobs(read_plan(tmp_path), jobs("seed=1", "seed=2"), numbered)
    file = tmp_path / "plan/1.json"
    text = file.read_text()
    file.write_text(
        "{" if changes is None else json.dumps({**json.loads(text), **changes})
    )
    with pytest.raises(
        ResultError, match=naming(file, *parts, "Delete the file", "hydra.sweep.dir")
    ):
        plan_jobs(read_plan(tmp_path), jobs("seed=1", "seed=2"), numbered)
    file.unlink()
    plan_jobs(read_plan(tmp_path), jobs("seed=1", "seed=2"), numbered)
    assert file.read_text() == text


def test_the_first_job_of_a_training_leads_and_only_its_training_is_copied(
    tmp_path: Path,
) -> None:
    prepare_sweep(tmp_path)
    drafts = jobs("seed=1", "seed=2", "seed=3", training="t")
    planned = plan_jobs(read_plan(tmp_path), drafts, numbered)
    assert [item.same_training for item in planned] == [None, "0", "0"]
    plan = read_plan(tmp_path)
    leader = plan.trained_before(plan.jobs[1])
    assert leader is not None
    assert leader.number == 0
    # The first job changes, the second one does not.
    plan_jobs(plan, jobs("seed=1", training="u", settings={"l2": 2.0}), numbered)
    assert read_plan(tmp_path).trained_before(plan.jobs[1]) is None


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
        match=naming(
            f"{part}.{name}", old, new, tmp_path / "0", "hydra.sweep.dir=", "delete"
        ),
    ):
        plan_jobs(plan, jobs("seed=1", "seed=2", **{part: now}), numbered)
    assert read_plan(tmp_path).jobs == plan.jobs


def test_finished_jobs_of_other_commands_with_other_versions_are_refused(
    tmp_path: Path,
) -> None:
    plan = planned(tmp_path, "model=b", versions={"lightgbm": "4.5"})
    finish(plan, plan.jobs[0])
    now = [
        job("model=a", versions={"numpy": "1"}),
        job("model=c", versions={"lightgbm": "4.6"}),
    ]
    with pytest.raises(ResultError, match=naming("versions.lightgbm", "4.5", "4.6")):
        plan_jobs(plan, now, numbered)


def test_other_data_of_the_same_name_are_refused_beside_finished_jobs(
    tmp_path: Path,
) -> None:
    plan = planned(tmp_path, "model=a", data={"train": "abc"})
    newer = jobs("model=b", data={"train": "xyz"})
    assert plan_jobs(
        read_plan(tmp_path), jobs("model=c", data={"error": "x"}), numbered
    )
    finish(plan, plan.jobs[0])
    remedies = ["hydra.sweep.dir=", "data.name="]
    with pytest.raises(ResultError, match=naming("job 0", "abc", "xyz", *remedies)):
        plan_jobs(plan, newer, numbered)
    renamed = {"data": {"name": "newer"}}
    # Another name, and the other data of an earlier command.
    for drafts in (
        jobs("model=b", data={"train": "xyz"}, settings=renamed),
        jobs("model=d", data={"train": "abc"}),
    ):
        assert plan_jobs(plan, drafts, numbered)


def test_a_job_whose_data_were_replaced_after_the_plan_does_not_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.txt"
    lines = [f"{line % 3} qid:{line // 4} 1:{line} 2:{line % 5}" for line in range(80)]
    file.write_text("\n".join(lines) + "\n")
    prepare_sweep(tmp_path / "s")
    words = ["data=letor", f"data.train={file}", "importance=none", "tracking=none"]
    drafts = [drafted(f"model={model}", *words) for model in ("random", "linear")]
    first, second = plan_jobs(read_plan(tmp_path / "s"), drafts, numbered)
    tasks = [JobTask(job=job, sweep=tmp_path / "s") for job in (first, second)]
    assert run_task(tasks[0]).state == DONE
    file.write_text("\n".join([*lines, "1 qid:20 1:1", "0 qid:20 1:2"]) + "\n")
    outcome = run_task(tasks[1])
    assert (outcome.state, outcome.is_user_error) == (FAILED, True)
    planned_as = second.key.data["train"]
    assert re.search(naming("train", planned_as, "hydra.sweep.dir="), outcome.error)
    assert not (tasks[1].folder / "model").exists()


@pytest.mark.parametrize(
    ("header", "changed", "prefix"),
    [
        ("query_id,document_id,label,b,a", "train.names", "d"),
        ("query_id,document_id,label,a,price", "test.names", "d"),
        ("query_id,document_id,label,a,b", "valid.names", "e"),
    ],
)
def test_the_names_of_columns_and_the_ids_of_documents_belong_to_the_key(
    tmp_path: Path, header: str, changed: str, prefix: str
) -> None:
    file = tmp_path / "shop.csv"
    words = ["data=table", f"data.train={file}", "importance=none", "tracking=none"]

    def draft_of(header: str, prefix: str) -> Job:
        rows = [
            f"q{row // 4},{prefix}{row},{row % 3},{row},{row % 5}" for row in range(80)
        ]
        file.write_text("\n".join([header, *rows]) + "\n")
        forget()
        return drafted("model=random", *words)

    first = draft_of("query_id,document_id,label,a,b", "d")
    later = draft_of(header, prefix)
    differences = later.key.differences(first.key)
    assert len(differences) == 3
    assert f"data.{changed}: " in " ".join(differences)


@pytest.mark.parametrize("state", ["waiting", "failed"])
def test_a_changed_job_that_has_not_finished_gets_the_new_key(
    tmp_path: Path, state: str
) -> None:
    plan = planned(tmp_path, "seed=1")
    if state == "failed":
        fail(plan, plan.jobs[0], "out of memory")
    (changed,) = plan_jobs(plan, jobs("seed=1", settings={"l2": 2.0}), numbered)
    assert changed.number == 0
    assert read_plan(tmp_path).jobs[0].digest == changed.digest


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    prepare_sweep(tmp_path)
    plan_jobs(
        read_plan(tmp_path), jobs(*(f"seed={seed}" for seed in range(6))), numbered
    )
    plan = read_plan(tmp_path)
    finish(
        plan,
        plan.jobs[0],
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:00:30+00:00",
    )
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
    assert [state.reason for state in states if state.job.number == 1] == [
        "MemoryError: no memory"
    ]
    assert [state.job.number for state in wanted(states, only_failed=True)] == [1, 3]
    # Job 2, which was interrupted, comes last.
    unfinished = [state.job.number for state in wanted(states, only_failed=False)]
    assert unfinished == [1, 3, 4, 5, 2]


# ---- The key of a job.


TINY = ("data.num_queries=20", "params.num_trees=2")
MODELS = sorted(path.stem for path in (CONF / "model").glob("[a-z]*.yaml"))


def drafted(*overrides: str, sweep: str = "s") -> Job:
    tiny = () if any("data=" in word for word in overrides) else TINY
    return composed_jobs.drafted(*tiny, *overrides, sweep=sweep)


def as_read(job: Job, folder: Path) -> Job:
    (folder / "0.json").write_text(as_text(replace(job, folder="0")))
    return read_job(folder / "0.json")


@pytest.mark.parametrize(
    "overrides",
    [
        *([f"model={model}"] for model in MODELS),
        ["model=lightgbm", "params=library"],
        ["data=letor", "data.train=train.txt", "data.absent=nan"],
        [
            "model=lightgbm",
            "++model.extra={path_smooth: inf, max_bin_by_feature: [1, 2]}",
        ],
        ["early_stopping=null", "importance=none", "metrics=map"],
        ["replicates.number=3", "replicates.index=2", "seed=4"],
    ],
    ids=" ".join,
)
def test_a_job_that_is_read_from_the_plan_has_the_key_of_the_command(
    overrides: list[str], tmp_path: Path
) -> None:
    job = drafted(*overrides)
    again = redrafted(as_read(job, tmp_path))
    assert again.key.differences(job.key) == []
    assert (again.digest, again.training) == (job.digest, job.training)


@pytest.mark.parametrize(
    "overrides",
    [
        ["tracking=none"],
        ["progress=plain"],
        ["executor=processes", "executor.workers=7"],
        ["tracking.models=true", "register=shop"],
        ["seed=0"],
    ],
    ids=" ".join,
)
def test_settings_that_change_no_result_leave_the_key(overrides: list[str]) -> None:
    assert drafted(*overrides, sweep="other").digest == drafted().digest


@pytest.mark.parametrize("model", ["native", "mlp"])
def test_the_content_of_the_model_that_a_fit_continues_belongs_to_the_key(
    tmp_path: Path, model: str
) -> None:
    (tmp_path / "base/model").mkdir(parents=True)
    words = [f"model={model}", f"model.warm_start={tmp_path / 'base'}"]
    keys = []
    for content in ("a", "b"):
        (tmp_path / "base/model/settings.json").write_text(content)
        job = drafted(*words)
        trial = key_of_trial(job.key, job.spec)
        keys.append((job.key, trial))
    for before, after in zip(*keys, strict=True):
        (difference,) = after.differences(before)
        assert "settings.files.model.warm_start: " in difference
    assert "files" not in drafted(f"model={model}").key.settings


def test_each_setting_that_may_change_a_result_changes_the_key() -> None:
    changes = [
        *(
            "seed=1",
            "num_threads=1",
            "timing=clean",
            "metrics=[map]",
            "early_stopping=null",
        ),
        *(
            "params.learning_rate=0.3",
            "model.max_depth=3",
            "model=native_lightgbm",
            "params=library",
        ),
        *("data.seed=1", "data.valid_share=0.5", "early_stopping.patience=7"),
    ]
    digests = [
        drafted(*([] if change is None else [change])).digest
        for change in (None, *changes)
    ]
    assert len(set(digests)) == len(digests)


def test_the_content_of_the_data_is_in_the_key_and_neither_its_path_nor_its_cache(
    tmp_path: Path,
) -> None:
    lines = [f"{line % 3} qid:{line // 4} 1:{line} 2:{line % 5}" for line in range(80)]
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("\n".join(lines) + "\n")
    shutil.copy(first, second)
    before = [
        drafted("data=letor", f"data.train={path}").digest for path in (first, second)
    ]
    assert before[0] == before[1]
    cached = drafted(
        "data=letor", f"data.train={first}", f"data.cache={tmp_path / 'cache'}"
    )
    assert cached.digest == before[0]
    second.write_text("\n".join(lines).replace("1:79", "1:80") + "\n")
    assert drafted("data=letor", f"data.train={second}").digest != before[0]


def test_a_changed_byte_in_computing_code_changes_the_key(tmp_path: Path) -> None:
    package = tmp_path / "ltrbench"
    shutil.copytree(
        ROOT / "ltrbench", package, ignore=shutil.ignore_patterns("__pycache__")
    )

    def digests() -> list[str]:
        return [
            key._package_digest.__wrapped__(package, names)
            for names in (key._COMPUTING, key._SEARCHING)
        ]

    files = [path.relative_to(package).as_posix() for path in package.rglob("*.py")]
    assert all(
        any(file.startswith(name) for file in files)
        for name in key._COMPUTING + key._SEARCHING
    )
    before = digests()
    for name in ("cli/console.py", "sweep/plan.py"):
        (package / name).write_text("# changed\n")
    assert digests() == before
    for name in (
        "rankers/random.py",
        "data/splits.py",
        "metrics/kernels.py",
        "compilation.py",
    ):
        content = (package / name).read_bytes()
        (package / name).write_bytes(content + b"\n")
        assert digests()[0] != before[0], name
        (package / name).write_bytes(content)
    for name in ("search.py", "statistics/claims.py", "sweep/searching.py"):
        (package / name).write_text("# changed\n")
        computing, searching = digests()
        assert (computing == before[0], searching == before[1]) == (True, False), name
        before[1] = searching


def test_a_changed_module_of_a_user_changes_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = tmp_path / "backend_of_user.py"
    text = (
        "from dataclasses import dataclass\nfrom ltrbench.rankers.random import RandomRanker\n"
        "@dataclass(kw_only=True)\nclass Mine(RandomRanker):\n    pass\n"
    )
    backend.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["model=random", "model._target_=backend_of_user.Mine"]
    before = drafted(*words)
    backend.write_text(f"{text}# changed\n")
    key._code_of.cache_clear()
    after = drafted(*words)
    (difference,) = after.key.differences(before.key)
    assert "code.backend_of_user" in difference
    del sys.modules["backend_of_user"]


def test_the_modules_that_a_module_of_a_user_imports_belong_to_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "plugin_of_user": "import json, numpy\nimport shop.losses\n",
        "shop/__init__": "",
        "shop/losses": "from . import gains\n",
        "shop/gains": "def f():\n    from helper_of_user import EXPONENT\n",
        "helper_of_user": "import plugin_of_user\nEXPONENT = 2.0\n",
        "unused": "",
    }
    for name, text in texts.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    import_user_module("plugin_of_user")
    modules = {"plugin_of_user", "shop", "shop.losses", "shop.gains", "helper_of_user"}
    assert set(files_of_module("plugin_of_user")) == modules
    # An installed module imports installed ones.
    assert set(files_of_module("yaml")) == {"yaml"}
    for name in modules & set(sys.modules):
        del sys.modules[name]


def test_only_a_job_with_a_search_depends_on_the_code_and_the_packages_of_searches() -> (
    None
):
    words = ["model=random", "data.num_queries=20"]
    plain_job, searched = drafted(*words), drafted(*words, "search=random")
    assert set(searched.key.code) - set(plain_job.key.code) == {"ltrbench.search"}
    assert set(searched.key.versions) - set(plain_job.key.versions) == {"optuna"}
    trial = key.key_of_trial(searched.key, searched.spec)
    assert (trial.code, trial.versions) == (plain_job.key.code, plain_job.key.versions)
