"""Models and targets for tests of shipping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from ltrbench.data import RankingDataset
from ltrbench.models.trees import Node, ensemble_scores
from ltrbench.rankers import Ensemble, WeightedTree
from ltrbench.shapes import Features
from ltrbench.shipping.certificate import Certificate, certify
from ltrbench.shipping.target import (
    Linear,
    ShippedModel,
    Target,
    build_target,
    target_names,
)

EXTRAS = {"onnx": "onnxruntime", "treelite": "treelite"}
TARGETS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in target_names()},
    "elasticsearch ranklib": ("elasticsearch", {"form": "ranklib"}),
    "opensearch ranklib": ("opensearch", {"form": "ranklib"}),
    "vespa xgboost": ("vespa", {"form": "xgboost"}),
    "vespa fast forest": ("vespa", {"fast_forest": True}),
    "solr missing": ("solr", {"absent": "missing"}),
}
"""Name of a test -> target and options."""
VERSIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "elasticsearch 8.9": ("elasticsearch", {"version": "8.9.2"}),
    "elasticsearch missing": ("elasticsearch", {"absent": "missing"}),
    "opensearch 3.5": ("opensearch", {"version": "3.5"}),
    "opensearch missing": ("opensearch", {"absent": "missing"}),
    "onnx float32": ("onnx", {"form": "float32"}),
}
"""What the plug-ins do with absent features, and ONNX in float32, which rounds leaf values and sums."""
every_target = pytest.mark.parametrize(
    ("name", "options"), TARGETS.values(), ids=TARGETS.keys()
)
every_target_and_version = pytest.mark.parametrize(
    ("name", "options"),
    [*TARGETS.values(), *VERSIONS.values()],
    ids=[*TARGETS, *VERSIONS],
)


def target_of(name: str, options: dict[str, Any]) -> Target:
    """Returns a target; skips the test if its package is not installed."""
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    return build_target(name, options)


def shipped(scorer: Ensemble | Linear, num_features: int = 3) -> ShippedModel:
    return ShippedModel(
        "a_model", tuple(f"feature {number}" for number in range(num_features)), scorer
    )


def of_one(root: Node, **options: Any) -> Ensemble:
    return Ensemble((WeightedTree(1.0, root),), **options)


def scores_of(target: Target, model: ShippedModel, features: Features) -> np.ndarray:
    engine = target.engine(model, target.export(model))
    assert engine is not None
    return np.asarray(engine.scores(features))


def certified(
    target: Target,
    ensemble: Ensemble,
    data: RankingDataset,
    changed: Mapping[str, bytes] | None = None,
    tolerance: int = 0,
) -> Certificate:
    """Returns the certificate of trees; `changed` replaces files of the export."""
    has_missing = bool(np.isnan(np.asarray(data.features)).any())
    model = replace(
        shipped(ensemble, data.num_features), has_missing_values=has_missing
    )
    export = target.export(model)
    export = replace(export, files={**export.files, **(changed or {})})
    engine = target.engine(model, export)
    predict = partial(ensemble_scores, ensemble)
    return certify(model, predict, data, export, engine, tolerance=tolerance)


def random_data(features: Features) -> RankingDataset:
    """Returns a data set with queries of ten documents."""
    labels = np.random.default_rng(0).integers(0, 3, len(features)).astype(float)
    return RankingDataset(
        features=features,
        labels=labels,
        query_start=np.arange(0, len(features) + 1, 10),
    )
