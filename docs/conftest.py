"""Runs the doctests of each page in an empty folder with the page's files, after its marked commands."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from command_line import run_forked_command
from temporary_folder import use_own_temporary_folder

from docs.isolation import modules_of
from docs.pages import (
    ROOT,
    environment_of_commands,
    marked_commands,
    titled_files,
    write_files,
)

use_own_temporary_folder()

# Warnings of MLflow and its dependencies about themselves, as in tests/tracking/test_evaluator.py.
_WARNINGS_OF_MLFLOW = (
    "ignore::sqlalchemy.exc.SADeprecationWarning",
    "ignore:unclosed database:ResourceWarning",
    "ignore:Starting with pandas version 4.0 all arguments of all will be",
    "ignore:The inplace keyword in DataFrame.drop is deprecated",
    "ignore:Hint. Inferred schema contains integer column:UserWarning",
    "ignore:.*Any type hint is inferred as AnyType:UserWarning",
)


_SMALLER = {"python shop_log.py .": "python shop_log.py . 400"}
"""Commands that write less data here than for a reader: the tests claim that a page's commands work."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.suffix == ".md" and marked_commands(item.path.read_text()):
            item.add_marker(pytest.mark.slow)
        if item.path == ROOT / "docs" / "lookup" / "mlflow.md":
            for ignored in _WARNINGS_OF_MLFLOW:
                item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(autouse=True)
def _folder_of_the_page(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    if request.node.path.suffix == ".md":
        page = request.node.path.read_text()
        write_files(titled_files(page), tmp_path)
        for command in marked_commands(page):
            _run(command, tmp_path)
    with modules_of(tmp_path):
        yield


def _run(block: str, folder: Path) -> None:
    """Runs a shell block with the Python of the tests. Its commands of ltrbench alone need no shell, and no
    new interpreter."""
    environment = environment_of_commands()
    lines = block.replace("\\\n", " ").splitlines()
    lines = [_SMALLER.get(line, line) for line in lines]
    for is_forked, group in itertools.groupby(lines, _is_command_of_ltrbench):
        if not is_forked:
            _run_in_shell("\n".join(group), folder, environment)
            continue
        for line in group:
            words = shlex.split(line, comments=True)[3:]
            done = run_forked_command(words, folder, environment)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def _is_command_of_ltrbench(line: str) -> bool:
    return line.startswith("python -m ltrbench ") and not re.search(r" [|>&] ", line)


def _run_in_shell(commands: str, folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
