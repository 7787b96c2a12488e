"""Commands of a page with their output: `python -m docs.transcript docs/tutorial.md` writes it.

A block of commands marked `<!-- transcript -->` is followed by a block of text with what the commands print
to a terminal of `WIDTH` columns. `<!-- transcript: first table -->` keeps the lines up to the end of the
first table in Markdown, and `<!-- transcript: note with WORDS -->` keeps the note that contains the words.
The commands run one after another, with the blocks marked `<!-- run -->`, in one folder with a link `data` to
the data.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from docs.pages import ROOT, environment_of_commands, titled_files, write_files

WIDTH = 118  # columns, as wide as a code block of the site

_BLOCK = re.compile(
    r"^<!-- (?:run|transcript(?:: (?P<part>[^\n]+))?) -->\n```sh[^\n]*\n(?P<command>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
_NUMBER = re.compile(r"[-+]?\d+\.\d+")
_MEASURED = re.compile(
    r"Threads: \d+|(?:about\s)?[\d.,]+\s(?:s|ms|seconds|minutes|MB)\b"
)
_MEASURED_COLUMN = re.compile(r" (?:s|MB)$")
_TO_FIRST_TABLE = re.compile(r".*?^\|.*?(?=^(?!\|))", re.MULTILINE | re.DOTALL)
_CUT = "[...]\n"
_NOTE = re.compile(r"^- .*?(?=^(?! )|\Z)", re.MULTILINE | re.DOTALL)


def data_folder() -> Path:
    """Returns the folder with the data sets, the default of `data.root`."""
    return Path(os.environ.get("LTRBENCH_DATA", ROOT / "data")).resolve()


def transcripts(page: str) -> list[tuple[str, str]]:
    """Returns the commands of each transcript of a page, with the output that the page shows.

    >>> transcripts("<!-- transcript -->\\n```sh\\nls\\n```\\n\\n```text\\na.txt\\n```\\n")
    [('ls\\n', 'a.txt\\n')]
    """
    blocks = filter(_is_transcript, _BLOCK.finditer(page))
    return [(block["command"], block["output"]) for block in blocks]


def printed(command: str, folder: Path) -> str:
    """Runs commands in a folder. Returns their standard output to a terminal, without progress messages."""
    terminal, its_end = pty.openpty()
    environment = environment_of_transcripts()
    with tempfile.TemporaryFile("w+") as messages:
        process = subprocess.Popen(
            ["bash", "-e", "-c", command],
            cwd=folder,
            env=environment,
            stdout=its_end,
            stderr=messages,
        )
        os.close(its_end)
        output = b"".join(_chunks(terminal)).decode()
        os.close(terminal)
        if process.wait() != 0:
            messages.seek(0)
            raise RuntimeError(f"{command}failed:\n{messages.read()}")
    return plain(output)


def plain(output: str) -> str:
    """Returns an output to a terminal without escape sequences and spaces at the ends of lines."""
    text = _ESCAPE.sub("", output.replace("\r\n", "\n"))
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def environment_of_transcripts() -> dict[str, str]:
    """Returns the environment of a page's commands in a terminal of `WIDTH` columns."""
    return {**environment_of_commands(), "COLUMNS": str(WIDTH)}


def retaken(page: str, run: Callable[[str, Path], str] = printed) -> str:
    """Returns the page with the output that its commands print now.

    Args:
        run: Runs commands in a folder and returns their output.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").symlink_to(data_folder())
        write_files(titled_files(page), Path(folder))
        return _BLOCK.sub(
            lambda block: _with_output(block, run(block["command"], Path(folder))), page
        )


def comparable(output: str) -> tuple[str, list[float]]:
    """Returns an output without measured values (times, memory, threads), and its decimal numbers.

    >>> comparable("model   ndcg@10  fit s\\nnative   0.7655   0.55\\nabout 14 s")
    ('model  ndcg@10  fit s\\nnative  #  -\\n-', [0.7655])
    """
    text = "\n".join(_lines_without_measured_columns(output))
    text = re.sub(r"\n{2,}", "\n", text)
    text = _MEASURED.sub("-", text)
    numbers = [float(number) for number in _NUMBER.findall(text)]
    return _NUMBER.sub("#", text), numbers


def _is_transcript(block: re.Match[str]) -> bool:
    return block[0].startswith("<!-- transcript")


def _with_output(block: re.Match[str], output: str) -> str:
    if not _is_transcript(block):
        return block[0]
    before = block[0].partition("\n```text\n")[0]
    shown = part_of(output.strip() + "\n", block["part"])
    return f"{before.rstrip()}\n\n```text\n{shown}```\n"


def part_of(output: str, part: str | None) -> str:
    """Returns the part of an output that a page shows; None for all of it.

    >>> part_of("title\\n| model |\\n| native |\\n\\nverdict\\n", "first table")
    'title\\n| model |\\n| native |\\n[...]\\n'
    >>> part_of("- A claim.\\n- To detect 0.02\\n  needs 5 folds.\\n\\nmore\\n", "note with To detect")
    '- To detect 0.02\\n  needs 5 folds.\\n'
    """
    if part is None:
        return output
    if part == "first table":
        table = _TO_FIRST_TABLE.match(output)
        return f"{table[0]}{_CUT}" if table else output
    words = part.removeprefix("note with ")
    for note in _NOTE.findall(output):
        in_one_line = " ".join(note.split())
        if words in in_one_line:
            return str(note)
    raise RuntimeError(f"no note contains {words!r}:\n{output}")


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
        cells = re.split(r"\s{2,}", line.strip())
        if len(heads) > 1 and len(cells) == len(heads):
            for column, head in enumerate(heads):
                if _MEASURED_COLUMN.search(head):
                    cells[column] = "-"
            yield "  ".join(cells)
            continue
        # The row of headers; other lines have no measured column.
        heads = cells if any(map(_MEASURED_COLUMN.search, cells)) else []
        yield "  ".join(cells)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(retaken(path.read_text(encoding="utf-8")), encoding="utf-8")
