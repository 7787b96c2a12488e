"""Comparison of finished runs, read from their folders. Only `training` trains.

    cells         settings, notes, runs grouped into rows and cells, their evaluated scores, shared queries
    feature_sets  runs on the same queries and labels with other features
    guards        conditions on a model that replaces the baseline
    fairness      which runs may be compared
    derived       fused runs, and scores and models of other programs
    power         minimum detectable differences, and the queries that a difference needs
    claims        pairs of rows, and the two claims of a pair: about these models, and about the methods
    groups        groups of queries by an attribute
    comparison    `compare` of runs: rows of one data set, their pairs and claims
    slicing       slices of queries, and several data sets
    final         settings and number of trees of the model that is trained on all queries
    decision      which model to take
    planning      the next step, with its command
    answer        the sentences that say decision, claims and next step
    claim_notes   how the claims are made, as notes for the report
    monitor       new data against the training data of a run
    importances   feature importances of several runs
    tuning        searches of models, and their pictures
    views         tables, figures and prose, independent of the format of an output
    leaderboard   values of the rows, and the columns that show them in every output; JSON and DataFrame
    claim_sections, run_sections   the sections of the report
    report        the comparison as text, Markdown, LaTeX and HTML
    notebook      the comparison that a user of Python holds, with its outputs as methods
    training      trains rankers in Python, for `compare`
    publish       committed results, and how they are reproduced

From runs to the answer: cells -> claims -> comparison -> decision -> answer -> sections -> report.

`ltrbench.compare(...)` calls the function `compare` of this package.
"""

from __future__ import annotations

import inspect
import reprlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, overload

from ltrbench.compare.answer import Answer, answer_of
from ltrbench.compare.claims import Claim, Pair
from ltrbench.compare.comparison import Choice, Comparison, best_by_validation
from ltrbench.compare.comparison import compare as compare_runs
from ltrbench.compare.derived import Fusing, Import, fuse, import_like, import_runs
from ltrbench.compare.groups import Slice, read_attributes
from ltrbench.compare.guards import Guard
from ltrbench.compare.importances import ImportanceComparison, compare_importances
from ltrbench.compare.notebook import NotebookComparison
from ltrbench.compare.report import Report, render
from ltrbench.compare.settings import (
    BEST,
    Settings,
)
from ltrbench.compare.slicing import Interaction, interactions, slices
from ltrbench.compare.table import ModelRow
from ltrbench.errors import ConfigError
from ltrbench.runs import Run

if TYPE_CHECKING:
    from ltrbench.data import RankingDataset
    from ltrbench.rankers import Ranker

__all__ = [
    "BEST",
    "Answer",
    "Choice",
    "Claim",
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
    "answer_of",
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
        ConfigError: The metric or the baseline is unknown; rankers come without data, or runs with data; or
            an argument is neither a run nor a ranker.
        ResultError: No run is finished, a run is a trial of a search, or runs have different data or splits
            and `settings.allow_mismatch` is not set.
    """
    if not isinstance(settings, Settings | None):
        raise ConfigError(
            f'settings is {settings!r}; pass an object, as in Settings(metric="ndcg@10").'
        )
    if not isinstance(runs, Mapping):
        if train is not None or metrics is not None:
            raise ConfigError(
                "finished runs are compared as they are, without data and metrics: call compare(runs, "
                'settings=Settings(metric="ndcg@10")).'
            )
        _check_runs(runs)
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


def _check_runs(runs: object) -> None:
    """Raises ConfigError unless all of these are runs."""
    remedy = (
        "pass runs, as in compare(find_runs([Path('outputs')])), or rankers by name with their data, as in "
        "compare({'native': NativeRanker()}, train, test)."
    )
    if isinstance(runs, str) or not isinstance(runs, Iterable):
        raise ConfigError(f"runs is {reprlib.repr(runs)}; {remedy}")
    for number, run in enumerate(runs):
        if not isinstance(run, Run):
            raise ConfigError(f"runs[{number}] is {reprlib.repr(run)}; {remedy}")


class _CallablePackage(ModuleType):
    """This package, which can be called like its function `compare`.

    Users expect `ltrbench.compare(runs)`, but once any module of this package is imported, Python sets the
    attribute `ltrbench.compare` to the package. If the attribute were the function instead, Python would not
    find `ltrbench.compare.cells`. A package that can be called serves both, in any order of imports.
    """

    __call__ = staticmethod(compare)


sys.modules[__name__].__class__ = _CallablePackage
__signature__ = inspect.signature(compare)  # `inspect` and notebooks show it
