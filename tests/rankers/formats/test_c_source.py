"""C source: names that are not trusted, and what compilers accept."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_cases import CASES, NUM_FEATURES, forest

from ltrbench.models.trees import Ensemble
from ltrbench.shipping.targets.c import write_c

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler cc")
HOSTILE = [
    '*/ int evil(void) { return 1; } /*"',
    "*\\",
    "*??/",
    "/*/",
    "*\n/",
    "*\\\n/",
    "\u202e特徴\x1b[31m",
    "\ud800",
    "",
]


def compiled(content: bytes, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "model.c").write_bytes(content)
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Wcomment", "-Wtrigraphs", "-pedantic", "-Werror"]
    return subprocess.run(
        [*command, *flags, "-c", "model.c", "-o", "model.o"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@needs_compiler
@pytest.mark.parametrize("ensemble", CASES.values(), ids=CASES.keys())
def test_compilers_have_no_warnings(ensemble: Ensemble, tmp_path: Path) -> None:
    names = [f"feature {number}" for number in range(NUM_FEATURES)]
    assert compiled(write_c(ensemble, names, "a"), tmp_path).stderr == ""


@given(st.lists(st.text(alphabet='*/\\?"\n a\u2028', max_size=8), max_size=4))
def test_no_name_ends_or_begins_a_comment(names: list[str]) -> None:
    text = write_c(Ensemble(()), names, "a").decode("ascii")
    comment = text[: text.index("#include")]
    assert comment.count("*/") == comment.count("/*") == 1
    assert "??" not in comment


@needs_compiler
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast"])
def test_flags_that_ignore_missing_values_are_refused(flag: str, tmp_path: Path) -> None:
    result = compiled(write_c(forest(1), list("abcdef"), "a"), tmp_path, flag)
    assert result.returncode
    assert "missing values" in result.stderr


@needs_compiler
def test_the_file_needs_no_library(tmp_path: Path) -> None:
    """Nothing but the function is visible, and no other function is called."""
    assert compiled(write_c(forest(2), list("abcdef"), "a"), tmp_path, "-O2").returncode == 0
    listing = subprocess.run(["nm", "model.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
    symbols = [line.split()[-2:] for line in listing.stdout.splitlines()]
    visible = {name for kind, name in symbols if kind.isupper()} - {"_GLOBAL_OFFSET_TABLE_"}
    assert visible == {"a_score"}
