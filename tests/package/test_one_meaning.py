"""A public name has one meaning in the whole package, and a variable is named after what it holds."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import ltrbench

PACKAGE = Path(ltrbench.__file__).parent
MODULES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
REFERENCE = "native/reference.py"
"""The whole algorithm on one page: it defines for itself what the compiled engine defines elsewhere."""

ALLOWED = {"log"}
"""The package's one logger, which each module that logs gets under this name."""

RIDDLES = {"own", "told", "asked", "worth", "worths", "some", "found", "said"}
"""Variables of these names say nothing of what they hold."""

FIELDS = {"results/record.py": {"own"}}
"""Keys of JSON, which a TypedDict declares, and of a YAML."""


def definitions(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements of a module define: classes, functions, constants and aliases of types."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = (part for target in targets for part in ast.walk(target))
            yield from (part.id for part in parts if isinstance(part, ast.Name) and _is_stored(part))
        elif isinstance(node, ast.If | ast.Try):
            yield from definitions([*node.body, *node.orelse])


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def variables(tree: ast.AST) -> Iterator[str]:
    """The names of variables, parameters and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute):
            yield node.attr


def test_a_public_name_is_defined_in_one_module() -> None:
    modules_of_name: dict[str, list[str]] = defaultdict(list)
    for module, tree in MODULES.items():
        for name in set(definitions(tree.body)):
            if module != REFERENCE and not name.startswith("_") and name not in ALLOWED:
                modules_of_name[name].append(module)
    assert {name: modules for name, modules in modules_of_name.items() if len(modules) > 1} == {}


def test_a_variable_is_named_after_what_it_holds() -> None:
    riddles = {
        module: names
        for module, tree in MODULES.items()
        if (
            names := {name for name in variables(tree) if name.strip("_") in RIDDLES}
            - FIELDS.get(module, set())
        )
    }
    assert riddles == {}


def test_the_definitions_of_a_module_are_found_wherever_they_stand() -> None:
    code = (
        "A, (B, C) = 1, (2, 3)\nD: int = 4\nif A:\n    class E: x = 1\nelse:\n    def f(): y = 2\nA.z[B] = 5"
    )
    assert list(definitions(ast.parse(code).body)) == ["A", "B", "C", "D", "E", "f"]
