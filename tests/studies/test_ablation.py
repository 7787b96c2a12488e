"""The ablation: one setting at a time goes back to its default, and the comparison has the differences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from messages import naming

from ltrbench.compare import Settings, compare
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.runs import find_runs
from results.ablation.run import Ablation, differing

DEFAULT = NativeRanker(num_trees=4, num_leaves=7, num_threads=1)
TUNED = replace(DEFAULT, l2=5.0, split_criterion="least_squares", queries_per_tree=0.5)


def study(folder: Path) -> Ablation:
    return Ablation(
        output=str(folder / "runs"), name="best", seeds=[1, 2], metrics=["ndcg@5"]
    )


def test_each_setting_has_a_row_against_the_tuned_model(tmp_path: Path) -> None:
    data = {
        f"fold{fold}": Synthetic(name="made up", num_queries=60, cv=3, fold=fold)
        for fold in (1, 2, 3)
    }
    table = study(tmp_path).run({"tuned": TUNED, "default": DEFAULT}, data)
    runs = find_runs([tmp_path / "runs"])
    assert len(runs) == 4 * 3 * 2
    (comparison,) = compare(runs, settings=Settings(baseline="best"))
    changes = ["l2=null", "queries_per_tree=1.0", "split_criterion=newton"]
    assert {row.label for row in comparison.rows} == {
        "best",
        *(f"best {change}" for change in changes),
    }
    fitted = {run.result.model: run.result.ranker["fields"] for run in runs}
    for model, settings in fitted.items():
        kept = {
            name: getattr(TUNED, name)
            for name in ("l2", "queries_per_tree", "split_criterion")
        }
        kept |= {name: getattr(DEFAULT, name) for name in kept if f" {name}=" in model}
        assert {name: settings[name] for name in kept} == kept
    text = table.read_text()
    assert all(
        part in text
        for part in ("split_criterion", "least_squares", "newton", "--baseline best")
    )


def test_the_settings_of_a_tuned_model_are_those_that_differ_from_the_default() -> None:
    assert differing(replace(DEFAULT, l2=2.0), DEFAULT) == {"l2": (2.0, None)}
    with pytest.raises(
        ConfigError, match=naming("study.models.tuned", "study.models.default")
    ):
        differing(DEFAULT, DEFAULT)
    with pytest.raises(
        ConfigError, match=naming("NativeRanker", "RandomRanker", "class")
    ):
        differing(DEFAULT, RandomRanker())
