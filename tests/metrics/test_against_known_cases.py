"""Small cases in which the libraries' conventions differ; the values are from the libraries."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from ltrbench.data import Judgments, RankingDataset
from ltrbench.errors import UndefinedMetricError
from ltrbench.metrics import evaluate, preset

SECOND = 1 / log2(3)
"""Discount of the second document."""


def queries(*labels: list[float], weights: list[float] | None = None) -> RankingDataset:
    """Returns a data set with one query per list."""
    flat = np.concatenate(labels)
    return RankingDataset(
        features=np.zeros((len(flat), 1), dtype=np.float32),
        labels=flat,
        query_start=np.cumsum([0] + [len(of_query) for of_query in labels]),
        document_ids=np.array([f"d{number}" for number in range(len(flat))]),
        query_weights=None if weights is None else np.array(weights),
    )


def value_under(convention: str, data: RankingDataset, scores: list[float], name: str) -> float:
    return evaluate(data, np.array(scores), [name], preset(convention)).means[name]


# The other conventions are compared with their library itself, in the files beside this one.
KNOWN_CASES: list[tuple[str, str, list[list[float]], list[float], float]] = [
    ("ranklib", "ndcg@2", [[3, 0, 1, 2]], [0.1, 0.2, 0.9, 0.3], (1 + 3 * SECOND) / (7 + 3 * SECOND)),
    ("pyltr", "ndcg@2", [[3, 0, 1, 2]], [0.1, 0.2, 0.9, 0.3], (1 + 3 * SECOND) / (7 + 3 * SECOND)),
    # Ties: the relevant document last, and first.
    ("ranklib", "ndcg@1", [[0, 1]], [0, 0], 0),
    ("ranklib", "ndcg@1", [[1, 0]], [0, 0], 1),
    ("pyltr", "ndcg@1", [[0, 1]], [0, 0], 0),
    ("pyltr", "ndcg@1", [[1, 0]], [0, 0], 0),
    # A query without a relevant document.
    ("ranklib", "ndcg@2", [[0, 1], [0, 0]], [2, 1, 2, 1], SECOND / 2),
    ("pyltr", "ndcg@2", [[0, 1], [0, 0]], [2, 1, 2, 1], SECOND / 2),
    # The divisor of average precision at k, and of precision in a query shorter than k.
    ("ranklib", "map@2", [[1, 1, 1]], [3, 2, 1], 1),
    ("pyltr", "map@2", [[1, 1, 1]], [3, 2, 1], 2 / 3),
    ("ranklib", "precision@4", [[1, 1]], [2, 1], 1),
    # The probability that a label satisfies.
    ("ranklib", "err", [[1, 0]], [2, 1], 1 / 2**4),
    ("pyltr", "err", [[1, 0]], [2, 1], 1 / 2**4),
    ("letor4", "ndcg@3", [[1, 0]], [2, 1], 0),
    ("ranklib", "ndcg@3", [[1, 0]], [2, 1], 1),
]


@pytest.mark.parametrize(("convention", "name", "labels", "scores", "expected"), KNOWN_CASES)
def test_a_known_case_has_the_value_of_its_convention(
    convention: str, name: str, labels: list[list[float]], scores: list[float], expected: float
) -> None:
    assert value_under(convention, queries(*labels), scores, name) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        ("default", SECOND),
        ("lightgbm", (3 * SECOND + 1) / (3 + 5)),
        ("catboost", (3 * SECOND + 5) / (3 + 5)),
        ("ranklib", SECOND / 2),
    ],
)
def test_conventions_differ_in_the_weight_of_a_query_without_a_relevant_document(
    convention: str, expected: float
) -> None:
    data = queries([0, 1], [0, 0], weights=[3.0, 5.0])
    assert value_under(convention, data, [2, 1, 2, 1], "ndcg@2") == pytest.approx(expected)


@pytest.mark.parametrize(("convention", "highest"), [("lightgbm", 30), ("xgboost", 31)])
def test_a_label_that_the_library_has_no_gain_for_is_refused(convention: str, highest: int) -> None:
    assert value_under(convention, queries([highest, 0]), [2, 1], "ndcg@1") == 1
    with pytest.raises(UndefinedMetricError, match=str(highest)):
        value_under(convention, queries([highest + 1, 0]), [2, 1], "ndcg@1")


def test_ranklibs_reciprocal_rank_is_rounded_to_float32() -> None:
    data = Judgments(labels=np.array([0.0, 0, 1]), query_start=np.array([0, 3]))
    assert evaluate(data, np.array([3.0, 2, 1]), ["mrr"], preset("ranklib")).means["mrr"] == np.float32(1 / 3)
