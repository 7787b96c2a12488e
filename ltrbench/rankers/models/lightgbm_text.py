"""Checks of LightGBM's text model files: header with the sizes of the trees, trees, importances, parameters.

LightGBM reads trees on several threads, where an error ends the process, and does not check the indices of
children and features. This file checks what LightGBM's reader relies on: the positions of the trees, the
lengths of their arrays, child and feature indices, and finite numbers.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ltrbench.rankers.models.splits import check_children, check_split_features, is_deep

_LINE = re.compile(r"(\w+)=(.*)")
_PARAMETER = re.compile(r"\[\w+: .*\]")
_RANGE = re.compile(r"none|\[[-+.0-9einf]+:[-+.0-9einf]+\]")
_NUMBERS = re.compile(r"[-+.0-9einfa ]*")
_OBJECTIVES = ("lambdarank", "rank_xendcg")
_LARGEST = float(np.finfo(np.float32).max)  # largest value of a feature

_OF_SPLITS = ("threshold", "split_gain", "internal_value", "internal_weight", "internal_count")
_OF_LEAVES = ("leaf_weight", "leaf_count")
_INTEGERS = ("split_feature", "decision_type", "left_child", "right_child", "num_features", "leaf_features")

Array = NDArray[np.float64]


def check_text(text: str) -> bool:
    """Checks the text of a ranking model written by `Booster.model_to_string`.

    Returns:
        Whether a tree `is_deep`.

    Raises:
        ValueError: the text is not such a model.
    """
    head, separator, _ = text.partition("\n\nTree=0\n")
    if not separator:
        raise ValueError("the file has no trees")
    names = {match[1]: match[2] for match in map(_LINE.fullmatch, head.splitlines()) if match}
    num_features = _whole(names, "max_feature_idx") + 1
    for name, expected in (("num_class", 1), ("num_tree_per_iteration", 1), ("label_index", 0)):
        if _whole(names, name) != expected:
            raise ValueError(f"{name} is not {expected}")
    if names.get("objective", "") not in _OBJECTIVES:
        raise ValueError(f"the objective is not one of {', '.join(_OBJECTIVES)}")
    if names.get("feature_names") != " ".join(f"Column_{feature}" for feature in range(num_features)):
        raise ValueError(f"feature_names are not Column_0 to Column_{num_features - 1}")
    ranges = names.get("feature_infos", "").split(" ")
    if len(ranges) != num_features or not all(map(_RANGE.fullmatch, ranges)):
        raise ValueError(f"feature_infos are not the ranges of {num_features} features")
    if not re.fullmatch(r"(-?\d *)*", names.get("monotone_constraints", "")):
        raise ValueError("monotone_constraints are not signs")
    sizes = [int(size) for size in names.get("tree_sizes", "").split(" ")]
    ends = np.cumsum([len(head) + 2, *sizes]).tolist()
    if not text.isascii() or min(sizes) < 1 or not text[ends[-1] :].startswith("end of trees\n"):
        raise ValueError("tree_sizes are not the sizes of the trees")
    checked = [
        _checked(_tree(text[first:end], i), num_features) for i, (first, end) in enumerate(pairwise(ends))
    ]
    if not math.isfinite(sum(largest for largest, _ in checked)):
        raise ValueError("the sum of the largest value of each tree is not finite")
    _check_end(text[ends[-1] :])
    return any(deep for _, deep in checked)


def _tree(block: str, number: int) -> dict[str, str]:
    """Returns name -> values of the lines of a tree."""
    title, *lines = block.rstrip("\n").split("\n")
    matches = [match for match in map(_LINE.fullmatch, lines) if match]
    names = {match[1]: match[2] for match in matches}
    if (
        title != f"Tree={number}"
        or not len(names) == len(matches) == len(lines)
        or not block.endswith("\n\n\n")
    ):
        raise ValueError(f"tree {number} is not a title followed by lines of a name and numbers")
    return names


def _checked(names: dict[str, str], num_features: int) -> tuple[float, bool]:
    """Checks a tree; returns the largest absolute score of a leaf, and whether the tree `is_deep`."""
    num_leaves, num_cat = _whole(names, "num_leaves"), _whole(names, "num_cat")
    if num_leaves < 1 or num_cat != 0:
        raise ValueError("a tree has no leaf, or has categorical splits")
    for name in _OF_SPLITS:
        _words(names, name, num_leaves - 1)
    for name in _OF_LEAVES if num_leaves > 1 else ():
        _words(names, name, num_leaves)
    if "n" in names["threshold"].replace("inf", ""):
        raise ValueError("a threshold is not a number")
    check_split_features(_numbers(names, "split_feature", num_leaves - 1), num_features)
    left, right = (_numbers(names, name, num_leaves - 1) for name in ("left_child", "right_child"))
    _check_nodes(left, right, num_leaves)
    kinds = _numbers(names, "decision_type", num_leaves - 1)
    if ((kinds < 0) | (kinds > 15) | (kinds % 2 == 1)).any():
        raise ValueError("a decision_type is not one of a numerical split")
    (shrinkage,) = _numbers(names, "shrinkage", 1)
    values = [_numbers(names, "leaf_value", num_leaves)]
    if _whole(names, "is_linear"):
        values += _linear(names, num_leaves, num_features)
    # Leaf values are shown before shrinkage.
    largest = sum(float(np.abs(value).max(initial=0.0)) for value in values)
    if not shrinkage or not math.isfinite(largest / abs(shrinkage)):
        raise ValueError("a leaf value or the shrinkage is not finite")
    return largest, is_deep(left.astype(np.int64), right.astype(np.int64))


def _check_nodes(left: Array, right: Array, num_leaves: int) -> None:
    """Checks the children, which are the index of a split, or -1 minus the index of a leaf."""
    children = np.concatenate([left, right]).astype(np.int64)
    parents = np.tile(np.arange(num_leaves - 1), 2)
    # One numbering, with the leaves after all splits.
    nodes = np.where(children < 0, num_leaves - 2 - children, children)
    check_children(nodes, parents, 2 * num_leaves - 1)


def _linear(names: dict[str, str], num_leaves: int, num_features: int) -> list[Array]:
    """Returns the constants of linear leaves, and the largest possible sum of their terms."""
    counts = _numbers(names, "num_features", num_leaves)
    if (counts < 0).any() or counts.sum() > num_leaves * num_features:
        raise ValueError("num_features of a linear leaf is not a number of features")
    num_terms = int(counts.sum())
    check_split_features(_numbers(names, "leaf_features", num_terms), num_features)
    terms = np.abs(_numbers(names, "leaf_coeff", num_terms)).sum() * _LARGEST
    return [_numbers(names, "leaf_const", num_leaves), np.array([terms])]


def _words(names: dict[str, str], name: str, length: int) -> list[str]:
    words = names.get(name, "").split()
    if name not in names or len(words) != length or not _NUMBERS.fullmatch(names[name]):
        raise ValueError(f"{name} does not have {length} numbers")
    return words


def _numbers(names: dict[str, str], name: str, length: int) -> Array:
    """Returns the numbers of a line; counts and indices must be integers."""
    values = np.array([float(word) for word in _words(names, name, length)])
    if name in _INTEGERS and not ((np.abs(values) < 2**31) & (values == np.round(values))).all():
        raise ValueError(f"{name} has a value that is not an integer")
    return values


def _whole(names: dict[str, str], name: str) -> int:
    if not re.fullmatch(r"\d{1,9}", names.get(name, "")):
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
