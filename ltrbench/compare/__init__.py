"""Comparison of finished runs, read from their folders. Nothing in this package trains.

    cells         settings, notes, runs grouped into rows and cells, their evaluated scores, shared queries
    fairness      which runs may be compared
    derived       fused runs, and scores and models of other programs
    comparison    `compare`: rows of one data set; differences, claims and power of their pairs
    final         settings and number of trees of the model that is trained on all queries
    advice        recommendation, verdict, methods in words, next step
    groups        slices of queries, several data sets, comparisons of a model with itself
    importances   feature importances of several runs
    tuning        searches of models, and their pictures
    views         tables, figures and prose, independent of the format of an output
    leaderboard   values of the rows, and the columns that show them in every output; JSON and DataFrame
    claim_sections, run_sections   the sections of the report
    report        the comparison as text, Markdown, LaTeX and HTML
    publish       committed results, and how they are reproduced

`ltrbench.compare(runs)` calls the function `compare` of this package.
"""

import sys
from collections.abc import Sequence
from types import ModuleType

from ltrbench.compare.advice import verdict
from ltrbench.compare.cells import BEST, Settings
from ltrbench.compare.comparison import (
    RENDERERS,
    Choice,
    Comparison,
    ModelRow,
    Pair,
    best_by_validation,
    compare,
)
from ltrbench.compare.derived import Fusing, Import, fuse, import_like, import_runs
from ltrbench.compare.groups import Interaction, Slice, interactions, read_attributes, slices
from ltrbench.compare.importances import ImportanceComparison, compare_importances
from ltrbench.compare.leaderboard import as_frame
from ltrbench.compare.report import as_html, render
from ltrbench.runs import Run

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
    "import_runs",
    "interactions",
    "read_attributes",
    "render",
    "slices",
    "verdict",
]


RENDERERS.update(html=as_html, frame=as_frame)


class _CallablePackage(ModuleType):
    """This package, which can be called like its function `compare`.

    Users expect `ltrbench.compare(runs)`, but once any module of this package is imported, Python sets the
    attribute `ltrbench.compare` to the package. If the attribute were the function instead, Python would not
    find `ltrbench.compare.cells`. A package that can be called serves both, in any order of imports.
    """

    def __call__(self, runs: Sequence[Run], settings: Settings | None = None) -> list[Comparison]:
        return compare(runs, settings)

    __call__.__doc__ = compare.__doc__


sys.modules[__name__].__class__ = _CallablePackage
