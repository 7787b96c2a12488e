"""Comparisons that train their rankers in Python, without folders of the caller."""

from __future__ import annotations

import gc
import html
import inspect
import tempfile
from doctest import DocTestParser
from pathlib import Path
from typing import Any

import pytest
from messages import naming
from shop_log import shop_log

import ltrbench
from docs.pages import ROOT
from ltrbench.compare import Comparison, Guard, compare, training
from ltrbench.compare.training import InMemory
from ltrbench.data.synthetic import make_synthetic
from ltrbench.errors import ConfigError, DataError, LtrbenchError, ResultError
from ltrbench.experiment import Experiment, run
from ltrbench.statistics.claims import Scope, Varied

TRAIN, TEST = make_synthetic(40, 1), make_synthetic(30, 2)
RANKERS = {
    "native": ltrbench.NativeRanker(num_trees=4, num_leaves=4),
    "sampled": ltrbench.NativeRanker(
        num_trees=4, num_leaves=4, queries_per_tree=0.5, seed=2
    ),
    "random": ltrbench.RandomRanker(),
}


def _values(comparison: Comparison) -> list[object]:
    pairs = [(pair.a, pair.b, pair.models, pair.methods) for pair in comparison.pairs]
    return [
        pairs,
        [(row.label, row.metrics) for row in comparison.rows],
        comparison.replicates,
    ]


@pytest.mark.slow
def test_rankers_are_compared_like_their_runs_and_the_folder_goes_with_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    source = InMemory(name="data", train=TRAIN, valid=None, test=TEST)
    runs = [
        run(Experiment(model=name, ranker=ranker, source=source), tmp_path / name)
        for name, ranker in RANKERS.items()
    ]
    comparison = compare(RANKERS, TRAIN, TEST)
    assert _values(comparison) == _values(compare(runs)[0])
    assert comparison.rows[0].runs[0].path.parent.parent == temporary
    assert (
        ltrbench.load(comparison.row("native").runs[0].path)
        .predict(TEST.features)
        .shape
        == TEST.labels.shape
    )
    report = comparison.report()
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == report.html
    shown = html.unescape(report._repr_html_().split('"')[1])
    assert shown.replace('<base href="about:srcdoc">', "") == report.html
    del comparison
    with pytest.raises(LtrbenchError):
        compare(RANKERS, TRAIN, TRAIN)
    gc.collect()
    assert not [*temporary.iterdir()]


def test_its_signature_is_shown_and_the_first_metric_carries_the_claims() -> None:
    names = set(inspect.signature(ltrbench.compare).parameters)
    assert {"runs", "train", "test", "valid", "metrics", "settings"} <= names
    metrics = ["map", "ndcg@10"]
    models = {"native": RANKERS["native"], "random": RANKERS["random"]}
    comparison = ltrbench.compare(models, TRAIN, TEST, metrics=metrics)
    assert comparison.metric == "map"
    settings = ltrbench.Settings(metric="ndcg@10")
    stated = ltrbench.compare(models, TRAIN, TEST, metrics=metrics, settings=settings)
    assert stated.metric == "ndcg@10"
    runs = [run for row in stated.rows for run in row.runs]
    compared: Any = ltrbench.compare
    for arguments in [(models,), (models, TRAIN), (runs, TRAIN, TEST)]:
        with pytest.raises(ConfigError, match=naming("compare(")):
            compared(*arguments)
    frame = TRAIN.to_frame()
    refused: list[tuple[tuple[Any, ...], tuple[str, ...]]] = [
        ((models, frame, TEST), ("train", "DataFrame", "from_frame")),
        ((models, TRAIN, "test.txt"), ("test", "str", "read_data")),
        ((models, TRAIN, TEST, frame), ("valid", "DataFrame")),
        (({}, TRAIN, TEST), ("rankers is empty",)),
        (({1: RANKERS["native"]}, TRAIN, TEST), ("name 1", "'native'")),
        (({" ": RANKERS["native"]}, TRAIN, TEST), ("name ' '", "'native'")),
        (({"a": "native"}, TRAIN, TEST), ("'a'", "'native'", "NativeRanker(")),
        (({"a": ltrbench.RandomRanker}, TRAIN, TEST), ("'a'", "class", "object")),
    ]
    for arguments, parts in refused:
        with pytest.raises(ConfigError, match=naming(*parts)):
            compared(*arguments)
    options: dict[str, Any] = {"replicates": "2", "metrics": "map"}
    for name, value in [
        *options.items(),
        ("seeds", 3),
        ("seeds", "12"),
        ("seeds", [1.5]),
    ]:
        with pytest.raises(ConfigError, match=naming(name, repr(value))):
            compared(models, TRAIN, TEST, **{name: value})


def test_folders_of_runs_are_paths_or_texts(tmp_path: Path) -> None:
    source = InMemory(name="data", train=TRAIN, valid=None, test=TEST)
    experiment = Experiment(model="r", ranker=RANKERS["random"], source=source)
    done = run(experiment, str(tmp_path / "run"))
    for folders in (str(tmp_path), [str(tmp_path)], tmp_path):
        (found,) = ltrbench.find_runs(folders)
        assert found.path == done.path
    assert ltrbench.read_run(str(done.path)).result.metrics == done.result.metrics


def test_every_ranker_is_checked_before_the_first_one_is_trained(
    tmp_path: Path,
) -> None:
    stopping = ltrbench.LightGBMRanker(early_stopping=ltrbench.EarlyStopping())
    rankers = {"random": RANKERS["random"], "lightgbm": stopping}
    with pytest.raises(ConfigError, match=naming("early_stopping", "pass valid")):
        compare(rankers, TRAIN, TEST, folder=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("settings", "metrics", "parts"),
    [
        ({"baseline": "ntive"}, None, ("baseline", "'ntive'", "'native'")),
        ({"guards": ["map=-1"]}, None, ("guard", "baseline")),
        ({"metric": "value@10:revenue"}, None, ("'revenue'", "keep")),
        ({"family": ("map", "value:revenue")}, None, ("'revenue'",)),
        ({}, ["value@10:revenue"], ("'revenue'",)),
        ({"guards": ["map:tail=-1"], "baseline": "native"}, None, ("'tail'",)),
        ({"guards": ["map:device=x=-1"], "baseline": "best"}, None, ("'device'",)),
    ],
    ids=str,
)
def test_settings_are_checked_before_earlier_runs_are_deleted_and_a_ranker_is_trained(
    settings: dict[str, Any],
    metrics: list[str] | None,
    parts: tuple[str, ...],
    tmp_path: Path,
) -> None:
    result = tmp_path / "0" / "result.json"
    result.parent.mkdir()
    result.write_text("earlier")
    guards = tuple(map(Guard.parse, settings.get("guards", ())))
    checked = ltrbench.Settings(**settings | {"guards": guards})
    untrained = {"native": RANKERS["native"], "random": RANKERS["random"]}
    with pytest.raises(LtrbenchError, match=naming(*parts)):
        compare(
            untrained,
            TRAIN,
            TEST,
            metrics=metrics,
            settings=checked,
            folder=tmp_path,
            overwrite=True,
        )
    assert [*tmp_path.rglob("*.json")] == [result]
    assert result.read_text() == "earlier"


def test_the_finished_runs_are_kept_if_the_comparison_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail(*_: object) -> None:
        raise DataError("later")

    monkeypatch.setattr(training, "compare", fail)
    with pytest.raises(DataError) as caught:
        compare({"random": RANKERS["random"]}, TRAIN, TEST)
    (kept,) = ltrbench.find_runs([tmp_path])
    assert str(kept.path.parent) in caught.value.__notes__[0]


def test_a_guard_of_latency_is_measured_on_the_test_set() -> None:
    guard = Guard("latency", 1e6)
    settings = ltrbench.Settings(baseline="random", guards=(guard,))
    models = {"native": RANKERS["native"], "random": RANKERS["random"]}
    comparison = compare(models, TRAIN, TEST, settings=settings)
    assert str(comparison.report())


@pytest.mark.slow
def test_a_cell_runs_again_and_seeds_and_replicates_are_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = run(
        Experiment(
            model="r",
            ranker=RANKERS["random"],
            source=InMemory(name="d", train=TRAIN, valid=None, test=TEST),
        ),
        tmp_path / "kept",
    )
    seeded = compare(RANKERS, TRAIN, TEST, seeds=[0, 1], folder=tmp_path)
    assert list(seeded.replicates.values()) == [
        "1 (seeds change nothing)",
        "2 seeds",
        "2 seeds",
    ]
    assert "sampled: test ndcg@1" in capsys.readouterr().err
    with pytest.raises(ResultError, match=naming(tmp_path, "overwrite=True")):
        compare(RANKERS, TRAIN, TEST, folder=tmp_path)
    replicated = compare(
        RANKERS, TRAIN, TEST, replicates=2, folder=tmp_path, overwrite=True
    )
    assert {pair.methods.scope for pair in replicated.pairs} == {Scope(Varied.METHODS)}
    assert len(ltrbench.find_runs([tmp_path])) == 7
    assert kept.path.exists()


@pytest.mark.slow
def test_the_cells_of_the_page_run_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("shop", "new"):
        shop_log(200, num_brands=50).tail(20 if name == "new" else 4000).to_parquet(
            f"{name}.parquet"
        )
    page = (ROOT / "docs/tasks/shop.md").read_text()
    names: dict[str, object] = {}
    for cell in [example.source for example in DocTestParser().get_examples(page)] * 2:
        exec(cell, names)
