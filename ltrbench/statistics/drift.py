"""Distances between a feature now and in training, with intervals over queries.

D documents in Q queries, B bins, R draws. The documents of a query are not independent, so that all noise is
drawn by query: a multiplier bootstrap adds N(0, 1) times the influence of each query on a share or a mean.

A distance is a norm of the difference of shares. By the triangle inequality, the norm of their noise bounds
its error, also where the true distance is 0: there an ordinary bootstrap finds drift in most samples. The
intervals of a family are simultaneous: each is estimate +- c s, with the 99 % quantile s of its |noise| and
the 95 % quantile c of the largest |noise| / s of the family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.shapes import PerQuery, QueryStart
from ltrbench.statistics.paired import LEVEL

NUM_BINS = 10
RARE_CATEGORY = 0.01
"""Categories with a smaller share of the training documents are one bin, together with unseen ones."""
# Of each sample: where distribution functions are compared.
_QUANTILES = np.linspace(0, 1, 101)
_DRAWS = 1000

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean or a norm with its (R,) noise.

    Attributes:
        least: smallest possible value.
        power: 2 for the root of an index, whose interval is that of the index; else 1.
    """

    value: float
    noise: Numbers
    least: float = 0.0
    power: int = 1

    @property
    def scale(self) -> float:
        return float(np.quantile(np.abs(self.noise), 0.99))


class Sample:
    """The queries of a data set, with the same random numbers for everything that is computed from them.

    Args:
        query_start: (Q + 1,), first row of each query.
    """

    def __init__(self, query_start: QueryStart, seed: int) -> None:
        self.start = query_start[:-1]
        self.sizes = np.diff(query_start).astype(np.float64)
        num_queries = len(self.start)
        rng = np.random.default_rng(seed)
        self.draws = rng.standard_normal((_DRAWS, num_queries), dtype=np.float32)
        # The factor makes variances unbiased.
        self.draws *= np.sqrt(num_queries / max(num_queries - 1, 1))

    @property
    def effective_size(self) -> float:
        """Kish's effective number of queries, for lists of unequal lengths."""
        return float(self.sizes.sum() ** 2 / (self.sizes**2).sum())

    def shares(
        self, codes: NDArray[np.intp], num_bins: int, more: float
    ) -> tuple[Numbers, Numbers]:
        """Returns the (B,) shares of (D,) bins and their (R, B) noise; bins below 0 do not count.

        Args:
            more: added to the number of documents of each bin.
        """
        num_queries = len(self.sizes)
        queries = np.repeat(np.arange(num_queries), self.sizes.astype(np.int64))
        is_counted = codes >= 0
        num_counted = int(is_counted.sum())
        cells = queries[is_counted] * num_bins + codes[is_counted]
        counts = np.bincount(cells, minlength=num_queries * num_bins)
        counts = counts.reshape(num_queries, num_bins)
        of_bins = counts.sum(axis=0) + more
        shares = of_bins / (num_counted + num_bins * more)
        expected = counts.sum(axis=1, keepdims=True) * shares
        influence = (counts - expected) / num_counted
        noise = self.draws @ influence.astype(np.float32)
        return shares, noise.astype(np.float64)

    def mean(self, values: PerQuery, weights: PerQuery | None = None) -> Estimate:
        """Returns the weighted mean of (Q,) values; NaN does not count."""
        if weights is None:
            weights = np.ones(len(values))
        weights = np.where(np.isnan(values), 0.0, weights)
        weights /= weights.sum()
        mean = float(np.nan_to_num(values) @ weights)
        influence = weights * np.nan_to_num(values - mean)
        return Estimate(mean, self.draws @ influence)

    def mean_of_documents(self, values: NDArray[np.generic]) -> Estimate:
        """Returns the mean of (D,) values."""
        sums = np.add.reduceat(values, self.start, dtype=np.float64)
        return self.mean(sums / self.sizes, self.sizes)


def psi(
    then: NDArray[np.intp], now: NDArray[np.intp], before: Sample, after: Sample
) -> Estimate:
    """Returns the population stability index, sum_b (q_b - p_b) ln(q_b / p_b), of (D,) bins then and now.

    With the logarithmic mean L(p, q) = (q - p) / ln(q / p) it is sum_b (q_b - p_b)^2 / L(p_b, q_b), a squared
    norm. Half a document is added to each bin, so that no share is 0.
    """

    def norm(difference: Numbers, p: Numbers, q: Numbers) -> Numbers:
        with np.errstate(invalid="ignore"):
            logarithmic = (q - p) / np.log(q / p)
            mean = np.where(np.isclose(p, q), p, logarithmic)
        squares = (difference**2 / mean).sum(axis=-1)
        return np.asarray(np.sqrt(squares))

    return _distance(then, now, before, after, norm=norm, more=0.5, power=2)


def kolmogorov_smirnov(
    then: NDArray[np.float32], now: NDArray[np.float32], before: Sample, after: Sample
) -> Estimate | None:
    """Returns the largest difference of the distribution functions of (D,) values at the percentiles of both;
    missing values do not count. None if all values of a sample are missing."""
    if np.isnan(then).all() or np.isnan(now).all():
        return None
    percentiles = [
        np.nanquantile(values, _QUANTILES, method="inverted_cdf")
        for values in (then, now)
    ]
    grid = np.unique(percentiles)

    def bins_on_grid(values: NDArray[np.float32]) -> NDArray[np.intp]:
        return np.where(np.isnan(values), -1, np.searchsorted(grid, values))

    def norm(difference: Numbers, p: Numbers, q: Numbers) -> Numbers:
        of_functions = difference.cumsum(axis=-1)
        return np.asarray(np.abs(of_functions).max(axis=-1))

    return _distance(bins_on_grid(then), bins_on_grid(now), before, after, norm=norm)


def _distance(
    then: NDArray[np.intp],
    now: NDArray[np.intp],
    before: Sample,
    after: Sample,
    *,
    norm: Callable[[Numbers, Numbers, Numbers], Numbers],
    more: float = 0.0,
    power: int = 1,
) -> Estimate:
    num_bins = int(max(then.max(), now.max())) + 1
    p, noise_then = before.shares(then, num_bins, more)
    q, noise_now = after.shares(now, num_bins, more)
    # A bin with few documents now by chance also has a small variance. The second noise is that of queries
    # that vary as in training.
    ratio = before.effective_size / after.effective_size
    noises = [noise_now - noise_then, noise_then * np.sqrt(1 + ratio)]
    value = float(norm(q - p, p, q))
    estimates = [Estimate(value, norm(each, p, q), power=power) for each in noises]
    return max(estimates, key=lambda estimate: estimate.scale)


def bins_of(
    then: NDArray[np.float32], now: NDArray[np.float32], is_category: bool
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Returns the bins of (D,) values then and now: tenths of the values then, or their frequent categories
    and the others; missing values are a bin, and so is a number that fills a tenth. Every bin has documents.
    """
    known = then[~np.isnan(then)]
    values, counts = np.unique(known, return_counts=True)
    edges = values[counts >= RARE_CATEGORY * len(then)]
    if not is_category and len(values):
        tenths = np.arange(1, NUM_BINS) / NUM_BINS
        edges = np.unique(np.nanquantile(then, tenths, method="inverted_cdf"))
        # Otherwise a flag that is nearly always 1 would be in one bin with its 0.
        frequent = values[counts * NUM_BINS >= len(known)]
        edges = np.union1d(edges, np.nextafter(frequent, -np.inf))
    both = np.concatenate([then, now])
    codes = np.searchsorted(edges, both)
    codes[is_category & ~np.isin(both, edges)] = len(edges)
    codes[np.isnan(both)] = len(edges) + 1
    codes = np.unique(codes, return_inverse=True)[1]
    return codes[: len(then)], codes[len(then) :]


def simultaneous(estimates: Sequence[Estimate]) -> list[tuple[float, float, float]]:
    """Returns value, low and high of each estimate; the intervals hold together with probability 95 %."""
    varying = [each for each in estimates if each.scale > 1e-9]
    ratios = [np.abs(each.noise) / each.scale for each in varying]
    factor = 0.0
    if ratios:
        largest = np.max(ratios, axis=0)
        factor = float(np.quantile(largest, 1 - LEVEL))
    intervals = []
    for each in estimates:
        half = factor * each.scale
        low = max(each.value - half, each.least)
        high = each.value + half
        power = each.power
        intervals.append((each.value**power, low**power, high**power))
    return intervals
