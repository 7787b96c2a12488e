"""A setting is declared once: what its declaration brings, and that the engine is given its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from ltrbench.errors import ConfigError
from ltrbench.native.boosting import BoostingSettings
from ltrbench.native.settings import changed, check, check_effects, part, setting
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.native.settings import engine_settings


@dataclass(kw_only=True)
class Options:
    shape: str = setting("round", choices=("round", "square"))
    weight: float = setting(1.0, above=0)
    corners: int = setting(4, at_least=3, at_most=8, only_with={"shape": ("square",)})
    depth: float | None = setting(None, above=0)
    names: dict[str, int] = setting({})


class Kernel(NamedTuple):
    weight: float
    corners: int
    depth: float = 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(shape="sqare"), "shape is 'sqare'; did you mean 'square'. It must be one of round, square"),
        (Options(weight=0.0), "weight is 0.0; it must be more than 0"),
        (Options(corners=9), "corners is 9; it must be at least 3 and at most 8"),
    ],
)
def test_a_value_out_of_the_declared_range_is_refused(options: Options, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(options)


def test_a_setting_without_effect_is_refused_with_both_remedies() -> None:
    check_effects(Options(shape="square", corners=5), {"shape": "square"})
    check_effects(Options(), {"shape": "round"})
    with pytest.raises(ConfigError, match=r"corners is 5.* shape=round; set corners=4, or shape to square"):
        check_effects(Options(corners=5), {"shape": "round"})


def test_the_engine_is_given_values_by_name_and_of_the_declared_type() -> None:
    kernel = part(Options(weight=2), Kernel)
    assert kernel == (2.0, 4, 0.5)
    assert isinstance(kernel.weight, float)
    assert isinstance(kernel.corners, int)
    assert part(Options(depth=3), Kernel, corners=6) == (1.0, 6, 3.0)
    numbers: tuple[Any, ...] = (np.float32(2), np.float64(2), np.int64(2))
    for number in numbers:
        assert type(part(Options(weight=number), Kernel).weight) is float
    with pytest.raises(AttributeError, match="no attribute 'weight'"):
        part(object(), Kernel)


def test_a_declared_dict_is_not_shared() -> None:
    Options().names["x"] = 1
    assert Options().names == {}


def test_changed_are_those_without_their_default() -> None:
    assert changed(Options(weight=2.0, corners=4), Options) == ["weight"]


def test_a_ranker_without_settings_is_the_engine_without_settings() -> None:
    assert engine_settings(NativeRanker()) == BoostingSettings()
