# mypy: strict-optional=False
from __future__ import annotations

import numpy as np

from ltrbench.data import Judgments
from ltrbench.metrics import evaluate, left_out_judgments


def test_documents_left_out_are_ranked_among_themselves_in_their_queries_and_keep_the_weights() -> None:
    train = Judgments(
        labels=np.array([0.0, 0.0, 1.0, 9.0, 0.0]),
        query_start=np.array([0, 2, 5]),
        query_weights=np.array([1.0, 5.0]),
    )
    left_out = np.array([2, 4])
    queries, judgments = left_out_judgments(train, left_out)
    assert queries.tolist() == [1]
    np.testing.assert_array_equal(judgments.query_weights, [5.0])
    scores = np.array([0.0, 0.0, 0.0, 7.0, 1.0])
    assert evaluate(judgments, scores[left_out], ["mrr"]).means == {"mrr": 1.0 / 2.0}
