"""What differences the data could have shown, what more data would, and what the error is made of."""

from __future__ import annotations

from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import STRONG, Cell, Column, Figures, Part, Section, named
from ltrbench.compare.output.report.shown import Shown, measured, pair_tables
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

_MOST_BARS = 15


def section(shown: Shown) -> Section | None:
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
        Column("pair", numeric=False),
        Column("minimum detectable difference", "80 % power at 5 %, two-sided."),
        *(Column(f"{kind} for {detect:g}", "All else as it is.") for kind in kinds),
    ]

    def cells(pair: Pair) -> list[Cell]:
        detectable = pair.power.detectable
        return [
            named(numbers.minus(pair.a, pair.b), SCOPES[pair.scope]),
            measured(detectable, numbers.quality(detectable), pair.reason if detectable is None else ""),
            *(_need(pair.power, kind) for kind in kinds),
        ]

    parts = pair_tables(shown, "Minimum detectable difference", columns, cells)
    return Section("power", "What these data can show", lead, [*parts, *_error_parts(shown)])


def _need(power: Power, kind: str) -> Cell:
    need = next((need for need in power.needs if need.kind == kind), None)
    if need is None:
        return Cell()
    present = f"now {numbers.count(need.present)}"
    if need.number is None:
        return Cell("no number", None, present)
    is_cheapest = kind == power.cheapest != QUERIES
    time = [] if not need.seconds else [f"about {numbers.duration(need.seconds)}"]
    note = ", ".join([present, *time, *["cheapest"] * is_cheapest])
    return measured(need.number, numbers.count(need.number), note, STRONG if is_cheapest else "")


def _error_parts(shown: Shown) -> list[Part]:
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
        Column("pair", numeric=False),
        Column("standard error", "Of the difference."),
        *(Column(name, _HINTS[name]) for name in names),
    ]

    def cells(pair: Pair) -> list[Cell]:
        error = None if pair.inference is None else pair.inference.standard_error
        shares = _shares(pair.inference) if pair.inference is not None and error else {}
        return [
            named(numbers.minus(pair.a, pair.b)),
            measured(error, numbers.quality(error)),
            *(measured(shares.get(name), numbers.share(shares.get(name))) for name in names),
        ]

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
