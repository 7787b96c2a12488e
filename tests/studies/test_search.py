"""The search by validation, and that conf/model/native_best.yaml is what it found."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from paths import RESULTS

from ltrbench.conf_folder import conf_dir
from ltrbench.data.sources import DataSource
from ltrbench.data.splits import Splits
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError
from ltrbench.rankers import EarlyStopping
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.studies.search import GridSearch

COMMITTED = RESULTS / "native_best" / "environment.json"


@dataclass(kw_only=True)
class Fixed(DataSource):
    """Splits that are at hand already."""

    splits: Splits

    def load(self) -> Splits:
        return self.splits


def search(folder: Path) -> GridSearch:
    return GridSearch(output=str(folder), metric="ndcg@10", grid={"num_leaves": [2, 15], "l2": [0.0, 50.0]})


def test_the_best_of_a_grid_stands_first_and_is_recorded(tmp_path: Path) -> None:
    model = NativeRanker(num_trees=10, early_stopping=EarlyStopping(patience=5))
    data = {"made up": Synthetic(name="made up", num_queries=60)}
    lines = search(tmp_path).run({"native": model}, data).read_text().splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| ") and "num_leaves" not in line]
    means = [float(row[-1]) for row in rows]
    assert len(means) == 4
    assert means == sorted(means, reverse=True)
    best = json.loads((tmp_path / "environment.json").read_text())["best"]
    assert [str(value) for value in best.values()] == [cell.strip() for cell in rows[0][:2]]


def test_a_table_says_which_validation_set_is_the_test_set_of_another_fold(tmp_path: Path) -> None:
    first = Synthetic(name="first", num_queries=60).load()
    assert first.valid is not None
    second = replace(first, valid=first.test, test=first.valid)
    sources = {"fold1": Fixed(name="first", splits=first), "fold2": Fixed(name="second", splits=second)}
    text = search(tmp_path).run({"native": NativeRanker(num_trees=2)}, sources).read_text()
    assert "the validation set of fold1 is the test set of fold2" in text
    assert "the validation set of fold2 is the test set of fold1" in text
    assert "has seen test data" in text


def test_the_committed_table_says_what_the_fingerprints_say() -> None:
    splits = json.loads(COMMITTED.read_text())["fingerprints"]
    leaks = [(a, b) for a in splits for b in splits if splits[a]["valid"] == splits[b]["test"]]
    assert leaks == [("mq2007_fold2", "mq2007_fold1"), ("mq2008_fold2", "mq2008_fold1")]
    table = COMMITTED.with_name("table.md").read_text()
    assert all(f"the validation set of {a} is the test set of {b}" in table for a, b in leaks)


def test_a_search_is_of_boosted_trees(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"models\.random has no trees"):
        search(tmp_path).run({"random": RandomRanker()}, {})


def test_native_best_is_what_the_committed_search_found() -> None:
    best = json.loads(COMMITTED.read_text())["best"]
    preset = OmegaConf.load(conf_dir() / "model" / "native_best.yaml")
    assert {name: preset[name] for name in best} == best
