"""Categorical features in the backends: the scores of the library itself, and saved models that know them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from shop_log import shop_log

from ltrbench.data import RankingDataset
from ltrbench.rankers import BoostingRanker
from ltrbench.rankers.base import check_saved
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.xgboost import XGBoostRanker

NUMBERS, CATEGORIES = ["text_match", "price", "rating"], ["brand", "category", "device"]


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    frame = shop_log(num_queries=100, num_brands=400)
    frame.loc[::7, "brand"] = None
    return frame.astype(dict.fromkeys(CATEGORIES, "category"))


@pytest.fixture(scope="module")
def train(log: pd.DataFrame) -> RankingDataset:
    return RankingDataset.from_frame(log, features=[*NUMBERS, *CATEGORIES], categorical=CATEGORIES)


def as_numbers_32(log: pd.DataFrame) -> pd.DataFrame:
    return log[[*NUMBERS, *CATEGORIES]].astype(dict.fromkeys(NUMBERS, np.float32))


def scores_of_lightgbm(
    ranker: BoostingRanker, log: pd.DataFrame, sizes: NDArray[np.int64]
) -> NDArray[np.floating]:
    import lightgbm as lgb

    parameters = ranker.library_parameters()
    data = lgb.Dataset(as_numbers_32(log), log.label, group=sizes, params=parameters)
    return np.asarray(lgb.train(parameters, data, ranker.num_trees).predict(as_numbers_32(log)))


def scores_of_xgboost(
    ranker: BoostingRanker, log: pd.DataFrame, sizes: NDArray[np.int64]
) -> NDArray[np.floating]:
    import xgboost as xgb

    data = xgb.QuantileDMatrix(as_numbers_32(log), log.label, group=sizes, enable_categorical=True)
    booster = xgb.train(ranker.library_parameters(), data, ranker.num_trees)
    return booster.predict(data, output_margin=True)


def scores_of_catboost(
    ranker: BoostingRanker, log: pd.DataFrame, sizes: NDArray[np.int64]
) -> NDArray[np.floating]:
    import catboost as cb

    texts = {name: log[name].astype(object).fillna("missing") for name in CATEGORIES}
    features = as_numbers_32(log).assign(**texts)
    pool = cb.Pool(
        features, log.label, cat_features=CATEGORIES, group_id=np.repeat(np.arange(len(sizes)), sizes)
    )
    model = cb.CatBoost({**ranker._parameters(1.0)}).fit(pool)  # type: ignore[attr-defined]
    return np.asarray(model.predict(features))


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (LightGBMRanker, scores_of_lightgbm),
        (XGBoostRanker, scores_of_xgboost),
        (CatBoostRanker, scores_of_catboost),
    ],
)
def test_scores_equal_those_of_the_library_to_the_bit(
    kind: type[BoostingRanker],
    plain: Callable[..., NDArray[np.floating]],
    log: pd.DataFrame,
    train: RankingDataset,
    tmp_path: Path,
) -> None:
    ranker = kind(num_trees=10, learning_rate=0.1, num_leaves=15, num_threads=2)
    ranker.fit(train, train.take_queries(range(20)))

    scores = ranker.predict(train.features)

    assert np.array_equal(scores, plain(ranker, log, train.query_sizes))
    ranker.save(tmp_path)
    check_saved(ranker, tmp_path, train.features, scores)
    # Splits on categories: another order of the codes would not change an engine that reads them as such.
    splits = ranker.importance()["split"]
    assert (splits[list(train.categorical_features)] > 0).any()
