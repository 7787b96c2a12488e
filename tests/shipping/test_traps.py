"""Models on which conversions are known to fail, in every format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from ltrbench.data import RankingDataset
from ltrbench.models.trees import Node, ensemble_scores
from ltrbench.rankers import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.shipping.certificate import CERTIFIED, certify
from ltrbench.shipping.target import ShippedModel, build_target, target_names

EXTRAS = {"onnx": "onnxruntime", "treelite": "treelite"}
NUM_FEATURES = 4
NAMES = tuple(f"feature_{number}" for number in range(NUM_FEATURES))


def one(root: Node, **options: object) -> Ensemble:
    return Ensemble((WeightedTree(1.0, root),), **options)  # type: ignore[arg-type]


def split(feature: int, threshold: float, left: Node | float, right: Node | float) -> InnerNode:
    """A split that sends missing values where 0 goes, as engines do in which a missing value is 0."""
    left, right = (Leaf(node) if isinstance(node, float) else node for node in (left, right))
    return InnerNode(feature, threshold, threshold >= 0, left, right)


def deep(depth: int) -> Node:
    root: Node = Leaf(-1.0)
    for level in range(depth):
        root = split(level % NUM_FEATURES, float(level - depth / 2) / 8, root, float(level))
    return root


def symmetric(depth: int) -> Node:
    def level(feature: int, number: int) -> Node:
        if feature == depth:
            return Leaf(number / 8)
        return split(feature, 0.25, level(feature + 1, 2 * number), level(feature + 1, 2 * number + 1))

    return level(0, 0)


def stumps(count: int) -> Ensemble:
    rng = np.random.default_rng(0)
    thresholds, values = rng.normal(size=count).tolist(), (rng.normal(size=(count, 2)) / count).tolist()
    features = rng.integers(NUM_FEATURES, size=count).tolist()
    rows = zip(features, thresholds, values, strict=True)
    trees = (WeightedTree(1.0, split(feature, at, left, right)) for feature, at, (left, right) in rows)
    return Ensemble(tuple(trees), threshold_dtype="float64")


def dropped_out() -> Ensemble:
    """Trees with the weights of dart, which are neither 1 nor powers of two."""
    weighted = [
        WeightedTree(weight, split(number, 0.1, -1.0, 1.0), shrinkage=0.1)
        for number, weight in enumerate((0.3, 0.7, 1 / 3))
    ]
    return Ensemble(tuple(weighted), base_score=0.5, threshold_dtype="float64")


def equal_as_float32() -> Ensemble:
    """Two thresholds of seconds since 1970 that are one number in float32."""
    inner = split(0, 1.7e9 + 0.25, 1.0, 2.0)
    return one(split(0, 1.7e9 + 0.75, inner, 3.0), threshold_dtype="float64")


TRAPS: dict[str, Callable[[], Ensemble]] = {
    "thresholds that are equal as float32": equal_as_float32,
    "features that no tree uses": lambda: one(split(1, 0.5, -1.0, 1.0)),
    "one tree": lambda: one(split(0, 0.5, split(1, -0.5, 0.0, 1.0), 2.0)),
    "one leaf": lambda: one(Leaf(0.75)),
    "one leaf among trees": lambda: replace(
        stumps(2), trees=(*stumps(2).trees, WeightedTree(0.5, Leaf(0.75)))
    ),
    "depth 60": lambda: one(deep(60)),
    "weights of dart": dropped_out,
    "a symmetric tree": lambda: one(symmetric(NUM_FEATURES)),
}


def check(name: str, ensemble: Ensemble, data: RankingDataset) -> None:
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    target, model = build_target(name, {}), ShippedModel("a_model", tuple(data.feature_names), ensemble)
    export = target.export(model)
    predict = partial(ensemble_scores, ensemble)
    certificate = certify(model, predict, data, export, target.engine(model, export))
    assert certificate.status == CERTIFIED, certificate.reason
    assert certificate.comparison is not None
    assert not certificate.comparison.changed_queries


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", target_names())
def test_a_trap_is_certified(name: str, trap: str) -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(60, NUM_FEATURES)).astype(np.float32)
    if trap == "thresholds that are equal as float32":
        features[:, 0] = 1.7e9 + 128 * rng.integers(-2, 3, 60)
    data = RankingDataset(
        features=features,
        labels=rng.integers(0, 3, 60).astype(float),
        query_start=np.arange(0, 61, 10),
        feature_names=NAMES,
    )
    check(name, TRAPS[trap](), data)
