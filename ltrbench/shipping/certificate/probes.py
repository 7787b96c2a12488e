"""Rows of features that test where conversions of trees break, made from the model. N rows, F features.

A row is a document of the data (or zeros) with one other value. At a threshold t of a feature the values are
the float32 closest to t, the next float32 below and above it, and as far as the number of rows allows a
missing value and 0: a document is chosen that reaches the split, or if none does, one that is changed so
that it does. In addition, each used feature gets the values of `SPECIAL` in one document. All splits are
tested if they fit into the number of rows, otherwise a sample drawn with a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import AnyFeatures, gather_rows
from ltrbench.rankers.models.scoring import FlatTree, flat, leaves_of
from ltrbench.rankers.models.trees import Ensemble, threshold_at_most, threshold_below
from ltrbench.shapes import Features
from ltrbench.shipping.certificate.limits import features_read
from ltrbench.shipping.model import ShippedModel
from ltrbench.shipping.target import INFINITE_VALUES, MISSING_VALUES, ZERO_VALUES

MOST_ROWS = 20_000
"""Maximum number of rows."""
_MOST_CELLS = 1 << 26
"""Maximum number of values in all rows: 256 MB."""
_MOST_DOCUMENTS = 2_000
"""Number of documents of the data among which one is searched for each split."""
_SHARE_OF_SPLITS = 0.75
"""Share of the rows for values at splits; the others are for SPECIAL."""

THRESHOLD, BELOW, ABOVE = "threshold", "below threshold", "above threshold"
AT_THRESHOLD: Final = (THRESHOLD, BELOW, ABOVE)
"""Kinds of the rows of each tested split."""
BESIDES: Final = ((MISSING_VALUES, np.nan), (ZERO_VALUES, 0.0))
"""Kinds and values of further rows of a split, as far as the number of rows allows."""

SPECIAL: Final[dict[str, tuple[float, ...]]] = {
    MISSING_VALUES: (np.nan,),
    ZERO_VALUES: (0.0,),
    "negative zero": (-0.0,),
    INFINITE_VALUES: (np.inf, -np.inf),
    "near zero": (1e-35, -1e-35, 1.1e-35, 1e-30, -1e-30),
    "subnormal": (1e-45, -1e-45, 1e-40, -1e-40),
    "largest float32": (float(np.finfo(np.float32).max), float(np.finfo(np.float32).min)),
    "large integer": (2.0**24 + 2, -(2.0**24) - 2, 2.0**31, 2.0**53, 2.0**63),
    "timestamp": (1_700_000_000.0, 1_700_000_000_000.0),
}
"""Kind -> values for each used feature, rounded to float32."""

IN_WORDS: Final[dict[str, str]] = {
    THRESHOLD: "a value equal to a threshold",
    BELOW: "a value one float32 step below a threshold",
    ABOVE: "a value one float32 step above a threshold",
    MISSING_VALUES: "a missing value",
    ZERO_VALUES: "the value 0",
    "negative zero": "the value -0",
    INFINITE_VALUES: "an infinite value",
    "near zero": "a value close to 0",
    "subnormal": "a subnormal value",
    "largest float32": "the largest float32",
    "large integer": "an integer above 2^24",
    "timestamp": "a time in seconds or milliseconds",
}
"""Kind of a row -> its changed value in words."""


@dataclass(frozen=True)
class ProbeRows:
    """Rows to score with the original and the converted model.

    Attributes:
        features: (N, F).
        kinds: (N,), kind of each row.
        changed: (N,), the feature with the value that is tested.
        num_splits, num_tested: different splits (feature and threshold) of the model, and those tested.
        num_reached: tested splits whose row reaches a node with this split.
    """

    features: Features
    kinds: NDArray[np.str_]
    changed: NDArray[np.int64]
    num_splits: int
    num_tested: int
    num_reached: int

    @property
    def values(self) -> NDArray[np.float32]:
        """(N,), the values that are tested."""
        values: NDArray[np.float32] = self.features[np.arange(len(self.features)), self.changed]
        return values


def make_probes(model: ShippedModel, documents: AnyFeatures | None, seed: int = 0) -> ProbeRows:
    """Returns the rows for a model; the same for the same model, documents and seed.

    Args:
        documents: (D, F) features of the data; None: rows are made from zeros.
    """
    rng = np.random.default_rng(seed)
    bases = _bases(documents, model.num_features, rng)
    most = min(MOST_ROWS, max(_MOST_CELLS // max(model.num_features, 1), 50))
    rows = _Rows(bases, [], [], [], [])
    num_splits = num_tested = num_reached = 0
    if isinstance(model.scorer, Ensemble):
        splits = _splits(model.scorer)
        capacity = int(most * _SHARE_OF_SPLITS)
        chosen = _sample(len(splits), capacity // len(AT_THRESHOLD), rng)
        left = capacity - len(AT_THRESHOLD) * len(chosen)
        besides = set(_sample(len(chosen), left // len(BESIDES), rng))
        num_splits, num_tested = len(splits), len(chosen)
        num_reached = _add_splits(rows, model.scorer, [splits[place] for place in chosen], besides)
    _add_special(rows, features_read(model.scorer), most - len(rows.kinds), rng)
    return ProbeRows(
        features=rows.features(),
        kinds=np.array(rows.kinds, dtype=np.str_),
        changed=np.array(rows.changed, dtype=np.int64),
        num_splits=num_splits,
        num_tested=num_tested,
        num_reached=num_reached,
    )


@dataclass
class _Rows:
    """The rows so far: base rows, and for each row its base, kind, feature and value."""

    bases: Features
    kinds: list[str]
    changed: list[int]
    values: list[float]
    base: list[Features]

    def add(self, kind: str, base: Features, feature: int, value: float) -> None:
        self.kinds.append(kind)
        self.changed.append(feature)
        self.values.append(value)
        self.base.append(base)

    def features(self) -> Features:
        if not self.base:
            return np.empty((0, self.bases.shape[1]), dtype=np.float32)
        features = np.stack(self.base)
        features[np.arange(len(features)), self.changed] = np.array(self.values, dtype=np.float32)
        return features


@dataclass(frozen=True)
class _Split:
    """A node with a feature and a threshold; several nodes may have the same."""

    tree: int
    node: int
    feature: int
    threshold: float


def _bases(documents: AnyFeatures | None, num_features: int, rng: np.random.Generator) -> Features:
    """Returns documents in random order; one row of zeros without documents."""
    if documents is None or not len(documents):
        return np.zeros((1, num_features), dtype=np.float32)
    most = max(min(_MOST_DOCUMENTS, _MOST_CELLS // num_features), 1)
    return gather_rows(documents, rng.permutation(len(documents))[:most])


def _sample(count: int, most: int, rng: np.random.Generator) -> list[int]:
    numbers = np.arange(count) if count <= most else np.sort(rng.permutation(count)[:most])
    return [int(number) for number in numbers]


def _splits(ensemble: Ensemble) -> list[_Split]:
    """Returns a node of each different split: the first one, in the order of the trees."""
    splits: dict[tuple[int, float], _Split] = {}
    for number, weighted in enumerate(ensemble.trees):
        tree = flat(weighted.root)
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            feature, threshold = int(tree.feature[node]), float(tree.threshold[node])
            splits.setdefault((feature, threshold), _Split(number, node, feature, threshold))
    return list(splits.values())


def _add_splits(rows: _Rows, ensemble: Ensemble, splits: Sequence[_Split], besides: Set[int]) -> int:
    """Adds the rows of splits, which are in the order of trees; returns how many reach their node.

    Args:
        besides: numbers of the splits that also get the rows of BESIDES.
    """
    num_reached = 0
    of_tree: dict[int, list[tuple[int, _Split]]] = {}
    for place, split in enumerate(splits):
        of_tree.setdefault(split.tree, []).append((place, split))
    for number, within in of_tree.items():
        tree = flat(ensemble.trees[number].root)
        document_of = _first_documents(tree, ensemble, rows.bases)
        end = _subtree_ends(tree)
        tested = []
        for place, split in within:
            document = document_of[split.node]
            base = rows.bases[max(document, 0)].copy()
            if document < 0:
                _force(base, tree, ensemble, split.node)
            for kind, value in (*_values_at(split.threshold), *(BESIDES if place in besides else ())):
                rows.add(kind, base, split.feature, value)
            at_threshold = base.copy()
            with np.errstate(over="ignore"):
                at_threshold[split.feature] = np.float32(split.threshold)
            tested.append(at_threshold)
        leaves = leaves_of(tree, np.stack(tested), ensemble.comparison, ensemble.threshold_dtype)
        nodes = np.array([split.node for _, split in within])
        num_reached += int(((nodes < leaves) & (leaves < end[nodes])).sum())
    return num_reached


def _values_at(threshold: float) -> Iterator[tuple[str, float]]:
    """Yields the kinds and values of the rows of a threshold."""
    with np.errstate(over="ignore"):
        at = np.float32(threshold)
        values = (at, np.nextafter(at, np.float32(-np.inf)), np.nextafter(at, np.float32(np.inf)))
    for kind, value in zip(AT_THRESHOLD, values, strict=True):
        if np.isfinite(value):  # the kind `infinite` tests infinities
            yield kind, float(value)


def _first_documents(tree: FlatTree, ensemble: Ensemble, documents: Features) -> NDArray[np.int64]:
    """Returns the (N,) first document that reaches each node; -1 if none does."""
    leaves = leaves_of(tree, documents, ensemble.comparison, ensemble.threshold_dtype)
    none = len(documents)
    first = np.full(len(tree.feature), none)
    np.minimum.at(first, leaves, np.arange(none))
    for node in np.flatnonzero(~tree.is_leaf)[::-1].tolist():  # children come after their parent
        first[node] = min(first[tree.left[node]], first[tree.right[node]])
    return np.where(first == none, -1, first)


def _subtree_ends(tree: FlatTree) -> NDArray[np.int64]:
    """Returns the (N,) number after the last node of each subtree; its nodes are consecutive."""
    end = np.arange(1, len(tree.feature) + 1)
    for node in np.flatnonzero(~tree.is_leaf)[::-1].tolist():
        end[node] = end[tree.right[node]]
    return end


def _force(document: Features, tree: FlatTree, ensemble: Ensemble, node: int) -> None:
    """Changes features of a document, (F,), so that it reaches a node where its path allows it."""
    largest_left = threshold_below if ensemble.comparison == "<" else threshold_at_most
    end = _subtree_ends(tree)
    bounds: dict[int, tuple[float, float]] = {}  # feature -> smallest and largest value
    here = 0
    while here != node:
        feature, last = int(tree.feature[here]), largest_left(float(tree.threshold[here]))
        low, high = bounds.get(feature, (-np.inf, np.inf))
        if node < end[tree.left[here]]:
            bounds[feature], here = (low, min(high, last)), int(tree.left[here])
        else:
            after = float(np.nextafter(np.float32(last), np.float32(np.inf)))
            bounds[feature], here = (max(low, after), high), int(tree.right[here])
    for feature, (low, high) in bounds.items():
        document[feature] = high if np.isfinite(high) else low


def _add_special(rows: _Rows, used: Sequence[int], most: int, rng: np.random.Generator) -> None:
    """Adds the values of SPECIAL for the used features, or for a sample of them."""
    pairs = [(kind, np.float32(value)) for kind, values in SPECIAL.items() for value in values]
    for place in _sample(len(used), max(most // len(pairs), 1), rng):
        base = rows.bases[int(rng.integers(len(rows.bases)))]
        for kind, value in pairs:
            rows.add(kind, base, used[place], float(value))
