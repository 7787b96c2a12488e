"""Ctrl-C during a sweep: what is kept, and the command that does the rest."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import COMMAND, run, statuses

from ltrbench.runs.record import RESULT_FILE, read_run
from ltrbench.runs.writing import holder

CHEAP = ("data.num_queries=40", "importance=null", "metrics=ndcg@10")
SLEEPY = """
import time
from dataclasses import dataclass
from pathlib import Path
from ltrbench.rankers.random import RandomRanker

@dataclass(kw_only=True)
class Sleepy(RandomRanker):
    def fit(self, train, valid=None, on_iteration=None):
        if self.seed == 1 and not Path("awake").exists():
            Path("asleep").touch()
            time.sleep(100)
        return super().fit(train, valid, on_iteration)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("migrated_store")
def test_ctrl_c_says_what_is_finished_and_the_command_it_prints_does_the_rest(tmp_path: Path) -> None:
    yaml = tmp_path / "conf/model/sleepy.yaml"
    yaml.parent.mkdir(parents=True)
    yaml.write_text("defaults: [_yardstick, _self_]\n_target_: sleepy.Sleepy\n")
    (tmp_path / "sleepy.py").write_text(SLEEPY)
    words = ("--config-dir", "conf", "model=sleepy,random", "seed=0,1,2", "-m", *CHEAP, "hydra.sweep.dir=out")
    done = interrupted(words, tmp_path)
    # The job that was interrupted lost its work, and waits like the others.
    table = (tmp_path / "stdout.txt").read_text()
    assert table.index("1 of 6 jobs") < table.index("| sleepy ")
    assert "of 6 jobs: 1 finished, 5 waiting" in done
    assert read_run(tmp_path / "out/1").result.error == "interrupted"
    assert holder(tmp_path / "out") is holder(tmp_path / "out/1") is None
    assert not [*tmp_path.rglob(".partial-*")]
    assert "KILLED" in dict(statuses(tmp_path)).values()
    assert sorted(path.name for path in (tmp_path / "out").glob("[0-9]*")) == ["0", "1"]
    (command,) = [line.strip() for line in done.splitlines() if line.startswith("  python -m ltrbench ")]
    assert command == "python -m ltrbench resume out"
    before = (tmp_path / "out/0" / RESULT_FILE).read_bytes()
    (tmp_path / "awake").touch()
    run(*shlex.split(command)[3:], folder=tmp_path)
    assert (tmp_path / "out/0" / RESULT_FILE).read_bytes() == before
    results = [read_run(path.parent).result for path in sorted((tmp_path / "out").glob("*/result.json"))]
    assert [(result.status, result.model, result.seed) for result in results] == [
        ("finished", model, seed) for model in ("sleepy", "random") for seed in (0, 1, 2)
    ]
    assert {status for _, status in statuses(tmp_path)} == {"FINISHED"}


def interrupted(words: tuple[str, ...], folder: Path) -> str:
    """What a command says on standard error that gets SIGINT while the model that sleeps is fitted."""
    with (folder / "stdout.txt").open("w") as table:
        process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=folder,
            env={**os.environ},
            stderr=subprocess.PIPE,
            stdout=table,
            text=True,
            # A shell makes what it starts in the background deaf to SIGINT, these tests' children included.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    assert process.stderr is not None
    sweeping = "-m" in words
    for line in process.stderr:
        sweeping = sweeping and not line.startswith("job 1:")
        if line.startswith("sleepy: fitting") and not sweeping:
            break
    # Compiled code may swallow an interrupt that comes before the fit.
    while not (folder / "asleep").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "Traceback" not in rest
    return rest
