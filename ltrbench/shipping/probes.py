"""Rows of features that test where conversions of trees break, made from the model. N rows, F features.

A row is a document of the data with one other value. At a threshold t of a feature the values are
the float32 closest to t, the next float32 below and above it, and as far as the number of rows allows a
missing value and 0: a document is chosen that reaches the split, or if none does, one that is changed so
that it does. In addition, each used feature gets the values of `SPECIAL` in one document. All splits are
tested if they fit into the number of rows, otherwise a sample drawn with a seed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

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
    float32_thresholds,
    leaf_sums,
    leaves_of,
    nodes_of,
    sends_zero_left,
    visits,
    weighted_values,
)
from ltrbench.models.xgboost_files import divides_by_presence
from ltrbench.native import NO_FEATURE
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
    ScoreFunction,
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
    for weighted in scorer.trees:
        tree = flat(weighted.root)
        for rows, nodes in visits(tree, features, scorer.comparison, scorer.threshold_dtype):
            x = features[rows, tree.feature[nodes]]
            is_met[rows] |= has(x) & ~tree.is_leaf[nodes]
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
    """

    features: Features
    kinds: NDArray[np.str_]
    changed: NDArray[np.int64]
    num_splits: int
    num_tested: int

    @property
    def values(self) -> NDArray[np.float32]:
        """(N,), the values that are tested."""
        values: NDArray[np.float32] = self.features[np.arange(len(self.features)), self.changed]
        return values


class _Row(NamedTuple):
    """A document (F,) in which a feature gets another value."""

    kind: str
    document: Features
    feature: int
    value: float


class _Split(NamedTuple):
    """A node with a feature and a threshold; several nodes may have the same."""

    tree: int
    node: int
    feature: int
    threshold: float


def make_probes(model: ShippedModel, documents: AnyFeatures, seed: int = 0) -> ProbeRows:
    """Returns the rows for a model; the same for the same model, documents and seed.

    Args:
        documents: (D, F) features of the data.
    """
    rng = np.random.default_rng(seed)
    num_bases = max(min(_MOST_DOCUMENTS, _MOST_CELLS // model.num_features), 1)
    bases = gather_rows(documents, rng.permutation(len(documents))[:num_bases])
    most = min(MOST_ROWS, max(_MOST_CELLS // model.num_features, 50))
    rows: list[_Row] = []
    splits: list[_Split] = []
    chosen: list[int] = []
    if isinstance(model.scorer, Ensemble):
        splits = _splits(model.scorer)
        capacity = int(most * _SHARE_OF_SPLITS)
        chosen = _sample(len(splits), capacity // len(AT_THRESHOLD), rng)
        besides = set(_sample(len(chosen), (capacity - len(AT_THRESHOLD) * len(chosen)) // len(BESIDES), rng))
        rows += _rows_at_splits(model.scorer, [splits[index] for index in chosen], besides, bases)
    pairs = [(kind, value) for kind, values in SPECIAL.items() for value in values]
    used = features_read(model.scorer)
    for index in _sample(len(used), max((most - len(rows)) // len(pairs), 1), rng):
        base = bases[int(rng.integers(len(bases)))]
        rows += [_Row(kind, base, used[index], value) for kind, value in pairs]
    features = np.array([row.document for row in rows], dtype=np.float32).reshape(-1, model.num_features)
    changed = np.array([row.feature for row in rows], dtype=np.int64)
    features[np.arange(len(rows)), changed] = np.array([row.value for row in rows], dtype=np.float32)
    kinds = np.array([row.kind for row in rows], dtype=np.str_)
    return ProbeRows(features, kinds, changed, len(splits), len(chosen))


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


def _rows_at_splits(
    ensemble: Ensemble, splits: Sequence[_Split], besides: Set[int], bases: Features
) -> Iterator[_Row]:
    """Yields the rows of splits, which are in the order of trees.

    Args:
        besides: numbers of the splits that also get the rows of BESIDES.
    """
    for number, of_tree in itertools.groupby(enumerate(splits), key=lambda item: item[1].tree):
        tree = flat(ensemble.trees[number].root)
        document_of = _first_documents(tree, ensemble, bases)
        for index, split in of_tree:
            document = bases[max(document_of[split.node], 0)].copy()
            if document_of[split.node] < 0:
                _force(document, tree, ensemble, split.node)
            for kind, value in (*_values_at(split.threshold), *(BESIDES if index in besides else ())):
                yield _Row(kind, document, split.feature, value)


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


def _force(document: Features, tree: FlatTree, ensemble: Ensemble, node: int) -> None:
    """Changes features of a document, (F,), so that it reaches a node where its path allows it."""
    largest_left = float32_thresholds(tree.threshold, ensemble.comparison)
    bounds: dict[int, tuple[float, float]] = {}  # feature -> smallest and largest value
    here = 0
    while here != node:
        feature, last = int(tree.feature[here]), float(largest_left[here])
        low, high = bounds.get(feature, (-np.inf, np.inf))
        if node < tree.right[here]:  # the nodes of the left subtree come before the right child
            bounds[feature], here = (low, min(high, last)), int(tree.left[here])
        else:
            after = float(np.nextafter(np.float32(last), np.float32(np.inf)))
            bounds[feature], here = (max(low, after), high), int(tree.right[here])
    for feature, (low, high) in bounds.items():
        document[feature] = high if np.isfinite(high) else low


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
    sums = leaf_sums(
        scorer,
        features,
        np.full(len(features), base_score, dtype=dtype),
        lambda tree, weight: (
            weighted_values(tree, weight, scorer.score_dtype).astype(leaf_dtype).astype(dtype)
        ),
    )
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
    start = np.full(len(features), abs(scorer.base_score))
    magnitudes = leaf_sums(scorer, features, start, lambda tree, weight: np.abs(tree.value * weight))
    return len(scorer.trees) + 2, magnitudes.astype(np.float64)


# ---- Documents with expected scores, to check a deployed engine: check_rows.json.

CHECK_FORMAT = 1
"""Version of the format of check_rows.json."""
DOCUMENT = "document"
"""Kind of a row that is a document of the data."""

_NUM_QUERIES = 5
_MOST_CHECKED_DOCUMENTS = 20
_PROBES_OF_KIND = 3


def checked_rows(
    model: ShippedModel,
    target: Target,
    export: Export,
    engine: Engine | None,
    predict: ScoreFunction,
    data: RankingDataset,
) -> tuple[dict[str, Any], CheckRequests | None]:
    """Returns the content of check_rows.json, and the requests that score its rows with the deployed engine.

    The rows are documents of a few queries, and probe rows without infinities. The expected score is that of
    the engine, with its offset; without an engine, of the original model plus the offset. Kinds that are
    limits of the target are left out, and rows that the requests leave out. If the engine can hold no row,
    the requests have no files, and no row is left out.

    Args:
        predict: scores of the original model.
    """
    chosen, features = _chosen(model, export, data)
    scores = predict(features) + export.offset if engine is None else engine.scores(features)
    bounds = _roundings(model, export, engine, features, scores)
    columns = _columns(model)
    is_kept = np.isfinite(scores)  # JSON has no other numbers
    ids = tuple(record["id"] for record in chosen)
    rows = CheckRows(ids, features, columns, np.asarray(scores, dtype=np.float64)).where(is_kept)
    requests = target.check_requests(model, export, rows)
    if requests is not None and len(requests.left_out) == len(rows.ids):
        requests = replace(requests, files={})
    left_out = requests.left_out if requests is not None and requests.files else {}
    records = [
        {
            **record,
            "features": {
                model.feature_names[index]: None if np.isnan(values[index]) else float(values[index])
                for index in columns
            },
            "score": float(score),
            "rounding": float(bound),
        }
        for record, values, score, bound in zip(chosen, features, scores, bounds, strict=True)
        if np.isfinite(score) and record["id"] not in left_out
    ]
    return {"format": CHECK_FORMAT, "target": target.name, "model": model.name, "rows": records}, requests


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


def _chosen(
    model: ShippedModel, export: Export, data: RankingDataset
) -> tuple[list[dict[str, Any]], Features]:
    """Returns id, query, document and kind of the rows, and their (n, F) features."""
    records: list[dict[str, Any]] = []
    parts = []
    queries = np.unique(np.linspace(0, data.num_queries - 1, _NUM_QUERIES).astype(np.int64))
    for query in queries.tolist():
        start, stop = data.query_start[query : query + 2].tolist()
        rows = np.arange(start, min(stop, start + _MOST_CHECKED_DOCUMENTS))
        parts.append(gather_rows(data.features, rows))
        for number, row in enumerate(rows.tolist()):
            document = None if data.document_ids is None else str(data.document_ids[row])
            record = {"id": f"q{query + 1}-d{number + 1}", "query": str(data.query_ids[query])}
            records.append({**record, "document": document, "kind": DOCUMENT})
    probes = make_probes(model, data.features)
    usable = ~np.isinf(probes.features).any(axis=1) & ~np.isin(probes.kinds, list(export.limits))
    for kind in dict.fromkeys(probes.kinds[usable].tolist()):
        of_kind = np.flatnonzero(usable & (probes.kinds == kind))[:_PROBES_OF_KIND]
        parts.append(probes.features[of_kind])
        for number in range(len(of_kind)):
            identity = f"probe-{kind.replace(' ', '-')}-{number + 1}"
            records.append({"id": identity, "query": None, "document": None, "kind": kind})
    return records, np.concatenate(parts)


def _columns(model: ShippedModel) -> tuple[int, ...]:
    """Returns the features of a row: all, or of very many those that the model reads."""
    if model.num_features <= MOST_LISTED:
        return tuple(range(model.num_features))
    return tuple(features_read(model.scorer))
