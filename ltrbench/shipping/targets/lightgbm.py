"""LightGBM itself, as a library for serving: a file of `Booster.save_model`."""

from __future__ import annotations

import re
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np

from ltrbench.models.lightgbm_files import lightgbm_names, write_lightgbm_text
from ltrbench.models.trees import LARGEST_ZERO, Ensemble, flat, float32_thresholds
from ltrbench.shipping.target import (
    TINY_VALUES,
    Engine,
    Export,
    ShippedModel,
    Target,
    check_names,
)

_FILE = "model.txt"


@dataclass
class LightGBMTarget(Target):
    """LightGBM 3.0 and newer reads the file; scores are float64."""

    name = "lightgbm"
    holds_categories = True

    def export(self, model: ShippedModel) -> Export:
        ensemble = model.trees(self.name)
        content = write_lightgbm_text(ensemble, model.feature_names)
        return Export(
            {_FILE: content},
            f'lightgbm.Booster(model_file="{_FILE}").predict(features, raw_score=True)',
            notes=(
                "features has a row per document, in the order of feature_names in the file; NaN is missing.",
                *_notes(model, content),
            ),
            limits=_limits(ensemble),
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        booster = lgb.Booster(model_str=export.files[_FILE].decode())
        names = lightgbm_names(model.feature_names)
        check_names("LightGBM", names, booster.feature_name())

        return Engine(
            lambda features: np.asarray(
                booster.predict(features, raw_score=True, num_threads=1)
            ),
            "LightGBM",
            lgb.__version__,
            reads_float64=True,
        )


def _notes(model: ShippedModel, content: bytes) -> list[str]:
    notes = []
    written = lightgbm_names(model.feature_names)
    given = list(model.feature_names)
    if written != given and written == [
        f"Column_{feature}" for feature in range(len(given))
    ]:
        notes.append(
            "LightGBM does not accept all names of the features, so that the file names them Column_0, "
            "Column_1, ..., in the order of the training data."
        )
    elif written != given:
        notes.append(
            "Blanks in names of features are underscores in the file, as in LightGBM's files."
        )
    if not re.search(rb"^leaf_count=.*[1-9]", content, re.MULTILINE):
        notes.append(
            "The file has no gains, weights and counts, so importances and SHAP values are not available."
        )
    return notes


def _limits(ensemble: Ensemble) -> dict[str, str]:
    """Returns the limit of tiny values, if a split has them and 0 on different sides."""
    for weighted in ensemble.trees:
        tree = flat(weighted.root)
        largest_left = float32_thresholds(tree.threshold, ensemble.comparison)
        divides = (largest_left >= -LARGEST_ZERO) & (largest_left < LARGEST_ZERO)
        if (divides & ~tree.is_leaf & ~tree.zero_missing).any():
            return {
                TINY_VALUES: "LightGBM reads values of at most 1e-35 in absolute value as 0. Train the model "
                "with 0 for such values."
            }
    return {}
