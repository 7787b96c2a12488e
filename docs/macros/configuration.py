"""The configuration: every key of every YAML in conf/, with the comments of the YAML."""

from __future__ import annotations

import re

import yaml  # type: ignore[import-untyped]

from docs.macros.tables import code, heading, table
from docs.macros.yamls import ConfigFile, config_files
from ltrbench.folders import conf_dir

_LONGEST_VALUE = 100  # characters

_COMMAND_AT_END = re.compile(r"(?:^|\s)(python -m ltrbench .*)$")


def configuration(group: str = "") -> str:
    """Returns a section for each YAML of a group; "" is conf/config.yaml, "hydra" includes its subfolders."""
    sections = []
    for item in config_files():
        top_group, _, _ = item.group.partition("/")
        if top_group == group:
            sections.append(_config_section(item))
    return "\n\n".join(sections)


def _config_section(item: ConfigFile) -> str:
    parts = []
    if item.group:
        parts.append(_config_heading(item))
    if item.intro:
        parts.append(_with_commands(item.intro))
    if item.target is not None:
        parts.append(f"Builds `{item.target}`.")
    if item.bases and item.name != "_boosting":  # its base is not a file
        group = item.group
        links = [_link(f"{group}/{base}", group, base) for base in item.bases]
        parts.append(f"Begins with the keys of {', '.join(links)}.")
    if item.keys:
        rows = [
            [code(key.name), _value_cell(key.value), key.comment] for key in item.keys
        ]
        parts.append(table(["key", "value", "meaning"], rows))
    return "\n\n".join(parts)


def _value_cell(value: str) -> str:
    """Returns a long value as prose, any other as code."""
    return value if len(value) > _LONGEST_VALUE else code(value)


def _config_heading(item: ConfigFile) -> str:
    chosen = item.name.startswith("_") or item.group.startswith("hydra")
    title = f"{item.group}/{item.name}" if chosen else f"{item.group}={item.name}"
    return heading(3, f"`{title}`", _config_anchor(item.group, item.name))


def _config_anchor(group: str, name: str) -> str:
    return f"{group}-{name}".replace("/", "-")


def _link(text: str, group: str, name: str) -> str:
    """Returns a link to the section of a YAML."""
    return f"[`{text}`](#{_config_anchor(group, name)})"


def _with_commands(intro: str) -> str:
    """Returns a comment as paragraphs, with each command in a separate block."""
    blocks: list[str] = []
    for line in intro.splitlines():
        match = _COMMAND_AT_END.search(line)
        before_command = line[: match.start()] if match else line
        words = before_command.strip()
        if words and blocks and not blocks[-1].startswith("```"):
            blocks[-1] += f" {words}"
        elif words:
            blocks.append(words)
        if match:
            blocks.append(f"```sh\n{match[1]}\n```")
    return "\n\n".join(blocks)


def groups() -> str:
    """Returns a table of the groups: the default in conf/config.yaml, and the choices."""
    text = (conf_dir() / "config.yaml").read_text()
    rows = []
    for item in yaml.safe_load(text)["defaults"]:
        if not isinstance(item, dict):
            continue
        ((group, chosen),) = item.items()
        links = [_link(name, group, name) for name in choices(group)]
        if links:
            default = code("null" if chosen is None else chosen)
            rows.append([code(group), default, ", ".join(links)])
    return table(["group", "default", "choices"], rows)


def choices(group: str) -> list[str]:
    """Returns the names of ltrbench that group=NAME accepts."""
    return sorted(
        path.stem
        for path in conf_dir().glob(f"{group}/*.yaml")
        if not path.stem.startswith("_")
    )
