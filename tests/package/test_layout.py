"""The map in CONTRIBUTING.md is the folders that there are, and no folder holds many files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from paths import CONF, ROOT

PACKAGE = ROOT / "ltrbench"
FOLDERS = sorted({path.parent for path in PACKAGE.rglob("__init__.py")})
TARGETS = re.findall(r"^_target_: (\S+)", "\n".join(path.read_text() for path in CONF.rglob("*.yaml")), re.M)
MOST_FILES = 9
"""In a folder. Neither its `__init__.py` counts nor a file that a YAML names: a backend is one file more."""


def mapped() -> list[str]:
    """The files and folders in the map, as it spells them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = text.partition("## The map")[2].split("```")[1]
    return re.findall(r"^([\w/.]+) +", block, re.MULTILINE)


def test_the_map_lists_every_folder_once() -> None:
    folders = [f"{folder.relative_to(PACKAGE)}/" for folder in FOLDERS if folder != PACKAGE]
    assert sorted(name for name in mapped() if name.endswith("/")) == folders


def test_the_map_lists_every_file_beside_the_folders_once() -> None:
    files = sorted(path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__"))
    assert sorted(name for name in mapped() if name.endswith(".py")) == files


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(PACKAGE.parent)))
def test_a_folder_holds_few_files(folder: Path) -> None:
    named = {ROOT / f"{target.rpartition('.')[0].replace('.', '/')}.py" for target in TARGETS}
    files = [path for path in folder.glob("*.py") if not path.name.startswith("__") and path not in named]
    assert len(files) <= MOST_FILES
