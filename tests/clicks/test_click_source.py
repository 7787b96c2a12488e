"""The source of click logs: its splits, and a comparison from the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click_cases import dataset_of, make_log, make_world
from command_line import run
from messages import naming
from toy_runs import FINAL, write

from ltrbench.cli.verbs.runs import load_splits
from ltrbench.clicks.estimators import log_of
from ltrbench.clicks.source import ClickSource
from ltrbench.data import Splits
from ltrbench.data.score_files import read_score_file
from ltrbench.errors import DataError
from ltrbench.metrics import support_of
from ltrbench.runs import find_runs


def _log(folder: Path, **columns: Any) -> Path:
    path = folder / "log.csv"
    frame = make_log(make_world(0, num_queries=60), num_sessions=1800)
    frame.assign(**columns).to_csv(path, index=False)
    return path


def _splits(path: Path, **settings: Any) -> Splits:
    return ClickSource(name="clicks", log=str(path), **settings).load()


def test_test_queries_have_all_their_sessions_and_training_lists_are_sessions(
    tmp_path: Path,
) -> None:
    path = _log(tmp_path)
    frame = pd.read_csv(path)
    splits = _splits(path)
    test = splits.test
    of_test = frame[frame["query"].isin(test.query_ids)]
    sessions = of_test.groupby("query")["session"].nunique()
    assert test.query_weights is not None
    assert dict(zip(test.query_ids, test.query_weights, strict=True)) == dict(sessions)
    clicks = test.numbers("clicks") * test.query_weights[test.query_of_document]
    assert clicks.sum() == of_test["click"].sum()

    train = splits.train
    assert train.clusters is not None
    assert set(train.query_ids) <= set(frame["session"].astype(str))
    assert set(train.clusters.tolist()) & set(test.query_ids) == set()
    first = frame[frame["session"].astype(str) == train.query_ids[0]]
    rows = slice(*train.query_start[:2])
    assert train.labels[rows].tolist() == first["click"].tolist()
    assert train.positions is not None
    assert train.positions[rows].tolist() == first["position"].tolist()
    assert train.features[rows, 0] == pytest.approx(first["feature"], rel=1e-6)


def test_a_feature_of_the_session_makes_a_list_of_each_session(tmp_path: Path) -> None:
    device = np.repeat(np.arange(1800) % 2, 10)
    test = _splits(_log(tmp_path, device=device)).test
    assert test.query_weights is None
    assert test.num_queries > len(np.unique(test.query_keys))
    by_user = dataset_of(
        make_log(make_world(0, 60), num_sessions=1800).assign(user=device),
        cluster="user",
    )
    assert len(np.unique(by_user.query_keys)) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"keep": ["device", "revenue"]},
        {"features": ["feature"], "keep": ["device", "revenue"]},
        {"features": ["feature"], "categorical": ["device"], "keep": ["revenue"]},
    ],
)
def test_columns_of_the_session_have_the_values_of_each_session(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    is_phone = np.repeat(np.arange(1800) % 3 == 0, 10)
    device = np.where(is_phone, "phone", "desktop")
    path = _log(tmp_path, device=device, revenue=np.where(is_phone, 0, 7))
    source = ClickSource(name="clicks", log=str(path), **settings)
    data = source.lists_of(source.read())
    if "categorical" in settings:
        devices = np.array(data.categories["device"])[data.features[:, 1].astype(int)]
    else:
        devices = data.kept["device"]
    assert (devices == "phone").sum() == is_phone.sum()
    assert data.numbers("revenue").sum() == 7 * (~is_phone).sum()


@pytest.mark.parametrize("place", ["log", "documents"])
def test_categories_have_missing_values_as_in_tables(
    tmp_path: Path, place: str
) -> None:
    brands = ["acme", "", "zeta", "NA", "none"] * 2
    path = _log(tmp_path)
    settings: dict[str, Any] = {"categorical": ["brand"], "missing": ["zeta"]}
    if place == "log":
        log = pd.read_csv(path)
        log.assign(brand=np.array(brands)[log["document"]]).to_csv(path, index=False)
    else:
        table = pd.DataFrame({"document": range(10), "brand": brands})
        settings["documents"] = str(tmp_path / "documents.csv")
        table.to_csv(settings["documents"], index=False)
    source = ClickSource(name="clicks", log=str(path), **settings)
    data = source.lists_of(source.read())
    assert data.categories == {"brand": ("NA", "acme", "none")}
    assert np.isnan(data.features[:, 1]).mean() == 0.4
    assert data.num_queries == 60


def test_training_lists_have_no_candidates_that_were_not_shown(tmp_path: Path) -> None:
    frame = make_log(make_world(0, 60), num_sessions=1800)
    frame["hour"] = frame["session"] % 24
    candidates = frame[frame["position"] == 9].assign(position=np.nan, click=0)
    candidates["document"] = 10
    pd.concat([frame, candidates]).to_csv(tmp_path / "log.csv", index=False)
    for settings in ({}, {"ignore": ["hour"]}):
        train = _splits(tmp_path / "log.csv", **settings).train
        assert train.positions is not None
        assert set(train.positions.tolist()) == set(range(10))
        assert train.document_ids is not None
        assert "10" not in train.document_ids
        of_train = frame[frame["session"].astype(str).isin(train.query_ids)]
        assert train.labels.tolist() == of_train["click"].tolist()


def test_clicks_do_not_depend_on_whether_sessions_are_lists() -> None:
    frame = make_log(make_world(0, 60), num_sessions=900)
    by_query = log_of(dataset_of(frame))
    by_session = log_of(dataset_of(frame.assign(user=frame["query"]), cluster="user"))
    assert by_session.impressions.theta == pytest.approx(by_query.impressions.theta)
    sums = [
        (log.corrected * log.num_sessions[log.query_of_row]).sum()
        for log in (by_query, by_session)
    ]
    assert sums[0] == pytest.approx(sums[1])


def test_checks_do_not_depend_on_whether_sessions_are_lists(tmp_path: Path) -> None:
    of_queries = _splits(_log(tmp_path))
    device = np.repeat(np.arange(1800) % 2, 10)
    of_sessions = _splits(_log(tmp_path, device=device))
    for name in ("errors_of_log_theta", "theta"):
        expected = of_queries.facts[name]
        assert of_sessions.facts[name] == pytest.approx(expected, abs=1e-9)
    for replay, expected in zip(
        of_sessions.facts["replays"], of_queries.facts["replays"], strict=True
    ):
        assert replay["p_value"] == pytest.approx(expected["p_value"])
    numbers = [
        support_of(
            [(data, np.zeros(data.num_documents))], "clicks@10", keys=data.query_keys
        ).effective_queries
        for data in (of_queries.test, of_sessions.test)
    ]
    assert max(numbers) <= 12 < of_sessions.test.num_queries


def test_users_who_send_the_same_queries_are_split(tmp_path: Path) -> None:
    users = np.repeat(np.random.default_rng(0).integers(200, size=1800), 10)
    splits = _splits(_log(tmp_path, user=users), cluster="user")
    of_test = set(splits.test.query_keys.tolist())
    assert splits.train.clusters is not None
    assert of_test.isdisjoint(splits.train.query_keys.tolist())
    assert splits.test.num_queries == pytest.approx(0.2 * 1800, rel=0.1)
    assert "new users, and not for new queries" in splits.notes[-1]


def test_scores_by_query_are_those_of_its_sessions(tmp_path: Path) -> None:
    device = np.repeat(np.arange(1800) % 2, 10)
    test = _splits(_log(tmp_path, device=device)).test
    scores = pd.DataFrame(
        {
            "query_id": test.kept["query"],
            "document_id": test.document_ids,
            "score": test.features[:, 0],
        }
    ).drop_duplicates(["query_id", "document_id"])
    scores = pd.concat([scores, scores[:1].assign(query_id="another query")])
    scores.to_csv(tmp_path / "scores.csv", index=False)
    matched = read_score_file(tmp_path / "scores.csv").match(test, None, "test")
    assert matched.scores == pytest.approx(test.features[:, 0])
    assert matched.notes[0].startswith(f"1 of {len(scores)} rows")


def test_a_log_without_features_compares_files_of_scores(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    make_log(make_world(0, 60)).drop(columns="feature").to_csv(path, index=False)
    splits = _splits(path)
    assert splits.train.num_features == 1
    assert "data.documents=FILE" in splits.notes[-1]


def test_a_final_model_trains_on_every_session(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"name": "clicks", "subset": 0.5}
    settings["log"] = str(_log(tmp_path))
    every = ClickSource(**settings).with_all_queries().load().whole()
    assert every.train.num_queries == 1800
    assert every.train.impressions is not None
    # The verbs on the final model load the same data again.
    target = "ltrbench.clicks.source.ClickSource"
    of_run = {"_target_": target, **settings}
    final = write(tmp_path / "final", "linear", origin=FINAL, data_settings=of_run)
    assert load_splits(final).train.fingerprint == every.train.fingerprint


def test_a_log_without_exchanges_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    frame = make_log(make_world(0, 60), num_sessions=900, rankers="B")
    frame.to_csv(path, index=False)
    with pytest.raises(DataError, match="never exchanged with 0"):
        _splits(path)
    assert _splits(path, propensity="power:1").test.num_queries == 12


def test_a_refused_share_names_only_settings_of_the_source(tmp_path: Path) -> None:
    log = make_log(make_world(0, 100))
    # Lists are sessions, because a feature depends on them: those of a query stay together.
    log["feature"] = np.arange(len(log))
    sizes = log.groupby("query")["session"].nunique().sort_values(ascending=False)
    kept = [sizes.index[0], *sizes.index[-3:]]
    log[log["query"].isin(kept)].to_csv(tmp_path / "log.csv", index=False)
    source = ClickSource(
        name="clicks", log=str(tmp_path / "log.csv"), propensity="power:1"
    )
    with pytest.raises(DataError) as caught:
        source.load()
    said = str(caught.value)
    settings = re.findall(r"data\.(\w+)", said)
    assert "test_share" in settings
    assert all(hasattr(source, name) for name in settings)


@pytest.mark.parametrize(("given", "named"), [("", "empty"), (0, "is 0;"), (2, "is 2")])
def test_a_propensity_is_refused_with_file_and_line(
    tmp_path: Path, given: Any, named: str
) -> None:
    path = _log(tmp_path, propensity=[1, given, *[1] * 17998])
    with pytest.raises(DataError, match=rf"log.csv:3: the propensity .*{named}"):
        _splits(path, propensity="column")


def test_a_kept_column_with_the_name_of_a_computed_one_is_refused(
    tmp_path: Path,
) -> None:
    path = _log(tmp_path, clicks=range(18000))
    with pytest.raises(DataError, match=naming("log.csv", "'clicks'", "data.keep")):
        _splits(path, propensity="power:1", keep=["cl*"])


def test_a_log_without_propensities_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.propensity_column=COLUMN"):
        _splits(_log(tmp_path), propensity="column")


@pytest.mark.slow
def test_rankers_and_score_files_are_compared_by_clicks(tmp_path: Path) -> None:
    path = _log(tmp_path)
    overrides = ["model=native,linear", "params.num_trees=5", "importance=null"]
    folder = tmp_path / "sweep"
    words = ["data=clicks", f"data.log={path}", f"hydra.sweep.dir={folder}"]
    run(*words, *overrides, "tracking=none", "-m", folder=tmp_path)
    runs = find_runs([folder])
    assert [*runs[0].result.metrics][:2] == ["test/clicks@10", "test/clicks@5"]
    scores = pd.read_csv(path).drop_duplicates(["query", "document"])
    scores = scores[["query", "document", "feature"]]
    scores.columns = ["query_id", "document_id", "score"]
    scores.to_csv(tmp_path / "candidate.csv", index=False)
    printed = run("compare", "sweep", "candidate=candidate.csv", folder=tmp_path)
    assert "clicks, clicks@10, 12 queries" in printed.stdout
    assert "candidate (imported)" in printed.stdout
    run("final", "sweep", "--model", "linear", "--output", "chosen", folder=tmp_path)
