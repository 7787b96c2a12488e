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

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.models.trees import FlatTree, Leaf, flat, leaves_of
from ltrbench.native.nodes import NO_FEATURE
from ltrbench.shapes import Features
from ltrbench.shipping.target import Rule

# ---- Vespa's import of models: dumps of LightGBM and XGBoost as the terms of a ranking expression.
#
# An importer prints a model as a text, in which a feature is the text of its name, and reads this text as a
# ranking expression: a sum of if(feature < number, ..., ...) and !(feature >= number) for splits that send
# missing values left. What would be an exception, or another expression than a sum of trees, is a
# ResultError here. F features, N nodes of a tree.

_FIELDS_OF_XGBOOST: Final = (
    *("nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "leaf", "children"),
)
_SIGMOID, _EXP = ("cross_entropy",), ("poisson", "gamma", "tweedie")
_FUNCTION = re.compile(r"^ *function +([A-Za-z_][A-Za-z0-9_]*)\(\) *\{", re.MULTILINE)


@dataclass(frozen=True)
class Term:
    """A tree of the sum, or a constant: a tree without splits.

    Attributes:
        tree: a value goes left if it is smaller than the threshold, a missing value by `missing_left`.
        average_depth: mean number of splits above a leaf.
    """

    tree: FlatTree
    average_depth: float

    @property
    def num_leaves(self) -> int:
        return int(self.tree.is_leaf.sum())

    @property
    def is_constant(self) -> bool:
        return len(self.tree.value) == 1


@dataclass(frozen=True)
class ImportedSum:
    """A ranking expression.

    Attributes:
        terms: at least one.
        transformation: of the sum.
    """

    terms: tuple[Term, ...]
    transformation: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None


@dataclass(frozen=True)
class _Split:
    """A split of a dump as the importer reads it; None in place of it is a leaf."""

    feature: str
    threshold: float
    missing_left: bool
    left: Any
    right: Any


def import_lightgbm(content: bytes, features: Mapping[str, int]) -> ImportedSum:
    """Returns a file of `Booster.dump_model` of LightGBM.

    Args:
        features: name of a rank feature or function -> index of the feature.

    Raises:
        ResultError: Vespa would refuse the file, or read a name as something else than a feature.
    """
    root = _json(content)
    fields = ("objective", "feature_names", "tree_info", "pandas_categorical")
    absent = [name for name in fields if not isinstance(root, dict) or name not in root]
    if absent:
        _refuse(f"it has no {absent[0]}")
    names, trees = ([*(root[name] or ())] for name in ("feature_names", "tree_info"))
    reading = _Reading(features, lambda node: _split_of_lightgbm(node, names), "leaf_value")
    roots = [tree.get("tree_structure") if isinstance(tree, dict) else None for tree in trees]
    return ImportedSum(reading.terms(roots), _transformation(str(root["objective"])))


def import_xgboost(content: bytes, features: Mapping[str, int]) -> ImportedSum:
    """Returns a file of `Booster.dump_model` of XGBoost; arguments and errors are those of
    `import_lightgbm`."""
    if not content.lstrip().startswith(b"["):
        _refuse("its first line does not begin with [")
    return ImportedSum(_Reading(features, _split_of_xgboost, "leaf").terms(_json(content)))


def functions_of_profile(profile: str) -> list[str]:
    """Returns the names of the functions that a rank profile defines."""
    return _FUNCTION.findall(profile)


@dataclass(frozen=True)
class _Reading:
    """How the nodes of a format are read."""

    features: Mapping[str, int]
    split_of: Callable[[Mapping[str, Any]], _Split | None]
    leaf_field: str

    def terms(self, trees: Any) -> tuple[Term, ...]:
        if not isinstance(trees, list) or not trees:
            _refuse("it has no list of at least one tree")
        return tuple(self._term(root) for root in trees)

    def _term(self, root: Any) -> Term:
        """Returns a tree with its nodes each before its children, and left before right."""
        left: list[int] = []
        right: list[int] = []
        feature, threshold, value, missing_left, depths = [], [], [], [], []
        waiting: list[tuple[Any, list[int], int, int]] = [(root, [0], 0, 0)]
        while waiting:
            node, side, parent, depth = waiting.pop()
            if not isinstance(node, dict):
                _refuse("a node is not an object")
            split, number = self.split_of(node), len(left)
            side[parent] = number
            left.append(number)
            right.append(number)
            feature.append(NO_FEATURE if split is None else self._feature(split.feature))
            threshold.append(0.0 if split is None else split.threshold)
            value.append(_double(node.get(self.leaf_field, 0.0)) if split is None else 0.0)
            missing_left.append(split is not None and split.missing_left)
            if split is None:
                depths.append(depth)
            else:
                waiting += [(split.right, right, number, depth + 1), (split.left, left, number, depth + 1)]
        tree = FlatTree(
            feature=np.array(feature, dtype=np.int64),
            threshold=np.array(threshold),
            left=np.array(left, dtype=np.int64),
            right=np.array(right, dtype=np.int64),
            missing_left=np.array(missing_left, dtype=np.bool_),
            zero_missing=np.zeros(len(left), dtype=np.bool_),
            value=np.array(value),
        )
        return Term(tree, sum(depths) / len(depths))

    def _feature(self, name: Any) -> int:
        if name not in self.features:
            _refuse(
                f"{name!r} is neither a rank feature nor a function of the profile; Vespa would read this "
                "text as an expression"
            )
        return self.features[name]


def _split_of_lightgbm(node: Mapping[str, Any], names: list[str]) -> _Split | None:
    left, right = node.get("left_child"), node.get("right_child")
    if left is None and right is None:
        return None
    feature = node.get("split_feature", 0)
    if type(feature) is not int or not 0 <= feature < len(names):
        _refuse(f"split_feature is {feature!r}, not the index of one of {len(names)} features")
    if node.get("decision_type") in (None, "=="):
        _refuse(f"decision_type is {node.get('decision_type')!r}; a split of numbers has <=")
    threshold = _double(node.get("threshold"))
    return _Split(names[feature], threshold, bool(node.get("default_left", False)), left, right)


def _split_of_xgboost(node: Mapping[str, Any]) -> _Split | None:
    unknown = [name for name in node if name not in _FIELDS_OF_XGBOOST]
    if unknown:
        _refuse(f"a node has the unknown field {unknown[0]!r}")
    children = node.get("children")
    if children is None:
        return None
    if not isinstance(children, list) or len(children) != 2 or not isinstance(children[0], dict):
        _refuse("a split does not have two children")
    yes = node.get("yes", 0)
    left, right = children if children[0].get("nodeid", 0) == yes else reversed(children)
    with np.errstate(over="ignore"):
        threshold = np.float32(_double(node.get("split_condition", 0.0)))
    return _Split(
        str(node.get("split")), _double(float(threshold)), node.get("missing", 0) == yes, left, right
    )


def _transformation(objective: str) -> Callable[[NDArray[np.float64]], NDArray[np.float64]] | None:
    if objective.startswith("binary") or objective in _SIGMOID:
        return lambda sums: 1.0 / (1.0 + np.exp(-sums))
    return np.exp if objective in _EXP else None


def _double(number: Any) -> float:
    """Returns a number that is printed and read back; Infinity and NaN would be read as features."""
    try:
        value = float(number)
    except (TypeError, ValueError):
        _refuse(f"{number!r} is not a number")
    if not math.isfinite(value):
        _refuse(f"{number!r} is not finite, and would be read as the name of a feature")
    return value


def _json(content: bytes) -> Any:
    try:
        return json.loads(content, parse_constant=_double)
    except (RecursionError, ValueError) as error:
        _refuse(f"it cannot be read as JSON: {error}")


def _refuse(reason: str) -> NoReturn:
    raise ResultError(
        f"Vespa would refuse the model: {reason}. Export the model again with ltrbench ship."
    ) from None


COMPILED, VM_FOREST, FAST_FOREST = "compiled", "VM forest", "fast forest"

ScoreFunctionOfVespa = Callable[[Features], NDArray[np.float64]]

_PHASE_EXPRESSION = re.compile(r"-phase \{\n *expression: (.+)\n")
_PRODUCT = re.compile(r"(-?[0-9][0-9.]*(?:e[-+]?[0-9]+)?) \* (\S.*)")
_SMALL_TREE, _SHORT_PATH = 12, 2500.0
"""Largest number of leaves, and largest sum of average path lengths, of trees that are compiled."""
_MOST_COMPILED_LEAVES = 25_000
"""Largest number of leaves of all trees that are compiled."""
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
    Rule(
        "Since May 2024, a forest of more than 25,000 leaves is a VM forest too.",
        f"{_REPOSITORY}pull request 31104 (Avoid compiling gbdt models with many conditions); its change was "
        "not read",
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
    has_long_paths = largest > _SMALL_TREE and sum(term.average_depth for term in trees) > _SHORT_PATH
    is_large = has_long_paths or sum(term.num_leaves for term in trees) > _MOST_COMPILED_LEAVES
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
