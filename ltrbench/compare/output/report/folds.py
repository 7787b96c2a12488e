"""What the folds say of the methods, where the queries speak of the trained models."""

from __future__ import annotations

from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import Cell, Column, Section, named
from ltrbench.compare.output.report.shown import Shown, measured, pair_tables
from ltrbench.compare.pairing.pairs import Pair


def section(shown: Shown) -> Section | None:
    """What the folds say of the methods; None where there are no folds."""
    comparison = shown.comparison
    if not any(pair.over_folds is not None for pair in comparison.family):
        return None
    rope = comparison.settings.rope
    lead = (
        "Each fold counts once. The corrected resampled t test allows for the training queries that folds "
        "share; the claims rest on it, with the variance of seeds added and all pairs together. Here each "
        "pair stands alone, as description. The Bayesian correlated t test gives the probabilities that "
        f"the first method is worse, practically equal (within ±{rope:g} {comparison.metric}), or better."
    )
    columns = [
        Column("pair", numeric=False),
        Column("difference over folds", "With its corrected 95 % interval."),
        Column("p", "Corrected resampled t test, unadjusted."),
        Column("worse"),
        Column("equal", f"Within ±{rope:g}."),
        Column("better"),
    ]
    parts = pair_tables(shown, "Inference for the methods", columns, _over_folds)
    return Section("folds", "Over folds", lead, parts)


def _over_folds(pair: Pair) -> list[Cell]:
    if pair.over_folds is None:
        return [named(numbers.minus(pair.a, pair.b)), *(Cell() for _ in range(5))]
    test, bayes = pair.over_folds.frequentist, pair.over_folds.bayesian
    note = numbers.interval(test.interval, numbers.difference)
    chances = (bayes.left, bayes.within, bayes.right)
    return [
        named(numbers.minus(pair.a, pair.b), test.note),
        measured(test.difference, numbers.difference(test.difference), note),
        measured(test.p_value, numbers.p_value(test.p_value)),
        *(measured(chance, numbers.share(chance)) for chance in chances),
    ]
