"""Estimators: golden values, and intervals that cover the truth."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
from click_cases import (
    GOLDEN,
    World,
    dataset_of,
    golden_judgments,
    impressions_of_counts,
    make_log,
    make_world,
)
from messages import naming
from numpy.typing import NDArray

from ltrbench.clicks.estimators import ClickLog
from ltrbench.clicks.source import with_columns
from ltrbench.data import Judgments, RankingDataset
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.metrics import evaluate
from ltrbench.statistics import PairedSample
from ltrbench.statistics.paired import student_intervals

IPS = GOLDEN["ips"]


@pytest.mark.parametrize("system", ["A", "B"])
def test_values_are_those_of_the_formulas(system: str) -> None:
    golden = IPS["values"][system]
    judgments = golden_judgments()
    scores = -np.array(golden["rank"], dtype=np.float64).ravel()
    names = ["clicks@3", "snips@3", "dcv@3:corrected"]
    evaluation = evaluate(judgments, scores, names)
    sessions = np.array(IPS["sessions_per_query"])
    values = evaluation.per_query["clicks@3"] * sessions
    assert values == pytest.approx(golden["expected_clicks_per_query"])
    for name, of_golden in (
        ("clicks@3", "expected_clicks"),
        ("snips@3", "snips"),
        ("dcv@3:corrected", "dcg"),
    ):
        assert evaluation.means[name] == pytest.approx(golden[of_golden], abs=1e-14)
    for name, of_golden in (("clicks@3", "error"), ("snips@3", "snips_error")):
        sample = PairedSample.of(
            evaluation.per_query[name], sessions, are_clusters=True
        )
        assert sample.standard_errors[0] == pytest.approx(golden[of_golden])


def test_the_error_of_a_difference_is_that_of_clusters() -> None:
    judgments = golden_judgments()
    values = []
    for system in "AB":
        ranks = np.array(IPS["values"][system]["rank"], dtype=np.float64).ravel()
        evaluation = evaluate(judgments, -ranks, ["clicks@3"])
        values.append(evaluation.per_query["clicks@3"])
    sample = PairedSample.of(
        np.array(values), np.array(IPS["sessions_per_query"]), are_clusters=True
    )
    difference = sample.differences([(0, 1)])
    golden = IPS["values"]["A - B"]
    assert difference.means[0] == pytest.approx(golden["difference"])
    assert difference.standard_errors[0] == pytest.approx(golden["error"])


@functools.cache
def simulated_log(seed: int) -> tuple[World, RankingDataset]:
    world = make_world(seed)
    return world, dataset_of(make_log(world, seed))


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["clicks@10", "snips@10"])
def test_intervals_cover_the_difference_of_two_rankers(metric: str) -> None:
    differences = []
    errors = []
    truths = []
    for seed in range(100):
        world, data = simulated_log(seed)
        queries = np.array([int(name.split()[1]) for name in data.query_ids])
        cells = (
            queries[data.query_of_document],
            data.column("document_id").astype(int),
        )
        of_system = [
            evaluate(data, scores[cells], [metric]).per_query[metric]
            for scores in (world.candidate, world.production)
        ]
        sample = PairedSample.of(
            of_system[0] - of_system[1], data.query_weights, are_clusters=True
        )
        (interval,) = student_intervals(sample)
        differences.append(sample.means[0])
        errors.append((interval.high - interval.low) / 2)
        gain = world.expected_clicks(world.candidate) - world.expected_clicks(
            world.production
        )
        divisor = world.attraction.sum(axis=1).mean() if metric == "snips@10" else 1.0
        truths.append(gain.mean() / divisor)
    truth = np.mean(truths)
    covered = np.abs(np.array(differences) - truth) <= np.array(errors)
    assert np.mean(differences) == pytest.approx(truth, rel=0.06)
    assert covered.mean() >= 0.9


def test_clicks_need_a_log() -> None:
    judgments = Judgments(labels=np.ones(2), query_start=np.array([0, 2]))
    with pytest.raises(DataError, match=r"data=clicks data.log=FILE"):
        evaluate(judgments, np.zeros(2), ["clicks@10"])


@pytest.mark.parametrize("word", ["value", "nvalue", "ctr"])
def test_corrected_clicks_are_measured_with_the_error_of_the_examination(
    word: str,
) -> None:
    data = with_columns(dataset_of(make_log(make_world(0, 20), num_sessions=400)))
    named = naming("clicks@k", "dcv@k:corrected")
    with pytest.raises(UndefinedMetricError, match=named):
        evaluate(data, np.zeros(data.num_documents), [f"{word}@3:corrected"])
    # Without a log of clicks the name is that of a column like others.
    table = Judgments(
        labels=np.ones(2),
        query_start=np.array([0, 2]),
        kept={"corrected": np.array([2.0, 2.0])},
    )
    values = evaluate(table, np.zeros(2), [f"{word}@1:corrected"]).means
    assert values == {f"{word}@1:corrected": 1.0 if word == "nvalue" else 2.0}


@pytest.mark.slow
def test_documents_below_the_fold_count() -> None:
    differences = []
    truths = []
    for seed in range(40):
        world = make_world(seed)
        frame = make_log(world, seed)
        is_shown = frame["position"] < 5
        hidden = frame.assign(
            click=frame["click"].where(is_shown, 0),
            position=frame["position"].where(is_shown),
        )
        data = with_columns(dataset_of(hidden))
        assert np.isnan(data.numbers("modelled")).any()
        queries = np.array([int(name.split()[1]) for name in data.query_ids])
        cells = (
            queries[data.query_of_document],
            data.column("document_id").astype(int),
        )
        means = [
            evaluate(data, scores[cells], ["clicks@5"]).means["clicks@5"]
            for scores in (world.candidate, world.production)
        ]
        differences.append(means[0] - means[1])
        gains = world.expected_clicks(world.candidate, 5)
        truths.append((gains - world.expected_clicks(world.production, 5)).mean())
    assert np.mean(differences) == pytest.approx(np.mean(truths), rel=0.08)


@pytest.mark.parametrize("cluster", ["query", "user"])
def test_attractions_are_predicted_from_other_queries(cluster: str) -> None:
    frame = make_log(make_world(0, 20), num_sessions=400)
    is_shown = frame["position"] < 5
    frame["position"] = frame["position"].where(is_shown)
    frame["click"] = frame["click"].where(is_shown, 0)
    frame["user"] = frame["session"] % 40
    is_first = frame["query"] == frame["query"].iloc[0]
    frame["feature"] = is_first.astype(float)
    predicted = []
    for clicks in (frame["click"], frame["click"].where(~is_first | ~is_shown, 1)):
        log = frame.assign(click=clicks)
        data = with_columns(dataset_of(log, cluster=cluster, propensity="power:1"))
        modelled = data.numbers("modelled")
        predicted.append(modelled[np.asarray(data.features)[:, 0] == 1])
    assert np.isfinite(predicted[0]).any()
    assert predicted[0] == pytest.approx(predicted[1], nan_ok=True)


def test_the_share_of_displays_replaces_the_examination_of_one() -> None:
    # The document is shown in one of two sessions of the query, at position 1, and clicked there.
    shown = np.array([[2.0, 0.0], [0.0, 1.0]])
    clicks = np.array([[1.0, 0.0], [0.0, 1.0]])
    theta = np.array([1.0, 0.5])
    given = replace(
        impressions_of_counts(shown, clicks),
        propensities=theta,
        theta=theta,
        influence=np.zeros((1, 2)),
    )
    judgments = Judgments(
        labels=np.ones(2),
        query_start=np.array([0, 2]),
        query_weights=np.array([2.0]),
        impressions=given,
    )
    log = ClickLog.of(judgments)
    assert log.is_partial
    # Attractions are 1 / 2 and 1 / 0.5 displays.
    assert log.corrected == pytest.approx([1 / 2, 1 / 0.5])


def test_the_weight_of_each_click_is_clipped() -> None:
    # Two documents in six lists; the weight of a click at position 1 is 10, clipped at 4.
    theta = np.array([1.0, 0.1])
    given = replace(
        impressions_of_counts([[4, 2], [2, 4]], [[3, 1], [0, 2]]),
        propensities=np.tile(theta, 2),
        theta=theta,
        influence=np.zeros((1, 2)),
    )
    judgments = Judgments(
        labels=np.ones(2),
        query_start=np.array([0, 2]),
        query_weights=np.array([6.0]),
        impressions=given,
    )
    scores = np.array([2.0, 1.0])
    means = evaluate(judgments, scores, ["clicks@2", "clipped_clicks@2"]).means
    assert means["clicks@2"] == pytest.approx((3 + 10 + 0.1 * 2 * 10) / 6)
    assert means["clipped_clicks@2"] == pytest.approx((3 + 4 + 0.1 * 2 * 4) / 6)


def _log_of_bandit(rewards: list[float], propensities: NDArray[np.float64]) -> ClickLog:
    """Actions as lists of one document, whose click is the reward."""
    num = len(rewards)
    clicked = impressions_of_counts(np.ones((num, 1)), np.array(rewards)[:, np.newaxis])
    given = replace(
        clicked,
        propensities=propensities,
        theta=np.ones(1),
        influence=np.zeros((num, 1)),
    )
    return ClickLog(given, np.arange(num), np.ones(num))


def _ips_of_bandit(
    rewards: list[float], propensities: list[float], policy: list[float]
) -> float:
    """IPS of actions, where the value of each document is its probability."""
    log = _log_of_bandit(rewards, np.array(propensities))
    return float(log.values(np.array(policy), np.zeros(1)).mean())


def test_estimates_are_those_of_open_bandit_pipeline() -> None:
    golden = GOLDEN["off_policy"]
    policy = np.array(golden["policy"])
    of_actions = policy[golden["action"]]
    ips = _ips_of_bandit(golden["reward"], golden["pscore"], of_actions.tolist())
    assert ips == golden["IPS"]
    # Importance weights are 1 / propensity if the propensity is divided by the probability of the new policy.
    log = _log_of_bandit(golden["reward"], np.array(golden["pscore"]) / of_actions)
    clipped = log.clipped(np.ones(len(of_actions)), tau=1.5)
    assert clipped.mean() == pytest.approx(golden["clipped_1_5"], abs=1e-15)
    never_shown = replace(
        log,
        query_of_row=np.zeros(3, dtype=np.int64),
        num_sessions=np.ones(1),
        modelled=np.array(golden["model"]),
    )
    assert never_shown.of_model(policy) == pytest.approx([golden["DM"]], abs=1e-15)
    golden = GOLDEN["item_position_ips"]
    num_slates = len(set(golden["slate"]))
    mean = _ips_of_bandit(golden["reward"], golden["pscore"], golden["target"])
    assert mean * len(golden["slate"]) / num_slates == pytest.approx(
        golden["value"], abs=1e-15
    )
