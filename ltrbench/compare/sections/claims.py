"""Sections on claims: leaderboard, pairs, folds, power, conventions of other libraries, several data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ltrbench.compare.advice import about_claims, about_intervals, family_of
from ltrbench.compare.cells import EvaluatedRow, pair_queries
from ltrbench.compare.comparison import QUERIES, Pair, Power, against, decided, infer
from ltrbench.compare.groups import Across
from ltrbench.compare.leaderboard import between, columns_of_report, emphasis_of, leaderboard, wins_cell
from ltrbench.compare.views import Bullets, Chapter, Figures, Folded, Prose, Section, Shown, View, drawn
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.metrics import PRESETS, Convention
from ltrbench.plots import critical_difference_diagram
from ltrbench.statistics import SCOPES, TESTS, DataSetTest, Inference
from ltrbench.tables import (
    CHANGED,
    COUNT,
    DIFFERENCE,
    QUALITY,
    SIGNED,
    STRONG,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    format_duration,
    listed,
    minus,
    p_value,
    share,
    significant,
)

if TYPE_CHECKING:
    from ltrbench.compare.comparison import Comparison


def leaderboard_section(shown: Shown) -> Section:
    """Returns one row per model, the best first; yardsticks are folded."""
    comparison = shown.comparison
    tested = " ".join(filter(None, [about_intervals(comparison), about_claims(comparison)]))
    lead = "" if comparison.pairs or len(comparison.rows) == 1 else "No two rows could be paired."
    columns = columns_of_report(comparison)
    caption = f"Test means on {comparison.data}, the best first"
    parts: list[View] = [leaderboard(shown, shown.models, columns, caption)]
    if shown.yardsticks:
        summary = f"Yardsticks: {listed([row.label for row in shown.yardsticks])}"
        parts.append(Folded(summary, [leaderboard(shown, shown.yardsticks, columns, "Yardsticks")]))
    parts += [Prose(tested)] if comparison.pairs else []
    terms = (
        *("model", "metric", "difference", "baseline", "claim", "minimum detectable difference"),
        *("better, tied, worse", "effect size", "yardstick"),
    )
    return Section("leaderboard", "Leaderboard", lead, parts, terms)


# ---- Section "Pairwise claims": a matrix of all pairs, and the tests of the family.


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
    tests = Folded("Tests of these trained models (description)", [Prose(_ABOUT_TESTS), _tests(comparison)])
    terms = ("simultaneous interval", "region of equivalence", "scope", "p-value")
    return Section("pairs", "Pairwise claims", lead, [_matrix(shown), tests], terms)


_ABOUT_TESTS = (
    "These p-values and intervals are about the trained models only; no claim rests on them. The intervals "
    "are for single pairs, so they differ from the intervals of the claims. The randomisation test assumes "
    "only that, without a difference, both signs of a query's difference are equally likely. The t test "
    "assumes that the mean is close to normal. Wilcoxon's signed rank test assumes that the differences are "
    "symmetric about their median, and tests the median."
)


def _matrix(shown: Shown) -> Table:
    comparison, labels = shown.comparison, shown.paired
    claimed = {label: {pair.a: pair for pair in against(comparison.family, label)} for label in labels}
    scopes = {SCOPES[pair.scope] for pair in comparison.family}
    is_common = len(scopes) == 1

    def cell(a: str, b: str) -> TableCell:
        if a == b:
            return TableCell(text="")
        (pair,) = (pair for pair in against(comparison.pairs, b) if pair.a == a)
        claim = claimed[b].get(a)
        if claim is None:
            return TableCell(pair.difference)
        note = claim.claim if is_common else f"{claim.claim}; {SCOPES[claim.scope]}"
        return TableCell(pair.difference, note=note, emphasis=emphasis_of(claim))

    caption = f"Row minus column; scope of the claims: {scopes.pop()}" if is_common else "Row minus column"
    columns = [
        TableColumn("", left=True, sortable=False),
        *(TableColumn(b, DIFFERENCE, sortable=False) for b in labels),
    ]
    return Table(columns, [[shown.cell_of(a), *(cell(a, b) for b in labels)] for a in labels], caption)


def _tests(comparison: Comparison) -> Table:
    hint = "With its 95 % interval over queries, for a single pair."
    columns = [
        TableColumn("pair", left=True),
        TableColumn("difference", DIFFERENCE, hint=hint),
        *(TableColumn(test, p_value, hint="p, unadjusted, two-sided.") for test in TESTS),
        *(TableColumn(f"{test}, Holm", p_value, hint="p, adjusted by Holm.") for test in TESTS),
        TableColumn("effect size", SIGNED),
        TableColumn("better/tied/worse"),
        TableColumn("queries", COUNT),
    ]
    rows: list[TableRow] = [
        [
            TableCell(minus(pair.a, pair.b), note=pair.statistics.note),
            TableCell(pair.statistics.difference, note=between(pair.statistics.interval)),
            *(pair.statistics.p_values[test] for test in TESTS),
            *(pair.p_adjusted["holm"][test] for test in TESTS),
            pair.statistics.effect_size,
            wins_cell(pair),
            pair.statistics.num_queries,
        ]
        for pair in comparison.family
    ]
    return Table(columns, rows, "p-values of each pair", "compact")


# ---- Section "Over folds": inference about the methods from the differences of the folds.


def folds_section(shown: Shown) -> Section | None:
    """Returns the fold tests of each pair; None without folds."""
    comparison = shown.comparison
    if not any(pair.over_folds is not None for pair in comparison.family):
        return None
    rope = comparison.settings.rope
    lead = (
        "Each fold counts once. The corrected resampled t test accounts for the training queries that folds "
        "share. Claims use it for all pairs together, with the variance of the seeds added; each row of this "
        "table is for a single pair. The Bayesian correlated t test gives the probabilities that the "
        f"first method is worse, practically equal (within ±{rope:g} {comparison.metric}), or better."
    )
    hint = "With its corrected 95 % interval."
    columns = [
        TableColumn("pair", left=True),
        TableColumn("difference over folds", DIFFERENCE, hint=hint, with_notes=True),
        TableColumn("p", p_value, hint="Corrected resampled t test, unadjusted."),
        TableColumn("worse", share),
        TableColumn("equal", share, hint=f"Within ±{rope:g}."),
        TableColumn("better", share),
    ]
    parts = shown.pair_tables("Inference for the methods", columns, _over_folds)
    return Section("folds", "Over folds", lead, parts, ("tests over folds",))


def _over_folds(pair: Pair) -> TableRow:
    name = minus(pair.a, pair.b)
    if pair.over_folds is None:
        return [name, *[None] * 5]
    test, bayes = pair.over_folds.frequentist, pair.over_folds.bayesian
    difference = TableCell(test.difference, note=between(test.interval))
    return [TableCell(name, note=test.note), difference, test.p_value, bayes.left, bayes.within, bayes.right]


# ---- Section on power: minimum detectable differences, the data they need, and the parts of the error.


def power_section(shown: Shown) -> Section | None:
    """Returns the minimum detectable differences; None if nothing is paired."""
    comparison = shown.comparison
    if all(pair.interval is None for pair in comparison.family):
        return None
    detect = comparison.settings.detect
    kinds = list(dict.fromkeys(need.kind for pair in comparison.family for need in pair.power.needs))
    lead = (
        "The minimum detectable difference is the true difference that would be claimed with a probability "
        f"of 80 %, at the level of the claims over {family_of(comparison)}. It follows from the standard "
        "error, not from the measured difference. A dash: the error is not known, or the metric cannot "
        "differ so much."
    )
    if detect is not None:
        lead += (
            f" The columns for {detect:g} give the numbers that detect this difference, with everything else "
            "unchanged. The time is for the additional trainings, one after another; queries need judgments "
            "instead."
        )
    hint = "80 % power at the level of the claims."
    columns = [
        TableColumn("pair", left=True),
        TableColumn("minimum detectable difference", QUALITY, hint=hint),
        *(TableColumn(f"{kind} for {detect:g}", COUNT, hint="Everything else unchanged.") for kind in kinds),
    ]

    def cells(pair: Pair) -> TableRow:
        detectable = pair.power.detectable
        return [
            TableCell(minus(pair.a, pair.b), note=SCOPES[pair.scope]),
            TableCell(detectable, note=pair.reason if detectable is None else ""),
            *(_need(pair.power, kind) for kind in kinds),
        ]

    parts = shown.pair_tables("Minimum detectable difference", columns, cells)
    terms = ("minimum detectable difference", "parts of the error")
    return Section("power", "Minimum detectable difference", lead, [*parts, *_error_parts(shown)], terms)


def _need(power: Power, kind: str) -> TableCell:
    need = next((need for need in power.needs if need.kind == kind), None)
    if need is None:
        return TableCell()
    present = f"now {need.present:,}"
    if need.number is None:
        return TableCell(text="no number", note=present)
    is_cheapest = kind == power.cheapest != QUERIES
    time = f"about {format_duration(need.seconds)}" if need.seconds else ""
    note = ", ".join(filter(None, [present, time, "cheapest" * is_cheapest]))
    return TableCell(need.number, note=note, emphasis=STRONG if is_cheapest else "")


_PARTS = {
    "queries": "Variation of the difference over queries.",
    "training": "Variation over trainings on the same queries.",
    "training x query": "Trainings differ in the queries that they rank well.",
    "folds": "Further variation over folds: training sets, and seeds if a fold has only one.",
}
"""Part of the variance of a difference -> its meaning."""


def _error_parts(shown: Shown) -> list[View]:
    """Returns the shares of the variance; empty if training was not repeated, because there is one part."""
    shares = {(pair.a, pair.b): _shares(pair.inference) for pair in shown.comparison.family}
    names = [name for name in _PARTS if any(of_pair.get(name) for of_pair in shares.values())]
    if not names:
        return []
    columns = [
        TableColumn("pair", left=True),
        TableColumn("standard error", QUALITY, hint="Of the difference."),
        *(TableColumn(name, share, hint=_PARTS[name]) for name in names),
    ]

    def cells(pair: Pair) -> TableRow:
        error = None if pair.inference is None else pair.inference.standard_error
        of_pair = _shares(pair.inference)
        return [minus(pair.a, pair.b), error, *(of_pair.get(name) for name in names)]

    return shown.pair_tables("Parts of the error: shares of the variance", columns, cells)


def _shares(inference: Inference | None) -> dict[str, float]:
    if inference is None or not inference.standard_error:
        return {}
    parts = inference.parts
    variances = zip(_PARTS, (parts.query, parts.training, parts.training_by_query, parts.fold), strict=True)
    return {name: variance / parts.total for name, variance in variances if variance is not None}


# ---- Section "Under every convention": means and claims of the same scores under each library's
# convention.

_DECIMALS = 10
"""Means that are equal to this number of decimals are tied."""

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
    """

    convention: Convention
    means: Mapping[str, float]
    claims: Mapping[str, str]
    reason: str = ""

    @property
    def order(self) -> list[str]:
        """The rows, the best first; ties in the order of the comparison."""
        return sorted(self.means, key=lambda label: -round(self.means[label], _DECIMALS))

    def changed(self, reference: ConventionOutcome) -> list[str]:
        """Returns the rows with another claim than under the convention of the comparison."""
        return [label for label, claim in self.claims.items() if reference.claims.get(label, claim) != claim]


def outcomes(comparison: Comparison) -> list[ConventionOutcome]:
    """Returns the outcome under the convention of the comparison, then under every other preset."""
    means = {row.label: row.metrics[comparison.metric] for row in comparison.rows}
    claims = {row.label: row.to_baseline.claim for row in comparison.rows if row.to_baseline is not None}
    reference = ConventionOutcome(comparison.settings.convention, _known(means), claims)
    others = [preset for preset in PRESETS.values() if preset != comparison.settings.convention]
    return [reference, *(_outcome(comparison, preset) for preset in others)]


def _outcome(comparison: Comparison, convention: Convention) -> ConventionOutcome:
    try:
        rows = [row.group.under(convention, [comparison.metric]) for row in comparison.rows]
    except (UndefinedMetricError, DataError) as error:
        return ConventionOutcome(convention, {}, {}, str(error))
    means = _known({row.label: row.mean(comparison.metric) for row in rows})
    return ConventionOutcome(convention, means, _claims(comparison, rows))


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


def conventions_section(shown: Shown) -> Section:
    """Returns means and claims under every convention, and the properties of each convention."""
    comparison = shown.comparison
    every = outcomes(comparison)
    reference, *others = [outcome for outcome in every if not outcome.reason]
    labels = [row.label for row in shown.rows]
    claimed = [label for label in labels if label in reference.claims]

    def name(outcome: ConventionOutcome) -> TableCell:
        return TableCell(outcome.convention.name, note="of this comparison" * (outcome is reference))

    def order(outcome: ConventionOutcome) -> TableCell:
        if outcome.reason:
            return TableCell(text="not defined", note=outcome.reason)
        is_changed = outcome.order != reference.order
        return TableCell(text=" > ".join(outcome.order), emphasis=CHANGED if is_changed else "")

    def claim(outcome: ConventionOutcome, label: str) -> TableCell:
        is_changed = label in outcome.changed(reference)
        return TableCell(outcome.claims.get(label), emphasis=CHANGED if is_changed else "")

    first, last = TableColumn("convention", left=True), TableColumn("order of models", left=True)
    columns = [first, *(TableColumn(label, QUALITY) for label in labels), last]
    means: list[TableRow] = [
        [name(outcome), *(outcome.means.get(label) for label in labels), order(outcome)] for outcome in every
    ]
    parts: list[View] = [Table(columns, means, f"Mean {comparison.metric} by convention", "compact")]
    if claimed and others:
        rows: list[TableRow] = [
            [name(outcome), *(claim(outcome, label) for label in claimed)] for outcome in (reference, *others)
        ]
        columns = [first, *(TableColumn(label, left=True) for label in claimed)]
        parts.append(Table(columns, rows, f"Claims against {comparison.baseline} by convention"))
    quirks = [
        f"{outcome.convention.name}: {quirk}"
        for outcome in (reference, *others)
        for quirk in outcome.convention.quirks
    ]
    parts.append(Folded("Properties of each convention", [Bullets(quirks)]))
    changes = {
        "order of the models": [item.convention.name for item in others if item.order != reference.order],
        f"claims against {comparison.baseline}": [
            item.convention.name for item in others if item.changed(reference)
        ],
    }
    lead = " ".join(
        [
            f"The same scores under the {len(others)} other conventions that define {comparison.metric}.",
            *(
                f"Changes in the {what}: {listed(names) if names else 'none'}."
                for what, names in changes.items()
            ),
        ]
    )
    return Section("conventions", "Under every convention", lead, parts, ("convention",))


# ---- Chapter over several data sets: means side by side, and tests over data sets.


def data_sets_chapter(across: Across, metric: str) -> Chapter:
    """Returns the means, and the test over data sets or the reason why there is none."""
    columns = [TableColumn("data set", left=True), *(TableColumn(label, QUALITY) for label in across.labels)]
    means: list[TableRow] = [[data, *means] for data, means in zip(across.data, across.means, strict=True)]
    lead = f"Mean {metric} on test, one row per data set."
    sections = [Section("means", "Means", lead, [Table(columns, means, "Means by data set")])]
    if across.test is None:
        sections.append(Section("ranks", "Tests over data sets", "", [Prose(across.reason)]))
    else:
        sections.append(_ranks_section(across, across.test))
    return Chapter("all-data", "All data sets", sections)


def _ranks_section(across: Across, test: DataSetTest) -> Section:
    lead = (
        "Each data set counts once, by the ranks of the models on it. Friedman's test: do any models differ? "
        "Nemenyi's test: which ones? Wilcoxon's signed rank test with Holm's adjustment does not depend on "
        "the other models in the table."
    )
    parts: list[View] = [Prose(f"{test.note}.")] if test.note else []
    if test.chi2 is not None and test.chi2_p is not None:
        chi2 = significant(test.chi2)
        sentence = f"Friedman's χ² is {chi2}, p {p_value(test.chi2_p)}, over {test.num_data_sets} data sets."
        parts.append(Prose(sentence))
    if test.critical_difference is not None:
        ranks = across.labels, test.average_ranks, test.critical_difference, test.groups
        sentence = (
            "Two models differ by Nemenyi's test at 5 % if their average ranks differ by more than "
            f"{test.critical_difference:.2f}."
        )
        diagram = drawn(partial(critical_difference_diagram, *ranks), "Critical-difference diagram")
        parts += [Prose(sentence), Figures(diagram)]
    average = list(zip(across.labels, test.average_ranks, strict=True))
    columns = [TableColumn("model", left=True), TableColumn("average rank", ".2f")]
    pairs: list[TableRow] = [
        [
            minus(across.labels[pair.a], across.labels[pair.b]),
            *(pair.nemenyi, pair.wilcoxon, pair.wilcoxon_holm),
        ]
        for pair in test.pairs
    ]
    p_values = [TableColumn(name, p_value) for name in ("Nemenyi", "Wilcoxon", "Wilcoxon, Holm")]
    parts += [
        Table(columns, average, "Average ranks", "compact"),
        Table([TableColumn("pair", left=True), *p_values], pairs, "p-values over data sets", "compact"),
    ]
    return Section("ranks", "Tests over data sets", lead, parts, ("tests over data sets",))
