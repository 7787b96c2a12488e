"""Backends on scikit-learn: equal scores in every batch, on any number of threads and after loading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from messages import naming
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import make_synthetic
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.rankers.base import concerns_of
from ltrbench.rankers.scikit_learn import NAME, ROWS_OF_BLOCK, SklearnRanker

pytestmark = pytest.mark.slow

REGRESSORS: dict[str, Callable[[], Any]] = {
    "tree": DecisionTreeRegressor,
    "forest": lambda: RandomForestRegressor(5),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=5, subsample=0.5),
    "histogram boosting": lambda: HistGradientBoostingRegressor(
        max_iter=5, early_stopping=True
    ),
    "bagging": lambda: BaggingRegressor(n_estimators=3, max_features=0.5, n_jobs=7),
    "line": Ridge,
    "lines": lambda: make_pipeline(
        SimpleImputer(), StandardScaler(), PCA(4), PolynomialFeatures(), Ridge()
    ),
    "network": lambda: MLPRegressor(hidden_layer_sizes=(16, 8), max_iter=20, tol=1.0),
    "stack": lambda: StackingRegressor(
        [("line", Ridge()), ("forest", RandomForestRegressor(3))], n_jobs=2
    ),
}


@dataclass(kw_only=True)
class AnyRanker(SklearnRanker):
    """A ranker of the regressor with the name `kind` in `REGRESSORS`."""

    kind: str = "forest"

    def estimator(self) -> Any:
        return REGRESSORS[self.kind]()


def complete(num_queries: int, seed: int) -> RankingDataset:
    """Returns data with standardised features and without missing values."""
    data = make_synthetic(num_queries, seed)
    return replace(
        data, features=StandardScaler().fit_transform(np.nan_to_num(data.features))
    )


TRAIN = complete(60, 1)
TEST = complete(250, 2)


@pytest.fixture(params=REGRESSORS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], str]:
    """Returns a function that registers a regressor and returns its name."""

    def under(make: Callable[[], Any]) -> str:
        monkeypatch.setitem(REGRESSORS, "given", make)
        return "given"

    return under


def assert_same(left: Any, right: Any) -> None:
    np.testing.assert_array_equal(left, right)


def test_scores_are_the_same_on_any_number_of_threads_in_every_batch_and_after_loading(
    kind: str, tmp_path: Path
) -> None:
    assert TEST.num_documents > 2 * ROWS_OF_BLOCK
    one, two = (
        AnyRanker(kind=kind, seed=3, num_threads=threads).fit(TRAIN)
        for threads in (1, 2)
    )
    scores = one.predict(TEST.features)
    assert scores.dtype == np.float64
    assert_same(two.predict(TEST.features), scores)
    assert_same(one.predict(TEST.features[1000:1001]), scores[1000:1001])
    assert_same(one.predict(TEST.features[7:]), scores[7:])
    one.save(tmp_path)
    loaded = AnyRanker.load(tmp_path)
    assert_same(loaded.predict(TEST.features), scores)
    assert loaded == one


def test_the_scores_are_those_of_the_regressor_itself() -> None:
    for made in (RandomForestRegressor(5, random_state=3), Ridge()):
        kind = "forest" if isinstance(made, RandomForestRegressor) else "line"
        expected = made.fit(TRAIN.features.astype(float), TRAIN.labels).predict(
            TEST.features.astype(float)
        )
        scores = AnyRanker(kind=kind, seed=3).fit(TRAIN).predict(TEST.features)
        np.testing.assert_allclose(scores, expected, rtol=1e-9)


def test_the_seed_becomes_every_random_state_that_is_none(
    add: Callable[[Any], str],
) -> None:
    train = TRAIN.take_queries(np.arange(10)).in_memory()

    def scores(kind: str, seed: int) -> Any:
        return AnyRanker(kind=kind, seed=seed).fit(train).predict(TRAIN.features)

    assert not np.array_equal(scores("forest", 1), scores("forest", 2))
    kind = add(lambda: make_pipeline(StandardScaler(), RandomForestRegressor(5)))
    assert not np.array_equal(scores(kind, 1), scores(kind, 2))
    kind = add(lambda: RandomForestRegressor(5, random_state=5))
    assert_same(scores(kind, 1), scores(kind, 2))


def test_weights_become_sample_weights_of_a_regressor_or_of_the_last_step_of_a_pipeline() -> (
    None
):
    rng = np.random.default_rng(0)
    of_queries = rng.uniform(0.1, 5, TRAIN.num_queries)
    of_documents = rng.uniform(0.1, 5, TRAIN.num_documents)
    weighted = replace(TRAIN, query_weights=of_queries).with_mean_weight_one()
    varied = replace(TRAIN, document_weights=of_documents).with_mean_weight_one()
    features = TRAIN.features.astype(float)
    for data, weights in (
        (weighted, weighted.query_weights[weighted.query_of_document]),  # type: ignore[index]
        (varied, varied.document_weights),
    ):
        expected = (
            Ridge().fit(features, TRAIN.labels, sample_weight=weights).predict(features)
        )
        np.testing.assert_allclose(
            AnyRanker(kind="line").fit(data).predict(TRAIN.features), expected
        )
        assert concerns_of(AnyRanker(kind="lines"), data) == ()
        plain, weighed = (
            AnyRanker(kind="lines").fit(each).predict(TRAIN.features)
            for each in (TRAIN, data)
        )
        assert not np.array_equal(plain, weighed)
        with sklearn.config_context(enable_metadata_routing=True):
            routed = AnyRanker(kind="lines").fit(data).predict(TRAIN.features)
        np.testing.assert_array_equal(routed, weighed)


def test_weights_are_refused_if_the_regressor_accepts_none(
    add: Callable[[Any], str],
) -> None:
    for make in (
        lambda: PLSRegression(2),
        lambda: make_pipeline(StandardScaler(), PLSRegression(2)),
    ):
        ranker = AnyRanker(kind=add(make))
        assert ranker.fit(TRAIN).predict(TEST.features).shape == (TEST.num_documents,)
        name = type(ranker.estimator()).__name__
        with pytest.raises(DataError, match=naming(name, "weights", "without weights")):
            ranker.fit(replace(TRAIN, query_weights=np.ones(TRAIN.num_queries)))


def test_what_is_no_regressor_and_an_invalid_parameter_are_refused(
    add: Callable[[Any], str],
) -> None:
    with pytest.raises(
        ConfigError, match=naming("AnyRanker.estimator()", "LogisticRegression")
    ):
        AnyRanker(kind=add(LogisticRegression))
    ranker = AnyRanker(kind=add(lambda: make_pipeline(PCA(-1), Ridge())))
    with pytest.raises(
        ConfigError, match=naming("AnyRanker", "'n_components'", "Got -1")
    ):
        ranker.fit(TRAIN)


@dataclass(kw_only=True)
class Doubling(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A user's own regressor."""

    def fit(self, features: Any, labels: Any) -> Doubling:
        self.n_features_in_ = features.shape[1]
        return self

    def predict(self, features: Any) -> Any:
        return 2 * features[:, 0]


def test_types_that_are_not_trusted_are_named_when_the_model_is_saved(
    add: Callable[[Any], str], tmp_path: Path
) -> None:
    ranker = AnyRanker(kind=add(Doubling)).fit(TRAIN)
    with pytest.raises(ConfigError, match=naming("Doubling", "trusted_types")):
        ranker.save(tmp_path)


def test_a_damaged_model_is_refused_with_the_file(tmp_path: Path) -> None:
    AnyRanker(kind="line").fit(TRAIN).save(tmp_path)
    (tmp_path / NAME).write_bytes((tmp_path / NAME).read_bytes()[:100])
    with pytest.raises(ResultError, match=naming(tmp_path / NAME, "Copy it again")):
        AnyRanker.load(tmp_path)


def test_a_forest_has_the_gain_of_its_features_and_a_linear_model_has_none() -> None:
    forest = AnyRanker(kind="forest").fit(TRAIN)
    (gains,) = forest.importance().values()
    assert gains.shape == (TRAIN.num_features,)
    assert gains.sum() == pytest.approx(1)
    assert AnyRanker(kind="line").fit(TRAIN).importance() == {}
