"""The reference: public names, and the meaning of each backend's settings."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import ltrbench
from docs.macros.tables import code, table
from docs.macros.yamls import config_files
from docs.settings import bases_beyond_contract, field_docstrings
from ltrbench.folders import find_class
from ltrbench.native.objectives.base import Objective
from ltrbench.native.objectives.lambdarank import RankNet


def reference(package: str) -> str:
    """Returns the mkdocstrings blocks of a package's docstring and of each of its public names.

    The option of mkdocstrings for all members would leave out constants without a docstring.
    """
    options = "members: false, heading_level: 2, show_root_full_path: true, show_symbol_type_heading: false"
    blocks = [f"::: {package}\n    options: {{{options}}}"]
    contents = importlib.import_module(package)
    names = [
        name
        for name in contents.__all__
        if not isinstance(getattr(contents, name), Mapping)
    ]
    blocks.extend(f"::: {package}.{name}" for name in names)
    return "\n\n".join(blocks)


def public_names() -> str:
    """Returns a table with one row per module: its names that are attributes of `ltrbench` itself."""
    names_of = {
        **ltrbench._NAMES_OF,
        "ltrbench.compare": ("compare", *ltrbench._NAMES_OF["ltrbench.compare"]),
    }
    rows = []
    for module, names in names_of.items():
        links = [f"[`{name}`][{module}.{name}]" for name in names]
        rows.append([code(module), ", ".join(links)])
    return table(["from", "names"], rows)


def backends() -> str:
    """Returns the class of each YAML in conf/model, with the meaning of its additional settings."""
    groups = ("model", "model/objective")
    files = [item for item in config_files() if item.group in groups]
    targets = [str(item.target) for item in files if item.is_of_ltrbench]
    without_repeats = dict.fromkeys(targets)
    return "\n\n".join(map(_backend, without_repeats))


def _backend(target: str) -> str:
    about = f"::: {target}\n    options: {{members: false}}"
    module, _, name = target.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    settings = own_settings(kind)
    if not settings:
        return about
    rows = [[code(setting), meaning] for setting, meaning in settings.items()]
    return f"{about}\n\n{table(['setting', 'meaning'], rows)}"


def own_settings(kind: type[Any]) -> dict[str, str]:
    """Returns field -> meaning, for the fields that a class adds to the contract of rankers or objectives."""
    names = {field.name for field in fields(kind)}
    meanings: dict[str, str] = {}
    for base in bases_beyond_contract(kind):
        documented = field_docstrings(base)
        meanings |= {name: documented[name] for name in documented if name in names}
    return meanings


def objectives() -> str:
    """Returns a table of the objectives of conf/model/objective."""
    rows = []
    for item in config_files():
        if item.group == "model/objective" and item.is_of_ltrbench:
            kind = find_class(str(item.target), Objective, item.name)
            is_loss = _is_loss(kind)
            about = " ".join(item.intro.split())
            rows.append([code(item.name), is_loss, kind.source, about])
    header = ["`model/objective`", "loss", "source", "what it is, and when to use it"]
    return table(header, rows)


def _is_loss(kind: type[Objective]) -> str:
    """Returns whether the gradients of an objective are those of a loss, as far as its class says so."""
    if kind.is_loss is RankNet.is_loss:
        return "without `normalize_`"
    if kind.is_loss is not Objective.is_loss:  # LambdaRank's is False
        return "no"
    defines_loss = kind.loss is not Objective.loss
    defines_loss_of_query = kind.loss_of_query is not Objective.loss_of_query
    return "yes" if defines_loss or defines_loss_of_query else "no"


def evaluator_keys() -> str:
    """Returns a table of the keys of the MLflow evaluator's configuration."""
    # Late, because MLflow takes seconds to import.
    from ltrbench.tracking.evaluator import _KEYS

    rows = [[code(key), meaning] for key, meaning in _KEYS.items()]
    return table(["key", "value"], rows)
