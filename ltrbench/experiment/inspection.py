"""Summarizes a data set, and lists what each backend would reject or ignore in it.

`inspect_data` changes nothing and prints nothing. Each backend reports its own concerns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows, csr_of, row_blocks
from ltrbench.metrics import DEFAULT, has_relevant_document
from ltrbench.rankers import Ranker
from ltrbench.rankers.capabilities import concerns_of

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class FeatureFaults:
    """Features with missing or constant values.

    Attributes:
        missing: name -> number of documents without a value, for features with missing values.
        constant: names of features with one value in all documents, or with no value at all.
        constant_within_queries: names of features that differ between queries, but within no query.
    """

    missing: Mapping[str, int]
    constant: tuple[str, ...]
    constant_within_queries: tuple[str, ...]


_Variation = tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]
"""(F,) each: missing values, whether a feature varies, and whether it varies within a query."""


@dataclass(frozen=True)
class RowOrder:
    """The order of the rows.

    Attributes:
        mixed: number of queries with at least two different labels; only these can be sorted by label.
        best_first: number of mixed queries whose labels never increase from row to row.
        worst_first: number of mixed queries whose labels never decrease from row to row.
        query_ids_ascend: whether query ids are in ascending order, compared as numbers if all are numbers.
    """

    mixed: int
    best_first: int
    worst_first: int
    query_ids_ascend: bool


@dataclass(frozen=True)
class Inspection:
    """The result of `inspect_data`.

    Attributes:
        labels: label -> number of documents with this label, in ascending order of label.
        query_sizes: quantile (of `QUANTILES`) -> documents per query; also "mean".
        without_relevant: number of queries without a document of label 1 or more.
        only_relevant: number of queries in which all documents have label 1 or more.
        single_document: number of queries with one document.
        fractional_labels: number of documents whose label is not an integer.
        query_weights: "min", "mean" and "max"; None if all queries have the same weight.
        weights_vary_within_queries: whether weights differ between documents of one query.
        positions: "min" and "max"; None if the data has no positions.
        concerns: model -> one sentence for each thing that the backend would reject or ignore.
    """

    documents: int
    queries: int
    features: int
    labels: Mapping[str, int]
    fractional_labels: int
    query_sizes: Mapping[str, float]
    without_relevant: int
    only_relevant: int
    single_document: int
    feature_faults: FeatureFaults
    row_order: RowOrder
    query_weights: Mapping[str, float] | None
    weights_vary_within_queries: bool
    positions: Mapping[str, int] | None
    fingerprint: str
    concerns: Mapping[str, tuple[str, ...]]


def inspect_data(dataset: RankingDataset, rankers: Mapping[str, Ranker]) -> Inspection:
    """Summarizes a data set, and collects what each ranker would reject or ignore in it.

    Args:
        rankers: model -> an unfitted ranker.

    >>> data = RankingDataset(
    ...     features=[[1, 5], [1, 5], [1, 7]], labels=[2, 0, 0], query_start=[0, 2, 3]
    ... )
    >>> inspection = inspect_data(data, {})
    >>> inspection.labels, inspection.without_relevant, inspection.single_document
    ({'0': 2, '2': 1}, 1, 1)
    >>> inspection.feature_faults.constant, inspection.feature_faults.constant_within_queries
    (('1',), ('2',))
    """
    labels, counts = np.unique(dataset.labels, return_counts=True)
    worst = np.minimum.reduceat(dataset.labels, dataset.query_start[:-1])
    return Inspection(
        documents=dataset.num_documents,
        queries=dataset.num_queries,
        features=dataset.num_features,
        labels={_grade(label): int(count) for label, count in zip(labels, counts, strict=True)},
        fractional_labels=int((dataset.labels % 1 != 0).sum()),
        query_sizes=_sizes(dataset),
        without_relevant=int((~has_relevant_document(dataset)).sum()),
        only_relevant=int((worst >= DEFAULT.relevance_threshold).sum()),
        single_document=int((dataset.query_sizes == 1).sum()),
        feature_faults=_feature_faults(dataset),
        row_order=_row_order(dataset),
        query_weights=_weights(dataset),
        weights_vary_within_queries=dataset.document_weights is not None,
        positions=_positions(dataset),
        fingerprint=dataset.fingerprint,
        concerns={model: concerns_of(ranker, dataset) for model, ranker in rankers.items()},
    )


def _grade(label: float) -> str:
    return str(float(label)).removesuffix(".0")


def _sizes(dataset: RankingDataset) -> dict[str, float]:
    values = np.quantile(dataset.query_sizes, QUANTILES)
    sizes = {f"{quantile:g}": float(value) for quantile, value in zip(QUANTILES, values, strict=True)}
    return {**sizes, "mean": float(dataset.query_sizes.mean())}


def _weights(dataset: RankingDataset) -> dict[str, float] | None:
    weights = dataset.query_weights
    if weights is None:
        return None
    return {"min": float(weights.min()), "mean": float(weights.mean()), "max": float(weights.max())}


def _positions(dataset: RankingDataset) -> dict[str, int] | None:
    positions = dataset.positions
    return None if positions is None else {"min": int(positions.min()), "max": int(positions.max())}


def _row_order(dataset: RankingDataset) -> RowOrder:
    queries = dataset.query_of_document
    inside = queries[1:] == queries[:-1]
    steps = np.where(inside, np.diff(dataset.labels), 0.0)
    rises = np.bincount(queries[1:][steps > 0], minlength=dataset.num_queries) > 0
    falls = np.bincount(queries[1:][steps < 0], minlength=dataset.num_queries) > 0
    return RowOrder(
        mixed=int((rises | falls).sum()),
        best_first=int((falls & ~rises).sum()),
        worst_first=int((rises & ~falls).sum()),
        query_ids_ascend=_ascend(dataset.query_ids),
    )


def _ascend(query_ids: NDArray[np.str_]) -> bool:
    try:
        numbers = query_ids.astype(np.float64)
    except ValueError:
        return bool((query_ids[1:] >= query_ids[:-1]).all())
    return bool((numbers[1:] >= numbers[:-1]).all())


def _feature_faults(dataset: RankingDataset) -> FeatureFaults:
    """Finds missing and constant features. A missing value counts as a value of its own: a feature without
    any value is constant, a feature with values in some documents is not."""
    sparse = csr_of(dataset.features)
    missing, varies, varies_in_a_query = (
        _variation(dataset) if sparse is None else _variation_of_sparse(sparse, dataset)
    )
    names = np.array(dataset.feature_names)
    return FeatureFaults(
        missing={str(names[column]): int(missing[column]) for column in np.flatnonzero(missing)},
        constant=tuple(names[~varies].tolist()),
        constant_within_queries=tuple(names[varies & ~varies_in_a_query].tolist()),
    )


def _variation(dataset: RankingDataset) -> _Variation:
    missing = np.zeros(dataset.num_features, dtype=np.int64)
    varies_in_a_query = np.zeros(dataset.num_features, dtype=np.bool_)
    varies = np.zeros(dataset.num_features, dtype=np.bool_)
    first = last = dataset.features[:1]
    for start, block in row_blocks(dataset.features):
        missing += np.isnan(block).sum(axis=0)
        varies |= _differ(block, first).any(axis=0)
        # With the last row of the previous block, so that all pairs of neighbouring rows are compared.
        queries = dataset.query_of_document[max(start - 1, 0) : start + len(block)]
        inside = queries[1:] == queries[:-1]
        features = np.concatenate([last, block]) if start else block
        varies_in_a_query |= _differ(features[1:], features[:-1])[inside].any(axis=0)
        last = block[-1:]
    return missing, varies, varies_in_a_query


def _variation_of_sparse(sparse: SparseRows, dataset: RankingDataset) -> _Variation:
    """Returns `_variation` from the stored values."""
    num_documents, num_features = sparse.shape
    missing = np.bincount(sparse.columns[np.isnan(sparse.values)], minlength=num_features)
    if np.isnan(sparse.absent):
        missing += num_documents - np.bincount(sparse.columns, minlength=num_features)
    columns = sparse.columns.astype(np.int64)
    queries = np.repeat(dataset.query_of_document, np.diff(sparse.row_start))
    of_query = _varying(sparse, queries * num_features + columns, dataset.query_sizes[queries])
    varies, varies_in_a_query = np.zeros((2, num_features), dtype=np.bool_)
    varies[columns[_varying(sparse, columns, np.full(len(columns), num_documents))]] = True
    varies_in_a_query[columns[of_query]] = True
    return missing, varies, varies_in_a_query


def _varying(sparse: SparseRows, group: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the position of one stored value of each group of cells that are not all equal.

    Args:
        group: (n,) group of each stored value; equal for stored values of one group.
        size: (n,) number of cells in this group, stored or not.
    """
    _, first, place, stored = np.unique(group, return_index=True, return_inverse=True, return_counts=True)
    absent = np.full(len(first), sparse.absent, dtype=np.float32)
    expected = np.where(stored < size[first], absent, sparse.values[first])
    varies = np.zeros(len(first), dtype=np.bool_)
    varies[place[_differ(sparse.values, expected[place])]] = True
    return first[varies]


def _differ(features: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Returns elementwise whether values differ; two missing values are equal."""
    differ: NDArray[np.bool_] = (features != others) & ~(np.isnan(features) & np.isnan(others))
    return differ
