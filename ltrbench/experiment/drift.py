"""Compares the metrics that a library computes with those of ltrbench under the library's convention."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.errors import UndefinedMetricError
from ltrbench.metrics import evaluate, preset
from ltrbench.rankers import Ranker
from ltrbench.rankers.capabilities import SupportsLibraryMetrics
from ltrbench.results import ScoredSplit

log = logging.getLogger("ltrbench")

# The metrics that XGBoost prints have a rounding error of about 5e-7.
DRIFT_TOLERANCE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-9}
# The libraries store and sum weights in float32.
DRIFT_TOLERANCE_OF_WEIGHTS = 1e-6


def check_drift(
    ranker: Ranker, scored: ScoredSplit, test: RankingDataset, names: tuple[str, ...]
) -> dict[str, Any]:
    """Compares the library's metrics with ltrbench's for the same scores, under the library's convention.

    A difference is logged and recorded, but it is no failure: the metrics of the run do not depend on it.

    Returns:
        The record of `RunResult.drift`; empty if the ranker's library has no metrics.
    """
    if not isinstance(ranker, SupportsLibraryMetrics):
        return {}
    convention = ranker.library_convention
    try:
        theirs = ranker.library_metrics(test, scored.scores, names)
    except Exception as error:
        # An error of the library must not fail the run, because this is only a check.
        log.warning("the metrics of %s could not be checked: %s", convention, error)
        # Only the first line, because a C++ stack trace may follow.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return {"convention": convention, "drifted": False, "error": reason}
    ours: dict[str, float] = {}
    for name in theirs:
        # A metric that the convention does not define on these data is not compared.
        with contextlib.suppress(UndefinedMetricError):
            ours |= evaluate(test, scored.scores, [name], preset(convention)).means
    tolerance = DRIFT_TOLERANCE[np.dtype(ranker.score_dtype)]
    if test.query_weights is not None:
        tolerance = max(tolerance, DRIFT_TOLERANCE_OF_WEIGHTS)
    drifted = [name for name in ours if not abs(theirs[name] - ours[name]) <= tolerance]
    for name in drifted:
        log.warning(
            "%s drifts: %s computes %.9f, ltrbench computes %.9f under the same convention",
            name,
            convention,
            theirs[name],
            ours[name],
        )
    unchecked = [name for name in names if name not in ours]
    return {
        "convention": convention,
        "own": theirs,
        "ours": ours,
        "unchecked": unchecked,
        "drifted": bool(drifted),
    }
