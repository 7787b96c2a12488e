"""Section "Settings that cannot be told apart" from the chosen ones, and the cheapest of them."""

from __future__ import annotations

from ltrbench.compare.analysis.tuning import Tuning, tunings
from ltrbench.compare.output.report.parts import PagePart, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.sections.search.settings import name_of_search, short_setting
from ltrbench.compare.output.report.shown import Shown
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, assignments, numbers

_LEAD = (
    "A fully trained trial cannot be told apart from the chosen one if the simultaneous 95 % interval of its "
    "difference contains 0, over the queries of the validation set. A user may take the cheapest of these "
    "settings. The intervals hold for these trained models on these queries: they are no confidence set of "
    "the best settings, and say nothing of the same settings trained again."
)


@section(place=146)
def alike_section(shown: Shown) -> Section | None:
    """Returns the settings that are as good as the chosen ones; None without intervals."""
    searched = [item for item in tunings(shown.comparison) if any(search.alike for search in item.searches)]
    if not searched:
        return None
    parts: list[PagePart] = [_table(item) for item in searched]
    return Section("alike", "Settings that cannot be told apart", _LEAD, parts, ("not told apart",))


def _table(item: Tuning) -> Table:
    columns = [
        TableColumn("search", left=True),
        TableColumn("complete trials", numbers.count),
        TableColumn("not told apart", numbers.count, hint="The chosen trial included."),
        TableColumn("chosen: iterations", numbers.count, hint="Fitted in the chosen trial."),
        TableColumn("cheapest: iterations", numbers.count, hint="Fitted in the cheapest trial."),
        TableColumn("cheapest: fit time", numbers.duration),
        TableColumn("minus chosen", numbers.difference, hint="The cheapest minus the chosen, on validation."),
        TableColumn("settings of the cheapest", left=True),
    ]
    rows: list[TableRow] = []
    for search in item.searches:
        chosen, cheapest = search.chosen, search.cheapest
        if chosen is not None and cheapest is not None:
            settings = {name: short_setting(value) for name, value in cheapest.settings.items()}
            ends = numbers.interval(cheapest.low, cheapest.high, numbers.difference)
            rows.append(
                [
                    name_of_search(item, search),
                    len(search.complete),
                    len(search.alike),
                    chosen.iterations,
                    cheapest.iterations,
                    cheapest.seconds,
                    TableCell(cheapest.value - chosen.value, note="" if cheapest is chosen else ends),
                    "the chosen ones" if cheapest is chosen else assignments(settings),
                ]
            )
    return Table(columns, rows, item.label)
