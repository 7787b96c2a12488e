"""LambdaLoss, ListNet, ListMLE and ApproxNDCG: values of their libraries, and specifications of the kernels.

test_objectives.py compares gradients with the losses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from numpy.typing import NDArray
from scipy.special import softmax

from ltrbench.errors import LtrbenchError
from ltrbench.native.objectives.approx_ndcg import ApproxNDCG
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.lambdaloss import WEIGHTINGS, LambdaLoss
from ltrbench.native.objectives.listmle import ListMLE, random_order
from ltrbench.native.objectives.listnet import ListNet


def one_query(labels: Any, weights: Any = 1.0) -> ObjectiveData:
    y = np.asarray(labels, dtype=np.float64)
    return ObjectiveData(
        y, np.full(len(y), weights), np.array([0, len(y)]), np.array([0])
    )


def gains_of(labels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the gains of NDCG."""
    gains: NDArray[np.float64] = np.exp2(labels) - 1.0
    best = float(np.sort(gains)[::-1] @ (1 / np.log2(np.arange(len(gains)) + 2.0)))
    return gains / best if best > 0 else gains


def test_losses_are_those_of_the_tests_of_allrank() -> None:
    # allRank's values are float32; its test of RankNet uses natural logarithms. Its NDCG-Loss1 has the pairs
    # i = j, each with log2(2) times the gain and discount of a document, which add up to NDCG.
    scores = np.array([0.5, 0.3, 0.5])

    def loss(objective: Objective) -> float:
        return objective.loss(scores, one_query(scores), 0)

    def allrank(weighting: str) -> float:
        return loss(LambdaLoss(variant="allrank", weighting=weighting))

    ideal = 1.0 / np.log2(np.arange(3) + 2.0)
    ndcg = gains_of(scores) @ ideal[[0, 2, 1]]
    assert allrank("ndcg1") + ndcg == pytest.approx(2.9272110462, rel=2e-7)
    assert allrank("ndcg2++") == pytest.approx(1.1244146823, rel=2e-7)
    assert np.log(2.0) * allrank("ranknet") == pytest.approx(1.1962778568, rel=2e-7)
    assert loss(ApproxNDCG(temperature=1.0)) == pytest.approx(-0.8499219417, rel=2e-7)
    # Its tests of ListMLE and ListNet have two documents.
    of_listmle = ListMLE().loss(np.array([0.5, 0.3]), one_query([1, 0]), 0)
    assert of_listmle == pytest.approx(0.5981389284, rel=1e-6)
    of_listnet = -softmax([1.0, 0.0]) @ np.log(softmax([0.5, 0.2]))
    assert ListNet().loss(np.array([0.5, 0.2]), one_query([1, 0]), 0) == pytest.approx(
        of_listnet
    )


def test_pair_weights_are_those_of_the_test_of_tf_ranking() -> None:
    # test_create_ndcg_lambda_weight in losses_test.py: the documents are on the ranks 1 and 2.
    weights = LambdaLoss().pair_weights(np.array([2.0, 1.0]), np.array([1.0, 0.0]))
    change, best = 2 * (1 / np.log(2) - 1 / np.log(3)), 3 / np.log(2) + 1 / np.log(3)
    np.testing.assert_allclose(weights / 2, [[0, change / best], [0, 0]])


def test_losses_and_gradients_are_those_of_rax() -> None:
    objective, data = (
        LambdaLoss(variant="rax", weighting="dcg2"),
        one_query([0, 2, 1, 0]),
    )
    scores = np.array([2.0, 1.0, 0.0, -1.0])
    assert objective.loss(scores, data, 0) == pytest.approx(8.51695, abs=1e-5)
    gradients, _ = objective.gradients(scores, data, 0)
    np.testing.assert_allclose(
        gradients, [3.69903, -4.21910, -0.06426, 0.58432], atol=1e-5
    )
    # The example in the documentation of softmax_loss.
    softmax_loss = ListNet(targets="labels").loss(
        np.array([2.0, 1.0, 3.0]), one_query([1, 0, 0]), 0
    )
    assert softmax_loss == pytest.approx(1.4076059, abs=1e-7)


lambdalosses = st.one_of(
    *(
        st.builds(
            LambdaLoss,
            variant=st.just(variant),
            weighting=st.sampled_from(weightings),
            smooth_fraction=st.sampled_from(
                [0.0, 0.3, 1.0] if variant == "tf_ranking" else [0.0]
            ),
            sigma=st.sampled_from([0.5, 1.0, 2.0]),
            # In allrank both documents of a pair are in the top ranks.
            truncation=st.one_of(
                st.none(), st.integers(2 if variant == "allrank" else 1, 12)
            ),
        )
        for variant, weightings in WEIGHTINGS.items()
    )
)
documents = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.one_of(st.integers(-2, 2), st.floats(-1e3, 1e3)),
        st.sampled_from([0.5, 1.0, 3.0]),
    ),
    min_size=1,
    max_size=10,
)


def terms(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns 1 / (1 + exp(d))."""
    return np.exp(-np.logaddexp(0.0, differences))


@given(objective=lambdalosses, documents=documents)
def test_lambdaloss_has_the_gradients_of_its_loss_with_fixed_ranks(
    objective: LambdaLoss, documents: Any
) -> None:
    labels, scores, weights = np.array(documents, dtype=np.float64).T
    w = weights[:, None] * objective.pair_weights(labels, scores)
    p = terms(objective.sigma * (scores[:, None] - scores))
    push, curvature = objective.sigma * w * p, objective.sigma**2 * w * p * (1 - p)
    g, h = objective.gradients(scores, one_query(labels, weights), 0)
    np.testing.assert_allclose(
        g, push.sum(axis=0) - push.sum(axis=1), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        h, curvature.sum(axis=0) + curvature.sum(axis=1), rtol=1e-9, atol=1e-9
    )


@given(temperature=st.sampled_from([0.1, 1.0]), documents=documents)
def test_approx_ndcg_agrees_with_its_formulas(
    temperature: float, documents: Any
) -> None:
    labels, scores, weights = np.array(documents, dtype=np.float64).T
    q = terms((scores[:, None] - scores) / temperature) * (1 - np.eye(len(labels)))
    r = 1 + q.sum(axis=1)
    gains = gains_of(labels)
    c = weights * gains / (np.log(2.0) * (1 + r) * np.log2(1 + r) ** 2)
    slopes = (c - c[:, None]) * q * (1 - q) / temperature
    g, h = ApproxNDCG(temperature=temperature).gradients(
        scores, one_query(labels, weights), 0
    )
    np.testing.assert_allclose(g, slopes.sum(axis=1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        h, np.abs(slopes).sum(axis=1) / temperature, rtol=1e-9, atol=1e-7
    )


@given(documents=documents, seed=st.integers(0, 99))
def test_listmle_agrees_with_its_formulas(documents: Any, seed: int) -> None:
    labels, scores, weights = np.array(documents, dtype=np.float64).T
    order = random_order(labels, seed, 0)
    s, a = scores[order], weights[order]
    log_sums = np.logaddexp.accumulate(s[::-1])[::-1]
    p = np.exp(np.where(np.tri(len(s)).T > 0, s - log_sums[:, None], -np.inf))
    g, h = ListMLE().gradients(scores, one_query(labels, weights), seed)
    np.testing.assert_allclose(g[order], a @ p - a, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(h[order], a @ (p * (1 - p)), rtol=1e-9, atol=1e-9)


def test_listmle_draws_every_order_of_tied_documents_equally_often() -> None:
    orders = [
        tuple(random_order(np.array([0.0, 1.0, 0.0, 0.0]), seed, 3))
        for seed in range(6000)
    ]
    drawn, counts = np.unique(orders, axis=0, return_counts=True)
    assert drawn.shape == (6, 4)
    assert (drawn[:, 0] == 1).all()
    # Chi squared with 5 degrees of freedom exceeds 20.5 with a probability of 0.1 %.
    assert ((counts - 1000) ** 2 / 1000).sum() < 20.5


def test_listmle_is_stable_for_lists_of_1000_documents() -> None:
    rng = np.random.default_rng(0)
    data = one_query(rng.integers(0, 3, 1000))
    scores = 500 * rng.normal(size=1000)
    gradients, hessians = ListMLE().gradients(scores, data, 1)
    assert np.isfinite(gradients).all()
    assert (hessians >= 0).all()
    # In the exact order of labels and far apart, every document is drawn with certainty.
    ordered = -1e3 * np.argsort(random_order(data.labels, 1, 0)).astype(np.float64)
    np.testing.assert_allclose(ListMLE().gradients(ordered, data, 1), 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (
            lambda: LambdaLoss(variant="rank"),
            ["variant", "rank", "tf_ranking", "rax", "allrank"],
        ),
        (
            lambda: LambdaLoss(variant="rax", weighting="ndcg1"),
            ["weighting", "rax", "ndcg1", "dcg2"],
        ),
        (
            lambda: LambdaLoss(variant="rax", smooth_fraction=0.5),
            ["smooth_fraction", "0.5", "tf_ranking"],
        ),
        (lambda: LambdaLoss(variant="allrank", mu=5.0), ["mu", "5", "ndcg2++"]),
        (
            lambda: LambdaLoss(variant="allrank", truncation=1),
            ["truncation", "1", "allrank", "2 or more"],
        ),
        (lambda: LambdaLoss(truncation=0), ["truncation", "0", "at least 1"]),
        (lambda: ListNet(targets="gains"), ["targets", "gains", "softmax", "labels"]),
        (
            lambda: ApproxNDCG(),
            ["temperature", "0.1", "TF-Ranking", "1", "RAX", "allRank"],
        ),
        (lambda: ApproxNDCG(temperature=-1.0), ["temperature", "-1"]),
        (
            lambda: LambdaLoss().check(np.array([0.0, 2000.0]), np.array([0, 2])),
            ["labels[1]", "2000"],
        ),
        (
            lambda: ApproxNDCG(temperature=1.0).check(
                np.array([0.0, 0.5]), np.array([0, 2])
            ),
            ["labels[1]", "0.5"],
        ),
    ],
)
def test_a_setting_or_label_that_an_objective_does_not_take_is_named(
    make: Any, named: list[str]
) -> None:
    with pytest.raises(LtrbenchError, match=naming(*named)):
        make()
