"""`resume --timing`: the times of finished jobs that shared the machine are taken again, alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import TINY, run
from messages import naming

from ltrbench.runs.record import RESULT_FILE, SCORES_FILE

SWEEP = ("model=single_feature,random", "seed=1,2", "-m", "hydra.sweep.dir=s", *TINY)


def pretend_to_have_shared_the_machine(folder: Path) -> None:
    """Changes the record of a run, as if other jobs had slowed it down."""
    record = json.loads((folder / RESULT_FILE).read_text())
    record |= {"shared_machine": True, "seconds": {**record["seconds"], "fit": 999.0}}
    (folder / RESULT_FILE).write_text(json.dumps(record))


@pytest.mark.slow
def test_times_are_taken_again_and_nothing_else_changes(tmp_path: Path) -> None:
    run(*SWEEP, folder=tmp_path)
    folders = [tmp_path / "s" / str(number) for number in range(4)]
    for folder in folders[:3]:
        pretend_to_have_shared_the_machine(folder)
    before = [json.loads((folder / RESULT_FILE).read_text()) for folder in folders]
    files = [(folder / SCORES_FILE).read_bytes() for folder in folders]
    shown = run("resume", "s", "--timing", "--dry-run", folder=tmp_path).stdout
    # Job 1 copied the training of job 0, and gets its times.
    assert re.findall(r"^job (\d)", shown, re.MULTILINE) == ["0", "2"]
    begun = run("resume", "s", "--timing", folder=tmp_path).stderr
    assert re.search(naming("2 of 4 jobs"), begun)
    after = [json.loads((folder / RESULT_FILE).read_text()) for folder in folders]
    assert [record["shared_machine"] for record in after] == [False] * 4
    assert all(record["seconds"]["fit"] < 900 for record in after)
    assert after[1]["seconds"] == after[0]["seconds"]
    assert after[3] == before[3]
    of_times = ("seconds", "shared_machine", "load", "peak_memory_mb", "threads", "machine")
    for one, other in zip(before, after, strict=True):
        assert {key: value for key, value in one.items() if key not in of_times} == {
            key: value for key, value in other.items() if key not in of_times
        }
    assert [(folder / SCORES_FILE).read_bytes() for folder in folders] == files
    assert not [path for folder in folders for path in folder.glob(".*")]
    nothing = run("resume", "s", "--timing", folder=tmp_path).stderr
    assert re.search(naming("0 of 4 jobs"), nothing)
    both = run("resume", "s", "--timing", "--failed", folder=tmp_path, check=2)
    assert re.search(naming("--timing", "--failed"), both.stderr)
