"""Sources: a YAML of conf/data gives Splits, and errors about missing files name the download."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from messages import naming
from omegaconf import DictConfig
from paths import CONF

from ltrbench.data.sources import (
    DataSource,
    LetorFiles,
    files_of,
    read_data,
    read_features,
)
from ltrbench.data.store import write_store
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError, DataError
from ltrbench.experiment.columns import propose


def composed(*overrides: str) -> DictConfig:
    """Returns the `data` node that Hydra composes from conf/data."""
    with initialize_config_dir(str(CONF), version_base=None):
        node: DictConfig = compose(overrides=[f"+{overrides[0]}", *overrides[1:]]).data
        return node


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Returns a folder with train, vali and test of 10, 4 and 5 queries of two documents, distinct ids."""
    first = 0
    for name, count in [("train", 10), ("vali", 4), ("test", 5)]:
        lines = [
            f"{label} qid:{query} 1:{query} 3:{label}\n"
            for query in range(first, first + count)
            for label in (0, 1)
        ]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
        first += count
    return tmp_path


def test_three_files_are_the_three_splits_and_a_missing_validation_set_is_held_out(
    files: Path,
) -> None:
    train, test = f"{files}/train.txt", f"{files}/test.txt"
    for settings, sizes in (
        ({"valid": f"{files}/vali.txt"}, [10, 4, 5]),
        ({"valid_share": 0.3}, [7, 3, 5]),
        ({"valid_share": 0.0}, [10, 5]),
    ):
        source = LetorFiles(name="mine", train=train, test=test, **settings)
        assert [split.num_queries for _, split in source.load()] == sizes


def test_data_that_are_too_few_for_a_split_are_named() -> None:
    with pytest.raises(DataError, match=naming("1 queries", "test set", "more")):
        Synthetic(name="synthetic", num_queries=1).load()


def test_files_narrower_than_train_are_padded(files: Path) -> None:
    (files / "test.txt").write_text("0 qid:99 1:5\n")
    splits = LetorFiles(
        name="mine", train=f"{files}/train.txt", test=f"{files}/test.txt"
    ).load()
    assert splits.test.features.tolist() == [[5, 0, 0]]


def test_folds_of_the_validation_set_share_a_test_set_that_none_of_them_validates_on(
    files: Path,
) -> None:
    source = LetorFiles(
        name="mine", train=f"{files}/train.txt", cv=4, cv_split="valid", fold=1
    )
    of_folds = [replace(source, fold=fold).load() for fold in (1, 2, 3, 4)]
    tests = {splits.test.fingerprint for splits in of_folds}
    assert len(tests) == 1
    validated = [
        query
        for splits in of_folds
        if splits.valid
        for query in splits.valid.query_ids.tolist()
    ]
    assert len(validated) == len(set(validated))
    for splits in of_folds:
        assert splits.valid is not None
        parts = [
            part.query_ids.tolist()
            for part in (splits.train, splits.valid, splits.test)
        ]
        assert set(parts[0]) | set(parts[1]) == set(validated)
        assert not set(parts[2]) & set(validated)
        assert not set(parts[0]) & set(parts[1])


VERSIONS = {"raw": {"train": "train.txt"}, "scaled": {"train": "train.txt"}}


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"fold": 6, "num_folds": 5}, ["data.fold is 6", "1 to 5"]),
        ({"fold": 1}, ["data.fold is 1", "cv"]),
        (
            {"cv": 3, "cv_split": "valid", "fold": 1, "valid": "v.txt"},
            ["cv is 3", "data.valid=null"],
        ),
        ({"cv": 5}, ["cv is 5", "data.fold=1 to 5", "add -m"]),
        (
            {"cv": 5, "fold": 1, "test": "t.txt"},
            ["cv is 5", "test set", "data.test=null"],
        ),
        ({"cv": 5, "fold": 1, "num_folds": 5}, ["cv is 5", "published", "remove cv"]),
        (
            {"version": "scale", "versions": VERSIONS},
            ["data.version", "scale", "raw, scaled"],
        ),
    ],
)
def test_settings_that_exclude_each_other_are_named(
    settings: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        LetorFiles(name="mine", train="train.txt", **settings)


# Readers


def test_an_option_that_the_reader_does_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=naming("data.csv:", "read_table", "'lable'", "'label'")
    ):
        read_data(tmp_path / "data.csv", lable="grade")
    with pytest.raises(ConfigError, match=naming("data.txt:", "read_letor", "'label'")):
        read_data((tmp_path / "data.txt", tmp_path / "more.txt"), label="grade")
    (tmp_path / "data.txt").write_text("0 qid:a 1:0.5 2:1\n")
    write_store(tmp_path / "store", read_data(tmp_path / "data.txt"))
    with pytest.raises(
        ConfigError, match=naming("store:", "read_store", "'first_index'")
    ):
        read_data(tmp_path / "store", first_index=0)
    with pytest.raises(ConfigError, match=naming("feature_names", "names.txt")):
        read_data(tmp_path / "data.csv", feature_names="names.txt")


# conf/data


LAYOUTS = {
    "mq2007": [
        "MQ2007/Fold2/train.txt",
        "MQ2007/Fold2/vali.txt",
        "MQ2007/Fold2/test.txt",
    ],
    "mq2008": [
        "MQ2008/Fold2/train.txt",
        "MQ2008/Fold2/vali.txt",
        "MQ2008/Fold2/test.txt",
    ],
    "ohsumed": [
        f"OHSUMED/QueryLevelNorm/Fold2/{part}.txt" for part in ("train", "vali", "test")
    ],
    "mslr_web10k": [
        f"MSLR-WEB10K/Fold2/{part}.txt" for part in ("train", "vali", "test")
    ],
    "mslr_web30k": [
        f"MSLR-WEB30K/Fold2/{part}.txt" for part in ("train", "vali", "test")
    ],
    "istella": [f"istella-letor/full/{part}.txt" for part in ("train", "test")],
    "istella_s": [
        f"istella-s-letor/sample/{part}.txt" for part in ("train", "vali", "test")
    ],
    "istella22": [f"istella22/{part}.svm.gz" for part in ("train", "valid", "test")],
    "yahoo_set1": [
        f"ltrc_yahoo/set1.{part}.txt" for part in ("train", "valid", "test")
    ],
    "clueweb09": ["ClueWeb09/Fold1/train.txt", "ClueWeb09/Fold1/test.txt"],
    "lightgbm_example": ["lightgbm-example/rank.train", "lightgbm-example/rank.test"],
}
"""Data set -> files in its published layout, those of fold 2 if it has folds."""


def of_layout(yaml: str, root: Path) -> DataSource:
    has_folds = any("Fold2" in path for path in LAYOUTS[yaml])
    overrides = [
        f"data={yaml}",
        *(["data.fold=2"] if has_folds else []),
        f"data.root={root}",
    ]
    source: DataSource = instantiate(composed(*overrides), _convert_="all")
    return source


@pytest.mark.parametrize("yaml", LAYOUTS)
def test_a_named_data_set_is_read_from_its_publishers_layout(
    yaml: str, tmp_path: Path
) -> None:
    first = 0
    for number, path in enumerate(LAYOUTS[yaml]):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        queries = range(first, first + 10 - number)
        qid = "" if yaml == "lightgbm_example" else "qid:{0} "
        file.write_text(
            "".join(
                f"{label} {qid.format(q)}1:{q} 2:{label}\n"
                for q in queries
                for label in (0, 1)
            )
        )
        if yaml.startswith("istella"):
            # As in the published files: the largest double.
            file.write_text(
                file.read_text().replace(" 2:1", " 2:1.79769313486232e+308")
            )
        if yaml == "lightgbm_example":
            Path(f"{file}.query").write_text("2\n" * len(queries))
        first = queries.stop
    sizes = [split.num_queries for _, split in of_layout(yaml, tmp_path).load()]
    # Without a published validation set, a fifth of the training queries is held out for it.
    assert sizes == ([10, 9, 8] if len(LAYOUTS[yaml]) == 3 else [8, 2, 9])


@pytest.mark.parametrize("name", ["esci", "tripclick"])
def test_a_named_data_set_without_features_is_read_from_tables(
    name: str, tmp_path: Path
) -> None:
    source = instantiate(
        composed(f"data={name}", f"data.root={tmp_path}"), _convert_="all"
    )
    (tmp_path / name).mkdir()
    columns = [source.query or "query_id", source.document or "document_id"]
    columns += [source.label or "label", "bm25"]
    rng = np.random.default_rng(0)
    for number, split in enumerate(["train", "val", "test"]):
        rows = [
            (10 * number + query, f"d{number}{query}{label}", label, rng.random())
            for query in range(10)
            for label in (0, 1)
        ]
        frame = pd.DataFrame(rows, columns=columns)
        frame.to_parquet(tmp_path / name / f"{split}.parquet")
    splits = dict(source.load())
    assert splits["train"].feature_names == ("bm25",)
    assert splits["test"].num_queries == 10


@pytest.mark.parametrize("name", ["t.pq", "parts/part-0.parquet"])
def test_parquet_is_read_as_a_table_whatever_the_name_of_the_file_or_the_folder(
    tmp_path: Path, name: str
) -> None:
    rows = np.arange(80)
    columns = {"query_id": rows // 4, "label": rows % 3, "bm25": rows**2 / 2}
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    pd.DataFrame(columns).to_parquet(file)
    path = tmp_path / Path(name).parts[0]
    assert read_data(path).feature_names == ("bm25",)
    assert read_features(path)[:3].tolist() == [[0], [0.5], [2]]
    assert propose(path, {}).is_table
    assert files_of(path) == [file]


@pytest.mark.parametrize("yaml", ["mq2008", "istella_s"])
def test_a_data_set_that_is_absent_says_what_to_get_and_where_to_put_it(
    yaml: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        of_layout(yaml, tmp_path).load()
    message = str(caught.value).replace("http:", "https:")
    for part in (
        f"data={yaml}",
        str(tmp_path / LAYOUTS[yaml][0]),
        "https://",
        "LTRBENCH_DATA",
        "data.root=",
    ):
        assert part in message
