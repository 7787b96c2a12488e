from __future__ import annotations

import numpy as np
import pytest

from ltrbench.data import Judgments
from ltrbench.metrics import evaluate, improvement

RNG = np.random.default_rng(0)
JUDGMENTS = Judgments(
    labels=RNG.integers(0, 3, 30).astype(np.float64),
    query_start=np.arange(0, 31, 5),
    query_weights=np.arange(1.0, 7.0),
)
BEFORE, AFTER = RNG.normal(size=30), RNG.normal(size=30)


def test_it_is_the_change_of_the_metric_on_the_queries_left_out() -> None:
    left_out = np.concatenate([np.arange(5, 10), np.arange(20, 25)])
    per_query = [evaluate(JUDGMENTS, scores, ["ndcg@3"]).per_query["ndcg@3"] for scores in (BEFORE, AFTER)]
    change = (per_query[1] - per_query[0])[[1, 4]]
    (value,) = improvement(JUDGMENTS, left_out, BEFORE, AFTER, ("ndcg@3",)).values()
    assert value == pytest.approx(np.average(change, weights=[2.0, 5.0]))


def test_documents_left_out_of_a_query_are_ranked_among_themselves() -> None:
    two = Judgments(labels=np.array([1.0, 9.0, 0.0]), query_start=np.array([0, 3]))
    worst, best = np.array([0.0, 7.0, 1.0]), np.array([1.0, 7.0, 0.0])
    assert improvement(two, np.array([0, 2]), worst, best, ("mrr",)) == {"mrr": 1.0 - 1.0 / 2.0}
