"""The verbs: commands on runs, sweeps, scores and data. Only `resume` runs experiments.

To add a verb, add a file to this folder or a subfolder. There is no list of verbs: every `click.Command` at
the top level of a file is a verb. If a file is named after its verb (`import_.py` defines `import`), the verb
is found without importing the other files. Files in a folder `subcommands` are no verbs: they belong to the
group that imports them, such as `data`.

    comparisons   several runs: compare, aa, reproduce
    runs          one run: show, predict, serve, trees, export, import, ship, ui
    sweeps        sweeps: resume, status, sync
    data          files of data and scores: inspect, evaluate, conventions, explain, data
    walkthrough   LambdaMART on ten documents
    completion    the scripts of shell completion
"""

from __future__ import annotations

import copy
import importlib
import pkgutil

import click

from ltrbench.cli.program import as_called


def find_verb(name: str) -> click.Command | None:
    """Returns the verb with this name, or None."""
    named_so = [module for module in _modules() if module.rpartition(".")[2].rstrip("_") == name]
    for module in named_so:
        if name in (commands := _commands_of(module)):
            return commands[name]
    return all_verbs().get(name)


def all_verbs() -> dict[str, click.Command]:
    """Returns name -> command of every verb, sorted by name."""
    commands = {name: command for module in _modules() for name, command in _commands_of(module).items()}
    return dict(sorted(commands.items()))


def _modules() -> list[str]:
    modules = pkgutil.walk_packages(__path__, prefix=f"{__name__}.")
    return [module.name for module in modules if not module.ispkg and ".subcommands." not in module.name]


def _commands_of(module: str) -> dict[str, click.Command]:
    contents = vars(importlib.import_module(module)).values()
    return {str(item.name): item for item in contents if isinstance(item, click.Command)}


class _Verbs(click.Group):
    """All verbs as one click group; help shows commands as this process was called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(all_verbs())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = find_verb(cmd_name)
        if command is None:
            return None
        shown = copy.copy(command)
        shown.help = as_called(command.help or "")
        return shown


@click.group(cls=_Verbs)
def verbs() -> None:
    """Commands on runs, scores and data. To start a run, see python -m ltrbench --help."""
