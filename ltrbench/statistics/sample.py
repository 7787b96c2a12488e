"""What a comparison rests on: each system's value of each query, how much a query counts, and its fold.

M systems (or pairs of them) on the same Q queries. Queries of one stratum (a fold's test set, judged with
that fold's models) are resampled among themselves, as the folds are fixed and not drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.shapes import PerQuery, Values

DECIMALS = 12
"""Of a difference: seeds averaged in another order part values in the last bits, and that is a tie."""


@dataclass(frozen=True, eq=False)
class PairedSample:
    """Per-query values of M systems on the same Q queries.

    Attributes:
        values: (M, Q), one row a system, or a pair of systems; finite.
        weights: (Q,), positive, each query's share of a mean; they sum to 1.
        strata: (Q,), the number of the cell (fold) that a query was judged in.
    """

    values: Values
    weights: PerQuery
    strata: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Raises ConfigError where the arrays do not fit together or hold what is no number."""
        if self.values.ndim != 2:
            raise ConfigError(f"values must be (systems, queries); they have the shape {self.values.shape}.")
        if not np.isfinite(self.values).all():
            system, query = np.argwhere(~np.isfinite(self.values))[0]
            raise ConfigError(
                f"system {system} has {self.values[system, query]} for query {query}; leave out the queries "
                "on which the metric is not defined."
            )
        for name, array in (("weights", self.weights), ("strata", self.strata)):
            if array.shape != (self.num_queries,):
                raise ConfigError(
                    f"{name} must have {self.num_queries} entries, one a query, not {array.shape}."
                )
        if not (np.isfinite(self.weights) & (self.weights > 0)).all():
            raise ConfigError("weights must be positive: leave out the queries that do not count.")

    @classmethod
    def of(
        cls, values: Values, query_weights: PerQuery | None = None, strata: NDArray[np.int64] | None = None
    ) -> PairedSample:
        """The sample in which a mean is the mean over C strata of the weighted mean over their queries.

        A query's share is w_i / (C sum of the w_j in its stratum).

        >>> PairedSample.of(np.array([[1.0, 2.0, 6.0]]), strata=np.array([0, 0, 1])).means
        array([3.75])
        """
        matrix = np.atleast_2d(np.asarray(values, dtype=np.float64))
        num_queries = matrix.shape[-1]
        weights = np.ones(num_queries) if query_weights is None else np.asarray(query_weights, np.float64)
        cells = np.zeros(num_queries, np.int64) if strata is None else np.asarray(strata, np.int64)
        if weights.shape != cells.shape or weights.shape != (num_queries,):
            raise ConfigError(
                f"{num_queries} queries have {weights.shape} weights and {cells.shape} strata; give one each."
            )
        names, numbers = np.unique(cells, return_inverse=True)
        totals = np.bincount(numbers, weights, minlength=len(names))
        return cls(matrix, weights / (len(names) * totals[numbers]), cells)

    @property
    def num_queries(self) -> int:
        return int(self.values.shape[1])

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """(M,)"""
        means: NDArray[np.float64] = weighted_sum(self.values, self.weights)
        return means

    @cached_property
    def cells(self) -> tuple[NDArray[np.intp], ...]:
        """The queries of each stratum."""
        return tuple(np.flatnonzero(self.strata == stratum) for stratum in np.unique(self.strata))

    def differences(self, pairs: Sequence[tuple[int, int]]) -> PairedSample:
        """The sample whose rows are `values[a] - values[b]` for each pair (a, b)."""
        first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        return replace(self, values=np.round(self.values[first] - self.values[second], DECIMALS))

    @cached_property
    def deviations(self) -> Values:
        """(M, Q), each query's part in the error of the mean: e_i = share_i (x_i - m_c).

        m_c is the weighted mean of the query's stratum. (The empirical influence function of a mean: Efron
        and Tibshirani, 1993, "An Introduction to the Bootstrap", chapter 21.)
        """
        deviations = np.empty_like(self.values)
        for cell in self.cells:
            values, weights = np.take(self.values, cell, axis=1), self.weights[cell]
            centred = values - (weighted_sum(values, weights) / weights.sum())[:, np.newaxis]
            # A mean's last bit must not pass for spread where all values are the same.
            centred[values.min(axis=1) == values.max(axis=1)] = 0
            deviations[:, cell] = weights * centred
        return deviations

    @cached_property
    def _cell_variances(self) -> NDArray[np.float64]:
        """(C, M), the variance that each stratum of n_c queries adds: n_c / (n_c - 1) sum of its e_i^2.

        That of a weighted mean (Cochran, 1977, "Sampling Techniques", chapter 6, for a ratio); NaN where a
        stratum has one query.
        """
        sizes = np.array([len(cell) for cell in self.cells])
        with np.errstate(divide="ignore", invalid="ignore"):
            corrections = np.where(sizes > 1, sizes / (sizes - 1), np.nan)
        squares = np.array([(np.take(self.deviations, cell, axis=1) ** 2).sum(axis=1) for cell in self.cells])
        variances: NDArray[np.float64] = corrections[:, np.newaxis] * squares.reshape(len(sizes), -1)
        return variances

    @cached_property
    def standard_errors(self) -> NDArray[np.float64]:
        """(M,), of the means; s / sqrt(Q) where all count alike. NaN where a stratum has one query."""
        errors: NDArray[np.float64] = np.sqrt(self._cell_variances.sum(axis=0))
        return errors

    @cached_property
    def degrees(self) -> NDArray[np.float64]:
        """(M,), degrees of freedom of the standard errors, where they are not 0: Q - 1 in one stratum.

        (sum_c v_c)^2 / sum_c(v_c^2 / (n_c - 1)) for the strata's variances v_c (Satterthwaite, 1946).
        """
        variances = self._cell_variances
        sizes = np.array([len(cell) for cell in self.cells])[:, np.newaxis]
        with np.errstate(divide="ignore", invalid="ignore"):
            degrees: NDArray[np.float64] = variances.sum(axis=0) ** 2 / (variances**2 / (sizes - 1)).sum(
                axis=0
            )
        return degrees


def weighted_sum(values: Values, weights: PerQuery) -> NDArray[np.float64]:
    """(M,), of (M, Q). A product of matrices would add up in another order on another number of threads."""
    total: NDArray[np.float64] = (values * weights).sum(axis=-1)
    return total
