"""Tables: written tables restore the data, cells are those of the file, and errors name the cell."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shlex
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
from composed_jobs import composed
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from toy_runs import mentions

import ltrbench
from ltrbench.cli.console import typed_options
from ltrbench.data import RankingDataset
from ltrbench.data.dataset import ROLE_OF_NAME, as_written
from ltrbench.data.letor import read_letor
from ltrbench.data.store import read_store, write_store
from ltrbench.data.tables import (
    days_of,
    read_table,
    read_table_features,
    write_frame,
    write_table,
)
from ltrbench.errors import ConfigError, DataError
from ltrbench.experiment import run
from ltrbench.rankers.native import NativeRanker

DATES = pd.date_range("2026-01-31", periods=3)


@pytest.fixture
def dataset() -> RankingDataset:
    """Five documents of two queries, with a missing value, weights, positions and odd ids."""
    return RankingDataset(
        features=np.array(
            [[0.1, 1], [np.nan, 2], [1 / 3, 3], [4e-30, 4], [0, 5]], np.float32
        ),
        labels=np.array([0.0, 2.0, 1.0, 0.0, 1.0]),
        query_start=np.array([0, 2, 5]),
        query_ids=np.array(["007", "NA"]),
        document_ids=np.array(["", "a\rb", 'say "x", a\nb', " padded ", "1e3"]),
        document_weights=np.array([1.0, 0.5, 2.0, 2.0, 1.0]),
        positions=np.array([1, 2, 1, 2, 3]),
        feature_names=("bm25", "clicks"),
    )


def frame(**columns: list[object]) -> pd.DataFrame:
    """Returns three rows of two queries with one feature; `columns` replaces or adds columns."""
    base: dict[str, list[object]] = {
        "label": [0, 1, 2],
        "query_id": [1, 1, 2],
        "bm25": [0.5, 1.5, 2.5],
    }
    return pd.DataFrame({**base, **columns})


@pytest.mark.parametrize(
    "ending", ["csv", "csv.gz", "csv.bz2", "csv.xz", "csv.zst", "parquet", None]
)
def test_what_is_written_is_read_back(
    dataset: RankingDataset, tmp_path: Path, ending: str | None
) -> None:
    table = dataset.to_frame()
    known = ["query_id", "document_id", "label", "weight", "position"]
    assert table.columns.tolist() == [*known, "bm25", "clicks"]
    write_table(dataset, tmp_path / f"table.{ending}")
    read: Any = read_table(table if ending is None else tmp_path / f"table.{ending}")
    assert read.fingerprint == dataset.fingerprint
    assert read.feature_names == dataset.feature_names
    assert read.document_ids.tolist() == dataset.document_ids.tolist()  # type: ignore[union-attr]


SHOP: dict[str, Any] = {
    "brand": ["b", None, "a"],
    "size": pd.Categorical(["L", "S", "L"], categories=["S", "M", "L"]),
    "shop": [10.0, np.nan, 9.0],
    "sold": [True, False, True],
    "revenue": [2.5, np.nan, 0.0],
    "title": ["lamp, red", None, "ü"],
}
CATEGORIES = {
    "brand": ("a", "b"),
    "size": ("S", "L"),
    "shop": ("9", "10"),
    "sold": ("false", "true"),
}


@pytest.mark.parametrize("ending", ["csv", "parquet", None])
def test_categories_are_codes_and_kept_columns_go_with_their_rows(
    tmp_path: Path, ending: str | None
) -> None:
    table = frame(query_id=["red lamp", "b", "red lamp"], junk=["?"] * 3, **SHOP)
    options: Any = {
        "keep": ["revenue", "title"],
        "ignore": ["j*"],
        "sort_queries": True,
    }
    dataset = RankingDataset.from_frame(
        table, categorical=["brand", "s[hio]*"], **options
    )
    assert dataset.feature_names == ("bm25", *CATEGORIES)
    assert dataset.categories == CATEGORIES
    assert dataset.categorical_features == (1, 2, 3, 4)
    np.testing.assert_array_equal(
        dataset.features[:, 1:], [[1, 1, 1, 1], [0, 1, 0, 1], [np.nan, 0, np.nan, 0]]
    )
    assert dataset.column("brand").tolist() == ["b", "a", ""]
    np.testing.assert_array_equal(dataset.column("revenue"), [2.5, 0.0, np.nan])
    assert dataset.column("title").tolist() == ["lamp, red", "ü", ""]
    written = tmp_path / f"table.{ending}"
    write_table(dataset, written)
    source = dataset.to_frame() if ending is None else written
    del options["ignore"]
    read = read_table(source, categories=dataset.categories, **options)
    assert read.fingerprint == dataset.fingerprint
    assert ending is None or read_table(
        source, categorical=list(CATEGORIES), **options
    ).categories == (
        CATEGORIES if ending == "parquet" else {**CATEGORIES, "size": ("L", "S")}
    )


def test_other_splits_have_the_codes_of_training_and_new_categories_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options: Any = {
        "feature_names": ("brand", "bm25"),
        "categories": {"brand": ("b", "a")},
    }
    table = frame(brand=["new", "a", "b"])
    options["categorical"] = ["bm25"]  # changes nothing that training has defined
    for features in (
        read_table(table, **options).features,
        read_table_features(table, **options),
    ):
        np.testing.assert_array_equal(features[:, 0], [np.nan, 1, 0])
    assert caplog.text.count("brand in 1 documents") == 2


def test_pandas_categories_are_categories_in_parquet_as_well(tmp_path: Path) -> None:
    table = frame().assign(
        size=pd.Categorical([9, 10, None]),
        new=pd.Categorical([True, False, True]),
        brand=pd.Categorical(["b", "a", None], categories=["b", "a"]),
    )
    write_frame(table, tmp_path / "t.parquet")
    (tmp_path / "parts.parquet").mkdir()
    write_frame(table, tmp_path / "parts.parquet/part-0.parquet")
    expected = read_table(table)
    assert [*expected.categories] == ["size", "new", "brand"]
    for name in ("t.parquet", "parts.parquet"):
        assert read_table(tmp_path / name).fingerprint == expected.fingerprint


@pytest.mark.parametrize("option", ["categorical", "keep"])
def test_bytes_are_refused_because_their_text_is_not_known(
    tmp_path: Path, option: str
) -> None:
    options: Any = {option: ["brand"]}
    table = frame(brand=["a", b"b", None])
    with pytest.raises(DataError, match=naming("row 2", "brand", "b'b'", "decode")):
        read_table(table, **options)
    write_frame(frame(brand=[b"a", None, b"b"]), tmp_path / "t.parquet")
    named = naming("t.parquet: row 1", "brand", "b'a'", "decode")
    with pytest.raises(DataError, match=named):
        read_table(tmp_path / "t.parquet", **options)


def test_columns_can_have_other_names_and_the_rest_are_features() -> None:
    renamed = frame().rename(columns={"label": "grade", "query_id": "session"})
    read = read_table(renamed, label="grade", query="session")
    assert read.feature_names == ("bm25",)
    assert read.query_ids.tolist() == ["1", "2"]
    assert (
        read_table(frame().rename(columns={"query_id": "qid"})).fingerprint
        == read.fingerprint
    )


def test_listed_features_are_taken_in_their_order_and_the_others_left() -> None:
    read = read_table(
        frame(url=["x", "y", "z"], clicks=[7, 8, 9]), features=["clicks", "bm25"]
    )
    assert read.feature_names == ("clicks", "bm25")
    assert read.features.tolist() == [[7, 0.5], [8, 1.5], [9, 2.5]]


def test_kept_ids_stay_ids_and_a_kept_column_without_values_is_missing() -> None:
    read = read_table(
        frame(document_id=[7, 8, 9], revenue=[None] * 3),
        keep=["document_id", "revenue"],
    )
    assert read.column("document_id").tolist() == ["7", "8", "9"]
    np.testing.assert_array_equal(read.numbers("revenue"), [np.nan] * 3)
    assert read.document_ids is not None


EXACT: dict[str, Any] = {
    "product": [2**60, 2**60 + 1, 2**60 + 2],
    "sku": ["00", "01", "007"],
    "price": [1.5, np.nan, 2.0],
    "new": [True, False, True],
    "stock": pd.array([2**60 + 1, None, 7], dtype="Int64"),
}
WORDS = ["NA", "None", "1", "1.0", "True", "true", "-", None]


@pytest.mark.parametrize("ending", ["csv", "parquet", None])
def test_kept_columns_and_categories_are_read_as_they_are_written(
    tmp_path: Path, ending: str | None
) -> None:
    table: Any = frame(**EXACT)
    if ending is not None:
        write_frame(table, tmp_path / f"t.{ending}")
        table = tmp_path / f"t.{ending}"
    dataset = read_table(table, keep=[*EXACT])
    assert as_written(dataset.kept["product"]) == [*map(str, EXACT["product"])]
    assert dataset.kept["sku"].tolist() == EXACT["sku"]
    assert dataset.kept["stock"].tolist() == [str(2**60 + 1), "", "7"]
    np.testing.assert_array_equal(dataset.numbers("price"), EXACT["price"])
    np.testing.assert_array_equal(dataset.numbers("new"), [1, 0, 1])
    assert not dataset.has_numbers("product")
    assert not dataset.has_numbers("sku")
    assert dataset.has_numbers("price")
    assert dataset.fingerprint == read_table(frame(**EXACT), keep=[*EXACT]).fingerprint
    for number, written in enumerate([tmp_path / "o.csv", tmp_path / "o.parquet"]):
        kept = {name: dataset.kept[name] for name in EXACT}
        write_frame(frame(**kept), written)  # type: ignore[arg-type]
        again = read_table(written, keep=[*EXACT])
        assert again.fingerprint == dataset.fingerprint, number
    write_store(tmp_path / "store", dataset)
    assert read_store(tmp_path / "store").kept["product"].dtype == (
        dataset.kept["product"].dtype
    )
    codes = read_table(table, categorical=["product", "stock"])
    assert codes.categories["product"] == tuple(map(str, EXACT["product"]))
    assert codes.categories["stock"] == ("7", str(2**60 + 1))


@pytest.mark.parametrize("ending", ["csv", "parquet", None])
def test_words_are_categories_where_nulls_are_real_and_a_choice_in_csv(
    tmp_path: Path, ending: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    table: Any = pd.DataFrame(
        {"label": 0, "query_id": range(8), "a": 0.5, "brand": WORDS}
    )
    if ending is not None:
        write_frame(table, tmp_path / f"t.{ending}")
        table = tmp_path / f"t.{ending}"
    every = {*WORDS} - {None}
    read = read_table(table, categorical=["brand"], missing=[])
    assert {*read.categories["brand"]} == every
    assert np.isnan(read.features[:, 1]).tolist() == [word is None for word in WORDS]
    assert not caplog.text
    by_default = {*read_table(table, categorical=["brand"]).categories["brand"]}
    by_choice = read_table(table, categorical=["brand"], missing=["-", "true"])
    if ending == "csv":
        assert by_default == every - {"NA", "None"}
        assert {*by_choice.categories["brand"]} == every - {"-", "true", "True"}
        assert re.search(naming("t.csv", "brand", "'NA'", "2 rows"), caplog.text)
    else:
        assert by_default == {*by_choice.categories["brand"]} == every
    later = read_table(
        table,
        categories=read.categories,
        feature_names=read.feature_names,
        missing=["NA", "1"],
    )
    np.testing.assert_array_equal(later.features, read.features)


@pytest.mark.parametrize("dtype", [np.int64, np.float64, "Int64"])
@pytest.mark.parametrize("ending", ["csv", "parquet", None])
def test_a_number_that_is_a_missing_value_is_one_in_features_of_every_table(
    tmp_path: Path, ending: str | None, dtype: Any
) -> None:
    columns = {
        "label": [0, 1, 0],
        "query_id": [0, 0, 1],
        "document_id": [0, 1, 0],
        "weight": [0, 1, 1],
        "price": [0, 5, 2],
        "day": [0, 1767225600, 1767312000],
        "shop": [0, 7, 8],
    }
    table: Any = pd.DataFrame(columns).astype({"price": dtype, "shop": dtype})
    table["rate"] = np.array([-999.9, 0.5, 0.1], np.float32)
    if ending is not None:
        write_frame(table, tmp_path / f"t.{ending}")
        table = tmp_path / f"t.{ending}"
    missing = ["NA", "0.0", "-999.9"]
    read = read_table(table, categorical=["shop"], dates=["day"], missing=missing)
    expected = np.zeros((3, 4), dtype=np.bool_)
    expected[0] = True
    np.testing.assert_array_equal(np.isnan(read.features), expected)
    assert read.labels.tolist() == columns["label"]
    assert read.query_ids.tolist() == ["0", "1"]
    assert read.document_ids is not None
    assert read.document_ids.tolist() == ["0", "1", "0"]
    with_category = read_table(table, features=[], categorical=["shop"], missing=[])
    categories = with_category.categories
    later = read_table(
        table,
        feature_names=["shop"],
        features=[],
        categories=categories,
        missing=missing,
    )
    assert later.features.tolist() == [[0], [1], [2]]


@pytest.mark.parametrize("training", ["csv", "parquet"])
def test_a_boolean_category_is_the_same_in_tables_that_spell_it_in_another_way(
    tmp_path: Path, training: str
) -> None:
    table = frame(new=[True, False, True], sale=[False, True, True])
    sources: list[Any] = [table, table.assign(new=["TRUE", "FALSE", "TRUE"])]
    for ending in ("csv", "parquet"):
        sources.append(tmp_path / f"t.{ending}")
        write_frame(table, sources[-1])
    options: Any = {"categorical": ["new"], "encode": ["sale"]}
    train = read_table(tmp_path / f"t.{training}", **options)
    for source in sources:
        features = read_table_features(
            source,
            feature_names=train.feature_names,
            categories=train.categories,
            encode=train.encoded,
        )
        np.testing.assert_array_equal(features, train.features)


@pytest.mark.parametrize(
    "columns",
    [
        {"query_id": [2.0**60, 2.0**60, 1.0]},
        {"query_id": [2.0**53, 2.0**53, 1.0]},
        {"document_id": np.array([2**24 + 1, 1, 2], np.float32)},
        {"brand": [2.0**53, 1.0, np.nan]},
        {"product": [2.0**60, np.nan, 1.0]},
    ],
)
def test_floats_that_stand_for_several_whole_numbers_are_refused(
    columns: dict[str, Any], tmp_path: Path
) -> None:
    table = frame(**columns)
    options: Any = {
        "categorical": [*{"brand"} & {*columns}],
        "keep": [*{"product"} & {*columns}],
    }
    table.to_parquet(tmp_path / "t.parquet")
    table.to_csv(tmp_path / "t.csv", index=False)
    sources: dict[str, Any] = {
        "row 1:": table,
        "t.parquet: row 1": tmp_path / "t.parquet",
    }
    # CSV has no float32, and kept columns are numbers such as revenues, too.
    if {"query_id", "brand"} & {*columns}:
        sources["t.csv:2:"] = tmp_path / "t.csv"
    for place, source in sources.items():
        with pytest.raises(
            DataError, match=naming(place, *columns, "integers", "Int64")
        ):
            read_table(source, **options)
    with pytest.raises(DataError, match=naming("query_ids[1]", "2^53")):
        RankingDataset(
            features=np.zeros((2, 1), dtype=np.float32),
            labels=np.zeros(2),
            query_start=np.arange(3),
            query_ids=np.array([1.0, 2.0**53]),
        )


@pytest.mark.parametrize("other", ["1\u00a0", "1 ", "\u200b1", "\ufeff1"])
def test_ids_that_look_the_same_are_refused_by_every_reader(
    tmp_path: Path, other: str
) -> None:
    table = frame(query_id=["1", other, other])
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    parts = ("query", repr(other), "query '1'", "differs", "Remove")
    for source in (table, tmp_path / "t.csv", tmp_path / "t.parquet"):
        with pytest.raises(DataError, match=naming(*parts)):
            read_table(source)
    if " " not in other:
        lines = [f"{label} qid:{each} 1:1\n" for label, each in enumerate(["1", other])]
        (tmp_path / "t.txt").write_text("".join(lines), encoding="utf-8")
        with pytest.raises(DataError, match=naming("t.txt:2", *parts)):
            read_letor(tmp_path / "t.txt")


FORMS: dict[str, Any] = {
    "digits": [20260103, 20260105, 20260201],
    "iso": ["2026-01-03", "2026-01-05", "2026-02-01"],
    "digits beside a missing cell": ["20260103.0", "20260105.0", "20260201.0"],
    "seconds": [1767398400, 1767571200, 1769904000],
    "milliseconds": ["1767398400000", "1767571200000.0", "1769904000000"],
    "typed": pd.to_datetime(["2026-01-03", "2026-01-05", "2026-02-01"]),
    "arrow": pd.array(  # type: ignore[call-overload]
        [date(2026, 1, 3), date(2026, 1, 5), date(2026, 2, 1)],
        dtype=pd.ArrowDtype(pyarrow.date32()),
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ending", ["csv", "parquet", None])
def test_dates_are_days_since_the_first_day_of_training_everywhere(
    tmp_path: Path, form: str, ending: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    def stored(table: pd.DataFrame, name: str) -> Any:
        path = tmp_path / f"{name}.{ending}"
        if ending is not None:
            write_frame(table, path)
        return table if ending is None else path

    train = stored(frame(published=FORMS[form]), "train")
    later = stored(frame(published=[*FORMS[form]][::-1]), "later")
    dataset = read_table(train, dates=["pub*"])
    assert dataset.dates == {"published": "2026-01-03"}
    assert dataset.features[:, 1].tolist() == [0, 2, 29]
    assert not caplog.text
    test = read_table(later, feature_names=dataset.feature_names, dates=dataset.dates)
    assert test.features[:, 1].tolist() == [29, 2, 0]
    # The earliest day of other rows does not count.
    row = frame(published=FORMS[form])[1:]
    assert read_table(row, dates=dataset.dates).features[0, 1] == 2
    with pytest.raises(ConfigError, match=naming("dates", "train.dates")):
        read_table(later, feature_names=dataset.feature_names, dates=["published"])
    write_store(tmp_path / "store", dataset)
    assert read_store(tmp_path / "store", dates=dataset.dates).dates == dataset.dates
    with pytest.raises(DataError, match=naming("2026-01-03", "--read", "2026-01-01")):
        read_store(tmp_path / "store", dates={"published": "2026-01-01"})
    ranker = NativeRanker(num_trees=2, min_docs_in_leaf=1).fit(dataset)
    ranker.save(tmp_path / "model")
    loaded = NativeRanker.load(tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.predict(row), ranker.predict(dataset.features[1:])
    )
    assert days_of([FORMS[form][2]], "2026-01-03", "published").tolist() == [29]


def test_a_cell_that_is_no_date_is_named() -> None:
    options: Any = {"dates": ["published"]}
    with pytest.raises(DataError, match=naming("row 2", "'soon'", "2026-01-31")):
        read_table(frame(published=["2026-01-01", "soon", None]), **options)
    refused: list[list[object]] = [
        [2026013110, 2026013111, 2026020123],
        ["2026013110.0", "2026013111.0", None],
        [202601311030, 202601311031, 202601311032],
        [999999999999, 999999999999, 999999999999],
    ]
    for cells in refused:
        named = naming("row 1", "published", "2026-01-31T10:30", "13 digits")
        with pytest.raises(DataError, match=named):
            read_table(frame(published=cells), **options)
    # Seconds, of which one alone could be a date with an hour.
    seconds = frame(published=[1902010112, 1902096512, 1902182912])
    assert read_table(seconds, **options).dates == {"published": "2030-04-10"}
    read = read_table(frame(published=["2026-01-01", None, "NA"]), **options)
    assert np.isnan(read.features[1:, 1]).all()
    with pytest.raises(ConfigError, match=naming("published", "'monday'")):
        read_table(frame(published=FORMS["iso"]), dates={"published": "monday"})


def test_scattered_queries_are_refused_or_brought_together_in_the_order_of_their_rows() -> (
    None
):
    scattered = frame(query_id=["b", "a", "b"])
    with pytest.raises(
        DataError,
        match=naming("row 3:", "query 'b'", "row 1.", "data.sort_queries=true"),
    ):
        read_table(scattered)
    read = read_table(scattered, sort_queries=True)
    assert read.query_ids.tolist() == ["b", "a"]
    assert read.labels.tolist() == [0, 2, 1]
    assert read.file_rows is not None
    assert read.file_rows.tolist() == [0, 2, 1]
    assert read_table(frame(), sort_queries=True).file_rows is None


@pytest.mark.parametrize("absent", [["label", "query_id"], []], ids=str)
def test_features_alone_need_no_label_and_no_query(absent: list[str]) -> None:
    table = frame(clicks=[7, 8, 9], query_id=["b", "a", "b"]).drop(columns=absent)
    read = read_table_features(table, 2, feature_names=["clicks", "bm25"])
    assert read.dtype == np.float32
    assert read.tolist() == [[7, 0.5], [8, 1.5], [9, 2.5]]


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"label": [0, np.nan, 1]}, ["row 2:", "nan", "'label'", "remove documents"]),
        ({"label": [0, 1, -1]}, ["row 3:", -1, "'label'", "0 or more"]),
        ({"label": [np.inf, 1, 1]}, ["row 1:", "inf", "'label'", "finite"]),
        (
            {"label": [0, 1, 2], "brand": ["a", ["b"], None]},
            ["row 2:", "'brand'", "['b']", "a text"],
        ),
        (
            {"bm25": [0, "x", 1]},
            ["row 2:", "'bm25'", "'x'", "not a number", "data.categorical", "split_by"],
        ),
        ({"bm25": [1e39, 1, 0]}, ["row 1:", "'bm25'", "1e+39", "float32", "Rescale"]),
        (
            {"query_id": [1, None, 2]},
            ["row 2:", "'query_id'", "nan", "an id", "remove the row"],
        ),
        ({"query_id": list(DATES)}, ["row 1:", "'query_id'", "2026-01-31", "as text"]),
        ({"weight": [1, -1, 1]}, ["row 2:", -1, "'weight'", "0 or more"]),
        ({"weight": [1, 1, 0]}, ["query_weights[1]", "remove query '2'"]),
        ({"position": [1, 1.5, 2]}, ["row 2:", 1.5, "'position'", "rank"]),
        ({"grade": [0, 1, 2]}, ["'label'", "feature", "Remove", "list the features"]),
    ],
)
def test_a_wrong_value_is_named_with_its_row_and_column(
    columns: dict[str, list[object]], parts: list[object]
) -> None:
    label = "grade" if "grade" in columns else None
    with pytest.raises(DataError, match=naming(*parts)):
        read_table(
            frame(**columns),
            label=label,
            whole_labels=True,
            categorical=[*{"brand"} & {*columns}],
        )


@pytest.mark.parametrize(
    ("dropped", "options", "parts"),
    [
        (
            "label",
            {},
            ["'label' or 'relevance'", "label=COLUMN", "predict", "read_features"],
        ),
        (
            "query_id",
            {},
            ["'query_id' or 'qid'", "data.query=COLUMN", "'label', 'bm25'"],
        ),
        ("", {"label": "lable"}, ["lable", "'label'?", "'query_id'"]),
        ("", {"features": ["bm25"], "group_by": "bm25"}, ["'bm25'", "role"]),
        ("", {"feature_names": ("bm52",)}, ["'bm52'", "'bm25'?"]),
        ("", {"feature_names": ("bm25", "clicks")}, ["'clicks'", "Add it"]),
        ("", {"num_features": 3}, ["1 feature columns", "3 were expected"]),
        ("", {"sort_queries": "no"}, ["sort_queries is 'no'", "must be"]),
        ("", {"features": ["bm5*"]}, ["'bm5*'", "feature"]),
        ("", {"keep": ["revenu"]}, ["'revenu'", "data.keep"]),
        (
            "",
            {"keep": ["bm25"], "features": ["bm25"]},
            ["'bm25'", "features", "keep", "Remove"],
        ),
        (
            "",
            {"categories": "train.store"},
            ["categories is 'train.store'", "a mapping"],
        ),
        ("", {"categorical": ["brand"]}, ["'brand'", "data.categorical"]),
        ("", {"ignore": "bm25"}, ["ignore is 'bm25'", "a list"]),
    ],
)
def test_a_column_or_an_option_that_does_not_fit_is_named(
    dropped: str, options: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises((DataError, ConfigError), match=naming(*parts)):
        read_table(frame().drop(columns=dropped or []), **options)


def test_a_column_that_training_does_not_have_is_named_also_for_features_alone() -> (
    None
):
    # The option replaces the columns that are ignored already.
    remedy = "--read 'ignore=[size,url]'"
    with pytest.raises(DataError, match=naming("columns url", remedy, "data.features")):
        read_table_features(
            frame(url=[1, 2, 3], size=[1, 2, 3]),
            feature_names=["bm25"],
            ignore=["size"],
        )
    of_index = naming("column 4", "''", "index=False")
    with pytest.raises(DataError, match=of_index):
        read_table_features(frame().assign(**{"": 0}), feature_names=["bm25"])
    # A column by which queries are split is no feature, and need not be there.
    for table in (frame(day=["2026-01-01"] * 3), frame()):
        assert read_table_features(
            table, split_by="day", feature_names=["bm25"]
        ).shape == (3, 1)


@pytest.mark.parametrize("names", [["a,b", "it's"], ['5" screen']])
def test_the_option_that_a_message_names_leaves_the_columns_out(
    names: list[str],
) -> None:
    table = frame().assign(**dict.fromkeys(names, 1))
    option = f"ignore={json.dumps(names)}"
    with pytest.raises(DataError, match=naming(f"--read {shlex.quote(option)}")):
        read_table_features(table, feature_names=["bm25"])
    options = typed_options([option])
    read = read_table_features(table, feature_names=["bm25"], **options)
    assert read.shape == (3, 1)


@pytest.mark.parametrize(
    ("further", "parts"),
    [
        ("relevance", ["label and relevance", "label=COLUMN"]),
        ("", ["column 4", "''", "index=False"]),
        ("Unnamed: 0", ["column 4", "'Unnamed: 0'", "index=False"]),
    ],
)
def test_a_column_that_hardly_is_a_feature_is_no_feature_unless_it_is_listed(
    further: str, parts: list[str]
) -> None:
    table = frame().assign(**{further: [2, 1, 0]})
    with pytest.raises(DataError, match=naming(*parts)):
        read_table(table)
    assert read_table(table, features=["bm25", further]).feature_names == (
        "bm25",
        further,
    )


@pytest.mark.parametrize("source", [np.zeros((2, 3)), [[1, 2]], {"a": [1]}, None])
@pytest.mark.parametrize(
    "read", [RankingDataset.from_frame, read_table_features, ltrbench.auto]
)
def test_data_that_are_no_table_are_named_with_their_type(
    source: Any, read: Callable[[Any], object]
) -> None:
    with pytest.raises(DataError, match=naming(type(source).__name__, "DataFrame")):
        read(source)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_file_that_is_no_table_is_named(tmp_path: Path, name: str) -> None:
    for content in (b"", b"\x00\xff\xfe\x80junk"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=name):
            read_table(tmp_path / name)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_of_a_split_that_lacks_a_column_is_named(
    tmp_path: Path, ending: str
) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in ("first", "other")]
    write_frame(frame(a=[1, 2, 3]), paths[0])
    write_frame(frame(b=[1, 2, 3]), paths[1])
    with pytest.raises(DataError, match=naming(f"other.{ending}:", "'a'", "first")):
        read_table(paths)
    with pytest.raises(DataError, match=naming(f"first.{ending}:", "'b'", "other")):
        read_table(paths, ignore=["a"])
    (tmp_path / "empty.parquet").mkdir()
    with pytest.raises(DataError, match=naming("empty.parquet:", "'label'")):
        read_table(tmp_path / "empty.parquet")


ADDED: dict[str, Any] = {
    "z": ([1, 2, 3], {}),
    "weight": ([1, 2, 3], {"features": ["bm25"]}),
    "position": ([1, 2, 3], {"features": ["bm25"]}),
    "document_id": (["u", "v", "w"], {}),
    "price": ([1, 2, 3], {"features": ["bm25"], "keep": ["p*"]}),
}
"""Column of the second file of a split -> its cells, and options with which it would be read."""


@pytest.mark.parametrize("column", ADDED)
@pytest.mark.parametrize("form", ["csv", "parquet", "folder"])
def test_a_column_that_only_one_file_of_a_split_has_is_refused_in_any_order(
    tmp_path: Path, form: str, column: str
) -> None:
    cells, options = ADDED[column]
    plain = frame()
    wide = plain.assign(**{column: cells}, query_id=3)
    for tables in ([plain, wide], [wide, plain]):
        source = files_or_parts(tmp_path, form, tables)
        with pytest.raises(DataError, match=naming(f"'{column}'", "data.ignore")):
            read_table(source, **options)
        ignored: dict[str, Any] = {"features": ["bm25"]}
        if column in ROLE_OF_NAME:
            ignored = {"ignore": [column]}
        assert read_table(source, **ignored).feature_names == ("bm25",)
        if column in ROLE_OF_NAME:
            assert read_table_features(source).shape == (6, 1)


def test_the_names_of_folders_in_a_parquet_folder_are_columns(tmp_path: Path) -> None:
    folder = tmp_path / "t.parquet"
    table = frame(market=["de", "de", "fr"], year=[2025, 2026, 2026])
    table.to_parquet(folder, partition_cols=["market", "year"])
    data = read_table(folder, keep=["year"], categorical=["market"])
    assert data.features.tolist() == [[0.5, 0], [1.5, 0], [2.5, 1]]
    assert data.kept["year"].tolist() == ["2025", "2026", "2026"]
    (part,) = (folder / "market=fr" / "year=2026").iterdir()
    pd.read_parquet(
        part, columns=["label", "query_id", "bm25"], partitioning=None
    ).assign(price=1.0).to_parquet(part)
    with pytest.raises(DataError, match=naming("market=de", "'price'", "data.ignore")):
        read_table(folder)
    narrow = read_table(folder, ignore=["price"], keep=["year"])
    assert narrow.features.tolist() == data.features.tolist()


def files_or_parts(folder: Path, form: str, tables: list[pd.DataFrame]) -> Any:
    """Returns the paths of several files, or the path of a folder of parts."""
    ending = "csv" if form == "csv" else "parquet"
    paths = [folder / f"t.parquet/{number}.{ending}" for number in range(len(tables))]
    paths[0].parent.mkdir(exist_ok=True)
    for path, table in zip(paths, tables, strict=True):
        write_frame(table, path)
    return paths[0].parent if form == "folder" else paths


@pytest.mark.slow
def test_the_remedy_for_fractional_labels_trains_a_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"query_id": np.arange(100) // 5, "a": rng.random(100)})
    write_frame(table.assign(label=table.a * 3 + 0.1), tmp_path / "t.csv")
    with pytest.raises(DataError, match=naming("t.csv:2", *FRACTIONS_WORDS)) as caught:
        read_table(tmp_path / "t.csv", whole_labels=True)
    data = ["data=table", f"data.train={tmp_path / 't.csv'}", "importance=none"]
    words = {"linear": FRACTIONS_WORDS[:3]}
    for model in ("native", "lightgbm", "xgboost", "mlp"):
        words[model] = [*FRACTIONS_WORDS, "params.num_trees=2"]
        assert mentions(str(caught.value), model)
    for model, of_model in words.items():
        experiment = composed(f"model={model}", *of_model, *data)
        assert run(experiment, tmp_path / model).result.status == "finished"


FRACTIONS_WORDS = [
    "data.whole_labels=false",
    "metrics=[map,mrr]",
    "early_stopping.metric=map",
    "model/objective=lambdarank",
    "model.objective.gain=linear",
]


@pytest.mark.parametrize(
    ("cells", "place", "odd"),
    [
        ([0.5, 1.5, "-"], "row 3:", "'-'"),
        (["a", "b", 3.5], "row 3:", "3.5"),
        ([None, 1j, 2j], "row 2:", "1j"),
    ],
)
def test_a_cell_that_parquet_cannot_hold_is_named(
    tmp_path: Path, cells: list[object], place: str, odd: str
) -> None:
    table = pd.DataFrame({"a": [1, 2, 3], "b": pd.Series(cells, dtype=object)})
    with pytest.raises(DataError, match=naming(place, "'b'", odd, "Convert")):
        write_frame(table, tmp_path / "t.parquet")
    assert not [*tmp_path.iterdir()]


# CSV


MISTAKES: list[tuple[str, list[Any]]] = [
    (
        "label,query_id,a\n1,7,3,0.5\n0,7,5,0.1\n",
        [":", "3 columns", "1,7,3,0.5", "as many cells"],
    ),
    (
        "label;query_id;a\n1;q;1\n",
        [":", "'label;query_id;a'", "commas", "';'"],
    ),
    ("label|query_id\n1,5|q\n", [":", "'label|query_id'", "commas", "'|'"]),
    ("label|query_id\n1\n", [":", "'label' or 'relevance'", "data.label"]),
    ("\n\nlabel,query_id,a\n\n1,q,1\n\n-1,q,2\n", [":7:", -1, "'label'", "0 or more"]),
    ('label,query_id,a\n1,"x\ny",1\n-1,q,2\n', [":4:", -1, "'label'"]),
    (
        "label,query_id,a\n1,q,1\ngood,q,2\n",
        [":3:", "'label'", "'good'", "not a number"],
    ),
    (
        "label,query_id,a\n" + "1,q,0.5\n" * 30 + "1,q,-\n",
        [":32:", "'a'", "'-'", "data.missing=['-']", "data.categorical"],
    ),
    ("label,query_id,a\n1,q,-inf\n", [":2:", "'a'", "-inf", "Rescale"]),
    (f"label,query_id,a\n1,q,{'9' * 400}\n", [":2:", "'a'", "inf", "Rescale"]),
    ('label,query_id,a\n1,"q,1\n', [":", "cannot be read"]),
    ("", [":", "empty", "copied completely"]),
    ("label,query_id,a\n", [":", "no rows", "at least one"]),
]


@pytest.mark.parametrize(("text", "parts"), MISTAKES)
def test_a_mistake_in_a_csv_file_is_named_with_its_line(
    tmp_path: Path, text: str, parts: list[Any]
) -> None:
    place, *others = parts
    path = tmp_path / "train.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=naming(*others)) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path}{place}")


NUMBERS = {
    "0": 0,
    "-0.5": -0.5,
    "1e3": 1000,
    ".5": 0.5,
    "5.": 5,
    "": np.nan,
    "NA": np.nan,
    "nan": np.nan,
    "true": 1,
    "FALSE": 0,
    "+1": 1,
    " 7 ": 7,
    "1e-400": 0,
    "0.1": 0.1,
    "16777217": 16777217,
}
LABELS = ["0", "1", "4.0", " 3", "0.30000000000000004", "1e-310"]
IDS = [
    "7",
    "007",
    "7.0",
    "a",
    "q x",
    "1e3",
    "NA",
    "a,b",
    'say "x"',
    "two\nlines",
    "é",
    "2026-01-01",
]
COLUMNS: dict[str, list[str]] = {
    "label": LABELS,
    "query_id": IDS,
    "docid": ["", *IDS],
    "a": list(NUMBERS),
    "b": list(NUMBERS),
}


@given(
    rows=st.lists(
        st.tuples(*map(st.sampled_from, COLUMNS.values())), min_size=1, max_size=8
    ),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    blank=st.booleans(),
    packed=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_every_cell_of_a_csv_file_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, ...]],
    end: str,
    quoting: Any,
    blank: bool,
    packed: bool,
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=end * 2 if blank else end, quoting=quoting)
    writer.writerows([tuple(COLUMNS), *rows])
    path = tmp_path_factory.mktemp("csv") / f"t.csv{'.gz' if packed else ''}"
    content = f"\ufeff{text.getvalue()}".encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    read = read_table(path, sort_queries=True)
    order = np.arange(len(rows)) if read.file_rows is None else read.file_rows
    columns = dict(
        zip(COLUMNS, zip(*(rows[row] for row in order), strict=True), strict=True)
    )
    assert read.query_ids[read.query_of_document].tolist() == list(columns["query_id"])
    assert read.document_ids is not None
    assert read.document_ids.tolist() == list(columns["docid"])
    assert read.labels.tolist() == [float(cell) for cell in columns["label"]]
    expected = np.array(
        [[NUMBERS[cell] for cell in columns[name]] for name in "ab"], np.float32
    ).T
    np.testing.assert_array_equal(np.asarray(read.features), expected)


@pytest.mark.parametrize("encode", ["onehot", ["size", "sold"]])
def test_categories_are_one_hot_features_everywhere(
    encode: Any, tmp_path: Path
) -> None:
    frame = pd.DataFrame(
        {
            "query_id": ["a", "a", "a", "b", "b"],
            "label": [0, 1, 2, 0, 1],
            "price": [1.0, 2.0, 3.0, 4.0, 5.0],
            "size": ["S", "L", None, "S", "S"],
            "sold": [1, 0, 1, 1, 0],
        }
    )
    later = frame.assign(size=["XL", "S", "L", "L", "L"])[["sold", "size", "price"]]
    later = later.assign(query_id="c", label=0)
    options: Any = {"categorical": ["size", "sold"], "encode": encode}
    train = read_table(frame, **options)
    assert train.feature_names == (
        "price", "size=L", "size=S", "sold=0", "sold=1"
    )  # fmt: skip
    expected = [[1, 0, 1, 0, 1], [2, 1, 0, 1, 0], [3, 0, 0, 0, 1]]
    assert train.features[:3].tolist() == expected
    assert not train.categories
    # Other data of the model: a table in every form, with a category that training does not have.
    later.to_csv(tmp_path / "later.csv", index=False)
    later.to_parquet(tmp_path / "later.parquet", index=False)
    known: Any = {"feature_names": train.feature_names, "encode": train.encoded}
    for source in (later, tmp_path / "later.csv", tmp_path / "later.parquet"):
        test = read_table(source, num_features=5, categories={}, **known)
        assert test.features[:2].tolist() == [[1, 0, 0, 0, 1], [2, 0, 1, 1, 0]]
    write_store(tmp_path / "store", train)
    assert read_store(tmp_path / "store").encoded == train.encoded
    NativeRanker(num_trees=3, min_docs_in_leaf=1).fit(train).save(tmp_path / "model")
    ranker = NativeRanker.load(tmp_path / "model")
    scores = ranker.predict(test.features)
    np.testing.assert_array_equal(ranker.predict(later), scores)
    np.testing.assert_array_equal(ranker.predict(test.to_frame()), scores)


def test_more_than_20_categories_are_encoded_only_by_name() -> None:
    frame = pd.DataFrame(
        {"query_id": "a", "label": 0, "price": 1.0, "brand": np.arange(21)}
    )
    with pytest.raises(DataError, match=naming("brand", 21, "data.encode=[brand]")):
        read_table(frame, categorical=["brand"], encode="onehot")
    assert read_table(frame, encode=["brand"]).num_features == 22
    with pytest.raises(ConfigError, match=naming("onehot", "data.categorical")):
        read_table(frame, encode="onehot")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_initial_scores_of_lightgbm_beside_a_table_are_refused(
    tmp_path: Path, name: str
) -> None:
    frame = pd.DataFrame({"query_id": [1, 1], "label": [0, 1], "a": [0.5, 1.5]})
    write_frame(frame, tmp_path / name)
    (tmp_path / "t.csv.init").write_text("1\n2\n")
    with pytest.raises(DataError, match=naming("t.csv.init", "initial", "Move")):
        read_table(tmp_path / name)
