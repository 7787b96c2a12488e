"""Data of the tests against libraries: queries on which the conventions differ."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.shapes import PerQuery, Scores

CUTOFFS = (1, 2, 3, 5, 10, 100)
"""The last cutoff exceeds the longest query."""


def at_cutoffs(*metrics: str) -> list[str]:
    return [f"{metric}@{k}" for metric in metrics for k in CUTOFFS]


def judged_queries(
    seed: int = 0, *, highest: int = 4, smallest: int = 1, weighted: bool = False
) -> RankingDataset:
    """Returns 60 queries of up to 40 documents, labels from 0 to `highest`, repeated feature values.

    Every fifth query has no relevant document, and the one after it has only relevant ones.
    """
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[smallest] * 6, rng.integers(smallest, 40, size=54, endpoint=True)])
    num_documents, query = int(sizes.sum()), np.repeat(np.arange(60), sizes)
    labels = rng.integers(0, highest, size=num_documents, endpoint=True).astype(np.float64)
    labels[query % 5 == 0] = 0.0
    labels[query % 5 == 1] = np.maximum(labels[query % 5 == 1], 1.0)
    noise = rng.normal(scale=highest / 2, size=(num_documents, 3))
    return RankingDataset(
        features=np.round(labels[:, None] + noise),
        labels=labels,
        query_start=np.concatenate([[0], np.cumsum(sizes)]),
        document_ids=rng.permutation([f"d{number}" for number in range(num_documents)]),
        # Eighths, which float32 represents exactly.
        query_weights=rng.integers(1, 24, size=60) / 8 if weighted else None,
    )


def tied_scores(data: RankingDataset) -> Scores:
    """Returns (D,) scores from a feature with few values: most documents tie with another of their query."""
    return data.features[:, 0].astype(np.float64)


def rows_of_queries(data: RankingDataset) -> list[slice]:
    return [slice(a, b) for a, b in zip(data.query_start[:-1], data.query_start[1:], strict=True)]


def row_weights(data: RankingDataset) -> NDArray[np.float64] | None:
    """Returns (D,), the weight of the query of each document, for libraries with one weight per row."""
    return None if data.query_weights is None else data.query_weights[data.query_of_document]


def mean(values: PerQuery, data: RankingDataset) -> float:
    return float(np.average(values, weights=data.query_weights))
