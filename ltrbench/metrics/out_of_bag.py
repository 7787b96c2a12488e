"""Out-of-bag improvement: the change of a metric in one iteration, on the queries it was not fitted on.

Friedman, 2002, "Stochastic Gradient Boosting", and R's gbm use the change of the loss instead. If an
iteration left out documents but no whole query, the left-out documents of each query are ranked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.metrics.evaluation import evaluate
from ltrbench.shapes import Scores


def improvement(
    train: Judgments, left_out: NDArray[np.int64], before: Scores, after: Scores, names: tuple[str, ...]
) -> dict[str, float]:
    """Returns name -> metric of the (D,) scores `after` minus metric of `before`, on the left-out documents.

    NaN if all their queries are skipped.

    Args:
        left_out: (n,), rows in ascending order.
    """
    _, judgments = left_out_judgments(train, left_out)
    old, new = (evaluate(judgments, scores[left_out], names).means for scores in (before, after))
    return {name: new[name] - old[name] for name in names}


def left_out_judgments(train: Judgments, left_out: NDArray[np.int64]) -> tuple[NDArray[np.int64], Judgments]:
    """Returns the queries with left-out documents, and the judgments of these documents.

    Args:
        left_out: (n,), rows in ascending order, at least one.
    """
    queries, sizes = np.unique(train.query_of_document[left_out], return_counts=True)
    judgments = Judgments(
        labels=train.labels[left_out],
        query_start=np.concatenate([[0], np.cumsum(sizes)]),
        query_weights=None if train.query_weights is None else train.query_weights[queries],
    )
    return queries, judgments
