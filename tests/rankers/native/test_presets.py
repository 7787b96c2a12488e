"""The presets of the native engine, conf/model/native_*.yaml, against the libraries that they follow.

RankLib's preset is tested in test_native_ranklib.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from messages import naming
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from ltrbench.config import build, register_schema
from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.folders import conf_dir
from ltrbench.native.objectives import prepare
from ltrbench.rankers.native import NativeRanker, objective_of

NAMES = ["lightgbm", "xgboost", "ranklib", "pyltr"]


def make(name: str, *overrides: str) -> NativeRanker:
    register_schema()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        choice = ["model=native_" + name, "early_stopping=null", *overrides]
        return build(compose("config", overrides=choice), "model", NativeRanker)


def made_up(seed: int = 0) -> RankingDataset:
    rng = np.random.default_rng(seed)
    query_start = np.concatenate([[0], np.cumsum(rng.integers(5, 40, 50))])
    features = rng.normal(size=(query_start[-1], 6)).astype(np.float32)
    utility = features[:, 0] + features[:, 1] * features[:, 2] + rng.normal(size=len(features))
    labels = np.digitize(utility, [0.0, 1.0, 2.0]).astype(np.float64)
    return RankingDataset(features=features, labels=labels, query_start=query_start)


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_from_python_equals_the_preset_of_the_command_line(name: str) -> None:
    assert NativeRanker.from_preset(name, num_trees=7, seed=3) == make(name, "params.num_trees=7", "seed=3")


def test_the_defaults_are_a_preset_and_an_unknown_preset_is_refused() -> None:
    assert NativeRanker.from_preset("native") == NativeRanker()
    with pytest.raises(ConfigError, match=naming("preset 'lightgmb'", "did you mean", "'lightgbm'")):
        NativeRanker.from_preset("lightgmb")


def test_native_pyltr_grows_the_trees_of_scikit_learn_on_its_lambdas() -> None:
    # As in pyltr: a regression tree of depth 3 on the lambdas, then sum lambda / sum weight in each leaf.
    data, num_trees = made_up(), 5
    objective = prepare(data, objective_of(make("pyltr")))
    scores = np.zeros(data.num_documents)
    for _ in range(num_trees):
        gradients, hessians = objective(scores, None, np.random.default_rng(0))
        tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(data.features, -gradients)
        leaf: NDArray[np.int64] = tree.apply(data.features)
        step = np.bincount(leaf, -gradients) / np.maximum(np.bincount(leaf, hessians), 1e-300)
        scores = scores + 0.1 * step[leaf]
    ours = make("pyltr", f"params.num_trees={num_trees}").fit(data).predict(data.features)
    np.testing.assert_allclose(ours, scores, rtol=0, atol=1e-9)
