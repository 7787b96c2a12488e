"""Metrics of a ranking, under a named convention.

functions    the metrics, one function each
kernels      the loops of the metrics, compiled
convention   `Convention`: the policy that a metric's name leaves open
presets      the conventions of the libraries
ranking      documents ordered by their scores, with ties marked
evaluation   `evaluate`: values of queries, and their means
out_of_bag   the out-of-bag improvement
plugins      metrics of users' modules
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
