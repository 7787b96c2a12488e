"""The private names of a library are used in one file each, which says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import ROOT

HYDRA = ROOT / "ltrbench" / "cli" / "hydra_internals.py"
NUMBA = ROOT / "ltrbench" / "compilation.py"


def names_of(path: Path) -> Iterator[str]:
    """The modules that a file imports and the attributes that it reads or writes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield f".{node.attr}"


@pytest.mark.parametrize(("private", "file"), [("hydra._internal", HYDRA), ("._source_stamp", NUMBA)])
def test_a_library_s_private_names_are_used_in_one_file(private: str, file: Path) -> None:
    files = [path for folder in ("ltrbench", "tests", "docs") for path in (ROOT / folder).rglob("*.py")]
    users = [path for path in files if any(name.startswith(private) for name in names_of(path))]
    assert users == [file]


def test_the_file_says_of_each_name_of_hydra_why_it_is_needed() -> None:
    tree = ast.parse(HYDRA.read_text(encoding="utf-8"))
    docstring = ast.get_docstring(tree) or ""
    (exported,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    explained = {line.split()[0] for line in docstring.splitlines() if line.startswith("`")}
    assert explained == {f"`{name}`" for name in exported}
