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

import ctypes
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.models.trees import (
    LARGEST_ZERO,
    Ensemble,
    categorical_features,
    flat,
    float32_thresholds,
    of_words,
    weighted_values,
    words_of,
)
from ltrbench.shapes import Features
from ltrbench.shipping.target import Engine, Export, ShippedModel, Target
from ltrbench.version import __version__

_TYPES = {"float32": "float", "float64": "double"}
_MOST_LETTERS = 40
"""Length of the name of a function; compilers need not tell longer ones apart."""


def c_identifier(name: str) -> str:
    """Returns the start of a C identifier: letters, digits and underscores.

    >>> c_identifier("native-2 (best)"), c_identifier("2024"), c_identifier("")
    ('native_2_best', 'model_2024', 'model')
    """
    words = re.sub(r"[^A-Za-z0-9]+", "_", name)[:_MOST_LETTERS].strip("_")
    if words[:1].isalpha():
        return words
    return f"model_{words}".rstrip("_")


def write_c(ensemble: Ensemble, feature_names: Sequence[str], name: str) -> bytes:
    """Returns the content of a .c file.

    Args:
        feature_names: F names, listed in the first comment.
        name: name of the model; the function is `c_identifier(name)` with `_score`.
    """
    return (
        "\n".join(_lines(ensemble, feature_names, c_identifier(name))).encode("ascii")
        + b"\n"
    )


def _lines(
    ensemble: Ensemble, feature_names: Sequence[str], name: str
) -> Iterator[str]:
    number = _TYPES[ensemble.score_dtype]
    nodes: list[str] = []
    leaves: list[str] = []
    roots: list[str] = []
    words: list[str] = []
    num_words = 0
    has_zeros = False
    has_categories = bool(categorical_features(ensemble))
    for weighted in ensemble.trees:
        tree = flat(weighted.root)
        # A split is its index in `nodes`, and a leaf is -1 minus its index in `leaves`.
        inner = ~tree.is_leaf
        numbers_of_leaves = -len(leaves) - np.cumsum(tree.is_leaf)
        numbers_of_inner = len(nodes) + np.cumsum(inner) - 1
        numbers = np.where(tree.is_leaf, numbers_of_leaves, numbers_of_inner)
        roots.append(str(numbers[0]))
        columns = [
            tree.missing_left,
            tree.zero_missing,
            numbers[tree.left],
            numbers[tree.right],
        ]
        if has_categories:
            of_nodes = []
            for row in tree.categories:
                bits = words_of(of_words(row)).tolist() if row.any() else []
                of_nodes.append(bits)
            counts = np.array(list(map(len, of_nodes)))
            columns += [num_words + np.cumsum(counts) - counts, counts]
            num_words += int(counts.sum())
            words += [", ".join(map(hex, of_node)) for of_node in of_nodes if of_node]
        thresholds = _literals(
            float32_thresholds(tree.threshold[inner], ensemble.comparison)
        )
        columns = [tree.feature, *columns]
        of_inner = [column[inner].astype(int).tolist() for column in columns]
        rows = zip(*of_inner, strict=True)
        for threshold, (feature, *rest) in zip(thresholds, rows, strict=True):
            fields = ", ".join(map(str, rest))
            nodes.append(f"{{{feature}, {threshold}, {fields}}}")
        values = weighted_values(tree, weighted.weight, ensemble.score_dtype)
        leaves += _literals(values[tree.is_leaf])
        has_zeros |= bool(tree.zero_missing.any())
    yield from _header(feature_names, name, has_categories)
    yield from _array(
        "static const struct node nodes[]", nodes, "{0, 0.0f, 0, 0, 0, 0}"
    )
    yield ""
    if has_categories:
        yield "/* Bits of the categories that splits send left, in words of 32 codes, a line a split. */"
        yield from _array("static const uint32_t words[]", words, "0")
        yield ""
    yield "/* What the leaves add to the score, by tree and from left to right. */"
    yield from _array(f"static const {number} leaves[]", leaves, "0")
    yield ""
    yield "/* The root of each tree; a negative number n is leaves[-1 - n], as in struct node. */"
    yield from _array("static const int32_t roots[]", roots, "0")
    (base,) = _literals(np.array([ensemble.base_score], dtype=ensemble.score_dtype))
    yield from _function(
        name, number, base, len(ensemble.trees), has_zeros, has_categories
    )


def _literals(numbers: NDArray[np.floating[Any]]) -> Iterator[str]:
    """Yields C literals of the dtype of the numbers.

    >>> list(_literals(np.array([0.1, -np.inf], dtype=np.float32)))
    ['0x1.99999ap-4f', '-INFINITY']
    """
    suffix = ""
    if numbers.dtype == np.float32:
        suffix = "f"
    for number in numbers.tolist():
        if np.isnan(number):
            yield "NAN"
        elif np.isinf(number):
            yield "INFINITY" if number > 0 else "-INFINITY"
        else:
            yield re.sub(r"\.?0*p", "p", number.hex()) + suffix


def _array(declaration: str, items: Sequence[str], placeholder: str) -> Iterator[str]:
    """Yields an array, one item a line; C has no empty arrays, so one without items has a placeholder."""
    lines = [f"    {item}," for item in items] or [f"    {placeholder}, /* not used */"]
    yield f"{declaration} = {{"
    yield from lines
    yield "};"


def _header(
    feature_names: Sequence[str], name: str, has_categories: bool
) -> Iterator[str]:
    yield f"/* Scores of the ranking model {name}: higher is ranked earlier. By ltrbench {__version__}."
    yield " *"
    yield f" *     double {name}_score(const float *features);"
    yield " *"
    yield f" * features: {len(feature_names)} numbers, NAN for a missing value:"
    yield " *"
    for number, feature in enumerate(feature_names):
        yield f" * {number:5}  {_in_comment(feature)}"
    yield " */"
    yield (
        _PREAMBLE.replace("};\n", f"{_CATEGORIES}}};\n")
        if has_categories
        else _PREAMBLE
    )


def _in_comment(text: str) -> str:
    r"""Returns a JSON string that neither ends nor begins a comment.

    >>> print(_in_comment("clicks*/views"))
    "clicks\u002a/views"
    """
    no_ends = re.sub(r"\*(?=/)|(?<=/)\*", r"\\u002a", json.dumps(text))
    # Two question marks begin a trigraph.
    return re.sub(r"\?(?=\?)", r"\\u003f", no_ends)


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

_CATEGORIES = """\
    /* A split with the threshold NAN has categories: a code goes left if its bit is 1 in words[first], ...,
       words[first + num_words - 1]; the code of a category is its position, from 0. */
    int32_t first, num_words;
"""
_CATEGORY_TEST = """
            if (value >= 0 && value < 32 * at->num_words) {
                const int32_t code = (int32_t)value;
                n = code == value && ((words[at->first + code / 32] >> code % 32) & 1) ? at->left : at->right;
                continue;
            }"""


def _function(
    name: str,
    number: str,
    base: str,
    num_trees: int,
    has_zeros: bool,
    has_categories: bool,
) -> Iterator[str]:
    zero = next(_literals(np.array([LARGEST_ZERO], dtype=np.float32)))
    zeros = ""
    if has_zeros:
        zeros = f" || (at->zero_missing && -{zero} <= value && value <= {zero})"
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
            const int is_missing = value != value{zeros};{_CATEGORY_TEST if has_categories else ""}
            const int goes_left = is_missing ? at->missing_left : value <= at->threshold;
            n = goes_left ? at->left : at->right;
        }}
        sum += leaves[-1 - n];
    }}
    return sum;
}}"""


# ---- The target, whose engine is the compiled function.

_FILE = "model.c"
_FLAGS = ("-std=c99", "-O2", "-ffp-contract=off")


@dataclass
class CTarget(Target):
    """One C99 file without dependencies."""

    name: ClassVar[str] = "c"
    holds_categories: ClassVar[bool] = True

    def export(self, model: ShippedModel) -> Export:
        ensemble = model.trees(self.name)
        name = c_identifier(model.name)
        return Export(
            files={_FILE: write_c(ensemble, model.feature_names, model.name)},
            request=(
                f"double {name}_score(const float *features);\n\ncc {' '.join(_FLAGS)} -c {_FILE} -o model.o"
            ),
            notes=(
                f"{name}_score takes {model.num_features} float32 features, NAN for a missing value.",
                f"It sums in {ensemble.score_dtype}, and gives the scores of the model bit for bit.",
                "Do not compile it with -ffast-math, which ignores missing values.",
            ),
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine | None:
        """Returns the compiled file; None if there is no C compiler `cc`.

        Raises:
            ConfigError: The compiler fails.
        """
        compiler = shutil.which("cc")
        if compiler is None:
            return None
        content = export.files[_FILE]
        with tempfile.TemporaryDirectory(prefix="ltrbench-c-") as folder:
            function = _compiled(
                compiler, Path(folder), content, c_identifier(model.name)
            )
        version = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, check=False
        ).stdout
        dtype = model.trees(self.name).score_dtype
        num_features = model.num_features

        def scores(features: Features) -> NDArray[np.floating[Any]]:
            values = np.ascontiguousarray(features, dtype=np.float32)
            column = np.empty(len(values))
            function(values.ctypes.data, len(values), num_features, column.ctypes.data)
            # The function returns a float32 sum as a double.
            return column.astype(dtype)

        return Engine(
            scores,
            name="C compiler",
            version=version.partition("\n")[0] or "cc",
            score_dtype=dtype,
        )


def _compiled(
    compiler: str, folder: Path, content: bytes, name: str
) -> Callable[..., None]:
    """Returns the function of a model for many documents: features, D, F, scores.

    The shared object stays loaded after its file is removed.
    """
    (folder / _FILE).write_bytes(content)
    (folder / "batch.c").write_text(_BATCH.format(name=name), encoding="ascii")
    command = [
        compiler,
        *_FLAGS,
        "-shared",
        "-fPIC",
        _FILE,
        "batch.c",
        "-o",
        "model.so",
    ]
    result = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode:
        reason = "\n".join(result.stderr.splitlines()[:5])
        raise ConfigError(
            f"{compiler} cannot compile {_FILE}, which the certificate needs: {reason}\n"
            "Repair the compiler, or remove it from PATH to ship the model without a verification."
        )
    prototype = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
    )
    return prototype(("ltrbench_score_all", ctypes.CDLL(str(folder / "model.so"))))


_BATCH = """\
#include <stdint.h>

double {name}_score(const float *features);

void ltrbench_score_all(const float *features, int64_t documents, int64_t width, double *scores);

void ltrbench_score_all(const float *features, int64_t documents, int64_t width, double *scores)
{{
    for (int64_t d = 0; d < documents; d++)
        scores[d] = {name}_score(features + d * width);
}}
"""
