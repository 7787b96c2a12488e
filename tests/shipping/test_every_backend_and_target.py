"""Every backend in every format, on every kind of data: certified, or refused for a stated limit."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from messages import naming
from shipped_models import certified, every_target, random_data, shipped, target_of

from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError
from ltrbench.rankers import Ensemble, InnerNode, Leaf, Ranker, WeightedTree
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.linear import LinearRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.shapes import Features, Scores
from ltrbench.shipping.certificate import CERTIFIED, REFUSED, Certificate, certify
from ltrbench.shipping.target import (
    ABSENT_ZEROS,
    MISSING_VALUES,
    NEGATIVE_SCORES,
    Linear,
    ShippedModel,
)

TREES = {
    "native": NativeRanker(num_trees=8, num_leaves=8),
    "native dart": NativeRanker(num_trees=8, num_leaves=8, drop_rate=0.5),
    "lightgbm": LightGBMRanker(num_trees=8, num_leaves=8),
    "lightgbm dart": LightGBMRanker(
        num_trees=8, num_leaves=8, extra={"boosting": "dart"}
    ),
    "lightgbm zero_as_missing": LightGBMRanker(
        num_trees=8, num_leaves=8, extra={"zero_as_missing": True}
    ),
    "xgboost": XGBoostRanker(num_trees=8, num_leaves=8),
    "catboost": CatBoostRanker(num_trees=8),
}
LINEAR = {"single_feature": SingleFeatureRanker(), "linear": LinearRanker()}
BACKENDS = {**TREES, **LINEAR}
KINDS = ("dense", "missing", "presence", "zeros", "ties")
WITH_LINEAR_MODELS = {"elasticsearch", "opensearch", "solr", "vespa"}
MISSING_IS_ZERO = {"solr", "ranklib"}
ABSENT_IS_MISSING = {"elasticsearch", "opensearch"}
"""Targets in which a choice is required for data with missing values."""


@cache
def data_of(kind: str) -> RankingDataset:
    """Documents with missing values, zeros, or many equal values and equal documents. With "presence", the
    label is whether a feature has a value."""
    data = Synthetic(name="synthetic", num_queries=24).load().train
    features = np.array(data.features)
    chosen = np.random.default_rng(0).random(features.shape) < 0.3
    if kind in ("missing", "zeros"):
        features[chosen] = np.nan if kind == "missing" else 0
    elif kind == "presence":
        features[data.labels < 2, 0] = np.nan
    elif kind == "ties":
        features = np.round(features).astype(np.float32)
        for start, stop in zip(
            data.query_start[:-1], data.query_start[1:], strict=True
        ):
            features[start : stop - 1 : 2] = features[start + 1 : stop : 2]
    return replace(data, features=features)


@cache
def fitted(backend: str, kind: str) -> tuple[Ranker, ShippedModel]:
    data = data_of(kind)
    ranker = replace(BACKENDS[backend]).fit(data)
    has_missing = bool(np.isnan(data.features).any())
    if isinstance(ranker, SingleFeatureRanker | LinearRanker):
        scorer: Linear | Ensemble = Linear(ranker.weights)
    else:
        scorer = ranker.trees()
    return ranker, ShippedModel(
        "a_model", tuple(data.feature_names), scorer, has_missing
    )


def is_refused(target: str, options: dict[str, Any], backend: str, kind: str) -> bool:
    """Whether a target refuses a model for its missing values on data of a kind."""
    if kind not in ("missing", "presence"):
        return False
    if backend == "linear":
        return True
    if backend == "single_feature":
        # Without presence the feature ranks last, where 0 ranks too; in Vespa, a missing value has no score.
        return kind == "missing" or target == "vespa"
    is_zero = target in MISSING_IS_ZERO or options.get("form") == "ranklib"
    return (
        is_zero
        and "zero_as_missing" not in backend
        and options.get("absent") != "missing"
    )


DATA = [
    *((backend, "missing") for backend in BACKENDS),
    *itertools.product(("native", "xgboost", "linear"), KINDS),
]
"""Backends and kinds of data: every backend, and every kind for both comparisons."""


@pytest.mark.parametrize(("backend", "kind"), list(dict.fromkeys(DATA)))
@every_target
def test_a_model_is_certified_or_refused_for_a_stated_limit(
    name: str, options: dict[str, Any], backend: str, kind: str
) -> None:
    form = options.get("form")
    ranker, model = fitted(backend, kind)
    for_trees = form is not None or "absent" in options
    if model.has_missing_values and name in ABSENT_IS_MISSING and form is None:
        options = {**options, "absent": "missing"}
    target = target_of(name, options)
    if isinstance(model.scorer, Linear) and (
        name not in WITH_LINEAR_MODELS or for_trees
    ):
        with pytest.raises(ConfigError, match="linear model"):
            target.export(model)
        return
    export = target.export(model)
    certificate = certify(
        model,
        ranker.predict,
        data_of(kind),
        export,
        target.engine(model, export),
    )
    if certificate.negative_queries and kind not in ("missing", "presence"):
        assert certificate.status == REFUSED
        assert export.negative_scores in certificate.reason
        certificate = certificate_of(
            name, options, backend, kind, certificate.negative_queries
        )
    refused = is_refused(name, options, backend, kind)
    assert certificate.status == (REFUSED if refused else CERTIFIED), certificate.reason
    if refused:
        assert export.limits[MISSING_VALUES] in certificate.reason
        return
    assert certificate.comparison is not None
    assert not certificate.comparison.changed_queries
    assert certificate.unexplained.size == 0
    assert certificate.absent is None or not certificate.absent.changed_queries
    assert certificate.num_tested == certificate.num_splits
    assert {
        limit for limit, rows in certificate.probes.items() if rows.differing
    } <= set(export.limits)


@pytest.mark.parametrize("name", sorted(ABSENT_IS_MISSING))
def test_negative_scores_of_a_linear_model_are_counted_and_refused(name: str) -> None:
    data = data_of("dense")
    first = np.asarray(data.features)[:, 0]
    smallest = np.minimum.reduceat(first, data.query_start[:-1])
    # Half of the queries have a score below this value of a feature.
    middle = np.float32(np.median(smallest))
    shifted = replace(data, features=(np.asarray(data.features) - middle))
    weights = np.zeros(data.num_features)
    weights[0] = 1.0
    model = ShippedModel("m", tuple(data.feature_names), Linear(weights), False)
    target = target_of(name, {})
    export = target.export(model)

    def certificate_on(of: RankingDataset, tolerance: int = 0) -> Certificate:
        engine = target.engine(model, export)

        def predict(features: Features) -> Scores:
            return np.asarray(features @ weights, dtype=np.float64)

        return certify(model, predict, of, export, engine, tolerance=tolerance)

    negative = int((smallest < middle).sum())
    refused = certificate_on(shifted)
    assert (refused.status, refused.negative_queries) == (REFUSED, negative)
    documents = int((first < middle).sum())
    assert refused.limits[NEGATIVE_SCORES].documents == documents
    parts = (documents, f"{negative} of {data.num_queries} queries", "--to solr")
    assert re.search(naming(*parts, f"--tolerance {negative}"), refused.reason)
    assert certificate_on(shifted, negative).status == CERTIFIED
    assert certificate_on(shifted, negative - 1).status == REFUSED
    positive = replace(data, features=np.abs(np.asarray(data.features)))
    assert certificate_on(positive).status == CERTIFIED


def certificate_of(
    name: str, options: dict[str, Any], backend: str, kind: str, tolerance: int = 0
) -> Certificate:
    (ranker, model), target = fitted(backend, kind), target_of(name, options)
    export = target.export(model)
    engine = target.engine(model, export)
    return certify(
        model, ranker.predict, data_of(kind), export, engine, tolerance=tolerance
    )


@pytest.mark.parametrize("name", sorted(ABSENT_IS_MISSING))
def test_zeros_that_are_absent_in_the_engine_rank_as_zeros_or_the_certificate_fails(
    name: str,
) -> None:
    """XGBoost sends missing values left at each split if the training data have none."""
    certificate = certificate_of(name, {}, "xgboost", "zeros")
    assert certificate.status == CERTIFIED
    assert certificate.absent is not None
    assert certificate.absent.metric is not None
    assert certificate.absent.metric.loss == 0
    assert certificate.probes[ABSENT_ZEROS].tested > 0
    as_missing = certificate_of(name, {"absent": "missing"}, "xgboost", "zeros")
    assert as_missing.status == REFUSED
    assert as_missing.absent is not None
    assert as_missing.absent.metric is not None
    assert as_missing.absent.metric.loss > 0.1
    assert re.search(naming("0", "ndcg@10", "--set absent=zero"), as_missing.reason)
    changed = len(as_missing.absent.changed_queries)
    assert (
        certificate_of(name, {"absent": "missing"}, "xgboost", "zeros", changed).status
        == CERTIFIED
    )


def many_stumps(count: int) -> Ensemble:
    """The last tree moves scores by 1e-5, less than the rounding errors of a float32 sum may be."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(count, 2)) / 100
    values[-1] = (-1e-5, 1e-5)
    trees = [
        WeightedTree(
            1.0,
            InnerNode(
                int(rng.integers(3)), float(np.float32(rng.normal())), True, *leaves
            ),
        )
        for leaves in ((Leaf(left), Leaf(right)) for left, right in values.tolist())
    ]
    return Ensemble(tuple(trees), base_score=0.25)


@every_target
def test_a_model_without_its_last_tree_is_refused(
    name: str, options: dict[str, Any]
) -> None:
    ensemble, target = many_stumps(150), target_of(name, options)
    data = random_data(
        (np.abs(np.random.default_rng(1).normal(size=(40, 3))) + 0.1).astype(np.float32)
    )
    assert certified(target, ensemble, data).status == CERTIFIED
    files = target.export(shipped(replace(ensemble, trees=ensemble.trees[:-1]))).files
    assert certified(target, ensemble, data, files).status == REFUSED
