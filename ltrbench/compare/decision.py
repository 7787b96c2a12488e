"""Decision: whether a model may replace the baseline, by the claim in the primary metric and by guards.

A model replaces the baseline if it is better in the primary metric and every guard holds. The guard of a
metric is a non-inferiority test: the simultaneous interval of the difference, over all claimed metrics and
pairs, lies above the limit. A cost is a measured number, without an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ltrbench.compare.cells import pair_queries
from ltrbench.compare.comparison import Comparison, ModelRow
from ltrbench.compare.guards import LATENCY, MEMORY, Guard
from ltrbench.compare.planning import to_decide
from ltrbench.data import Splits
from ltrbench.data.features import read_rows
from ltrbench.errors import ResultError
from ltrbench.measure import Latency, latency_of
from ltrbench.metrics import bounds_of
from ltrbench.metrics.evaluation import parse_metric
from ltrbench.rankers.importance import YARDSTICKS
from ltrbench.runs.record import Run, load
from ltrbench.statistics import BETTER
from ltrbench.statistics.claims import UNDECIDED
from ltrbench.tables import listed

if TYPE_CHECKING:
    from ltrbench.compare.cells import EvaluatedRow

SHIP, KEEP = "ship", "keep"
HOLDS, FAILS = "holds", "fails"
MOST_LISTS = 50
"""Maximum number of lists of the test set whose scoring is timed."""


@dataclass(frozen=True)
class Condition:
    """One condition on one model.

    Attributes:
        name: The primary metric, the metric of a guard with its group, or a cost.
        limit: Lowest difference, or highest cost in ms or MB.
        value: Difference to the baseline, or cost.
        interval: Simultaneous interval of the difference; None for a cost, and if not available.
        state: "holds", "fails" or "undecided".
        words: The state in words.
        needs: What detects the present distance to the limit with 80 % power; empty if decided or not known.
    """

    name: str
    limit: float
    value: float | None
    interval: tuple[float, float] | None
    state: str
    words: str
    needs: str = ""


@dataclass(frozen=True)
class Decision:
    """Whether a model replaces the baseline.

    Attributes:
        verdict: "ship", "keep" or "undecided".
        model: Label of the model to ship; None if the baseline is kept.
        sentence: The decision with its reasons.
        conditions: Label of each considered model -> its conditions, that of the primary metric first.
    """

    verdict: str
    model: str | None
    sentence: str
    conditions: Mapping[str, Sequence[Condition]]


def decide(comparison: Comparison, considered: Sequence[str]) -> Decision:
    """Returns the decision by the guards of the comparison.

    Args:
        considered: Labels of the rows that may be chosen, the highest mean first.
    """
    base, guards = comparison.baseline, comparison.settings.guards
    rows = [comparison.row(label) for label in considered if label != base]
    conditions = {
        row.label: [
            _of_metric(comparison, row, comparison.metric, None),
            *((_cost if guard.is_cost else _not_lower)(comparison, row, guard) for guard in guards),
        ]
        for row in rows
        if row.model not in YARDSTICKS
    }
    worst = {label: _worst({each.state for each in of_row}) for label, of_row in conditions.items()}
    reasons = {
        label: listed([each.words for each in of_row if each.state == worst[label]])
        for label, of_row in conditions.items()
    }
    percent = ""
    if conditions and _is_relative(comparison, comparison.metric):
        percent = f" Percentages are of {base}'s mean, {comparison.row(base).metrics[comparison.metric]:.4g}."
    passing, undecided = ([label for label in worst if worst[label] == state] for state in (HOLDS, UNDECIDED))
    if passing:
        first, *others = passing
        also = f" {listed(others)} may replace {base}, too." if others else ""
        return Decision(SHIP, first, f"Ship {first}: {reasons[first]}.{percent}{also}", conditions)
    start = f"Undecided, keep {base} for now" if undecided else f"Keep {base}"
    of_models = "; ".join(f"{label}: {words}" for label, words in reasons.items())
    sentence = f"{start}: {of_models or 'no other model can be chosen'}.{percent}"
    for label in undecided[:1]:
        needs = [f"{each.name} by {each.needs}" for each in conditions[label] if each.needs]
        if needs:
            sentence += f" If {label} differs as measured, 80 % power to decide: {listed(needs)}."
    return Decision(UNDECIDED if undecided else KEEP, None, sentence, conditions)


def _worst(states: Collection[str]) -> str:
    return next(state for state in (FAILS, UNDECIDED, HOLDS) if state in states)


def _not_lower(comparison: Comparison, row: ModelRow, guard: Guard) -> Condition:
    return _of_metric(comparison, row, guard.name, guard.limit)


def _of_metric(comparison: Comparison, row: ModelRow, name: str, limit: float | None) -> Condition:
    """Returns the condition that a metric is higher, without a limit, or not lower by more than the limit."""
    pair, what = comparison.claim(row.label, name), _in_words(comparison, name)
    at_least = limit or 0.0
    if pair is None or pair.interval is None or pair.difference is None:
        reason = "no query of the group counts" if pair is None else pair.reason
        return Condition(name, at_least, None, None, UNDECIDED, f"{what} has no interval ({reason})")
    low, high = pair.interval.low, pair.interval.high
    change = _change(comparison, name, pair.difference, low, high)
    if limit is None:
        state = {BETTER: HOLDS, UNDECIDED: UNDECIDED}.get(pair.claim, FAILS)
        verb = {HOLDS: "is higher by", FAILS: "is not higher:", UNDECIDED: "is undecided:"}[state]
        words = f"{what} {verb} {change.removeprefix('+') if state == HOLDS else change}"
    else:
        state = HOLDS if low >= limit else FAILS if high < limit else UNDECIDED
        by = f" by more than {-limit:g}" if limit else ""
        words = f"{what} {'may be' if state == UNDECIDED else 'is'} lower{by}: {change}"
        words = f"{what} is not lower{by}" if state == HOLDS else words
    needs = ""
    if state == UNDECIDED:
        paired = [each for each in comparison.rows if each.interval is not None]
        queries = comparison.queries if name == comparison.metric else pair_queries(paired, name)
        needs = "" if queries is None else to_decide(queries, pair, pair.difference - at_least)
    return Condition(name, at_least, pair.difference, (low, high), state, words, needs)


def _in_words(comparison: Comparison, name: str) -> str:
    metric = comparison.settings.metric_of(name)
    word, k = parse_metric(metric)
    what = f"{word.removeprefix('value:')} in the first {k}" if word.startswith("value:") and k else metric
    return f"{what} in {name.removeprefix(f'{metric}:')}" if name != metric else what


def _is_relative(comparison: Comparison, name: str) -> bool:
    """Returns whether differences are shown in per cent of the baseline: of metrics without known bounds."""
    mean = comparison.row(comparison.baseline).metrics[name]
    return bounds_of(comparison.settings.metric_of(name)) is None and mean is not None and mean > 0


def _change(comparison: Comparison, name: str, *numbers: float) -> str:
    """Returns a difference with its interval, such as "+1.2 % [+0.4, +2.0]" or "+0.01 [+0.00, +0.02]"."""
    form, unit = ".4f", ""
    if _is_relative(comparison, name):
        mean = comparison.row(comparison.baseline).metrics[name] or 1.0
        form, unit, numbers = ".1f", " %", tuple(100 * number / mean for number in numbers)
    middle, low, high = (f"{number:+{form}}" for number in numbers)
    return f"{middle}{unit} [{low}, {high}]"


def _cost(comparison: Comparison, row: ModelRow, guard: Guard) -> Condition:
    latency = comparison.latencies.get(row.label)
    if guard.metric == LATENCY:
        value = None if latency is None else latency.median_ms
        unit, what = "ms", "" if latency is None else f"a list (99 %: {latency.p99_ms:.2g} ms)"
    elif guard.metric == MEMORY:
        value, unit, what = row.peak_memory_mb, "MB", "of memory in the fit"
    else:
        value, unit, what = row.model_mb, "MB", "on disk"
    if value is None:
        return Condition(guard.metric, guard.limit, None, None, UNDECIDED, f"{guard.metric} is not known")
    state = HOLDS if value <= guard.limit else FAILS
    words = f"{value:.3g} {unit} {what}{f', above {guard.limit:g} {unit}' if state == FAILS else ''}"
    return Condition(guard.metric, guard.limit, value, None, state, words)


def with_latencies(comparison: Comparison, load_splits: Callable[[Run], Splits]) -> Comparison:
    """Measures the latency of each model that may replace the baseline, if a guard names it.

    The saved model scores lists of the test set on one thread. Of the trainings of a row, the one with the
    most trees is timed.

    Args:
        load_splits: Loads the data of a run.

    Raises:
        ResultError: A guard names a cost, but a row has scores without a model.
    """
    costs = [guard.metric for guard in comparison.settings.guards if guard.is_cost]
    rows = [
        row for row in comparison.rows if row.label != comparison.baseline and row.model not in YARDSTICKS
    ]
    for row in rows if costs else ():
        if any(run.held is not None for run in row.runs):
            raise ResultError(
                f"--guard {costs[0]}: {row.label} has scores without a model ({row.runs[0].path}); leave "
                "out the guard or these scores, or name them as the --baseline."
            )
    if LATENCY not in costs:
        return comparison
    latencies = {row.label: latency_of_row(row, load_splits) for row in rows}
    return replace(comparison, latencies=latencies)


def latency_of_row(row: EvaluatedRow, load_splits: Callable[[Run], Splits]) -> Latency:
    run = max(row.runs, key=lambda run: run.result.best_iteration or 0)
    model, test = load(run.path), load_splits(run).test
    model.ranker.num_threads = 1
    step = max(test.num_queries // MOST_LISTS, 1)
    ends = list(zip(test.query_start[:-1:step].tolist(), test.query_start[1::step].tolist(), strict=True))
    lists = [np.array(read_rows(test.features, start, end)) for start, end in ends[:MOST_LISTS]]
    return latency_of(model.predict, lists)
