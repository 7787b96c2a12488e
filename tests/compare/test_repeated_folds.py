"""A repeated cross-validation is one table: its interval, its queries, and what must not leak."""

# mypy: strict-optional=False

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run
from composed_jobs import composed
from messages import naming
from omegaconf import OmegaConf
from scipy import stats
from toy_runs import judgments, mentions, write

from ltrbench.cli.launch import with_all_jobs
from ltrbench.compare import Settings, compare
from ltrbench.compare.derived import Import, import_runs
from ltrbench.compare.fairness import seen_by_choice
from ltrbench.errors import LtrbenchError
from ltrbench.metrics import evaluate
from ltrbench.runs import find_runs
from ltrbench.runs.record import Run
from ltrbench.statistics.claims import Scope, Varied

SWEEP = "model=native,random data.num_queries=60 cv=3 seed=0,1 params.num_trees=3 tracking=none"
SWEEP += " importance=null metrics=ndcg@10 num_threads=1 hydra.sweep.dir=s -m"


def differences_of(runs: list[Run]) -> dict[str, float]:
    """Returns query -> mean difference of native and random over all seeds and repeats."""
    totals: dict[str, dict[str, list[float]]] = {}
    for item in runs:
        scored = item.scored("test")
        values = evaluate(scored.judgments, scored.scores, ["ndcg@10"])
        of_query = values.per_query["ndcg@10"].tolist()
        for key, value in zip(scored.query_keys.tolist(), of_query, strict=True):
            totals.setdefault(key, {}).setdefault(item.result.model, []).append(value)
    return {
        key: float(np.mean(of["native"]) - np.mean(of["random"]))
        for key, of in totals.items()
    }


@pytest.mark.slow
def test_repeats_are_one_table_with_each_query_once(
    tmp_path: Path,
) -> None:
    run(*SWEEP.split(), folder=tmp_path)
    first = {item.path: item.result.started for item in find_runs([tmp_path / "s"])}
    run(*SWEEP.split(), "cv_repeats=2", folder=tmp_path)
    runs = find_runs([tmp_path / "s"])
    # The finished folds were not trained again.
    assert first.items() <= {item.path: item.result.started for item in runs}.items()
    for lacking, folds in (
        (None, "3 folds x 2 repeats"),
        (3, "5 of 6 folds (3 folds x 2 repeats)"),
    ):
        for item in runs:
            if item.result.repeat == 1 and item.result.data["fold"] == lacking:
                shutil.rmtree(item.path)
        runs = find_runs([tmp_path / "s"])
        (comparison,) = compare(runs, settings=Settings(baseline="random"))
        (pair,) = comparison.family
        queries = np.array(list(differences_of(runs).values()))
        assert pair.statistics.num_queries == len(queries)
        assert pair.statistics.wins == (queries > 1e-12).sum()
        assert comparison.replicates["random"] == f"{folds} x 2 seeds"
        assert (pair.methods.scope, pair.methods.reason) == (Scope(Varied.METHODS), "")
        if lacking is None:
            # Folds of equal size: each query once, with its mean over repeats and seeds.
            assert pair.models.difference == pytest.approx(queries.mean(), abs=1e-9)
            half = stats.t.ppf(0.975, len(queries) - 1) * stats.sem(queries)
            interval = pair.models.interval
            assert (interval.high - interval.low) / 2 == pytest.approx(half, rel=1e-3)
            # Three folds, each with half as many test queries as training queries of the fold.
            share = comparison.queries.test_share
            widened = (pair.methods.interval.high - pair.methods.interval.low) / 2
            assert widened >= np.sqrt(1 + 3 * share) * half * (1 - 1e-3)
        notes = [
            note
            for note in comparison.notes
            if mentions(note, "fold 3 of data.split_seed=1")
        ]
        assert len(notes) == (lacking is not None)
    # A search that chooses for all folds would see test queries of other folds and repeats.
    searched = [*SWEEP.split(), "cv_repeats=2", "search=random", "search.choose=across"]
    assert "search.choose=per_fold" in run(*searched, folder=tmp_path, check=2).stderr


def repeated(
    folder: Path,
    model: str,
    split_seeds: Iterable[int],
    train: str = "all.txt",
    **fields: Any,
) -> list[Run]:
    """Three folds for each split seed; the second repeat has the queries of the first in other folds."""
    return [
        write(
            folder / f"{model}{seed}{fold}",
            model,
            fold=fold,
            judged=judgments((fold + seed) % 3),
            validated=judgments((fold + seed + 1) % 3),
            train=f"{train} {seed} {fold}",
            data_settings={"cv": 3, "split_seed": seed, "train": train},
            **fields,
        )
        for seed in split_seeds
        for fold in (1, 2, 3)
    ]


def test_repeats_of_other_queries_or_of_other_files_are_not_mixed(
    tmp_path: Path,
) -> None:
    both = [
        *repeated(tmp_path, "native", (0, 1)),
        *repeated(tmp_path, "other", (0, 1), skill=0.95),
    ]
    # Fold 1 of the one repeat is validated by queries that it tests in the other.
    (two,) = compare([both[0], both[3]])
    assert seen_by_choice(two.rows[0].evaluated) == ["1"]
    (comparison,) = compare(both, settings=Settings(detect=1e-3))
    # Two folds are two training sets, however often they are repeated.
    (of_two,) = compare([run for run in both if run.result.data["fold"] < 3])
    claim = of_two.pairs[0].methods
    assert (claim.interval, claim.reason) == (None, "2 folds; a claim needs 3")
    (note,) = (note for note in comparison.notes if mentions(note, "distinct queries"))
    assert mentions(note, "87 distinct", "174 times")
    with pytest.raises(
        LtrbenchError,
        match=naming("toy, fold 1", "native and other", "--allow-mismatch"),
    ):
        compare(
            [
                *repeated(tmp_path / "a", "native", (0,)),
                *repeated(tmp_path / "a", "other", (1,)),
            ]
        )
    another = repeated(tmp_path / "b", "native", (1,), train="b.txt")
    files = [*repeated(tmp_path / "b", "native", (0,)), *another]
    assert [table.data for table in compare(files)] == [
        "toy data.train=all.txt",
        "toy data.train=b.txt",
    ]
    plain = {"cv": None, "split_seed": 0, "train": "all.txt"}
    split = write(tmp_path / "split", "native", fold=None, data_settings=plain)
    of_split, of_folds = compare([split, *repeated(tmp_path / "c", "native", (0,))])
    assert [len(table.rows[0].evaluated) for table in (of_split, of_folds)] == [1, 3]


def test_scores_are_imported_for_each_fold_of_each_repeat(tmp_path: Path) -> None:
    runs = repeated(tmp_path, "a", (0, 1))
    for number, item in enumerate(runs):
        scores = item.scored("test").scores + number
        np.savetxt(
            tmp_path / f"{item.result.data['fold']}_{item.result.repeat}.txt", scores
        )
    system = Import("production", str(tmp_path / "{fold}_{split_seed}.txt"))
    imported = import_runs(
        system, runs, lambda *_, **__: pytest.fail("no model is imported")
    )
    for number, (item, made) in enumerate(zip(runs, imported, strict=True)):
        assert (
            made.scored("test").scores.tolist()
            == (item.scored("test").scores + number).tolist()
        )


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("cv_repeats=2", ("cv_repeats is 2", "cv is null", "cv=5")),
        (
            "cv_repeats=2 data=mq2008",
            ("cv_repeats is 2", "mq2008", "published folds", "data=letor"),
        ),
        ("cv=3 data.fold=1 cv_repeats=0", ("cv_repeats is 0", "at least 1")),
        (
            "cv=3 data.fold=1 cv_repeats=2 cv_split=valid",
            ("2, but", "valid", "test set", "seed=0,1"),
        ),
        (
            "data=table data.train=a.csv data.split_by=day data.fold=1 cv=3 cv_repeats=2 cv_split=forward",
            ("cv_repeats is 2", "forward", "Leave out cv_repeats"),
        ),
    ],
)
def test_folds_that_cannot_be_drawn_again_are_refused(
    words: str, parts: tuple[str, ...]
) -> None:
    with pytest.raises(LtrbenchError, match=naming(*parts)):
        composed(*words.split())


def test_repeats_beside_a_list_of_split_seeds_are_refused() -> None:
    config = OmegaConf.create({"data": {"cv": 5}, "cv_repeats": 3, "replicates": None})
    words = ["cv=5", "cv_repeats=3", "data.split_seed=0,1"]
    with pytest.raises(
        LtrbenchError, match=naming("cv_repeats=3", "data.split_seed=0,1", "Leave out")
    ):
        with_all_jobs(words, config)
