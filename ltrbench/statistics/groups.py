"""Test of whether a mean difference varies over groups of queries, one test for all groups.

The test needs the mean, the standard error and the number of queries of each group, not the single values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

SMALLEST_GROUP = 20
"""Minimum number of queries of a group in the test. The variance estimates of smaller groups are often far
too small, and the test then rejects too often."""


@dataclass(frozen=True)
class Group:
    """The mean over one group of queries.

    Attributes:
        name: name in notes.
        standard_error: standard error of the mean; None if not available.
        num_queries: number of queries of the group.
    """

    name: str
    mean: float
    standard_error: float | None
    num_queries: int


@dataclass(frozen=True)
class EqualMeans:
    """The result of a test that the means of groups are equal.

    Attributes:
        p_value: None if fewer than two groups can be tested.
        num_groups: number of groups in the test.
        note: groups left out, with the reasons; empty if all groups are in the test.
    """

    p_value: float | None
    num_groups: int
    note: str = ""


def equal_means(groups: Sequence[Group]) -> EqualMeans:
    """Tests H0: all groups have the same mean, by Welch's analysis of variance.

    A group with fewer than `SMALLEST_GROUP` queries, or without variance, is left out and named in the note.

    >>> short, long = Group("short", 0.25, 0.125, 20), Group("long", 0.25, 0.0625, 30)
    >>> equal_means([short, long, Group("rare", 1.0, 0.5, 4)])
    EqualMeans(p_value=1.0, num_groups=2, note='left out: rare (4 queries)')
    """
    reasons = {group.name: _reason(group) for group in groups}
    tested = [group for group in groups if not reasons[group.name]]
    left_out = ", ".join(f"{name} ({reason})" for name, reason in reasons.items() if reason)
    note = f"left out: {left_out}" if left_out else ""
    if len(tested) < 2:
        return EqualMeans(None, len(tested), "; ".join(filter(None, ["fewer than two groups to test", note])))
    return EqualMeans(welch_anova(tested), len(tested), note)


def _reason(group: Group) -> str:
    """Returns the reason why a group is left out; empty if it is tested."""
    if group.num_queries < SMALLEST_GROUP:
        return "1 query" if group.num_queries == 1 else f"{group.num_queries} queries"
    if group.standard_error is None:
        return "standard error not available"
    return "" if group.standard_error > 0 else "no variance"


def welch_anova(groups: Sequence[Group]) -> float:
    """Returns the p-value of Welch's test that k means are equal; the variances may differ.

    F = sum_g w_g (m_g - m)^2 / (k - 1) / (1 + 2 (k - 2) / (k^2 - 1) lambda), with w_g = 1 / SE_g^2,
    m = sum_g w_g m_g / W, W = sum_g w_g, and lambda = sum_g (1 - w_g / W)^2 / (n_g - 1), is compared with the
    F distribution of k - 1 and (k^2 - 1) / (3 lambda) degrees of freedom (Welch, 1951, "On the comparison of
    several mean values", Biometrika 38). Assumes independent queries and means close to normal.
    """
    k = len(groups)
    means = np.array([group.mean for group in groups])
    weights = np.array([group.standard_error or np.nan for group in groups]) ** -2.0
    sizes = np.array([group.num_queries for group in groups])
    total = weights.sum()
    mean = (weights * means).sum() / total
    spread = ((1 - weights / total) ** 2 / (sizes - 1)).sum()
    between = (weights * (means - mean) ** 2).sum() / (k - 1)
    statistic = between / (1 + 2 * (k - 2) / (k**2 - 1) * spread)
    return float(fdtrc(k - 1, (k**2 - 1) / (3 * spread), statistic))
