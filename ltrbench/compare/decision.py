"""Decision: which model to take, by the claims about these trained models.

Without a named baseline the model with the highest mean is taken, unless a yardstick, such as a single
feature, is not shown to be worse. With a baseline, a model that is better replaces it if it also beats every
yardstick. With guards it also has to keep every guard: each is a test of its own at the whole level, because
all of them must hold (intersection-union test: Berger, 1982, Technometrics 24).

Rows without a fair comparison are not considered: stopped by the test set, or one of several settings of a
model that could only be chosen on test.

`ltrbench.compare.answer` says the decision in words.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ltrbench.compare.cells import (
    DataCell,
    grouped,
)
from ltrbench.compare.claims import Pair, against
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.fairness import (
    best_on_validation,
    seen_by_choice,
    started_from_test,
    stopped_on_test,
    values_on_validation,
)
from ltrbench.compare.guards import COSTS, LATENCY, Guard
from ltrbench.compare.remarks import leak_in_words
from ltrbench.compare.table import ModelRow
from ltrbench.data import Splits
from ltrbench.errors import ConfigError, ResultError
from ltrbench.measure import latency_of
from ltrbench.rankers.base import load_ranker
from ltrbench.runs.record import Run, class_and_folder_of_model
from ltrbench.statistics.checks import AT_MOST, HOLDS, MORE_THAN, Check, worst
from ltrbench.statistics.claims import BETTER, EQUIVALENT, UNDECIDED, WORSE
from ltrbench.tables import listed

TAKE = "take"
SHIP = "ship"
KEEP = "keep"
NONE = "none"
"""Kinds of decisions: take the leader; replace the baseline; keep the baseline; take nothing. "undecided":
keep the baseline for now."""

MOST_LISTS = 50
"""Number of lists of the test set whose scoring is timed, the first ones."""


@dataclass(frozen=True)
class Decision:
    """Which model to take.

    Attributes:
        kind: "take", "ship", "keep", "undecided" or "none".
        models: Label of the model to take; with "ship" further models that may replace the baseline follow,
            the highest mean first. Empty if none is taken.
        subject: Label of the row whose claims explain the decision: the leader, the model that replaces the
            baseline, the baseline that is kept, or the row that a yardstick is in the way of; empty if there
            is none.
        loss: Upper bound of what `subject` loses to any other row; None if not available.
        unbeaten: Yardsticks that are in the way: `subject` is not shown to be better than them, or, if it is
            the named baseline, they are better.
        excluded: Why rows of other models are not considered, one sentence each.
        choices: Which rows of their models were chosen, and how, one sentence each.
        passed_over: Models of which no row is considered.
        checks: With guards, label of each considered model -> its checks, that of the primary metric first.
        reason: Why nothing is decided; empty if something is.
    """

    kind: str
    _: KW_ONLY
    models: tuple[str, ...] = ()
    subject: str = ""
    loss: float | None = None
    unbeaten: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    checks: Mapping[str, Sequence[Check]] = field(default_factory=dict)
    reason: str = ""


def pairs_of(comparison: Comparison, label: str) -> dict[str, Pair]:
    """Returns other label -> this row minus the other one, for the pairs of the family."""
    pairs = against(comparison.family, label)
    return {pair.a: pair.turned() for pair in pairs}


def decide(comparison: Comparison) -> Decision | None:
    """Returns the decision; None with a single row.

    Raises:
        ConfigError: A guard is on latency, and the settings do not measure it.
        ResultError: A guard is on latency, and none of the rows has a model.
    """
    if len(comparison.rows) < 2:
        return None
    if comparison.best is None:
        return Decision(NONE, reason="no two rows can be paired")
    considered = _considered(comparison)
    return replace(
        _decision(comparison, considered),
        excluded=considered.excluded,
        choices=considered.choices,
        passed_over=_passed_over(comparison, considered),
    )


def _decision(comparison: Comparison, considered: Considered) -> Decision:
    """Returns the decision among the considered rows, without what it says about the others."""
    if all(pair.models.interval is None for pair in comparison.family):
        reasons = {pair.models.reason for pair in comparison.family}
        why = " and ".join(sorted(reasons)) or "no difference has an interval"
        return Decision(NONE, reason=why)
    settings = comparison.settings
    has_baseline = bool(settings.guards) or settings.names_baseline
    others = {*considered.models} - {comparison.baseline}
    if has_baseline and considered.excluded and not others:
        return Decision(
            NONE,
            subject=comparison.baseline,
            reason="no other model has a fair comparison",
        )
    if settings.guards:
        return _by_guards(comparison, considered)
    if settings.names_baseline:
        return _against_baseline(comparison, considered)
    if considered.models:
        return _of_leader(comparison, considered)
    return Decision(
        NONE,
        subject=comparison.best or "",
        reason="no model has a fair comparison" if considered.excluded else "",
    )


def _of_leader(comparison: Comparison, considered: Considered) -> Decision:
    """Returns the decision without a named baseline."""
    leader = considered.models[0]
    unbeaten = _unbeaten(comparison, leader, considered)
    return Decision(
        NONE if unbeaten else TAKE,
        models=() if unbeaten else (leader,),
        subject=leader,
        loss=comparison.largest_loss(leader),
        unbeaten=unbeaten,
    )


def _unbeaten(
    comparison: Comparison, label: str, considered: Considered
) -> tuple[str, ...]:
    """Returns the yardsticks that a row is not shown to be better than.

    With a named baseline its pairs are the family, and other pairs have their claims over all pairs: a model
    must be better than the baseline and than each yardstick, so that each test has the whole level.
    """
    states = _against_yardsticks(comparison, label, considered)
    return tuple(other for other, state in states.items() if state != BETTER)


def _against_yardsticks(
    comparison: Comparison, label: str, considered: Considered
) -> dict[str, str]:
    """Returns yardstick -> what is claimed of a row in comparison with it."""
    pairs = {pair.a: pair.turned() for pair in against(comparison.pairs, label)}
    pairs |= pairs_of(comparison, label)
    others = [other for other in considered.yardsticks if other != label]
    return {other: pairs[other].models.state for other in others}


def _against_baseline(comparison: Comparison, considered: Considered) -> Decision:
    """Returns the decision against the named baseline, without guards."""
    pairs = pairs_of(comparison, comparison.baseline)
    others = [label for label in considered.models if label in pairs]
    states = {label: pairs[label].models.state for label in others}
    better = [label for label in others if states[label] == WORSE]
    kind = UNDECIDED if UNDECIDED in states.values() else KEEP
    return _replaced_or_kept(comparison, considered, better, kind)


def _replaced_or_kept(
    comparison: Comparison, considered: Considered, better: Sequence[str], kind: str
) -> Decision:
    """Returns the decision to replace the baseline, to keep it, or to take nothing, because of a yardstick.

    Args:
        better: Rows that are better than the baseline and keep every guard, the highest mean first.
        kind: Kind of the decision to keep the baseline.
    """
    baseline = comparison.baseline
    unbeaten = {label: _unbeaten(comparison, label, considered) for label in better}
    models = [label for label in better if not unbeaten[label]]
    if models:
        loss = comparison.largest_loss(models[0])
        return Decision(SHIP, models=tuple(models), subject=models[0], loss=loss)
    if baseline in considered.yardsticks:
        for label in considered.models[:1]:
            unbeaten[label] = _unbeaten(comparison, label, considered)
    # What is in use is only given up for a yardstick that is shown to be better.
    states = _against_yardsticks(comparison, baseline, considered)
    in_the_way = [other for other, state in states.items() if state == WORSE]
    unbeaten[baseline] = tuple(in_the_way)
    for subject, yardsticks in unbeaten.items():
        if yardsticks:
            loss = comparison.largest_loss(subject)
            return Decision(NONE, subject=subject, loss=loss, unbeaten=yardsticks)
    loss = comparison.largest_loss(baseline)
    return Decision(kind, models=(baseline,), subject=baseline, loss=loss)


def _by_guards(comparison: Comparison, considered: Considered) -> Decision:
    """Returns the decision by the guards of the comparison."""
    labels = [label for label in considered.models if label != comparison.baseline]
    checks = {label: _checks_by_guards(comparison, label) for label in labels}
    times = []
    for of_label in checks.values():
        times += [check.value for check in of_label if check.name == LATENCY]
    if times and all(time is None for time in times):
        raise ResultError(
            f"--guard latency: {listed(labels)} has imported scores and no model; add a trained run. The "
            "--baseline is not timed."
        )
    states = {label: worst(checks[label]) for label in labels}
    kept = [label for label in labels if states[label] == HOLDS]
    kind = UNDECIDED if UNDECIDED in states.values() else KEEP
    decision = _replaced_or_kept(comparison, considered, kept, kind)
    return replace(decision, checks=checks)


def _checks_by_guards(comparison: Comparison, label: str) -> list[Check]:
    """Returns the checks of a row against the baseline: of the primary metric, and of the guards."""
    # A higher primary metric is not lower.
    guards = [
        guard for guard in comparison.settings.guards if guard.name != comparison.metric
    ]
    of_guards = [check_of_guard(comparison, label, guard) for guard in guards]
    return [check_of_primary(comparison, label), *of_guards]


# ---- Which rows are considered.


class Considered(NamedTuple):
    """The paired rows with a fair comparison, the highest mean first.

    Attributes:
        models, yardsticks: Labels of the rows.
        excluded: Why rows of other models are left out, one sentence each.
        choices: Which rows of their models were chosen, and how, one sentence each.
    """

    models: tuple[str, ...]
    yardsticks: tuple[str, ...]
    excluded: tuple[str, ...]
    choices: tuple[str, ...]


def _considered(comparison: Comparison) -> Considered:
    """Returns the rows that are considered: of one model only that with the best validation value."""
    rows = _paired_rows(comparison)
    stopped = stopped_on_test(run.result for row in rows for run in row.runs)
    excluded = [
        f"{model} is not considered: it was picked on test." for model in stopped
    ]
    leaks = started_from_test(rows)
    for leaking, start in leaks.items():
        excluded.append(
            f"{leaking} is not considered: its warm_start {start} may have learned from test queries."
        )
    rows = [row for row in rows if row.label not in leaks]
    kept: set[str] = set()
    chosen: dict[str, list[str]] = {}
    for source, of_source in grouped(rows, lambda row: row.source).items():
        if source.model in stopped:
            continue
        if len(of_source) == 1:
            kept.add(of_source[0].label)
            continue
        label, why = _chosen_by_validation(comparison, of_source)
        if label is None:
            excluded.append(
                f"The {len(of_source)} rows of {source} are not considered: {why}."
            )
        else:
            kept.add(label)
            chosen.setdefault(why, []).append(label)
    considered = [row for row in rows if row.label in kept]
    choices = [_choice_in_words(labels, why) for why, labels in chosen.items()]
    return Considered(
        models=tuple(row.label for row in considered if not row.is_yardstick),
        yardsticks=tuple(row.label for row in considered if row.is_yardstick),
        excluded=tuple(excluded),
        choices=tuple(choices),
    )


def _paired_rows(comparison: Comparison) -> list[ModelRow]:
    """Returns the paired rows, the highest mean first."""
    queries = comparison.queries
    labels = () if queries is None else queries.labels
    rows = [comparison.row(label) for label in labels]
    return sorted(rows, key=lambda row: row.rank_by(comparison.metric))


def _passed_over(comparison: Comparison, considered: Considered) -> tuple[str, ...]:
    """Returns the models with paired rows of which none is considered."""
    labels = {*considered.models, *considered.yardsticks}
    sources = grouped(_paired_rows(comparison), lambda row: row.source)
    passed_over = []
    for source, rows in sources.items():
        if labels.isdisjoint(row.label for row in rows):
            passed_over.append(str(source))
    return tuple(passed_over)


def _choice_in_words(labels: Sequence[str], why: str) -> str:
    """Returns which rows of their models were chosen, and how."""
    if len(labels) == 1:
        return (
            f"{labels[0]} is the best row of its model by {why}; this table is on test."
        )
    return f"{listed(labels)} are the best rows of their models by {why}; this table is on test."


def _chosen_by_validation(
    comparison: Comparison, rows: Sequence[ModelRow]
) -> tuple[str | None, str]:
    """Returns the row of a model that validation chooses, None if it cannot, and how or why not."""
    validated = values_on_validation(
        rows, comparison.metric, comparison.settings.convention
    )
    if not validated:
        return (
            None,
            "they have no validation set, and choosing by this table is choosing on test",
        )
    seen = seen_by_choice(
        list(itertools.chain.from_iterable(row.evaluated for row in rows))
    )
    if not seen:
        return best_on_validation(rows, validated), "validation"
    # Each fold may choose by its own validation set, if all choose the same row.
    of_cells = _means_by_cell(rows, validated)
    # Tuned rows first: a search also tries the default settings, so that they are often equal.
    for row in sorted(rows, key=lambda row: (not row.is_tuned, row.label)):
        if _is_best_in_all(row.label, of_cells, len(rows)):
            return row.label, "the validation of every fold"
    return None, leak_in_words(seen)


def _means_by_cell(
    rows: Sequence[ModelRow], validated: Mapping[str, Mapping[int, float]]
) -> list[dict[str, float]]:
    """Returns label -> mean over the runs of a row, for each cell; rows without a value are left out."""
    of_cells: dict[DataCell, dict[str, float]] = {}
    for row in rows:
        of_row = row.means_by_cell(validated.get(row.label, {}))
        for cell, mean in of_row.items():
            of_cells.setdefault(cell, {})[row.label] = mean
    return list(of_cells.values())


def _is_best_in_all(
    label: str, of_cells: Iterable[Mapping[str, float]], num_rows: int
) -> bool:
    """Returns whether no other row is better in any cell; False if a row lacks a cell."""
    for means in of_cells:
        is_whole = len(means) == num_rows
        if not is_whole or means[label] < max(means.values()):
            return False
    return True


# ---- Checks of guards.


def check_of_primary(comparison: Comparison, label: str) -> Check:
    """Returns whether a model is better than the baseline; of equivalent models, by more than the region of
    equivalence."""
    name = comparison.metric
    pair = comparison.claim(label, name)
    limit = 0.0
    if pair is not None and pair.models.state == EQUIVALENT:
        limit = comparison.settings.rope_of(name) or 0.0
    unknown = Check(name, None, limit=limit, sense=MORE_THAN)
    return _with_difference(unknown, pair)


def check_of_guard(comparison: Comparison, label: str, guard: Guard) -> Check:
    """Returns whether a model keeps a guard."""
    if guard.metric in COSTS:
        return _check_of_cost(comparison, comparison.row(label), guard)
    unknown = Check(guard.name, None, limit=guard.limit)
    return _with_difference(unknown, comparison.claim(label, guard.name))


def _with_difference(check: Check, pair: Pair | None) -> Check:
    """Returns a check with the difference of a pair and its interval, if they are known."""
    if pair is None or pair.models.interval is None:
        return check
    interval = pair.models.interval
    return replace(
        check, value=pair.models.difference, low=interval.low, high=interval.high
    )


def _check_of_cost(comparison: Comparison, row: ModelRow, guard: Guard) -> Check:
    value = row.peak_memory_mb
    if guard.metric == LATENCY:
        measure = comparison.settings.latency
        if measure is None:
            raise ConfigError(
                f"the guard {guard} needs a measurement: set latency in the Settings, as in "
                "functools.partial(latency_of_row, load_splits=...), or use the verb compare."
            )
        value = measure(row)
    return Check(guard.metric, value, limit=guard.limit, sense=AT_MOST)


def latency_of_row(row: ModelRow, load_splits: Callable[[Run], Splits]) -> float | None:
    """Returns the median time to score one list of the test set on one thread, in ms, with the saved model of
    the run that has the most trees; None if it has scores without a model.

    Args:
        load_splits: Loads the data of a run.
    """
    run = max(row.runs, key=lambda run: run.result.best_iteration or 0)
    try:
        ranker = load_ranker(*class_and_folder_of_model(run))
    except ResultError:
        return None
    ranker.num_threads = 1
    test = load_splits(run).test
    ends = test.query_start[: MOST_LISTS + 1]
    documents = np.array(test.features[: ends[-1]])
    return latency_of(ranker.predict, np.split(documents, ends[1:-1]))[0]
