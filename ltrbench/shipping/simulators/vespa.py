"""Vespa: scores imported models as the content nodes do.

A content node evaluates a sum of trees in one of three ways, which send a float32 to the same leaf if the
thresholds are float32, and round scores differently:

    compiled       float64 thresholds, leaves and sum: the usual way
    VM forest      float32 thresholds and leaves, float64 sum: for many or large trees
    fast forest    float32 thresholds, leaves and features, two alternating float64 sums: only with the rank
                   property vespa.eval.use_fast_forest

The rules, with their sources, are in `VESPA_RULES`. D documents, F features.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.rankers.models.scoring import flat, leaves_of
from ltrbench.rankers.models.trees import Leaf
from ltrbench.shapes import Features
from ltrbench.shipping.simulators.vespa_import import ImportedSum, Term
from ltrbench.shipping.target import Rule

COMPILED, VM_FOREST, FAST_FOREST = "compiled", "VM forest", "fast forest"

ScoreFunctionOfVespa = Callable[[Features], NDArray[np.float64]]

_PHASE_EXPRESSION = re.compile(r"-phase \{\n *expression: (.+)\n")
_PRODUCT = re.compile(r"(-?[0-9][0-9.]*(?:e[-+]?[0-9]+)?) \* (\S.*)")
_SMALL_TREE, _SHORT_PATH = 12, 2500.0
"""Largest number of leaves, and largest sum of average path lengths, of trees that are compiled."""
_MASKED_LEAVES, _MOST_FAST_LEAVES = 64, 2048
"""Largest number of leaves for two alternating sums, and for a fast forest."""

_REPOSITORY = "vespa-engine/vespa, "
_IMPORTER = f"{_REPOSITORY}model-integration/src/main/java/ai/vespa/rankingexpression/importer/"
_LIGHTGBM = f"{_IMPORTER}lightgbm/LightGBMParser.java, commit 089e1742fd1f960213130f059069d3c09fc53b75"
_XGBOOST = f"{_IMPORTER}xgboost/AbstractXGBoostParser.java, commit 503626cbb66e2469a7053630a20713707381d7cf"
_EVAL = f"{_REPOSITORY}eval/src/vespa/eval/eval/"
_FAST = f"{_EVAL}fast_forest.cpp, commit 0c55dc92a3bf889c67fac1ca855e6e33e1994904"
_GBDT = f"{_EVAL}gbdt.cpp, commit 0c55dc92a3bf889c67fac1ca855e6e33e1994904"
_LLVM = f"{_EVAL}llvm/llvm_wrapper.cpp, commit abac32218be6c4cf361d38762e0f97b4e6807b0e"

VESPA_RULES: Final = (
    Rule(
        "A dump of LightGBM needs objective, feature_names, tree_info and pandas_categorical; the objective "
        "lambdarank transforms no score.",
        _LIGHTGBM,
    ),
    Rule(
        "A value goes left if it is smaller than the threshold, also where LightGBM means at most; a missing "
        "value goes left with default_left, otherwise right; missing_type is ignored.",
        _LIGHTGBM,
    ),
    Rule(
        "A dump of XGBoost has no other fields than those of a dump; a missing value goes left if missing is "
        "yes; thresholds are rounded to float32. A base score is not read.",
        f"{_XGBOOST}, and {_IMPORTER}xgboost/XGBoostTree.java, commit "
        "6233deaa96a8de79e05d5f6417a1f7558f6c6062; before, thresholds are float64 as printed: "
        f"{_IMPORTER}xgboost/XGBoostParser.java, commit c66d85cdc1e39cf7bc1e11021fd48e391b54392f",
    ),
    Rule(
        "The name of a feature becomes part of a ranking expression as it is, and is parsed there.",
        f"{_LIGHTGBM}; {_REPOSITORY}searchlib/src/main/javacc/RankingExpressionParser.jj, commit "
        "dc0f70fac9167acf487453daf565636c675934df",
    ),
    Rule(
        "Numbers are printed by Double.toString and read by strtod: exact for float64; infinity and NaN "
        "would be names.",
        f"{_LIGHTGBM}; {_EVAL}function.cpp, commit 099b1236727dc5bdc266978b3336beeecd622014",
    ),
    Rule(
        "Constants next to each other in a sum are added before the evaluation.",
        f"{_REPOSITORY}searchlib/src/main/java/com/yahoo/searchlib/rankingexpression/transform/"
        "Simplifier.java, commit 0c55dc92a3bf889c67fac1ca855e6e33e1994904",
    ),
    Rule(
        "A forest is a sum of at least two trees; a constant in a sum is not a tree and ends the forest.",
        f"{_EVAL}operator_nodes.h, commit 035580e94f2acf26e90b3f8570e9a4fc69ae294c, and {_EVAL}"
        "basic_nodes.cpp, commit 035580e94f2acf26e90b3f8570e9a4fc69ae294c",
    ),
    Rule(
        "The trees of a forest are summed from the last one to the third, then the first and the second.",
        _GBDT,
    ),
    Rule(
        "A forest whose largest tree has more than 12 leaves, and whose average path lengths sum to more "
        "than 2,500, is a VM forest: float32 thresholds and leaves, one float64 sum.",
        f"{_GBDT}, and {_EVAL}vm_forest.cpp, commit 101ff2421151ded70dd6064f0b6583de98db8df3",
    ),
    Rule("Other expressions are compiled, in float64 and in the order of the expression.", _LLVM),
    Rule(
        "A fast forest is made only if the rank property vespa.eval.use_fast_forest is true, which it is not "
        "by default, and the expression is only a forest.",
        f"{_REPOSITORY}searchlib/src/vespa/searchlib/features/rankingexpressionfeature.cpp, commit "
        f"f606c6d91246e2f029da40c66a1f7ad827c7c14a, and {_REPOSITORY}searchlib/src/vespa/searchlib/fef/"
        "indexproperties.cpp, commit 028ed2928b2e529d650e693d8c08e407bd6b078d",
    ),
    Rule(
        "A fast forest rounds features, thresholds and leaves to float32. With at most 64 leaves per tree, "
        "two float64 sums take turns in blocks of four trees; with at most 2,048, there is one.",
        _FAST,
    ),
    Rule(
        "A numeric attribute without a value is NaN; a query feature without a value is 0.",
        f"{_REPOSITORY}searchlib/src/vespa/searchlib/features/attributefeature.cpp, commit "
        f"05a27faaa88ee31ff94a292203cf46b66fc0a004, and {_REPOSITORY}searchlib/src/vespa/searchlib/features/"
        "queryfeature.cpp, commit 035580e94f2acf26e90b3f8570e9a4fc69ae294c",
    ),
    Rule(
        "Not simulated: evaluation in the container (stateless models, global-phase), and the limits of "
        "Java's stack and of the configuration system.",
        "not read in the sources",
    ),
)


@dataclass(frozen=True)
class VespaForest:
    """An imported sum in one of the ways in which content nodes evaluate it.

    Attributes:
        imported: its adjacent constants are already one constant.
        way: COMPILED, VM_FOREST or FAST_FOREST.
        num_forest: number of terms, from the first one, that are the forest.
    """

    imported: ImportedSum
    way: str
    num_forest: int

    @property
    def leaf_dtype(self) -> Literal["float32", "float64"]:
        """Dtype to which leaves are rounded."""
        return "float64" if self.way == COMPILED else "float32"

    def scores(self, features: Features) -> NDArray[np.float64]:
        """Returns the (D,) scores of (D, F) features; NaN is a missing value."""
        terms = self.imported.terms
        if self.way == FAST_FOREST:
            sums = _fast_sums(_forest_order(terms), features)
        elif self.way == VM_FOREST:
            sums = _sums(_forest_order(terms[: self.num_forest]), features, "float32")
            sums = _sums(terms[self.num_forest :], features, "float64", sums)
        else:
            sums = _sums(terms, features, "float64")
        transformation = self.imported.transformation
        return sums if transformation is None else transformation(sums)


def vespa_forest(imported: ImportedSum, use_fast_forest: bool = False) -> VespaForest:
    """Returns the forest in the way that a content node chooses.

    Args:
        use_fast_forest: whether the rank property vespa.eval.use_fast_forest is true.
    """
    folded = replace(imported, terms=_folded(imported.terms))
    constants = [number for number, term in enumerate(folded.terms) if term.is_constant]
    num_forest = constants[0] if constants else len(folded.terms)
    trees = folded.terms[:num_forest]
    if num_forest < 2:
        return VespaForest(folded, COMPILED, num_forest)
    largest = max(term.num_leaves for term in trees)
    is_whole = num_forest == len(folded.terms) and folded.transformation is None
    if use_fast_forest and is_whole and largest <= _MOST_FAST_LEAVES:
        return VespaForest(folded, FAST_FOREST, num_forest)
    is_large = largest > _SMALL_TREE and sum(term.average_depth for term in trees) > _SHORT_PATH
    return VespaForest(folded, VM_FOREST if is_large else COMPILED, num_forest)


def linear_scores(profile: str, features: Mapping[str, int]) -> ScoreFunctionOfVespa:
    """Returns the function (D, F) features -> (D,) scores of a rank profile with a sum of products.

    Args:
        features: name of a rank feature or function -> index of the feature.

    Raises:
        ResultError: The expression is not such a sum, or names another feature.
    """
    match = _PHASE_EXPRESSION.search(profile)
    parts = match[1].split(" + ") if match and match[1] != "0.0" else []
    products = [_PRODUCT.fullmatch(part) for part in parts]
    terms = [(float(each[1]), features[each[2]]) for each in products if each and each[2] in features]
    if match is None or len(terms) < len(parts):
        raise ResultError(
            "Vespa would refuse the rank profile: its expression is not a sum of numbers times features. "
            "Export the model again with ltrbench ship."
        )

    def scores(documents: Features) -> NDArray[np.float64]:
        sums = np.zeros(len(documents))
        with np.errstate(invalid="ignore", over="ignore"):
            for weight, place in terms:
                sums += weight * documents[:, place].astype(np.float64)
        return sums

    return scores


def _folded(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Returns the terms with the sums of adjacent constants."""
    folded: list[Term] = []
    for term in terms:
        if folded and folded[-1].is_constant and term.is_constant:
            total = float(folded[-1].tree.value[0]) + float(term.tree.value[0])
            folded[-1] = Term(flat(Leaf(total)), 0.0)
        else:
            folded.append(term)
    return tuple(folded)


def _forest_order(terms: Sequence[Term]) -> list[Term]:
    """Returns the trees of a forest in the order in which they are found in the expression."""
    return [*reversed(terms[2:]), *terms[:2]]


def _sums(
    terms: Sequence[Term], features: Features, dtype: str, start: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Returns the (D,) float64 sums, with thresholds and leaves of a dtype."""
    sums = np.zeros(len(features)) if start is None else start
    for term in terms:
        sums = sums + _leaf_values(term, features, dtype)
    return sums


def _fast_sums(terms: Sequence[Term], features: Features) -> NDArray[np.float64]:
    """Returns the (D,) sums of a fast forest."""
    if max(term.num_leaves for term in terms) > _MASKED_LEAVES:
        return _sums(terms, features, "float32")
    in_blocks = len(terms) // 4 * 4
    blocks, rest = terms[:in_blocks], terms[in_blocks:]
    first = _sums([*blocks[::2], *rest], features, "float32")
    return first + _sums(blocks[1::2], features, "float32")


def _leaf_values(term: Term, features: Features, dtype: str) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        leaves = leaves_of(term.tree, features, "<", dtype)
        return term.tree.value.astype(dtype).astype(np.float64)[leaves]
