"""Section "Pairwise claims": a matrix of all pairs, and the tests of the family."""

from __future__ import annotations

from ltrbench.compare.analysis.methods import family_of
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.output.report.parts import Folded, PagePart, Prose, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown, between, emphasis_of
from ltrbench.compare.pairing.pairs import ADJUSTMENTS, Pair, against
from ltrbench.statistics import SCOPES, TESTS
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, numbers

_SHORT_NAMES = {"holm": "Holm", "benjamini_hochberg": "BH"}
_FULL_NAMES = {"holm": "Holm", "benjamini_hochberg": "Benjamini and Hochberg"}


@section(place=20)
def pairs_section(shown: Shown) -> Section | None:
    """Returns the matrix of all pairs and the tests of the family; None without pairs."""
    comparison = shown.comparison
    if not comparison.pairs:
        return None
    lead = (
        f"{comparison.metric} of the row minus {comparison.metric} of the column, with the claim that "
        f"follows from the simultaneous 95 % interval over {family_of(comparison)}. ▲ and ▼ mark the claims "
        "better and worse."
    )
    if len(comparison.family) < len(comparison.pairs):
        lead += " Nothing is claimed about the other pairs."
    parts: list[PagePart] = [
        _matrix(shown),
        Folded("Tests of these trained models (description)", [Prose(_ABOUT_TESTS), _tests(comparison)]),
    ]
    terms = ("simultaneous interval", "region of equivalence", "scope", "p-value")
    return Section("pairs", "Pairwise claims", lead, parts, terms)


_ABOUT_TESTS = (
    "These p-values and intervals are about the trained models only; no claim rests on them. The intervals "
    "are for single pairs, so they differ from the intervals of the claims. The randomisation test assumes "
    "only that, without a difference, both signs of a query's difference are equally likely. The t test "
    "assumes that the mean is close to normal. Wilcoxon's signed rank test assumes that the differences are "
    "symmetric about their median, and tests the median."
)


def _matrix(shown: Shown) -> Table:
    comparison = shown.comparison
    pairs = {(pair.a, pair.b): pair for pair in comparison.pairs}
    claimed = {label: {pair.a: pair for pair in against(comparison.family, label)} for label in shown.paired}
    labels = shown.paired
    scopes = {SCOPES[pair.scope] for pair in comparison.family}
    is_common = len(scopes) == 1
    caption = f"Row minus column; scope of the claims: {scopes.pop()}" if is_common else "Row minus column"
    rows = [
        [shown.of_row(a), *(_against(pairs, claimed[b].get(a), a, b, not is_common) for b in labels)]
        for a in labels
    ]
    columns = [
        TableColumn("", left=True, sortable=False),
        *(TableColumn(b, numbers.difference, sortable=False) for b in labels),
    ]
    return Table(columns, rows, caption)


def _against(
    pairs: dict[tuple[str, str], Pair], claimed: Pair | None, a: str, b: str, with_scope: bool
) -> TableCell:
    """Returns the cell of row a and column b; `claimed` is their pair in the family, None if not in it."""
    if a == b:
        return TableCell(text="")
    pair = pairs[a, b] if (a, b) in pairs else pairs[b, a].turned()
    if claimed is None:
        return TableCell(pair.difference)
    note = f"{claimed.claim}; {SCOPES[claimed.scope]}" if with_scope else claimed.claim
    return TableCell(pair.difference, note=note, emphasis=emphasis_of(claimed))


def _tests(comparison: Comparison) -> Table:
    adjusted = [
        TableColumn(
            f"{test}, {_SHORT_NAMES[name]}", numbers.p_value, hint=f"p, adjusted by {_FULL_NAMES[name]}."
        )
        for name in ADJUSTMENTS
        for test in TESTS
    ]
    columns = [
        TableColumn("pair", left=True),
        TableColumn(
            "difference", numbers.difference, hint="With its 95 % interval over queries, for a single pair."
        ),
        *(TableColumn(test, numbers.p_value, hint="p, unadjusted, two-sided.") for test in TESTS),
        *adjusted,
        TableColumn("effect size", numbers.signed),
        TableColumn("better/tied/worse"),
        TableColumn("queries", numbers.count),
    ]
    return Table(columns, [_tested(pair) for pair in comparison.family], "p-values of each pair", "compact")


def _tested(pair: Pair) -> TableRow:
    statistics = pair.statistics
    counts = f"{statistics.wins:,} / {statistics.ties:,} / {statistics.losses:,}"
    return [
        TableCell(numbers.minus(pair.a, pair.b), note=statistics.note),
        TableCell(statistics.difference, note=between(statistics.interval)),
        *(statistics.p_values[test] for test in TESTS),
        *(pair.p_adjusted[name][test] for name in ADJUSTMENTS for test in TESTS),
        statistics.effect_size,
        TableCell(statistics.wins - statistics.losses, counts),
        statistics.num_queries,
    ]
