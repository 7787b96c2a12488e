"""Files of trained models in the formats of other libraries and engines: a module for each format.

A module has a function that writes an `Ensemble`, and a reader if the format has one. Writers expect float32
features: a threshold is written so that every float32 value goes where it went before, whatever comparison
and dtype the format has. Readers rely on complete files: load only models that you trust.

    trees            trees of any library as one `Ensemble`, and their scores
    lightgbm_files   LightGBM's text and dump
    xgboost_files    XGBoost's model file and dump
    files            RankLib's model file, and detection of the format of a file
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ltrbench.models.trees import Ensemble


@dataclass(frozen=True)
class ReadModel:
    """A model read from a file.

    Attributes:
        trees: its trees, in the arithmetic of the library that wrote the file.
        feature_names: names of its features; empty if the file has only numbers.
        num_features: number of features, or one more than the highest feature of a split.
        categories: categorical feature -> texts of its categories in the order of their codes, as far as the
            file has them.
    """

    trees: Ensemble
    feature_names: tuple[str, ...]
    num_features: int
    categories: Mapping[int, Sequence[str | None]] = field(default_factory=dict)
