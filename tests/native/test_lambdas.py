from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from engine_cases import MAY_COMPILE, dataset, query
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltrbench.metrics import evaluate
from ltrbench.native.objectives.lambdas import LambdaSettings, any_order, lambdas, ndcg_data
from ltrbench.native.objectives.pairs import pair_lambdas
from ltrbench.native.objectives.pairwise import NATIVE

PLAIN = LambdaSettings(normalize_distance=False, normalize_query=False)

documents = st.lists(
    st.tuples(st.integers(0, 4), st.one_of(st.integers(-3, 3), st.floats(-1000, 1000))),
    min_size=1,
    max_size=12,
)
any_settings = st.builds(
    LambdaSettings,
    sigma=st.sampled_from([0.5, 1.0, 2.0]),
    truncation=st.integers(1, 15),
    normalize_distance=st.booleans(),
    normalize_query=st.booleans(),
)


def of_query(
    labels: list[float], scores: Any, options: LambdaSettings
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return lambdas(
        ndcg_data(query(labels), options.truncation), np.asarray(scores, dtype=np.float64), options
    )


def specified(
    labels: list[float], scores: NDArray[np.float64], options: LambdaSettings
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    pairs = pair_lambdas(np.array(labels), scores, replace(NATIVE, **options._asdict()))
    return pairs.gradients, pairs.hessians


@given(documents, any_settings)
@MAY_COMPILE
def test_the_kernel_does_what_the_specification_says(
    documents: list[tuple[int, float]], options: LambdaSettings
) -> None:
    labels, scores = [float(label) for label, _ in documents], np.array([float(s) for _, s in documents])
    data = ndcg_data(query(labels), options.truncation)
    got = lambdas(data, scores, options)
    expected = specified(labels, scores, options)
    # Unlike exp of a difference, a quotient of exponentials has an error of an ulp of a score of 1000: 1e-13.
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-15)


def test_lambdas_are_those_of_the_worked_example_of_ranklibs_tutorial() -> None:
    # RankLib's lambdas are positive if a document should move up, without normalisation or cutoff.
    gradients, _ = of_query([0, 0, 0, 1, 1, 0, 1, 1, 0, 0], np.zeros(10), PLAIN)
    published = [-0.495, -0.206, -0.104, 0.231, 0.231, -0.033, 0.240, 0.247, -0.051, -0.061]
    np.testing.assert_allclose(-gradients, published, atol=5e-4)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=6), st.randoms(use_true_random=False))
@MAY_COMPILE
def test_a_pair_counts_by_what_swapping_its_documents_does_to_ndcg(labels: list[int], random: Any) -> None:
    scores = np.array(random.sample(range(10), len(labels)), dtype=np.float64)
    data = query([float(label) for label in labels])

    def ndcg(scores: NDArray[np.float64]) -> float:
        return float(np.nan_to_num(evaluate(data, scores, ["ndcg"]).means["ndcg"]))

    expected = np.zeros(len(labels))
    for a, b in combinations(range(len(labels)), 2):
        hi, lo = (a, b) if labels[a] > labels[b] else (b, a)
        swapped = scores.copy()
        swapped[[a, b]] = scores[[b, a]]
        delta = 0.0 if labels[a] == labels[b] else abs(ndcg(swapped) - ndcg(scores))
        push = delta / (1.0 + np.exp(scores[hi] - scores[lo]))
        expected[hi] -= push
        expected[lo] += push
    gradients, _ = lambdas(ndcg_data(data, len(labels)), scores, PLAIN._replace(truncation=len(labels)))
    np.testing.assert_allclose(gradients, expected, atol=1e-12)


@given(documents, any_settings)
@MAY_COMPILE
def test_gradients_of_a_query_sum_to_zero_and_hessians_are_not_negative(
    documents: list[tuple[int, float]], options: LambdaSettings
) -> None:
    gradients, hessians = of_query([label for label, _ in documents], [s for _, s in documents], options)
    assert abs(gradients.sum()) <= 1e-12 * (1.0 + np.abs(gradients).sum())
    assert (hessians >= 0.0).all()


def test_the_hessian_is_the_derivative_of_the_gradient_where_ranks_do_not_change() -> None:
    labels, scores, step = [2.0, 0.0, 1.0], np.array([0.3, 0.2, -0.4]), 1e-6
    _, hessians = of_query(labels, scores, PLAIN)
    for d in range(3):
        moved = scores.copy()
        moved[d] += step
        slope = (of_query(labels, moved, PLAIN)[0][d] - of_query(labels, scores, PLAIN)[0][d]) / step
        assert hessians[d] == pytest.approx(slope, rel=1e-4)


def test_weights_multiply_and_queries_left_out_have_no_lambdas() -> None:
    labels, sizes, scores = np.array([0, 2, 1, 0, 1.0]), [3, 2], np.array([0.1, 0.0, 0.2, 0.0, -1.0])
    features = np.zeros((5, 1))
    options = LambdaSettings()
    plain = lambdas(ndcg_data(dataset(features, labels, sizes), 30), scores, options)
    weighted_data = dataset(features, labels, sizes, weights=np.array([2.0, 0.5]))
    weighted = lambdas(ndcg_data(weighted_data, 30), scores, options)
    np.testing.assert_allclose(weighted, np.array(plain) * [2, 2, 2, 0.5, 0.5], rtol=1e-15)
    second = lambdas(ndcg_data(dataset(features, labels, sizes), 30), scores, options, np.array([1]))
    np.testing.assert_array_equal(second, np.array(plain) * [0, 0, 0, 1, 1])


@pytest.mark.parametrize("size", [1, 2, 200, 2000])
def test_the_order_of_an_earlier_ranking_changes_no_bit(size: int) -> None:
    rng = np.random.default_rng(8)
    data = ndcg_data(query(rng.integers(0, 4, size).tolist()), 30)
    order = any_order(data)
    near = rng.normal(size=size)
    # Small changes; reversed order, which exceeds the moves of insertion sort; ties.
    for scores in (near, near + 0.01 * rng.normal(size=size), -near, np.round(near), np.zeros(size)):
        afresh = lambdas(data, scores, PLAIN)
        np.testing.assert_array_equal(lambdas(data, scores, PLAIN, order=order), afresh)
        np.testing.assert_array_equal(order, np.argsort(-scores, kind="stable"))
