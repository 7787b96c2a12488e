"""Composes the configurations of a sweep's jobs like Hydra, but fast enough to check hundreds of jobs.

Hydra reads and merges every YAML again for each job. But the merge depends only on the chosen YAMLs; the
values of a job are set on its result. `Composer` therefore composes each combination of YAMLs once, and sets
and restores the values of each job.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import ConfigCompositionException
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf, ValueNode, flag_override
from omegaconf.errors import OmegaConfBaseException

from ltrbench.cli.hydra_internals import apply_overrides


@dataclass(frozen=True)
class Composed:
    """The configuration of a job without Hydra's node, and config group -> name of the chosen YAML."""

    config: DictConfig
    choices: dict[str, Any]


class Composer:
    """Composes the jobs of one sweep.

    Args:
        loader: the config loader of Hydra.
        master: the configuration with which the sweep was started, including Hydra's node.
    """

    def __init__(self, loader: ConfigLoader, master: DictConfig) -> None:
        self._loader = loader
        self._master = master
        self._name = master.hydra.job.config_name
        self._of_hydra: list[str] = plain_overrides(master.hydra.overrides.hydra)
        self._parser = OverridesParser.create()
        # Cached for the check of the whole sweep, because jobs share overrides and choices.
        self._parse = functools.cache(self._parse_override)
        self._is_group = functools.cache(self._has_yamls)
        self._compose = functools.cache(self._compose_choices)

    @contextlib.contextmanager
    def composed(self, overrides: Sequence[str]) -> Iterator[Composed]:
        """Yields the same configuration as `ConfigLoader.load_sweep_config`. It is valid only inside the
        block.

        Raises:
            HydraException: The overrides do not compose, as with `load_sweep_config`.
        """
        parsed = [self._parse(line) for line in overrides]
        choices = tuple(line for line, (_, chooses) in zip(overrides, parsed, strict=True) if chooses)
        chosen = self._compose(choices)
        with _values_set(chosen.config, [override for override, chooses in parsed if not chooses]) as config:
            OmegaConf.copy_cache(from_config=self._master, to_config=config)
            yield Composed(config, chosen.choices)

    def _parse_override(self, line: str) -> tuple[Override, bool]:
        """Returns the override, and whether it chooses a YAML or belongs to Hydra; the others set a value."""
        (override,) = self._parser.parse_overrides([line])
        if override.is_sweep_override() or override.is_hydra_override():
            return override, True
        return override, not isinstance(override.value(), dict) and self._is_group(override.key_or_group)

    def _has_yamls(self, key: str) -> bool:
        return bool(self._loader.get_group_options(key, None, self._name, self._of_hydra))

    def _compose_choices(self, choices: tuple[str, ...]) -> Composed:
        config = self._loader.load_configuration(self._name, [*self._of_hydra, *choices], RunMode.RUN)
        chosen = dict(config.hydra.runtime.choices)
        with flag_override(config, ["readonly", "struct"], False):
            del config["hydra"]
        return Composed(config, chosen)


def plain_overrides(overrides: ListConfig) -> list[str]:
    """Returns the overrides as typed, with interpolations unresolved."""
    lines = OmegaConf.to_container(overrides, resolve=False)
    assert isinstance(lines, list)
    return lines


@contextlib.contextmanager
def _values_set(config: DictConfig, overrides: list[Override]) -> Iterator[DictConfig]:
    """Yields the configuration with the values of the overrides set.

    If the overrides only replace plain values, they are set on `config` itself and restored after the block,
    because copying it takes longer than checking the job. Otherwise a copy is changed.
    """
    before = [_value_to_replace(config, override) for override in overrides]
    replaced = [value for value in before if value is not None]
    shared = len(replaced) == len(before)
    target = config if shared else copy.deepcopy(config)
    try:
        _set_values(target, overrides)
        yield target
    finally:
        for key, value in reversed(replaced) if shared else ():
            OmegaConf.update(config, key, value)


def _set_values(config: DictConfig, overrides: list[Override]) -> None:
    try:
        apply_overrides(overrides, config)
    except OmegaConfBaseException as error:
        # The same conversion as in load_configuration, whose callers handle only Hydra's errors.
        raise ConfigCompositionException from error


def _value_to_replace(config: DictConfig, override: Override) -> tuple[str, Any] | None:
    """Returns (key, uninterpolated value) if the override replaces one plain value by another, else None."""
    if override.type is not OverrideType.CHANGE or isinstance(override.value(), dict | list):
        return None
    path, _, name = override.key_or_group.rpartition(".")
    try:
        parent = OmegaConf.select(config, path) if path else config
        node = parent._get_node(name) if isinstance(parent, DictConfig) else None
    except OmegaConfBaseException:
        return None
    return (override.key_or_group, node._value()) if isinstance(node, ValueNode) else None
