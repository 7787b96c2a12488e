"""Every backend in every format, on every kind of data: certified, or refused for a stated limit."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError
from ltrbench.rankers import Ranker
from ltrbench.rankers.capabilities import SupportsTrees, exact_trees_of
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.shipping.certificate.certifying import certify
from ltrbench.shipping.certificate.record import CERTIFIED, REFUSED
from ltrbench.shipping.lookup import build_target, target_names
from ltrbench.shipping.model import Linear, ShippedModel
from ltrbench.shipping.target import MISSING_VALUES, ZERO_VALUES

TREES = {
    "native": NativeRanker(num_trees=8, num_leaves=8),
    "native dart": NativeRanker(num_trees=8, num_leaves=8, drop_rate=0.5),
    "lightgbm": LightGBMRanker(num_trees=8, num_leaves=8),
    "lightgbm dart": LightGBMRanker(num_trees=8, num_leaves=8, extra={"boosting": "dart"}),
    "lightgbm zero_as_missing": LightGBMRanker(num_trees=8, num_leaves=8, extra={"zero_as_missing": True}),
    "xgboost": XGBoostRanker(num_trees=8, num_leaves=8),
    "catboost": CatBoostRanker(num_trees=8),
}
BACKENDS = {**TREES, "single_feature": SingleFeatureRanker()}
KINDS = ("dense", "missing", "zeros", "ties")
EXTRAS = {"onnx": "onnxruntime", "treelite": "treelite"}

TARGETS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in target_names()),
    ("elasticsearch", {"form": "ranklib"}),
    ("opensearch", {"form": "ranklib"}),
    ("vespa", {"form": "xgboost"}),
    ("vespa", {"fast_forest": True}),
]
WITH_LINEAR_MODELS = {"elasticsearch", "opensearch", "solr", "vespa"}
MISSING_IS_ZERO = {"solr", "ranklib"}
ZEROS_CANNOT_BE_MISSING = {"elasticsearch", "opensearch", "solr", "ranklib", "xgboost"}


@cache
def data_of(kind: str) -> RankingDataset:
    """Documents with missing values, zeros, or many equal values and equal documents."""
    data = Synthetic(name="synthetic", num_queries=24).load().train
    features = np.array(data.features)
    chosen = np.random.default_rng(0).random(features.shape) < 0.3
    if kind in ("missing", "zeros"):
        features[chosen] = np.nan if kind == "missing" else 0
    elif kind == "ties":
        features = np.round(features).astype(np.float32)
        for start, stop in zip(data.query_start[:-1], data.query_start[1:], strict=True):
            features[start : stop - 1 : 2] = features[start + 1 : stop : 2]
    return replace(data, features=features)


@cache
def fitted(backend: str, kind: str) -> tuple[Ranker, ShippedModel]:
    data = data_of(kind)
    ranker = replace(BACKENDS[backend]).fit(data)
    if isinstance(ranker, SingleFeatureRanker):
        return ranker, ShippedModel("a_model", tuple(data.feature_names), Linear(ranker.weights))
    assert isinstance(ranker, SupportsTrees)
    return ranker, ShippedModel("a_model", tuple(data.feature_names), exact_trees_of(ranker))


def refused_kinds(target: str, form: str | None, backend: str, kind: str) -> set[str]:
    """The limits for which a target refuses a model on data of a kind."""
    refused = set()
    is_zero = target in MISSING_IS_ZERO or form == "ranklib"
    if kind == "missing" and (is_zero or backend == "single_feature"):
        refused.add(MISSING_VALUES)
    if backend == "lightgbm zero_as_missing" and target in ZEROS_CANNOT_BE_MISSING:
        refused.add(ZERO_VALUES)  # every kind of these data has zeros
    return refused


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "options"), TARGETS, ids=str)
def test_a_model_is_certified_or_refused_for_a_stated_limit(
    name: str, options: dict[str, Any], backend: str, kind: str
) -> None:
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    target, form = build_target(name, options), options.get("form")
    ranker, model = fitted(backend, kind)
    if isinstance(model.scorer, Linear) and (name not in WITH_LINEAR_MODELS or form is not None):
        with pytest.raises(ConfigError, match="linear model"):
            target.export(model)
        return
    export = target.export(model)
    certificate = certify(model, ranker.predict, data_of(kind), export, target.engine(model, export))
    expected = refused_kinds(name, form, backend, kind)
    assert certificate.status == (REFUSED if expected else CERTIFIED), certificate.reason
    if expected:
        assert expected <= set(export.limits)
        assert any(export.limits[limit] in certificate.reason for limit in expected)
        return
    assert certificate.comparison is not None
    assert not certificate.comparison.changed_queries
    assert (certificate.constant, certificate.unexplained.size) == (0, 0)
    assert certificate.coverage.tested == certificate.coverage.splits
    assert {limit for limit, rows in certificate.probes.items() if rows.differing} <= set(export.limits)
