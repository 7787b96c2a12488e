"""Trees as one C99 file without dependencies: `double NAME_score(const float *features)`, NaN for missing.

The inner nodes of all trees are one array, the leaf values another, and a loop walks from the root of a tree
to a leaf. Arrays compile in seconds for 10,000 trees, where nested `if`s take minutes, and the file can be
read: one line for each node.

The scores are those of the ensemble bit for bit. Numbers are hexadecimal literals. Features are float32, so
each threshold is the largest float32 that goes left, for both comparisons. A leaf value contains the weight
of its tree, and is summed in the dtype of the scores in the order of the trees. The sum has no product that a
compiler could contract. `-ffast-math` would remove the test for NaN, and x87 registers would round less
often; the file refuses to compile with either.

Feature names and the name of the model are not trusted. In the file, names of features are JSON strings in a
comment, with `*/` and characters outside ASCII escaped; the name of the function has only letters,
digits and underscores. All else is numbers, so compiling the file and calling it is as safe as ltrbench.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.models.trees import (
    LARGEST_ZERO,
    Ensemble,
    WeightedTree,
    flat,
    float32_thresholds,
    weighted_values,
)

_VERSION = str(vars(sys.modules["ltrbench"])["__version__"])  # the layers forbid the import
_TYPES = {"float32": "float", "float64": "double"}
_MOST_LETTERS = 40
"""Length of the name of a function; compilers need not tell longer ones apart."""


def c_identifier(name: str) -> str:
    """Returns the start of a C identifier: letters, digits and underscores.

    >>> c_identifier("native-2 (best)"), c_identifier("2024"), c_identifier("")
    ('native_2_best', 'model_2024', 'model')
    """
    words = re.sub(r"[^A-Za-z0-9]+", "_", name)[:_MOST_LETTERS].strip("_")
    return words if words[:1].isalpha() else f"model_{words}".rstrip("_")


def write_c(ensemble: Ensemble, feature_names: Sequence[str], name: str) -> bytes:
    """Returns the content of a .c file.

    Args:
        feature_names: F names, listed in the first comment.
        name: name of the model; the function is `c_identifier(name)` with `_score`.
    """
    return "\n".join(_lines(ensemble, feature_names, c_identifier(name))).encode("ascii") + b"\n"


def _lines(ensemble: Ensemble, feature_names: Sequence[str], name: str) -> Iterator[str]:
    number = _TYPES[ensemble.score_dtype]
    trees = _joined([_arrays(tree, ensemble) for tree in ensemble.trees])
    yield from _header(feature_names, name)
    yield from _array("static const struct node nodes[]", trees.nodes(), "{0, 0.0f, 0, 0, 0, 0}")
    yield ""
    yield "/* What the leaves add to the score, by tree and from left to right. */"
    yield from _array(f"static const {number} leaves[]", _literals(trees.values), "0")
    yield ""
    yield "/* The root of each tree; a negative number n is leaves[-1 - n], as in struct node. */"
    yield from _array("static const int32_t roots[]", map(str, trees.roots.tolist()), "0")
    (base,) = _literals(np.array([ensemble.base_score], dtype=ensemble.score_dtype))
    has_zeros = bool(trees.zero_missing.any())
    yield from _function(name, number, base, len(ensemble.trees), has_zeros)


class _Arrays(NamedTuple):
    """Trees as arrays: T trees, I inner nodes, L leaves.

    Attributes:
        roots: (T,), index of an inner node, or -1 - index of a leaf.
        feature: (I,).
        threshold: (I,), largest float32 that goes left.
        missing_left: (I,).
        zero_missing: (I,).
        left: (I,), as `roots`.
        right: (I,), as `roots`.
        values: (L,), in the dtype of the scores.
    """

    roots: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.bool_]
    zero_missing: NDArray[np.bool_]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    values: NDArray[np.floating[Any]]

    def nodes(self) -> Iterator[str]:
        columns = (self.missing_left, self.zero_missing, self.left, self.right)
        numbers = zip(*(column.astype(np.int64).tolist() for column in columns), strict=True)
        thresholds = _literals(self.threshold)
        for feature, threshold, rest in zip(self.feature.tolist(), thresholds, numbers, strict=True):
            yield f"{{{feature}, {threshold}, {', '.join(map(str, rest))}}}"


def _arrays(weighted: WeightedTree, ensemble: Ensemble) -> _Arrays:
    tree = flat(weighted.root)
    is_leaf = tree.is_leaf
    inner = ~is_leaf
    number = np.where(is_leaf, 0 - np.cumsum(is_leaf), np.cumsum(inner) - 1)
    return _Arrays(
        roots=number[:1],
        feature=tree.feature[inner],
        threshold=float32_thresholds(tree.threshold[inner], ensemble.comparison),
        missing_left=tree.missing_left[inner],
        zero_missing=tree.zero_missing[inner],
        left=number[tree.left[inner]],
        right=number[tree.right[inner]],
        values=weighted_values(tree, weighted.weight, ensemble.score_dtype)[is_leaf],
    )


def _joined(trees: Sequence[_Arrays]) -> _Arrays:
    """Returns the arrays of all trees, with the indices of one array for all."""
    if not trees:
        none = np.zeros(0, dtype=np.int64)
        return _Arrays(none, none, none.astype(np.float32), none > 0, none > 0, none, none, none + 0.0)
    first_inner, first_leaf, shifted = 0, 0, []
    for tree in trees:
        links = (
            np.where(link >= 0, link + first_inner, link - first_leaf)
            for link in (tree.roots, tree.left, tree.right)
        )
        roots, left, right = links
        shifted.append(tree._replace(roots=roots, left=left, right=right))
        first_inner, first_leaf = first_inner + len(tree.feature), first_leaf + len(tree.values)
    return _Arrays(*(np.concatenate(parts) for parts in zip(*shifted, strict=True)))


def _literals(numbers: NDArray[np.floating[Any]]) -> Iterator[str]:
    """Yields C literals of the dtype of the numbers.

    >>> list(_literals(np.array([0.1, -np.inf], dtype=np.float32)))
    ['0x1.99999ap-4f', '-INFINITY']
    """
    suffix = "f" if numbers.dtype == np.float32 else ""
    for number in numbers.tolist():
        if np.isinf(number):
            yield "INFINITY" if number > 0 else "-INFINITY"
        else:
            yield re.sub(r"\.?0*p", "p", number.hex()) + suffix


def _array(declaration: str, items: Iterator[str], placeholder: str) -> Iterator[str]:
    """Yields an array, one item a line; C has no empty arrays, so one without items has a placeholder."""
    lines = [f"    {item}," for item in items] or [f"    {placeholder}, /* not used */"]
    yield f"{declaration} = {{"
    yield from lines
    yield "};"


def _header(feature_names: Sequence[str], name: str) -> Iterator[str]:
    yield f"/* Scores of the ranking model {name}: higher is ranked earlier. By ltrbench {_VERSION}."
    yield " *"
    yield f" *     double {name}_score(const float *features);"
    yield " *"
    yield f" * features: {len(feature_names)} numbers, NAN for a missing value:"
    yield " *"
    for number, feature in enumerate(feature_names):
        yield f" * {number:5}  {_in_comment(feature)}"
    yield " */"
    yield _PREAMBLE


def _in_comment(text: str) -> str:
    r"""Returns a JSON string that neither ends nor begins a comment.

    >>> print(_in_comment("clicks*/views"))
    "clicks\u002a/views"
    """
    no_ends = re.sub(r"\*(?=/)|(?<=/)\*", r"\\u002a", json.dumps(text))
    return re.sub(r"\?(?=\?)", r"\\u003f", no_ends)  # two question marks begin a trigraph


_PREAMBLE = """\
#include <float.h>
#include <math.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "Compile without -ffast-math: it ignores missing values."
#endif
#if FLT_EVAL_METHOD != 0
#error "Compile for arithmetic without excess precision, such as -msse2 -mfpmath=sse: scores would differ."
#endif

/* A split. A child n >= 0 is nodes[n], a child n < 0 is leaves[-1 - n]. */
struct node {
    int32_t feature;
    float threshold;             /* a value goes left if it is at most the threshold */
    unsigned char missing_left;  /* 1: a missing value goes left */
    unsigned char zero_missing;  /* 1: zero counts as missing */
    int32_t left, right;
};
"""


def _function(name: str, number: str, base: str, num_trees: int, has_zeros: bool) -> Iterator[str]:
    zero = next(_literals(np.array([LARGEST_ZERO], dtype=np.float32)))
    zeros = f" || (at->zero_missing && -{zero} <= value && value <= {zero})" if has_zeros else ""
    yield f"""
double {name}_score(const float *features);

double {name}_score(const float *features)
{{
    {number} sum = {base};
    for (int32_t tree = 0; tree < {num_trees}; tree++) {{
        int32_t n = roots[tree];
        while (n >= 0) {{
            const struct node *at = &nodes[n];
            const float value = features[at->feature];
            const int is_missing = value != value{zeros};
            const int goes_left = is_missing ? at->missing_left : value <= at->threshold;
            n = goes_left ? at->left : at->right;
        }}
        sum += leaves[-1 - n];
    }}
    return sum;
}}"""
