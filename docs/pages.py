"""The files and commands of a page's example, which its doctests need.

A fenced block with a title is a file of the page's example: `titled_files` gives them all. The commands of a
page that are marked with `<!-- run -->` (`marked_commands`) are run before its doctests, in a folder that
holds these files.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_MARKED = re.compile(r"^<!-- run -->\n```sh[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_SNIPPET = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)


def titled_files(markdown: str) -> dict[str, str]:
    """Path -> content of each fenced block that has a title, its included files in their place.

    >>> titled_files('```text title="scores.txt"\\n1\\n2\\n```')
    {'scores.txt': '1\\n2\\n'}
    """
    return {
        title[1]: _SNIPPET.sub(lambda match: (ROOT / match[1]).read_text().rstrip("\n"), fence["body"])
        for fence in _FENCE.finditer(markdown)
        if (title := _TITLE.search(fence["info"]))
    }


def marked_commands(markdown: str) -> list[str]:
    """The shell blocks that are to be run before the page's doctests.

    >>> marked_commands("<!-- run -->\\n```sh\\nls\\n```")
    ['ls\\n']
    """
    return [match["body"] for match in _MARKED.finditer(markdown)]


def environment_of_commands() -> dict[str, str]:
    """The environment of a page's commands: this Python, this checkout, no MLflow settings of the user."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    return environment


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Writes the files of a page into a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
