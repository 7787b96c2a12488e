"""Metrics against their definitions, over all orders of tied documents, and against scikit-learn."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from messages import naming
from scipy.stats import kendalltau

from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, DataError
from ltrbench.metrics import (
    DEFAULT,
    PRESETS,
    evaluate,
    kernels,
    left_out_judgments,
    preset,
    rank,
    with_settings,
)
from ltrbench.metrics.conventions import Aggregation, Convention, NoRelevant, Ties
from ltrbench.metrics.functions import BUILT_IN, METRICS, metric_of

CUTOFFS = st.sampled_from(["", "@1", "@2", "@3", "@10"])


def one_query(labels: list[float]) -> Judgments:
    return Judgments(labels=np.array(labels), query_start=np.array([0, len(labels)]))


def value(name: str, labels: list[float], scores: list[float]) -> float:
    return evaluate(one_query(labels), np.array(scores), [name]).means[name]


def dcg(labels: list[float], k: int) -> float:
    return sum(
        (2**label - 1) / math.log2(rank + 2) for rank, label in enumerate(labels[:k])
    )


def ndcg(labels: list[float], k: int) -> float:
    return dcg(labels, k) / dcg(sorted(labels, reverse=True), k)


def precision(labels: list[float], k: int) -> float:
    return sum(label >= 1 for label in labels[:k]) / k


def average_precision(labels: list[float], k: int) -> float:
    hits = [
        precision(labels, rank + 1)
        for rank, label in enumerate(labels[:k])
        if label >= 1
    ]
    return sum(hits) / min(sum(label >= 1 for label in labels), k)


def reciprocal_rank(labels: list[float], k: int) -> float:
    return next(
        (1 / (rank + 1) for rank, label in enumerate(labels[:k]) if label >= 1), 0.0
    )


def expected_reciprocal_rank(labels: list[float], k: int) -> float:
    value, not_stopped = 0.0, 1.0
    for position, label in enumerate(labels[:k]):
        stop = (2**label - 1) / 2**4
        value, not_stopped = (
            value + not_stopped * stop / (position + 1),
            not_stopped * (1 - stop),
        )
    return value


def share_in_order(labels: list[float], k: int) -> float:
    pairs = [(a, b) for a, b in itertools.combinations(labels, 2) if a != b]
    return sum(a > b for a, b in pairs) / len(pairs) if pairs else math.nan


DEFINITIONS: dict[str, Callable[[list[float], int], float]] = {
    "cg": lambda labels, k: sum(2**label - 1 for label in labels[:k]),
    "dcg": dcg,
    "ndcg": ndcg,
    "mean_ndcg": lambda labels, k: sum(ndcg(labels, n + 1) for n in range(k)) / k,
    "precision": precision,
    "recall": lambda labels, k: (
        sum(label >= 1 for label in labels[:k]) / sum(label >= 1 for label in labels)
    ),
    "map": average_precision,
    "mrr": reciprocal_rank,
    "err": expected_reciprocal_rank,
    "wta": lambda labels, k: float(labels[0] == max(labels)),
    "pairwise_accuracy": share_in_order,
    "auc": lambda labels, k: share_in_order([float(label >= 1) for label in labels], k),
}
"""Definitions for one ranked list without ties; other metrics are compared with other definitions below."""
COLUMN = np.array([3.0, 0.25, math.nan, 7.0, 0.0])
"""Value of a kept column by label, in no order of the labels."""


def of_column(labels: list[float], k: int, discounted: bool = False) -> float:
    values = np.nan_to_num(COLUMN)[np.array(labels[:k], dtype=int)].tolist()
    return math.fsum(
        value / (math.log2(rank + 2) if discounted else 1)
        for rank, value in enumerate(values)
    )


def relative(labels: list[float], k: int) -> float:
    highest = of_column(
        sorted(labels, key=lambda label: -np.nan_to_num(COLUMN)[int(label)]), k
    )
    return of_column(labels, k) / highest if highest else math.nan


DEFINITIONS |= {
    "value:c": of_column,
    "nvalue:c": relative,
    "dcv:c": lambda labels, k: of_column(labels, k, discounted=True),
    "ctr:c": lambda labels, k: of_column(labels, k) / min(k, len(labels)),
}

documents_with_a_relevant_one = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=6
).filter(lambda documents: any(label for label, _ in documents))


TIED_FIRST: dict[Ties, Callable[[int, float], float]] = {
    Ties.ROW_ORDER: lambda row, label: row,
    Ties.WORST: lambda row, label: label,
    Ties.BEST: lambda row, label: -label,
    Ties.DOCUMENT_ID: lambda row, label: row,  # the ids below descend from row to row
}
"""Policy -> key by which tied documents are sorted, from their row and label."""


def orders_of(
    labels: list[float], scores: list[float], ties: Ties
) -> list[tuple[int, ...]]:
    """Returns the orders of documents that a policy for ties allows."""
    rows = range(len(labels))
    if ties is not Ties.EXPECTED:
        tied_first = TIED_FIRST[ties]
        return [
            tuple(
                sorted(
                    rows, key=lambda row: (-scores[row], tied_first(row, labels[row]))
                )
            )
        ]
    return [
        order
        for order in itertools.permutations(rows)
        if all(
            scores[first] >= scores[second]
            for first, second in itertools.pairwise(order)
        )
    ]


def name_of(metric: str, cutoff: str) -> str:
    """Returns a metric's name with the cutoff, if the metric takes one."""
    word, colon, column = metric.partition(":")
    return metric if metric_of(metric).no_cutoff else f"{word}{cutoff}{colon}{column}"


@pytest.mark.parametrize("ties", Ties)
@given(documents=documents_with_a_relevant_one, cutoff=CUTOFFS)
def test_a_metric_is_the_mean_of_its_definition_over_the_orders_that_the_policy_for_ties_allows(
    ties: Ties, documents: list[tuple[int, int]], cutoff: str
) -> None:
    labels, scores = ([float(document[of]) for document in documents] for of in (0, 1))
    orders = orders_of(labels, scores, ties)
    # Equal labels make equal lists of different orders.
    ranked = Counter(tuple(labels[i] for i in order) for order in orders)
    names = {metric: name_of(metric, cutoff) for metric in DEFINITIONS}
    expected = {}
    for metric, name in names.items():
        k = int(cutoff[1:]) if "@" in name else len(labels)
        definition = DEFINITIONS[metric]
        total = math.fsum(
            count * definition([*order], k) for order, count in ranked.items()
        )
        expected[name] = total / len(orders)
    ids = np.array([f"d{9 - row}" for row in range(len(labels))])
    kept = {"c": COLUMN[np.array(labels, dtype=int)]}
    judgments = replace(one_query(labels), document_ids=ids, kept=kept)
    evaluation = evaluate(
        judgments, np.array(scores), [*names.values()], replace(DEFAULT, ties=ties)
    )
    assert evaluation.means == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(st.integers(0, 10**6))
def test_kendalls_tau_is_scipys_tau_b(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels, scores = (
        rng.integers(0, 5, 30).astype(float),
        rng.integers(0, 12, 30).astype(float),
    )
    theirs = kendalltau(labels, scores).statistic
    assert value("kendall_tau", labels.tolist(), scores.tolist()) == pytest.approx(
        theirs, abs=1e-12
    )


def test_only_labels_decide_whether_a_query_is_left_out_of_a_mean() -> None:
    evaluation = evaluate(one_query([2.0, 0.0, 1.0]), np.zeros(3), list(BUILT_IN))
    assert evaluation.skipped == dict.fromkeys(BUILT_IN, 0)


@pytest.mark.parametrize(
    ("no_relevant", "value_of_empty"), [(NoRelevant.ZERO, 0.0), (NoRelevant.ONE, 1.0)]
)
def test_a_query_without_a_relevant_document_has_the_value_of_the_convention(
    no_relevant: NoRelevant, value_of_empty: float
) -> None:
    judgments = Judgments(
        labels=np.array([0, 0, 0, 1]), query_start=np.array([0, 2, 4])
    )
    names = [name for name in BUILT_IN if name not in ("kendall_tau",)]
    evaluation = evaluate(
        judgments, np.arange(4.0), names, replace(DEFAULT, no_relevant=no_relevant)
    )
    for name in names:
        first, second = evaluation.per_query[name]
        assert first == value_of_empty
        assert evaluation.means[name] == pytest.approx((first + second) / 2)
        assert evaluation.skipped[name] == 0


def weighted(aggregation: Aggregation) -> float:
    """Returns the MRR of an empty query with weight 3 and value 1, and of a query with value 1/2."""
    judgments = Judgments(
        labels=np.array([0, 0, 1, 0]),
        query_start=np.array([0, 2, 4]),
        query_weights=np.array([3.0, 1.0]),
    )
    convention = replace(DEFAULT, aggregation=aggregation, no_relevant=NoRelevant.ONE)
    return evaluate(judgments, np.arange(4.0), ["mrr"], convention).means["mrr"]


def test_weights_aggregate_by_the_convention() -> None:
    assert weighted(Aggregation.WEIGHTED) == pytest.approx(
        (3 * 1 + 1 * (1 / 2)) / (3 + 1)
    )
    assert weighted(Aggregation.UNWEIGHTED) == pytest.approx((1 + 1 / 2) / 2)
    assert weighted(Aggregation.UNWEIGHTED_EMPTY) == pytest.approx(
        (1 + 1 * (1 / 2)) / (3 + 1)
    )


@pytest.mark.parametrize(
    "aggregation", [way for way in Aggregation if way is not Aggregation.RATIO_OF_SUMS]
)
@pytest.mark.parametrize("no_relevant", NoRelevant)
def test_the_rescaled_values_have_the_conventions_mean_as_their_weighted_mean(
    aggregation: Aggregation, no_relevant: NoRelevant
) -> None:
    judgments = Judgments(
        labels=np.array([0, 0, 1, 0, 0, 2]),
        query_start=np.array([0, 2, 4, 6]),
        query_weights=np.array([3.0, 1.0, 0.25]),
    )
    convention = replace(DEFAULT, aggregation=aggregation, no_relevant=no_relevant)
    evaluation = evaluate(judgments, np.arange(6.0), ["mrr"], convention)
    weighting = evaluation.weightings["mrr"]
    values = weighting.rescaled(evaluation.per_query["mrr"])
    counted = ~np.isnan(values)
    mean = np.average(values[counted], weights=weighting.weights[counted])
    assert mean == pytest.approx(evaluation.means["mrr"], rel=1e-14)


DENOMINATORS: dict[str, Callable[[list[float], int], float]] = {
    "ndcg": lambda labels, k: dcg(sorted(labels, reverse=True), k),
    "precision": lambda labels, k: k,
    "recall": lambda labels, k: sum(label >= 1 for label in labels),
    "map": lambda labels, k: min(sum(label >= 1 for label in labels), k),
    "pairwise_accuracy": lambda labels, k: sum(
        a != b for a, b in itertools.combinations(labels, 2)
    ),
    "auc": lambda labels, k: sum(
        (a >= 1) != (b >= 1) for a, b in itertools.combinations(labels, 2)
    ),
}
DOCUMENTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5
)


@pytest.mark.parametrize("is_ratio", [False, True])
@given(
    queries=st.lists(st.tuples(DOCUMENTS, st.integers(1, 3)), min_size=1, max_size=6),
    metric=st.sampled_from([*DENOMINATORS]),
    ties=st.sampled_from([Ties.WORST, Ties.BEST]),
    empty=st.sampled_from(NoRelevant),
    constant=st.booleans(),
    fewest=st.integers(1, 4),
)
@hypothesis_settings(max_examples=50)
def test_skipped_lists_and_ratios_of_sums_are_those_of_a_loop_over_the_queries(
    is_ratio: bool,
    queries: list[Any],
    metric: str,
    ties: Ties,
    empty: NoRelevant,
    constant: bool,
    fewest: int,
) -> None:
    fields: dict[str, Any] = {
        "no_relevant": NoRelevant.SKIP,
        "aggregation": Aggregation.RATIO_OF_SUMS,
    }
    fields = fields if is_ratio else {"no_relevant": empty}
    convention = replace(
        DEFAULT,
        ties=ties,
        skip_constant_labels=constant,
        skip_shorter_than=fewest,
        **fields,
    )
    k, values, sum_of_numerators, sum_of_denominators = 2, [], 0.0, 0.0
    for documents, weight in queries:
        labels, scores = (
            [float(document[of]) for document in documents] for of in (0, 1)
        )
        ranked = [
            labels[row] for order in orders_of(labels, scores, ties) for row in order
        ]
        denominator = DENOMINATORS[metric](labels, k)
        if (constant and len({*labels}) == 1) or len(labels) < fewest:
            values.append(math.nan)
        elif not any(labels) or not denominator:
            values.append(convention.no_relevant.value_of_query)
        else:
            values.append(DEFINITIONS[metric](ranked, k))
        if not math.isnan(values[-1]):
            sum_of_numerators += weight * values[-1] * (denominator if is_ratio else 1)
            sum_of_denominators += weight * (denominator if is_ratio else 1)
    rows = np.array(
        [document for documents, _ in queries for document in documents],
        dtype=np.float64,
    )
    sizes, weights = (
        [len(documents) for documents, _ in queries],
        [float(weight) for _, weight in queries],
    )
    judgments = Judgments(
        labels=rows[:, 0],
        query_start=np.cumsum([0, *sizes]),
        query_weights=np.array(weights),
    )
    name = metric if METRICS[metric].no_cutoff else f"{metric}@{k}"
    evaluation = evaluate(judgments, rows[:, 1], [name], convention)
    mean = sum_of_numerators / sum_of_denominators if sum_of_denominators else math.nan
    assert evaluation.means[name] == pytest.approx(mean, nan_ok=True)
    assert evaluation.per_query[name] == pytest.approx(values, nan_ok=True)
    assert (evaluation.weightings[name].weights > 0).all()


def test_settings_from_text_change_a_convention() -> None:
    changes = {
        "gain": "[0,1,5]",
        "ties": "worst",
        "no_relevant": "1",
        "highest_grade": "2",
    }
    convention = with_settings(preset("catboost"), {**changes, "discount": "letor"})
    assert convention.of("ndcg").gain(np.array([0.0, 2.0])).tolist() == [0.0, 5.0]
    assert (convention.of("auc").ties, convention.of("map").no_relevant) == (
        Ties.WORST,
        NoRelevant.ONE,
    )
    assert convention.highest_grade == 2.0
    assert json.loads(json.dumps(convention.describe()))["gain"] == [0.0, 1.0, 5.0]


@pytest.mark.parametrize("depth", [1, 3, 4, 10, 64, 100])  # 100 sorts instead
@pytest.mark.parametrize("kind", ["distinct", "few", "one", "ascending", "infinite"])
def test_a_selection_of_a_long_query_is_the_sorted_one(depth: int, kind: str) -> None:
    rng = np.random.default_rng(depth)
    sizes = np.array([4 * depth - 1, 4 * depth, 4 * depth + 1, 7 * depth + 3, 1, 300])
    query_start = np.concatenate([[0], np.cumsum(sizes)])
    keys = {
        "distinct": rng.normal(size=query_start[-1]),
        "few": rng.integers(0, 4, query_start[-1]).astype(np.float64),
        "one": np.zeros(query_start[-1]),
        "ascending": np.arange(query_start[-1], dtype=np.float64),
        "infinite": rng.choice([-np.inf, 0.0, np.inf], query_start[-1]),
    }[kind]
    order, position_start = kernels.reference_order(keys, query_start, depth)
    fast_order, fast_start = kernels.order_within_queries(keys, query_start, depth)
    np.testing.assert_array_equal(fast_order, order)
    np.testing.assert_array_equal(fast_start, position_start)


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    seed=st.integers(0, 10**6),
    k=st.integers(1, 50),
)
def test_each_kernel_agrees_with_its_reference(
    sizes: list[int], seed: int, k: int
) -> None:
    rng = np.random.default_rng(seed)
    query_start = np.concatenate([[0], np.cumsum(sizes)])
    num_documents = int(query_start[-1])
    keys = rng.integers(0, 9, num_documents).astype(np.float64)
    for depth in (k, num_documents):
        order, position_start = kernels.reference_order(keys, query_start, depth)
        fast_order, fast_start = kernels.order_within_queries(keys, query_start, depth)
        np.testing.assert_array_equal(fast_order, order)
        np.testing.assert_array_equal(fast_start, position_start)

    changes = np.diff(keys[order], prepend=np.nan) != 0
    changes[query_start[:-1]] = True
    run_start = np.flatnonzero(changes)
    run_size = np.diff(np.append(run_start, num_documents))
    run_end = np.repeat(run_start + run_size, run_size)
    values = rng.random(num_documents)
    means = kernels.reference_run_means(values, run_start)
    np.testing.assert_allclose(kernels.run_means(values, run_start), means, rtol=1e-14)

    grades = rng.integers(0, 4, num_documents)
    stops = kernels.expected_stop(values, run_end, query_start, k)
    counts = kernels.count_pairs(grades, 4, run_end, query_start)
    for query, (first, end) in enumerate(itertools.pairwise(query_start)):
        own_end = run_end[first:end] - first
        expected = kernels.reference_expected_stop(values[first:end], own_end, k)
        assert stops[query] == pytest.approx(expected, rel=1e-12)
        assert tuple(counts[query]) == kernels.reference_count_pairs(
            grades[first:end], own_end
        )


@pytest.mark.parametrize("convention", PRESETS.values(), ids=PRESETS)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 30))
@hypothesis_settings(max_examples=25)
def test_a_metric_does_not_depend_on_the_depth_of_the_ranking(
    convention: Convention, seed: int, k: int
) -> None:
    rng = np.random.default_rng(seed)
    query_start = np.cumsum([0, *rng.integers(2, 120, 8)])
    labels = rng.integers(0, 2, query_start[-1]).astype(float)
    ids = np.array([f"d{row}" for row in range(len(labels))])
    judgments = Judgments(labels=labels, query_start=query_start, document_ids=ids)
    scores = np.round(rng.normal(size=len(labels)), rng.integers(0, 3))
    for name in convention.metrics or BUILT_IN:
        if METRICS[name].no_cutoff is None and name not in convention.uncut_metrics:
            name = f"{name}@{k}"
        own, cutoff = convention.of(name.partition("@")[0]), k if "@" in name else None
        metric = METRICS[name.partition("@")[0]]
        whole = metric.function(rank(judgments, scores, own.ties), cutoff, own)
        read = rank(judgments, scores, own.ties, metric.depth(cutoff, own))
        np.testing.assert_array_equal(
            metric.function(read, cutoff, own), whole, err_msg=name
        )


def test_every_array_of_a_ranking_is_read_only() -> None:
    judgments = Judgments(
        labels=np.array([1.0, 0.0, 2.0]), query_start=np.array([0, 3])
    )
    scores = np.array([0.5, np.nan, 0.5])
    ranking = rank(judgments, scores, allows_missing=True)
    arrays = {}
    for name in dir(ranking):
        value = getattr(ranking, name)
        if isinstance(value, np.ndarray):
            arrays[name] = value
    assert {
        "labels",
        "order",
        "ranks",
        "tie",
        "run_end",
        "is_retrieved",
    } <= arrays.keys()
    assert [name for name, array in arrays.items() if array.flags.writeable] == []


def test_scores_that_differ_in_float64_only_are_ties_in_float32() -> None:
    scores = np.array([1.0, 1.0 + 1e-12])
    judgments = one_query([0, 1])
    assert evaluate(judgments, scores, ["mrr"]).means["mrr"] == 1.0
    assert (
        evaluate(judgments, scores.astype(np.float32), ["mrr"]).means["mrr"]
        == (1 + 1 / 2) / 2
    )


@pytest.mark.parametrize(
    ("dtype", "start"),
    [(np.int64, 2**62), (np.int64, -(2**63)), (np.uint64, 2**64 - 2), (np.int64, 1)],
)
def test_whole_numbers_beyond_float64_are_no_ties(dtype: Any, start: int) -> None:
    scores = np.array([start, start + 1], dtype=dtype)
    judgments = one_query([0, 1])
    assert evaluate(judgments, scores, ["mrr"]).means["mrr"] == 1.0
    assert evaluate(judgments, scores[[0, 0]], ["mrr"]).means["mrr"] == 3 / 4


REFUSED: list[tuple[Any, ...]] = [
    # metric, labels, scores, settings of the convention -> what the message names
    ("ncdg@10", [0, 1], [1, 2], {}, ["'ncdg@10'", "'ndcg'", "ap, auc, cg"]),
    ("ndcg@0", [0, 1], [1, 2], {}, ["'ndcg@0'", "cutoff"]),
    ("auc@10", [0, 1], [1, 2], {}, ["'auc@10'", "no cutoff"]),
    (
        "precision@2147483648",
        [0, 1],
        [1, 2],
        {},
        ["'precision@2147483648'", "2147483647"],
    ),
    (
        "err@1",
        [0, 5],
        [2, 1],
        {},
        ["labels[1] is 5", "ERR", "highest grade", 4, "set highest_grade"],
    ),
    (
        "ndcg@5",
        [0, 0.5],
        [1, 2],
        {},
        ["labels[1] is 0.5", "2^label - 1", "gain linear"],
    ),
    ("ndcg", [0, 2], [1, 2], {"gain": "[0,1]"}, ["labels[1] is 2", "label 1"]),
    (
        "ndcg@5",
        [0, 1100],
        [1, 2],
        {},
        ["labels[1] is 1100", "infinite", "map the labels"],
    ),
    ("mrr", [0, 1, 2], [1, 2], {}, ["shape (2,)", "3 documents"]),
    ("mrr", [0, 1], [1, math.nan], {}, ["scores[1]", "NaN", "trec_eval"]),
    ("mrr", [0, 1], ["1", "2"], {}, ["<U1", "np.float64"]),
    ("mrr", [0, 1], [1, 2j], {}, ["complex128", "np.float64"]),
    ("mrr", [0, 1], [1, None], {}, ["object", "np.float64"]),
    (["mrr"], [0, 1], [1, 2], {}, ["['mrr']", "'ndcg@10'"]),
    ("ndcg", [0, 1], [1, 2], {"gain": [3, 2, 1]}, ["gain", "[0,1,3,7]"]),
    ("valeu@2:c", [0, 1], [1, 2], {}, ["'valeu@2:c'", "'value'"]),
    ("value@2", [0, 1], [1, 2], {}, ["'value@2'", "data.keep", "value@10:revenue"]),
    ("ndcg@2:c", [0, 1], [1, 2], {}, ["'ndcg@2:c'", "value@10:revenue"]),
    ("value@2:d", [0, 1], [1, 2], {}, ["'d'", "data.keep=[d]"]),
    (
        "nvalue@2:refunds",
        [0, 1],
        [1, 2],
        {},
        ["refunds[1]", -1, "nvalue", "value@k:refunds"],
    ),
    ("value@2:infinite", [0, 1], [1, 2], {}, ["infinite[0]", "inf", "finite"]),
    ("value@2:text", [0, 1], [1, 2], {}, ["'text'", "'t'", "numbers"]),
    ("mrr", [0, 1], [1, 2], {"aggregation": "ratio_of_sums"}, ["mrr", "recall, map"]),
    (
        "map",
        [0, 1],
        [1, 2],
        {"aggregation": "ratio_of_sums", "no_relevant": "0"},
        ["must be skip", 0],
    ),
    ("mrr", [0, 1], [1, 2], {"skip_shorter_than": "0"}, ["skip_shorter_than", "'0'"]),
    ("mrr", [0, 1], [1, 2], {"gian": "linear"}, ["'gian'", "'gain'"]),
    ("mrr", [0, 1], [1, 2], {"ties": "worse"}, ["ties", "'worse'", "'worst'"]),
    ("mrr", [0, 1], [1, 2], {"highest_grade": "four"}, ["highest_grade", "'four'"]),
    ("mrr", [0, 1], [1, 2], {"gain": "[3,2,1]"}, ["gain", "[0,1,3,7]"]),
]


@pytest.mark.parametrize(("name", "labels", "scores", "settings", "parts"), REFUSED)
def test_an_evaluation_that_is_not_defined_is_refused(
    name: str,
    labels: list[float],
    scores: list[Any],
    settings: dict[str, Any],
    parts: list[object],
) -> None:
    kept = {
        "text": np.full(len(labels), "t"),
        "refunds": -np.arange(len(labels)),
        "infinite": np.full(len(labels), math.inf),
    }
    judgments = replace(one_query(labels), kept=kept)
    with pytest.raises((ConfigError, DataError), match=naming(*parts)):
        evaluate(judgments, np.array(scores), [name], with_settings(DEFAULT, settings))


def test_documents_left_out_are_ranked_among_themselves_in_their_queries_and_keep_the_weights() -> (
    None
):
    train = Judgments(
        labels=np.array([0.0, 0.0, 1.0, 9.0, 0.0]),
        query_start=np.array([0, 2, 5]),
        query_weights=np.array([1.0, 5.0]),
    )
    queries, judgments = left_out_judgments(train, np.array([2, 4]))
    assert queries.tolist() == [1]
    assert judgments.query_weights is not None
    assert judgments.query_weights.tolist() == [5.0]
    assert evaluate(judgments, np.array([0.0, 1.0]), ["mrr"]).means == {
        "mrr": 1.0 / 2.0
    }
