"""native on the workers of a cluster: the model file and the curve of one process, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ltrbench.data import Splits
from ltrbench.data.store import read_store, write_store
from ltrbench.data.synthetic import Synthetic
from ltrbench.distributed import Deal, contiguous, divide_queries, send_shards
from ltrbench.metrics import evaluate
from ltrbench.rankers import EarlyStopping
from ltrbench.rankers.base import Iteration
from ltrbench.rankers.native import MODEL_FILE, NativeRanker

pytest.importorskip("distributed", reason="needs Dask")
from local_workers import local_workers

from ltrbench.distributed.cluster import Workers

METRIC = "ndcg@10"
SETTINGS: dict[str, Any] = {
    "num_trees": 8,
    "num_leaves": 15,
    "learning_rate": 0.3,
    "num_threads": 1,
    "early_stopping": EarlyStopping(metric=METRIC, patience=3),
}


def round_robin(
    query_sizes: NDArray[np.int64], num_shards: int
) -> Sequence[NDArray[np.int64]]:
    return [np.arange(rank, len(query_sizes), num_shards) for rank in range(num_shards)]


def uneven(
    query_sizes: NDArray[np.int64], num_shards: int
) -> Sequence[NDArray[np.int64]]:
    """Deals one random query to each shard except the last."""
    order = np.random.default_rng(0).permutation(len(query_sizes))
    return [np.sort(part) for part in np.split(order, range(1, num_shards))]


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> Splits:
    """Splits of which train is a store."""
    splits = Synthetic(name="synthetic", num_queries=150).load()
    store = tmp_path_factory.mktemp("store") / "train.store"
    write_store(store, splits.train)
    return Splits(read_store(store), splits.valid, splits.test)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with local_workers(3) as opened:
        yield opened


def model_file(ranker: NativeRanker, folder: Path) -> bytes:
    folder.mkdir()
    ranker.save(folder)
    return (folder / MODEL_FILE).read_bytes()


@pytest.mark.parametrize(
    ("deal", "settings"),
    [
        (contiguous, {}),
        (
            round_robin,
            {
                "queries_per_tree": 0.5,
                "features_per_tree": 0.7,
                "drop_rate": 0.3,
                "seed": 3,
            },
        ),
        (uneven, {}),
    ],
)
def test_workers_fit_the_model_of_one_process(
    settings: dict[str, Any],
    deal: Deal,
    workers: Workers,
    splits: Splits,
    tmp_path: Path,
) -> None:
    train, valid = splits.train, splits.valid
    assert valid is not None
    local, ranker = (
        NativeRanker(**SETTINGS, **settings),
        NativeRanker(**SETTINGS, **settings),
    )
    curve: list[float] = []

    def record(iteration: Iteration) -> None:
        assert iteration.valid_scores is not None
        curve.append(evaluate(valid, iteration.valid_scores, [METRIC]).means[METRIC])

    local.fit(train, valid, record)
    of_train, of_valid = (
        send_shards(workers, divide_queries(part, len(workers.addresses), deal))
        for part in (train, valid)
    )
    numbers, values = ranker.fit_distributed(workers, of_train, of_valid, [METRIC])
    assert numbers == list(range(1, len(curve) + 1))
    assert values[f"valid/{METRIC}"] == curve
    assert model_file(ranker, tmp_path / "workers") == model_file(
        local, tmp_path / "local"
    )
    np.testing.assert_array_equal(
        ranker.predict(splits.test.features), local.predict(splits.test.features)
    )
