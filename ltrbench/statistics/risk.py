"""Risk of a system: its losses on the queries where it is worse than a baseline, or than expected.

Queries are weighted by their shares, as in the means of a sample: sum_q share_q replaces (1 / Q) sum_q of the
papers. The values describe the trained systems of a sample; they are not tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ltrbench.shapes import Values
from ltrbench.statistics.intervals import unknown_spread
from ltrbench.statistics.sample import PairedSample, weighted_sum

NEGATIVE = "a value is negative"
NO_SPREAD = "gains without variance"


@dataclass(frozen=True)
class Risk:
    """Risk of one system at one alpha. A value that is not available is None; `note` gives the reason.

    Attributes:
        alpha: a loss counts 1 + alpha times.
        u_risk: None without a baseline, and for the baseline itself.
        t_risk: u_risk divided by its standard error.
        geo_risk: depends on all systems of the sample.
        note: empty if all values are available.
    """

    alpha: float
    u_risk: float | None
    t_risk: float | None
    geo_risk: float | None
    note: str = ""


def risks(sample: PairedSample, baseline: int | None, alpha: float) -> list[Risk]:
    """Returns the risk of each system; `baseline` is the row of the baseline, or None."""
    systems = range(len(sample.values))
    geo = geo_risk(sample, alpha)
    u: list[float | None] = [None for _ in systems]
    t, reasons = u, [""] * len(systems)
    if baseline is not None:
        u, t = [*u_risk(sample, baseline, alpha)], t_risk(sample, baseline, alpha)
        u[baseline] = t[baseline] = None
        unknown = unknown_spread(sample) or NO_SPREAD
        reasons = [unknown if t[row] is None and row != baseline else "" for row in systems]
    return [
        Risk(
            alpha,
            u[row],
            t[row],
            None if geo is None else geo[row],
            "; ".join(filter(None, [reasons[row], NEGATIVE if geo is None else ""])),
        )
        for row in systems
    ]


def u_risk(sample: PairedSample, baseline: int, alpha: float) -> list[float]:
    """Returns URisk of each system: sum_q share_q (x_q - b_q) (1 + alpha [x_q < b_q]), b the baseline.

    With equal shares it is (1 / Q) (sum of wins - (1 + alpha) sum of losses) (Wang, Bennett and
    Collins-Thompson, 2012, "Robust ranking models via risk-sensitive optimization", SIGIR).

    >>> u_risk(PairedSample.of(np.array([[0.75, 0.25], [0.5, 0.5]])), baseline=1, alpha=1)
    [-0.125, 0.0]
    """
    return [float(mean) for mean in _weighted_gains(sample, baseline, alpha).means]


def t_risk(sample: PairedSample, baseline: int, alpha: float) -> list[float | None]:
    """Returns TRisk of each system: URisk / SE(URisk); None if the standard error is 0 or not available.

    In one stratum of equal shares it is sqrt(Q) URisk / s, s the standard deviation of the terms of the sum
    (Dincer, Macdonald and Ounis, 2014, "Hypothesis testing for the risk-sensitive evaluation of retrieval
    systems", SIGIR).
    """
    gains = _weighted_gains(sample, baseline, alpha)
    pairs = zip(gains.means.tolist(), gains.standard_errors.tolist(), strict=True)
    return [mean / error if error > 0 else None for mean, error in pairs]


def _weighted_gains(sample: PairedSample, baseline: int, alpha: float) -> PairedSample:
    """Returns the differences to the baseline, with losses multiplied by 1 + alpha."""
    gains = sample.differences([(row, baseline) for row in range(len(sample.values))])
    return replace(gains, values=np.where(gains.values < 0, (1 + alpha) * gains.values, gains.values))


def geo_risk(sample: PairedSample, alpha: float) -> list[float] | None:
    """Returns GeoRisk of each system: sqrt(m_i Phi(Z_i)); None if a value is negative.

    m_i = sum_q share_q x_iq is the mean, and Z_i = sum_q share_q z_iq (1 + alpha [z_iq < 0]) is ZRisk / Q.
    z_iq = (x_iq - e_iq) / sqrt(e_iq), with the expected value e_iq = m_i T_q / sum_j m_j, T_q = sum_j x_jq;
    with equal shares e_iq is S_i T_q / N (Dincer, Ounis and Macdonald, 2016, "Tackling biased baselines in
    the risk-sensitive evaluation of retrieval systems", ECIR). If e_iq is 0, x_iq and z_iq are 0.

    >>> geo_risk(PairedSample.of(np.array([[0.5, 0.5]])), alpha=1)
    [0.5]
    """
    if sample.values.min(initial=0) < 0:
        return None
    z = _standardised(sample)
    risk = weighted_sum(np.where(z < 0, (1 + alpha) * z, z), sample.weights)
    return [float(value) for value in np.sqrt(sample.means * ndtr(risk))]


def _standardised(sample: PairedSample) -> Values:
    """Returns (M, Q), z_iq of `geo_risk`."""
    means: NDArray[np.float64] = sample.means
    shares = means / (means.sum() or 1.0)
    expected = shares[:, np.newaxis] * sample.values.sum(axis=0)
    standardised: Values = (sample.values - expected) / np.sqrt(np.where(expected > 0, expected, 1.0))
    return standardised
