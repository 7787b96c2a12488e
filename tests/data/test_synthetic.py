"""Synthetic default data: reproducible, similar to web search, and hard enough to compare models."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
from messages import naming

from ltrbench.data import RankingDataset, Splits
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import LtrbenchError
from ltrbench.metrics import evaluate


@pytest.fixture(scope="module")
def splits() -> Splits:
    return Synthetic(name="synthetic").load()


def ndcg(data: RankingDataset, scores: np.ndarray) -> float:
    return evaluate(data, scores, ["ndcg@10"]).means["ndcg@10"]


def test_trees_beat_the_best_feature_and_that_beats_chance_and_all_by_far(splits: Splits) -> None:
    splits = splits.in_memory()  # LightGBM reads arrays
    train, valid, test = splits.train, splits.valid, splits.test
    assert valid is not None
    signed = [(sign, feature) for sign in (1, -1) for feature in range(train.num_features)]
    sign, feature = max(signed, key=lambda pair: ndcg(train, pair[0] * train.features[:, pair[1]]))
    single = ndcg(test, sign * test.features[:, feature])
    chance = np.mean(
        [ndcg(test, np.random.default_rng(seed).random(test.num_documents)) for seed in range(5)]
    )

    lgb_train = lightgbm.Dataset(train.features, train.labels, group=train.query_sizes)
    lgb_valid = lightgbm.Dataset(valid.features, valid.labels, group=valid.query_sizes, reference=lgb_train)
    booster = lightgbm.train(
        # One thread: LightGBM's spin while other processes use the cores.
        {"objective": "lambdarank", "num_leaves": 31, "eval_at": [10], "verbose": -1, "num_threads": 1},
        lgb_train,
        num_boost_round=300,
        valid_sets=[lgb_valid],
        callbacks=[lightgbm.early_stopping(50, verbose=False)],
    )
    trees = ndcg(test, np.asarray(booster.predict(test.features)))

    assert 40 <= booster.best_iteration <= 250  # long enough to compare speed, short enough for a demo
    assert 0.6 < trees < 0.8
    assert trees > single + 0.1
    assert single > chance + 0.1


def test_an_impossible_size_is_named() -> None:
    with pytest.raises(LtrbenchError, match=naming("1 queries", "data.test")):
        Synthetic(name="synthetic", num_queries=1).load()
