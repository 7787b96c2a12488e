"""Input that a statistic cannot use, and what the message must name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from messages import naming

from ltrbench.errors import ConfigError
from ltrbench.statistics import (
    PairedSample,
    independent_replicates,
    shared_replicates,
)

SHARES = np.full(5, 0.2)
TRAININGS = np.random.default_rng(0).random((8, 5))
WITH_NAN = np.where(TRAININGS[1, 2] == TRAININGS, np.nan, TRAININGS)

REFUSALS: list[tuple[Callable[[], object], tuple[object, ...]]] = [
    (
        lambda: PairedSample.of(np.array([[0.5, np.nan]])),
        ("system 0", "query 1", "nan", "leave out"),
    ),
    (
        lambda: PairedSample.of(np.ones((1, 2)), np.array([1.0, 0.0])),
        ("weights", "positive", "leave out"),
    ),
    (
        lambda: independent_replicates(np.zeros((3, 4)), TRAININGS, SHARES),
        ("5 queries", "(3, 4)"),
    ),
    (lambda: shared_replicates(WITH_NAN, TRAININGS, SHARES), ("finite", "leave out")),
]


@pytest.mark.parametrize(("call", "parts"), REFUSALS)
def test_input_that_a_statistic_cannot_use_is_refused(
    call: Callable[[], object], parts: tuple[object, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        call()
