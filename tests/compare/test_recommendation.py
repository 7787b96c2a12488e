# mypy: strict-optional=False
"""The recommendation, and the command that would allow a claim where a comparison allows none."""

from __future__ import annotations

import itertools
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claim_cases import SEEDS, folds, only, runs_of
from command_line import run
from composed_jobs import drafted
from paths import USER_BACKEND
from toy_runs import judgments, mentions, write

from ltrbench.cli.launch import flags_and_overrides
from ltrbench.compare import Comparison, Settings, compare, render
from ltrbench.compare.advice import recommend
from ltrbench.compare.comparison import SweepState
from ltrbench.compare.decision import Recommendation
from ltrbench.compare.planning import START_UP, NextStep, next_step
from ltrbench.compare.report import as_page, chapters_of
from ltrbench.runs import Run, find_runs
from ltrbench.statistics import BETTER
from ltrbench.statistics.claims import METHODS, RETRAINED, UNDECIDED


def trained(
    folder: Path, skills: dict[str, float], seeds: tuple[int, ...] = SEEDS
) -> Comparison:
    """Each model trained with several seeds, ranking as well as its skill."""
    runs = [
        run
        for model, skill in skills.items()
        for run in runs_of(folder, model, seeds, skill=skill)
    ]
    return only(runs, Settings(num_draws=300))


def recommended(comparison: Comparison) -> Recommendation:
    recommendation = recommend(comparison)
    assert recommendation is not None
    return recommendation


def test_no_claim_contradicts_the_recommendation(tmp_path: Path) -> None:
    skills = {f"model{number}": 1.0 + number / 4 for number in range(6)}
    comparison = trained(tmp_path, skills)
    recommendation = recommended(comparison)
    for pair in comparison.pairs:
        if {pair.a, pair.b} <= set(recommendation.models):
            assert pair.claim not in ("better", "worse")
    assert comparison.beats_all(recommendation.models[0]) == (
        len(recommendation.models) == 1
    )


def test_a_yardstick_that_is_not_beaten_is_named_and_no_model_is_recommended(
    tmp_path: Path,
) -> None:
    recommendation = recommended(
        trained(tmp_path, {"native": 1.0, "single_feature": 1.0, "random": 0.0})
    )
    assert recommendation.models == ()
    assert mentions(recommendation.headline, "No model", "not shown", "single_feature")


def test_one_training_recommends_nothing_and_names_the_command_that_would_be_a_basis(
    tmp_path: Path,
) -> None:
    comparison = trained(
        tmp_path, {"native": 3.0, "lightgbm": 0.5, "random": 0.0}, seeds=(1,)
    )
    recommendation = recommended(comparison)
    assert {pair.claim for pair in comparison.pairs} == {BETTER}
    assert recommendation.models == ()
    assert mentions(recommendation.headline, "No model", "one training", "no basis")
    step = next_step(comparison)
    page = as_page([comparison], chapters_of([comparison]))
    for text in (render(comparison), page):
        headline, command, certainty = (
            text.index(part)
            for part in (
                recommendation.headline,
                step.command,
                recommendation.certainty,
            )
        )
        assert headline < command < certainty


def test_undecided_models_are_not_recommended_and_the_bound_is_the_end_of_an_interval(
    tmp_path: Path,
) -> None:
    comparison = trained(tmp_path, {"native": 1.02, "xgboost": 1.0, "lightgbm": 1.01})
    recommendation = recommended(comparison)
    assert {pair.claim for pair in comparison.pairs} == {UNDECIDED}
    assert recommendation.models == ()
    pairs = [pair for pair in comparison.pairs if comparison.best in (pair.a, pair.b)]
    ends = [
        abs(end)
        for pair in pairs
        if pair.interval
        for end in (pair.interval.low, pair.interval.high)
    ]
    assert mentions(
        recommendation.headline,
        "Nothing is decided",
        "native",
        f"by up to {max(ends):.4f}",
    )


def test_among_settings_of_a_model_validation_chooses_and_not_this_table(
    tmp_path: Path,
) -> None:
    # The second setting of native is better on test and worse on validation.
    rows = (
        ("native", 15, 1.8, 0.9),
        ("native", 31, 2.0, 0.7),
        ("xgboost", 31, 0.1, 0.5),
    )
    runs = []
    for model, leaves, skill, value in rows:
        settings, metrics = (
            {"num_leaves": leaves},
            {"test/ndcg@10": skill / 3, "valid/ndcg@10": value},
        )
        folder = tmp_path / f"{model}{leaves}"
        runs += runs_of(folder, model, skill=skill, settings=settings, metrics=metrics)
    comparison = only(runs)
    assert comparison.best == "native num_leaves=31"
    recommendation = recommended(comparison)
    assert recommendation.models == ("native num_leaves=15",)
    assert any(
        mentions(remark, "2 rows", "num_leaves=15", "validation")
        for remark in recommendation.remarks
    )


def test_a_model_that_was_stopped_by_the_test_set_is_not_recommended(
    tmp_path: Path,
) -> None:
    judged = judgments(1, 150)
    runs = [
        write(
            tmp_path / "a", "native", skill=3.0, judged=judged, valid="test of fold 1"
        ),
        write(tmp_path / "b", "xgboost", skill=1.0, judged=judged),
    ]
    recommendation = recommended(only(runs, Settings(allow_mismatch=True)))
    assert recommendation.models == ()
    assert any(
        mentions(remark, "native", "picked on test")
        for remark in recommendation.remarks
    )


@pytest.mark.parametrize(
    ("fit", "threads", "cheapest"),
    [
        ((1.0, 3.0), (2, 2), "native"),
        ((3.0, 2.9), (2, 2), None),
        ((1.0, 3.0), (1, 2), None),
    ],
)
def test_the_cheapest_is_named_where_times_are_comparable_and_clearly_apart(
    tmp_path: Path,
    fit: tuple[float, float],
    threads: tuple[int, int],
    cheapest: str | None,
) -> None:
    runs = [
        write(
            tmp_path / model,
            model,
            skill=2.0,
            threads=threads[number],
            seconds={"fit": fit[number]},
        )
        for number, model in enumerate(("native", "xgboost"))
    ]
    recommendation = recommended(only(runs))
    named = [
        remark for remark in recommendation.remarks if remark.startswith("Cheapest")
    ]
    assert len(named) == (cheapest is not None)
    if cheapest:
        assert mentions(named[0], "fit", cheapest, "1.00 s", "3.00 s")


CHEAP = ("data.num_queries=80", "tracking=none", "importance=null")


def step_of(runs: Sequence[Run], settings: Settings | None = None) -> NextStep:
    step = next_step(only(list(runs), settings))
    assert step is not None
    return step


def once(folder: Path, **fields: Any) -> list[Run]:
    """Two models, each trained once on one split, in 1 s + 0.1 s and 2 s + 0.1 s."""
    seconds = {
        "warm_up": 50.0,
        "fit": 1.0,
        "monitor": 0.5,
        "predict": 0.1,
    }  # compiling is not repeated
    native = runs_of(folder, "native", (1,), seconds=seconds, **fields)
    return [
        *native,
        *runs_of(
            folder, "xgboost", (1,), seconds={"fit": 2.0, "predict": 0.1}, **fields
        ),
    ]


def words_of(step: NextStep) -> list[str]:
    return shlex.split(step.command)


def test_training_once_asks_for_five_resamples_of_every_model(tmp_path: Path) -> None:
    step = step_of(once(tmp_path))
    assert words_of(step) == [
        "python",
        "-m",
        "ltrbench",
        "model=native,xgboost",
        "replicates=5",
        "-m",
    ]
    assert "not repeated" in step.reason
    # Evaluation is a part of fit.
    assert step.seconds == pytest.approx(5 * (1.0 + 0.1 + 2.0 + 0.1) + START_UP)


def test_undecided_models_are_trained_with_as_many_seeds_as_the_plan_needs(
    tmp_path: Path,
) -> None:
    runs = [*runs_of(tmp_path, "native"), *runs_of(tmp_path, "xgboost", skill=0.99)]
    (pair,) = only(runs).family
    assert (pair.scope, pair.claim) == (RETRAINED, UNDECIDED)
    settings = Settings(detect=0.8 * pair.power.detectable)
    need = only(runs, settings).family[0].power.needs[1]
    step = step_of(runs, settings)
    seeds = ",".join(map(str, range(1, need.high + 1)))
    assert words_of(step)[3:] == ["model=native,xgboost", f"seed={seeds}", "-m"]
    assert mentions(
        step.reason, f"{need.high} seeds", f"instead of {pair.power.detectable:.2g}"
    )
    trained = need.high / len(SEEDS) * sum(run.result.total_seconds for run in runs)
    assert step.seconds == pytest.approx(trained + START_UP)


def test_only_models_drive_a_plan_and_only_with_trainings_whose_variance_is_known(
    tmp_path: Path,
) -> None:
    yardstick = [*runs_of(tmp_path, "native"), *runs_of(tmp_path, "random", skill=0.99)]
    published_folds = [*folds(tmp_path, "c", (1,)), *folds(tmp_path, "d", (1,))]
    one_row = runs_of(tmp_path / "1", "native", (1,))
    assert [step_of(runs).command for runs in (yardstick, published_folds)] == ["", ""]
    assert next_step(only(one_row)) is None


@pytest.mark.slow
def test_the_command_of_a_plan_repeats_the_folds_in_the_folder_of_their_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [
        write(
            tmp_path / "s" / f"{model}{fold}",
            model,
            fold=fold,
            data_settings={"cv": 5, "split_seed": 0},
            overrides=(f"model={model}", "cv=5", "tracking=none", f"data.fold={fold}"),
            sweep="s",
            started_in=str(tmp_path),
            skill=skill,
        )
        for model, skill in (("native", 1.0), ("xgboost", 0.99))
        for fold in range(1, 6)
    ]
    *words, is_sweep, folder = words_of(step_of(runs))[3:]
    assert (is_sweep, folder) == ("-m", "hydra.sweep.dir=s")
    of_key = dict(word.split("=") for word in flags_and_overrides(words)[1])
    assert (of_key["data.fold"], of_key["data.split_seed"][:4]) == ("1,2,3,4,5", "0,1,")
    last = of_key["data.split_seed"].rpartition(",")[2]
    of_key |= {"data.fold": "1", "data.split_seed": f"0,{last}"}
    jobs = itertools.product(
        *([f"{key}={value}" for value in of_key[key].split(",")] for key in of_key)
    )
    (tmp_path / "s").rename(tmp_path / "moved")
    moved = only(find_runs([tmp_path / "moved"]))
    step = next_step(replace(moved, sweeps=SweepState([tmp_path / "moved"])))
    assert words_of(step)[-1] == f"hydra.sweep.dir={tmp_path / 'moved'}"
    # The runs of the first repeat are jobs of the command, so that they are kept.
    assert {drafted(*runs[number].result.overrides).digest for number in (0, 5)} < {
        drafted(*job).digest for job in jobs
    }


def executed(step: NextStep, folder: Path) -> None:
    """Runs the command as a shell does, with the Python of these tests."""
    command = step.command.replace("python -m", f"{shlex.quote(sys.executable)} -m")
    done = subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def comparison_in(folder: Path) -> Comparison:
    (comparison,) = compare(find_runs([folder]))
    return comparison


@pytest.mark.slow
def test_the_command_of_a_step_runs_and_allows_a_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    models = "model=random,single_feature"
    config = ("--config-dir", str(USER_BACKEND))
    run(*config, models, "-m", *CHEAP, "hydra.sweep.dir=my sweep", folder=tmp_path)
    step = next_step(comparison_in(Path("my sweep")))
    assert step is not None
    assert [*config] == words_of(step)[3:5]
    executed(replace(step, command=f"{step.command} hydra.sweep.dir=again"), tmp_path)
    repeated = comparison_in(Path("again"))
    (pair,) = repeated.pairs
    assert (pair.scope, next_step(repeated)) == (METHODS, None)
    assert pair.interval is not None
