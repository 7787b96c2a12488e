"""Propensities: golden values of independent implementations, refusals, and the influence of impressions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click_cases import (
    GOLDEN,
    THETA,
    dataset_of,
    impressions_of_counts,
    make_log,
    make_world,
)
from numpy.typing import NDArray

from ltrbench.clicks.propensities import (
    estimate,
    expectation_maximisation,
    expected,
    harvest,
    influence_of_split,
)
from ltrbench.data.impressions import Impressions
from ltrbench.errors import LtrbenchError

PBM = GOLDEN["pbm"]


def test_harvest_solves_its_equation() -> None:
    shown, clicks = np.array(PBM["impressions"]), np.array(PBM["clicks"])
    theta = harvest(impressions_of_counts(shown, clicks)).theta
    assert theta == pytest.approx(PBM["theta_harvest"], abs=1e-12)
    shares = shown * theta / (shown * theta).sum(axis=1, keepdims=True)
    right = (clicks.sum(axis=1, keepdims=True) * shares).sum(axis=0)
    assert clicks.sum(axis=0) == pytest.approx(right, abs=1e-8)


def test_em_is_the_maximum_likelihood_of_clax() -> None:
    given = impressions_of_counts(PBM["impressions"], PBM["clicks"])
    assert expected(given).theta == pytest.approx(PBM["theta_mle"], abs=1e-6)
    assert not expected(given).is_claimed


def test_em_is_that_of_pyclick() -> None:
    golden = GOLDEN["pbm_em_50_iterations"]
    names = list(golden["attraction"])
    shown, clicks = np.zeros((2, len(names), 3))
    for query, documents, clicked in golden["sessions"]:
        for position, document in enumerate(documents):
            unit = names.index(f"{query}/{document}")
            shown[unit, position] += 1
            clicks[unit, position] += clicked[position]
    given = impressions_of_counts(shown, clicks)
    theta, attraction = expectation_maximisation(given, num_iterations=50)
    assert theta == pytest.approx(golden["examination"], abs=1e-13)
    assert attraction == pytest.approx([*golden["attraction"].values()], abs=1e-13)


def test_harvest_is_close_to_the_truth() -> None:
    world = make_world(0)
    thetas = []
    for log in range(20):
        given = dataset_of(make_log(world, seed=log)).impressions
        assert given is not None
        thetas.append(given.theta / THETA)
    assert np.median(thetas, axis=0) == pytest.approx(np.ones(10), abs=0.15)
    assert np.median(thetas) == pytest.approx(1, abs=0.05)


def _randomised() -> Impressions:
    given = impressions_of_counts(PBM["impressions"], PBM["clicks"])
    return replace(given, is_randomised=np.ones(len(given), dtype=np.bool_))


@pytest.mark.parametrize("method", ["harvest", "random"])
def test_the_influence_is_the_derivative_by_the_weight_of_an_impression(
    method: str,
) -> None:
    given = _randomised()
    gradient = np.array([0.3, -1.0, 0.5, 2.0, -0.7])
    gradient[0] = 0

    def statistic(weights: NDArray[Any]) -> float:
        weighted = replace(
            given, shown=given.shown * weights, clicks=given.clicks * weights
        )
        return float(gradient @ np.log(estimate(weighted, method).theta))

    influence = estimate(given, method).influence(gradient)
    assert influence.sum() == pytest.approx(0, abs=1e-9)
    # Of a whole document: the influence of a click is linear in the clicks of the document.
    for unit in (0, 7, 19):
        is_of_unit = given.units == unit
        steps = [statistic(1 + step * is_of_unit) for step in (1e-5, -1e-5)]
        derivative = (steps[0] - steps[1]) / 2e-5
        assert influence[is_of_unit].sum() == pytest.approx(derivative, rel=1e-4)


def _separate() -> tuple[NDArray[Any], NDArray[Any]]:
    shown = np.zeros((4, 6))
    shown[:2, :3] = 10
    shown[2:, 3:] = 10
    return shown, shown / 2


def _one_way(is_upwards: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Documents at positions 0 and 1, or 2 and 3, and one at 1 and 2 that is clicked at one of them only."""
    shown = np.array([[9, 9, 0, 0], [0, 0, 9, 9], [0, 5, 5, 0]])
    clicks = np.array([[4, 2, 0, 0], [0, 0, 4, 2], [0, 0, 0, 0]])
    clicks[2, 2 if is_upwards else 1] = 3
    return shown, clicks


REFUSALS = [
    (_one_way(True), "harvest", ["0 and 1", "2 and 3", "between positions 1 and 2"]),
    (_one_way(False), "harvest", ["0 and 1", "2 and 3", "between positions 1 and 2"]),
    (_separate(), "harvest", ["3 to 5", "0 to 2", "between positions 2 and 3"]),
    ((np.eye(3) * 9, np.eye(3)), "harvest", ["1 and 2", "never exchanged with 0"]),
    ((np.ones((3, 3)), np.ones((3, 3))), "random", ["position 0", "0 clicks", "30"]),
    ((np.ones((3, 3)), np.ones((3, 3))), "column", ["nan", "above 0 and at most 1"]),
    ((np.ones((3, 3)), np.ones((3, 3))), "power", ["power:ETA", "power:1"]),
    ((np.ones((3, 3)), np.ones((3, 3))), "power:inf", ["power:inf", "from 0 to 10"]),
    ((np.ones((3, 3)), np.ones((3, 3))), "harvests", ["harvest", "did you mean"]),
]


@pytest.mark.parametrize(("counts", "method", "named"), REFUSALS)
def test_what_does_not_identify_the_examination_is_refused(
    counts: tuple[NDArray[Any], NDArray[Any]], method: str, named: list[str]
) -> None:
    with pytest.raises(LtrbenchError) as caught:
        estimate(impressions_of_counts(*counts), method)
    for part in named:
        assert part in str(caught.value)


def test_known_propensities_are_used_as_they_are() -> None:
    shown = np.ones((3, 3))
    theta = np.tile([0.8, 0.4, 0.2], 3)
    known = estimate(impressions_of_counts(shown, shown, propensities=theta), "column")
    assert known.theta == pytest.approx([1, 0.5, 0.25])
    assert known.propensities[:3] == pytest.approx([1, 0.5, 0.25])
    power = estimate(impressions_of_counts(shown, shown), "power:2")
    assert power.theta == pytest.approx([1, 1 / 4, 1 / 9])


def test_propensities_that_differ_within_a_position_give_their_mean() -> None:
    values = np.array([0.9, 0.4, 0.5, 0.2])
    given = impressions_of_counts([[1, 3], [3, 1]], [[1, 0], [0, 1]])
    known = estimate(replace(given, propensities=values), "column")
    means = [(1 * 0.9 + 3 * 0.5) / 4, (3 * 0.4 + 1 * 0.2) / 4]
    assert known.theta == pytest.approx([1, means[1] / means[0]])
    assert known.propensities == pytest.approx(values / means[0])


@pytest.mark.parametrize("method", ["harvest", "column", "random", "em", "power:1"])
def test_where_nothing_was_shown_the_examination_is_0(method: str) -> None:
    given = impressions_of_counts(
        [[90, 0, 90], [90, 0, 90]], [[60, 0, 30], [40, 0, 20]]
    )
    given = replace(
        given,
        is_randomised=np.ones(len(given), dtype=np.bool_),
        propensities=np.tile([0.8, 0.4], 2),
    )
    theta = estimate(given, method).theta
    assert theta[1] == 0
    assert theta[2] == pytest.approx(1 / 3 if method == "power:1" else 0.5, abs=1e-4)


def test_the_error_of_theta_is_that_of_all_queries_in_any_split() -> None:
    rng = np.random.default_rng(0)
    influence = rng.normal(size=(200, 5)) * [0, 1, 2, 3, 4]
    weights = rng.uniform(1, 9, 200)
    gradient = rng.normal(size=5)
    influence -= influence.mean(axis=0)
    squared = ((influence @ gradient) ** 2).sum()
    own, rest = influence[:60], influence[60:]
    of_split = influence_of_split(own, rest, weights[:60], None)
    assert of_split.sum(axis=0) == pytest.approx(np.zeros(5), abs=1e-9)
    assert ((of_split @ gradient) ** 2).sum() == pytest.approx(squared, rel=0.25)
    of_folds = 0.0
    for fold in range(4):
        own, num_lists = influence[fold::4], weights[fold::4]
        of_fold = influence_of_split(own, influence, num_lists, weights.sum())
        # A fold is weighted by its share of the lists.
        parts = of_fold @ gradient * (num_lists.sum() / weights.sum())
        of_folds += (parts**2).sum()
    assert of_folds == pytest.approx(squared, rel=0.1)
