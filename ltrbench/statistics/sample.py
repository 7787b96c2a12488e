"""Data of a comparison: the value of each system on each query, the share of each query, and its fold.

M systems (or pairs of systems) on the same Q queries. A stratum is the test set of a fold, evaluated with the
models of that fold. Queries are resampled within strata, because the folds are fixed, not sampled.
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
"""Decimals of a difference. Averaging seeds in another order changes the last bits, which must be a tie."""


@dataclass(frozen=True, eq=False)
class PairedSample:
    """Per-query values of M systems on the same Q queries.

    Attributes:
        values: (M, Q), one row per system, or per pair of systems; finite.
        weights: (Q,), positive, share of each query in a mean; they sum to 1.
        strata: (Q,), number of the stratum (fold) of each query.
    """

    values: Values
    weights: PerQuery
    strata: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Raises ConfigError if the shapes of the arrays do not match or a value is not finite."""
        if self.values.ndim != 2:
            raise ConfigError(f"values must have the shape (systems, queries), not {self.values.shape}.")
        if not np.isfinite(self.values).all():
            system, query = np.argwhere(~np.isfinite(self.values))[0]
            raise ConfigError(
                f"system {system}, query {query}: the value is {self.values[system, query]}; leave out the "
                "queries on which the metric is not defined."
            )
        for name, array in (("weights", self.weights), ("strata", self.strata)):
            if array.shape != (self.num_queries,):
                raise ConfigError(
                    f"{name} must have shape ({self.num_queries},), one entry per query, not {array.shape}."
                )
        if not (np.isfinite(self.weights) & (self.weights > 0)).all():
            raise ConfigError("weights must be positive; leave out queries with weight 0.")

    @classmethod
    def of(
        cls, values: Values, query_weights: PerQuery | None = None, strata: NDArray[np.int64] | None = None
    ) -> PairedSample:
        """Returns a sample in which a mean is the mean over C strata of the weighted mean over their queries.

        The share of query i is w_i / (C sum of the w_j in its stratum).

        >>> PairedSample.of(np.array([[1.0, 2.0, 6.0]]), strata=np.array([0, 0, 1])).means
        array([3.75])
        """
        matrix = np.atleast_2d(np.asarray(values, dtype=np.float64))
        num_queries = matrix.shape[-1]
        weights = np.ones(num_queries) if query_weights is None else np.asarray(query_weights, np.float64)
        cells = np.zeros(num_queries, np.int64) if strata is None else np.asarray(strata, np.int64)
        if weights.shape != cells.shape or weights.shape != (num_queries,):
            raise ConfigError(
                f"{num_queries} queries have weights of shape {weights.shape} and strata of shape "
                f"{cells.shape}; give one weight and one stratum per query."
            )
        names, numbers = np.unique(cells, return_inverse=True)
        totals = np.bincount(numbers, weights, minlength=len(names))
        return cls(matrix, weights / (len(names) * totals[numbers]), cells)

    @property
    def num_queries(self) -> int:
        return int(self.values.shape[1])

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """(M,), weighted mean of each row."""
        means: NDArray[np.float64] = weighted_sum(self.values, self.weights)
        return means

    @cached_property
    def cells(self) -> tuple[NDArray[np.intp], ...]:
        """Indices of the queries of each stratum."""
        return tuple(np.flatnonzero(self.strata == stratum) for stratum in np.unique(self.strata))

    def differences(self, pairs: Sequence[tuple[int, int]]) -> PairedSample:
        """Returns the sample with the rows `values[a] - values[b]` for each pair (a, b)."""
        first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        return replace(self, values=np.round(self.values[first] - self.values[second], DECIMALS))

    @cached_property
    def deviations(self) -> Values:
        """(M, Q), contribution of each query to the error of the mean: e_i = share_i (x_i - m_c).

        m_c is the weighted mean of the query's stratum. This is the empirical influence function of a mean
        (Efron and Tibshirani, 1993, "An Introduction to the Bootstrap", chapter 21).
        """
        deviations = np.empty_like(self.values)
        for cell in self.cells:
            values, weights = np.take(self.values, cell, axis=1), self.weights[cell]
            centred = values - (weighted_sum(values, weights) / weights.sum())[:, np.newaxis]
            # If all values are equal, rounding of the mean must not give a variance.
            centred[values.min(axis=1) == values.max(axis=1)] = 0
            deviations[:, cell] = weights * centred
        return deviations

    @cached_property
    def _cell_variances(self) -> NDArray[np.float64]:
        """(C, M), variance contribution of each stratum of n_c queries: n_c / (n_c - 1) sum of its e_i^2.

        The variance of a weighted mean (Cochran, 1977, "Sampling Techniques", chapter 6, for a ratio); NaN if
        the stratum has one query.
        """
        sizes = np.array([len(cell) for cell in self.cells])
        with np.errstate(divide="ignore", invalid="ignore"):
            corrections = np.where(sizes > 1, sizes / (sizes - 1), np.nan)
        squares = np.array([(np.take(self.deviations, cell, axis=1) ** 2).sum(axis=1) for cell in self.cells])
        variances: NDArray[np.float64] = corrections[:, np.newaxis] * squares.reshape(len(sizes), -1)
        return variances

    @cached_property
    def standard_errors(self) -> NDArray[np.float64]:
        """(M,), standard errors of the means; s / sqrt(Q) with equal shares; NaN if a stratum has 1 query."""
        errors: NDArray[np.float64] = np.sqrt(self._cell_variances.sum(axis=0))
        return errors

    @cached_property
    def degrees(self) -> NDArray[np.float64]:
        """(M,), degrees of freedom of the nonzero standard errors; Q - 1 with one stratum.

        (sum_c v_c)^2 / sum_c(v_c^2 / (n_c - 1)) for the variances v_c of the strata (Satterthwaite, 1946).
        """
        variances = self._cell_variances
        sizes = np.array([len(cell) for cell in self.cells])[:, np.newaxis]
        with np.errstate(divide="ignore", invalid="ignore"):
            degrees: NDArray[np.float64] = variances.sum(axis=0) ** 2 / (variances**2 / (sizes - 1)).sum(
                axis=0
            )
        return degrees


def weighted_sum(values: Values, weights: PerQuery) -> NDArray[np.float64]:
    """Returns (M,) from (M, Q). In a matrix product the summation order would depend on the threads."""
    total: NDArray[np.float64] = (values * weights).sum(axis=-1)
    return total
