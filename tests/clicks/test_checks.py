"""Checks: replay of the logging rankers, and the support of an estimate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click_cases import (
    GOLDEN,
    THETA,
    dataset_of,
    golden_judgments,
    make_log,
    make_world,
)

from ltrbench.clicks.checks import is_rejected, replays
from ltrbench.metrics import support_of


def _rejections(model: str, num_logs: int, num_sessions: int) -> list[bool]:
    rejected = []
    for seed in range(num_logs):
        data = dataset_of(make_log(make_world(seed), seed, num_sessions, model=model))
        assert data.impressions is not None
        checked = replays(data.impressions, data.query_of_document, ["P", "B"])
        assert {replay.ranker for replay in checked} == {"P", "B"}
        rejected.append(is_rejected(checked))
    return rejected


def test_replay_rejects_a_cascade() -> None:
    assert all(_rejections("cascade", 3, 3000))


@pytest.mark.slow
def test_replay_seldom_rejects_the_position_based_model() -> None:
    # A binomial of 100 logs at 5 % has at most 10 rejections with 99 % probability.
    assert sum(_rejections("pbm", 100, 1500)) <= 10


def test_known_propensities_of_devices_are_not_rejected() -> None:
    world = make_world(0)
    log = make_log(world, num_sessions=3000)
    rng = np.random.default_rng(0)
    # Phones, on which users see less, get three in four of the lists of P.
    is_phone = (
        rng.random(3000)[log["session"]] < np.where(log["ranker"] == "P", 3, 1) / 4
    )
    theta = THETA[log["position"]]
    propensity = np.where(is_phone, 0.9 * theta**2, theta)
    queries = log["query"].str.split().str[1].astype(int)
    probability = propensity * world.attraction[queries, log["document"]]
    log = log.assign(click=(rng.random(len(log)) < probability).astype(int))
    data = dataset_of(log.assign(propensity=propensity), propensity="column")
    assert data.impressions is not None
    checked = replays(data.impressions, data.query_of_document, ["P", "B"])
    assert len(checked) == 2
    assert not is_rejected(checked)


def test_days_with_one_ranker_are_not_replayed() -> None:
    log = make_log(make_world(0), num_sessions=3000)
    earlier = make_log(make_world(0), seed=1, num_sessions=6000, rankers="P")
    earlier["session"] += len(log)
    # Documents have half of their attraction.
    earlier["click"] *= np.random.default_rng(0).integers(2, size=len(earlier))
    days = [earlier.assign(time="2026-01-10"), log.assign(time="2026-02-10")]
    of_days = dataset_of(pd.concat(days, ignore_index=True))
    alone = dataset_of(log)
    values = []
    for data in (of_days, alone):
        assert data.impressions is not None
        checked = replays(data.impressions, data.query_of_document, ["P", "B"])
        values.append([(replay.observed, replay.predicted) for replay in checked])
    assert np.array(values[0]) == pytest.approx(np.array(values[1]))


@pytest.mark.parametrize("system", ["A", "B"])
def test_the_support_is_that_of_the_weights(system: str) -> None:
    golden = GOLDEN["ips"]["values"][system]
    scores = -np.array(golden["rank"], dtype=np.float64).ravel()
    support = support_of([(golden_judgments(), scores)], "clicks@3")
    assert support.largest_share == pytest.approx(golden["largest_share"])
    assert support.effective_share == pytest.approx(golden["ess_share"])
    assert support.num_clicks == sum(map(sum, GOLDEN["ips"]["clicks"]))


def test_a_log_with_one_weight_of_20_000_has_no_support(
    letor_data: Callable[[str], Path],
) -> None:
    frame = pd.read_csv(letor_data("clicks") / "obd_bts_women.csv")
    log = pd.DataFrame(
        {
            "session": np.arange(len(frame)),
            "query": frame["user_feature_0"],
            "document": frame["item_id"],
            "position": frame["position"],
            "click": frame["click"],
            "propensity": frame["propensity_score"],
            "feature": frame["item_id"] / 10,
        }
    )
    data = dataset_of(log, propensity="column")
    support = support_of(
        [(data, np.arange(1.0 * data.num_documents))], "dcv@99:corrected"
    )
    assert support.largest_share > 0.05
    assert support.effective_share < 0.1
    assert support.effective_queries < 50
