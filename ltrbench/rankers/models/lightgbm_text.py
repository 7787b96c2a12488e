"""The text of a LightGBM model: a head, trees of the sizes that it names, importances, parameters.

LightGBM reads trees on several threads, where an error ends the process, and follows children and features
without looking. What is checked here is what it relies on: the places of the trees, the lengths of their
arrays, children, features, and finite numbers.
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
_LARGEST = float(np.finfo(np.float32).max)  # of a feature

_OF_SPLITS = ("threshold", "split_gain", "internal_value", "internal_weight", "internal_count")
_OF_LEAVES = ("leaf_weight", "leaf_count")
_INTEGERS = ("split_feature", "decision_type", "left_child", "right_child", "num_features", "leaf_features")

Array = NDArray[np.float64]


def check_text(text: str) -> bool:
    """Raises ValueError where a text is none that `Booster.model_to_string` wrote of a ranker's trees.

    Returns:
        Whether a tree `is_deep`.
    """
    head, separator, _ = text.partition("\n\nTree=0\n")
    if not separator:
        raise ValueError("it has no trees")
    names = {match[1]: match[2] for match in map(_LINE.fullmatch, head.splitlines()) if match}
    num_features = _whole(names, "max_feature_idx") + 1
    for name, expected in (("num_class", 1), ("num_tree_per_iteration", 1), ("label_index", 0)):
        if _whole(names, name) != expected:
            raise ValueError(f"{name} is not {expected}")
    if names.get("objective", "") not in _OBJECTIVES:
        raise ValueError(f"the objective is none of {', '.join(_OBJECTIVES)}")
    if names.get("feature_names") != " ".join(f"Column_{feature}" for feature in range(num_features)):
        raise ValueError(f"feature_names are not those of {num_features} columns")
    ranges = names.get("feature_infos", "").split(" ")
    if len(ranges) != num_features or not all(map(_RANGE.fullmatch, ranges)):
        raise ValueError(f"feature_infos are not the ranges of {num_features} features")
    if not re.fullmatch(r"(-?\d *)*", names.get("monotone_constraints", "")):
        raise ValueError("monotone_constraints are not signs")
    sizes = [int(size) for size in names.get("tree_sizes", "").split(" ")]
    ends = np.cumsum([len(head) + 2, *sizes]).tolist()
    if not text.isascii() or min(sizes) < 1 or not text[ends[-1] :].startswith("end of trees\n"):
        raise ValueError("tree_sizes are not those of its trees")
    checked = [
        _checked(_tree(text[first:end], i), num_features) for i, (first, end) in enumerate(pairwise(ends))
    ]
    if not math.isfinite(sum(largest for largest, _ in checked)):
        raise ValueError("the sum of the largest value of each tree is not finite")
    _check_end(text[ends[-1] :])
    return any(deep for _, deep in checked)


def _tree(block: str, number: int) -> dict[str, str]:
    """The lines of a tree by name."""
    title, *lines = block.rstrip("\n").split("\n")
    matches = [match for match in map(_LINE.fullmatch, lines) if match]
    names = {match[1]: match[2] for match in matches}
    if (
        title != f"Tree={number}"
        or not len(names) == len(matches) == len(lines)
        or not block.endswith("\n\n\n")
    ):
        raise ValueError(f"tree {number} is not a title and lines of a name and numbers")
    return names


def _checked(names: dict[str, str], num_features: int) -> tuple[float, bool]:
    """Checks a tree; the largest score, without its sign, that a leaf may give, and whether it is deep."""
    num_leaves, num_cat = _whole(names, "num_leaves"), _whole(names, "num_cat")
    if num_leaves < 1 or num_cat != 0:
        raise ValueError("a tree has no leaf, or splits by categories")
    for name in _OF_SPLITS:
        _words(names, name, num_leaves - 1)
    for name in _OF_LEAVES if num_leaves > 1 else ():
        _words(names, name, num_leaves)
    if "n" in names["threshold"].replace("inf", ""):
        raise ValueError("a threshold is no number")
    check_split_features(_numbers(names, "split_feature", num_leaves - 1), num_features)
    left, right = (_numbers(names, name, num_leaves - 1) for name in ("left_child", "right_child"))
    _check_nodes(left, right, num_leaves)
    kinds = _numbers(names, "decision_type", num_leaves - 1)
    if ((kinds < 0) | (kinds > 15) | (kinds % 2 == 1)).any():
        raise ValueError("a decision_type is none of a split by a number")
    (shrinkage,) = _numbers(names, "shrinkage", 1)
    values = [_numbers(names, "leaf_value", num_leaves)]
    if _whole(names, "is_linear"):
        values += _linear(names, num_leaves, num_features)
    # A leaf is shown as it was before shrinkage.
    largest = sum(float(np.abs(value).max(initial=0.0)) for value in values)
    if not shrinkage or not math.isfinite(largest / abs(shrinkage)):
        raise ValueError("a value of a leaf, or the shrinkage, is not finite")
    return largest, is_deep(left.astype(np.int64), right.astype(np.int64))


def _check_nodes(left: Array, right: Array, num_leaves: int) -> None:
    """Children are the number of a split, or -1 - the number of a leaf."""
    children = np.concatenate([left, right]).astype(np.int64)
    parents = np.tile(np.arange(num_leaves - 1), 2)
    # Leaves after all splits, in one numbering.
    nodes = np.where(children < 0, num_leaves - 2 - children, children)
    check_children(nodes, parents, 2 * num_leaves - 1)


def _linear(names: dict[str, str], num_leaves: int, num_features: int) -> list[Array]:
    """The constants of linear leaves, and what their terms may add up to."""
    counts = _numbers(names, "num_features", num_leaves)
    if (counts < 0).any() or counts.sum() > num_leaves * num_features:
        raise ValueError("num_features of a linear leaf is not a count of features")
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
    """The numbers of a line, whole where they count or point somewhere."""
    values = np.array([float(word) for word in _words(names, name, length)])
    if name in _INTEGERS and not ((np.abs(values) < 2**31) & (values == np.round(values))).all():
        raise ValueError(f"{name} has a number that is not whole")
    return values


def _whole(names: dict[str, str], name: str) -> int:
    if not re.fullmatch(r"\d{1,9}", names.get(name, "")):
        raise ValueError(f"{name} is not a count")
    return int(names[name])


def _check_end(text: str) -> None:
    """What follows the trees: LightGBM takes parameters apart at their colons."""
    parts = re.fullmatch(
        r"end of trees\n\nfeature_importances:\n(.*)\nparameters:\n(.*)\nend of parameters\n\n"
        r"pandas_categorical:(?:null|\[\])\n",
        text,
        re.DOTALL,
    )
    if parts is None:
        raise ValueError("it does not end in importances and parameters")
    for lines, form in ((parts[1], _LINE), (parts[2], _PARAMETER)):
        if not all(form.fullmatch(line) for line in lines.splitlines()):
            raise ValueError("an importance or a parameter is not a name and its value")
