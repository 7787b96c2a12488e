"""The command that would allow a claim, where a comparison allows none about the methods."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claim_cases import deterministic, folds, only, resampled, runs_of
from command_line import run
from paths import USER_BACKEND

from ltrbench.compare import Comparison, Settings, compare, render
from ltrbench.compare.analysis.next_step import NextStep, next_step
from ltrbench.compare.output.record import comparisons_as_json
from ltrbench.compare.output.report import write_report
from ltrbench.compare.output.tables import as_html
from ltrbench.results import Run, find_runs
from ltrbench.statistics import RETRAINED

CHEAP = ("data.num_queries=80", "tracking=none", "importance=null")


def step_of(runs: Sequence[Run], settings: Settings | None = None) -> NextStep:
    step = next_step(only(list(runs), settings))
    assert step is not None
    return step


def once(folder: Path, **fields: Any) -> list[Run]:
    """Two models, each trained once on one split, in 1 s + 0.1 s and 2 s + 0.1 s."""
    seconds = {"warm_up": 50.0, "fit": 1.0, "monitor": 0.5, "predict": 0.1}  # compiling is not repeated
    native = runs_of(folder, "native", (1,), seconds=seconds, **fields)
    return [*native, *runs_of(folder, "xgboost", (1,), seconds={"fit": 2.0, "predict": 0.1}, **fields)]


def words_of(step: NextStep) -> list[str]:
    return shlex.split(step.command)


def test_training_once_asks_for_five_resamples_of_every_model(tmp_path: Path) -> None:
    step = step_of(once(tmp_path))
    assert words_of(step) == ["python", "-m", "ltrbench", "model=native,xgboost", "replicates=5", "-m"]
    assert "not repeated" in step.reason
    # Evaluation is a part of fit.
    assert step.seconds == pytest.approx(5 * (1.0 + 0.1 + 2.0 + 0.1))


def test_seeds_that_change_nothing_ask_for_resamples_with_one_seed(tmp_path: Path) -> None:
    overrides = {model: (f"model={model}", "seed=1", "l=2") for model in ("native", "xgboost")}
    runs = [
        run
        for model in overrides
        for run in deterministic(tmp_path, model, overrides=overrides[model], skill=len(model))
    ]
    step = step_of(runs)
    assert words_of(step)[3:] == ["model=native,xgboost", "seed=1", "l=2", "replicates=5", "-m"]
    assert step.seconds == pytest.approx(5 * sum(2 * [runs[0].result.seconds["fit"] + 0.1]))


def in_sweep(runs: Sequence[Run], folder: Path) -> list[Run]:
    """The same runs as jobs of a sweep in their common folder, whose overrides name the seed."""
    return [
        Run(
            run.path,
            replace(
                run.result,
                sweep=str(folder),
                overrides=(f"model={run.result.model}", f"seed={run.result.seed}"),
            ),
            held={"test": run.scored("test")},
        )
        for run in runs
    ]


def test_two_seeds_ask_for_more_seeds_into_the_same_folder_where_that_is_cheaper(tmp_path: Path) -> None:
    runs = [*runs_of(tmp_path, "native", (1, 2)), *runs_of(tmp_path, "random", (1, 2), skill=0.0)]
    step = step_of(in_sweep(runs, tmp_path))
    expected = ["model=native,random", "seed=3,4,5", "-m", f"hydra.sweep.dir={tmp_path}"]
    assert words_of(step)[3:] == expected
    assert "only twice" in step.reason
    assert step.seconds == pytest.approx(3 * 2 * (runs[0].result.seconds["fit"] + 0.1))
    # Without a sweep new seeds would have to repeat the old ones: resamples take no longer and say more.
    assert "replicates=5" in words_of(step_of(runs))


def test_each_row_gets_the_seeds_that_it_lacks(tmp_path: Path) -> None:
    runs = [*runs_of(tmp_path, "native", (1, 2, 3, 4)), *runs_of(tmp_path, "random", (1, 2), skill=0.0)]
    step = step_of(in_sweep(runs, tmp_path))
    jobs = [words[3:5] for words in map(shlex.split, step.command.split(" && "))]
    assert jobs == [["model=native", "seed=5"], ["model=random", "seed=3,4,5"]]


def test_seeds_are_of_no_use_between_two_models_that_they_cannot_change(tmp_path: Path) -> None:
    constant = [
        *deterministic(tmp_path, "native", (1, 2)),
        *deterministic(tmp_path, "other", (1, 2), skill=0.5),
    ]
    runs = in_sweep([*constant, *runs_of(tmp_path, "random", (1, 2), skill=0.0)], tmp_path)
    assert "replicates=5" in words_of(step_of(runs))


def with_folds(run: Run, num_folds: int) -> Run:
    data = {"num_folds": num_folds}
    return Run(
        run.path,
        replace(run.result, config={**run.result.config, "data": data}),
        held={"test": run.scored("test")},
    )


@pytest.mark.parametrize(("num_folds", "word"), [(5, "data.fold=2,3,4,5"), (10, "replicates=5")])
def test_published_folds_that_were_not_run_are_the_step_where_that_is_cheaper(
    tmp_path: Path, num_folds: int, word: str
) -> None:
    runs = [with_folds(run, num_folds) for run in in_sweep(once(tmp_path, fold=1), tmp_path)]
    assert word in words_of(step_of(runs))


def test_a_sweep_over_folds_may_hold_others_so_that_all_are_run_elsewhere(tmp_path: Path) -> None:
    runs = [
        with_folds(run, 3)
        for run in in_sweep(once(tmp_path, fold=1, swept={"data.fold": ("1", "2")}), tmp_path)
    ]
    words = words_of(step_of(runs))
    assert "data.fold=1,2,3" in words
    assert not any(word.startswith("hydra.sweep.dir") for word in words)


def test_without_a_sweep_all_folds_are_run(tmp_path: Path) -> None:
    runs = [with_folds(run, 3) for run in once(tmp_path, fold=2)]
    step = step_of(runs)
    assert "data.fold=1,2,3" in words_of(step)
    assert step.seconds == pytest.approx(3 * 3.2)


def test_repeated_training_needs_no_step_even_where_it_is_undecided(tmp_path: Path) -> None:
    seeds = only([*runs_of(tmp_path, "native"), *runs_of(tmp_path, "xgboost", skill=0.99)])
    assert {(pair.scope, pair.claim) for pair in seeds.family} == {(RETRAINED, "undecided")}
    resamples = only([run for model in ("a", "b") for run in resampled(tmp_path, model, (1, 2, 3))])
    of_folds = only([*folds(tmp_path, "c", (1,)), *folds(tmp_path, "d", (1,))])
    one_row = only(runs_of(tmp_path / "1", "native", (1,)))
    assert [next_step(item) for item in (seeds, resamples, of_folds, one_row)] == [None] * 4


def test_two_resamples_ask_for_five(tmp_path: Path) -> None:
    runs = []
    for model in ("native", "xgboost"):
        for made in resampled(tmp_path, model, (1, 2)):
            given = (f"model={model}", "replicates.number=2", "replicates.kind=bootstrap")
            index = made.result.data["resample"]["index"]
            overrides = (*given, f"replicates.index={index}")
            runs.append(Run(made.path, replace(made.result, overrides=overrides), held=made.held))
    expected = ["model=native,xgboost", "replicates.kind=bootstrap", "replicates=5", "-m"]
    assert words_of(step_of(runs))[3:] == expected


def test_rows_on_resamples_beside_others_have_no_step(tmp_path: Path) -> None:
    whole = runs_of(tmp_path / "whole", "native", (1,), train="all")
    assert next_step(only([*whole, *resampled(tmp_path, "native", (1, 2, 3))])) is None


@pytest.mark.parametrize("fields", [{"overrides": None}, {"params": "imported"}])
def test_runs_that_no_command_made_have_the_step_in_words(tmp_path: Path, fields: dict[str, Any]) -> None:
    comparison = only([*once(tmp_path), *runs_of(tmp_path, "other", (1,), **fields)])
    step = next_step(comparison)
    assert step is not None
    assert step.command == ""
    assert "5 resamples" in step.sentence
    assert step.sentence in render(comparison)


def test_overrides_that_differ_in_their_keys_are_several_commands_into_one_folder(tmp_path: Path) -> None:
    runs = [
        *runs_of(tmp_path, "native", (1,), overrides=("model=native", "model.l2=a b")),
        *runs_of(tmp_path, "xgboost", (1,), overrides=("model=xgboost",)),
    ]
    first, second = map(shlex.split, step_of(runs).command.split(" && "))
    assert first[3:6] == ["model=native", "model.l2=a b", "replicates=5"]
    assert first[-1] == second[-1]
    assert first[-1].startswith("hydra.sweep.dir=")


def test_a_command_from_elsewhere_goes_there_first_and_a_masked_password_is_told(tmp_path: Path) -> None:
    fields = {"started_in": str(tmp_path), "overrides": ("tracking.uri=http://me:***@host",)}
    step = step_of(once(tmp_path, **fields))
    assert step.command.startswith(f"cd {shlex.quote(str(tmp_path))} && python -m ltrbench ")
    assert "password" in step.reason


def test_the_flags_of_the_runs_are_repeated_where_they_are_the_same(tmp_path: Path) -> None:
    flags = ("--config-dir", "my conf")
    plain, flagged = once(tmp_path / "plain"), once(tmp_path / "flagged", flags=flags)
    assert words_of(step_of(flagged))[3:6] == [*flags, "model=native,xgboost"]
    # The flags only add names, so that the runs without them repeat as well.
    assert words_of(step_of([plain[0], flagged[1]]))[3:5] == [*flags]
    other = once(tmp_path / "other", flags=("--config-dir", "theirs"))
    assert step_of([flagged[0], other[1]]).command == ""


def test_the_step_stands_in_every_form_of_the_comparison(tmp_path: Path) -> None:
    comparison = only(once(tmp_path))
    step = next_step(comparison)
    assert step is not None
    # In a line of its own, which no width breaks.
    for width in (None, 60):
        assert f"\n    {step.command}\n" in render(comparison, width)
    assert step.command in as_html(comparison)
    (record,) = json.loads(json.dumps(comparisons_as_json([comparison])))["comparisons"]
    assert record["next_step"] == {"command": step.command, "seconds": step.seconds, "reason": step.reason}
    write_report([comparison], tmp_path / "report.html")
    assert step.command in (tmp_path / "report.html").read_text()


def executed(step: NextStep, folder: Path) -> None:
    """Runs the command as a shell does, with the Python of these tests."""
    command = step.command.replace("python -m", f"{shlex.quote(sys.executable)} -m")
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def comparison_in(folder: Path) -> Comparison:
    (comparison,) = compare(find_runs([folder]))
    return comparison


@pytest.mark.slow
def test_the_command_for_more_seeds_runs_and_allows_a_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    models = "model=random,single_feature"
    run(
        *("--config-dir", str(USER_BACKEND), models, "seed=1,2", "-m", *CHEAP, "hydra.sweep.dir=my sweep"),
        folder=tmp_path,
    )
    step = next_step(comparison_in(Path("my sweep")))
    assert step is not None
    assert ["--config-dir", str(USER_BACKEND)] == words_of(step)[3:5]
    executed(step, tmp_path)
    (pair,) = comparison_in(Path("my sweep")).pairs
    assert (pair.scope, next_step(comparison_in(Path("my sweep")))) == (RETRAINED, None)
    assert pair.interval is not None


@pytest.mark.slow
def test_the_command_for_resamples_runs_and_allows_a_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("model=random,single_feature", "metrics=[ndcg@5,ndcg@10]", "-m", *CHEAP, folder=tmp_path)
    step = next_step(comparison_in(Path("multirun")))
    assert step is not None
    before = set(tmp_path.glob("multirun/*/*"))
    executed(step, tmp_path)
    (made,) = set(tmp_path.glob("multirun/*/*")) - before
    assert next_step(comparison_in(made)) is None
