"""Files of XGBoost: the model file and the dump.

XGBoost's dump: the JSON of `Booster.dump_model`, which search engines read.

A file is a list of trees, and a tree is its root:

    {"nodeid", "depth", "split": feature name, "split_condition", "yes", "no", "missing", "children"}
    {"nodeid", "leaf"}

A value goes to `yes` if it is smaller than `split_condition`, and a missing value to `missing`. The dump has
neither a base score nor tree weights. Here leaf values contain the weights, and `base_score_as_tree` turns
the base score into a tree. N nodes of a tree.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.tables import category_text
from ltrbench.models import ReadModel
from ltrbench.models.trees import (
    Ensemble,
    FlatTree,
    InnerNode,
    Leaf,
    Node,
    WeightedTree,
    bits_of,
    categorical_features,
    codes_of,
    float32_texts,
    float32_trees,
    nested_text,
    of_words,
    parse_float32,
    rounded_to_float32,
    splits_of,
    tree_of,
    with_splits,
    without_zero_missing,
)

NumberTexts = Callable[[NDArray[np.floating]], list[str]]
"""Returns the texts of (N,) float32 numbers."""

_LARGEST = float(np.finfo(np.float32).max)
_BELOW_ALL = -1e39
"""A threshold below all finite float32, for either comparison."""


def write_xgboost_dump(
    ensemble: Ensemble, feature_names: Sequence[str], texts: NumberTexts | None = None
) -> bytes:
    """Returns the trees as XGBoost dumps them, with numbers that are exact as float32.

    Args:
        feature_names: F names of the features.
        texts: returns the texts of float32 numbers; None: `float32_texts`.

    Raises:
        ConfigError: A leaf value is beyond float32.
    """
    names = [json.dumps(name) for name in feature_names]
    trees = (
        _nested(tree, names, texts or float32_texts) for tree in xgboost_trees(ensemble)
    )
    return ("[" + ",\n".join(trees) + "]\n").encode()


def read_xgboost_dump(content: str | bytes, indices: Mapping[str, int]) -> Ensemble:
    """Returns the trees of a dump, with the numbers as they are written.

    Args:
        indices: name of a feature -> its index.
    """

    def read(node: Mapping[str, Any]) -> Node:
        if "leaf" in node:
            return Leaf(node["leaf"])
        missing_left = node["missing"] == node["yes"]
        return InnerNode(
            indices[node["split"]],
            node["split_condition"],
            missing_left,
            *node["children"],
        )

    roots = [tree_of(tree, read) for tree in json.loads(content)]
    trees = tuple(WeightedTree(1.0, root) for root in roots)
    return Ensemble(trees, comparison="<")


def divides_by_presence(ensemble: Ensemble) -> bool:
    """Returns whether a split sends every finite value left, so that only missing values can go right."""
    return any(
        _sends_all_left(split, ensemble.comparison) for split in splits_of(ensemble)
    )


def xgboost_trees(ensemble: Ensemble) -> Iterator[FlatTree]:
    """Yields the trees in XGBoost's arithmetic, with finite thresholds, because JSON has no infinity.

    A split that sends every finite value left gets its children exchanged, and a threshold below all of them:
    finite values go right, to the same child as before, and missing values to the other side. Only an
    infinite value may go elsewhere.

    Raises:
        ConfigError: A leaf value is beyond float32, or too many splits count zeros as missing.
    """

    def finite(node: InnerNode) -> InnerNode:
        if not _sends_all_left(node, ensemble.comparison):
            return node
        return InnerNode(
            node.feature,
            _BELOW_ALL,
            not node.missing_left,
            left=node.right,
            right=node.left,
        )

    return float32_trees(with_splits(without_zero_missing(ensemble), finite), "<")


def _sends_all_left(node: InnerNode, comparison: str) -> bool:
    if comparison == "<":
        return node.threshold > _LARGEST
    return node.threshold >= _LARGEST


def float64_text(values: NDArray[np.floating]) -> list[str]:
    """Returns the shortest decimal numbers of float32 numbers as float64, for readers that do not round.

    >>> float64_text(np.array([0.1], dtype=np.float32))
    ['0.10000000149011612']
    """
    exact = values.astype(np.float32).astype(np.float64)
    return [repr(value) for value in exact.tolist()]


def breadth_first(tree: FlatTree) -> NDArray[np.int64]:
    """Returns the (N,) nodes level by level, as XGBoost numbers them: a right child follows the left one."""
    levels = []
    level = np.zeros(1, dtype=np.int64)
    while len(level):
        levels.append(level)
        inner = level[~tree.is_leaf[level]]
        children = np.stack([tree.left[inner], tree.right[inner]], axis=1)
        level = children.ravel()
    return np.concatenate(levels)


def _nested(tree: FlatTree, names: Sequence[str], texts: NumberTexts) -> str:
    """Returns the JSON of a tree."""
    order = breadth_first(tree)
    ids = np.empty_like(order)
    ids[order] = np.arange(len(order))
    numbers = texts(np.where(tree.is_leaf, tree.value, tree.threshold))
    is_leaf = tree.is_leaf.tolist()
    feature = tree.feature.tolist()
    left = ids[tree.left].tolist()
    right = ids[tree.right].tolist()
    side_of_missing = np.where(tree.missing_left, tree.left, tree.right)
    missing = ids[side_of_missing].tolist()
    nodeids = ids.tolist()

    def text_of(node: int, depth: int) -> str:
        if is_leaf[node]:
            return f'{{"nodeid":{nodeids[node]},"leaf":{numbers[node]}}}'
        name = names[feature[node]]
        return (
            f'{{"nodeid":{nodeids[node]},"depth":{depth},"split":{name},'
            f'"split_condition":{numbers[node]},"yes":{left[node]},"no":{right[node]},'
            f'"missing":{missing[node]},"children":['
        )

    return nested_text(is_leaf, text_of, between=",", end=lambda depth: "]}")


# ---- XGBoost's model files: JSON and UBJSON as `Booster.save_model` writes them.
#
# A tree has arrays over its N nodes: children (-1: a leaf), features, thresholds or leaf values, and where
# missing values go. A value goes left if it is smaller than the threshold. A split may have categories
# instead: they go right, and all other codes left, so that an `InnerNode` has the children exchanged. The
# score is, in float32,
#
#     margin(base_score) + sum over t of weight_t leaf_t(x)
#
# where only dart boosters have weights. `base_score` is what the objective predicts without trees, such as
# a probability; `margin` transforms it into a score. XGBoost 3.1 and newer write it as a list of one
# number, and read a number too.

_NO_PARENT = 2**31 - 1
_NO_CHILD = -1
_VERSION = [2, 1, 0]
"""Version in the written files, so that older versions read them without a warning."""

_LOGIT = ("binary:logistic", "reg:logistic")
_LOG = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
_IDENTITY = (
    *("rank:ndcg", "rank:map", "rank:pairwise", "binary:hinge", "binary:logitraw"),
    *("reg:squarederror", "reg:linear", "reg:squaredlogerror", "reg:pseudohubererror"),
    *("reg:absoluteerror", "reg:quantileerror", "reg:expectileerror"),
)
_LOGIT_EPSILON: Final = np.float32(1e-6)
"""How close a probability may come to 0 or 1 in XGBoost 3.2; older versions had no such bound."""


def _log(value: np.float32) -> np.float32:
    """Returns logf of the C library, which XGBoost calls; NumPy's logarithm may differ in the last bit."""
    logf = ctypes.CDLL(None).logf
    logf.argtypes = [ctypes.c_float]
    logf.restype = ctypes.c_float
    return np.float32(logf(value))


def _logit(base: np.float32) -> np.float32:
    clipped = np.clip(base, _LOGIT_EPSILON, np.float32(1) - _LOGIT_EPSILON)
    one = np.float32(1)
    return -_log(one / clipped - one)


_MARGINS: Mapping[str, Callable[[np.float32], np.float32]] = {
    **dict.fromkeys(_IDENTITY, lambda base: base),
    **dict.fromkeys(_LOG, _log),
    **dict.fromkeys(_LOGIT, _logit),
}
"""Objective -> transformation of its base score; all their predictions increase with the margin."""


def write_xgboost_json(ensemble: Ensemble, feature_names: Sequence[str]) -> bytes:
    """Returns the model as XGBoost saves it, with the objective rank:ndcg.

    The weights of the trees are in the leaf values, and gains and hessians are 0.

    Args:
        feature_names: F names of the features.

    Raises:
        ConfigError: A leaf value or the base score is beyond float32.
    """
    names = list(feature_names)
    categorical = categorical_features(ensemble)
    base_score = rounded_to_float32(np.array([ensemble.base_score]), "the base score")
    num_features = str(len(names))
    trees = []
    for number, tree in enumerate(xgboost_trees(ensemble)):
        trees.append(_arrays(number, tree, len(names)))
    forest = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(len(trees) + 1)),
        "tree_info": [0] * len(trees),
        "trees": trees,
    }
    types = [
        "c" if feature in categorical else "float" for feature in range(len(names))
    ]
    parameters = {
        "base_score": float32_texts(base_score)[0],
        "boost_from_average": "0",
        "num_class": "0",
        "num_feature": num_features,
        "num_target": "1",
    }
    learner = {
        "attributes": {},
        "feature_names": names,
        "feature_types": types,
        "gradient_booster": {"model": forest, "name": "gbtree"},
        "learner_model_param": parameters,
        "objective": {"lambdarank_param": {}, "name": "rank:ndcg"},
    }
    # XGBoost does not decode the escapes of JSON for characters beyond ASCII.
    text = json.dumps(
        {"version": _VERSION, "learner": learner},
        separators=(",", ":"),
        ensure_ascii=False,
    )
    return text.encode("utf-8", "backslashreplace")


def read_xgboost(content: bytes) -> ReadModel:
    """Reads a model file of any booster of trees with one score per document.

    Args:
        content: JSON, or UBJSON, which XGBoost converts to JSON.

    Raises:
        ValueError: Not all trees make the prediction, or it is another model.
    """
    if content[1:2] not in b'" \t\r\n}':
        import xgboost

        content = bytes(xgboost.Booster(model_file=bytearray(content)).save_raw("json"))
    # A float64 that is rounded again to float32 may be the neighbour of the number in the file.
    learner = json.loads(content, parse_float=parse_float32)["learner"]
    parameters = learner["learner_model_param"]
    booster = learner["gradient_booster"]
    if booster["name"] not in ("gbtree", "dart"):
        raise ValueError(
            f"the booster is {booster['name']!r}, but only gbtree and dart have trees"
        )
    of_trees = booster["gbtree"] if booster["name"] == "dart" else booster
    forest = of_trees["model"]
    num_scores = max(
        int(parameters.get("num_class", 0)), int(parameters.get("num_target", 1))
    )
    if num_scores > 1:
        raise ValueError(
            "the model has more than one score per document; train a ranker"
        )
    _check_iterations(learner.get("attributes", {}), forest)
    trees = _weighted_trees(forest["trees"], booster.get("weight_drop"))
    objective = learner["objective"]["name"]
    base_score = _base_score(str(parameters["base_score"]), objective)
    categories = {}
    for feature, encoding in enumerate(forest.get("cats", {}).get("enc", ())):
        texts = _texts_of(encoding)
        if texts:
            categories[feature] = texts
    return ReadModel(
        Ensemble(trees, base_score, comparison="<", score_dtype="float32"),
        tuple(learner.get("feature_names", [])),
        int(parameters["num_feature"]),
        categories,
    )


def _weighted_trees(
    trees: Sequence[Mapping[str, Any]], weights: Sequence[float] | None
) -> tuple[WeightedTree, ...]:
    """Returns the trees with their weights, which only dart has."""
    if weights is None:
        weights = [1.0] * len(trees)
    rounded = np.array(weights, dtype=np.float32).tolist()
    pairs = zip(rounded, trees, strict=True)
    return tuple(WeightedTree(weight, _root(tree)) for weight, tree in pairs)


def _texts_of(encoding: Mapping[str, Any]) -> list[str | None]:
    """Returns the texts of the categories of a feature: numbers, or the bytes of all texts."""
    values = encoding["values"]
    ends = encoding.get("offsets")
    if ends is None:
        return [*map(category_text, values)]
    joined = bytes(byte % 256 for byte in values)
    ranges = [slice(start, end) for start, end in pairwise(ends)]
    return [joined[each].decode() for each in ranges]


def _arrays(number: int, tree: FlatTree, num_features: int) -> dict[str, Any]:
    """Returns a tree as arrays over its N nodes. XGBoost predicts with `left_children + 1` instead of
    `right_children`, so the right child follows the left one."""
    is_set = np.isnan(tree.threshold)
    tree = _with_sets_on_right(tree, is_set)
    order = breadth_first(tree)
    num_nodes = len(order)
    is_leaf = tree.is_leaf[order]
    values = tree.value[order]
    thresholds = np.nan_to_num(tree.threshold[order])
    inner = np.flatnonzero(~is_leaf)
    left_children = np.full(num_nodes, _NO_CHILD)
    left_children[inner] = np.arange(1, num_nodes, 2)
    parents = np.full(num_nodes, _NO_PARENT)
    parents[1:] = np.repeat(inner, 2)
    zeros = [0.0] * num_nodes
    is_set = is_set[order]
    right_children = np.where(is_leaf, _NO_CHILD, left_children + 1)
    return {
        "base_weights": _numbers(values),
        **_categories(np.flatnonzero(is_set), tree.categories[order]),
        "default_left": tree.missing_left[order].astype(int).tolist(),
        "id": number,
        "left_children": left_children.tolist(),
        "loss_changes": zeros,
        "parents": parents.tolist(),
        "right_children": right_children.tolist(),
        "split_conditions": _numbers(np.where(is_leaf, values, thresholds)),
        "split_indices": np.where(is_leaf, 0, tree.feature[order]).tolist(),
        "split_type": is_set.astype(int).tolist(),
        "sum_hessian": zeros,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(num_features),
            "num_nodes": str(num_nodes),
            "size_leaf_vector": "1",
        },
    }


def _with_sets_on_right(tree: FlatTree, is_set: NDArray[np.bool_]) -> FlatTree:
    """Returns the tree in which the values of a set of categories go right, as in XGBoost."""
    left = np.where(is_set, tree.right, tree.left)
    right = np.where(is_set, tree.left, tree.right)
    missing_left = tree.missing_left ^ is_set
    return tree._replace(left=left, right=right, missing_left=missing_left)


def _categories(
    nodes: NDArray[np.int64], words: NDArray[np.uint32]
) -> dict[str, list[int]]:
    """Returns the sets of categories of some nodes, one after the other.

    Args:
        words: (N, W) bits of the categories of all nodes.
    """
    categories: list[int] = []
    segments = []
    sizes = []
    for words_of_node in words[nodes]:
        codes = codes_of(of_words(words_of_node))
        segments.append(len(categories))
        sizes.append(len(codes))
        categories.extend(codes)
    return {
        "categories": categories,
        "categories_nodes": nodes.tolist(),
        "categories_segments": segments,
        "categories_sizes": sizes,
    }


def _numbers(values: NDArray[np.float64]) -> list[float]:
    """Returns numbers whose text in JSON is that of `float32_texts`."""
    return [float(text) for text in float32_texts(values)]


def _base_score(text: str, objective: str) -> float:
    if objective not in _MARGINS:
        raise ValueError(
            f"the objective is {objective!r}, but trees of {', '.join(_MARGINS)} can be read"
        )
    with np.errstate(all="ignore"):
        return float(_MARGINS[objective](np.float32(text.strip("[]"))))


def _check_iterations(attributes: Mapping[str, str], forest: Mapping[str, Any]) -> None:
    """Refuses trees behind the best iteration: XGBRanker does not use them, Booster.predict does."""
    num_rounds = _num_rounds(forest)
    kept = int(attributes.get("best_iteration", num_rounds)) + 1
    if kept < num_rounds:
        raise ValueError(
            f"early stopping chose the first {kept} of {num_rounds} iterations, and XGBRanker predicts with "
            f"these only, but Booster with all. Keep the model that you want: save booster[:{kept}], or all "
            "iterations after booster.set_attr(best_iteration=None)"
        )


def _num_rounds(forest: Mapping[str, Any]) -> int:
    """Returns the number of iterations, which files of XGBoost 1 do not have."""
    if "iteration_indptr" in forest:
        return len(forest["iteration_indptr"]) - 1
    trees_per_round = int(forest["gbtree_model_param"].get("num_parallel_tree", 1))
    return len(forest["trees"]) // max(trees_per_round, 1)


def _root(tree: Mapping[str, Any]) -> Node:
    """Returns the tree of arrays over nodes; nodes that pruning has removed are ignored."""
    left = tree["left_children"]
    right = tree["right_children"]
    feature = tree["split_indices"]
    numbers = [float(number) for number in tree["split_conditions"]]
    nodes = tree.get("categories_nodes", ())
    starts = tree.get("categories_segments", ())
    sizes = tree.get("categories_sizes", ())
    codes = {}
    for node, start, size in zip(nodes, starts, sizes, strict=True):
        codes[node] = tree["categories"][start : start + size]

    def read(node: int) -> Node:
        if left[node] == _NO_CHILD:
            return Leaf(numbers[node])
        default_left = bool(tree["default_left"][node])
        if node in codes:  # XGBoost sends the categories of a set to the right
            return InnerNode(
                feature[node],
                np.nan,
                not default_left,
                left=right[node],
                right=left[node],
                categories=bits_of(codes[node]),
            )
        return InnerNode(
            feature[node],
            numbers[node],
            default_left,
            left=left[node],
            right=right[node],
        )

    return tree_of(0, read)
