"""Metrics: what a ranking is worth, under a named convention.

A metric is one function, in `functions.py` or in a plug-in of the user; what its name leaves open is a
`Convention`, of which those of the libraries stand in `presets.py`; `evaluate` joins them.
"""

from ltrbench.metrics.convention import DEFAULT, Convention, with_settings
from ltrbench.metrics.evaluation import (
    Evaluation,
    evaluate,
    has_relevant_document,
    parse_metric,
    warm_up_metrics,
)
from ltrbench.metrics.functions import first_k, metric
from ltrbench.metrics.out_of_bag import improvement
from ltrbench.metrics.plugins import load_plugins
from ltrbench.metrics.presets import PRESETS, preset
from ltrbench.metrics.ranking import Ranking, rank

__all__ = [
    "DEFAULT",
    "PRESETS",
    "Convention",
    "Evaluation",
    "Ranking",
    "evaluate",
    "first_k",
    "has_relevant_document",
    "improvement",
    "load_plugins",
    "metric",
    "parse_metric",
    "preset",
    "rank",
    "warm_up_metrics",
    "with_settings",
]
