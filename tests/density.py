"""Finds dense code, which does several things in a line: `make lint` compares the findings with a baseline.

Counted in each file of FOLDERS:

- rules of ruff: complexity (C901), local variables (PLR0914), positional parameters (PLR0917), nested
  blocks (PLR1702), an `if` alone in an `else` (PLR5501);
- rules of wemake-python-styleguide: more than 14 syntax nodes in a line (WPS221), more than two `for` in a
  comprehension (WPS224), a target of unpacking that is no name (WPS414), a multiplied list (WPS435), and a
  conditional expression in another one (WPS509);
- our own: an assignment of a tuple to a tuple (tuple), a comprehension with two `for` (two-for), and a text
  or a list that is multiplied by a condition (multiplied).

A file may not have more findings of a rule than density.json says. After a rewrite,
`python tests/density.py --shrink` writes the lower numbers there; it never writes a higher one.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASELINE = ROOT / "tests" / "density.json"
FOLDERS = ["ltrbench", "docs", "results"]
OF_RUFF = ("C901", "PLR0914", "PLR0917", "PLR1702", "PLR5501")
OF_WEMAKE = ("WPS221", "WPS224", "WPS414", "WPS435", "WPS509")
RUN_WEMAKE = """
import sys
from flake8.main.cli import main
from wemake_python_styleguide.checker import Checker
names = {
    "JonesComplexityVisitor",
    "WrongAssignmentVisitor",
    "WrongComprehensionVisitor",
    "WrongConditionalVisitor",
    "WrongMathOperatorVisitor",
}
Checker._visitors = [each for each in Checker._visitors if each.__name__ in names]
assert len(Checker._visitors) == len(names)
sys.exit(main())
"""
"""Runs flake8 with the visitors that find OF_WEMAKE. All of them take four times as long."""
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
OF_A_CONDITION = re.compile(r"(is|are|has|was|can|needs)_|bool$")
Numbers = Counter[str]  # rule -> number of findings
Findings = defaultdict[str, Numbers]  # by path of a file


# Findings


def find(paths: list[str]) -> Findings:
    """Returns the findings in all files below some paths, which are relative to the repository."""
    findings = Findings(Numbers)
    for path, rule in (*_of_ruff(paths), *_of_wemake(paths), *_of_our_own(paths)):
        findings[path][rule] += 1
    return findings


def _of_ruff(paths: list[str]) -> Iterator[tuple[str, str]]:
    options = ["--preview", "--select", ",".join(OF_RUFF), "--output-format", "json"]
    printed = _output([sys.executable, "-m", "ruff", "check", *options, *paths])
    for finding in json.loads(printed):
        path = Path(finding["filename"]).relative_to(ROOT)
        yield path.as_posix(), finding["code"]


def _of_wemake(paths: list[str]) -> Iterator[tuple[str, str]]:
    options = ["--isolated", "--select", ",".join(OF_WEMAKE)]
    options += ["--max-line-complexity", "14", "--format", "%(path)s %(code)s"]
    printed = _output([sys.executable, "-c", RUN_WEMAKE, *options, *paths])
    for line in printed.splitlines():
        path, rule = line.rsplit(" ", 1)
        yield Path(path).as_posix(), rule


def _output(command: list[str]) -> str:
    """Returns what a linter prints; its exit code says only whether there are findings."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.stderr.strip():
        raise SystemExit(f"{' '.join(command[:4])} failed: {done.stderr.strip()}")
    return done.stdout


def _of_our_own(paths: list[str]) -> Iterator[tuple[str, str]]:
    for path in _files(paths):
        for rule in dense_constructs(path.read_text(encoding="utf-8")):
            yield path.relative_to(ROOT).as_posix(), rule


def dense_constructs(source: str) -> Iterator[str]:
    """Yields our own rules, once for each place in a module that breaks it.

    >>> list(dense_constructs('''
    ... a, b = 1, 2
    ... a, b = b, a  # a swap is no finding
    ... c = [y for x in z for y in x]
    ... d = "of many" * (a > 1) + "-" * width
    ... '''))
    ['tuple', 'two-for', 'multiplied']
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assign(targets=[ast.Tuple(targets)], value=ast.Tuple(values)):
                if {ast.unparse(e) for e in targets} != {
                    ast.unparse(e) for e in values
                }:
                    yield "tuple"
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                if _is_sequence(left) and _is_condition(right):
                    yield "multiplied"
                if _is_sequence(right) and _is_condition(left):
                    yield "multiplied"
            case _ if isinstance(node, COMPREHENSIONS) and len(node.generators) > 1:
                yield "two-for"


def _is_sequence(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple)


def _is_condition(node: ast.expr) -> bool:
    match node:
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Name(name) | ast.Attribute(attr=name):
            return OF_A_CONDITION.match(name) is not None
        case ast.Call(func=function):
            return _is_condition(function)
    return False


def _files(paths: list[str]) -> Iterator[Path]:
    for name in paths:
        path = ROOT / name
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


# Baseline


def more_than_recorded(findings: Findings, baseline: Findings) -> list[str]:
    """Returns a line for each file and rule with more findings than the baseline allows."""
    lines = []
    for path, numbers in sorted(findings.items()):
        for rule, number in sorted(numbers.items()):
            recorded = baseline[path][rule]
            if number > recorded:
                lines.append(f"{path}: {rule}: {number} findings, {recorded} recorded")
    return lines


def shrunk(findings: Findings, baseline: Findings) -> Findings:
    """Returns the baseline with the numbers that are lower now."""
    lower = Findings(Numbers)
    for path, recorded in sorted(baseline.items()):
        now = findings[path]
        rules = sorted(rule for rule in recorded if now[rule])
        if rules:
            lower[path] = Counter({r: min(recorded[r], now[r]) for r in rules})
    return lower


def read_baseline() -> Findings:
    recorded = json.loads(BASELINE.read_text(encoding="utf-8"))
    return Findings(Numbers, {path: Counter(n) for path, n in recorded.items()})


def write_baseline(findings: Findings) -> None:
    lines = [
        f"  {json.dumps(path)}: {json.dumps(dict(sorted(numbers.items())))}"
        for path, numbers in sorted(findings.items())
    ]
    BASELINE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compares the findings with the baseline."
    )
    parser.add_argument("--shrink", action="store_true", help="record lower numbers")
    baseline = read_baseline()
    findings = find(FOLDERS)
    if parser.parse_args().shrink:
        write_baseline(shrunk(findings, baseline))
    more = more_than_recorded(findings, baseline)
    if more:
        remedy = "Rewrite what is new there in smaller steps (CONTRIBUTING.md, Style)."
        sys.exit("\n".join([*more, remedy]))


if __name__ == "__main__":
    main()
