"""Distances between a feature now and in training, with intervals over queries.

D documents in Q queries, B bins, R draws. The documents of a query are not independent, so that all noise is
drawn by query: a multiplier bootstrap adds N(0, 1) times the influence of each query on a share or a mean.

A distance is a norm of a difference of shares, and the norm of its noise bounds the error of the distance, by
the triangle inequality, also where the true distance is 0: there an ordinary bootstrap finds drift in most
samples. The intervals of a family are simultaneous: each is estimate +- c s, with the 99 % quantile s of its
|noise| and the 95 % quantile c of the largest |noise| / s of the family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.shapes import PerQuery, QueryStart
from ltrbench.statistics.paired import LEVEL

NUM_BINS = 10
RARE_CATEGORY = 0.01
"""Categories with a smaller share of the training documents are one bin, together with unseen ones."""
_GRID = 100  # quantiles at which the noise of a distribution function is evaluated
_DRAWS = 1000

Codes = NDArray[np.int64]  # (D,), the bin of each document
Noise = NDArray[np.float64]  # (R,), or (R, B) of shares


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Documents of Q queries, and the same random numbers for everything that is computed from them.

    Attributes:
        query_start: (Q + 1,), first row of each query.
        draws: (R, Q), from N(0, 1).
    """

    query_start: QueryStart
    draws: NDArray[np.float32]

    @classmethod
    def of(cls, query_start: QueryStart, seed: int, num_draws: int = _DRAWS) -> Multipliers:
        rng = np.random.default_rng(seed)
        num_queries = len(query_start) - 1
        draws = rng.standard_normal((num_draws, num_queries), dtype=np.float32)
        # The factor makes variances unbiased.
        return cls(query_start, draws * np.float32(np.sqrt(num_queries / max(num_queries - 1, 1))))

    @property
    def num_effective(self) -> float:
        """Number of queries of equal size whose mean over documents has the same variance (Kish)."""
        sizes = np.diff(self.query_start)
        return float(sizes.sum() ** 2 / (sizes**2).sum())

    def shares(self, codes: Codes, num_bins: int) -> tuple[NDArray[np.float64], Noise]:
        """Returns the (B,) shares of documents in bins, and their (R, B) noise; codes below 0 do not count.

        Shares are (count + 1/2) / (D + B/2), so that none is 0.
        """
        queries = np.repeat(np.arange(len(self.query_start) - 1), np.diff(self.query_start))
        counted = codes >= 0
        cells = queries[counted] * num_bins + codes[counted]
        counts = np.bincount(cells, minlength=(len(self.query_start) - 1) * num_bins).reshape(-1, num_bins)
        total = counts.sum(axis=0)
        shares = (total + 0.5) / (total.sum() + num_bins / 2)
        influence = (counts - counts.sum(axis=1, keepdims=True) * shares) / max(total.sum(), 1)
        return shares, (self.draws @ influence.astype(np.float32)).astype(np.float64)

    def mean(self, values: NDArray[np.generic]) -> Estimate:
        """Returns the mean of (D,) values over the documents."""
        sizes = np.diff(self.query_start).astype(np.float64)
        sums = np.add.reduceat(values, self.query_start[:-1], dtype=np.float64)
        return self.mean_of_queries(sums / sizes, sizes)

    def mean_of_queries(self, values: PerQuery, weights: PerQuery | None = None) -> Estimate:
        """Returns the weighted mean of (Q,) values; NaN does not count."""
        counted = np.where(np.isnan(values), 0, 1 if weights is None else weights)
        mean = float(np.nan_to_num(values) @ counted / counted.sum())
        return Estimate(mean, self.draws @ (counted * np.nan_to_num(values - mean) / counted.sum()))


@dataclass(frozen=True, eq=False)
class Estimate:
    """A distance or a mean, with its (R,) noise.

    Attributes:
        is_squared: whether the noise is that of the square root, as of PSI.
    """

    value: float
    noise: Noise
    is_squared: bool = False


def psi(then: Codes, now: Codes, num_bins: int, before: Multipliers, after: Multipliers) -> Estimate:
    """Returns the population stability index, sum_b (q_b - p_b) ln(q_b / p_b), of shares p then and q now.

    With the logarithmic mean L(p, q) = (q - p) / ln(q / p) it is sum_b (q_b - p_b)^2 / L(p_b, q_b), a squared
    norm. Bins without documents do not count.
    """
    used = np.unique(np.concatenate([then, now]))
    p, noise_then = before.shares(np.searchsorted(used, then), len(used))
    q, noise_now = after.shares(np.searchsorted(used, now), len(used))
    logs = np.log(q / p)
    is_equal = np.abs(logs) < 1e-9
    mean = np.where(is_equal, p, (q - p) / np.where(is_equal, 1, logs))
    noise = [np.sqrt((each**2 / mean).sum(axis=1)) for each in _noises(before, noise_then, after, noise_now)]
    return Estimate(float((q - p) @ logs), max(noise, key=_scale), is_squared=True)


def kolmogorov_smirnov(
    then: NDArray[np.float32], now: NDArray[np.float32], before: Multipliers, after: Multipliers
) -> Estimate | None:
    """Returns the largest difference of the distribution functions, of values that are not missing; None if
    all values of a sample are."""
    known = [values[~np.isnan(values)] for values in (then, now)]
    if not all(map(len, known)):
        return None
    from scipy.stats import ks_2samp

    quantiles = np.linspace(0, 1, _GRID)
    grid = np.unique([np.quantile(values, quantiles, method="inverted_cdf") for values in known])
    noise = [
        sample.shares(np.where(np.isnan(values), -1, np.searchsorted(grid, values)), len(grid) + 1)[1]
        for values, sample in ((then, before), (now, after))
    ]
    largest = [
        np.abs(np.cumsum(each, axis=1)).max(axis=1) for each in _noises(before, noise[0], after, noise[1])
    ]
    return Estimate(float(ks_2samp(*known, method="asymp").statistic), max(largest, key=_scale))


def _noises(before: Multipliers, then: Noise, after: Multipliers, now: Noise) -> tuple[Noise, Noise]:
    """Returns the (R, B) noise of a difference of shares, and the noise if the queries now vary as those of
    training: a few queries with a small share by chance also have a small variance."""
    return now - then, then * np.sqrt(1 + before.num_effective / after.num_effective)


def _scale(noise: Noise) -> float:
    return float(np.quantile(np.abs(noise), 0.99))


def equal_frequency_bins(then: NDArray[np.float32], now: NDArray[np.float32]) -> tuple[Codes, Codes, int]:
    """Returns the bins of values then and now, and their number: tenths of the values then, and missing."""
    known = then[~np.isnan(then)]
    inner = np.arange(1, NUM_BINS) / NUM_BINS
    edges = np.unique(np.quantile(known, inner, method="inverted_cdf")) if len(known) else np.empty(0)
    missing = len(edges) + 1
    codes = [np.where(np.isnan(each), missing, np.searchsorted(edges, each)) for each in (then, now)]
    return codes[0], codes[1], missing + 1


def category_bins(then: NDArray[np.float32], now: NDArray[np.float32]) -> tuple[Codes, Codes, int]:
    """Returns the bins of categories then and now: the frequent ones, the others, and missing."""
    size = int(np.nanmax(np.concatenate([then, now, [0]]))) + 1
    counts = np.bincount(then[~np.isnan(then)].astype(np.int64), minlength=size)
    frequent = counts >= RARE_CATEGORY * len(then)
    others = int(frequent.sum())
    bins = np.append(np.where(frequent, np.cumsum(frequent) - 1, others), others + 1)
    codes = [bins[np.where(np.isnan(each), -1, each).astype(np.int64)] for each in (then, now)]
    return codes[0], codes[1], others + 2


def simultaneous(estimates: Sequence[Estimate]) -> list[tuple[float, float]]:
    """Returns the interval of each estimate: all of them hold together with a probability of 95 %."""
    scales = [_scale(item.noise) for item in estimates]
    moving = [
        np.abs(item.noise) / scale for item, scale in zip(estimates, scales, strict=True) if scale > 1e-12
    ]
    factor = float(np.quantile(np.max(moving, axis=0), 1 - LEVEL)) if moving else 0.0
    ends = []
    for item, scale in zip(estimates, scales, strict=True):
        value = np.sqrt(max(item.value, 0)) if item.is_squared else item.value
        low, high = value - factor * scale, value + factor * scale
        ends.append((max(low, 0) ** 2, high**2) if item.is_squared else (float(low), float(high)))
    return ends
