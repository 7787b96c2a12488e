"""XGBoost as a target: XGBoost scores the written file."""

from __future__ import annotations

import numpy as np
import pytest
from messages import naming
from xgboost_cases import random_ensemble

from ltrbench.errors import ConfigError
from ltrbench.rankers import Ensemble
from ltrbench.shipping.target import Linear, ShippedModel
from ltrbench.shipping.targets.xgboost import XGBoostTarget

TARGET = XGBoostTarget()


def shipped(scorer: Ensemble | Linear, num_features: int) -> ShippedModel:
    return ShippedModel("a_model", tuple(f"f[{number}]" for number in range(num_features)), scorer)


def test_the_engine_is_the_installed_package() -> None:
    model = shipped(random_ensemble(), 3)
    export = TARGET.export(model)
    engine = TARGET.engine(model, export)
    assert not engine.is_simulated
    assert export.offset == 0
    assert list(export.files) == ["model.json"]
    assert "model.json" in export.request


def test_linear_models_are_refused() -> None:
    with pytest.raises(ConfigError, match=naming("a_model", "xgboost", "--to")):
        TARGET.export(shipped(Linear(np.zeros(2)), 2))
