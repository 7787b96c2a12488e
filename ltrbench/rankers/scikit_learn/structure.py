"""Checks of a regressor that was read from a file, so that its `predict` stays within its own memory.

scikit-learn's trees do not check the indices of their nodes, and a file may contain any index. All indices
are therefore checked, in time linear in the number of nodes. Other estimators are allowed only if their
`predict` and `transform` use NumPy; libsvm, for example, does not check its arrays.
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
"""Modules of the regressors and transformers that a model may contain."""
MOST_FEATURES_OF_A_MODEL = 1_000_000
"""Maximum number of features in a model file: more would take gigabytes for the first documents."""


def check_supported(model: Any, trusted_types: Sequence[str]) -> None:
    """Raises ConfigError if an estimator, fitted or not, contains a part that cannot be loaded safely."""
    for part in parts(model):
        if issparse(part):
            raise ConfigError(
                f"the model contains a {type(part).__name__}, whose indices cannot be loaded safely; use "
                "dense arrays."
            )
        if isinstance(part, BaseEstimator):
            _check_estimator(part, trusted_types)


def check_fitted_model(model: Any, trusted_types: Sequence[str]) -> None:
    """Raises ConfigError if a fitted regressor is not supported, or has an invalid tree."""
    check_supported(model, trusted_types)
    if not 1 <= _num_features(model) <= MOST_FEATURES_OF_A_MODEL:
        raise ConfigError(
            f"{type(model).__name__} has {getattr(model, 'n_features_in_', 'no')} features; it must be "
            f"fitted on 1 to {MOST_FEATURES_OF_A_MODEL}."
        )
    for part in parts(model):
        if isinstance(part, BaseDecisionTree):
            _check_tree(part)
        elif isinstance(part, BaseForest | GradientBoostingRegressor):
            _check_members(part)
        elif isinstance(part, HistGradientBoostingRegressor):
            _check_histogram_trees(part)


def parts(model: Any) -> Iterator[Any]:
    """Yields the object and all objects that it contains, each once."""
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
            f"{name} cannot be saved in a way that is safe to load. Use regressors and transformers of "
            f"{', '.join(MODULES)}, or add a class of your own to the class's trusted_types."
        )
    shadows = [key for key in vars(estimator) if callable(getattr(kind, key, None))]
    if shadows:
        raise ConfigError(
            f"{kind.__name__} has a value in place of its method {shadows[0]}: the model was changed."
        )


def _check_tree(estimator: BaseDecisionTree) -> None:
    tree = getattr(estimator, "tree_", None)
    if tree is None:  # not fitted: the template of an ensemble's trees
        return
    if not (1 <= tree.node_count <= tree.capacity and tree.n_features == estimator.n_features_in_):
        raise ConfigError(
            f"a tree of {type(estimator).__name__} has {tree.node_count} nodes with room for "
            f"{tree.capacity}, and {tree.n_features} features instead of {estimator.n_features_in_}: the "
            "model was changed."
        )
    is_leaf = tree.children_left == -1
    _check_nodes(estimator, is_leaf, tree.children_left, tree.children_right, tree.feature)


def _check_members(ensemble: BaseEnsemble) -> None:
    """Checks the trees of an ensemble: scikit-learn checks the features of the first tree only, and assumes
    one output."""
    if not hasattr(ensemble, "estimators_"):  # not fitted: a parameter of another ensemble
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
        raise ConfigError(
            f"the trees of {type(ensemble).__name__} differ in type, features or outputs: the model was "
            "changed."
        )


def _check_histogram_trees(estimator: HistGradientBoostingRegressor) -> None:
    for iteration in getattr(estimator, "_predictors", ()):
        for predictor in iteration:
            nodes = predictor.nodes
            if not isinstance(predictor, TreePredictor) or len(nodes) == 0 or nodes["is_categorical"].any():
                raise ConfigError(
                    f"a tree of {type(estimator).__name__} is empty or has categorical splits; fit without "
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
    """Raises ConfigError if a child or feature index of an inner node is out of range.

    A child must have a greater index than its parent, so that every path ends in a leaf.
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
            f"a tree of {type(estimator).__name__} has a child or feature index out of range: the model was "
            "changed."
        )


def _num_features(estimator: BaseEstimator) -> int:
    count = getattr(estimator, "n_features_in_", None)
    return count if isinstance(count, int) else 0
