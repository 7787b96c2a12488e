"""Compares the compiled objectives with their specification and with the definition of swaps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from engine_cases import MAY_COMPILE, dialect, make_dataset, query
from golden_files import golden_file
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import LtrbenchError
from ltrbench.metrics import DEFAULT
from ltrbench.metrics.conventions import (
    Denominator,
    TableGain,
    letor_discount,
    linear_gain,
)
from ltrbench.native.objectives.cross_entropy import CrossEntropy
from ltrbench.native.objectives.lambdas import (
    ObjectiveSettings,
    any_order,
    check_labels,
    lambdas,
    pair_data,
    prepare,
)
from ltrbench.native.objectives.pairs import (
    NATIVE,
    ORDERS_OF_TIES,
    PairSettings,
    change_by_swapping,
    pair_lambdas,
)
from ltrbench.native.objectives.sorting import order_of
from ltrbench.native.objectives.squared_error import SquaredError


def test_lambdas_are_those_of_the_worked_example_of_ranklibs_tutorial() -> None:
    # RankLib's lambdas are positive if a document should move up, without normalisation or cutoff.
    plain = replace(NATIVE, normalize_distance=False, normalize_query=False)
    gradients, _ = computed(query([0, 0, 0, 1, 1, 0, 1, 1, 0, 0]), np.zeros(10), plain)
    published = [
        -0.495,
        -0.206,
        -0.104,
        0.231,
        0.231,
        -0.033,
        0.240,
        0.247,
        -0.051,
        -0.061,
    ]
    np.testing.assert_allclose(-gradients, published, atol=5e-4)


@pytest.mark.parametrize("size", [1, 2, 200, 2000])
def test_the_order_of_an_earlier_ranking_changes_no_bit(size: int) -> None:
    rng = np.random.default_rng(8)
    data, of_native = pair_data(query(rng.integers(0, 4, size).tolist()), NATIVE)
    order = any_order(data)
    near = rng.normal(size=size)
    # Small changes; reversed order, which exceeds the moves of insertion sort; ties.
    for scores in (
        near,
        near + 0.01 * rng.normal(size=size),
        -near,
        np.round(near),
        np.zeros(size),
    ):
        afresh = lambdas(data, scores, of_native, np.arange(1), any_order(data))
        again = lambdas(data, scores, of_native, np.arange(1), order)
        np.testing.assert_array_equal(again, afresh)
        np.testing.assert_array_equal(order, np.argsort(-scores, kind="stable"))


@pytest.mark.parametrize("size", [1, 2, 200, 2000])
def test_documents_are_sorted_as_by_a_stable_sort_of_numpy(size: int) -> None:
    rng = np.random.default_rng(8)
    scores = rng.normal(size=size)
    with_outlier = np.sort(scores)
    with_outlier[0] = 1e9  # the others are in one bucket, in ascending order
    for each in (
        scores,
        with_outlier,
        np.round(scores),
        np.zeros(size),
        np.resize([-1e308, 1e308], size),
        np.linspace(0.0, 1e-320, size),
    ):
        np.testing.assert_array_equal(order_of(each), np.argsort(-each, kind="stable"))


METRICS = [
    "ndcg",
    "ndcg@3",
    "dcg",
    "dcg@2",
    "map",
    "map@3",
    "mrr",
    "mrr@2",
    "err",
    "err@4",
    "precision@2",
    "wta",
]
GENERAL = replace(NATIVE, least_hessian=1e-30)
"""Native's settings, except for one negligible value that only the general kernel supports."""

documents = st.lists(
    st.tuples(st.integers(0, 4), st.one_of(st.integers(-2, 2), st.floats(-60, 60))),
    min_size=1,
    max_size=10,
)
conventions = st.builds(
    replace,
    st.just(DEFAULT),
    gain=st.sampled_from(
        [DEFAULT.gain, linear_gain, TableGain((0.0, 0.0, 1.0, 5.0, 5.5))]
    ),
    discount=st.sampled_from([DEFAULT.discount, letor_discount]),
    relevance_threshold=st.sampled_from([1.0, 3.0]),
    highest_grade=st.sampled_from([4.0, 6.0]),
    average_precision_denominator=st.sampled_from(
        [Denominator.RELEVANT_UP_TO_K, Denominator.RELEVANT]
    ),
    precision_denominator=st.sampled_from([Denominator.K, Denominator.K_UP_TO_SIZE]),
)
pairs_chosen: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(dict, truncation=st.one_of(st.none(), st.integers(1, 12))),
    st.builds(
        dict,
        truncation=st.none(),
        pairs_per_document=st.integers(1, 4),
        query_norm=st.sampled_from(["log2", "pairs"]),
    ),
)
any_pairs = st.builds(
    lambda chosen, **others: PairSettings(**chosen, **others),
    pairs_chosen,
    metric=st.sampled_from([*METRICS, None]),
    convention=conventions,
    sigma=st.sampled_from([0.5, 1.0, 2.0]),
    sigmoid=st.sampled_from(["exact", "table", "float32"]),
    normalize_distance=st.booleans(),
    distance_offset=st.sampled_from([0.01, 1.0]),
    normalize_query=st.booleans(),
    hessian_factor=st.sampled_from([1.0, 2.0]),
    least_hessian=st.sampled_from([0.0, 1e-3]),
    ties=st.sampled_from(list(ORDERS_OF_TIES)),
    float32_scores=st.booleans(),
    float32_sums=st.booleans(),
    float32_norm=st.booleans(),
)

fast_pairs = st.builds(
    replace,
    st.just(NATIVE),
    metric=st.sampled_from([*METRICS, None]),
    convention=conventions,
    sigma=st.sampled_from([0.5, 1.0, 2.0]),
    truncation=st.integers(1, 12),
    normalize_distance=st.booleans(),
    normalize_query=st.booleans(),
)
"""Settings of the fast kernel, if the metric adds up over ranks."""


def computed(
    data: RankingDataset, scores: Any, settings: ObjectiveSettings, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = np.asarray(scores, dtype=np.float64)
    return prepare(data, settings)(values, None, np.random.default_rng(seed))


def drawn(
    num_documents: int, settings: PairSettings, seed: int = 0
) -> NDArray[np.float64]:
    return np.random.default_rng(seed).random(
        (num_documents, settings.pairs_per_document or 0)
    )


@given(documents, any_pairs | fast_pairs)
@MAY_COMPILE
def test_the_engine_does_what_the_specification_says(
    documents: list[tuple[int, float]], settings: PairSettings
) -> None:
    labels, scores = np.array(documents, dtype=np.float64).T
    got = computed(query(labels.tolist()), scores, settings)
    pairs = pair_lambdas(labels, scores, settings, drawn(len(labels), settings))
    # Relative to the largest value, because values of opposite signs cancel.
    size = np.abs([pairs.lambda_matrix, pairs.hessian_matrix]).max(initial=1e-3)
    # The engine rounds a pair that is drawn twice twice; the specification rounds the doubled pair once.
    digits = 1e-6 if settings.float32_sums or settings.float32_norm else 1e-11
    np.testing.assert_allclose(
        got, (pairs.gradients, pairs.hessians), rtol=1e-9, atol=digits * size
    )


@pytest.mark.parametrize("metric", METRICS)
@given(documents)
@MAY_COMPILE
def test_a_pair_weighs_what_swapping_its_documents_does_to_the_metric(
    metric: str, documents: list[tuple[int, float]]
) -> None:
    labels, scores = np.array(documents, dtype=np.float64).T
    plain = replace(
        GENERAL,
        metric=metric,
        truncation=None,
        normalize_distance=False,
        normalize_query=False,
    )
    ranks = pair_lambdas(labels, scores, plain).ranks
    swaps = change_by_swapping(labels, ranks, metric, DEFAULT)
    higher = np.sign(labels[:, None] - labels[None, :])
    wrong = 1.0 / (1.0 + np.exp(higher * (scores[:, None] - scores[None, :])))
    gradients, _ = computed(query(labels.tolist()), scores, plain)
    np.testing.assert_allclose(
        gradients, (-higher * swaps * wrong).sum(axis=1), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize(
    ("metric", "highest_grade", "golden_name"),
    [
        ("ndcg@10", 4.0, "ndcg10"),
        ("ndcg@3", 4.0, "ndcg3"),
        ("err@10", 2.0, "err10"),
        ("map", 4.0, "ap"),
    ],
)
def test_the_engines_lambdas_are_pyltrs_on_real_queries(
    metric: str, highest_grade: float, golden_name: str
) -> None:
    pairs_of_ndcg = dialect("pyltr")
    convention = replace(pairs_of_ndcg.convention, highest_grade=highest_grade)
    settings = replace(
        pairs_of_ndcg, metric=metric, convention=convention, truncation=None
    )
    for golden in json.loads(golden_file("pyltr_lambdas.json").read_text()):
        gradients, hessians = computed(
            query(golden["labels"]), golden["scores"], settings
        )
        # pyltr's lambdas are positive if a document should move up.
        np.testing.assert_allclose(
            -gradients, golden[golden_name]["lambdas"], rtol=0, atol=1e-9
        )
        np.testing.assert_allclose(
            hessians, golden[golden_name]["weights"], rtol=0, atol=1e-9
        )


OBJECTIVES: list[ObjectiveSettings] = [
    NATIVE,
    dialect("xgboost"),
    replace(NATIVE, metric="err@5"),
    replace(NATIVE, metric="map", truncation=None, pairs_per_document=2),
    replace(NATIVE, metric=None),
    CrossEntropy(),
    SquaredError(),
]


@pytest.mark.parametrize("settings", OBJECTIVES)
def test_weights_multiply_and_queries_left_out_count_nothing(
    settings: ObjectiveSettings,
) -> None:
    plain, weighted = make_dataset(2), make_dataset(2, weighted=True)
    scores = np.random.default_rng(3).normal(size=plain.num_documents)
    alone = np.array(computed(plain, scores, settings))
    in_float32 = isinstance(settings, PairSettings) and settings.float32_sums
    np.testing.assert_allclose(
        computed(weighted, scores, settings),
        alone * weighted.weight_of_document,
        rtol=1e-7 if in_float32 else 1e-12,
        atol=1e-15,
    )
    chosen = np.array([1, 4, 7])
    part = prepare(plain, settings)(scores, chosen, np.random.default_rng(0))
    np.testing.assert_array_equal(
        part, alone * np.isin(plain.query_of_document, chosen)
    )


def test_drawn_pairs_are_in_the_mean_those_of_all() -> None:
    labels, scores = [3.0, 0.0, 1.0, 0.0, 0.0], np.array([0.1, 0.4, 0.2, 0.0, 0.3])
    plain = replace(NATIVE, truncation=None, metric=None, normalize_query=False)
    many = replace(plain, pairs_per_document=20_000)
    gradients, _ = computed(query(labels), scores, many)
    matrix = pair_lambdas(np.array(labels), scores, plain).lambda_matrix
    # A document draws each of m possible partners with probability 1 / m.
    chances = 1.0 / (np.array(labels)[:, None] != np.array(labels)[None, :]).sum(axis=1)
    expected = (matrix * (chances[:, None] + chances[None, :])).sum(axis=1)
    np.testing.assert_allclose(gradients / 20_000, expected, rtol=0.05)


@pytest.mark.parametrize(
    ("labels", "settings", "parts"),
    [
        ([0.0, 2000.0], NATIVE, ("labels[1]", "2000", "gain", "infinite")),
        (
            [1023.0, 1023.0, 1023.0],
            NATIVE,
            ("query 1", "infinity", "map the labels", "gain=linear"),
        ),
        (
            [0.0, 5.0],
            replace(NATIVE, metric="err"),
            ("labels[1]", "is 5", "ERR", "4", "set highest_grade"),
        ),
        ([0.0, 2000.0], CrossEntropy(), ("labels[1]", "2000", "gain", "infinite")),
    ],
)
def test_labels_that_an_objective_has_no_meaning_for_are_refused(
    labels: list[float], settings: ObjectiveSettings, parts: tuple[str, ...]
) -> None:
    for refuse in (check_labels, prepare):
        with pytest.raises(LtrbenchError, match=naming(*parts)):
            refuse(query(labels), settings)
