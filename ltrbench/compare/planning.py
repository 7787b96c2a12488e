"""The next step: the command that finishes a sweep, repeats the training, or trains the model to deploy."""

from __future__ import annotations

import itertools
import math
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ltrbench.compare.cells import (
    first_by,
    fold_of,
    replicate_of,
)
from ltrbench.compare.claims import NOT_REPEATED, Pair
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.decision import Decision
from ltrbench.compare.final import final_command
from ltrbench.compare.table import (
    PairedQueries,
)
from ltrbench.runs.record import Run, as_products
from ltrbench.runs.spec import SETTINGS_OF_ONE_COMMAND, digest_of
from ltrbench.statistics.claims import UNDECIDED

NUM_FOLDS = 5
NUM_WINDOWS = 3  # forward folds, each of which needs enough queries of its own
NUM_RESAMPLES = 5
START_UP = (
    10.0  # seconds in which a command starts, and compares and reports at its end
)
_OF_FOLDS: tuple[str, ...] = ("data.fold", "cv", "data.cv", "cv_split", "data.cv_split")
"""Settings that `cv`, where it is added, replaces."""
_DIGITS = 8  # of the name of a folder
_OF_RESAMPLES: tuple[str, ...] = ("replicates", "replicates.number", "replicates.index")


@dataclass(frozen=True)
class NextStep:
    """What to do after a comparison.

    Attributes:
        command: Shell command; empty if there is none, such as for runs made from Python.
        purpose: What the command does, such as "trains linear on all queries, to be deployed"; without a
            command a sentence.
        seconds: Estimated time of the command; 0 if it is not known.
    """

    command: str
    purpose: str
    seconds: float = 0.0


def next_step(comparison: Comparison, decision: Decision | None) -> NextStep | None:
    """Returns the next step; None if there is nothing to do.

    A sweep that has not finished is finished first. After a single training the models are trained on folds,
    or on resamples of the training queries if the data have a test set of their own. Otherwise the model that
    was decided on is trained on all queries.
    """
    if comparison.sweeps.unfinished:
        return _resume(comparison)
    # Fusions, ensembles and variants are made again of trained runs.
    rows = [
        [run for run in row.runs if run.result.origin.was_fitted]
        for row in comparison.rows
    ]
    rows = [runs for runs in rows if runs]
    if not rows:
        return None
    if not comparison.sweeps.is_selected and _is_single(comparison):
        return _repeat(comparison, rows)
    return _final(comparison, decision, rows)


def _resume(comparison: Comparison) -> NextStep:
    sweeps = comparison.sweeps
    folders = [os.path.relpath(folder) for folder in dict.fromkeys(sweeps.unfinished)]
    command = " && ".join(
        f"python -m ltrbench resume {shlex.quote(folder)}" for folder in folders
    )
    missing = f"{len(sweeps.unfinished)} of {sweeps.num_jobs} jobs"
    return NextStep(command, f"runs {missing} that have not run, or failed")


def _is_single(comparison: Comparison) -> bool:
    """Returns whether some models were trained once only, and no model more often."""
    queries = comparison.queries
    if queries is None or len(queries.cells) > 1:
        return False
    if queries.cells[0].train is None:
        return False
    reasons = {pair.methods.reason for pair in comparison.pairs}
    if NOT_REPEATED not in reasons:
        return False
    return all(len(of_row[0].keys) == 1 for of_row in queries.trainings)


# ---- Training repeated on folds or resamples.


def _repeat(comparison: Comparison, rows: Sequence[Sequence[Run]]) -> NextStep | None:
    """Returns the step that trains every model again on other queries; None without their commands."""
    queries = comparison.queries
    assert queries is not None  # checked by `_is_single`
    data = rows[0][0].result.settings.get("data", {})
    has_test_set = "cv" not in data or bool(data.get("test"))
    if has_test_set:
        number = NUM_RESAMPLES
        added = {"replicates": str(number)}
        removed = _OF_RESAMPLES
        how = f"trains each model on {number} resamples of the training queries"
    elif data.get("split_by"):
        number = data.get("cv") or NUM_WINDOWS
        removed = _OF_FOLDS
        added = {"cv": str(number), "cv_split": "forward"}
        how = f"trains each model for {number} windows of time, each tested later"
    else:
        number = data.get("cv") or NUM_FOLDS
        removed = _OF_FOLDS
        added = {"cv": str(number)}
        how = f"trains each model on {number} folds, so that every query is tested"
    command = _command(rows, added, removed)
    if not command:
        return None
    seconds = number * sum(
        of_cell.seconds for row in queries.trainings for of_cell in row
    )
    if seconds:
        seconds += START_UP
        how = f"{how} ({about(seconds)})"
    return NextStep(command, how, seconds)


def about(seconds: float) -> str:
    """Returns a duration in words.

    >>> about(0.2), about(41.3), about(170), about(7000)
    ('about 1 second', 'about 41 seconds', 'about 3 minutes', 'about 2 hours')
    """
    units = {"hour": 3600, "minute": 60, "second": 1}
    fitting = [unit for unit in units if seconds >= 1.5 * units[unit]]
    unit = fitting[0] if fitting else "second"
    size = units[unit]
    count = max(round(seconds / size), 1)
    return f"about {count} {unit if count == 1 else f'{unit}s'}"


def _command(
    rows: Sequence[Sequence[Run]],
    added: Mapping[str, str],
    removed: Sequence[str],
) -> str:
    """Returns the command that trains rows with further overrides; empty if a run has no command, or if runs
    were started with different flags or from different folders.

    Rows with different settings need several commands: they write into one folder, whose runs the last one
    compares. Rows of imported scores have no training, and stay as they are.

    Args:
        removed: overrides to leave out, besides those of one command.
    """
    firsts = list(itertools.chain.from_iterable(_one_a_fold(runs) for runs in rows))
    if not firsts or any(run.result.overrides is None for run in firsts):
        return ""
    # --config-dir only adds names, so that runs without it are unchanged.
    flags = {tuple(run.result.flags) for run in firsts} - {()}
    started_in = {run.result.started_in for run in firsts}
    if len(started_in) != 1 or len(flags) > 1:
        return ""
    values = [f"{key}={value}" for key, value in added.items()]
    removed = (*removed, *SETTINGS_OF_ONE_COMMAND)
    jobs = [(*_without(run, removed), *values) for run in firsts]
    products = as_products(dict.fromkeys(jobs))
    start_of_command = ["python", "-m", "ltrbench", *sum(flags, ())]
    words = [[*start_of_command, *product, "-m"] for product in products]
    if len(words) > 1:
        words = _in_one_folder(words)
    start = Path(started_in.pop())
    if start.is_dir() and not start.samefile(Path.cwd()):
        words.insert(0, ["cd", str(start)])
    return " && ".join(map(shlex.join, words))


def _in_one_folder(words: Sequence[list[str]]) -> list[list[str]]:
    """Returns commands that write into one folder, of which the last one compares all runs."""
    # Other jobs have another folder, so that no second study is added to a first one.
    digest = digest_of(words)[:_DIGITS]
    into = f"hydra.sweep.dir=multirun/repeated-{digest}"
    *others, last = [[*of_command, into] for of_command in words]
    return [*([*of_command, "looks=0"] for of_command in others), last]


def _one_a_fold(runs: Iterable[Run]) -> list[Run]:
    """Returns the run with the first resample and seed of each fold."""

    def resample_and_seed(run: Run) -> tuple[int, int]:
        return replicate_of(run).resample or 0, run.result.seed

    in_order = sorted(runs, key=resample_and_seed)
    return list(first_by(in_order, fold_of).values())


def _without(run: Run, keys: Iterable[str]) -> list[str]:
    """Returns the overrides of a run without these keys."""
    kept = []
    for line in run.result.overrides or ():
        key = line.partition("=")[0].lstrip("+~")
        if key not in keys:
            kept.append(line)
    return kept


# ---- The model to deploy, and the number of queries.


def _final(
    comparison: Comparison, decision: Decision | None, rows: Sequence[Sequence[Run]]
) -> NextStep | None:
    """Returns the step that trains the chosen model on all queries; None if nothing was chosen, or if it was
    not trained here."""
    labels = []
    for row in comparison.rows:
        origins = [run.result.origin for run in row.runs]
        if any(origin.was_fitted for origin in origins):
            labels.append(row.label)
    chosen = labels[:1]
    if decision is not None:
        chosen = list(decision.models[:1])
    if not chosen or chosen[0] not in labels:
        return None
    runs = list(itertools.chain.from_iterable(rows))
    data = None
    if comparison.sweeps.has_others:
        data = comparison.data
    # A single model needs no name.
    model = None
    if len(labels) > 1:
        model = chosen[0]
    command = final_command(runs, model, data)
    return NextStep(
        command, f"trains {chosen[0]} on all labelled queries, to be deployed"
    )


def queries_in_words(comparison: Comparison) -> str:
    """Returns how many queries detect a difference between the two closest models.

    Empty if the models are decided or the present queries are enough, unless the difference was given
    (`Settings.detect`).
    """
    pair = closest_pair(comparison)
    if pair is None:
        return ""
    detect = comparison.settings.detect_of(comparison.metric)
    number = pair.models.power.queries_for(detect)
    present = pair.statistics.num_queries
    what = f"to detect {detect:g} between {pair.a} and {pair.b}"
    if number is not None and number > present:
        kind = "judged queries"
        if comparison.evidence is not None:
            kind = "queries"  # of a click log
        return f"About {rounded(number):,} {kind} are needed {what}."
    if comparison.settings.detect is None:
        return ""
    if number is None:
        return f"How many queries are needed {what} is not known."
    return f"The {present:,} queries are enough {what}."


def closest_pair(comparison: Comparison) -> Pair | None:
    """Returns the pair of the reference row and the row with the next mean; None without one.

    Decided pairs count only if the difference to detect was given.
    """
    queries: PairedQueries | None = comparison.queries
    if queries is None or comparison.settings.detect_of(comparison.metric) <= 0:
        return None
    closest = None
    smallest = math.inf
    for pair in comparison.family:
        if comparison.baseline not in (pair.a, pair.b):
            continue
        difference = pair.models.difference
        is_open = pair.models.state == UNDECIDED or comparison.settings.detect
        if difference is None or not is_open:
            continue
        if abs(difference) < smallest:
            closest = pair
            smallest = abs(difference)
    return closest


def rounded(number: int) -> int:
    """Returns a number with two significant figures, rounded up.

    >>> rounded(2641), rounded(87)
    (2700, 87)
    """
    step: int = 10 ** max(len(str(number)) - 2, 0)
    return -(-number // step) * step
