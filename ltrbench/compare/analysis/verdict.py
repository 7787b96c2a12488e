"""The comparison in a few sentences, for whoever reads nothing else: each claim with its scope."""

from __future__ import annotations

from collections.abc import Sequence

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.pairing.pairs import Pair, against
from ltrbench.compare.settings import BEST
from ltrbench.markdown import listed
from ltrbench.statistics import BETTER, EQUIVALENT, MODELS, SCOPES, UNDECIDED, WORSE

NOT_REPEATED = "training was not repeated; nothing is claimed about the methods"
NOT_ALIKE = "training was not repeated alike; nothing is claimed about the methods"
"""What stands beside claims about trained models: of rows trained once, and of rows not trained alike."""


def verdict(comparison: Comparison) -> str:
    """Returns what may be claimed of the best row against the others, or of each row against the baseline."""
    if comparison.best is None:
        return "No two rows can be paired: nothing is claimed of differences."
    reasons = {pair.reason for pair in comparison.family if pair.reason}
    if all(pair.interval is None for pair in comparison.family):
        if not comparison.family:
            return f"The baseline {comparison.baseline} is left out of paired tests: nothing is claimed."
        return f"Nothing is claimed of differences: {listed(sorted(reasons))}."
    if comparison.settings.baseline in (None, BEST):
        best = comparison.best
        pairs = [pair.turned() for pair in against(comparison.pairs, best)]
        mean = comparison.row(best).metrics[comparison.metric]
        lead, name_claims = f"{best} has the highest {comparison.metric}, {mean:.4f}.", _of_best
    else:
        pairs = list(against(comparison.family, comparison.baseline))
        lead, name_claims = f"Against {comparison.baseline}, in {comparison.metric}.", _of_rows
    rope = comparison.settings.rope
    sentences = [
        f"{_named(scope, comparison)}: {name_claims([pair for pair in pairs if pair.scope == scope], rope)}."
        for scope in reversed(SCOPES)
        if any(pair.scope == scope for pair in pairs)
    ]
    sentences += [_declared(comparison, metric) for metric in comparison.declared]
    if reasons:
        sentences.append(f"Undecided for want of data: {listed(sorted(reasons))}.")
    return " ".join([lead, *sentences])


def _declared(comparison: Comparison, metric: str) -> str:
    """What is claimed by another metric of the family, of the same rows."""
    reference, name_claims = comparison.baseline, _of_rows
    if comparison.settings.baseline in (None, BEST):
        reference, name_claims = comparison.best or reference, _of_best
    pairs = against(comparison.declared[metric], reference)
    if name_claims is _of_best:
        pairs = tuple(pair.turned() for pair in pairs)
    said = [
        f"{name_claims(own, comparison.settings.rope)} ({SCOPES[scope]})"
        for scope in reversed(SCOPES)
        if (own := [pair for pair in pairs if pair.scope == scope])
    ]
    return f"In {metric}: {'; '.join(said)}."


def claim_with_scope(pair: Pair) -> str:
    """Returns the claim as tables and tags show it, such as "better (trained on other queries)"."""
    return f"{pair.claim} ({SCOPES[pair.scope]})"


def _of_best(pairs: Sequence[Pair], rope: float) -> str:
    """Of the best row minus each other."""
    said = {
        BETTER: "better than {}",
        EQUIVALENT: f"equivalent to {{}} (within ±{rope:g})",
        UNDECIDED: "undecided against {}",
        # The highest mean, and worse: only over resamples that both rows have, where either lacks some.
        WORSE: "worse than {}",
    }
    return "; ".join(
        words.format(listed([pair.b for pair in pairs if pair.claim == claim]))
        for claim, words in said.items()
        if any(pair.claim == claim for pair in pairs)
    )


def _of_rows(pairs: Sequence[Pair], rope: float) -> str:
    """Of each row minus the baseline."""
    parts = []
    for claim in (BETTER, WORSE, EQUIVALENT, UNDECIDED):
        rows = [f"{pair.a} ({pair.difference:+.4f})" for pair in pairs if pair.claim == claim]
        if rows:
            is_plural = len(rows) > 1
            subject = f"the difference{'s' * is_plural} of " if claim == UNDECIDED else ""
            word = f"{claim} (within ±{rope:g})" if claim == EQUIVALENT else claim
            parts.append(f"{subject}{listed(rows)} {'are' if is_plural else 'is'} {word}")
    return "; ".join(parts)


def _named(scope: str, comparison: Comparison) -> str:
    """The scope at the beginning of a sentence."""
    name = SCOPES[scope]
    aside = f" ({about_training(comparison)})" if scope == MODELS else ""
    return f"{name[0].upper()}{name[1:]}{aside}"


def about_training(comparison: Comparison) -> str:
    """Returns why claims speak of trained models only; empty where none does."""
    queries = comparison.queries
    labels = {label for pair in comparison.family if pair.scope == MODELS for label in (pair.a, pair.b)}
    if queries is None or not labels:
        return ""
    rows = [row for label, row in zip(queries.labels, queries.trainings, strict=True) if label in labels]
    repeated = len(queries.cells) > 1 or any(len(own.keys) > 1 for row in rows for own in row)
    return NOT_ALIKE if repeated else NOT_REPEATED
