"""The leaderboard of score files: what an entry keeps, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]
from messages import naming

from ltrbench.cli.verbs.data import sources_in_yaml
from ltrbench.compare import Import
from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import LtrbenchError
from ltrbench.metrics import METRICS_OF_A_RUN, evaluate
from results.leaderboard.run import (
    ENTRY_FILE,
    RANKS_FILE,
    TABLE_FILE,
    add_entry,
    folds_of,
    write_table,
)

FOLDS = [
    Synthetic(name="toy", num_queries=80, cv=4, fold=fold) for fold in (1, 2, 3, 4)
]
SETS = [source.load().test for source in FOLDS]

Scoring = Callable[[RankingDataset], Any]


def bm25(test: RankingDataset) -> Any:
    return np.round(test.features[:, 0].astype(np.float64), 1)  # with ties


def scored(
    folder: Path, scoring: Scoring, name: str = "mine", folds: int = 4, **declared: str
) -> Path:
    """Writes the scores of a function for the first folds, and adds them as an entry; returns its folder."""
    for fold, test in enumerate(SETS[:folds], 1):
        (folder / f"{name}{fold}.txt").write_text(
            "".join(f"{score!r}\n" for score in scoring(test).tolist())
        )
    declared = {"division": "open", "code": "", "settings": ""} | declared
    add_entry(
        Import(name, str(folder / f"{name}{{fold}}.txt")),
        FOLDS,
        folder / "lb",
        **declared,
    )
    return folder / "lb" / "toy" / name


@pytest.mark.slow
def test_an_entry_reproduces_every_metric_of_its_scores_and_has_claims_against_all_others(
    tmp_path: Path,
) -> None:
    folder = scored(tmp_path, bm25)
    scored(tmp_path, lambda test: test.labels + 3 * bm25(test) * 0.1, "better")
    means = [evaluate(test, bm25(test), METRICS_OF_A_RUN).means for test in SETS]
    entry = yaml.safe_load((folder / ENTRY_FILE).read_text())
    assert entry["metrics"] == {
        name: fmean(mean[name] for mean in means) for name in METRICS_OF_A_RUN
    }
    with np.load(folder / RANKS_FILE) as ranks:
        for fold, test in enumerate(SETS, 1):
            kept = evaluate(test, -ranks[f"fold{fold}"].astype(float), METRICS_OF_A_RUN)
            assert kept.means == means[fold - 1]
    table = folder.with_name("table.md").read_text()
    best, worst = (line.split("|")[1:5] for line in table.splitlines()[-2:])
    assert (best[0].strip(), best[2].strip(), worst[0].strip()) == (
        "better",
        "mine",
        "mine",
    )
    assert write_table(folds_of(FOLDS), folder.parent) == table


@pytest.mark.slow
def test_the_committed_table_follows_from_the_committed_entries(
    tmp_path: Path, letor_data: Callable[[str], Path]
) -> None:
    sources = list(sources_in_yaml("mq2008", letor_data("MQ2008").parent, None))
    committed = Path(__file__).parents[2] / "results" / "leaderboard" / "mq2008"
    folder = shutil.copytree(committed, tmp_path / "mq2008")
    assert write_table(folds_of(sources), folder) == (committed / TABLE_FILE).read_text(
        encoding="utf-8"
    )


def with_nan(test: RankingDataset) -> Any:
    return np.where(np.arange(test.num_documents) == 3, np.nan, bm25(test))


def damaged(folder: Path) -> object:
    path = scored(folder, bm25) / ENTRY_FILE
    path.write_text(path.read_text().replace("division: open", "division: own"))
    return write_table(folds_of(FOLDS), path.parents[1])


REFUSALS: list[tuple[Callable[[Path], object], tuple[object, ...]]] = [
    (
        lambda t: scored(t, lambda test: test.labels),
        ("mine", "1.0000", 0.99, "with the labels"),
    ),
    (
        lambda t: scored(t, lambda test: -test.labels - bm25(test)),
        ("below a random", "sign"),
    ),
    (lambda t: scored(t, lambda test: 0 * bm25(test)), ("mine1.txt", "constant")),
    (lambda t: scored(t, with_nan), ("mine1.txt", "nan")),
    (lambda t: scored(t, bm25, folds=3), ("fold 4", "toy", "{fold}")),
    (
        lambda t: scored(t, lambda test: bm25(test)[1:]),
        ("mine1.txt", f"{SETS[0].num_documents} documents"),
    ),
    (
        lambda t: [scored(t, lambda test: 2 * bm25(test), name) for name in "ab"],
        ("b=", "entry a"),
    ),
    (lambda t: [scored(t, bm25) for _ in "ab"], ("'mine'", "new folder")),
    (lambda t: scored(t, bm25, division="closed"), ("--code", "--settings", "open")),
    (damaged, (ENTRY_FILE, "division", "'own'", "delete its folder")),
]


@pytest.mark.parametrize(("call", "parts"), REFUSALS)
def test_what_the_leaderboard_cannot_use_is_refused(
    tmp_path: Path, call: Callable[[Path], object], parts: tuple[object, ...]
) -> None:
    with pytest.raises(LtrbenchError, match=naming(*parts)):
        call(tmp_path)
