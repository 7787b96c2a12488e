"""Splits that separate missing values from all others: their threshold is above every finite value."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from ltrbench.data import RankingDataset
from ltrbench.models.trees import ensemble_scores
from ltrbench.rankers import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.shipping.certificate import CERTIFIED, certify
from ltrbench.shipping.target import INFINITE_VALUES, ShippedModel, build_target


@pytest.mark.parametrize("missing_left", [True, False])
@pytest.mark.parametrize("threshold", [1e300, math.inf])
@pytest.mark.parametrize("name", ["elasticsearch", "opensearch", "vespa", "xgboost"])
def test_a_model_with_such_a_split_is_certified(name: str, threshold: float, missing_left: bool) -> None:
    """Infinite values are the only limit. Vespa has thresholds above all float32, but no infinite ones."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 2)).astype(np.float32)
    features[rng.random(60) < 0.4, 0] = np.nan
    data = RankingDataset(
        features=features, labels=rng.integers(0, 3, 60).astype(float), query_start=np.arange(0, 61, 10)
    )
    left = InnerNode(1, 0.5, True, Leaf(0.0), Leaf(1.0))
    root = InnerNode(0, threshold, missing_left, left, Leaf(2.0))
    ensemble = Ensemble((WeightedTree(1.0, root),), threshold_dtype="float64")
    options = {"absent": "missing"} if name in ("elasticsearch", "opensearch") else {}
    model, target = ShippedModel("a_model", ("a", "b"), ensemble, True), build_target(name, options)
    export = target.export(model)
    certificate = certify(
        model, partial(ensemble_scores, ensemble), data, export, target.engine(model, export)
    )
    assert certificate.status == CERTIFIED
    is_exact = name == "vespa" and threshold < math.inf
    assert set(certificate.limits) == (set() if is_exact else {INFINITE_VALUES})
