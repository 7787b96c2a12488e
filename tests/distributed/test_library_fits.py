"""Distributed fits of the libraries: as good as local ones, and with the same model files and curves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming

from ltrbench.data import RankingDataset, Splits
from ltrbench.data.synthetic import Synthetic
from ltrbench.distributed.shards import PlacedShards, divide_queries, drop, place
from ltrbench.errors import ConfigError
from ltrbench.metrics import evaluate
from ltrbench.rankers import EarlyStopping
from ltrbench.rankers.capabilities import SupportsDistributedFit, check_distributed
from ltrbench.rankers.early_stopping import Iteration, JoinsArrays, MemberMonitor, joined_means
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.xgboost import XGBoostRanker

pytest.importorskip("distributed", reason="needs Dask")
from local_workers import LocalWorkers, local_workers  # noqa: E402

SETTINGS: dict[str, Any] = {"num_trees": 12, "num_leaves": 15, "learning_rate": 0.1, "num_threads": 1}
METRIC = "ndcg@10"


@pytest.fixture(scope="module")
def splits() -> Splits:
    return Synthetic(name="synthetic", num_queries=240).load()


@pytest.fixture(scope="module")
def workers() -> Iterator[LocalWorkers]:
    with local_workers(2) as opened:
        yield opened


@pytest.fixture(scope="module")
def one_worker() -> Iterator[LocalWorkers]:
    with local_workers(1) as opened:
        yield opened


def placed(workers: LocalWorkers, dataset: RankingDataset) -> PlacedShards:
    return place(workers, divide_queries(dataset, len(workers.addresses)))


def ndcg(ranker: Any, test: RankingDataset) -> float:
    return evaluate(test, ranker.predict(test.features), [METRIC]).means[METRIC]


def test_xgboost_on_one_worker_gives_the_local_model_and_curve(
    one_worker: LocalWorkers, splits: Splits, tmp_path: Path
) -> None:
    ranker, local = XGBoostRanker(**SETTINGS), XGBoostRanker(**SETTINGS)
    assert splits.valid is not None
    numbers, values = ranker.fit_distributed(
        one_worker, placed(one_worker, splits.train), placed(one_worker, splits.valid), [METRIC]
    )
    expected: dict[str, list[float]] = {f"train/{METRIC}": [], f"valid/{METRIC}": []}
    valid = splits.valid

    def record(iteration: Iteration) -> None:
        for name, dataset, scores in (
            ("train", splits.train, iteration.train_scores),
            ("valid", valid, iteration.valid_scores),
        ):
            assert scores is not None
            expected[f"{name}/{METRIC}"].append(evaluate(dataset, scores, [METRIC]).means[METRIC])

    local.fit(splits.train, splits.valid, record)
    assert (numbers, values) == (list(range(1, 13)), expected)
    np.testing.assert_array_equal(ranker.predict(splits.test.features), local.predict(splits.test.features))
    ranker.save(tmp_path)
    again = XGBoostRanker.load(tmp_path)
    np.testing.assert_array_equal(again.predict(splits.test.features), ranker.predict(splits.test.features))


def test_xgboost_on_two_workers_is_as_good_as_a_local_fit(workers: LocalWorkers, splits: Splits) -> None:
    ranker, local = XGBoostRanker(**SETTINGS), XGBoostRanker(**SETTINGS).fit(splits.train)
    train = placed(workers, splits.train)
    assert ranker.fit_distributed(workers, train) == ([], {})
    drop(workers, train)
    assert abs(ndcg(ranker, splits.test) - ndcg(local, splits.test)) < 0.02
    assert ranker.summary is not None and ranker.summary.num_trees == 12
    assert len(ranker.trees().trees) == 12


def test_xgboost_stops_early_on_all_members_at_once(workers: LocalWorkers, splits: Splits) -> None:
    rule = EarlyStopping(metric=METRIC, patience=3)
    ranker = XGBoostRanker(**{**SETTINGS, "num_trees": 200, "learning_rate": 0.5}, early_stopping=rule)
    assert splits.valid is not None
    _, values = ranker.fit_distributed(
        workers, placed(workers, splits.train), placed(workers, splits.valid), [METRIC]
    )
    of_valid = values[f"valid/{METRIC}"]
    best = int(np.argmax(of_valid))
    assert ranker.summary is not None
    assert ranker.summary.num_trees == best + 1
    assert ranker.summary.num_iterations == len(of_valid) == best + 1 + 3
    scores = ranker.predict(splits.valid.features)
    assert evaluate(splits.valid, scores, [METRIC]).means[METRIC] == pytest.approx(of_valid[best], abs=1e-12)
