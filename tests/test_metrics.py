"""Metrics against their definitions: every order of tied documents enumerated, and scikit-learn."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, ndcg_score

from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, DataError
from ltrbench.metrics import evaluate, parse_metric

CUTOFFS = st.sampled_from(["", "@1", "@2", "@3", "@10"])


def one_query(labels: list[float]) -> Judgments:
    return Judgments(labels=np.array(labels), query_start=np.array([0, len(labels)]))


def value(name: str, labels: list[float], scores: list[float]) -> float:
    return evaluate(one_query(labels), np.array(scores), [name]).means[name]


def dcg(labels: list[float], k: int) -> float:
    return sum((2**label - 1) / math.log2(rank + 2) for rank, label in enumerate(labels[:k]))


def ndcg(labels: list[float], k: int) -> float:
    return dcg(labels, k) / dcg(sorted(labels, reverse=True), k)


def precision(labels: list[float], k: int) -> float:
    return sum(label >= 1 for label in labels[:k]) / k


def average_precision(labels: list[float], k: int) -> float:
    hits = [precision(labels, rank + 1) for rank, label in enumerate(labels[:k]) if label >= 1]
    return sum(hits) / min(sum(label >= 1 for label in labels), k)


def reciprocal_rank(labels: list[float], k: int) -> float:
    return next((1 / (rank + 1) for rank, label in enumerate(labels[:k]) if label >= 1), 0.0)


DEFINITIONS = {"ndcg": ndcg, "precision": precision, "map": average_precision, "mrr": reciprocal_rank}


@pytest.mark.parametrize("metric", DEFINITIONS)
@given(
    documents=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=6).filter(
        lambda documents: any(label for label, _ in documents)
    ),
    cutoff=CUTOFFS,
)
def test_a_metric_is_the_mean_of_its_definition_over_all_orders_of_tied_documents(
    metric: str, documents: list[tuple[int, int]], cutoff: str
) -> None:
    labels = [float(label) for label, _ in documents]
    scores = [float(score) for _, score in documents]
    k = int(cutoff[1:]) if cutoff else len(labels)
    orders = [
        order
        for order in itertools.permutations(range(len(labels)))
        if all(scores[first] >= scores[second] for first, second in itertools.pairwise(order))
    ]
    expected = math.fsum(DEFINITIONS[metric]([labels[i] for i in order], k) for order in orders) / len(orders)
    assert value(metric + cutoff, labels, scores) == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 10**6), st.sampled_from([1, 5, 10, 100]))
def test_ndcg_is_scikit_learns_on_exponential_gains(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    labels, scores = rng.integers(0, 5, 40).astype(float), rng.integers(0, 12, 40).astype(float)
    labels[0] = 1.0
    theirs = ndcg_score([2**labels - 1], [scores], k=k)
    assert value(f"ndcg@{k}", labels.tolist(), scores.tolist()) == pytest.approx(theirs, abs=1e-12)


@given(st.integers(0, 10**6))
def test_map_without_ties_is_scikit_learns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels, scores = rng.integers(0, 2, 30).astype(float), rng.permutation(30).astype(float)
    labels[0] = 1.0
    theirs = average_precision_score(labels, scores)
    assert value("map", labels.tolist(), scores.tolist()) == pytest.approx(theirs, abs=1e-12)


def test_the_mean_is_over_queries_and_skips_those_without_a_relevant_document() -> None:
    judgments = Judgments(labels=np.array([0, 0, 0, 1, 2, 0]), query_start=np.array([0, 2, 4, 6]))
    evaluation = evaluate(judgments, np.array([2, 1, 2, 1, 2, 1]), ["ndcg@2"])
    assert evaluation.means["ndcg@2"] == pytest.approx((1 / math.log2(3) + 1) / 2)
    assert evaluation.skipped_share == pytest.approx(1 / 3)
    assert np.isnan(evaluation.per_query["ndcg@2"][0])


def test_a_query_counts_as_much_as_its_weight() -> None:
    judgments = Judgments(
        labels=np.array([0, 1, 1, 0]), query_start=np.array([0, 2, 4]), query_weights=np.array([3.0, 1.0])
    )
    evaluation = evaluate(judgments, np.array([2.0, 1.0, 2.0, 1.0]), ["mrr"])
    assert evaluation.means["mrr"] == pytest.approx((3 * (1 / 2) + 1 * 1) / (3 + 1))


def test_the_mean_over_no_query_is_not_a_number() -> None:
    assert math.isnan(value("ndcg@5", [0.0, 0.0], [1.0, 2.0]))


def test_the_order_of_rows_does_not_matter_to_tied_documents() -> None:
    assert value("ndcg@1", [0.0, 1.0], [0.5, 0.5]) == value("ndcg@1", [1.0, 0.0], [0.5, 0.5]) == 1 / 2


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.bool_])
def test_scores_of_any_real_dtype_rank_alike(dtype: type) -> None:
    scores: NDArray[Any] = np.array([0, 1, 1], dtype=dtype)
    assert evaluate(one_query([0, 0, 1]), scores, ["mrr"]).means["mrr"] == pytest.approx((1 + 1 / 2) / 2)


def test_scores_that_differ_in_float64_only_are_ties_in_float32() -> None:
    scores = np.array([1.0, 1.0 + 1e-12])
    judgments = one_query([0, 1])
    assert evaluate(judgments, scores, ["mrr"]).means["mrr"] == 1.0
    assert evaluate(judgments, scores.astype(np.float32), ["mrr"]).means["mrr"] == (1 + 1 / 2) / 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ncdg@10", r"unknown metric 'ncdg@10'; did you mean 'ndcg'\? Known are map, mrr, ndcg, precision"),
        ("ndcg@", "the cutoff '' must be a whole number"),
        ("ndcg@0", "the cutoff '0' must be"),
        ("ndcg@-1", "the cutoff '-1' must be"),
        ("ndcg@²", "the cutoff '²' must be"),
    ],
)
def test_an_unknown_name_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_metric(name)


def test_a_label_beyond_what_a_gain_can_hold_is_refused() -> None:
    with pytest.raises(DataError, match=r"labels\[1\] is 1100, whose exponential gain is infinite"):
        value("ndcg@5", [0.0, 1100.0], [1.0, 2.0])


def test_scores_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(2,\), but the data set has 3 documents"):
        evaluate(one_query([0, 1, 2]), np.array([1.0, 2.0]), ["mrr"])
    with pytest.raises(DataError, match=r"scores\[1\] is NaN"):
        evaluate(one_query([0, 1]), np.array([1.0, np.nan]), ["mrr"])
