"""Error messages about composing a configuration: one paragraph instead of Hydra's text, with the remedy.

Each private function below handles one kind of Hydra's messages and returns None for all others. To handle
another kind, write a function and add it to `_KINDS`.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable

from hydra.errors import OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from ltrbench.conf_folder import conf_dir, settings_in
from ltrbench.config import Config
from ltrbench.errors import did_you_mean

# Beginnings of lines in Hydra's messages that describe only Hydra's internal state.
_LINES_OF_HYDRA = ("object_type=", "reference_type=", "full_key:")

# Hydra's plug-ins: config group -> YAML -> the package that contains it.
_PLUGINS = {
    "hydra/sweeper": {
        "ax": "hydra-ax-sweeper",
        "nevergrad": "hydra-nevergrad-sweeper",
        "optuna": "hydra-optuna-sweeper",
    },
    "hydra/job_logging": {"colorlog": "hydra-colorlog"},
    "hydra/hydra_logging": {"colorlog": "hydra-colorlog"},
}


def composition_message(error: BaseException) -> str:
    """Returns the cause of a composition error and its remedy, in one paragraph."""
    for kind in _KINDS:
        message = kind(error, str(error))
        if message is not None:
            return message
    messages = [str(error)]
    if error.__cause__ is not None and str(error.__cause__) not in messages[0]:
        messages.append(str(error.__cause__))
    lines = [line.strip() for message in messages for line in message.splitlines()]
    before_path = itertools.takewhile(lambda line: not line.startswith("Config search path:"), lines)
    text = " ".join(line for line in before_path if line and not line.startswith(_LINES_OF_HYDRA))
    return text if text.endswith(".") else f"{text}."


def launcher_message(name: str) -> str:
    """Returns the message about a launcher of Hydra, installed or not."""
    return (
        f"hydra/launcher={name} has no effect, because executors run the jobs. Set executor=processes, or "
        "executor=dask for a cluster."
    )


def unwritable_message(error: OSError) -> str:
    """Returns the message about the folder of a run or a sweep that cannot be created or written."""
    return (
        f"{error.filename} cannot be written ({error.strerror}). Name another folder with hydra.run.dir=... "
        "for a run or hydra.sweep.dir=... for a sweep, or start the command in a writable folder."
    )


def _several_values(error: BaseException, text: str) -> str | None:
    match = re.search(r"Ambiguous value for argument '(.*?)'\n", text) or re.search(
        r"Sweep parameters '(.*)' requires --multirun", text
    )
    if match is None:
        return None
    key, _, values = match[1].partition("=")
    as_list = f" For one run with a list, write '{key}=[{values}]'." if "(" not in values else ""
    return f"{match[1]} gives {key} several values; add -m to run one job per value.{as_list}"


def _unreadable_override(error: BaseException, text: str) -> str | None:
    if not isinstance(error, OverrideParseException):
        return None
    reason = re.sub(r"^Error parsing override '.*'$", "", text.splitlines()[0]) or text.splitlines()[1]
    if reason.startswith("LexerNoViableAltException"):
        reason = "a quote is not closed, or a character must be quoted"
    return (
        f"the override {error.override} cannot be parsed ({reason.strip().rstrip('.')}). Write key=value and "
        "close every bracket and quote. For the shell, quote the whole override, as in "
        "'metrics=[ndcg@10,map]'; quote a value with blanks, commas, = or brackets a second time, as in "
        "\"data.train='my file.txt'\"."
    )


def _missing_yaml(error: BaseException, text: str) -> str | None:
    match = re.search(r"Could not find '([\w/]+)/(\w*)'", text)
    if match is None:
        return None
    group, name = match[1], match[2]
    if group == "hydra/launcher":
        return launcher_message(name)
    package = _PLUGINS.get(group, {}).get(name)
    if package is not None:
        return (
            f"{group}={name} needs a plug-in of Hydra that is not installed. Run pip install {package}, or "
            f"leave out {group}={name}."
        )
    options = [option for option in getattr(error, "options", None) or () if not option.startswith("_")]
    plugins = _PLUGINS.get(group, {})
    installable = f" With a plug-in also {', '.join(sorted(plugins))}." if plugins else ""
    meant = did_you_mean(name, [*options, *plugins])
    return f"there is no {group} '{name}'{meant} The choices are {', '.join(options)}.{installable}"


def _missing_key(error: BaseException, text: str) -> str | None:
    match = re.search(r"Could not (?:override|delete from config\.) '([^']+)'", text) or re.search(
        r"Override \W*([^= ]+).* looks like a config group override", text
    )
    if match is None:
        return None
    key = match[1]
    parent, _, name = key.rpartition(".")
    known = _known_keys(error, parent)
    if "/" in key or "@" in key:
        groups = sorted(path.name for path in conf_dir().iterdir() if path.is_dir())
        return f"there is no group '{key}'{did_you_mean(key, groups)} The groups are {', '.join(groups)}."
    hint = f" To add a parameter of the library itself, write +{key}=VALUE." if ".extra" in parent else ""
    # The key itself may be correct, and a key above it misspelt.
    missing = re.search(r"Key '([^']+)' (?:not in|is not in)", str(error.__cause__))
    wrong = name if missing is None else missing[1]
    from ltrbench.data.formats.reading import remedy_of_store  # takes a quarter of a second

    owner = _owner_of_keys(error)
    of_store = remedy_of_store(name) if owner == "StoreFiles" else ""
    # A sweep over models sets the key in all of them.
    lacking = f" {owner} has no such setting." if owner and not of_store else ""
    of_others = _choices_with(parent, name) if owner and not of_store else ""
    return f"there is no key {key}{of_store or did_you_mean(wrong, known)}{lacking}{of_others}{hint}"


_PLACES = ("distributed", "executor", "tracking")
"""Groups that a user may set a key of before choosing another file than the default."""


def _choices_with(group: str, name: str) -> str:
    """Returns a sentence with the choices of a group that have a key; empty if there are none."""
    if group not in _PLACES:
        return ""
    paths = sorted(conf_dir().glob(f"{group}/[!_]*.yaml"))
    choices = [f"{group}={path.stem}" for path in paths if name in settings_in(group, path.stem)]
    return f" It belongs to {' and '.join(choices)}." if choices else ""


def _owner_of_keys(error: BaseException) -> str | None:
    """Returns the name of the class that lacks the key; None if it is not a class."""
    node = getattr(error.__cause__, "parent_node", None)
    target = node.get("_target_") if isinstance(node, DictConfig) else None
    return None if target is None else str(target).rpartition(".")[2]


def _known_keys(error: BaseException, parent: str) -> Iterable[str]:
    """Returns the existing keys of the node in which a key was not found."""
    node = getattr(error.__cause__, "parent_node", None)
    if isinstance(node, DictConfig) and len(node) > 0:
        return [str(key) for key in node]
    return [] if parent else [item.name for item in dataclasses.fields(Config)]


def _present_key(error: BaseException, text: str) -> str | None:
    match = re.search(r"Could not append to config. An item is already at '([^']+)'", text)
    if match is None:
        return None
    return f"{match[1]} already exists; leave out the +, as in {match[1]}=VALUE."


def _wrong_value(error: BaseException, text: str) -> str | None:
    match = re.search(r"Error merging override (.*)", text)
    if match is None or not isinstance(error.__cause__, OmegaConfBaseException):
        return None
    override = match[1].strip()
    reason = str(error.__cause__).splitlines()[0].rstrip(".")
    if "is not a subclass of" in reason:
        key = override.partition("=")[0]
        return (
            f"{override}: {key} contains other keys; set one of them, as in {key}.KEY=VALUE, or {key}=null."
        )
    return f"{override}: {reason}."


_KINDS: tuple[Callable[[BaseException, str], str | None], ...] = (
    _several_values,
    _unreadable_override,
    _missing_yaml,
    _missing_key,
    _present_key,
    _wrong_value,
)
