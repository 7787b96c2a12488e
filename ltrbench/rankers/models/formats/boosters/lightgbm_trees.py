"""Parser of LightGBM's text model files: header with the sizes of the trees, trees, importances, parameters.

A tree has a line `name=values` for each array. A child is the index of a split, or -1 minus the index of a
leaf, and a split comes before its children. The bits of `decision_type` are:

    1    categorical split
    2    missing values go left
    12   kind of missing values: 0: none, so that NaN is compared as 0; 4: zeros and NaN; 8: NaN

LightGBM reads trees on several threads, where an error ends the process, and does not check the indices of
children and features. The parser checks what LightGBM's reader relies on: the positions of the trees, the
lengths of their arrays, child and feature indices, and finite numbers. `check_text` checks in addition what
only the files of our own runs have.

The format is that of src/io/tree.cpp (LightGBM, commit 2307a02ab7afce0028b0c40be3ccc18a0b08b053), with the
file around the trees in src/boosting/gbdt_model_text.cpp (commit 650cc186c2d1bb02f145ad6ba37ffd53a8390bda).
S splits and L leaves of a tree, L = S + 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.rankers.models.splits import check_children, check_split_features, is_deep
from ltrbench.rankers.models.trees import LARGEST_ZERO, InnerNode, Leaf, Node, WeightedTree

DEFAULT_LEFT, ZERO_IS_MISSING, NAN_IS_MISSING = 2, 4, 8
"""Bits of `decision_type`."""
_CATEGORICAL, _KIND_OF_MISSING = 1, 12

OF_SPLITS: Final = ("split_gain", "internal_value", "internal_weight", "internal_count")
OF_LEAVES: Final = ("leaf_weight", "leaf_count")
"""Lines of statistics, which no score depends on, and which files of old versions may not have."""

_LINE = re.compile(r"(\w+)=(.*)")
_PARAMETER = re.compile(r"\[\w+: .*\]")
_RANGE = re.compile(r"none|\[[-+.0-9einf]+:[-+.0-9einf]+\]")
_INTEGERS = re.compile(r"[-0-9 ]*")
_NUMBERS = re.compile(r"[-+.0-9einfa ]*")
_OBJECTIVES = ("lambdarank", "rank_xendcg")
_LARGEST = float(np.finfo(np.float32).max)  # largest value of a feature
_LARGEST_INTEGER = 2**31 - 1

_Integers = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LightGBMTree:
    """A tree of a file.

    Attributes:
        feature, decision_type, left, right: (S,), integers of the splits.
        threshold: (S,); infinite if all finite values go to one side.
        value: (L,), values of the leaves, which include shrinkage.
        shrinkage: factor that the leaf values contain.
        statistics: name in `OF_SPLITS` or `OF_LEAVES` -> the text of its line.
        is_linear: whether the values of leaves are linear functions of features.
        largest: largest absolute score of a leaf.
    """

    feature: _Integers
    decision_type: _Integers
    left: _Integers
    right: _Integers
    threshold: _Floats
    value: _Floats
    shrinkage: float
    statistics: Mapping[str, str]
    is_linear: bool
    largest: float


@dataclass(frozen=True, eq=False)
class LightGBMFile:
    """A checked file.

    Attributes:
        head: name -> text of the lines before the trees; the text is empty for a line without `=`.
        num_features: number of features.
        trees: the trees.
        end: the text after the trees.
    """

    head: Mapping[str, str]
    num_features: int
    trees: tuple[LightGBMTree, ...]
    end: str


@dataclass(frozen=True, eq=False)
class LightGBMRecord:
    """What a file has beside the splits and leaf values of a tree, as `WeightedTree.record`.

    Nodes are counted in the order of `trees.nodes_of`, splits and leaves each from 0.

    Attributes:
        splits: (S,), which split of the tree each split of the file is.
        leaves: (L,), likewise.
        decision_type, threshold: (S,), of the splits of the file.
        statistics: as in `LightGBMTree`.
    """

    splits: _Integers
    leaves: _Integers
    decision_type: _Integers
    threshold: _Floats
    statistics: Mapping[str, str]


def parse_lightgbm_file(content: bytes) -> LightGBMFile:
    """Returns the checked content of a file with one score per document.

    Raises:
        ValueError: The content is not such a file; the message has the place.
    """
    head, num_features, first = _before_trees(content)
    sizes = _integers(head, "tree_sizes", None).tolist()
    if min(sizes, default=0) < 1:
        raise ValueError("tree_sizes are not the sizes of the trees")
    ends = [first]
    for size in sizes:
        ends.append(ends[-1] + size)
    trees = tuple(
        _tree(_lines_of_tree(content[first:end], number), number, num_features)
        for number, (first, end) in enumerate(pairwise(ends))
    )
    end = _text(content[ends[-1] :])
    if re.search(r"^Tree=", end, re.MULTILINE):
        raise ValueError("tree_sizes are not the sizes of the trees: more trees follow")
    if not math.isfinite(sum(tree.largest for tree in trees)):
        raise ValueError("the sum of the largest value of each tree is not finite")
    return LightGBMFile(head, num_features, trees, end)


def check_text(text: str) -> bool:
    """Checks the text of a ranking model written by `Booster.model_to_string`.

    Returns:
        Whether a tree `is_deep`.

    Raises:
        ValueError: the text is not such a model.
    """
    if not text.isascii():
        raise ValueError("the text is not ASCII")
    head, num_features, _ = _before_trees(text.encode())
    if _whole(head, "label_index") != 0:
        raise ValueError("label_index is not 0")
    if head.get("objective", "") not in _OBJECTIVES:
        raise ValueError(f"the objective is not one of {', '.join(_OBJECTIVES)}")
    if head.get("feature_names") != " ".join(f"Column_{feature}" for feature in range(num_features)):
        raise ValueError(f"feature_names are not Column_0 to Column_{num_features - 1}")
    ranges = head.get("feature_infos", "").split(" ")
    if len(ranges) != num_features or not all(map(_RANGE.fullmatch, ranges)):
        raise ValueError(f"feature_infos are not the ranges of {num_features} features")
    if not re.fullmatch(r"(-?\d *)*", head.get("monotone_constraints", "")):
        raise ValueError("monotone_constraints are not signs")
    file = parse_lightgbm_file(text.encode())
    for number, tree in enumerate(file.trees):
        absent = [name for name in (*OF_SPLITS, *OF_LEAVES) if name not in tree.statistics]
        if absent:
            raise ValueError(f"tree {number} has no {absent[0]}")
    _check_end(file.end)
    _check_linear(file)
    return any(is_deep(tree.left, tree.right) for tree in file.trees)


def tree_of_lightgbm(tree: LightGBMTree, weight: float = 1.0) -> WeightedTree:
    """Returns a tree that is not linear, with its record. Its thresholds are `beside_zeros`.

    Args:
        weight: factor on the leaf values.
    """
    missing_left, zero_missing = (
        sides.tolist() for sides in missing_sides(tree.decision_type, tree.threshold)
    )
    feature, threshold = tree.feature.tolist(), beside_zeros(tree.threshold).tolist()
    children = list(zip(tree.left.tolist(), tree.right.tolist(), strict=True))
    leaves = [Leaf(value) for value in tree.value.tolist()]
    splits: dict[int, Node] = {}
    for number in reversed(range(len(feature))):  # children come after their parent
        left, right = (splits[child] if child >= 0 else leaves[~child] for child in children[number])
        splits[number] = InnerNode(
            feature[number], threshold[number], missing_left[number], left, right, zero_missing[number]
        )
    root = splits[0] if splits else leaves[0]
    return WeightedTree(weight, root, tree.shrinkage, record=_record(tree, children))


def beside_zeros(threshold: _Floats) -> _Floats:
    """Returns thresholds that send 0 and all values of at most `LARGEST_ZERO` to one side, (S,).

    `Booster.predict` reads such values as 0 before a tree sees them, and zeros of a feature with negative
    values have the threshold -LARGEST_ZERO below them. Source: RowPairFunctionFromDenseMatric in
    src/c_api.cpp and kZeroThreshold in include/LightGBM/meta.h.

    >>> beside_zeros(np.array([-LARGEST_ZERO, 0.0, 0.5])).tolist()
    [-1.0000000180025096e-35, 1.0000000180025095e-35, 0.5]
    """
    below = np.nextafter(-LARGEST_ZERO, -np.inf)
    sided = np.where(threshold < 0, below, LARGEST_ZERO)
    return np.where(np.abs(threshold) <= LARGEST_ZERO, sided, threshold)


def missing_sides(
    decision_type: _Integers, threshold: _Floats
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns, for each split, whether missing values go left, and whether zeros count as missing, (S,)."""
    kind = decision_type & _KIND_OF_MISSING
    has_kind = (kind == ZERO_IS_MISSING) | (kind == NAN_IS_MISSING)
    # Without missing values in training, LightGBM reads a missing value as 0.
    missing_left: NDArray[np.bool_] = np.where(has_kind, decision_type & DEFAULT_LEFT > 0, threshold >= 0)
    return missing_left, kind == ZERO_IS_MISSING


def _record(tree: LightGBMTree, children: list[tuple[int, int]]) -> LightGBMRecord:
    splits, leaves = np.empty(len(children), dtype=np.int64), np.empty(len(tree.value), dtype=np.int64)
    num_splits = num_leaves = 0
    waiting = [0 if children else -1]
    while waiting:
        node = waiting.pop()
        if node < 0:
            leaves[~node], num_leaves = num_leaves, num_leaves + 1
        else:
            splits[node], num_splits = num_splits, num_splits + 1
            waiting += children[node][::-1]
    return LightGBMRecord(splits, leaves, tree.decision_type, tree.threshold, tree.statistics)


def _before_trees(content: bytes) -> tuple[dict[str, str], int, int]:
    """Returns the checked lines before the trees, the number of features, and where the trees begin."""
    before, separator, _ = content.partition(b"\n\nTree=0\n")
    if not separator:
        raise ValueError("the file has no trees")
    head = _head(_text(before))
    num_features = _whole(head, "max_feature_idx") + 1
    for name, expected in (("num_class", 1), ("num_tree_per_iteration", 1)):
        if _whole(head, name) != expected:
            raise ValueError(f"{name} is not {expected}")
    return head, num_features, len(before) + 2


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text ({error.reason})") from None


def _head(text: str) -> dict[str, str]:
    """Returns name -> text of the lines before the trees."""
    title, *lines = text.split("\n")
    if title != "tree":
        raise ValueError(f"the first line is {title[:50]!r}, not 'tree'")
    head: dict[str, str] = {}
    for line in filter(None, lines):
        name, _, value = line.partition("=")
        if name in head:
            raise ValueError(f"{name[:50]!r} appears twice before the trees")
        head[name] = value
    return head


def _lines_of_tree(block: bytes, number: int) -> dict[str, str]:
    """Returns name -> values of the lines of a tree."""
    if not block.isascii() or not block.endswith(b"\n\n\n"):
        raise ValueError("tree_sizes are not the sizes of the trees")
    title, *lines = block.decode().rstrip("\n").split("\n")
    matches = [match for match in map(_LINE.fullmatch, lines) if match]
    names = {match[1]: match[2] for match in matches}
    if title != f"Tree={number}" or not len(names) == len(matches) == len(lines):
        raise ValueError(f"tree {number} is not a title followed by lines of a name and numbers")
    return names


def _tree(names: Mapping[str, str], number: int, num_features: int) -> LightGBMTree:
    try:
        return _checked(names, num_features)
    except ValueError as error:
        raise ValueError(f"tree {number}: {error}") from None


def _checked(names: Mapping[str, str], num_features: int) -> LightGBMTree:
    num_leaves = _whole(names, "num_leaves")
    if num_leaves < 1:
        raise ValueError("it has no leaf")
    if _whole(names, "num_cat") != 0:
        raise ValueError("it has categorical splits; encode categories as numbers before training")
    num_splits = num_leaves - 1
    threshold = _numbers(names, "threshold", num_splits)
    if np.isnan(threshold).any():
        raise ValueError("a threshold is not a number")
    feature = _integers(names, "split_feature", num_splits)
    check_split_features(feature, num_features)
    left, right = (_integers(names, name, num_splits) for name in ("left_child", "right_child"))
    _check_nodes(left, right)
    decision_type = _integers(names, "decision_type", num_splits)
    if ((decision_type < 0) | (decision_type > 15) | (decision_type & _CATEGORICAL > 0)).any():
        raise ValueError("a decision_type is not one of a numerical split")
    value = _numbers(names, "leaf_value", num_leaves)
    shrinkage = float(_numbers(names, "shrinkage", 1)[0])
    largest, is_linear = float(np.abs(value).max()), False
    if "is_linear" in names and _whole(names, "is_linear"):
        of_linear = _linear(names, num_leaves, num_features)
        largest += sum(float(np.abs(part).max(initial=0.0)) for part in of_linear)
        is_linear = True
    # Leaf values are shown before shrinkage.
    if not shrinkage or not math.isfinite(largest / abs(shrinkage)):
        raise ValueError("a leaf value or the shrinkage is not finite")
    statistics = _statistics(names, num_leaves)
    return LightGBMTree(
        feature, decision_type, left, right, threshold, value, shrinkage, statistics, is_linear, largest
    )


def _check_nodes(left: _Integers, right: _Integers) -> None:
    """Checks the children, which are the index of a split, or -1 minus the index of a leaf."""
    children = np.concatenate([left, right])
    if (children >= len(left)).any():  # which would be leaves in the numbering below
        raise ValueError(f"a child is not one of {len(left)} splits")
    parents = np.tile(np.arange(len(left)), 2)
    # One numbering, with the leaves after all splits.
    nodes = np.where(children < 0, len(left) - 1 - children, children)
    check_children(nodes, parents, 2 * len(left) + 1)


def _linear(names: Mapping[str, str], num_leaves: int, num_features: int) -> list[_Floats]:
    """Returns the constants of linear leaves, and the largest possible sum of their terms."""
    counts = _integers(names, "num_features", num_leaves)
    if (counts < 0).any() or counts.sum() > num_leaves * num_features:
        raise ValueError("num_features of a linear leaf is not a number of features")
    num_terms = int(counts.sum())
    check_split_features(_integers(names, "leaf_features", num_terms), num_features)
    terms = np.abs(_numbers(names, "leaf_coeff", num_terms)).sum() * _LARGEST
    return [_numbers(names, "leaf_const", num_leaves), np.array([terms])]


def _statistics(names: Mapping[str, str], num_leaves: int) -> dict[str, str]:
    lengths = {**dict.fromkeys(OF_SPLITS, num_leaves - 1), **dict.fromkeys(OF_LEAVES, num_leaves)}
    for name, length in lengths.items():
        # A tree of one leaf has weights and counts only if it was not read from a file.
        if name in names and (num_leaves > 1 or names[name]):
            _numbers(names, name, length)
    return {name: names[name] for name in lengths if name in names}


def _words(names: Mapping[str, str], name: str, length: int | None, form: re.Pattern[str]) -> list[str]:
    line = names.get(name)
    if line is None:
        raise ValueError(f"{name} is missing")
    words = line.split()
    if (length is not None and len(words) != length) or not form.fullmatch(line):
        raise ValueError(f"{name} does not have {'' if length is None else f'{length:,} '}numbers")
    return words


def _numbers(names: Mapping[str, str], name: str, length: int) -> _Floats:
    words = _words(names, name, length, _NUMBERS)
    try:
        return np.array([float(word) for word in words], dtype=np.float64)
    except ValueError:
        raise ValueError(f"{name} has a value that is not a number") from None


def _integers(names: Mapping[str, str], name: str, length: int | None) -> _Integers:
    words = _words(names, name, length, _INTEGERS)
    try:
        values = [int(word) for word in words if len(word) < 20]
    except ValueError:
        values = []
    if len(values) != len(words) or any(abs(value) > _LARGEST_INTEGER for value in values):
        raise ValueError(f"{name} has a value that is not an integer")
    return np.array(values, dtype=np.int64)


def _whole(names: Mapping[str, str], name: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", names.get(name, "")):
        raise ValueError(f"{name} is not a non-negative integer")
    return int(names[name])


def _check_end(text: str) -> None:
    """Checks the text after the trees, in which LightGBM splits parameters at their colons."""
    parts = re.fullmatch(
        r"end of trees\n\nfeature_importances:\n(.*)\nparameters:\n(.*)\nend of parameters\n\n"
        r"pandas_categorical:(?:null|\[\])\n",
        text,
        re.DOTALL,
    )
    if parts is None:
        raise ValueError("the file does not end with importances and parameters")
    for lines, form in ((parts[1], _LINE), (parts[2], _PARAMETER)):
        if not all(form.fullmatch(line) for line in lines.splitlines()):
            raise ValueError("an importance or a parameter is not a name with a value")


def _check_linear(file: LightGBMFile) -> None:
    """Checks the parameter linear_tree, after which LightGBM refuses contributions, against the trees."""
    stated = re.findall(r"^\[linear_tree: (.*)\]$", file.end, re.MULTILINE)
    # A tree of one leaf is not linear, whatever the parameter is.
    grown = {tree.is_linear for tree in file.trees if len(tree.value) > 1}
    if stated not in ([], ["0"], ["1"]) or (stated and grown - {stated == ["1"]}):
        raise ValueError("the parameter linear_tree is not that of the trees")
