"""Corrections of clicks in training: `debias` for every backend, and weighted lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click_cases import make_log, make_world
from command_line import run
from composed_jobs import composed
from messages import naming

from ltrbench.clicks.source import ClickSource
from ltrbench.compare.cells import runs_by_label
from ltrbench.data import click_weighted
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import DataError, LtrbenchError
from ltrbench.runs import find_runs


def test_a_click_is_a_list_weighted_by_the_inverse_of_its_propensity(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log.csv"
    make_log(make_world(0, 20), num_sessions=400).to_csv(log, index=False)
    train = ClickSource(name="clicks", log=str(log)).load().train
    assert train.impressions is not None
    assert train.positions is not None
    weighted = click_weighted(train)
    expected = []
    for query, identity in enumerate(train.query_ids.tolist()):
        rows = np.arange(*train.query_start[query : query + 2])
        clicked = rows[train.labels[rows] > 0]
        lists = [(rows == row, train.positions[row]) for row in clicked]
        for labels, position in lists or [(rows < 0, 0)]:
            weight = 1 / train.impressions.theta[position]
            expected.append((identity, labels.tolist(), weight, rows))
    assert weighted.num_queries == len(expected)
    for number, (identity, labels, weight, rows) in enumerate(expected):
        place = slice(*weighted.query_start[number : number + 2])
        assert weighted.query_ids[number].partition("#")[0] == identity
        assert weighted.labels[place].astype(bool).tolist() == labels
        assert weighted.query_weights is not None
        assert weighted.query_weights[number] == pytest.approx(weight)
        assert np.array_equal(weighted.features[place], train.features[rows])


@pytest.mark.parametrize("method", ["harvest", "column"])
def test_a_column_of_propensities_weights_lists_only_if_the_setting_names_it(
    tmp_path: Path, method: str
) -> None:
    log = make_log(make_world(0, 20), num_sessions=400)
    log["propensity"] = np.where(log["position"] == 0, 1.0, 0.25)
    log.to_csv(tmp_path / "log.csv", index=False)
    source = ClickSource(
        name="clicks", log=str(tmp_path / "log.csv"), propensity=method
    )
    train = source.load().train
    assert train.impressions is not None
    weights = click_weighted(train).query_weights
    expected = [1.0, 4.0]
    if method == "harvest":
        clicked = train.impressions.positions[train.impressions.clicks > 0]
        expected = [1.0, *1 / train.impressions.theta[np.unique(clicked)]]
    assert weights is not None
    assert np.unique(weights) == pytest.approx(np.unique(expected))


def test_data_without_examination_are_refused() -> None:
    train = Synthetic(name="synthetic", num_queries=20).load().train
    with pytest.raises(DataError, match="data=clicks"):
        click_weighted(train)


SIMULATED = ("data=click_simulation", "data.from.num_queries=60")
SMALL = ("data.num_sessions=2000", "tracking=none", "progress=none", "importance=none")


@pytest.mark.slow
def test_a_sweep_has_a_row_for_each_correction_that_a_backend_has(
    tmp_path: Path,
) -> None:
    done = run(
        *SIMULATED,
        *SMALL[1:],
        "model=native,lightgbm,xgboost,linear",
        "debias=none,additive,propensity,weights",
        "params.num_trees=3",
        "data.num_sessions=500",
        "hydra.sweep.dir=sweep",
        "-m",
        folder=tmp_path,
    )
    of_backends = {
        "native": ("none", "additive", "propensity", "weights"),
        "lightgbm": ("none", "additive", "weights"),
        "xgboost": ("none", "propensity", "weights"),
        "linear": ("none", "weights"),
    }
    labels: set[str] = set()
    for model, names in of_backends.items():
        labels.update(f"{model} debias={name}" for name in names)
    runs = find_runs([tmp_path / "sweep"])
    assert set(runs_by_label(runs)) == labels
    assert len({run.result.data["train"]["fingerprint"] for run in runs}) == 1
    assert "debias=additive is not available for model=xgboost" in done.stderr
    words = ["final", "sweep", "--model", "linear debias=weights", "--output", "final"]
    run(*words, folder=tmp_path)
    (final,) = find_runs([tmp_path / "final"])
    assert final.result.data["debias"] == "weights"


REFUSED = [
    (("model=xgboost", "debias=additive"), ["model=xgboost", "debias=propensity"]),
    (("model=random", "debias=weights"), ["model=random", "debias=none"]),
    (
        ("model=catboost", "debias=weights"),
        ["model=catboost", "LambdaMart", "YetiRank"],
    ),
    (("model=native", "debias=aditive"), ["aditive", "additive"]),
    (
        ("model=native", "debias=none", "model.position_bias=additive"),
        ["position_bias", "debias=none"],
    ),
    (
        ("model=native", "debias=propensity", "model/objective=xendcg"),
        ["model=native", "propensity"],
    ),
]


@pytest.mark.parametrize(("words", "named"), REFUSED)
def test_a_correction_that_a_backend_does_not_have_is_refused(
    words: tuple[str, ...], named: list[str]
) -> None:
    with pytest.raises(LtrbenchError, match=naming(*named)):
        composed(*SIMULATED, *SMALL, *words)
