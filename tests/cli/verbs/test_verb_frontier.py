"""The verb frontier: its numbers recomputed from the run folders, and what is refused."""

from __future__ import annotations

import contextlib
import json
import math
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run
from messages import naming
from run_cases import finished_run
from shop_log import shop_log
from toy_runs import judgments, write

from ltrbench import frontier
from ltrbench.cli import main
from ltrbench.cli.verbs.runs import load_splits, unfitted
from ltrbench.compare import Guard, Settings
from ltrbench.compare.settings import BEST
from ltrbench.data import TrainingResample
from ltrbench.frontier import (
    LENGTHS,
    Frontier,
    Lists,
    Price,
    Times,
    _cheapest,
    _on_validation,
    _shares_of_trees,
    _with_claim,
)
from ltrbench.metrics import evaluate
from ltrbench.models.trees import ensemble_scores, used_features
from ltrbench.native.objectives.query_rmse import QueryRMSE
from ltrbench.rankers.linear import LinearRanker
from ltrbench.runs import find_runs, load, read_run
from ltrbench.runs.origin import Variant
from ltrbench.runs.record import LoadedModel
from ltrbench.statistics.checks import HOLDS

METRIC = "ndcg@5"


@pytest.fixture(autouse=True)
def few_timings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times one list of each length, twice: no claim depends on the value of a latency."""
    monkeypatch.setattr(frontier, "_NUM_TIMED", dict.fromkeys(LENGTHS, 2))
    monkeypatch.setattr(frontier, "_NUM_LISTS", 1)


def mean(folder: str, split: str) -> float:
    scored = read_run(Path(folder)).scored(split)
    return evaluate(scored.judgments, scored.scores, [METRIC]).means[METRIC]


@pytest.mark.slow
def test_every_number_is_that_of_the_run_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = "model=native,lightgbm,random cv=3 data.num_queries=90 params.num_trees=12 importance=null"
    run(*jobs.split(), "tracking=none", "-m", "hydra.sweep.dir=sweep", folder=tmp_path)
    options = [
        "--metric",
        METRIC,
        "--guard",
        f"{METRIC}=-0.9",
        "--guard",
        "latency=9s",
        "--json",
    ]
    done = json.loads(printed("frontier", "sweep", *options))
    written = Path("sweep-frontier")
    assert json.loads((written / "frontier.json").read_text()) == done
    assert all(
        (written / name).is_file()
        for name in ("frontier.html", "latency.png", "size.png")
    )
    rows = {row["row"]: row for row in done["prices"]}
    trained = ["native", "lightgbm", "random"]
    assert done["best"] == max(trained, key=lambda label: rows[label]["quality"])
    assert len(rows) == 3 + 9
    for row in rows.values():
        assert row["quality"] == pytest.approx(
            np.mean([mean(each, "valid") for each in row["runs"]])
        )
        files = [[*Path(each, "model").rglob("*.*")] for each in row["runs"]]
        size = (
            np.mean([sum(file.stat().st_size for file in of_run) for of_run in files])
            / 1e6
        )
        assert row["costs"]["size"] == pytest.approx(size)
        assert row["costs"]["latency"] == row["times"]["service"]["100"][0]
    for cost, front in done["fronts"].items():
        points = {
            label: (row["costs"][cost], -row["quality"]) for label, row in rows.items()
        }
        for label, (price, loss) in points.items():
            is_behind = any(
                a <= price and b <= loss and (a, b) != (price, loss)
                for a, b in points.values()
            )
            assert (label in front) == (not is_behind)
    holding = [
        label
        for label, row in rows.items()
        if label != "random"
        and all(each["low"] is None or each["low"] >= -0.9 for each in row["checks"])
    ]
    assert done["chosen"] == min(
        holding, key=lambda label: rows[label]["costs"]["latency"]
    )
    assert len(done["test"]) == (done["chosen"] != done["best"])
    of_test = {
        key: np.mean([mean(each, "test") for each in rows[done[key]]["runs"]])
        for key in ("best", "chosen")
    }
    for claim in done["test"]:
        assert claim["value"] == pytest.approx(of_test["chosen"] - of_test["best"])
        assert "choice by validation" in done["scope"]
    assert {"service", "library"} < rows[done["chosen"]]["times"].keys()
    assert done["chosen"] in printed("compare", "sweep", "sweep-frontier")


def test_each_row_is_timed_on_its_own_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shop_log(60, 8).to_csv("shop.csv", index=False)
    sets = "data.features=[text_match,stock],[stock,text_match],[stock]"
    data = ["data=table", "data.train=shop.csv", sets]
    options = ["params.num_trees=2", "importance=none", "tracking=none", "-m"]
    run("model=native", *data, *options, "hydra.sweep.dir=sweep", folder=tmp_path)
    columns: dict[tuple[str, ...], set[float]] = {}

    def times_of(model: LoadedModel, lists: Lists, forms: Sequence[str]) -> Times:
        ((features, _), *_) = lists[min(lists)]
        columns.setdefault(tuple(model.feature_names), set()).add(features[0, 0])
        return times(model, lists, forms)

    times = frontier._times
    monkeypatch.setattr(frontier, "_times", times_of)
    assert main(["frontier", "sweep"]) == 0
    # The first column of the lists is the first feature of the model.
    assert len(columns) == 3
    assert columns["stock", "text_match"] == columns["stock",]
    assert columns["stock",] != columns["text_match", "stock"]


@pytest.mark.slow
def test_a_model_whose_trees_cannot_be_read_has_a_price_and_a_note(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shop_log(40, 8, num_brands=20).to_csv(tmp_path / "shop.csv", index=False)
    columns = "data.features=[text_match,stock,brand]"
    data = ["data=table", "data.train=shop.csv", columns, "data.categorical=[brand]"]
    options = ["params.num_trees=3", "importance=none", "tracking=none"]
    models = "model=native,catboost,single_feature"
    run(models, *data, *options, "hydra.sweep.dir=s", "-m", folder=tmp_path)
    assert main(["frontier", "s", "--json"]) == 0
    done = capsys.readouterr()
    table = json.loads(done.out)
    prices = {each["row"]: each for each in table["prices"]}
    assert {"native", "catboost", "single_feature"} <= prices.keys()
    assert prices["catboost"]["features"] is None
    assert any(re.search(naming("catboost"), note) for note in table["notes"])
    steps = done.err.splitlines()
    assert all(any(name in step for step in steps) for name in prices)


def price(row: str, latency: float, quality: float, *, holds: bool) -> Price:
    return Price(
        row=row,
        runs=[],
        trees=None,
        features=None,
        quality=quality,
        times={},
        costs={"latency": latency, "size": 1.0, "memory": 1.0},
        checks=[],
        holds=holds,
    )


def test_a_variant_is_praised_only_if_no_faster_row_has_its_value() -> None:
    best = price("best", 3.0, 0.8, holds=True)
    variant = price("variant", 2.0, 0.79, holds=True)
    worse = price("worse", 1.0, 0.7, holds=False)
    assert _cheapest([worse, variant, best], "best") == ("variant", None)
    assert _cheapest([worse, best], "best") == ("best", None)
    equal = price("equal", 1.0, 0.79 + 1e-9, holds=False)
    assert _cheapest([equal, variant, best], "best") == (None, "equal")
    slower = price("equal", 2.5, 0.79, holds=False)
    assert _cheapest([variant, slower, best], "best") == ("variant", None)


def test_a_variant_that_is_better_on_test_is_not_refused(tmp_path: Path) -> None:
    for model, skill in {"native": 0.5, "native trees=50%": 5.0}.items():
        write(tmp_path / model, model, skill=skill, validated=judgments(2))
    rows = find_runs([tmp_path])
    settings = Settings(
        metric="ndcg@10", guards=(Guard.parse("ndcg@10=-0.005"),), baseline=BEST
    )
    done = Frontier(
        sentence="",
        metric="ndcg@10",
        best="native",
        chosen="native trees=50%",
        faster=None,
        test=(),
        scope="",
        prices=[price(row.result.model, 1.0, 0.5, holds=True) for row in rows],
        fronts={},
        notes=(),
    )
    done = _with_claim(done, _on_validation(rows, settings), settings)
    assert [check.state for check in done.test] == [HOLDS]
    assert "Keep" not in done.sentence


def test_shares_of_trees_that_are_the_same_model_are_one_variant(
    tmp_path: Path,
) -> None:
    runs = {
        number: write(tmp_path / str(number), "native", best_iteration=number)
        for number in (1, 4, 100)
    }
    assert _shares_of_trees([runs[1]]) == []
    assert _shares_of_trees([runs[4]]) == [10, 30, 60]
    assert _shares_of_trees([runs[1], runs[100]]) == [*range(10, 100, 10)]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["native", "lightgbm", "xgboost", "catboost"])
def test_a_variant_has_the_first_trees_of_its_model_and_is_shipped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    printed: Callable[..., str],
    model: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    # Without early stopping, so that 40 % of the trees are another model than 30 %.
    settings = (
        "data.num_queries=30 params.num_trees=9 early_stopping=null tracking=none "
        "hydra.run.dir=sweep"
    )
    run(f"model={model}", *settings.split(), folder=tmp_path)
    printed("frontier", "sweep")
    features = load_splits(read_run(Path("sweep"))).test.features
    whole = load("sweep").ranker.trees()
    first = replace(whole, trees=whole.trees[: math.ceil(len(whole.trees) * 0.4)])
    (variant,) = Path("sweep-frontier").glob("*trees=40*/0")
    scores = read_run(variant).scored("test").scores
    np.testing.assert_allclose(
        scores, ensemble_scores(first, features), rtol=1e-5, atol=1e-6
    )
    assert np.array_equal(load(variant).predict(features), scores)
    printed("ship", variant, "--to", "c", "--output", "shipped")
    words = [
        "sweep",
        "sweep-frontier",
        "--model",
        read_run(variant).result.model,
        "--output",
        "final",
    ]
    printed("final", *words)
    final = load("final").ranker
    assert (len(final.trees().trees), type(final)) == (
        len(first.trees),
        type(load("sweep").ranker),
    )


@pytest.mark.slow
def test_trained_variants_are_fits_to_train_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = "data.num_queries=40 params.num_trees=8 replicates.number=3 replicates.index=2 tracking=none"
    run(*settings.split(), "hydra.run.dir=sweep", folder=tmp_path)
    students = {
        "linear": "linear",
        "lightgbm": "lightgbm params.num_leaves=4",
        "catboost": "catboost",
    }
    words = [word for each in students.values() for word in ("--distil", each)]
    printed("frontier", "sweep", "--refit", *words)
    best = read_run(Path("sweep"))
    splits = load_splits(best)
    train = TrainingResample(number=3, index=2).of(splits.train)
    model: Any = load("sweep").ranker

    def variant(name: str) -> Any:
        (folder,) = Path("sweep-frontier").glob(f"*{name}*/0")
        ranker = load(folder).ranker
        scores = {part: ranker.predict(data.features) for part, data in splits}
        assert all(
            np.array_equal(read_run(folder).scored(part).scores, scores[part])
            for part in ("valid", "test")
        )
        origin = read_run(folder).result.origin
        assert isinstance(origin, Variant)
        assert origin.run == "sweep"
        return ranker

    settings_of_best: Any = unfitted(best)
    fewer = replace(settings_of_best, num_leaves=7).fit(train, splits.valid)
    assert np.array_equal(
        variant("leaves=7").predict(train.features), fewer.predict(train.features)
    )
    kept = np.argsort(-model.importance()["gain"], kind="stable")[
        : math.ceil(0.25 * train.num_features)
    ]
    assert set(used_features(variant("features=25").trees())) <= set(kept)
    scores = model.predict(train.features)
    labels = (scores - scores.min()) / scores.std()
    linear = LinearRanker(objective=QueryRMSE()).fit(
        train.with_fields(labels=labels), splits.valid
    )
    np.testing.assert_allclose(
        variant("linear").predict(train.features), linear.predict(train.features)
    )
    assert variant("lightgbm").summary.num_trees == math.ceil(
        model.summary.num_trees / 4
    )
    variant("catboost")
    words = [
        "ship",
        "sweep-frontier/native_features=25_/0",
        "--to",
        "c",
        "--output",
        "shipped",
    ]
    refused = run(*words, folder=tmp_path, check=2)
    assert all(
        part in refused.stderr
        for part in ("final does not", "params.num_leaves", "--anyway")
    )
    printed(*words, "--anyway")
    refused = run(
        "final",
        "sweep-frontier",
        "--model",
        "native leaves=7",
        folder=tmp_path,
        check=2,
    )
    assert all(
        part in refused.stderr
        for part in ("native leaves=7", "params.num_leaves", "--model")
    )


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("frontier sweep --distil lightgbn", ["lightgbn", "'lightgbm'?"]),
        (
            "frontier sweep --distil 'native params.num_leafs=4'",
            ["params.num_leafs", "num_leaves"],
        ),
        ("frontier scores", ["2 finished runs", "model", "trained runs"]),
        ("frontier sweep --guard ndgc@10=-1", ["ndgc", "ndcg"]),
        ("frontier sweep --output sweep/native", ["sweep/native", "--output"]),
        ("frontier seen", ["native", "test", "data.valid"]),
        ("frontier blind", ["blind", "validation", "data.valid"]),
    ],
)
def test_what_has_no_price_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, parts: list[str]
) -> None:
    with contextlib.chdir(tmp_path):
        for model in ("native", "lightgbm"):
            for folder in ("sweep", "scores"):
                finished_run(Path(folder, model), model)
        write(Path("seen/native"), "native", valid="test of fold 1")
        finished_run(Path("blind/native"), "native", valid=False)
        for folder in ("sweep/native", "seen/native", "blind/native"):
            Path(folder, "model").mkdir()
        assert main(shlex.split(words)) == 2
    printed = capsys.readouterr().err
    assert all(part in printed for part in parts), printed
