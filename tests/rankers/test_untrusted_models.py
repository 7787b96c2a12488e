"""Changed models: native's forest is checked, and the digest of a model file is compared."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import make_synthetic
from ltrbench.errors import ConfigError, ResultError
from ltrbench.rankers.base import load_ranker
from ltrbench.rankers.library import write_model
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import MODEL_FILE, NativeRanker

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
    """Writes changed arrays, with their digest."""
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_model(folder, ranker, MODEL_FILE, content.getvalue())


def put(name: str, index: int, value: float) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name][index] = value

    return change


def features_of_int64(arrays: Arrays) -> None:
    arrays["feature"] = arrays["feature"].astype(np.int64)


def no_feature_names(arrays: Arrays) -> None:
    del arrays["feature_names"]


def into_another_tree(arrays: Arrays) -> None:
    arrays["left"][0] = arrays["roots"][1] + 1


def a_cycle(arrays: Arrays) -> None:
    below = arrays["left"][0]
    arrays["feature"][below] = 0
    arrays["left"][below] = arrays["right"][below] = 0


def the_same_child_twice(arrays: Arrays) -> None:
    arrays["left"][0] = arrays["right"][0]


VARIANTS: dict[str, tuple[Callable[[Arrays], None], tuple[object, ...]]] = {
    "a feature of -7": (put("feature", 0, -7), ("feature[0]", -7)),
    "a cycle": (a_cycle, ("left[1] is 0", "parent")),
    "a child in another tree": (into_another_tree, ("left[0]", "tree")),
    "one child of two": (the_same_child_twice, ("node[", "child")),
    "roots from 1": (put("roots", 0, 1), ("roots", "from 0")),
    "features of int64": (features_of_int64, ("feature", "int64")),
    "a threshold that is not a number": (
        put("threshold", 0, np.nan),
        ("threshold[0]", "nan"),
    ),
    "no feature names": (no_feature_names, ("'feature_names'", "missing")),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_forest_that_a_kernel_could_not_follow_is_refused(
    native: NativeRanker, saved: Path, variant: str
) -> None:
    change, parts = VARIANTS[variant]
    arrays = arrays_of(saved)
    change(arrays)
    tamper(saved, native, arrays)
    with pytest.raises(
        ResultError, match=naming(saved / MODEL_FILE, "fit again", *parts)
    ):
        NativeRanker.load(saved)


def test_an_unchanged_forest_with_infinite_thresholds_is_loaded(
    data: RankingDataset, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    # The labels depend only on missing values, so that the threshold is infinity, above all values.
    features = np.where(rng.random((data.num_documents, 2)) < 0.5, np.nan, 1.0).astype(
        np.float32
    )
    labels = np.isnan(features[:, 0]).astype(np.float64)
    by_absence = RankingDataset(
        features=features, labels=labels, query_start=data.query_start
    )
    ranker = NativeRanker(num_trees=3, num_leaves=4).fit(by_absence)
    ranker.save(tmp_path)
    assert np.isinf(arrays_of(tmp_path)["threshold"]).any()
    loaded = NativeRanker.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(features), ranker.predict(features))


@pytest.mark.parametrize(
    "target", ["ltrbench.rankers.Ranker", "ltrbench.rankers.base.BoostingRanker"]
)
def test_a_class_that_is_not_a_backend_is_not_loaded(
    target: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=naming(f"'{target}'", "Ranker")):
        load_ranker(target, tmp_path)


def test_a_model_file_that_was_copied_in_part_is_refused(
    data: RankingDataset, tmp_path: Path
) -> None:
    LightGBMRanker(num_trees=2).fit(data).save(tmp_path)
    model = tmp_path / "model.txt"
    model.write_bytes(model.read_bytes()[:-100])
    with pytest.raises(ResultError, match=naming(model, "differs", "fit again")):
        LightGBMRanker.load(tmp_path)
