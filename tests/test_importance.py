"""Importances: what the model says of its features, and what a shuffle of each costs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.importance import Importances, PermutationImportance, importances, permutation_falls
from ltrbench.metrics import evaluate
from ltrbench.rankers import EarlyStopping, OnIteration, Ranker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.shapes import Features

SETTINGS = PermutationImportance()


@dataclass(kw_only=True)
class WeighedSum(Ranker):
    """Scores that are known: 2 x_0 + x_1, whatever x_2 is."""

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        del train, valid, on_iteration
        return self

    def predict(self, features: Features) -> NDArray[np.float64]:
        return np.asarray(features, dtype=np.float64) @ [2.0, 1.0, 0.0]

    def save(self, folder: Path) -> None:
        raise NotImplementedError

    @classmethod
    def load(cls, folder: Path) -> Self:
        raise NotImplementedError


@pytest.fixture(scope="module")
def judged() -> RankingDataset:
    """120 queries of ten documents, graded by 2 x_0 + x_1."""
    features = np.random.default_rng(0).normal(size=(1200, 3)).astype(np.float32)
    worth = features @ np.array([2, 1, 0], np.float32)
    return RankingDataset(
        features=features,
        labels=np.digitize(worth, np.quantile(worth, [0.5, 0.8, 0.95])).astype(np.float64),
        query_start=np.arange(0, 1201, 10),
        feature_names=("strong", "weak", "none"),
    )


def test_what_the_scores_hang_on_more_falls_further(judged: RankingDataset) -> None:
    strong, weak, none = importances(WeighedSum(), judged, SETTINGS, 0).values["permutation"]
    assert strong > 2 * weak > 0
    assert none == 0


def test_a_fall_is_the_metric_before_less_the_metric_after_the_shuffle(judged: RankingDataset) -> None:
    falls = permutation_falls(WeighedSum(), judged, SETTINGS, 7, np.ones(3, dtype=np.bool_))
    rng = np.random.default_rng([7, 1])
    for repeat in range(SETTINGS.repeats):
        shuffled = judged.features.copy()
        shuffled[:, 1] = rng.permutation(judged.features[:, 1])
        before, after = (
            evaluate(judged, WeighedSum().predict(features), ["ndcg@10"]).means["ndcg@10"]
            for features in (judged.features, shuffled)
        )
        assert falls[repeat, 1] == before - after


def test_the_seed_decides_the_shuffles_and_nothing_is_changed(judged: RankingDataset) -> None:
    before = judged.fingerprint
    first, again, other = (
        importances(WeighedSum(), judged, SETTINGS, seed).values["permutation"] for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert judged.fingerprint == before


@dataclass(kw_only=True)
class Counting(WeighedSum):
    """Keeps how many documents it was asked for at each call."""

    asked: list[int] = field(default_factory=list)

    def predict(self, features: Features) -> NDArray[np.float64]:
        self.asked.append(len(features))
        return super().predict(features)


def test_many_queries_are_sampled(judged: RankingDataset) -> None:
    ranker = Counting()
    importances(ranker, judged, PermutationImportance(max_queries=30), 0)
    assert max(ranker.asked) == 300


def test_a_document_whose_value_the_shuffle_leaves_is_not_scored_again(judged: RankingDataset) -> None:
    features = judged.features.copy()
    features[:, 2] = 1.0
    features[:, 1] = features[:, 1] > 0
    ranker = Counting()
    importances(ranker, replace(judged, features=features), SETTINGS, 0)
    whole, *strong_and_weak = ranker.asked
    assert whole == judged.num_documents
    assert len(strong_and_weak) == 2 * SETTINGS.repeats
    assert max(strong_and_weak[SETTINGS.repeats :]) < 0.6 * judged.num_documents


def test_without_a_relevant_document_nothing_is_said(judged: RankingDataset) -> None:
    barren = replace(judged, labels=np.zeros(judged.num_documents))
    assert np.isnan(importances(WeighedSum(), barren, SETTINGS, 0).values["permutation"]).all()


@pytest.mark.parametrize("ranker", [NativeRanker, LightGBMRanker, XGBoostRanker])
def test_gain_is_a_share_and_an_unused_feature_is_worth_nothing(
    ranker: type[NativeRanker], judged: RankingDataset
) -> None:
    constant = replace(judged, features=judged.features * np.array([1, 1, 0], np.float32))
    found = importances(ranker(num_trees=10, num_threads=1).fit(constant), constant, SETTINGS, 0)
    assert found.feature_names == ("strong", "weak", "none")
    assert found.values["gain"].sum() == pytest.approx(1.0)
    assert found.values["gain"][0] > found.values["gain"][1]
    assert [found.values[kind][2] for kind in ("split", "gain", "permutation", "permutation_sd")] == [0] * 4


def test_a_ranker_without_trees_has_permutation_importance_only(judged: RankingDataset) -> None:
    assert set(importances(WeighedSum(), judged, SETTINGS, 0).values) == {"permutation", "permutation_sd"}
    assert importances(WeighedSum(), judged, None, 0).values == {}


def test_an_importance_of_another_length_is_named() -> None:
    with pytest.raises(ConfigError, match="importance 'gain' has 2 values for 1 features"):
        Importances(("a",), {"gain": np.zeros(2)})
    assert EarlyStopping().metric == SETTINGS.metric  # both look at what the tables compare
