"""The contents of the `--help` page: the verbs, the first settings, and the config groups.

conf/hydra/help/ltrbench.yaml is the template; each `${ltrbench_help:PART}` in it is replaced by a text from
`PARTS`.
"""

from __future__ import annotations

from collections.abc import Sequence

import click
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, ListConfig, OmegaConf

from ltrbench.cli.help.settings import FIRST_SETTINGS, explained_settings, first_clause
from ltrbench.cli.program import as_called

_WIDTH = 120
_LEFT = 32  # maximum width of the left column; the text of a longer entry begins on the next line


def register_help() -> None:
    """Registers the resolver of `${ltrbench_help:PART}` with OmegaConf."""
    OmegaConf.register_new_resolver("ltrbench_help", _part, replace=True)


def _part(name: str, *, _root_: DictConfig) -> str:
    # Hydra substitutes the words that begin with a dollar sign once more.
    return PARTS[name](_root_).replace("$", "$$")


def verbs_help(config: DictConfig | None = None) -> str:
    """Returns one line per verb: its arguments and the first sentence of its help."""
    del config
    # Imported late, because every run registers this resolver but needs no verb.
    from ltrbench.cli.verbs import all_verbs

    rows = []
    for name, command in all_verbs().items():
        context = click.Context(command, info_name=name)
        usage = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
        rows.append((" ".join([name, *usage]), command.get_short_help_str(limit=_WIDTH)))
    return _columns(rows)


def settings_help(config: DictConfig) -> str:
    """Returns one line per setting of `FIRST_SETTINGS`: its value and the first clause of its comment."""
    known = explained_settings()
    return _columns([(f"{key}={_value(config, key)}", first_clause(known[key])) for key in FIRST_SETTINGS])


def _value(config: DictConfig, key: str) -> str:
    """Returns a value as typed on the command line; FILE if the chosen data set has no such key or value."""
    if key in config.hydra.runtime.choices:
        return str(config.hydra.runtime.choices[key])
    value = OmegaConf.select(config, key, default="FILE")
    if isinstance(value, ListConfig):
        return f"[{','.join(map(str, value))}]"
    return "null" if value is None else str(value)


def groups_help(config: DictConfig) -> str:
    """Returns one line per config group: the values of NAME in group=NAME, including those of
    --config-dir."""
    del config
    loader = GlobalHydra.instance().config_loader()
    groups = sorted(group for group in loader.list_groups("") if group != "hydra")
    return _columns([(group, ", ".join(choices(loader, group))) for group in groups])


def choices(loader: ConfigLoader, group: str) -> list[str]:
    """Returns the values of NAME in group=NAME, without base YAMLs, whose names begin with an underscore."""
    return [name for name in loader.get_group_options(group) if not name.startswith("_")]


def header_help(config: DictConfig) -> str:
    """Returns the header of the page, with the commands spelled as this process was called."""
    return as_called(str(config.hydra.help.header)).rstrip()


PARTS = {"header": header_help, "verbs": verbs_help, "settings": settings_help, "groups": groups_help}
"""PART of `${ltrbench_help:PART}` -> function of the whole configuration that returns its text."""


def _columns(rows: Sequence[tuple[str, str]]) -> str:
    formatter = click.HelpFormatter(width=_WIDTH)
    formatter.indent()
    formatter.write_dl(rows, col_max=_LEFT)
    return formatter.getvalue().rstrip()
