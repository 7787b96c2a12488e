"""Section "A model against itself": rate of claims between two halves of a model's replicates."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ltrbench.compare.advice import about_claims, about_intervals, family_of
from ltrbench.compare.cells import EvaluatedRow, pair_queries
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.groups import OF_RESAMPLES, READING, AgainstItself, row_against_itself
from ltrbench.compare.leaderboard import between, emphasis_of, report_table, wins_cell
from ltrbench.compare.pairs import QUERIES, Pair, Power, against, decided, infer
from ltrbench.compare.sections import (
    PAGE,
    Bullets,
    Figures,
    Folded,
    PagePart,
    Prose,
    Section,
    Shown,
    inlined,
    pair_tables,
    section,
)
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.metrics import PRESETS, Convention
from ltrbench.plots.report import FOLD, QUERY, TRAINING, TRAINING_BY_QUERY, ErrorParts, variance_shares
from ltrbench.statistics import BETTER, SCOPES, TESTS, WORSE, Inference
from ltrbench.statistics.repeated import SelfComparison
from ltrbench.tables import CHANGED, STRONG, Table, TableCell, TableColumn, TableRow, listed, numbers

_MOST_HALVINGS = 200
"""Number of halvings: enough to distinguish 5 % from 10 %. The verb `aa` uses more."""


@section(place=40)
def aa_section(shown: Shown) -> Section | None:
    """Returns one row per model; None if no model has enough replicates for two halves."""
    comparison = shown.comparison
    judged = [
        row_against_itself(comparison.data, row.group, comparison.metric, comparison.settings, _MOST_HALVINGS)
        for row in shown.rows
    ]
    rows = [(row, row.halved) for row in judged if row.halved is not None]
    if not rows:
        return None
    columns = [
        TableColumn("model", left=True),
        TableColumn("replicates", numbers.count, hint="in every fold"),
        TableColumn("halvings", numbers.count, hint="used here, and possible"),
        TableColumn("interval excludes 0", numbers.share),
        TableColumn("better or worse", numbers.share, hint=f"beyond ±{comparison.settings.rope:g}"),
        TableColumn("equivalent", numbers.share, hint=f"within ±{comparison.settings.rope:g}"),
        TableColumn("by queries alone", numbers.share, hint="Student's interval over queries excludes 0"),
    ]
    lead = f"{READING} {OF_RESAMPLES}" if any(row.kind == "resamples" for row, _ in rows) else READING
    table = Table(columns, [_cells(shown, *row) for row in rows], "Models against themselves")
    return Section("aa", "A model against itself", lead, [table], ("a model against itself",))


def _cells(shown: Shown, row: AgainstItself, halved: SelfComparison) -> TableRow:
    counts = (halved.num_intervals, halved.num_different, halved.num_equivalent, halved.num_by_queries)
    return [
        shown.of_row(row.label),
        TableCell(row.num_replicates, note=row.kind),
        TableCell(halved.num_halvings, note=f"of {numbers.count(halved.num_distinct)}"),
        *(count / halved.num_halvings for count in counts),
    ]


# ---- Section "Under every convention": means and claims of the same scores under each library's
# convention.

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
    rows = [_convention_cells(outcome, labels, reference) for outcome in every]
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


def _convention_cells(
    outcome: ConventionOutcome, labels: Sequence[str], reference: ConventionOutcome
) -> TableRow:
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


# ---- Section "Over folds": inference about the methods from the differences of the folds.


@section(place=30)
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
    columns = [
        TableColumn("pair", left=True),
        TableColumn("difference over folds", numbers.difference, hint="With its corrected 95 % interval."),
        TableColumn("p", numbers.p_value, hint="Corrected resampled t test, unadjusted."),
        TableColumn("worse", numbers.share),
        TableColumn("equal", numbers.share, hint=f"Within ±{rope:g}."),
        TableColumn("better", numbers.share),
    ]
    parts = pair_tables(shown, "Inference for the methods", columns, _over_folds)
    return Section("folds", "Over folds", lead, parts, ("tests over folds",))


def _over_folds(pair: Pair) -> TableRow:
    name = numbers.minus(pair.a, pair.b)
    if pair.over_folds is None:
        return [name, *[None] * 5]
    test, bayes = pair.over_folds.frequentist, pair.over_folds.bayesian
    difference = TableCell(test.difference, note=between(test.interval))
    return [TableCell(name, note=test.note), difference, test.p_value, bayes.left, bayes.within, bayes.right]


# ---- Section "Leaderboard": means, differences to the baseline, claims, further metrics.


@section(place=10)
def leaderboard_section(shown: Shown) -> Section:
    """Returns one row per model, the best first; yardsticks are folded."""
    comparison = shown.comparison
    alone = "" if len(comparison.rows) == 1 else "No two rows could be paired."
    tested = " ".join(filter(None, [about_intervals(comparison), about_claims(comparison)]))
    lead = "" if comparison.pairs else alone
    caption = f"Test means on {comparison.data}, the best first"
    names, models = _names(shown), [row for row in shown.rows if row not in shown.yardsticks]
    parts: list[PagePart] = [report_table(comparison, models, names, caption)]
    if shown.yardsticks:
        table = report_table(comparison, shown.yardsticks, names, "Yardsticks")
        parts.append(Folded(f"Yardsticks: {listed([row.label for row in shown.yardsticks])}", [table]))
    parts += [Prose(tested)] if comparison.pairs else []
    terms = (
        *("model", "metric", "difference", "baseline", "claim", "minimum detectable difference"),
        *("better, tied, worse", "effect size", "yardstick"),
    )
    return Section("leaderboard", "Leaderboard", lead, parts, terms)


def _names(shown: Shown) -> dict[str, TableCell]:
    """Returns label of a row -> its first cell."""
    comparison = shown.comparison
    tags = {row.label: ["baseline"] * (row.label == comparison.baseline) for row in shown.rows}
    if comparison.best is not None:
        tags[comparison.best] += ["highest"]
    return {label: shown.of_row(label, ", ".join(of_row)) for label, of_row in tags.items()}


# ---- Section "Pairwise claims": a matrix of all pairs, and the tests of the family.


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
    columns = [
        TableColumn("pair", left=True),
        TableColumn(
            "difference", numbers.difference, hint="With its 95 % interval over queries, for a single pair."
        ),
        *(TableColumn(test, numbers.p_value, hint="p, unadjusted, two-sided.") for test in TESTS),
        *(TableColumn(f"{test}, Holm", numbers.p_value, hint="p, adjusted by Holm.") for test in TESTS),
        TableColumn("effect size", numbers.signed),
        TableColumn("better/tied/worse"),
        TableColumn("queries", numbers.count),
    ]
    return Table(columns, [_tested(pair) for pair in comparison.family], "p-values of each pair", "compact")


def _tested(pair: Pair) -> TableRow:
    statistics = pair.statistics
    return [
        TableCell(numbers.minus(pair.a, pair.b), note=statistics.note),
        TableCell(statistics.difference, note=between(statistics.interval)),
        *(statistics.p_values[test] for test in TESTS),
        *(pair.p_adjusted["holm"][test] for test in TESTS),
        statistics.effect_size,
        wins_cell(pair),
        statistics.num_queries,
    ]


# ---- Section on power: minimum detectable differences, the data they need, and the parts of the error.

_MOST_BARS = 15  # pairs in the figure


@section(place=50)
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
    columns = [
        TableColumn("pair", left=True),
        TableColumn(
            "minimum detectable difference", numbers.quality, hint="80 % power at the level of the claims."
        ),
        *(
            TableColumn(f"{kind} for {detect:g}", numbers.count, hint="Everything else unchanged.")
            for kind in kinds
        ),
    ]

    def cells(pair: Pair) -> TableRow:
        detectable = pair.power.detectable
        return [
            TableCell(numbers.minus(pair.a, pair.b), note=SCOPES[pair.scope]),
            TableCell(detectable, note=pair.reason if detectable is None else ""),
            *(_need(pair.power, kind) for kind in kinds),
        ]

    parts = pair_tables(shown, "Minimum detectable difference", columns, cells)
    terms = ("minimum detectable difference", "parts of the error")
    return Section("power", "Minimum detectable difference", lead, [*parts, *_error_parts(shown)], terms)


def _need(power: Power, kind: str) -> TableCell:
    need = next((need for need in power.needs if need.kind == kind), None)
    if need is None:
        return TableCell()
    present = f"now {numbers.count(need.present)}"
    if need.number is None:
        return TableCell(text="no number", note=present)
    is_cheapest = kind == power.cheapest != QUERIES
    time = [] if not need.seconds else [f"about {numbers.duration(need.seconds)}"]
    note = ", ".join([present, *time, *["cheapest"] * is_cheapest])
    return TableCell(need.number, note=note, emphasis=STRONG if is_cheapest else "")


def _error_parts(shown: Shown) -> list[PagePart]:
    """Returns a figure and its table; empty if training was not repeated, because there is only one part."""
    known = [
        (pair, pair.inference, pair.inference.standard_error)
        for pair in (*shown.with_baseline, *shown.without_baseline)
        if pair.inference is not None and pair.inference.standard_error
    ]
    if not known:
        return []
    drawn = [
        ErrorParts(numbers.minus(pair.a, pair.b), _shares(inference), error)
        for pair, inference, error in known[:_MOST_BARS]
    ]
    figure = variance_shares(drawn, shown.comparison.metric, PAGE)
    rest = f", the first {len(drawn)} of {len(known)} pairs" if len(drawn) < len(known) else ""
    caption = f"Parts of the error{rest}"
    names = [name for name in _HINTS if any(_shares(inference).get(name) for _, inference, _ in known)]
    columns = [
        TableColumn("pair", left=True),
        TableColumn("standard error", numbers.quality, hint="Of the difference."),
        *(TableColumn(name, numbers.share, hint=_HINTS[name]) for name in names),
    ]

    def cells(pair: Pair) -> TableRow:
        error = None if pair.inference is None else pair.inference.standard_error
        shares = _shares(pair.inference) if pair.inference is not None and error else {}
        return [numbers.minus(pair.a, pair.b), error, *(shares.get(name) for name in names)]

    tables = pair_tables(shown, "Shares of the variance", columns, cells)
    return [Figures([inlined(figure, f"{shown.name}-variance", caption)]), *tables]


_HINTS = {
    QUERY: "Variation of the difference over queries.",
    TRAINING: "Variation over trainings on the same queries.",
    TRAINING_BY_QUERY: "Trainings differ in the queries that they rank well.",
    FOLD: "Further variation over folds: training sets, and seeds if a fold has only one.",
}


def _shares(inference: Inference) -> dict[str, float]:
    parts = inference.parts
    variances = {QUERY: parts.query, TRAINING: parts.training}
    variances |= {TRAINING_BY_QUERY: parts.training_by_query} if parts.fold is None else {FOLD: parts.fold}
    return {name: variance / parts.total for name, variance in variances.items()}
