"""Rejects keys that nothing reads, because a setting without effect silently makes a comparison wrong."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Any

from omegaconf import Container, DictConfig, ListConfig, Node, OmegaConf

from ltrbench.errors import ConfigError, did_you_mean

# hydra/env is a config group of Hydra, but not a field of its HydraConf.
_UNTYPED_KEYS_OF_HYDRA = ("env",)

# `study` is a plain dict; `run_study` reads these keys.
_STUDY_KEYS = ("what", "models", "data")


def check_keys(config: DictConfig, hydra: DictConfig) -> None:
    """Rejects a key that nothing reads, and the deletion of a key that is read.

    `+key=value` adds a key to any node, whatever the type of the node. `build` checks the keys of a model, a
    data set or a tracker against the fields of its class; this function checks all other keys. A key counts
    as read if an interpolation names it.

    Args:
        config: the configuration of a job, without Hydra's node.
        hydra: Hydra's node, whose interpolations also read keys of the job.

    Raises:
        ConfigError: A key is not read, or was deleted. The message suggests the closest known key.
    """
    nodes = (config, hydra)
    for path, kind, keys in (*_typed_nodes(config, ""), *_typed_nodes(hydra, "hydra.")):
        known = [item.name for item in dataclasses.fields(kind)]
        for key in set(keys).difference(known, _UNTYPED_KEYS_OF_HYDRA):
            if not any(_reads(node, f"{path}{key}") for node in nodes):
                raise ConfigError(_unread(path, key, known))
        # Hydra itself deletes keys of its node that it no longer needs.
        for key in set(known).difference(keys) if not path.startswith("hydra.") else ():
            raise ConfigError(f"{path}{key} was deleted, but it is required; leave out ~{path}{key}.")
    for key in set(config.study or ()).difference(_STUDY_KEYS):
        raise ConfigError(_unread("study.", str(key), _STUDY_KEYS))


def _unread(path: str, key: str, known: Iterable[str]) -> str:
    """Returns the error message about a key that nothing reads."""
    extra = ", or set a parameter of the library with +model.extra.NAME=VALUE" if path == "params." else ""
    return f"{path}{key} is set, but nothing reads it{did_you_mean(key, known)} Leave it out{extra}."


def _typed_nodes(node: DictConfig, path: str) -> Iterator[tuple[str, type[Any], list[str]]]:
    """Yields (path with its final dot, dataclass, keys) of a node and of all nodes below it with a
    dataclass."""
    kind = OmegaConf.get_type(node)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return
    yield path, kind, [str(key) for key in iter(node)]
    for key, item in node.items_ex(resolve=False):
        if isinstance(item, DictConfig) and not _is_special(item):
            yield from _typed_nodes(item, f"{path}{key!s}.")


def _is_special(node: Container) -> bool:
    """Returns whether a node has no items: it is null, missing, or an interpolation."""
    return node._is_none() or node._is_missing() or node._is_interpolation()


def _reads(node: Any, name: str) -> bool:
    """Returns whether an interpolation in or below the node names the key, absolutely or relatively."""
    if isinstance(node, DictConfig | ListConfig) and not _is_special(node):
        keys: Iterable[Any] = node if isinstance(node, DictConfig) else range(len(node))
        return any(_reads(node._get_node(key), name) for key in keys)
    value = node._value() if isinstance(node, Node) else None
    if not (isinstance(value, str) and "${" in value):
        return False
    last = re.escape(name.rpartition(".")[2])
    return re.search(rf"(?<![\w.])({re.escape(name)}|\.+{last})(?!\w)", value) is not None
