"""Categorical splits: compared with LightGBM, with the plain reference, and with every path of the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_cases import COMPILED, MAY_COMPILE, dataset
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from test_forest import scores_of

from ltrbench.compilation import threads
from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows
from ltrbench.errors import DataError
from ltrbench.native.boosting import BoostingSettings, SamplingSettings, boost
from ltrbench.native.forest import first_flaw, reference_scores
from ltrbench.native.histogram import Quantised
from ltrbench.native.splitting import (
    UNBOUNDED,
    SplitSettings,
    best_category_cut,
    bins_on_left,
    constraints_of,
    leaf_to_search,
    reference_category_cut,
    split_terms,
)
from ltrbench.rankers.base import check_fitted
from ltrbench.rankers.native import NativeRanker

SIZES = (3, 40, 1000)
"""Numbers of categories of the last three features."""


def make_categorical(seed: int, num_queries: int = 100) -> RankingDataset:
    """Returns queries of 30 documents with two numeric and three categorical features, frequent and rare
    categories, and missing values. The numeric values are as in `test_the_first_tree_is_lightgbms`."""
    rng = np.random.default_rng(seed)
    count = 30 * num_queries
    codes = [np.floor(size * rng.random(count) ** 2) for size in SIZES]
    numeric = np.round(3 * rng.normal(size=(count, 2))) + 20
    effects = sum(
        rng.normal(size=size)[each.astype(int)]
        for size, each in zip(SIZES, codes, strict=True)
    )
    utility = effects + 0.3 * (numeric[:, 0] - 20) + rng.normal(size=count)
    features = np.column_stack([numeric, *codes])
    features[rng.random(features.shape) < 0.05] = np.nan
    labels = np.digitize(utility, np.quantile(utility, [0.5, 0.75, 0.9, 0.97]))
    categories = {
        str(f): tuple(map(str, range(size)))
        for f, size in zip((3, 4, 5), SIZES, strict=True)
    }
    return replace(dataset(features, labels, [30] * num_queries), categories=categories)


# LightGBM does not try a feature again below a leaf in which it had no gain, and our engine does: with more
# documents, the trees differ in small leaves, in which only one of them splits on rare categories.
@COMPILED
@pytest.mark.parametrize("seed", [2, 3, 4])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {
            "cat_smooth": 2.0,
            "cat_l2": 1.0,
            "max_cat_threshold": 5,
            "min_data_per_group": 10,
        },
        {"max_cat_to_onehot": 50},
    ],
    ids=str,
)
def test_the_first_tree_is_lightgbms(seed: int, fields: dict[str, Any]) -> None:
    data = make_categorical(seed)
    parameters = {
        **{
            "objective": "lambdarank",
            "num_leaves": 15,
            "learning_rate": 1.0,
            "num_threads": 1,
        },
        **{
            "min_data_in_leaf": 20,
            "min_sum_hessian_in_leaf": 0.5,
            "deterministic": True,
            "verbose": -1,
        },
        **fields,
    }
    train = lgb.Dataset(
        data.features,
        data.labels,
        group=data.query_sizes,
        categorical_feature=[2, 3, 4],
        params=parameters,
    )
    tree = lgb.train(parameters, train, 1)
    splits = SplitSettings(
        min_docs_in_leaf=20, min_sum_hessian=0.5, document_counts="by_hessian", **fields
    )
    forest = boost(
        data,
        BoostingSettings(num_trees=1, num_leaves=15, learning_rate=1.0, splits=splits),
    ).forest
    assert np.isnan(forest.nodes.threshold).sum() >= 3
    # A value that training does not have goes the way of missing ones.
    others = data.features.copy()
    others[::3, 2:] += 900
    for features in (data.features, others):
        scores = scores_of(forest, features)
        # LightGBM has float32 gradients and a sigmoid table.
        np.testing.assert_allclose(
            scores, np.asarray(tree.predict(features)), rtol=1e-5, atol=1e-6
        )
        leaves = np.asarray(tree.predict(features, pred_leaf=True)).ravel()
        assert len(set(zip(scores, leaves, strict=True))) == len(set(leaves))


any_settings = st.builds(
    SplitSettings,
    min_docs_in_leaf=st.integers(1, 40),
    min_sum_hessian=st.sampled_from([0.0, 3.0]),
    l2=st.sampled_from([0.0, 1.0]),
    max_delta_step=st.sampled_from([0.0, 0.2]),
    cat_smooth=st.sampled_from([1.0, 10.0]),
    cat_l2=st.sampled_from([0.0, 10.0]),
    max_cat_threshold=st.integers(1, 8),
    max_cat_to_onehot=st.sampled_from([1, 4, 30]),
    min_data_per_group=st.sampled_from([1, 15, 100]),
)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), any_settings)
@MAY_COMPILE
def test_the_search_does_what_the_reference_says(
    seed: int, num_bins: int, settings: SplitSettings
) -> None:
    rng = np.random.default_rng(seed)
    # Units of 1, so that estimated numbers of documents are rounded alike.
    sums = np.stack([rng.integers(-40, 40, num_bins), rng.integers(0, 30, num_bins)])
    sums[1, 0] += 1
    units = Quantised(np.zeros(0, dtype=np.int64), 1.0, 1.0)
    terms, num_documents = (
        split_terms(settings, units),
        int(sums[1].sum()) + int(rng.integers(100)),
    )
    expected, bins = reference_category_cut(
        sums.astype(np.float64), num_documents, settings
    )
    start, used = np.array([0, num_bins]), np.ones(1, dtype=np.bool_)
    none = np.zeros(0, dtype=np.int64)
    signs = np.zeros(1, dtype=np.int8)
    for constraints in (None, constraints_of(settings, units, signs, UNBOUNDED)):
        leaf = leaf_to_search(
            (sums[0] << 32) + sums[1], none.astype(np.uint32), used, num_documents
        )
        best_category_cut(0, start, leaf, none, terms, constraints)
        gain, last, side = leaf.best[:, 0]
        assert gain == pytest.approx(expected, rel=1e-12, abs=1e-12)
        if expected > 1e-9:
            is_left = bins_on_left(0, start, leaf, (int(last), int(side)), terms)
            assert set(np.flatnonzero(is_left)) == set(bins)


@COMPILED
@pytest.mark.parametrize(
    "fields", [{}, {"monotone": {"1": 1}, "l1": 0.1}, {"document_counts": "by_hessian"}]
)
def test_a_tree_sends_documents_where_it_grew_them(fields: dict[str, Any]) -> None:
    data = make_categorical(3)
    settings = BoostingSettings(
        num_trees=4, splits=SplitSettings(min_docs_in_leaf=40, cat_smooth=2.0, **fields)
    )
    fits = []
    # Features sampled for each leaf are searched step by step, and the sample is all of them.
    for sampling, num_threads in ((1.0, 1), (1.0, 2), (5, 2)):
        with threads(num_threads):
            each = replace(
                settings, sampling=SamplingSettings(features_per_split=sampling)
            )
            fits.append(boost(data, each, valid_features=data.features))
    nodes = fits[0].forest.nodes
    assert np.isnan(nodes.threshold).sum() > 10
    if "document_counts" not in fields:
        assert nodes.num_documents.min() >= 40
    for fit in fits:
        np.testing.assert_array_equal(fit.train_scores, fits[0].train_scores)
        np.testing.assert_array_equal(fit.valid_scores, fit.train_scores)
        np.testing.assert_array_equal(
            reference_scores(fit.forest, data.features[:300]), fit.train_scores[:300]
        )
        for array, expected in zip(fit.forest.nodes, nodes, strict=True):
            np.testing.assert_array_equal(array, expected, strict=True)


def test_every_setting_changes_the_model() -> None:
    data = make_categorical(0, num_queries=30)
    settings: dict[str, Any] = {"num_trees": 3, "num_leaves": 8}
    changed: dict[str, Any] = {
        "cat_smooth": 1,
        "cat_l2": 0,
        "max_cat_threshold": 1,
        "max_cat_to_onehot": 50,
    }
    changed["min_data_per_group"] = 1
    fitted = [
        NativeRanker(**settings, **{name: value}).fit(data)
        for name, value in changed.items()
    ]
    fitted.append(NativeRanker(**settings).fit(data))
    scores = {ranker.predict(data.features).tobytes() for ranker in fitted}
    assert len(scores) == 6


def test_a_saved_model_has_its_categories_and_is_checked(tmp_path: Path) -> None:
    data = make_categorical(1, num_queries=20)
    ranker = NativeRanker(num_trees=5, num_leaves=8).fit(data)
    ranker.save(tmp_path)
    others = data.features.copy()
    others[::2, 2:], others[1::2, 2:] = 7_000, np.nan  # unknown, missing
    loaded = NativeRanker.load(tmp_path)
    for features in (data.features, others):
        np.testing.assert_array_equal(
            loaded.predict(features), ranker.predict(features)
        )
    others[:, 2:] = np.nan
    contributions = loaded.contributions(others[:50])
    np.testing.assert_allclose(
        contributions.sum(axis=1), loaded.predict(others[:50]), rtol=0, atol=1e-12
    )
    forest = check_fitted(loaded._forest)
    assert first_flaw(forest, 5) is None
    none = np.full_like(forest.nodes.left_categories, np.nan)
    is_set, nodes = np.isnan(forest.nodes.threshold), forest.nodes
    for flawed in (
        nodes._replace(left_categories=none),
        nodes._replace(missing_left=is_set),
    ):
        assert first_flaw(replace(forest, nodes=flawed), 5)


def test_a_saved_model_continues_on_the_same_categories_only(tmp_path: Path) -> None:
    data = make_categorical(1, num_queries=20)
    NativeRanker(num_trees=3, num_leaves=8).fit(data).save(tmp_path)
    continued = NativeRanker(num_trees=5, num_leaves=8, warm_start=str(tmp_path)).fit(
        data
    )
    whole = NativeRanker(num_trees=5, num_leaves=8).fit(data)
    np.testing.assert_array_equal(
        continued.predict(data.features), whole.predict(data.features)
    )
    others = {**data.categories, "3": ("x", "y", "z")}
    with pytest.raises(DataError, match=naming("warm_start", "categories")):
        continued.fit(replace(data, categories=others))


def test_what_has_no_categories_names_the_feature() -> None:
    data = make_categorical(2, num_queries=10)
    sparse: Any = SparseRows.of(np.asarray(data.features))
    with pytest.raises(DataError, match=naming("sparse", "categor")):
        NativeRanker(num_trees=1).fit(replace(data, features=sparse))
