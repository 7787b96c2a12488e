"""Reads the YAMLs of conf/ for the documentation: each key with its value and its comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from ltrbench.folders import conf_dir


@dataclass(frozen=True)
class Key:
    """A key of a YAML.

    Attributes:
        name: as typed on the command line, such as early_stopping.patience.
        value: as written in the YAML.
        comment: the comment beside or above the key; may be empty.
    """

    name: str
    value: str
    comment: str


@dataclass(frozen=True)
class ConfigFile:
    """A YAML of conf/.

    Attributes:
        group: the folder of the YAML, which is its config group; "" for conf/config.yaml.
        name: without .yaml; a base YAML, which cannot be chosen, begins with an underscore.
        intro: the comment at the top of the file.
        target: the class of its `_target_`; None if it has none.
        bases: the names of the YAMLs of the same group in its defaults list.
        keys: keys defined in this file, without those of its bases.
        groups: for conf/config.yaml only: each config group with the YAML chosen by default.
    """

    group: str
    name: str
    intro: str
    target: str | None
    bases: tuple[str, ...]
    keys: tuple[Key, ...]
    groups: tuple[Key, ...] = ()

    @property
    def is_of_ltrbench(self) -> bool:
        """Whether the class is one of ltrbench, not of another package."""
        return (self.target or "").startswith("ltrbench.")


@cache
def config_files() -> tuple[ConfigFile, ...]:
    """Returns all YAMLs of conf/: the top level first, then group by group, base YAMLs first."""
    folder = conf_dir()
    paths = sorted(
        folder.rglob("*.yaml"),
        key=lambda path: (len(path.relative_to(folder).parts), path),
    )
    return tuple(_read_config_file(path, path.relative_to(folder)) for path in paths)


def _read_config_file(path: Path, place: Path) -> ConfigFile:
    text = path.read_text()
    lines = text.splitlines()
    node = yaml.compose(text)
    assert isinstance(node, yaml.MappingNode)
    intro = _intro(lines)
    num_lines_of_intro = len(intro)
    group = "/".join(place.parent.parts)
    package = group.replace("/", ".")
    if intro and intro[0].startswith("@package "):
        package = intro.pop(0).removeprefix("@package ")
    prefix = "" if package in ("", "_global_") else f"{package}."
    keys = {key.name: key for key in _keys(node, text, num_lines_of_intro, prefix)}
    target = keys.pop(f"{prefix}_target_", None)
    keys.pop(f"{prefix}defaults", None)
    defaults = yaml.safe_load(text).get("defaults", [])
    return ConfigFile(
        group=group,
        name=path.stem,
        intro="\n".join(intro),
        target=None if target is None else target.value,
        bases=tuple(_bases(defaults)) if group else (),
        keys=tuple(keys.values()),
        groups=() if group else tuple(_groups(node, lines)),
    )


def _intro(lines: Sequence[str]) -> list[str]:
    """Returns the lines of the comment at the top of a file, without their `# `."""
    intro = []
    for line in lines:
        if not line.startswith("#"):
            break
        intro.append(line.removeprefix("#").removeprefix(" "))
    return intro


def _keys(node: yaml.MappingNode, text: str, begin: int, prefix: str) -> Iterator[Key]:
    """Yields the leaves of a mapping. Comments above line `begin` belong to the file, not to a key."""
    lines = text.splitlines()
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        comment = _comment(lines, key.start_mark.line, begin)
        if not isinstance(value, yaml.MappingNode) or value.flow_style:
            yield Key(name, _value(value, text), comment)
            continue
        if comment:
            yield Key(name, "", comment)
        yield from _keys(value, text, begin, f"{name}.")


def _groups(node: yaml.MappingNode, lines: Sequence[str]) -> Iterator[Key]:
    """Yields the entries of the defaults list that choose a YAML from a group."""
    (defaults,) = (value for key, value in node.value if key.value == "defaults")
    for item in defaults.value:
        if isinstance(item, yaml.MappingNode):
            ((group, chosen),) = item.value
            comment = _comment(lines, group.start_mark.line, 0)
            yield Key(str(group.value), str(chosen.value), comment)


def _value(node: yaml.Node, text: str) -> str:
    is_scalar = isinstance(node, yaml.ScalarNode)
    if is_scalar and node.style in ("|", ">"):
        # Of a text with several lines, only the first is shown; a literal block is cut.
        first_line, _, _ = node.value.strip().partition("\n")
        return f"{first_line} …" if node.style == "|" else first_line
    begin = node.start_mark.index
    end = node.end_mark.index
    return text[begin:end].strip()


def _comment(lines: Sequence[str], line: int, begin: int) -> str:
    """Returns the comment beside a key, or else the comment above it at the same indentation."""
    line_of_key = lines[line]
    beside = re.search(r"\s#\s(.*)$", line_of_key)
    if beside:
        return beside[1]
    width = len(line_of_key) - len(line_of_key.lstrip())
    margin = " " * width
    above: list[str] = []
    for earlier in reversed(lines[begin:line]):
        if not earlier.startswith(f"{margin}# "):
            break
        above.insert(0, earlier.strip().removeprefix("# "))
    return " ".join(above)


def _bases(defaults: Sequence[Any]) -> Iterator[str]:
    for item in defaults:
        # A name with a / is a YAML of another group.
        if isinstance(item, str) and item != "_self_" and "/" not in item:
            yield item
