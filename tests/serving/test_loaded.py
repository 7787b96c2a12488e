"""`ltrbench.load`: the scores of the run, features by name, and what is imported."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from messages import naming
from served_runs import NAMES, NamedFeatures, finished_run, native_run, small_model

import ltrbench
from ltrbench.data.features import SparseRows
from ltrbench.errors import ConfigError
from ltrbench.rankers import Ranker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.rankers.xgboost import XGBoostRanker

TEST = NamedFeatures().load().test


def frame_of(names: tuple[str, ...] = NAMES) -> pd.DataFrame:
    frame = pd.DataFrame(TEST.features, columns=list(NAMES))
    return frame[list(names)]


@pytest.mark.parametrize(
    "ranker",
    [
        NativeRanker(num_trees=3, num_leaves=4),
        RandomRanker(),
        SingleFeatureRanker(),
        pytest.param(
            LightGBMRanker(num_trees=3, num_leaves=4, num_threads=1),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            XGBoostRanker(num_trees=3, num_leaves=4, num_threads=1),
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
def test_a_loaded_model_gives_the_scores_of_its_run(
    ranker: Ranker, tmp_path: Path
) -> None:
    done = finished_run(tmp_path / "run", ranker)
    model = ltrbench.load(done.path)
    scores = done.scored("test").scores
    assert model.feature_names == NAMES
    np.testing.assert_array_equal(model.predict(TEST.features), scores)
    np.testing.assert_array_equal(model.predict(frame_of()), scores)
    np.testing.assert_array_equal(model.predict(SparseRows.of(TEST.features)), scores)


@pytest.mark.parametrize(
    "frame",
    [
        frame_of(),
        pa.table(dict(zip(NAMES, TEST.features.T, strict=True))),
        frame_of().astype("float64"),
        frame_of().astype("Float32"),  # of pandas, with NA
    ],
    ids=["pandas", "pyarrow", "float64", "nullable"],
)
def test_columns_of_any_frame_are_the_columns_of_the_array(frame: Any) -> None:
    np.testing.assert_array_equal(
        small_model().predict(frame), small_model().predict(TEST.features)
    )


def test_code_that_a_run_folder_names_is_not_imported(tmp_path: Path) -> None:
    folder = shutil.copytree(native_run().path, tmp_path / "run")
    result = json.loads((folder / "result.json").read_text())
    result["ranker"]["class"] = "hostile_module.Ranker"
    (folder / "result.json").write_text(json.dumps(result))
    (tmp_path / "hostile_module.py").write_text("raise SystemExit('imported')")
    with pytest.raises(
        ConfigError, match=naming("'hostile_module.Ranker'", "ltrbench")
    ):
        ltrbench.load(folder)


@pytest.mark.slow
def test_loading_a_native_model_imports_neither_mlflow_nor_hydra_nor_pandas() -> None:
    code = (
        "import sys, ltrbench, numpy as np\n"
        "model = ltrbench.load(sys.argv[1])\n"
        "model.predict(np.zeros((3, len(model.feature_names))))\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    command = [sys.executable, "-c", code, str(native_run().path)]
    imported = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.split()
    unwanted = {
        "mlflow",
        "hydra",
        "omegaconf",
        "pandas",
        "pyarrow",
        "starlette",
        "matplotlib",
        "lightgbm",
    }
    assert unwanted.isdisjoint(imported)
