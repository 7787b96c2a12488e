"""How much the models risk on single queries: URisk, TRisk and GeoRisk."""

from __future__ import annotations

from collections.abc import Sequence

from ltrbench.compare.output.report import numbers
from ltrbench.compare.output.report.parts import Cell, Column, Section, Table
from ltrbench.compare.output.report.shown import Shown, measured
from ltrbench.statistics import Risk, risks

_ALPHAS = (1, 5)


def section(shown: Shown) -> Section | None:
    """A table with a row a model; None with fewer than two models that can be paired."""
    comparison, queries = shown.comparison, shown.comparison.queries
    if queries is None or len(queries.labels) < 2:
        return None
    base = queries.labels.index(comparison.baseline) if comparison.baseline in queries.labels else None
    of_alpha = [risks(queries.sample, base, alpha) for alpha in _ALPHAS]
    gains = f"mean gain over {comparison.baseline}, losses times"
    columns = [
        Column("model", numeric=False),
        *(Column(f"URisk, alpha {alpha}", f"{gains} {1 + alpha}") for alpha in _ALPHAS),
        *(Column(f"TRisk, alpha {alpha}", "URisk in standard errors") for alpha in _ALPHAS),
        *(Column(f"GeoRisk, alpha {alpha}", "depends on all models of the table") for alpha in _ALPHAS),
    ]
    of_label = dict(zip(queries.labels, zip(*of_alpha, strict=True), strict=True))
    rows = [[_named(shown, label, of_label[label]), *_cells(of_label[label])] for label in shown.paired]
    lead = (
        f"URisk is the mean gain in {comparison.metric} over {comparison.baseline} in which a loss counts "
        "1 + alpha times, and TRisk is URisk in standard errors: below 0, the losses outweigh the gains at "
        "this alpha. GeoRisk has no baseline: it rises with a model's mean, and falls with each query on "
        "which the model stays below what its own mean and the other models lead one to expect, so that it "
        "changes with the models of the table. Both describe these trained models; no claim rests on them."
    )
    return Section("risk", "Risk", lead, [Table("Risk on single queries", columns, rows)])


def _named(shown: Shown, label: str, own: Sequence[Risk]) -> Cell:
    """The model, and why a value is not available."""
    note = "baseline" if label == shown.comparison.baseline else ""
    return shown.of_row(label, "; ".join(filter(None, [note, own[0].note])))


def _cells(own: Sequence[Risk]) -> list[Cell]:
    return [
        *(measured(item.u_risk, numbers.difference(item.u_risk)) for item in own),
        *(measured(item.t_risk, numbers.signed(item.t_risk)) for item in own),
        *(measured(item.geo_risk, numbers.quality(item.geo_risk)) for item in own),
    ]
