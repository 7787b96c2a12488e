"""Section "Under every convention": means and claims of the same scores under each library's convention."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.output.report.parts import Bullets, Folded, PagePart, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown
from ltrbench.compare.pairing.cells import EvaluatedRow, pair_queries
from ltrbench.compare.pairing.inference import infer
from ltrbench.compare.pairing.pairs import against, decided
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.metrics import PRESETS, Convention
from ltrbench.statistics import BETTER, SCOPES, WORSE
from ltrbench.tables import CHANGED, Table, TableCell, TableColumn, TableRow, listed, numbers

_DECIMALS = 10
"""Means that are equal to this number of decimals are tied."""

_MOST_SWAPS = 4  # swaps that a cell names

_DRAWS, _MOST_DRAWN = 2_000, 20_000_000
"""Number of bootstrap draws under other conventions, and the maximum of draws times queries: about 0.3 s per
convention. With 600 draws the width of an interval has an error of about 3 %."""


@dataclass(frozen=True)
class ConventionOutcome:
    """Means and claims of the rows under one convention.

    Attributes:
        means: Label -> mean; empty if the metric is not defined.
        claims: Label -> claim against the baseline; empty if nothing is paired.
        reason: Why the metric is not defined; empty if it is.
        swapped: Pairs of rows in another order than under the convention of the comparison.
    """

    convention: Convention
    means: Mapping[str, float]
    claims: Mapping[str, str]
    reason: str = ""
    swapped: tuple[tuple[str, str], ...] = ()

    def changed(self, reference: ConventionOutcome) -> list[str]:
        """Returns the rows with another claim than under the convention of the comparison."""
        return [label for label, claim in self.claims.items() if reference.claims.get(label, claim) != claim]


def outcomes(comparison: Comparison) -> list[ConventionOutcome]:
    """Returns the outcome under the convention of the comparison, then under every other preset."""
    means = {row.label: row.metrics[comparison.metric] for row in comparison.rows}
    claims = {row.label: row.to_baseline.claim for row in comparison.rows if row.to_baseline is not None}
    reference = ConventionOutcome(comparison.settings.convention, _known(means), claims)
    others = [preset for preset in PRESETS.values() if preset != comparison.settings.convention]
    return [reference, *(_outcome(comparison, preset, reference.means) for preset in others)]


def _outcome(
    comparison: Comparison, convention: Convention, reference: Mapping[str, float]
) -> ConventionOutcome:
    metric = comparison.metric
    try:
        rows = [row.group.under(convention, [metric]) for row in comparison.rows]
    except (UndefinedMetricError, DataError) as error:
        return ConventionOutcome(convention, {}, {}, str(error))
    means = _known({row.label: row.mean(metric) for row in rows})
    swapped = tuple(
        (a, b)
        for a, b in itertools.combinations(means, 2)
        if a in reference and b in reference and _order(means, a, b) != _order(reference, a, b)
    )
    return ConventionOutcome(convention, means, _claims(comparison, rows), "", swapped)


def _known(means: Mapping[str, float | None]) -> dict[str, float]:
    return {label: mean for label, mean in means.items() if mean is not None}


def _claims(comparison: Comparison, rows: Sequence[EvaluatedRow]) -> dict[str, str]:
    """Returns label -> claim against the baseline, decided over the same family as in the comparison."""
    labels = () if comparison.queries is None else comparison.queries.labels
    queries = pair_queries([row for row in rows if row.label in labels], comparison.metric)
    if queries is None or not comparison.family:
        return {}
    # A claim needs only the scope and the inference; p-values and power are left as they are.
    family = [
        replace(pair, scope=scope, inference=inference)
        for pair in comparison.family
        for scope, inference in [infer(queries, *map(queries.labels.index, (pair.a, pair.b)))]
    ]
    num_draws = min(comparison.settings.num_draws, _DRAWS, _MOST_DRAWN // queries.sample.num_queries + 1)
    settings = replace(comparison.settings, num_draws=num_draws)
    return {pair.a: pair.claim for pair in against(decided(family, queries, settings), comparison.baseline)}


def _order(means: Mapping[str, float], a: str, b: str) -> int:
    difference = round(means[a] - means[b], _DECIMALS)
    return (difference > 0) - (difference < 0)


@section(place=130)
def conventions_section(shown: Shown) -> Section:
    """Returns means and claims under every convention, and the properties of each convention."""
    comparison = shown.comparison
    every = outcomes(comparison)
    reference, *_ = defined = [outcome for outcome in every if not outcome.reason]
    answers = [_answer(comparison, defined), _answer_on_claims(comparison, defined)]
    lead = " ".join(["The same scores under the conventions of other libraries.", *filter(None, answers)])
    labels = [row.label for row in shown.rows]
    name = TableColumn("convention", left=True)
    means = [TableColumn(label, numbers.quality) for label in labels]
    rows = [_cells(outcome, labels, reference) for outcome in every]
    columns = [name, *means, TableColumn("order of models", left=True)]
    parts: list[PagePart] = [Table(columns, rows, f"Mean {comparison.metric} by convention", "compact")]
    claimed = [label for label in labels if label in reference.claims]
    if claimed and len(defined) > 1:
        pairs = [row.to_baseline for row in comparison.rows if row.to_baseline is not None]
        scopes = " or ".join(name for scope, name in SCOPES.items() if any(p.scope == scope for p in pairs))
        caption = f"Claims against {comparison.baseline} by convention: {scopes}"
        claims = [
            [_name(outcome, reference), *(_claim(outcome, reference, label) for label in claimed)]
            for outcome in defined
        ]
        parts.append(Table([name, *(TableColumn(label, left=True) for label in claimed)], claims, caption))
    quirks = [
        f"{outcome.convention.name}: {quirk}" for outcome in defined for quirk in outcome.convention.quirks
    ]
    parts.append(Folded("Properties of each convention", [Bullets(quirks)]))
    return Section("conventions", "Under every convention", lead, parts, ("convention",))


def _answer(comparison: Comparison, defined: Sequence[ConventionOutcome]) -> str:
    """Returns whether the order of the models changes, and whether this concerns models that differ."""
    if len(defined) == 1:
        return f"No other convention defines {comparison.metric} on these data."
    if len(defined[0].means) < 2:
        return ""
    changed = [outcome for outcome in defined if outcome.swapped]
    if not changed:
        return (
            f"The order of the models is the same under all {len(defined)} conventions that define "
            f"{comparison.metric}."
        )
    those = f"The order of the models changes under {listed([*map(_name_of, changed)])}"
    tested = (*comparison.pairs, *comparison.family)
    claimed = [{pair.a, pair.b} for pair in tested if pair.claim in (BETTER, WORSE)]
    lost = [*map(_name_of, (item for item in changed if any({*pair} in claimed for pair in item.swapped)))]
    if not lost:
        return f"{those}, but only between models that are not claimed to differ."
    return f"{those}; under {listed(lost)} it changes between models that are claimed to differ."


def _answer_on_claims(comparison: Comparison, defined: Sequence[ConventionOutcome]) -> str:
    """Returns whether the claims against the baseline change."""
    reference, *others = defined
    if not others or not reference.claims:
        return ""
    against_baseline = f"claims against {comparison.baseline}"
    changed = [outcome for outcome in others if outcome.changed(reference)]
    if not changed:
        return f"The {against_baseline} are the same under all {len(defined)} conventions."
    names = [f"{_name_of(outcome)} ({listed(outcome.changed(reference))})" for outcome in changed]
    return f"The {against_baseline} change under {listed(names)}."


def _name_of(outcome: ConventionOutcome) -> str:
    return outcome.convention.name


def _name(outcome: ConventionOutcome, reference: ConventionOutcome) -> TableCell:
    return TableCell(_name_of(outcome), note="of this comparison" if outcome is reference else "")


def _claim(outcome: ConventionOutcome, reference: ConventionOutcome, label: str) -> TableCell:
    claim = outcome.claims.get(label)
    if claim is None or label not in outcome.changed(reference):
        return TableCell(claim)
    note = f"{reference.claims[label]} under {_name_of(reference)}"
    return TableCell(claim, note=note, emphasis=CHANGED)


def _cells(outcome: ConventionOutcome, labels: Sequence[str], reference: ConventionOutcome) -> TableRow:
    name = _name(outcome, reference)
    if outcome.reason:
        return [name, *(None for _ in labels), TableCell(text="not defined", note=outcome.reason)]
    order = _order_of_models(outcome) if reference.means and outcome is not reference else None
    return [name, *(outcome.means.get(label) for label in labels), order]


def _order_of_models(outcome: ConventionOutcome) -> TableCell:
    if not outcome.swapped:
        return TableCell(0.0, "the same")
    swaps = ", ".join(f"{a} and {b}" for a, b in outcome.swapped[:_MOST_SWAPS])
    more = len(outcome.swapped) - _MOST_SWAPS
    rest = f" and {more} more" if more > 0 else ""
    return TableCell(float(len(outcome.swapped)), f"swaps {swaps}{rest}", emphasis=CHANGED)
