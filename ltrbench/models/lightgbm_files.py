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
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.tables import category_text
from ltrbench.errors import ConfigError
from ltrbench.models import ReadModel
from ltrbench.models.trees import (
    LARGEST_ZERO,
    Ensemble,
    FlatTree,
    InnerNode,
    Leaf,
    Node,
    WeightedTree,
    base_score_as_tree,
    flat,
    float32_thresholds,
    float32_trees,
    nested_text,
    of_words,
    splits_of,
    tree_of,
    weighted_values,
    words_of,
)


def write_lightgbm_json(ensemble: Ensemble, feature_names: Sequence[str]) -> bytes:
    """Returns the trees as LightGBM dumps them, with thresholds for the comparison `<`.

    Leaf values contain the weights, and the base score is a first tree with one leaf.

    Args:
        feature_names: F names of the features.

    Raises:
        ConfigError: A leaf value is beyond float32, which Vespa needs for many trees.
    """
    blocks = []
    # Vespa keeps the leaves of large models as float32, but reads those of other models as float64.
    trees = float32_trees(base_score_as_tree(ensemble), "<", "float64")
    for number, tree in enumerate(trees):
        num_leaves = int(tree.is_leaf.sum())
        blocks.append(
            f'{{"tree_index":{number},"num_leaves":{num_leaves},"num_cat":0,"shrinkage":1,'
            f'"tree_structure":{_nested(tree)}}}'
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
    begin = json.dumps(head)[:-1]
    joined = ",\n".join(blocks)
    return f'{begin},\n"tree_info":[{joined}],\n"pandas_categorical":[]}}\n'.encode()


def read_lightgbm_json(content: bytes, indices: Mapping[str, int]) -> Ensemble:
    """Returns the trees of a dump as Vespa reads them: with the comparison `<`.

    Args:
        indices: name of a feature -> its index.
    """
    dump = json.loads(content)
    names = dump["feature_names"]

    def read(node: Mapping[str, Any]) -> Node:
        if "leaf_value" in node:
            return Leaf(node["leaf_value"])
        name = names[node["split_feature"]]
        return InnerNode(
            indices[name],
            node["threshold"],
            node["default_left"],
            node["left_child"],
            node["right_child"],
        )

    trees = (
        WeightedTree(1.0, tree_of(tree["tree_structure"], read))
        for tree in dump["tree_info"]
    )
    return Ensemble(tuple(trees), comparison="<")


def _nested(tree: FlatTree) -> str:
    """Returns the JSON of a tree."""
    numbers = np.where(tree.is_leaf, tree.value, tree.threshold)
    texts = [repr(number) for number in numbers.tolist()]
    is_leaf = tree.is_leaf.tolist()
    feature = tree.feature.tolist()
    default_left = ["true" if left else "false" for left in tree.missing_left.tolist()]

    def text_of(node: int, _: int) -> str:
        if is_leaf[node]:
            return f'{{"leaf_value":{texts[node]}}}'
        return (
            f'{{"split_feature":{feature[node]},"threshold":{texts[node]},"decision_type":"<=",'
            f'"default_left":{default_left[node]},"missing_type":"NaN","left_child":'
        )

    return nested_text(is_leaf, text_of, between=',"right_child":')


# ---- LightGBM's model files: the text of `Booster.save_model`.
#
# The file has a header, trees, importances and parameters. A tree has a line `name=values` for each array. A
# child is the index of a split, or -1 minus the index of a leaf. The bits of `decision_type` are:
#
#     1    categorical split: its threshold is the index of its categories in `cat_boundaries`, which has the
#          first word of their bits in `cat_threshold`; missing and unknown values go right
#     2    missing values go left
#     12   kind of missing values: 0: none, so that NaN is compared as 0; 4: zeros and NaN; 8: NaN
#
# The format is that of src/io/tree.cpp (LightGBM, commit 2307a02ab7afce0028b0c40be3ccc18a0b08b053), with
# the file around the trees in src/boosting/gbdt_model_text.cpp (commit
# 650cc186c2d1bb02f145ad6ba37ffd53a8390bda). S splits and L leaves of a tree, L = S + 1.
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
# A tree without a record gets gains, weights and counts of 0. The trees of a random forest (`average_output`)
# get the weight 1 / T for T trees: its scores are their mean, as `predict` returns it but for the last bits,
# where `predict(raw_score=True)` returns the sum. A written file has the weights in its leaf values.
#
# `Booster.predict` reads features of at most `LARGEST_ZERO` in absolute value as 0 before any tree sees
# them. The thresholds of an `Ensemble` that is read are therefore `beside_zeros`.

CATEGORICAL = 1
DEFAULT_LEFT = 2
ZERO_IS_MISSING = 4
NAN_IS_MISSING = 8
"""Bits of `decision_type`."""
_KIND_OF_MISSING = 12

_OF_SPLITS: Final[tuple[str, ...]] = (
    "split_gain",
    "internal_value",
    "internal_weight",
    "internal_count",
)
_OF_LEAVES: Final[tuple[str, ...]] = ("leaf_weight", "leaf_count")
"""Lines of statistics, which no score depends on, and which files of old versions may not have."""
_REFUSED_IN_NAMES = re.compile(r'[",:\[\]{}\\\x00-\x1f\x7f]')
"""Characters that LightGBM refuses in names of features, because they would end a text in its JSON."""

_Integers = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LightGBMTree:
    """A tree of a file.

    Attributes:
        feature, decision_type, left, right: (S,), integers of the splits.
        threshold: (S,); infinite if all finite values go to one side; NaN for a categorical split.
        value: (L,), values of the leaves, which include shrinkage.
        shrinkage: factor that the leaf values contain.
        statistics: name in `_OF_SPLITS` or `_OF_LEAVES` -> the text of its line.
        is_linear: whether the values of leaves are linear functions of features.
        categories: S codes that go left, as in `InnerNode`.
    """

    feature: _Integers
    decision_type: _Integers
    left: _Integers
    right: _Integers
    threshold: _Floats
    value: _Floats
    shrinkage: float
    statistics: Mapping[str, str]
    categories: Sequence[int | None]
    is_linear: bool = False

    @property
    def root(self) -> int:
        """The first split, or the only leaf."""
        return 0 if len(self.feature) else -1

    def text(self) -> str:
        """Returns the lines of the tree."""
        is_set = np.isnan(self.threshold)
        words = [words_of(bits) for bits in self.categories if bits is not None]
        thresholds = np.where(is_set, np.cumsum(is_set) - 1, self.threshold)
        lines = {
            "num_leaves": str(len(self.value)),
            "num_cat": str(len(words)),
            "split_feature": _joined(self.feature),
            "split_gain": self.statistics["split_gain"],
            "threshold": _exact(thresholds),
            "decision_type": _joined(self.decision_type),
            "left_child": _joined(self.left),
            "right_child": _joined(self.right),
            "leaf_value": _exact(self.value),
        }
        for name in (*_OF_LEAVES, *_OF_SPLITS[1:]):
            lines[name] = self.statistics[name]
        if words:
            boundaries = np.cumsum([0, *map(len, words)])
            lines["cat_boundaries"] = _joined(boundaries)
            lines["cat_threshold"] = _joined(np.concatenate(words))
        lines["is_linear"] = "0"
        lines["shrinkage"] = f"{self.shrinkage:g}"
        return "\n".join(f"{name}={line}" for name, line in lines.items())


def parse_lightgbm_text(content: bytes) -> tuple[dict[str, str], list[LightGBMTree]]:
    """Returns the lines before the trees, as name -> text, and the trees.

    Lines may end as on Windows, too.

    Raises:
        ValueError: The file is not complete, or has more than one score per document.
    """
    text = content.decode().replace("\r\n", "\n")
    text, end_of_trees, _ = text.partition("\nend of trees\n")
    if not end_of_trees:
        raise ValueError("the line 'end of trees' is missing")
    before, *blocks = text.split("\nTree=")
    head = _values_by_name(before.split("\n"))
    if (head["num_class"], head["num_tree_per_iteration"]) != ("1", "1"):
        raise ValueError(
            "num_class is not 1: the model has more than one score per document; train a ranker"
        )
    return head, [_parsed(block) for block in blocks]


def _values_by_name(lines: Iterable[str]) -> dict[str, str]:
    values = {}
    for line in lines:
        name, _, value = line.partition("=")
        values[name] = value
    return values


def _parsed(block: str) -> LightGBMTree:
    lines = _values_by_name(block.split("\n")[1:])

    def integers(name: str) -> _Integers:
        return np.array(lines[name].split(), dtype=np.int64)

    def numbers(name: str) -> NDArray[np.float64]:
        return np.array(lines[name].split(), dtype=np.float64)

    decision_type = integers("decision_type")
    threshold = numbers("threshold")
    categories: list[int | None] = [None] * len(threshold)
    by_categories = np.flatnonzero(decision_type & CATEGORICAL).tolist()
    if by_categories:
        first = integers("cat_boundaries")
        words = integers("cat_threshold")
        for split in by_categories:
            number = int(threshold[split])
            of_split = words[first[number] : first[number + 1]]
            categories[split] = of_words(of_split)
            threshold[split] = np.nan
    named = [name for name in (*_OF_SPLITS, *_OF_LEAVES) if name in lines]
    return LightGBMTree(
        feature=integers("split_feature"),
        decision_type=decision_type,
        left=integers("left_child"),
        right=integers("right_child"),
        threshold=threshold,
        value=numbers("leaf_value"),
        shrinkage=float(lines["shrinkage"]),
        statistics={name: lines[name] for name in named},
        categories=categories,
        is_linear=lines.get("is_linear", "0") != "0",
    )


def read_lightgbm_text(content: bytes) -> ReadModel:
    """Reads a model file with one score per document, of any objective: scores are those before the
    transformation of the objective.

    Raises:
        ValueError: As for `parse_lightgbm_text`, its trees are linear, it may split ordered categories, or
            the columns of its categories are not certain.
    """
    head, trees = parse_lightgbm_text(content)
    names = tuple(head["feature_names"].split(" "))
    if len(names) != int(head["max_feature_idx"]) + 1:
        raise ValueError(
            f"feature_names has {len(names)} names, not one more than max_feature_idx"
        )
    if any(tree.is_linear for tree in trees):
        raise ValueError(
            "its trees have linear models in their leaves; train without linear_tree"
        )
    ensemble = ensemble_of_lightgbm(head, trees)
    categories = _categories_of_frame(content)
    _check_columns_of_frame(categories, head, ensemble)
    return ReadModel(ensemble, names, len(names), categories)


def _categories_of_frame(content: bytes) -> dict[int, list[str | None]]:
    """Returns feature -> its categories, of a model that was trained on a DataFrame; other models have only
    their codes.

    Raises:
        ValueError: The DataFrame had more columns of categories than the model has categorical features.
    """
    of_frame = re.search(rb"\npandas_categorical:(\[.*)", content, re.DOTALL)
    if of_frame is None:
        return {}
    texts = json.loads(of_frame[1])
    listed = re.search(rb"\[categorical_feature: ([\d,]+)\]", content)
    features = []
    if listed is not None:
        features = [int(feature) for feature in listed[1].split(b",")]
    if len(texts) > len(features):
        raise ValueError(
            f"its DataFrame had {len(texts)} columns of categories, but only {len(features)} are categorical "
            "features: LightGBM compares the codes of the others, which are ordered, as numbers, and the "
            "file does not name them. Train with ordered=False, or with numbers instead of these categories"
        )
    if len(features) != len(texts):
        return {}
    texts_by_feature = {}
    for feature, of_feature in zip(features, texts, strict=True):
        texts_by_feature[feature] = list(map(category_text, of_feature))
    return texts_by_feature


# The file has the categories of all columns of categories of the DataFrame, but not the names of these
# columns. They are the categorical features, unless the user listed other features (`categorical_feature=`):
# then LightGBM compares the codes of columns that are not listed as numbers. `feature_infos` tells more:
#
#     -1:2:0:1    codes of a categorical feature in training; -1: missing
#     [0:2]       smallest and largest value of another feature
#     none        a feature that no split can use

_CODES: Final = re.compile(r"-?\d+(:-?\d+)*")
_RANGE_OF_CODES: Final = re.compile(r"\[0:(\d+)\]")
_NUMBER: Final = re.compile(r"-?[\d.]+")


def _check_columns_of_frame(
    categories: Mapping[int, Sequence[str | None]],
    head: Mapping[str, str],
    ensemble: Ensemble,
) -> None:
    """Raises ValueError if the categories may belong to another column.

    The codes of a feature must fit its categories. If another feature may have the codes of as many
    categories, the feature must have them all, and the categories must not be numbers, which could be those
    of any column.

    Args:
        categories: categorical feature -> its categories, in the order of the features.
    """
    names = head["feature_names"].split(" ")
    infos = head["feature_infos"].split(" ")
    remedy = (
        "The file does not name the columns of categories of its DataFrame. Train with "
        "categorical_feature='auto', and with all categorical features as columns of categories"
    )
    others = {}
    if categories:
        others = _features_like_codes(infos, ensemble)
    for feature, texts in categories.items():
        name = names[feature]
        count = len(texts)
        codes = []
        if _CODES.fullmatch(infos[feature]):
            codes = infos[feature].split(":")
        largest = max(map(int, codes), default=-1)
        if largest >= count:
            raise ValueError(
                f"its categorical feature {name!r} has the code {largest}, but the categories in its place "
                f"are {count}, so they are those of another column. {remedy}"
            )
        are_numbers = all(text and _NUMBER.fullmatch(text) for text in texts)
        is_certain = largest == count - 1 and not are_numbers
        if count in others and not is_certain:
            raise ValueError(
                f"the {count} categories of {name!r} may be those of {names[others[count]]!r}, which has "
                f"the values 0 to {count - 1}. {remedy}"
            )


def _features_like_codes(infos: Sequence[str], ensemble: Ensemble) -> dict[int, int]:
    """Returns number of categories -> feature compared as numbers that may have the codes of so many."""
    features = {}
    for feature, info in enumerate(infos):
        is_range = _RANGE_OF_CODES.fullmatch(info)
        if is_range:
            features[feature] = int(is_range[1]) + 1
    for split in splits_of(ensemble):
        if split.categories is None and not _is_between_codes(split.threshold):
            features.pop(split.feature, None)
    return {count: feature for feature, count in features.items()}


def _is_between_codes(threshold: float) -> bool:
    """Returns whether LightGBM may have this threshold between whole numbers from 0: 0, 1.5, 2.5, ..., or
    infinity, which divides missing values from all others."""
    if np.isinf(threshold):
        return True
    rounded = round(threshold, 6)
    return rounded == 0 or rounded % 1 == 0.5


def ensemble_of_lightgbm(
    head: Mapping[str, str], trees: Sequence[LightGBMTree]
) -> Ensemble:
    """Returns the trees of a file; those of a random forest with the weights of a mean."""
    weight = 1.0
    if "average_output" in head:
        weight = 1 / len(trees)
    weighted = tuple(tree_of_lightgbm(tree, weight) for tree in trees)
    return Ensemble(weighted, threshold_dtype="float64")


def tree_of_lightgbm(tree: LightGBMTree, weight: float = 1.0) -> WeightedTree:
    """Returns a tree that is not linear, with its record. Its thresholds are `beside_zeros`.

    Args:
        weight: factor on the leaf values.
    """
    missing_left, zero_missing = missing_sides(tree.decision_type, tree.threshold)
    columns = (
        tree.feature,
        beside_zeros(tree.threshold),
        missing_left,
        tree.left,
        tree.right,
        zero_missing,
    )
    lists = [column.tolist() for column in columns]
    splits = list(zip(*lists, tree.categories, strict=True))
    values = tree.value.tolist()

    def read(number: int) -> Node:
        if number >= 0:
            return InnerNode(*splits[number])
        return Leaf(values[~number])

    return WeightedTree(weight, tree_of(tree.root, read), tree.shrinkage, record=tree)


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
    kind = np.where(
        decision_type & CATEGORICAL, NAN_IS_MISSING, decision_type & _KIND_OF_MISSING
    )
    has_kind = (kind == ZERO_IS_MISSING) | (kind == NAN_IS_MISSING)
    # Without missing values in training, LightGBM reads a missing value as 0.
    default_left = decision_type & DEFAULT_LEFT > 0
    missing_left: NDArray[np.bool_] = np.where(has_kind, default_left, threshold >= 0)
    return missing_left, kind == ZERO_IS_MISSING


def write_lightgbm_text(ensemble: Ensemble, feature_names: Sequence[str]) -> bytes:
    """Returns the model as LightGBM saves it.

    The weights of the trees are in the leaf values.

    Args:
        feature_names: F names of the features; `lightgbm_names` of them are written.

    Raises:
        ConfigError: A leaf value is not finite, or a split sends missing values with its categories.
    """
    for split in splits_of(ensemble):
        if split.categories is not None and split.missing_left:
            raise ConfigError(
                f"the model sends missing values of {feature_names[split.feature]} to the side of a set of "
                "categories, as XGBoost does, but LightGBM sends them to the other side. Choose the target "
                "c, treelite or xgboost."
            )
    names = lightgbm_names(feature_names)
    written = []
    for number, weighted in enumerate(base_score_as_tree(ensemble).trees):
        written.append(_written(ensemble, weighted, number))
    blocks = [
        f"Tree={number}\n{tree.text()}\n\n\n" for number, tree in enumerate(written)
    ]
    ranges = ["none" for _ in names]
    for tree in written:
        for feature in tree.feature.tolist():
            ranges[feature] = "[-inf:inf]"
    sizes = [str(len(block)) for block in blocks]
    head = (
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n"
        f"max_feature_idx={len(names) - 1}\n"
        "objective=lambdarank\n"
        f"feature_names={' '.join(names)}\n"
        f"feature_infos={' '.join(ranges)}\n"
        f"tree_sizes={' '.join(sizes)}\n\n"
    )
    importances = _importances(written, names)
    end = f"end of trees\n\nfeature_importances:\n{importances}\npandas_categorical:null\n"
    return (head + "".join(blocks) + end).encode()


def lightgbm_names(feature_names: Sequence[str]) -> list[str]:
    """Returns names that LightGBM accepts: blanks become underscores, as LightGBM itself replaces them. If a
    name is still refused, or two are equal, all features get LightGBM's names of features without names.

    >>> lightgbm_names(["query length", "größe"])
    ['query_length', 'größe']
    >>> lightgbm_names(["tf[title]", "idf"])
    ['Column_0', 'Column_1']
    """
    names = [re.sub(r"\s", "_", name) for name in feature_names]
    are_refused = any(map(_REFUSED_IN_NAMES.search, names))
    are_distinct = len(set(names)) == len(names)
    if are_distinct and all(names) and not are_refused:
        return names
    return [f"Column_{feature}" for feature in range(len(names))]


def _written(ensemble: Ensemble, weighted: WeightedTree, number: int) -> LightGBMTree:
    """Returns a tree as it is written; splits and leaves have the numbers of its record, if it fits."""
    tree = flat(weighted.root)
    inner = np.flatnonzero(~tree.is_leaf)
    outer = np.flatnonzero(tree.is_leaf)
    is_categorical = np.isnan(tree.threshold)
    decision_type = np.where(tree.zero_missing, ZERO_IS_MISSING, NAN_IS_MISSING)
    decision_type += np.where(tree.missing_left, DEFAULT_LEFT, 0)
    decision_type += np.where(is_categorical, CATEGORICAL, 0)
    threshold = tree.threshold.copy()  # with `<=`, as LightGBM's, it keeps its bits
    if ensemble.comparison == "<":
        threshold = float32_thresholds(threshold, "<").astype(np.float64)
    record = weighted.record
    statistics = _zeros(len(inner))
    if isinstance(record, LightGBMTree) and _fits(record, weighted, tree):
        inner, outer = _numbered(record)
        # Kinds of missing values that send missing values to the same side are different numbers.
        decision_type[inner] = record.decision_type
        is_sided = threshold[inner] == beside_zeros(record.threshold)
        threshold[inner] = np.where(is_sided, record.threshold, threshold[inner])
        statistics |= record.statistics
    ids = np.empty(len(tree.feature), dtype=np.int64)
    ids[inner] = np.arange(len(inner))
    ids[outer] = -1 - np.arange(len(outer))
    with np.errstate(over="ignore"):
        values = weighted_values(tree, weighted.weight, ensemble.score_dtype)
    if not np.isfinite(values[outer]).all():
        raise ConfigError(
            f"tree {number} has a leaf value that is not finite. Train the model again with labels or "
            "weights of a smaller scale."
        )
    shrinkage = weighted.shrinkage * weighted.weight
    if not np.isfinite(shrinkage) or not float(f"{shrinkage:g}"):
        shrinkage = 1.0
    return LightGBMTree(
        feature=tree.feature[inner],
        decision_type=decision_type[inner],
        left=ids[tree.left[inner]],
        right=ids[tree.right[inner]],
        threshold=threshold[inner],
        value=values[outer].astype(np.float64),
        shrinkage=shrinkage,
        statistics=statistics,
        categories=_sets_of(tree, inner),
    )


def _sets_of(tree: FlatTree, splits: _Integers) -> list[int | None]:
    """Returns the bits of the categories of each split; None of a split on a number."""
    sets: list[int | None] = []
    for node in splits.tolist():
        is_categorical = np.isnan(tree.threshold[node])
        sets.append(of_words(tree.categories[node]) if is_categorical else None)
    return sets


def _fits(record: LightGBMTree, weighted: WeightedTree, tree: FlatTree) -> bool:
    """Returns whether a tree has the splits and leaves of its record."""
    num_leaves = tree.is_leaf.sum()
    if weighted.weight != 1 or len(record.value) != num_leaves:
        return False
    splits, _ = _numbered(record)
    threshold = tree.threshold[splits]
    missing_left, zero_missing = missing_sides(record.decision_type, threshold)
    is_categorical = record.decision_type & CATEGORICAL > 0
    fits = missing_left == tree.missing_left[splits]
    fits &= zero_missing == tree.zero_missing[splits]
    fits &= is_categorical == np.isnan(threshold)
    return bool(fits.all())


def _numbered(record: LightGBMTree) -> tuple[_Integers, _Integers]:
    """Returns the nodes of `flat` of the (S,) splits and the (L,) leaves of a file."""
    splits = np.empty_like(record.left)
    leaves = np.empty(len(record.value), dtype=np.int64)
    waiting = [record.root]
    for number in range(len(splits) + len(leaves)):
        node = waiting.pop()
        if node < 0:
            leaves[~node] = number
        else:
            splits[node] = number
            waiting.append(int(record.right[node]))
            waiting.append(int(record.left[node]))
    return splits, leaves


def _zeros(num_splits: int) -> dict[str, str]:
    """Returns the lines of statistics of a tree without a record."""
    of_splits = " ".join(["0"] * num_splits)
    of_leaves = " ".join(["0"] * (num_splits + 1))
    zeros = dict.fromkeys(_OF_SPLITS, of_splits) | dict.fromkeys(_OF_LEAVES, of_leaves)
    if not num_splits:
        zeros["leaf_weight"] = ""  # as LightGBM writes trees that it has read
    return zeros


def _importances(trees: Sequence[LightGBMTree], names: Sequence[str]) -> str:
    """Returns the lines with the number of splits of each feature, as LightGBM counts and sorts them."""
    counts = np.zeros(len(names), dtype=np.int64)
    for tree in trees:
        words = tree.statistics["split_gain"].split()
        gains = np.array([float(word) for word in words])
        np.add.at(counts, tree.feature[gains > 0], 1)
    order = np.argsort(-counts, kind="stable")
    used = order[counts[order] > 0]
    return "".join(f"{names[feature]}={counts[feature]}\n" for feature in used)


def _joined(values: NDArray[np.int64]) -> str:
    return " ".join(map(str, values.tolist()))


def _exact(values: NDArray[np.float64]) -> str:
    """Returns numbers with 17 digits, which are read as the same float64; LightGBM writes the same text."""
    return " ".join(f"{value:.17g}" for value in values.tolist())
