"""Metrics from outside the package: a plug-in is found, checked and recorded; a missing one is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import run as run_command
from messages import naming

from docs.isolation import modules_of
from ltrbench.compare import Settings
from ltrbench.data import Judgments
from ltrbench.errors import ConfigError
from ltrbench.metrics import evaluate, load_plugins, preset
from ltrbench.rankers import EarlyStopping
from ltrbench.rankers.native import NativeRanker
from ltrbench.runs.record import read_run

# The convention's gain, ties and no_relevant all affect this metric.
SOURCE = '''
import numpy as np
from ltrbench.metrics import first_k, metric


@metric("top_gain", has_gain=True, depth=first_k)
def top_gain(ranking, k, convention):
    """Gain of the first document divided by the largest gain."""
    best = convention.gain(ranking.judgments.best_labels)
    first = ranking.sum_first(ranking.tie_mean(convention.gain(ranking.labels)), 1)
    return np.divide(first, best, out=np.full(len(best), np.nan), where=best > 0)
'''
JUDGMENTS = Judgments(
    labels=np.array([0.0, 2.0, 1.0, 0.0, 0.0]), query_start=np.array([0, 3, 5])
)
TIED = np.array([0.1, 0.9, 0.9, 0.5, 0.4])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Returns the current folder; plug-ins are unloaded after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with modules_of(tmp_path):
        yield tmp_path


def plugin(name: str = "lab_metrics", source: str = SOURCE) -> Path:
    path = Path(f"{name}.py")
    path.write_text(source)
    return path


def test_a_plugins_metric_follows_the_conventions_gain_ties_and_no_relevant() -> None:
    plugin()
    load_plugins(["lab_metrics"], "plugins")

    def mean(**settings: Any) -> float:
        return evaluate(
            JUDGMENTS, TIED, ["top_gain"], replace(preset("default"), **settings)
        ).means["top_gain"]

    ours = preset("ranklib")
    assert (
        mean() == ((3 + 1) / 2) / 3
    )  # gains 2^2 - 1 and 2^1 - 1, each first in half of the orders
    assert mean(gain=preset("sklearn").gain) == ((2 + 1) / 2) / 2
    assert mean(ties=ours.ties) == 1.0  # the earlier row has label 2
    assert mean(no_relevant=ours.no_relevant) == mean() / 2


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("lab_metrisc", ["'lab_metrisc'", "'lab_metrics'?"]),
        ("./lab_metrics.py", ["'./lab_metrics.py'", "'lab_metrics'?"]),
    ],
)
def test_a_missing_module_is_named_with_its_nearest_match(
    name: str, parts: list[str]
) -> None:
    plugin()
    with pytest.raises(ConfigError, match=naming("--plugin: ", *parts)):
        load_plugins([name], "--plugin")


@pytest.mark.parametrize(
    ("returned", "parts"),
    [
        ("ranking.labels", ["shape (5,)", "shape (2,)"]),
        ("['a', 'b']", ["shape (2,)", "type <U1"]),
        ("[0.0, float('inf')]", ["finite"]),
    ],
)
def test_a_metric_that_does_not_return_one_number_per_query_is_named(
    returned: str, parts: list[str]
) -> None:
    head, _, _ = SOURCE.partition("    best =")
    plugin(source=f"{head}    return {returned}\n")
    load_plugins(["lab_metrics"], "plugins")
    with pytest.raises(
        ConfigError, match=naming("top_gain (lab_metrics.top_gain)", *parts)
    ):
        evaluate(JUDGMENTS, TIED, ["top_gain"])


def test_an_error_in_a_plugin_names_its_line_the_metric_and_the_query() -> None:
    head, _, _ = SOURCE.partition("    best =")
    path = plugin(
        source=f"{head}    return [{{'1': 1.0}}[name] for name in ranking.judgments.query_ids]\n"
    )
    load_plugins(["lab_metrics"], "plugins")
    with pytest.raises(
        ConfigError, match=naming("top_gain@3", f"{path}:9", "query 2", "KeyError")
    ):
        evaluate(JUDGMENTS, TIED, ["top_gain@3"])
    plugin(
        "texts",
        f"{head}    return ranking.sum_first(ranking.column('query_id'), k)\n".replace(
            "top_gain", "t"
        ),
    )
    load_plugins(["texts"], "plugins")
    ids = replace(JUDGMENTS, query_ids=np.array(["1", "12,5"]))
    with pytest.raises(ConfigError, match=naming("t@3", "query 12,5", "'12,5'")):
        evaluate(ids, TIED, ["t@3"])


@pytest.mark.parametrize("scores", [TIED, np.arange(5.0)], ids=["ties", "no ties"])
@pytest.mark.parametrize(
    ("shared", "name"),
    [
        ("ranking.labels", "inplace"),
        ("ranking.order", "order"),
        ("ranking.judgments.ranks_of_rows", "rows"),
    ],
)
def test_a_metric_that_writes_into_a_ranking_is_refused_and_one_that_writes_into_a_copy_changes_no_other(
    shared: str, name: str, scores: Any
) -> None:
    head = SOURCE.partition("    best =")[0].replace("top_gain", name)
    end = "    values[values < 2] = 0\n    return ranking.sum_first(values, k)\n"
    plugin(name, f"{head}    values = {shared}\n{end}")
    load_plugins([name], "plugins")
    with pytest.raises(ConfigError, match=naming(name, "read-only", "copy")):
        evaluate(JUDGMENTS, scores, [name, "ndcg"])
    copies = ("convention.gain(ranking.labels)", "ranking.tie_mean(ranking.labels)")
    for number, copy in enumerate(copies):
        source = f"{head}    values = {copy}\n{end}".replace(name, f"{name}_{number}")
        plugin(f"{name}_{number}", source)
        load_plugins([f"{name}_{number}"], "plugins")
    sklearn = replace(preset("sklearn"), metrics=None)
    before = evaluate(JUDGMENTS, scores, ["ndcg"], sklearn).means["ndcg"]
    names = [f"{name}_0", f"{name}_1", "ndcg"]
    assert evaluate(JUDGMENTS, scores, names, sklearn).means["ndcg"] == before


def test_the_region_of_equivalence_is_that_of_the_metric_or_none() -> None:
    plugin(source=SOURCE.replace("depth=first_k", "depth=first_k, rope=0.25"))
    load_plugins(["lab_metrics"], "plugins")
    ropes = {
        name: Settings().rope_of(name) for name in ("ndcg@10", "top_gain@3", "dcg@10")
    }
    assert ropes == {"ndcg@10": 0.005, "top_gain@3": 0.25, "dcg@10": 0.0}
    assert Settings(metric="top_gain@3", rope=0.5).rope_of("top_gain@3") == 0.5
    with pytest.raises(ConfigError, match=naming("0.005", "0 of dcg@10", "@metric")):
        Settings(metric="dcg@10", rope=0.005)
    with pytest.raises(
        ConfigError, match=naming("0.01", "0.25 of top_gain@3", "0.005 of map")
    ):
        Settings(family=("top_gain@3", "map"), rope=0.01)


# The command line.


REVENUE = """
from ltrbench.metrics import first_k, metric


@metric("revenue", depth=first_k, rope=0.5)
def revenue(ranking, k, convention):
    assert (ranking.column("document_id") == ranking.column("product")).all()
    return ranking.sum_first(ranking.tie_mean(ranking.column("euro") * (ranking.labels > 0)), k)
"""


@pytest.mark.slow
def test_a_metric_of_kept_columns_and_ids_works_from_the_run_to_the_report(
    folder: Path,
) -> None:
    path = plugin("shop_metrics", REVENUE)
    rng, query = np.random.default_rng(0), np.repeat(np.arange(40), 5)
    labels, euro = np.tile([0, 1, 0, 2, 0], 40), rng.uniform(1, 9, 200)
    columns = {
        "query_id": query,
        "document_id": range(200),
        "product": map(str, range(200)),
        "label": labels,
    }
    columns |= {
        "euro": euro,
        "bm25": rng.normal(size=200),
        "date": pd.Timestamp("2026-01-01") + pd.to_timedelta(query // 2, "D"),
    }
    pd.DataFrame(columns).to_parquet("shop.parquet")
    reading = {"keep": "[euro,product]", "split_by": "date"}
    words = "model=native model.documents_per_tree=0.5 params.num_trees=3 data=table data.train=shop.parquet"
    words += " data.gap=2d plugins=[shop_metrics] metrics=[revenue@2] early_stopping.metric=revenue@2"
    words += " importance.metric=revenue@2"
    data = [f"data.{name}={value}" for name, value in reading.items()]
    run_command(
        *words.split(), *data, "tracking=none", "hydra.run.dir=run", folder=folder
    )
    result = read_run(Path("run")).result
    assert result.data["test"]["span"] == ["2026-01-17", "2026-01-20"]
    assert result.data["train"]["queries_with_equal_labels"] == 0
    assert (
        result.versions["shop_metrics"]
        == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    )
    # The plug-in is not loaded in this process: prediction does not need it.
    NativeRanker.load(Path("run/model"))
    with pytest.raises(ConfigError, match=naming("'revenue@2'")):
        EarlyStopping(metric="revenue@2")
    words = "compare run --metric revenue@1 --plugin shop_metrics --output out"
    assert "revenue@1" in run_command(*words.split(), folder=folder).stdout
    assert "gap: 2d" in Path("out/report.html").read_text()
    Path("scores.txt").write_text("0\n" * 200)
    words = "evaluate shop.parquet scores.txt --metrics revenue --plugin shop_metrics --json"
    options = [
        word
        for name, value in reading.items()
        for word in ("--read", f"{name}={value}")
    ]
    evaluated = json.loads(run_command(*words.split(), *options, folder=folder).stdout)
    assert evaluated["metrics"]["revenue"] == pytest.approx(euro[labels > 0].sum() / 40)
