"""The wheel in a fresh environment, run from a folder that has never seen the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from paths import ROOT

pytestmark = pytest.mark.installation


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder),
    ]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that holds the wheel, and finds what it requires where we do."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    # A plain path: its own .pth files, the editable install of this checkout among them, are not followed.
    (site_packages / "requirements.pth").write_text(
        sysconfig.get_path("purelib") + "\n"
    )
    interpreter = folder / "bin/python"
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(interpreter), *install],
        check=True,
    )
    return interpreter


def run(executable: Path, *words: str, folder: Path) -> str:
    # Interpreted, because compiling for a new folder takes half a minute.
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    environment["NUMBA_DISABLE_JIT"] = "1"
    done = subprocess.run(
        [str(executable), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_command_works_from_another_folder_with_the_installed_package(
    python: Path, tmp_path: Path
) -> None:
    where = run(
        python, "-c", "import ltrbench; print(ltrbench.__file__)", folder=tmp_path
    )
    assert Path(where.strip()).is_relative_to(python.parents[1])
    small = (
        "data.num_queries=20",
        "params.num_trees=2",
        "params.num_leaves=4",
        "importance=null",
    )
    words = ("model=native,lightgbm", "-m", *small, "tracking=none")
    table = run(python, "-m", "ltrbench", *words, folder=tmp_path)
    assert "\nnative " in table
    assert "\nlightgbm " in table


def test_the_console_script_finds_a_users_backend_in_the_current_folder(
    python: Path, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "tests/user_backend", tmp_path, dirs_exist_ok=True)
    words = (
        "--config-dir",
        "conf",
        "model=mean_feature",
        "data.num_queries=20",
        "tracking=none",
    )
    assert "\nmean_feature " in run(python.parent / "ltrbench", *words, folder=tmp_path)


def test_every_verb_has_its_help_and_type_checkers_see_the_types(
    python: Path, tmp_path: Path
) -> None:
    script = """
import contextlib
import io
from pathlib import Path

import click

import ltrbench
from ltrbench.cli.verbs import verbs

assert (Path(ltrbench.__file__).parent / "py.typed").exists()
context = click.Context(verbs)
for name in verbs.list_commands(context):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert verbs.main([name, "--help"], "ltrbench", standalone_mode=False) == 0
    assert "--help" in said.getvalue()
    print(name)
"""
    named = run(python, "-c", script, folder=tmp_path).split()
    assert {"compare", "ship", "ui"} <= set(named)
