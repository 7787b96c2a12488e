"""Metrics of a ranking, under a named convention.

conventions   `Convention`: everything that the name of a metric leaves open; conventions of libraries
functions     the metrics, one function each, on documents ordered by score
kernels       the loops of the metrics, compiled
evaluation    `evaluate`: values per query, and their means; metrics from users' modules
"""

from ltrbench.clicks.checks import Support
from ltrbench.metrics.conventions import (
    DEFAULT,
    PRESETS,
    Convention,
    preset,
    with_settings,
)
from ltrbench.metrics.evaluation import (
    METRICS_OF_A_RUN,
    Evaluation,
    bounds_of,
    evaluate,
    has_relevant_document,
    left_out_judgments,
    load_plugins,
    rope_of,
    support_of,
    upside_down,
    warm_up_metrics,
)
from ltrbench.metrics.functions import Ranking, first_k, metric, parse_metric, rank

__all__ = [
    "DEFAULT",
    "METRICS_OF_A_RUN",
    "PRESETS",
    "Convention",
    "Evaluation",
    "Ranking",
    "Support",
    "bounds_of",
    "evaluate",
    "first_k",
    "has_relevant_document",
    "left_out_judgments",
    "load_plugins",
    "metric",
    "parse_metric",
    "preset",
    "rank",
    "rope_of",
    "support_of",
    "upside_down",
    "warm_up_metrics",
    "with_settings",
]
