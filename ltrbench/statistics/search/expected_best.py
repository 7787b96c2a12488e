"""Expected validation performance of a search against its number of trials."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def expected_best(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns (N,), the expected maximum of n = 1, ..., N of N values (Dodge et al., 2019, EMNLP).

    Dodge et al., "Show Your Work", section 3, estimate the expected maximum of n draws from the empirical
    distribution function F of the values of N trials, thus with replacement:

        E[max of n] = sum_v v (F(v)^n - F(v-)^n)

    That estimator is too low, because a drawn maximum repeats values (Tang et al., 2020, ACL, "Showing Your
    Work Doesn't Always Work"). This function has their correction, the mean over all subsets of n values
    drawn without replacement. It is unbiased, and its variance is a little larger (Dodge et al., 2021, EMNLP
    Findings). With the values v_1 <= ... <= v_N:

        E[max of n] = sum_(i >= n) v_i C(i - 1, n - 1) / C(N, n)

    Assumes trials drawn independently from one distribution, as by a random search; for other searches the
    order of the trials matters, and this is not defined.

    >>> expected_best(np.array([0.0, 1.0, 2.0])).round(3).tolist()
    [1.0, 1.667, 2.0]
    """
    num_values = len(values)
    ascending = np.sort(values)
    sizes = np.arange(1, num_values + 1)
    # C(i - 1, n - 1) / C(N, n) is n / N for i = N, and (i - n) / (i - 1) times that of i for i - 1.
    weights = sizes / num_values
    expected: NDArray[np.float64] = weights * ascending[-1]
    for place in range(num_values, 1, -1):
        weights = weights * np.maximum(place - sizes, 0) / (place - 1)
        expected += weights * ascending[place - 2]
    return expected
