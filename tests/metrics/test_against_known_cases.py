"""Small cases in which the libraries' conventions differ; the values are from the libraries."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from library_cases import judged_queries, tied_scores
from messages import naming

from ltrbench.data import Judgments, RankingDataset
from ltrbench.errors import ConfigError, UndefinedMetricError
from ltrbench.metrics import evaluate, preset
from ltrbench.metrics.presets import PRESETS

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


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        ("default", (1 + 3 * SECOND) / (7 + 3 * SECOND)),
        ("lightgbm", (1 + 3 * SECOND) / (7 + 3 * SECOND)),
        ("xgboost", (1 + 3 * SECOND) / (7 + 3 * SECOND)),
        ("ranklib", (1 + 3 * SECOND) / (7 + 3 * SECOND)),
        ("pyltr", (1 + 3 * SECOND) / (7 + 3 * SECOND)),
        ("letor4", (1 + 3) / (7 + 3)),
        ("sklearn", (1 + 2 * SECOND) / (3 + 2 * SECOND)),
        ("catboost", (1 + 2 * SECOND) / (3 + 2 * SECOND)),
        ("trec_eval", (1 + 2 * SECOND) / (3 + 2 * SECOND)),
    ],
)
def test_conventions_differ_in_gain_and_discount(convention: str, expected: float) -> None:
    data = queries([3, 0, 1, 2])
    assert value_under(convention, data, [0.1, 0.2, 0.9, 0.3], "ndcg@2") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("convention", "relevant_last", "relevant_first"),
    [
        ("default", 1 / 2, 1 / 2),
        ("lightgbm", 0, 1),
        ("xgboost", 0, 1),
        ("catboost", 0, 0),
        ("sklearn", 1 / 2, 1 / 2),
        ("ranklib", 0, 1),
        ("pyltr", 0, 0),
        ("letor4", 0, 1),
        ("trec_eval", 1, 0),
    ],
)
def test_conventions_differ_in_ties(convention: str, relevant_last: float, relevant_first: float) -> None:
    assert value_under(convention, queries([0, 1]), [0, 0], "ndcg@1") == pytest.approx(relevant_last)
    assert value_under(convention, queries([1, 0]), [0, 0], "ndcg@1") == pytest.approx(relevant_first)


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        ("default", SECOND),
        ("lightgbm", (SECOND + 1) / 2),
        ("xgboost", (SECOND + 1) / 2),
        ("xgboost-", SECOND / 2),
        ("catboost", (SECOND + 1) / 2),
        ("sklearn", SECOND / 2),
        ("ranklib", SECOND / 2),
        ("pyltr", SECOND / 2),
        ("trec_eval", SECOND / 2),
    ],
)
def test_conventions_differ_in_queries_without_a_relevant_document(convention: str, expected: float) -> None:
    data = queries([0, 1], [0, 0])
    assert value_under(convention, data, [2, 1, 2, 1], "ndcg@2") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        ("default", SECOND),
        ("lightgbm", (3 * SECOND + 1) / (3 + 5)),
        ("xgboost", (3 * SECOND + 1) / (3 + 5)),
        ("xgboost-", 3 * SECOND / (3 + 5)),
        ("catboost", (3 * SECOND + 5) / (3 + 5)),
        ("sklearn", 3 * SECOND / (3 + 5)),
        ("ranklib", SECOND / 2),
    ],
)
def test_conventions_differ_in_the_weight_of_such_a_query(convention: str, expected: float) -> None:
    data = queries([0, 1], [0, 0], weights=[3.0, 5.0])
    assert value_under(convention, data, [2, 1, 2, 1], "ndcg@2") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("convention", "expected"),
    [("default", 1), ("lightgbm", 1), ("ranklib", 1), ("letor4", 1), ("pyltr", 2 / 3), ("trec_eval", 2 / 3)],
)
def test_conventions_differ_in_the_divisor_of_average_precision_at_k(
    convention: str, expected: float
) -> None:
    assert value_under(convention, queries([1, 1, 1]), [3, 2, 1], "map@2") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        ("xgboost", 1),
        ("catboost", 1),
        ("ranklib", 1),
        ("default", 1 / 2),
        ("letor4", 1 / 2),
        ("trec_eval", 1 / 2),
    ],
)
def test_conventions_differ_in_the_precision_of_a_query_shorter_than_k(
    convention: str, expected: float
) -> None:
    assert value_under(convention, queries([1, 1]), [2, 1], "precision@4") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("convention", "expected"), [("ranklib", 1 / 2**4), ("pyltr", 1 / 2**4), ("catboost", 1)]
)
def test_conventions_differ_in_how_far_a_label_satisfies(convention: str, expected: float) -> None:
    assert value_under(convention, queries([1, 0]), [2, 1], "err") == pytest.approx(expected)


def test_letors_script_counts_a_query_shorter_than_k_as_0() -> None:
    assert value_under("letor4", queries([1, 0]), [2, 1], "ndcg@3") == 0
    assert value_under("ranklib", queries([1, 0]), [2, 1], "ndcg@3") == 1


@pytest.mark.parametrize(
    ("convention", "name"), [("lightgbm", "mrr"), ("xgboost", "err"), ("sklearn", "map"), ("letor4", "dcg")]
)
def test_a_metric_that_the_library_lacks_is_not_computed_under_its_preset(convention: str, name: str) -> None:
    data = judged_queries(smallest=2, highest=1)
    with pytest.raises(UndefinedMetricError, match=convention):
        evaluate(data, tied_scores(data), [name], preset(convention))


@pytest.mark.parametrize(("convention", "highest"), [("lightgbm", 30), ("xgboost", 31)])
def test_a_label_that_the_library_has_no_gain_for_is_refused(convention: str, highest: int) -> None:
    assert value_under(convention, queries([highest, 0]), [2, 1], "ndcg@1") == 1
    with pytest.raises(UndefinedMetricError, match=str(highest)):
        value_under(convention, queries([highest + 1, 0]), [2, 1], "ndcg@1")


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "default"])
def test_a_librarys_preset_lists_its_metrics_and_its_quirks(name: str) -> None:
    convention = preset(name)
    assert convention.name == name
    assert convention.quirks
    assert convention.metrics is not None
    assert convention.binary_metrics | set(convention.by_metric) <= convention.metrics


def test_a_misspelt_preset_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=naming("'ligthgbm'", "'lightgbm'")):
        preset("ligthgbm")


def test_lightgbm_refuses_queries_of_more_than_10000_documents_in_ndcg_only() -> None:
    labels = np.zeros(10_001)
    labels[7] = 1
    data = Judgments(labels=labels, query_start=np.array([0, len(labels)]))
    with pytest.raises(UndefinedMetricError, match=naming("10001", "lightgbm", "10000", "ndcg")):
        evaluate(data, np.zeros(len(labels)), ["ndcg@10"], preset("lightgbm"))
    assert evaluate(data, np.zeros(len(labels)), ["map"], preset("lightgbm")).means["map"] == 1 / 8


def test_xgboost_stops_where_weights_make_a_mean_above_1() -> None:
    data = Judgments(
        labels=np.array([0.0, 0, 1, 0]), query_start=np.array([0, 2, 4]), query_weights=np.array([0.1, 1])
    )
    with pytest.raises(UndefinedMetricError, match=naming("ndcg@2", "1.818182", "xgboost", "above 1")):
        evaluate(data, np.array([0.0, 1, 1, 0]), ["ndcg@2"], preset("xgboost"))


def test_ranklibs_reciprocal_rank_is_rounded_to_float32() -> None:
    data = Judgments(labels=np.array([0.0, 0, 1]), query_start=np.array([0, 3]))
    assert evaluate(data, np.array([3.0, 2, 1]), ["mrr"], preset("ranklib")).means["mrr"] == np.float32(1 / 3)
