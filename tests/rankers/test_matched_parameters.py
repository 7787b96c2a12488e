"""With equal shared parameters LightGBM and XGBoost grow the same trees: the test of the translation.

The features have a dozen integer values, so that both libraries use the same bins, and LightGBM's minimum
number of documents per leaf, which XGBoost does not have, is 1. The remaining difference is XGBoost's float32
scores: they change gradients by about 1e-7, and after several trees such a difference, or a tie in only one
of the libraries, leads to another split.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from omegaconf import OmegaConf
from paths import CONF

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.library import LibraryRanker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.xgboost import XGBoostRanker

MATCHED: dict[str, Any] = {
    "num_trees": 1,
    "learning_rate": 0.1,
    "num_leaves": 31,
    "min_sum_hessian": 1e-3,
    "min_split_gain": 0.0,
    "max_delta_step": 0.0,
    "l2": 0.0,
    "max_bins": 255,
    "truncation": 30,
}


def few_valued(weighted: bool) -> RankingDataset:
    rng = np.random.default_rng(0)
    query_start = np.concatenate([[0], np.cumsum(rng.integers(5, 60, 60))])
    x = rng.integers(0, 12, (query_start[-1], 8)).astype(np.float32)
    relevance = (
        0.3 * x[:, 0]
        + 0.2 * x[:, 1]
        - 0.02 * x[:, 2] * x[:, 3]
        + 2 * rng.normal(size=len(x))
    )
    labels = np.digitize(
        relevance, np.quantile(relevance, [0.5, 0.75, 0.9, 0.97])
    ).astype(np.float64)
    weights = rng.uniform(0.2, 4.0, 60) if weighted else None
    return RankingDataset(
        features=x, labels=labels, query_start=query_start, query_weights=weights
    )


def parameters(name: str) -> dict[str, Any]:
    """Returns the content of a file in conf/params."""
    content: Any = OmegaConf.to_container(
        OmegaConf.load(CONF / "params" / f"{name}.yaml")
    )
    return dict(content)


def difference(data: RankingDataset, **fields: Any) -> float:
    """Returns the largest absolute difference between LightGBM's and XGBoost's score of a document."""
    light = LightGBMRanker(
        **{**MATCHED, **fields}, min_docs_in_leaf=1, num_threads=1
    ).fit(data)
    extreme = XGBoostRanker(**{**MATCHED, **fields}, num_threads=1).fit(data)
    return float(
        np.abs(light.predict(data.features) - extreme.predict(data.features)).max()
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"learning_rate": 0.5},
        {"truncation": 5},
        {"min_sum_hessian": 5.0},
        {"num_leaves": 8, "l2": 5.0},
        {"num_leaves": 8, "max_delta_step": 0.3},
        {"num_leaves": 8, "min_split_gain": 5.0},
        {
            "num_leaves": 8,
            "l2": 3.0,
            "min_sum_hessian": 2.0,
            "max_delta_step": 0.5,
            "min_split_gain": 1.0,
        },
    ],
    ids=str,
)
def test_the_first_tree_is_the_same(weighted: bool, fields: dict[str, Any]) -> None:
    # Eight leaves where a gain may be negative: LightGBM skips a feature below a node where no split on it
    # has enough gain, so that a deep leaf would miss a split that XGBoost finds.
    assert difference(few_valued(weighted), **fields) < 5e-8


def test_native_and_lightgbm_learn_the_same_from_weights_that_vary_within_a_query() -> (
    None
):
    plain = few_valued(weighted=False)
    weights = np.random.default_rng(1).uniform(0.2, 4.0, plain.num_documents)
    data = replace(plain, document_weights=weights)
    fields: dict[str, Any] = {
        **MATCHED,
        "num_leaves": 8,
        "min_docs_in_leaf": 1,
        "num_threads": 1,
    }
    native = NativeRanker(**fields).fit(data).predict(data.features)
    # LightGBM keeps gradients and weights in float32.
    np.testing.assert_allclose(
        LightGBMRanker(**fields).fit(data).predict(data.features), native, rtol=1e-5
    )


def test_library_sets_the_number_of_trees_alone() -> None:
    library = parameters("library")
    assert library.pop("num_trees") == parameters("matched")["num_trees"]
    assert set(library.values()) == {None}


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(
    "model",
    [
        NativeRanker(),
        LightGBMRanker(),
        XGBoostRanker(),
        CatBoostRanker(learning_rate=0.1, loss="QueryRMSE"),
        CatBoostRanker(learning_rate=0.1, loss="QuerySoftMax"),
    ],
    ids=lambda each: f"{type(each).__name__}-{vars(each).get('loss')}",
)
def test_scores_are_monotone_in_a_constrained_feature_given_by_name(
    model: NativeRanker | LibraryRanker, sign: int, tmp_path: Path
) -> None:
    data = few_valued(weighted=False)
    names = ("price", "bm25", "a b", *data.feature_names[3:])
    # The labels are lowest in the middle of the feature, so that either constraint leaves an effect.
    labels = np.abs(data.features[:, 0] - 6) // 2
    data = data.with_fields(feature_names=names, labels=labels)
    ranker = replace(model, num_trees=20, monotone={"price": sign}).fit(data)
    free = replace(model, num_trees=20).fit(data)
    # Every document with every value of the feature.
    rows = np.repeat(data.features[:100], 12, axis=0)
    rows[:, 0] = np.tile(np.arange(12, dtype=np.float32), 100)
    steps = [
        sign * np.diff(each.predict(rows).reshape(100, 12)) for each in (ranker, free)
    ]
    assert (steps[0] >= 0).all()
    assert (steps[0] > 0).any()
    assert (steps[1] < 0).any()
    # A constraint that holds in the data costs nothing.
    prices = data.features[:, 0]
    holding = data.with_fields(labels=(prices if sign > 0 else 11 - prices) // 3)
    scores = [each.fit(holding).score(holding) for each in (free, ranker)]
    assert scores[1] > scores[0] - 0.01
    with pytest.raises(ConfigError, match=naming("monotone.prize", "'price'")):
        replace(model, monotone={"prize": sign}).fit(data)
    categories = {"price": tuple(map(str, range(12)))}
    with pytest.raises(ConfigError, match=naming("monotone.price", "no order")):
        replace(model, monotone={"price": sign}).fit(
            data.with_fields(categories=categories)
        )
    ranker.save(tmp_path)
    loaded = type(ranker).load(tmp_path)
    assert np.array_equal(loaded.predict(rows), ranker.predict(rows))
    assert all(
        np.array_equal(loaded.importance()[kind], of)
        for kind, of in ranker.importance().items()
    )


def test_matched_gives_the_model_of_lightgbms_defaults() -> None:
    data = few_valued(weighted=False)
    matched = {**parameters("matched"), "num_trees": 5}
    expected = (
        LightGBMRanker(num_trees=5, num_threads=1).fit(data).predict(data.features)
    )
    np.testing.assert_array_equal(
        LightGBMRanker(**matched, num_threads=1).fit(data).predict(data.features),
        expected,
    )
