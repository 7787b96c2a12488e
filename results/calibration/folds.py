"""The interval of two methods over folds, as a comparison of two models computes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ltrbench.statistics import LEVEL, Interval, PairedSample, fold_variations
from ltrbench.statistics.paired import student_intervals


def sample_of_folds(differences: Sequence[NDArray[np.float64]]) -> PairedSample:
    """Returns one pair, given (J,) arrays, the differences of the queries of each fold."""
    sizes = [len(fold) for fold in differences]
    strata = np.repeat(np.arange(len(differences)), sizes)
    return PairedSample.of(np.concatenate(differences), strata=strata)


def interval_of_methods(
    differences: Sequence[NDArray[np.float64]], test_share: float, level: float = LEVEL
) -> Interval | None:
    """Returns the interval about the methods.

    Args:
        differences: (J,) arrays, the differences of the queries of each fold, averaged over seeds.
        test_share: n_test / n_train.
    """
    sample = sample_of_folds(differences)
    (variation,) = fold_variations(
        sample, num_folds=len(differences), test_share=test_share
    )
    return variation.interval(student_intervals(sample, level)[0], level)
