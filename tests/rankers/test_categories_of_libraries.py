"""Categorical features in the backends: the scores of the library itself, and saved models that know them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from messages import naming
from model_files import model_file
from shop_log import shop_log

from ltrbench.data import RankingDataset
from ltrbench.errors import DataError, ResultError
from ltrbench.models.files import read_model_file
from ltrbench.rankers import BoostingRanker
from ltrbench.rankers.base import check_saved, departures_of
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.imported import ImportedRanker
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
    return RankingDataset.from_frame(
        log, features=[*NUMBERS, *CATEGORIES], categorical=CATEGORIES
    )


def test_lightgbms_skipped_features_are_named_for_categories_without_any_penalty(
    train: RankingDataset,
) -> None:
    numbers = train.with_fields(categories={})
    for ranker in (LightGBMRanker(), LightGBMRanker(num_leaves=8)):
        (more,) = {*departures_of(ranker, train)} - {*departures_of(ranker, numbers)}
        penalised = departures_of(LightGBMRanker(num_leaves=8, l2=1.0), train)
        assert penalised.count(more) == 1


def table(log: pd.DataFrame) -> pd.DataFrame:
    return log[[*NUMBERS, *CATEGORIES]].astype(dict.fromkeys(NUMBERS, np.float32))


Model = tuple[Callable[[pd.DataFrame], Any], Callable[[Path], Any] | None]
"""Scores of the library for a table, and how it saves its model, if the file can be imported."""


def lightgbm_model(ranker: BoostingRanker, log: pd.DataFrame, sizes: Any) -> Model:
    import lightgbm as lgb

    parameters = ranker.library_parameters()
    data = lgb.Dataset(table(log), log.label, group=sizes, params=parameters)
    booster = lgb.train(parameters, data, ranker.num_trees)
    return booster.predict, booster.save_model


def xgboost_model(ranker: BoostingRanker, log: pd.DataFrame, sizes: Any) -> Model:
    import xgboost as xgb

    data = xgb.QuantileDMatrix(
        table(log), log.label, group=sizes, enable_categorical=True
    )
    booster = xgb.train(ranker.library_parameters(), data, ranker.num_trees)

    def predict(rows: pd.DataFrame) -> Any:
        return booster.predict(
            xgb.DMatrix(rows, enable_categorical=True), output_margin=True
        )

    return predict, booster.save_model


def catboost_model(ranker: BoostingRanker, log: pd.DataFrame, sizes: Any) -> Model:
    import catboost as cb

    def as_text(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(
            **{name: rows[name].astype(object).fillna("missing") for name in CATEGORIES}
        )

    groups = np.repeat(np.arange(len(sizes)), sizes)
    pool = cb.Pool(
        as_text(table(log)), log.label, cat_features=CATEGORIES, group_id=groups
    )
    model = cb.CatBoost({**ranker._parameters(1.0)}).fit(pool)  # type: ignore[attr-defined]
    return lambda rows: model.predict(as_text(rows)), None


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (LightGBMRanker, lightgbm_model),
        (XGBoostRanker, xgboost_model),
        (CatBoostRanker, catboost_model),
    ],
)
def test_scores_equal_those_of_the_library_to_the_bit_also_of_its_imported_file(
    kind: type[BoostingRanker],
    plain: Callable[..., Model],
    log: pd.DataFrame,
    train: RankingDataset,
    tmp_path: Path,
) -> None:
    ranker = kind(num_trees=10, learning_rate=0.1, num_leaves=15, num_threads=2)
    ranker.fit(train, train.take_queries(range(20)))

    scores, (predict, save) = (
        ranker.predict(train.features),
        plain(ranker, log, train.query_sizes),
    )

    assert np.array_equal(scores, predict(table(log)))
    ranker.save(tmp_path)
    check_saved(ranker, tmp_path, train.features, scores)
    # Splits on categories: another order of the codes would not change an engine that reads them as such.
    splits = ranker.importance()["split"]
    assert (splits[list(train.categorical_features)] > 0).any()
    if save is None:
        return
    # The data have other categories than the model, in another order.
    others = log.assign(brand=log.brand.astype(object))
    others.loc[::5, "brand"] = "a new one"
    data = RankingDataset.from_frame(
        others, features=[*NUMBERS, *CATEGORIES], categorical=CATEGORIES
    )
    known = others.brand.where(others.brand.isin(log.brand.cat.categories)).astype(
        log.brand.dtype
    )
    save(tmp_path / "model.json")
    file, identity = read_model_file(tmp_path / "model.json"), {f: f for f in range(6)}
    imported = ImportedRanker.of(file, identity, 6, data.feature_names, data.categories)
    assert np.array_equal(
        imported.predict(data.features), predict(table(others.assign(brand=known)))
    )
    (tmp_path / "imported").mkdir()
    imported.save(tmp_path / "imported")
    check_saved(
        imported, tmp_path / "imported", data.features, imported.predict(data.features)
    )
    with pytest.raises(DataError, match=naming("model.json", "data.categorical=[")):
        ImportedRanker.of(file, identity, 6, data.feature_names, {})


def test_a_model_that_compares_codes_of_categories_as_numbers_is_refused(
    tmp_path: Path,
) -> None:
    import lightgbm as lgb

    size = pd.Categorical(list("SML") * 4, categories=list("SML"), ordered=True)
    data = lgb.Dataset(pd.DataFrame({"size": size}), np.tile([0, 1, 1], 4))
    booster = lgb.train({"min_data_in_leaf": 1, "verbose": -1}, data, 1)
    booster.save_model(tmp_path / "model.txt")
    with pytest.raises(ResultError, match=naming("model.txt", "1 columns", "ordered")):
        read_model_file(tmp_path / "model.txt")
    # The codes of the data are in the order of their texts.
    file = model_file([0], 1, names=["size"])
    with pytest.raises(DataError, match=naming("'size'", 0.5, "data.categorical")):
        ImportedRanker.of(file, {0: 0}, 1, ["size"], {"size": ("L", "M", "S")})


COLOURS = ["blue", "cyan", "green", "red"]


@pytest.mark.parametrize(
    ("shops", "texts", "listed", "parts"),
    [
        (5, COLOURS, "auto", None),
        (4, COLOURS, "auto", None),
        (4, [1, 2, 3, 5], "auto", ["4 categories", "'colour'", "'shop'", "0 to 3"]),
        (5, [1, 2, 3, 5], "auto", None),
        # The shops are codes, and the colours are compared as numbers.
        (5, COLOURS, ["shop"], ["'shop'", "code 4", "categories", "'auto'"]),
        (3, COLOURS, ["shop"], ["4 categories", "'shop'", "'colour'", "'auto'"]),
    ],
)
def test_categories_are_those_of_their_column_or_refused(
    tmp_path: Path,
    shops: int,
    texts: list[Any],
    listed: Any,
    parts: list[str] | None,
) -> None:
    import lightgbm as lgb

    rows = np.arange(400)
    shop = rows // 7 % shops
    colour = pd.Categorical(np.array(texts)[rows % 4])
    frame = pd.DataFrame({"shop": shop, "colour": colour, "price": rows % 11 / 4})
    labels = shop % 2 + rows % 4 % 2 + rows % 11 // 6
    parameters = {"min_data_in_leaf": 1, "min_data_per_group": 1, "verbose": -1}
    data = lgb.Dataset(frame, labels, categorical_feature=listed)
    lgb.train(parameters, data, 5).save_model(tmp_path / "model.txt")
    if parts is None:
        file = read_model_file(tmp_path / "model.txt")
        assert file.model.categories == {1: list(map(str, texts))}
        place = ({0: 0, 1: 1, 2: 2}, 3, ["shop", "colour", "price"])
        ImportedRanker.of(file, *place, {"colour": ("new", str(texts[1]))})
        with pytest.raises(DataError, match=naming("model.txt", "'colour'", "'new'")):
            ImportedRanker.of(file, *place, {"colour": ("new", "other")})
        return
    with pytest.raises(ResultError, match=naming("model.txt", *parts)):
        read_model_file(tmp_path / "model.txt")
