"""Shell completion of the console script: verbs with their options, and Hydra's overrides.

The verb `completion` prints the scripts that the shells run. Whenever the user presses tab, the script calls
`ltrbench` with the words up to the cursor and with `_LTRBENCH_COMPLETE` set; `complete` prints one line per
candidate: the word, a tab, a description. It imports no backend, so completion takes less than a second.

Candidates for a verb come from click, those for overrides from Hydra.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from click.shell_completion import ShellComplete
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.version import setbase

from ltrbench.cli.console import SCRIPT
from ltrbench.cli.hydra_internals import (
    Hydra,
    HydraCompletion,
    create_config_search_path,
    get_args_parser,
)
from ltrbench.cli.verbs import all_verbs, find_verb, verbs
from ltrbench.conf_folder import conf_dir
from ltrbench.config import register_schema

MORE_PAGES = ("settings", "verbs")
"""Words after `--help`."""

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
    with _configurations(arguments.config_dir) as loader:
        if comma:
            taken = listed.partition("=")[2].split(",")
            found = [f"{listed},{name}" for name in loader.get_group_options(key) if name not in taken]
        else:
            found = HydraCompletion(loader)._query("config", " ".join([*words, word]))
    for item in found:
        name, _, completed = item.partition("=")
        if item.startswith(word) and not re.search(r"(^|,)_", completed) and not name.endswith("_target_"):
            yield item, ""
    if given_value and not found:
        yield from paths(f"{key}=", value)


@contextlib.contextmanager
def _configurations(config_dir: str | None) -> Iterator[ConfigLoader]:
    """Yields the loader of the YAMLs of conf/ and --config-dir, configured as in `launch`."""
    register_schema()
    search_path = create_config_search_path(str(conf_dir()))
    if config_dir:
        # At Hydra's position: before the schema, which must be last.
        address = f"file://{Path(config_dir).expanduser().absolute()}"
        search_path.prepend("command-line", address, SearchPathQuery(provider="schema"))
    setbase("1.3")
    Hydra.create_main_hydra2(SCRIPT, search_path)
    try:
        yield GlobalHydra.instance().config_loader()
    finally:
        GlobalHydra.instance().clear()


def paths(prefix: str, value: str) -> Iterator[Candidate]:
    """Yields the files and folders that begin with `value`; a folder ends in a slash."""
    folder, slash, name = value.rpartition("/")
    where = Path(folder + slash).expanduser()
    if not where.is_dir():
        return
    for path in sorted(where.iterdir()):
        if path.name.startswith(name) and (name or not path.name.startswith(".")):
            yield f"{prefix}{folder}{slash}{path.name}{'/' if path.is_dir() else ''}", ""


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0]
