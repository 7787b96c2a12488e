"""Models of Apache Solr's Learning to Rank module, as JSON.

    {"class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel", "name", "store"?,
     "features": [{"name", "norm"?}], "params": {"trees": [{"weight", "root": node}]}}

A node is {"feature", "threshold", "left", "right"}, or a leaf {"value"}. Numbers of trees are texts, because
Solr has no setter for a JSON number. From Solr 9.2 on, a node may have "missing": "left" or "right", which
counts with "params": {"isNullSameAsZero": false}; then each split needs it. LinearModel has "params":
{"weights": {name: number}}, with numbers.

Solr adds 1e-6 to each threshold, in float32, and a value goes left if it is at most the sum. The written
threshold w is the number for which the sum is the model's threshold t exactly. No such w exists for part of
the small thresholds, because w, which is near t - 1e-6, has larger rounding steps than t: all numbers below
1e-13, 4 % of the thresholds between 0 and 2e-5, and a few just above each -2^-k. Then the feature gets a
StandardNormalizer that divides it by a power of two, which is exact, and thresholds are scaled with it. Only
if the thresholds of a feature range over more than 40 orders of magnitude are the smallest ones written as
the closest number (`lossy_features`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.models.float32 import at_most_trees, float32_texts, nested_json
from ltrbench.models.trees import Ensemble, FlatTree
from ltrbench.native.nodes import NO_FEATURE

SOLR_SLACK: Final = np.float32(1e-6)
"""What Solr adds to a threshold (NODE_SPLIT_SLACK)."""
TREES_CLASS: Final = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
LINEAR_CLASS: Final = "org.apache.solr.ltr.model.LinearModel"
NORMALIZER_CLASS: Final = "org.apache.solr.ltr.norm.StandardNormalizer"

MOST_SOLR_LEVELS: Final = 500
"""Maximum depth of a tree: Solr builds trees recursively, and Java's stack ends at about 1,000 levels."""

_LARGEST = float(np.finfo(np.float32).max)
_MOST_DOUBLINGS = 126
"""2^-126 is the smallest normal float32."""
_NEIGHBOURS = 3


def write_solr_trees(
    ensemble: Ensemble,
    name: str,
    feature_names: Sequence[str],
    store: str = "",
    with_missing: bool = False,
) -> bytes:
    """Returns a MultipleAdditiveTreesModel; values of leaves contain the weights of the trees.

    Its features are those that the trees use, because Solr computes every feature of a model.

    Args:
        name: name of the model.
        feature_names: F names of the features.
        store: name of the feature store; empty: the default one.
        with_missing: whether splits say where missing values go, for Solr 9.2 and newer.

    Raises:
        ConfigError: A leaf value or the base score is beyond float32, or a tree has more than
            `MOST_SOLR_LEVELS` levels.
    """
    trees = list(at_most_trees(ensemble))
    doublings = {feature: _doublings_of(thresholds) for feature, thresholds in _thresholds_of(trees).items()}
    features = [_feature(feature_names[feature], doublings[feature]) for feature in sorted(doublings)]
    names = [json.dumps(each) for each in feature_names]
    scales = np.array([2.0 ** doublings.get(feature, 0) for feature in range(len(names))] or [1.0])
    roots = (_nested(tree, names, scales, with_missing) for tree in trees)
    nodes = ",\n".join(f'{{"weight":"1.0","root":{root}}}' for root in roots)
    head = _head(TREES_CLASS, name, features or [{"name": feature_names[0]}], store)
    null = '"isNullSameAsZero":false,' if with_missing else ""
    return f'{head}"params":{{{null}"trees":[{nodes}]}}}}\n'.encode()


def write_solr_linear(
    weights: NDArray[np.floating], name: str, feature_names: Sequence[str], store: str = ""
) -> bytes:
    """Returns a LinearModel of the features with a weight other than 0.

    Args:
        weights: (F,).
        name, feature_names, store: as for `write_solr_trees`.

    Raises:
        ConfigError: A weight is beyond float32.
    """
    with np.errstate(over="ignore"):
        rounded = weights.astype(np.float32)
    if not np.isfinite(rounded).all():
        raise ConfigError(f"{name} has a weight that is not finite as float32. Scale the features.")
    used = np.flatnonzero(weights).tolist() or [0]
    texts = float32_texts(rounded)
    head = _head(LINEAR_CLASS, name, [{"name": feature_names[feature]} for feature in used], store)
    named = ",".join(f"{json.dumps(feature_names[feature])}:{texts[feature]}" for feature in used)
    return f'{head}"params":{{"weights":{{{named}}}}}}}\n'.encode()


def slack_corrected(thresholds: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Returns the w with w + 1e-6 closest to each threshold, in float32 arithmetic, and whether it is equal.

    Args:
        thresholds: (N,), which may be infinite.

    >>> slack_corrected(np.array([0.0, 1e-20], dtype=np.float32))
    (array([-1.e-06, -1.e-06], dtype=float32), array([ True, False]))
    """
    with np.errstate(over="ignore", invalid="ignore"):
        below = above = corrected = thresholds - SOLR_SLACK
        errors = np.abs(corrected + SOLR_SLACK - thresholds)
        for _ in range(_NEIGHBOURS):
            below = np.nextafter(below, np.float32(-np.inf))
            above = np.nextafter(above, np.float32(np.inf))
            for candidate in (below, above):
                error = np.abs(candidate + SOLR_SLACK - thresholds)
                corrected = np.where(error < errors, candidate, corrected)
                errors = np.fmin(error, errors)
    return corrected, corrected + SOLR_SLACK == thresholds


def lossy_features(ensemble: Ensemble) -> list[int]:
    """Returns the features of which a threshold cannot be written exactly, although the feature is scaled."""
    thresholds = _thresholds_of(list(at_most_trees(ensemble)))
    return [
        feature
        for feature, parts in sorted(thresholds.items())
        if not slack_corrected(_scaled(np.concatenate(parts), _doublings_of(parts)))[1].all()
    ]


def _thresholds_of(trees: Sequence[FlatTree]) -> dict[int, list[NDArray[np.float32]]]:
    """Returns used feature -> its thresholds, an array for each tree."""
    thresholds: dict[int, list[NDArray[np.float32]]] = {}
    for tree in trees:
        for feature in set(tree.feature.tolist()) - {NO_FEATURE}:
            chosen = tree.threshold[tree.feature == feature].astype(np.float32)
            thresholds.setdefault(feature, []).append(chosen)
    return thresholds


def _doublings_of(thresholds: Sequence[NDArray[np.float32]]) -> int:
    """Returns a small k for which all thresholds of a feature, times 2^k, can be written.

    If there is none, it is the largest k for which the products are finite.
    """
    every = np.unique(np.concatenate(thresholds))
    if slack_corrected(every)[1].all():
        return 0
    magnitudes = np.abs(every[np.isfinite(every) & (every != 0)]).astype(np.float64)
    most = min(int(np.floor(np.log2(_LARGEST / magnitudes.max()))), _MOST_DOUBLINGS)
    # Below half the slack, w has larger rounding steps than the threshold.
    first = max(int(np.log2(0.5 * float(SOLR_SLACK) / magnitudes.min())), 1)
    for doublings in range(first, most + 1):
        if slack_corrected(_scaled(every, doublings))[1].all():
            return doublings
    return max(most, 0)


def _scaled(thresholds: NDArray[np.floating], doublings: int) -> NDArray[np.float32]:
    return (thresholds.astype(np.float64) * 2.0**doublings).astype(np.float32)


def _feature(name: str, doublings: int) -> dict[str, object]:
    if not doublings:
        return {"name": name}
    (std,) = float32_texts(np.array([2.0**-doublings]))
    return {"name": name, "norm": {"class": NORMALIZER_CLASS, "params": {"avg": "0.0", "std": std}}}


def _head(kind: str, name: str, features: Sequence[dict[str, object]], store: str) -> str:
    """Returns the JSON up to the parameters."""
    record = {"class": kind, "name": name} | ({"store": store} if store else {}) | {"features": [*features]}
    return json.dumps(record, separators=(",", ":")).removesuffix("}") + ",\n"


def _nested(tree: FlatTree, names: Sequence[str], scales: NDArray[np.float64], with_missing: bool) -> str:
    """Returns the JSON of a tree.

    Args:
        names: F names as JSON.
        scales: (F,) factors of the thresholds.
        with_missing: whether splits say where missing values go.
    """
    sides = ['"missing":"left",' if left else '"missing":"right",' for left in tree.missing_left]
    scaled = tree.threshold * scales[tree.feature]
    corrected = float32_texts(slack_corrected(scaled.astype(np.float32))[0])
    values, is_leaf, features = float32_texts(tree.value), tree.is_leaf.tolist(), tree.feature.tolist()

    def text_of(node: int, depth: int) -> str:
        if is_leaf[node]:
            return f'{{"value":"{values[node]}"}}'
        if depth == MOST_SOLR_LEVELS:
            raise ConfigError(
                f"a tree has more than {MOST_SOLR_LEVELS} levels, but Solr reads trees recursively. "
                "Limit the depth, for example with max_depth."
            )
        missing = sides[node] if with_missing else ""
        return f'{{"feature":{names[features[node]]},"threshold":"{corrected[node]}",{missing}"left":'

    return nested_json(is_leaf, text_of, between=',"right":')
