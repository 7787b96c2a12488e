"""Comparison of finished runs, read from their folders. Only `training` trains.

    cells         settings, notes, runs grouped into rows and cells, their evaluated scores, shared queries
    guards        conditions on a model that replaces the baseline
    fairness      which runs may be compared
    derived       fused runs, and scores and models of other programs
    training      trains rankers in Python, for `compare`
    comparison    `compare` of runs: rows of one data set; differences, claims and power of their pairs
    decision      whether a model may replace the baseline
    final         settings and number of trees of the model that is trained on all queries
    advice        recommendation, verdict, methods in words, next step
    published     figures of papers and repositories, under a convention
    monitor       new data against the training data of a run
    groups        slices of queries, several data sets, comparisons of a model with itself
    importances   feature importances of several runs
    tuning        searches of models, and their pictures
    views         tables, figures and prose, independent of the format of an output
    leaderboard   values of the rows, and the columns that show them in every output; JSON and DataFrame
    claim_sections, run_sections   the sections of the report
    entries       the leaderboard of score files of any system
    report        the comparison as text, Markdown, LaTeX and HTML
    notebook      the comparison that a user of Python holds, with its outputs as methods
    publish       committed results, and how they are reproduced

`ltrbench.compare(...)` calls the function `compare` of this package.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, overload

from ltrbench.compare.advice import verdict
from ltrbench.compare.cells import BEST, Settings
from ltrbench.compare.comparison import Choice, Comparison, ModelRow, best_by_validation
from ltrbench.compare.comparison import compare as compare_runs
from ltrbench.compare.derived import Fusing, Import, fuse, import_like, import_runs
from ltrbench.compare.groups import Slice, read_attributes
from ltrbench.compare.guards import Guard
from ltrbench.compare.importances import ImportanceComparison, compare_importances
from ltrbench.compare.notebook import NotebookComparison
from ltrbench.compare.pairs import Pair
from ltrbench.compare.report import Report, render
from ltrbench.compare.slicing import Interaction, interactions, slices
from ltrbench.errors import ConfigError
from ltrbench.runs import Run

if TYPE_CHECKING:
    from ltrbench.data import RankingDataset
    from ltrbench.rankers import Ranker

__all__ = [
    "BEST",
    "Choice",
    "Comparison",
    "Fusing",
    "Guard",
    "Import",
    "ImportanceComparison",
    "Interaction",
    "ModelRow",
    "NotebookComparison",
    "Pair",
    "Report",
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


@overload
def compare(
    runs: Sequence[Run], *, settings: Settings | None = None
) -> list[NotebookComparison]: ...


@overload
def compare(
    runs: Mapping[str, Ranker],
    train: RankingDataset,
    test: RankingDataset,
    valid: RankingDataset | None = None,
    *,
    seeds: Sequence[int] | None = None,
    replicates: int = 0,
    metrics: Sequence[str] | None = None,
    settings: Settings | None = None,
    name: str = "data",
    folder: str | Path | None = None,
    overwrite: bool = False,
) -> NotebookComparison: ...


def compare(
    runs: Sequence[Run] | Mapping[str, Ranker],
    train: RankingDataset | None = None,
    test: RankingDataset | None = None,
    valid: RankingDataset | None = None,
    *,
    seeds: Sequence[int] | None = None,
    replicates: int = 0,
    metrics: Sequence[str] | None = None,
    settings: Settings | None = None,
    name: str = "data",
    folder: str | Path | None = None,
    overwrite: bool = False,
) -> list[NotebookComparison] | NotebookComparison:
    """Compares finished runs, or rankers that are trained first.

    Args:
        runs: finished runs, which need no other argument than settings; or name -> ranker.
        train, test, valid, seeds, replicates, metrics, name, folder, overwrite: of rankers, see
            `ltrbench.compare.training.train_and_compare`.
        settings: settings of the comparison.

    Returns:
        Of runs, one comparison per data set; of rankers, one comparison.

    Raises:
        ConfigError: The metric or the baseline is unknown; rankers come without data, or runs with data.
        ResultError: No run is finished, a run is a trial of a search, or runs have different data or splits
            and `settings.allow_mismatch` is not set.
    """
    if not isinstance(runs, Mapping):
        if train is not None or metrics is not None:
            raise ConfigError(
                "finished runs are compared as they are, without data and metrics: call compare(runs, "
                'settings=Settings(metric="ndcg@10")).'
            )
        return [
            NotebookComparison.of(each) for each in compare_runs(list(runs), settings)
        ]
    if train is None or test is None:
        raise ConfigError(
            "rankers are compared on data: call compare(rankers, train, test)."
        )
    # Imported here, because a comparison of runs trains nothing.
    from ltrbench.compare.training import train_and_compare

    return train_and_compare(
        runs,
        train,
        test,
        valid,
        seeds=seeds,
        replicates=replicates,
        metrics=metrics,
        settings=settings,
        name=name,
        folder=folder,
        overwrite=overwrite,
    )


class _CallablePackage(ModuleType):
    """This package, which can be called like its function `compare`.

    Users expect `ltrbench.compare(runs)`, but once any module of this package is imported, Python sets the
    attribute `ltrbench.compare` to the package. If the attribute were the function instead, Python would not
    find `ltrbench.compare.cells`. A package that can be called serves both, in any order of imports.
    """

    __call__ = staticmethod(compare)


sys.modules[__name__].__class__ = _CallablePackage
__signature__ = inspect.signature(compare)  # `inspect` and notebooks show it
