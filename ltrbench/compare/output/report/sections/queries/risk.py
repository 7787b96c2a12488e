"""Section "Risk": URisk, TRisk and GeoRisk of each model."""

from __future__ import annotations

from collections.abc import Sequence

from ltrbench.compare.output.report.parts import Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown
from ltrbench.statistics import Risk, risks
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, numbers
from ltrbench.tables.numbers import Form

_ALPHAS = (1, 5)


@section(place=80)
def risk_section(shown: Shown) -> Section | None:
    """Returns one row per model; None with fewer than two models that can be paired."""
    comparison, queries = shown.comparison, shown.comparison.queries
    if queries is None or len(queries.labels) < 2:
        return None
    base = queries.labels.index(comparison.baseline) if comparison.baseline in queries.labels else None
    of_alpha = [risks(queries.sample, base, alpha) for alpha in _ALPHAS]
    gains = f"mean gain over {comparison.baseline}; losses are multiplied by"
    columns = [
        TableColumn("model", left=True),
        *_columns("URisk", numbers.difference, [f"{gains} {1 + alpha}" for alpha in _ALPHAS]),
        *_columns("TRisk", numbers.signed, ["URisk divided by its standard error"] * len(_ALPHAS)),
        *_columns("GeoRisk", numbers.quality, ["depends on all models of the table"] * len(_ALPHAS)),
    ]
    of_label = dict(zip(queries.labels, zip(*of_alpha, strict=True), strict=True))
    rows = [[_name(shown, label, of_label[label]), *_values(of_label[label])] for label in shown.paired]
    lead = (
        f"URisk is the mean gain in {comparison.metric} over {comparison.baseline}, with losses multiplied "
        "by 1 + alpha; TRisk is URisk divided by its standard error. Below 0 the losses outweigh the gains "
        "at this alpha. GeoRisk needs no baseline: it increases with the mean of a model, and decreases with "
        "each query on which the model is below its expected value. That value follows from its mean and "
        "from the other models in the table. Risks describe these trained models; no claim rests on "
        "them."
    )
    table = Table(columns, rows, "Risk on single queries")
    return Section("risk", "Risk", lead, [table], ("URisk", "TRisk", "GeoRisk"))


def _columns(name: str, form: Form, hints: Sequence[str]) -> list[TableColumn]:
    """Returns one column per alpha."""
    return [
        TableColumn(f"{name}, alpha {alpha}", form, hint=hint)
        for alpha, hint in zip(_ALPHAS, hints, strict=True)
    ]


def _name(shown: Shown, label: str, risks_of_row: Sequence[Risk]) -> TableCell:
    """Returns the cell of the model, with the reason why a value is not available."""
    note = "baseline" if label == shown.comparison.baseline else ""
    return shown.of_row(label, "; ".join(filter(None, [note, risks_of_row[0].note])))


def _values(risks_of_row: Sequence[Risk]) -> TableRow:
    return [
        *(risk.u_risk for risk in risks_of_row),
        *(risk.t_risk for risk in risks_of_row),
        *(risk.geo_risk for risk in risks_of_row),
    ]
