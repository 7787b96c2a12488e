"""Comparison: finished runs read from their folders and set side by side. Nothing in here trains."""

from ltrbench.compare.comparison import Comparison, Row, best_by_validation, compare
from ltrbench.compare.fusion import Fusing, fuse
from ltrbench.compare.importances import ImportanceComparison, compare_importances
from ltrbench.compare.imported import Import, import_like, import_scores
from ltrbench.compare.pairs import Pair
from ltrbench.compare.settings import BEST, Settings
from ltrbench.compare.slices import Slice, read_attributes, slices
from ltrbench.compare.tables import render
from ltrbench.compare.verdict import verdict

__all__ = [
    "BEST",
    "Comparison",
    "Fusing",
    "Import",
    "ImportanceComparison",
    "Pair",
    "Row",
    "Settings",
    "Slice",
    "best_by_validation",
    "compare",
    "compare_importances",
    "fuse",
    "import_like",
    "import_scores",
    "read_attributes",
    "render",
    "slices",
    "verdict",
]
