"""Interleaving: lists of team draft, outcomes of sessions, intervals of the preference, and plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import TINY, run
from messages import naming
from numpy.typing import NDArray

from ltrbench.cli.verbs.interleaving import _by_document
from ltrbench.clicks.interleaving import (
    NOT_FILLED,
    Plan,
    Pool,
    Preference,
    balanced_credits,
    half_width,
    lists_of,
    outcomes_of_credits,
    plan,
    pools_of,
    read_interleaved,
    sessions_needed,
    simulated_outcomes,
    team_draft,
)
from ltrbench.clicks.simulation import CLICK_MODELS
from ltrbench.data import Judgments
from ltrbench.errors import DataError
from ltrbench.runs.record import ScoredSplit

Values = NDArray[np.float64]
NUM_DOCUMENTS = 10
PREFERENCES = {
    "a-pref": (754, 81, 71),
    "b-pref": (83, 720, 103),
    "no-pref": (395, 342, 138),
}
"""Wins, losses and ties of three public logs, by an independent implementation."""


def _write(folder: Path, **columns: Any) -> Path:
    rows: dict[str, Any] = {
        "session": ["s1", "s1", "s2", "s2", "s3", "s3"],
        "query": ["q1", "q1", "q1", "q1", "q2", "q2"],
        "click": [1, 0, 1, 1, 0, 0],
        "team": ["A", "B", "A", "B", "B", "A"],
    }
    path = folder / "log.csv"
    present = {name: of for name, of in (rows | columns).items() if of is not None}
    pd.DataFrame(present).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", PREFERENCES)
def test_preferences_of_public_logs_are_exact(
    name: str, letor_data: Callable[[str], Path]
) -> None:
    outcomes = read_interleaved(letor_data("clicks") / f"interleaved_{name}.csv")
    preference = Preference.of(outcomes.queries, outcomes.values)
    wins, losses, ties = PREFERENCES[name]
    assert (preference.wins, preference.losses, preference.ties) == (wins, losses, ties)
    assert preference.value == (wins + ties / 2) / (wins + losses + ties) - 1 / 2
    assert preference.interval is not None
    significant = preference.interval.low > 0 or preference.interval.high < 0
    assert significant == (name != "no-pref")


def test_a_session_is_won_by_the_team_with_more_clicks(tmp_path: Path) -> None:
    outcomes = read_interleaved(_write(tmp_path))
    assert outcomes.values.tolist() == [1, 0.5]
    assert outcomes.queries.tolist() == [0, 0]
    assert outcomes.num_sessions == 3
    # A document that neither ranker placed, such as an advertisement, has no team.
    pinned = _write(tmp_path, team=["A", "B", None, "B", "B", "A"])
    assert read_interleaved(pinned).values.tolist() == [1, 0]
    table = tmp_path / "log.parquet"
    pd.read_csv(pinned).to_parquet(table)
    assert read_interleaved(table).values.tolist() == [1, 0]
    credits_of_rows = [0.2, 0, 0.1, -0.5, 1, 1]
    by_credit = _write(tmp_path, team=None, credit=credits_of_rows)
    assert read_interleaved(by_credit).values.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("clicked", "outcome"), [([0], 1), ([1], 0), ([0, 2], 0.5), ([3], 0.5)]
)
def test_balanced_lists_count_clicks_down_to_the_better_rank_of_the_lowest(
    tmp_path: Path, clicked: list[int], outcome: float
) -> None:
    """Rankers 1234 and 2314, and the list 1234, as in mpkato/interleaving."""
    rank_a = np.array([0.0, 1, 2, 3])
    rank_b = np.array([2.0, 0, 1, 3])
    positions = np.array(clicked)
    of_clicks = balanced_credits(
        np.zeros(len(clicked), dtype=np.int64),
        positions.astype(np.float64),
        rank_a[positions],
        rank_b[positions],
    )
    total = np.array([of_clicks.sum()])
    assert outcomes_of_credits(total).tolist() == [outcome]
    path = tmp_path / "log.csv"
    rows = {
        "session": ["s"] * 4 + ["t"],
        "position": [0, 1, 2, 3, 0],
        "click": [int(number in clicked) for number in range(4)] + [1],
        "rank_a": [*rank_a, 0],
        "rank_b": [*rank_b, 0],
    }
    pd.DataFrame(rows).to_csv(path, index=False)
    read = read_interleaved(path)
    assert read.values.tolist() == [outcome, 0.5]
    assert read.method == "balanced"


def test_a_click_on_a_document_of_neither_list_changes_no_balanced_session(
    tmp_path: Path,
) -> None:
    rows = {
        "session": ["s", "s", "t", "u"],
        "position": [0, 9, 0, 9],
        "click": [1, 1, 1, 1],
        "rank_a": [0, None, 5, None],
        "rank_b": [5, None, 0, None],
    }
    pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    assert read_interleaved(tmp_path / "log.csv").values.tolist() == [1, 0]


@pytest.mark.parametrize("role", ["session", "query"])
def test_large_floats_are_no_ids(tmp_path: Path, role: str) -> None:
    path = tmp_path / "log.parquet"
    ids = np.repeat(np.arange(3), 2)
    rows = {"session": ids, "query": ids, "click": [1] * 6, "team": [*"AB"] * 3}
    pd.DataFrame(rows).to_parquet(path)
    assert read_interleaved(path).num_sessions == 3
    for dtype, first in ((np.float64, 2.0**53), (np.float32, 2.0**24)):
        large = (ids + first).astype(dtype)
        pd.DataFrame(rows | {role: large}).to_parquet(path)
        named = naming("row 1", role, "integers or texts")
        with pytest.raises(DataError, match=named):
            read_interleaved(path)


def test_words_for_nothing_are_queries(tmp_path: Path) -> None:
    read = read_interleaved(_write(tmp_path, query=["none"] * 2 + ["NaN"] * 4))
    assert len(np.unique(read.queries)) == 2


def test_both_rankers_place_their_best_document_in_each_round() -> None:
    rng = np.random.default_rng(0)
    ranks = rng.permuted(np.tile(np.arange(8.0), (2, 500, 1)), axis=2)
    ranks[1, :, 7] = np.inf
    documents, is_second = team_draft(ranks[0], ranks[1], 6, rng)
    assert np.allclose(is_second.reshape(500, 3, 2).sum(axis=2), 1)
    assert 0.4 < is_second[:, 0].mean() < 0.6
    for number in range(500):
        listed: list[int] = []
        for document, team in zip(documents[number], is_second[number], strict=True):
            own = ranks[int(team), number].copy()
            own[listed] = np.inf
            assert document == own.argmin()
            listed.append(int(document))
    short, _ = team_draft(np.array([[0.0, 1]]), np.array([[0.0, np.inf]]), 4, rng)
    assert short[0, -1] == NOT_FILLED


def test_golden_session_of_team_draft(tmp_path: Path) -> None:
    """Documents 1, 2, 3, 4 of teams A, B, B, A with clicks on the first three: B wins."""
    path = _write(
        tmp_path,
        session=["s", "s", "s", "s", "t", "t"],
        query=None,
        click=[1, 1, 1, 0, 0, 0],
        team=list("ABBAAB"),
    )
    assert read_interleaved(path).values.tolist() == [0]


def test_widths_and_sessions_have_the_values_of_their_formulas() -> None:
    wanted = -2 * np.log(0.05)
    ratio = 500 * (wanted + np.log(wanted) + 1) / 600
    expected = 2 * (ratio + 1) / ratio * np.log(np.sqrt(ratio + 1) / 0.05)
    assert half_width(0.01, 500, 600) == pytest.approx(0.01 * np.sqrt(expected))
    assert half_width(0.01, 500, 600) == pytest.approx(0.03036131532944407, rel=1e-14)
    assert sessions_needed(-0.02, 0.5) == 4906


def test_the_variance_is_that_of_a_cluster_sample_by_query() -> None:
    queries = np.array([0, 0, 0, 1, 2, 2])
    outcomes = np.array([1, 1, 0.5, 0, 1, 0.5])
    preference = Preference.of(queries, outcomes)
    mean = outcomes.mean()
    sums = np.bincount(queries, outcomes - mean)
    expected = 3 / 2 * (sums**2).sum() / len(queries) ** 2
    assert preference.standard_error**2 == pytest.approx(expected)
    assert preference.value == pytest.approx(mean - 1 / 2)


def _equal_rankers(
    rng: np.random.Generator, num_sessions: int, click_model: str = "pbm"
) -> tuple[Any, Any]:
    """Returns queries and outcomes of a log of two rankers that differ in each query, but not on average."""
    num_queries = 300
    is_good = rng.random((num_queries, NUM_DOCUMENTS)) < 0.3
    noise = rng.normal(size=(2, num_queries, NUM_DOCUMENTS))
    ranks = (noise - is_good).argsort(axis=2).argsort(axis=2)
    popularity = np.arange(1.0, num_queries + 1) ** -0.7
    queries = rng.choice(num_queries, num_sessions, p=popularity / popularity.sum())
    attraction = np.where(is_good, 0.9, 0.1)
    outcomes = simulated_outcomes(
        ranks[:, queries].astype(np.float64),
        attraction[queries],
        NUM_DOCUMENTS,
        rng,
        CLICK_MODELS[click_model],
    )
    is_clicked = ~np.isnan(outcomes)
    return queries[is_clicked], outcomes[is_clicked]


@pytest.mark.parametrize("click_model", ["pbm", "cascade", "dbn"])
def test_equal_rankers_are_rejected_in_about_5_percent_of_logs_by_query(
    click_model: str,
) -> None:
    num_logs = 150
    by_query, by_session, peeking, sequence = np.zeros((4, num_logs), dtype=np.bool_)
    for log in range(num_logs):
        rng = np.random.default_rng(log)
        queries, outcomes = _equal_rankers(rng, 1500, click_model)
        at_end = Preference.of(queries, outcomes)
        by_query[log] = _excludes_zero(at_end.interval)
        each = Preference.of(np.arange(len(outcomes)), outcomes)
        by_session[log] = _excludes_zero(each.interval)
        for end in range(100, len(outcomes), 100):
            looked = Preference.of(queries[:end], outcomes[:end])
            peeking[log] |= _excludes_zero(looked.interval)
            sequence[log] |= _excludes_zero(looked.always_valid(600))
    # 5 %, and 1.65 standard errors of 150 logs.
    assert by_query.mean() <= 0.08
    assert by_session.mean() > 0.1
    assert peeking.mean() > sequence.mean() + 0.05
    assert sequence.mean() <= 0.03


def _excludes_zero(interval: Any) -> bool:
    return bool(interval.low > 0 or interval.high < 0)


def _better_and_worse(num_queries: int) -> tuple[dict[str, Any], ...]:
    """Returns scores of a good and of a random ranker, and labels, by query and document."""
    rng = np.random.default_rng(1)
    rankers: list[dict[str, Any]] = [{}, {}, {}]
    for query in range(num_queries):
        labels = rng.integers(0, 3, size=15).astype(np.float64)
        values = (labels + rng.normal(size=15), rng.normal(size=15), labels)
        for ranker, of_ranker in zip(rankers, values, strict=True):
            ranker[f"q{query}"] = {f"d{n}": v for n, v in enumerate(of_ranker.tolist())}
    return tuple(rankers)


def test_a_plan_expects_the_preference_and_the_error_of_a_log() -> None:
    good, poor, labels = _better_and_worse(400)
    pools = pools_of(good, poor, 10)
    done = plan(pools, labels, 10, seed=0)
    assert done.preference.value > 0.05
    errors = []
    values = []
    names = [*pools]
    ranks = np.full((2, len(names), 20), np.inf)
    attraction = np.zeros((len(names), 20))
    for number, name in enumerate(names):
        size = len(pools[name].documents)
        ranks[:, number, :size] = pools[name].ranks
        of_pool = np.array(
            [labels[name][document] for document in pools[name].documents]
        )
        attraction[number, :size] = 0.1 + 0.8 * (2**of_pool - 1) / 3
    for seed in range(100):
        rng = np.random.default_rng(seed)
        queries = rng.choice(len(names), 200, replace=False).repeat(5)
        outcomes = simulated_outcomes(ranks[:, queries], attraction[queries], 10, rng)
        is_clicked = ~np.isnan(outcomes)
        preference = Preference.of(queries[is_clicked], outcomes[is_clicked])
        values.append(preference.value)
        errors.append(preference.deviation)
    assert done.preference.value == pytest.approx(np.mean(values), abs=0.01)
    assert done.deviation(5 * done.clicked_share) == pytest.approx(
        np.mean(errors), rel=0.1
    )


def test_the_correlation_is_that_of_the_queries_with_several_sessions() -> None:
    # Sessions of a query agree; one query in six has two.
    queries = np.append(np.arange(600), np.arange(0, 600, 6))
    outcomes = (queries % 4 < 2).astype(np.float64)
    agreeing = Plan(Preference.of(queries, outcomes), 1.0)
    assert agreeing.correlation == pytest.approx(1, abs=0.05)
    alone = Plan(Preference.of(np.arange(700), outcomes), 1.0)
    assert alone.correlation == 0


def test_drawn_lists_are_those_of_the_seed_and_of_both_rankers() -> None:
    good, poor, _ = _better_and_worse(5)
    pools = pools_of(good, poor, 10)
    lists = lists_of(pools, 10, num_lists=3, seed=4)
    assert lists.equals(lists_of(pools, 10, num_lists=3, seed=4))
    assert not lists.equals(lists_of(pools, 10, num_lists=3, seed=5))
    assert not lists.duplicated(["query", "list", "document"]).any()
    sizes = lists.groupby(["query", "list", "team"]).size()
    assert (sizes == 5).all()
    best = max(good["q0"], key=good["q0"].__getitem__)
    of_query = lists[lists["query"] == "q0"]
    assert (of_query["document"] == best).sum() == 3
    pool = Pool.of({"a": 1.0, "b": 2.0, "c": 0.0}, {"c": 1.0, "b": 0.0}, 2)
    assert list(pool.documents) == ["b", "a", "c"]
    assert pool.ranks.tolist() == [[0, 1, np.inf], [1, np.inf, 0]]


REFUSED: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "no team": ({"team": None}, ["'team'", "--column team"]),
    "no session": ({"session": None}, ["'session'", "--column session"]),
    "no clicks column": ({"click": None}, ["'click'", "--column click"]),
    "an unknown team": ({"team": list("AABBCA")}, [":6", "'C'", "--teams"]),
    "one team": ({"team": ["A"] * 6}, ["team B"]),
    "one session": ({"session": ["s"] * 6, "query": ["q"] * 6}, ["one session"]),
    "no click": ({"click": [0] * 6}, ["clicked"]),
    "no click on a team": ({"team": [None, "B", None, None, "B", "A"]}, ["clicked"]),
    "a click that is no flag": ({"click": [1, 0, 3, 0, 0, 0]}, [":4", "'3'", "0"]),
    "an empty session": ({"session": [None, *"aabbc"]}, [":2", "session"]),
    "two queries": ({"query": list("qrqqrr")}, [":3", "'r'", "'q'"]),
    "an infinite credit": (
        {"team": None, "credit": ["1", "inf", "-inf", "1", "1", "1"]},
        [":3", "'inf'"],
    ),
    "a credit in words": ({"team": None, "credit": list("1xy111")}, [":3", "'x'"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_logs_are_refused_with_place_value_and_remedy(
    case: str, tmp_path: Path
) -> None:
    columns, parts = REFUSED[case]
    path = _write(tmp_path, **columns)
    with pytest.raises(DataError, match=naming("log.csv", *parts)):
        read_interleaved(path)


def test_rankers_without_a_common_query_are_refused() -> None:
    with pytest.raises(DataError, match=naming("'q'", "'r'")):
        pools_of({"q": {"a": 1.0}}, {"r": {"a": 1.0}}, 10)


@pytest.mark.slow
def test_lists_are_drawn_and_their_log_is_analysed(tmp_path: Path) -> None:
    good, poor, _ = _better_and_worse(60)
    for name, ranker in (("good", good), ("poor", poor)):
        rows = [(q, d, s) for q, of in ranker.items() for d, s in of.items()]
        table = pd.DataFrame(rows, columns=["query_id", "document_id", "score"])
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    words = ("make", "good.csv", "poor.csv", "--lists", "20", "--output", "lists.csv")
    run("interleave", *words, folder=tmp_path)
    lists = pd.read_csv(tmp_path / "lists.csv")
    lists["session"] = lists["query"] + "/" + lists["list"].astype(str)
    rng = np.random.default_rng(0)
    attraction = lists["team"].map({"A": 0.4, "B": 0.2})
    lists["click"] = (rng.random(len(lists)) < attraction).astype(int)
    lists["team"] = lists["team"].map({"A": "new", "B": "old"})
    lists.to_csv(tmp_path / "log.csv", index=False)
    done = run("interleave", "log.csv", "--teams", "new,old", folder=tmp_path)
    assert "new" in done.stdout.splitlines()[0]
    assert len(done.stdout.splitlines()) <= 8
    printed = run(
        "interleave", "log.csv", "--teams", "new,old", "--json", folder=tmp_path
    ).stdout
    record = json.loads(printed)
    assert record["interval"][0] > 0
    assert record["queries"] == 60
    assert record["always_valid"][0] < record["interval"][0]


@pytest.mark.slow
def test_runs_are_interleaved_and_planned_on_their_test_set(tmp_path: Path) -> None:
    words = ("model=linear,random", *TINY, "-m", "hydra.sweep.dir=sweep")
    run(*words, folder=tmp_path)
    rankers = ("sweep/0", "sweep/1")
    run("interleave", "make", *rankers, "--output", "lists.csv", folder=tmp_path)
    lists = pd.read_csv(tmp_path / "lists.csv")
    assert set(lists["team"]) == {"A", "B"}
    assert lists["position"].max() <= 9
    plan_of_runs = ("interleave", "plan", *rankers, "--click-model", "dbn")
    planned = run(*plan_of_runs, "--detect", "0.05", folder=tmp_path).stdout
    assert "sweep/0" in planned.splitlines()[0]
    assert "0.05" in planned
    refused = run(*plan_of_runs, "--detect", "0.6", folder=tmp_path, check=2)
    assert "--detect" in refused.stderr
    files = ("interleave", "plan", "lists.csv", "lists.csv")
    assert "labels" in run(*files, folder=tmp_path, check=2).stderr


def test_a_run_with_a_document_twice_in_a_query_is_refused() -> None:
    judgments = Judgments(
        labels=np.array([0.0, 1.0, 0.0]),
        query_start=np.array([0, 1, 3]),
        document_ids=np.array(["a", "a", "a"]),
    )
    scored = ScoredSplit(judgments, np.zeros(3), query_keys=np.array(["1", "2"]))
    with pytest.raises(DataError, match=naming("'a'", "query '2'", "copies")):
        _by_document(scored, scored.scores)


def test_events_without_teams_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_text("{}\n")
    with pytest.raises(DataError, match="team to a CSV or Parquet table"):
        read_interleaved(path)
