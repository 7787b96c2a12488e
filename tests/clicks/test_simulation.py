"""Simulated logs: click-through rates, the source, and its truth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click_cases import make_log, make_world
from command_line import run
from numpy.typing import NDArray

from ltrbench.clicks.simulation import (
    ATTRACTION,
    CLICK_MODELS,
    NOTHING,
    RATES,
    ClickSimulation,
    Logging,
    Replica,
    Users,
    simulate,
)
from ltrbench.clicks.source import ClickSource
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError, DataError
from ltrbench.metrics import evaluate
from ltrbench.runs import find_runs

ATTRACTIONS = np.array([0.3, 0.9, 0.1, 0.6])
USERS = Users(eta=0.7, continuation=0.8, trust=0.5)
THETA = np.arange(1.0, 5.0) ** -0.7


def _rates(model: str) -> NDArray[np.float64]:
    """The probability of a click at each position of one list."""
    g = ATTRACTIONS
    if model == "pbm":
        return np.asarray(THETA * g)
    if model == "trust":
        return np.asarray(THETA * (g + (1 - g) * 0.5 / np.arange(1, 5)))
    passes = 1 - g if model == "cascade" else 0.8 * (1 - g**2)
    rates: NDArray[np.float64] = g * np.append(1.0, np.cumprod(passes)[:-1])
    return rates


@pytest.mark.parametrize("model", CLICK_MODELS)
def test_click_through_rates_are_those_of_the_formula(model: str) -> None:
    lists = np.tile(ATTRACTIONS, (100_000, 1))
    clicks = CLICK_MODELS[model](lists, USERS, np.random.default_rng(0))
    rates = _rates(model)
    errors = np.sqrt(rates * (1 - rates) / len(lists))
    assert np.all(np.abs(clicks.mean(axis=0) - rates) < 4 * errors)
    assert RATES[model](lists[:1], USERS)[0] == pytest.approx(rates)


@pytest.mark.parametrize("model", CLICK_MODELS)
def test_lists_are_those_of_the_rankers_or_shuffled(model: str) -> None:
    query_start = np.array([0, 2, 6])
    scores = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    settings = Logging(num_sessions=2000, depth=3, shuffled_share=0.25)
    sessions = simulate(
        np.ones(6),
        query_start,
        [scores, -scores],
        settings,
        click_model=CLICK_MODELS[model],
    )
    tops = np.array([[[1, 0, NOTHING], [5, 4, 3]], [[0, 1, NOTHING], [2, 3, 4]]])
    expected = tops[sessions.rankers, sessions.queries]
    kept = ~sessions.is_shuffled
    assert (sessions.documents[kept] == expected[kept]).all()
    of_shuffled = sessions.documents[sessions.is_shuffled]
    as_sets = np.sort(expected[sessions.is_shuffled], axis=1)
    assert (np.sort(of_shuffled, axis=1) == as_sets).all()
    assert not sessions.clicks[sessions.documents == NOTHING].any()
    assert sessions.is_shuffled.mean() == pytest.approx(0.25, abs=0.05)
    # The more popular query has 1 / (1 + 2^-0.7) of the sessions.
    share = max(np.bincount(sessions.queries)) / 2000
    assert share == pytest.approx(1 / (1 + 2**-0.7), abs=0.05)


def _source(**settings: Any) -> ClickSimulation:
    labelled = Synthetic(name="synthetic", num_queries=60, median_documents=20)
    fields: dict[str, Any] = {"name": "simulated", "num_sessions": 2000}
    return ClickSimulation(from_=labelled, **(fields | settings))


def test_the_test_set_has_the_true_labels_and_models_learn_from_clicks() -> None:
    source = _source()
    splits = source.load()
    again = source.load()
    for (_, split), (_, other) in zip(splits, again, strict=True):
        assert split.fingerprint == other.fingerprint
    assert _source(seed=1).load().test.fingerprint != splits.test.fingerprint

    test = splits.test
    truth = source.from_.load().whole().train
    rows = {key: row for row, key in enumerate(truth.query_ids.tolist())}
    first = rows[test.query_ids[0]]
    labels = truth.labels[slice(*truth.query_start[first : first + 2])]
    of_first = test.labels[: test.query_start[1]]
    assert sorted(of_first) == sorted(labels)
    assert test.numbers(ATTRACTION) == pytest.approx(
        0.1 + 0.8 * (2**test.labels - 1) / (2 ** truth.labels.max() - 1)
    )
    assert set(np.unique(splits.train.labels)) == {0.0, 1.0}
    means = evaluate(test, test.labels, ["ndcg@10", "clicks@10"]).means
    assert means["ndcg@10"] == pytest.approx(1)
    assert means["clicks@10"] > 0
    final = source.with_all_queries().load().whole()
    assert final.train.num_queries == 2000


def test_scores_of_a_file_and_shuffled_lists_make_a_log(tmp_path: Path) -> None:
    labelled = _source().from_.load().whole().train
    path = tmp_path / "scores.txt"
    np.savetxt(path, labelled.labels)
    names = [str(path), "shuffle:0.5"]
    test = _source(logging=names, num_sessions=8000).load().test
    assert test.impressions is not None
    shown = test.impressions.shown
    share = shown[test.impressions.is_randomised].sum() / shown.sum()
    assert share == pytest.approx(0.5, abs=0.05)
    first = ~test.impressions.is_randomised & (test.impressions.positions == 0)
    rows = test.impressions.rows[first]
    best = np.maximum.reduceat(test.labels, test.query_start[:-1])
    assert (test.labels[rows] == best[test.query_of_document[rows]]).all()


REFUSED = [
    ({"click_model": "pmb"}, ["pmb", "pbm"]),
    ({"logging": "shuffle:2"}, ["shuffle:2", "shuffle:0.1"]),
    ({"logging": "absent.txt"}, ["absent.txt", "mixture"]),
    ({"attraction": [0.1, 0.9]}, ["2 values", "label is 4"]),
    ({"trust": 1.5}, ["1.5", "0 to 1"]),
    ({"from_": "mq2008"}, ["mq2008", "data.from"]),
    ({"logging": "good"}, ["never exchanged"]),
]


@pytest.mark.parametrize(("settings", "named"), REFUSED)
def test_what_makes_no_log_is_refused(
    settings: dict[str, Any], named: list[str]
) -> None:
    with pytest.raises((ConfigError, DataError)) as caught:
        replace(_source(), **settings).load()
    for part in named:
        assert part in str(caught.value)


def test_a_log_is_checked_by_simulation_on_its_own_lists(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    make_log(make_world(0), num_sessions=3000).to_csv(log, index=False)
    words = ["clicks", "check", str(log), "--logs", "4", "--json"]
    printed = run(*words, "--model", "pbm", "--model", "dbn", folder=tmp_path).stdout
    rows = {
        (row["users"], row["estimator"], row["metric"]): row
        for row in json.loads(printed)["estimators"]
    }
    harvest = rows["pbm", "harvest", "clicks@10"]
    assert abs(harvest["bias"]) < 0.25
    assert harvest["coverage"] >= 0.75
    assert harvest["wrong sign"] == 0
    assert rows["pbm", "harvest", "clipped_clicks@10"]["bias"] < -0.1
    assert rows["dbn", "harvest", "clicks@10"]["bias"] > 0.5
    assert rows["dbn", "harvest", "clicks@10"]["rejected"] == 1


def test_queries_of_a_checked_log_are_drawn_with_all_of_their_lists(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.csv"
    frame = make_log(make_world(0, 40), num_sessions=400)
    frame.assign(brand="acme", price=1.0).to_csv(path, index=False)
    source = ClickSource(
        name="clicks",
        log=str(path),
        features=["feature"],
        categorical=["brand"],
        keep=["price"],
    )
    replica = Replica.of(source.read(), source)
    sample = replica.resampled(3)
    log = sample.log
    old = replica.log
    assert len(log.query_names) == len(old.query_names)
    for query in range(len(log.query_names)):
        rows = np.flatnonzero(log.queries == query)
        (of_old,) = set(sample.queries[log.units[rows]].tolist())
        whole = np.flatnonzero(old.queries == of_old)
        for name in ("documents", "positions", "clicks", "rankers"):
            values = getattr(log, name)[rows]
            assert np.array_equal(values, getattr(old, name)[whole])
        attraction = sample.attraction[log.units[rows]]
        assert np.array_equal(attraction, replica.attraction[old.units[whole]])
        num_sessions = len(np.unique(log.sessions[rows]))
        assert num_sessions == len(np.unique(old.sessions[whole]))


@pytest.mark.slow
def test_a_sweep_shows_expected_clicks_beside_the_truth(tmp_path: Path) -> None:
    words = ["data=click_simulation", "data.from=synthetic", "data.from.num_queries=80"]
    rest = ["model=linear,random", "tracking=none", "importance=null"]
    rest += ["data.num_sessions=2000", "hydra.sweep.dir=sweep", "-m"]
    run(*words, *rest, folder=tmp_path)
    runs = find_runs([tmp_path / "sweep"])
    of_model = {each.result.model: each.result.metrics for each in runs}
    for metric in ("test/clicks@10", "test/ndcg@10"):
        linear = of_model["linear"][metric]
        random = of_model["random"][metric]
        assert linear is not None
        assert random is not None
        assert linear > random
    assert runs[0].result.data["name"] == "synthetic_pbm"
