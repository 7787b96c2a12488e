"""The files and commands of a page's example, which its doctests need.

A fenced block with a title is a file of the example; `titled_files` returns all of them. The shell blocks
marked with `<!-- run -->` (`marked_commands`) run before the doctests of the page, in a folder with these
files.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_FENCE = re.compile(
    r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
_MARKED = re.compile(
    r"^<!-- run -->\n```sh[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
FILLED = re.compile(
    r"^<!-- filled: (?P<call>[^\n]+) -->\n.*?^<!-- end -->$",
    re.MULTILINE | re.DOTALL,
)
"""Text of a page that `make pages` writes, with the macro that returns it."""

_TITLE = re.compile(r'title="([^"]+)"')
_SNIPPET = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)


def pages() -> list[Path]:
    """Returns the pages of the documentation, and README.md."""
    return [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


def titled_files(markdown: str) -> dict[str, str]:
    """Returns path -> content of each fenced block with a title, with its included files filled in.

    >>> titled_files('```text title="scores.txt"\\n1\\n2\\n```')
    {'scores.txt': '1\\n2\\n'}
    """
    files = {}
    for fence in _FENCE.finditer(markdown):
        title = _TITLE.search(fence["info"])
        if title:
            files[title[1]] = _SNIPPET.sub(_included, fence["body"])
    return files


def _included(snippet: re.Match[str]) -> str:
    return (ROOT / snippet[1]).read_text().rstrip("\n")


def prose_of(page: str) -> str:
    """Returns a page without filled text and without examples in fenced blocks.

    >>> prose_of("So:\\n```sh\\nls\\n```\\n<!-- filled: overview() -->\\nHelp\\n<!-- end -->\\n").split()
    ['So:']
    """
    return _FENCE.sub("", FILLED.sub("", page))


def marked_commands(markdown: str) -> list[str]:
    """Returns the shell blocks that run before the doctests of the page.

    >>> marked_commands("<!-- run -->\\n```sh\\nls\\n```")
    ['ls\\n']
    """
    return [match["body"] for match in _MARKED.finditer(markdown)]


def environment_of_commands() -> dict[str, str]:
    """Returns the environment of a page's commands: this Python and checkout, no MLflow settings."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MLFLOW_")
    }
    environment["PATH"] = (
        f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    )
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), environment.get("PYTHONPATH")])
    )
    return environment


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Writes the files of a page into a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
