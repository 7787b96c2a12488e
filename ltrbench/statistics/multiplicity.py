"""P-values adjusted for multiple tests.

A p-value of None stays None and does not count as a test. Adjusted p-values are at least as large as the
given ones, at most 1, and in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Returns, for the i-th smallest of m, the maximum over j <= i of (m - j + 1) p_(j) (Holm, 1979).

    Rejecting at adjusted p-values up to 5 % gives at least one false rejection in at most 5 % of studies,
    under any dependence of the tests.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    given = _known(p_values)
    order = np.argsort(given, kind="stable")
    stepped = (len(given) - np.arange(len(given))) * given[order]
    return _restored(p_values, order, np.maximum.accumulate(stepped))


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Returns, for the i-th smallest of m, the minimum over j >= i of m p_(j) / j.

    (Benjamini and Hochberg, 1995.) Among rejections at adjusted p-values up to 5 %, the expected share of
    false ones is at most 5 %. Assumes independent or positively dependent tests (Benjamini and Yekutieli,
    2001).

    >>> benjamini_hochberg([0.01, None, 0.04, 0.03])
    [0.03, None, 0.04, 0.04]
    """
    given = _known(p_values)
    order = np.argsort(given, kind="stable")
    stepped = len(given) / np.arange(1, len(given) + 1) * given[order]
    return _restored(p_values, order, np.minimum.accumulate(stepped[::-1])[::-1])


def _known(p_values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([value for value in p_values if value is not None], dtype=np.float64)


def _restored(
    p_values: Sequence[float | None], order: NDArray[np.intp], adjusted: NDArray[np.float64]
) -> list[float | None]:
    """Returns the adjusted p-values, which are in ascending order, in the original order."""
    unsorted = np.empty_like(adjusted)
    unsorted[order] = np.minimum(adjusted, 1)
    known = iter(unsorted.tolist())
    return [None if value is None else next(known) for value in p_values]
