"""Objectives: what the trees are fitted to, as a function from scores to gradients and hessians.

`prepare` takes a data set's judgments and an objective's settings, and does once what no iteration changes.
Settings that say what the kernel of `lambdas.py` computes, as native's defaults do, get that kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.native.lambdas import Gradients, Hessians, LambdaSettings, Values, judge, lambdas
from ltrbench.native.pairs import NATIVE, PairSettings, pair_lambdas

Objective = Callable[
    [Values, NDArray[np.int64] | None, np.random.Generator],
    tuple[Gradients, Hessians],
]
"""(D,) scores, the queries that count or None for all, and what to draw from -> (D,) gradients and hessians;
both are zero outside of those queries."""


def prepare(train: RankingDataset, settings: PairSettings) -> Objective:
    """The objective of these settings on these judgments."""
    fast = _fast_settings(train, settings)
    return _pair_by_pair(train, settings) if fast is None else _fast(train, fast)


def _fast_settings(train: RankingDataset, settings: PairSettings) -> LambdaSettings | None:
    """The settings in the words of the fast kernel; None where it does not compute them."""
    own = {name: getattr(settings, name) for name in LambdaSettings._fields}
    if replace(NATIVE, **own) != settings:
        return None
    if settings.truncation is None:
        own["truncation"] = int(train.query_sizes.max())
    return LambdaSettings(**own)


def _fast(train: RankingDataset, settings: LambdaSettings) -> Objective:
    judgements = judge(train, settings.truncation)

    def objective(
        scores: Values, queries: NDArray[np.int64] | None, rng: np.random.Generator
    ) -> tuple[Gradients, Hessians]:
        del rng
        return lambdas(judgements, scores, settings, queries)

    return objective


def _pair_by_pair(train: RankingDataset, settings: PairSettings) -> Objective:
    """By the specification itself, at its cost."""

    def objective(
        scores: Values, queries: NDArray[np.int64] | None, rng: np.random.Generator
    ) -> tuple[Gradients, Hessians]:
        del rng
        gradients, hessians = np.zeros(len(scores)), np.zeros(len(scores))
        for q in range(train.num_queries) if queries is None else queries:
            rows = slice(train.query_start[q], train.query_start[q + 1])
            pairs = pair_lambdas(train.labels[rows], scores[rows], settings)
            gradients[rows] = pairs.gradients * train.weight_of_document[rows]
            hessians[rows] = pairs.hessians * train.weight_of_document[rows]
        return gradients, hessians

    return objective
