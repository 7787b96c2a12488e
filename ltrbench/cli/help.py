"""Help: the settings of conf/, the page of `--help`, and shell completion.

Reads the settings of conf/: each key with its value and its comment.

A setting is explained once, in its YAML. `--help` shows `FIRST_SETTINGS`, shell completion shows the comments
as descriptions, and the configuration page in docs/ shows all settings.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import yaml  # type: ignore[import-untyped]
from click.shell_completion import ShellComplete
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.version import setbase
from omegaconf import DictConfig, ListConfig, OmegaConf

from ltrbench.cli.console import SCRIPT, as_called
from ltrbench.cli.hydra_internals import (
    Hydra,
    HydraCompletion,
    create_config_search_path,
    get_args_parser,
)
from ltrbench.cli.verbs import all_verbs, find_verb, verbs
from ltrbench.conf_folder import conf_dir
from ltrbench.config import register_schema

FIRST_SETTINGS = (
    "model",
    "data",
    "data.train",
    "cv",
    "params.num_trees",
    "params.learning_rate",
    "params.num_leaves",
    "metrics",
    "seed",
    "tracking",
)
"""Settings that --help shows, in this order."""

# Group -> the YAML whose comment is used for a key that several YAMLs of the group have.
_FIRST_FILES = {"data": "letor", "params": "matched", "executor": "processes"}


def explained_settings() -> dict[str, Key]:
    """Returns every key of the command line -> its value and comment, from the first YAML that has the
    key."""
    explained: dict[str, Key] = {}
    for item in sorted(config_files(), key=lambda item: _FIRST_FILES.get(item.group) != item.name):
        for key in (*item.groups, *item.keys):
            if key.name not in explained or not explained[key.name].comment:
                explained[key.name] = key
    return explained


def first_clause(key: Key) -> str:
    """Returns the comment up to its first semicolon or full stop.

    >>> first_clause(Key("seed", "0", "seed of the backend; the same seed gives the same scores"))
    'seed of the backend'
    """
    return re.split(r"; |\. |\.$", key.comment, maxsplit=1)[0]


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
    paths = sorted(folder.rglob("*.yaml"), key=lambda path: (len(path.relative_to(folder).parts), path))
    return tuple(_read_config_file(path, path.relative_to(folder)) for path in paths)


def _read_config_file(path: Path, place: Path) -> ConfigFile:
    text = path.read_text()
    lines = text.splitlines()
    group = place.parent.as_posix() if len(place.parts) > 1 else ""
    intro = _intro(lines)
    is_global = intro[:1] == ["@package _global_"]
    prefix = "" if is_global or not group else f"{group.replace('/', '.')}."
    node = yaml.compose(text)
    assert isinstance(node, yaml.MappingNode)
    keys = list(_keys(node, text, len(intro), prefix))
    value_of = {key.name: key.value for key in keys}
    return ConfigFile(
        group=group,
        name=path.stem,
        intro="\n".join(intro[is_global:]),
        target=value_of.get(f"{prefix}_target_"),
        bases=tuple(_bases(yaml.safe_load(text).get("defaults", []))) if group else (),
        keys=tuple(key for key in keys if key.name not in (f"{prefix}_target_", f"{prefix}defaults")),
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
            yield Key(name, _value(value, text), _comment(lines, key.start_mark.line, begin))


def _groups(node: yaml.MappingNode, lines: Sequence[str]) -> Iterator[Key]:
    """Yields the entries of the defaults list that choose a YAML from a group."""
    (defaults,) = (value for key, value in node.value if key.value == "defaults")
    for item in defaults.value:
        if isinstance(item, yaml.MappingNode):
            ((group, chosen),) = item.value
            yield Key(str(group.value), str(chosen.value), _comment(lines, group.start_mark.line, 0))


def _value(node: yaml.Node, text: str) -> str:
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        # Of a text with several lines, only the first is shown; a literal block is cut.
        return str(node.value).strip().partition("\n")[0] + (" …" if node.style == "|" else "")
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


# ---- The pages of `--help`: the first page, `--help settings` and `--help verbs`.
#
# conf/hydra/help has a template for each; each `${ltrbench_help:PART}` in it is replaced by a text from
# `PARTS`.

MORE_PAGES = ("settings", "verbs")
"""Words after `--help`; each is a template in conf/hydra/help."""

_WIDTH = 100
_LEFT = 32  # maximum width of the left column; the text of a longer entry begins on the next line


def register_help(is_shown: bool = True) -> None:
    """Registers the resolver of `${ltrbench_help:PART}` with OmegaConf.

    Args:
        is_shown: whether the command shows the page. Otherwise the parts are empty, because OmegaConf
            resolves them for every command, which would read all YAMLs.
    """
    OmegaConf.register_new_resolver("ltrbench_help", _part if is_shown else lambda _: "", replace=True)


def _part(name: str, *, _root_: DictConfig) -> str:
    # Hydra substitutes the words that begin with a dollar sign once more.
    return PARTS[name](_root_).replace("$", "$$")


def verbs_help(config: DictConfig | None = None) -> str:
    """Returns one line per verb: its name and the first sentence of its help, shortened to fit."""
    del config
    commands = all_verbs()
    limit = _WIDTH - max(map(len, commands)) - 4  # the margin, and two blanks between the columns
    return _columns([(name, command.get_short_help_str(limit)) for name, command in commands.items()])


def verb_names_help(config: DictConfig) -> str:
    """Returns the names of all verbs."""
    del config
    return click.wrap_text(", ".join(all_verbs()), _WIDTH, "  ", "  ")


def settings_help(config: DictConfig) -> str:
    """Returns one line per setting of `FIRST_SETTINGS`: its value and the first clause of its comment."""
    known = explained_settings()
    return _columns(
        [(f"{key}={_value_on_page(config, key)}", first_clause(known[key])) for key in FIRST_SETTINGS]
    )


def _value_on_page(config: DictConfig, key: str) -> str:
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


PARTS: dict[str, Callable[[DictConfig], str]] = {
    # The commands are spelled as this process was called.
    "header": lambda config: as_called(str(config.hydra.help.header)).rstrip(),
    "footer": lambda config: as_called(str(config.hydra.help.footer)).rstrip(),
    "common_settings": settings_help,
    "verb_names": verb_names_help,
    "verbs": verbs_help,
    "groups": groups_help,
}
"""PART of `${ltrbench_help:PART}` -> function of the whole configuration that returns its text."""


def _columns(rows: Sequence[tuple[str, str]]) -> str:
    formatter = click.HelpFormatter(width=_WIDTH)
    formatter.indent()
    formatter.write_dl(rows, col_max=_LEFT)
    return formatter.getvalue().rstrip()


# ---- Shell completion of the console script: verbs with their options, and Hydra's overrides.
#
# The verb `completion` prints the scripts that the shells run. Whenever the user presses tab, the script
# calls `ltrbench` with the words up to the cursor and with `_LTRBENCH_COMPLETE` set; `complete` prints one
# line per candidate: the word, a tab, a description. It imports no backend, so completion takes less than a
# second.
#
# Candidates for a verb come from click, those for overrides from Hydra, with the comments of conf/ beside
# them.

Candidate = tuple[str, str]
"""(whole word, description); the description may be empty."""


def complete(words: Sequence[str]) -> None:
    """Prints the candidates for the last word, which may be empty."""
    for word, description in candidates(list(words[:-1]), words[-1] if words else ""):
        click.echo(f"{word}\t{description}")


def candidates(before: list[str], word: str) -> Iterator[Candidate]:
    """Yields the words that complete `word`, given the words `before` it."""
    if before and find_verb(before[0]) is not None:
        yield from _of_verb(before, word)
    elif before and before[-1] in ("--config-dir", "-cd", "--config-path", "-cp"):
        yield from paths("", word)
    elif word.startswith("-"):
        yield from _flags(word)
    else:
        if before and before[-1] in ("--help", "-h"):
            yield from ((page, "") for page in MORE_PAGES if page.startswith(word))
        if not before:
            yield from _verbs(word)
        yield from _overrides(before, word)


def _of_verb(before: list[str], word: str) -> Iterator[Candidate]:
    # For --option=value click completes only the value.
    prefix = word[: word.find("=") + 1] if word.startswith("--") else ""
    for item in ShellComplete(verbs, {}, SCRIPT, "").get_completions(before, word):
        if item.type in ("file", "dir"):
            yield from paths(prefix, item.value)
        else:
            yield prefix + item.value, _first_sentence(item.help or "")


def _verbs(word: str) -> Iterator[Candidate]:
    for name, command in all_verbs().items():
        if name.startswith(word):
            yield name, command.get_short_help_str(limit=100)


def _flags(word: str) -> Iterator[Candidate]:
    for action in get_args_parser()._actions:
        for name in action.option_strings:
            if name.startswith(word) and name.startswith("--"):
                yield name, _first_sentence(action.help or "")


def _overrides(before: list[str], word: str) -> Iterator[Candidate]:
    """Yields the candidates of Hydra's own completion, and the names of a group after a comma, for sweeps."""
    arguments = get_args_parser().parse_known_intermixed_args(before)[0]
    given = [item for item in arguments.overrides if item not in MORE_PAGES]
    # Of each sweep the first value, because Hydra completes the keys of one composed configuration.
    words = [item if "[" in item else item.partition(",")[0] for item in given]
    listed, comma, _ = word.rpartition(",")
    key, given_value, value = word.partition("=")
    known = {} if given_value else explained_settings()
    with _configurations(arguments.config_dir) as loader:
        if comma:
            taken = listed.partition("=")[2].split(",")
            names = [name for name in choices(loader, key) if name not in taken]
            found = [f"{listed},{name}" for name in names]
        else:
            found = HydraCompletion(loader)._query("config", " ".join([*words, word]))
    for item in found:
        name, _, completed = item.partition("=")
        setting = known.get(name.lstrip("+").rstrip("."))
        if item.startswith(word) and not completed.startswith("_") and not name.endswith("_target_"):
            yield item, first_clause(setting) if setting else ""
    if given_value and not found:
        yield from paths(f"{key}=", value)


@contextlib.contextmanager
def _configurations(config_dir: str | None) -> Iterator[ConfigLoader]:
    """Yields the loader of the YAMLs of conf/ and --config-dir, configured as in `launch`."""
    register_schema()
    places = create_config_search_path(str(conf_dir()))
    if config_dir:
        # At Hydra's position: before the schema, which must be last.
        address = f"file://{Path(config_dir).expanduser().absolute()}"
        places.prepend("command-line", address, SearchPathQuery(provider="schema"))
    setbase("1.3")
    Hydra.create_main_hydra2(SCRIPT, places)
    try:
        yield GlobalHydra.instance().config_loader()
    finally:
        GlobalHydra.instance().clear()


def paths(prefix: str, value: str) -> Iterator[Candidate]:
    """Yields the files and folders that begin with `value`; a folder ends in a slash."""
    folder, slash, name = value.rpartition("/")
    place = Path(folder + slash).expanduser()
    if not place.is_dir():
        return
    for path in sorted(place.iterdir()):
        if path.name.startswith(name) and (name or not path.name.startswith(".")):
            yield f"{prefix}{folder}{slash}{path.name}{'/' if path.is_dir() else ''}", ""


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0]
