"""Prints how large and how dense the code is, folder by folder: `make size`.

Columns, with the numbers that the package aims at:

- files and lines; WPS221: lines with more than 14 syntax nodes, per 1,000 lines (11);
- nodes: mean number of syntax nodes of a statement, without the statements in it (13); imports, definitions,
  docstrings and compiled kernels do not count;
- tuples, two-for, multiplied: findings of density.py (30, 20 and 0 in all);
- large: share of the functions with more than 300 syntax nodes (5 %).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import density

from docs.pages import prose_of

ROOT = Path(__file__).resolve().parents[1]
LARGE = 300
NO_STEPS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
NESTED = (ast.stmt, ast.ExceptHandler, ast.match_case)


@dataclass
class Size:
    """Sums over the files of a folder."""

    files: int = 0
    lines: int = 0
    nodes: int = 0
    statements: int = 0
    functions: int = 0
    large: int = 0
    findings: density.Numbers = field(default_factory=density.Numbers)

    def add(self, source: str, findings: density.Numbers) -> None:
        tree = ast.parse(source)
        self.files += 1
        self.lines += len(source.splitlines())
        self.findings.update(findings)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                self.functions += 1
                self.large += sum(1 for _ in ast.walk(node)) > LARGE
        for step in steps(tree.body):
            self.statements += 1
            self.nodes += nodes_of(step)

    def row(self, name: str) -> str:
        complex_lines = 1000 * self.findings["WPS221"] / max(self.lines, 1)
        nodes = self.nodes / max(self.statements, 1)
        large = self.large / max(self.functions, 1)
        return (
            f"{name:24} {self.files:5} {self.lines:7,} {complex_lines:7.1f} {nodes:6.1f}"
            f" {self.findings['tuple']:7} {self.findings['two-for']:8}"
            f" {self.findings['multiplied']:11} {large:6.1%}"
        )


def steps(statements: Iterable[ast.stmt]) -> list[ast.stmt]:
    """Returns the statements that do something, outside of kernels, with those nested in them."""
    found = []
    for statement in statements:
        if isinstance(statement, ast.FunctionDef) and is_kernel(statement):
            continue
        if not isinstance(statement, NO_STEPS) and not is_docstring(statement):
            found.append(statement)
        found.extend(steps(nested(statement)))
    return found


def nested(node: ast.AST) -> list[ast.stmt]:
    statements = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            statements.append(child)
        elif isinstance(child, NESTED):
            statements.extend(nested(child))
    return statements


def nodes_of(step: ast.AST) -> int:
    """Returns the number of syntax nodes of a statement without the statements in it."""
    children = ast.iter_child_nodes(step)
    return 1 + sum(
        nodes_of(child) for child in children if not isinstance(child, NESTED)
    )


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def is_kernel(function: ast.FunctionDef) -> bool:
    return any("kernel" in ast.unparse(each) for each in function.decorator_list)


def measure(name: str, findings: density.Findings) -> dict[str, Size]:
    """Returns the size of each folder below a folder of the repository, and their sum."""
    sizes: dict[str, Size] = defaultdict(Size)
    for path in sorted((ROOT / name).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        parts = path.relative_to(ROOT).parts
        for folder in ("/".join(parts[:-1][:2]), f"{name} in all"):
            sizes[folder].add(source, findings["/".join(parts)])
    return sizes


def main() -> None:
    print("                          files   lines  WPS221  nodes  tuples", end="")
    print("  two-for  multiplied  large")
    for folder, size in sorted(measure("ltrbench", density.find(["ltrbench"])).items()):
        print(size.row(folder))
    for name in ("tests", "results", "docs"):
        size = measure(name, density.Findings(density.Numbers))[f"{name} in all"]
        print(f"{name:24} {size.files:5} {size.lines:7,}")
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    prose = sum(len(prose_of(page).split()) for page in pages)
    words = sum(len(page.split()) for page in pages)
    print(
        f"{prose:,} words of prose in docs; {words:,} with examples and filled tables"
    )


if __name__ == "__main__":
    main()
