"""The verb `aa`, and the section of the report: a model against itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from claim_cases import QUERIES, deterministic, runs_of, values_of
from run_cases import finished_run
from toy_runs import mentions

from ltrbench.cli import main
from ltrbench.compare import Settings
from ltrbench.compare.slicing import AgainstItself, each_against_itself
from ltrbench.runs import Run
from ltrbench.statistics import PairedSample
from ltrbench.statistics.repeated import against_itself

EIGHT = (1, 2, 3, 4, 5, 6, 7, 8)


def only_row(runs: list[Run], **fields: Any) -> AgainstItself:
    (row,) = each_against_itself(runs, Settings(**fields))
    return row


def test_eight_seeds_are_split_into_halves_of_four(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, "native", EIGHT)
    row = only_row(runs, rope=0.02)
    values = values_of(runs)
    assert row.halved == against_itself(
        values, PairedSample.of(np.zeros((1, QUERIES))), rope=0.02
    )
    assert (row.kind, row.num_replicates, row.num_folds, row.reason) == (
        "seeds",
        8,
        1,
        "",
    )


def test_seeds_that_change_nothing_are_one_replicate(tmp_path: Path) -> None:
    row = only_row(deterministic(tmp_path, "third", EIGHT))
    assert mentions(row.reason, "1 replicate", "replicates=8")


def test_the_verb_prints_shares_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model, seeds in {"native": EIGHT, "other": (1, 2)}.items():
        for seed in seeds:
            finished_run(tmp_path / f"{model}{seed}", model, seed=seed)
    assert main(["aa", str(tmp_path), "--metric", "ndcg@5"]) == 0
    shown = capsys.readouterr().out
    assert "ndcg@5" in shown
    assert "independent" in shown
    (native,) = [
        line for line in shown.splitlines() if line.startswith("| toy  | native")
    ]
    assert "8 seeds |       35 " in native
    assert mentions(shown, "2 replicates", "replicates=8")
