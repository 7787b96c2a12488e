"""inspect: what it counts is what is there."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from messages import naming

from ltrbench.cli import main
from ltrbench.data import RankingDataset, Splits
from ltrbench.data.sources import DataSource
from ltrbench.experiment import Experiment, run
from ltrbench.experiment.data_warnings import (
    CELLS_OF_INSPECTION,
    CELLS_OF_RUN,
    feature_warnings,
    single_documents,
)
from ltrbench.experiment.loading import inspect_data
from ltrbench.folders import conf_dir
from ltrbench.rankers.random import RandomRanker

pytestmark = pytest.mark.slow  # every backend of conf/model looks at the data

NAN = float("nan")

# Queries of 3, 2 and 1 documents: best label first, all relevant, nothing relevant.
DATA = RankingDataset(
    features=np.array(
        [
            [1, 0, 7, NAN, NAN],
            [1, 1, 7, NAN, 4],
            [1, 2, 7, NAN, 4],
            [1, 0, 8, NAN, 4],
            [1, 0, 8, NAN, 4],
            [1, 0, 9, NAN, 4],
        ],
        dtype=np.float32,
    ),
    labels=np.array([2.0, 1, 0, 1, 1, 0]),
    query_start=np.array([0, 3, 5, 6]),
    feature_names=("one", "useful", "of_query", "empty", "gappy"),
)


@dataclass(kw_only=True)
class _Training(DataSource):
    train: RankingDataset

    def load(self) -> Splits:
        others = replace(
            DATA, features=DATA.features + 1, query_ids=np.array(["a", "b", "c"])
        )
        return Splits(train=self.train, valid=None, test=others)


@pytest.mark.parametrize(
    ("labels", "parts"),
    [
        ([2.0, 1, 0, 1, 1, 0], None),
        ([2.0, 31, 0, 1, 1, 0], ("labels[1] is 31", "30", "grades")),
        ([1.0, 1, 1, 1, 1, 1], ("equal", "all are 1", "column")),
        ([2.0, 2, 2, 1, 1, 0], ("within each query", "column")),
    ],
)
def test_labels_without_use_are_warned_of_by_inspect_and_by_a_run(
    labels: list[float],
    parts: tuple[str, ...] | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = replace(DATA, labels=np.array(labels))
    inspection = inspect_data(data, {})
    run(
        Experiment(
            model="random",
            ranker=RandomRanker(),
            source=_Training(name="six", train=data),
        ),
        tmp_path / "run",
    )
    warned = [
        record.getMessage()
        for record in caplog.records
        if record.levelname == "WARNING"
    ]
    for sentences in (inspection.label_warnings, warned):
        assert len(sentences) == (parts is not None)
        assert parts is None or re.search(naming(*parts), sentences[0])


def test_documents_labels_and_queries_are_counted() -> None:
    report = inspect_data(DATA, {})
    assert (report.documents, report.queries, report.features) == (6, 3, 5)
    assert report.labels == {"0": 2, "1": 3, "2": 1}
    assert (report.without_relevant, report.only_relevant, report.single_document) == (
        1,
        1,
        1,
    )
    assert [report.query_sizes[name] for name in ("0", "0.5", "1", "mean")] == [
        1,
        2,
        3,
        6 / 3,
    ]
    assert report.fingerprint == DATA.fingerprint


def test_leaks_copies_and_times_are_warned_of_unless_they_are_not_there() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice([0.0, 1, 2], size=600)
    columns = {
        "clicked": labels > 0,
        "state": (labels - 1) ** 2,
        "nearly": -labels - 0.01 * rng.random(600),
        "revenue": (labels == 2) * rng.random(600),
        "bm25": labels + 2 * rng.normal(size=600),
        "created_at": rng.random(600),
    }
    leaking = RankingDataset(
        features=np.column_stack(list(columns.values())),
        labels=labels,
        query_start=np.arange(0, 601, 20),
        document_ids=np.array([f"d {row % 20}" for row in range(599)] + ["d 0"]),
        feature_names=tuple(columns),
        kept={"sold": np.array(["2026-01-31"] * 600)},
    )
    expected = [
        ("2 features", "clicked, state", "function", "data.keep"),
        ("revenue is not 0", "label 2", "data.keep"),
        ("nearly", "ndcg@10", "1.000"),
        ("1 rows", "'d 0'", "'30'"),
        ("created_at", "data.split_by=created_at"),
        ("sold", "data.split_by=sold"),
        ("week_day", "data.split_by=week_day"),
    ]
    warned = inspect_data(leaking, {}, {"ignore": ["week_day", "url"]}).column_warnings
    assert [
        bool(re.search(naming(*parts), text))
        for parts, text in zip(expected, warned, strict=True)
    ] == ([True] * len(expected))
    assert len(inspect_data(leaking, {}, {"split_by": "sold"}).column_warnings) == 4
    assert inspect_data(DATA, {}).column_warnings == ()
    for ids in (["", "", "a", "", "", ""], [""] * 6):
        without = replace(DATA, document_ids=np.array(ids))
        assert inspect_data(without, {}).column_warnings == ()


@pytest.mark.parametrize("num_cells", [CELLS_OF_INSPECTION, CELLS_OF_RUN])
def test_features_that_rank_well_alone_are_one_line_and_few_queries_prove_little(
    num_cells: int,
) -> None:
    rng = np.random.default_rng(0)
    labels = rng.permuted(np.tile([0.0, 1, 1, 2, 2], (20, 1)), axis=1).ravel()
    # With so few documents 43 of them have an NDCG@10 above 0.95.
    honest = (labels[:, None] + rng.normal(size=(100, 195))).astype(np.float32)
    data = RankingDataset(
        features=honest, labels=labels, query_start=np.arange(0, 101, 5)
    )
    assert [*feature_warnings(data, num_cells)] == []
    unjudged = replace(data, labels=np.where(np.arange(100) < 5, labels, 0.0))
    assert [*feature_warnings(unjudged, num_cells)] == []
    leaking = labels[:, None] + rng.normal(scale=0.01, size=(100, 60))
    together = RankingDataset(
        features=np.hstack([honest, leaking]),
        labels=labels,
        query_start=data.query_start,
    )
    (warning,) = feature_warnings(together, num_cells)
    assert re.search(naming("60 features", "(196, 197, 198, ...)", "ndcg@10"), warning)


def test_ids_and_queries_with_one_document_are_warned_of() -> None:
    rng = np.random.default_rng(0)
    columns = {
        "movieId": rng.integers(9, size=1200),
        "row": rng.permutation(1200),
        "paid": rng.integers(9, size=1200),
        "bm25": rng.random(1200),
    }
    sizes = np.array([1] * 20 + [2] * 590)
    data = RankingDataset(
        features=np.column_stack([*columns.values()]),
        labels=np.where(np.arange(1200) < 10, 1.0, rng.integers(0, 3, size=1200)),
        query_start=np.concatenate([[0], np.cumsum(sizes)]),
        feature_names=(*columns,),
    )
    (warning,) = feature_warnings(data, CELLS_OF_RUN)
    assert re.search(naming("2 features (movieId, row)", "id", "data.ignore"), warning)
    relevant = int(10 + (data.labels[10:20] > 0).sum())
    (warning,) = single_documents(data)
    assert re.search(naming(f"{relevant} queries", "skip_shorter_than=2"), warning)
    assert [*single_documents(data.take_queries(range(20, 610)))] == []


def test_features_that_order_nothing_are_named() -> None:
    faults = inspect_data(DATA, {}).feature_faults
    assert faults.missing == {"empty": 6, "gappy": 1}
    assert faults.constant == ("one", "empty")
    assert faults.constant_within_queries == ("of_query",)


@pytest.mark.parametrize(
    ("labels", "best_first", "worst_first"),
    [
        ([2, 1, 0, 3, 0, 0], 2, 0),
        ([0, 0, 1, 0, 3, 0], 0, 2),
        ([1, 0, 1, 0, 0, 0], 0, 0),
    ],
)
def test_queries_sorted_by_label_are_counted(
    labels: list[int], best_first: int, worst_first: int
) -> None:
    order = inspect_data(
        replace(DATA, labels=np.array(labels, dtype=np.float64)), {}
    ).row_order
    assert (order.best_first, order.worst_first) == (best_first, worst_first)


@pytest.fixture
def sorted_file(tmp_path: Path) -> Path:
    """Thirty features without a value that differs, and queries whose best document stands first."""
    path = tmp_path / "sorted.txt"
    features = " ".join(f"{index}:1" for index in range(1, 31))
    path.write_text(
        "".join(
            f"{label} qid:{query} {features}\n" for query in (1, 2) for label in (40, 0)
        )
    )
    return path


def test_the_verb_asks_every_backend_of_conf_model_and_its_json_is_whole(
    sorted_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(sorted_file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    models = [
        path.stem
        for path in conf_dir().glob("model/*.yaml")
        if not path.stem.startswith("_")
    ]
    assert sorted(report["concerns"]) == sorted(models)
    assert report["feature_faults"]["constant"] == [
        str(index) for index in range(1, 31)
    ]
    assert any("40" in sentence for sentence in report["concerns"]["lightgbm"])
