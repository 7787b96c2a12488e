"""What to do: methods in words, the verdict and the recommendation.

The statistical methods of a comparison in words, as notes of the group "Claims".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from ltrbench.compare.cells import (
    ON_CLAIMS,
    DataCell,
    EvaluatedRow,
    Note,
    grouped,
    resample_of,
    tuned_once,
)
from ltrbench.compare.comparison import Comparison, ModelRow
from ltrbench.compare.decision import Recommendation, decide
from ltrbench.compare.fairness import (
    best_on_validation,
    seen_by_choice,
    stopped_on_test,
    values_on_validation,
)
from ltrbench.compare.final import final_command
from ltrbench.compare.pairs import Pair, against
from ltrbench.compare.planning import NextStep
from ltrbench.compare.power import needs_of
from ltrbench.rankers.importance import YARDSTICKS
from ltrbench.runs.record import IMPORTED
from ltrbench.statistics import BETTER, SCOPES, WORSE
from ltrbench.statistics.claims import EQUIVALENT, MODELS, UNDECIDED
from ltrbench.tables import listed

_BONFERRONI = ", Bonferroni-corrected"
_METHODS = {
    "t": "Student's t over queries",
    "differing": "bound on the share of queries that differ",
    "max-t": "max-T bootstrap over queries",
    "bonferroni-t": f"Student's t over queries{_BONFERRONI}",
    "mrmc-t": f"multi-reader multi-case analysis of seeds and queries{_BONFERRONI}",
    "paired-mrmc-t": f"multi-reader multi-case analysis of shared seeds and queries{_BONFERRONI}",
    "resampled-t": f"Student's t over resampled training sets and queries{_BONFERRONI}",
    "corrected-t": f"corrected resampled t over folds{_BONFERRONI}",
    "shared-corrected-t": "for pairs without yardsticks and imported scores, with variances estimated from "
    "all models, and with Tukey's quantile if it is smaller",
}

_ENOUGH = 10
"""Number of trainings from which there is no note on rare failures."""


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
    sentences = {
        "simultaneous interval": about_intervals,
        "claim": about_claims,
        "scope": about_few_trainings,
        "effective number of queries": about_weights,
        "minimum detectable difference": about_power,
    }
    on_methods = {
        term: about(comparison) for term, about in sentences.items() if comparison.pairs
    }
    notes = [
        Note(ON_CLAIMS, term, sentence)
        for term, sentence in on_methods.items()
        if sentence
    ]
    return [*notes, *comparison.note_entries]


def about_intervals(comparison: Comparison) -> str:
    """Returns the meaning of the differences and their intervals."""
    used = {
        pair.interval.method for pair in comparison.claims if pair.interval is not None
    }
    differences = f"Differences are to {comparison.baseline}, paired by query."
    if not used:
        return f"{differences} They have no interval, and there are no claims."
    if "shared-corrected-t" in used:
        used.add("corrected-t")
    methods = "; ".join(_METHODS.get(method, method) for method in sorted(used))
    if len(comparison.claims) == 1:
        methods = methods.replace(_BONFERRONI, "")
        return f"{differences} The interval has {comparison.settings.confidence} confidence ({methods})."
    return (
        f"{differences} Their intervals are simultaneous: {comparison.settings.confidence} confidence over "
        f"{family_of(comparison)} together ({methods})."
    )


def about_claims(comparison: Comparison) -> str:
    """Returns how a claim follows from an interval, and which metrics carry claims; empty without claims."""
    if all(pair.interval is None for pair in comparison.claims):
        return ""
    metrics = [comparison.metric, *comparison.declared]
    ropes = {metric: comparison.settings.rope_of(metric) for metric in metrics}
    regions = [f"±{rope:g} {metric}" for metric, rope in ropes.items() if rope]
    if len(set(ropes.values())) == 1:
        regions = [region.split()[0] for region in regions[:1]]
    equivalent = (
        f"equivalent if the interval is within {listed(regions)}; else "
        if regions
        else ""
    )
    return (
        f"Claims: {equivalent}better or worse if {'it' if regions else 'the interval'} excludes 0; else "
        f"undecided. Claims are about {listed(metrics)} only; all other columns are descriptive."
    )


def about_few_trainings(comparison: Comparison) -> str:
    """Returns that claims on few trainings do not cover rare failures; empty without such claims."""
    pairs = [
        pair
        for pair in comparison.claims
        if pair.inference is not None and pair.claim != UNDECIDED
    ]
    claimed = {label for pair in pairs for label in (pair.a, pair.b)}
    queries = comparison.queries
    counts = [
        sum(len(of_cell.keys) for of_cell in of_row)
        for label, of_row in (
            ()
            if queries is None
            else zip(queries.labels, queries.trainings, strict=True)
        )
        if label in claimed
        and not any(of_cell.is_imported or of_cell.is_constant for of_cell in of_row)
    ]
    if min(counts, default=_ENOUGH) >= _ENOUGH:
        return ""
    return (
        f"Claims rest on {min(counts)} trainings of a model: a rare failure, such as one in ten, may be "
        f"missing among them. {_ENOUGH} or more are safer."
    )


def about_weights(comparison: Comparison) -> str:
    """Returns the effective number of queries; empty if all queries of a fold have one weight."""
    sample = None if comparison.queries is None else comparison.queries.distinct
    # Folds of sizes 6 and 7 give queries in several repeats nearly equal weights.
    if (
        sample is None
        or not sample.is_weighted
        or round(sample.effective_sizes.sum()) == sample.num_queries
    ):
        return ""
    return (
        f"Queries have different weights: the {sample.num_queries:,} queries count in intervals like "
        f"{sample.effective_sizes.sum():,.1f} queries of equal weight (n_eff)."
    )


def about_power(comparison: Comparison) -> str:
    """Returns the data that --detect needs; empty without it, or if no error is known."""
    pairs = [row.to_baseline for row in comparison.rows if row.to_baseline is not None]
    needs = [f"{pair.a}: {needs_of(pair.power)}" for pair in pairs if pair.power.needs]
    if comparison.settings.detect is None or not needs or comparison.sweeps.is_selected:
        return ""
    return (
        f"Needed to detect {comparison.settings.detect:g} against {comparison.baseline}, with 80 % power at "
        "the level of a further look, from the estimated variances to their upper limits: "
        f"{'; '.join(needs)}."
    )


# ---- Verdict: the claims of a comparison in a few sentences, each with its scope.


def verdict(comparison: Comparison) -> str:
    """Returns the claims on each row against the best row, or against the named baseline, and their level."""
    notes = [
        note
        for note in comparison.note_entries
        if note.term in ("look", "missing runs")
    ]
    first = [note.sentence for note in notes]
    withheld = any(pair.withheld for pair in comparison.family)
    if not comparison.settings.selected and (
        withheld or "missing runs" in {note.term for note in notes}
    ):
        resume = [
            f" (`resume {os.path.relpath(folder)}`)"
            for folder in comparison.sweeps.unfinished[:1]
        ]
        remedies = (
            f"Train the missing runs{''.join(resume)}, or make claims without them"
        )
        first.append(f"{remedies} (`compare --selected REASON`).")
    if comparison.best is None:
        return " ".join(
            [*first, "No two rows can be paired: nothing is claimed about differences."]
        )
    reasons = " and ".join(
        sorted({pair.reason for pair in comparison.family if pair.reason})
    )
    if all(pair.interval is None for pair in comparison.family):
        return " ".join([*first, f"Nothing is claimed about differences: {reasons}."])
    base, sentences = (
        comparison.baseline,
        [f"Against {comparison.baseline}, in {comparison.metric}."],
    )
    if not comparison.settings.names_baseline:
        base, mean = (
            comparison.best,
            comparison.row(comparison.best).metrics[comparison.metric],
        )
        num_paired = 0 if comparison.queries is None else len(comparison.queries.labels)
        of = " of the paired rows" * (num_paired < len(comparison.rows))
        sentences = [f"{base} has the highest {comparison.metric}{of}, {mean:.4f}."]
    for metric, family in {
        comparison.metric: comparison.family,
        **comparison.declared,
    }.items():
        of_scope = grouped(against(family, base), lambda pair: pair.scope)
        for scope in [scope for scope in reversed(SCOPES) if scope in of_scope]:
            in_metric = f"In {metric}, " if comparison.declared else ""
            aside = f" ({about_training(comparison)})" if scope == MODELS else ""
            claims = "; ".join(
                _describe_claims(of_scope[scope], comparison.settings.rope_of(metric))
            )
            sentence = f"{in_metric}{SCOPES[scope]}{aside}: {claims}."
            sentences.append(f"{sentence[0].upper()}{sentence[1:]}")
    if reasons:
        sentences.append(f"Undecided for this reason: {reasons}.")
    rope = comparison.settings.rope
    region = (
        "" if rope is None else f"Equivalent means within ±{rope:g}, set by --rope."
    )
    return " ".join(
        filter(None, [*first, region, *sentences, about_tuning(comparison)])
    )


def _describe_claims(pairs: Sequence[Pair], rope: float) -> Iterator[str]:
    of_claim = grouped(pairs, lambda pair: pair.claim)
    detectable = sorted(
        f"{pair.power.detectable:.4f}"
        for pair in of_claim.get(UNDECIDED, [])
        if pair.power.detectable is not None
    )
    least = " to ".join(dict.fromkeys([*detectable[:1], *detectable[-1:]]))
    remarks = {EQUIVALENT: f" (within ±{rope:g})"}
    remarks[UNDECIDED] = f" (minimum detectable difference: {least})" if least else ""
    for claim in (BETTER, WORSE, EQUIVALENT, UNDECIDED):
        rows = [
            f"{pair.a} ({pair.difference:+.4f})" for pair in of_claim.get(claim, [])
        ]
        if rows:
            yield f"{listed(rows)} {_be(rows)} {claim}{remarks.get(claim, '')}"


def about_training(comparison: Comparison) -> str:
    """Returns why claims are about trained models only; empty if there are no such claims."""
    queries = comparison.queries
    labels = {
        label
        for pair in comparison.family
        if pair.scope == MODELS
        for label in (pair.a, pair.b)
    }
    if queries is None or not labels:
        return ""
    rows = [
        row
        for label, row in zip(queries.labels, queries.trainings, strict=True)
        if label in labels
    ]
    repeated = len(queries.cells) > 1 or any(
        len(trainings.keys) > 1 for row in rows for trainings in row
    )
    how = " in the same way" if repeated else ""
    return f"training was not repeated{how}; nothing is claimed about the methods"


def about_tuning(comparison: Comparison) -> str:
    """Returns which models were tuned with one search seed only; empty if there are none."""
    labels = tuned_once(comparison.queries)
    if not labels:
        return ""
    return (
        f"Tuning was not repeated: {listed(labels)} {'has' if len(labels) == 1 else 'have'} one search seed, "
        "so that no claim covers the variation between searches."
    )


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


def recommend(comparison: Comparison) -> Recommendation | None:
    """Returns the models to take; None with a single row."""
    if len(comparison.rows) < 2:
        return None
    if comparison.best is None or all(
        pair.interval is None for pair in comparison.family
    ):
        return Recommendation(
            (), "No model is recommended: there is no interval for any difference."
        )
    considered, reasons = _considered(comparison)
    if comparison.settings.guards:
        decided = decide(comparison, considered)
        return replace(
            decided, remarks=tuple(reasons), certainty=_certainty(comparison)
        )
    models = [
        label for label in considered if comparison.row(label).model not in YARDSTICKS
    ]
    headline, left, is_decided = _decision(comparison, models or considered, considered)
    remarks = [*reasons, *_costs([comparison.row(label) for label in left])]
    return Recommendation(
        tuple(left) if is_decided else (),
        headline,
        tuple(remarks),
        _certainty(comparison),
    )


class _Decision(NamedTuple):
    """The headline, and the models that no claim excludes; they are recommended if the data decide."""

    headline: str
    left: Sequence[str] = ()
    is_decided: bool = True


def _considered(comparison: Comparison) -> tuple[list[str], list[str]]:
    """Returns the paired rows with a fair comparison, the highest mean first, and why others are excluded.

    Of the rows of one model, only the one with the best validation value is considered.
    """
    queries = comparison.queries
    rows = [
        comparison.row(label) for label in (() if queries is None else queries.labels)
    ]
    rows.sort(key=lambda row: -(row.metrics[comparison.metric] or 0.0))
    stopped = stopped_on_test(run.result for row in rows for run in row.runs)
    reasons = [
        f"{model} is not considered: it was picked on test." for model in stopped
    ]
    kept: set[str] = set()
    for model, of_model in grouped(rows, lambda row: row.model).items():
        if model in stopped:
            continue
        if len(of_model) == 1:
            kept.add(of_model[0].label)
            continue
        label, why = _chosen_by_validation(comparison, of_model)
        if label is None:
            reasons.append(
                f"The {len(of_model)} rows of {model} are not considered: {why}."
            )
        else:
            kept.add(label)
            reasons.append(
                f"Of the {len(of_model)} rows of {model}, {label} is the best by {why}; this table is on "
                "test."
            )
    return [row.label for row in rows if row.label in kept], reasons


def _chosen_by_validation(
    comparison: Comparison, rows: Sequence[EvaluatedRow]
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
    seen = seen_by_choice([item for row in rows for item in row.evaluated])
    if not seen:
        return best_on_validation(validated), "validation"
    # Each fold may choose by its own validation set, if all choose the same row.
    of_cells: dict[DataCell, dict[str, list[float]]] = {}
    for row in rows:
        for number, value in validated.get(row.label, {}).items():
            of_cells.setdefault(row.evaluated[number].cell, {}).setdefault(
                row.label, []
            ).append(value)
    means = [
        {label: fmean(values) for label, values in of_rows.items()}
        for of_rows in of_cells.values()
    ]
    # Tuned rows first: a search also tries the default settings, so that they are often equal.
    for row in sorted(rows, key=lambda row: (not row.is_tuned, row.label)):
        if all(
            len(each) == len(rows) and each[row.label] == max(each.values())
            for each in means
        ):
            return row.label, "the validation of every fold"
    return None, seen


def _decision(
    comparison: Comparison, models: Sequence[str], considered: Sequence[str]
) -> _Decision:
    if not models:
        return _Decision("No model is recommended.")
    of_models = [pair for pair in comparison.family if {pair.a, pair.b} & {*models}]
    if len(considered) > 1 and any(pair.inference is None for pair in of_models):
        return _Decision(
            "No model is recommended: one training is no basis for choosing a method.",
            models,
            is_decided=False,
        )
    if comparison.settings.names_baseline:
        return _against_baseline(comparison, models)
    return _among_all(comparison, models, considered)


def _nothing_decided(comparison: Comparison, first: str, labels: Sequence[str]) -> str:
    """Returns that nothing is decided between a model and others; empty if all of these pairs are decided.

    The bound is the largest end of the simultaneous intervals of the undecided pairs.
    """
    family = against(comparison.family, first)
    pairs = [pair for pair in family if pair.a in labels and pair.claim == UNDECIDED]
    if not pairs:
        return ""
    ends = [
        max(-pair.interval.low, pair.interval.high)
        for pair in pairs
        if pair.interval is not None
    ]
    bound = f": one may be better by up to {max(ends):.4f}" if ends else ""
    return f"Nothing is decided between {first} and {_any_of([pair.a for pair in pairs])}{bound}."


def _among_all(
    comparison: Comparison, models: Sequence[str], considered: Sequence[str]
) -> _Decision:
    """Returns the models to take by the claims over all pairs."""
    best = models[0]
    if len(considered) == 1:
        if all(row.model == comparison.row(best).model for row in comparison.rows):
            return _Decision(
                f"Take {best}: validation chooses this row of the only model.", [best]
            )
        return _Decision(
            f"No model is recommended: {best} is the only one with a fair comparison."
        )
    claims = {label: _claims_on(comparison, label) for label in considered}
    left = [label for label in models if claims[best].get(label) != BETTER]
    # A model may be worse than another of them, although it is undecided against the best.
    left = [
        label
        for label in left
        if not any(claims[label].get(other) == WORSE for other in left)
    ]
    yardsticks = [label for label in considered if label not in models]
    unbeaten = [
        y for y in yardsticks if any(claims[label].get(y) != BETTER for label in left)
    ]
    dropped = [
        label
        for label in left
        if any(claims[label].get(y) != BETTER for y in yardsticks)
    ]
    left = [label for label in left if label not in dropped]
    remark = (
        f" {listed(dropped)} {_be(dropped)} not shown to beat {listed(unbeaten)}."
        if dropped
        else ""
    )
    if not left:
        return _Decision(f"No model is recommended.{remark}")
    first, *others = left
    if others and all(claims[first].get(label) == EQUIVALENT for label in others):
        why = f"{listed(others)} {_be(others)} equivalent to {first}, which has the highest mean of them"
        return _Decision(f"Take {_any_of(left)}: {why}.{remark}", left)
    beaten = [
        label
        for label, claim in claims[first].items()
        if claim == BETTER and label in considered
    ]
    undecided = _nothing_decided(comparison, first, models)
    if undecided and not {*beaten} & {*models}:
        return _Decision(f"{undecided}{remark}", left, is_decided=False)
    why = f"{first if others else 'it'} is better than {listed(beaten)}. {undecided}".rstrip()
    return _Decision(f"Take {_any_of(left)}: {why}{remark}", left)


def _against_baseline(comparison: Comparison, models: Sequence[str]) -> _Decision:
    """Returns the models to take by the claims against the named baseline."""
    baseline = comparison.baseline
    claims = _claims_on(comparison, baseline)
    better = [label for label in models if claims.get(label) == WORSE]
    if better:
        between = (
            " Compare without --baseline for claims between them."
            if len(better) > 1
            else ""
        )
        return _Decision(
            f"Take {_any_of(better)}: better than {baseline}.{between}", better
        )
    if baseline not in models or comparison.row(baseline).model in YARDSTICKS:
        return _Decision(
            f"No model is recommended: none is shown to be better than {baseline}."
        )
    undecided = _nothing_decided(comparison, baseline, models)
    return _Decision(
        f"Keep {baseline}: no model is shown to be better. {undecided}".rstrip(),
        [baseline],
    )


def _claims_on(comparison: Comparison, label: str) -> dict[str, str]:
    """Returns other row -> the claim about this row minus the other."""
    return {pair.a: pair.turned().claim for pair in against(comparison.family, label)}


def _any_of(labels: Sequence[str]) -> str:
    return " or ".join(labels) if len(labels) <= 2 else f"any of {listed(labels)}"


def _be(labels: Sequence[str]) -> str:
    return "is" if len(labels) == 1 else "are"


def _costs(rows: Sequence[ModelRow]) -> Iterator[str]:
    """Yields which of the recommended models is cheapest to predict and to fit, as far as times compare."""
    runs = [
        run.result for row in rows for run in row.runs if not run.result.shared_machine
    ]
    machines = {
        (run.machine.get("cpu"), run.machine.get("cores"), run.threads) for run in runs
    }
    if len(rows) < 2 or len(machines) > 1:
        return
    for kind, verb in (("predict", "predict the test set"), ("fit", "fit")):
        if all(row.seconds.get(kind) for row in rows):
            first, second, *_ = sorted(rows, key=lambda row: row.seconds[kind])
            fast, slow = (row.seconds[kind] for row in (first, second))
            if slow >= max(_SHORTEST, _CLEARLY_CHEAPER * fast):
                yield f"Cheapest to {verb}: {first.label} ({fast:.2f} s; next {second.label}, {slow:.2f} s)."


def _certainty(comparison: Comparison) -> str:
    count = 0 if comparison.queries is None else comparison.queries.distinct.num_queries
    decided = [pair for pair in comparison.family if pair.interval is not None]
    scopes = {pair.scope for pair in decided}
    words = "; ".join(words for scope, words in SCOPES.items() if scope in scopes)
    paired = () if comparison.queries is None else comparison.queries.labels
    trainings = listed(
        [*dict.fromkeys(comparison.replicates[label] for label in paired)]
    )
    together = f" over {family_of(comparison)} together" if len(decided) > 1 else ""
    rare = (
        " (few trainings: rare failures may be missing)"
        if about_few_trainings(comparison)
        else ""
    )
    return (
        f"How sure: {comparison.settings.confidence} confidence{together}; "
        f"scope{_training_sets(comparison)}: {words}{rare}. "
        f"Data: {count:,} test queries; trainings: {trainings}."
    )


def _training_sets(comparison: Comparison) -> str:
    """Returns text such as " (500 training queries, subsample of 50 %)"; empty if they are not known."""
    runs = [
        run
        for row in comparison.rows
        for run in row.runs
        if run.result.params != IMPORTED
    ]
    sizes = {
        int(run.result.data.get("train", {}).get("queries") or 0) for run in runs
    } - {0}
    if not sizes:
        return ""
    resamples = [resample_of(run) or {} for run in runs]
    kinds = {
        f"{resample['kind']} of {100 * resample['share']:g} %"
        for resample in resamples
        if resample
    }
    span = " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)}))
    return f" ({', '.join([f'{span} training queries', *sorted(kinds)])})"


def final_step(comparison: Comparison) -> NextStep | None:
    """Returns the step after the last comparison: the command that trains the model to deploy; None if no
    model was trained here, if the sweep has not finished, or if the decision is to keep the baseline."""
    rows = [
        [run for run in row.runs if run.held is None and run.result.ranker]
        for row in comparison.rows
    ]
    labels = [
        row.label for row, runs in zip(comparison.rows, rows, strict=True) if runs
    ]
    if not labels or comparison.sweeps.unfinished:
        return None
    recommended = recommend(comparison)
    if recommended and recommended.conditions and not recommended.models:
        return None
    named = [
        label
        for label in (recommended.models if recommended else labels)
        if label in labels
    ]
    data = comparison.data if comparison.sweeps.has_others else None
    command = final_command(
        [run for runs in rows for run in runs], named[0] if named else None, data
    )
    return NextStep(
        command, 0.0, "To deploy a model, train its settings on all labelled queries"
    )
