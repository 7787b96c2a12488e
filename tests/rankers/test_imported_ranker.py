"""Models of other libraries as rankers: the scores of the library, on the columns of the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from model_files import lightgbm_booster, model_file, stumps_as_json, with_missing, xgboost_booster

from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows
from ltrbench.data.synthetic import make_synthetic
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.rankers.capabilities import exact_trees_of
from ltrbench.rankers.imported import SETTINGS_FILE_OF_IMPORT, ImportedRanker
from ltrbench.rankers.imported.columns import match_features, used_features
from ltrbench.rankers.imported.scoring import flat_scores, flat_trees
from ltrbench.rankers.models.formats.reading import ModelFile, read_model_file
from ltrbench.rankers.models.loading import load_ranker
from ltrbench.rankers.models.scoring import ensemble_scores
from ltrbench.rankers.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree

NUM_FEATURES = 40  # of the synthetic set
VALUES = [-1.0, -1e-35, 0.0, 1e-36, 0.1, 0.5, np.nextafter(np.float32(0.5), np.float32(1)), 3.0, np.nan]


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_synthetic(num_queries=30, seed=5)


def written(path: Path, content: str | bytes) -> ModelFile:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_model_file(path)


def ranker_of(file: ModelFile, num_columns: int = NUM_FEATURES) -> ImportedRanker:
    """A ranker whose features are the columns of the same number."""
    return ImportedRanker.of(file, {each: each for each in used_features(file.model.trees)}, num_columns)


# The scores


@st.composite
def ensembles(draw: st.DrawFn) -> Ensemble:
    value = st.floats(-2, 2, width=32)

    def node(depth: int) -> Node:
        if depth == 0 or draw(st.booleans()):
            return Leaf(draw(value))
        threshold = draw(st.sampled_from(VALUES[:-1]) | value)
        children = {"left": node(depth - 1), "right": node(depth - 1)}
        feature, missing_left, zero_missing = (
            draw(st.integers(0, 2)),
            draw(st.booleans()),
            draw(st.booleans()),
        )
        return InnerNode(feature, float(threshold), missing_left, zero_missing=zero_missing, **children)

    trees = tuple(WeightedTree(draw(value), node(3)) for _ in range(draw(st.integers(0, 4))))
    return Ensemble(
        trees,
        base_score=draw(value),
        comparison=draw(st.sampled_from(["<=", "<"])),
        threshold_dtype=draw(st.sampled_from(["float32", "float64"])),
        score_dtype=draw(st.sampled_from(["float32", "float64"])),
    )


@given(ensemble=ensembles(), seed=st.integers(0, 2**32 - 1))
def test_the_compiled_scores_have_the_bits_of_the_reference(ensemble: Ensemble, seed: int) -> None:
    features = np.random.default_rng(seed).choice(np.array(VALUES, dtype=np.float32), (70, 3))
    scores = flat_scores(flat_trees(ensemble), features)
    np.testing.assert_array_equal(scores, ensemble_scores(ensemble, features))
    assert scores.dtype == ensemble.score_dtype


@pytest.mark.parametrize("parameters", [{}, {"zero_as_missing": True}, {"boosting": "dart"}], ids=str)
def test_scores_are_those_of_lightgbm(
    parameters: dict[str, Any], data: RankingDataset, tmp_path: Path
) -> None:
    features = with_missing(data.features, np.random.default_rng(0))
    booster = lightgbm_booster(data, features=features, **parameters)
    ranker = ranker_of(written(tmp_path / "model.txt", booster.model_to_string()))
    np.testing.assert_array_equal(ranker.predict(features), booster.predict(features))


@pytest.mark.parametrize("form", ["json", "ubj"])
@pytest.mark.parametrize(
    "parameters", [{}, {"booster": "dart", "rate_drop": 0.5}, {"base_score": 0.25}], ids=str
)
def test_scores_are_those_of_xgboost(
    parameters: dict[str, Any], form: str, data: RankingDataset, tmp_path: Path
) -> None:
    features = with_missing(data.features, np.random.default_rng(0))
    booster = xgboost_booster(data, features=features, **parameters)
    ranker = ranker_of(written(tmp_path / "model", bytes(booster.save_raw(form))))
    np.testing.assert_array_equal(ranker.predict(features), booster.inplace_predict(features))


def test_scores_do_not_depend_on_threads_batch_or_sparsity(data: RankingDataset, tmp_path: Path) -> None:
    ranker = ranker_of(written(tmp_path / "model", bytes(xgboost_booster(data).save_raw("ubj"))))
    features = np.asarray(data.features)
    scores = ranker.predict(features)
    row, column = np.nonzero(features)
    row_start = np.concatenate([[0], np.cumsum(np.count_nonzero(features, axis=1))])
    sparse: Any = SparseRows(row_start, column.astype(np.int32), features[row, column], NUM_FEATURES)
    one_by_one = [ranker.predict(features[d : d + 1])[0] for d in range(20)]
    single = replace(ranker, num_threads=1)
    single._held = ranker._held
    np.testing.assert_array_equal(single.predict(features), scores)
    np.testing.assert_array_equal(one_by_one, scores[:20])
    np.testing.assert_array_equal(ranker.predict(sparse), scores)
    assert ranker.predict(features[:0]).shape == (0,)


def test_its_trees_and_split_counts_are_on_the_columns_of_the_data() -> None:
    ranker = ImportedRanker.of(model_file([0, 2, 2], 3), {0: 4, 2: 1}, 5)
    assert used_features(exact_trees_of(ranker)) == [1, 4]
    assert ranker.importance()["split"].tolist() == [0, 2, 0, 0, 1]


def test_it_cannot_be_trained(data: RankingDataset) -> None:
    with pytest.raises(ConfigError, match=naming("imported", "cannot be trained", "model=lightgbm")):
        ImportedRanker().fit(data)


# The columns


def test_names_are_matched_whatever_their_order_and_blanks() -> None:
    file = model_file([0, 2], 3, names=("bm_25", "unused", "clicks"))
    matched = match_features(file, ("clicks", "age", "bm 25"))
    assert (matched.way, matched.columns) == ("names", {0: 2, 2: 0})
    assert "names" in matched.sentence


def test_names_that_the_data_lack_are_listed() -> None:
    file = model_file([0, 1, 2], 3, names=("bm25", "ctr", "clicks"))
    with pytest.raises(
        DataError, match=naming("2 of the 3", "ctr, clicks", "bm25, age", "--features positions")
    ):
        match_features(file, ("bm25", "age"))


def test_ranklibs_features_are_the_numbers_of_letor_files() -> None:
    file = model_file([0, 4], 5, library="RankLib")
    assert match_features(file, ("1", "2", "5")).columns == {0: 0, 4: 2}
    with pytest.raises(DataError, match=naming("1 of the 2", "numbers", "5")):
        match_features(file, ("1", "2", "3"))


def test_ranklibs_first_feature_is_the_first_column_of_a_table() -> None:
    file = model_file([0, 2], 3, library="RankLib")
    assert match_features(file, ("bm25", "age", "clicks", "ctr")).columns == {0: 0, 2: 2}


@pytest.mark.parametrize(
    "names", [(), ("Column_0", "Column_1", "Column_2"), ("f0", "f1", "f2"), ("0", "1", "2"), ("a", "b", "c")]
)
def test_as_many_features_without_names_in_common_are_matched_by_position(names: tuple[str, ...]) -> None:
    matched = match_features(model_file([0, 2], 3, names), ("1", "2", "3"))
    assert (matched.way, matched.columns) == ("positions", {0: 0, 2: 2})


def test_a_model_of_a_letor_file_read_from_index_0_is_matched_by_numbers() -> None:
    matched = match_features(model_file([1, 3], 4), ("1", "2", "3"))
    assert (matched.way, matched.columns) == ("numbers", {1: 0, 3: 2})


def test_another_number_of_features_without_names_is_refused_unless_the_way_is_given() -> None:
    file = model_file([0, 2], 7)
    with pytest.raises(DataError, match=naming("7 features", "a, b", "--features positions")):
        match_features(file, ("a", "b", "c", "d"))
    assert match_features(file, ("a", "b", "c", "d"), "positions").columns == {0: 0, 2: 2}


def test_names_cannot_be_forced_where_the_model_has_none_nor_an_unknown_way() -> None:
    with pytest.raises(ConfigError, match=naming("production.txt", "--features numbers")):
        match_features(model_file([0], 1), ("a",), "names")
    with pytest.raises(ConfigError, match=naming("ids", "positions")):
        match_features(model_file([0], 1), ("a",), "ids")


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
        ranker, folder = ranker_of(written(tmp_path / "given", content)), tmp_path / f"of {name}"
        folder.mkdir()
        ranker.save(folder)
        assert (folder / name).read_bytes() == content
        loaded = load_ranker("ltrbench.rankers.imported.ImportedRanker", folder)
        np.testing.assert_array_equal(loaded.predict(data.features), ranker.predict(data.features))
        assert exact_trees_of(loaded) == exact_trees_of(ranker)


def put(name: str, value: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / SETTINGS_FILE_OF_IMPORT
        path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))

    return change


def damage_model(folder: Path) -> None:
    path = folder / "model.json"
    path.write_text(path.read_text() + "\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (damage_model, ("model.json", "changed")),
        (put("file", "../model.json"), ("../model.json", "model.ubj")),
        (put("file", "model.ubj"), ("model.ubj",)),
        (put("digest", ""), ("model.json", "changed")),
        (put("num_columns", 3), ("imported.json", "columns", 4)),
        (put("num_columns", 10**15), ("num_columns", 10**15)),
        (put("columns", {"1": 0}), ("columns", "exactly the features")),
        (put("columns", {"1": 0, "4": 1, "7": 2}), ("columns", "exactly the features")),
        (put("columns", {"1": 0, "04": 1, "4": 2}), ("columns", "exactly the features")),
        (put("columns", {"1": -1, "4": 0}), ("columns", -1)),
        (put("columns", [0, 1]), ("columns", "dict")),
    ],
)
def test_a_changed_folder_is_refused(
    change: Callable[[Path], None], message: tuple[object, ...], tmp_path: Path
) -> None:
    file = written(tmp_path / "given", stumps_as_json([(1, 0.5), (4, 1.5)]))
    folder = tmp_path / "model"
    folder.mkdir()
    ranker_of(file, 5).save(folder)
    ImportedRanker.load(folder)
    change(folder)
    with pytest.raises(ResultError, match=naming(*message)) as refused:
        ImportedRanker.load(folder)
    assert "\n" not in str(refused.value)
