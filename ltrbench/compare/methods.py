"""How a comparison was tested, in words that stand under every form of it."""

from __future__ import annotations

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.pairs import Pair
from ltrbench.compare.settings import BEST
from ltrbench.compare.verdict import LEVEL

_METHODS = {
    "bca": "BCa bootstrap",
    "t": "Student's t (few queries)",
    "max-t": "max-T bootstrap, simultaneous",
    "bonferroni-t": "Student's t by Bonferroni, simultaneous (few queries)",
}


def family_of(comparison: Comparison) -> str:
    """What p-values are adjusted over: the differences to a baseline that was named, or all pairs."""
    if comparison.settings.baseline in (None, BEST):
        return all_pairs(comparison)
    count = len(comparison.family)
    return f"the {f'{count} differences' if count != 1 else 'difference'} to {comparison.baseline}"


def all_pairs(comparison: Comparison) -> str:
    """What p-values are adjusted over where no baseline was named."""
    return "the only pair" if len(comparison.pairs) == 1 else f"all {len(comparison.pairs)} pairs"


def how_tested(comparison: Comparison) -> str:
    """What the difference column is, and that it speaks of these trained models."""
    settings = comparison.settings
    intervals = {
        row.to_baseline.statistics.interval.method
        for row in comparison.rows
        if row.to_baseline is not None and row.to_baseline.statistics.interval is not None
    }
    methods = " and ".join(_METHODS.get(method, method) for method in sorted(intervals)) or "none"
    return (
        f"Differences are to {comparison.baseline}, paired by query; intervals: {methods}; p: randomisation "
        f"test, {settings.num_draws:,} draws (seed {settings.seed}), by Holm over "
        f"{family_of(comparison)}. They speak of these trained models on queries like these."
    )


def what_draws_cannot_show(comparison: Comparison) -> str:
    """Where the smallest p-value that the draws can give, adjusted, is above the level; empty elsewhere."""
    named = comparison.settings.baseline not in (None, BEST)
    count = len(comparison.family if named else comparison.pairs)
    least = count / (comparison.settings.num_draws + 1)
    if least <= LEVEL:
        return ""
    return (
        f"With {comparison.settings.num_draws:,} draws no p-value over {count} pairs can be below "
        f"{least:.3f}: nothing can be shown. Give --draws {round(10 * count / LEVEL)}, or name a --baseline."
    )


def what_queries_can_show(comparison: Comparison) -> str:
    """The minimum detectable differences to the baseline, and the queries that a named one needs."""
    known = [row.to_baseline for row in comparison.rows if row.to_baseline is not None]
    detectable = [pair.power.detectable for pair in known if pair.power.detectable is not None]
    if not detectable:
        return ""
    low, high = min(detectable), max(detectable)
    span = f"{low:.4f}" if f"{low:.4f}" == f"{high:.4f}" else f"{low:.4f} to {high:.4f}"
    said = (
        f"These queries show a true difference to {comparison.baseline} of {span} with a probability of 80 % "
        "(unadjusted, at 5 %)."
    )
    detect = comparison.settings.detect
    if detect is None:
        return said
    return f"{said} For {detect:g} it takes {', '.join(map(_needed, known))}."


def _needed(pair: Pair) -> str:
    count = pair.power.queries_needed
    return f"{'more queries than there are' if count is None else f'{count:,} queries'} with {pair.a}"


def about_folds(comparison: Comparison) -> str:
    """What the table over folds says, and of what."""
    return (
        "Over folds, which speaks of the methods trained again on such data: corrected resampled t "
        "test (p not adjusted), and the Bayesian correlated t test's probabilities of being worse, "
        f"practically equal (within {comparison.settings.rope:g}), and better."
    )
