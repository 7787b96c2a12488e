"""What `ltrbench.native` says of its files is so."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from ltrbench import native

FOLDER = Path(inspect.getfile(native)).parent
GUIDE = inspect.getdoc(native) or ""
FIRST, _, ENGINE = GUIDE.partition("For the engine itself")
CORE = re.findall(r"^    (\w+)  ", ENGINE.partition("What the trees are fitted to")[0], re.MULTILINE)


def imported_by(name: str) -> set[str]:
    """The files of the engine that one of them imports."""
    nodes = ast.walk(ast.parse((FOLDER / f"{name}.py").read_text()))
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {module.rpartition(".")[2] for module in modules if module.startswith("ltrbench.native.")}


def test_the_guide_lists_every_file_once() -> None:
    listed = re.findall(r"^    (\w+)  ", GUIDE, re.MULTILINE)
    assert sorted(listed) == sorted({path.stem for path in FOLDER.glob("*.py")} - {"__init__"})


def test_the_reference_is_read_first_and_needs_none_of_the_other_files() -> None:
    assert re.findall(r"^    (\w+)  ", FIRST, re.MULTILINE) == ["reference"]
    assert imported_by("reference") == set()


def test_a_file_of_the_core_imports_none_of_the_core_below_it() -> None:
    assert CORE[0] == "lambdas"
    assert CORE[-1] == "boosting"
    for number, name in enumerate(CORE):
        assert not imported_by(name) & set(CORE[number:])
