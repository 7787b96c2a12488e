"""Training on resamples of the training queries: the draw, the record, and the sweep."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from command_line import TINY, run

from ltrbench.data import RankingDataset, Splits, TrainingResample
from ltrbench.data.synthetic import Synthetic
from ltrbench.runs import Run, find_runs

SOURCE = Synthetic(name="synthetic", num_queries=30, valid_share=0.25)
SIZES = [1, 3, 2, 4, 1, 2, 5, 1, 2, 3]
NUM_QUERIES = len(SIZES)


def dataset(**fields: Any) -> RankingDataset:
    """Returns queries whose documents have the query number as their only feature."""
    query_of_document = np.repeat(np.arange(NUM_QUERIES), SIZES)
    return RankingDataset(
        features=query_of_document[:, None].astype(np.float32),
        labels=(np.arange(len(query_of_document)) % 3).astype(np.float64),
        query_start=np.concatenate([[0], np.cumsum(SIZES)]),
        **fields,
    )


def resample(index: int = 1, **fields: Any) -> TrainingResample:
    return TrainingResample(**{"number": 3, "index": index, **fields})


def queries_in(data: RankingDataset) -> list[int]:
    """Returns the number in `dataset` of each query."""
    return [int(data.features[row, 0]) for row in data.query_start[:-1]]


def test_a_bootstrap_holds_a_query_as_often_as_it_was_drawn() -> None:
    train = dataset()
    drawn = np.random.default_rng([7, 2]).integers(0, NUM_QUERIES, NUM_QUERIES)
    made = resample(index=2, seed=7).of(train)
    assert queries_in(made) == sorted(drawn.tolist())
    assert made.query_sizes.tolist() == [SIZES[query] for query in queries_in(made)]
    for query, times in Counter(queries_in(made)).items():
        ours = train.labels[train.query_of_document == query]
        np.testing.assert_array_equal(made.labels[made.features[:, 0] == query], np.tile(ours, times))


def expected_data(splits: Splits, drawn: TrainingResample, **of_kind: Any) -> dict[str, Any]:
    """Returns the expected `RunResult.data`: the contract that comparisons rely on."""
    assert splits.valid is not None
    trained_on = Splits(drawn.of(splits.train), splits.valid, splits.test).train
    return {
        "resample": {
            **of_kind,
            "number": drawn.number,
            "index": drawn.index,
            "seed": drawn.seed,
            "train": splits.train.fingerprint,
            "queries": splits.train.num_queries,
        },
        "train": trained_on.fingerprint,
        "queries": trained_on.num_queries,
        "valid": splits.valid.fingerprint,
        "test": splits.test.fingerprint,
    }


def recorded_data(done: Run) -> dict[str, Any]:
    data = done.result.data
    fingerprints = {name: data[name]["fingerprint"] for name in ("train", "valid", "test")}
    return {"resample": data["resample"], "queries": data["train"]["queries"], **fingerprints}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Returns the runs of a sweep over two models and two resamples."""
    folder = tmp_path_factory.mktemp("bootstrap")
    run(
        "model=native,single_feature",
        "replicates=2",
        "seed=5",
        "-m",
        "hydra.sweep.dir=s",
        *TINY,
        folder=folder,
    )
    return find_runs([folder / "s"])


@pytest.mark.slow
def test_a_sweep_trains_every_model_on_every_resample_and_records_which(sweep: list[Run]) -> None:
    splits = SOURCE.load()
    of_job = [(done.result.model, done.result.data["resample"]["index"]) for done in sweep]
    assert of_job == [("native", 1), ("native", 2), ("single_feature", 1), ("single_feature", 2)]
    for done, (_, index) in zip(sweep, of_job, strict=True):
        drawn = TrainingResample(number=2, index=index)
        assert recorded_data(done) == expected_data(splits, drawn, kind="bootstrap", share=1.0)
        assert done.result.seed == done.result.ranker["fields"]["seed"] == 5 + index - 1
        assert done.result.swept["replicates.index"] == ["1", "2"]
        assert f"replicates.index={index}" in (done.result.overrides or ())
        assert done.result.reused is None
