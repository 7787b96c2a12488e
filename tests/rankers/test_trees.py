"""The trees of models, and the command `trees` with its text, JSON and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming

from ltrbench.cli import main
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError
from ltrbench.experiment import Experiment, run
from ltrbench.models.trees import as_lines, as_nested
from ltrbench.rankers import Ensemble, InnerNode, Leaf, Ranker, WeightedTree
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.xgboost import XGBoostRanker

LARGEST = float(np.finfo(np.float32).max)
STUMP = InnerNode(1, 0.5, missing_left=False, left=Leaf(-0.25), right=Leaf(1.0))


def finished(ranker: Ranker, folder: Path) -> Path:
    kind = type(ranker)
    experiment = Experiment(
        model=kind.__name__,
        ranker=ranker,
        source=Synthetic(name="synthetic", num_queries=20),
        config={"model": {"_target_": f"{kind.__module__}.{kind.__name__}"}},
    )
    return run(experiment, folder).path


@pytest.fixture(scope="module")
def native_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(NativeRanker(num_trees=5, num_leaves=6), tmp_path_factory.mktemp("runs") / "native")


@pytest.fixture
def trees(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Returns a function that runs the command and returns its output."""

    def run(*words: str | Path) -> str:
        assert main(["trees", *map(str, words)]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    "ranker",
    [
        NativeRanker(num_trees=5),
        LightGBMRanker(num_trees=5, extra={"boosting": "rf"}, bagging_fraction=0.5, bagging_freq=1),
        XGBoostRanker(num_trees=5, learning_rate=0.3, num_leaves=7),
    ],
    ids=["native", "random forest", "xgboost"],
)
def test_leaf_values_times_weights_add_up_to_the_scores(
    ranker: Ranker, tmp_path: Path, trees: Callable[..., str]
) -> None:
    folder = finished(ranker, tmp_path / "run")
    features = Synthetic(name="synthetic", num_queries=20).load().test.features[:100]
    records = json.loads(trees(folder, "--json"))
    summed = [sum(tree["weight"] * value_of(tree, document) for tree in records) for document in features]
    expected = ranker.predict(features)
    np.testing.assert_allclose(summed, expected, rtol=0, atol=1e-6 if expected.dtype == np.float32 else 1e-12)


def value_of(node: dict[str, Any], document: np.ndarray) -> float:
    while "value" not in node:
        x = float(document[node["feature"]])
        side = node["missing"] if np.isnan(x) else "left" if x <= node["threshold"] else "right"
        node = node[side]
    return float(node["value"])


def test_trees_with_linear_models_in_their_leaves_are_refused() -> None:
    train = Synthetic(name="synthetic", num_queries=20).load().train
    with pytest.raises(ConfigError, match=naming("linear models", "Fit without extra.linear_tree")):
        LightGBMRanker(num_trees=3, extra={"linear_tree": True}).fit(train).trees()


def test_zeros_that_count_as_missing_are_shown() -> None:
    cut = replace(STUMP, zero_missing=True)
    trees = (WeightedTree(1.0, cut), WeightedTree(1.0, replace(cut, missing_left=True)))
    lines = list(as_lines(Ensemble(trees), ["a", "b"]))
    assert "b <= 0.5 and not 0" in lines
    assert "b <= 0.5 or 0 or missing" in lines
    assert [record["zero"] for record in as_nested(Ensemble(trees))] == ["missing", "missing"]


def test_text_shows_the_branch_of_missing_values_and_the_initial_score() -> None:
    missing = InnerNode(
        0, LARGEST, missing_left=False, left=replace(STUMP, missing_left=True), right=Leaf(-3)
    )
    trees = (WeightedTree(0.5, missing), WeightedTree(0.1, Leaf(0.0)))
    assert list(as_lines(Ensemble(trees, base_score=-0.5), ["clicks", "7"])) == [
        "initial score -0.5",
        "",
        "tree 1, weight 0.5",
        "clicks is not missing",
        "|- yes: feature 7 <= 0.5 or missing",
        "|  |- yes: -0.25",
        "|  `- no:  +1",
        "`- no:  -3",
        "",
        "tree 2, weight 0.1",
        "+0",
    ]
