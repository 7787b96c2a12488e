"""Feature importances: split, gain and SHAP of the model, permutation, and drop-column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from numpy.typing import NDArray
from scipy.stats import t as student

from ltrbench.data import RankingDataset, Splits
from ltrbench.data.features import CheckedFeatures, SparseRows
from ltrbench.errors import ConfigError
from ltrbench.metrics import evaluate
from ltrbench.rankers import (
    BoostingRanker,
    EarlyStopping,
    OnIteration,
    Ranker,
    importance,
)
from ltrbench.rankers.importance import (
    ACROSS,
    COEFFICIENT,
    GAIN,
    HIGH,
    IMPORTANCE_KINDS,
    LOW,
    SHAP,
    SHARES,
    SPLIT,
    WITHIN,
    Importances,
    ImportanceSettings,
    Shuffle,
    across_queries,
    averaged,
    drop_column_falls,
    importances,
    permutation_falls,
    within_queries,
)
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.shapes import Features

SETTINGS = ImportanceSettings(kinds=[SPLIT, GAIN, WITHIN, ACROSS, SHAP])
STRONG, WEAK, NONE, OF_QUERY = range(4)


@dataclass(kw_only=True)
class WeighedSum(Ranker):
    """Scores documents by 2 x_0 + x_1 + 5 x_3."""

    weights: tuple[float, ...] = (2.0, 1.0, 0.0, 5.0)

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        del train, valid, on_iteration
        return self

    def predict(self, features: Features) -> NDArray[np.float64]:
        return np.asarray(features, dtype=np.float64) @ list(self.weights)

    def save(self, folder: Path) -> None:
        raise NotImplementedError

    @classmethod
    def load(cls, folder: Path) -> Self:
        raise NotImplementedError


def make(seed: int, num_queries: int = 120) -> RankingDataset:
    """Returns queries of ten documents, graded by 2 x_0 + x_1; x_3 is constant within each query."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(10 * num_queries, 4)).astype(np.float32)
    features[:, OF_QUERY] = np.repeat(rng.normal(size=num_queries), 10)
    utility = features @ np.array([2, 1, 0, 0], np.float32)
    return RankingDataset(
        features=features,
        labels=np.digitize(utility, np.quantile(utility, [0.5, 0.8, 0.95])).astype(
            np.float64
        ),
        query_start=np.arange(0, 10 * num_queries + 1, 10),
        feature_names=("strong", "weak", "none", "of_query"),
        query_ids=np.array([f"{seed}-{query}" for query in range(num_queries)]),
    )


@pytest.fixture(scope="module")
def splits() -> Splits:
    return Splits(train=make(1), valid=make(2, 40), test=make(0))


@pytest.fixture(scope="module")
def judged(splits: Splits) -> RankingDataset:
    return splits.test


# The kinds


def test_a_feature_constant_within_queries_has_permutation_importance_0_within_queries(
    splits: Splits,
) -> None:
    values = importances(WeighedSum(), splits, SETTINGS, 0).values
    assert [values[WITHIN + end][OF_QUERY] for end in ("", LOW, HIGH)] == [0, 0, 0]
    assert values[ACROSS][OF_QUERY] > 0.05


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_shuffles_within_queries_permute_each_query_and_shuffles_across_permute_all(
    seed: int,
) -> None:
    judged, rng = make(0, 5), np.random.default_rng(seed)
    values = judged.features[:, STRONG]
    within, across = (
        within_queries(values, judged, rng),
        across_queries(values, judged, rng),
    )
    np.testing.assert_array_equal(
        np.sort(within.reshape(5, 10)), np.sort(values.reshape(5, 10))
    )
    np.testing.assert_array_equal(np.sort(across), np.sort(values))


def test_a_decrease_is_the_metric_minus_the_mean_metric_after_shuffles(
    judged: RankingDataset,
) -> None:
    falls = falls_of(WeighedSum(), judged, across_queries, 7)
    rng = np.random.default_rng([7, WEAK])
    after = []
    for _ in range(SETTINGS.repeats):
        shuffled = judged.features.copy()
        shuffled[:, WEAK] = rng.permutation(judged.features[:, WEAK])
        after.append(per_query(judged, shuffled))
    expected = per_query(judged, judged.features) - np.mean(after, axis=0)
    np.testing.assert_allclose(falls[WEAK], expected, rtol=0, atol=1e-12)


def falls_of(
    ranker: Ranker, test: RankingDataset, shuffle: Shuffle, seed: int
) -> NDArray[np.float64]:
    return permutation_falls(
        ranker, test, shuffle, SETTINGS, seed, np.arange(test.num_features)
    )


def per_query(judged: RankingDataset, features: Features) -> NDArray[np.float64]:
    return evaluate(judged, WeighedSum().predict(features), ["ndcg@10"]).per_query[
        "ndcg@10"
    ]


def test_the_interval_is_students_over_the_queries_that_count(splits: Splits) -> None:
    labels = splits.test.labels.copy()
    labels[:30] = 0  # three queries without a relevant document
    test = replace(splits.test, labels=labels)
    values = importances(WeighedSum(), replace(splits, test=test), SETTINGS, 0).values
    falls = falls_of(WeighedSum(), test, within_queries, 0)[STRONG]
    falls = falls[~np.isnan(falls)]
    assert len(falls) == 117
    low, high = student.interval(
        0.95, 116, falls.mean(), falls.std(ddof=1) / np.sqrt(117)
    )
    np.testing.assert_allclose(
        [values[WITHIN + end][STRONG] for end in ("", LOW, HIGH)],
        [falls.mean(), low, high],
    )


def test_drop_column_is_the_decrease_of_a_fit_without_the_feature(
    splits: Splits,
) -> None:
    ranker = small(NativeRanker, early_stopping=EarlyStopping(patience=3)).fit(
        splits.train, splits.valid
    )
    falls = drop_column_falls(ranker, splits, SETTINGS)
    parts = [
        replace(data, features=data.features * np.array([0, 1, 1, 1], np.float32))
        for _, data in splits
    ]
    train, valid, test = parts
    without = small(NativeRanker, early_stopping=EarlyStopping(patience=3)).fit(
        train, valid
    )
    before, after = (
        evaluate(test, each.predict(data.features), ["ndcg@10"]).per_query["ndcg@10"]
        for each, data in ((ranker, splits.test), (without, test))
    )
    np.testing.assert_array_equal(falls[STRONG], before - after)


# Kinds per ranker


def small(kind: type[BoostingRanker], **fields: object) -> BoostingRanker:
    return kind(num_trees=10, num_leaves=7, num_threads=1, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [NativeRanker, LightGBMRanker, XGBoostRanker])
def test_shares_sum_to_1_and_an_unused_feature_has_importance_0_in_every_kind(
    kind: type[BoostingRanker], splits: Splits
) -> None:
    constant = np.array([1, 1, 0, 1], np.float32)
    parts: dict[str, Any] = {
        name: replace(data, features=data.features * constant) for name, data in splits
    }
    without = replace(splits, **parts)
    ranker = small(kind).fit(without.train)
    taken = importances(
        ranker, without, ImportanceSettings(kinds=list(IMPORTANCE_KINDS)), 0
    )
    assert taken.feature_names == ("strong", "weak", "none", "of_query")
    assert set(taken.kinds) == set(IMPORTANCE_KINDS)
    for share in SHARES:
        assert taken.values[share].sum() == pytest.approx(1.0)
        assert taken.values[share][STRONG] > taken.values[share][WEAK]
    assert {
        kind: values[NONE] for kind, values in taken.values.items()
    } == dict.fromkeys(taken.values, 0.0)


def test_shap_is_computed_on_a_sample_of_the_documents(splits: Splits) -> None:
    ranker = small(LightGBMRanker).fit(splits.train)
    few, all_of_them = (
        importances(
            ranker, splits, ImportanceSettings(kinds=[SHAP], max_documents=most), 0
        ).values[SHAP]
        for most in (50, 10_000)
    )
    contributions = ranker.contributions(splits.test.features)
    assert contributions is not None
    sums = np.abs(contributions[:, :-1]).sum(axis=0)
    np.testing.assert_allclose(all_of_them, sums / sums.sum(), rtol=1e-12)
    assert 0 < np.abs(few - all_of_them).max() < 0.2


@dataclass(kw_only=True)
class ByLastBit(WeighedSum):
    """Scores documents by x_1 or -x_1, depending on a bit of x_0 that float32 does not have."""

    reads_sparse = True

    def predict(self, features: Features) -> NDArray[np.float64]:
        values = np.asarray(features[:])
        return np.where(values[:, 0] % 2 == 1, values[:, 1], -values[:, 1])


@pytest.mark.parametrize("is_sparse", [False, True])
def test_shuffled_values_of_float64_features_are_not_rounded(is_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    # The time of a query is the same in all its documents.
    times = np.repeat(1.7e9 + rng.integers(0, 1000, 40), 5)
    values = np.column_stack([times, rng.random(200)])
    features: Any = CheckedFeatures(values)
    if is_sparse:
        columns = np.tile(np.arange(2, dtype=np.int32), 200)
        features = SparseRows(np.arange(0, 401, 2), columns, values.ravel(), 2)
    test = RankingDataset(
        features=features,
        labels=rng.integers(0, 3, 200).astype(np.float64),
        query_start=np.arange(0, 201, 5),
    )
    assert test.features.dtype == np.float64
    within, across = (
        falls_of(ByLastBit(), test, shuffle, 0)[0]
        for shuffle in (within_queries, across_queries)
    )
    assert not within.any()
    assert across.any()


def test_shap_of_xgboost_weights_branches_by_training_documents(splits: Splits) -> None:
    ranker = small(XGBoostRanker).fit(splits.train)
    counted = ranker.counted_on(splits.train)
    test = splits.test.features
    np.testing.assert_array_equal(counted.predict(test), ranker.predict(test))
    contributions = counted.contributions(test)
    assert contributions is not None
    # The expected score of a tree is then the mean over the training set.
    mean = ranker.predict(splits.train.features).mean(dtype=np.float64)
    np.testing.assert_allclose(contributions[:, -1], mean, rtol=1e-4, atol=1e-5)
    of_hessians = ranker.contributions(test)
    assert of_hessians is not None
    assert abs(of_hessians[0, -1] - mean) > 1e-3
    shap_settings = ImportanceSettings(kinds=[SHAP], max_documents=10_000)
    shap = importances(ranker, splits, shap_settings, 0).values[SHAP]
    sums = np.abs(contributions[:, :-1]).sum(axis=0)
    np.testing.assert_allclose(shap, sums / sums.sum(), rtol=1e-12)


@pytest.mark.parametrize("kind", [NativeRanker, LightGBMRanker])
def test_importances_do_not_depend_on_the_number_of_features_shuffled_together_nor_on_threads(
    kind: type[BoostingRanker], splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = small(kind).fit(splits.train)
    together = falls_of(ranker, splits.test, within_queries, 5)
    monkeypatch.setattr(importance, "_GROUP_BYTES", 1)
    ranker.num_threads = 2
    apart = falls_of(ranker, splits.test, within_queries, 5)
    np.testing.assert_array_equal(apart, together)


# Over folds and seeds


def test_seeds_are_averaged_within_a_fold_and_intervals_shrink_over_folds_only() -> (
    None
):
    def one(fall: float, half: float) -> Importances:
        values = {
            WITHIN: fall,
            WITHIN + LOW: fall - half,
            WITHIN + HIGH: fall + half,
            GAIN: 1.0,
        }
        return Importances(
            ("a",), {kind: np.array([value]) for kind, value in values.items()}
        )

    values = averaged([[one(0.1, 0.02), one(0.3, 0.04)], [one(0.4, 0.05)]]).values
    half = np.sqrt(0.03**2 + 0.05**2) / 2
    assert values[WITHIN] == pytest.approx([(0.2 + 0.4) / 2])
    assert values[WITHIN + HIGH] == pytest.approx([0.3 + half])
    assert values[WITHIN + LOW] == pytest.approx([0.3 - half])
    assert values[GAIN] == [1.0]
    trainings = [
        Importances(("a",), {COEFFICIENT: np.array([value])})
        for value in (-1.0, 2.0, 5.0)
    ]
    values = averaged([trainings[:2], trainings[2:]]).values
    assert values[COEFFICIENT + HIGH] - values[COEFFICIENT] == pytest.approx(
        student.ppf(0.975, 2) * 3.0
    )


# Mistakes


def test_an_unknown_kind_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(
        ConfigError,
        match=naming("importance.kinds", "'shapp'", "did you mean", "'shap'"),
    ):
        ImportanceSettings(kinds=["shapp"])
    with pytest.raises(ConfigError, match=naming("importance.repeats", "is 0")):
        ImportanceSettings(repeats=0)
