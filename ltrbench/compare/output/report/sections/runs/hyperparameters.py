"""Section "Hyperparameters": settings side by side, those that differ first and highlighted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ltrbench.compare.comparison import ModelRow
from ltrbench.compare.grouping import flatten
from ltrbench.compare.output.report.parts import Folded, PagePart, Prose, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown
from ltrbench.compare.pairing.fairness import parameters
from ltrbench.tables import CHANGED, Table, TableCell, TableColumn, TableRow, numbers

SettingsByRow = Mapping[str, Mapping[str, str]]
"""Setting -> label -> value, for the models that have the setting."""

_OF_THE_RUN = ("_target_", "seed")


@section(place=150)
def hyperparameters_section(shown: Shown) -> Section | None:
    """Returns the settings of all models; None if no run has settings, as with imported scores."""
    settings = _settings([row for row in shown.rows if row.runs[0].result.settings.get("model")])
    if not settings:
        return None
    labels = [row.label for row in shown.rows]
    shared = {name: values for name, values in settings.items() if len(values) > 1 or len(labels) == 1}
    alone = {name: values for name, values in settings.items() if name not in shared}
    differing = [name for name, values in shared.items() if len(set(values.values())) > 1]
    same = [name for name in shared if name not in differing]
    lead = (
        f"{len(differing)} of {len(shared)} settings differ between the models that have them. A dash means: "
        "the model does not have the setting; null: it is not set."
    )
    results = [run.result for row in shown.rows for run in row.runs if run.result.seconds]
    lead = " ".join(filter(None, [parameters(results), lead]))
    parts: list[PagePart] = [Prose("No shared setting differs.")]
    if differing:
        parts = [_table("Settings that differ", labels, {name: shared[name] for name in differing}, CHANGED)]
    if same:
        rest = {name: shared[name] for name in same}
        parts.append(Folded(f"{len(same)} settings that are equal", [_table("Equal settings", labels, rest)]))
    if alone:
        summary = f"{len(alone)} settings that only one model has"
        parts.append(Folded(summary, [_table("Settings of one model", labels, alone)]))
    return Section("hyperparameters", "Hyperparameters", lead, parts, ("matched parameters",))


def _settings(rows: Sequence[ModelRow]) -> SettingsByRow:
    """Returns setting -> label -> value; the values of a row are joined if its runs differ."""
    settings: dict[str, dict[str, str]] = {}
    for row in rows:
        runs = [flatten(run.result.settings["model"]) for run in row.runs]
        for name in dict.fromkeys(name for run in runs for name in run if name not in _OF_THE_RUN):
            values = dict.fromkeys(numbers.setting_in_words(run[name]) for run in runs if name in run)
            settings.setdefault(name, {})[row.label] = ", ".join(values)
    return settings


def _table(caption: str, labels: Sequence[str], settings: SettingsByRow, emphasis: str = "") -> Table:
    columns = [TableColumn(header, left=True) for header in ("setting", *labels)]
    rows: list[TableRow] = [
        [name, *(_cell(values.get(label), emphasis) for label in labels)] for name, values in settings.items()
    ]
    return Table(columns, rows, caption, "settings")


def _cell(value: str | None, emphasis: str) -> TableCell:
    return TableCell(value, emphasis="" if value is None else emphasis)
