"""The comparison in one sentence, for whoever reads only one."""

from __future__ import annotations

from ltrbench.compare.comparison import Comparison, Row
from ltrbench.compare.pairs import Pair
from ltrbench.compare.settings import BEST
from ltrbench.markdown import listed
from ltrbench.statistics.paired import IDENTICAL

LEVEL = 0.05
"""The error that is allowed over all pairs together."""


def verdict(comparison: Comparison) -> str:
    """What the paired tests allow to be said, at 5 % over the family that was asked for (Holm), in one
    sentence."""
    if comparison.best is None:
        return "There are no two rows that can be paired, so that nothing can be said of differences."
    reasons = {pair.statistics.note for pair in comparison.pairs if pair.statistics.p_values["t"] is None}
    if all(pair.p_adjusted["holm"]["randomisation"] is None for pair in comparison.pairs):
        return f"Nothing can be said of differences: {listed(sorted(reasons))}."
    if comparison.settings.baseline in (None, BEST):
        return _about_best(comparison)
    if comparison.row(comparison.baseline).interval is None:
        return f"The baseline {comparison.baseline} is left out of paired tests: nothing is held against it."
    return _about_baseline(comparison)


def _about_best(comparison: Comparison) -> str:
    best = str(comparison.best)
    others = {_other(pair, best): pair for pair in comparison.pairs if best in (pair.a, pair.b)}
    beaten = [label for label, pair in others.items() if is_shown(pair)]
    level = [label for label in others if label not in beaten]
    mean = comparison.row(best).metrics[comparison.metric]
    if all(pair.statistics.note == IDENTICAL for pair in comparison.pairs):
        return f"All rows rank every query alike in {comparison.metric}, {mean:.4f}."
    leads = f"{best} has the highest {comparison.metric}, {mean:.4f}"
    if not level:
        return f"{leads}, and is shown to be better than {listed(beaten)}."
    if not beaten:
        return f"{leads}, but is not shown to be better than {listed(level)}."
    return f"{leads}: it is shown to be better than {listed(beaten)}, and not than {listed(level)}."


def _about_baseline(comparison: Comparison) -> str:
    rows = comparison.rows
    better = [_with_difference(row) for row in rows if _is(row, 1)]
    worse = [_with_difference(row) for row in rows if _is(row, -1)]
    level = [row.label for row in rows if row.to_baseline is not None and not is_shown(row.to_baseline)]
    parts = []
    if better:
        parts.append(f"{listed(better)} {'is' if len(better) == 1 else 'are'} shown to be better")
    if worse:
        parts.append(f"{listed(worse)} {'is' if len(worse) == 1 else 'are'} shown to be worse")
    if level:
        parts.append(f"{listed(level)} {'is' if len(level) == 1 else 'are'} not shown to differ")
    return f"Against {comparison.baseline}, in {comparison.metric}: {'; '.join(parts)}."


def is_shown(pair: Pair) -> bool:
    """Whether the randomisation test, adjusted by Holm, rejects that the two are alike."""
    p_value = pair.p_adjusted["holm"]["randomisation"]
    return p_value is not None and p_value <= LEVEL


def _is(row: Row, sign: int) -> bool:
    pair = row.to_baseline
    return pair is not None and is_shown(pair) and (pair.statistics.difference or 0.0) * sign > 0


def _with_difference(row: Row) -> str:
    assert row.to_baseline is not None  # as `_is` has it
    return f"{row.label} ({row.to_baseline.statistics.difference:+.4f})"


def _other(pair: Pair, label: str) -> str:
    return pair.b if pair.a == label else pair.a
