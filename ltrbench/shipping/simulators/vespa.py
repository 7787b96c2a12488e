"""Vespa: imports a model file as its importers do, and scores as its content nodes do.

An importer turns a file into a ranking expression, a sum of `if` expressions, which content nodes compile.
Large sums are evaluated as a forest with float32 numbers, small ones in float64. The rules, with their
sources, are in `VESPA_RULES`. What would be an exception in Vespa is a ResultError here.
D documents, F features.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.native.tree.nodes import NO_FEATURE
from ltrbench.rankers.models.scoring import FlatTree, leaves_of
from ltrbench.shapes import Features
from ltrbench.shipping.target import Rule

_IMPORTERS = "vespa-engine/vespa, model-integration/src/main/java/ai/vespa/rankingexpression/importer/"
_LIGHTGBM = f"{_IMPORTERS}lightgbm/LightGBMParser.java, commit 089e1742fd1f960213130f059069d3c09fc53b75"
_XGBOOST = f"{_IMPORTERS}xgboost/AbstractXGBoostParser.java, commit 503626cbb66e2469a7053630a20713707381d7cf"
_EVAL = "vespa-engine/vespa, eval/src/vespa/eval/eval/"
_FOREST = f"{_EVAL}vm_forest.cpp, commit 101ff2421151ded70dd6064f0b6583de98db8df3"
_CHOICE = f"{_EVAL}gbdt.cpp, commit 035580e94f2acf26e90b3f8570e9a4fc69ae294c"

_OF_EVALUATION = (
    Rule(
        "A sum whose largest tree has more than 12 leaves, and whose trees have mean depths of leaves with a "
        "sum of more than 2500, is evaluated as a forest; another sum is compiled and has float64 numbers.",
        _CHOICE,
    ),
    Rule("A forest has float32 thresholds and leaf values, float64 features and a float64 sum.", _FOREST),
    Rule("A forest adds the last tree first, and the first two trees at the end.", _CHOICE),
)
VESPA_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "lightgbm": (
        Rule("objective, feature_names, tree_info and pandas_categorical are needed.", _LIGHTGBM),
        Rule("Scores are not transformed for lambdarank.", _LIGHTGBM),
        Rule(
            "A value goes left if it is smaller than the threshold, whatever decision_type says; NaN goes "
            "left if default_left is true.",
            _LIGHTGBM,
        ),
        Rule("Thresholds and leaf values are float64.", _LIGHTGBM),
        *_OF_EVALUATION,
    ),
    "xgboost": (
        Rule("A base score is not read.", _XGBOOST),
        Rule(
            "A value goes left if it is smaller than split_condition, rounded to float32; NaN goes left if "
            "missing is yes.",
            _XGBOOST,
        ),
        *_OF_EVALUATION,
    ),
}
FAST_FOREST_SOURCE: Final = f"{_EVAL}fast_forest.cpp, commit 0c55dc92a3bf889c67fac1ca855e6e33e1994904"

_Split = tuple[int, float, bool, Any, Any]
"""Feature, threshold, whether a missing value goes left, left child, right child."""

_MOST_LEAVES_COMPILED, _LONGEST_PATHS_COMPILED = 12, 2500.0
_OTHER_OBJECTIVES = ("binary", "cross_entropy", "poisson", "gamma", "tweedie")


@dataclass(frozen=True)
class VespaForest:
    """The trees of a ranking expression, with thresholds of `<`."""

    trees: tuple[FlatTree, ...]

    @property
    def is_forest(self) -> bool:
        """Whether a content node evaluates the sum as a forest, by its size."""
        if any(tree.is_leaf[0] for tree in self.trees):
            return False  # a number is not a tree
        most = max(int(tree.is_leaf.sum()) for tree in self.trees)
        paths = sum(float(_depths(tree)[tree.is_leaf].mean()) for tree in self.trees)
        return most > _MOST_LEAVES_COMPILED and paths > _LONGEST_PATHS_COMPILED

    def scores(self, features: Features) -> NDArray[np.float64]:
        """Returns the (D,) scores of (D, F) features; NaN is a missing value."""
        return self.forest_scores(features) if self.is_forest else self.compiled_scores(features)

    def compiled_scores(self, features: Features) -> NDArray[np.float64]:
        """Returns the (D,) scores of a sum of float64 numbers, in the order of the trees."""
        scores = np.zeros(len(features))
        for number, values in enumerate(self._values(features, "float64")):
            scores = values if number == 0 else scores + values
        return scores

    def forest_scores(self, features: Features) -> NDArray[np.float64]:
        """Returns the (D,) scores of a forest of float32 numbers."""
        values = list(self._values(features, "float32"))
        scores = np.zeros(len(features))
        for of_tree in [*reversed(values[2:]), *values[:2]]:
            scores += of_tree
        return scores

    def fast_forest_scores(self, features: Features) -> NDArray[np.float64]:
        """Returns the (D,) scores with the property vespa.eval.use_fast_forest: two float64 sums of float32
        numbers, see `FAST_FOREST_SOURCE`."""
        values = list(self._values(features, "float32"))
        values = [*reversed(values[2:]), *values[:2]]
        sums = np.zeros((2, len(features)))
        in_blocks = len(values) - len(values) % 4
        for number, of_tree in enumerate(values):
            sums[number % 2 if number < in_blocks else 0] += of_tree
        total: NDArray[np.float64] = sums[0] + sums[1]
        return total

    def _values(self, features: Features, dtype: str) -> Iterator[NDArray[np.float64]]:
        """Yields the (D,) float64 leaf values that documents reach, of each tree."""
        for tree in self.trees:
            with np.errstate(over="ignore"):
                values = tree.value.astype(dtype).astype(np.float64)
                yield values[leaves_of(tree, features, "<", dtype)]


def parse_vespa(content: bytes, form: str, feature_names: Sequence[str]) -> VespaForest:
    """Returns the trees of a model file.

    Args:
        form: "lightgbm" or "xgboost".
        feature_names: F names in the file, in the order of the features.

    Raises:
        ResultError: Vespa would refuse the file, or transform its scores.
    """
    numbers = {name: number for number, name in enumerate(feature_names)}
    try:
        record = json.loads(content)
        trees = _of_lightgbm(record, numbers) if form == "lightgbm" else _of_xgboost(record, numbers)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise ResultError(f"Vespa would refuse the model: {error!r}. Export the model again.") from error
    return VespaForest(trees)


def _of_lightgbm(record: Any, numbers: Mapping[str, int]) -> tuple[FlatTree, ...]:
    if str(record["objective"]).startswith(_OTHER_OBJECTIVES):
        raise ValueError(f"scores of the objective {record['objective']} are transformed")
    if record["pandas_categorical"]:
        raise ValueError("it has categories")
    names = record["feature_names"]

    def read(node: Any) -> _Split | float:
        left, right = node.get("left_child"), node.get("right_child")
        if left is None and right is None:
            return float(node["leaf_value"])
        if node["decision_type"] == "==":
            raise ValueError("it has categories")
        feature = numbers[names[int(node["split_feature"])]]
        return feature, float(node["threshold"]), bool(node["default_left"]), left, right

    return tuple(_as_tree(info["tree_structure"], read) for info in record["tree_info"])


def _of_xgboost(record: Any, numbers: Mapping[str, int]) -> tuple[FlatTree, ...]:
    def read(node: Any) -> _Split | float:
        if "children" not in node:
            return float(node["leaf"])
        first, second = node["children"]
        left, right = (first, second) if node["yes"] == first["nodeid"] else (second, first)
        threshold = float(np.float32(node["split_condition"]))
        return numbers[node["split"]], threshold, node["missing"] == node["yes"], left, right

    return tuple(_as_tree(root, read) for root in record)


def _as_tree(root: Any, read: Callable[[Any], _Split | float]) -> FlatTree:
    """Returns the nodes of a tree, each before its children.

    Args:
        read: node -> split, or value of a leaf.
    """
    rows: list[list[Any]] = []  # feature, threshold, left, right, missing_left, value
    waiting: list[tuple[Any, int, int]] = [(root, NO_FEATURE, 0)]
    while waiting:
        node, parent, place = waiting.pop()
        number, item = len(rows), read(node)
        if parent != NO_FEATURE:
            rows[parent][place] = number
        if isinstance(item, float):
            rows.append([NO_FEATURE, 0.0, number, number, False, item])
            continue
        feature, threshold, missing_left, left, right = item
        rows.append([feature, threshold, number, number, missing_left, 0.0])
        waiting += [(right, number, 3), (left, number, 2)]
    columns = list(zip(*rows, strict=True))
    return FlatTree(
        feature=np.array(columns[0], dtype=np.int64),
        threshold=np.array(columns[1]),
        left=np.array(columns[2], dtype=np.int64),
        right=np.array(columns[3], dtype=np.int64),
        missing_left=np.array(columns[4], dtype=np.bool_),
        zero_missing=np.zeros(len(rows), dtype=np.bool_),
        value=np.array(columns[5]),
    )


def _depths(tree: FlatTree) -> NDArray[np.int64]:
    """Returns the (N,) depths of the nodes; a node comes after its parent."""
    depths = np.zeros(len(tree.feature), dtype=np.int64)
    for node in np.flatnonzero(~tree.is_leaf).tolist():
        depths[[tree.left[node], tree.right[node]]] = depths[node] + 1
    return depths
