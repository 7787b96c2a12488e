"""A verb is one file: it is found by being there, and no other verb is imported for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ltrbench.cli import main
from ltrbench.cli.help.page import verbs_help
from ltrbench.cli.verbs import all_verbs, find_verb, verbs

HELLO = '''
import click


@click.command("hello")
def hello_verb() -> None:
    """Greets."""
    click.echo("hello")


@click.command("goodbye")
def goodbye_verb() -> None:
    """Takes leave."""
    click.echo("goodbye")
'''


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file with two verbs beside those of ltrbench."""
    (tmp_path / "hello.py").write_text(HELLO)
    monkeypatch.setattr(
        "ltrbench.cli.verbs.__path__", [*sys.modules["ltrbench.cli.verbs"].__path__, str(tmp_path)]
    )
    yield
    del sys.modules["ltrbench.cli.verbs.hello"]
    del sys.modules["ltrbench.cli.verbs"].hello


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("name", ["hello", "goodbye"])
def test_every_command_of_a_new_file_is_a_verb(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 0
    assert capsys.readouterr().out == f"{name}\n"
    assert name in verbs_help()
    assert list(all_verbs()) == sorted(all_verbs())


def test_a_verb_is_found_in_the_file_of_its_name() -> None:
    families = {"conventions"}  # in that of `evaluate`, with which it shares its columns
    for name, command in all_verbs().items():
        assert find_verb(name) is command
        assert command.callback is not None
        file = command.callback.__module__.rpartition(".")[2].rstrip("_")
        assert file == name or name in families


def test_a_verb_is_run_without_importing_the_others() -> None:
    code = (
        "import sys; from ltrbench.cli import main; assert main(['show', '--help']) == 0; "
        "print([name for name in sys.modules if name.startswith('ltrbench.cli.verbs.comparisons.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_group_of_all_verbs_lists_each_with_its_help() -> None:
    shown = CliRunner().invoke(verbs, ["--help"]).output
    for name, command in all_verbs().items():
        assert f"  {name} " in shown
        assert command.help
    assert isinstance(verbs, click.Group)
