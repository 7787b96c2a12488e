"""Figures that others published: the catalogue in this folder, and their values under a convention.

A YAML of this folder is one source, with a record for each figure. Each field of a record has its
evidence: `{KIND: VALUE, words: ...}`, or `unknown`. The kinds are stated in the source, read in its code,
counted in the data, and inferred; `words` are the words of the source, the place in the code, the command
that counted, or the reason of the inference. `fields` of a source and of a table apply to all their figures;
_data.yaml has the numbers of queries of each data set. To add a source, write a file with what you read in
it.
"""

from __future__ import annotations

import functools
import math
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from docs.published.conversion import (
    Averaging,
    Bounds,
    Counts,
    converted,
    restored,
    rounded,
)
from ltrbench.errors import ConfigError
from ltrbench.metrics import Convention, parse_metric
from ltrbench.metrics.conventions import Aggregation, NoRelevant
from ltrbench.tables import QUALITY, Table, TableRow, columns_of, format_interval

UNKNOWN = "unknown"
KINDS = ("stated", "code", "counted", "inferred")
"""Kinds of evidence."""

FIELDS = (
    "version",
    "folds",
    "split",
    "queries",
    "empty",
    "filters",
    "gain",
    "discount",
    "ties",
    "no_relevant",
    "aggregation",
    "chosen_on_test",
)
"""Fields of every figure. `queries` and `empty` are lists by fold; `filters` is none, a number of removed
test queries, or text such as `Convention.filters`; `aggregation` is queries, folds (the mean of their means),
ratio_of_sums, or text."""

OPTIONAL = (
    "cutoff",
    "highest_label",
    "relevance_threshold",
    "highest_grade",
    "short_lists",
    "short",
)
"""Fields of some figures: cutoff of a name without one; highest label of the data; those of a `Convention`
that define MAP and ERR; 0 if lists with fewer than k documents count 0, and k -> numbers of such lists."""

EXACT = "exact"
RANGE = "range"
NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Evidence:
    """Value of a field, None if it is unknown, the kind of its evidence, and the words that give it."""

    value: Any
    kind: str
    words: str = ""


@dataclass(frozen=True)
class Source:
    """A publication.

    Attributes:
        name: name of its file.
        source, address: what it is, and where it was read.
        summary: origin of the figures and how they were computed; empty: nothing to add.
    """

    name: str
    source: str
    address: str
    summary: str = ""


@dataclass(frozen=True)
class Figure:
    """A published mean.

    Attributes:
        printed: number as printed; `scale` is 0.01 if it is in percent.
        words: quotation that contains the number.
        model: model in the words of the source.
        fields: name -> evidence.
    """

    _: KW_ONLY
    source: Source
    table: str
    data: str
    metric: str
    printed: str
    words: str
    model: str
    scale: float
    fields: Mapping[str, Evidence]

    def value(self, name: str) -> Any:
        """Returns the value of a field; None if it is unknown or absent."""
        return self.fields[name].value if name in self.fields else None

    @property
    def mean(self) -> float:
        return self.scale * float(self.printed)

    @property
    def cutoff(self) -> int | None:
        return parse_metric(self.metric)[1] or self.value("cutoff")

    def by_fold(self, numbers: Any) -> list[int]:
        """Returns the numbers of the folds of the figure; empty if the folds or the numbers are unknown."""
        folds = self.value("folds")
        if folds is None or numbers is None:
            return []
        if isinstance(folds, list):
            return [numbers[fold - 1] for fold in folds]
        return list(numbers)

    @property
    def tests(self) -> list[Counts]:
        """The test sets; empty if their numbers of queries are unknown."""
        queries = self.by_fold(self.value("queries"))
        empty = self.by_fold(self.value("empty"))
        return list(map(Counts, queries, empty))


# ---- The catalogue.


def _evidence(value: Any, place: str) -> Evidence:
    """Raises ConfigError unless a field has one kind of evidence with words, or is unknown."""
    if value == UNKNOWN:
        return Evidence(None, UNKNOWN)
    if isinstance(value, dict) and value.get("words"):
        kinds = set(value) - {"words"}
        if len(kinds) == 1 and kinds.issubset(KINDS):
            (kind,) = kinds
            return Evidence(value[kind], kind, str(value["words"]))
    expected = f"write {UNKNOWN}, or {{KIND: VALUE, words: ...}} with one kind of {', '.join(KINDS)}"
    raise ConfigError(f"{place} is {value!r}; {expected}.")


def _figures(file: Path, facts: Mapping[str, Any]) -> Iterator[Figure]:
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not all(content.get(key) for key in ("source", "address", "tables")):
        raise ConfigError(f"{file}: a record needs source, address and tables.")
    tables = content.pop("tables")
    fields_of_source = content.pop("fields", {})
    source = Source(file.stem, **content)
    for table in tables:
        fields_of_data = facts.get(table["data"], {})
        fields_of_table = table.get("fields", {})
        for row in table["figures"]:
            fields_of_row = row.get("fields", {})
            records = ChainMap(
                fields_of_row, fields_of_table, fields_of_source, fields_of_data
            )
            yield from _figures_of_row(source, table, row, records, str(file))


def _figures_of_row(
    source: Source,
    table: Mapping[str, Any],
    row: Mapping[str, Any],
    records: Mapping[str, Any],
    file: str,
) -> Iterator[Figure]:
    """Yields a figure for each metric.

    Args:
        table, row: as in the YAML.
        records: field -> its evidence as in the YAML.
    """
    place = f"{file}: {row['model']}"
    _check_names_of_fields(records, place)
    fields = {
        name: _evidence(value, f"{place}: {name}") for name, value in records.items()
    }
    words = row.get("words", table.get("words", ""))
    for metric, printed in row["values"].items():
        if not isinstance(printed, str) or printed not in words:
            raise ConfigError(
                f"{place}: {metric} is {printed!r}, which must be a text in {words!r}."
            )
        yield Figure(
            source=source,
            table=table["table"],
            data=table["data"],
            metric=metric,
            printed=printed,
            words=words,
            model=row["model"],
            scale=table.get("scale", 1.0),
            fields=fields,
        )


def _check_names_of_fields(records: Mapping[str, Any], place: str) -> None:
    missing = set(FIELDS).difference(records)
    unknown = set(records).difference(FIELDS, OPTIONAL)
    wrong = missing | unknown
    if wrong:
        raise ConfigError(
            f"{place}: the field {min(wrong)} is missing or does not exist."
        )


@functools.cache
def catalogue(folder: Path | None = None) -> tuple[Figure, ...]:
    """Returns the figures of all files of a folder, by default this one.

    Raises:
        ConfigError: If a record lacks its source, its quotation, a field, or the evidence of a field.
    """
    folder = folder or Path(__file__).parent
    facts = yaml.safe_load((folder / "_data.yaml").read_text(encoding="utf-8"))
    figures: list[Figure] = []
    for file in sorted(folder.glob("[!_]*.yaml")):
        figures.extend(_figures(file, facts))
    return tuple(figures)


# ---- Values under a convention.


@dataclass(frozen=True)
class Comparable:
    """A figure under a convention: exact, within bounds, or not comparable.

    Attributes:
        reasons: why it is not comparable, or how it was converted and what the bounds leave out.
        value: the value if it is exact; None otherwise.
        bounds: bounds of the value, which include the rounding; None if it is not comparable.
    """

    figure: Figure
    kind: str
    reasons: tuple[str, ...]
    _: KW_ONLY
    value: float | None = None
    bounds: Bounds | None = None


def under(figure: Figure, metric: str, convention: Convention) -> Comparable:
    """Returns a figure under a convention, over its own folds.

    Args:
        metric: metric of the value, such as ndcg@10; another cutoff than that of the figure is an obstacle.
    """
    name, cutoff = parse_metric(metric)
    here = convention.of(name)
    how = _Conversion(figure, name, here)
    obstacles = [
        *_other_definitions(figure, name, cutoff or here.default_cutoff, here),
        *_other_means(figure, here),
    ]
    # If the means are not plain, no counts are known, and another obstacle may say why.
    if how.lacks_counts and (how.is_plain or not obstacles):
        obstacles.append(
            "the numbers of queries, of empty queries or of short lists are unknown"
        )
    if obstacles:
        return Comparable(figure, NOT_COMPARABLE, tuple(obstacles))
    printed = rounded(figure.printed, figure.scale)
    point = how.bounds(Bounds(figure.mean, figure.mean))
    around = how.bounds(printed)
    reasons = (*how.remarks(), *how.inferences())
    # Four decimals are those of the tables; 1e-9 is above the rounding errors of float64.
    if point.width < 1e-9 and printed.width < 1.01e-4:
        return Comparable(figure, EXACT, reasons, value=point.low, bounds=around)
    return Comparable(figure, RANGE, reasons, bounds=around)


def _other_definitions(
    figure: Figure, name: str, cutoff: int | None, here: Convention
) -> Iterator[str]:
    """Yields what makes the values of the queries other than under the convention."""
    expected: dict[str, Any] = {"split": "test", "cutoff": cutoff}
    for field in _defining(name):
        expected[field] = _as_in_records(here, field)
    is_binary = figure.value("highest_label") == 1
    if is_binary:
        expected.pop("gain", None)  # 2^l - 1 = l for the labels 0 and 1
    if figure.cutoff == 1:
        expected.pop("discount", None)  # every discount of the first rank is 1
    for field, value in expected.items():
        there = figure.cutoff if field == "cutoff" else figure.value(field)
        if there != value:
            yield f"{field} is {there or 'not stated'}, here {value or 'none'}"
    is_undefined = here.metrics is not None and name not in here.metrics
    if is_undefined or (name in here.binary_metrics and not is_binary):
        yield f"{here.name} does not define {name} on these labels"


def _defining(name: str) -> tuple[str, ...]:
    """Returns the fields of a convention that define a metric."""
    if name == "ndcg":
        return "gain", "discount"
    if name == "err":
        return ("highest_grade",)
    return ("relevance_threshold",)


def _as_in_records(here: Convention, field: str) -> Any:
    """Returns the value of a defining field as in the YAMLs: exponential for exponential_gain."""
    value = here.describe()[field]
    if isinstance(value, float):
        return math.ceil(value)  # labels are whole: a threshold of 0.5 is one of 1
    return value.removesuffix(f"_{field}")


def _other_means(figure: Figure, here: Convention) -> Iterator[str]:
    """Yields what makes the mean one of other queries, or with other weights."""
    filters = figure.value("filters")
    # If all queries count here, unknown filters are a remark, and a number of removed ones is in the bounds.
    is_bounded = here.filters == "none" and not isinstance(filters, str)
    if filters != here.filters and not is_bounded:
        yield f"filters: {filters or 'not stated'}, here {here.filters}"
    aggregation = figure.value("aggregation")
    if here.aggregation is Aggregation.RATIO_OF_SUMS:
        if aggregation != "ratio_of_sums":
            yield f"aggregation: {aggregation or 'not stated'}, here ratio_of_sums"
    elif aggregation not in ("queries", "folds", None):
        yield f"aggregation: {aggregation}, here queries or folds"


@dataclass(frozen=True)
class _Conversion:
    """How the mean of a figure is converted to a convention.

    Attributes:
        name: metric, without its cutoff.
        here: convention of this metric.
    """

    figure: Figure
    name: str
    here: Convention

    @property
    def is_plain(self) -> bool:
        """Whether all queries of the test sets count under the convention, with equal weights."""
        is_ratio = self.here.aggregation is Aggregation.RATIO_OF_SUMS
        return self.here.filters == "none" and not is_ratio

    @property
    def tests(self) -> list[Counts]:
        """The test sets; empty if the numbers of queries that count are unknown."""
        return self.figure.tests if self.is_plain else []

    @property
    def removed(self) -> int:
        """Number of test queries that the source left out."""
        filters = self.figure.value("filters")
        return filters if isinstance(filters, int) else 0

    @property
    def zeroes_short_lists(self) -> bool:
        """Whether lists with fewer than k documents count 0 in the source, but not under the convention."""
        if self.name != "ndcg" or self.figure.cutoff == 1:
            return False
        return bool(
            self.figure.value("short_lists") and not self.here.zero_if_shorter_than_k
        )

    @property
    def short(self) -> list[int]:
        """Number of lists of each test set that count 0 in the source only; empty if unknown, or none do."""
        numbers = self.figure.value("short")  # by cutoff
        if numbers is None or not self.zeroes_short_lists:
            return []
        return self.figure.by_fold(numbers.get(self.figure.cutoff))

    @property
    def knows_empty(self) -> bool:
        """Whether the source gives the value of queries without a relevant document."""
        evidence = self.figure.fields["no_relevant"]
        return evidence.value is not None and evidence.kind != "inferred"

    @property
    def empty(self) -> list[NoRelevant]:
        """The value of queries without a relevant document in the source; all if it does not give one."""
        if self.knows_empty:
            return [NoRelevant(self.figure.value("no_relevant"))]
        return list(NoRelevant)

    @property
    def over_folds(self) -> list[bool]:
        """Whether the source averages the means of folds; both if it does not say so."""
        if len(self.tests) == 1:
            return [False]
        aggregation = self.figure.value("aggregation")
        return [False, True] if aggregation is None else [aggregation == "folds"]

    @property
    def sources(self) -> list[Averaging]:
        """The possible ways in which the source averaged."""
        return [Averaging(*pair) for pair in product(self.empty, self.over_folds)]

    @property
    def target(self) -> Averaging:
        return Averaging(self.here.no_relevant, self.over_folds[0])

    @property
    def lacks_counts(self) -> bool:
        """Whether numbers of queries are unknown that the conversion needs."""
        if self.zeroes_short_lists and not self.short:
            return True
        is_converted = self.removed > 0 or self.sources != [self.target]
        return is_converted and not self.tests

    def bounds(self, mean: Bounds) -> Bounds:
        """Returns the bounds under the convention, from those of the mean of the source."""
        if not self.tests:
            return mean
        of_sources = []
        for source in self.sources:
            whole = restored(mean, self.tests, source, self.removed, self.short)
            of_sources.append(converted(whole, self.tests, source, self.target))
        low = min(bounds.low for bounds in of_sources)
        high = max(bounds.high for bounds in of_sources)
        return Bounds(low, high)

    def remarks(self) -> Iterator[str]:
        """Yields how the figure is converted, and what the bounds leave out."""
        empty = self.figure.value("no_relevant")
        empty_here = self.target.empty.value
        if not self.knows_empty:
            yield "the value of empty queries is not stated: skip, 0 or 1"
        elif empty != empty_here:
            num_empty = sum(test.empty for test in self.tests)
            num_queries = sum(test.queries for test in self.tests)
            counts = f"{num_empty} of {num_queries} queries"
            yield f"the value of empty queries is {empty}, here {empty_here} ({counts})"
        ties = self.figure.value("ties") or UNKNOWN
        ties_here = self.here.ties.value
        if ties != ties_here:
            yield f"the order of ties is {ties}, here {ties_here}; not in the bounds"
        filters = self.figure.value("filters") or UNKNOWN
        if filters != self.here.filters:
            aside = "" if self.removed else ", not in the bounds"
            yield f"removed queries: {filters}{aside}"
        if self.figure.value("chosen_on_test"):
            yield "chosen on the test set, so too high"
        if len(self.over_folds) > 1:
            yield f"the mean is over {UNKNOWN}, here over queries"
        if self.zeroes_short_lists:
            lists = f"lists with fewer than {self.figure.cutoff} documents"
            yield f"{lists} count 0 ({sum(self.short)} queries)"

    def inferences(self) -> Iterator[str]:
        """Yields the fields whose value is inferred, and from what."""
        for field in (
            "no_relevant",
            "folds",
            "split",
            "filters",
            *_defining(self.name),
        ):
            evidence = self.figure.fields[field]
            if evidence.kind == "inferred":
                yield f"{field}: {evidence.value} is inferred: {evidence.words}"


# ---- The table.


def as_table(items: Sequence[Comparable], convention: str) -> tuple[Table, list[str]]:
    """Returns the figures by metric, the highest first, and the reasons to which the last column refers."""
    number_of_reason: dict[str, int] = {}
    rows: list[TableRow] = []
    for item in sorted(items, key=_by_metric_and_value):
        for reason in item.reasons:
            number_of_reason.setdefault(reason, len(number_of_reason) + 1)
        numbers = [str(number_of_reason[reason]) for reason in item.reasons]
        rows.append([*_cells_of(item), " ".join(numbers)])
    columns = columns_of(
        {
            "metric": None,
            "source": None,
            "model": None,
            "folds": None,
            "printed": None,
            convention: QUALITY,
            "kind": None,
            "why": None,
        }
    )
    reasons = [f"{number}: {reason}." for reason, number in number_of_reason.items()]
    return Table(columns, rows), reasons


def _by_metric_and_value(item: Comparable) -> tuple[str, float]:
    """Returns the key of the order of the table; figures that are not comparable are last in their metric."""
    twice_the_value = 0.0 if item.bounds is None else sum(item.bounds)
    return item.figure.metric, -twice_the_value


def _cells_of(item: Comparable) -> TableRow:
    """Returns the cells of a figure, without its reasons."""
    figure = item.figure
    folds = str(figure.value("folds") or UNKNOWN)
    is_percent = figure.scale != 1
    value: float | str | None = item.value
    if item.kind == RANGE and item.bounds is not None:
        value = format_interval(*item.bounds)
    return [
        figure.metric,
        figure.source.name,
        figure.model,
        folds.strip("[]"),
        f"{figure.printed} %" if is_percent else figure.printed,
        value,
        item.kind,
    ]
