"""Refuses keys that nothing reads: a setting without effect makes a comparison wrong without a message."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Any

from omegaconf import Container, DictConfig, ListConfig, Node, OmegaConf

from ltrbench.errors import ConfigError, did_you_mean

# hydra/env is a group of Hydra's, and no field of its HydraConf.
_UNTYPED_KEYS_OF_HYDRA = ("env",)

# `study` is a dict, whose keys `run_study` reads.
_STUDY_KEYS = ("what", "models", "data")


def check_keys(config: DictConfig, hydra: DictConfig) -> None:
    """Refuses a key that nothing reads, and the deletion of one that is read.

    `+key=value` adds a key to any node, whatever the node's type. Those of a model, a data set or a tracker
    are held to the fields of its class by `build`; these are the others. A key that an interpolation names is
    read.

    Args:
        config: a job's configuration, without Hydra's node.
        hydra: Hydra's node, whose interpolations read keys of a job too.

    Raises:
        ConfigError: with the key that was probably meant.
    """
    nodes = (config, hydra)
    for path, kind, keys in (*_typed_nodes(config, ""), *_typed_nodes(hydra, "hydra.")):
        known = [item.name for item in dataclasses.fields(kind)]
        for key in set(keys).difference(known, _UNTYPED_KEYS_OF_HYDRA):
            if not any(_reads(node, f"{path}{key}") for node in nodes):
                raise ConfigError(_unread(path, key, known))
        # Hydra itself deletes from its node what it has no more need of.
        for key in set(known).difference(keys) if not path.startswith("hydra.") else ():
            raise ConfigError(f"{path}{key} was deleted, but it is read; leave out ~{path}{key}.")
    for key in set(config.study or ()).difference(_STUDY_KEYS):
        raise ConfigError(_unread("study.", str(key), _STUDY_KEYS))


def _unread(path: str, key: str, known: Iterable[str]) -> str:
    """The message about a key that nothing reads."""
    extra = ", or give a library's own parameter as +model.extra.NAME=VALUE" if path == "params." else ""
    return f"{path}{key} is set, but nothing reads it{did_you_mean(key, known)} Leave it out{extra}."


def _typed_nodes(node: DictConfig, path: str) -> Iterator[tuple[str, type[Any], list[str]]]:
    """(path with its last dot, dataclass, keys) of a node and of those below it that have a dataclass."""
    kind = OmegaConf.get_type(node)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return
    yield path, kind, [str(key) for key in iter(node)]
    for key, item in node.items_ex(resolve=False):
        if isinstance(item, DictConfig) and not _is_special(item):
            yield from _typed_nodes(item, f"{path}{key!s}.")


def _is_special(node: Container) -> bool:
    """Whether a node has no items: it is null, to be given, or an interpolation."""
    return node._is_none() or node._is_missing() or node._is_interpolation()


def _reads(node: Any, name: str) -> bool:
    """Whether an interpolation in or below the node names a key, by its whole name or relative to itself."""
    if isinstance(node, DictConfig | ListConfig) and not _is_special(node):
        keys: Iterable[Any] = node if isinstance(node, DictConfig) else range(len(node))
        return any(_reads(node._get_node(key), name) for key in keys)
    value = node._value() if isinstance(node, Node) else None
    if not (isinstance(value, str) and "${" in value):
        return False
    last = re.escape(name.rpartition(".")[2])
    return re.search(rf"(?<![\w.])({re.escape(name)}|\.+{last})(?!\w)", value) is not None
