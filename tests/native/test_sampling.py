from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_cases import make_dataset
from hypothesis import given
from hypothesis import strategies as st

from ltrbench.native.boosting import (
    DartSettings,
    Sample,
    Sampler,
    SamplingSettings,
    choose_dropped,
    one_side_sample,
    rescale,
)

DATA = make_dataset(0)
RNG = np.random.default_rng(0)
GRADIENTS, HESSIANS = RNG.normal(size=1000), RNG.uniform(0.1, 1.0, size=1000)
SIZES = np.abs(GRADIENTS * HESSIANS)
GOSS_RATES = (0.2, 0.1)


def draw(settings: SamplingSettings, times: int = 1, seed: int = 0) -> list[Sample]:
    sampler = Sampler(DATA, settings, np.random.default_rng(seed))
    return [sampler.draw() for _ in range(times)]


def test_rows_are_rising_documents_of_the_queries_drawn() -> None:
    for sample in draw(
        SamplingSettings(queries_per_tree=10, documents_per_tree=0.5), times=5
    ):
        assert sample.queries is not None
        assert len(set(sample.queries)) == len(sample.queries) == 10
        assert (np.diff(sample.rows.astype(np.int64)) > 0).all()
        assert np.isin(DATA.query_of_document[sample.rows], sample.queries).all()
        assert len(sample.rows) == round(0.5 * DATA.query_sizes[sample.queries].sum())


def test_left_out_are_whole_queries_where_queries_are_drawn_and_else_documents() -> (
    None
):
    rng = np.random.default_rng(0)
    assert Sampler(DATA, SamplingSettings(), rng).left_out() is None

    by_query = Sampler(
        DATA, SamplingSettings(queries_per_tree=0.5, documents_per_tree=0.5), rng
    )
    queries = by_query.draw().queries
    assert queries is not None
    rest = np.setdiff1d(np.arange(DATA.num_queries), queries)
    np.testing.assert_array_equal(
        by_query.left_out(), np.flatnonzero(np.isin(DATA.query_of_document, rest))
    )

    by_document = Sampler(DATA, SamplingSettings(documents_per_tree=0.5), rng)
    rows = by_document.draw().rows
    np.testing.assert_array_equal(
        by_document.left_out(), np.setdiff1d(np.arange(DATA.num_documents), rows)
    )


def test_the_largest_are_kept_as_they_are_and_the_drawn_amplified() -> None:
    rows, factors = one_side_sample(SIZES, *GOSS_RATES, np.random.default_rng(1))
    largest = np.argsort(-np.abs(GRADIENTS * HESSIANS))[:200]
    drawn = np.setdiff1d(rows, largest)
    assert len(rows) == 200 + 100
    assert np.isin(largest, rows).all()
    assert (factors[largest] == 1.0).all()
    assert (factors[drawn] == (1 - 0.2) / 0.1).all()


def test_sums_over_the_sample_are_in_the_mean_those_over_all() -> None:
    rng = np.random.default_rng(2)
    sums = []
    for _ in range(400):
        rows, factors = one_side_sample(SIZES, *GOSS_RATES, rng)
        sums.append(
            [(factors * values)[rows].sum() for values in (GRADIENTS, HESSIANS)]
        )
    mean, error = np.mean(sums, axis=0), np.std(sums, axis=0) / np.sqrt(len(sums))
    assert (np.abs(mean - [GRADIENTS.sum(), HESSIANS.sum()]) < 4 * error).all()


SOME = DartSettings(drop_rate=0.3)


def shares(
    weights: list[float], settings: DartSettings, times: int = 4000
) -> np.ndarray:
    """Returns the (T,) share of draws in which each tree is dropped."""
    rng = np.random.default_rng(0)
    counts = np.zeros(len(weights))
    for _ in range(times):
        counts[choose_dropped(np.array(weights), settings, rng)] += 1
    return counts / times


@pytest.mark.parametrize(
    ("by_weight", "expected"), [(False, [0.3, 0.3, 0.3]), (True, [0.15, 0.3, 0.45])]
)
def test_the_chance_of_a_tree_is_the_drop_rate_or_by_weight_its_mean(
    by_weight: bool, expected: list[float]
) -> None:
    observed = shares([0.1, 0.2, 0.3], replace(SOME, drop_by_weight=by_weight))
    np.testing.assert_allclose(observed, expected, atol=0.03)


@given(num_dropped=st.integers(1, 50), learning_rate=st.floats(0.01, 1.0))
def test_a_new_tree_that_gives_what_the_dropped_ones_gave_changes_no_score(
    num_dropped: int, learning_rate: float
) -> None:
    for normalize in ("tree", "forest"):
        new, factor = rescale(num_dropped, learning_rate, normalize)
        assert new + factor == pytest.approx(1.0)
    # The paper has no learning rate.
    new, factor = rescale(num_dropped, 1.0, "mean")
    assert new + factor == pytest.approx(1.0)
