"""The out-of-bag improvement: what an iteration brought where it could not have learned the labels by heart.

Friedman, 2002, "Stochastic Gradient Boosting", and R's gbm, for whom it is the change of the loss; here it is
the change of a metric, on the queries that the iteration left out. Where it left out documents but no query,
these documents are ranked among themselves, query by query.
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
    """Name -> metric of (D,) `after` minus that of `before`, on the (n,) rising rows that were left out.

    NaN where none of their queries counts.
    """
    queries, sizes = np.unique(train.query_of_document[left_out], return_counts=True)
    judgments = Judgments(
        labels=train.labels[left_out],
        query_start=np.concatenate([[0], np.cumsum(sizes)]),
        query_weights=None if train.query_weights is None else train.query_weights[queries],
    )
    old, new = (evaluate(judgments, scores[left_out], names).means for scores in (before, after))
    return {name: new[name] - old[name] for name in names}
