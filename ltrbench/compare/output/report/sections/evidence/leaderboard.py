"""Section "Leaderboard": means, differences to the baseline, claims, further metrics."""

from __future__ import annotations

from markupsafe import Markup

from ltrbench.compare.analysis.methods import about_claims, about_intervals
from ltrbench.compare.analysis.verdict import claim_with_scope
from ltrbench.compare.comparison import ModelRow
from ltrbench.compare.output.report.parts import Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown, between, emphasis_of
from ltrbench.statistics import SCOPES, Interval
from ltrbench.tables import STRONG, Table, TableCell, TableColumn, TableRow, numbers

_WIDTH, _HEIGHT, _MARGIN = 100, 16, 6  # size of a drawn interval in pixels


@section(place=10)
def leaderboard_section(shown: Shown) -> Section:
    """Returns one row per model, the best first."""
    comparison = shown.comparison
    alone = "" if len(comparison.rows) == 1 else "No two rows could be paired."
    tested = " ".join(filter(None, [about_intervals(comparison), about_claims(comparison)]))
    lead = tested if comparison.pairs else alone
    caption = f"Test means on {comparison.data}, the best first"
    table = Table(_columns(shown), [_cells(shown, row) for row in shown.rows], caption)
    terms = ("model", "metric", "difference", "baseline", "claim", "better, tied, worse", "effect size")
    return Section("leaderboard", "Leaderboard", lead, [table], terms)


def _columns(shown: Shown) -> list[TableColumn]:
    comparison = shown.comparison
    first, *others = comparison.rows[0].metrics
    mean_hint = "Mean over test queries; in brackets its 95 % interval over queries, not simultaneous."
    return [
        TableColumn("model", left=True),
        TableColumn(first, numbers.quality, hint=mean_hint),
        *(_paired_columns(comparison.baseline) if len(comparison.rows) > 1 else []),
        *(TableColumn(name, numbers.quality) for name in others),
    ]


def _paired_columns(baseline: str) -> list[TableColumn]:
    drawn_hint = "Drawing of the difference and its interval; the line marks a difference of 0."
    wins_hint = "Number of queries on which the model is better than, tied with, and worse than the baseline."
    effect_hint = "Mean divided by standard deviation of the differences by query."
    return [
        TableColumn(
            f"difference to {baseline}", numbers.difference, hint="With its simultaneous 95 % interval."
        ),
        TableColumn("interval", left=True, hint=drawn_hint, sortable=False),
        TableColumn("claim", left=True, hint="The claim that follows from the interval, and its scope."),
        TableColumn("better/tied/worse", hint=wins_hint),
        TableColumn("effect size", numbers.signed, hint=effect_hint),
    ]


def _cells(shown: Shown, row: ModelRow) -> TableRow:
    comparison = shown.comparison
    first, *others = comparison.rows[0].metrics
    tags = ["baseline"] * (row.label == comparison.baseline) + ["highest"] * (row.label == comparison.best)
    return [
        shown.of_row(row.label, ", ".join(tags)),
        _mean(shown, row, first, between(row.interval, numbers.quality)),
        *(_compared(row, _reach(comparison.rows)) if len(comparison.rows) > 1 else []),
        *(_other_mean(shown, row, name) for name in others),
    ]


def _mean(shown: Shown, row: ModelRow, metric: str, note: str = "") -> TableCell:
    """Returns the mean, in bold if the row is claimed to be better than every other row."""
    is_bold = metric == shown.comparison.metric and shown.comparison.beats_all(row.label)
    return TableCell(row.metrics[metric], note=note, emphasis=STRONG if is_bold else "")


def _other_mean(shown: Shown, row: ModelRow, metric: str) -> TableCell:
    """Returns the mean; for a further metric that carries claims also the difference and the claim."""
    pair = shown.comparison.claim(row.label, metric) if metric in shown.comparison.declared else None
    if pair is None:
        return _mean(shown, row, metric)
    difference = f"{numbers.difference(pair.difference)} {between(pair.interval)}".rstrip()
    return _mean(shown, row, metric, f"{difference} {claim_with_scope(pair)}")


def _compared(row: ModelRow, reach: float) -> TableRow:
    pair = row.to_baseline
    if pair is None:
        return [None] * 5
    statistics = pair.statistics
    counts = " / ".join(map(numbers.count, (statistics.wins, statistics.ties, statistics.losses)))
    scope_and_reason = "; ".join(filter(None, (SCOPES[pair.scope], pair.reason or statistics.note)))
    return [
        TableCell(pair.difference, note=between(pair.interval), emphasis=emphasis_of(pair)),
        TableCell(text="", drawing=_drawing(pair.difference, pair.interval, reach)),
        TableCell(pair.claim, note=scope_and_reason),
        TableCell(statistics.wins - statistics.losses, counts),
        statistics.effect_size,
    ]


def _reach(rows: tuple[ModelRow, ...]) -> float:
    """Returns the largest distance of an interval from 0, so that all are drawn on one scale."""
    pairs = [row.to_baseline for row in rows if row.to_baseline is not None]
    ends = [abs(pair.difference or 0.0) for pair in pairs]
    for pair in pairs:
        if pair.interval is not None:
            ends += [abs(pair.interval.low), abs(pair.interval.high)]
    return max(ends, default=0.0) or 1.0


def _drawing(difference: float | None, interval: Interval | None, reach: float) -> Markup:
    """Draws a point with its interval as a bar, and a line at 0."""
    if difference is None:
        return Markup()
    half = _WIDTH / 2

    def place(value: float) -> str:
        return f"{half + value / reach * (half - _MARGIN):.1f}"

    low, high = (difference, difference) if interval is None else (interval.low, interval.high)
    return Markup(
        '<svg class="interval" viewBox="0 0 {w} {h}" width="{w}" height="{h}" aria-hidden="true">'
        '<path class="zero" d="M{zero} 0V{h}"/><path class="bar" d="M{low} {m}H{high}"/>'
        '<circle cx="{x}" cy="{m}" r="3.5"/></svg>'
    ).format(
        w=_WIDTH, h=_HEIGHT, m=_HEIGHT // 2, zero=half, low=place(low), high=place(high), x=place(difference)
    )
