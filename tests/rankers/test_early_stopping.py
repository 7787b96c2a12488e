"""Early stopping, with scores given by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from messages import naming

from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError, DataError
from ltrbench.rankers import BoostingRanker, EarlyStopping, Monitor
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.mlp import MlpRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.xgboost import XGBoostRanker

# Two documents: the reciprocal rank is 1 if the second has the higher score, 1/2 if the first, 3/4 on a tie.
VALID = RankingDataset(
    features=np.zeros((2, 1), np.float32),
    labels=np.array([0.0, 1.0]),
    query_start=np.array([0, 2]),
)
BEST, MIDDLE, WORST = np.array([0.0, 1.0]), np.array([0.0, 0.0]), np.array([1.0, 0.0])


def watch(
    patience: int, *scores: np.ndarray, minimum: Sequence[list[float]] = ()
) -> tuple[Monitor, list[bool]]:
    monitor = Monitor(EarlyStopping("mrr", patience, minimum=list(minimum)), VALID)
    return monitor, [
        monitor.should_stop(number, None, item)
        for number, item in enumerate(scores, start=1)
    ]


def test_it_stops_when_patience_iterations_have_brought_nothing() -> None:
    monitor, stops = watch(2, MIDDLE, WORST, BEST, WORST, WORST)
    assert stops == [False, False, False, False, True]
    assert (monitor.best_iteration, monitor.best_value) == (3, 1.0)


def test_the_earliest_of_equal_iterations_is_the_best() -> None:
    monitor, stops = watch(3, BEST, BEST, BEST, BEST)
    assert monitor.best_iteration == 1
    assert stops == [False, False, False, True]


def test_without_a_rule_it_never_stops_and_a_rule_needs_a_validation_set() -> None:
    assert not Monitor(None, VALID).should_stop(1, None, BEST)
    for ranker in (
        NativeRanker(early_stopping=EarlyStopping("mrr")),
        LightGBMRanker(early_stopping=EarlyStopping("mrr")),
        MlpRanker(early_stopping=EarlyStopping("mrr")),
    ):
        with pytest.raises(ConfigError, match=naming("early_stopping", "valid")):
            ranker.fit(VALID)


def test_a_wrong_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match=naming("metric", "'ndgc@10'")):
        EarlyStopping("ndgc@10")
    with pytest.raises(
        ConfigError,
        match=naming("convention", "'ranklab'", "did you mean", "'ranklib'"),
    ):
        EarlyStopping(convention="ranklab")
    with pytest.raises(
        ConfigError,
        match=naming("early_stopping.patience", "is 0", "early_stopping=null"),
    ):
        EarlyStopping(patience=0)
    with pytest.raises(ConfigError, match=naming("'ndcg@10'", "EarlyStopping(")):
        Monitor("ndcg@10", VALID)  # type: ignore[arg-type]
    unlabelled = replace(VALID, labels=np.zeros(2))
    with pytest.raises(
        DataError, match=naming("mrr", "relevant", "early_stopping=None")
    ):
        Monitor(EarlyStopping("mrr", 1), unlabelled).should_stop(1, None, BEST)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [NativeRanker, LightGBMRanker, XGBoostRanker, CatBoostRanker]
)
def test_every_backend_ends_a_fit_below_its_minimum(
    kind: type[BoostingRanker], tmp_path: Path
) -> None:
    splits = Synthetic(name="synthetic", num_queries=60).load()
    rule = EarlyStopping(minimum=[[3, 0.0], [7, 1.1], [8, 1.1]])
    ranker = kind(
        num_trees=20,
        learning_rate=0.1,
        num_leaves=4,
        early_stopping=rule,
        num_threads=1,
    )
    curve: list[int] = []
    ranker.fit(
        splits.train, splits.valid, lambda iteration: curve.append(iteration.number)
    )
    free = replace(ranker, early_stopping=EarlyStopping(), num_trees=7).fit(
        splits.train, splits.valid
    )

    assert ranker.summary is not None
    assert free.summary is not None
    assert curve == list(range(1, 8))
    assert ranker.summary.num_iterations == 7
    assert ranker.summary.num_trees == free.summary.num_trees
    features = splits.test.features
    np.testing.assert_array_equal(ranker.predict(features), free.predict(features))
    ranker.save(tmp_path)
    np.testing.assert_array_equal(
        kind.load(tmp_path).predict(features), ranker.predict(features)
    )
