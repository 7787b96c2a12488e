"""Commands: the page of `--help`, and the output of a verb."""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path

from click.testing import CliRunner

from docs.macros.tables import code, table
from docs.pages import ROOT, titled_files, write_files
from ltrbench.cli.verbs import verbs
from ltrbench.errors import ConfigError


def overview() -> str:
    """Returns the page of `python -m ltrbench --help`."""
    return f"```text\n{(ROOT / 'ltrbench/cli/help.txt').read_text(encoding='utf-8')}```"


def make_targets() -> str:
    """Returns a table of the targets of the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):.*## (.*)$", text, re.MULTILINE)
    rows = [[code(f"make {name}"), meaning] for name, meaning in targets]
    return table(["target", "what it does"], rows)


def run(page: str, words: str) -> str:
    """Returns the command line of a verb and its output, in a folder with the page's files."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_files(titled_files(page), Path())
        result = CliRunner().invoke(verbs, words.split(), catch_exceptions=False)
    if result.exit_code != 0:
        raise ConfigError(f"python -m ltrbench {words} failed: {result.output}")
    command = f"```sh\npython -m ltrbench {words}\n```"
    return f"{command}\n\n```text\n{result.stdout.rstrip()}\n```"
