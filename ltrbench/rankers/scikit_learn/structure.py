"""What a regressor that was read from a file must be, so that its `predict` reads no memory but its own.

scikit-learn's trees follow the indices of their nodes without looking whether they are in range. A file may
hold any, so that all are checked, in time linear in the nodes. Of the other estimators only those are let
through whose `predict` and `transform` are NumPy; libsvm, for one, trusts its arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, is_clusterer, is_regressor
from sklearn.ensemble import BaseEnsemble, GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree import BaseDecisionTree

from ltrbench.errors import ConfigError

MODULES = (
    "sklearn.compose",
    "sklearn.cross_decomposition",
    "sklearn.decomposition._pca",
    "sklearn.dummy",
    "sklearn.ensemble",
    "sklearn.feature_selection",
    "sklearn.impute",
    "sklearn.kernel_ridge",
    "sklearn.linear_model",
    "sklearn.neural_network",
    "sklearn.pipeline",
    "sklearn.preprocessing",
    "sklearn.tree",
)
"""Where the regressors and transformers come from that a model may be made of."""
MOST_FEATURES_OF_A_MODEL = 1_000_000
"""A model that a file says to be wider would take gigabytes for its first documents."""


def check_supported(model: Any, trusted_types: Sequence[str]) -> None:
    """Raises ConfigError where an estimator, fitted or not, is made of what could not be loaded safely."""
    for part in parts(model):
        if issparse(part):
            raise ConfigError(f"a {type(part).__name__} is not taken: a sparse matrix holds indices.")
        if isinstance(part, BaseEstimator):
            _check_estimator(part, trusted_types)


def check_fitted_model(model: Any, trusted_types: Sequence[str]) -> None:
    """Raises ConfigError on a fitted regressor that is not supported, or has a tree that is none."""
    check_supported(model, trusted_types)
    if not 1 <= _num_features(model) <= MOST_FEATURES_OF_A_MODEL:
        raise ConfigError(
            f"a {type(model).__name__} of {getattr(model, 'n_features_in_', 'no')} features is not taken; it "
            f"must be fitted on 1 to {MOST_FEATURES_OF_A_MODEL}."
        )
    for part in parts(model):
        if isinstance(part, BaseDecisionTree):
            _check_tree(part)
        elif isinstance(part, BaseForest | GradientBoostingRegressor):
            _check_members(part)
        elif isinstance(part, HistGradientBoostingRegressor):
            _check_histogram_trees(part)


def parts(model: Any) -> Iterator[Any]:
    """The object and all that it is made of, each once."""
    waiting, seen = [model], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, type):
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            waiting += part
        elif isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype == object else []
        elif hasattr(part, "__dict__"):
            waiting += vars(part).values()


def _check_estimator(estimator: BaseEstimator, trusted_types: Sequence[str]) -> None:
    kind = type(estimator)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name in trusted_types:
        return
    is_known = any(f"{kind.__module__}.".startswith(f"{module}.") for module in MODULES)
    is_part = is_regressor(estimator) or (
        isinstance(estimator, TransformerMixin) and not is_clusterer(estimator)
    )
    if not is_known or not is_part:
        raise ConfigError(
            f"{name} cannot be saved so that it loads safely. Regressors and transformers of "
            f"{', '.join(MODULES)} can; one of your own can be listed in the class's trusted_types."
        )
    shadows = [key for key in vars(estimator) if callable(getattr(kind, key, None))]
    if shadows:
        raise ConfigError(f"the {kind.__name__} has a value in the place of its method {shadows[0]}.")


def _check_tree(estimator: BaseDecisionTree) -> None:
    tree = getattr(estimator, "tree_", None)
    if tree is None:  # a setting of an ensemble, from which it made its trees
        return
    if not (1 <= tree.node_count <= tree.capacity and tree.n_features == estimator.n_features_in_):
        raise ConfigError(
            f"a tree of the {type(estimator).__name__} has {tree.node_count} nodes, of {tree.capacity}, and "
            f"{tree.n_features} features."
        )
    is_leaf = tree.children_left == -1
    _check_nodes(estimator, is_leaf, tree.children_left, tree.children_right, tree.feature)


def _check_members(ensemble: BaseEnsemble) -> None:
    """The trees of an ensemble that checks the features of the first one only, and adds up in one column."""
    if not hasattr(ensemble, "estimators_"):  # not fitted: a setting of another ensemble
        return
    members = np.asarray(ensemble.estimators_, dtype=object)
    boosted = isinstance(ensemble, GradientBoostingRegressor)
    counts = {getattr(member, "n_features_in_", None) for member in members.ravel()}
    if (
        not members.size
        or not all(isinstance(member, BaseDecisionTree) for member in members.ravel())
        or counts != {ensemble.n_features_in_}
        or (members.ndim == 2 and members.shape[1] == 1) != boosted
    ):
        raise ConfigError(f"the trees of the {type(ensemble).__name__} do not belong together.")


def _check_histogram_trees(estimator: HistGradientBoostingRegressor) -> None:
    for iteration in getattr(estimator, "_predictors", ()):
        for predictor in iteration:
            nodes = predictor.nodes
            if not isinstance(predictor, TreePredictor) or len(nodes) == 0 or nodes["is_categorical"].any():
                raise ConfigError(
                    f"a tree of the {type(estimator).__name__} is empty or splits by categories; leave out "
                    "categorical_features."
                )
            _check_nodes(
                estimator, nodes["is_leaf"] != 0, nodes["left"], nodes["right"], nodes["feature_idx"]
            )


def _check_nodes(
    estimator: BaseEstimator,
    is_leaf: NDArray[np.bool_],
    left: NDArray[Any],
    right: NDArray[Any],
    features: NDArray[Any],
) -> None:
    """Raises ConfigError on an inner node whose child or feature is out of range.

    A child stands behind its parent and before the end, so that each way down ends in a leaf.
    """
    inner = np.flatnonzero(~is_leaf)
    children = np.stack([left[inner], right[inner]]).astype(np.int64)
    of_node = features[inner].astype(np.int64)
    if (
        (children <= inner).any()
        or (children >= len(is_leaf)).any()
        or (of_node < 0).any()
        or (of_node >= _num_features(estimator)).any()
    ):
        raise ConfigError(
            f"a tree of the {type(estimator).__name__} has a child or a feature out of range: the model was "
            "changed."
        )


def _num_features(estimator: BaseEstimator) -> int:
    count = getattr(estimator, "n_features_in_", None)
    return count if isinstance(count, int) else 0
