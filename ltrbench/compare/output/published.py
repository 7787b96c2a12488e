"""Published values of a data set, beside the rows of a comparison if their convention is known."""

from __future__ import annotations

from collections.abc import Sequence

from ltrbench.compare.comparison import Comparison, ModelRow
from ltrbench.compare.grouping import cells_in_words
from ltrbench.data.sources import Published
from ltrbench.errors import ConfigError, DataError
from ltrbench.metrics import Convention, preset
from ltrbench.tables import Table, TableColumn, TableRow
from ltrbench.tables.numbers import Form


def published_table(comparison: Comparison, published: Published, form: Form) -> Table:
    """Returns a table of the published values.

    If they have a convention, the rows of the comparison follow, evaluated under it and not under the
    convention of the comparison.

    Args:
        form: format of the values.
    """
    metrics = list(dict.fromkeys(name for values in published.figures.values() for name in values))
    figures = [(model, [values.get(name) for name in metrics]) for model, values in published.figures.items()]
    columns = [TableColumn(name, form) for name in metrics]
    first = TableColumn("published", left=True)
    if published.convention is None:
        rows: list[TableRow] = [[model, *values] for model, values in figures]
        return Table([first, *columns], rows, "Published values", "compact")
    convention = preset(published.convention)
    rows = [["published", model, *values] for model, values in figures]
    rows += [
        [f"here, {_test_sets(row)}", row.label, *_means(row, metrics, convention)] for row in comparison.rows
    ]
    origin = TableColumn("origin", left=True)
    model = TableColumn("model", left=True)
    caption = f"Published values, and this comparison under the convention {convention.name}"
    return Table([origin, model, *columns], rows, caption, "compact")


def about_published(published: Published) -> str:
    """Returns the source of the published values, and how the rows of the comparison are evaluated."""
    source = published.source.strip()
    if published.convention is None:
        return source
    return (
        f"{source} The rows of this comparison are evaluated under the same convention, "
        f"{published.convention}."
    )


def _test_sets(row: ModelRow) -> str:
    return cells_in_words(sorted(row.group.cells, key=lambda cell: cell.fold or 0))


def _means(row: ModelRow, metrics: Sequence[str], convention: Convention) -> list[float | None]:
    return [_mean(row, metric, convention) for metric in metrics]


def _mean(row: ModelRow, metric: str, convention: Convention) -> float | None:
    """Returns a mean; None if the metric is unknown, or the convention does not define it on these data."""
    try:
        return row.group.under(convention, [metric]).mean(metric)
    except (ConfigError, DataError):
        return None
