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
from ltrbench.compare.planning import next_step
from ltrbench.errors import LtrbenchError
from ltrbench.metrics import evaluate
from ltrbench.runs import find_runs
from ltrbench.runs.record import Run
from ltrbench.statistics.claims import METHODS

SWEEP = "model=native,random data.num_queries=60 cv=3 seed=0,1,2 params.num_trees=3 tracking=none"
SWEEP += " importance=null metrics=ndcg@10 num_threads=1 hydra.sweep.dir=s -m"


def expected(runs: list[Run]) -> tuple[np.ndarray, dict[str, float]]:
    """Returns difference, low and high of native minus random, and query -> its mean difference."""
    sizes: list[float] = []
    means: dict[Any, Any] = {}
    queries: dict[str, float] = {}
    for item in runs:
        fields, scored = item.result.source["fields"], item.scored("test")
        values = evaluate(scored.judgments, scored.scores, ["ndcg@10"]).per_query[
            "ndcg@10"
        ]
        cell = (fields["split_seed"], fields["fold"])
        means.setdefault(cell, {}).setdefault(item.result.model, []).append(
            values.mean()
        )
        sign = {"native": 1, "random": -1}[item.result.model]
        for key, value in zip(
            scored.query_keys.tolist(), values / len(values), strict=True
        ):
            queries[key] = queries.get(key, 0.0) + sign * value
        sizes.append(
            item.result.data["test"]["queries"] / item.result.data["train"]["queries"]
        )
    num = len(means)
    differences = [
        np.mean(of["native"]) - np.mean(of["random"]) for of in means.values()
    ]
    # Seeds change nothing in native.
    within = sum(np.var(of["random"], ddof=1) / 3 for of in means.values()) / num**2
    error = np.sqrt((1 / num + np.mean(sizes)) * np.var(differences, ddof=1) + within)
    half = stats.t.ppf(0.975, num - 1) * error
    return np.mean(differences) + np.array([0, -half, half]), queries


@pytest.mark.slow
def test_repeats_are_one_table_with_the_corrected_interval_and_each_query_once(
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
        numbers, queries = expected(runs)
        assert (
            pair.difference,
            pair.interval.low,
            pair.interval.high,
        ) == pytest.approx(numbers, abs=1e-9)
        assert (pair.scope, comparison.replicates["random"]) == (
            METHODS,
            f"{folds} x 3 seeds",
        )
        of_queries, wins = (
            pair.statistics,
            sum(value > 1e-12 for value in queries.values()),
        )
        assert (of_queries.num_queries, of_queries.wins) == (len(queries), wins)
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
    assert mentions(
        seen_by_choice(compare([both[0], both[3]])[0].rows[0].evaluated),
        "of fold 1 are test",
    )
    (comparison,) = compare(both, settings=Settings(detect=1e-3))
    needs = comparison.pairs[0].power.needs
    assert [(need.kind, need.present) for need in needs] == [
        ("queries", 87),
        ("repeats", 2),
    ]
    # Two folds are two training sets, however often they are repeated.
    (of_two,) = compare([run for run in both if run.result.data["fold"] < 3])
    assert (of_two.pairs[0].interval, of_two.pairs[0].reason) == (
        None,
        "2 folds; a claim needs 3",
    )
    # The next look halves the level, and further repeats have no new queries.
    others = repeated(tmp_path / "8", "other", range(8), skill=0.95)
    step = next_step(
        compare([*repeated(tmp_path / "8", "native", range(8)), *others])[0]
    )
    assert step.command == ""
    assert mentions(
        step.reason, "undecided", "No number of repeats detects 0.01", "more queries"
    )
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
        system, runs, lambda run: pytest.fail("no model is imported")
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
