"""Shell completion of the console script: verbs with their options, and Hydra's overrides.

The verb `completion` prints the scripts that the shells run. Whenever the user presses tab, the script calls
`ltrbench` with the words up to the cursor and with `_LTRBENCH_COMPLETE` set; `complete` prints one line per
candidate: the word, a tab, a description. It imports no backend, so completion takes less than a second.

Candidates for a verb come from click. Keys of overrides come from the configuration composed from the words
before the cursor, so `model=lightgbm model.` completes the fields of LightGBM. Names of a config group are
also completed after a comma, for sweeps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from click.shell_completion import ShellComplete
from hydra import compose
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.version import setbase
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ltrbench.cli.help.page import choices
from ltrbench.cli.help.settings import explained_settings, first_clause
from ltrbench.cli.hydra_internals import Hydra, create_config_search_path, get_args_parser
from ltrbench.cli.program import SCRIPT
from ltrbench.cli.verbs import all_verbs, find_verb, verbs
from ltrbench.conf_folder import conf_dir
from ltrbench.config import register_schema

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
    """Yields keys before the equals sign, and values after it."""
    arguments = get_args_parser().parse_known_intermixed_args(before)[0]
    with _configurations(arguments.config_dir) as loader:
        mark = word[: len(word) - len(word.lstrip("+~"))]
        key, given, value = word.lstrip("+~").partition("=")
        groups = [group for group in loader.list_groups("") if group != "hydra"]
        if given and key in groups:
            yield from _names(loader, mark, key, value)
            return
        config = _composed(arguments.overrides)
        if given:
            yield from _values(config, mark, key, value)
        else:
            yield from _keys(config, groups, mark, key)


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


def _names(loader: ConfigLoader, mark: str, group: str, value: str) -> Iterator[Candidate]:
    """Yields the names of a group; a sweep lists several, separated by commas, each at most once."""
    given, comma, last = value.rpartition(",")
    taken = given.split(",")
    for name in choices(loader, group):
        if name.startswith(last) and name not in taken:
            yield f"{mark}{group}={given}{comma}{name}", ""


def _composed(overrides: Sequence[str]) -> DictConfig:
    """Composes the overrides, with the first value of each sweep; composes the defaults if that fails."""
    single = [item if "[" in item else item.partition(",")[0] for item in overrides]
    try:
        return compose("config", overrides=single, return_hydra_config=True)
    except (HydraException, OmegaConfBaseException):
        return compose("config", return_hydra_config=True)


def _keys(config: DictConfig, groups: Sequence[str], mark: str, key: str) -> Iterator[Candidate]:
    """Yields groups and keys, one level at a time: first `params.`, then `params.num_leaves=`."""
    known = explained_settings()
    above = key.rpartition(".")[0]
    node = OmegaConf.select(config, above) if above else config
    names = sorted(map(str, node)) if isinstance(node, DictConfig) else []
    for name in dict.fromkeys((*names, *([] if above else groups))):
        place = f"{above}.{name}" if above else name
        if not place.startswith(key) or name == "_target_":
            continue
        described = first_clause(known[place]) if place in known else ""
        is_node = isinstance(node, DictConfig) and name in node and OmegaConf.is_dict(node._get_node(name))
        if place in groups or not is_node:
            yield f"{mark}{place}=", described
        if is_node:
            yield f"{mark}{place}.", described


def _values(config: DictConfig, mark: str, key: str, value: str) -> Iterator[Candidate]:
    """Yields true and false for a Boolean key, else the current value and matching files."""
    above, _, name = key.rpartition(".")
    node = OmegaConf.select(config, above) if above else config
    # An interpolation has no fixed value to suggest.
    is_fixed = isinstance(node, DictConfig) and name in node and not OmegaConf.is_interpolation(node, name)
    known = OmegaConf.select(config, key) if is_fixed else None
    words = ["true", "false"] if isinstance(known, bool) else [] if known is None else [str(known)]
    for text in words:
        if text.startswith(value) and " " not in text:
            yield f"{mark}{key}={text}", "" if isinstance(known, bool) else "current value"
    if known is None or isinstance(known, str):
        yield from paths(f"{mark}{key}=", value)


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
