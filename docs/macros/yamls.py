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
    group = place.parent.as_posix() if len(place.parts) > 1 else ""
    intro = _intro(lines)
    has_package = intro[:1] and intro[0].startswith("@package ")
    package = (
        intro[0].removeprefix("@package ") if has_package else group.replace("/", ".")
    )
    prefix = "" if package in ("", "_global_") else f"{package}."
    node = yaml.compose(text)
    assert isinstance(node, yaml.MappingNode)
    keys = list(_keys(node, text, len(intro), prefix))
    value_of = {key.name: key.value for key in keys}
    return ConfigFile(
        group=group,
        name=path.stem,
        intro="\n".join(intro[bool(has_package) :]),
        target=value_of.get(f"{prefix}_target_"),
        bases=tuple(_bases(yaml.safe_load(text).get("defaults", []))) if group else (),
        keys=tuple(
            key
            for key in keys
            if key.name not in (f"{prefix}_target_", f"{prefix}defaults")
        ),
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
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            comment = _comment(lines, key.start_mark.line, begin)
            if comment:
                yield Key(name, "", comment)
            yield from _keys(value, text, begin, f"{name}.")
        else:
            yield Key(
                name, _value(value, text), _comment(lines, key.start_mark.line, begin)
            )


def _groups(node: yaml.MappingNode, lines: Sequence[str]) -> Iterator[Key]:
    """Yields the entries of the defaults list that choose a YAML from a group."""
    (defaults,) = (value for key, value in node.value if key.value == "defaults")
    for item in defaults.value:
        if isinstance(item, yaml.MappingNode):
            ((group, chosen),) = item.value
            yield Key(
                str(group.value),
                str(chosen.value),
                _comment(lines, group.start_mark.line, 0),
            )


def _value(node: yaml.Node, text: str) -> str:
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        # Of a text with several lines, only the first is shown; a literal block is cut.
        return str(node.value).strip().partition("\n")[0] + (
            " …" if node.style == "|" else ""
        )
    return text[node.start_mark.index : node.end_mark.index].strip()


def _comment(lines: Sequence[str], line: int, begin: int) -> str:
    """Returns the comment beside a key, or else the comment above it at the same indentation."""
    beside = re.search(r"\s#\s(.*)$", lines[line])
    if beside:
        return beside[1]
    margin = len(lines[line]) - len(lines[line].lstrip())
    above: list[str] = []
    for earlier in reversed(lines[begin:line]):
        if not earlier.startswith(" " * margin + "# "):
            break
        above.insert(0, earlier.strip().removeprefix("# "))
    return " ".join(above)


def _bases(defaults: Sequence[Any]) -> Iterator[str]:
    for item in defaults:
        # A name with a / is a YAML of another group.
        if isinstance(item, str) and item != "_self_" and "/" not in item:
            yield item
