"""Prints code lines and files by folder, and the words of the documentation: `make size`.

A code line has a token that is neither a comment nor a part of a docstring.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NO_CODE = {
    *(
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
    ),
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    r"""Returns the number of lines of a module without docstrings, comments and blank lines.

    >>> code_lines("# A comment.\n\nx = (\n    1\n)\n")
    3
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.difference_update(
                    range(node.lineno, (node.end_lineno or node.lineno) + 1)
                )
    return len(lines)


def main() -> None:
    for name in ("ltrbench", "tests", "results"):
        lines: Counter[str] = Counter()
        files: Counter[str] = Counter()
        for path in sorted((ROOT / name).rglob("*.py")):
            folder = "/".join(path.relative_to(ROOT).parts[:-1][:2])
            lines[folder] += code_lines(path.read_text(encoding="utf-8"))
            files[folder] += 1
        for folder, number in lines.most_common():
            print(f"{number:7,} lines {files[folder]:4} files  {folder}")
        print(f"{lines.total():7,} lines {files.total():4} files  {name} in all\n")
    words = sum(
        len(path.read_text(encoding="utf-8").split())
        for path in (ROOT / "docs").rglob("*.md")
    )
    print(f"{words:7,} words in docs")


if __name__ == "__main__":
    main()
