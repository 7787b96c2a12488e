"""Rankers: the contract, and one file per backend.

    base             the Ranker contract, early stopping, loading of saved rankers
    library          base class of the adapters of boosted-tree libraries
    importance       feature importances

The backends, which do not import each other:

    native           the native engine
    lightgbm         LightGBM
    xgboost          XGBoost
    catboost         CatBoost
    mlp              neural networks, with or without attention to the other documents of a query
    scikit_learn     base class of backends that wrap a scikit-learn regressor
    imported         models of LightGBM, XGBoost and RankLib that were trained elsewhere
    linear           linear models: coordinate ascent, and gradients of a loss
    random           random scores
    single_feature   the single feature that ranks the training set best

Backends are not imported here. Each is imported when a YAML's `_target_` names it, so a run neither imports
nor needs the libraries that it does not use.
"""

from ltrbench.models.trees import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.rankers.base import (
    BoostingRanker,
    EarlyStopping,
    FitSummary,
    Iteration,
    Monitor,
    OnIteration,
    Ranker,
)

__all__ = [
    "BoostingRanker",
    "EarlyStopping",
    "Ensemble",
    "FitSummary",
    "InnerNode",
    "Iteration",
    "Leaf",
    "Monitor",
    "OnIteration",
    "Ranker",
    "WeightedTree",
]
