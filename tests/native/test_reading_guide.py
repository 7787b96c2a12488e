"""The reading guide in the docstring of `ltrbench.native` matches the imports of its files."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from ltrbench import native

FOLDER = Path(inspect.getfile(native)).parent
GUIDE = inspect.getdoc(native) or ""


def listed(text: str) -> list[str]:
    """Returns the files and folders that a guide, or a part of it, lists."""
    return re.findall(r"^    ([\w/]+)  ", text, re.MULTILINE)


FIRST, _, ENGINE = GUIDE.partition("For the engine itself")
CORE = listed(ENGINE.partition("three folders")[0])


def imported_by(name: str) -> set[str]:
    """Returns the files and folders of the engine that one of its files imports."""
    nodes = ast.walk(ast.parse((FOLDER / f"{name}.py").read_text()))
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    inside = [module for module in modules if module.startswith("ltrbench.native.")]
    return {module.removeprefix("ltrbench.native.").replace(".", "/") for module in inside}


def test_the_reference_is_read_first_and_needs_none_of_the_other_files() -> None:
    assert listed(FIRST) == ["reference"]
    assert imported_by("reference") == set()


def test_a_file_of_the_core_imports_none_of_the_core_below_it() -> None:
    assert CORE[0] == "objectives/lambdas"
    assert CORE[-1] == "boosting"
    for number, name in enumerate(CORE):
        assert not imported_by(name) & set(CORE[number:])
