"""Building the objects that conf/ names: every `_target_` and its settings are checked."""

from __future__ import annotations

import pytest
from messages import naming
from omegaconf import OmegaConf

from ltrbench.config import build_tracker, find_class
from ltrbench.errors import ConfigError
from ltrbench.rankers import Ranker


def test_a_class_outside_the_environment_is_named() -> None:
    with pytest.raises(ConfigError, match=naming("'no_such_module.Ranker'", "module named 'no_such_module'")):
        find_class("no_such_module.Ranker", Ranker, "model")
    with pytest.raises(ConfigError, match=naming("ltrbench.rankers.random", "'Randm'")):
        find_class("ltrbench.rankers.random.Randm", Ranker, "model")
    for target in ("pathlib.Path", "ltrbench.rankers.base.BoostingRanker", "ltrbench.data.RankingDataset"):
        with pytest.raises(ConfigError, match=naming("model._target_", f"'{target}'", "dataclass", "Ranker")):
            find_class(target, Ranker, "model")


@pytest.mark.parametrize("name", ["a/b", "a:b", "", " "])
def test_a_name_that_no_registry_takes_is_refused_before_any_work(name: str) -> None:
    tracking = {"_target_": "ltrbench.tracking.mlflow.MLflowTracker"}
    with pytest.raises(
        ConfigError, match=naming("register", f"'{name}'", "without / and :", "register=shop")
    ):
        build_tracker(OmegaConf.create({"tracking": tracking, "register": name}))
    assert build_tracker(OmegaConf.create({"tracking": tracking, "register": "web shop"}))
