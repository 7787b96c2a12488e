"""Detectable differences and required queries: comparison with scipy's noncentral t, and consistency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ltrbench.statistics import (
    LEVEL,
    Design,
    Inference,
    fewest,
    independent_replicates,
    resampling_factor,
    shared_replicates,
)
from ltrbench.statistics.planning import design_of_replicates

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
    own_trainings = independent_replicates(a, b, shares)
    shared_seeds, resamples = (
        shared_replicates(a, b, shares),
        shared_replicates(a, b, shares, factor),
    )
    for inference, design in [
        (own_trainings, design_of_replicates(own_trainings)),
        (shared_seeds, design_of_replicates(shared_seeds)),
        (resamples, design_of_replicates(resamples, factor - 1 / 4)),
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


# Plans. A study is planned from the first of its seeds, which it contains.

LEVEL_OF_PAIR = LEVEL / 6


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
def test_seven_of_ten_planned_studies_are_decided() -> None:
    rng = np.random.default_rng(0)
    studies = [
        study for _ in range(800) if (study := planned_by_seeds(rng, 0.05)) is not None
    ]
    intervals = [study.interval(LEVEL_OF_PAIR) for study in studies]
    assert len(studies) > 100
    assert (
        np.mean([interval is not None and interval.low > 0 for interval in intervals])
        >= 0.7
    )
