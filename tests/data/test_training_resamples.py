"""Training on resamples of the training queries: the draw, the record, and the sweep."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import TINY, run

from ltrbench.data import RankingDataset, Splits, TrainingResample
from ltrbench.data.synthetic import Synthetic
from ltrbench.runs import find_runs

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


@pytest.mark.slow
def test_a_sweep_trains_every_model_on_every_resample_and_records_which(tmp_path: Path) -> None:
    words = ("model=native,single_feature", "replicates=2", "seed=5", "-m", "hydra.sweep.dir=s")
    run(*words, *TINY, folder=tmp_path)
    sweep, splits = find_runs([tmp_path / "s"]), SOURCE.load()
    of_job = [(done.result.model, done.result.data["resample"]["index"]) for done in sweep]
    assert of_job == [("native", 1), ("native", 2), ("single_feature", 1), ("single_feature", 2)]
    for done, (_, index) in zip(sweep, of_job, strict=True):
        drawn, data = TrainingResample(number=2, index=index), done.result.data
        assert data["resample"] == {
            **{"kind": "bootstrap", "share": 1.0, "number": 2, "index": index, "seed": 0},
            **{"train": splits.train.fingerprint, "queries": splits.train.num_queries},
        }
        trained_on = Splits(drawn.of(splits.train), splits.valid, splits.test)
        for name, split in trained_on:
            assert data[name]["fingerprint"] == split.fingerprint
        assert data["train"]["queries"] == trained_on.train.num_queries
        assert done.result.seed == done.result.ranker["fields"]["seed"] == 5 + index - 1
        assert done.result.swept["replicates.index"] == ["1", "2"]
        assert done.result.reused is None
