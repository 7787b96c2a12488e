"""read_data: the file extension selects the reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from messages import naming

from ltrbench.data.sources import read_data, read_features
from ltrbench.data.store import write_store
from ltrbench.errors import ConfigError


def test_an_option_that_the_reader_does_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=naming("data.csv:", "read_table", "'lable'", "'label'")):
        read_data(tmp_path / "data.csv", lable="grade")
    with pytest.raises(ConfigError, match=naming("data.txt:", "read_letor", "'label'")):
        read_data((tmp_path / "data.txt", tmp_path / "more.txt"), label="grade")
    (tmp_path / "data.txt").write_text("0 qid:a 1:0.5 2:1\n")
    write_store(tmp_path / "store", read_data(tmp_path / "data.txt"))
    remedy = "data build SOURCE --output STORE --read first_index=VALUE"
    with pytest.raises(ConfigError, match=naming("store:", "read_store", "'first_index'", remedy)):
        read_data(tmp_path / "store", first_index=0)
    with pytest.raises(ConfigError, match=naming("store:", "read_store", "'first_indx'")):
        read_data(tmp_path / "store", first_indx=0)
    with pytest.raises(ConfigError, match=naming("data.csv:", "feature_names=names.txt", "Remove")):
        read_data(tmp_path / "data.csv", feature_names="names.txt")


def test_the_columns_of_a_table_are_found_by_the_names_that_training_has(tmp_path: Path) -> None:
    (tmp_path / "swapped.csv").write_text("qid,label,clicks,bm25\na,1,7,0.5\n")
    read = read_data(tmp_path / "swapped.csv", 2, feature_names=["bm25", "clicks"])
    assert read.features.tolist() == [[0.5, 7.0]]
    (tmp_path / "data.txt").write_text("1 qid:a 1:0.5 2:7\n")
    from_text = read_data(tmp_path / "data.txt", 2, feature_names=["bm25", "clicks"])
    assert from_text.fingerprint == read.fingerprint


@pytest.mark.parametrize(
    ("name", "labelled", "unlabelled"),
    [
        ("new.txt", "1 qid:b 1:0.5 2:7\n0 qid:a 1:2\n2 qid:b 2:3\n", "1:0.5 2:7\nqid:a 1:2\n2:3\n"),
        ("new.csv", "qid,label,1,2\nb,1,0.5,7\na,0,2,0\nb,2,0,3\n", "2,1\n7,0.5\n0,2\n3,0\n"),
    ],
)
def test_features_alone_are_those_of_the_labelled_file_in_its_order(
    tmp_path: Path, name: str, labelled: str, unlabelled: str
) -> None:
    (tmp_path / name).write_text(labelled)
    data = read_data(tmp_path / name, sort_queries=True)
    expected = data.to_file_order(data.features).tolist()
    options = {"sort_queries": True, "whole_labels": True}
    assert read_features(tmp_path / name, 2, feature_names=["1", "2"], **options).tolist() == expected
    (tmp_path / name).write_text(unlabelled.replace("qid:a ", ""))
    assert read_features(tmp_path / name, 2, feature_names=["1", "2"]).tolist() == expected
