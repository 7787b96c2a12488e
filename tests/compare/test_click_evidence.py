"""Comparisons of clicks: what is claimed, what is withheld, and what is said about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click_cases import dataset_of, make_log, make_world
from toy_runs import mentions, write

from ltrbench.clicks.source import with_columns
from ltrbench.compare import Comparison, Guard, Settings, compare
from ltrbench.compare.answer import answer_of
from ltrbench.compare.leaderboard import (
    as_frame,
    comparisons_as_json,
    difference_cell,
    differences_of,
)
from ltrbench.compare.remarks import Kind, Remark
from ltrbench.compare.report import render
from ltrbench.compare.slicing import slices
from ltrbench.data import Judgments
from ltrbench.runs import Run

FACTS = {
    "propensity": "harvest",
    "theta": [1.0, 0.5, None],
    "has_features": True,
    "replays": [{"ranker": "P", "observed": 50.0, "predicted": 51.0, "p_value": 0.5}],
    "is_rejected": False,
}


def _judged(num_queries: int = 160, num_sessions: int = 2000) -> Judgments:
    return dataset_of(make_log(make_world(0, num_queries), num_sessions=num_sessions))


def _compared(
    folder: Path,
    judged: Judgments,
    metric: str = "clicks@10",
    repeats: Sequence[int] = (0,),
    guards: tuple[Guard, ...] = (),
    **facts: Any,
) -> Comparison:
    runs = []
    for model, repeat in product(("good", "bad"), repeats):
        run = write(
            folder / f"{model}{repeat}",
            model,
            judged=judged,
            skill=2.0 if model == "good" else -2.0,
            data_settings={"cv": 2, "split_seed": repeat},
        )
        data = {**run.result.data, "facts": FACTS | facts}
        runs.append(replace(run, result=replace(run.result, data=data)))
    settings = Settings(metric=metric, baseline="bad", num_draws=200, guards=guards)
    (comparison,) = compare(runs, settings=settings)
    return comparison


def test_expected_clicks_are_claimed_with_what_they_assume(tmp_path: Path) -> None:
    comparison = _compared(tmp_path, _judged())
    answer = answer_of(comparison)
    pair = comparison.claim("good")
    assert pair is not None
    assert pair.models.interval is not None
    assert answer.headline.startswith("Take good: on 2,000 lists of 1")
    low, high = pair.models.interval.low, pair.models.interval.high
    size = f"{pair.models.difference:.2f} [{low:.2f}, {high:.2f}] more clicks a list"
    assert size in answer.headline
    said = " ".join(answer.sentences)
    assert "predict the clicks of P within 2 %" in said
    assert "1 and 0.5" in " ".join(comparison.notes)


@pytest.mark.parametrize("num_rows", [1, 3])
@pytest.mark.parametrize("baseline", [0, 3, None])
def test_an_answer_of_many_rows_and_looks_has_at_most_eight_lines(
    tmp_path: Path, baseline: int | None, num_rows: int
) -> None:
    judged = _judged()
    labels = []
    runs: list[Run] = []
    for skill in range(6):
        # Without validation sets, several rows of a model are not considered.
        for row in range(num_rows):
            model = f"ranker-{skill}"
            run = write(
                tmp_path / f"{model}{row}",
                model,
                judged=judged,
                skill=skill - 2.0,
                seed=len(runs),
                settings={"trees": row},
            )
            data = {**run.result.data, "facts": FACTS}
            runs.append(replace(run, result=replace(run.result, data=data)))
        labels.append(model if num_rows == 1 else f"{model} trees=0")
    settings = Settings(metric="clicks@10", num_draws=200)
    if baseline is not None:
        settings = replace(settings, baseline=labels[baseline])
    (comparison,) = compare(runs, settings=settings)
    look = Remark.of(Kind.LOOK, number=2, declared=3, others=[], level=0.05 / 3)
    comparison = replace(comparison, remarks=(*comparison.remarks, look))
    # A wider terminal needs no more lines.
    parts = render(comparison, 80, which="main").split("\n\n")
    lines = parts[2].splitlines()
    assert len(lines) <= 8
    said = " ".join(lines)
    answer = answer_of(comparison)
    for part in (answer.headline, "1.67 %", "within 2 %", "heaviest clicks carry"):
        assert part in said
    # The report has what the terminal leaves out.
    if num_rows > 1:
        assert "no validation set" in " ".join(answer.details)


def test_without_a_fair_comparison_nothing_is_said_about_the_others(
    tmp_path: Path,
) -> None:
    judged = _judged()
    runs = []
    for number, model in enumerate(("bad", "good", "good")):
        run = write(
            tmp_path / str(number),
            model,
            judged=judged,
            skill=2.0 if model == "good" else -2.0,
            settings={"trees": number},
        )
        data = {**run.result.data, "facts": FACTS}
        runs.append(replace(run, result=replace(run.result, data=data)))
    settings = Settings(metric="clicks@10", baseline="bad", num_draws=200)
    (comparison,) = compare(runs, settings=settings)
    states = {pair.a: pair.models.state for pair in comparison.family}
    assert "better" in states.values()
    assert "no other model has a fair comparison" in answer_of(comparison).headline


def test_the_interval_is_that_of_clusters(tmp_path: Path) -> None:
    comparison = _compared(tmp_path, _judged())
    assert comparison.queries is not None
    sample = comparison.queries.distinct.differences([(0, 1)])
    values, shares = sample.values[0], sample.weights
    size = len(values)
    squared = shares**2 * (values - shares @ values) ** 2
    error = np.sqrt(size / (size - 1) * squared.sum())
    assert sample.standard_errors[0] == pytest.approx(error)


def test_without_a_valid_model_only_the_order_is_claimed(tmp_path: Path) -> None:
    comparison = _compared(tmp_path, _judged(), is_rejected=True)
    pair = comparison.claim("good")
    assert pair is not None
    assert pair.models.state == "better"
    assert difference_cell(pair).value is None
    answer = answer_of(comparison)
    assert answer.headline.endswith("it is better than bad.")
    assert "without a size" in " ".join(answer.sentences)
    assert comparison.largest_loss("good") is None
    comparison = replace(comparison, slices=slices(comparison, ["num_relevant"]))
    record = comparisons_as_json([comparison])
    (of_pair,) = record["pairs"]
    of_rows = [of_pair["models"], of_pair["methods"], *record["rows"]]
    for of_slice in record["slices"]:
        of_rows += of_slice["rows"]
    for name in ("difference", "difference_interval"):
        assert {row.get(name) for row in of_rows} == {None}
    assert of_pair["models"]["interval"] is None
    assert of_pair["effect_size"] is of_pair["inference"] is None
    assert of_pair["models"]["claim"] == "better"
    (of_good,) = as_frame(comparison).query("model == 'good'").to_dict("records")
    assert of_good["models"] == "better"
    for name in ("difference", "models_low", "models_high", "effect_size"):
        assert np.isnan(of_good[name])
    assert not differences_of([pair])


def test_a_decision_with_guards_about_the_order_only_has_no_sizes(
    tmp_path: Path,
) -> None:
    guards = (Guard.parse("clicks@5=0"),)
    comparison = _compared(tmp_path, _judged(), is_rejected=True, guards=guards)
    answer = answer_of(comparison)
    assert mentions(answer.headline, "Ship good", "clicks@10 is higher")
    assert mentions(" ".join(answer.sentences), "clicks@5 is not lower")
    assert not re.search(r"[+-]\d", " ".join(answer.sentences))
    (about,) = comparisons_as_json([comparison])["comparisons"]
    for check in about["decision"]["checks"]["good"]:
        assert check["value"] is check["low"] is check["high"] is None
        assert check["state"] == "holds"


WITHHELD = [
    ("clicks@10", {"propensity": "em"}, 160, "data.propensity=em"),
    ("clicks@10", {"propensity": "power:1"}, 160, "sensitivity"),
    ("clipped_clicks@10", {}, 160, "clipped weights are biased"),
    ("clicks@10", {}, 30, "effective number of queries is 17"),
]


@pytest.mark.parametrize(("metric", "facts", "num_queries", "reason"), WITHHELD)
def test_claims_are_withheld_with_a_reason(
    tmp_path: Path, metric: str, facts: dict[str, Any], num_queries: int, reason: str
) -> None:
    comparison = _compared(tmp_path, _judged(num_queries), metric, **facts)
    pair = comparison.claim("good")
    assert pair is not None
    assert pair.models.interval is None
    (whole,) = slices(comparison, ["query_size"])
    assert {row.interval for row in whole.rows} == {None}
    assert reason in answer_of(comparison).headline


def test_repeats_of_a_cross_validation_are_no_further_queries_or_clicks(
    tmp_path: Path,
) -> None:
    comparisons = [
        _compared(tmp_path / str(len(repeats)), _judged(30), repeats=repeats)
        for repeats in ((0,), (0, 1, 2, 3))
    ]
    once, repeated = [comparison.evidence for comparison in comparisons]
    assert once is not None
    assert repeated is not None
    assert repeated.num_lists == once.num_lists == 2000
    for label, support in once.supports.items():
        of_repeats = repeated.supports[label]
        assert of_repeats.effective_queries == pytest.approx(support.effective_queries)
        assert of_repeats.largest_share >= 0.9 * support.largest_share
    assert "effective number of queries" in answer_of(comparisons[1]).headline


def test_a_mean_over_folds_counts_each_list_once(tmp_path: Path) -> None:
    whole = dataset_of(make_log(make_world(0, 160), num_sessions=2000))
    weights = whole.query_weights
    assert weights is not None
    by_weight = np.argsort(-weights)
    folds = [np.sort(part) for part in (by_weight[:20], by_weight[20:])]
    runs = []
    for number, of_fold in enumerate(folds, 1):
        for model, skill in (("good", 2.0), ("bad", -2.0)):
            run = write(
                tmp_path / f"{model}{number}",
                model,
                fold=number,
                judged=whole.take_queries(of_fold),
                skill=skill,
                data_settings={"cv": 2},
            )
            data = {**run.result.data, "facts": FACTS}
            runs.append(replace(run, result=replace(run.result, data=data)))
    settings = Settings(metric="clicks@10", baseline="bad", num_draws=200)
    (comparison,) = compare(runs, settings=settings)
    row = comparison.row("good")
    of_folds = [item.evaluation for item in row.evaluated]
    values = np.concatenate([each.per_query["clicks@10"] for each in of_folds])
    num_lists = weights[np.concatenate(folds)]
    mean = (num_lists * values).sum() / num_lists.sum()
    assert row.metrics["clicks@10"] == pytest.approx(mean)
    pair = comparison.claim("good")
    assert pair is not None
    other = comparison.row("bad").metrics["clicks@10"]
    assert other is not None
    assert pair.models.difference == pytest.approx(mean - other)
    # Each fold is a training: the methods are claimed by the variation between folds.
    assert pair.variation is not None
    # All lists have ten documents: this slice is the whole, with the same cluster sample.
    (of_all,) = slices(comparison, ["query_size"])
    in_slice = {row.label: row for row in of_all.rows}["good"]
    assert comparison.queries is not None
    (error,) = comparison.queries.distinct.differences([(0, 1)]).standard_errors
    assert in_slice.difference == pytest.approx(pair.models.difference)
    assert in_slice.standard_error == pytest.approx(error)


def test_a_comparison_of_raw_clicks_is_said_to_repeat_the_shown_order(
    tmp_path: Path,
) -> None:
    judged = with_columns(dataset_of(make_log(make_world(0, 160))))
    for metric, is_raw in (("dcv@10:clicks", True), ("dcv@10:corrected", False)):
        comparison = _compared(tmp_path / metric, judged, metric, kind="clicks")
        said = " ".join(answer_of(comparison).remarks)
        assert ("does not correct clicks" in said) == is_raw


@pytest.mark.parametrize(
    ("num_shown", "columns", "named"),
    [
        (5, ["feature"], ["5 %", "never shown"]),
        (9, [], ["no features", "data.documents=FILE"]),
        (9, ["feature"], ["Take good"]),
    ],
)
def test_what_a_model_of_documents_that_were_never_shown_carries_is_no_claim(
    tmp_path: Path, num_shown: int, columns: list[str], named: list[str]
) -> None:
    frame = make_log(make_world(0, 160), num_sessions=2000)
    is_shown = frame["position"] < num_shown
    frame["click"] = frame["click"].where(is_shown, 0)
    frame["position"] = frame["position"].where(is_shown)
    if not columns:
        frame = frame.drop(columns="feature")
    judged = with_columns(dataset_of(frame))
    comparison = _compared(tmp_path, judged, has_features=bool(columns))
    assert mentions(answer_of(comparison).headline, *named)
    pair = comparison.claim("good")
    assert pair is not None
    assert bool(pair.withheld) == (named != ["Take good"])


def test_one_heavy_click_carries_no_claim(tmp_path: Path) -> None:
    judged = _judged()
    given = judged.impressions
    assert given is not None
    propensities = given.propensities.copy()
    propensities[int(np.argmax(given.clicks == 1))] = 1e-4
    heavy = replace(given, propensities=propensities)
    comparison = _compared(tmp_path, replace(judged, impressions=heavy))
    assert "one click carries" in answer_of(comparison).headline
