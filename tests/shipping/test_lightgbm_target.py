"""LightGBM as a target: LightGBM scores the written file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ensemble_cases import around_thresholds, random_ensemble

from ltrbench.data.synthetic import Synthetic
from ltrbench.metrics import DEFAULT
from ltrbench.models.trees import LARGEST_ZERO, ensemble_scores
from ltrbench.rankers import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.shapes import Features
from ltrbench.shipping.certificate import CERTIFIED, Certificate, certify
from ltrbench.shipping.target import TINY_VALUES, Linear, ShippedModel
from ltrbench.shipping.targets.lightgbm import LightGBMTarget

TARGET = LightGBMTarget()


def shipped(scorer: Ensemble | Linear, num_features: int) -> ShippedModel:
    return ShippedModel("a_model", tuple(f"f{number}" for number in range(num_features)), scorer)


def stump(threshold: float, **options: bool) -> Ensemble:
    node = InnerNode(0, threshold, False, Leaf(1.0), Leaf(2.0), **options)
    return Ensemble((WeightedTree(1.0, node),))


def certified(model: ShippedModel) -> Certificate:
    data = Synthetic(name="synthetic", num_queries=12).load().test
    export = TARGET.export(model)
    scorer = model.scorer
    assert isinstance(scorer, Ensemble)

    def predict(features: Features) -> np.ndarray:
        return np.asarray(ensemble_scores(scorer, features))

    return certify(model, predict, data, export, TARGET.engine(model, export), DEFAULT)


@pytest.mark.slow
@pytest.mark.parametrize("extra", [{}, {"boosting": "dart"}, {"zero_as_missing": True}], ids=str)
def test_a_model_of_lightgbm_is_the_file_that_lightgbm_wrote(
    extra: dict[str, object], tmp_path: Path
) -> None:
    train = Synthetic(name="synthetic", num_queries=12).load().train
    features = np.array(train.features)
    features[np.random.default_rng(0).random(features.shape) < 0.2] = np.nan
    ranker = LightGBMRanker(num_trees=8, extra=extra).fit(replace(train, features=features))
    ranker.save(tmp_path)
    model = shipped(ranker.trees(), features.shape[1])
    export = TARGET.export(model)
    written, original = export.files["model.txt"].decode(), (tmp_path / "model.txt").read_text()
    start, end = "Tree=0\n", "end of trees\n"
    assert (
        written[written.index(start) : written.index(end)]
        == original[original.index(start) : original.index(end)]
    )
    np.testing.assert_array_equal(TARGET.engine(model, export).scores(features), ranker.predict(features))
    assert not any("SHAP" in note for note in export.notes)
    assert not export.limits


@pytest.mark.parametrize(
    ("ensemble", "is_limited"),
    [
        (stump(0.0), True),
        (stump(-1e-38), True),
        (stump(-LARGEST_ZERO), True),
        (stump(LARGEST_ZERO), False),
        (replace(stump(0.0), comparison="<"), True),
        (stump(0.5), False),
        (stump(1e-30), False),
        (stump(0.0, zero_missing=True), False),
    ],
)
def test_tiny_values_are_a_limit_where_a_split_has_them_and_0_on_two_sides(
    ensemble: Ensemble, is_limited: bool
) -> None:
    model = shipped(ensemble, 40)
    assert (TINY_VALUES in TARGET.export(model).limits) == is_limited
    certificate = certified(model)
    assert (certificate.status, certificate.reason) == (CERTIFIED, "")


def test_values_next_to_thresholds_get_the_scores_of_the_model() -> None:
    ensemble = random_ensemble(comparison="<", dtype="float32")
    features = around_thresholds(ensemble, 3)
    features[:, 2] = np.inf
    model = shipped(ensemble, 3)
    expected = ensemble_scores(ensemble, features)
    scores = TARGET.engine(model, TARGET.export(model)).scores(features)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=len(ensemble.trees) * 2.0**-20)
