"""How a comparison was tested, in words that stand under every form of it."""

from __future__ import annotations

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.pairs import Pair
from ltrbench.compare.settings import BEST
from ltrbench.markdown import listed

_ENOUGH_DRAWS = 2_000

_METHODS = {
    "bca": "BCa bootstrap over queries",
    "t": "Student's t over queries (few queries)",
    "max-t": "max-T bootstrap over queries",
    "bonferroni-t": "Student's t over queries by Bonferroni (few queries)",
    "mrmc-t": "multi-reader multi-case analysis of seeds and queries",
    "paired-mrmc-t": "multi-reader multi-case analysis of shared seeds and queries",
    "resampled-t": "t over resampled training sets and queries",
    "corrected-t": "corrected resampled t over folds",
}


def family_of(comparison: Comparison) -> str:
    """Returns what is decided together: the differences to a named baseline or all pairs; and the metrics."""
    count = len(comparison.family)
    pairs = f"the {f'{count} differences' if count != 1 else 'difference'} to {comparison.baseline}"
    if comparison.settings.baseline in (None, BEST):
        pairs = all_pairs(comparison)
    metrics = [comparison.metric, *comparison.declared]
    return pairs if len(metrics) == 1 else f"{pairs} in {listed(metrics)}"


def all_pairs(comparison: Comparison) -> str:
    """What is decided together where no baseline was named."""
    return "the only pair" if len(comparison.pairs) == 1 else f"all {len(comparison.pairs)} pairs"


def how_tested(comparison: Comparison) -> str:
    """Returns what the difference column is, and how a claim follows from it."""
    used = {pair.interval.method for pair in comparison.claims if pair.interval is not None}
    methods = " and ".join(_METHODS.get(method, method) for method in sorted(used)) or "none"
    rope = comparison.settings.rope
    return (
        f"Differences are to {comparison.baseline}, paired by query. Their intervals hold together with 95 % "
        f"confidence over {family_of(comparison)} ({methods}). Claims: equivalent where the interval lies "
        f"within ±{rope:g}, else better or worse where it excludes 0, else undecided. {_carriers(comparison)}"
    )


def _carriers(comparison: Comparison) -> str:
    """Which metrics carry claims."""
    metrics = [comparison.metric, *comparison.declared]
    return f"{listed(metrics)} {'carries' if len(metrics) == 1 else 'carry'} claims; all else is description."


def what_draws_cannot_show(comparison: Comparison) -> str:
    """Returns that the intervals are rough where there are few bootstrap draws; empty elsewhere."""
    draws = comparison.settings.num_draws
    if draws >= _ENOUGH_DRAWS:
        return ""
    return f"Intervals from {draws} bootstrap draws are rough; give --draws {_ENOUGH_DRAWS} or more."


def what_queries_can_show(comparison: Comparison) -> str:
    """The minimum detectable differences to the baseline, and the queries that a named one needs."""
    known = [row.to_baseline for row in comparison.rows if row.to_baseline is not None]
    detectable = [pair.power.detectable for pair in known if pair.power.detectable is not None]
    if not detectable:
        return ""
    low, high = min(detectable), max(detectable)
    span = f"{low:.4f}" if f"{low:.4f}" == f"{high:.4f}" else f"{low:.4f} to {high:.4f}"
    said = (
        f"Minimum detectable difference to {comparison.baseline} of these trained models (80 % power, "
        f"alpha 5 %, unadjusted): {span}."
    )
    detect = comparison.settings.detect
    if detect is None:
        return said
    return f"{said} For {detect:g} it takes {', '.join(map(_needed, known))}."


def _needed(pair: Pair) -> str:
    count = pair.power.queries_needed
    return f"{'more queries than there are' if count is None else f'{count:,} queries'} with {pair.a}"


def about_folds(comparison: Comparison) -> str:
    """Returns what the table over folds describes."""
    return (
        "Over folds (description, one pair at a time): the corrected resampled t test, and the Bayesian "
        "correlated t test's probabilities that the method trained on other queries is worse, practically "
        f"equal (within ±{comparison.settings.rope:g}), or better."
    )
