"""The final model: the settings that a comparison chose, to be trained on all labelled queries.

`final_fit` returns the settings and the number of trees; the verb `final` trains them. A run that was trained
on a resample or on a fold left out queries, and is no model to deploy.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from ltrbench.compare.cells import grouped, rows_by_table, settings_of_model
from ltrbench.compare.comparison import Comparison, best_by_validation, only
from ltrbench.compare.remarks import Kind, left_out_in_words
from ltrbench.compare.table import EvaluatedRun, ModelRow
from ltrbench.errors import LtrbenchError, ResultError, require_choice
from ltrbench.runs.origin import Final, Origin, Variant
from ltrbench.runs.record import Run, find_runs, read_run
from ltrbench.tables import format_number

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
    (chosen, row, reason) = _choice(comparison, model)
    settings = settings_of_model(chosen)
    alike = [other for other in row.runs if settings_of_model(other) == settings]
    run = _trained(chosen, row.label)
    best = [other.result.best_iteration for other in alike]
    trees = [number for number in best if number is not None]
    scale = 1.0
    if count_queries is not None:
        num_train = fmean(other.result.data["train"]["queries"] for other in alike)
        scale = count_queries(run) / num_train
    num_trees = None
    if trees:
        num_trees = math.ceil(scale * median(trees))
    interval = comparison.intervals.get(row.label)
    low = None if interval is None else interval.low
    high = None if interval is None else interval.high
    origin = Final(
        row=row.label,
        reason=reason,
        settings=str(run.path),
        runs=[str(other.path) for other in alike],
        trees=trees,
        scale=scale,
        metric=comparison.metric,
        estimate=row.metrics[comparison.metric],
        low=low,
        high=high,
        num_settings=len(_by_settings(row)),
    )
    notes = [
        f"Final model, trained on all labelled queries. Settings: those of {run.path} ({reason})."
    ]
    if num_trees is not None:
        is_scaled = count_queries is not None
        unit = run.result.unit_of_iterations
        notes.append(
            f"Number of {unit}: {_trees_in_words(num_trees, origin, is_scaled)}"
        )
    notes.append(_estimate_in_words(origin))
    left_out = comparison.sweeps.left_out
    if left_out:
        notes.append(
            f"The sweep is not complete: {left_out_in_words(left_out)}. `resume` trains them."
        )
    failed = [each for each in comparison.remarks if each.kind is Kind.FAILED_RUN]
    notes.extend(remark.note.sentence for remark in failed)
    return FinalFit(run, num_trees, origin, tuple(notes))


def _trained(run: Run, label: str) -> Run:
    """Returns the run to train again: of a variant with fewer trees, the run that it was made from.

    Raises:
        ResultError: The run is another variant, or was not trained.
    """
    variant = run.result.origin
    if isinstance(variant, Variant):
        run = read_run(Path(variant.run))
        if not variant.has_fewer_trees:
            raise ResultError(
                f"{_OTHER_VARIANT.format(label)}, or name another row with --model."
            )
    if not run.result.origin.was_fitted:
        raise ResultError(
            f"{label} was imported or fused, not trained; name a model with --model."
        )
    return run


def _trees_in_words(num_trees: int, origin: Final, is_scaled: bool) -> str:
    scaled = ""
    if is_scaled:
        scaled = f" times {origin.scale:.3g}, all queries over training queries"
    numbers = ", ".join(map(str, origin.trees))
    return f"{num_trees}, the median over the runs ({numbers}){scaled}, rounded up."


def _estimate_in_words(origin: Final) -> str:
    bounds = ""
    if origin.low is not None:
        bounds = f" (95 % interval {origin.low:.4f} to {origin.high:.4f})"
    estimate = (
        "It has no test score. Estimate from the comparison, for models trained on a part of the data: "
        f"{origin.metric} {format_number(origin.estimate, '.4f')}{bounds}."
    )
    if origin.num_settings > 1:
        estimate += (
            f" It is the estimate of the search, which chose {origin.num_settings} different settings over "
            "its runs, and not of these settings alone."
        )
    return estimate


def _origin(row: ModelRow) -> Origin:
    return row.runs[0].result.origin


def _by_settings(row: ModelRow) -> dict[str, list[EvaluatedRun]]:
    """Returns a text of the settings of the model -> the runs of the row with these settings."""

    def settings(item: EvaluatedRun) -> str:
        return repr(sorted(settings_of_model(item.run).items()))

    return grouped(row.evaluated, settings)


def _choice(comparison: Comparison, model: str | None) -> tuple[Run, ModelRow, str]:
    """Returns the run with the settings to train, its row and the reason.

    A search may choose settings for each fold, whose validation values cannot be compared with each other:
    those that most folds chose are trained, if others were not chosen as often.
    """
    run, row, reason = _best_choice(comparison, model)
    num_folds = {}
    for text, items in _by_settings(row).items():
        num_folds[text] = len({item.cell for item in items})
    most = max(num_folds.values())
    usual = [text for text in num_folds if num_folds[text] == most]
    if len(num_folds) == 1 or len(usual) > 1:
        return run, row, reason
    items = _by_settings(row)[usual[0]]
    if all(item.run is not run for item in items):
        run = items[0].run
    reason = f"{reason}; {most} of {len(row.cells)} folds chose those of {run.path}"
    return run, row, reason


def _best_choice(
    comparison: Comparison, model: str | None
) -> tuple[Run, ModelRow, str]:
    """Returns the best run by validation among the rows of a name, its row and the reason; a single row needs
    no validation."""
    labels = [row.label for row in comparison.rows]
    names = [*labels, *(row.model for row in comparison.rows)]
    require_choice("model", model, list(dict.fromkeys(names)))
    rows = list(comparison.rows)
    if model is not None:
        rows = [row for row in rows if model in (row.label, row.model)]
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
    row = rows[0]
    return row.runs[0], row, f"{row.label}: the only row"


# ---- The command that trains the final model.


def final_command(
    runs: Iterable[Run], model: str | None = None, data: str | None = None
) -> str:
    """Returns the shell command that trains the final model of these runs, and of no others.

    It names the folders of their sweeps if all runs there are among these runs, and otherwise each run.

    Args:
        model: label of a row, or a model.
        data: name of the table of these runs, if their sweeps have several.
    """
    runs = list(runs)
    plugins_of_runs = [run.result.config.get("plugins") or () for run in runs]
    plugins = dict.fromkeys(itertools.chain.from_iterable(plugins_of_runs))
    folders = list(dict.fromkeys(map(_folder_of, runs)))
    words = ["--table", data] if data else []
    if not _have_only(folders, runs, data):
        folders = [run.path for run in runs]
        words = []  # these runs are one table
    if model:
        words = ["--model", model, *words]
    words += itertools.chain.from_iterable(("--plugin", name) for name in plugins)
    named = map(str, folders)
    return shlex.join(["python", "-m", "ltrbench", "final", *named, *words])


def _have_only(folders: Sequence[Path], runs: Sequence[Run], data: str | None) -> bool:
    """Returns whether a comparison of folders, or its table of some data, has no other trained runs."""
    try:
        tables = rows_by_table(find_runs(folders))
    except LtrbenchError:  # other runs there cannot be read, or are no longer there
        return False
    compared = set()
    for name, rows in tables.items():
        if data not in (None, name):
            continue
        for run in itertools.chain.from_iterable(rows.values()):
            if run.result.origin.was_fitted:
                compared.add(run.path.resolve())
    return compared == {run.path.resolve() for run in runs}


def _folder_of(run: Run) -> Path:
    """Returns the folder of the sweep of a run; of a run without a sweep its own."""
    if run.result.sweep is None:
        return run.path
    name = Path(run.result.sweep).name
    for folder in run.path.parents:
        if folder.name == name:
            return folder
    return run.path.parent


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
        command = _command_of_row(run)
        remedy = f"Train the chosen settings on all labelled queries with {command}"
        if isinstance(origin, Variant) and not origin.has_fewer_trees:
            remedy = f"{_OTHER_VARIANT.format(run.result.model)}, and then use final"
        raise ResultError(
            f"{run.path} is not {purpose}: it was trained on {run.result.part}, without the other queries. "
            f"{remedy}, or {otherwise}."
        )


def _command_of_row(run: Run) -> str:
    """Returns the command that trains the final model of the row of a run among the runs of its sweep."""
    tables = rows_by_table(find_runs(_folder_of(run)))
    for name, rows in tables.items():
        for label, of_row in rows.items():
            if all(other.path != run.path for other in of_row):
                continue
            of_table = itertools.chain.from_iterable(rows.values())
            trained = [other for other in of_table if other.result.origin.was_fitted]
            data = name if len(tables) > 1 else None
            return final_command(trained, label, data)
    # A later run replaces it.
    return final_command([run], run.result.model)
