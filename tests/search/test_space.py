"""Spaces: the shipped YAMLs for every model, ranges from the configuration, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from messages import naming

from ltrbench.config import build, register_schema, resolved
from ltrbench.errors import ConfigError
from ltrbench.folders import conf_dir
from ltrbench.rankers import Ranker
from ltrbench.rankers.native import NativeRanker
from ltrbench.search import Range, Search, settings_of

SHARED = ("learning_rate", "num_leaves", "min_docs_in_leaf", "min_sum_hessian", "l2", "truncation")
NATIVE = ("split_criterion", "sigma", "queries_per_tree", "features_per_tree")
RATE = {"low": 0.02, "high": 0.3, "log": True}


def composed(*overrides: str) -> dict[str, Any]:
    register_schema()
    with initialize_config_dir(str(conf_dir()), version_base=None):
        return resolved(compose("config", list(overrides)))


def searched(space: dict[str, Any], **settings: Any) -> Search:
    target = "ltrbench.search.RandomSearch"
    return build({"search": {"_target_": target, "space": space, **settings}}, "search", Search)


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


def of_native(name: str, values: Any) -> dict[str, Any]:
    return {"models": {"native": {name: values}}}


def shared(name: str, values: Any) -> dict[str, Any]:
    return {"shared": {name: values}}


@pytest.mark.parametrize(
    ("space", "parts"),
    [
        ({"sharde": {}}, ("search", "space", "sharde")),
        (shared("learning_rat", RATE), ("search.space.shared.learning_rat", "learning_rate")),
        (shared("sigma", RATE), ("search.space.shared.sigma", "search.space.models.MODEL.sigma")),
        (shared("l2", {"lo": 1}), ("search.space.shared.l2.lo",)),
        (
            shared("l2", {"low": 2, "high": 1}),
            ("search.space.shared.l2", "low: 2, high: 1", "low below high"),
        ),
        (shared("l2", {"low": 0, "high": 1, "log": True}), ("shared.l2", "above 0 with log")),
        (shared("l2", {"values": []}), ("search.space.shared.l2", "not empty")),
        (of_native("sigma", {"lwo": 1}), ("search.space.models.native.sigma", "'lwo'", "low: ...")),
        (of_native("sigmaa", RATE), ("search.space.models.native.sigmaa", "'sigma'")),
        (of_native("sigma", {"low": 0.0, "high": 2.0}), ("sigma", "0.0")),
        (of_native("num_leaves", {"low": 4.0, "high": 64}), ("contains 4.0", "int", "hole numbers")),
        (shared("num_leaves", {"low": 1, "high": 64}), ("num_leaves contains 1", "at least 2")),
        (of_native("l2", {"values": [True, False]}), ("l2 contains True", "float")),
    ],
)
def test_a_wrong_space_is_refused_at_its_place(space: dict[str, Any], parts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        searched(space).space.of("native", NativeRanker())
