"""Every verb is found, without importing the others."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import click

import ltrbench.cli.verbs as verbs_package
from ltrbench.cli.verbs import all_verbs, find_verb


def test_every_command_at_the_top_of_a_file_is_a_verb() -> None:
    packages = pkgutil.walk_packages(verbs_package.__path__, f"{verbs_package.__name__}.")
    contents = [item for module in packages for item in vars(importlib.import_module(module.name)).values()]
    groups = [item for item in contents if isinstance(item, click.Group)]
    of_groups = {command for group in groups for command in group.commands.values()}
    commands = {item for item in contents if isinstance(item, click.Command)} - of_groups
    assert commands == set(all_verbs().values())
    assert all(find_verb(str(command.name)) is command for command in commands)


def test_a_verb_is_run_without_importing_the_others() -> None:
    code = (
        "import sys; from ltrbench.cli import main; assert main(['show', '--help']) == 0; "
        "print([name for name in sys.modules if name.startswith('ltrbench.cli.verbs.comparisons')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
