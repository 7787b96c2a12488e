"""Declaration of settings: checks, documentation of effects, and conversion for the engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from messages import naming

from docs.settings import files, written
from ltrbench.errors import ConfigError
from ltrbench.settings import IS_ON, NOT_1, changed, check, check_effects, part, setting


@dataclass(kw_only=True)
class Options:
    shape: str = setting("round", choices=("round", "square"))
    weight: float = setting(1.0, above=0)
    corners: int = setting(4, at_least=3, at_most=8, only_with={"shape": ("square",)})
    depth: float | None = setting(None, above=0)
    is_filled: bool = setting(False)
    colour: str = setting("black", only_with={"is_filled": IS_ON})
    margin: int = setting(0, only_with={"weight": NOT_1._replace(others=("depth",))})
    names: dict[str, int] = setting({})


class Kernel(NamedTuple):
    weight: float
    corners: int
    depth: float = 0.5


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            Options(shape="sqare"),
            ("shape is 'sqare'", "mean 'square'", "round, square"),
        ),
        (Options(weight=0.0), ("weight is 0.0", "more than 0")),
        (Options(corners=9), ("corners is 9", "at least 3", "at most 8")),
    ],
)
def test_a_value_out_of_the_declared_range_is_refused(
    options: Options, parts: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        check(options)


def test_a_setting_without_effect_is_refused_with_both_remedies() -> None:
    check_effects(Options(shape="square", corners=5), {"shape": "square"})
    check_effects(Options(), {"shape": "round"})
    with pytest.raises(
        ConfigError,
        match=naming("corners is 5", "shape=round", "corners=4", "shape to square"),
    ):
        check_effects(Options(corners=5), {"shape": "round"})


@pytest.mark.parametrize(
    ("without", "needed", "parts"),
    [
        (
            {"colour": "red"},
            {"is_filled": True},
            ("colour is red", "is_filled=false", "colour=black", "is_filled to true"),
        ),
        (
            {"margin": 2, "depth": 1.0},
            {"weight": 2.0},
            ("margin is 2", "weight=1.0 and depth=1.0", "margin=0", "weight or depth"),
        ),
    ],
)
def test_a_setting_that_depends_on_a_number_or_a_switch_is_refused_without_it(
    without: dict[str, Any], needed: dict[str, Any], parts: tuple[str, ...]
) -> None:
    check_effects(Options(**{**without, **needed}), {})
    with pytest.raises(ConfigError, match=naming(*parts)):
        check_effects(Options(**without), {})


def test_the_engine_is_given_values_by_name_and_of_the_declared_type() -> None:
    kernel = part(Options(weight=2), Kernel)
    assert kernel == (2.0, 4, 0.5)
    assert isinstance(kernel.weight, float)
    assert isinstance(kernel.corners, int)
    assert part(Options(depth=3), Kernel, corners=6) == (1.0, 6, 3.0)
    numbers: tuple[Any, ...] = (np.float32(2), np.float64(2), np.int64(2))
    for number in numbers:
        assert type(part(Options(weight=number), Kernel).weight) is float
    with pytest.raises(AttributeError, match="weight"):
        part(object(), Kernel)


def test_changed_are_those_without_their_default() -> None:
    assert changed(Options(weight=2.0, corners=4), Options) == ["weight"]


@pytest.mark.slow
@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_the_yaml_has_the_defaults_and_documentation_of_the_class(path: Path) -> None:
    assert path.read_text() == written(path), "run `make settings`"
