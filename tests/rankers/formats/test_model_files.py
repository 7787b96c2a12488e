"""The format of a model file is detected from its content, and everything else is refused by name."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from messages import naming
from model_files import lightgbm_booster, ranklib_model, xgboost_booster

from ltrbench.data.synthetic import make_synthetic
from ltrbench.errors import ResultError
from ltrbench.models.files import is_model_file, read_model_file


def archive() -> bytes:
    content = io.BytesIO()
    np.savez(content, weights=np.zeros(3))
    return content.getvalue()


OTHERS = {
    "pickle": pickle.dumps({"model": 1.0}),
    "archive": archive(),
    "CatBoost": b"CBM1\x00\x00\x00\x10",
    "dump": b'[\n  {"nodeid": 0, "leaf": 0.5}\n]',
    "ONNX": b"\x08\x08\x12\x08skl2onnx\x1a\x061.16.0",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_kinds_of_model_files_are_refused_with_what_is_supported(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(OTHERS[kind])
    assert is_model_file(path)
    with pytest.raises(
        ResultError, match=naming(path, kind.split()[0], "XGBoost", "RankLib")
    ):
        read_model_file(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"0.5\n0.25\n", "unknown"),
        (b"tree of life\n", "unknown"),
        (b"\xff\xfe", "unknown"),
    ],
)
def test_files_that_are_no_models_are_refused(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(content)
    assert not is_model_file(path)
    with pytest.raises(ResultError, match=naming(path, message, "save_model")):
        read_model_file(path)


def test_every_supported_format_is_detected_from_its_content(tmp_path: Path) -> None:
    data = make_synthetic(num_queries=10, seed=1)
    path = tmp_path / "model"
    booster = xgboost_booster(data)
    contents = {
        ("LightGBM", ".txt"): lightgbm_booster(data).model_to_string().encode(),
        ("RankLib", ".txt"): ranklib_model(
            [(number, 0.5) for number in range(1, 9)]
        ).encode(),
        ("XGBoost", ".json"): bytes(booster.save_raw("json")),
        ("XGBoost", ".ubj"): bytes(booster.save_raw("ubj")),
    }
    for (library, ending), content in contents.items():
        path.write_bytes(content)
        assert is_model_file(path)
        file = read_model_file(path)
        assert (file.library, file.ending, file.content) == (library, ending, content)
        assert len(file.model.trees.trees) == 8
