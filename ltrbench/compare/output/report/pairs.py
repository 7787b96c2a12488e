"""Every pair of models: the matrix, and the tests behind it."""

from __future__ import annotations

from ltrbench.compare.analysis.methods import family_of
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.leaderboard import emphasis_of
from ltrbench.compare.output.report.parts import (
    Cell,
    Column,
    Folded,
    Part,
    Prose,
    Section,
    Table,
    named,
)
from ltrbench.compare.output.report.shown import Shown, measured
from ltrbench.compare.pairing.pairs import ADJUSTMENTS, Pair, against
from ltrbench.statistics import SCOPES, TESTS

_SHORT_NAMES = {"holm": "Holm", "benjamini_hochberg": "BH"}
_FULL_NAMES = {"holm": "Holm", "benjamini_hochberg": "Benjamini and Hochberg"}


def section(shown: Shown) -> Section | None:
    """The matrix over all pairs; the tests of the family that was asked for."""
    comparison = shown.comparison
    if not comparison.pairs:
        return None
    lead = (
        f"The row's {comparison.metric} minus the column's, with the claim that its simultaneous 95 % "
        f"interval over {family_of(comparison)} allows. ▲ and ▼ mark the claims better and worse."
    )
    if len(comparison.family) < len(comparison.pairs):
        lead += " Nothing is claimed of the other pairs."
    parts: list[Part] = [
        _matrix(shown),
        Folded("Tests of these trained models, as description", [Prose(_ABOUT_TESTS), _tests(comparison)]),
    ]
    return Section("pairs", "Pairwise claims", lead, parts)


_ABOUT_TESTS = (
    "These p-values speak of the trained models only, and decide nothing here. The randomisation test asks "
    "only that under no difference a query's difference is as likely to have the other sign; t asks for a "
    "mean close to normal; Wilcoxon's signed rank asks for differences that are symmetric about their "
    "centre, and is about that centre rather than the mean."
)


def _matrix(shown: Shown) -> Table:
    comparison = shown.comparison
    found = {(pair.a, pair.b): pair for pair in comparison.pairs}
    claimed = {label: {pair.a: pair for pair in against(comparison.family, label)} for label in shown.paired}
    labels = shown.paired
    rows = [[shown.of_row(a), *(_against(found, claimed[b].get(a), a, b) for b in labels)] for a in labels]
    columns = [Column("", numeric=False, sortable=False), *(Column(b, sortable=False) for b in labels)]
    return Table("Row minus column", columns, rows)


def _against(found: dict[tuple[str, str], Pair], claimed: Pair | None, a: str, b: str) -> Cell:
    """Row a against column b; `claimed` is the pair in the family, None where it is not in there."""
    if a == b:
        return Cell("")
    pair = found[a, b] if (a, b) in found else found[b, a].turned()
    difference = pair.difference
    if claimed is None:
        return measured(difference, numbers.difference(difference))
    said = f"{claimed.claim}; {SCOPES[claimed.scope]}"
    return measured(difference, numbers.difference(difference), said, emphasis_of(claimed))


def _tests(comparison: Comparison) -> Table:
    adjusted = [
        Column(f"{test}, {_SHORT_NAMES[name]}", f"p, adjusted by {_FULL_NAMES[name]}.")
        for name in ADJUSTMENTS
        for test in TESTS
    ]
    columns = [
        Column("pair", numeric=False),
        Column("difference", "With its 95 % interval."),
        *(Column(test, "p, unadjusted, two-sided.") for test in TESTS),
        *adjusted,
        Column("effect size"),
        Column("better/tied/worse"),
        Column("queries"),
    ]
    return Table("p-values of each pair", columns, [_tested(pair) for pair in comparison.family], "compact")


def _tested(pair: Pair) -> list[Cell]:
    said = pair.statistics
    raw = [said.p_values[test] for test in TESTS]
    adjusted = [pair.p_adjusted[name][test] for name in ADJUSTMENTS for test in TESTS]
    return [
        named(numbers.minus(pair.a, pair.b), said.note),
        measured(
            said.difference,
            numbers.difference(said.difference),
            numbers.interval(said.interval, numbers.difference),
        ),
        *(measured(value, numbers.p_value(value)) for value in [*raw, *adjusted]),
        measured(said.effect_size, numbers.signed(said.effect_size)),
        measured(said.wins - said.losses, f"{said.wins:,} / {said.ties:,} / {said.losses:,}"),
        measured(said.num_queries, numbers.count(said.num_queries)),
    ]
