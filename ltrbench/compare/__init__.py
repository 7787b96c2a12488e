"""Comparison: finished runs read from their folders and set side by side. Nothing in here trains."""

from ltrbench.compare.comparison import Comparison, Row, compare
from ltrbench.compare.tables import render

__all__ = ["Comparison", "Row", "compare", "render"]
