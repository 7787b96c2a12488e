"""XGBoost itself, as a library for serving: a file of `Booster.save_model`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xgboost as xgb

from ltrbench.models.xgboost_files import write_xgboost_json
from ltrbench.shipping.target import (
    Engine,
    Export,
    ShippedModel,
    Target,
    check_names,
    limits_of_infinity,
)

_FILE = "model.json"


@dataclass
class XGBoostTarget(Target):
    """XGBoost 2.0 and newer reads the file; scores are float32."""

    name = "xgboost"
    holds_categories = True

    def export(self, model: ShippedModel) -> Export:
        trees = model.trees(self.name)
        content = write_xgboost_json(trees, model.feature_names)
        return Export(
            {_FILE: content},
            f'xgboost.Booster(model_file="{_FILE}").inplace_predict(features, predict_type="margin")',
            notes=(
                "features are float32, a row per document, in the order of feature_names in the file; NaN is "
                "missing.",
                "The file has no gains and no hessians, so importances and SHAP values are not available.",
            ),
            limits=limits_of_infinity(trees),
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        booster = xgb.Booster(model_file=bytearray(export.files[_FILE]))
        check_names("XGBoost", model.feature_names, booster.feature_names)

        return Engine(
            lambda features: booster.inplace_predict(
                np.ascontiguousarray(features), predict_type="margin"
            ),
            "XGBoost",
            xgb.__version__,
            score_dtype="float32",
        )
