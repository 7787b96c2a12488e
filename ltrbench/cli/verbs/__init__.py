"""The verbs: commands on runs, sweeps, scores and data. Only `resume` runs experiments.

To add a verb, write a `click.Command` in a file of this folder, and its name in `_VERBS`, which finds a
verb without importing the other files.
"""

from __future__ import annotations

import importlib

import click

_VERBS = {
    "..auto.command": ("auto",),
    ".clicks": ("clicks",),
    ".comparisons": ("compare", "ensemble", "reproduce"),
    ".data": ("conventions", "data", "evaluate", "inspect"),
    ".deployment": ("final", "monitor", "serve", "ship"),
    ".explain": ("explain", "glossary", "walkthrough"),
    ".frontier": ("frontier",),
    ".interleaving": ("interleave",),
    ".runs": ("export", "import", "predict", "show", "ui"),
    ".sweeps": ("resume", "status", "sync"),
}
"""Module -> its verbs. `auto` is above the verbs, because it takes their steps."""

MODULE_OF: dict[str, str] = {}
"""Verb -> its module."""

for _module, _names in _VERBS.items():
    MODULE_OF |= dict.fromkeys(_names, _module)


class _Verbs(click.Group):
    """All verbs as one click group."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(MODULE_OF)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MODULE_OF:
            return None
        module = importlib.import_module(MODULE_OF[cmd_name], __name__)
        for item in vars(module).values():
            if isinstance(item, click.Command) and item.name == cmd_name:
                return item
        raise AssertionError(f"unreachable: {module.__name__} has no {cmd_name}")


@click.group(cls=_Verbs)
def verbs() -> None:
    """Commands on runs, scores and data. To start a run, see python -m ltrbench --help."""
