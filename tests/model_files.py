"""Model files of LightGBM, XGBoost and RankLib for tests of imported models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.models import ReadModel
from ltrbench.models.files import ModelFile
from ltrbench.models.trees import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.models.xgboost_files import write_xgboost_json
from ltrbench.shapes import Features


def lightgbm_booster(
    data: RankingDataset,
    names: Sequence[str] | None = None,
    features: Features | None = None,
    **parameters: Any,
) -> lgb.Booster:
    """Returns a model trained with LightGBM itself; `features` replace those of the data."""
    given = data.features if features is None else features
    train = lgb.Dataset(
        given,
        data.labels,
        group=data.query_sizes,
        feature_name="auto" if names is None else list(names),
    )
    settings = {
        "objective": "lambdarank",
        "num_leaves": 7,
        "verbose": -1,
        "num_threads": 1,
        **parameters,
    }
    return lgb.train(settings, train, 8)


def xgboost_booster(
    data: RankingDataset,
    names: Sequence[str] | None = None,
    features: Features | None = None,
    **parameters: Any,
) -> xgb.Booster:
    """Returns a model trained with XGBoost itself; `features` replace those of the data."""
    given = data.features if features is None else features
    train = xgb.DMatrix(
        given, data.labels, feature_names=None if names is None else list(names)
    )
    train.set_group(data.query_sizes)
    settings = {"objective": "rank:ndcg", "max_depth": 3, "nthread": 1, **parameters}
    return xgb.train(settings, train, 8)


def ranklib_model(splits: Sequence[tuple[int, float]]) -> str:
    """Returns the text of a RankLib model: a stump per (feature, threshold)."""
    trees = "\n".join(
        f'\t<tree id="{number}" weight="0.1">\n\t\t<split>\n\t\t\t<feature>{feature} </feature>\n'
        f"\t\t\t<threshold> {threshold} </threshold>\n"
        '\t\t\t<split pos="left">\n\t\t\t\t<output>-1.5 </output>\n\t\t\t</split>\n'
        '\t\t\t<split pos="right">\n\t\t\t\t<output>0.75 </output>\n\t\t\t</split>\n'
        "\t\t</split>\n\t</tree>"
        for number, (feature, threshold) in enumerate(splits, 1)
    )
    header = (
        "## LambdaMART\n## No. of trees = 2\n## No. of leaves = 2\n## No. of threshold candidates = 256\n"
        "## Learning rate = 0.1\n## Stop early = 100\n\n"
    )
    return f"{header}<ensemble>\n{trees}\n</ensemble>\n"


def stumps_as_json(splits: Sequence[tuple[int, float]]) -> str:
    """Returns the text of an XGBoost model: a stump per (feature, threshold), 40 features without names."""
    trees = tuple(
        WeightedTree(
            0.1, InnerNode(feature, threshold, False, left=Leaf(-1.5), right=Leaf(0.75))
        )
        for feature, threshold in splits
    )
    return write_xgboost_json(
        Ensemble(trees), [f"f{feature}" for feature in range(40)]
    ).decode()


def model_file(
    used: Sequence[int],
    num_features: int,
    names: Sequence[str] = (),
    library: str = "LightGBM",
) -> ModelFile:
    """Returns a model with a stump per used feature, without its bytes."""
    stumps = tuple(
        WeightedTree(
            1.0, InnerNode(feature, 0.5, True, left=Leaf(-1.0), right=Leaf(1.0))
        )
        for feature in used
    )
    read = ReadModel(Ensemble(stumps), tuple(names), num_features)
    return ModelFile(Path("production.txt"), library, ".txt", b"", read)


def with_missing(features: Features, rng: np.random.Generator) -> NDArray[np.float32]:
    """Returns a copy of features in which values are missing or zero."""
    changed = np.array(features)
    changed[rng.random(features.shape) < 0.1] = np.nan
    changed[rng.random(features.shape) < 0.1] = 0.0
    return changed
