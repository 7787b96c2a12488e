# mypy: strict-optional=False
"""The answer: the decision, the sentences that say it, and the next step."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claim_cases import SEEDS, folds, only, runs_of
from command_line import run
from paths import USER_BACKEND
from toy_runs import IMPORTED, judgments, mentions, write

from ltrbench.compare import (
    Answer,
    Comparison,
    Guard,
    Settings,
    answer_of,
    compare,
    render,
)
from ltrbench.compare.comparison import SweepState
from ltrbench.compare.decision import KEEP, NONE, SHIP, TAKE, Decision, decide
from ltrbench.compare.planning import START_UP, NextStep
from ltrbench.compare.remarks import notes_of
from ltrbench.compare.report import as_page, chapters_of
from ltrbench.runs import Run, find_runs
from ltrbench.runs.record import NO_PARAMETERS
from ltrbench.statistics.claims import BETTER, UNDECIDED, Scope, Varied


def trained(
    folder: Path,
    skills: dict[str, float],
    seeds: tuple[int, ...] = SEEDS,
    baseline: str | None = None,
) -> Comparison:
    """Each model trained with several seeds, ranking as well as its skill."""
    runs = [
        run
        for model, skill in skills.items()
        for run in runs_of(folder, model, seeds, skill=skill)
    ]
    return only(runs, Settings(num_draws=300, baseline=baseline))


def decided(comparison: Comparison) -> Decision:
    decision = decide(comparison)
    assert decision is not None
    return decision


def test_the_leader_is_taken_with_what_is_claimed_of_it_and_what_it_loses_at_most(
    tmp_path: Path,
) -> None:
    comparison = trained(tmp_path, {"native": 1.0, "xgboost": 1.5, "lightgbm": 1.48})
    decision = decided(comparison)
    assert (decision.kind, decision.models) == (TAKE, ("xgboost",))
    answer = answer_of(comparison)
    assert mentions(answer.headline, "xgboost has the highest ndcg@10")
    on_queries, methods, loss, needed = answer.claims
    assert mentions(on_queries, "On these queries", "better than native")
    assert mentions(methods, "other seeds", "xgboost")
    assert 0 < decision.loss < 0.1
    # Of an upper bound the last digit is rounded up.
    assert decision.loss < _loss_of(loss) < decision.loss + 0.001
    assert mentions(loss, "Taking xgboost", "95 %")
    assert mentions(needed, "0.01", "xgboost", "lightgbm")
    # The same sentences in every output, in this order.
    page = as_page([comparison], chapters_of([comparison]))
    for text in (render(comparison, 200), render(comparison), page):
        places = [text.index(sentence) for sentence in answer.sentences]
        assert places == sorted(places)


def _loss_of(sentence: str) -> float:
    return float(sentence.partition("at most ")[2].split()[0])


def test_a_leader_that_is_better_than_all_others_loses_nothing(tmp_path: Path) -> None:
    comparison = trained(tmp_path, {"native": 0.5, "xgboost": 3.0, "random": 0.0})
    decision = decided(comparison)
    assert comparison.beats_all("xgboost")
    assert (decision.models, decision.loss) == (("xgboost",), 0.0)
    claims = " ".join(answer_of(comparison).claims)
    assert mentions(claims, "all others")
    assert "loses" not in claims


def test_a_yardstick_that_is_not_beaten_is_named_and_no_model_is_recommended(
    tmp_path: Path,
) -> None:
    skills = {"native": 1.01, "single_feature": 1.0, "random": 0.0}
    comparison = trained(tmp_path, skills)
    decision = decided(comparison)
    assert (decision.kind, decision.models) == (NONE, ())
    assert decision.unbeaten == ("single_feature",)
    assert mentions(
        " ".join(answer_of(comparison).claims),
        "single_feature",
        "No model",
    )
    comparison = trained(tmp_path / "led", {**skills, "single_feature": 1.5})
    headline = answer_of(comparison).headline
    assert mentions(headline, "single_feature", "yardstick", "native")
    assert mentions(render(comparison, 200), "simultaneously", "3 pairs", "95 %")


def test_a_kind_and_not_a_name_makes_a_yardstick(tmp_path: Path) -> None:
    write(tmp_path / "0", "native", skill=3.0)
    # Scores of a system that is called random, and the yardstick of a user's plugin.
    imported: dict[str, Any] = {"origin": IMPORTED, "params": NO_PARAMETERS}
    write(tmp_path / "1", "random", skill=1.0, **imported)
    write(tmp_path / "2", "by_price", skill=0.0, params=NO_PARAMETERS)
    comparison = only(find_runs([tmp_path]), Settings(num_draws=300))
    kinds = {row.model: row.is_yardstick for row in comparison.rows}
    assert kinds == {"native": False, "random": False, "by_price": True}


def test_one_training_decides_about_these_models_and_asks_for_folds(
    tmp_path: Path,
) -> None:
    skills = {"native": 3.0, "lightgbm": 0.5, "random": 0.0}
    comparison = trained(tmp_path, skills, seeds=(1,))
    assert {pair.models.state for pair in comparison.pairs} == {BETTER}
    assert decided(comparison).models == ("native",)
    answer = answer_of(comparison)
    assert mentions(answer.claims[1], "trained once", "not known")
    assert answer.next_step is not None


@pytest.mark.parametrize("guards", [(), (Guard.parse("map=-0.5"),)])
def test_with_a_named_baseline_a_yardstick_that_is_not_beaten_leaves_no_model(
    tmp_path: Path, guards: tuple[Guard, ...]
) -> None:
    def compared(baseline: str, **skills: float) -> tuple[Decision, Answer]:
        runs = []
        for model, skill in skills.items():
            folder = tmp_path / baseline / "_".join(skills)
            runs += runs_of(folder, model, SEEDS, skill=skill)
        settings = Settings(num_draws=300, baseline=baseline, guards=guards)
        comparison = only(runs, settings)
        return decided(comparison), answer_of(comparison)

    # The yardstick beats the baseline; then a model does that does not beat the yardstick.
    yardstick = {"single_feature": 1.0}
    for others, subject in (({}, "in_use"), ({"new": 1.01}, "new")):
        decision, answer = compared("in_use", in_use=0.2, **yardstick, **others)
        assert (decision.kind, decision.models) == (NONE, ())
        assert (decision.subject, decision.unbeaten) == (subject, ("single_feature",))
        assert mentions(answer.headline, "No model", subject, "single_feature")
        assert answer.next_step is None
    # Of two better models one beats the yardstick.
    decision, _ = compared("in_use", in_use=0.2, **yardstick, new=1.01, best=3.0)
    assert (decision.kind, decision.models) == (SHIP, ("best",))
    # The baseline is a yardstick: a model beats it, or none does.
    decision, _ = compared("single_feature", **yardstick, best=3.0)
    assert (decision.kind, decision.models) == (SHIP, ("best",))
    decision, answer = compared("single_feature", **yardstick, new=1.01)
    assert (decision.kind, decision.subject) == (NONE, "new")
    assert mentions(answer.headline, "No model", "new", "single_feature")


def test_imported_scores_with_the_name_of_a_trained_model_are_another_model(
    tmp_path: Path,
) -> None:
    for baseline, kind in ((None, TAKE), ("linear", SHIP)):
        runs = [
            *runs_of(tmp_path / f"{baseline}", "native", skill=1.0),
            *runs_of(tmp_path / f"{baseline}", "linear", skill=0.9),
            *runs_of(
                tmp_path / f"{baseline} old", "native", skill=3.0, origin=IMPORTED
            ),
        ]
        comparison = only(runs, Settings(num_draws=300, baseline=baseline))
        decision = decided(comparison)
        assert (decision.kind, decision.subject) == (kind, "native (imported)")
        assert (decision.excluded, decision.choices) == ((), ())
        terms = {note.term for note in notes_of(comparison.remarks)}
        assert "choice by validation" not in terms


@pytest.mark.parametrize("better", [True, False])
def test_a_named_baseline_is_replaced_only_by_a_model_that_is_better(
    tmp_path: Path, better: bool
) -> None:
    skills = {"native": 1.0, "xgboost": 2.0 if better else 1.01, "random": 0.0}
    comparison = trained(tmp_path, skills, baseline="native")
    decision = decided(comparison)
    headline = answer_of(comparison).headline
    if better:
        assert (decision.kind, decision.models) == (SHIP, ("xgboost",))
        interval = comparison.claim("xgboost").models.interval
        assert mentions(headline, "Take xgboost", "native", f"{interval.low:+.4f}")
    else:
        assert (decision.kind, decision.models) == (UNDECIDED, ("native",))
        assert mentions(headline, "Keep native", "no other model")


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
        settings = {"num_leaves": leaves}
        metrics = {"test/ndcg@10": skill / 3, "valid/ndcg@10": value}
        folder = tmp_path / f"{model}{leaves}"
        runs += runs_of(folder, model, skill=skill, settings=settings, metrics=metrics)
    comparison = only(runs)
    assert comparison.best == "native num_leaves=31"
    assert decided(comparison).models == ("native num_leaves=15",)
    remarks = answer_of(comparison).remarks
    assert any(
        mentions(remark, "native num_leaves=15", "validation") for remark in remarks
    )


@pytest.mark.parametrize("skill_of_other", [0.2, 3.0])
def test_a_baseline_that_validation_chose_among_its_settings_is_kept(
    tmp_path: Path, skill_of_other: float
) -> None:
    runs = []
    for leaves, skill, value in ((15, skill_of_other, 0.7), (31, 1.5, 0.9)):
        settings = {"num_leaves": leaves}
        metrics = {"test/ndcg@10": skill / 3, "valid/ndcg@10": value}
        folder = tmp_path / f"{leaves}"
        runs += runs_of(
            folder, "native", skill=skill, settings=settings, metrics=metrics
        )
    in_use = "native num_leaves=31"
    comparison = only(runs, Settings(num_draws=300, baseline=in_use))
    decision = decided(comparison)
    assert (decision.kind, decision.models) == (KEEP, (in_use,))
    assert mentions(decision.choices, in_use, "validation")
    assert not decision.excluded
    answer = answer_of(comparison)
    assert mentions(answer.headline, "Keep", in_use)
    # The other setting is better on test, which does not choose.
    assert mentions(answer.headline, "can be taken") == (skill_of_other > 1.5)


def test_the_answer_is_about_the_rows_with_all_test_sets(tmp_path: Path) -> None:
    skills = {"a": 1.0, "b": 0.1, "d": 0.1, "c": 3.0}
    runs = []
    for model, skill in skills.items():
        runs += folds(tmp_path / model, model, (1,), skill=skill)
    # c lacks a fold.
    runs.pop()
    comparison = only(runs)
    lacking, highest, *_ = sorted(
        comparison.rows, key=lambda row: row.rank_by("ndcg@10")
    )
    assert (lacking.label, highest.label) == ("c", "a")
    scope = "with all test sets"
    answer = answer_of(comparison)
    assert scope in answer.headline
    assert not [claim for claim in answer.claims if "others." in claim]
    kept = answer_of(only(runs, Settings(baseline="a", num_draws=300)))
    assert scope in kept.headline


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
    comparison = only(runs, Settings(allow_mismatch=True))
    assert decided(comparison).models == ("xgboost",)
    answer = answer_of(comparison)
    assert mentions(answer.headline, "native", "highest", "xgboost")
    assert any(
        mentions(remark, "native", "picked on test") for remark in answer.remarks
    )


def test_a_model_whose_start_may_have_learned_from_test_is_not_recommended(
    tmp_path: Path,
) -> None:
    judged = judgments(1, 150)
    leaking = write(tmp_path / "a", "native", skill=3.0, judged=judged)
    data = {**leaking.result.data, "leaks_from": "runs/old"}
    leaking = replace(leaking, result=replace(leaking.result, data=data))
    runs = [leaking, write(tmp_path / "b", "xgboost", skill=1.0, judged=judged)]
    comparison = only(runs)
    assert decided(comparison).models == ("xgboost",)
    remarks = answer_of(comparison).remarks
    assert any(mentions(remark, "native", "runs/old") for remark in remarks)


def test_the_answer_of_six_models_fits_in_twenty_lines_of_a_hundred_columns(
    tmp_path: Path,
) -> None:
    skills = {f"model{number}": 1.0 + number / 4 for number in range(6)}
    lines = render(trained(tmp_path, skills), 100, which="main").splitlines()
    assert len(lines) <= 20
    # A command is not broken, and has the path of the folder.
    assert max(len(line) for line in lines if "python -m" not in line) <= 100


# The next step.

CHEAP = ("data.num_queries=80", "tracking=none", "importance=null")


def answered(runs: list[Run], settings: Settings | None = None) -> Answer:
    return answer_of(only(runs, settings))


def step_of(runs: list[Run], settings: Settings | None = None) -> NextStep:
    step = answered(runs, settings).next_step
    assert step is not None
    return step


def once(folder: Path, **fields: Any) -> list[Run]:
    """Two models, each trained once on one split, in 1 s + 0.1 s and 2 s + 0.1 s."""
    seconds = {
        "warm_up": 50.0,  # compiling is not repeated
        "fit": 1.0,
        "monitor": 0.5,
        "predict": 0.1,
    }
    native = runs_of(folder, "native", (1,), seconds=seconds, **fields)
    return [
        *native,
        *runs_of(
            folder, "xgboost", (1,), seconds={"fit": 2.0, "predict": 0.1}, **fields
        ),
    ]


@pytest.mark.parametrize(
    ("data", "added", "number"),
    [
        ({"cv": None, "test": None}, ["cv=5"], 5),
        ({"cv": None, "test": "test.txt"}, ["replicates=5"], 5),
        ({"root": "data"}, ["replicates=5"], 5),
        (
            {"cv": None, "test": None, "split_by": "date"},
            ["cv=3", "cv_split=forward"],
            3,
        ),
    ],
)
def test_a_single_training_is_repeated_on_folds_or_on_resamples_beside_a_test_set(
    tmp_path: Path, data: dict[str, Any], added: list[str], number: int
) -> None:
    step = step_of(once(tmp_path, data_settings=data))
    words = shlex.split(step.command)
    assert words == ["python", "-m", "ltrbench", "model=native,xgboost", *added, "-m"]
    # Evaluation is a part of fit.
    assert step.seconds == pytest.approx(number * (1.0 + 0.1 + 2.0 + 0.1) + START_UP)


def test_folds_replace_the_one_that_was_trained_and_settings_of_its_command_are_dropped(
    tmp_path: Path,
) -> None:
    chosen = ["data.fold=2", "cv_split=test", "data.split_seed=7"]
    of_command = ["looks=0", "stop_after=5", "cv_repeats=1", "register=shop"]
    fields = {
        "fold": 2,
        "data_settings": {"cv": 4, "test": None},
        "overrides": ["model=native", "cv=4", *chosen, *of_command, "tracking=none"],
    }
    step = step_of(_of_two_rows(tmp_path, **fields))
    kept = ["model=native,xgboost", "data.split_seed=7", "tracking=none"]
    assert shlex.split(step.command)[3:] == [*kept, "cv=4", "-m"]
    # A publisher's fold has a test set of its own.
    fields["data_settings"] = {"root": "data"}
    fields["overrides"] = ["model=native", "data.fold=2"]
    step = step_of(_of_two_rows(tmp_path / "published", **fields))
    kept = ["model=native,xgboost", "data.fold=2"]
    assert shlex.split(step.command)[3:] == [*kept, "replicates=5", "-m"]


def _of_two_rows(folder: Path, **fields: Any) -> list[Run]:
    _, *others = fields.pop("overrides")
    runs = []
    for model in ("native", "xgboost"):
        overrides = [f"model={model}", *others]
        runs += runs_of(folder, model, (1,), overrides=overrides, **fields)
    return runs


def test_commands_of_one_study_share_a_folder_and_a_single_look(tmp_path: Path) -> None:
    def commands_of(leaves: int) -> list[list[str]]:
        folder = tmp_path / str(leaves)
        fields = {"data_settings": {"cv": None, "test": None}}
        native = ["model=native", f"params.num_leaves={leaves}"]
        runs = runs_of(folder, "native", (1,), overrides=native, **fields)
        runs += runs_of(folder, "xgboost", (1,), **fields)
        return [*map(shlex.split, step_of(runs).command.split(" && "))]

    first, last = commands_of(7)
    (folder,) = {word for word in first if word.startswith("hydra.sweep.dir=")}
    assert folder in last
    assert ("looks=0" in first, "looks=0" in last) == (True, False)
    # Other settings are another study.
    assert folder not in commands_of(15)[0]
    assert folder in commands_of(7)[0]


def test_imported_scores_stay_as_they_are_when_models_are_trained_again(
    tmp_path: Path,
) -> None:
    fields = {"data_settings": {"cv": None, "test": None}}
    imported = runs_of(tmp_path, "old", (1,), origin=IMPORTED, **fields)
    step = step_of([*once(tmp_path, **fields), *imported])
    assert shlex.split(step.command)[3:] == ["model=native,xgboost", "cv=5", "-m"]


@pytest.mark.parametrize("trained_in", [runs_of, folds])
def test_an_imported_leader_is_not_said_to_be_trained(
    tmp_path: Path, trained_in: Callable[..., list[Run]]
) -> None:
    imported = trained_in(tmp_path, "old", (1,), skill=3.0, origin=IMPORTED)
    answer = answered([*trained_in(tmp_path, "native", (1,)), *imported])
    assert mentions(" ".join(answer.claims), "imported scores")
    assert not mentions(" ".join(answer.claims), "trained once")


def test_repeated_trainings_lead_to_the_final_model_unless_it_was_not_trained_here(
    tmp_path: Path,
) -> None:
    of_class = {"ranker": {"class": "native", "fields": {}}}
    native = folds(tmp_path, "native", (1,), **of_class)
    xgboost = folds(tmp_path, "xgboost", (1,), skill=0.98, **of_class)
    step = step_of([*native, *xgboost])
    assert mentions(step.command, "ltrbench final", "--model xgboost")
    # The baseline is kept, and it was not trained here.
    old = folds(tmp_path, "old", (1,), skill=0.99, origin=IMPORTED)
    settings = Settings(baseline="old", detect=0.001)
    assert answered([*native, *old], settings).next_step is None


def test_the_final_model_is_chosen_among_the_compared_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sweeps = [Path("study", str(number)) for number in range(5)]
    for number, sweep in enumerate(sweeps):
        # A path of the command line, and an absolute one.
        of_sweep = sweep if number else sweep.absolute()
        folds(of_sweep, f"model{number}", (1,), sweep=str(of_sweep))
    # Neither the common folder of all, nor a sweep without its weaker settings.
    assert _named_by_final([sweeps[0].absolute(), *sweeps[1:4]]) == _as_texts(
        [sweeps[0].absolute(), *sweeps[1:4]]
    )
    folds(sweeps[1], "weaker", (1,), skill=0.0, sweep=str(sweeps[1]))
    some = [sweeps[1] / f"model1{fold}1" for fold in range(1, 6)]
    assert _named_by_final(some) == _as_texts(some)
    assert _named_by_final([*some, sweeps[1]]) == _as_texts([sweeps[1]])


def _named_by_final(folders: list[Path]) -> list[str]:
    step = step_of(find_runs(folders))
    words = shlex.split(step.command)
    end = words.index("--model") if "--model" in words else len(words)
    return words[4:end]


def _as_texts(folders: list[Path]) -> list[str]:
    return list(map(str, folders))


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ("xgboost", Settings(), ["0.01", "needed", "native", "xgboost"]),
        ("xgboost", Settings(detect=0.001), ["0.001", "needed", "native", "xgboost"]),
        ("xgboost", Settings(detect=0.9), ["0.9", "queries are enough"]),
        ("linear", Settings(), ["native", "linear", "same ndcg@10"]),
        (
            "xgboost",
            Settings(family=("ndcg@10", "map")),
            ["In map", "undecided", "xgboost"],
        ),
    ],
)
def test_the_claims_have_the_number_of_queries_and_every_metric_that_was_given(
    tmp_path: Path, model: str, settings: Settings, words: list[str]
) -> None:
    native = folds(tmp_path, "native", (1,))
    answer = answered([*native, *folds(tmp_path, model, (1,))], settings)
    assert any(mentions(claim, *words) for claim in answer.claims)


def test_an_unfinished_sweep_is_resumed_first(tmp_path: Path) -> None:
    comparison = replace(
        trained(tmp_path, {"native": 1.0, "xgboost": 2.0}),
        sweeps=SweepState([tmp_path], [tmp_path] * 2, num_jobs=9),
    )
    step = answer_of(comparison).next_step
    assert mentions(step.command, "ltrbench resume")
    assert mentions(step.purpose, "2 of 9 jobs")


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
    step = answer_of(comparison_in(Path("my sweep"))).next_step
    python, *words = shlex.split(step.command)
    assert [python, *words[:4]] == ["python", "-m", "ltrbench", *config]
    run(*words[2:], "hydra.sweep.dir=again", folder=tmp_path)
    (pair,) = comparison_in(Path("again")).pairs
    assert pair.methods.scope == Scope(Varied.METHODS)
    assert pair.methods.interval is not None


def test_labels_that_are_probably_clicks_are_named_before_and_after_training(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    clicked = pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(60), 5),
            "document_id": np.tile(np.arange(5), 60),
            "position": np.tile(np.arange(5), 60),
            "label": rng.integers(0, 2, 300),
            "price": rng.random(300),
        }
    )
    clicked["corrected"] = clicked.label * (1.0 + clicked.position)
    clicked.to_csv(tmp_path / "clicked.csv", index=False)
    clicked.assign(label=clicked.label * 2).to_csv(tmp_path / "graded.csv", index=False)
    for name, is_named in (("clicked", True), ("graded", False)):
        words = [f"data.train={name}.csv", "data=table", "data.keep=[corrected]"]
        words += ["model=single_feature,random", "tracking=none", "importance=null"]
        done = run(*words, "-m", f"hydra.sweep.dir={name}", folder=tmp_path)
        before = done.stderr.split("job 0")[0]
        inspected = run("inspect", f"{name}.csv", folder=tmp_path).stdout
        for text in (before, inspected, done.stdout):
            assert mentions(" ".join(text.split()), "clicks", "order") == is_named
        by_column = ["compare", name, "--primary", "dcv@10:corrected"]
        assert "clicks" not in run(*by_column, folder=tmp_path).stdout
