"""Writes the settings of each ranker into its YAML in conf/model, from its class: `make settings`.

Each line has the default, and the first sentence of the documentation as its comment. Lines above the marker
are written by hand: a setting there has a value that differs from the default. The values of
conf/params/matched.yaml are its own; only their comments are written.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import griffe
import yaml  # type: ignore[import-untyped]

from ltrbench.errors import ConfigError
from ltrbench.folders import conf_dir, find_class
from ltrbench.native.objectives.base import Objective
from ltrbench.rankers import BoostingRanker, Ranker
from ltrbench.rankers.base import SHARED

MARKER = "# Written by `make settings` from the fields of the class:\n"
_WIDTH = 120  # characters
_COLUMN = 24  # of comments beside their settings


def files() -> list[Path]:
    """Returns the YAMLs of rankers (not presets) and objectives, and the values of the shared parameters."""
    models = [
        path
        for path in conf_dir().glob("model/**/*.yaml")
        if "\n_target_: ltrbench" in path.read_text()
    ]
    return [*sorted(models), conf_dir() / "params/matched.yaml"]


def written(path: Path) -> str:
    """Returns the content of a YAML, with the settings of its class below the marker."""
    by_hand, _, below = path.read_text().partition(MARKER)
    given = yaml.safe_load(by_hand)
    if given is None:  # the values of the shared parameters
        values = yaml.safe_load(below) or {}
        blocks = [_lines(BoostingRanker, set(SHARED), values)]
    else:
        base: type[Any] = Objective if path.parent.name == "objective" else Ranker
        kind = find_class(given["_target_"], base, path.stem)
        names = {field.name for field in fields(kind) if field.init}
        names.difference_update(given)
        blocks = [_lines(base, names, {}) for base in bases_beyond_contract(kind)]
    settings = "\n".join(block for block in map("".join, blocks) if block)
    if not settings:
        return by_hand
    return f"{by_hand.rstrip()}\n\n{MARKER}\n{settings}"


def bases_beyond_contract(kind: type[Any]) -> list[type[Any]]:
    """Returns a class and its bases, except those that every boosting ranker has; the most general first."""
    bases = reversed(kind.__mro__)
    return [base for base in bases if not issubclass(BoostingRanker, base)]


def field_docstrings(kind: type) -> dict[str, str]:
    """Returns field -> the docstring below it in the class."""
    file = Path(inspect.getfile(kind))
    module = griffe.visit(
        kind.__module__, filepath=file, code=file.read_text(encoding="utf-8")
    )
    docstrings = {}
    for name, attribute in module.classes[kind.__name__].attributes.items():
        if attribute.docstring:
            words = attribute.docstring.value.split()
            docstrings[name] = " ".join(words)
    return docstrings


def _lines(kind: type, names: set[str], values: dict[str, Any]) -> Iterator[str]:
    """Yields the lines of the settings `names` that a class declares; `values` replace their defaults."""
    documentation = field_docstrings(kind)
    for field in fields(kind):
        name = field.name
        if name not in names or name not in inspect.get_annotations(kind):
            continue
        if name not in documentation:
            raise ConfigError(
                f"{kind.__name__}.{name} is not documented; write a string below the field."
            )
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        if isinstance(default, Objective):  # which `defaults` of the YAML names
            continue
        value = values.get(name, default)
        yield _setting_with_comment(name, value, documentation[name])


def _setting_with_comment(name: str, value: Any, documentation: str) -> str:
    dumped = yaml.safe_dump(value, default_flow_style=True, width=float("inf"))
    text = dumped.removesuffix("...\n").strip()
    setting = f"{name}: {text}"
    summary = _summary(documentation)
    in_one_line = f"{setting:<{_COLUMN}} # {summary}"
    if len(in_one_line) <= _WIDTH:
        return f"{in_one_line}\n"
    comment = textwrap.fill(
        summary, _WIDTH, initial_indent="# ", subsequent_indent="# "
    )
    return f"{comment}\n{setting}\n"


def _summary(documentation: str) -> str:
    """Returns the first sentence without its full stop, in the words of YAML.

    >>> _summary("Seed; None: drawn. More.")
    'Seed; null: drawn'
    """
    first, _, _ = documentation.partition(". ")
    return re.sub(r"\bNone\b", "null", first.removesuffix("."))


if __name__ == "__main__":
    for path in files():
        path.write_text(written(path))
