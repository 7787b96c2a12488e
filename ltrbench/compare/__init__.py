"""Comparison: finished runs read from their folders and set side by side. Nothing in here trains."""

from ltrbench.compare.comparison import Comparison, Row, best_by_validation, compare
from ltrbench.compare.tables import render

__all__ = ["Comparison", "Row", "best_by_validation", "compare", "render"]
