"""Warnings about data, before a fit: what makes a metric too high, or a model useless in production.

A feature is suspicious if it tells the labels (such as the revenue of a sale, which is known only after the
ranking), or if it is an id. Features are looked at in a sample of the queries, all at once. To add a kind of
suspicion, write a method of `_Sample` and a sentence in `_of_features`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments, RankingDataset, Splits
from ltrbench.data.features import as_array
from ltrbench.metrics import DEFAULT, evaluate, has_relevant_document, with_settings

_FEWEST_QUERIES = 10
_FEWEST_ROWS = 30
"""Numbers of queries and documents below which a feature may tell their labels by chance."""

_FEWEST_IDS = 1000
"""Number of documents from which distinct whole numbers are ids rather than counts."""

CELLS_OF_INSPECTION = 4 * 10**6
CELLS_OF_RUN = 2 * 10**5
"""Number of feature values in the sample: less than a second, and on MQ2007 20 ms, 1 % of a fast fit."""

_MOST_LABELS = 32
"""Number of different labels above which no feature is called a function of them."""

_LEAK = 0.95
"""NDCG@10 of a single feature that is too high to be honest."""

_IN_ORDER = 0.6
"""Share of the pairs of documents that such a feature at least has in the right order."""

_CHANCE = 0.05
"""Probability that any feature is named that leaves out more than a quarter of what random order does."""

_OF_SINGLES = 0.01
"""Share of the queries from which queries with a single document are named."""

_SHOWN = 3

_ROWS_AT_A_TIME = 200_000  # of which ids are compared, to save memory

_ID_NAME = re.compile(
    r"(?i:(.*[_. -])?(id|uuid|guid|sku|ean|isbn|gtin|asin))|.*[a-z]I[dD]"
)


def warnings_of_data(splits: Splits) -> Iterator[str]:
    """Yields one sentence for each reason to doubt the metrics of any model on these data."""
    for text in (
        *feature_warnings(splits.train, CELLS_OF_RUN),
        *repeated_documents(splits.train),
    ):
        yield f"training data: {text}"
    for text in (*single_documents(splits.test), *clicked_labels(splits.test)):
        yield f"test data: {text}"


@dataclass(frozen=True)
class Suspicion:
    """Features that should be no features, for one reason.

    Attributes:
        names: names of the features.
        reason: the reason, as in "price is left out: it ...".
        sentence: the warning about all of them.
    """

    names: tuple[str, ...]
    reason: str
    sentence: str


def suspicions(train: RankingDataset, num_cells: int) -> Iterator[Suspicion]:
    """Yields one suspicion for each kind of suspicious feature; no feature has two of them.

    Args:
        num_cells: number of feature values to look at.
    """
    sample = _sample_of(train, num_cells)
    if sample is not None:
        yield from _of_features(sample)


def feature_warnings(train: RankingDataset, num_cells: int) -> Iterator[str]:
    """Yields the sentence of each suspicion about features."""
    for suspicion in suspicions(train, num_cells):
        yield suspicion.sentence


def repeated_documents(dataset: RankingDataset) -> Iterator[str]:
    """Yields a sentence if a query has a document twice. Rows without a document id are no copies."""
    if dataset.document_ids is None:
        return
    num_copies = 0
    example = ("", "")
    for first, end in _whole_queries(dataset, _ROWS_AT_A_TIME):
        ids = dataset.document_ids[first:end]
        has_id = ids != ""
        queries = dataset.query_of_document[first:end][has_id].tolist()
        pairs = list(zip(queries, ids[has_id].tolist(), strict=True))
        copies = len(pairs) - len(set(pairs))
        if copies and not num_copies:
            (query, document), _ = Counter(pairs).most_common(1)[0]
            example = (str(dataset.query_ids[query]), document)
        num_copies += copies
    if num_copies:
        query_id, document = example
        yield (
            f"{num_copies} rows repeat a document of their query, such as document {document!r} of query "
            f"{query_id!r}: remove the copies."
        )


def _whole_queries(judgments: Judgments, num_rows: int) -> Iterator[tuple[int, int]]:
    """Yields the first row and the end of parts of about `num_rows` rows that divide no query."""
    start = judgments.query_start
    num_documents = start[-1]
    ends = np.searchsorted(start, np.arange(num_rows, num_documents, num_rows))
    borders = np.unique([0, *start[ends], num_documents])
    return pairwise(borders.tolist())


def single_documents(judgments: Judgments) -> Iterator[str]:
    """Yields a sentence if queries with a single, relevant document raise the mean of every model."""
    is_single = (judgments.query_sizes == 1) & has_relevant_document(judgments)
    share = is_single.mean()
    if share >= _OF_SINGLES:
        yield (
            f"{int(is_single.sum())} queries ({share:.1%}) have a single document, which is relevant: they "
            "count 1 in NDCG for every model, and raise its mean. Leave them out: --set skip_shorter_than=2 "
            "of compare."
        )


def are_clicks(dataset: RankingDataset) -> bool:
    """Returns whether labels are probably clicks: 0 and 1, of documents with the positions where they were
    shown, or with their impressions."""
    if dataset.positions is None and dataset.impressions is None:
        return False
    return bool(np.isin(dataset.labels, (0.0, 1.0)).all())


def clicked_labels(dataset: RankingDataset) -> Iterator[str]:
    """Yields a sentence if labels are probably clicks; those of a log have metrics of their own."""
    if dataset.impressions is None and are_clicks(dataset):
        yield (
            "the labels are 0 and 1, and documents have positions: if they are clicks, a metric measures how "
            "well a model repeats the order that was shown, and a better model can look worse. data=clicks "
            "data.log=FILE compares rankers on clicks that are corrected for the positions."
        )


def _sample_of(train: RankingDataset, num_cells: int) -> _Sample | None:
    """Returns a sample of the queries; None if there are too few, or if they are too large."""
    drawn = np.random.default_rng(0).permutation(train.num_queries)
    ends = np.cumsum(train.query_sizes[drawn]) * train.num_features
    num_queries = max(int(np.searchsorted(ends, num_cells)), _FEWEST_QUERIES)
    if train.num_queries < _FEWEST_QUERIES:
        return None
    num_queries = min(num_queries, train.num_queries)
    if ends[num_queries - 1] > 4 * CELLS_OF_INSPECTION:
        return None
    return _Sample(train.take_queries(np.sort(drawn[:num_queries])))


def _of_features(sample: _Sample) -> Iterator[Suspicion]:
    leave_out = "If it is known only after the ranking, leave it out: data.keep, or data.ignore."
    functions = sample.are_functions_of_label()
    if functions.any():
        subject = sample.subject(functions, "is a function", "are functions")
        sentence = f"{subject} of the label. {leave_out}"
        yield Suspicion(
            sample.named(functions), "it is a function of the label", sentence
        )
    telling = sample.tell_one_label() & ~functions
    if telling.any():
        sentence = f"{sample.telling_in_words(telling)} {leave_out}"
        reason = "all documents with another than its usual value have one label"
        yield Suspicion(sample.named(telling), reason, sentence)
    functions |= telling
    telling = sample.tell_all_labels() & ~functions
    if telling.any():
        subject = sample.subject(telling, "tells", "tell")
        sentence = f"{subject} the label of every document. {leave_out}"
        reason = "each of its values has one label"
        yield Suspicion(sample.named(telling), reason, sentence)
    leaks = sample.ndcg_of_leaks(~(functions | telling))
    if leaks:
        alone = np.isin(np.arange(len(sample.names)), [*leaks])
        subject = sample.subject(alone, "has", "have at least")
        chance = f"random order {sample.by_chance.mean():.3f}"
        lowest = f"{_METRIC} {min(leaks.values()):.3f} alone"
        yield Suspicion(
            sample.named(alone),
            f"it has {lowest}, too high to be known before the ranking",
            f"{subject} {lowest}, and {chance}. {leave_out}",
        )
    ids = sample.are_ids() & ~(functions | telling)
    ids[[*leaks]] = False
    if ids.any():
        subject = sample.subject(ids, "looks like an id", "look like ids")
        nothing = "which says nothing about new documents or queries"
        yield Suspicion(
            sample.named(ids),
            f"it looks like an id, {nothing}",
            f"{subject}, {nothing}. If so, leave it out: data.document, data.query or data.ignore.",
        )


_METRIC = "ndcg@10"


class _Sample:
    """A sample of N documents, with their F features, and what is suspicious about these.

    Attributes:
        names: (F,), names of the features.
        is_category: (F,).
        by_chance: (Q,), NDCG@10 of random order, without the queries that do not count.
    """

    def __init__(self, data: RankingDataset) -> None:
        self._data = data
        self.names = np.array(data.feature_names)
        self.is_category = np.isin(self.names, [*data.categories])
        self._features: NDArray[np.floating[Any]] = as_array(data.features)
        self._sorted = np.sort(self._features, axis=0)
        # More than half of the documents have the usual value, if there is one.
        self._usual = self._sorted[len(self._sorted) // 2]
        self.by_chance = self._ndcg(np.zeros(data.num_documents))

    def named(self, which: NDArray[np.bool_]) -> tuple[str, ...]:
        """Returns the names of some features."""
        return tuple(self.names[which].tolist())

    def subject(self, which: NDArray[np.bool_], one: str, several: str) -> str:
        """Returns the number and the first names of some features, and the verb for one or several."""
        names = self.names[which].tolist()
        if len(names) == 1:
            return f"The feature {names[0]} {one}"
        shown = ", ".join(names[:_SHOWN])
        more = ""
        if len(names) > _SHOWN:
            more = ", ..."
        return f"{len(names)} features ({shown}{more}) {several}"

    def are_functions_of_label(self) -> NDArray[np.bool_]:
        """Returns (F,), whether documents of one label all have one value, and others another one."""
        labels, first = np.unique(self._data.labels, return_index=True)
        if not 1 < len(labels) <= _MOST_LABELS:
            return np.zeros(len(self.names), dtype=np.bool_)
        row_of_label = first[np.searchsorted(labels, self._data.labels)]
        same = _equal(self._features, self._features[row_of_label]).all(axis=0)
        varies = ~_equal(self._sorted[:1], self._sorted[-1:])[0]
        return np.asarray(same & varies)

    def tell_one_label(self) -> NDArray[np.bool_]:
        """Returns (F,), whether all documents without the usual value have one label, which is not that of
        most documents."""
        labels = self._data.labels[:, None]
        is_rest = self._is_rest
        lowest = np.where(is_rest, labels, np.inf).min(axis=0)
        highest = np.where(is_rest, labels, -np.inf).max(axis=0)
        is_rare = (labels == lowest).mean(axis=0) < 0.5
        enough = is_rest.sum(axis=0) >= _FEWEST_ROWS
        return np.asarray(enough & (lowest == highest) & is_rare)

    def tell_all_labels(self) -> NDArray[np.bool_]:
        """Returns (F,), whether the documents of each of a few values have one label."""
        found = np.zeros(len(self.names), dtype=np.bool_)
        _, counts = np.unique(self._data.labels, return_counts=True)
        num_others = counts.sum() - counts.max()
        if len(counts) > _MOST_LABELS or num_others < _FEWEST_ROWS:
            return found
        following = self._sorted[1:]
        is_same = _equal(self._sorted[:-1], following)
        num_values = len(self._sorted) - np.count_nonzero(is_same, axis=0)
        most = min(_MOST_LABELS, len(self._sorted) // _FEWEST_ROWS)
        for column in np.flatnonzero(num_values <= most).tolist():
            found[column] = num_values[column] == self._num_pairs(column)
        return found

    def _num_pairs(self, column: int) -> int:
        """Returns the number of different pairs of a value of the feature and a label."""
        cells = self._features[:, column]
        _, value = np.unique(cells, return_inverse=True)
        pairs = np.stack([value, self._data.labels])
        return len(np.unique(pairs.T, axis=0))

    def telling_in_words(self, which: NDArray[np.bool_]) -> str:
        """Returns the sentence on features of `tell_one_label`."""
        column = int(which.argmax())
        rest = self._is_rest[:, column]
        label = self._data.labels[rest][0]
        sentence = (
            f"All {int(rest.sum())} documents in which {self.names[column]} is not "
            f"{self._usual[column]:g} have the label {label:g}."
        )
        others = which.copy()
        others[column] = False
        if not others.any():
            return sentence
        return f"{sentence} {self.subject(others, 'is', 'are')} of this kind, too."

    def ndcg_of_leaks(self, which: NDArray[np.bool_]) -> dict[int, float]:
        """Returns column -> NDCG@10 of the features, among `which`, that alone rank nearly perfectly.

        They must leave out less than a quarter of what random order leaves out, as may happen with few
        documents in a query: by a one-sided t-test over the queries, with Bonferroni's correction, so that
        few queries name no feature by chance.
        """
        leaks = {}
        for sign in (1, -1):
            is_missing = np.isnan(self._features)
            scores = np.where(is_missing, -np.inf, sign * self._features).T
            in_order = self._in_order(scores)
            candidates = which & ~self.is_category & (in_order > _IN_ORDER)
            for column in np.flatnonzero(candidates).tolist():
                values = self._ndcg(scores[column])
                if values.mean() > _LEAK and self._is_significant(values):
                    leaks[column] = float(values.mean())
        return dict(sorted(leaks.items()))

    def are_ids(self) -> NDArray[np.bool_]:
        """Returns (F,), whether the name is that of an id, or each document has another whole number."""
        named = [_ID_NAME.fullmatch(name) is not None for name in self.names.tolist()]
        found = np.array(named, dtype=np.bool_)
        if len(self._sorted) >= _FEWEST_IDS:
            is_whole = (self._features == np.floor(self._features)).all(axis=0)
            all_differ = (self._sorted[1:] > self._sorted[:-1]).all(axis=0)
            found |= is_whole & all_differ
        return found & ~self.is_category

    @cached_property
    def _is_rest(self) -> NDArray[np.bool_]:
        """(N, F), whether a document does not have the usual value of the feature."""
        return ~_equal(self._features, self._usual[None])

    def _ndcg(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Returns NDCG@10 with linear gains of the queries that count."""
        values = evaluate(self._data, scores, [_METRIC], _LINEAR).per_query[_METRIC]
        return values[~np.isnan(values)]

    def _in_order(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Returns (F,), the share of pairs in the right order, of one random pair per document.

        Args:
            scores: (F, N).
        """
        data = self._data
        sizes = np.repeat(data.query_sizes, data.query_sizes)
        start = np.repeat(data.query_start[:-1], data.query_sizes)
        other = start + np.random.default_rng(0).integers(0, sizes)
        better = np.flatnonzero(data.labels > data.labels[other])
        if not len(better):
            return np.zeros(len(self.names))
        high = scores[:, better]
        low = scores[:, other[better]]
        right = (high > low).mean(axis=1)
        tied = (high == low).mean(axis=1)
        return np.asarray(right + tied / 2)

    def _is_significant(self, values: NDArray[np.float64]) -> bool:
        if len(values) < _FEWEST_QUERIES:
            return False
        # Imported here because SciPy takes long to import, and few data have candidates.
        from scipy.special import stdtrit

        excess = (1 - values) - (1 - self.by_chance) / 4
        error = excess.std(ddof=1) / np.sqrt(len(excess))
        chance_of_one = _CHANCE / (2 * len(self.names))
        quantile = stdtrit(len(excess) - 1, 1 - chance_of_one)
        return bool(excess.mean() + quantile * error < 0)


_LINEAR = with_settings(DEFAULT, {"gain": "linear"})


def _equal(
    values: NDArray[np.floating[Any]], others: NDArray[np.floating[Any]]
) -> NDArray[np.bool_]:
    """Returns elementwise whether values are equal; two missing values are."""
    are_missing = np.isnan(values) & np.isnan(others)
    return np.asarray((values == others) | are_missing)
