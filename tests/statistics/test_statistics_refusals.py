"""Input that a statistic cannot use, and what the message must name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from messages import naming

from ltrbench.errors import ConfigError
from ltrbench.statistics import (
    PairedSample,
    bayesian_correlated_t,
    compare_pairs,
    corrected_resampled_t,
    friedman,
    independent_replicates,
    minimum_detectable_difference,
    queries_needed,
    resampling_factor,
    shared_replicates,
)
from ltrbench.statistics.repeated import against_itself

SHARES = np.full(5, 0.2)
TRAININGS = np.random.default_rng(0).random((8, 5))
SAMPLE = PairedSample.of(TRAININGS[:1])
FOLDS = PairedSample.of(TRAININGS[:1], strata=np.array([0, 0, 0, 1, 1]))
WITH_NAN = np.where(TRAININGS[1, 2] == TRAININGS, np.nan, TRAININGS)

REFUSALS: list[tuple[Callable[[], object], tuple[object, ...]]] = [
    (lambda: PairedSample.of(np.array([[0.5, np.nan]])), ("system 0", "query 1", "nan", "leave out")),
    (
        lambda: PairedSample.of(np.ones((1, 2)), np.array([1.0, 0.0])),
        ("weights", "positive", "leave out"),
    ),
    (
        lambda: PairedSample.of(np.ones((1, 2)), np.array([1.0])),
        ("2 queries", "shape (1,)", "shape (2,)"),
    ),
    (lambda: PairedSample.of(np.ones((1, 2, 2))), ("(systems, queries)", "(1, 2, 2)")),
    (lambda: compare_pairs(SAMPLE, [(0, 0)], num_draws=0), ("num_draws is 0", "10,000")),
    (lambda: friedman([[0.1, float("nan")]]), ("means", "row", "column")),
    (lambda: corrected_resampled_t([0.1, float("nan")], 0.25), ("differences", "one per fold")),
    (lambda: corrected_resampled_t([0.1, 0.2], 0.0), ("test_share is ", "n_test / n_train")),
    (lambda: bayesian_correlated_t([0.1, 0.2], 0.25, rope=-0.1), ("rope is ", "0 or more")),
    (lambda: queries_needed(0.2, 0.0), ("difference to detect", "0.005")),
    (lambda: minimum_detectable_difference(0.2, 100, power=1.0), ("power is ", "0.8")),
    (lambda: minimum_detectable_difference(0.2, 100, power=0.05), ("power is ", "level ", "0.8")),
    (lambda: minimum_detectable_difference(-0.2, 100), ("sd_of_differences is ", "0 or more")),
    *(
        (lambda shape=shape: independent_replicates(np.zeros(shape), TRAININGS, SHARES), ("5 queries",))
        for shape in ((3, 4), (5,), (0, 5))
    ),
    (lambda: shared_replicates(WITH_NAN, TRAININGS, SHARES), ("finite", "leave out")),
    (lambda: shared_replicates(TRAININGS[:3], TRAININGS[:4], SHARES), ("3 and 4",)),
    *(
        (lambda kind=kind, share=share: resampling_factor(kind, 5, share), (f"'{kind}'", share, "bootstrap"))
        for kind, share in (("jackknife", 0.5), ("subsample", 0.0), ("subsample", 1.0))
    ),
    (lambda: against_itself(TRAININGS[:7], SAMPLE, rope=0.1), ("7 replicates", "at least 8")),
    (lambda: against_itself(TRAININGS, SAMPLE, rope=0.1, num_halvings=0), ("halvings is 0", "at least 1")),
    (
        lambda: against_itself(TRAININGS[:, :1], PairedSample.of(TRAININGS[:1, :1]), rope=0.1),
        ("one query",),
    ),
    (lambda: against_itself(TRAININGS, FOLDS, rope=0.1), ("test_share", "n_test / n_train")),
]


@pytest.mark.parametrize(("call", "parts"), REFUSALS)
def test_input_that_a_statistic_cannot_use_is_refused(
    call: Callable[[], object], parts: tuple[object, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        call()
