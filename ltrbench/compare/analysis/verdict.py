"""Verdict: the claims of a comparison in a few sentences, each with its scope."""

from __future__ import annotations

from collections.abc import Sequence

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.pairing.inference import is_tuned, is_tuned_again
from ltrbench.compare.pairing.pairs import Pair, against
from ltrbench.statistics import BETTER, EQUIVALENT, MODELS, SCOPES, UNDECIDED, WORSE
from ltrbench.tables import listed

NOT_REPEATED = "training was not repeated; nothing is claimed about the methods"
NOT_ALIKE = "training was not repeated in the same way; nothing is claimed about the methods"
"""Remarks beside claims about trained models: for rows trained once, and for rows not trained alike."""


def verdict(comparison: Comparison) -> str:
    """Returns the claims on the best row against the others, or on each row against the named baseline."""
    if comparison.best is None:
        return "No two rows can be paired: nothing is claimed about differences."
    reasons = {pair.reason for pair in comparison.family if pair.reason}
    if all(pair.interval is None for pair in comparison.family):
        if not comparison.family:
            return f"The baseline {comparison.baseline} is left out of paired tests: nothing is claimed."
        return f"Nothing is claimed about differences: {listed(sorted(reasons))}."
    lead = f"Against {comparison.baseline}, in {comparison.metric}."
    if not comparison.settings.names_baseline:
        mean = comparison.row(comparison.best).metrics[comparison.metric]
        lead = f"{comparison.best} has the highest {comparison.metric}, {mean:.4f}."
    claims = _claims_by_scope(comparison, comparison.family)
    sentences = [f"{_begin_with(scope, comparison)}: {words}." for scope, words in claims.items()]
    sentences += [_declared(comparison, metric) for metric in comparison.declared]
    if reasons:
        sentences.append(f"Undecided because of too few data: {listed(sorted(reasons))}.")
    sentences += [about_tuning(comparison)]
    return " ".join(filter(None, [lead, *sentences]))


def _declared(comparison: Comparison, metric: str) -> str:
    """Returns the claims in another metric of the family, on the same rows."""
    claims = _claims_by_scope(comparison, comparison.declared[metric])
    return f"In {metric}: {'; '.join(f'{words} ({SCOPES[scope]})' for scope, words in claims.items())}."


def _claims_by_scope(comparison: Comparison, family: Sequence[Pair]) -> dict[str, str]:
    """Returns scope -> claims on the best row against the others, or on each row against the baseline."""
    if comparison.settings.names_baseline:
        pairs, name_claims = against(family, comparison.baseline), _of_rows
    else:
        best = comparison.best or comparison.baseline
        pairs, name_claims = tuple(pair.turned() for pair in against(family, best)), _of_best
    return {
        scope: name_claims([pair for pair in pairs if pair.scope == scope], comparison.settings.rope)
        for scope in reversed(SCOPES)
        if any(pair.scope == scope for pair in pairs)
    }


def claim_with_scope(pair: Pair) -> str:
    """Returns the claim with its scope, such as "better (trained on other queries)"."""
    return f"{pair.claim} ({SCOPES[pair.scope]})"


def _of_best(pairs: Sequence[Pair], rope: float) -> str:
    """Returns the claims on the best row minus each other row."""
    words_of_claim = {
        BETTER: "better than {}",
        EQUIVALENT: f"equivalent to {{}} (within ±{rope:g})",
        UNDECIDED: "undecided against {}",
        # The row with the highest mean can be worse over the resamples that both rows have.
        WORSE: "worse than {}",
    }
    return "; ".join(
        words.format(listed([pair.b for pair in pairs if pair.claim == claim]))
        for claim, words in words_of_claim.items()
        if any(pair.claim == claim for pair in pairs)
    )


def _of_rows(pairs: Sequence[Pair], rope: float) -> str:
    """Returns the claims on each row minus the baseline."""
    parts = []
    for claim in (BETTER, WORSE, EQUIVALENT, UNDECIDED):
        rows = [f"{pair.a} ({pair.difference:+.4f})" for pair in pairs if pair.claim == claim]
        if rows:
            is_plural = len(rows) > 1
            subject = f"the difference{'s' * is_plural} of " if claim == UNDECIDED else ""
            word = f"{claim} (within ±{rope:g})" if claim == EQUIVALENT else claim
            parts.append(f"{subject}{listed(rows)} {'are' if is_plural else 'is'} {word}")
    return "; ".join(parts)


def _begin_with(scope: str, comparison: Comparison) -> str:
    """Returns the scope with a capital letter, and the remark on repeated training."""
    name = SCOPES[scope]
    aside = f" ({about_training(comparison)})" if scope == MODELS else ""
    return f"{name[0].upper()}{name[1:]}{aside}"


def about_training(comparison: Comparison) -> str:
    """Returns why claims are about trained models only; empty if there are no such claims."""
    queries = comparison.queries
    labels = {label for pair in comparison.family if pair.scope == MODELS for label in (pair.a, pair.b)}
    if queries is None or not labels:
        return ""
    rows = [row for label, row in zip(queries.labels, queries.trainings, strict=True) if label in labels]
    repeated = len(queries.cells) > 1 or any(len(trainings.keys) > 1 for row in rows for trainings in row)
    return NOT_ALIKE if repeated else NOT_REPEATED


def about_tuning(comparison: Comparison) -> str:
    """Returns which models were tuned with one search seed only; empty if there are none."""
    labels = tuned_once(comparison)
    if not labels:
        return ""
    return (
        f"Tuning was not repeated: {listed(labels)} {'has' if len(labels) == 1 else 'have'} one search seed, "
        "so that no claim covers the variation between searches."
    )


def tuned_once(comparison: Comparison) -> list[str]:
    """Returns the labels of the paired rows that were tuned, but not again with other search seeds."""
    queries = comparison.queries
    if queries is None:
        return []
    return [
        label
        for number, label in enumerate(queries.labels)
        if is_tuned(queries, number) and not is_tuned_again(queries, number)
    ]
