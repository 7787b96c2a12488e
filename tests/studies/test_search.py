"""The grid search, and that conf/model/native_best.yaml has its best settings."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from messages import naming
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
    """A source of given splits."""

    splits: Splits

    def load(self) -> Splits:
        return self.splits


def search(folder: Path) -> GridSearch:
    return GridSearch(output=str(folder), metric="ndcg@10", grid={"num_leaves": [2, 15], "l2": [0.0, 50.0]})


def names_leak(text: str, chosen_on: str, tested_on: str) -> bool:
    """Returns whether a text names the validation set of one data set as the test set of another."""
    return bool(re.search(rf"validation set of {chosen_on}\b[^;.]*\btest set of {tested_on}\b", text))


def test_the_best_of_a_grid_is_first_and_recorded(tmp_path: Path) -> None:
    model = NativeRanker(num_trees=10, early_stopping=EarlyStopping(patience=5))
    data = {"made up": Synthetic(name="made up", num_queries=60)}
    lines = search(tmp_path).run({"native": model}, data).read_text().splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| ") and "num_leaves" not in line]
    means = [float(row[-1]) for row in rows]
    assert len(means) == 4
    assert means == sorted(means, reverse=True)
    best = json.loads((tmp_path / "environment.json").read_text())["best"]
    assert [str(value) for value in best.values()] == [cell.strip() for cell in rows[0][:2]]


def test_a_table_names_validation_sets_that_are_test_sets_of_another_fold(tmp_path: Path) -> None:
    first = Synthetic(name="first", num_queries=60).load()
    assert first.valid is not None
    second = replace(first, valid=first.test, test=first.valid)
    sources = {"fold1": Fixed(name="first", splits=first), "fold2": Fixed(name="second", splits=second)}
    text = search(tmp_path).run({"native": NativeRanker(num_trees=2)}, sources).read_text()
    assert names_leak(text, "fold1", "fold2")
    assert names_leak(text, "fold2", "fold1")
    assert "optimistic" in text


def test_the_committed_table_agrees_with_the_fingerprints() -> None:
    splits = json.loads(COMMITTED.read_text())["fingerprints"]
    leaks = [(a, b) for a in splits for b in splits if splits[a]["valid"] == splits[b]["test"]]
    assert leaks == [("mq2007_fold2", "mq2007_fold1"), ("mq2008_fold2", "mq2008_fold1")]
    table = COMMITTED.with_name("table.md").read_text()
    assert all(names_leak(table, a, b) for a, b in leaks)


def test_a_search_needs_a_boosted_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=naming("models.random", "boosted model", "native")):
        search(tmp_path).run({"random": RandomRanker()}, {})


def test_native_best_has_the_best_settings_of_the_committed_search() -> None:
    best = json.loads(COMMITTED.read_text())["best"]
    preset = OmegaConf.load(conf_dir() / "model" / "native_best.yaml")
    assert {name: preset[name] for name in best} == best
