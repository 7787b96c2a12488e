"""Decision: whether a model may replace the baseline, by the claim in the primary metric and by guards.

A model replaces the baseline if it is better in the primary metric and every guard holds. The guard of a
metric is a non-inferiority test: the simultaneous interval of the difference, over all claimed metrics and
pairs, lies above the limit. A cost is a measured number, without an interval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ltrbench.compare.cells import EvaluatedRow
from ltrbench.compare.comparison import Comparison, ModelRow
from ltrbench.compare.guards import COSTS, LATENCY, Guard
from ltrbench.compare.power import needs_of
from ltrbench.compare.studies import power_of
from ltrbench.data import Splits
from ltrbench.errors import ResultError
from ltrbench.measure import latency_of
from ltrbench.metrics import bounds_of
from ltrbench.rankers.base import load_ranker
from ltrbench.rankers.importance import YARDSTICKS
from ltrbench.runs.record import Run, class_and_folder_of_model
from ltrbench.statistics.claims import BETTER, UNDECIDED
from ltrbench.tables import listed

SHIP, KEEP, HOLDS, FAILS = "ship", "keep", "holds", "fails"
MOST_LISTS = 50
"""Number of lists of the test set whose scoring is timed, the first ones."""


@dataclass(frozen=True)
class Condition:
    """One condition on one model.

    Attributes:
        name: The primary metric, the metric of a guard with its group, or a cost.
        state: "holds", "fails" or "undecided".
        words: The state in words.
        values: Difference to the baseline, and the ends of its interval; or the cost. Empty if not available.
        needs: What decides the present difference with 80 % power; empty if it is decided or not known.
    """

    name: str
    state: str
    words: str
    values: tuple[float, ...] = ()
    needs: str = ""


@dataclass(frozen=True)
class Recommendation:
    """The models to take.

    Attributes:
        models: Labels of the recommended rows, the highest mean first; empty if none is recommended.
        headline: Which models to take and why, or that nothing is decided, in one or two sentences.
        remarks: Costs of the models that no claim excludes, and why other models are not considered.
        certainty: Confidence, number of queries and trainings, and scope; empty if there are no claims.
        verdict: With guards "ship", "keep" (the baseline) or "undecided"; otherwise empty.
        conditions: With guards, label of each considered model -> its conditions, the primary metric first.
    """

    models: tuple[str, ...]
    headline: str
    remarks: tuple[str, ...] = ()
    certainty: str = ""
    verdict: str = ""
    conditions: Mapping[str, Sequence[Condition]] = field(default_factory=dict)


def decide(comparison: Comparison, considered: Sequence[str]) -> Recommendation:
    """Returns the decision by the guards of the comparison.

    Args:
        considered: Labels of the rows that may be chosen, the highest mean first.

    Raises:
        ResultError: A guard is on latency, and none of the rows has a model.
    """
    base, order = comparison.baseline, (FAILS, UNDECIDED, HOLDS)
    # A higher primary metric is not lower.
    guards = [
        guard for guard in comparison.settings.guards if guard.name != comparison.metric
    ]
    labels = [
        each
        for each in considered
        if comparison.row(each).model not in YARDSTICKS and each != base
    ]
    conditions = {
        each: [condition_of(comparison, each, guard) for guard in (None, *guards)]
        for each in labels
    }
    times = [
        each.values
        for label in labels
        for each in conditions[label]
        if each.name == LATENCY
    ]
    if times and not any(times):
        raise ResultError(
            f"--guard latency: {listed(labels)} has imported scores and no model; add a trained run. The "
            "--baseline is not timed."
        )
    states = {
        label: min((each.state for each in conditions[label]), key=order.index)
        for label in labels
    }
    reasons = {}
    for label in labels:
        by_state = sorted(conditions[label], key=lambda each: order.index(each.state))
        reasons[label] = f"{label}: {listed([each.words for each in by_state])}"
    for label in labels:
        if states[label] == HOLDS:
            return Recommendation(
                (label,), f"Ship {reasons[label]}.", verdict=SHIP, conditions=conditions
            )
    verdict = UNDECIDED if UNDECIDED in states.values() else KEEP
    headline = f"{'Keep' if verdict == KEEP else 'Undecided, keep'} {base}. {'; '.join(reasons.values())}."
    first = next((label for label in labels if states[label] == UNDECIDED), base)
    needs = [
        f"{each.name}: {each.needs}" for each in conditions.get(first, ()) if each.needs
    ]
    if needs:
        headline += f" If {first} differs as measured, 80 % power to decide needs {'; '.join(needs)}."
    return Recommendation((), headline, verdict=verdict, conditions=conditions)


def condition_of(comparison: Comparison, label: str, guard: Guard | None) -> Condition:
    """Returns the condition of a guard; without one, that of the primary metric."""
    if guard is not None and guard.metric in COSTS:
        return _cost(comparison, comparison.row(label), guard)
    name, limit = (
        (comparison.metric, 0.0) if guard is None else (guard.name, guard.limit)
    )
    pair = comparison.claim(label, name)
    if pair is None or pair.interval is None or pair.difference is None:
        return Condition(name, UNDECIDED, f"{name} has no interval")
    values = _, low, high = pair.difference, pair.interval.low, pair.interval.high
    change = _change(comparison, name, values)
    if guard is None:
        state = {BETTER: HOLDS, UNDECIDED: UNDECIDED}.get(pair.claim, FAILS)
        verb = {
            HOLDS: "is higher by",
            FAILS: "is not higher:",
            UNDECIDED: "is undecided:",
        }[state]
    else:
        state = HOLDS if low >= limit else FAILS if high < limit else UNDECIDED
        verb = {HOLDS: "is not", FAILS: "is", UNDECIDED: "may be"}[state]
        verb += f" lower by more than {-limit:g}:"
    what = re.sub(r"^value@(\d+):([^:]+)", r"\2 in the first \1", name)
    condition, planned = (
        Condition(name, state, f"{what} {verb} {change}", values),
        pair.power.planned,
    )
    if comparison.queries is None or planned is None or state != UNDECIDED:
        return condition
    wanted = replace(comparison.settings, detect=abs(pair.difference - limit))
    power = power_of(
        comparison.queries,
        replace(pair, claim=UNDECIDED),
        wanted,
        planned.present_level,
    )
    return replace(
        condition,
        needs="" if all(need.note for need in power.needs) else needs_of(power),
    )


def _change(comparison: Comparison, name: str, values: Sequence[float]) -> str:
    """Returns a difference with its interval; of a primary metric without bounds in per cent of the baseline,
    such as "1.2 % [+0.4, +2.0] of native's 20.1"."""
    mean = comparison.row(comparison.baseline).metrics.get(name) or 0.0
    if name != comparison.metric or bounds_of(name) is not None or mean <= 0:
        return "{:.4f} [{:+.4f}, {:+.4f}]".format(*values)
    percent = "{:.1f} % [{:+.1f}, {:+.1f}]".format(
        *(100 * value / mean for value in values)
    )
    return f"{percent} of {comparison.baseline}'s {mean:.4g}"


def _cost(comparison: Comparison, row: ModelRow, guard: Guard) -> Condition:
    value, unit = row.peak_memory_mb, "MB of memory in the fit"
    if guard.metric == LATENCY:
        value, unit = (
            comparison.settings.latency and comparison.settings.latency(row),
            "ms a list",
        )
    if value is None:
        return Condition(
            guard.metric, UNDECIDED, f"{guard.metric} is not known, without a model"
        )
    above = f", above {guard.limit:g}" if value > guard.limit else ""
    return Condition(
        guard.metric, FAILS if above else HOLDS, f"{value:.3g} {unit}{above}", (value,)
    )


def latency_of_row(
    row: EvaluatedRow, load_splits: Callable[[Run], Splits]
) -> float | None:
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
    return latency_of(
        ranker.predict, np.split(np.array(test.features[: ends[-1]]), ends[1:-1])
    )[0]
