"""Tables: written tables restore the data, and errors name the row and the column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from messages import naming

from ltrbench.data import RankingDataset
from ltrbench.data.tables import read_table, read_table_features, write_table
from ltrbench.errors import ConfigError, DataError

DATES = pd.date_range("2026-01-31", periods=3)


@pytest.fixture
def dataset() -> RankingDataset:
    """Five documents of the queries 007 and b, with a missing value, positions and named features."""
    return RankingDataset(
        features=np.array([[0.1, 1], [np.nan, 2], [1 / 3, 3], [4e-30, 4], [0, 5]], np.float32),
        labels=np.array([0.0, 2.0, 1.0, 0.0, 1.0]),
        query_start=np.array([0, 2, 5]),
        query_ids=np.array(["007", "b"]),
        document_ids=np.array(["d1", "d2", "d3", "d4", "d5"]),
        positions=np.array([1, 2, 1, 2, 3]),
        feature_names=("bm25", "clicks"),
    )


def frame(**columns: list[object]) -> pd.DataFrame:
    """Returns three rows of two queries with one feature; `columns` replaces or adds columns."""
    base: dict[str, list[object]] = {"label": [0, 1, 2], "query_id": [1, 1, 2], "bm25": [0.5, 1.5, 2.5]}
    return pd.DataFrame({**base, **columns})


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.bz2", "csv.xz", "csv.zst", "parquet"])
def test_what_is_written_is_read_back(dataset: RankingDataset, tmp_path: Path, ending: str) -> None:
    write_table(dataset, tmp_path / f"table.{ending}")
    read = read_table(tmp_path / f"table.{ending}")
    assert read.fingerprint == dataset.fingerprint
    assert read.feature_names == dataset.feature_names
    assert read.document_ids is not None
    assert read.document_ids.tolist() == ["d1", "d2", "d3", "d4", "d5"]


ODD_IDS = ("NA", "null", "None", "nan", "a\rb", "a\nb", 'say "x"', "a,b", " padded ", "True", "1e3")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_every_id_is_read_back_as_it_was(tmp_path: Path, ending: str) -> None:
    ids = np.array(ODD_IDS)
    data = RankingDataset(
        features=np.zeros((len(ids), 1), dtype=np.float32),
        labels=np.zeros(len(ids)),
        query_start=np.arange(len(ids) + 1),
        query_ids=ids,
        document_ids=np.array(["", *ids[1:]]),
    )
    write_table(data, tmp_path / f"table.{ending}")
    read = read_table(tmp_path / f"table.{ending}")
    assert read.query_ids.tolist() == ids.tolist()
    assert read.document_ids is not None
    assert read.document_ids.tolist() == ["", *ids[1:]]


def test_columns_can_have_other_names_and_the_rest_are_features() -> None:
    renamed = frame().rename(columns={"label": "grade", "query_id": "session"})
    read = read_table(renamed, label="grade", query="session")
    assert read.feature_names == ("bm25",)
    assert read.query_ids.tolist() == ["1", "2"]
    assert read_table(frame().rename(columns={"query_id": "qid"})).fingerprint == read.fingerprint


def test_listed_features_are_taken_in_their_order_and_the_others_left() -> None:
    read = read_table(frame(url=["x", "y", "z"], clicks=[7, 8, 9]), features=["clicks", "bm25"])
    assert read.feature_names == ("clicks", "bm25")
    assert read.features.tolist() == [[7, 0.5], [8, 1.5], [9, 2.5]]


def test_scattered_queries_are_refused_or_brought_together_in_the_order_of_their_rows() -> None:
    scattered = frame(query_id=["b", "a", "b"])
    with pytest.raises(DataError, match=naming("row 3:", "query 'b'", "row 1.", "data.sort_queries=true")):
        read_table(scattered)
    read = read_table(scattered, sort_queries=True)
    assert read.query_ids.tolist() == ["b", "a"]
    assert read.labels.tolist() == [0, 2, 1]
    assert read.file_rows is not None
    assert read.file_rows.tolist() == [0, 2, 1]
    assert read_table(frame(), sort_queries=True).file_rows is None


@pytest.mark.parametrize("ending", ["csv", "parquet", None])
@pytest.mark.parametrize("absent", [["label"], ["query_id"], ["label", "query_id"], []], ids=str)
def test_features_alone_need_no_label_and_no_query(
    tmp_path: Path, ending: str | None, absent: list[str]
) -> None:
    table = frame(clicks=[7, 8, 9], query_id=["b", "a", "b"]).drop(columns=absent)
    path = tmp_path / f"new.{ending}"
    if ending == "csv":
        table.to_csv(path, index=False)
    if ending == "parquet":
        table.to_parquet(path, index=False)
    source = table if ending is None else path
    read = read_table_features(source, 2, feature_names=["clicks", "bm25"])
    assert read.dtype == np.float32
    assert read.tolist() == [[7, 0.5], [8, 1.5], [9, 2.5]]
    if not absent:
        return
    with pytest.raises(
        DataError, match=naming("no column", "label or" if "label" in absent else "query_id or", "COLUMN")
    ):
        read_table(source)


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"label": [0, None, 1]}, ["row 2:", "'label'", "empty", "Add a label", "clear"]),
        ({"label": [0, 1, -1]}, ["row 3:", -1.0, "'label'", "0 or more"]),
        ({"bm25": [0, "x", 1]}, ["row 2:", "'bm25'", "'x'", "not a number"]),
        ({"url": [1, 2, 3]}, ["the DataFrame:", "columns url", "remove", "data.features"]),
    ],
)
def test_a_mistake_in_a_table_that_is_only_to_be_scored_is_named(
    columns: dict[str, list[object]], parts: list[object]
) -> None:
    with pytest.raises(DataError, match=naming(*parts)):
        read_table_features(frame(**columns), feature_names=["bm25"])


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"label": [0, np.nan, 1]}, ["row 2:", "nan", "'label'", "remove the document"]),
        ({"label": [0, 1, -1]}, ["row 3:", -1.0, "'label'", "0 or more", "Shift"]),
        ({"label": [np.inf, 1, 1]}, ["row 1:", "inf", "'label'", "finite"]),
        ({"label": [0.5, 1, 1]}, ["row 1:", 0.5, "'label'", "whole numbers", "whole_labels=false"]),
        ({"bm25": [0, "x", 1]}, ["row 2:", "'bm25'", "'x'", "not a number"]),
        ({"bm25": [1e39, 1, 0]}, ["row 1:", "'bm25'", "1e+39", "float32", "Rescale"]),
        ({"label": ["good", 1, 1]}, ["row 1:", "'label'", "'good'", "grades as numbers"]),
        ({"query_id": [1, None, 2]}, ["row 2:", "'query_id'", "nan", "needs an id", "remove the row"]),
        ({"query_id": [pd.NaT] * 3}, ["row 1:", "'query_id'", "NaT", "needs an id", "remove the row"]),
        ({"query_id": list(DATES)}, ["row 1:", "'query_id'", "2026-01-31", "a date", "astype(str)"]),
        ({"document_id": list(DATES)}, ["row 1:", "'document_id'", "2026-01-31", "a date", "astype(str)"]),
        ({"query_id": ["", "a", "b"]}, ["row 1:", "'query_id'", "empty"]),
        ({"query_id": [(1, 2), "a", "b"]}, ["row 1:", "'query_id'", "(1, 2)", "needs an id"]),
        ({"query_id": ["a" * 1001, "a", "b"]}, ["row 1:", "'query_id'", "1001 characters", "1000"]),
        ({"weight": [1, -1, 1]}, ["row 2:", -1.0, "'weight'", "0 or more"]),
        ({"weight": [1, 1, 0]}, ["row 3:", "query '2'", "weight 0", "Remove the query"]),
        ({"position": [1, 1.5, 2]}, ["row 2:", 1.5, "'position'", "rank"]),
        ({"position": [1, -1, 2]}, ["row 2:", -1.0, "'position'", "0 or more"]),
        ({"bm25": [1, 10**400, 2]}, ["row 2:", "'bm25'", "inf", "Rescale"]),
        ({"bm25": [1j, 2, 3]}, ["row 1:", "'bm25'", "1j", "not a number"]),
        ({"bm25": list(DATES)}, ["row 1:", "'bm25'", "2026-01-31", "data.features", "split_by"]),
        ({"bm25": list(pd.to_timedelta([1, 2, 3]))}, ["row 1:", "'bm25'", "Timedelta"]),
        ({"grade": [0, 1, 2]}, ["column 'label'", "feature", "Remove", "list the features"]),
    ],
)
def test_a_wrong_value_is_named_with_its_row_and_column(
    columns: dict[str, list[object]], parts: list[object]
) -> None:
    label = "grade" if "grade" in columns else None
    with pytest.raises(DataError, match=naming(*parts)):
        read_table(frame(**columns), label=label, whole_labels=True)


@pytest.mark.parametrize(
    ("dropped", "options", "parts"),
    [
        ("label", {}, ["label or relevance", "label=COLUMN", "predict", "read_features"]),
        ("bm25", {}, ["no feature column", "label, query_id", "add"]),
        ("", {"label": "lable"}, ["'lable'", "'label'?", "'query_id'"]),
        ("", {"weight": "label"}, ["column 'label'", "to label", "to weight", "a different column"]),
        ("", {"feature_names": ("bm52",)}, ["'bm52'", "'bm25'?"]),
        ("", {"feature_names": ("bm25", "clicks")}, ["'clicks'", "add the column"]),
        ("", {"num_features": 3}, ["1 feature columns", "3 were expected"]),
        ("", {"sort_queries": "no"}, ["sort_queries is 'no'", "must be"]),
        ("", {"whole_labels": 1}, ["whole_labels is 1", "must be"]),
        ("", {"num_features": "3"}, ["num_features is '3'", "must be"]),
        ("", {"features": "bm25"}, ["features is 'bm25'", "must be"]),
    ],
)
def test_a_column_or_an_option_that_does_not_fit_is_named(
    dropped: str, options: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises((DataError, ConfigError), match=naming(*parts)):
        read_table(frame().drop(columns=dropped or []), **options)


@pytest.mark.parametrize(
    ("further", "parts"),
    [
        ("relevance", ["label and relevance", "label=COLUMN"]),
        ("qid", ["query_id and qid", "query=COLUMN"]),
        ("", ["column 4", "('')", "index=False"]),
        ("Unnamed: 0", ["column 4", "('Unnamed: 0')", "index=False"]),
    ],
)
def test_a_column_that_hardly_is_a_feature_is_no_feature_unless_it_is_listed(
    further: str, parts: list[str]
) -> None:
    table = frame().assign(**{further: [2, 1, 0]})
    with pytest.raises(DataError, match=naming(*parts)):
        read_table(table)
    listed = read_table(table, features=["bm25", further])
    assert listed.feature_names == ("bm25", further)


def test_a_table_with_another_separator_is_refused_with_a_command_that_converts_it(tmp_path: Path) -> None:
    file, converted = tmp_path / "t.tsv", tmp_path / "FILE.csv"
    file.write_text("label;query_id;bm25\n1;007;2\n0;NA;3\n")
    command = "pandas.read_csv(FILE, sep=';', dtype=str, keep_default_na=False)"
    with pytest.raises(DataError, match=naming("t.tsv:", "'label;query_id;bm25'", "commas", command)):
        read_table(file)
    written = pd.read_csv(file, sep=";", dtype=str, keep_default_na=False)
    written.to_csv(converted, index=False)
    assert read_table(converted).query_ids.tolist() == ["007", "NA"]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_file_that_is_no_table_is_named(tmp_path: Path, name: str) -> None:
    for content in (b"", b"\x00\xff\xfe\x80junk"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=name):
            read_table(tmp_path / name)


def test_several_tables_are_one_split_and_have_the_same_columns(tmp_path: Path) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    paths[0].write_text("qid,label,bm25\n007,1,2\n")
    paths[1].write_text("bm25,qid,label\n3,8,0\n")
    both = read_table(paths)
    assert both.query_ids.tolist() == ["007", "8"]
    assert both.features.tolist() == [[2], [3]]
    paths[1].write_text("tfidf,qid,label\n3,8,0\n")
    with pytest.raises(DataError, match=naming(f"{paths[1]}:", paths[0], "bm25, tfidf")):
        read_table(paths)


def test_an_index_that_pandas_wrote_into_a_parquet_file_is_no_feature(tmp_path: Path) -> None:
    table = frame()
    table.index = pd.Index(np.arange(3) ** 2, name="rows")
    table.to_parquet(tmp_path / "whole.parquet")
    assert read_table(tmp_path / "whole.parquet").feature_names == ("bm25",)
