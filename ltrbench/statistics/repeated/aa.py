"""A/A test: rate of claims between a model and itself, where there is no difference.

The replicates of a model are split into two halves, which are compared like two models. No half is better, so
every interval that excludes 0 is wrong; about 5 % are expected. The halvings of one set of replicates are not
independent: each has the same lucky training in one half. A rate therefore describes this set only and has no
standard error; over many models the rates have a mean of about 5 %.

On one split of the data, `independent_replicates` compares the halves, for seeds and for resamples of the
training queries. Halves of resamples share the resampled training set, whose effect cancels: the claim is
about trainings on its resamples.

With folds, a half has the same replicates in every fold, and `fold_replicates` compares the halves like two
models. It is conservative here: the halves share the training set of each fold, so the variance over folds
already contains the variance of the trainings, which is added.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.statistics.claims import BETTER, EQUIVALENT, WORSE, claim_of
from ltrbench.statistics.intervals import LEVEL, excludes, student_intervals, unknown_spread
from ltrbench.statistics.repeated.replicates import (
    Inference,
    ReplicateValues,
    fold_replicates,
    independent_replicates,
)
from ltrbench.statistics.sample import PairedSample

FEWEST_TO_HALVE = 8
"""Minimum number of replicates. With fewer, a half has fewer than four, and there are at most 35 halvings."""

MOST_HALVINGS = 1_000

Halving = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Indices of the replicates of each half."""


@dataclass(frozen=True)
class SelfComparison:
    """Counts of claims between two halves of the replicates of one model.

    Attributes:
        num_replicates: R.
        num_halvings: number of halvings compared.
        num_distinct: number of distinct halvings.
        num_intervals: number of halvings with an interval that excludes 0.
        num_different, num_equivalent: number of halvings with the claim better or worse, or equivalent, given
            the region of equivalence; the other halvings are undecided.
        num_by_queries: number of halvings for which Student's interval over queries alone, of the means of
            the halves, excludes 0: the claims if the variation of training were ignored.
    """

    num_replicates: int
    num_halvings: int
    num_distinct: int
    num_intervals: int
    num_different: int
    num_equivalent: int
    num_by_queries: int


def against_itself(
    values: ReplicateValues,
    sample: PairedSample,
    *,
    test_share: float | None = None,
    rope: float,
    num_halvings: int = MOST_HALVINGS,
    seed: int = 0,
) -> SelfComparison:
    """Compares halves of the replicates of one model.

    Args:
        values: (R, Q).
        sample: sample of the same Q queries, with their shares and folds; its values are not used.
        test_share: n_test / n_train; required with several folds.
        num_halvings: maximum number of halvings; if there are more, they are drawn by `seed`.

    Raises:
        ConfigError: If there are fewer than `FEWEST_TO_HALVE` replicates, too few queries for an interval, no
            halvings, or no test share.
    """
    _check(values, sample, test_share, num_halvings)
    judged, by_queries = [], 0
    for first, second in halvings(len(values), num_halvings, seed):
        judged.append(_inference(values[first], values[second], sample, test_share).interval(LEVEL))
        difference = values[first].mean(axis=0) - values[second].mean(axis=0)
        of_means = PairedSample(difference[None], sample.weights, sample.strata)
        by_queries += excludes(student_intervals(of_means)[0])
    claims = [claim_of(interval, rope) for interval in judged]
    return SelfComparison(
        num_replicates=len(values),
        num_halvings=len(judged),
        num_distinct=num_distinct_halvings(len(values)),
        num_intervals=sum(map(excludes, judged)),
        num_different=sum(claim in (BETTER, WORSE) for claim in claims),
        num_equivalent=claims.count(EQUIVALENT),
        num_by_queries=by_queries,
    )


def num_distinct_halvings(num_replicates: int) -> int:
    """Returns the number of ways to split replicates into two unordered halves.

    >>> num_distinct_halvings(8), num_distinct_halvings(9)
    (35, 126)
    """
    count = math.comb(num_replicates, num_replicates // 2)
    return count if num_replicates % 2 else count // 2


def halvings(num_replicates: int, most: int, seed: int) -> list[Halving]:
    """Returns all distinct halvings, in order, or `most` of them, drawn by `seed`, if there are more.

    For odd R the halves have (R - 1) / 2 and (R + 1) / 2 replicates.
    """
    size = num_replicates // 2
    if num_distinct_halvings(num_replicates) <= most:
        firsts = itertools.combinations(range(num_replicates), size)
        # Of two halves of equal size, the half with replicate 0 is the first.
        chosen = [first for first in firsts if num_replicates % 2 or first[0] == 0]
    else:
        chosen = _drawn(num_replicates, most, seed)
    everything = np.arange(num_replicates)
    return [(np.array(first), np.setdiff1d(everything, first)) for first in chosen]


def _drawn(num_replicates: int, count: int, seed: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    size = num_replicates // 2
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < count:
        order = rng.permutation(num_replicates).tolist()
        half = order[:size]
        if num_replicates % 2 == 0 and 0 not in half:
            half = order[size:]
        drawn[tuple(sorted(half))] = None
    return list(drawn)


def _inference(
    a: ReplicateValues, b: ReplicateValues, sample: PairedSample, test_share: float | None
) -> Inference:
    """Returns the inference for the difference of two halves."""
    folds, query_parts = [], []
    for cell in sample.cells:
        shares = sample.weights[cell] / sample.weights[cell].sum()
        of_fold = a[:, cell], b[:, cell]
        folds.append(independent_replicates(*of_fold, shares))
        means = tuple(half.mean(axis=0)[None] for half in of_fold)
        query_parts.append(independent_replicates(means[0], means[1], shares).parts.query)
    if len(folds) == 1:
        return folds[0]
    assert test_share is not None  # checked by `_check`
    return fold_replicates(folds, query_parts, test_share)


def _check(
    values: ReplicateValues, sample: PairedSample, test_share: float | None, num_halvings: int
) -> None:
    if len(values) < FEWEST_TO_HALVE:
        raise ConfigError(
            f"a model has {len(values)} replicates; a comparison of halves needs at least {FEWEST_TO_HALVE}."
        )
    if num_halvings < 1:
        raise ConfigError(f"the number of halvings is {num_halvings}; it must be at least 1.")
    if reason := unknown_spread(sample):
        raise ConfigError(f"no interval is available: {reason}.")
    if len(sample.cells) > 1 and test_share is None:
        raise ConfigError("with several folds, give test_share, n_test / n_train in queries.")
