"""Section "Over folds": inference about the methods from the differences of the folds."""

from __future__ import annotations

from ltrbench.compare.output.report.parts import Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown, between, pair_tables
from ltrbench.compare.pairing.pairs import Pair
from ltrbench.tables import TableCell, TableColumn, TableRow, numbers


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
