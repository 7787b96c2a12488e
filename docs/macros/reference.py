"""The reference: public names, and the meaning of each backend's settings."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import ltrbench
from docs.macros.tables import code, table
from docs.macros.yamls import config_files
from docs.settings import field_docstrings
from ltrbench.folders import find_class
from ltrbench.native.objectives.base import Objective
from ltrbench.native.objectives.lambdarank import RankNet
from ltrbench.rankers import BoostingRanker


def reference(package: str) -> str:
    """Returns the mkdocstrings blocks of a package's docstring and of each of its public names.

    The option of mkdocstrings for all members would leave out constants without a docstring.
    """
    contents = importlib.import_module(package)
    names = [
        name
        for name in contents.__all__
        if not isinstance(getattr(contents, name), Mapping)
    ]
    options = "members: false, heading_level: 2, show_root_full_path: true, show_symbol_type_heading: false"
    about = f"::: {package}\n    options: {{{options}}}"
    return "\n\n".join([about, *(f"::: {package}.{name}" for name in names)])


def public_names() -> str:
    """Returns a table with one row per module: its names that are attributes of `ltrbench` itself."""
    names_of = {
        **ltrbench._NAMES_OF,
        "ltrbench.compare": ("compare", *ltrbench._NAMES_OF["ltrbench.compare"]),
    }
    rows = [
        [code(module), ", ".join(f"[`{name}`][{module}.{name}]" for name in names)]
        for module, names in names_of.items()
    ]
    return table(["from", "names"], rows)


def backends() -> str:
    """Returns the class of each YAML in conf/model, with the meaning of its additional settings."""
    groups = ("model", "model/objective")
    targets = [
        str(item.target)
        for item in config_files()
        if item.group in groups and item.target
    ]
    targets = [
        target for target in dict.fromkeys(targets) if target.startswith("ltrbench.")
    ]
    return "\n\n".join(map(_backend, targets))


def _backend(target: str) -> str:
    about = f"::: {target}\n    options: {{members: false}}"
    module, _, name = target.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    rows = [[code(setting), meaning] for setting, meaning in own_settings(kind).items()]
    return f"{about}\n\n{table(['setting', 'meaning'], rows)}" if rows else about


def own_settings(kind: type[Any]) -> dict[str, str]:
    """Returns field -> meaning, for the fields that a class adds to the contract of rankers or objectives."""
    bases = [
        base for base in reversed(kind.__mro__) if not issubclass(BoostingRanker, base)
    ]
    names = {field.name for field in fields(kind)}
    return {
        name: meaning
        for base in bases
        for name, meaning in field_docstrings(base).items()
        if name in names
    }


def objectives() -> str:
    """Returns a table of the objectives of conf/model/objective."""
    rows = []
    for item in config_files():
        if item.group == "model/objective" and str(item.target).startswith("ltrbench."):
            kind = find_class(str(item.target), Objective, item.name)
            defined = {kind.loss, kind.loss_of_query} - {
                Objective.loss,
                Objective.loss_of_query,
            }
            is_loss = "yes" if defined and kind.is_loss else "no"
            if kind.is_loss is RankNet.is_loss:
                is_loss = "without `normalize_`"
            rows.append(
                [code(item.name), is_loss, kind.source, " ".join(item.intro.split())]
            )
    return table(
        ["`model/objective`", "loss", "source", "what it is, and when to use it"], rows
    )


def evaluator_keys() -> str:
    """Returns a table of the keys of the MLflow evaluator's configuration."""
    # Late, because MLflow takes seconds to import.
    from ltrbench.tracking.evaluator import _KEYS

    return table(
        ["key", "value"], [[code(key), meaning] for key, meaning in _KEYS.items()]
    )
