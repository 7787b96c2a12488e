"""Detectable differences and required queries: comparison with scipy's noncentral t, and consistency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from ltrbench.statistics import (
    LEVEL,
    Design,
    Inference,
    fewest,
    fold_replicates,
    independent_replicates,
    resampling_factor,
    shared_replicates,
)
from ltrbench.statistics.paired import Differing
from ltrbench.statistics.planning import design_of_folds, design_of_replicates
from ltrbench.statistics.repeated import (
    SharedVariance,
    VarianceParts,
    shared_variances,
    with_shared_variance,
)

DRAWS = 2000


@pytest.mark.parametrize(
    ("num_queries", "power"), [(3, 0.8), (20, 0.8), (150, 0.9), (30_000, 0.5)]
)
def test_the_t_test_finds_the_detectable_difference_with_that_power(
    num_queries: int, power: float
) -> None:
    difference = Design(num_queries, 0.2**2).detectable(power)
    degrees, noncentrality = num_queries - 1, difference * num_queries**0.5 / 0.2
    assert stats.nct.sf(
        stats.t.ppf(0.975, degrees), degrees, noncentrality
    ) == pytest.approx(power, abs=1e-6)


# Several trainings


def share_above_0(infer: Callable[[np.random.Generator], Inference]) -> float:
    """Returns the share of draws with a 95 % interval above 0."""
    rng = np.random.default_rng(0)
    intervals = [infer(rng).interval(0.05) for _ in range(DRAWS)]
    return float(
        np.mean([interval is not None and interval.low > 0 for interval in intervals])
    )


def crossed(
    rng: np.random.Generator, design: Design
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Returns (R, Q) with mean 0: parts of the query, of the training, and of both."""
    shape = design.num_trainings, design.num_queries
    values: np.ndarray[tuple[int, int], np.dtype[np.float64]] = (
        np.sqrt(design.query) * rng.normal(size=shape[1])
        + np.sqrt(design.training) * rng.normal(size=(shape[0], 1))
        + np.sqrt(design.by_query) * rng.normal(size=shape)
    )
    return values


@pytest.mark.slow
@pytest.mark.parametrize("num_trainings", [3, 8])
def test_shared_trainings_detect_the_detectable_difference_in_four_of_five_studies(
    num_trainings: int,
) -> None:
    design = Design(
        60, query=0.02, num_trainings=num_trainings, training=0.001, by_query=0.01
    )
    shares, difference = np.full(60, 1 / 60), design.detectable()
    nothing = np.zeros((num_trainings, 60))
    power = share_above_0(
        lambda rng: shared_replicates(
            difference + crossed(rng, design), nothing, shares
        )
    )
    assert power == pytest.approx(0.8, abs=0.03)


def of_fold(value: float, within: float = 0.0) -> Inference:
    return Inference(
        value,
        0.0,
        (),
        (1, 1),
        100,
        VarianceParts(0.0, within, 0.0),
        "mrmc-t",
        Differing(100, 100, 1.0, 1.0),
    )


def replicates(
    seed: int, *shape: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=shape)
        + rng.normal(size=(shape[0], 1))
        + 3 * rng.normal(size=shape[1])
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_design_has_the_error_and_the_degrees_of_its_inference(seed: int) -> None:
    a, b, shares = (
        replicates(seed, 4, 30),
        replicates(seed + 10, 4, 30),
        np.full(30, 1 / 30),
    )
    factor = resampling_factor("bootstrap", 4)
    folds = [of_fold(value, within=0.01) for value in (0.2, 0.5, 0.1)]
    over_folds = fold_replicates(folds, [0.003] * 3, 0.25)
    shared = with_shared_variance(
        over_folds, SharedVariance(0.1, num_models=4, num_pairs=6), 0.25
    )
    own_trainings = independent_replicates(a, b, shares)
    shared_seeds, resamples = (
        shared_replicates(a, b, shares),
        shared_replicates(a, b, shares, factor),
    )
    for inference, design in [
        (own_trainings, design_of_replicates(own_trainings)),
        (shared_seeds, design_of_replicates(shared_seeds)),
        (resamples, design_of_replicates(resamples, factor - 1 / 4)),
        (over_folds, design_of_folds(over_folds, 0.25, num_trainings=6)),
        (shared, design_of_folds(shared, 0.25, num_trainings=6)),
    ]:
        assert design.standard_error == pytest.approx(inference.standard_error)
        assert np.array(design.degrees) == pytest.approx(np.array(inference.degrees))


@settings(max_examples=30, deadline=None)
@given(st.floats(0.001, 0.1), st.floats(0, 0.1), st.integers(3, 30), st.floats(0.01, 1))
def test_the_fewest_is_where_a_search_through_all_numbers_ends(
    query: float, training: float, num_trainings: int, difference: float
) -> None:
    design = Design(20, query=query, num_trainings=num_trainings, training=training)

    def design_with(number: int) -> Design:
        return replace(design, num_trainings=number)

    number = fewest(design_with, difference, least=3)
    every = (
        number
        for number in range(3, 500)
        if design_with(number).detectable() <= difference
    )
    first = next(every, None)
    assert number == first or (first is None and (number is None or number >= 500))


# Plans. A study is planned from the first of its folds or seeds, which it contains. Four models are compared;
# the first is better than the second by the planned difference.

MODELS, FOLDS, TEST_SHARE, PAIRS = 4, 5, 0.25, 6
LEVEL_OF_PAIR = LEVEL / 2 / PAIRS  # of the second look


def over_folds(values: NDArray[np.float64]) -> Inference:
    """Inference of the first model minus the second from values (M, J), with the shared variance."""
    folds = [of_fold(difference) for difference in values[0] - values[1]]
    shared = SharedVariance(float(shared_variances(values)[:2].sum()), MODELS, PAIRS)
    return with_shared_variance(
        fold_replicates(folds, [0.0] * len(folds), TEST_SHARE), shared, TEST_SHARE
    )


def planned_over_folds(rng: np.random.Generator, difference: float) -> Inference | None:
    """A difference has the variance 1 over folds, and that of a common part, which no repeat reduces."""
    common = np.sqrt(TEST_SHARE / 2) * rng.normal(size=(MODELS, 1))
    values = common + np.sqrt(1 / 2) * rng.normal(size=(MODELS, 10 * FOLDS))
    values[0] += difference
    limit = design_of_folds(over_folds(values[:, :FOLDS]), TEST_SHARE).at_limit()
    repeats = fewest(
        lambda number: replace(limit, num_folds=FOLDS * number),
        difference,
        1,
        level=LEVEL_OF_PAIR,
    )
    return (
        None
        if repeats is None or repeats > 10
        else over_folds(values[:, : FOLDS * repeats])
    )


def planned_by_seeds(rng: np.random.Generator, difference: float) -> Inference | None:
    shares, of_query = np.full(200, 1 / 200), difference + 0.15 * rng.normal(size=200)
    a, b = 0.01 * rng.normal(size=(2, 30, 1)) + 0.1 * rng.normal(size=(2, 30, 200))
    a += of_query
    limit = design_of_replicates(
        independent_replicates(a[:3], b[:3], shares)
    ).at_limit()
    seeds = fewest(
        lambda number: replace(limit, num_trainings=number),
        difference,
        3,
        level=LEVEL_OF_PAIR,
    )
    return (
        None
        if seeds is None or seeds > 30
        else independent_replicates(a[:seeds], b[:seeds], shares)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planned", "difference"),
    [(planned_over_folds, 2.0), (planned_over_folds, 2.5), (planned_by_seeds, 0.05)],
)
def test_seven_of_ten_planned_studies_are_decided(
    planned: Callable[[np.random.Generator, float], Inference | None], difference: float
) -> None:
    rng = np.random.default_rng(0)
    studies = [
        study for _ in range(800) if (study := planned(rng, difference)) is not None
    ]
    intervals = [study.interval(LEVEL_OF_PAIR) for study in studies]
    assert len(studies) > 100
    assert (
        np.mean([interval is not None and interval.low > 0 for interval in intervals])
        >= 0.7
    )
