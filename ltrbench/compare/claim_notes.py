"""How the claims of a comparison are made, as notes of the group "Claims" for the report."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ltrbench.compare.claims import Pair
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.planning import queries_in_words
from ltrbench.compare.remarks import ON_CLAIMS, Note, notes_of
from ltrbench.compare.table import (
    tuned_once,
)
from ltrbench.tables import listed

_METHODS = {
    "t": "Student's t over queries",
    "differing": "bound on the share of queries that differ",
    "max-t": "max-T bootstrap over queries",
    "bonferroni-t": "Student's t over queries, Bonferroni-corrected",
    "inflated": "the intervals of these models, inflated for the training sets of folds",
    "corrected-t": "corrected resampled t over folds, Bonferroni-corrected, where training sets matter",
    "mrmc-t": "multi-reader multi-case analysis of seeds and queries, Bonferroni-corrected",
    "paired-mrmc-t": "multi-reader multi-case analysis of shared seeds and queries, Bonferroni-corrected",
    "resampled-t": "Student's t over resampled training sets and queries, Bonferroni-corrected",
}

_ENOUGH = 10
"""Number of trainings from which there is no note on rare failures."""


def family_of(comparison: Comparison) -> str:
    """Returns the family of claims in words: its pairs and its metrics. A guard is a test of its own."""
    return _family_in_words(comparison, _metrics_of_family(comparison))


def _metrics_of_family(comparison: Comparison) -> list[str]:
    """Returns the metrics that share the level of the comparison, the primary one first."""
    return list(dict.fromkeys([comparison.metric, *comparison.settings.family]))


def level_in_words(comparison: Comparison) -> str:
    """Returns for which pairs and metrics the intervals hold simultaneously; empty for a single interval."""
    if _num_differences(comparison) < 2:
        return ""
    if all(pair.models.interval is None for pair in comparison.family):
        return ""
    confidence = comparison.settings.confidence
    return f"Intervals hold simultaneously for {family_of(comparison)} ({confidence})."


def _num_differences(comparison: Comparison) -> int:
    return len(comparison.family) * len(_metrics_of_family(comparison))


def _family_in_words(comparison: Comparison, metrics: Sequence[str]) -> str:
    count = len(comparison.family)
    if comparison.settings.names_baseline:
        pairs = f"the {count} differences to {comparison.baseline}"
        if count == 1:
            pairs = f"the difference to {comparison.baseline}"
    else:
        pairs = "the only pair"
        if count != 1:
            pairs = f"all {count} pairs"
    if len(metrics) == 1:
        return pairs
    return f"{pairs} in {listed(metrics)}"


def all_notes(comparison: Comparison) -> list[Note]:
    """Returns every note of the report: on the claims, and those of the comparison."""
    if not comparison.pairs:
        return notes_of(comparison.remarks)
    return [*_on_claims(comparison), *notes_of(comparison.remarks)]


def _on_claims(comparison: Comparison) -> Iterator[Note]:
    sentences = {
        "simultaneous interval": about_intervals(comparison),
        "claim": about_claims(comparison),
        "training sets": about_training_sets(comparison),
        "trainings": about_few_trainings(comparison),
        "tuning": about_tuning(comparison),
        "effective number of queries": about_weights(comparison),
        "minimum detectable difference": queries_in_words(comparison),
    }
    for term, sentence in sentences.items():
        if sentence:
            yield Note(ON_CLAIMS, term, sentence)


def about_intervals(comparison: Comparison) -> str:
    """Returns the meaning of the differences, and how their intervals are computed."""
    differences = f"Differences are to {comparison.baseline}, paired by query."
    claims = list(
        itertools.chain.from_iterable(pair.claims for pair in comparison.claims)
    )
    used = {claim.interval.method for claim in claims if claim.interval is not None}
    if not used:
        return f"{differences} They have no interval, and there are no claims."
    methods = "; ".join(_METHODS[method] for method in sorted(used))
    confidence = comparison.settings.confidence
    guards = _about_guards(comparison)
    if _num_differences(comparison) == 1:
        return (
            f"{differences} Intervals have {confidence} confidence ({methods}).{guards}"
        )
    return (
        f"{differences} Intervals are simultaneous: {confidence} confidence over "
        f"{family_of(comparison)} together ({methods}).{guards}"
    )


def _about_guards(comparison: Comparison) -> str:
    """Returns a further sentence on the confidence of each guard; empty without guards on metrics."""
    family = _metrics_of_family(comparison)
    guards = [name for name in comparison.declared if name not in family]
    if not guards:
        return ""
    return f" Each guard ({', '.join(guards)}) has this confidence on its own: all of them must hold."


def about_claims(comparison: Comparison) -> str:
    """Returns how a claim follows from an interval, and which metrics carry claims; empty without claims."""
    if all(pair.models.interval is None for pair in comparison.claims):
        return ""
    metrics = [comparison.metric, *comparison.declared]
    ropes = {metric: comparison.settings.rope_of(metric) for metric in metrics}
    known = {metric: rope for metric, rope in ropes.items() if rope}
    regions = [f"±{rope:g} {metric}" for metric, rope in known.items()]
    if len(set(ropes.values())) == 1:
        regions = [region.split()[0] for region in regions[:1]]
    equivalent = ""
    if regions:
        equivalent = f"equivalent if the interval is within {listed(regions)}; else "
    return (
        f"Claims: {equivalent}better or worse if the interval excludes 0; else undecided. They are about "
        f"{listed(metrics)} only; all other columns are descriptive."
    )


def about_training_sets(comparison: Comparison) -> str:
    """Returns the largest F over folds, and for which pairs training sets matter; empty without folds."""
    tested = []
    for pair in comparison.family:
        variation = pair.variation
        if variation is not None and variation.statistic is not None:
            tested.append(pair)
    if not tested:
        return ""
    mattering = [pair for pair in tested if pair.variation and pair.variation.matters]
    if not mattering:
        largest = max(tested, key=_statistic)
        return (
            "Folds differ no more than their queries explain: the largest F is "
            f"{_statistic(largest):.2f} ({largest.a} and {largest.b})."
        )
    pairs = []
    for pair in mattering:
        largest_f = f"F = {_statistic(pair):.2f}"
        pairs.append(f"{pair.a} and {pair.b} ({largest_f})")
    return (
        f"Training sets matter for {listed(pairs)}: their folds differ more than the queries explain, so "
        "that the intervals of the methods are wider."
    )


def _statistic(pair: Pair) -> float:
    if pair.variation is None or pair.variation.statistic is None:
        return 0.0
    return pair.variation.statistic


def about_few_trainings(comparison: Comparison) -> str:
    """Returns that claims on few trainings do not cover rare failures; empty without such claims."""
    queries = comparison.queries
    if queries is None:
        return ""
    claimed = set()
    for pair in comparison.claims:
        if pair.methods.is_decided:
            claimed |= {pair.a, pair.b}
    counts = []
    for label, trainings in zip(queries.labels, queries.trainings, strict=True):
        is_fixed = any(each.is_imported or each.is_constant for each in trainings)
        if label in claimed and not is_fixed:
            counts.append(sum(len(each.keys) for each in trainings))
    if min(counts, default=_ENOUGH) >= _ENOUGH:
        return ""
    return (
        f"Claims about the methods rest on {min(counts)} trainings of a model: a rare failure, such as one "
        f"in ten, may be missing among them. {_ENOUGH} or more are safer."
    )


def about_tuning(comparison: Comparison) -> str:
    """Returns which models were tuned with one search seed only; empty if there are none."""
    labels = tuned_once(comparison.queries)
    if not labels:
        return ""
    have = "has" if len(labels) == 1 else "have"
    return (
        f"Tuning was not repeated: {listed(labels)} {have} one search seed, so that no claim covers the "
        "variation between searches."
    )


def about_weights(comparison: Comparison) -> str:
    """Returns the effective number of queries; empty if all queries of a fold have one weight."""
    sample = None
    if comparison.queries is not None:
        sample = comparison.queries.distinct
    # Folds of sizes 6 and 7 give queries in several repeats nearly equal weights.
    if sample is None or not sample.is_weighted:
        return ""
    if round(sample.effective_sizes.sum()) == sample.num_queries:
        return ""
    return (
        f"Queries have different weights: the {sample.num_queries:,} queries count in intervals like "
        f"{sample.effective_sizes.sum():,.1f} queries of equal weight (n_eff)."
    )
