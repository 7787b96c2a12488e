"""The leaderboard: each model's mean, its difference to the baseline, and every other metric."""

from __future__ import annotations

from markupsafe import Markup

from ltrbench.compare.analysis.methods import how_tested
from ltrbench.compare.analysis.verdict import claim_with_scope
from ltrbench.compare.comparison import ModelRow
from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import BETTER, STRONG, WORSE, Cell, Column, Section, Table
from ltrbench.compare.output.report.shown import Shown, measured
from ltrbench.compare.pairing.pairs import Pair
from ltrbench.statistics import SCOPES, Interval, claims

_WIDTH, _HEIGHT, _MARGIN = 100, 16, 6  # of a drawn interval, pixels


def section(shown: Shown) -> Section:
    comparison = shown.comparison
    alone = "" if len(comparison.rows) == 1 else "No two rows could be paired."
    lead = how_tested(comparison) if comparison.pairs else alone
    table = Table(
        f"Test means on {comparison.data}, the best first",
        _columns(shown),
        [_cells(shown, row) for row in shown.rows],
    )
    return Section("leaderboard", "Leaderboard", lead, [table])


def _columns(shown: Shown) -> list[Column]:
    comparison = shown.comparison
    first, *others = comparison.rows[0].metrics
    own = [Column("model", numeric=False), Column(first, "Mean over test queries, with its 95 % interval.")]
    paired = [
        Column(f"difference to {comparison.baseline}", "With its simultaneous 95 % interval."),
        Column("drawn", "The difference and its interval; the line is no difference.", False, sortable=False),
        Column("claim", "What the interval allows to be claimed, and of what.", False),
        Column("better/tied/worse", "Queries on which the model is better than, as good as, and worse."),
        Column("effect size", "Mean over standard deviation of the differences by query."),
    ]
    several = len(comparison.rows) > 1
    return [*own, *(paired if several else []), *(Column(name) for name in others)]


def _cells(shown: Shown, row: ModelRow) -> list[Cell]:
    comparison = shown.comparison
    first, *others = comparison.rows[0].metrics
    tags = ["baseline"] * (row.label == comparison.baseline) + ["highest"] * (row.label == comparison.best)
    cells = [
        shown.of_row(row.label, ", ".join(tags)),
        _mean(shown, row, first, numbers.interval(row.interval)),
    ]
    if len(comparison.rows) > 1:
        cells += _compared(row, _reach(comparison.rows))
    return [*cells, *(_other_mean(shown, row, name) for name in others)]


def _mean(shown: Shown, row: ModelRow, metric: str, note: str = "") -> Cell:
    """In bold where the row is claimed to be better than every other."""
    value = row.metrics[metric]
    is_bold = metric == shown.comparison.metric and shown.comparison.beats_all(row.label)
    return measured(value, numbers.quality(value), note, STRONG if is_bold else "")


def _other_mean(shown: Shown, row: ModelRow, metric: str) -> Cell:
    """With difference and claim for a metric that was declared beside the primary one."""
    pair = shown.comparison.claim(row.label, metric) if metric in shown.comparison.declared else None
    if pair is None:
        return _mean(shown, row, metric)
    ends = numbers.interval(pair.interval, numbers.difference)
    difference = f"{numbers.difference(pair.difference)} {ends}".rstrip()
    return _mean(shown, row, metric, f"{difference} {claim_with_scope(pair)}")


def _compared(row: ModelRow, reach: float) -> list[Cell]:
    pair = row.to_baseline
    if pair is None:
        return [Cell() for _ in range(5)]
    said = pair.statistics
    note = numbers.interval(pair.interval, numbers.difference)
    counts = f"{numbers.count(said.wins)} / {numbers.count(said.ties)} / {numbers.count(said.losses)}"
    return [
        measured(pair.difference, numbers.difference(pair.difference), note, emphasis_of(pair)),
        Cell("", drawing=_drawn(pair.difference, pair.interval, reach)),
        Cell(pair.claim, pair.claim, "; ".join(filter(None, (SCOPES[pair.scope], pair.reason or said.note)))),
        measured(said.wins - said.losses, counts),
        measured(said.effect_size, numbers.signed(said.effect_size)),
    ]


def emphasis_of(pair: Pair) -> str:
    """Whether the pair's first row is claimed to be better or worse than its second; empty for neither."""
    return {claims.BETTER: BETTER, claims.WORSE: WORSE}.get(pair.claim, "")


def _reach(rows: tuple[ModelRow, ...]) -> float:
    """How far from 0 any interval goes, so that all are drawn on one scale."""
    pairs = [row.to_baseline for row in rows if row.to_baseline is not None]
    ends = [abs(pair.difference or 0.0) for pair in pairs]
    for pair in pairs:
        if pair.interval is not None:
            ends += [abs(pair.interval.low), abs(pair.interval.high)]
    return max(ends, default=0.0) or 1.0


def _drawn(difference: float | None, interval: Interval | None, reach: float) -> Markup:
    """A point with its interval as a bar, beside the line of no difference."""
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
