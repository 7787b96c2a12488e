"""The verb `data`: a group of commands on data sets. Each command is a file in the folder `subcommands`."""

from __future__ import annotations

import copy
import importlib
import pkgutil

import click

from ltrbench.cli.program import as_called
from ltrbench.cli.verbs.data import subcommands
from ltrbench.errors import ConfigError, did_you_mean


class _DataVerb(click.Group):
    """The commands in the files of `subcommands`; the command of a file has the name of the file."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name for module in pkgutil.iter_modules(subcommands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{subcommands.__name__}.{cmd_name}")
        (command,) = (
            item
            for item in vars(module).values()
            if isinstance(item, click.Command) and item.name == cmd_name
        )
        shown = copy.copy(command)
        shown.help = as_called(command.help or "")
        return shown

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            raise ConfigError(
                f"unknown command 'data {args[0]}'{did_you_mean(args[0], known)} The commands are "
                f"{', '.join(f'data {name}' for name in known)}."
            )
        return super().resolve_command(ctx, args)


@click.group("data", cls=_DataVerb)
def data_verb() -> None:
    """Prepares data sets."""
