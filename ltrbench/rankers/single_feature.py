"""A baseline of one feature: the feature, ascending or descending, that ranks the training set best."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments, RankingDataset
from ltrbench.data.features import SparseRows, as_array, csr_of, row_numbers
from ltrbench.errors import require
from ltrbench.metrics import evaluate, parse_metric
from ltrbench.rankers.base import (
    OnIteration,
    Ranker,
    check_blocks,
    check_fitted,
    read_model_json,
    refused_as_saved,
)
from ltrbench.shapes import Features

_FILE = "single_feature.json"

_MOST_DOCUMENTS = 1 << 21
"""Number of documents that are ranked at a time to find the best of sparse features."""
_ROUNDING = 1e-9
"""Upper limit of the relative rounding error of a sum of metrics over queries."""


@dataclass(kw_only=True)
class SingleFeatureRanker(Ranker):
    """Scores each document by the feature, or negated feature, with the best `metric` on the training set.

    Of equal features the first one is kept, and a feature is preferred to its negative. Missing values rank
    last.
    """

    metric: str = "ndcg@10"
    """Metric that selects the feature on the training set, under the default convention."""

    is_yardstick: ClassVar[bool] = True

    @property
    def reads_sparse(self) -> bool:
        return True

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_metric(self.metric)
        self._num_features: int | None = None
        self._feature, self._sign = 0, 1.0

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        del valid, on_iteration
        self._num_features = train.num_features
        best = float("-inf")
        for feature, values in self._columns(train):
            for sign in (1.0, -1.0):
                scores = _signed(values, sign)
                value = evaluate(train, scores, [self.metric]).means[self.metric]
                if value > best:
                    best, self._feature, self._sign = value, feature, sign
        return self

    def _columns(self, train: RankingDataset) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yields the features with their (D,) values; of sparse features only those that may be the best."""
        sparse = csr_of(train.features)
        if sparse is None:
            yield from enumerate(as_array(train.features).T)
        else:
            features = best_features(train, sparse, self.metric)
            yield from zip(features.tolist(), sparse.take_columns(features).by_columns(), strict=True)

    def predict(self, features: Features) -> NDArray[np.float64]:
        given = check_blocks(features, check_fitted(self._num_features))
        return _signed(given[:, self._feature], self._sign)

    @property
    def weights(self) -> NDArray[np.float64]:
        """(F,), the sign of the chosen feature, and 0 for all others: scores are weights times features."""
        weights = np.zeros(check_fitted(self._num_features))
        weights[self._feature] = self._sign
        return weights

    def importance(self) -> dict[str, NDArray[np.float64]]:
        used = np.zeros(check_fitted(self._num_features))
        used[self._feature] = 1.0
        return {"split": used}

    def seed_matters(self, num_documents: int) -> bool:
        return False

    def save(self, folder: Path) -> None:
        content = {
            "num_features": check_fitted(self._num_features),
            "feature": self._feature,
            "sign": self._sign,
            "metric": self.metric,
        }
        (folder / _FILE).write_text(json.dumps(content) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        types = {"num_features": int, "feature": int, "sign": float, "metric": str}
        content = read_model_json(folder / _FILE, types)
        with refused_as_saved(folder / _FILE):
            ranker = cls()
            # Not checked: prediction does not need the metric, which may be a plug-in's that is not imported.
            ranker.metric = content["metric"]
            require("feature", content["feature"], at_least=0, at_most=content["num_features"] - 1)
            require("abs(sign)", abs(content["sign"]), at_least=1, at_most=1)
        ranker._num_features = content["num_features"]
        ranker._feature, ranker._sign = content["feature"], content["sign"]
        return ranker


def best_features(train: RankingDataset, sparse: SparseRows, metric: str) -> NDArray[np.int64]:
    """Returns the features, ascending, one of which is the best, without a ranking of all documents by each.

    In a query without a stored value a feature ranks as a constant does. Its mean is therefore that of a
    constant plus the differences in the other queries. Because these sums are rounded, all features close to
    the best sum are returned; of the features without any stored value only the first.
    """
    of_constant = evaluate(train, np.zeros(train.num_documents), [metric])
    values, factors = of_constant.per_query[metric], of_constant.weightings[metric].factors
    sums = np.zeros((2, sparse.num_features))
    is_stored = np.zeros(sparse.num_features, dtype=np.bool_)
    for pairs in _pairs(train, sparse):
        is_stored[pairs.features] = True
        for place, sign in enumerate((1.0, -1.0)):
            figures = evaluate(pairs.judgments, _signed(pairs.values, sign), [metric]).per_query[metric]
            differences = np.nan_to_num((figures - values[pairs.queries]) * factors[pairs.queries])
            sums[place] += np.bincount(pairs.features, differences, minlength=sparse.num_features)
    best = sums.max(axis=0)
    rounding = _ROUNDING * (np.abs(sums).max() + np.nansum(np.abs(values * factors)))
    is_close = best >= best.max() - rounding
    return np.union1d(np.flatnonzero(is_close & is_stored), np.flatnonzero(is_close & ~is_stored)[:1])


class _Pairs(NamedTuple):
    """Pairs of a feature and a query in which it has a stored value, as queries of their own.

    Attributes:
        features: (P,).
        queries: (P,).
        judgments: the documents of each query, with P queries.
        values: of the feature, one for each document.
    """

    features: NDArray[np.int64]
    queries: NDArray[np.int64]
    judgments: Judgments
    values: NDArray[np.float32]


def _pairs(train: RankingDataset, sparse: SparseRows) -> Iterator[_Pairs]:
    """Yields the pairs of all features, at most about _MOST_DOCUMENTS documents at a time."""
    rows = np.repeat(np.arange(len(sparse)), np.diff(sparse.row_start))
    keys = sparse.columns.astype(np.int64) * train.num_queries + train.query_of_document[rows]
    order = np.argsort(keys, kind="stable")
    keys, first_stored = np.unique(keys[order], return_index=True)
    features, queries = np.divmod(keys, train.num_queries)
    sizes, first_stored = train.query_sizes[queries], np.append(first_stored, len(order))
    after = np.cumsum(sizes)
    start = 0
    while start < len(keys):
        so_far = int(after[start] - sizes[start])
        stop = max(int(np.searchsorted(after, so_far + _MOST_DOCUMENTS, side="right")), start + 1)
        part = slice(start, stop)
        begin = np.concatenate([[0], np.cumsum(sizes[part])])
        stored = order[first_stored[start] : first_stored[stop]]
        pair = np.repeat(np.arange(stop - start), np.diff(first_stored[start : stop + 1]))
        values = np.full(begin[-1], sparse.absent, dtype=np.float32)
        values[begin[pair] + train.ranks_of_rows[rows[stored]]] = sparse.values[stored]
        documents = row_numbers(
            np.stack([train.query_start[:-1], train.query_start[1:]], axis=1)[queries[part]]
        )
        judgments = Judgments(labels=train.labels[documents], query_start=begin)
        yield _Pairs(features[part], queries[part], judgments, values)
        start = stop


def _signed(values: NDArray[np.float32], sign: float) -> NDArray[np.float64]:
    scores = sign * values.astype(np.float64)
    scores[np.isnan(scores)] = -np.inf
    return scores
