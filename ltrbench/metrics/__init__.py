"""Metrics: what a ranking is worth, under a named convention.

A metric is one function in `functions.py`; what its name leaves open is a `Convention`, of which those of the
libraries stand in `presets.py`; `evaluate` joins them.
"""

from ltrbench.metrics.convention import DEFAULT, Convention, with_settings
from ltrbench.metrics.evaluation import (
    Evaluation,
    evaluate,
    has_relevant_document,
    parse_metric,
    warm_up,
)
from ltrbench.metrics.out_of_bag import improvement
from ltrbench.metrics.presets import PRESETS, preset
from ltrbench.metrics.ranking import Ranking, rank

__all__ = [
    "DEFAULT",
    "PRESETS",
    "Convention",
    "Evaluation",
    "Ranking",
    "evaluate",
    "has_relevant_document",
    "improvement",
    "parse_metric",
    "preset",
    "rank",
    "warm_up",
    "with_settings",
]
