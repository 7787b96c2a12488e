"""What to do: methods in words, the verdict, the recommendation and the next step.

The statistical methods of a comparison in words, as notes of the group "Claims".
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from ltrbench.compare.cells import EvaluatedRow, distinct_searches
from ltrbench.compare.fairness import (
    best_on_validation,
    seen_by_choice,
    stopped_on_test,
    values_on_validation,
)
from ltrbench.compare.grouping import (
    ON_CLAIMS,
    DataCell,
    Note,
    first_by,
    fold_of,
    grouped,
    replicate_of,
    resample_of,
)
from ltrbench.compare.pairs import (
    QUERIES,
    Need,
    Pair,
    Power,
    against,
    is_tuned,
    is_tuned_again,
    largest_difference,
)
from ltrbench.rankers.importance import YARDSTICKS
from ltrbench.runs import FUSED, IMPORTED, Run
from ltrbench.runs.record import as_products, quoted
from ltrbench.statistics import BETTER, FEWEST_REPLICATES, SCOPES, WORSE
from ltrbench.statistics.claims import (
    EQUIVALENT,
    METHODS,
    MODELS,
    RETRAINED,
    RETUNED,
    TUNED_METHODS,
    UNDECIDED,
)
from ltrbench.tables import listed, paragraph
from ltrbench.untrusted import in_markdown, visible

if TYPE_CHECKING:
    from ltrbench.compare.comparison import Comparison, ModelRow

_ENOUGH_DRAWS = 2_000

_METHODS = {
    "t": "Student's t over queries",
    "differing": "bound on the share of queries that differ",
    "max-t": "max-T bootstrap over queries",
    "bonferroni-t": "Student's t over queries, Bonferroni-corrected",
    "mrmc-t": "multi-reader multi-case analysis of seeds and queries",
    "paired-mrmc-t": "multi-reader multi-case analysis of shared seeds and queries",
    "resampled-t": "Student's t over resampled training sets and queries",
    "corrected-t": "corrected resampled t over folds",
}


def family_of(comparison: Comparison) -> str:
    """Returns the family of claims in words: its pairs and its metrics."""
    count = len(comparison.family)
    if comparison.settings.names_baseline:
        pairs = f"the {f'{count} differences' if count != 1 else 'difference'} to {comparison.baseline}"
    else:
        pairs = "the only pair" if count == 1 else f"all {count} pairs"
    metrics = [comparison.metric, *comparison.declared]
    return pairs if len(metrics) == 1 else f"{pairs} in {listed(metrics)}"


def all_notes(comparison: Comparison) -> list[Note]:
    """Returns every note under the table: on the methods, and those of the comparison."""
    return [*_method_notes(comparison), *comparison.note_entries]


def _method_notes(comparison: Comparison) -> list[Note]:
    if not comparison.pairs:
        return []
    sentences = {
        "simultaneous interval": about_intervals(comparison),
        "claim": about_claims(comparison),
        "effective number of queries": about_weights(comparison),
        "bootstrap draws": about_draws(comparison),
        "minimum detectable difference": about_power(comparison),
    }
    return [Note(ON_CLAIMS, term, sentence) for term, sentence in sentences.items() if sentence]


def about_intervals(comparison: Comparison) -> str:
    """Returns the meaning of the differences and their intervals."""
    used = {pair.interval.method for pair in comparison.claims if pair.interval is not None}
    differences = f"Differences are to {comparison.baseline}, paired by query."
    if not used:
        return f"{differences} They have no interval, and there are no claims."
    methods = " and ".join(_METHODS.get(method, method) for method in sorted(used))
    if len(comparison.claims) == 1:
        return f"{differences} The interval has 95 % confidence ({methods})."
    return (
        f"{differences} Their intervals are simultaneous: 95 % confidence over {family_of(comparison)} "
        f"together ({methods})."
    )


def about_claims(comparison: Comparison) -> str:
    """Returns how a claim follows from an interval, and which metrics carry claims; empty without claims."""
    if all(pair.interval is None for pair in comparison.claims):
        return ""
    rope, metrics = comparison.settings.rope, [comparison.metric, *comparison.declared]
    return (
        f"Claims: equivalent if the interval is within ±{rope:g}; else better or worse if it excludes 0; "
        f"else undecided. Claims are about {listed(metrics)} only; all other columns are descriptive."
    )


def about_weights(comparison: Comparison) -> str:
    """Returns the effective number of queries; empty if all queries of a fold have one weight."""
    sample = None if comparison.queries is None else comparison.queries.distinct
    if sample is None or not sample.is_weighted:
        return ""
    return (
        f"Queries have different weights: the {sample.num_queries:,} queries count in intervals like "
        f"{sample.effective_sizes.sum():,.1f} queries of equal weight (n_eff)."
    )


def about_draws(comparison: Comparison) -> str:
    """Returns a warning if there are too few bootstrap draws; empty otherwise."""
    draws = comparison.settings.num_draws
    if draws >= _ENOUGH_DRAWS:
        return ""
    return f"Intervals from {draws} bootstrap draws are imprecise; set num_draws to {_ENOUGH_DRAWS} or more."


def about_power(comparison: Comparison) -> str:
    """Returns the data that --detect needs; empty without it, or if no error is known."""
    detect = comparison.settings.detect
    needs = [
        _needs(row.to_baseline)
        for row in comparison.rows
        if row.to_baseline is not None and row.to_baseline.power.needs
    ]
    if detect is None or not needs:
        return ""
    return (
        f"To detect {detect:g} against {comparison.baseline}, with 80 % power at the level of the claims and "
        f"everything else unchanged: {'; '.join(needs)}."
    )


def detectable(pairs: Sequence[Pair]) -> str:
    """Returns the range of the minimum detectable differences, such as "0.0120 to 0.0339"; empty if none is
    known."""
    known = [pair.power.detectable for pair in pairs if pair.power.detectable is not None]
    if not known:
        return ""
    low, high = f"{min(known):.4f}", f"{max(known):.4f}"
    return low if low == high else f"{low} to {high}"


def _needs(pair: Pair) -> str:
    """Returns text such as "native needs 14 seeds (cheapest, about 35 s of training) or 2,300 queries"."""
    power = pair.power
    if power.is_enough:
        return f"{pair.a} needs no more data"
    enough = [_need(need, power) for need in power.needs if need.number is not None]
    lacking = " or ".join(f"more {need.kind}" for need in power.needs if need.number is None)
    if not enough:
        return f"{lacking} alone are not enough for {pair.a}"
    needed = f"{pair.a} needs {' or '.join(enough)}"
    return f"{needed} ({lacking} alone are not enough)" if lacking else needed


def _need(need: Need, power: Power) -> str:
    notes = ["cheapest"] * (need.kind == power.cheapest != QUERIES)
    if need.seconds is not None:
        notes.append(f"about {need.seconds:,.{int(need.seconds < 10)}f} s of training")
    count = f"{need.number:,} {need.kind}"
    return f"{count} ({', '.join(notes)})" if notes else count


# ---- Verdict: the claims of a comparison in a few sentences, each with its scope.

NOT_REPEATED = "training was not repeated; nothing is claimed about the methods"
NOT_ALIKE = "training was not repeated in the same way; nothing is claimed about the methods"
"""Remarks beside claims about trained models: for rows trained once, and for rows not trained alike."""


def verdict(comparison: Comparison) -> str:
    """Returns the claims on the best row against the others, or on each row against the named baseline."""
    if comparison.best is None:
        return "No two rows can be paired: nothing is claimed about differences."
    reasons = {pair.reason for pair in comparison.family if pair.reason}
    if all(pair.interval is None for pair in comparison.family):
        if not comparison.family:
            return f"The baseline {comparison.baseline} is left out of paired tests: nothing is claimed."
        return f"Nothing is claimed about differences: {listed(sorted(reasons))}."
    lead = f"Against {comparison.baseline}, in {comparison.metric}."
    if not comparison.settings.names_baseline:
        mean = comparison.row(comparison.best).metrics[comparison.metric]
        lead = f"{comparison.best} has the highest {comparison.metric}, {mean:.4f}."
    claims = _claims_by_scope(comparison, comparison.family)
    sentences = [f"{_begin_with(scope, comparison)}: {words}." for scope, words in claims.items()]
    sentences += [_declared(comparison, metric) for metric in comparison.declared]
    if reasons:
        sentences.append(f"Undecided because of too few data: {listed(sorted(reasons))}.")
    sentences += [about_tuning(comparison)]
    return " ".join(filter(None, [lead, *sentences]))


def _declared(comparison: Comparison, metric: str) -> str:
    """Returns the claims in another metric of the family, on the same rows."""
    claims = _claims_by_scope(comparison, comparison.declared[metric])
    return f"In {metric}: {'; '.join(f'{words} ({SCOPES[scope]})' for scope, words in claims.items())}."


def _claims_by_scope(comparison: Comparison, family: Sequence[Pair]) -> dict[str, str]:
    """Returns scope -> claims on the best row against the others, or on each row against the baseline."""
    if comparison.settings.names_baseline:
        pairs, name_claims = against(family, comparison.baseline), _of_rows
    else:
        best = comparison.best or comparison.baseline
        pairs, name_claims = tuple(pair.turned() for pair in against(family, best)), _of_best
    return {
        scope: name_claims([pair for pair in pairs if pair.scope == scope], comparison.settings.rope)
        for scope in reversed(SCOPES)
        if any(pair.scope == scope for pair in pairs)
    }


def claim_with_scope(pair: Pair) -> str:
    """Returns the claim with its scope, such as "better (trained on other queries)"."""
    return f"{pair.claim} ({SCOPES[pair.scope]})"


def _of_best(pairs: Sequence[Pair], rope: float) -> str:
    """Returns the claims on the best row minus each other row."""
    words_of_claim = {
        BETTER: "better than {}",
        EQUIVALENT: f"equivalent to {{}} (within ±{rope:g})",
        UNDECIDED: f"undecided against {{}}{_undecidable(pairs)}",
        # The row with the highest mean can be worse over the resamples that both rows have.
        WORSE: "worse than {}",
    }
    return "; ".join(
        words.format(listed([pair.b for pair in pairs if pair.claim == claim]))
        for claim, words in words_of_claim.items()
        if any(pair.claim == claim for pair in pairs)
    )


def _of_rows(pairs: Sequence[Pair], rope: float) -> str:
    """Returns the claims on each row minus the baseline."""
    parts = []
    for claim in (BETTER, WORSE, EQUIVALENT, UNDECIDED):
        rows = [f"{pair.a} ({pair.difference:+.4f})" for pair in pairs if pair.claim == claim]
        if rows:
            is_plural = len(rows) > 1
            subject = f"the difference{'s' * is_plural} of " if claim == UNDECIDED else ""
            aside = {EQUIVALENT: f" (within ±{rope:g})", UNDECIDED: _undecidable(pairs)}.get(claim, "")
            word = f"{claim}{aside}"
            parts.append(f"{subject}{listed(rows)} {'are' if is_plural else 'is'} {word}")
    return "; ".join(parts)


def _undecidable(pairs: Sequence[Pair]) -> str:
    """Returns the minimum detectable difference of the undecided pairs, as a remark; empty if not known."""
    least = detectable([pair for pair in pairs if pair.claim == UNDECIDED])
    return f" (minimum detectable difference: {least})" if least else ""


def _begin_with(scope: str, comparison: Comparison) -> str:
    """Returns the scope with a capital letter, and the remark on repeated training."""
    name = SCOPES[scope]
    aside = f" ({about_training(comparison)})" if scope == MODELS else ""
    return f"{name[0].upper()}{name[1:]}{aside}"


def about_training(comparison: Comparison) -> str:
    """Returns why claims are about trained models only; empty if there are no such claims."""
    queries = comparison.queries
    labels = {label for pair in comparison.family if pair.scope == MODELS for label in (pair.a, pair.b)}
    if queries is None or not labels:
        return ""
    rows = [row for label, row in zip(queries.labels, queries.trainings, strict=True) if label in labels]
    repeated = len(queries.cells) > 1 or any(len(trainings.keys) > 1 for row in rows for trainings in row)
    return NOT_ALIKE if repeated else NOT_REPEATED


def about_tuning(comparison: Comparison) -> str:
    """Returns which models were tuned with one search seed only; empty if there are none."""
    labels = tuned_once(comparison)
    if not labels:
        return ""
    return (
        f"Tuning was not repeated: {listed(labels)} {'has' if len(labels) == 1 else 'have'} one search seed, "
        "so that no claim covers the variation between searches."
    )


def tuned_once(comparison: Comparison) -> list[str]:
    """Returns the labels of the paired rows that were tuned, but not again with other search seeds."""
    queries = comparison.queries
    if queries is None:
        return []
    return [
        label
        for number, label in enumerate(queries.labels)
        if is_tuned(queries, number) and not is_tuned_again(queries, number)
    ]


# ---- Recommendation: which model to take, and how certain that is.
#
# The rule follows from the claims, so that it cannot contradict the table. Claims about trained models are
# no basis for choosing a method: nothing is recommended then, nor if no claim excludes a model. Without a
# named baseline, the models to take are the one with the highest mean and every model that is not shown to
# be worse than it. With a named baseline, they are the models that are better than it. Excluded are models
# without a fair comparison: stopped by the test set, or with a setting that could only be chosen on test.

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
    MODELS: "for these trained models only",
}


@dataclass(frozen=True)
class Recommendation:
    """The models to take.

    Attributes:
        models: Labels of the recommended rows, the highest mean first; empty if none is recommended.
        headline: Which models to take and why, or that nothing is decided, in one or two sentences.
        remarks: Costs of the models that no claim excludes, and why other models are not considered.
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
    decision = _decision(comparison, models, considered)
    remarks = [*reasons, *_costs([comparison.row(label) for label in decision.left])]
    taken = decision.left if decision.is_decided else ()
    return Recommendation(tuple(taken), decision.headline, tuple(remarks), _certainty(comparison))


class _Decision(NamedTuple):
    """The headline, and the models that no claim excludes; they are recommended if the data decide."""

    headline: str
    left: Sequence[str] = ()
    is_decided: bool = True


def _decision(comparison: Comparison, models: Sequence[str], considered: Sequence[str]) -> _Decision:
    if len(considered) > 1 and _is_of_models(comparison, models):
        return _on_this_training(comparison, models, considered)
    if comparison.settings.names_baseline:
        return _against_baseline(comparison, models)
    return _among_all(comparison, models, considered)


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


def _is_of_models(comparison: Comparison, models: Sequence[str]) -> bool:
    """Returns whether a claim on one of the models is about trained models."""
    return any(pair.scope == MODELS and {pair.a, pair.b} & {*models} for pair in comparison.family)


def _on_this_training(comparison: Comparison, models: Sequence[str], considered: Sequence[str]) -> _Decision:
    """Returns what the claims say about these trained models, without a recommendation."""
    first = comparison.baseline if comparison.settings.names_baseline else models[0]
    claims = _claims_on(comparison, first)
    lower, higher, alike = (
        [label for label in considered if claims.get(label) == claim] for claim in (BETTER, WORSE, EQUIVALENT)
    )
    results = [f"{first} scored higher than {listed(lower)}"] if lower else []
    results += [f"{listed(higher)} scored higher than {first}"] if higher else []
    results += [f"{listed(alike)} {_be(alike)} equivalent to {first}"] if alike else []
    where, no_basis = "these trainings", "such trainings are no basis for choosing a method."
    if about_training(comparison) == NOT_REPEATED:
        where, no_basis = "this training", "one training is no basis for choosing a method."
    undecided = _nothing_decided(comparison, first, considered)
    headline = f"On {where} {', and '.join(results)}; {no_basis} {undecided}".rstrip()
    if not results:
        headline = f"{undecided} {no_basis[0].upper()}{no_basis[1:]}"
    left = [label for label in models if label not in lower and not (label == first and higher)]
    return _Decision(headline, left, is_decided=False)


def _nothing_decided(comparison: Comparison, first: str, labels: Sequence[str]) -> str:
    """Returns that nothing is decided between a model and others; empty if all of these pairs are decided.

    The bound is the largest end of the simultaneous intervals of the undecided pairs, as far as the metric
    can differ.
    """
    family = against(comparison.family, first)
    pairs = [pair for pair in family if pair.a in labels and pair.claim == UNDECIDED]
    ends = [
        min(max(-pair.interval.low, pair.interval.high), _largest(comparison, pair))
        for pair in pairs
        if pair.interval is not None
    ]
    bound = f": one may be better by up to {max(ends):.4f}" if ends else ""
    others = _any_of([pair.a for pair in pairs])
    return f"Nothing is decided between {first} and {others}{bound}." if pairs else ""


def _largest(comparison: Comparison, pair: Pair) -> float:
    means = [comparison.row(label).metrics[comparison.metric] for label in (pair.a, pair.b)]
    return largest_difference(comparison.metric, [mean for mean in means if mean is not None])


def _among_all(comparison: Comparison, models: Sequence[str], considered: Sequence[str]) -> _Decision:
    """Returns the models to take by the claims over all pairs."""
    best = models[0]
    if len(considered) == 1:
        if all(row.group.model == _model(comparison, best) for row in comparison.rows):
            return _Decision(f"Take {best}: validation chooses this setting of the only model.", [best])
        return _Decision(f"No model is recommended: {best} is the only one with a fair comparison.")
    claims = {label: _claims_on(comparison, label) for label in considered}
    left = [label for label in models if label == best or claims[best].get(label) != BETTER]
    # A model may be worse than another of them, although it is undecided against the best.
    left = [label for label in left if not any(claims[label].get(other) == WORSE for other in left)]
    yardsticks = [label for label in considered if label not in models]
    beaten = {label: [y for y in yardsticks if claims[label].get(y) == BETTER] for label in models}
    for yardstick in yardsticks:
        if not any(yardstick in beaten[label] for label in models):
            return _Decision(f"No model is recommended: none of the models is shown to beat {yardstick}.")
    unbeaten = {label: tuple(y for y in yardsticks if y not in beaten[label]) for label in left}
    remarks = [
        f" {listed(labels)} {_be(labels)} not shown to beat {listed(missing)}."
        for missing, labels in grouped(left, lambda label: unbeaten[label]).items()
        if missing
    ]
    left = [label for label in left if not unbeaten[label]]
    headline, is_decided = _headline(comparison, left, models, claims)
    return _Decision(f"{headline}{''.join(remarks)}", left, is_decided)


def _headline(
    comparison: Comparison,
    left: Sequence[str],
    models: Sequence[str],
    claims: dict[str, dict[str, str]],
) -> tuple[str, bool]:
    """Returns the headline on the models that no claim excludes, and whether the claims decide on them."""
    if not left:
        return "No model is recommended.", False
    first, *others = left
    if others and all(claims[first].get(label) == EQUIVALENT for label in others):
        why = f"{listed(others)} {_be(others)} equivalent to {first}, which has the highest mean of them"
        return f"Take {_any_of(left)}: {why}.", True
    beaten = [label for label in claims if claims[first].get(label) == BETTER]
    undecided = _nothing_decided(comparison, first, models)
    if undecided and not {*beaten} & {*models}:
        return undecided, False
    why = f"{first if others else 'it'} is better than {listed(beaten)}."
    return f"Take {_any_of(left)}: {why} {undecided}".rstrip(), True


def _against_baseline(comparison: Comparison, models: Sequence[str]) -> _Decision:
    """Returns the models to take by the claims against the named baseline."""
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
        return _Decision(f"Take {_any_of(better)}: {subject} better than {baseline}.{between}", better)
    if _model(comparison, baseline) in YARDSTICKS:
        return _Decision(f"No model is recommended: none of the models is shown to beat {baseline}.")
    if baseline not in models:
        return _Decision(f"No model is recommended: none is shown to be better than {baseline}.")
    undecided = _nothing_decided(comparison, baseline, models)
    return _Decision(f"Keep {baseline}: no model is shown to be better. {undecided}".rstrip(), [baseline])


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


# ---- Next step if there is no claim about the methods: the command that would allow one.
#
#     resamples      train every model on resamples of the training queries
#     more_seeds     train with more seeds, into the folder of the sweep; tuned models are tuned again
#     _other_folds   train on the remaining folds
#
# The cheapest of these is returned; if models were tuned only once, `more_seeds`. Its time is estimated
# from the times that the runs recorded.

ENOUGH = 5
"""Number of replicates after a next step."""

_ENOUGH_SEARCHES = FEWEST_REPLICATES  # a search takes as long as all of its trials
_TUNE_AGAIN = (
    f"Tuning was not repeated. Train and tune with {_ENOUGH_SEARCHES} seeds for claims that cover the "
    "variation between searches"
)

_REPEATED = "multirun/repeated"  # folder of several commands, so that their runs are compared
_OF_A_RESAMPLE = ("replicates", "replicates.number", "replicates.index")
_MASKED = ":***@"  # the form in which `provenance.without_password` writes a password


@dataclass(frozen=True)
class NextStep:
    """A command that would allow a claim.

    Attributes:
        command: Shell command; empty for runs made from Python and for imported scores.
        seconds: Estimated time of the command.
        reason: Why there is no claim about the methods, and what the command does.
    """

    command: str
    seconds: float
    reason: str

    @property
    def sentence(self) -> str:
        """The reason with the estimated time, to be followed by the command."""
        time = f" ({about(self.seconds)})" if self.seconds else ""
        return f"{self.reason}{time}{':' if self.command else '.'}"


def next_step(comparison: Comparison) -> NextStep | None:
    """Returns the cheapest step to a claim about the methods, or about the models trained again.

    None if training and tuning were repeated often enough, even if pairs are undecided; also if untuned rows
    have several test or training sets, or only some rows were trained on resamples.
    """
    queries = comparison.queries
    if queries is None or any(cell.train is None for cell in queries.cells):
        return None
    rows = {label: comparison.row(label).runs for label in queries.labels}
    resampled = {resample_of(runs[0]) is not None for runs in rows.values()}
    constant = {
        label
        for label, of_row in zip(queries.labels, queries.trainings, strict=True)
        if all(trainings.is_constant for trainings in of_row)
    }
    if tuned_once(comparison) and not any(resampled):
        # The seed of a search changes its settings, also where the seed of a training changes nothing.
        varied = [runs for label, runs in rows.items() if runs[0].result.search or label not in constant]
        return more_seeds(varied, _ENOUGH_SEARCHES, _TUNE_AGAIN)
    pairs = [pair for pair in comparison.family if _lacks_replicates(pair)]
    if not pairs or len(queries.cells) > 1 or len(resampled) > 1:
        return None
    why = "Training was not repeated"
    if all(pair.inference is not None for pair in pairs):
        why = "Some models were trained only twice"
    what = (
        f"{why}. Train every model on {ENOUGH} resamples of the training queries for claims about the methods"
    )
    steps = [_other_folds(list(rows.values()), why), resamples(list(rows.values()), ENOUGH, what)]
    if _seeds_would_do(rows, constant, pairs):
        varied = [runs for label, runs in rows.items() if label not in constant]
        what = f"{why}. Train with {ENOUGH} seeds for claims about the models trained again on these queries"
        steps.append(more_seeds(varied, ENOUGH, what))
    return min((step for step in steps if step is not None), key=lambda step: step.seconds)


def as_paragraphs(comparison: Comparison, width: int | None) -> list[str]:
    """Returns the next step and its command on a line of its own; empty without a next step."""
    step = next_step(comparison)
    if step is None:
        return []
    # Viewers without code blocks would interpret markup in the command.
    shown = in_markdown(step.command) if width is None and "<" in step.command else visible(step.command)
    # Four spaces make a code block in Markdown.
    return [paragraph(step.sentence, width), *([f"    {shown}"] if shown else [])]


def in_one_line(comparison: Comparison) -> list[str]:
    """Returns the next step as a note for a notebook; empty without a next step."""
    step = next_step(comparison)
    return [] if step is None else [f"{step.sentence} {step.command}".rstrip()]


def about(seconds: float) -> str:
    """Returns a duration in words.

    >>> about(0.2), about(41.3), about(170), about(7000)
    ('about 1 second', 'about 41 seconds', 'about 3 minutes', 'about 2 hours')
    """
    units = (("hour", 3600), ("minute", 60), ("second", 1))
    unit, size = next((unit for unit in units if seconds >= 1.5 * unit[1]), units[-1])
    count = max(round(seconds / size), 1)
    return f"about {count} {unit}{'s' * (count > 1)}"


def resamples(rows: Sequence[Sequence[Run]], number: int, reason: str) -> NextStep:
    """Returns the step that trains each row on `number` resamples, with one seed per fold.

    Args:
        rows: Runs of each row.
        reason: As in `NextStep`.
    """
    runs = [run for row in rows for run in _one_a_fold(row)]
    jobs = [[*_without(run, _OF_A_RESAMPLE), f"replicates={number}"] for run in runs]
    return _step(runs, jobs, None, number * sum(_seconds(_one_a_fold(row)) for row in rows), reason)


def more_seeds(rows: Sequence[Sequence[Run]], number: int, reason: str) -> NextStep:
    """Returns the step to `number` seeds per row, each of which repeats the search of a tuned row.

    If one sweep made all runs, only the missing seeds are trained, into its folder; otherwise all of them,
    into a new folder, and also if all seeds of the sweep have one search.
    """
    everything = [run for row in rows for run in row]
    folder = None if any(map(_has_search_of_another_seed, everything)) else _folder_of_sweep(everything)
    seeds = sorted({run.result.seed for run in everything})
    seeds = [*seeds, *range(seeds[-1] + 1, seeds[-1] + 1 + number)][:number]
    wanted = {
        (place, seed): [
            run for run in _one_a_fold(row) if folder is None or seed not in _seeds_of_fold(row, fold_of(run))
        ]
        for place, row in enumerate(rows)
        for seed in seeds
    }
    jobs = [
        [*_without(run, ("seed", "search.seed")), f"seed={seed}"]
        for (_, seed), runs in wanted.items()
        for run in runs
    ]
    return _step(everything, jobs, folder, sum(map(_seconds, wanted.values())), reason)


def _other_folds(rows: Sequence[Sequence[Run]], why: str) -> NextStep | None:
    """Returns the step to all folds; None if the data set has no other folds."""
    runs = [run for row in rows for run in row]
    (fold,) = {fold_of(run) for run in runs}
    settings = runs[0].result.settings.get("data", {})
    num_folds = settings.get("num_folds") or settings.get("cv")
    if fold is None or num_folds is None or num_folds < 2:
        return None
    # A sweep over folds may already hold other folds of some rows.
    has_others = any(len(run.result.swept.get("data.fold", ())) > 1 for run in runs)
    folder = None if has_others else _folder_of_sweep(runs)
    folds = [number for number in range(1, num_folds + 1) if folder is None or number != fold]
    jobs = [[*_without(run, ("data.fold",)), f"data.fold={number}"] for run in runs for number in folds]
    seconds = len(folds) * sum(_seconds([run for run in row if run.result.reused is None]) for row in rows)
    what = f"Train on {'all' if folder is None else 'the other'} folds for claims about the methods"
    return _step(runs, jobs, folder, seconds, f"{why}. {what}")


def _seconds(runs: Sequence[Run]) -> float:
    """Returns the time of runs of one row, and of their searches."""
    searches: float = sum(search.get("seconds", 0.0) for search in distinct_searches(runs))
    return sum(run.result.total_seconds for run in runs) + searches


def _has_search_of_another_seed(run: Run) -> bool:
    """Returns whether the search does not have the seed of the training."""
    search = run.result.search
    return bool(search) and search.get("seed") != run.result.seed


def _lacks_replicates(pair: Pair) -> bool:
    """Returns whether training was not repeated, or not often enough for an interval."""
    if pair.inference is None:
        return True
    too_few = any(1 < number < FEWEST_REPLICATES for number in pair.inference.num_replicates)
    return pair.interval is None and too_few


def _seeds_would_do(
    rows: Mapping[str, Sequence[Run]], constant: Iterable[str], pairs: Iterable[Pair]
) -> bool:
    """Returns whether seeds matter in one model of each pair, and new seeds can join the same sweep."""
    repeated = all(len({run.result.seed for run in runs}) > 1 for runs in rows.values())
    resampled = any(resample_of(run) is not None for runs in rows.values() for run in runs)
    matters = all({pair.a, pair.b} - set(constant) for pair in pairs)
    together = _folder_of_sweep([run for runs in rows.values() for run in runs]) is not None
    return repeated and matters and together and not resampled


def _step(
    runs: Sequence[Run], jobs: Iterable[Sequence[str]], folder: str | None, seconds: float, reason: str
) -> NextStep:
    command = _command(runs, jobs, folder)
    if _MASKED in command:
        reason += "; replace *** by the password"
    return NextStep(command, seconds, reason)


def _command(runs: Sequence[Run], jobs: Iterable[Sequence[str]], folder: str | None) -> str:
    """Returns the command that runs the jobs; empty if a run has no command.

    Args:
        folder: Folder of the sweep; None for a new one.
    """
    results = [run.result for run in runs]
    if any(item.overrides is None or item.params in (IMPORTED, FUSED) for item in results):
        return ""
    # --config-dir only adds names, so that runs without it are unchanged.
    flags_of_runs = {tuple(run.result.flags) for run in runs} - {()}
    started_in = {item.started_in for item in results}
    if len(started_in) > 1 or len(flags_of_runs) > 1:
        return ""
    products = as_products(dict.fromkeys(map(tuple, jobs)))
    if len(products) > 1 and folder is None:
        folder = _REPEATED
    flags = [flag for flags in flags_of_runs for flag in flags]
    into = [] if folder is None else [f"hydra.sweep.dir={quoted(folder)}"]
    lines = [shlex.join(["python", "-m", "ltrbench", *flags, *product, "-m", *into]) for product in products]
    return " && ".join([*(shlex.join(["cd", place]) for place in started_in if _is_elsewhere(place)), *lines])


def _is_elsewhere(place: str) -> bool:
    """Returns whether it is a folder on this machine, and not the current one."""
    return Path(place).is_dir() and not Path(place).samefile(Path.cwd())


def _folder_of_sweep(runs: Sequence[Run]) -> str | None:
    """Returns the folder of the sweep if one sweep made all runs and they are still in it; otherwise None."""
    sweeps = {(run.result.sweep, run.result.started_in) for run in runs}
    ((sweep, started_in), *others) = sweeps
    if others or sweep is None:
        return None
    folder = Path(started_in, sweep).resolve()
    return sweep if all(folder in run.path.resolve().parents for run in runs) else None


def _one_a_fold(runs: Iterable[Run]) -> list[Run]:
    """Returns the run with the first resample and seed of each fold."""
    in_order = sorted(runs, key=lambda run: (replicate_of(run).resample or 0, run.result.seed))
    return [*first_by(in_order, fold_of).values()]


def _seeds_of_fold(runs: Iterable[Run], fold: int | None) -> set[int]:
    return {run.result.seed for run in runs if fold_of(run) == fold}


def _without(run: Run, keys: Iterable[str]) -> list[str]:
    """Returns the overrides of a run without some keys."""
    return [line for line in run.result.overrides or () if line.partition("=")[0].lstrip("+~") not in keys]
