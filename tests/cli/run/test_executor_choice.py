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
        log = (tmp_path / f"s/{number}/ltrbench.log").read_text()
        assert "fitting on" in log
        assert f"seed={number + 1}" in log
        assert f"seed={2 - number}" not in log


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["executor=inline,processes", "-m"], ["executor", "differs"]),
        (["tracking=none,mlflow", "-m"], ["tracking", "differs"]),
        (["executor=processes", "executor.workers=0", "-m"], ["executor.workers is 0", "at least 1"]),
        (["executor=dask", "-m"], ["executor.scheduler", "executor.cluster._target_="]),
        (["hydra.job.chdir=true", "-m"], ["hydra.job.chdir", "single runs"]),
    ],
)
def test_an_executor_without_effect_or_with_a_wrong_setting_is_refused(
    words: list[str], parts: list[str], tmp_path: Path
) -> None:
    given = [word for word in TINY if "tracking" not in word or not words[0].startswith("tracking")]
    done = run("model=random", *given, *words, folder=tmp_path, check=2)
    assert re.search(naming(*parts), done.stderr), done.stderr
    assert not list(tmp_path.rglob("result.json"))
