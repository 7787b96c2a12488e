"""Models from an untrusted source: each is refused by name, or predicts like any other model."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import make_synthetic
from ltrbench.errors import ConfigError, ResultError
from ltrbench.native.forest import plant, reference_scores
from ltrbench.native.nodes import NO_FEATURE, Tree
from ltrbench.rankers import Ranker
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.library import write_model
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import MODEL_FILE, NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.saved import load_ranker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.rankers.xgboost import XGBoostRanker

Arrays = dict[str, NDArray[Any]]
NUM_FEATURES = 40  # of the synthetic set


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_synthetic(num_queries=40, seed=3)


@pytest.fixture(scope="module")
def native(data: RankingDataset) -> NativeRanker:
    return NativeRanker(num_trees=4, num_leaves=7).fit(data)


@pytest.fixture
def saved(native: NativeRanker, tmp_path: Path) -> Path:
    native.save(tmp_path)
    return tmp_path


def arrays_of(folder: Path) -> Arrays:
    with np.load(folder / MODEL_FILE) as stored:
        return {name: stored[name] for name in stored.files}


def tamper(folder: Path, ranker: NativeRanker, arrays: Arrays) -> None:
    """Writes changed arrays, with their own digest."""
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_model(folder, ranker, MODEL_FILE, content.getvalue())


def put(name: str, place: int, value: float) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name][place] = value

    return change


def make(name: str, how: Callable[[NDArray[Any]], Any]) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name] = how(arrays[name])

    return change


def drop(name: str) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        del arrays[name]

    return change


def into_another_tree(arrays: Arrays) -> None:
    arrays["left"][0] = arrays["roots"][1] + 1


def a_cycle(arrays: Arrays) -> None:
    below = arrays["left"][0]
    arrays["feature"][below] = 0
    arrays["left"][below] = arrays["right"][below] = 0


def huge_values(arrays: Arrays) -> None:
    arrays["value"][arrays["feature"] == NO_FEATURE] = 1.7e308
    arrays["weights"][:] = 1.0


def the_same_child_twice(arrays: Arrays) -> None:
    arrays["left"][0] = arrays["right"][0]


def a_leaf_that_leads_elsewhere(arrays: Arrays) -> None:
    leaf = np.flatnonzero(arrays["feature"] == NO_FEATURE)[0]
    arrays["right"][leaf] = leaf + 1


VARIANTS: dict[str, tuple[Callable[[Arrays], None], tuple[object, ...]]] = {
    "a feature of -7": (put("feature", 0, -7), ("feature[0]", -7)),
    "a feature of F": (put("feature", 0, NUM_FEATURES), ("feature[0]", f"{NUM_FEATURES} features")),
    "a cycle": (a_cycle, ("left[1] is 0", "parent")),
    "a child in another tree": (into_another_tree, ("left[0]", "tree")),
    "one child of two": (the_same_child_twice, ("node[", "child")),
    "a leaf that leads elsewhere": (a_leaf_that_leads_elsewhere, ("right[", "leaf")),
    "roots that fall": (make("roots", lambda roots: roots[[0, 2, 1, 3, 4]]), ("roots", "strictly")),
    "roots from 1": (put("roots", 0, 1), ("roots", "from 0")),
    "roots beyond the nodes": (put("roots", -1, 10**15), ("roots", "number of nodes")),
    "roots of fewer trees": (make("roots", lambda roots: roots[:-1]), ("roots", "length 4", "weights")),
    "no trees": (make("weights", lambda weights: weights[:0]), ("roots", "weights", 0)),
    "nodes too few": (make("value", lambda value: value[:-1]), ("value", "feature", "nodes")),
    "features of int64": (make("feature", lambda feature: feature.astype(np.int64)), ("feature", "int64")),
    "values of two dimensions": (make("value", lambda value: value[:, None]), ("value", "2 dimensions")),
    "a threshold that is not a number": (put("threshold", 0, np.nan), ("threshold[0]", "nan")),
    "a value that is not a number": (put("value", -1, np.nan), ("value[", "nan", "not finite")),
    "values whose sum is infinite": (huge_values, ("sum", "value", "not finite")),
    "an infinite weight": (put("weights", 0, -np.inf), ("weights[0]", "-inf")),
    "a gain that is not a number": (put("gain", 0, np.nan), ("gain[0]", "nan")),
    "a negative number of documents": (put("num_documents", -1, -1), ("num_documents[", -1, "negative")),
    "splits of no documents": (make("num_documents", np.zeros_like), ("num_documents[0]", "split")),
    "documents that do not add up": (put("num_documents", 0, 5), ("num_documents[0]", 5, "children")),
    "no feature names": (drop("feature_names"), ("'feature_names'", "missing")),
    "a name too few": (make("feature_names", lambda names: names[:1]), ("feature[", "1 features")),
    "equal names": (make("feature_names", lambda names: np.full(len(names), "a")), ("feature_names",)),
    "position factors of two lengths": (
        lambda arrays: arrays.update(position_bias_position=np.zeros(3), position_bias_bias=np.zeros(2)),
        ("position_bias_bias", "one float64 per position"),
    ),
    "a position factor that is not a number": (
        lambda arrays: arrays.update(
            position_bias_position=np.zeros(1), position_bias_bias=np.array([np.nan])
        ),
        ("position_bias_bias", "not finite"),
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_forest_that_a_kernel_could_not_follow_is_refused(
    native: NativeRanker, saved: Path, variant: str
) -> None:
    change, parts = VARIANTS[variant]
    arrays = arrays_of(saved)
    change(arrays)
    tamper(saved, native, arrays)
    with pytest.raises(ResultError, match=naming(saved / MODEL_FILE, "fit again", *parts)):
        NativeRanker.load(saved)


def test_an_unchanged_forest_with_infinite_thresholds_is_loaded(data: RankingDataset, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    # The labels depend only on missing values, so that the threshold is infinity, above all values.
    features = np.where(rng.random((data.num_documents, 2)) < 0.5, np.nan, 1.0).astype(np.float32)
    labels = np.isnan(features[:, 0]).astype(np.float64)
    by_absence = RankingDataset(features=features, labels=labels, query_start=data.query_start)
    ranker = NativeRanker(num_trees=3, num_leaves=4).fit(by_absence)
    ranker.save(tmp_path)
    assert np.isinf(arrays_of(tmp_path)["threshold"]).any()
    loaded = NativeRanker.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(features), ranker.predict(features))


def rewrite_member(folder: Path, ranker: NativeRanker, name: str, content: bytes, **options: Any) -> None:
    """Replaces the bytes of one array."""
    packed = io.BytesIO()
    with zipfile.ZipFile(folder / MODEL_FILE) as old, zipfile.ZipFile(packed, "w") as new:
        for member in old.namelist():
            new.writestr(member, content if member == f"{name}.npy" else old.read(member), **options)
    write_model(folder, ranker, MODEL_FILE, packed.getvalue())


def array_that_declares(shape: tuple[int, ...], values: bytes = b"", descr: str = "<f8") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (117 - len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values


def a_chain(depth: int, num_features: int) -> Tree:
    """Returns a tree in which each split has a leaf on the left and all further splits on the right."""
    num_nodes = 2 * depth + 1
    node, is_cut = np.arange(num_nodes, dtype=np.int32), np.arange(num_nodes) % 2 == 0
    is_cut[-1] = False
    return Tree(
        feature=np.where(is_cut, (node // 2) % num_features, NO_FEATURE).astype(np.int32),
        threshold=np.where(is_cut, -3.0, 0.0).astype(np.float32),
        left=np.where(is_cut, node + 1, node).astype(np.int32),
        right=np.where(is_cut, node + 2, node).astype(np.int32),
        missing_left=is_cut & (node % 4 == 0),
        gain=is_cut.astype(np.float64),
        value=np.where(is_cut, 0.0, node / num_nodes),
        num_documents=np.where(is_cut, (num_nodes - node) // 2 + 1, 1).astype(np.int64),
    )


def test_a_tree_of_any_depth_predicts_and_explains(
    data: RankingDataset, native: NativeRanker, saved: Path
) -> None:
    forest = plant([a_chain(3000, NUM_FEATURES)], [0.5])
    deep = replace(native)
    deep._forest, deep.feature_names = forest, native.feature_names
    deep.save(saved)
    loaded = NativeRanker.load(saved)
    rows = np.where(data.features[:20] > 1, np.nan, data.features[:20])
    scores = loaded.predict(rows)
    np.testing.assert_array_equal(scores, reference_scores(forest, rows))
    contributions = loaded.contributions(rows)
    assert contributions is not None
    np.testing.assert_allclose(contributions.sum(axis=1), scores)
    assert loaded.trees().trees[0].weight == 0.5


RANKERS = [
    NativeRanker(num_trees=2),
    LightGBMRanker(num_trees=2),
    CatBoostRanker(num_trees=2),
    RandomRanker(),
    SingleFeatureRanker(),
]
each_ranker = pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: type(ranker).__name__)


@pytest.fixture
def fitted(ranker: Ranker, data: RankingDataset, tmp_path: Path) -> tuple[type[Ranker], Path]:
    ranker.fit(data).save(tmp_path)
    return type(ranker), tmp_path


@each_ranker
def test_a_pipe_or_folder_in_place_of_a_file_is_refused_at_once(fitted: tuple[type[Ranker], Path]) -> None:
    kind, folder = fitted
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        file.unlink()
        os.mkfifo(file)
        with pytest.raises(ResultError, match=naming(file, "regular file")):
            kind.load(folder)
        file.unlink()
        file.mkdir()
        with pytest.raises(ResultError, match=naming(file, "regular file")):
            kind.load(folder)
        file.rmdir()
        file.write_bytes(content)
    kind.load(folder)


@each_ranker
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000 + "]" * 100_000, id="nested deep"),
        pytest.param("9" * 10_000, id="a number of 10,000 digits"),
        pytest.param("[]", id="a list"),
        pytest.param("{}", id="without fields"),
    ],
)
def test_json_that_is_no_saved_ranker_is_refused(fitted: tuple[type[Ranker], Path], text: str) -> None:
    kind, folder = fitted
    (file,) = folder.glob("*.json")
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ResultError, match=naming(file, "model folder")):
        kind.load(folder)


def field_paths(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(value, dict):
        return [path]
    return [path, *(below for name in value for below in field_paths(value[name], (*path, name)))]


@each_ranker
def test_a_field_of_another_type_is_refused(fitted: tuple[type[Ranker], Path]) -> None:
    kind, folder = fitted
    (file,) = folder.glob("*.json")
    whole = file.read_text()
    for path in field_paths(json.loads(whole))[1:]:
        content = json.loads(whole)
        place = content
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = {"not": ["of", "this", "type"]}
        if path[-1] == "extra":
            continue  # the library checks its names
        file.write_text(json.dumps(content))
        with pytest.raises(ResultError, match=file.name):
            kind.load(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [("feature", NUM_FEATURES), ("feature", -1), ("sign", 0.5), ("sign", float("nan")), ("metric", 10)],
)
def test_a_single_feature_out_of_range_is_refused(
    data: RankingDataset, tmp_path: Path, field: str, value: object
) -> None:
    SingleFeatureRanker().fit(data).save(tmp_path)
    file = tmp_path / "single_feature.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {field: value}))
    with pytest.raises(ResultError, match=naming(file, field, "model folder")):
        SingleFeatureRanker.load(tmp_path)


@pytest.mark.parametrize("target", ["ltrbench.rankers.Ranker", "ltrbench.rankers.base.BoostingRanker"])
def test_a_class_that_is_not_a_backend_is_not_loaded(target: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=naming(f"'{target}'", "ranker", "update")):
        load_ranker(target, tmp_path)


def test_position_factors_of_another_correction_are_not_continued(
    data: RankingDataset, tmp_path: Path
) -> None:
    clicked = replace(data, positions=data.ranks_of_rows)
    NativeRanker(num_trees=2, num_leaves=5, position_bias="additive").fit(clicked).save(tmp_path)
    other = NativeRanker(num_trees=4, num_leaves=5, position_bias="propensity", warm_start=str(tmp_path))
    parts = (tmp_path, "position, bias", "position_bias=propensity", "Set the position_bias")
    with pytest.raises(ConfigError, match=naming(*parts)):
        other.fit(clicked)


@pytest.mark.parametrize("extra", [{}, {"linear_tree": True}, {"boosting": "dart"}], ids=str)
@pytest.mark.parametrize("least", [20, 100_000])
def test_a_model_saved_by_lightgbm_is_loaded(
    data: RankingDataset, tmp_path: Path, extra: dict[str, Any], least: int
) -> None:
    ranker = LightGBMRanker(num_trees=3, min_docs_in_leaf=least, extra=extra).fit(data)
    ranker.save(tmp_path)
    scores = LightGBMRanker.load(tmp_path).predict(data.features)
    np.testing.assert_array_equal(scores, ranker.predict(data.features))


@pytest.mark.parametrize("kind", [LightGBMRanker, XGBoostRanker, CatBoostRanker])
def test_a_model_file_that_was_copied_in_part_is_refused(
    data: RankingDataset, tmp_path: Path, kind: type[LightGBMRanker | XGBoostRanker | CatBoostRanker]
) -> None:
    kind(num_trees=2).fit(data).save(tmp_path)
    (model,) = (path for path in tmp_path.iterdir() if path.name != "settings.json")
    model.write_bytes(model.read_bytes()[:-100])
    with pytest.raises(ResultError, match=naming(model, "differs", "fit again")):
        kind.load(tmp_path)
