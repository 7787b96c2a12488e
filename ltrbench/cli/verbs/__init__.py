"""The verbs: commands on runs, sweeps, scores and data. Only `resume` runs experiments.

To add a verb, write a `click.Command` in a file of this folder, and its name in `MODULE_OF`, which finds a
verb without importing the other files.
"""

from __future__ import annotations

import importlib

import click

MODULE_OF = {
    **dict.fromkeys(
        ("compare", "ensemble", "reproduce"),
        "comparisons",
    ),
    **dict.fromkeys(("conventions", "data", "evaluate", "inspect"), "data"),
    **dict.fromkeys(("final", "monitor", "serve", "ship"), "deployment"),
    "frontier": "frontier",
    **dict.fromkeys(("explain", "glossary", "walkthrough"), "explain"),
    **dict.fromkeys(("export", "import", "predict", "show", "ui"), "runs"),
    **dict.fromkeys(("resume", "status", "sync"), "sweeps"),
}
"""Verb -> its module."""


class _Verbs(click.Group):
    """All verbs as one click group."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(MODULE_OF)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MODULE_OF:
            return None
        contents = vars(
            importlib.import_module(f"{__name__}.{MODULE_OF[cmd_name]}")
        ).values()
        return next(
            item
            for item in contents
            if isinstance(item, click.Command) and item.name == cmd_name
        )


@click.group(cls=_Verbs)
def verbs() -> None:
    """Commands on runs, scores and data. To start a run, see python -m ltrbench --help."""
