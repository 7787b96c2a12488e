"""The verbs: commands on runs, sweeps, scores and data. Only `resume` runs experiments.

To add a verb, write a `click.Command` in a file of this folder, and its name in `_VERBS_OF`, which finds a
verb without importing the other files.

    comparisons   several runs: compare, aa, reproduce
    runs          one run: show, predict, trees, export, import, ui
    ship          ship a model, and serve it
    sweeps        sweeps: resume, status, sync
    data          stores and published data sets: data
    evaluate      scores and data files: evaluate, conventions, inspect
    explain       the lambdas of a query: explain, walkthrough
    help          completion, glossary
"""

from __future__ import annotations

import copy
import importlib

import click

from ltrbench.cli.console import as_called

_VERBS_OF = {
    "comparisons": ("aa", "compare", "reproduce"),
    "data": ("data",),
    "evaluate": ("conventions", "evaluate", "inspect"),
    "explain": ("explain", "walkthrough"),
    "help": ("completion", "glossary"),
    "runs": ("export", "import", "predict", "show", "trees", "ui"),
    "ship": ("serve", "ship"),
    "sweeps": ("resume", "status", "sync"),
}
"""Module -> its verbs."""
_MODULE_OF = {verb: module for module, verbs in _VERBS_OF.items() for verb in verbs}


def find_verb(name: str) -> click.Command | None:
    """Returns the verb with this name, or None."""
    if name not in _MODULE_OF:
        return None
    contents = vars(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}")).values()
    return next(item for item in contents if isinstance(item, click.Command) and item.name == name)


def all_verbs() -> dict[str, click.Command]:
    """Returns name -> command of every verb, sorted by name."""
    return {name: command for name in sorted(_MODULE_OF) if (command := find_verb(name)) is not None}


class _Verbs(click.Group):
    """All verbs as one click group; help shows commands as this process was called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_MODULE_OF)

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
