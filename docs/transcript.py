"""Commands of a page with their output: `python -m docs.transcript docs/tutorial.md` writes it.

A block of commands marked `<!-- transcript -->` is followed by a block of text with what the commands print
to a terminal of `WIDTH` columns; `<!-- transcript: 20 lines -->` keeps the first 20 lines. The commands run
one after another in one folder with nothing but a link `data` to the data, together with the blocks marked
`<!-- run -->`.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docs.pages import ROOT, environment_of_commands

WIDTH = 118  # columns, as wide as a code block of the site

_BLOCK = re.compile(
    r"^<!-- (?:run|transcript(?P<shown>: (?P<lines>\d+) lines)?) -->\n```sh[^\n]*\n(?P<command>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
_NUMBER = re.compile(r"[-+]?\d+\.\d+")
_MEASURED = re.compile(r"Threads: \d+|(?:about )?[\d.,]+ (?:s|ms|seconds|minutes|MB)\b")
_MEASURED_COLUMN = re.compile(r" (?:s|MB)$")
_CUT = "[...]\n"


def data_folder() -> Path:
    """Returns the folder with the data sets, the default of `data.root`."""
    return Path(os.environ.get("LTRBENCH_DATA", ROOT / "data")).resolve()


def transcripts(page: str) -> list[tuple[str, str]]:
    """Returns the commands of each transcript of a page, with the output that the page shows.

    >>> transcripts("<!-- transcript -->\\n```sh\\nls\\n```\\n\\n```text\\na.txt\\n```\\n")
    [('ls\\n', 'a.txt\\n')]
    """
    return [(block["command"], block["output"]) for block in _BLOCK.finditer(page) if _is_transcript(block)]


def retaken(page: str) -> str:
    """Returns the page with the output that its commands print now."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").symlink_to(data_folder())
        return _BLOCK.sub(lambda block: _with_output(block, Path(folder)), page)


def comparable(output: str) -> tuple[str, list[float]]:
    """Returns an output without measured values (times, memory, threads), and its decimal numbers.

    >>> comparable("| model | ndcg@10 | fit s |\\n|:--|--:|--:|\\n| native | 0.7655 | 0.55 |\\nabout 14 s")
    ('| model | ndcg@10 | fit s |\\n|\\n| native | # | - |\\n-', [0.7655])
    """
    text = "\n".join(_lines_without_measured_columns(output))
    text = _MEASURED.sub("-", text)
    return _NUMBER.sub("#", text), [float(number) for number in _NUMBER.findall(text)]


def _is_transcript(block: re.Match[str]) -> bool:
    return block[0].startswith("<!-- transcript")


def _with_output(block: re.Match[str], folder: Path) -> str:
    output = _printed(block["command"], folder)
    if not _is_transcript(block):
        return block[0]
    lines = output.strip("\n").splitlines(keepends=True)
    kept = lines[: int(block["lines"])] if block["lines"] else lines
    shown = "".join(kept).rstrip("\n") + "\n" + (_CUT if len(kept) < len(lines) else "")
    before = block[0].partition("\n```text\n")[0]
    return f"{before.rstrip()}\n\n```text\n{shown}```\n"


def _printed(command: str, folder: Path) -> str:
    """Runs commands in a folder. Returns their standard output to a terminal, without progress messages."""
    terminal, its_end = pty.openpty()
    environment = {**environment_of_commands(), "COLUMNS": str(WIDTH)}
    with tempfile.TemporaryFile("w+") as messages:
        process = subprocess.Popen(
            ["bash", "-e", "-c", command], cwd=folder, env=environment, stdout=its_end, stderr=messages
        )
        os.close(its_end)
        text = b"".join(_chunks(terminal)).decode().replace("\r\n", "\n")
        os.close(terminal)
        if process.wait() != 0:
            messages.seek(0)
            raise RuntimeError(f"{command}failed:\n{messages.read()}")
    return "".join(f"{line.rstrip()}\n" for line in _ESCAPE.sub("", text).splitlines())


def _chunks(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux raises it once no process has the other end open.
            return
        if not chunk:
            return
        yield chunk


def _lines_without_measured_columns(output: str) -> Iterator[str]:
    heads: list[str] = []
    for line in output.splitlines():
        cells = [" ".join(cell.split()) for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            heads = []
            yield " ".join(line.split())
        elif not heads:
            heads = cells
            yield f"| {' | '.join(cells)} |"
        elif line.startswith(("|:", "|-")):
            # The number of dashes depends on the widths of the cells.
            yield "|"
        else:
            named = zip(heads, cells, strict=True)
            kept = ("-" if _MEASURED_COLUMN.search(head) else cell for head, cell in named)
            yield f"| {' | '.join(kept)} |"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(retaken(path.read_text(encoding="utf-8")), encoding="utf-8")
