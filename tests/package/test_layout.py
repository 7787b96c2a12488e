"""The map in CONTRIBUTING.md and the docstrings of folders list the files; no folder holds many."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from paths import CONF, ROOT

PACKAGE = ROOT / "ltrbench"
FOLDERS = sorted({path.parent for path in PACKAGE.rglob("__init__.py")})
TARGETS = re.findall(r"^_target_: (\S+)", "\n".join(path.read_text() for path in CONF.rglob("*.yaml")), re.M)
MOST_FILES = 9
"""In a folder. Neither its `__init__.py` counts, nor a backend that a YAML names, nor an engine that models
are shipped to: each of these is one file more."""

SHIPPED_TO = PACKAGE / "shipping" / "targets"
SECTIONS = PACKAGE / "compare" / "output" / "report" / "sections"
VERBS = PACKAGE / "cli" / "verbs"
OF_PLUG_INS = {PACKAGE / "rankers", SHIPPED_TO, VERBS, SECTIONS, *VERBS.iterdir(), *SECTIONS.iterdir()}
"""Folders to which a file is added without a change of any other: a backend, a verb, a section, a target."""


def mapped() -> list[str]:
    """The files and folders in the map, as it spells them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = text.partition("## The map")[2].split("```")[1]
    return re.findall(r"^([\w/.]+) +", block, re.MULTILINE)


def listed(folder: Path) -> list[str]:
    """The files and folders that a folder's docstring lists as standing beside it.

    A name with an ending is else that of a file that runs or pictures are written to.
    """
    module = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    text = ast.get_docstring(module) or ""
    names = re.findall(r"^(?:    )?([\w.]+) {2,}\S", text, re.MULTILINE)
    return [name for name in names if "." not in name or (folder / name).exists()]


def contents(folder: Path) -> list[str]:
    """The files and folders in a folder as its docstring spells them: modules without their ending."""
    paths = [path for path in folder.iterdir() if not path.name.startswith("__")]
    return sorted(path.stem if path.suffix == ".py" else path.name for path in paths)


def parametrized(folders: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "folder", folders, ids=lambda folder: str(folder.relative_to(PACKAGE.parent))
    )


def test_the_map_lists_every_folder_once() -> None:
    folders = [f"{folder.relative_to(PACKAGE)}/" for folder in FOLDERS if folder != PACKAGE]
    assert sorted(name for name in mapped() if name.endswith("/")) == folders


def test_the_map_lists_every_file_beside_the_folders_once() -> None:
    files = sorted(path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__"))
    assert sorted(name for name in mapped() if name.endswith(".py")) == files


@parametrized([folder for folder in FOLDERS if folder != PACKAGE and folder not in OF_PLUG_INS])
def test_the_docstring_of_a_folder_lists_every_file_and_folder_in_it_once(folder: Path) -> None:
    assert sorted(listed(folder)) == contents(folder)


@parametrized([folder for folder in FOLDERS if folder in OF_PLUG_INS])
def test_the_docstring_of_a_folder_of_plug_ins_lists_none_that_is_not_there(folder: Path) -> None:
    names = listed(folder)
    assert names
    assert len(set(names)) == len(names)
    assert set(names) <= set(contents(folder))


@parametrized(FOLDERS)
def test_a_folder_holds_few_files(folder: Path) -> None:
    named = {ROOT / f"{target.rpartition('.')[0].replace('.', '/')}.py" for target in TARGETS}
    files = [path for path in folder.glob("*.py") if not path.name.startswith("__") and path not in named]
    files = [path for path in files if path.parent != SHIPPED_TO]
    assert len(files) <= MOST_FILES
