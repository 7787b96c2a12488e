"""Comparison of finished runs, read from their folders. Nothing in this package trains.

    settings           settings of a comparison
    notes              notes under the table, in groups
    grouping           runs grouped into tables, rows and cells
    pairing            fairness checks; differences, intervals and claims of pairs
    scores             derived, imported and fused scores
    replicate_counts   number of folds, resamples and seeds of a row
    comparison         `compare`: rows and pairs of one data set
    analysis           recommendation, verdict, methods, slices, next step
    output             tables, JSON, pictures, report, committed results

`ltrbench.compare(runs)` calls the function `compare` of this package.
"""

import sys
from collections.abc import Sequence
from types import ModuleType

from ltrbench.compare.analysis.importances import ImportanceComparison, compare_importances
from ltrbench.compare.analysis.slices import Interaction, Slice, interactions, read_attributes, slices
from ltrbench.compare.analysis.verdict import verdict
from ltrbench.compare.comparison import Choice, Comparison, ModelRow, best_by_validation, compare
from ltrbench.compare.output.tables import render
from ltrbench.compare.pairing.pairs import Pair
from ltrbench.compare.scores.fusion import Fusing, fuse
from ltrbench.compare.scores.imported import Import, import_like, import_scores
from ltrbench.compare.settings import BEST, Settings
from ltrbench.results import Run

__all__ = [
    "BEST",
    "Choice",
    "Comparison",
    "Fusing",
    "Import",
    "ImportanceComparison",
    "Interaction",
    "ModelRow",
    "Pair",
    "Settings",
    "Slice",
    "best_by_validation",
    "compare",
    "compare_importances",
    "fuse",
    "import_like",
    "import_scores",
    "interactions",
    "read_attributes",
    "render",
    "slices",
    "verdict",
]


class _CallablePackage(ModuleType):
    """This package, which can be called like its function `compare`.

    Users expect `ltrbench.compare(runs)`, but once any module of this package is imported, Python sets the
    attribute `ltrbench.compare` to the package. If the attribute were the function instead, Python would not
    find `ltrbench.compare.pairing.cells`. A package that can be called serves both, in any order of imports.
    """

    def __call__(self, runs: Sequence[Run], settings: Settings | None = None) -> list[Comparison]:
        return compare(runs, settings)

    __call__.__doc__ = compare.__doc__


sys.modules[__name__].__class__ = _CallablePackage
