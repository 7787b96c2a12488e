"""The commit that a result names: marked where code differs from it, not where results do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from ltrbench.measure import commit, plain


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "results" / "study").mkdir(parents=True)
    for name in ("code.py", "results/table.md", "results/study/run.py"):
        (tmp_path / name).write_text("first")
    monkeypatch.chdir(tmp_path)
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message=first")):
        subprocess.run(["git", *words], check=True)
    return tmp_path


def test_a_process_records_the_commit_of_the_code_that_it_has_imported(checkout: Path) -> None:
    first = commit()
    (checkout / "code.py").write_text("second")
    assert commit() == first


def test_what_is_recorded_is_the_same_in_every_process() -> None:
    assert " at 0x" not in plain(np.random.default_rng(0))
