"""Files of LightGBM: the text format and the dump.

LightGBM's dump: the JSON of `Booster.dump_model`, in the form that Vespa imports.

    {"objective", "feature_names", "tree_info": [{"tree_structure": node}], "pandas_categorical", ...}

A node is {"split_feature", "threshold", "decision_type", "default_left", "missing_type", "left_child",
"right_child"}, or a leaf {"leaf_value"}. LightGBM means that a value of at most the threshold goes left, but
Vespa sends only smaller values left. So the threshold written here is the next float32 above the largest one
that goes left: Vespa sends every float32 where the model did, and LightGBM does not read such a file. Numbers
are the shortest texts of float64, which Java and C++ read back exactly. N nodes of a tree.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError, ResultError
from ltrbench.models import ReadModel
from ltrbench.models.float32 import nested_json, smallest_right
from ltrbench.models.trees import (
    LARGEST_ZERO,
    Ensemble,
    FlatTree,
    InnerNode,
    Leaf,
    Node,
    WeightedTree,
    check_children,
    check_split_features,
    flat,
    float32_thresholds,
    weighted_values,
    without_zero_missing,
)
from ltrbench.models.xgboost_files import base_score_as_tree

MOST_LEVELS_OF_DUMP: Final = 400
"""Maximum depth of a tree: Vespa reads and prints trees recursively, and JSON up to 1,000 levels."""


def write_lightgbm_json(ensemble: Ensemble, feature_names: Sequence[str]) -> bytes:
    """Returns the trees as LightGBM dumps them, with thresholds for the comparison `<`.

    Leaf values contain the weights, and the base score is a first tree with one leaf.

    Args:
        feature_names: F names of the features.

    Raises:
        ConfigError: A leaf value is beyond float32, which Vespa needs for many trees, or a tree is too deep.
    """
    trees = ",\n".join(
        f'{{"tree_index":{number},"num_leaves":{int(tree.is_leaf.sum())},"num_cat":0,"shrinkage":1,'
        f'"tree_structure":{_nested(tree, number)}}}'
        for number, tree in enumerate(smaller_left_trees(ensemble))
    )
    head = {
        "name": "tree",
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": len(feature_names) - 1,
        "objective": "lambdarank",
        "average_output": False,
        "feature_names": list(feature_names),
        "feature_infos": {},
    }
    return f'{json.dumps(head)[:-1]},\n"tree_info":[{trees}],\n"pandas_categorical":[]}}\n'.encode()


def smaller_left_trees(ensemble: Ensemble) -> Iterator[FlatTree]:
    """Yields the trees for the comparison `<` in float32 or float64, the base score first.

    A float32 value goes where it went before, for any comparison and dtype of the ensemble. The exceptions
    are infinities: positive infinity never goes left by its value, and negative infinity always.

    Raises:
        ConfigError: A leaf value is beyond float32, or too many splits count zeros as missing.
    """
    if ensemble.base_score or not ensemble.trees:
        leaf = flat(Leaf(ensemble.base_score))
        yield leaf._replace(value=_checked_dump(leaf.value, "the base score"))
    for number, weighted in enumerate(without_zero_missing(ensemble).trees):
        tree = flat(weighted.root)
        with np.errstate(over="ignore"):
            values = weighted_values(tree, weighted.weight, ensemble.score_dtype).astype(np.float64)
        thresholds = smallest_right(tree.threshold, ensemble.comparison)
        yield tree._replace(
            threshold=np.where(tree.is_leaf, 0.0, thresholds),
            value=_checked_dump(values, f"a leaf value of tree {number}"),
        )


def _checked_dump(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        is_finite = np.isfinite(values.astype(np.float32)).all()
    if not is_finite:
        raise ConfigError(
            f"{name} is not finite as float32, in which Vespa keeps the leaves of large models. Train the "
            "model again with labels or weights of a smaller scale."
        )
    return values


def _nested(tree: FlatTree, number: int) -> str:
    """Returns the JSON of a tree."""
    texts = [repr(value) for value in np.where(tree.is_leaf, tree.value, tree.threshold).tolist()]
    is_leaf, feature = tree.is_leaf.tolist(), tree.feature.tolist()
    default_left = ["true" if left else "false" for left in tree.missing_left.tolist()]

    def text_of(node: int, depth: int) -> str:
        if is_leaf[node]:
            return f'{{"leaf_value":{texts[node]}}}'
        if depth == MOST_LEVELS_OF_DUMP:
            raise ConfigError(
                f"tree {number} has more than {MOST_LEVELS_OF_DUMP} levels, but Vespa reads trees "
                "recursively. Limit the depth of the trees, for example with max_depth."
            )
        return (
            f'{{"split_feature":{feature[node]},"threshold":{texts[node]},"decision_type":"<=",'
            f'"default_left":{default_left[node]},"missing_type":"NaN","left_child":'
        )

    return nested_json(is_leaf, text_of, between=',"right_child":')


# ---- Parser of LightGBM's text model files: header with the sizes of the trees, trees, importances,
# parameters.
#
# A tree has a line `name=values` for each array. A child is the index of a split, or -1 minus the index of
# a leaf, and a split comes before its children. The bits of `decision_type` are:
#
#     1    categorical split
#     2    missing values go left
#     12   kind of missing values: 0: none, so that NaN is compared as 0; 4: zeros and NaN; 8: NaN
#
# The parser checks what its readers rely on: the positions of the trees, the lengths of their arrays, child
# and feature indices, and finite numbers.
#
# The format is that of src/io/tree.cpp (LightGBM, commit 2307a02ab7afce0028b0c40be3ccc18a0b08b053), with
# the file around the trees in src/boosting/gbdt_model_text.cpp (commit
# 650cc186c2d1bb02f145ad6ba37ffd53a8390bda). S splits and L leaves of a tree, L = S + 1.

DEFAULT_LEFT, ZERO_IS_MISSING, NAN_IS_MISSING = 2, 4, 8
"""Bits of `decision_type`."""
_CATEGORICAL, _KIND_OF_MISSING = 1, 12

OF_SPLITS: Final = ("split_gain", "internal_value", "internal_weight", "internal_count")
OF_LEAVES: Final = ("leaf_weight", "leaf_count")
"""Lines of statistics, which no score depends on, and which files of old versions may not have."""

_LINE = re.compile(r"(\w+)=(.*)")
_INTEGERS = re.compile(r"[-0-9 ]*")
_NUMBERS = re.compile(r"[-+.0-9einfa ]*")
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


# ---- LightGBM's model files: the text of `Booster.save_model`.
#
# A value goes left if it is at most the threshold, compared as float64, and the score is, in float64 and in
# the order of the trees,
#
#     sum over t of leaf_t(x)
#
# with the learning rate, and the weights of dart, in the leaf values. There is no base score: LightGBM adds
# it to the leaves of the first tree, and `base_score_as_tree` writes it as a tree of one leaf.
#
# What a file has is carried as follows:
#
#     splits, leaf values, shrinkage   in the `Ensemble`; thresholds and leaf values keep every bit
#     kinds of missing values,         in `WeightedTree.record`, so that the trees of a file that LightGBM
#     numbering of the nodes,          has written are written again byte for byte
#     gains, weights, counts
#     objective, parameters,           not carried: a written file has the objective lambdarank, whose
#     ranges of the features,          predictions are the scores, no parameters, and ranges without limits
#     monotone constraints
#
# A tree without a record gets gains, weights and counts of 0. A random forest (`average_output`) is read as
# the sum of its trees, as `predict(raw_score=True)` returns it.
#
# `Booster.predict` reads features of at most `LARGEST_ZERO` in absolute value as 0 before any tree sees
# them. The thresholds of an `Ensemble` that is read are therefore `beside_zeros`.

_REMEDY = "Save the model again with Booster.save_model of LightGBM 3 or newer"
_REFUSED_IN_NAMES = re.compile(r'[",:\[\]{}\\\x00-\x1f\x7f]')
"""Characters that LightGBM refuses in names of features, because they would end a text in its JSON."""


def write_lightgbm_text(ensemble: Ensemble, feature_names: Sequence[str]) -> bytes:
    """Returns the model as LightGBM saves it.

    The weights of the trees are in the leaf values.

    Args:
        feature_names: F names of the features; `lightgbm_names` of them are written.

    Raises:
        ConfigError: A leaf value is not finite.
    """
    names = lightgbm_names(feature_names)
    written = [_written(ensemble, tree, number) for number, tree in enumerate(_trees(ensemble))]
    blocks = [f"Tree={number}\n{tree.text()}\n\n\n" for number, tree in enumerate(written)]
    used = {int(feature) for tree in written for feature in tree.feature}
    ranges = ("[-inf:inf]" if feature in used else "none" for feature in range(len(names)))
    head = (
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n"
        f"max_feature_idx={len(names) - 1}\n"
        "objective=lambdarank\n"
        f"feature_names={' '.join(names)}\n"
        f"feature_infos={' '.join(ranges)}\n"
        f"tree_sizes={' '.join(str(len(block)) for block in blocks)}\n\n"
    )
    end = f"end of trees\n\nfeature_importances:\n{_importances(written, names)}\npandas_categorical:null\n"
    return (head + "".join(blocks) + end).encode()


def read_lightgbm_text(content: bytes, path: Path) -> ReadModel:
    """Reads a model file with one score per document, of any objective: scores are those before the
    transformation of the objective (`raw_score`).

    Args:
        path: file of the content, used in messages only.

    Raises:
        ResultError: The content is not such a model, or its trees are linear or split on categories.
    """
    try:
        file = parse_lightgbm_file(content)
        names = _names(file)
        linear = next((number for number, tree in enumerate(file.trees) if tree.is_linear), None)
        if linear is not None:
            raise ValueError(f"tree {linear} has linear models in its leaves; train without linear_tree")
    except ValueError as error:
        raise ResultError(f"{path} cannot be read as a model of LightGBM: {error}. {_REMEDY}.") from None
    trees = tuple(tree_of_lightgbm(tree) for tree in file.trees)
    return ReadModel(Ensemble(trees, threshold_dtype="float64"), names, file.num_features)


def lightgbm_names(feature_names: Sequence[str]) -> list[str]:
    """Returns names that LightGBM accepts: blanks become underscores, as LightGBM itself replaces them. If a
    name is still refused, or two are equal, all features get LightGBM's names of features without names.

    >>> lightgbm_names(["query length", "größe"])
    ['query_length', 'größe']
    >>> lightgbm_names(["tf[title]", "idf"])
    ['Column_0', 'Column_1']
    """
    names = [re.sub(r"\s", "_", name) for name in feature_names]
    if len(set(names)) == len(names) and all(names) and not any(map(_REFUSED_IN_NAMES.search, names)):
        return names
    return [f"Column_{feature}" for feature in range(len(names))]


@dataclass(frozen=True, eq=False)
class _WrittenTree:
    """The lines of a tree. S splits, L leaves.

    Attributes:
        feature, decision_type, left, right, threshold: (S,).
        value: (L,).
        statistics: name -> line.
    """

    feature: NDArray[np.int64]
    decision_type: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    threshold: NDArray[np.float64]
    value: NDArray[np.float64]
    shrinkage: float
    statistics: dict[str, str]

    def text(self) -> str:
        lines = {
            "num_leaves": str(len(self.value)),
            "num_cat": "0",
            "split_feature": _joined(self.feature),
            "split_gain": self.statistics["split_gain"],
            "threshold": _exact(self.threshold),
            "decision_type": _joined(self.decision_type),
            "left_child": _joined(self.left),
            "right_child": _joined(self.right),
            "leaf_value": _exact(self.value),
            **{name: self.statistics[name] for name in (*OF_LEAVES, *OF_SPLITS[1:])},
            "is_linear": "0",
            "shrinkage": f"{self.shrinkage:g}",
        }
        return "\n".join(f"{name}={line}" for name, line in lines.items())


def _trees(ensemble: Ensemble) -> tuple[WeightedTree, ...]:
    return base_score_as_tree(ensemble).trees


def _written(ensemble: Ensemble, weighted: WeightedTree, number: int) -> _WrittenTree:
    """Returns a tree as it is written; splits and leaves have the numbers of its record, if it fits."""
    tree = flat(weighted.root)
    inner, outer = np.flatnonzero(~tree.is_leaf), np.flatnonzero(tree.is_leaf)
    record = _fitting(weighted, tree)
    decision_type, threshold = _decision_types(tree), _float64_thresholds(tree, ensemble)
    if record is not None:
        inner, outer = inner[record.splits], outer[record.leaves]
        # Kinds of missing values that send missing values to the same side are different numbers.
        decision_type[inner] = record.decision_type
        is_sided = threshold[inner] == beside_zeros(record.threshold)
        threshold[inner] = np.where(is_sided, record.threshold, threshold[inner])
    ids = np.empty(len(tree.feature), dtype=np.int64)
    ids[inner], ids[outer] = np.arange(len(inner)), -1 - np.arange(len(outer))
    with np.errstate(over="ignore"):
        values = weighted_values(tree, weighted.weight, ensemble.score_dtype).astype(np.float64)[outer]
    if not np.isfinite(values).all():
        raise ConfigError(
            f"tree {number} has a leaf value that is not finite. Train the model again with labels or "
            "weights of a smaller scale."
        )
    shrinkage = weighted.shrinkage * weighted.weight
    return _WrittenTree(
        tree.feature[inner],
        decision_type[inner],
        ids[tree.left[inner]],
        ids[tree.right[inner]],
        threshold[inner],
        values,
        shrinkage if np.isfinite(shrinkage) and float(f"{shrinkage:g}") else 1.0,
        _statistics_in_text(record, len(inner)),
    )


def _fitting(weighted: WeightedTree, tree: FlatTree) -> LightGBMRecord | None:
    """Returns the record of a tree if the tree has its splits and leaves."""
    record, inner = weighted.record, ~tree.is_leaf
    if not isinstance(record, LightGBMRecord) or weighted.weight != 1:
        return None
    if len(record.splits) != inner.sum() or len(record.leaves) != (~inner).sum():
        return None
    splits = np.flatnonzero(inner)[record.splits]
    missing_left, zero_missing = missing_sides(record.decision_type, tree.threshold[splits])
    fits = (missing_left == tree.missing_left[splits]) & (zero_missing == tree.zero_missing[splits])
    return record if fits.all() else None


def _decision_types(tree: FlatTree) -> NDArray[np.int64]:
    kinds = np.where(tree.zero_missing, ZERO_IS_MISSING, NAN_IS_MISSING)
    decision_types: NDArray[np.int64] = kinds + np.where(tree.missing_left, DEFAULT_LEFT, 0)
    return decision_types


def _float64_thresholds(tree: FlatTree, ensemble: Ensemble) -> NDArray[np.float64]:
    """Returns (N,) thresholds that send every float32 to the same side with the comparison `<=` as float64.

    Thresholds that are compared so already keep their bits.
    """
    thresholds = tree.threshold.astype(ensemble.threshold_dtype).astype(np.float64)
    if ensemble.comparison == "<=":
        return thresholds
    return float32_thresholds(thresholds, "<").astype(np.float64)


def _statistics_in_text(record: LightGBMRecord | None, num_splits: int) -> dict[str, str]:
    zeros = {
        **dict.fromkeys(OF_SPLITS, " ".join(["0"] * num_splits)),
        **dict.fromkeys(OF_LEAVES, " ".join(["0"] * (num_splits + 1))),
    }
    if num_splits == 0:
        zeros["leaf_weight"] = ""  # as LightGBM writes the trees that it has read
    return {**zeros, **(record.statistics if record is not None else {})}


def _importances(trees: Sequence[_WrittenTree], names: Sequence[str]) -> str:
    """Returns the lines with the number of splits of each feature, as LightGBM counts and sorts them."""
    counts = np.zeros(len(names), dtype=np.int64)
    for tree in trees:
        gains = np.array([float(word) for word in tree.statistics["split_gain"].split()])
        np.add.at(counts, tree.feature[gains > 0], 1)
    order = np.argsort(-counts, kind="stable")
    return "".join(f"{names[feature]}={counts[feature]}\n" for feature in order[counts[order] > 0])


def _names(file: LightGBMFile) -> tuple[str, ...]:
    names = file.head.get("feature_names", "").split(" ")
    if len(names) != file.num_features or len(set(names)) != len(names) or not all(names):
        raise ValueError(
            f"feature_names are not {file.num_features} different names, one more than the max_feature_idx "
            "of the file"
        )
    return tuple(names)


def _joined(values: NDArray[np.int64]) -> str:
    return " ".join(map(str, values.tolist()))


def _exact(values: NDArray[np.float64]) -> str:
    """Returns numbers with 17 digits, which are read as the same float64; LightGBM writes the same text."""
    return " ".join(f"{value:.17g}" for value in values.tolist())
