"""Metrics: what a ranking is worth, under a named convention.

A metric is one function in `functions.py`; what its name leaves open is a `Convention`; `evaluate` joins
them.
"""

from ltrbench.metrics.convention import DEFAULT, Convention
from ltrbench.metrics.evaluation import Evaluation, evaluate, has_relevant_document, parse_metric
from ltrbench.metrics.ranking import Ranking, rank

__all__ = [
    "DEFAULT",
    "Convention",
    "Evaluation",
    "Ranking",
    "evaluate",
    "has_relevant_document",
    "parse_metric",
    "rank",
]
