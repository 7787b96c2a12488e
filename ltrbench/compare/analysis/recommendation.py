"""Recommendation: which model to take, and how certain that is.

The rule follows from the claims, so that it cannot contradict the table. Without a named baseline, the models
to take are the one with the highest mean and every model that is not shown to be worse than it. With a named
baseline, they are the models that are better than it. Excluded are models without a fair comparison: stopped
by the test set, or with a setting that could only be chosen on test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ltrbench.compare.analysis.methods import family_of
from ltrbench.compare.comparison import Comparison, ModelRow
from ltrbench.compare.grouping import DataCell, grouped
from ltrbench.compare.pairing.cells import EvaluatedRow
from ltrbench.compare.pairing.fairness import (
    best_on_validation,
    seen_by_choice,
    stopped_on_test,
    values_on_validation,
)
from ltrbench.compare.pairing.pairs import Pair, against
from ltrbench.rankers.models.importance import YARDSTICKS
from ltrbench.statistics import (
    BETTER,
    EQUIVALENT,
    METHODS,
    MODELS,
    RETRAINED,
    RETUNED,
    TUNED_METHODS,
    WORSE,
)
from ltrbench.tables import listed

_CLEARLY_CHEAPER = 1.5
"""Ratio of the second lowest time to the lowest from which one model is called cheapest; times are single
measurements, and smaller differences do not repeat."""

_SHORTEST = 0.01
"""Seconds; a single measurement of a shorter time is mostly the overhead of the call."""

_TIMES = {"predict": ("predict the test set", ".3f"), "fit": ("fit", ".2f")}

_SCOPES_IN_WORDS = {
    TUNED_METHODS: "for the models trained and tuned again on other queries",
    METHODS: "for the models trained again on other queries",
    RETUNED: "for the models trained and tuned again on the same training queries",
    RETRAINED: "for the models trained again on the same training queries",
    MODELS: "for these trained models only: trained again, they may rank in another order",
}


@dataclass(frozen=True)
class Recommendation:
    """The models to take.

    Attributes:
        models: Labels of the recommended rows, the highest mean first; empty if none is recommended.
        headline: Which models to take and why, in one or two sentences.
        remarks: Costs of the recommended models, and why other models are not considered.
        certainty: Confidence, number of queries and trainings, and scope; empty if there are no claims.
    """

    models: tuple[str, ...]
    headline: str
    remarks: tuple[str, ...] = ()
    certainty: str = ""

    @property
    def paragraphs(self) -> list[str]:
        """The recommendation as up to three paragraphs, the headline first."""
        return [text for text in (self.headline, " ".join(self.remarks), self.certainty) if text]


def recommend(comparison: Comparison) -> Recommendation | None:
    """Returns the models to take; None with a single row."""
    if len(comparison.rows) < 2:
        return None
    if comparison.queries is None or comparison.best is None:
        return Recommendation((), "No model is recommended: no two models can be paired.")
    if all(pair.interval is None for pair in comparison.family):
        return Recommendation((), "No model is recommended: there is no interval for any difference.")
    considered, reasons = _considered(comparison)
    models = [label for label in considered if _model(comparison, label) not in YARDSTICKS] or considered
    if not models:
        return Recommendation((), "No model is recommended.", tuple(reasons), _certainty(comparison))
    if comparison.settings.names_baseline:
        taken, headline = _against_baseline(comparison, models)
    else:
        taken, headline = _among_all(comparison, models, considered)
    remarks = [*reasons, *_costs([comparison.row(label) for label in taken])]
    return Recommendation(tuple(taken), headline, tuple(remarks), _certainty(comparison))


def _model(comparison: Comparison, label: str) -> str:
    return comparison.row(label).group.model


def _considered(comparison: Comparison) -> tuple[list[str], list[str]]:
    """Returns the paired rows with a fair comparison, the highest mean first, and why others are excluded.

    Of the settings of one model, only the one with the best validation value is considered.
    """
    queries = comparison.queries
    labels = () if queries is None else queries.labels
    rows = sorted(
        (comparison.row(label) for label in labels), key=lambda row: -(row.metrics[comparison.metric] or 0.0)
    )
    stopped = stopped_on_test(run.result for row in rows for run in row.runs)
    reasons = [f"{model} is not considered: it was picked on test." for model in stopped]
    kept: set[str] = set()
    for model, of_model in grouped(rows, lambda row: row.group.model).items():
        if model in stopped:
            continue
        label, reason = _setting(comparison, model, of_model)
        kept |= set() if label is None else {label}
        reasons += [reason] if reason else []
    return [row.label for row in rows if row.label in kept], reasons


def _setting(comparison: Comparison, model: str, rows: Sequence[ModelRow]) -> tuple[str | None, str]:
    """Returns the row of a model that validation chooses, None if it cannot, and a remark."""
    if len(rows) == 1:
        return rows[0].label, ""
    groups = [row.group for row in rows]
    is_tuned = any(group.is_tuned for group in groups)
    count = f"{len(rows)} {'rows' if is_tuned else 'settings'} of {model}"
    validated = values_on_validation(groups, comparison.metric, comparison.settings.convention)
    seen = seen_by_choice([item for group in groups for item in group.evaluated])
    if seen:
        best = _best_in_every_cell(groups, validated) if is_tuned else None
        if best is None:
            return None, f"The {count} are not considered: {seen}."
        return (
            best,
            f"Of the {count}, {best} is the best by the validation of every fold; this table is on test.",
        )
    if not validated:
        return None, (
            f"The {count} are not considered: choosing among them by this table is choosing on test. Give "
            "them a validation set."
        )
    label = best_on_validation(validated)
    return label, f"Of the {count}, {label} is the best by validation; this table is on test."


def _best_in_every_cell(
    groups: Sequence[EvaluatedRow], validated: Mapping[str, Mapping[int, float]]
) -> str | None:
    """Returns the row that every fold chooses by its own validation set; None if folds choose different ones.

    A search per fold tries the default settings as well, so that its row is rarely below them.
    """
    values: dict[DataCell, dict[str, list[float]]] = {}
    for group in groups:
        for number, value in validated.get(group.label, {}).items():
            values.setdefault(group.evaluated[number].cell, {}).setdefault(group.label, []).append(value)
    # Tuned rows first, because rows are in the order of their means on test.
    labels = [group.label for group in sorted(groups, key=lambda group: (not group.is_tuned, group.label))]
    means = [{label: fmean(each) for label, each in of_cell.items()} for of_cell in values.values()]
    is_whole = bool(means) and all(len(of_cell) == len(labels) for of_cell in means)
    best = [
        label for label in labels if is_whole and all(each[label] == max(each.values()) for each in means)
    ]
    return best[0] if best else None


def _among_all(
    comparison: Comparison, models: Sequence[str], considered: Sequence[str]
) -> tuple[list[str], str]:
    """Returns the models to take by the claims over all pairs, and the headline."""
    best = models[0]
    if len(considered) == 1:
        if all(row.group.model == _model(comparison, best) for row in comparison.rows):
            return [best], f"Take {best}: validation chooses this setting of the only model."
        return [], f"No model is recommended: {best} is the only one with a fair comparison."
    claims = {label: _claims_on(comparison, label) for label in considered}
    taken = [label for label in models if label == best or claims[best].get(label) != BETTER]
    # A model may be worse than another of them, although it is undecided against the best.
    taken = [label for label in taken if not any(claims[label].get(other) == WORSE for other in taken)]
    yardsticks = [label for label in considered if label not in models]
    beaten = {label: [y for y in yardsticks if claims[label].get(y) == BETTER] for label in models}
    for yardstick in yardsticks:
        if not any(yardstick in beaten[label] for label in models):
            return [], f"No model is recommended: none of the models is shown to beat {yardstick}."
    unbeaten = {label: tuple(y for y in yardsticks if y not in beaten[label]) for label in taken}
    remarks = [
        f" {listed(labels)} {_be(labels)} not shown to beat {listed(missing)}."
        for missing, labels in grouped(taken, lambda label: unbeaten[label]).items()
        if missing
    ]
    taken = [label for label in taken if not unbeaten[label]]
    return taken, f"{_headline(taken, models, yardsticks, claims)}{''.join(remarks)}"


def _headline(
    taken: Sequence[str],
    models: Sequence[str],
    yardsticks: Sequence[str],
    claims: dict[str, dict[str, str]],
) -> str:
    if not taken:
        return "No model is recommended."
    first, *others = taken
    if not others:
        rivals = [label for label in [*models, *yardsticks] if label != first]
        beaten = [label for label in rivals if claims[first].get(label) == BETTER]
        unbeaten = [label for label in rivals if label not in beaten]
        rest = f" It is not shown to be better than {listed(unbeaten)}." if unbeaten else ""
        return f"Take {first}: it is better than {listed(beaten)}.{rest}"
    equivalent = all(claims[first].get(label) == EQUIVALENT for label in others)
    if equivalent:
        why = f"{listed(others)} {_be(others)} equivalent to {first}, which has the highest mean of them"
    elif len(taken) == 2:
        why = "neither is shown to be worse than the other, nor are they shown to be equal"
    else:
        why = "none of them is shown to be worse than another, nor are all of them shown to be equal"
    return f"Take {_any_of(taken)}: {why}."


def _against_baseline(comparison: Comparison, models: Sequence[str]) -> tuple[list[str], str]:
    """Returns the models to take by the claims against the named baseline, and the headline."""
    baseline = comparison.baseline
    claims = {pair.a: pair.claim for pair in against(comparison.family, baseline)}
    better = [label for label in models if claims.get(label) == BETTER]
    if better:
        between = (
            ""
            if len(better) == 1
            else (
                " Nothing is claimed about the differences between them; compare without --baseline for that."
            )
        )
        subject = "it is" if len(better) == 1 else "each of them is"
        return better, f"Take {_any_of(better)}: {subject} better than {baseline}.{between}"
    if _model(comparison, baseline) in YARDSTICKS:
        return [], f"No model is recommended: none of the models is shown to beat {baseline}."
    if baseline not in models:
        return [], f"No model is recommended: none is shown to be better than {baseline}."
    rivals = [label for label in models if label != baseline and claims.get(label) not in (None, WORSE)]
    rest = f" Not shown to be worse than it: {listed(rivals)}." if rivals else ""
    return [baseline, *rivals], f"Keep {baseline}: no model is shown to be better.{rest}"


def _claims_on(comparison: Comparison, label: str) -> dict[str, str]:
    """Returns other row -> the claim about this row minus the other."""
    return {pair.a: pair.turned().claim for pair in against(comparison.family, label)}


def _any_of(labels: Sequence[str]) -> str:
    return " or ".join(labels) if len(labels) <= 2 else f"any of {listed(labels)}"


def _be(labels: Sequence[str]) -> str:
    return "is" if len(labels) == 1 else "are"


def _costs(rows: Sequence[ModelRow]) -> Iterator[str]:
    """Yields which of the recommended models is cheapest to predict and to fit, as far as times compare."""
    runs = [run.result for row in rows for run in row.runs if not run.result.shared_machine]
    machines = {(run.machine.get("cpu"), run.machine.get("cores"), run.threads) for run in runs}
    if len(rows) < 2 or len(machines) > 1:
        return
    for kind, (verb, form) in _TIMES.items():
        if not all(kind in row.seconds for row in rows) or not all(run.seconds.get(kind) for run in runs):
            continue
        first, second, *_ = sorted(rows, key=lambda row: row.seconds[kind])
        times = [f"{row.seconds[kind]:{form}} s" for row in (first, second)]
        if second.seconds[kind] < _SHORTEST:
            yield f"The shortest times to {verb} are below {_SHORTEST:g} s, too short to compare."
        elif second.seconds[kind] >= _CLEARLY_CHEAPER * first.seconds[kind]:
            yield f"Cheapest to {verb}: {first.label} ({times[0]}; next {second.label}, {times[1]})."
        else:
            yield f"No clearly cheapest to {verb}: {first.label} {times[0]}, {second.label} {times[1]}."


def _certainty(comparison: Comparison) -> str:
    queries = comparison.queries
    count = 0 if queries is None else queries.num_distinct
    decided = [pair for pair in comparison.family if pair.interval is not None]
    of_scope = grouped(decided, lambda pair: pair.scope)
    scopes = [
        words if len(of_scope) == 1 else words.replace("models", f"models ({_rows_of(of_scope[scope])})", 1)
        for scope, words in _SCOPES_IN_WORDS.items()
        if scope in of_scope
    ]
    trainings = listed(list(dict.fromkeys(comparison.replicates.values())))
    together = f" over {family_of(comparison)} together" if len(decided) > 1 else ""
    return (
        f"How sure: 95 % confidence{together}, {'; '.join(scopes)}. Data: "
        f"{count:,} test queries; trainings: {trainings}."
    )


def _rows_of(pairs: Sequence[Pair]) -> str:
    return listed(list(dict.fromkeys(label for pair in pairs for label in (pair.a, pair.b))))
