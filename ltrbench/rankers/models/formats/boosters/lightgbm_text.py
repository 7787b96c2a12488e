"""LightGBM's model files: the text of `Booster.save_model`.

A value goes left if it is at most the threshold, compared as float64, and the score is, in float64 and in
the order of the trees,

    sum over t of leaf_t(x)

with the learning rate, and the weights of dart, in the leaf values. There is no base score: LightGBM adds it
to the leaves of the first tree, and `base_score_as_tree` writes it as a tree of one leaf.

What a file has is carried as follows:

    splits, leaf values, shrinkage   in the `Ensemble`; thresholds and leaf values keep every bit
    kinds of missing values,         in `WeightedTree.record`, so that the trees of a file that LightGBM
    numbering of the nodes,          has written are written again byte for byte
    gains, weights, counts
    objective, parameters,           not carried: a written file has the objective lambdarank, whose
    ranges of the features,          predictions are the scores, no parameters, and ranges without limits
    monotone constraints

A tree without a record gets gains, weights and counts of 0. A random forest (`average_output`) is read as
the sum of its trees, as `predict(raw_score=True)` returns it.

`Booster.predict` reads features of at most `LARGEST_ZERO` in absolute value as 0 before any tree sees them.
The thresholds of an `Ensemble` that is read are therefore `beside_zeros`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError, ResultError
from ltrbench.rankers.models.formats import ReadModel
from ltrbench.rankers.models.formats.boosters.lightgbm_trees import (
    DEFAULT_LEFT,
    NAN_IS_MISSING,
    OF_LEAVES,
    OF_SPLITS,
    ZERO_IS_MISSING,
    LightGBMFile,
    LightGBMRecord,
    beside_zeros,
    missing_sides,
    parse_lightgbm_file,
    tree_of_lightgbm,
)
from ltrbench.rankers.models.formats.boosters.xgboost_dump import base_score_as_tree
from ltrbench.rankers.models.scoring import FlatTree, flat, float32_thresholds, weighted_values
from ltrbench.rankers.models.trees import Ensemble, WeightedTree

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
        _statistics(record, len(inner)),
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


def _statistics(record: LightGBMRecord | None, num_splits: int) -> dict[str, str]:
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
