"""Models of other libraries as rankers: the scores of the library, on the columns of the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from model_files import lightgbm_booster, model_file, xgboost_booster
from tree_cases import CASES, values_around

from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows
from ltrbench.data.synthetic import make_synthetic
from ltrbench.errors import DataError
from ltrbench.models.files import ModelFile, read_model_file
from ltrbench.models.trees import ensemble_scores, used_features
from ltrbench.rankers.base import load_ranker
from ltrbench.rankers.imported import (
    ImportedRanker,
    flat_scores,
    flat_trees,
    match_features,
)

NUM_FEATURES = 40  # of the synthetic set


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_synthetic(num_queries=30, seed=5)


def written(path: Path, content: str | bytes) -> ModelFile:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_model_file(path)


def ranker_of(file: ModelFile, num_columns: int = NUM_FEATURES) -> ImportedRanker:
    """A ranker whose features are the columns of the same number."""
    return ImportedRanker.of(
        file, {each: each for each in used_features(file.model.trees)}, num_columns
    )


# The scores


@pytest.mark.parametrize("name", CASES)
def test_the_compiled_scores_have_the_bits_of_the_reference(name: str) -> None:
    ensemble = CASES[name]
    features = values_around(ensemble)
    scores = flat_scores(flat_trees(ensemble), features)
    np.testing.assert_array_equal(scores, ensemble_scores(ensemble, features))
    assert scores.dtype == ensemble.score_dtype


def test_scores_do_not_depend_on_threads_batch_or_sparsity(
    data: RankingDataset, tmp_path: Path
) -> None:
    ranker = ranker_of(
        written(tmp_path / "model", bytes(xgboost_booster(data).save_raw("ubj")))
    )
    features = np.asarray(data.features)
    scores = ranker.predict(features)
    row, column = np.nonzero(features)
    row_start = np.concatenate([[0], np.cumsum(np.count_nonzero(features, axis=1))])
    sparse: Any = SparseRows(
        row_start, column.astype(np.int32), features[row, column], NUM_FEATURES
    )
    one_by_one = [ranker.predict(features[d : d + 1])[0] for d in range(20)]
    single = replace(ranker, num_threads=1)
    single._held = ranker._held
    np.testing.assert_array_equal(single.predict(features), scores)
    np.testing.assert_array_equal(one_by_one, scores[:20])
    np.testing.assert_array_equal(ranker.predict(sparse), scores)
    assert ranker.predict(features[:0]).shape == (0,)


# The columns


@pytest.mark.parametrize(
    ("file", "columns_of_data", "way", "columns"),
    [
        (
            model_file([0, 2], 3, names=("bm_25", "unused", "clicks")),
            "clicks,age,bm 25",
            "names",
            {0: 2, 2: 0},
        ),
        (model_file([0, 4], 5, library="RankLib"), "1,2,5", "numbers", {0: 0, 4: 2}),
        # A model of a LETOR file that was read from index 0.
        (model_file([1, 3], 4), "1,2,3", "numbers", {1: 0, 3: 2}),
        # Without names, these could be the numbers 1 and 2 of a LETOR file.
        (model_file([1, 2], 3, ("a", "b", "c")), "1,2,3", "positions", {1: 1, 2: 2}),
        (model_file([1, 2], 3), "0,1,2", "positions", {1: 1, 2: 2}),
        *(
            (model_file([0, 2], 3, names), "1,2,3", "positions", {0: 0, 2: 2})
            for names in (
                (),
                ("Column_0", "Column_1", "Column_2"),
                ("f0", "f1", "f2"),
                ("a", "b", "c"),
            )
        ),
    ],
)
def test_features_are_matched_by_names_numbers_or_positions(
    file: ModelFile, columns_of_data: str, way: str, columns: dict[int, int]
) -> None:
    matched = match_features(file, tuple(columns_of_data.split(",")))
    assert (matched.way, matched.columns) == (way, columns)


@pytest.mark.parametrize(
    ("file", "columns_of_data", "parts"),
    [
        (
            model_file([0, 1, 2], 3, names=("bm25", "ctr", "clicks")),
            "bm25,age",
            ("2 of the 3", "ctr, clicks"),
        ),
        (
            model_file([0, 4], 5, library="RankLib"),
            "1,2,3",
            ("1 of the 2", "numbers", 5),
        ),
        (
            model_file([0, 2], 7),
            "a,b,c,d",
            ("7 features", "a, b", "--features positions"),
        ),
        # Trained on an array with these columns, or on a LETOR file with one feature less.
        *(
            (
                model_file([1, 2], 3, names),
                "1,2,3",
                (
                    "feature 1",
                    "'2' or '1'",
                    "--features positions",
                    "--features numbers",
                ),
            )
            for names in ((), ("Column_0", "Column_1", "Column_2"))
        ),
    ],
)
def test_features_that_the_data_lack_or_that_are_ambiguous_are_named(
    file: ModelFile, columns_of_data: str, parts: tuple[object, ...]
) -> None:
    with pytest.raises(DataError, match=naming(*parts)):
        match_features(file, tuple(columns_of_data.split(",")))


# The folder


def test_a_loaded_ranker_has_the_same_scores_and_the_file_is_unchanged(
    data: RankingDataset, tmp_path: Path
) -> None:
    contents = {
        "model.txt": lightgbm_booster(data).model_to_string().encode(),
        "model.json": bytes(xgboost_booster(data).save_raw("json")),
        "model.ubj": bytes(xgboost_booster(data).save_raw("ubj")),
    }
    for name, content in contents.items():
        ranker, folder = (
            ranker_of(written(tmp_path / "given", content)),
            tmp_path / f"of {name}",
        )
        folder.mkdir()
        ranker.save(folder)
        assert (folder / name).read_bytes() == content
        loaded = load_ranker("ltrbench.rankers.imported.ImportedRanker", folder)
        np.testing.assert_array_equal(
            loaded.predict(data.features), ranker.predict(data.features)
        )
        assert loaded.trees() == ranker.trees()
