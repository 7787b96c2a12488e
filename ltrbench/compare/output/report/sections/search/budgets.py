"""Section "Search": the budget of each model, and what the search improved on validation and on test."""

from __future__ import annotations

from collections.abc import Sequence

from ltrbench.compare.analysis.tuning import Tuning, tunings
from ltrbench.compare.output.report.parts import Figures, PagePart, Prose, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown, between, emphasis_of
from ltrbench.compare.output.report.svg import PAGE, inlined
from ltrbench.compare.output.search_pictures import budget_picture
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, numbers

_LEAD = (
    "A search chooses settings on the validation set and never sees test: each value on test is that of the "
    "chosen settings, trained once for each model and fold. Compare models with equal budgets only. The "
    "value on validation of the chosen settings is the highest of many on the same queries, and therefore "
    "too high; validation minus test also contains the difference between the two sets of queries."
)


@section(place=142)
def search_section(shown: Shown) -> Section | None:
    """Returns budgets and results of the searches; None without a search."""
    searched = tunings(shown.comparison)
    if not searched:
        return None
    parts: list[PagePart] = [_budgets(shown, searched), _results(shown, searched)]
    untuned = [item for item in searched if item.untuned is not None]
    if untuned:
        parts.append(_against_default(shown, untuned))
    figure = budget_picture(searched, PAGE)
    if figure is not None:
        parts.append(Figures([inlined(figure, f"{shown.name}-search", "Best value by number of trials")]))
        parts.append(Prose(_reading(searched)))
    return Section("search", "Search", _LEAD, parts, _TERMS)


_TERMS = ("search", "trial", "settings varied", "iterations fitted", "tunability", "expected best value")


def _reading(searched: Sequence[Tuning]) -> str:
    kind = (
        "Each line is the expected best value on validation after so many trials, over the order of the "
        "random trials; the first trial has the default settings."
        if all(item.is_expected for item in searched)
        else "Each line is the best value on validation so far, in the order of the trials; an expected "
        "value is not defined, because not every search drew its trials independently and trained them fully."
    )
    return (
        f"{kind} Lines are means over folds and searches. The marks beside them are the values on test of "
        "the chosen settings, on an axis of the same scale; there is no line for test, because trials are "
        "not evaluated on test."
    )


def _budgets(shown: Shown, searched: Sequence[Tuning]) -> Table:
    columns = [
        TableColumn("model", left=True),
        TableColumn("search", left=True),
        TableColumn("settings varied", numbers.count, hint="Settings of the space that the model has."),
        TableColumn("searches", numbers.count, hint="One per fold and search seed, or one for all folds."),
        TableColumn("trials", numbers.significant, hint="Of one search."),
        TableColumn("iterations fitted", numbers.significant, hint="In all trials of one search."),
        TableColumn("fit time", numbers.duration, hint="Of all trials of one search, evaluation included."),
    ]
    rows: list[TableRow] = [
        [
            shown.of_row(item.label),
            ", ".join(dict.fromkeys(str(search.record["name"]) for search in item.searches)),
            item.num_settings,
            len(item.searches),
            item.trials,
            item.iterations,
            item.seconds,
        ]
        for item in searched
    ]
    return Table(columns, rows, "Budgets, means over searches")


def _results(shown: Shown, searched: Sequence[Tuning]) -> Table:
    metric = ", ".join(dict.fromkeys(item.metric for item in searched))
    columns = [
        TableColumn("model", left=True),
        TableColumn("default, validation", numbers.quality, hint="Settings without the search."),
        TableColumn("chosen, validation", numbers.quality, hint="The highest of many, therefore too high."),
        TableColumn("tunability", numbers.difference, hint="Chosen minus default settings on validation."),
        TableColumn("chosen, test", numbers.quality),
        TableColumn(numbers.minus("validation", "test"), numbers.difference, hint="Chosen settings."),
        TableColumn(
            "sd over searches", numbers.quality, hint="Of the value on test, over searches with other seeds."
        ),
    ]
    rows: list[TableRow] = [
        [
            shown.of_row(item.label),
            item.default_value,
            item.chosen_value,
            item.tunability,
            item.test_value,
            item.gap,
            item.sd_over_searches,
        ]
        for item in searched
    ]
    return Table(columns, rows, f"{metric} under the default convention")


def _against_default(shown: Shown, searched: Sequence[Tuning]) -> Table:
    columns = [
        TableColumn("tuned", left=True),
        TableColumn("default settings", left=True),
        TableColumn(shown.comparison.metric, numbers.difference, hint="Tuned minus default, on test."),
        TableColumn("claim", left=True),
    ]
    rows: list[TableRow] = []
    for item in searched:
        untuned = item.untuned
        if untuned is not None:
            names = [shown.of_row(item.label), shown.of_row(untuned.label)]
            pair = untuned.pair
            if pair is None:
                rows.append([*names, None, ""])
            else:
                difference = TableCell(pair.difference, note=between(pair.interval))
                rows.append([*names, difference, TableCell(pair.claim, emphasis=emphasis_of(pair))])
    return Table(columns, rows, "Tuned against default settings on test")
