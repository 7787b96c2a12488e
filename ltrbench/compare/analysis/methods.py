"""The statistical methods of a comparison in words, as notes of the group "Claims"."""

from __future__ import annotations

from collections.abc import Sequence

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.notes import ON_CLAIMS, Note
from ltrbench.compare.pairing.pairs import Pair
from ltrbench.compare.pairing.power import QUERIES, Need, Power
from ltrbench.statistics import SCOPES
from ltrbench.tables import listed

_ENOUGH_DRAWS = 2_000

_METHODS = {
    "bca": "BCa bootstrap over queries",
    "t": "Student's t over queries",
    "max-t": "max-T bootstrap over queries",
    "bonferroni-t": "Student's t over queries, Bonferroni-corrected",
    "mrmc-t": "multi-reader multi-case analysis of seeds and queries",
    "paired-mrmc-t": "multi-reader multi-case analysis of shared seeds and queries",
    "resampled-t": "Student's t over resampled training sets and queries",
    "corrected-t": "corrected resampled t over folds",
}


def family_of(comparison: Comparison) -> str:
    """Returns the family of claims in words: its pairs and its metrics."""
    count = len(comparison.family)
    if comparison.settings.names_baseline:
        pairs = f"the {f'{count} differences' if count != 1 else 'difference'} to {comparison.baseline}"
    else:
        pairs = "the only pair" if count == 1 else f"all {count} pairs"
    metrics = [comparison.metric, *comparison.declared]
    return pairs if len(metrics) == 1 else f"{pairs} in {listed(metrics)}"


def all_notes(comparison: Comparison) -> list[Note]:
    """Returns every note under the table: on the methods, and those of the comparison."""
    return [*_method_notes(comparison), *comparison.note_entries]


def _method_notes(comparison: Comparison) -> list[Note]:
    if not comparison.pairs:
        return []
    sentences = {
        "simultaneous interval": about_intervals(comparison),
        "claim": about_claims(comparison),
        "bootstrap draws": about_draws(comparison),
        "minimum detectable difference": about_power(comparison),
    }
    return [Note(ON_CLAIMS, term, sentence) for term, sentence in sentences.items() if sentence]


def about_intervals(comparison: Comparison) -> str:
    """Returns the meaning of the differences and their intervals."""
    used = {pair.interval.method for pair in comparison.claims if pair.interval is not None}
    differences = f"Differences are to {comparison.baseline}, paired by query."
    if not used:
        return f"{differences} They have no interval, and there are no claims."
    methods = " and ".join(_METHODS.get(method, method) for method in sorted(used))
    if len(comparison.claims) == 1:
        return f"{differences} The interval has 95 % confidence ({methods})."
    return (
        f"{differences} Their intervals are simultaneous: 95 % confidence over {family_of(comparison)} "
        f"together ({methods})."
    )


def about_claims(comparison: Comparison) -> str:
    """Returns how a claim follows from an interval, and which metrics carry claims; empty without claims."""
    if all(pair.interval is None for pair in comparison.claims):
        return ""
    rope, metrics = comparison.settings.rope, [comparison.metric, *comparison.declared]
    return (
        f"Claims: equivalent if the interval is within ±{rope:g}; else better or worse if it excludes 0; "
        f"else undecided. Claims are about {listed(metrics)} only; all other columns are descriptive."
    )


def about_draws(comparison: Comparison) -> str:
    """Returns a warning if there are too few bootstrap draws; empty otherwise."""
    draws = comparison.settings.num_draws
    if draws >= _ENOUGH_DRAWS:
        return ""
    return f"Intervals from {draws} bootstrap draws are imprecise; give --draws {_ENOUGH_DRAWS} or more."


def about_power(comparison: Comparison) -> str:
    """Returns the minimum detectable differences to the baseline, and the data that --detect needs."""
    known = [row.to_baseline for row in comparison.rows if row.to_baseline is not None]
    known = [pair for pair in known if pair.power.detectable is not None]
    if not known:
        return ""
    spans = [
        f"{_span([pair for pair in known if pair.scope == scope])} ({name})"
        for scope, name in SCOPES.items()
        if any(pair.scope == scope for pair in known)
    ]
    detectable = (
        f"Minimum detectable difference to {comparison.baseline} (80 % power, alpha 5 % for a single pair): "
        f"{listed(spans)}."
    )
    detect = comparison.settings.detect
    if detect is None:
        return detectable
    needs = "; ".join(_needs(pair) for pair in known)
    return f"{detectable} To detect {detect:g}, with everything else unchanged: {needs}."


def _span(pairs: Sequence[Pair]) -> str:
    """Returns the range of the minimum detectable differences, such as "0.0120 to 0.0339"."""
    known = [pair.power.detectable for pair in pairs if pair.power.detectable is not None]
    low, high = f"{min(known):.4f}", f"{max(known):.4f}"
    return low if low == high else f"{low} to {high}"


def _needs(pair: Pair) -> str:
    """Returns text such as "native needs 14 seeds (cheapest, about 35 s of training) or 2,300 queries"."""
    power = pair.power
    if power.is_enough:
        return f"{pair.a} needs no more data"
    enough = [_need(need, power) for need in power.needs if need.number is not None]
    lacking = " or ".join(f"more {need.kind}" for need in power.needs if need.number is None)
    if not enough:
        return f"{lacking} alone are not enough for {pair.a}"
    needed = f"{pair.a} needs {' or '.join(enough)}"
    return f"{needed} ({lacking} alone are not enough)" if lacking else needed


def _need(need: Need, power: Power) -> str:
    notes = ["cheapest"] * (need.kind == power.cheapest != QUERIES)
    if need.seconds is not None:
        notes.append(f"about {need.seconds:,.{int(need.seconds < 10)}f} s of training")
    count = f"{need.number:,} {need.kind}"
    return f"{count} ({', '.join(notes)})" if notes else count


def about_folds(comparison: Comparison) -> str:
    """Returns the caption of the table over folds."""
    return (
        "Over folds (descriptive; each row for a single pair, not adjusted for their number): the corrected "
        "resampled t test, and the probabilities of the Bayesian correlated t test that the method, trained "
        f"on other queries, is worse, practically equal (within ±{comparison.settings.rope:g}), or better."
    )
