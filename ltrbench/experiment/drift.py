"""Whether a library itself computes the metrics that ltrbench computes under its convention."""

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

# XGBoost prints its metrics with an error of about 5e-7.
DRIFT_TOLERANCE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-9}
# The libraries keep weights, and add them up, in float32.
DRIFT_TOLERANCE_OF_WEIGHTS = 1e-6


def check_drift(
    ranker: Ranker, scored: ScoredSplit, test: RankingDataset, names: tuple[str, ...]
) -> dict[str, Any]:
    """Compares the library's metrics of the same scores with ours under its convention; see RunResult.

    A drift is a warning and a mark, never a failure: the metrics of the run do not depend on it.
    """
    if not isinstance(ranker, SupportsLibraryMetrics):
        return {}
    convention = ranker.library_convention
    try:
        theirs = ranker.library_metrics(test, scored.scores, names)
    except Exception as error:
        # Whatever a foreign library raises here must not cost the run that it only checks.
        log.warning("The figures of %s could not be checked: %s", convention, error)
        # Its first line, because a stack of C++ may follow.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return {"convention": convention, "drifted": False, "error": reason}
    ours: dict[str, float] = {}
    for name in theirs:
        # What the convention does not define on these data is not held against anything.
        with contextlib.suppress(UndefinedMetricError):
            ours |= evaluate(test, scored.scores, [name], preset(convention)).means
    tolerance = DRIFT_TOLERANCE[np.dtype(ranker.score_dtype)]
    if test.query_weights is not None:
        tolerance = max(tolerance, DRIFT_TOLERANCE_OF_WEIGHTS)
    drifted = [name for name in ours if not abs(theirs[name] - ours[name]) <= tolerance]
    for name in drifted:
        log.warning(
            "%s drifts: %s itself computes %.9f, ltrbench %.9f",
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
