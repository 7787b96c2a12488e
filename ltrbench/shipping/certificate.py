"""The certificate of a converted model: probe rows, scores, rankings and verdict.

Scores and rankings of a converted model are compared with those of the original on documents, and on probe
rows made from the model. D documents, Q queries, N rows, F features.

A pair of documents of a query is ordered if its original scores differ by more than the rounding bounds of
the two documents together; otherwise it counts as tied. The ranking of a query has changed if the converted
scores of an ordered pair are equal or in the other order. An engine that makes the same decisions in all
trees never changes a ranking.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments, RankingDataset
from ltrbench.data.features import AnyFeatures, gather_rows, row_blocks
from ltrbench.metrics import DEFAULT, Convention, evaluate
from ltrbench.models.networks import Network
from ltrbench.models.trees import (
    Ensemble,
    FlatTree,
    ensemble_scores,
    flat,
    float32_thresholds,
    leaf_sums,
    leaves_of,
    of_words,
    weighted_values,
)
from ltrbench.shapes import Features, QueryStart, Scores
from ltrbench.shipping.target import (
    ABSENT_ZEROS,
    INFINITE_VALUES,
    LARGEST_VALUES,
    MISSING_VALUES,
    NEGATIVE_SCORES,
    ZERO_VALUES,
    Engine,
    Export,
    Linear,
    ScoreFunction,
    ShippedModel,
    features_read,
    has_values,
)
from ltrbench.statistics.checks import AT_MOST, FAILS, Check
from ltrbench.statistics.ranks import mean_ranks
from ltrbench.tables import listed

# ---- Rows that test where conversions of trees break.
#
# A row is a document of the data with one other value. At a threshold t of a feature the values are the
# float32 closest to t, the next float32 below and above it, and as far as the number of rows allows a missing
# value and 0: a document is chosen that reaches the split, or if none does, one that is changed so that it
# does. At a set of categories, the values are a code of the set, another code, and a code of no category. In
# addition, each used feature gets the values of `SPECIAL` in one document. All splits are tested if they fit
# into the number of rows, otherwise a sample drawn with a seed.

MOST_ROWS = 20_000
"""Maximum number of rows."""
_MOST_CELLS = 1 << 26
"""Maximum number of values in all rows: 256 MB."""
_MOST_DOCUMENTS = 2_000
"""Number of documents of the data among which one is searched for each split."""
_SHARE_OF_SPLITS = 0.75
"""Share of the rows for values at splits; the others are for SPECIAL."""

THRESHOLD = "threshold"
BELOW = "below threshold"
ABOVE = "above threshold"
AT_THRESHOLD: Final = (THRESHOLD, BELOW, ABOVE)
"""Kinds of the rows of each tested split."""
IN_SET = "category of a set"
NOT_IN_SET = "category outside a set"
UNKNOWN = "unknown category"
"""Kinds of the rows of each tested set of categories."""
BESIDES: Final = ((MISSING_VALUES, np.nan), (ZERO_VALUES, 0.0))
"""Kinds and values of further rows of a split, as far as the number of rows allows."""

_FLOAT32 = np.finfo(np.float32)

SPECIAL: Final[dict[str, tuple[float, ...]]] = {
    MISSING_VALUES: (np.nan,),
    ZERO_VALUES: (0.0,),
    "negative zero": (-0.0,),
    INFINITE_VALUES: (np.inf, -np.inf),
    "near zero": (1e-35, -1e-35, 1.1e-35, 1e-30, -1e-30),
    "subnormal": (1e-45, -1e-45, 1e-40, -1e-40),
    LARGEST_VALUES: (float(_FLOAT32.max), float(_FLOAT32.min)),
    "large integer": (
        2.0**24 + 2,
        -(2.0**24) - 2,
        2.0**31,
        2.0**53,
        2.0**63,
    ),
    "timestamp": (1_700_000_000.0, 1_700_000_000_000.0),
}
"""Kind -> values for each used feature, rounded to float32."""

IN_WORDS: Final[dict[str, str]] = {
    THRESHOLD: "a value equal to a threshold",
    BELOW: "a value one float32 step below a threshold",
    ABOVE: "a value one float32 step above a threshold",
    IN_SET: "a category of the set of a split",
    NOT_IN_SET: "a category outside the set of a split",
    UNKNOWN: "a code that is no category",
    MISSING_VALUES: "a missing value",
    ZERO_VALUES: "the value 0",
    ABSENT_ZEROS: "a feature that is 0 in the data and has no value in the engine",
    "negative zero": "the value -0",
    INFINITE_VALUES: "an infinite value",
    "near zero": "a value close to 0",
    "subnormal": "a subnormal value",
    LARGEST_VALUES: "the largest float32",
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
        num_splits, num_tested: different splits (feature, and threshold or set) of the model, and the
            tested ones.
    """

    features: Features
    kinds: NDArray[np.str_]
    changed: NDArray[np.int64]
    num_splits: int
    num_tested: int


class _Row(NamedTuple):
    """A document (F,) in which a feature gets another value."""

    kind: str
    document: Features
    feature: int
    value: float


@dataclass(frozen=True, kw_only=True)
class _Split:
    """A node with a feature, and a threshold or a set of categories; several nodes may have the same.

    Attributes:
        codes: bits of the codes of the set; 0: the node has a threshold.
        unknown: a code that is no category.
    """

    tree: int
    node: int
    feature: int
    threshold: float
    codes: int = 0
    unknown: int = 0


def make_probes(
    model: ShippedModel, documents: AnyFeatures, seed: int = 0
) -> ProbeRows:
    """Returns the rows for a model; the same for the same model, documents and seed.

    Args:
        documents: (D, F) features of the data.
    """
    rng = np.random.default_rng(seed)
    most_bases = max(min(_MOST_DOCUMENTS, _MOST_CELLS // model.num_features), 1)
    most_rows = min(MOST_ROWS, max(_MOST_CELLS // model.num_features, 50))
    shuffled = rng.permutation(len(documents))
    bases = gather_rows(documents, shuffled[:most_bases])
    rows: list[_Row] = []
    splits: list[_Split] = []
    num_tested = 0
    if isinstance(model.scorer, Ensemble):
        splits = _splits(model.scorer, model)
        most_at_splits = int(most_rows * _SHARE_OF_SPLITS)
        rows, num_tested = _rows_of_splits(
            model.scorer, splits, bases, most_at_splits, rng
        )
    with_sets = {split.feature for split in splits if split.codes}
    features = features_read(model.scorer)
    most_special = most_rows - len(rows)
    rows += _rows_of_special_values(features, with_sets, bases, most_special, rng)
    if model.refuses_missing:
        rows = [row for row in rows if row.kind != MISSING_VALUES]
    return _probe_rows(rows, model.num_features, len(splits), num_tested)


def _rows_of_splits(
    ensemble: Ensemble,
    splits: Sequence[_Split],
    bases: Features,
    most: int,
    rng: np.random.Generator,
) -> tuple[list[_Row], int]:
    """Returns at most about `most` rows at a sample of the splits, and the size of the sample."""
    chosen = _sample(len(splits), most // len(AT_THRESHOLD), rng)
    tested = [splits[index] for index in chosen]
    num_left = most - len(AT_THRESHOLD) * len(tested)
    besides = _sample(len(tested), num_left // len(BESIDES), rng)
    rows = list(_rows_at_splits(ensemble, tested, set(besides), bases))
    return rows, len(tested)


def _rows_of_special_values(
    features: Sequence[int],
    with_sets: Set[int],
    bases: Features,
    most: int,
    rng: np.random.Generator,
) -> Iterator[_Row]:
    """Yields a row for each special value of a sample of the features.

    Args:
        with_sets: features with codes of categories, which have only the values that may be codes.
    """
    num_values = sum(map(len, SPECIAL.values()))
    for index in _sample(len(features), max(most // num_values, 1), rng):
        feature = features[index]
        base = bases[int(rng.integers(len(bases)))]
        for kind, values in SPECIAL.items():
            if feature in with_sets and kind not in (MISSING_VALUES, ZERO_VALUES):
                continue
            for value in values:
                yield _Row(kind, base, feature, value)


def _probe_rows(
    rows: Sequence[_Row], num_features: int, num_splits: int, num_tested: int
) -> ProbeRows:
    """Returns rows as arrays, with the value of each in its document."""
    documents = np.array([row.document for row in rows], dtype=np.float32)
    features = documents.reshape(-1, num_features)
    changed = np.array([row.feature for row in rows], dtype=np.int64)
    values = np.array([row.value for row in rows], dtype=np.float32)
    features[np.arange(len(rows)), changed] = values
    kinds = np.array([row.kind for row in rows], dtype=np.str_)
    return ProbeRows(features, kinds, changed, num_splits, num_tested)


def _sample(count: int, most: int, rng: np.random.Generator) -> list[int]:
    numbers = np.arange(count)
    if count > most:
        numbers = np.sort(rng.permutation(count)[:most])
    return [int(number) for number in numbers]


def _splits(ensemble: Ensemble, model: ShippedModel) -> list[_Split]:
    """Returns a node of each different split: the first one, in the order of the trees."""
    splits: dict[tuple[int, float, int], _Split] = {}
    num_categories = [
        len(model.categories.get(name, ())) for name in model.feature_names
    ]
    for number, weighted in enumerate(ensemble.trees):
        tree = flat(weighted.root)
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            feature = int(tree.feature[node])
            threshold = float(tree.threshold[node])
            codes = of_words(tree.categories[node])
            unknown = 0
            if codes:
                threshold = 0.0
                unknown = max(num_categories[feature], codes.bit_length())
            split = _Split(
                tree=number,
                node=node,
                feature=feature,
                threshold=threshold,
                codes=codes,
                unknown=unknown,
            )
            splits.setdefault((feature, threshold, codes), split)
    return list(splits.values())


def _rows_at_splits(
    ensemble: Ensemble, splits: Sequence[_Split], besides: Set[int], bases: Features
) -> Iterator[_Row]:
    """Yields the rows of splits, which are in the order of trees.

    Args:
        besides: numbers of the splits that also get the rows of BESIDES.
    """
    splits_of_tree: dict[int, list[int]] = {}
    for index, split in enumerate(splits):
        splits_of_tree.setdefault(split.tree, []).append(index)
    for number, indices in splits_of_tree.items():
        tree = flat(ensemble.trees[number].root)
        first_documents = _first_documents(tree, ensemble, bases)
        for index in indices:
            split = splits[index]
            first = int(first_documents[split.node])
            if first >= 0:
                document = bases[first]
            else:
                document = bases[0].copy()
                _force(document, tree, ensemble, split.node)
            values = list(_values_at(split))
            if index in besides:
                values += BESIDES
            for kind, value in values:
                yield _Row(kind, document, split.feature, value)


def _values_at(split: _Split) -> Iterator[tuple[str, float]]:
    """Yields the kinds and values of the rows of a threshold or of a set of categories."""
    if split.codes:
        yield IN_SET, split.codes.bit_length() - 1
        first_outside = (~split.codes & split.codes + 1).bit_length() - 1
        if first_outside < split.unknown:
            yield NOT_IN_SET, first_outside
        yield UNKNOWN, split.unknown
        return
    with np.errstate(over="ignore"):
        at = np.float32(split.threshold)
        below = np.nextafter(at, np.float32(-np.inf))
        above = np.nextafter(at, np.float32(np.inf))
    values = (at, below, above)
    for kind, value in zip(AT_THRESHOLD, values, strict=True):
        if np.isfinite(value):  # the kind `infinite` tests infinities
            yield kind, float(value)


def _first_documents(
    tree: FlatTree, ensemble: Ensemble, documents: Features
) -> NDArray[np.int64]:
    """Returns the (N,) first document that reaches each node; -1 if none does."""
    leaves = leaves_of(tree, documents, ensemble.comparison, ensemble.threshold_dtype)
    none = len(documents)
    first = np.full(len(tree.feature), none)
    np.minimum.at(first, leaves, np.arange(none))
    # Children come after their parent.
    for node in np.flatnonzero(~tree.is_leaf)[::-1].tolist():
        of_left = first[tree.left[node]]
        of_right = first[tree.right[node]]
        first[node] = min(of_left, of_right)
    return np.where(first == none, -1, first)


def _force(document: Features, tree: FlatTree, ensemble: Ensemble, node: int) -> None:
    """Changes features of a document, (F,), so that it reaches a node where its path allows it."""
    largest_left = float32_thresholds(tree.threshold, ensemble.comparison)
    bounds: dict[int, tuple[float, float]] = {}  # feature -> smallest and largest value
    # Feature -> bits of its possible codes; all if they are negative.
    sets: dict[int, int] = {}
    here = 0
    while here != node:
        feature = int(tree.feature[here])
        # The nodes of the left subtree come before the right child.
        is_left = node < tree.right[here]
        codes = of_words(tree.categories[here])
        if codes:
            of_side = codes if is_left else ~codes
            sets[feature] = sets.get(feature, -1) & of_side
        else:
            low, high = bounds.get(feature, (-np.inf, np.inf))
            last = float(largest_left[here])
            if is_left:
                bounds[feature] = (low, min(high, last))
            else:
                after = np.nextafter(np.float32(last), np.float32(np.inf))
                bounds[feature] = (max(low, float(after)), high)
        here = int(tree.left[here] if is_left else tree.right[here])
    for feature, (low, high) in bounds.items():
        document[feature] = high if np.isfinite(high) else low
    for feature, possible in sets.items():
        last_bit = possible.bit_length()
        if possible > 0:
            last_bit -= 1
        document[feature] = max(last_bit, 0)


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
    scorer = model.scorer
    dtype = np.dtype(engine.score_dtype)
    if isinstance(scorer, Network):
        return np.asarray(scorer.terms(features).sum(axis=1) + offset)
    if isinstance(scorer, Linear):
        used = np.flatnonzero(scorer.weights)
        values = features[:, used].astype(np.float64)
        return np.asarray(values @ scorer.weights[used] + offset)
    leaf_dtype = np.dtype(engine.leaf_dtype or dtype)
    base_score = leaf_dtype.type(np.dtype(scorer.score_dtype).type(scorer.base_score))

    def added(tree: FlatTree, weight: float) -> NDArray[Any]:
        values = weighted_values(tree, weight, scorer.score_dtype)
        return values.astype(leaf_dtype).astype(dtype)

    start = np.full(len(features), base_score, dtype=dtype)
    sums = leaf_sums(scorer, features, start, added)
    if offset:
        sums = sums + dtype.type(offset)
    return sums.astype(np.float64)


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
        relative = product / (1 - product)
        bounds += relative * (magnitudes + abs(offset)) + smallest
    return bounds


def _terms(
    scorer: Ensemble | Linear | Network, features: Features
) -> tuple[int, NDArray[np.float64]]:
    """Returns the number of terms with initial score and offset, and the (N,) sums of their magnitudes; of a
    network the number in all layers, and the magnitudes in the last one, to which rounding is relative."""
    if isinstance(scorer, Network):
        sizes = np.abs(scorer.terms(features)).sum(axis=1)
        magnitudes = np.nan_to_num(sizes)
        # The rounding of earlier layers is not smaller where most of the last layer is 0.
        return scorer.num_terms, np.maximum(magnitudes, np.median(magnitudes))
    if isinstance(scorer, Linear):
        used = np.flatnonzero(scorer.weights)
        values = features[:, used].astype(np.float64)
        finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
        magnitudes = np.abs(finite) @ np.abs(scorer.weights[used])
        return len(used) + 2, magnitudes

    def added(tree: FlatTree, weight: float) -> NDArray[Any]:
        return np.abs(tree.value * weight)

    start = np.full(len(features), abs(scorer.base_score))
    magnitudes = leaf_sums(scorer, features, start, added)
    return len(scorer.trees) + 2, magnitudes.astype(np.float64)


# ---- Scores and rankings of a converted model against those of the original.

METRIC = "ndcg@10"

_CELLS = 1 << 22
"""Number of pairs that are compared at a time."""


@dataclass(frozen=True)
class MetricLoss:
    """The means over queries of both models, and the loss: original minus converted."""

    original: float
    converted: float
    loss: float


@dataclass
class RankingComparison:
    """Converted scores against original scores.

    Attributes:
        documents, queries: numbers of what was compared.
        equal_scores: number of documents with exactly the same score.
        largest_difference: largest absolute difference of two scores.
        changed_queries: index of a query whose ranking has changed -> rows of two of its documents, the first
            of which was ranked higher: the wrong pair with the largest difference of original scores.
        reversed_pairs: number of ordered pairs in the other order.
        tied_pairs: number of ordered pairs with equal converted scores.
        reversed_pairs_within_rounding: number of pairs that count as tied, in the other order.
        tied_pairs_within_rounding: number of pairs that count as tied, and have different original and equal
            converted scores.
        metric: NDCG@10 of both; None if no query counts or there are no labels.
    """

    documents: int
    queries: int
    equal_scores: int
    largest_difference: float
    changed_queries: dict[int, tuple[int, int]] = field(default_factory=dict)
    reversed_pairs: int = 0
    tied_pairs: int = 0
    reversed_pairs_within_rounding: int = 0
    tied_pairs_within_rounding: int = 0
    metric: MetricLoss | None = None

    def describe_reordered(self) -> str:
        """Returns how rounding changed the order of documents, as the end of a sentence, or nothing."""
        counts = {
            "in the other order": self.reversed_pairs_within_rounding,
            "tied": self.tied_pairs_within_rounding,
        }
        parts = []
        for how, count in counts.items():
            if count == 1:
                parts.append(f"1 pair {how}")
            elif count:
                parts.append(f"{count} pairs {how}")
        if not parts:
            return ""
        return f", which leaves {' and '.join(parts)}"

    def record(self) -> dict[str, Any]:
        """Returns the JSON form."""
        metric = None
        if self.metric is not None:
            metric = {"name": METRIC, **vars(self.metric)}
        return {
            **vars(self),
            "changed_queries": len(self.changed_queries),
            "metric": metric,
        }


def compare_scores(
    judgments: Judgments,
    original: NDArray[np.float64],
    converted: NDArray[np.float64],
    bounds: NDArray[np.float64],
    convention: Convention | None = None,
) -> RankingComparison:
    """Compares (D,) converted scores, without their offset, with (D,) original scores.

    Args:
        bounds: (D,), by how much rounding alone moves the converted scores.
        convention: convention of NDCG@10; None: without it.
    """
    differences = difference_of(original, converted)
    metric = None
    if convention is not None:
        metric = _metric_loss(judgments, original, converted, convention)
    comparison = RankingComparison(
        documents=judgments.num_documents,
        queries=judgments.num_queries,
        equal_scores=int((differences == 0).sum()),
        largest_difference=float(differences.max()),
        metric=metric,
    )
    of_queries = itertools.pairwise(judgments.query_start.tolist())
    for query, (start, stop) in enumerate(of_queries):
        before = original[start:stop]
        after = converted[start:stop]
        # Only the pairs of a query with another order or other ties need to be counted.
        if not np.array_equal(mean_ranks(before), mean_ranks(after)):
            pair = _count_pairs(comparison, before, after, bounds[start:stop])
            if pair is not None:
                first, second = pair
                comparison.changed_queries[query] = (start + first, start + second)
    return comparison


def _metric_loss(
    judgments: Judgments,
    original: NDArray[np.float64],
    converted: NDArray[np.float64],
    convention: Convention,
) -> MetricLoss | None:
    """Returns how much of the metric is lost; None if it is not defined on these queries."""
    ranked = np.where(np.isnan(converted), -np.inf, converted)
    means = []
    for scores in (original, ranked):
        evaluation = evaluate(judgments, scores, [METRIC], convention)
        means.append(evaluation.means[METRIC])
    mean, converted_mean = means
    if np.isnan(mean):
        return None
    return MetricLoss(mean, converted_mean, mean - converted_mean)


def difference_of(
    original: NDArray[np.float64], converted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the absolute differences; 0 for equal infinities, infinity if only one score is a number."""
    with np.errstate(invalid="ignore"):
        differences = np.abs(converted - original)
    both_missing = np.isnan(converted) & np.isnan(original)
    is_same = (converted == original) | both_missing
    differences = np.where(np.isfinite(differences), differences, np.inf)
    return np.where(is_same, 0.0, differences)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of N documents of a query with all n documents.

    Attributes:
        gap: (N, n), by how much the original score of the first document is higher.
        sign: (N, n), sign of the difference of the converted scores; 0 for equal ones, NaN if one is no
            number.
        is_ordered: (N, n), whether the gap is larger than rounding.
    """

    gap: NDArray[np.float64]
    sign: NDArray[np.float64]
    is_ordered: NDArray[np.bool_]


def _pairs(
    original: NDArray[np.float64],
    converted: NDArray[np.float64],
    bounds: NDArray[np.float64],
    rows: slice,
) -> _Pairs:
    """Returns the pairs of some rows of a query with all its (n,) documents."""
    with np.errstate(invalid="ignore"):
        gap = original[rows, None] - original
        gap = np.where(np.isnan(gap), 0.0, gap)
        sign = np.sign(converted[rows, None] - converted)
        is_tied = converted[rows, None] == converted
        is_ordered = gap > bounds[rows, None] + bounds
    return _Pairs(gap, np.where(is_tied, 0.0, sign), is_ordered)


def _count_pairs(
    comparison: RankingComparison,
    original: NDArray[np.float64],
    converted: NDArray[np.float64],
    bounds: NDArray[np.float64],
) -> tuple[int, int] | None:
    """Counts the pairs of a query; returns the wrong pair with the largest difference, None without one."""
    largest = -1.0
    pair = None
    size = max(_CELLS // len(original), 1)
    for first in range(0, len(original), size):
        pairs = _pairs(original, converted, bounds, slice(first, first + size))
        is_reversed = pairs.sign < 0
        is_tied = pairs.sign == 0
        is_within = (pairs.gap > 0) & ~pairs.is_ordered
        comparison.reversed_pairs += _number(pairs.is_ordered & is_reversed)
        comparison.tied_pairs += _number(pairs.is_ordered & is_tied)
        comparison.reversed_pairs_within_rounding += _number(is_within & is_reversed)
        comparison.tied_pairs_within_rounding += _number(is_within & is_tied)
        # Not only reversed or tied: a sign may be NaN.
        is_wrong = pairs.is_ordered & ~(pairs.sign > 0)
        gap_of_wrong = np.where(is_wrong, pairs.gap, -1.0)
        row, column = divmod(int(gap_of_wrong.argmax()), len(original))
        if gap_of_wrong[row, column] > largest:
            largest = float(gap_of_wrong[row, column])
            pair = (first + row, column)
    return pair


def _number(is_counted: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(is_counted))


# ---- Probe rows on which the converted model has another score, by kind, with the first example.


@dataclass(frozen=True)
class ProbeExample:
    """A row with another score.

    Attributes:
        feature: name of the feature with the tested value.
        value: the tested value.
        original, converted: scores.
    """

    feature: str
    value: float
    original: float
    converted: float


@dataclass(frozen=True)
class KindOfProbe:
    """The rows of one kind.

    Attributes:
        tested: number of rows.
        differing: rows whose scores differ by more than rounding.
        example: the first of them; None if there is none.
    """

    tested: int
    differing: int
    example: ProbeExample | None = None

    def sentence(self, kind: str, engine: str) -> str:
        """Returns what differs, for messages; `example` must exist."""
        assert self.example is not None
        example = self.example
        name = IN_WORDS.get(kind, kind)
        return (
            f"{name} has another score in {self.differing} of {self.tested} test rows, "
            f"such as {example.feature} = {example.value!r}: {example.original!r} in the original and "
            f"{example.converted!r} in {engine}"
        )


def compare_probes(
    probes: ProbeRows,
    model: ShippedModel,
    scored: Comparable,
    kept: NDArray[np.bool_],
) -> dict[str, KindOfProbe]:
    """Returns kind -> its rows; kinds in the order of the rows.

    Args:
        kept: (N,), the rows that are compared.
    """
    compared: dict[str, KindOfProbe] = {}
    for kind in dict.fromkeys(probes.kinds[kept].tolist()):
        of_kind = kept & (probes.kinds == kind)
        wrong_rows = np.flatnonzero(of_kind & scored.is_wrong)
        num_rows = int(of_kind.sum())
        if not wrong_rows.size:
            compared[kind] = KindOfProbe(num_rows, 0)
            continue
        row = wrong_rows[0]
        feature = probes.changed[row]
        example = ProbeExample(
            model.feature_names[feature],
            float(probes.features[row, feature]),
            float(scored.original[row]),
            float(scored.converted[row]),
        )
        compared[kind] = KindOfProbe(num_rows, len(wrong_rows), example)
    return compared


# ---- A certificate, and its form in certificate.json.

CERTIFICATE_FORMAT = 1
"""Version of the format of certificate.json."""

CERTIFIED = "certified"
REFUSED = "refused"
NOT_VERIFIED = "not verified"
"""`Certificate.status`."""


@dataclass(frozen=True)
class Limit:
    """A kind of values, or of scores, that the engine cannot treat as the model does.

    Attributes:
        sentence: of the target.
        documents: documents of the data with such values or scores.
        differing: probe rows with such values and another score, or with such scores.
    """

    sentence: str
    documents: int
    differing: int

    def __str__(self) -> str:
        if not self.documents:
            return self.sentence
        return f"{self.sentence} Documents of the data: {self.documents}."


@dataclass(frozen=True)
class Certificate:
    """What the converted model does to scores and rankings.

    Attributes:
        status: certified, refused or not verified.
        reason: why it is refused, in one paragraph; empty otherwise.
        engine: the evaluator; None: not verified.
        is_exact: whether the scores of the engine are known to the last bit.
        comparison: on the data; None: not verified.
        absent: on the data with missing values in place of zeros; None: not possible in the engine.
        probes: kind -> rows of this kind, without those that a limit explains.
        num_splits, num_tested: different splits of the model, and those that the probe rows test.
        limits: kind -> limit.
        offset: constant that the engine adds to all scores, as the target declares it.
        unexplained: rows of the documents whose scores differ by more than rounding, without those that a
            limit explains.
        negative_queries: number of queries with a negative score, if the engine does not allow any.
        tolerance: largest number of queries whose ranking may change, or that may have a negative score.
        rounded: number of documents whose original scores differ between float64 and the engine's float32
            features; None: the model or the engine does not compare so.
    """

    status: str
    reason: str = ""
    engine: Engine | None = None
    is_exact: bool = False
    comparison: RankingComparison | None = None
    absent: RankingComparison | None = None
    probes: Mapping[str, KindOfProbe] = field(default_factory=dict)
    num_splits: int = 0
    num_tested: int = 0
    limits: Mapping[str, Limit] = field(default_factory=dict)
    offset: float = 0.0
    unexplained: NDArray[np.int64] = field(
        default_factory=lambda: np.empty(0, dtype=np.int64)
    )
    negative_queries: int = 0
    tolerance: int = 0
    rounded: int | None = None

    @property
    def engine_name(self) -> str:
        return self.engine.name if self.engine else ""

    def rounding_of_features(self) -> str:
        """Returns the sentence about `rounded`, which must be a number."""
        documents = 0
        if self.comparison:
            documents = self.comparison.documents
        return (
            f"The model compares float64 features, and {self.engine_name} has float32 ones, which gives "
            f"{self.rounded} of {documents} documents another score. --to lightgbm and the verb serve keep "
            "float64."
        )


def certificate_record(certificate: Certificate) -> dict[str, Any]:
    """Returns the JSON form; numbers that are not finite become text."""
    comparison = certificate.comparison
    content: dict[str, Any] = {
        "format": CERTIFICATE_FORMAT,
        "status": certificate.status,
        "reason": certificate.reason or None,
        "verified_by": None,
        "tolerance": certificate.tolerance,
        "offset": certificate.offset,
        "comparison": None,
        "absent_zeros": None,
        "probes": None,
        "limits": {kind: vars(limit) for kind, limit in certificate.limits.items()},
    }
    if certificate.absent is not None:
        content["absent_zeros"] = certificate.absent.record()
    if certificate.engine is not None and comparison is not None:
        rounding: dict[str, Any] = {"formula": FORMULA, "source": SOURCE}
        if certificate.is_exact:
            rounding = {"formula": EXACT, "source": None}
        content["verified_by"] = certificate.engine.record()
        content["comparison"] = {
            **comparison.record(),
            "rounded_features": certificate.rounded,
            "unexplained": len(certificate.unexplained),
            "negative_queries": certificate.negative_queries,
            "rounding": rounding,
        }
        kinds = {kind: asdict(rows) for kind, rows in certificate.probes.items()}
        numbers = {"splits": certificate.num_splits, "tested": certificate.num_tested}
        content["probes"] = {**numbers, "kinds": kinds}
    return {name: finite_json(value) for name, value in content.items()}


def finite_json(value: Any) -> Any:
    """Returns a JSON value in which NaN and infinity are text, such as "inf".

    >>> finite_json({"a": [math.inf, 1.0]})
    {'a': ['inf', 1.0]}
    """
    if isinstance(value, Mapping):
        return {str(key): finite_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    return value


# ---- The verdict on a converted model: certified or refused, and the reason in one paragraph.

_MOST_CAUSES = 3
"""Maximum number of kinds of probe rows in a message."""


def judged(
    certificate: Certificate, data: RankingDataset, original: Scores, converted: Scores
) -> Certificate:
    """Returns the certificate with its verdict.

    Refused is a model that changes the rankings of more queries than the tolerance. With a tolerance of 0 it
    is also refused if scores of documents or probe rows differ by more than rounding, unless a limit of
    the target explains them. The same rankings are required where features that are 0 have no value in the
    engine, if that is possible. An engine that allows no negative scores must have none in all but
    `tolerance` queries.

    Args:
        original: (D,) scores of the original model.
        converted: (D,) scores of the engine, without offset.
    """
    failed = [check for check in checks_of(certificate) if check.state == FAILS]
    if not failed:
        return certificate
    if failed[0].name == _NEGATIVE:
        reason = _negative_in_words(certificate, data, converted)
        return replace(certificate, status=REFUSED, reason=reason)
    what = _difference_in_words(failed[0], certificate, data, original, converted)
    reason = " ".join([what, *_causes(certificate), _remedy(certificate)])
    return replace(certificate, status=REFUSED, reason=reason)


_ON_DATA = "queries in another order"
_WITHOUT_ZEROS = "queries in another order without values for zeros"
_NEGATIVE = "queries with a negative score"
_BEYOND_ROUNDING = "documents beyond rounding"
_PROBES = "kinds of probe rows beyond rounding"


def checks_of(certificate: Certificate) -> list[Check]:
    """Returns the checks that a converted model must pass; none if it was not compared."""
    if certificate.comparison is None:
        return []
    changed = {_ON_DATA: len(certificate.comparison.changed_queries)}
    if certificate.absent is not None:
        changed[_WITHOUT_ZEROS] = len(certificate.absent.changed_queries)
    limit = certificate.tolerance
    checks = [
        Check(name, number, limit=limit, sense=AT_MOST)
        for name, number in changed.items()
    ]
    if limit == 0:
        wrong = certificate.unexplained.size
        checks.append(Check(_BEYOND_ROUNDING, wrong, limit=0, sense=AT_MOST))
        kinds = len(_causes(certificate))
        checks.append(Check(_PROBES, kinds, limit=0, sense=AT_MOST))
    if NEGATIVE_SCORES in certificate.limits:
        number = certificate.negative_queries
        checks.append(Check(_NEGATIVE, number, limit=limit, sense=AT_MOST))
    return checks


def _difference_in_words(
    check: Check,
    certificate: Certificate,
    data: RankingDataset,
    original: Scores,
    converted: Scores,
) -> str:
    """Returns a failed check in words, with an example from the data."""
    if check.name == _ON_DATA:
        return _changed_in_words(certificate, data, original, converted)
    if check.name == _WITHOUT_ZEROS:
        return _without_zeros_in_words(certificate)
    if check.name == _BEYOND_ROUNDING:
        return _wrong_in_words(certificate, data, original, converted)
    return "The converted model has other scores than the original, although not on this data."


def _changed_in_words(
    certificate: Certificate, data: RankingDataset, original: Scores, converted: Scores
) -> str:
    comparison = certificate.comparison
    assert comparison is not None  # `checks_of`
    name = certificate.engine_name
    num_changed = len(comparison.changed_queries)
    query, (first, second) = next(iter(comparison.changed_queries.items()))
    return (
        f"{name} ranks {num_changed} of {comparison.queries} queries in another "
        f"order (tolerance {certificate.tolerance}), such as query {data.query_ids[query]}: "
        f"{_order_in_words(data, original, first, second)}; {name} gives "
        f"{float(converted[first])!r} and {float(converted[second])!r}."
    )


def _order_in_words(
    data: RankingDataset, original: Scores, first: int, second: int
) -> str:
    return (
        f"{describe_document(data, first)} before {describe_document(data, second)} with the scores "
        f"{float(original[first])!r} and {float(original[second])!r}"
    )


def _without_zeros_in_words(certificate: Certificate) -> str:
    absent = certificate.absent
    assert absent is not None  # `checks_of`
    loss = ""
    if absent.metric:
        loss = f", which loses {absent.metric.loss:.3g} of {METRIC}"
    return (
        f"{certificate.engine_name} ranks {len(absent.changed_queries)} of {absent.queries} queries "
        f"in another order (tolerance {certificate.tolerance}) if it has no value for features that are "
        f"0 in the data{loss}. A feature whose query does not match a document has no value. Use --set "
        "absent=zero, in a version of the engine that has it."
    )


def _wrong_in_words(
    certificate: Certificate, data: RankingDataset, original: Scores, converted: Scores
) -> str:
    row = int(certificate.unexplained[0])
    query = int(np.searchsorted(data.query_start, row, side="right")) - 1
    document = f"query {data.query_ids[query]}, {describe_document(data, row)}"
    return (
        f"The scores of {certificate.unexplained.size} of {data.num_documents} documents differ by more "
        f"than rounding, such as {document}: "
        f"{float(original[row])!r} in the original and {float(converted[row])!r} in "
        f"{certificate.engine_name}."
    )


def _negative_in_words(
    certificate: Certificate, data: RankingDataset, converted: Scores
) -> str:
    limit = certificate.limits[NEGATIVE_SCORES]
    row = int(np.argmin(converted))
    query = data.query_of_document[row]
    query_id = data.query_ids[query]
    score = float(converted[row])
    number = certificate.negative_queries
    documents = limit.documents
    document = describe_document(data, row)
    return (
        f"{documents} documents in {number} of {data.num_queries} queries have a negative score "
        f"(tolerance {certificate.tolerance}), such as {score!r} of query {query_id}, "
        f"{document}. {limit.sentence} To accept negative scores, set --tolerance "
        f"{number}."
    )


def _remedy(certificate: Certificate) -> str:
    for kind, limit in certificate.limits.items():
        if limit.documents and kind != NEGATIVE_SCORES:
            return (
                f"{limit.sentence} {limit.documents} documents of the data have such values: replace them "
                "before training, use the verb serve, or name a target without this limit, if there is one, "
                "with --to."
            )
    compared = [each for each in (certificate.comparison, certificate.absent) if each]
    changed = max(1, *(len(each.changed_queries) for each in compared))
    remedy = f"Choose another target with --to, or accept the differences with --tolerance {changed}."
    if certificate.rounded:
        return f"{certificate.rounding_of_features()} {remedy}"
    return remedy


def describe_document(data: Judgments, row: int) -> str:
    """Returns the id of a document; without ids, its row in the file from 1.

    >>> describe_document(Judgments(labels=[0, 1], query_start=[0, 2]), 1)
    'row 2'
    """
    if data.document_ids is not None:
        return f"document {data.document_ids[row]}"
    if isinstance(data, RankingDataset) and data.file_rows is not None:
        row = int(data.file_rows[row])
    return f"row {row + 1}"


def _causes(certificate: Certificate) -> list[str]:
    """Returns sentences on the kinds of probe rows that differ, those with the largest share first."""
    differing = {
        kind: rows for kind, rows in certificate.probes.items() if rows.differing
    }

    def share(kind: str) -> float:
        return differing[kind].differing / differing[kind].tested

    kinds = sorted(differing, key=share, reverse=True)
    sentences = []
    for kind in kinds[:_MOST_CAUSES]:
        sentence = differing[kind].sentence(kind, certificate.engine_name)
        sentences.append(f"{sentence[0].upper()}{sentence[1:]}.")
    more = kinds[_MOST_CAUSES:]
    if more:
        return [*sentences, f"Also differing: {listed(more)}."]
    return sentences


# ---- Makes the certificate of a converted model: scores and rankings on data, and probe rows. N rows.


@dataclass(frozen=True, kw_only=True)
class Comparable:
    """The original and the converted model on the same rows.

    Attributes:
        original, converted: (N,) scores, the converted ones without their offset.
        bounds: (N,), by how much rounding alone moves the converted scores.
        is_wrong: (N,), whether rounding does not explain the converted score.
        is_rounded: (N,), whether the original score is another one for the features that the engine has.
    """

    original: NDArray[np.float64]
    converted: NDArray[np.float64]
    bounds: NDArray[np.float64]
    is_wrong: NDArray[np.bool_]
    is_rounded: NDArray[np.bool_]

    def rankings(
        self, judgments: Judgments, convention: Convention
    ) -> RankingComparison:
        return compare_scores(
            judgments, self.original, self.converted, self.bounds, convention
        )


_NO_ROWS: Final = Comparable(
    original=np.empty(0),
    converted=np.empty(0),
    bounds=np.empty(0),
    is_wrong=np.empty(0, dtype=np.bool_),
    is_rounded=np.empty(0, dtype=np.bool_),
)


def _concatenated(parts: Sequence[Comparable]) -> Comparable:
    return Comparable(
        original=np.concatenate([part.original for part in parts]),
        converted=np.concatenate([part.converted for part in parts]),
        bounds=np.concatenate([part.bounds for part in parts]),
        is_wrong=np.concatenate([part.is_wrong for part in parts]),
        is_rounded=np.concatenate([part.is_rounded for part in parts]),
    )


@dataclass(frozen=True)
class _Conversion:
    """A model and its converted form, which score the same rows.

    Attributes:
        predict: scores of the original model.
    """

    model: ShippedModel
    predict: ScoreFunction
    export: Export
    engine: Engine

    def without_zeros(self) -> _Conversion:
        """Returns the conversion for an engine that has no value where a feature is 0."""
        engine = self.engine

        def scores(rows: Features) -> Scores:
            present = np.where(rows == 0, np.float32(np.nan), rows)
            return engine.scores(present)

        return replace(self, engine=replace(engine, scores=scores))

    def compare(
        self, features: AnyFeatures, query_start: QueryStart | None = None
    ) -> Comparable:
        """Compares each row with the score that the terms of the model have in the arithmetic of the engine.

        Rows of a list-wise model are compared query by query, or without `query_start` one by one.
        """
        parts = [_NO_ROWS]
        if not self.model.is_listwise:
            for _, block in row_blocks(features):
                parts.append(self._compare_together(block))
            return _concatenated(parts)
        if query_start is None:
            query_start = np.arange(len(features) + 1)
        for first, end in itertools.pairwise(query_start.tolist()):
            parts.append(self._compare_together(features[first:end]))
        return _concatenated(parts)

    def _compare_together(self, given: Features) -> Comparable:
        """Compares rows that are scored together."""
        offset = self.export.offset
        rows = self.engine.received(given)
        original = np.asarray(self.predict(rows), dtype=np.float64)
        converted = np.asarray(self.engine.scores(rows), dtype=np.float64)
        expected = expected_scores(self.model, rows, self.engine, offset)
        allowed = self._allowed_differences(rows)
        of_terms = difference_of(original, expected - offset)
        is_wrong = difference_of(expected, converted) > allowed
        if isinstance(self.model.scorer, Network):
            is_wrong |= of_terms > allowed
        # The written trees must have the scores of the model.
        if isinstance(self.model.scorer, Ensemble):
            trees = ensemble_scores(self.model.scorer, rows).astype(np.float64)
            is_wrong |= difference_of(original, trees) > 0
        exact = original
        if rows.dtype != given.dtype:
            exact = np.asarray(self.predict(given), dtype=np.float64)
        # The differences themselves are rounded in float64.
        magnitudes = np.abs(original) + np.abs(expected) + offset
        slack = 4 * np.finfo(np.float64).eps * magnitudes
        return Comparable(
            original=exact,
            converted=converted - offset,
            bounds=np.nan_to_num(of_terms + allowed + slack),
            is_wrong=is_wrong,
            is_rounded=difference_of(exact, original) > 0,
        )

    def _allowed_differences(self, rows: Features) -> NDArray[np.float64]:
        """Returns the (N,) differences of the converted from the expected scores that rounding explains."""
        if is_exact(self.model, self.engine):
            return np.zeros(len(rows))
        dtypes = (self.engine.score_dtype, self.engine.score_dtype)
        return rounding_bounds(self.model, rows, dtypes, self.export.offset)


def certify(
    model: ShippedModel,
    predict: ScoreFunction,
    data: RankingDataset,
    export: Export,
    engine: Engine | None,
    *,
    convention: Convention = DEFAULT,
    tolerance: int = 0,
) -> Certificate:
    """Returns the certificate of a converted model with its verdict.

    Args:
        predict: scores of the original model.
        data: documents whose rankings are compared.
        convention: convention of NDCG@10.
        tolerance: largest number of queries whose ranking may change.
    """
    if engine is None:
        return Certificate(
            NOT_VERIFIED,
            limits=_limits(model, export, data, Counter()),
            offset=export.offset,
            tolerance=tolerance,
        )
    conversion = _Conversion(model, predict, export, engine)
    on_data = conversion.compare(data.features, data.query_start)
    probes = make_probes(model, data.features)
    on_probes = conversion.compare(probes.features)
    is_limited = has_values(export.limits, model.scorer, probes.features)
    is_limited |= np.isin(probes.kinds, list(export.limits))
    differing = Counter(probes.kinds[is_limited & on_probes.is_wrong].tolist())
    kinds = compare_probes(probes, model, on_probes, ~is_limited)
    absent = None
    if export.zeros_may_be_absent:
        without_zeros = conversion.without_zeros()
        absent = without_zeros.compare(data.features).rankings(data, convention)
        is_zero = ~is_limited & (probes.kinds == ZERO_VALUES)
        kinds |= _compare_absent_zeros(probes, without_zeros, is_zero)
    certificate = Certificate(
        CERTIFIED,
        engine=engine,
        is_exact=is_exact(model, engine),
        comparison=on_data.rankings(data, convention),
        absent=absent,
        probes=kinds,
        num_splits=probes.num_splits,
        num_tested=probes.num_tested,
        limits=_limits(model, export, data, differing),
        offset=export.offset,
        unexplained=_unexplained(model, export, data, on_data),
        tolerance=tolerance,
        rounded=_num_rounded(engine, data, on_data),
    )
    if export.negative_scores:
        certificate = _with_negative_scores(
            certificate, export, data, on_data, on_probes
        )
    return judged(certificate, data, on_data.original, on_data.converted)


def _with_negative_scores(
    certificate: Certificate,
    export: Export,
    data: RankingDataset,
    on_data: Comparable,
    on_probes: Comparable,
) -> Certificate:
    """Returns the certificate with the limit of an engine that allows no negative scores."""
    is_negative = on_data.converted + export.offset < 0
    of_queries = np.logical_or.reduceat(is_negative, data.query_start[:-1])
    limit = Limit(
        export.negative_scores,
        documents=_number(is_negative),
        differing=_number(on_probes.converted + export.offset < 0),
    )
    return replace(
        certificate,
        limits={**certificate.limits, NEGATIVE_SCORES: limit},
        negative_queries=_number(of_queries),
    )


def _compare_absent_zeros(
    probes: ProbeRows, without_zeros: _Conversion, is_zero: NDArray[np.bool_]
) -> dict[str, KindOfProbe]:
    """Returns the kind ABSENT_ZEROS -> its rows, those whose tested value is 0."""
    scored = without_zeros.compare(probes.features)
    kinds = np.full(len(probes.kinds), ABSENT_ZEROS)
    absent_zeros = replace(probes, kinds=kinds)
    return compare_probes(absent_zeros, without_zeros.model, scored, is_zero)


def _limits(
    model: ShippedModel,
    export: Export,
    data: RankingDataset,
    differing: Mapping[str, int],
) -> dict[str, Limit]:
    """Returns kind -> limit.

    Args:
        differing: kind -> number of probe rows with another score.
    """
    limits = {}
    for kind, sentence in export.limits.items():
        has_kind = has_values([kind], model.scorer, data.features)
        num_documents = int(has_kind.sum())
        limits[kind] = Limit(sentence, num_documents, differing.get(kind, 0))
    return limits


def _unexplained(
    model: ShippedModel, export: Export, data: RankingDataset, on_data: Comparable
) -> NDArray[np.int64]:
    """Returns the rows with a wrong score that no limit explains."""
    is_limited = has_values(export.limits, model.scorer, data.features)
    return np.flatnonzero(on_data.is_wrong & ~is_limited)


def _num_rounded(
    engine: Engine, data: RankingDataset, on_data: Comparable
) -> int | None:
    """Returns `Certificate.rounded`."""
    if data.features.dtype != np.float64 or engine.reads_float64:
        return None
    return int(on_data.is_rounded.sum())
