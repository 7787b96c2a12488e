"""Files of XGBoost: JSON, UBJSON and the dump.

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
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.models import ReadModel
from ltrbench.models.float32 import (
    float32_leaf_values,
    float32_texts,
    nested_json,
    rounded_to_float32,
    smallest_right,
)
from ltrbench.models.trees import (
    Ensemble,
    FlatTree,
    InnerNode,
    Leaf,
    Node,
    WeightedTree,
    check_split_features,
    flat,
    nodes_of,
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
    trees = (_nested(tree, names, texts or float32_texts) for tree in float32_trees(ensemble))
    return ("[" + ",\n".join(trees) + "]\n").encode()


def base_score_as_tree(ensemble: Ensemble) -> Ensemble:
    """Returns the same model with base score 0, for formats without one: the first tree is one leaf.

    A sum that starts with 0 then has the same rounding as before.

    >>> base_score_as_tree(Ensemble((WeightedTree(0.1, Leaf(2.0)),), base_score=0.5)).trees[0]
    WeightedTree(weight=1.0, root=Leaf(value=0.5), shrinkage=1.0)
    """
    if ensemble.base_score == 0 and ensemble.trees:
        return ensemble
    first = WeightedTree(1.0, Leaf(ensemble.base_score))
    return replace(ensemble, trees=(first, *ensemble.trees), base_score=0.0)


def float32_trees(ensemble: Ensemble) -> Iterator[FlatTree]:
    """Yields the trees in XGBoost's arithmetic: `<`, float32 thresholds, float32 leaf values with weights.

    A finite float32 value goes where it went before, for any comparison and dtype of the ensemble. So does
    infinity, unless `divides_by_presence`.

    Raises:
        ConfigError: A leaf value is beyond float32, or too many splits count zeros as missing.
    """
    for number, weighted in enumerate(without_zero_missing(ensemble).trees):
        tree = flat(without_infinite_thresholds(weighted.root, ensemble.comparison))
        thresholds = smallest_right(tree.threshold, ensemble.comparison)
        yield tree._replace(
            threshold=np.where(tree.is_leaf, 0.0, thresholds),
            value=float32_leaf_values(tree, weighted.weight, ensemble.score_dtype, number),
        )


def divides_by_presence(ensemble: Ensemble) -> bool:
    """Returns whether a split sends every finite value left, so that only missing values can go right."""
    return any(
        isinstance(node, InnerNode) and _sends_all_left(node, ensemble.comparison)
        for tree in ensemble.trees
        for node in nodes_of(tree.root)
    )


def without_infinite_thresholds(root: Node, comparison: str) -> Node:
    """Returns a tree with finite thresholds of `<`, because JSON has no infinity.

    A split that sends every finite value left gets its children exchanged, and a threshold below all of them:
    finite values go right, to the same child as before, and missing values to the other side. Only an
    infinite value may go elsewhere.
    """
    done: dict[int, Node] = {}
    for node in reversed(nodes_of(root)):  # children come before their parent
        if isinstance(node, Leaf):
            done[id(node)] = node
            continue
        left, right = done[id(node.left)], done[id(node.right)]
        if _sends_all_left(node, comparison):
            left, right = right, left
            node_changes = {"threshold": _BELOW_ALL, "missing_left": not node.missing_left}
        else:
            node_changes = {}
        done[id(node)] = replace(node, left=left, right=right, **node_changes)  # type: ignore[arg-type]
    return done[id(root)]


def _sends_all_left(node: InnerNode, comparison: str) -> bool:
    return node.threshold > _LARGEST if comparison == "<" else node.threshold >= _LARGEST


def float64_text(values: NDArray[np.floating]) -> list[str]:
    """Returns the shortest decimal numbers of float32 numbers as float64, for readers that do not round.

    >>> float64_text(np.array([0.1], dtype=np.float32))
    ['0.10000000149011612']
    """
    return [repr(value) for value in values.astype(np.float32).astype(np.float64).tolist()]


def breadth_first(tree: FlatTree) -> NDArray[np.int64]:
    """Returns the (N,) nodes level by level, as XGBoost numbers them: a right child follows the left one."""
    levels, level = [], np.zeros(1, dtype=np.int64)
    while len(level):
        levels.append(level)
        inner = level[~tree.is_leaf[level]]
        level = np.stack([tree.left[inner], tree.right[inner]], axis=1).ravel()
    return np.concatenate(levels)


def _nested(tree: FlatTree, names: Sequence[str], texts: NumberTexts) -> str:
    """Returns the JSON of a tree."""
    order = breadth_first(tree)
    ids = np.empty_like(order)
    ids[order] = np.arange(len(order))
    numbers = texts(np.where(tree.is_leaf, tree.value, tree.threshold))
    is_leaf = tree.is_leaf.tolist()
    feature, left, right = tree.feature.tolist(), ids[tree.left].tolist(), ids[tree.right].tolist()
    missing = ids[np.where(tree.missing_left, tree.left, tree.right)].tolist()
    nodeids = ids.tolist()

    def text_of(node: int, depth: int) -> str:
        if is_leaf[node]:
            return f'{{"nodeid":{nodeids[node]},"leaf":{numbers[node]}}}'
        return (
            f'{{"nodeid":{nodeids[node]},"depth":{depth},"split":{names[feature[node]]},'
            f'"split_condition":{numbers[node]},"yes":{left[node]},"no":{right[node]},'
            f'"missing":{missing[node]},"children":['
        )

    return nested_json(is_leaf, text_of, between=",", end="]}")


# ---- Reader of UBJSON. XGBoost's own reader ends the process on a damaged file.

_DEPTH = 20
_NUMBERS = {"i": "b", "U": "B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}
_CONSTANTS = {"T": True, "F": False, "Z": None, "N": None}


def parse_ubjson(content: bytes) -> Any:
    """Returns the value of a UBJSON file: dictionaries, lists, texts, numbers, and arrays of numbers.

    Raises:
        ValueError: the content is not UBJSON, or is nested too deeply.
    """
    reader = _Reader(content)
    value = reader.value(reader.marker(), _DEPTH)
    if reader.place != len(content):
        raise ValueError("the file has further content after the model")
    return value


class _Reader:
    """Reads UBJSON from a position; raises ValueError on truncated or unknown content."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def take(self, length: int) -> bytes:
        taken = self.content[self.place : self.place + length]
        if len(taken) != length:
            raise ValueError("the file is truncated")
        self.place += length
        return taken

    def marker(self) -> str:
        return self.take(1).decode("ascii")

    def number(self, marker: str) -> Any:
        if marker not in _NUMBERS:
            raise ValueError(f"{marker!r} is not the type of a number")
        form = _NUMBERS[marker]
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def length(self, marker: str) -> int:
        length = self.number(marker)
        if not isinstance(length, int) or length < 0:
            raise ValueError(f"{length} is not a length")
        return length

    def text(self) -> str:
        return self.take(self.length(self.marker())).decode()

    def value(self, marker: str, depth: int) -> Any:
        if depth == 0:
            raise ValueError("the file is nested too deeply")
        if marker == "{":
            return self.table(depth)
        if marker == "[":
            return self.array(depth)
        if marker == "S":
            return self.text()
        return _CONSTANTS[marker] if marker in _CONSTANTS else self.number(marker)

    def table(self, depth: int) -> dict[str, Any]:
        table: dict[str, Any] = {}
        while (marker := self.marker()) != "}":
            name = self.take(self.length(marker)).decode()
            if name in table:
                raise ValueError(f"{name} is given twice")
            table[name] = self.value(self.marker(), depth - 1)
        return table

    def array(self, depth: int) -> Any:
        marker = self.marker()
        if marker == "$":
            kind, hash_sign = self.marker(), self.marker()
            length = self.length(self.marker())
            if kind not in _NUMBERS or hash_sign != "#":
                raise ValueError("an array has values that are not numbers")
            dtype = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self.take(length * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        if marker == "#":
            return [self.value(self.marker(), depth - 1) for _ in range(self.length(self.marker()))]
        items = []
        while marker != "]":
            items.append(self.value(marker, depth - 1))
            marker = self.marker()
        return items


# ---- XGBoost's model files: JSON and UBJSON as `Booster.save_model` writes them.
#
# A tree has arrays over its N nodes: children (-1: a leaf), features, thresholds or leaf values, and where
# missing values go. A value goes left if it is smaller than the threshold. The score is, in float32,
#
#     margin(base_score) + sum over t of weight_t leaf_t(x)
#
# where only dart boosters have weights. `base_score` is what the objective predicts without trees, such as
# a probability; `margin` transforms it into a score. XGBoost 3.1 and newer write it as a list of one
# number, and read a number too.

MOST_FEATURES: Final = 1_000_000
"""Maximum number of features of a file without feature names, because each becomes a name."""

_NO_PARENT = 2**31 - 1
_NO_CHILD = -1
_VERSION = [2, 1, 0]
"""Version in the written files, so that older versions read them without a warning."""
_NUMBER = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
_REMEDY = "Save the model again with Booster.save_model, as .json or .ubj"

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
    logf.argtypes, logf.restype = [ctypes.c_float], ctypes.c_float
    return np.float32(logf(value))


def _logit(base: np.float32) -> np.float32:
    if not 0 < base < 1:
        return np.float32(np.nan)
    clipped = np.clip(base, _LOGIT_EPSILON, np.float32(1) - _LOGIT_EPSILON)
    return -_log(np.float32(1) / clipped - np.float32(1))


_Margin = Callable[[np.float32], np.float32]
_MARGINS: Mapping[str, _Margin] = {
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
    base_score = rounded_to_float32(np.array([ensemble.base_score]), "the base score")
    trees = [_arrays(number, tree, len(names)) for number, tree in enumerate(float32_trees(ensemble))]
    forest = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(len(trees) + 1)),
        "tree_info": [0] * len(trees),
        "trees": trees,
    }
    learner = {
        "attributes": {},
        "feature_names": names,
        "feature_types": ["float"] * len(names),
        "gradient_booster": {"model": forest, "name": "gbtree"},
        "learner_model_param": {
            "base_score": float32_texts(base_score)[0],
            "boost_from_average": "0",
            "num_class": "0",
            "num_feature": str(len(names)),
            "num_target": "1",
        },
        "objective": {"lambdarank_param": {}, "name": "rank:ndcg"},
    }
    return json.dumps({"version": _VERSION, "learner": learner}, separators=(",", ":")).encode()


def read_xgboost_json(content: bytes, path: Path) -> ReadModel:
    """Reads a model file of any booster of trees with one score per document.

    Args:
        content: JSON or UBJSON.
        path: file of the content, used in messages only.

    Raises:
        ResultError: The content is not such a model, or not all of its trees make the prediction.
    """
    try:
        is_json = content[:1] == b"{" and content[1:2] in b'" \t\r\n}'
        return _read_model(json.loads(content) if is_json else parse_ubjson(content))
    except RecursionError:
        reason = "its lists and objects are nested too deep"
    except (ValueError, TypeError, OverflowError) as error:
        reason = str(error)
    raise ResultError(f"{path} cannot be read as a model of XGBoost: {reason}. {_REMEDY}.")


def _arrays(number: int, tree: FlatTree, num_features: int) -> dict[str, Any]:
    """Returns a tree as arrays over its N nodes. XGBoost predicts with `left_children + 1` instead of
    `right_children`, so the right child follows the left one."""
    order = breadth_first(tree)
    num_nodes, is_leaf, values = len(order), tree.is_leaf[order], tree.value[order]
    inner = np.flatnonzero(~is_leaf)
    left_children, parents = np.full(num_nodes, _NO_CHILD), np.full(num_nodes, _NO_PARENT)
    left_children[inner] = np.arange(1, num_nodes, 2)
    parents[1:] = np.repeat(inner, 2)
    zeros = [0.0] * num_nodes
    return {
        "base_weights": _numbers(values),
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": tree.missing_left[order].astype(int).tolist(),
        "id": number,
        "left_children": left_children.tolist(),
        "loss_changes": zeros,
        "parents": parents.tolist(),
        "right_children": np.where(is_leaf, _NO_CHILD, left_children + 1).tolist(),
        "split_conditions": _numbers(np.where(is_leaf, values, tree.threshold[order])),
        "split_indices": np.where(is_leaf, 0, tree.feature[order]).tolist(),
        "split_type": [0] * num_nodes,
        "sum_hessian": zeros,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(num_features),
            "num_nodes": str(num_nodes),
            "size_leaf_vector": "1",
        },
    }


def _numbers(values: NDArray[np.float64]) -> list[float]:
    """Returns numbers whose text in JSON is that of `float32_texts`."""
    return [float(text) for text in float32_texts(values)]


def _read_model(model: Any) -> ReadModel:
    learner = _part(model, "learner", dict)
    parameters = _part(learner, "learner_model_param", dict)
    if _whole_number(parameters, "num_class", 0) > 1 or _whole_number(parameters, "num_target", 1) != 1:
        raise ValueError("the model has more than one score per document; train a ranker")
    num_features = _whole_number(parameters, "num_feature")
    names = _feature_names(learner, num_features)
    base_score = _base_score(parameters, _part(learner, "objective", dict).get("name"))
    forest, weights = _forest(_part(learner, "gradient_booster", dict))
    trees = _part(forest, "trees", list)
    if weights is None:
        weights = np.ones(len(trees))
    if len(weights) != len(trees):
        raise ValueError(f"weight_drop has {len(weights)} weights for {len(trees)} trees")
    if len(trees) and np.any(_array(forest, "tree_info", len(trees))):
        raise ValueError("tree_info is not 0 for every tree: the model has more than one score per document")
    _check_iterations(learner, forest)
    read, largest = [], abs(base_score)
    for number, (tree, weight) in enumerate(zip(trees, weights.astype(np.float32).tolist(), strict=True)):
        root, largest_leaf = _root(tree, number, num_features)
        read.append(WeightedTree(weight, root))
        largest += abs(weight) * largest_leaf
    if not largest < np.finfo(np.float32).max:
        raise ValueError("the sum of the largest value of each tree is not finite as float32")
    return ReadModel(
        Ensemble(tuple(read), base_score, comparison="<", score_dtype="float32"), names, num_features
    )


def _part(place: Any, name: str, kind: type[Any]) -> Any:
    part = place.get(name) if isinstance(place, dict) else None
    if not isinstance(part, kind):
        raise ValueError(f"{name} is missing or has another type than in XGBoost's files")
    return part


def _feature_names(learner: Mapping[str, Any], num_features: int) -> tuple[str, ...]:
    names = learner.get("feature_names") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("feature_names is not a list of texts")
    if names and (len(names) != num_features or len(set(names)) != num_features):
        raise ValueError(f"feature_names are not {num_features} different names, the num_feature of the file")
    if num_features > MOST_FEATURES and not names:
        raise ValueError(
            f"num_feature is {num_features:,}, and the maximum without feature_names is {MOST_FEATURES:,}"
        )
    return tuple(names)


def _base_score(parameters: Mapping[str, Any], objective: Any) -> float:
    text = str(parameters.get("base_score")).strip()
    text = text[1:-1].strip() if re.fullmatch(r"\[.*\]", text, re.DOTALL) else text
    if not re.fullmatch(_NUMBER, text):
        raise ValueError(f"base_score is {text[:50]!r}, not one number")
    if objective not in _MARGINS:
        raise ValueError(
            f"the objective is {str(objective)[:50]!r}, but trees of {', '.join(_MARGINS)} can be read"
        )
    with np.errstate(all="ignore"):
        margin = _MARGINS[objective](np.float32(text))
    if not np.isfinite(margin):
        raise ValueError(f"base_score is {text[:50]}, whose margin for {objective} is not finite")
    return float(margin)


def _forest(booster: Mapping[str, Any]) -> tuple[dict[str, Any], NDArray[np.float64] | None]:
    """Returns the part of a booster with its trees, and the weights of a dart booster."""
    name = booster.get("name")
    if name == "gbtree":
        return _part(booster, "model", dict), None
    if name != "dart":
        raise ValueError(f"the booster is {str(name)[:50]!r}, but only gbtree and dart have trees")
    weights = _array(booster, "weight_drop")
    if not (np.abs(weights) < np.finfo(np.float32).max).all():
        raise ValueError("weight_drop has a weight that is not finite")
    return _part(_part(booster, "gbtree", dict), "model", dict), weights


def _check_iterations(learner: Mapping[str, Any], forest: Mapping[str, Any]) -> None:
    """Refuses trees behind the best iteration: XGBRanker does not use them, Booster.predict does."""
    attributes = learner.get("attributes")
    best = attributes.get("best_iteration") if isinstance(attributes, dict) else None
    rounds = forest.get("iteration_indptr")
    if best is None or rounds is None:
        return
    if not re.fullmatch(r"[0-9]{1,9}", str(best)):
        raise ValueError(f"best_iteration is {str(best)[:50]!r}, not a non-negative integer")
    if int(best) + 1 < len(_array(forest, "iteration_indptr")) - 1:
        raise ValueError(
            f"early stopping chose the first {int(best) + 1} of {len(rounds) - 1} iterations, and XGBRanker "
            "predicts with these only, but Booster with all. Keep the model that you want: save "
            f"booster[:{int(best) + 1}], or all iterations after booster.set_attr(best_iteration=None)"
        )


def _root(tree: Any, number: int, num_features: int) -> tuple[Node, float]:
    """Checks the arrays of a tree; nodes that pruning has removed are ignored.

    Returns:
        The root, and the largest absolute value of a leaf.
    """
    num_nodes = _whole_number(_part(tree, "tree_param", dict), "num_nodes")
    if _whole_number(tree["tree_param"], "size_leaf_vector", 1) > 1:
        raise ValueError(f"tree {number} has more than one score per leaf")
    if np.any(_array(tree, "split_type", optional=True)) or len(_array(tree, "categories", optional=True)):
        raise ValueError(
            f"tree {number} has categorical splits; encode categories as numbers before training"
        )
    left, right, feature = (
        _array(tree, name, num_nodes) for name in ("left_children", "right_children", "split_indices")
    )
    values, default_left = (_array(tree, name, num_nodes) for name in ("split_conditions", "default_left"))
    try:
        order = _from_the_root(left, right)
        inner = order[left[order] != _NO_CHILD]
        check_split_features(feature[inner], num_features)
        if (feature[inner] % 1).any():
            raise ValueError("a split has a feature index that is not an integer")
    except ValueError as error:
        raise ValueError(f"tree {number}: {error}") from None
    numbers = nearest_float32(values)
    if not np.isfinite(numbers[order]).all():
        raise ValueError(f"tree {number} has a threshold or leaf value that is not finite")
    nodes: dict[int, Node] = {}
    for node in order[::-1].tolist():  # children come before their parent
        value = float(numbers[node])
        if left[node] == _NO_CHILD:
            nodes[node] = Leaf(value)
        else:
            below = nodes.pop(int(left[node])), nodes.pop(int(right[node]))
            nodes[node] = InnerNode(int(feature[node]), value, bool(default_left[node]), *below)
    return nodes[0], float(np.abs(numbers[order[left[order] == _NO_CHILD]]).max())


def _from_the_root(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the nodes below node 0, each before its children.

    Raises:
        ValueError: A child is out of range, or is the child of two nodes or the root.
    """
    is_leaf = left == _NO_CHILD
    if not len(left) or (right[is_leaf] != _NO_CHILD).any():
        raise ValueError("it has no nodes, or a node with one child")
    children = np.stack([left, right], axis=1)
    below = children[~is_leaf].ravel()
    if not ((below >= 1) & (below < len(left)) & (below == np.floor(below))).all():
        raise ValueError(f"a child index is outside 1 to {len(left) - 1}")
    if len(np.unique(below)) != len(below):
        raise ValueError("a node is the child of two nodes")
    if (right[~is_leaf] != left[~is_leaf] + 1).any():
        raise ValueError("a right child does not follow the left one, as XGBoost assumes")
    # Each node has one parent and the root none, so that no path returns to a node.
    level = np.zeros(1, dtype=np.int64)
    levels = []
    while len(level):
        levels.append(level)
        level = children[level[~is_leaf[level]]].ravel().astype(np.int64)
    return np.concatenate(levels)


def nearest_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Returns the float32 whose shortest decimal numbers were read as float64.

    A decimal number may be so close to the middle of two float32 that its float64 is the middle; the wrong
    one of them would be its rounded value.
    """
    with np.errstate(all="ignore"):
        rounded = values.astype(np.float32)
        other = np.nextafter(rounded, np.where(values > rounded, np.inf, -np.inf).astype(np.float32))
        is_middle = (values - rounded) == (other.astype(np.float64) - values)
    for place in np.flatnonzero(is_middle & (values != rounded)).tolist():
        if float(str(other[place])) == values[place]:
            rounded[place] = other[place]
    return rounded


def _whole_number(parameters: Mapping[str, Any], name: str, absent: int | None = None) -> int:
    """Returns a parameter, which older versions of XGBoost may not write."""
    value = parameters.get(name, absent)
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,9}", str(value)):
        raise ValueError(f"{name} is {str(value)[:50]!r}, not a non-negative integer below 10^9")
    return int(value)


def _array(
    place: Mapping[str, Any], name: str, length: int | None = None, *, optional: bool = False
) -> NDArray[np.float64]:
    """Returns a list of numbers; its length is checked before memory depends on it."""
    listed = place.get(name, [] if optional else None)
    if not isinstance(listed, list | np.ndarray):
        raise ValueError(f"{name} is missing or not a list")
    if length is not None and len(listed) != length:
        raise ValueError(f"{name} has {len(listed):,} values, not {length:,}")
    try:
        array = np.asarray(listed, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{name} has a value that is not a number") from None
    if array.ndim != 1:
        raise ValueError(f"{name} is not a list of numbers")
    return array
