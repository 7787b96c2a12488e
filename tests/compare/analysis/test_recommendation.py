"""The recommendation follows from the claims, from validation among settings, and from comparable times."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claim_cases import deterministic, only, runs_of
from toy_runs import judgments, mentions, write

from ltrbench.compare import Comparison, Settings, compare, render
from ltrbench.compare.analysis.recommendation import Recommendation, recommend
from ltrbench.compare.output.record import comparisons_as_json
from ltrbench.compare.output.report import write_report
from ltrbench.compare.output.tables import as_html
from ltrbench.results import Run


def one_each(folder: Path, skills: dict[str, float], **settings: Any) -> Comparison:
    """Each model trained once, ranking as well as its skill."""
    runs = [run for model, skill in skills.items() for run in runs_of(folder, model, (1,), skill=skill)]
    return only(runs, Settings(num_draws=300, **settings))


def recommended(comparison: Comparison) -> Recommendation:
    found = recommend(comparison)
    assert found is not None
    return found


def test_a_model_that_is_better_than_all_others_is_taken(tmp_path: Path) -> None:
    found = recommended(one_each(tmp_path, {"native": 3.0, "lightgbm": 0.5, "random": 0.0}))
    assert found.models == ("native",)
    assert mentions(found.headline, "Take native", "better", "lightgbm", "random")


def test_models_that_are_not_shown_to_be_worse_are_named_together(tmp_path: Path) -> None:
    comparison = one_each(tmp_path, {"native": 2.0, "xgboost": 1.95, "lightgbm": 0.3, "random": 0.0})
    found = recommended(comparison)
    assert set(found.models) == {"native", "xgboost"}
    assert found.models[0] == comparison.best
    assert "lightgbm" not in found.headline


def test_no_claim_contradicts_the_recommendation(tmp_path: Path) -> None:
    skills = {f"model{number}": 1.0 + number / 4 for number in range(6)}
    comparison = one_each(tmp_path, skills)
    found = recommended(comparison)
    for pair in comparison.pairs:
        if {pair.a, pair.b} <= set(found.models):
            assert pair.claim not in ("better", "worse")
    assert comparison.beats_all(found.models[0]) == (len(found.models) == 1)


def test_without_an_interval_no_model_is_recommended(tmp_path: Path) -> None:
    runs = [write(tmp_path / model, model, counted=1) for model in ("native", "xgboost")]
    found = recommended(only(runs))
    assert found.models == ()
    assert mentions(found.headline, "No model", "interval")


def test_one_model_has_no_recommendation(tmp_path: Path) -> None:
    assert recommend(only(runs_of(tmp_path, "native", (1,)))) is None


def test_a_yardstick_that_is_not_beaten_is_named_and_no_model_is_recommended(tmp_path: Path) -> None:
    found = recommended(one_each(tmp_path, {"native": 1.0, "single_feature": 1.0, "random": 0.0}))
    assert found.models == ()
    assert mentions(found.headline, "No model", "none of", "single_feature")


def test_a_model_that_does_not_beat_every_yardstick_is_left_out(tmp_path: Path) -> None:
    skills = {f"model{number}": 1.0 + number / 10 for number in range(8)}
    comparison = one_each(tmp_path, {**skills, "single_feature": 1.0})
    beating = {pair.a for pair in comparison.pairs if (pair.b, pair.claim) == ("single_feature", "better")}
    assert 0 < len(beating) < len(skills)
    assert {*recommended(comparison).models} <= beating


def test_a_model_that_alone_beats_a_yardstick_is_not_called_better_than_others(tmp_path: Path) -> None:
    comparison = one_each(tmp_path, {"native": 1.25, "lightgbm": 1.1, "single_feature": 1.0})
    claims = {(pair.a, pair.b): pair.claim for pair in comparison.pairs}
    assert claims["native", "single_feature"] == "better"
    assert claims["lightgbm", "single_feature"] == claims["native", "lightgbm"] == "undecided"
    found = recommended(comparison)
    assert found.models == ("native",)
    better, undecided, unproven = found.headline.split(". ")
    assert mentions(better, "Take native", "better than single_feature")
    assert mentions(undecided, "not", "better than lightgbm")
    assert mentions(unproven, "lightgbm", "not", "beat single_feature")


def with_validation(run: Run, value: float) -> Run:
    metrics = {**run.result.metrics, "valid/ndcg@10": value}
    return Run(run.path, replace(run.result, metrics=metrics))


def settings_of_native(folder: Path, valid: tuple[float, float] | None) -> list[Run]:
    """Two settings of native, the second better on test; and xgboost, which is worse than both."""
    runs = []
    for place, (leaves, skill) in enumerate(((15, 1.8), (31, 2.0))):
        run = write(
            folder / str(leaves),
            "native",
            fold=None,
            skill=skill,
            judged=judgments(0, 150),
            settings={"num_leaves": leaves},
        )
        runs.append(with_validation(run, valid[place]) if valid else run)
    return [*runs, write(folder / "x", "xgboost", fold=None, skill=0.1, judged=judgments(0, 150))]


def test_among_settings_of_a_model_validation_chooses_and_not_this_table(tmp_path: Path) -> None:
    comparison = only(settings_of_native(tmp_path, (0.9, 0.7)))
    assert comparison.best == "native num_leaves=31"
    found = recommended(comparison)
    assert found.models == ("native num_leaves=15",)
    assert any(mentions(remark, "2 settings", "num_leaves=15", "validation") for remark in found.remarks)


def test_settings_without_validation_values_are_not_recommended(tmp_path: Path) -> None:
    found = recommended(only(settings_of_native(tmp_path, None)))
    assert found.models == ()
    assert any(mentions(remark, "2 settings of native", "validation set") for remark in found.remarks)


def test_validation_chooses_among_the_settings_of_the_only_model(tmp_path: Path) -> None:
    found = recommended(only(settings_of_native(tmp_path, (0.9, 0.7))[:2]))
    assert found.models == ("native num_leaves=15",)


def test_a_model_that_was_stopped_by_the_test_set_is_not_recommended(tmp_path: Path) -> None:
    judged = judgments(1, 150)
    runs = [
        write(tmp_path / "a", "native", skill=3.0, judged=judged, valid="test of fold 1"),
        write(tmp_path / "b", "xgboost", skill=1.0, judged=judged),
    ]
    found = recommended(only(runs, Settings(allow_mismatch=True)))
    assert found.models == ()
    assert any(mentions(remark, "native", "picked on test") for remark in found.remarks)


@pytest.mark.parametrize(
    ("fit", "threads", "cheapest"),
    [((1.0, 3.0), (2, 2), "native"), ((3.0, 2.9), (2, 2), None), ((1.0, 3.0), (1, 2), None)],
)
def test_the_cheapest_is_named_where_times_are_comparable_and_clearly_apart(
    tmp_path: Path, fit: tuple[float, float], threads: tuple[int, int], cheapest: str | None
) -> None:
    runs = [
        write(tmp_path / model, model, skill=2.0, threads=threads[place], seconds={"fit": fit[place]})
        for place, model in enumerate(("native", "xgboost"))
    ]
    found = recommended(only(runs))
    assert len(found.models) == 2
    named = [remark for remark in found.remarks if remark.startswith("Cheapest")]
    assert len(named) == (cheapest is not None)
    if cheapest:
        assert mentions(named[0], "fit", cheapest, "1.00 s", "3.00 s")


def test_against_a_named_baseline_the_models_that_are_better_are_taken(tmp_path: Path) -> None:
    skills = {"native": 3.0, "xgboost": 2.9, "lightgbm": 0.5}
    better = recommended(one_each(tmp_path / "1", skills, baseline="lightgbm"))
    assert set(better.models) == {"native", "xgboost"}
    assert mentions(better.headline, "better than lightgbm", "--baseline")
    kept = recommended(one_each(tmp_path / "2", skills, baseline="native"))
    assert kept.models == ("native", "xgboost")
    assert mentions(kept.headline, "Keep native")


@pytest.mark.parametrize(("seeds", "scope"), [((1,), "trained models only"), ((1, 2, 3), "the same")])
def test_the_certainty_names_confidence_scope_queries_and_trainings(
    tmp_path: Path, seeds: tuple[int, ...], scope: str
) -> None:
    runs = [*runs_of(tmp_path, "native", seeds, skill=3.0), *runs_of(tmp_path, "xgboost", seeds)]
    certainty = recommended(only(runs)).certainty
    assert mentions(certainty, "95 %", "150 test queries", f"{len(seeds)} seed", scope)


def test_with_several_scopes_the_certainty_names_the_models_of_each(tmp_path: Path) -> None:
    runs = [
        *deterministic(tmp_path, "native", skill=3.0),
        *deterministic(tmp_path, "lightgbm"),
        *runs_of(tmp_path, "xgboost"),
    ]
    certainty = recommended(only(runs)).certainty
    retrained, of_models = certainty.split(";")[:2]
    assert mentions(retrained, "native", "lightgbm", "xgboost", "the same")
    assert mentions(of_models, "native", "lightgbm", "only")
    assert "xgboost" not in of_models


def test_the_recommendation_is_the_first_thing_in_every_form(tmp_path: Path) -> None:
    comparison = one_each(tmp_path, {"native": 3.0, "lightgbm": 0.5})
    found = recommended(comparison)
    title, _, first = render(comparison).splitlines()[:3]
    assert "test ndcg@10" in title
    assert first == found.headline
    assert found.headline in as_html(comparison)
    (record,) = json.loads(json.dumps(comparisons_as_json([comparison])))["comparisons"]
    assert record["recommendation"]["models"] == ["native"]
    write_report([comparison], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.index(found.headline) < page.index('id="data-1-leaderboard"')


def test_without_a_common_test_set_no_model_is_recommended(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", "native", fold=1), write(tmp_path / "b", "xgboost", fold=2)]
    (comparison,) = compare(runs, Settings(allow_mismatch=True))
    assert recommended(comparison).models == ()
