"""Spaces: the shipped YAMLs for every model, ranges from the configuration, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from messages import naming

from ltrbench.conf_folder import conf_dir
from ltrbench.config import build, register_schema, resolved
from ltrbench.errors import ConfigError
from ltrbench.rankers import Ranker
from ltrbench.rankers.native import NativeRanker
from ltrbench.search.base import Search
from ltrbench.search.grid import FullGrid
from ltrbench.search.halving import SuccessiveHalving
from ltrbench.search.random import RandomSearch
from ltrbench.search.space import Range, Space, settings_of
from ltrbench.search.tpe import TpeSearch

SHARED = ("learning_rate", "num_leaves", "min_docs_in_leaf", "min_sum_hessian", "l2", "truncation")
NATIVE = ("split_criterion", "sigma", "queries_per_tree", "features_per_tree")
RATE = {"low": 0.02, "high": 0.3, "log": True}


def composed(*overrides: str) -> dict[str, Any]:
    register_schema()
    with initialize_config_dir(str(conf_dir()), version_base=None):
        return resolved(compose("config", list(overrides)))


def searched(space: dict[str, Any], **settings: Any) -> Search:
    target = "ltrbench.search.random.RandomSearch"
    return build({"search": {"_target_": target, "space": space, **settings}}, "search", Search)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("random", RandomSearch), ("tpe", TpeSearch), ("grid", FullGrid), ("halving", SuccessiveHalving)],
)
def test_the_yaml_of_a_search_has_every_field_and_its_default(name: str, kind: type[Search]) -> None:
    config = composed(f"search={name}", "seed=7")
    search = build(config, "search", Search)
    assert type(search) is kind
    assert search == kind(space=search.space, seed=7)
    assert set(config["search"]) - {"_target_"} == set(vars(search))


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("native", (*SHARED, *NATIVE)),
        ("native_best", SHARED),
        ("lightgbm", SHARED),
        ("xgboost", [name for name in SHARED if name != "min_docs_in_leaf"]),
        ("catboost", ["learning_rate", "num_leaves", "truncation"]),
        ("random", []),
    ],
)
def test_every_model_varies_the_settings_that_it_has(model: str, names: list[str]) -> None:
    config = composed(f"model={model}", "search=random", "search/space=native")
    ranker = build(config, "model", Ranker)
    space = build(config, "search", Search).space.of(model, ranker)
    assert list(space) == list(names)
    assert settings_of(ranker, space) == {name: getattr(ranker, name) for name in names}


def test_the_shared_space_has_whole_numbers_where_the_setting_has() -> None:
    space = build(composed("search=random"), "search", Search).space
    assert not space.models
    assert [name for name, values in space.shared.items() if values.is_integer] == [
        "num_leaves",
        "min_docs_in_leaf",
        "truncation",
    ]
    assert all(values.log for values in space.shared.values())


def test_ranges_of_a_configuration_keep_their_types() -> None:
    ranges = {
        "num_leaves": {"low": 4, "high": 8},
        "learning_rate": {"low": 1, "high": 2.0},
        "l2": {"values": [0, 0.5, None]},
    }
    of_native = {"sigma": RATE, "gain": {"values": ["linear"]}}
    space = searched({"shared": ranges, "models": {"native": of_native}}).space
    assert space.shared["num_leaves"].is_integer
    assert not space.shared["learning_rate"].is_integer
    assert repr(space.shared["l2"].values) == "[0, 0.5, None]"
    assert space.models == {"native": {"sigma": Range(0.02, 0.3, True), "gain": Range(values=["linear"])}}


@pytest.mark.parametrize(
    ("space", "parts"),
    [
        ({"sharde": {}}, ("search", "space", "sharde")),
        ({"shared": {"learning_rat": RATE}}, ("search.space.shared.learning_rat", "learning_rate")),
        ({"shared": {"sigma": RATE}}, ("search.space.shared.sigma", "search.space.models.MODEL.sigma")),
        ({"shared": {"l2": {"lo": 1}}}, ("search.space.shared.l2.lo",)),
        ({"shared": {"l2": {"low": "x", "high": 1}}}, ("search.space.shared.l2.low", "'x'")),
        ({"shared": {"l2": {"low": 1}}}, ("search.space.shared.l2.high", "low and high")),
        ({"shared": {"l2": {"low": 2, "high": 1}}}, ("search.space.shared.l2", "2 to 1", "low below high")),
        ({"shared": {"l2": {"low": 1, "high": 1}}}, ("search.space.shared.l2", "1 to 1")),
        ({"shared": {"l2": {"low": 0, "high": 1, "log": True}}}, ("shared.l2.low", "is 0", "log=false")),
        ({"shared": {"l2": {"low": 0, "high": float("inf")}}}, ("shared.l2.high", "inf", "a number")),
        ({"shared": {"l2": {"values": []}}}, ("search.space.shared.l2.values", "[]")),
        ({"shared": {"l2": {"values": [[1]]}}}, ("search.space.shared.l2.values", "[1]")),
        ({"shared": {"l2": {"values": [1], "low": 1}}}, ("search.space.shared.l2", "values", "leave out")),
        ({"models": {"native": {"sigma": {"lwo": 1}}}}, ("search.space.models.native.sigma.lwo", "'low'")),
        ({"models": {"native": {"sigma": {"low": "x"}}}}, ("search.space.models.native.sigma.low", "'x'")),
        ({"models": {"native": {"sigma": {"low": 1, "high": True}}}}, ("models.native.sigma.high", "True")),
        ({"models": {"native": {"sigma": {"values": 3}}}}, ("search.space.models.native.sigma.values", "3")),
        ({"models": {"native": {"sigma": 3}}}, ("search.space.models.native", "3")),
        ({"models": {"native": 3}}, ("search.space.models.native", "3")),
    ],
)
def test_a_wrong_space_is_refused_at_its_place(space: dict[str, Any], parts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        searched(space)


def test_a_setting_that_a_model_does_not_have_is_refused() -> None:
    ranker = build(composed("model=native"), "model", Ranker)
    with pytest.raises(ConfigError, match=naming("search.space.models.native.sigmaa", "'sigma'")):
        Space(models={"native": {"sigmaa": Range(1, 2)}}).of("native", ranker)
    with pytest.raises(ConfigError, match=naming("sigma", "0.0")):
        Space(models={"native": {"sigma": Range(0.0, 2.0)}}).of("native", ranker)


@pytest.mark.parametrize(
    ("name", "values", "parts"),
    [
        ("num_leaves", Range(4.0, 64), ("4.0 to 64", "int", "whole numbers")),
        ("num_leaves", Range(1, 64), ("num_leaves contains 1", "at least 2")),
        ("num_leaves", Range(values=[8, 16.0]), ("num_leaves contains 16.0", "int")),
        ("l2", Range(values=["high"]), ("l2 contains 'high'", "float")),
        ("l2", Range(values=[True, False]), ("l2 contains True", "float")),
    ],
)
def test_a_range_that_does_not_fit_its_setting_is_refused_instead_of_left_out(
    name: str, values: Range, parts: tuple[str, ...]
) -> None:
    for space in (Space(shared={name: values}), Space(models={"native": {name: values}})):
        with pytest.raises(ConfigError, match=naming("search.space", *parts)):
            space.of("native", NativeRanker())


def test_whole_numbers_and_null_are_values_of_a_setting_that_takes_them() -> None:
    ranges = {"l2": Range(0, 5), "learning_rate": Range(values=[1, 0.5, None])}
    assert Space(shared=ranges).of("native", NativeRanker()) == ranges


@pytest.mark.parametrize("name", ["seed", "num_threads"])
def test_a_search_varies_hyperparameters_only(name: str) -> None:
    with pytest.raises(ConfigError, match=naming(f"search.space.models.native.{name}")):
        Space(models={"native": {name: Range(1, 3)}}).of("native", NativeRanker())


def test_a_misspelt_field_of_a_search_is_refused() -> None:
    with pytest.raises(ConfigError, match=naming("search.pruninng", "'pruning'")):
        searched({}, pruninng="median")
    with pytest.raises(ConfigError, match=naming("search.choose", "'per_fodl'", "'per_fold'")):
        searched({}, choose="per_fodl")
