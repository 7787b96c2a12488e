"""Section "Settings": which settings matter, and what was chosen."""

from __future__ import annotations

from ltrbench.compare.analysis.tuning import SearchedRun, Tuning, tunings
from ltrbench.compare.grouping import fold_of
from ltrbench.compare.output.report.parts import Figures, Folded, PagePart, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown
from ltrbench.compare.output.report.svg import PAGE, WIDE_PAGE, inlined
from ltrbench.compare.output.search_pictures import share_picture, slice_picture
from ltrbench.tables import CHANGED, Table, TableCell, TableColumn, TableRow, numbers

_LONGEST_NUMBER = 6
"""Number of characters of a setting that is not shortened."""

_LEAD = (
    "Which settings matter: the share of the variance of the value on validation that each setting explains, "
    "and the value of each complete trial against each setting, minus the value of the chosen trial of the "
    "same search. Both describe this space and these trials. A default setting without a place on the axis, "
    "as 0 on a logarithmic one, is not drawn. A chosen value at the end of its range suggests a wider range."
)


@section(place=144)
def settings_section(shown: Shown) -> Section | None:
    """Returns importance, slices of the space and chosen settings; None without a search."""
    searched = tunings(shown.comparison)
    if not searched:
        return None
    parts: list[PagePart] = []
    shares = share_picture(searched, PAGE)
    if shares is not None:
        parts.append(Figures([inlined(shares, f"{shown.name}-shares", "Importance of the settings")]))
    for number, item in enumerate(searched):
        figure = slice_picture(item, WIDE_PAGE)
        if figure is not None:
            drawn = inlined(figure, f"{shown.name}-slices-{number}", f"{item.label}: value by setting")
            parts.append(Folded(f"{item.label}: value by setting", [Figures([drawn])]))
    parts += [_chosen(item) for item in searched]
    return Section("settings", "Settings", _LEAD, parts, ("setting importance", "chosen settings"))


def _chosen(item: Tuning) -> Table:
    space = item.searches[0].record["space"]
    columns = [
        TableColumn("search", left=True),
        TableColumn("trial", numbers.count),
        TableColumn(f"{item.metric} on validation", numbers.quality),
        *(TableColumn(name, left=True, hint=values) for name, values in space.items()),
    ]
    rows: list[TableRow] = [["default", None, item.default_value, *_cells(item.searches[0], "default")]]
    for search in item.searches:
        value = None if search.chosen is None else search.chosen.value
        rows.append(
            [name_of_search(item, search), search.record["chosen"], value, *_cells(search, "settings")]
        )
    return Table(columns, rows, f"{item.label}: chosen settings", "settings")


def _cells(search: SearchedRun, which: str) -> list[TableCell]:
    """Returns the default or the chosen settings; chosen ones that differ from the default are emphasised."""
    record = search.record
    return [
        TableCell(
            numbers.setting_in_words(record[which].get(name)),
            text=short_setting(record[which].get(name)),
            emphasis="" if record[which].get(name) == record["default"].get(name) else CHANGED,
        )
        for name in record["space"]
    ]


def short_setting(value: object) -> str:
    """Returns a setting with four significant figures; trials.csv and result.json have all digits.

    >>> short_setting(0.0857272), short_setting("0.0857272"), short_setting("31"), short_setting(None)
    ('0.08573', '0.08573', '31', 'null')
    """
    text = numbers.setting_in_words(value)
    try:
        return text if len(text) <= _LONGEST_NUMBER else f"{float(text):.4g}"
    except ValueError:
        return text


def name_of_search(item: Tuning, search: SearchedRun) -> str:
    """Returns fold and seed of a search, as far as they distinguish it."""
    words = []
    if search.fold is not None:
        words.append(f"fold {search.fold}")
    elif len({fold_of(run) for run in item.row.runs}) > 1:
        words.append("all folds")
    if item.repeated > 1:
        words.append(f"seed {search.record['seed']}")
    return ", ".join(words) or "search"
