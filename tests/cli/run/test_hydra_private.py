"""Each private name of Hydra that ltrbench uses does what ltrbench expects of it."""

from __future__ import annotations

import omegaconf._utils
import pytest
import yaml  # type: ignore[import-untyped]
from hydra._internal.hydra import Hydra
from hydra._internal.utils import _run_hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import run_job
from omegaconf import OmegaConf
from paths import CONF

from ltrbench.cli import hydra_private
from ltrbench.cli.hydra_private import (
    BasicSweeper,
    apply_overrides,
    arguments_parser,
    composed_once,
    read_yaml_in_c,
    replace_sweeper,
    write_configs_with,
)


class Other(BasicSweeper):
    """Another class of sweepers, which Hydra finds by its name."""


def test_the_parser_separates_flags_from_overrides_on_both_sides() -> None:
    parsed = arguments_parser().parse_intermixed_args(["a=1", "-m", "b=2"])
    assert (parsed.overrides, parsed.multirun, parsed.help) == (
        ["a=1", "b=2"],
        True,
        False,
    )


def test_the_basic_sweeper_is_instantiated_from_the_replaced_class() -> None:
    name = f"{BasicSweeper.__module__}.{BasicSweeper.__name__}"
    settings = OmegaConf.create(
        {"_target_": name, "max_batch_size": None, "params": {"a": "1,2"}}
    )
    replace_sweeper(Other)
    try:
        sweeper = Plugins.instance()._instantiate(settings)
    finally:
        replace_sweeper(BasicSweeper)
    assert isinstance(sweeper, Other)
    assert sweeper._parse_config() == ["a=1,2"]
    parsed = OverridesParser.create().parse_overrides(["a=1,2", "b=3"])
    assert sweeper.split_arguments(parsed, None) == [[["a=1", "b=3"], ["a=2", "b=3"]]]


def test_a_job_writes_its_files_with_the_replaced_function() -> None:
    name = hydra_private._WRITES_CONFIGS
    before = run_job.__globals__[name]
    assert name in run_job.__code__.co_names

    def write(*_: object) -> None:
        """Writes nothing."""

    write_configs_with(write)
    try:
        assert run_job.__globals__[name] is write
    finally:
        write_configs_with(before)


def test_the_mode_of_a_command_is_known_without_its_configuration() -> None:
    name = hydra_private._FINDS_MODE
    before = getattr(Hydra, name)
    assert name in _run_hydra.__code__.co_names
    with composed_once():
        mode = getattr(Hydra, name)(None, config_name="config", overrides=[])
        assert mode is None
    assert getattr(Hydra, name) is before


def test_overrides_set_add_and_delete_values() -> None:
    config = OmegaConf.create({"a": 1, "b": {"c": 2}})
    OmegaConf.set_struct(config, True)
    lines = ["a=3", "+b.d=4", "~b.c"]
    apply_overrides(OverridesParser.create().parse_overrides(lines), config)
    assert config == {"a": 3, "b": {"d": 4}}


def test_every_yaml_has_the_same_content_with_libyaml() -> None:
    texts = [path.read_text() for path in sorted(CONF.rglob("*.yaml"))]
    texts.append("a: [1e3, 2026-01-31, on, ~, 'x', 0x10]")
    before = hydra_private._loader_of_omegaconf
    read_yaml_in_c()
    try:
        loader = getattr(omegaconf._utils, hydra_private._LOADER_OF_YAML)()
        assert issubclass(loader, yaml.cyaml.CParser)
        for text in texts:
            expected = yaml.load(text, Loader=before())
            assert yaml.load(text, Loader=loader) == expected
            assert OmegaConf.create(text) == OmegaConf.create(expected)
        with pytest.raises(yaml.YAMLError, match="duplicate"):
            OmegaConf.create("a: 1\na: 2")
    finally:
        setattr(omegaconf._utils, hydra_private._LOADER_OF_YAML, before)
