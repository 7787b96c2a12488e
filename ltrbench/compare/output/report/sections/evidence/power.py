"""What differences the data could have shown, what more data would, and what the error is made of."""

from __future__ import annotations

from ltrbench.compare.output.report.parts import Figures, PagePart, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown, pair_tables
from ltrbench.compare.output.report.svg import PAGE, inlined
from ltrbench.compare.pairing.pairs import Pair
from ltrbench.compare.pairing.power import QUERIES, Power
from ltrbench.plots.report.variances import (
    FOLD,
    QUERY,
    TRAINING,
    TRAINING_BY_QUERY,
    ErrorParts,
    variance_shares,
)
from ltrbench.statistics import SCOPES, Inference
from ltrbench.tables import STRONG, TableCell, TableColumn, TableRow, numbers

_MOST_BARS = 15


@section(place=50)
def power_section(shown: Shown) -> Section | None:
    """None where nothing is paired."""
    comparison = shown.comparison
    if not any(pair.power.detectable is not None for pair in comparison.family):
        return None
    detect = comparison.settings.detect
    kinds = list(dict.fromkeys(need.kind for pair in comparison.family for need in pair.power.needs))
    lead = (
        "The minimum detectable difference is the true difference that the data find with a probability of "
        "80 % at 5 %, unadjusted. It follows from the standard error, not from the difference that was seen."
    )
    if detect is not None:
        lead += (
            f" The columns for {detect:g} say how many detect it, each with all else as it is. The time is "
            "that of the additional trainings, one after another; queries cost judgments."
        )
    columns = [
        TableColumn("pair", left=True),
        TableColumn("minimum detectable difference", numbers.quality, hint="80 % power at 5 %, two-sided."),
        *(TableColumn(f"{kind} for {detect:g}", numbers.count, hint="All else as it is.") for kind in kinds),
    ]

    def cells(pair: Pair) -> TableRow:
        detectable = pair.power.detectable
        return [
            TableCell(numbers.minus(pair.a, pair.b), note=SCOPES[pair.scope]),
            TableCell(detectable, note=pair.reason if detectable is None else ""),
            *(_need(pair.power, kind) for kind in kinds),
        ]

    parts = pair_tables(shown, "Minimum detectable difference", columns, cells)
    return Section("power", "What these data can show", lead, [*parts, *_error_parts(shown)])


def _need(power: Power, kind: str) -> TableCell:
    need = next((need for need in power.needs if need.kind == kind), None)
    if need is None:
        return TableCell()
    present = f"now {numbers.count(need.present)}"
    if need.number is None:
        return TableCell(text="no number", note=present)
    is_cheapest = kind == power.cheapest != QUERIES
    time = [] if not need.seconds else [f"about {numbers.duration(need.seconds)}"]
    note = ", ".join([present, *time, *["cheapest"] * is_cheapest])
    return TableCell(need.number, note=note, emphasis=STRONG if is_cheapest else "")


def _error_parts(shown: Shown) -> list[PagePart]:
    """A picture and its table; nothing where training was not repeated: there is one part only."""
    known = [
        (pair, pair.inference, pair.inference.standard_error)
        for pair in (*shown.with_baseline, *shown.without_baseline)
        if pair.inference is not None and pair.inference.standard_error
    ]
    if not known:
        return []
    drawn = [
        ErrorParts(numbers.minus(pair.a, pair.b), _shares(inference), error)
        for pair, inference, error in known[:_MOST_BARS]
    ]
    figure = variance_shares(drawn, shown.comparison.metric, PAGE)
    rest = f", the first {len(drawn)} of {len(known)} pairs" if len(drawn) < len(known) else ""
    caption = f"What the error is made of{rest}"
    names = [name for name in _HINTS if any(_shares(inference).get(name) for _, inference, _ in known)]
    columns = [
        TableColumn("pair", left=True),
        TableColumn("standard error", numbers.quality, hint="Of the difference."),
        *(TableColumn(name, numbers.share, hint=_HINTS[name]) for name in names),
    ]

    def cells(pair: Pair) -> TableRow:
        error = None if pair.inference is None else pair.inference.standard_error
        shares = _shares(pair.inference) if pair.inference is not None and error else {}
        return [numbers.minus(pair.a, pair.b), error, *(shares.get(name) for name in names)]

    tables = pair_tables(shown, "Shares of the variance", columns, cells)
    return [Figures([inlined(figure, f"{shown.name}-variance", caption)]), *tables]


_HINTS = {
    QUERY: "The difference varies over queries.",
    TRAINING: "It varies over trainings on the same queries.",
    TRAINING_BY_QUERY: "Trainings differ in which queries they rank well.",
    FOLD: "It varies over folds beyond that: training sets, and seeds where a fold has one.",
}


def _shares(inference: Inference) -> dict[str, float]:
    parts = inference.parts
    variances = {QUERY: parts.query, TRAINING: parts.training}
    variances |= {TRAINING_BY_QUERY: parts.training_by_query} if parts.fold is None else {FOLD: parts.fold}
    return {name: variance / parts.total for name, variance in variances.items()}
