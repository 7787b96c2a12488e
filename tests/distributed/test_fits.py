"""Fits on workers: of the libraries, as good as local ones, with the same model files and curves; of native,
with the model file and the curve of one process, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from numpy.typing import NDArray

from ltrbench.data import RankingDataset, Splits
from ltrbench.data.store import read_store, write_store
from ltrbench.data.synthetic import Synthetic
from ltrbench.distributed import (
    Deal,
    PlacedShards,
    contiguous,
    divide_queries,
    send_shards,
)
from ltrbench.errors import ConfigError
from ltrbench.metrics import evaluate
from ltrbench.rankers import EarlyStopping
from ltrbench.rankers.base import Iteration
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import MODEL_FILE, NativeRanker
from ltrbench.rankers.xgboost import XGBoostRanker

pytest.importorskip("distributed", reason="needs Dask")
from local_workers import local_workers

from ltrbench.distributed.cluster import Workers

SETTINGS: dict[str, Any] = {
    "num_trees": 12,
    "num_leaves": 15,
    "learning_rate": 0.1,
    "num_threads": 1,
}
METRIC = "ndcg@10"
OF_NATIVE: dict[str, Any] = {
    **SETTINGS,
    "num_trees": 8,
    "learning_rate": 0.3,
    "early_stopping": EarlyStopping(metric=METRIC, patience=3),
}


@pytest.fixture(scope="module")
def splits() -> Splits:
    return Synthetic(name="synthetic", num_queries=240).load()


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with local_workers(2) as opened:
        yield opened


@pytest.fixture(scope="module")
def one_worker() -> Iterator[Workers]:
    with local_workers(1) as opened:
        yield opened


def placed(workers: Workers, dataset: RankingDataset) -> PlacedShards:
    return send_shards(workers, divide_queries(dataset, len(workers.addresses)))


def ndcg(ranker: Any, test: RankingDataset) -> float:
    return evaluate(test, ranker.predict(test.features), [METRIC]).means[METRIC]


@pytest.mark.slow
def test_xgboost_on_one_worker_gives_the_local_model_and_curve(
    one_worker: Workers, splits: Splits, tmp_path: Path
) -> None:
    ranker, local = XGBoostRanker(**SETTINGS), XGBoostRanker(**SETTINGS)
    assert splits.valid is not None
    numbers, values = ranker.fit_distributed(
        one_worker,
        placed(one_worker, splits.train),
        placed(one_worker, splits.valid),
        [METRIC],
    )
    expected: dict[str, list[float]] = {f"train/{METRIC}": [], f"valid/{METRIC}": []}
    valid = splits.valid

    def record(iteration: Iteration) -> None:
        for name, dataset, scores in (
            ("train", splits.train, iteration.train_scores),
            ("valid", valid, iteration.valid_scores),
        ):
            assert scores is not None
            expected[f"{name}/{METRIC}"].append(
                evaluate(dataset, scores, [METRIC]).means[METRIC]
            )

    local.fit(splits.train, splits.valid, record)
    assert (numbers, values) == (list(range(1, 13)), expected)
    np.testing.assert_array_equal(
        ranker.predict(splits.test.features), local.predict(splits.test.features)
    )
    ranker.save(tmp_path)
    again = XGBoostRanker.load(tmp_path)
    np.testing.assert_array_equal(
        again.predict(splits.test.features), ranker.predict(splits.test.features)
    )


@pytest.mark.slow
def test_xgboost_stops_early_on_all_members_at_once(
    workers: Workers, splits: Splits
) -> None:
    rule = EarlyStopping(metric=METRIC, patience=3)
    ranker = XGBoostRanker(
        **{**SETTINGS, "num_trees": 200, "learning_rate": 0.5}, early_stopping=rule
    )
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
    assert evaluate(splits.valid, scores, [METRIC]).means[METRIC] == pytest.approx(
        of_valid[best], abs=1e-12
    )


@pytest.mark.slow
def test_lightgbm_on_one_worker_gives_the_local_model(
    one_worker: Workers, splits: Splits, tmp_path: Path
) -> None:
    settings = {
        **SETTINGS,
        "min_docs_in_leaf": 7,
        "l2": 0.3,
        "max_bins": 63,
        "truncation": 10,
    }
    ranker, local = LightGBMRanker(**settings), LightGBMRanker(**settings)
    ranker.fit_distributed(one_worker, placed(one_worker, splits.train), None, [METRIC])
    local.fit(splits.train)
    scores = local.predict(splits.test.features)
    np.testing.assert_array_equal(ranker.predict(splits.test.features), scores)
    ranker.save(tmp_path)
    np.testing.assert_array_equal(
        LightGBMRanker.load(tmp_path).predict(splits.test.features), scores
    )


@pytest.mark.slow
def test_lightgbm_on_two_workers_is_as_good_as_a_local_fit(
    workers: Workers, splits: Splits
) -> None:
    train = splits.train.with_fields(
        document_weights=np.linspace(0.5, 1.5, splits.train.num_documents)
    )
    ranker, local = LightGBMRanker(**SETTINGS), LightGBMRanker(**SETTINGS).fit(train)
    assert ranker.fit_distributed(workers, placed(workers, train)) == ([], {})
    assert abs(ndcg(ranker, splits.test) - ndcg(local, splits.test)) < 0.06
    assert len(ranker.trees().trees) == 12


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (
            {"early_stopping": EarlyStopping()},
            ("early_stopping", "3712", "early_stopping=null"),
        ),
        (
            {"lambdarank_position_bias_regularization": 0.1},
            ("lambdarank_position_bias_regularization is 0.1", "=null"),
        ),
        (
            {"extra": {"linear_tree": True}},
            ("extra.linear_tree is True", "Remove extra.linear_tree"),
        ),
    ],
)
def test_settings_that_lightgbm_cannot_distribute_are_refused(
    settings: dict[str, Any], named: tuple[str, ...]
) -> None:
    with pytest.raises(
        ConfigError, match=naming("LightGBM", *named, "distributed=none")
    ):
        LightGBMRanker(**settings).check_distributed()


# ---- native.


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
def with_store(tmp_path_factory: pytest.TempPathFactory) -> Splits:
    """Splits of which train is a store."""
    splits = Synthetic(name="synthetic", num_queries=150).load()
    store = tmp_path_factory.mktemp("store") / "train.store"
    write_store(store, splits.train)
    return Splits(read_store(store), splits.valid, splits.test)


@pytest.fixture(scope="module")
def three() -> Iterator[Workers]:
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
    three: Workers,
    with_store: Splits,
    tmp_path: Path,
) -> None:
    train, valid = with_store.train, with_store.valid
    assert valid is not None
    local, ranker = (
        NativeRanker(**OF_NATIVE, **settings),
        NativeRanker(**OF_NATIVE, **settings),
    )
    curve: list[float] = []

    def record(iteration: Iteration) -> None:
        assert iteration.valid_scores is not None
        curve.append(evaluate(valid, iteration.valid_scores, [METRIC]).means[METRIC])

    local.fit(train, valid, record)
    of_train, of_valid = (
        send_shards(three, divide_queries(part, len(three.addresses), deal))
        for part in (train, valid)
    )
    numbers, values = ranker.fit_distributed(three, of_train, of_valid, [METRIC])
    assert numbers == list(range(1, len(curve) + 1))
    assert values[f"valid/{METRIC}"] == curve
    assert model_file(ranker, tmp_path / "workers") == model_file(
        local, tmp_path / "local"
    )
    np.testing.assert_array_equal(
        ranker.predict(with_store.test.features),
        local.predict(with_store.test.features),
    )


def test_workers_continue_a_model_in_a_folder_relative_to_this_process(
    three: Workers, with_store: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = NativeRanker(**{**SETTINGS, "num_trees": 2}).fit(with_store.train)
    monkeypatch.chdir(tmp_path)  # the workers are in another folder
    first.save(Path("start"))
    continued = NativeRanker(**SETTINGS, warm_start="start")
    continued.fit_distributed(three, placed(three, with_store.train))
    local = NativeRanker(**SETTINGS, warm_start="start").fit(with_store.train)
    assert model_file(continued, tmp_path / "workers") == model_file(
        local, tmp_path / "local"
    )
