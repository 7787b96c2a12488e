"""Commands: the first lines of `--help` with `--help verbs`, and the output of a verb."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner

from docs.pages import titled_files, write_files
from ltrbench.cli.help import verbs_help
from ltrbench.cli.verbs import verbs
from ltrbench.conf_folder import conf_dir
from ltrbench.errors import ConfigError


def overview() -> str:
    """Returns the first and the last lines of `python -m ltrbench --help`, and all verbs."""
    text = yaml.safe_load((conf_dir() / "hydra" / "help" / "ltrbench.yaml").read_text())
    return f"```text\n{text['header']}\n{text['footer']}\nVerbs:\n{verbs_help()}\n```"


def run(page: str, words: str) -> str:
    """Returns the command line of a verb and its output, in a folder with the page's files."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_files(titled_files(page), Path())
        result = CliRunner().invoke(verbs, words.split(), catch_exceptions=False)
    if result.exit_code != 0:
        raise ConfigError(f"python -m ltrbench {words} failed: {result.output}")
    command = f"```sh\npython -m ltrbench {words}\n```"
    return f"{command}\n\n```text\n{result.stdout.rstrip()}\n```"
