"""Does the claim hold under every convention? The same scores, as each library would have counted them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import (
    CHANGED,
    Bullets,
    Cell,
    Column,
    Folded,
    Part,
    Section,
    Table,
    named,
)
from ltrbench.compare.output.report.shown import Shown, measured
from ltrbench.compare.pairing.cells import EvaluatedRow, pair_queries
from ltrbench.compare.pairing.inference import infer
from ltrbench.compare.pairing.pairs import against, decided
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.markdown import listed
from ltrbench.metrics import PRESETS, Convention
from ltrbench.statistics import BETTER, SCOPES, WORSE

_DECIMALS = 10
"""Means that are alike to so many places are no order of models."""


_MOST_SWAPS = 4  # that are named

_DRAWS, _MOST_DRAWN = 2_000, 20_000_000
"""Of the bootstrap under another convention than the comparison's, and the most queries that all draws hold:
a third of a second for each convention. Of 600 draws the width of an interval is off by some 3 %."""


@dataclass(frozen=True)
class Outcome:
    """The means and the claims of the rows under one convention.

    Attributes:
        means: label -> mean; empty where there is a reason.
        claims: label -> what is claimed of the row against the baseline; empty where nothing is paired.
        reason: why the metric is not defined there.
        swapped: the pairs of rows that stand in another order than under the comparison's own convention.
    """

    convention: Convention
    means: Mapping[str, float]
    claims: Mapping[str, str]
    reason: str = ""
    swapped: tuple[tuple[str, str], ...] = ()

    def changed(self, own: Outcome) -> list[str]:
        """The rows of which another claim is made than under the comparison's own convention."""
        return [label for label, claim in self.claims.items() if own.claims.get(label, claim) != claim]


def outcomes(comparison: Comparison) -> list[Outcome]:
    """The comparison's own convention first, then every preset that is another."""
    means = {row.label: row.metrics[comparison.metric] for row in comparison.rows}
    claims = {row.label: row.to_baseline.claim for row in comparison.rows if row.to_baseline is not None}
    own = Outcome(comparison.settings.convention, _known(means), claims)
    others = [preset for preset in PRESETS.values() if preset != comparison.settings.convention]
    return [own, *(_outcome(comparison, preset, own.means) for preset in others)]


def _outcome(comparison: Comparison, convention: Convention, reference: Mapping[str, float]) -> Outcome:
    metric = comparison.metric
    try:
        rows = [row.group.under(convention, [metric]) for row in comparison.rows]
    except (UndefinedMetricError, DataError) as error:
        return Outcome(convention, {}, {}, str(error))
    means = _known({row.label: row.mean(metric) for row in rows})
    swapped = tuple(
        (a, b)
        for a, b in itertools.combinations(means, 2)
        if a in reference and b in reference and _order(means, a, b) != _order(reference, a, b)
    )
    return Outcome(convention, means, _claims(comparison, rows), "", swapped)


def _known(means: Mapping[str, float | None]) -> dict[str, float]:
    return {label: mean for label, mean in means.items() if mean is not None}


def _claims(comparison: Comparison, rows: Sequence[EvaluatedRow]) -> dict[str, str]:
    """Decided over the family of the comparison, whose pairs share the error, as its own claims are."""
    labels = () if comparison.queries is None else comparison.queries.labels
    queries = pair_queries([row for row in rows if row.label in labels], comparison.metric)
    if queries is None or not comparison.family:
        return {}
    # No p-value and no power is read here: what a claim needs is the scope and the inference.
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


def section(shown: Shown) -> Section:
    comparison = shown.comparison
    found = outcomes(comparison)
    own, *_ = defined = [outcome for outcome in found if not outcome.reason]
    answers = [_answer(comparison, defined), _answer_on_claims(comparison, defined)]
    lead = " ".join(["The same scores as other libraries would have counted them.", *filter(None, answers)])
    labels = [row.label for row in shown.rows]
    name = Column("convention", numeric=False)
    columns = [name, *map(Column, labels), Column("order of models", numeric=False)]
    parts: list[Part] = [
        Table(
            f"Mean {comparison.metric} by convention",
            columns,
            [_cells(outcome, labels, own) for outcome in found],
            "compact",
        )
    ]
    claimed = [label for label in labels if label in own.claims]
    if claimed and len(defined) > 1:
        pairs = [row.to_baseline for row in comparison.rows if row.to_baseline is not None]
        scopes = " or ".join(name for scope, name in SCOPES.items() if any(p.scope == scope for p in pairs))
        caption = f"Claims against {comparison.baseline} by convention: {scopes}"
        rows = [
            [_name(outcome, own), *(_claim(outcome, own, label) for label in claimed)] for outcome in defined
        ]
        parts.append(Table(caption, [name, *(Column(label, numeric=False) for label in claimed)], rows))
    quirks = [
        f"{outcome.convention.name}: {quirk}" for outcome in defined for quirk in outcome.convention.quirks
    ]
    parts.append(Folded("What sets each convention apart", [Bullets(quirks)]))
    return Section("conventions", "Under every convention", lead, parts)


def _answer(comparison: Comparison, defined: Sequence[Outcome]) -> str:
    """Whether the order of the models changes, and that of any that are claimed to differ."""
    if len(defined) == 1:
        return f"No other convention defines {comparison.metric} on these data."
    if len(defined[0].means) < 2:
        return ""
    changed = [outcome for outcome in defined if outcome.swapped]
    if not changed:
        return (
            f"The order of the models is the same under all {len(defined)} that define {comparison.metric}."
        )
    those = f"The order of the models changes under {listed([*map(_name_of, changed)])}"
    tested = (*comparison.pairs, *comparison.family)
    claimed = [{pair.a, pair.b} for pair in tested if pair.claim in (BETTER, WORSE)]
    lost = [*map(_name_of, (own for own in changed if any({*pair} in claimed for pair in own.swapped)))]
    if not lost:
        return f"{those}, but only of models that are not claimed to differ."
    return f"{those}; under {listed(lost)} it does of models that are claimed to differ."


def _answer_on_claims(comparison: Comparison, defined: Sequence[Outcome]) -> str:
    """Whether the claims against the baseline change."""
    own, *others = defined
    if not others or not own.claims:
        return ""
    against_baseline = f"claims against {comparison.baseline}"
    changed = [outcome for outcome in others if outcome.changed(own)]
    if not changed:
        return f"The {against_baseline} are the same under all {len(defined)} conventions."
    names = [f"{_name_of(outcome)} ({listed(outcome.changed(own))})" for outcome in changed]
    return f"The {against_baseline} change under {listed(names)}."


def _name_of(outcome: Outcome) -> str:
    return outcome.convention.name


def _name(outcome: Outcome, own: Outcome) -> Cell:
    return named(_name_of(outcome), "of this comparison" if outcome is own else "")


def _claim(outcome: Outcome, own: Outcome, label: str) -> Cell:
    claim = outcome.claims.get(label)
    if claim is None:
        return Cell()
    if label not in outcome.changed(own):
        return Cell(claim, claim)
    return Cell(claim, claim, f"{own.claims[label]} under {_name_of(own)}", CHANGED)


def _cells(outcome: Outcome, labels: Sequence[str], own: Outcome) -> list[Cell]:
    name = _name(outcome, own)
    if outcome.reason:
        return [name, *(Cell() for _ in labels), Cell("not defined", note=outcome.reason)]
    means = [outcome.means.get(label) for label in labels]
    order = _order_of_models(outcome) if own.means and outcome is not own else Cell()
    return [name, *(measured(mean, numbers.quality(mean)) for mean in means), order]


def _order_of_models(outcome: Outcome) -> Cell:
    if not outcome.swapped:
        return Cell("the same", 0.0)
    swaps = ", ".join(f"{a} and {b}" for a, b in outcome.swapped[:_MOST_SWAPS])
    more = len(outcome.swapped) - _MOST_SWAPS
    rest = f" and {more} more" if more > 0 else ""
    return Cell(f"swaps {swaps}{rest}", float(len(outcome.swapped)), emphasis=CHANGED)
