"""One representation of trees for all backends.

The score of a document x is, with leaf_t(x) the value of its leaf in tree t,

    base_score + sum over t of weight_t leaf_t(x)

The representation is exact: it states which comparison a split makes or which categories go left, where
missing values and zeros go, and in which dtype thresholds are compared and values are summed. An adapter's
`trees` translates its library's model; `ensemble_scores` computes the scores, and
tests/rankers/test_conformance.py compares them with `predict`. `uniform` converts trees to the
form in which they are shown and compared.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.native import NO_FEATURE
from ltrbench.shapes import Features

LARGEST_ZERO: Final = float(np.float32(1e-35))
"""Largest absolute value that counts as 0 in a split with `zero_missing`, as in LightGBM (kZeroThreshold)."""
MOST_NODES: Final = 1 << 22
"""Maximum number of nodes of a tree that is read from a file."""


@dataclass(frozen=True)
class Leaf:
    """A leaf, with its value before it is multiplied by the tree's weight."""

    value: float


@dataclass(frozen=True)
class InnerNode:
    """A split on one feature.

    Attributes:
        feature: index of the feature, from 0.
        threshold: a value goes left if it is at most the threshold or, with the comparison `<` of the
            ensemble, if it is smaller.
        missing_left: whether a missing value goes left.
        zero_missing: whether a value of at most `LARGEST_ZERO` in absolute value counts as missing.
        categories: of a split on a categorical feature, whose threshold is NaN: the codes that go left, as
            the bits of a number (`bits_of`); all other values go right. None: the split has a threshold.
    """

    feature: int
    threshold: float
    missing_left: bool
    left: Node
    right: Node
    zero_missing: bool = False
    categories: int | None = None


Node = Leaf | InnerNode


@dataclass(frozen=True)
class WeightedTree:
    """A tree with the factor on its leaf values.

    Attributes:
        weight: factor on each leaf value when scores are computed.
        shrinkage: factor that the leaf values already contain, such as the learning rate.
        record: what the file of the tree has beside it, such as gains, for the writer of the same format,
            which ignores a record that does not fit the tree.
    """

    weight: float
    root: Node
    shrinkage: float = 1.0
    record: object | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Ensemble:
    """The trees in the order of training, and the initial score of all documents.

    Attributes:
        base_score: the sum starts with it.
        comparison: how a value is compared with a threshold to go left.
        threshold_dtype: dtype in which values and thresholds are compared; thresholds are numbers of it.
        score_dtype: dtype of the weighted leaf values and of their sum.
    """

    trees: tuple[WeightedTree, ...]
    base_score: float = 0.0
    comparison: Literal["<=", "<"] = "<="
    threshold_dtype: Literal["float32", "float64"] = "float32"
    score_dtype: Literal["float32", "float64"] = "float64"


def uniform(ensemble: Ensemble) -> Ensemble:
    """Returns the trees in one form for all backends, to be shown and compared.

    Thresholds are the largest float32 that goes left, so that float32 features go where they went before, and
    leaf values are those before shrinkage. Rounding may change the last bits of a score.

    >>> stump = InnerNode(0, 0.5, True, left=Leaf(-0.2), right=Leaf(0.4))
    >>> (tree,) = uniform(Ensemble((WeightedTree(1.0, stump, shrinkage=0.1),), comparison="<")).trees
    >>> tree.weight, tree.root.left.value, tree.root.threshold < 0.5
    (0.1, -2.0, True)
    """

    def at_most(node: InnerNode) -> InnerNode:
        threshold = np.array(node.threshold)
        return replace(
            node, threshold=float(float32_thresholds(threshold, ensemble.comparison))
        )

    def before_shrinkage(tree: WeightedTree) -> WeightedTree:
        root = rebuilt(tree.root, at_most, lambda value: value / tree.shrinkage)
        return WeightedTree(tree.weight * tree.shrinkage, root)

    trees = tuple(map(before_shrinkage, ensemble.trees))
    return replace(ensemble, trees=trees, comparison="<=", threshold_dtype="float32")


def without_zero_missing(ensemble: Ensemble, max_nodes: int = 1_000_000) -> Ensemble:
    """Returns the same ensemble without `zero_missing`: the scores are equal bit for bit.

    The values that go left are those up to the threshold, with the zeros added or removed. If they are an
    interval, the split gets another threshold. Otherwise there are four intervals, so three nested splits
    with two copies of each subtree; missing values leave at the first of the three. The copies of a subtree
    are the same object.

    Args:
        max_nodes: largest number of nodes of all trees; copies within copies can grow exponentially. An
            ensemble without such splits may have more.

    Raises:
        ConfigError: There would be more nodes.

    >>> clicked = InnerNode(0, 3.0, missing_left=True, left=Leaf(1.0), right=Leaf(2.0), zero_missing=True)
    >>> (tree,) = without_zero_missing(Ensemble((WeightedTree(1.0, clicked),))).trees
    >>> tree.root == replace(clicked, zero_missing=False)
    True
    """
    if not any(split.zero_missing for split in splits_of(ensemble)):
        return ensemble
    zeros = _Zeros(ensemble)
    trees = []
    num_nodes = 0
    for tree in ensemble.trees:
        done: dict[
            int, tuple[Node, int]
        ] = {}  # by node: the new node, and its number of nodes
        for node in reversed(nodes_of(tree.root)):  # children come before their parent
            done[id(node)] = (node, 1)
            if isinstance(node, InnerNode):
                (left, num_left) = done[id(node.left)]
                (right, num_right) = done[id(node.right)]
                copies = 2 if zeros.are_between(node) else 1
                new = zeros.without(replace(node, left=left, right=right))
                num_of_subtree = 2 * copies - 1 + copies * (num_left + num_right)
                done[id(node)] = (new, num_of_subtree)
        root, num_of_subtree = done[id(tree.root)]
        num_nodes += num_of_subtree
        if num_nodes > max_nodes:
            raise ConfigError(
                "The model treats zeros as missing values. Written as splits without this rule, its trees "
                f"have more than {max_nodes:,} nodes. Train with zero_as_missing=false or with fewer "
                "leaves, or choose a target that has this rule: onnx or c."
            )
        trees.append(replace(tree, root=root))
    return replace(ensemble, trees=tuple(trees))


class _Zeros:
    """Splits in the arithmetic of an ensemble, without `zero_missing`."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.dtype = np.dtype(ensemble.threshold_dtype).type
        self.is_strict = ensemble.comparison == "<"
        self.largest_below = self._neighbour(-LARGEST_ZERO, -np.inf)

    def are_between(self, node: InnerNode) -> bool:
        """Whether zeros go to one side, and the values on both sides of them go to the other."""
        largest_left = self._largest_left(node)
        is_between = (
            largest_left < self.largest_below
            if node.missing_left
            else largest_left > LARGEST_ZERO
        )
        return node.zero_missing and is_between

    def without(self, node: InnerNode) -> InnerNode:
        """Returns one split or three nested splits that send every value where `node` sends it."""
        plain = replace(node, zero_missing=False)
        largest_left = self._largest_left(node)
        if not node.zero_missing:
            return plain
        if node.missing_left:
            zeros_left = self._split(plain, LARGEST_ZERO)
            if self.are_between(node):
                return replace(
                    plain,
                    right=self._split(
                        plain, self.largest_below, node.right, zeros_left
                    ),
                )
            return zeros_left if largest_left < LARGEST_ZERO else plain
        zeros_right = self._split(plain, self.largest_below)
        if self.are_between(node):
            return replace(
                plain, left=self._split(plain, LARGEST_ZERO, zeros_right, node.left)
            )
        return zeros_right if largest_left > self.largest_below else plain

    def _largest_left(self, node: InnerNode) -> float:
        if self.is_strict:
            return self._neighbour(node.threshold, -np.inf)
        return node.threshold

    def _split(
        self,
        node: InnerNode,
        largest_left: float,
        left: Node | None = None,
        right: Node | None = None,
    ) -> InnerNode:
        threshold = (
            self._neighbour(largest_left, np.inf) if self.is_strict else largest_left
        )
        return replace(
            node, threshold=threshold, left=left or node.left, right=right or node.right
        )

    def _neighbour(self, value: float, direction: float) -> float:
        with np.errstate(over="ignore", under="ignore"):
            return float(np.nextafter(self.dtype(value), self.dtype(direction)))


def rebuilt(
    root: Node,
    changed: Callable[[InnerNode], InnerNode],
    value_of: Callable[[float], float] = float,
) -> Node:
    """Returns a tree with other splits or leaf values.

    Args:
        changed: returns the new split for a split; it may exchange the children.
        value_of: returns the new value of a leaf.
    """

    def read(node: Node) -> Node:
        if isinstance(node, Leaf):
            return Leaf(value_of(node.value))
        return changed(node)

    return tree_of(root, read)


def with_splits(
    ensemble: Ensemble, changed: Callable[[InnerNode], InnerNode]
) -> Ensemble:
    """Returns an ensemble with other splits; `changed` as for `rebuilt`."""
    trees = tuple(
        replace(tree, root=rebuilt(tree.root, changed)) for tree in ensemble.trees
    )
    return replace(ensemble, trees=trees)


def nodes_of(root: Node) -> list[Node]:
    """Returns the nodes of a tree: each before its children, and the left subtree before the right one."""
    nodes: list[Node] = []
    waiting = [root]  # recursion would limit the depth
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        if isinstance(node, InnerNode):
            waiting += [node.right, node.left]
    return nodes


def splits_of(ensemble: Ensemble) -> Iterator[InnerNode]:
    """Yields the splits of all trees."""
    for tree in ensemble.trees:
        yield from (node for node in nodes_of(tree.root) if isinstance(node, InnerNode))


def used_features(ensemble: Ensemble) -> list[int]:
    """Returns the features that a split uses, ascending."""
    return sorted({split.feature for split in splits_of(ensemble)})


def categorical_features(ensemble: Ensemble) -> list[int]:
    """Returns the features that a split divides by sets of categories, ascending."""
    return sorted(
        {split.feature for split in splits_of(ensemble) if split.categories is not None}
    )


def bits_of(codes: Iterable[float]) -> int:
    """Returns the number whose bits are 1 for codes of categories.

    >>> bits_of([0, 3])
    9
    """
    flags = np.bincount(np.fromiter(codes, dtype=np.int64)) > 0
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def codes_of(bits: int) -> list[int]:
    """Returns the codes of a number of `bits_of`, ascending."""
    flags = np.unpackbits(words_of(bits).view(np.uint8), bitorder="little")
    return [int(code) for code in np.flatnonzero(flags)]


def words_of(bits: int) -> NDArray[np.uint32]:
    """Returns the (W,) words of 32 bits of a number, the lowest first; at least one."""
    num_words = max(-(-bits.bit_length() // 32), 1)
    return np.frombuffer(bits.to_bytes(4 * num_words, "little"), dtype="<u4")


def of_words(words: NDArray[np.integer]) -> int:
    """Returns the number with these words of 32 bits, the lowest first."""
    return int.from_bytes(words.astype("<u4").tobytes(), "little")


def tree_of(root: Any, read: Callable[[Any], Node]) -> Node:
    """Returns a tree that another representation holds, such as nested objects or arrays.

    Args:
        root: the root in the other representation.
        read: returns a node of it as a leaf, or as a split whose children are those of the other
            representation.

    Raises:
        ValueError: The tree has more than `MOST_NODES` nodes, as one with a cycle.

    >>> tree_of([0.5, [1.0], [2.0]], lambda n: InnerNode(3, n[0], True, *n[1:]) if n[1:] else Leaf(n[0]))
    InnerNode(feature=3, threshold=0.5, missing_left=True, left=Leaf(value=1.0), right=Leaf(value=2.0), \
zero_missing=False, categories=None)
    """
    nodes: list[Node] = []
    waiting = [root]
    while waiting:
        node = read(waiting.pop())
        nodes.append(node)
        if isinstance(node, InnerNode):
            waiting += [node.right, node.left]
        if len(nodes) > MOST_NODES:
            raise ValueError(f"a tree has more than {MOST_NODES:,} nodes")
    done: list[Node] = []
    # Children come before their parent, and the left one after the right one.
    for node in reversed(nodes):
        if isinstance(node, InnerNode):
            children = (done.pop(), done.pop())
            rest = (node.zero_missing, node.categories)
            node = InnerNode(
                node.feature, node.threshold, node.missing_left, *children, *rest
            )
        done.append(node)
    return done[0]


def sends_zero_left(node: InnerNode, comparison: str) -> bool:
    """Returns whether a split sends 0 left by its threshold, without `zero_missing`.

    >>> split = InnerNode(0, 0.0, True, left=Leaf(1.0), right=Leaf(2.0))
    >>> sends_zero_left(split, "<="), sends_zero_left(split, "<")
    (True, False)
    """
    if comparison == "<=":
        return node.threshold >= 0
    return node.threshold > 0


def threshold_at_most(bound: float) -> float:
    """Returns the largest float32 that is not above a bound: the same split of float32 values.

    An infinite bound stays infinite, so that an infinite value is not above it.

    >>> threshold_at_most(0.1) <= 0.1 < threshold_at_most(0.1) + 1e-8
    True
    >>> threshold_at_most(1e300), threshold_at_most(np.inf)
    (3.4028234663852886e+38, inf)
    """
    return float(float32_thresholds(np.array(bound), "<="))


# ---- Scores of an `Ensemble`, in the arithmetic that it states.
#
# D documents, F features, N nodes of a tree.


class FlatTree(NamedTuple):
    """The nodes of a tree as arrays; node 0 is the root, and a node comes after its parent.

    Attributes:
        feature: (N,), feature of an inner node; -1 for a leaf.
        threshold: (N,), as in `InnerNode`; 0 for a leaf.
        left: (N,), left child; for a leaf, the leaf itself.
        right: (N,), right child, likewise.
        missing_left: (N,), whether a missing value goes left.
        zero_missing: (N,), whether 0 counts as missing.
        value: (N,), value of a leaf, before it is multiplied by the tree's weight; 0 for an inner node.
        categories: (N, W), `words_of` the categories that go left, padded with 0.
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing_left: NDArray[np.bool_]
    zero_missing: NDArray[np.bool_]
    value: NDArray[np.float64]
    categories: NDArray[np.uint32]

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Whether a node is a leaf, (N,)."""
        is_leaf: NDArray[np.bool_] = self.feature == NO_FEATURE
        return is_leaf


def flat(root: Node, num_words: int = 0) -> FlatTree:
    """Returns the nodes of a tree as arrays, each before its children, and left before right.

    Args:
        num_words: minimum of W.

    >>> flat(InnerNode(3, 0.5, True, left=Leaf(-1.0), right=Leaf(2.0))).value
    array([ 0., -1.,  2.])
    """
    nodes = nodes_of(root)
    words = {}
    for number, node in enumerate(nodes):
        if isinstance(node, InnerNode) and node.categories is not None:
            words[number] = words_of(node.categories)
    most_words = max(num_words, *map(len, words.values()), 0)
    tree = _leaves(len(nodes), most_words)
    for number, of_node in words.items():
        tree.categories[number, : len(of_node)] = of_node
    parents: list[int] = []  # whose right child is still to come
    for number, node in enumerate(nodes):
        if number and isinstance(nodes[number - 1], InnerNode):
            tree.left[number - 1] = number
        elif number:
            tree.right[parents.pop()] = number
        if isinstance(node, Leaf):
            tree.value[number] = node.value
            continue
        parents.append(number)
        tree.feature[number] = node.feature
        tree.threshold[number] = node.threshold
        tree.missing_left[number] = node.missing_left
        tree.zero_missing[number] = node.zero_missing
    return tree


def _leaves(num_nodes: int, num_words: int) -> FlatTree:
    """Returns arrays in which all nodes are leaves of the value 0."""
    return FlatTree(
        feature=np.full(num_nodes, NO_FEATURE, dtype=np.int64),
        threshold=np.zeros(num_nodes),
        left=np.arange(num_nodes),
        right=np.arange(num_nodes),
        missing_left=np.zeros(num_nodes, dtype=np.bool_),
        zero_missing=np.zeros(num_nodes, dtype=np.bool_),
        value=np.zeros(num_nodes),
        categories=np.zeros((num_nodes, num_words), dtype=np.uint32),
    )


def leaves_of(
    tree: FlatTree,
    features: Features,
    comparison: str = "<=",
    threshold_dtype: str = "float32",
) -> NDArray[np.int64]:
    """Returns the (D,) leaf nodes that documents reach, level by level.

    Args:
        features: (D, F); NaN is a missing value.
        comparison: "<=" or "<".
        threshold_dtype: dtype in which values are compared with thresholds.
    """
    goes_left = np.less_equal if comparison == "<=" else np.less
    threshold = tree.threshold.astype(threshold_dtype)
    is_leaf = tree.is_leaf
    has_missing_zeros = bool(tree.zero_missing.any())
    leaves = np.zeros(len(features), dtype=np.int64)
    rows = np.flatnonzero(~is_leaf[leaves])
    while len(rows):
        node = leaves[rows]
        x = features[rows, tree.feature[node]]
        is_missing = np.isnan(x)
        if has_missing_zeros:
            is_missing |= tree.zero_missing[node] & (np.abs(x) <= LARGEST_ZERO)
        is_below = goes_left(x, threshold[node])
        left = np.where(is_missing, tree.missing_left[node], is_below)
        if tree.categories.size:
            left |= _are_in(tree.categories, node, x)
        of_left = tree.left[node]
        leaves[rows] = np.where(left, of_left, tree.right[node])
        rows = rows[~is_leaf[leaves[rows]]]
    return leaves


def _are_in(
    words: NDArray[np.uint32],
    node: NDArray[np.int64],
    x: NDArray[np.float32],
) -> NDArray[np.bool_]:
    """Returns whether values are codes among the categories of nodes."""
    is_in_words = (x >= 0) & (x < 32 * words.shape[1])
    codes = np.where(is_in_words, x, -1).astype(np.int64)
    bits = words[node, codes >> 5] >> (codes & 31) & 1
    is_in: NDArray[np.bool_] = (bits > 0) & (codes == x)
    return is_in


def weighted_values(
    tree: FlatTree, weight: float, score_dtype: str
) -> NDArray[np.floating[Any]]:
    """Returns the (N,) numbers that leaves add to the score: the values times the tree's weight, in its
    dtype."""
    dtype = np.dtype(score_dtype)
    values = tree.value.astype(dtype)
    weighted: NDArray[np.floating[Any]] = values * dtype.type(weight)
    return weighted


def float32_thresholds(
    thresholds: NDArray[np.floating[Any]], comparison: str
) -> NDArray[np.float32]:
    """Returns the (N,) largest float32 that go left: splits `<=` of float32 values, for either comparison.

    >>> below = float32_thresholds(np.array([0.5]), "<")
    >>> bool(below[0] < 0.5), bool(np.nextafter(below, np.float32(1))[0] == 0.5)
    (True, True)
    """
    with np.errstate(over="ignore", under="ignore"):
        largest = np.nextafter(thresholds, -np.inf) if comparison == "<" else thresholds
        rounded = largest.astype(np.float32)
        lower = np.nextafter(rounded, np.float32(-np.inf))
        return np.where(rounded > largest, lower, rounded)


def ensemble_scores(
    ensemble: Ensemble, features: Features
) -> NDArray[np.floating[Any]]:
    """Returns the (D,) scores of (D, F) features: the specification of what an ensemble means."""
    dtype = ensemble.score_dtype
    return leaf_sums(
        ensemble,
        features,
        np.full(len(features), ensemble.base_score, dtype=dtype),
        lambda tree, weight: weighted_values(tree, weight, dtype),
    )


def leaf_sums(
    ensemble: Ensemble,
    features: Features,
    start: NDArray[np.floating[Any]],
    values_of: Callable[[FlatTree, float], NDArray[np.floating[Any]]],
) -> NDArray[np.floating[Any]]:
    """Returns the (D,) sums of start and a number for the leaf of each tree, in the order of the trees.

    Args:
        values_of: tree, weight -> (N,) numbers of its leaves.
    """
    for weighted in ensemble.trees:
        tree = flat(weighted.root)
        leaves = leaves_of(
            tree, features, ensemble.comparison, ensemble.threshold_dtype
        )
        start += values_of(tree, weighted.weight)[leaves]
    return start


# ---- Trees and numbers of formats that have float32 only. N nodes of a tree.

ABOVE_FLOAT32: Final = 2.0**128
"""Threshold above every finite float32: as float32 it is infinite, so that infinity goes right."""


def base_score_as_tree(ensemble: Ensemble) -> Ensemble:
    """Returns the same model with base score 0, for formats without one: the first tree is one leaf.

    A sum that starts with 0 then has the same rounding as before.

    >>> base_score_as_tree(Ensemble((WeightedTree(0.1, Leaf(2.0)),), base_score=0.5)).trees[0]
    WeightedTree(weight=1.0, root=Leaf(value=0.5), shrinkage=1.0)
    """
    if ensemble.base_score == 0 and ensemble.trees:
        return ensemble
    first = WeightedTree(1.0, Leaf(ensemble.base_score))
    return replace(ensemble, trees=(first, *ensemble.trees), base_score=0.0)


def float32_trees(
    ensemble: Ensemble, comparison: Literal["<=", "<"], leaf_dtype: str = "float32"
) -> Iterator[FlatTree]:
    """Yields the trees with float32 thresholds for a comparison, and leaf values that contain the weights.

    A float32 value goes where it went before, for any comparison and dtype of the ensemble. For `<=`, a
    threshold may be infinite. For `<`, infinity never goes left by its value, and negative infinity always.

    Args:
        leaf_dtype: dtype of the leaf values.

    Raises:
        ConfigError: A leaf value is beyond float32, or too many splits count zeros as missing.
    """
    thresholds_of = float32_thresholds if comparison == "<=" else smallest_right
    for number, weighted in enumerate(without_zero_missing(ensemble).trees):
        tree = flat(weighted.root)
        with np.errstate(over="ignore"):
            values = weighted_values(tree, weighted.weight, ensemble.score_dtype)
        rounded_to_float32(values, f"a leaf value of tree {number}")
        thresholds = thresholds_of(tree.threshold, ensemble.comparison)
        leaves = values.astype(leaf_dtype).astype(np.float64)
        inner = np.where(tree.is_leaf, 0.0, thresholds)
        yield tree._replace(threshold=inner, value=leaves)


def smallest_right(
    thresholds: NDArray[np.float64], comparison: str
) -> NDArray[np.float64]:
    """Returns the (N,) float32 above the largest ones that go left, at most `ABOVE_FLOAT32`: thresholds for
    the comparison `<`.

    >>> float(smallest_right(np.array([0.0]), "<=")[0]) == 2.0**-149
    True
    """
    with np.errstate(over="ignore", under="ignore"):
        above = np.nextafter(
            float32_thresholds(thresholds, comparison), np.float32(np.inf)
        )
    return np.minimum(above.astype(np.float64), ABOVE_FLOAT32)


def rounded_to_float32(values: NDArray[np.floating], name: str) -> NDArray[np.float64]:
    """Returns numbers rounded to float32.

    Args:
        name: what the numbers are, in messages.

    Raises:
        ConfigError: A number is beyond float32.
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    if not np.isfinite(rounded).all():
        raise ConfigError(
            f"{name} is not finite as float32, but the format has float32 numbers only. Train the model "
            "again with labels or weights of a smaller scale."
        )
    return rounded.astype(np.float64)


def rounded_weights(
    weights: NDArray[np.floating], feature_names: Sequence[str]
) -> NDArray[np.float64]:
    """Returns the (F,) weights of a linear model rounded to float32.

    Raises:
        ConfigError: A weight is beyond float32, because its feature varies too little.
    """
    with np.errstate(over="ignore"):
        rounded = weights.astype(np.float32)
    for feature in np.flatnonzero(~np.isfinite(rounded))[:1]:
        raise ConfigError(
            f"the weight of {feature_names[feature]} is {weights[feature]:.3g}, but the format has float32 "
            "numbers only (maximum 3.4e38). Train again without the feature, or multiply its values."
        )
    return rounded.astype(np.float64)


def float32_texts(values: NDArray[np.floating]) -> list[str]:
    """Returns the shortest decimal numbers that every reader rounds to the same float32.

    Java's parseFloat rounds once, a reader of JSON numbers rounds to float64 first. The two differ for a few
    numbers, which get more digits.

    >>> float32_texts(np.array([0.1, 1e-45, -np.inf], dtype=np.float32))
    ['0.1', '1e-45', '-Infinity']
    """
    rounded = values.astype(np.float32)
    texts: list[str] = rounded.astype(str).tolist()
    with np.errstate(over="ignore"):
        rounded_twice = np.array(texts, dtype=np.float64).astype(np.float32)
    for index in np.flatnonzero(rounded_twice != rounded).tolist():
        texts[index] = repr(float(rounded[index]))
    for index in np.flatnonzero(np.isinf(rounded)).tolist():
        texts[index] = "Infinity" if rounded[index] > 0 else "-Infinity"
    return texts


# ---- Trees as nested JSON or XML, written from left to right. N nodes of a tree.


def nested_text(
    is_leaf: Sequence[bool],
    text_of: Callable[[int, int], str],
    between: str,
    end: Callable[[int], str] = lambda depth: "}",
) -> str:
    """Returns the text of a tree; its depth is not limited.

    Args:
        is_leaf: (N,); a node comes before its children, and the left subtree before the right one.
        text_of: node, depth -> the text of a leaf, or of a split up to its left child.
        between: the text between the children of a split.
        end: depth of a split -> the text after its right child.

    >>> nested_text([False, True, True], lambda node, depth: "{" if node == 0 else str(node), ", ")
    '{1, 2}'
    """
    parts: list[str] = []
    children_to_come: list[int] = []  # of each split above the node
    for node, ends in enumerate(is_leaf):
        parts.append(text_of(node, len(children_to_come)))
        if not ends:
            children_to_come.append(2)
            continue
        while children_to_come:
            children_to_come[-1] -= 1
            if children_to_come[-1]:
                parts.append(between)
                break
            children_to_come.pop()
            parts.append(end(len(children_to_come)))
    return "".join(parts)


# ---- Numbers in the files of engines in Java.

_strtof = ctypes.CDLL(None).strtof
_strtof.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
_strtof.restype = ctypes.c_float


def parse_float32(text: str) -> float:
    """Returns a decimal number as Java's `Float.parseFloat` does, which rounds once.

    Raises:
        ValueError: The text is not a number.

    >>> parse_float32(" 0.1 "), parse_float32("1e39"), parse_float32("-Infinity")
    (0.10000000149011612, inf, -inf)
    """
    float(text)  # raises ValueError
    number: float = _strtof(text.encode(), None)
    return number


# ---- The trees of a model as text and as JSON.

_LARGEST = float(np.finfo(np.float32).max)
_MOST_CATEGORIES = 5
"""Maximum number of categories that a line lists."""


def as_nested(ensemble: Ensemble) -> list[dict[str, Any]]:
    """Returns one record per tree: its nested nodes, with its weight in the record of the root.

    An initial score that is not 0 is added as a last tree with one leaf, so that the leaf values times the
    weights always sum to the score. An infinite threshold, which divides missing values from all others, is
    the text "inf" or "-inf", because JSON has no such number.
    """
    trees = list(ensemble.trees)
    if ensemble.base_score != 0:
        trees.append(WeightedTree(1.0, Leaf(ensemble.base_score)))
    return [{"weight": tree.weight, **_record(tree.root)} for tree in trees]


def _record(node: Node) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"value": node.value}
    split: dict[str, Any]
    if node.categories is not None:
        split = {"categories": codes_of(node.categories)}
    elif np.isfinite(node.threshold):
        split = {"threshold": node.threshold}
    else:
        split = {"threshold": str(float(node.threshold))}
    return {
        "feature": node.feature,
        **split,
        "missing": "left" if node.missing_left else "right",
        **({"zero": "missing"} if node.zero_missing else {}),
        "left": _record(node.left),
        "right": _record(node.right),
    }


def as_lines(
    ensemble: Ensemble,
    feature_names: Sequence[str],
    categories: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[str]:
    """Yields the lines of all trees.

    Args:
        categories: categorical feature -> its categories, in the order of their codes.

    >>> tree = InnerNode(0, 0.5, True, left=Leaf(-0.25), right=Leaf(1.0))
    >>> print(*as_lines(Ensemble((WeightedTree(0.1, tree),)), ["bm25"]), sep="\\n")
    tree 1, weight 0.1
    bm25 <= 0.5 or missing
    |- yes: -0.25
    `- no:  +1
    """
    if ensemble.base_score != 0:
        yield f"initial score {_number(ensemble.base_score)}"
        yield ""
    for number, tree in enumerate(ensemble.trees):
        if number > 0:
            yield ""
        yield f"tree {number + 1}, weight {tree.weight:.6g}"
        yield from _lines(
            tree.root, lambda node: _words(node, feature_names, categories or {})
        )


def _lines(
    node: Node,
    words: Callable[[Node], str],
    first: str = "",
    margin: str = "",
) -> Iterator[str]:
    """Yields the line of a node, which begins with `first`, and of its descendants, which begin with
    `margin`."""
    yield f"{first}{words(node)}"
    if isinstance(node, InnerNode):
        yield from _lines(node.left, words, f"{margin}|- yes: ", f"{margin}|  ")
        yield from _lines(node.right, words, f"{margin}`- no:  ", f"{margin}   ")


def _words(
    node: Node, feature_names: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> str:
    """Returns the condition of a node, or the value of a leaf."""
    if isinstance(node, Leaf):
        return _number(node.value)
    column = feature_names[node.feature]
    name = f"feature {column}" if column.isdigit() else column  # as in LETOR files
    if node.categories is not None:
        texts = categories.get(column, ())
        return _words_of_set(name, node.categories, node.missing_left, texts)
    absent = "0 or missing" if node.zero_missing else "missing"
    if node.threshold >= _LARGEST and not node.missing_left:
        return f"{name} is not {absent}"
    if node.threshold <= -_LARGEST and node.missing_left:
        return f"{name} is {absent}"
    words = f"{name} <= {node.threshold:.6g}"
    if node.missing_left:
        return f"{words} or {absent}"
    return f"{words} and not 0" if node.zero_missing else words


def _words_of_set(
    name: str, bits: int, missing_left: bool, texts: Sequence[str]
) -> str:
    """Returns the condition of a split by categories, as the shorter of the two sets."""
    codes = codes_of(bits)
    # As of XGBoost, where the others are the set.
    is_most = 2 * len(codes) > len(texts) > 0
    if is_most:
        codes = codes_of(bits ^ ((1 << len(texts)) - 1))
    members = []
    for code in codes[:_MOST_CATEGORIES]:
        is_known = code < len(texts)
        members.append(texts[code] if is_known else str(code))
    listed = ", ".join(members)
    if len(codes) > len(members):
        listed = f"{listed} and {len(codes) - len(members)} more"
    words = f"{name} not in {{{listed}}}" if is_most else f"{name} in {{{listed}}}"
    if missing_left:
        return f"{words} or missing"
    return f"{words} and not missing" if is_most else words


def _number(value: float) -> str:
    return f"{value:+.6g}"
