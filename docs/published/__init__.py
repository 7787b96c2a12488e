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
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from docs.published import conversion
from docs.published.conversion import Averaging, Bounds, Counts
from ltrbench.errors import ConfigError
from ltrbench.metrics import Convention, parse_metric
from ltrbench.metrics.conventions import Aggregation, NoRelevant
from ltrbench.tables import QUALITY, Table, TableRow, columns_of, format_interval

UNKNOWN = "unknown"
KINDS = ("stated", "code", "counted", "inferred")
"""Kinds of evidence."""

_OF_TESTS = ("version", "folds", "split", "queries", "empty", "filters")
FIELDS = (
    *_OF_TESTS,
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

EXACT, RANGE, NOT_COMPARABLE = "exact", "range", "not comparable"

_DEFINING = {"ndcg": ("gain", "discount"), "err": ("highest_grade",)}


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
        return (
            [numbers[fold - 1] for fold in folds]
            if isinstance(folds, list)
            else numbers
        )

    @property
    def tests(self) -> list[Counts]:
        """The test sets; empty if their numbers of queries are unknown."""
        queries, empty = (
            self.by_fold(self.value("queries")),
            self.by_fold(self.value("empty")),
        )
        return [*map(Counts, queries, empty)] if empty else []


# ---- The catalogue.


def _evidence(value: Any, place: str) -> Evidence:
    """Raises ConfigError unless a field has one kind of evidence with words, or is unknown."""
    if value == UNKNOWN:
        return Evidence(None, UNKNOWN)
    kinds = [kind for kind in KINDS if isinstance(value, dict) and kind in value]
    if len(kinds) != 1 or set(value) != {*kinds, "words"} or not value["words"]:
        expected = f"write {UNKNOWN}, or {{KIND: VALUE, words: ...}} with one kind of {', '.join(KINDS)}"
        raise ConfigError(f"{place} is {value!r}; {expected}.")
    return Evidence(value[kinds[0]], kinds[0], str(value["words"]))


def _figures(file: Path, facts: Mapping[str, Any]) -> Iterator[Figure]:
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not all(map(content.get, ("source", "address", "tables"))):
        raise ConfigError(f"{file}: a record needs source, address and tables.")
    tables, common = content.pop("tables"), content.pop("fields", {})
    source = Source(file.stem, **content)
    for table, row in ((item, row) for item in tables for row in item["figures"]):
        place, words = (
            f"{file}: {row['model']}",
            row.get("words", table.get("words", "")),
        )
        specific = row.get("fields", {}), table.get("fields", {})
        given = ChainMap(*specific, common, facts.get(table["data"], {}))
        if wrong := {*FIELDS} - {*given} | {*given} - {*FIELDS, *OPTIONAL}:
            raise ConfigError(
                f"{place}: the field {min(wrong)} is missing or does not exist."
            )
        fields = {
            name: _evidence(value, f"{place}: {name}") for name, value in given.items()
        }
        for metric, printed in row["values"].items():
            if not isinstance(printed, str) or printed not in words:
                raise ConfigError(
                    f"{place}: {metric} is {printed!r}, which must be a text in {words!r}."
                )
            what = (
                source,
                table["table"],
                table["data"],
                metric,
                printed,
                words,
                row["model"],
            )
            yield Figure(*what, table.get("scale", 1.0), fields)


@functools.cache
def catalogue(folder: Path | None = None) -> tuple[Figure, ...]:
    """Returns the figures of all files of a folder, by default this one.

    Raises:
        ConfigError: If a record lacks its source, its quotation, a field, or the evidence of a field.
    """
    folder = folder or Path(__file__).parent
    facts = yaml.safe_load((folder / "_data.yaml").read_text(encoding="utf-8"))
    return tuple(
        figure
        for file in sorted(folder.glob("[!_]*.yaml"))
        for figure in _figures(file, facts)
    )


# ---- Values under a convention.


@dataclass(frozen=True)
class Comparable:
    """A figure under a convention: exact, within bounds, or not comparable.

    Attributes:
        value: the value if it is exact; None otherwise.
        bounds: bounds of the value, which include the rounding; None if it is not comparable.
        reasons: why it is not comparable, or how it was converted and what the bounds leave out.
    """

    figure: Figure
    kind: str
    value: float | None
    bounds: Bounds | None
    reasons: tuple[str, ...]


def _obstacles(figure: Figure, metric: str, here: Convention) -> Iterator[str]:
    """Yields what makes a figure another quantity."""
    name, cutoff = parse_metric(metric)
    there = {item: figure.value(item) for item in (*FIELDS, *OPTIONAL)} | {
        "cutoff": figure.cutoff
    }
    expected: dict[str, Any] = {
        "split": "test",
        "cutoff": cutoff or here.default_cutoff,
    }
    for item in _DEFINING.get(name, ("relevance_threshold",)):
        value = here.describe()[
            item
        ]  # labels are whole: a threshold of 0.5 is one of 1
        expected[item] = (
            math.ceil(value)
            if isinstance(value, float)
            else str(value).partition("_")[0]
        )
    # 2^l - 1 = l for the labels 0 and 1, and every discount of the first rank is 1.
    same = {"gain": there["highest_label"] == 1, "discount": there["cutoff"] == 1}
    for item, value in expected.items():
        if there[item] != value and not same.get(item, False):
            yield f"{item} is {there[item] or 'not stated'}, here {value or 'none'}"
    if name not in (here.metrics or {name}) or (
        name in here.binary_metrics and there["highest_label"] != 1
    ):
        yield f"{here.name} does not define {name} on these labels"
    is_ratio = here.aggregation is Aggregation.RATIO_OF_SUMS
    averages = ["ratio_of_sums"] if is_ratio else ["queries", "folds"]
    for item, values in {"filters": [here.filters], "aggregation": averages}.items():
        # Unknown filters are a remark, and a number of removed queries is in the bounds.
        is_open = not isinstance(there[item], str) and values[0] in ("none", "queries")
        if there[item] not in values and not is_open:
            yield f"{item}: {there[item] or 'not stated'}, here {' or '.join(values)}"


def under(figure: Figure, metric: str, convention: Convention) -> Comparable:
    """Returns a figure under a convention, over its own folds.

    Args:
        metric: metric of the value, such as ndcg@10; another cutoff than that of the figure is an obstacle.
    """
    name, get = parse_metric(metric)[0], figure.value
    here, empty, over = convention.of(name), get("no_relevant"), get("aggregation")
    # The numbers of queries are those of the whole test sets, and a ratio of sums has other weights.
    is_plain = (
        here.filters == "none" and here.aggregation is not Aggregation.RATIO_OF_SUMS
    )
    tests = figure.tests if is_plain else []
    known = empty is not None and figure.fields["no_relevant"].kind != "inferred"
    averages = (
        [False] if len(tests) == 1 else [over == "folds"] if over else [False, True]
    )
    values = [NoRelevant(empty)] if known else [*NoRelevant]
    sources = [Averaging(value, average) for value in values for average in averages]
    target = Averaging(here.no_relevant, averages[0])
    removed = get("filters") if isinstance(get("filters"), int) else 0
    zeroed = bool(get("short_lists")) and name == "ndcg" and figure.cutoff != 1
    zeroed = zeroed and not here.zero_if_shorter_than_k
    short = figure.by_fold((get("short") or {}).get(figure.cutoff)) if zeroed else []
    obstacles = [*_obstacles(figure, metric, here)]
    lacks_numbers = (not tests and (removed or sources != [target])) or (
        zeroed and not short
    )
    if lacks_numbers and (is_plain or not obstacles):
        obstacles.append(
            "the numbers of queries, of empty queries or of short lists are unknown"
        )
    if obstacles:
        return Comparable(figure, NOT_COMPARABLE, None, None, tuple(obstacles))

    def bounds(mean: Bounds) -> Bounds:
        if not tests:
            return mean
        whole = [
            conversion.restored(mean, tests, source, removed, short)
            for source in sources
        ]
        of_sources = [
            *map(conversion.converted, whole, repeat(tests), sources, repeat(target))
        ]
        return Bounds(min(of_sources)[0], max(item.high for item in of_sources))

    printed = conversion.rounded(figure.printed, figure.scale)
    point, around = bounds(Bounds(figure.mean, figure.mean)), bounds(printed)
    # Four decimals are those of the tables; 1e-9 is above the rounding errors of float64.
    exact = point.high - point.low < 1e-9 and printed.high - printed.low < 1.01e-4
    ties, filters, word = (
        get("ties") or UNKNOWN,
        get("filters") or UNKNOWN,
        target.empty.value,
    )
    unit = "folds" if target.over_folds else "queries"
    counts = f"{sum(test.empty for test in tests)} of {sum(test.queries for test in tests)} queries"
    remarks = {
        "the value of empty queries is not stated: skip, 0 or 1": not known,
        f"the value of empty queries is {empty}, here {word} ({counts})": known
        and empty != word,
        f"the order of ties is {ties}, here {here.ties.value}; not in the bounds": ties
        != here.ties.value,
        f"removed queries: {filters}{', not in the bounds' * (not removed)}": filters
        != here.filters,
        "chosen on the test set, so too high": get("chosen_on_test"),
        f"the mean is over {over or UNKNOWN}, here over {unit}": averages
        != [target.over_folds],
        f"lists with fewer than {figure.cutoff} documents count 0 ({sum(short)} queries)": zeroed,
    }
    items = (
        "no_relevant",
        "folds",
        "split",
        "filters",
        *_DEFINING.get(name, ("relevance_threshold",)),
    )
    inferred = [item for item in items if figure.fields[item].kind == "inferred"]
    remarks |= {
        f"{item}: {get(item)} is inferred: {figure.fields[item].words}": True
        for item in inferred
    }
    reasons = tuple(text for text, holds in remarks.items() if holds)
    return Comparable(
        figure, EXACT if exact else RANGE, point.low if exact else None, around, reasons
    )


def as_table(items: Sequence[Comparable], convention: str) -> tuple[Table, list[str]]:
    """Returns the figures by metric, the highest first, and the reasons to which the last column refers."""
    items = sorted(
        items,
        key=lambda item: (item.figure.metric, -sum(item.bounds or (0, 0))),
    )
    texts = [*dict.fromkeys(text for item in items for text in item.reasons)]
    rows: list[TableRow] = []
    for figure, item in ((item.figure, item) for item in items):
        value = (
            item.value
            if item.kind != RANGE or item.bounds is None
            else format_interval(*item.bounds)
        )
        folds = str(figure.value("folds") or UNKNOWN).strip("[]")
        why = " ".join(f"{texts.index(text) + 1}" for text in item.reasons)
        printed = figure.printed
        if figure.scale != 1:
            printed += " %"
        of_figure = [figure.metric, figure.source.name, figure.model, folds, printed]
        rows.append([*of_figure, value, item.kind, why])
    names = dict.fromkeys(("metric", "source", "model", "folds", "printed"))
    columns = columns_of({**names, convention: QUALITY, "kind": None, "why": None})
    return Table(columns, rows), [
        f"{number}: {text}." for number, text in enumerate(texts, 1)
    ]
