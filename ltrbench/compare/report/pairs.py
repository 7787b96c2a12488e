"""Every pair of models: the matrix, the tests behind it, what folds say, and what the queries could show."""

from __future__ import annotations

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.pairs import ADJUSTMENTS, Pair
from ltrbench.compare.report import numbers
from ltrbench.compare.report.leaderboard import emphasis_of
from ltrbench.compare.report.parts import (
    BETTER,
    WORSE,
    Cell,
    Column,
    Folded,
    Part,
    Prose,
    Section,
    Table,
    named,
)
from ltrbench.compare.report.shown import Shown, measured
from ltrbench.statistics import TESTS

_SHORT_NAMES = {"holm": "Holm", "benjamini_hochberg": "BH"}
_FULL_NAMES = {"holm": "Holm", "benjamini_hochberg": "Benjamini and Hochberg"}
_MIRRORED = {BETTER: WORSE, WORSE: BETTER, "": ""}


def section(shown: Shown) -> Section | None:
    """The matrix over all pairs; the tests of the family that was asked for."""
    comparison = shown.comparison
    if not comparison.pairs:
        return None
    lead = (
        f"The row's {comparison.metric} minus the column's, with its p-value by Holm over all "
        f"{len(comparison.pairs)} pairs (randomisation test). ▲ and ▼ mark where the row is shown to be "
        "better or worse at 5 % over all pairs together; the rest may well be chance."
    )
    parts: list[Part] = [
        _matrix(shown),
        Folded("All tests, raw and adjusted", [Prose(_ABOUT_TESTS), _tests(comparison)]),
    ]
    return Section("pairs", "Pairwise tests", lead, parts)


_ABOUT_TESTS = (
    "The randomisation test asks only that under no difference a query's difference is as likely to have the "
    "other sign; t asks for a mean close to normal; Wilcoxon's signed rank asks for differences that are "
    "symmetric about their centre, and is about that centre rather than the mean."
)


def _matrix(shown: Shown) -> Table:
    found = {(pair.a, pair.b): pair for pair in shown.comparison.pairs}
    labels = shown.paired
    rows = [[shown.of_row(a), *(_against(found, a, b) for b in labels)] for a in labels]
    columns = [Column("", numeric=False, sortable=False), *(Column(b, sortable=False) for b in labels)]
    return Table("Row minus column", columns, rows, "matrix")


def _against(found: dict[tuple[str, str], Pair], a: str, b: str) -> Cell:
    if a == b:
        return Cell("")
    sign, pair = (1, found[a, b]) if (a, b) in found else (-1, found[b, a])
    difference, p_value = pair.statistics.difference, pair.p_adjusted["holm"]["randomisation"]
    emphasis = emphasis_of(pair) if sign == 1 else _MIRRORED[emphasis_of(pair)]
    own = None if difference is None else sign * difference
    return measured(own, numbers.difference(own), f"p {numbers.p_value(p_value)}", emphasis)


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
        Column("better / tied / worse"),
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


def folds(shown: Shown) -> Section | None:
    """What the folds say of the methods; None where there are no folds."""
    comparison = shown.comparison
    pairs = [pair for pair in comparison.family if pair.over_folds is not None]
    if not pairs:
        return None
    rope = comparison.settings.rope
    lead = (
        "The tests above speak of these trained models on queries like these. Whether the methods differ "
        "when they are trained again on such data is a question to the folds, each of which counts once: "
        "there are few, so that little is shown. The corrected resampled t test allows for their common "
        "training data; the Bayesian correlated t test gives the probabilities that the first is worse, "
        f"practically equal (within ±{rope:g} {comparison.metric}), or better."
    )
    columns = [
        Column("pair", numeric=False),
        Column("difference over folds", "With its corrected 95 % interval."),
        Column("p", "Corrected resampled t test, unadjusted."),
        Column("worse"),
        Column("equal", f"Within ±{rope:g}."),
        Column("better"),
    ]
    rows = [_over_folds(pair) for pair in pairs]
    return Section("folds", "Over folds", lead, [Table("Inference for the methods", columns, rows)])


def _over_folds(pair: Pair) -> list[Cell]:
    assert pair.over_folds is not None  # the caller chose those that have it; said for the type checker
    test, bayes = pair.over_folds.frequentist, pair.over_folds.bayesian
    note = numbers.interval(test.interval, numbers.difference)
    chances = (bayes.left, bayes.within, bayes.right)
    return [
        named(numbers.minus(pair.a, pair.b), test.note),
        measured(test.difference, numbers.difference(test.difference), note),
        measured(test.p_value, numbers.p_value(test.p_value)),
        *(measured(chance, numbers.share(chance)) for chance in chances),
    ]


def power(shown: Shown) -> Section | None:
    """The difference that these queries could show; None where nothing is paired."""
    comparison = shown.comparison
    if not any(pair.power.detectable is not None for pair in comparison.family):
        return None
    detect = comparison.settings.detect
    lead = (
        "The least true difference that so many queries find with a probability of 80 % at 5 %, by the "
        "spread of the differences and not by their mean: where nothing is shown, what could have been?"
    )
    columns = [Column("pair", numeric=False), Column("queries"), Column("detectable difference")]
    if detect is not None:
        columns.append(Column(f"queries needed for {detect:g}"))
    rows = []
    for pair in comparison.family:
        found, queries = pair.power, pair.statistics.num_queries
        cells = [
            named(numbers.minus(pair.a, pair.b)),
            measured(queries, numbers.count(queries)),
            measured(found.detectable, numbers.quality(found.detectable)),
        ]
        if detect is not None:
            cells.append(measured(found.queries_needed, numbers.count(found.queries_needed)))
        rows.append(cells)
    return Section("power", "What these queries can show", lead, [Table("Minimum detectable", columns, rows)])
