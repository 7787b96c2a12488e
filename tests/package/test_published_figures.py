# mypy: strict-optional=False
"""Published figures: the catalogue, and their values under a convention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from toy_runs import NUM_QUERIES, mentions

from docs.macros.results import published_figures
from docs.published import FIELDS, Figure, catalogue, under
from docs.published.conversion import (
    Averaging,
    Bounds,
    Counts,
    converted,
    restored,
    rounded,
)
from ltrbench.data import read_letor
from ltrbench.errors import ConfigError
from ltrbench.metrics import has_relevant_document, preset, with_settings
from ltrbench.metrics.conventions import NoRelevant

AVERAGING = st.builds(Averaging, st.sampled_from(NoRelevant), st.booleans())
VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def mean_of(folds: list[list[float]], empty: list[int], averaging: Averaging) -> float:
    """The definition: the mean over folds, or over the queries of all folds, of the values that count."""
    filled = (
        [] if averaging.empty is NoRelevant.SKIP else [averaging.empty.value_of_query]
    )
    values = [
        [*fold, *filled * number] for fold, number in zip(folds, empty, strict=True)
    ]
    groups = (
        values
        if averaging.over_folds
        else [[value for fold in values for value in fold]]
    )
    return fmean(map(fmean, groups))


@given(
    st.lists(VALUES, min_size=1, max_size=4),
    st.data(),
    AVERAGING,
    AVERAGING,
    st.integers(1, 5),
)
def test_the_bounds_of_a_rounded_mean_contain_the_mean_under_any_other_averaging(
    folds: list[list[float]],
    data: st.DataObject,
    source: Averaging,
    target: Averaging,
    decimals: int,
) -> None:
    empty = [data.draw(st.integers(0, 3)) for _ in folds]
    # Some values are set to 0, then some queries are removed.
    zeroed = [data.draw(st.integers(0, len(fold))) for fold in folds]
    removed = [data.draw(st.integers(0, len(fold) - 1)) for fold in folds]
    seen = [
        ([0.0] * n + fold[n:])[m:]
        for fold, n, m in zip(folds, zeroed, removed, strict=True)
    ]
    tests = [
        Counts(len(fold) + number, number)
        for fold, number in zip(folds, empty, strict=True)
    ]
    printed = f"{mean_of(seen, empty, source):.{decimals}f}"
    whole = restored(rounded(printed), tests, source, sum(removed), zeroed)
    found, true = converted(whole, tests, source, target), mean_of(folds, empty, target)
    assert found.low - 1e-9 <= true <= found.high + 1e-9
    if len(folds) == 1:
        known = Bounds(*[mean_of(folds, empty, source)] * 2)
        assert converted(known, tests, source, target) == pytest.approx(
            [true, true], abs=1e-9
        )


def test_every_figure_of_the_catalogue_has_a_source_a_quotation_and_evidence_for_each_field() -> (
    None
):
    # Reading refuses records without them.
    figures = catalogue()
    sources = {(item.source.name, item.data) for item in figures}
    assert min(len(figures) / 40, len(dict(sources)) / 12) >= 1
    assert all({*FIELDS} <= {*item.fields} for item in figures)


def test_counted_numbers_are_those_of_the_files(
    letor_data: Callable[[str], Path],
) -> None:
    files = [
        read_letor(letor_data("MQ2008") / f"Fold{fold}" / "test.txt")
        for fold in range(1, 6)
    ]
    figure = next(
        item
        for item in catalogue()
        if (item.data, item.source.name) == ("mq2008", "letor4")
    )
    assert figure.tests == [
        Counts(file.num_queries, sum(~has_relevant_document(file))) for file in files
    ]
    assert figure.value("short")[10] == [sum(file.query_sizes < 10) for file in files]


def stated(value: object, kind: str = "stated", words: str = "w") -> dict[str, object]:
    return {kind: value, "words": words}


GIVEN = {
    "folds": [1, 2],
    "queries": [NUM_QUERIES] * 2,
    "empty": [1, 1],
    "split": "test",
    "filters": "none",
}
GIVEN |= {
    "gain": "exponential",
    "discount": "logarithmic",
    "ties": "expected",
    "no_relevant": "skip",
}
GIVEN |= {"aggregation": "folds", "chosen_on_test": "no", "version": "1"}
SOURCE = {"source": "S", "address": "https://a.org", "summary": "By them."}


def planted(
    folder: Path, fields: Any = (), value: str = "0.5000", **content: Any
) -> Figure:
    """Returns the only figure of a catalogue in a folder: on folds 1 and 2 of the data set toy."""
    row = {
        "model": "A",
        "words": "0.5000, 0.49",
        "values": {"ndcg@10": value},
    }
    evidence = {name: stated(item) for name, item in GIVEN.items()} | dict(fields)
    table = {"table": "1", "data": "toy", "figures": [row], "fields": evidence}
    folder.mkdir(exist_ok=True)
    (folder / "_data.yaml").write_text("{}")
    (folder / "planted.yaml").write_text(
        yaml.safe_dump({**SOURCE, "tables": [table], **content})
    )
    catalogue.cache_clear()
    return catalogue(folder)[0]


def test_a_record_without_its_source_or_evidence_is_refused(tmp_path: Path) -> None:
    gains = (
        "exponential",
        None,
        stated("exponential", words=""),
        stated("exponential", "guessed"),
    )
    wrong: list[dict[str, Any]] = [{"fields": {"gain": gain}} for gain in gains]
    for changes in (
        *wrong,
        {"address": ""},
        {"value": "0.4999"},
        {"fields": {"gian": stated("linear")}},
    ):
        with pytest.raises(
            ConfigError, match=r"planted.yaml.*(address|0\.4999|gian|gain is .*unknown)"
        ):
            planted(tmp_path, **changes)


NO, NDCG, ONE = "not comparable", "default ndcg@10", "lightgbm ndcg@10"
RATIO, FILTERED = (
    "default,aggregation=ratio_of_sums ndcg@10",
    "default,skip_shorter_than=9 ndcg@10",
)
SHORT = "lists with fewer than 9 documents"
CASES: list[tuple[dict[str, tuple[Any, ...]], str, str, float | None, str]] = [
    ({}, NDCG, "exact", 0.5, ""),
    ({"no_relevant": ("0",)}, ONE, "exact", 0.5 + 1 / NUM_QUERIES, "0, here 1"),
    ({"no_relevant": ("1",)}, NDCG, "exact", 14 / 29, "2 of 60"),
    ({"no_relevant": ("1", "inferred")}, NDCG, "range", None, "1 is inferred"),
    ({"filters": (6,)}, NDCG, "range", None, "removed queries: 6"),
    ({"gain": ("linear",), "highest_label": (1,)}, NDCG, "exact", 0.5, ""),
    (
        {"gain": ("linear",), "filters": ("first 9",)},
        NDCG,
        NO,
        None,
        "exponential. filters: first 9",
    ),
    (
        {"aggregation": ("ratio_of_sums",)},
        NDCG,
        NO,
        None,
        "ratio_of_sums, here queries or folds",
    ),
    ({"aggregation": ("ratio_of_sums",), "folds": ([1],)}, RATIO, "exact", 0.5, ""),
    ({"filters": (6,)}, FILTERED, NO, None, f"6, here {SHORT}"),
    ({"filters": (SHORT,), "folds": ([1],)}, FILTERED, "exact", 0.5, ""),
    (
        {"split": ("validation",)},
        "xgboost map@5",
        NO,
        None,
        "validation, here test. cutoff is 10, here 5",
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_a_figure_is_exact_within_bounds_or_not_comparable_for_a_reason(
    case: Any, tmp_path: Path
) -> None:
    fields, (named, metric) = (
        {name: stated(*item) for name, item in case[0].items()},
        case[1].split(),
    )
    name, *changes = named.split(",")
    convention = with_settings(
        preset(name), dict(change.split("=") for change in changes)
    )
    found = under(planted(tmp_path, fields), metric, convention)
    assert [found.kind, found.value] == [case[2], pytest.approx(case[3])]
    assert mentions(". ".join(found.reasons), case[4])
    # Two decimals are too few to be exact.
    coarse = under(planted(tmp_path, fields, "0.49"), metric, convention)
    assert coarse.kind == (NO if found.kind == NO else "range")


def test_the_page_has_every_figure_with_its_value_and_the_reasons() -> None:
    page = published_figures()
    assert page.count("\n| ") == len(catalogue()) + len(set_of_data())
    assert mentions(page, "0.527371", "0.5128", "189 of 6306")
    for figure in catalogue():
        assert f"({figure.source.address})" in page


def set_of_data() -> set[str]:
    return {figure.data for figure in catalogue()}
