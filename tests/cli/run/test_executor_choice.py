"""The executor of a sweep: chosen on the command line, in an experiment file or in --config-dir; settings of
Hydra that apply to jobs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import TINY, run, run_process
from messages import naming

EXPERIMENT = """
# @package _global_
defaults: [override /executor: one_process]
hydra: {mode: MULTIRUN, sweep: {dir: s}, sweeper: {params: {seed: "1,2"}}}
"""

EXECUTOR = """
_target_: ltrbench.sweep.executors.ProcessExecutor
workers: 1
"""


@pytest.mark.slow
def test_an_executor_is_chosen_by_an_experiment_in_the_folder_of_a_user(tmp_path: Path) -> None:
    for group, name, text in (("experiment", "mine", EXPERIMENT), ("executor", "one_process", EXECUTOR)):
        (tmp_path / "conf" / group).mkdir(parents=True)
        (tmp_path / "conf" / group / f"{name}.yaml").write_text(text)
    words = ("--config-dir", "conf", "experiment=mine", "model=random", *TINY)
    done = run_process(*words, folder=tmp_path)
    assert "1 worker x" in done.stderr
    assert "fitting on" not in done.stderr
    for number in (0, 1):
        result = json.loads((tmp_path / f"s/{number}/result.json").read_text())
        assert (result["status"], result["seed"]) == ("finished", number + 1)
        assert "fitting on" in (tmp_path / f"s/{number}/ltrbench.log").read_text()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["executor=inline,processes", "-m"], ["executor", "differs"]),
        (["tracking=none,mlflow", "-m"], ["tracking", "differs"]),
        (["executor=processes", "executor.workers=0", "-m"], ["executor.workers is 0", "at least 1"]),
        (["executor=dask", "-m"], ["executor.scheduler", "executor.cluster._target_="]),
    ],
)
def test_an_executor_without_effect_or_with_a_wrong_setting_is_refused(
    words: list[str], parts: list[str], tmp_path: Path
) -> None:
    given = [word for word in TINY if "tracking" not in word or not words[0].startswith("tracking")]
    done = run("model=random", *given, *words, folder=tmp_path, check=2)
    assert re.search(naming(*parts), done.stderr), done.stderr
    assert not list(tmp_path.rglob("result.json"))


@pytest.mark.slow
def test_jobs_run_in_their_folders_and_environment_and_with_their_log_files(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(
        "import os\n"
        "from dataclasses import dataclass\n"
        "from pathlib import Path\n"
        "from ltrbench.rankers.random import RandomRanker\n"
        "@dataclass(kw_only=True)\n"
        "class Seen(RandomRanker):\n"
        "    def fit(self, train, valid=None, on_iteration=None):\n"
        "        Path('here').write_text(os.environ['OF_JOB'])\n"
        "        return super().fit(train, valid, on_iteration)\n"
    )
    (tmp_path / "conf/model").mkdir(parents=True)
    (tmp_path / "conf/model/seen.yaml").write_text("defaults: [_yardstick, _self_]\n_target_: seen.Seen\n")
    words = ("hydra.job.chdir=true", "+hydra.job.env_set.OF_JOB=abc", "seed=1,2", "-m", "hydra.sweep.dir=s")
    run("--config-dir", "conf", "model=seen", *words, *TINY, folder=tmp_path)
    for number in (0, 1):
        assert (tmp_path / f"s/{number}/here").read_text() == "abc"
        log = (tmp_path / f"s/{number}/ltrbench.log").read_text()
        assert f"seed={number + 1}" in log
        assert f"seed={2 - number}" not in log
