"""The key of a job: equal exactly when its figures are."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import composed_jobs
import pytest
from paths import CONF, ROOT

from ltrbench.cli.verbs.sweeps import redrafted
from ltrbench.sweep import plan as key
from ltrbench.sweep.plan import Job, as_text, read_job

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
        ["model=lightgbm", "++model.extra={path_smooth: inf, max_bin_by_feature: [1, 2]}"],
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
def test_settings_that_change_no_figure_leave_the_key(overrides: list[str]) -> None:
    assert drafted(*overrides, sweep="other").digest == drafted().digest


def test_each_setting_that_may_change_a_figure_changes_the_key() -> None:
    changes = [
        *("seed=1", "num_threads=1", "timing=clean", "metrics=[map]", "early_stopping=null"),
        *("params.learning_rate=0.3", "model.max_depth=3", "model=native_lightgbm", "params=library"),
        *("data.seed=1", "data.valid_share=0.5", "early_stopping.patience=7"),
    ]
    digests = [drafted(*([] if change is None else [change])).digest for change in (None, *changes)]
    assert len(set(digests)) == len(digests)


def test_the_content_of_the_data_is_in_the_key_and_neither_its_path_nor_its_cache(tmp_path: Path) -> None:
    lines = [f"{line % 3} qid:{line // 4} 1:{line} 2:{line % 5}" for line in range(80)]
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("\n".join(lines) + "\n")
    shutil.copy(first, second)
    before = [drafted("data=letor", f"data.train={path}").digest for path in (first, second)]
    assert before[0] == before[1]
    cached = drafted("data=letor", f"data.train={first}", f"data.cache={tmp_path / 'cache'}")
    assert cached.digest == before[0]
    second.write_text("\n".join(lines).replace("1:79", "1:80") + "\n")
    assert drafted("data=letor", f"data.train={second}").digest != before[0]


def test_a_changed_byte_in_computing_code_changes_the_key(tmp_path: Path) -> None:
    package = tmp_path / "ltrbench"
    shutil.copytree(ROOT / "ltrbench", package, ignore=shutil.ignore_patterns("__pycache__"))

    def digests() -> list[str]:
        return [key._package_digest.__wrapped__(package, names) for names in (key._COMPUTING, key._SEARCHING)]

    files = [path.relative_to(package).as_posix() for path in package.rglob("*.py")]
    assert all(any(file.startswith(name) for file in files) for name in key._COMPUTING + key._SEARCHING)
    before = digests()
    for name in ("cli/console.py", "sweep/plan.py"):
        (package / name).write_text("# changed\n")
    assert digests() == before
    for name in ("rankers/random.py", "data/splits.py", "metrics/kernels.py", "compilation.py"):
        content = (package / name).read_bytes()
        (package / name).write_bytes(content + b"\n")
        assert digests()[0] != before[0], name
        (package / name).write_bytes(content)
    for name in ("search.py", "statistics/claims.py", "sweep/searching.py"):
        (package / name).write_text("# changed\n")
        computing, searching = digests()
        assert (computing == before[0], searching == before[1]) == (True, False), name
        before[1] = searching


def test_a_changed_module_of_a_user_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_only_a_job_with_a_search_depends_on_the_code_and_the_packages_of_searches() -> None:
    words = ["model=random", "data.num_queries=20"]
    plain_job, searched = drafted(*words), drafted(*words, "search=random")
    assert set(searched.key.code) - set(plain_job.key.code) == {"ltrbench.search"}
    assert set(searched.key.versions) - set(plain_job.key.versions) == {"optuna"}
    trial = key.key_of_trial(searched.key, searched.settings, searched.choices)
    assert (trial.code, trial.versions) == (plain_job.key.code, plain_job.key.versions)
