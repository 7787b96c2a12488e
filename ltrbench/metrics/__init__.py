"""Metrics of a ranking, under a named convention.

functions    the metrics, one function each
kernels      the loops of the metrics, compiled
convention   `Convention`: everything that the name of a metric leaves open
presets      conventions of libraries
ranking      documents ordered by score, with ties marked
evaluation   `evaluate`: values per query, and their means
out_of_bag   the out-of-bag improvement
plugins      metrics from users' modules
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
from ltrbench.metrics.out_of_bag import improvement, left_out_judgments
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
    "left_out_judgments",
    "load_plugins",
    "metric",
    "parse_metric",
    "preset",
    "rank",
    "warm_up_metrics",
    "with_settings",
]
