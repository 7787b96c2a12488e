"""Section on power: minimum detectable differences, the data they need, and the parts of the error."""

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

_MOST_BARS = 15  # pairs in the figure


@section(place=50)
def power_section(shown: Shown) -> Section | None:
    """Returns the minimum detectable differences; None if nothing is paired."""
    comparison = shown.comparison
    if not any(pair.power.detectable is not None for pair in comparison.family):
        return None
    detect = comparison.settings.detect
    kinds = list(dict.fromkeys(need.kind for pair in comparison.family for need in pair.power.needs))
    lead = (
        "The minimum detectable difference is the true difference that the test of a single pair detects "
        "with 80 % power at alpha 5 %. It follows from the standard error, not from the measured difference."
    )
    if len(comparison.claims) > 1:
        lead += (
            " Claims are stricter, because they hold for all pairs together: they need larger differences."
        )
    if detect is not None:
        lead += (
            f" The columns for {detect:g} give the numbers that detect this difference, with everything else "
            "unchanged. The time is for the additional trainings, one after another; queries need judgments "
            "instead."
        )
    columns = [
        TableColumn("pair", left=True),
        TableColumn(
            "minimum detectable difference", numbers.quality, hint="80 % power, alpha 5 %, two-sided."
        ),
        *(
            TableColumn(f"{kind} for {detect:g}", numbers.count, hint="Everything else unchanged.")
            for kind in kinds
        ),
    ]

    def cells(pair: Pair) -> TableRow:
        detectable = pair.power.detectable
        return [
            TableCell(numbers.minus(pair.a, pair.b), note=SCOPES[pair.scope]),
            TableCell(detectable, note=pair.reason if detectable is None else ""),
            *(_need(pair.power, kind) for kind in kinds),
        ]

    parts = pair_tables(shown, "Minimum detectable difference", columns, cells)
    terms = ("minimum detectable difference", "parts of the error")
    return Section("power", "Minimum detectable difference", lead, [*parts, *_error_parts(shown)], terms)


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
    """Returns a figure and its table; empty if training was not repeated, because there is only one part."""
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
    caption = f"Parts of the error{rest}"
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
    QUERY: "Variation of the difference over queries.",
    TRAINING: "Variation over trainings on the same queries.",
    TRAINING_BY_QUERY: "Trainings differ in the queries that they rank well.",
    FOLD: "Further variation over folds: training sets, and seeds if a fold has only one.",
}


def _shares(inference: Inference) -> dict[str, float]:
    parts = inference.parts
    variances = {QUERY: parts.query, TRAINING: parts.training}
    variances |= {TRAINING_BY_QUERY: parts.training_by_query} if parts.fold is None else {FOLD: parts.fold}
    return {name: variance / parts.total for name, variance in variances.items()}
