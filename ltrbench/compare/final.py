"""The final model: the settings that a comparison chose, to be trained on all labelled queries.

`final_fit` returns the settings and the number of trees; the verb `final` trains them. A run that was trained
on a resample or on a fold left out queries, and is no model to deploy.
"""

from __future__ import annotations

import itertools
import math
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from ltrbench.compare.cells import (
    settings_of_model,
)
from ltrbench.compare.comparison import Comparison, best_by_validation, only
from ltrbench.compare.remarks import Kind
from ltrbench.compare.table import ModelRow
from ltrbench.errors import ResultError, require_choice
from ltrbench.runs.origin import Final, Origin, Variant
from ltrbench.runs.record import Run, read_run
from ltrbench.tables import format_number

_MOST_FOLDERS = 3
"""Maximum number of folders in a command."""
_OTHER_VARIANT = (
    "final does not train the leaves, features or labels of {}. Train a run with these settings, such as "
    "params.num_leaves=15"
)


class FinalFit(NamedTuple):
    """What to train on all labelled queries.

    Attributes:
        run: run with the settings.
        num_trees: number of trees; None for a model without trees.
        origin: `RunResult.origin` of the final model.
        notes: the choice, the number of trees and the estimate as sentences.
    """

    run: Run
    num_trees: int | None
    origin: Final
    notes: tuple[str, ...]


def final_fit(
    comparisons: Sequence[Comparison],
    model: str | None = None,
    count_queries: Callable[[Run], int] | None = None,
) -> FinalFit:
    """Returns the settings and the number of trees of the final model.

    The number of trees is the median over the runs with these settings (folds, resamples and seeds), each of
    which kept the trees of its best iteration, rounded up.

    Args:
        model: a row or a model; of several rows the best by validation. None: the best row by validation.
        count_queries: returns the number of all labelled queries of the data of a run, to multiply the number
            of trees by its ratio to the mean number of training queries. None: no scaling.

    Raises:
        ConfigError: No row has this name.
        ResultError: There are several data sets, no validation set to choose by, or the model was imported or
            is a variant of `ltrbench.frontier` with other than fewer trees.
    """
    comparison = only(comparisons)
    metric = comparison.metric
    (run, row, reason) = _choice(comparison, model)
    alike = [
        other
        for other in row.runs
        if settings_of_model(other) == settings_of_model(run)
    ]
    if isinstance(variant := run.result.origin, Variant):
        run = read_run(Path(variant.run))
        if not variant.has_fewer_trees:
            raise ResultError(
                f"{_OTHER_VARIANT.format(row.label)}, or name another row with --model."
            )
    if not run.result.origin.was_fitted:
        raise ResultError(
            f"{row.label} was imported or fused, not trained; name a model with --model."
        )
    trees = [
        other.result.best_iteration
        for other in alike
        if other.result.best_iteration is not None
    ]
    num_train = fmean(other.result.data["train"]["queries"] for other in alike)
    scale = 1.0
    if count_queries is not None:
        scale = count_queries(run) / num_train
    num_trees = None
    if trees:
        num_trees = math.ceil(scale * median(trees))
    interval = comparison.intervals.get(row.label)
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    value = row.metrics[metric]
    origin = Final(
        row=row.label,
        reason=reason,
        settings=str(run.path),
        runs=[str(other.path) for other in alike],
        trees=trees,
        scale=scale,
        metric=metric,
        estimate=value,
        low=low,
        high=high,
    )
    notes = [
        f"Final model, trained on all labelled queries. Settings: those of {run.path} ({reason})."
    ]
    if trees:
        scaled = ""
        if count_queries is not None:
            scaled = f" times {scale:.3g}, all queries over training queries"
        numbers = f"the median over the runs ({', '.join(map(str, trees))}){scaled}"
        notes.append(
            f"Number of {run.result.unit_of_iterations}: {num_trees}, {numbers}, rounded up."
        )
    bounds = ""
    if low is not None:
        bounds = f" (95 % interval {low:.4f} to {high:.4f})"
    notes.append(
        "It has no test score. Estimate from the comparison, for models trained on a part of the data: "
        f"{metric} {format_number(value, '.4f')}{bounds}."
    )
    failed = [
        remark.note.sentence
        for remark in comparison.remarks
        if remark.kind is Kind.FAILED_RUN
    ]
    return FinalFit(run, num_trees, origin, (*notes, *failed))


def _origin(row: ModelRow) -> Origin:
    return row.runs[0].result.origin


def _choice(comparison: Comparison, model: str | None) -> tuple[Run, ModelRow, str]:
    """Returns the best run by validation among the rows of a name, its row and the reason; a single row needs
    no validation."""
    labels = [row.label for row in comparison.rows]
    require_choice(
        "model",
        model,
        [*dict.fromkeys([*labels, *(row.model for row in comparison.rows)])],
    )
    rows = [row for row in comparison.rows if model in (None, row.label, row.model)]
    if model is None:
        rows = [row for row in rows if not isinstance(_origin(row), Variant)]
    choice = best_by_validation(comparison, rows)
    if choice is not None:
        return choice.run, choice.row, choice.reason
    if len(rows) > 1:
        raise ResultError(
            "the model is chosen by validation, but the runs have no validation set; choose with --model: "
            f"{', '.join(labels)}."
        )
    return rows[0].runs[0], rows[0], f"{rows[0].label}: the only row"


# ---- The command that trains the final model.


def final_command(
    runs: Iterable[Run], model: str | None = None, data: str | None = None
) -> str:
    """Returns the shell command that trains the final model of runs in folders."""
    runs = list(runs)
    plugins = dict.fromkeys(
        name for run in runs for name in run.result.config.get("plugins") or ()
    )
    folders = list(dict.fromkeys(str(_folder_of(run)) for run in runs))
    folders = (
        folders if len(folders) <= _MOST_FOLDERS else [os.path.commonpath(folders)]
    )
    named = [
        *(["--model", model] if model else []),
        *(["--table", data] if data else []),
    ]
    named += list(itertools.chain.from_iterable(("--plugin", name) for name in plugins))
    return shlex.join(["python", "-m", "ltrbench", "final", *folders, *named])


def _folder_of(run: Run) -> Path:
    """Returns the folder of the sweep of a run; of a run without a sweep its own."""
    if run.result.sweep is None:
        return run.path
    name = Path(run.result.sweep).name
    return next(
        (folder for folder in run.path.parents if folder.name == name), run.path.parent
    )


def refuse_part(
    run: Run, purpose: str, anyway: bool = False, otherwise: str = "add --anyway"
) -> None:
    """Raises ResultError if a run trained on a resample or on a fold of a cross-validation.

    Args:
        purpose: what is refused, such as "shipped".
        anyway: refuse nothing.
        otherwise: how to do it nevertheless, for the message.
    """
    origin = run.result.origin
    # A run without a model is refused where a model is read.
    if run.result.part and not anyway and origin.has_model:
        command = final_command([run], run.result.model)
        remedy = f"Train the chosen settings on all labelled queries with {command}"
        if isinstance(origin, Variant) and not origin.has_fewer_trees:
            remedy = f"{_OTHER_VARIANT.format(run.result.model)}, and then use final"
        raise ResultError(
            f"{run.path} is not {purpose}: it was trained on {run.result.part}, without the other queries. "
            f"{remedy}, or {otherwise}."
        )
