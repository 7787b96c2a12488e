"""Models with categorical features: every target certifies them, or refuses them by name."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from messages import naming
from shipped_models import (
    certified,
    every_target,
    of_one,
    random_data,
    shipped,
    target_of,
)
from shop_log import shop_log

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.models.trees import as_lines, bits_of
from ltrbench.rankers import InnerNode, Leaf, Ranker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.shipping.certificate import (
    CERTIFIED,
    IN_SET,
    NOT_IN_SET,
    REFUSED,
    UNKNOWN,
    certify,
)
from ltrbench.shipping.destination import Destination
from ltrbench.shipping.shipment import check_categories, encoded_columns
from ltrbench.shipping.target import ShippedModel

BACKENDS = {
    "native": NativeRanker,
    "lightgbm": LightGBMRanker,
    "xgboost": XGBoostRanker,
}


@cache
def log() -> RankingDataset:
    frame = shop_log(num_queries=60, num_brands=100)
    frame.loc[::7, "brand"] = None
    features = ["text_match", "price", "brand", "category"]
    return RankingDataset.from_frame(
        frame, features=features, categorical=["brand", "category"]
    )


@cache
def fitted(backend: str) -> Ranker:
    ranker: Ranker = BACKENDS[backend](num_trees=8, num_leaves=15, num_threads=2)
    return ranker.fit(log())


@pytest.mark.parametrize("backend", BACKENDS)
@every_target
def test_a_model_with_categories_is_certified_or_refused_by_name(
    name: str, options: dict[str, Any], backend: str
) -> None:
    ranker, target = fitted(backend), target_of(name, options)
    model = ShippedModel(
        "a", ranker.feature_names, ranker.trees(), True, categories=ranker.categories
    )
    if not target.holds_categories:
        with pytest.raises(
            ConfigError, match=naming(name, "brand", "category", "--to c")
        ):
            check_categories(model, target)
        return
    check_categories(model, target)
    if (name, backend) == ("lightgbm", "xgboost"):
        with pytest.raises(ConfigError, match=naming("missing", "brand", "treelite")):
            target.export(model)
        return
    export = target.export(model)
    certificate = certify(
        model, ranker.predict, log(), export, target.engine(model, export)
    )
    assert certificate.status == CERTIFIED, certificate.reason
    assert certificate.unexplained.size == 0
    assert certificate.num_tested == certificate.num_splits
    assert all(
        certificate.probes[kind].tested for kind in (IN_SET, NOT_IN_SET, UNKNOWN)
    )
    assert not any(rows.differing for rows in certificate.probes.values())
    assert " in {brand" in "\n".join(
        as_lines(ranker.trees(), model.feature_names, model.categories)
    )


@pytest.mark.parametrize(
    "wrong",
    [[3], [3, 40, 41], [3, 72]],
    ids=["a code less", "a code more", "the next word"],
)
@pytest.mark.parametrize("name", ["c", "lightgbm", "treelite"])
def test_a_set_with_another_code_is_refused_although_no_document_has_it(
    name: str, wrong: list[int]
) -> None:
    def stump(codes: list[int]) -> Any:
        return of_one(
            InnerNode(0, np.nan, False, Leaf(1.0), Leaf(0.0), categories=bits_of(codes))
        )

    target, right = target_of(name, {}), stump([3, 40])
    data = random_data(np.full((20, 3), 3, dtype=np.float32))
    files = target.export(shipped(stump(wrong))).files
    assert certified(target, right, data).status == CERTIFIED
    assert certified(target, right, data, files).status == REFUSED


@every_target
def test_one_hot_features_of_categories_are_certified_by_every_target(
    name: str, options: dict[str, Any]
) -> None:
    frame = shop_log(num_queries=60).drop(columns="rating")
    features = ["text_match", "price", "device"]
    data = RankingDataset.from_frame(
        frame, features=features, categorical=["device"], encode="onehot"
    )
    ranker = NativeRanker(num_trees=8, num_leaves=15, num_threads=2).fit(data)
    Destination(target_of(name, options)).check_data(ranker, data)
    certificate = certified(target_of(name, options), ranker.trees(), data)
    assert certificate.status == CERTIFIED, certificate.reason
    model = shipped(ranker.trees(), data.num_features)
    lines = [*encoded_columns(replace(model, encoded=data.encoded))]
    assert lines[2:] == [
        f"| `device` | `{category}` | `device={category}` |"
        for category in ("desktop", "phone", "tablet")
    ]
