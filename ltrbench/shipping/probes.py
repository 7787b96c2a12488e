"""Rows of features that test where conversions of trees break, made from the model. N rows, F features.

A row is a document of the data (or zeros) with one other value. At a threshold t of a feature the values are
the float32 closest to t, the next float32 below and above it, and as far as the number of rows allows a
missing value and 0: a document is chosen that reaches the split, or if none does, one that is changed so
that it does. In addition, each used feature gets the values of `SPECIAL` in one document. All splits are
tested if they fit into the number of rows, otherwise a sample drawn with a seed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import AnyFeatures, gather_rows, row_blocks
from ltrbench.models.trees import (
    LARGEST_ZERO,
    Ensemble,
    FlatTree,
    InnerNode,
    flat,
    leaves_of,
    nodes_of,
    sends_zero_left,
    threshold_at_most,
    threshold_below,
    weighted_values,
)
from ltrbench.models.xgboost_files import divides_by_presence
from ltrbench.native.nodes import NO_FEATURE
from ltrbench.rankers.importance import MOST_LISTED
from ltrbench.shapes import Features
from ltrbench.shipping.target import (
    ABSENT_ZEROS,
    INFINITE_VALUES,
    MISSING_VALUES,
    TINY_VALUES,
    ZERO_VALUES,
    CheckRequests,
    CheckRows,
    Engine,
    Export,
    Linear,
    ShippedModel,
    Target,
)

# ---- Values that an engine cannot treat as the model does (`Export.limits`), and documents with them.

_Values = NDArray[np.float32]

_HAS: Final[Mapping[str, Callable[[_Values], NDArray[np.bool_]]]] = {
    MISSING_VALUES: np.isnan,
    ZERO_VALUES: lambda values: np.abs(values) <= LARGEST_ZERO,
    TINY_VALUES: lambda values: (np.abs(values) <= LARGEST_ZERO) & (values != 0),
    INFINITE_VALUES: np.isinf,
}


def features_read(scorer: Ensemble | Linear) -> list[int]:
    """Returns the features that scores depend on, ascending."""
    if isinstance(scorer, Linear):
        return [int(feature) for feature in np.flatnonzero(scorer.weights)]
    used = {int(feature) for tree in scorer.trees for feature in flat(tree.root).feature}
    return sorted(used - {NO_FEATURE})


def limits_of_infinity(ensemble: Ensemble) -> dict[str, str]:
    """Returns the limit of formats whose thresholds are finite: a split needs an infinite one."""
    if not divides_by_presence(ensemble):
        return {}
    return {
        INFINITE_VALUES: "A split of the model separates missing values from all others. The format has no "
        "infinite thresholds and sends an infinite value to the missing ones. Use finite values."
    }


def limits_with_missing_as_zero(ensemble: Ensemble, engine: str) -> dict[str, str]:
    """Returns the limit of an engine in which a missing value is 0.

    Args:
        engine: name of the engine in the sentences.
    """
    if not sends_missing_elsewhere(ensemble):
        return {}
    return {
        MISSING_VALUES: f"A missing value is 0 in {engine}, but the model sends it elsewhere in a split. "
        "Train with 0 instead of missing values."
    }


def sends_missing_elsewhere(ensemble: Ensemble) -> bool:
    """Returns whether a split sends a missing value to another side than 0."""
    return any(
        isinstance(node, InnerNode)
        and not node.zero_missing
        and node.missing_left != sends_zero_left(node, ensemble.comparison)
        for tree in ensemble.trees
        for node in nodes_of(tree.root)
    )


def documents_with(kind: str, scorer: Ensemble | Linear, features: AnyFeatures) -> int | None:
    """Returns how many documents have a value of a kind in a used feature; None for an unknown kind."""
    if kind not in _HAS:
        return None
    used = features_read(scorer)
    return sum(int(_HAS[kind](block[:, used]).any(axis=1).sum()) for _, block in row_blocks(features))


def decided_by(kinds: Iterable[str], scorer: Ensemble | Linear, features: Features) -> NDArray[np.bool_]:
    """Returns (D,), whether a value of one of the kinds decides at a split that a document passes, or is
    multiplied by a weight.

    Args:
        features: (D, F).
    """
    conditions = [_HAS[kind] for kind in kinds if kind in _HAS]
    is_met = np.zeros(len(features), dtype=np.bool_)
    if not conditions:
        return is_met

    def has(values: _Values) -> NDArray[np.bool_]:
        return functools.reduce(np.logical_or, (condition(values) for condition in conditions))

    if isinstance(scorer, Linear):
        return np.asarray(has(features[:, features_read(scorer)]).any(axis=1))
    goes_left = np.less_equal if scorer.comparison == "<=" else np.less
    for weighted in scorer.trees:
        tree = flat(weighted.root)
        threshold = tree.threshold.astype(scorer.threshold_dtype)
        node = np.zeros(len(features), dtype=np.int64)
        rows = np.flatnonzero(~tree.is_leaf[node])
        while len(rows):
            here = node[rows]
            x = features[rows, tree.feature[here]]
            is_met[rows] |= has(x)
            is_missing = np.isnan(x) | (tree.zero_missing[here] & (np.abs(x) <= LARGEST_ZERO))
            left = np.where(is_missing, tree.missing_left[here], goes_left(x, threshold[here]))
            node[rows] = np.where(left, tree.left[here], tree.right[here])
            rows = rows[~tree.is_leaf[node[rows]]]
    return is_met


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
    ABSENT_ZEROS: "a feature that is 0 in the data and has no value in the engine",
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


# ---- The scores that the rounding of an engine leaves of a model. N rows.
#
# An engine sends a row to the same leaves as the model, and adds the same terms: the initial score, the
# weighted leaf values, and its offset. It rounds them to its own dtype. If it adds them in this order, its
# score is known to the last bit (`expected_scores`), and any other score is an error, whatever the number
# of trees.
#
# If it adds them in another order, the score may differ. With the unit roundoff u (2^-24 for float32, 2^-53
# for float64), a sum of n terms in any order has an error of at most
#
#     gamma(n - 1) sum of |terms|,    gamma(k) = k u / (1 - k u)
#
# (Higham, 2002, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 4.2, inequality
# (4.6) in the form with gamma of lemma 3.1). A term itself is rounded at most three times: leaf value,
# weight and their product. Subtraction of the offset rounds once more. Both sums have this error
# (`rounding_bounds`). The products of a linear model are compared in the same way.

EXACT = (
    "The score is the sum of the initial score, the weighted leaf values in the order of the trees and the "
    "offset, in the dtype of the engine, to the last bit."
)
FORMULA = (
    "Scores differ by rounding if |difference| <= sum over the expected score and the engine of "
    "k u / (1 - k u) times the sum of |terms|, with k = number of terms + 3 and the unit roundoff u of the "
    "dtype of the sum."
)
SOURCE = "Higham (2002), Accuracy and Stability of Numerical Algorithms, 2nd edition, section 4.2, (4.6)"

_ROUNDINGS = 3 + 1 - 1
"""Of a term, and of the offset's subtraction; a sum of n terms has n - 1 additions."""


def is_exact(model: ShippedModel, engine: Engine) -> bool:
    """Returns whether the scores of an engine are known to the last bit."""
    return engine.is_in_order and isinstance(model.scorer, Ensemble)


def expected_scores(
    model: ShippedModel, features: Features, engine: Engine, offset: float
) -> NDArray[np.float64]:
    """Returns the (N,) scores that the terms of the model have in the dtypes of an engine, with the offset.

    Args:
        features: (N, F).
    """
    scorer, dtype = model.scorer, np.dtype(engine.score_dtype)
    if isinstance(scorer, Linear):
        used = np.flatnonzero(scorer.weights)
        scores = features[:, used].astype(np.float64) @ scorer.weights[used]
        return np.asarray(scores + offset)
    leaf_dtype = np.dtype(engine.leaf_dtype or dtype)
    base_score = leaf_dtype.type(np.dtype(scorer.score_dtype).type(scorer.base_score))
    sums = np.full(len(features), base_score, dtype=dtype)
    for weighted in scorer.trees:
        tree = flat(weighted.root)
        values = weighted_values(tree, weighted.weight, scorer.score_dtype).astype(leaf_dtype).astype(dtype)
        sums += values[leaves_of(tree, features, scorer.comparison, scorer.threshold_dtype)]
    return (sums + dtype.type(offset)).astype(np.float64) if offset else sums.astype(np.float64)


def score_dtype_of(model: ShippedModel) -> str:
    """Returns the dtype in which the original model sums."""
    return model.scorer.score_dtype if isinstance(model.scorer, Ensemble) else "float64"


def rounding_bounds(
    model: ShippedModel, features: Features, dtypes: Sequence[str], offset: float = 0.0
) -> NDArray[np.float64]:
    """Returns the (N,) largest differences by rounding between two scores of each row.

    Args:
        features: (N, F).
        dtypes: the dtypes in which the two scores are summed.
        offset: what one of them adds to all scores.
    """
    num_terms, magnitudes = _terms(model.scorer, features)
    bounds = np.zeros(len(features))
    for dtype in dtypes:
        steps = num_terms + _ROUNDINGS
        product = steps * float(np.finfo(dtype).eps) / 2
        # A product below the smallest normal number has an absolute error instead of a relative one.
        smallest = steps * float(np.finfo(dtype).smallest_subnormal)
        bounds += product / (1 - product) * (magnitudes + abs(offset)) + smallest
    return bounds


def _terms(scorer: Ensemble | Linear, features: Features) -> tuple[int, NDArray[np.float64]]:
    """Returns the number of terms with initial score and offset, and the (N,) sums of their magnitudes."""
    if isinstance(scorer, Linear):
        used = np.flatnonzero(scorer.weights)
        finite = np.nan_to_num(features[:, used].astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        return len(used) + 2, np.abs(finite) @ np.abs(scorer.weights[used])
    magnitudes = np.full(len(features), abs(scorer.base_score))
    for weighted in scorer.trees:
        tree = flat(weighted.root)
        values = np.abs(tree.value * weighted.weight)
        magnitudes += values[leaves_of(tree, features, scorer.comparison, scorer.threshold_dtype)]
    return len(scorer.trees) + 2, magnitudes


# ---- Documents with expected scores, to check a deployed engine: check_rows.json.

CHECK_FORMAT = 1
"""Version of the format of check_rows.json."""
DOCUMENT = "document"
"""Kind of a row that is a document of the data."""

_NUM_QUERIES = 5
_MOST_CHECKED_DOCUMENTS = 20
_PROBES_OF_KIND = 3


@dataclass(frozen=True)
class _Chosen:
    """Rows to check, before they are scored: ids, queries, documents and kinds of (n, F) features."""

    ids: list[str]
    queries: list[str | None]
    documents: list[str | None]
    kinds: list[str]
    features: Features


def checked_rows(
    model: ShippedModel,
    target: Target,
    export: Export,
    engine: Engine | None,
    original: NDArray[np.float64],
    data: RankingDataset,
) -> tuple[dict[str, Any], CheckRequests | None]:
    """Returns the content of check_rows.json, and the requests that score its rows with the deployed engine.

    The rows are documents of a few queries, and probe rows without infinities. The expected score is that of
    the engine, with its offset; without an engine, of the original model plus the offset. Kinds that are
    limits of the target are left out, and rows that the requests leave out. If the engine can hold no row,
    the requests have no files, and no row is left out.

    Args:
        original: not used with an engine; (n,) scores of the original model for `chosen_features`.
    """
    chosen = _chosen(model, export, data)
    scores = original + export.offset if engine is None else engine.scores(chosen.features)
    bounds = _roundings(model, export, engine, chosen.features, scores)
    is_kept = np.isfinite(scores)  # JSON has no other numbers
    expected = np.asarray(scores, dtype=np.float64)
    rows = CheckRows(tuple(chosen.ids), chosen.features, _columns(model), expected).where(is_kept)
    requests = target.check_requests(model, export, rows)
    if requests is not None and len(requests.left_out) == len(rows.ids):
        requests = replace(requests, files={})
    left_out = requests.left_out if requests is not None and requests.files else {}
    records = [
        {
            "id": identity,
            "query": chosen.queries[row],
            "document": chosen.documents[row],
            "kind": chosen.kinds[row],
            "features": _by_name(model, chosen.features[row]),
            "score": float(scores[row]),
            "rounding": float(bounds[row]),
        }
        for row, identity in enumerate(chosen.ids)
        if is_kept[row] and identity not in left_out
    ]
    record = {"format": CHECK_FORMAT, "target": target.name, "model": model.name, "rows": records}
    return record, requests


def _roundings(
    model: ShippedModel,
    export: Export,
    engine: Engine | None,
    features: Features,
    scores: NDArray[np.floating[Any]],
) -> NDArray[np.float64]:
    """Returns the (n,) largest differences from the answer of the engine: an ulp of its dtype for the decimal
    numbers of the answer, if its scores are known to the last bit."""
    if engine is not None and is_exact(model, engine):
        return np.asarray(np.spacing(np.abs(scores).astype(engine.score_dtype)), dtype=np.float64)
    dtype = "float32" if engine is None else engine.leaf_dtype or engine.score_dtype
    return rounding_bounds(model, features, (score_dtype_of(model), dtype), export.offset)


def chosen_features(model: ShippedModel, export: Export, data: RankingDataset) -> Features:
    """Returns the (n, F) features of the rows in check_rows.json."""
    return _chosen(model, export, data).features


def _chosen(model: ShippedModel, export: Export, data: RankingDataset) -> _Chosen:
    chosen = _Chosen([], [], [], [], np.empty((0, model.num_features), dtype=np.float32))
    rows = list(_documents(data, chosen))
    parts = [gather_rows(data.features, np.array(rows, dtype=np.int64))]
    probes = make_probes(model, data.features)
    usable = ~np.isinf(probes.features).any(axis=1) & ~np.isin(probes.kinds, list(export.limits))
    for kind in dict.fromkeys(probes.kinds[usable].tolist()):
        of_kind = np.flatnonzero(usable & (probes.kinds == kind))[:_PROBES_OF_KIND]
        parts.append(probes.features[of_kind])
        for number in range(len(of_kind)):
            chosen.ids.append(f"probe-{kind.replace(' ', '-')}-{number + 1}")
            chosen.queries.append(None)
            chosen.documents.append(None)
            chosen.kinds.append(kind)
    return _Chosen(chosen.ids, chosen.queries, chosen.documents, chosen.kinds, np.concatenate(parts))


def _documents(data: RankingDataset, chosen: _Chosen) -> Iterator[int]:
    """Yields rows of a few queries, evenly spaced, and adds their names."""
    queries = np.unique(np.linspace(0, data.num_queries - 1, _NUM_QUERIES).astype(np.int64))
    for query in queries.tolist():
        start, stop = data.query_start[query : query + 2].tolist()
        for number, row in enumerate(range(start, min(stop, start + _MOST_CHECKED_DOCUMENTS))):
            chosen.ids.append(f"q{query + 1}-d{number + 1}")
            chosen.queries.append(str(data.query_ids[query]))
            chosen.documents.append(None if data.document_ids is None else str(data.document_ids[row]))
            chosen.kinds.append(DOCUMENT)
            yield row


def _by_name(model: ShippedModel, values: NDArray[np.float32]) -> Mapping[str, float | None]:
    """Returns name -> value of a document."""
    return {
        model.feature_names[place]: None if np.isnan(values[place]) else float(values[place])
        for place in _columns(model)
    }


def _columns(model: ShippedModel) -> tuple[int, ...]:
    """Returns the features of a row: all, or of very many those that the model reads."""
    if model.num_features <= MOST_LISTED:
        return tuple(range(model.num_features))
    return tuple(features_read(model.scorer))
