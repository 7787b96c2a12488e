"""A damaged store is refused with a DataError that names the file and the remedy, whatever the damage.

Random damage is drawn with hypothesis. Checksums protect from accidents, not from intent: half of the
examples have checksums that match their damaged arrays.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from store_cases import dataset_with

from ltrbench.cli import main
from ltrbench.data.features import SparseRows
from ltrbench.data.store import MANIFEST_FILE, STORE_FORMAT, checksum_of, read_store
from ltrbench.data.store_writing import problems_of, write_store
from ltrbench.errors import DataError

HEADER = 128


def written(folder: Path, features: Any) -> Path:
    """A store of three shards with every optional array."""
    dataset = dataset_with(
        features=features,
        labels=[0, 1, 2, 0, 1, 0, 0, 1],
        query_start=[0, 3, 5, 8],
        query_ids=["a", "b", "é"],
        document_ids=list("ABCDEFGH"),
        document_weights=[1, 2, 1, 1, 1, 3, 1, 1],
        positions=[1, 2, 3, 1, 2, 1, 2, 3],
        file_rows=[7, 6, 5, 4, 3, 2, 1, 0],
    )
    write_store(folder, [dataset], shard_bytes=12)
    return folder


FEATURES = np.arange(24, dtype=np.float32).reshape(8, 3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("whole") / "store", FEATURES)


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("sparse") / "store", SparseRows.of(FEATURES % 5))


@pytest.fixture(scope="module", params=["whole", "sparse"])
def either(request: pytest.FixtureRequest) -> Path:
    store: Path = request.getfixturevalue(request.param)
    return store


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "store"))


def changed(store: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the manifest, with a true checksum, as someone who damages a store would."""
    manifest = json.loads((store / MANIFEST_FILE).read_text())
    change(manifest)
    if "checksum" in manifest and manifest["checksum"] != "":
        manifest["checksum"] = checksum_of(manifest)
    (store / MANIFEST_FILE).write_text(json.dumps(manifest))


def with_true_checksums(store: Path) -> None:
    """Sets each checksum of the manifest to that of its file."""

    def set_all(manifest: dict[str, Any]) -> None:
        for number, shard in enumerate(manifest["shards"]):
            for name, array in shard["arrays"].items():
                values = (store / f"shard-{number:05d}" / f"{name}.npy").read_bytes()[HEADER:]
                array["sha256"] = hashlib.sha256(values).hexdigest()

    changed(store, set_all)


# Any damage


def place_of(value: Any, lots: random.Random) -> tuple[Any, Any]:
    """A list or object within a JSON value, and one of its keys."""
    while True:
        key = lots.choice(list(value) if isinstance(value, dict) else range(len(value)))
        below = value[key]
        if not isinstance(below, dict | list) or not below or lots.random() < 0.2:
            return value, key
        value = below


# Each kind of damage, with its message


def set_value(store: Path, name: str, index: int, value: Any, shard: int = 0) -> Path:
    """Sets a value of an array, with a true checksum."""
    file = store / f"shard-{shard:05d}" / f"{name}.npy"
    array = np.load(file)
    array.reshape(-1)[index] = value
    file.write_bytes(file.read_bytes()[:HEADER] + array.tobytes())
    with_true_checksums(store)
    return file


@pytest.mark.parametrize(
    ("name", "index", "value", "parts"),
    [
        ("features", 4, np.inf, ["features.npy", "row 1, column 1", "inf"]),
        ("labels", 1, -1, ["labels[1]", "-1"]),
        ("labels", 1, np.nan, ["labels[1]", "nan"]),
        ("query_start", 0, 1, ["query_start.npy", "from 0 to 3"]),
        ("query_start", 1, 9, ["query_start.npy", "from 0 to 3"]),
        ("query_ids", 0, b"\xff\xfe", ["query_ids", "UTF-8"]),
        ("query_ids", 0, b"b", ["query_ids", "'b'"]),
        ("document_ids", 0, b"\xff", ["document_ids", "UTF-8"]),
        ("weights", 2, -1, ["document_weights[2]", "-1"]),
        ("positions", 2, -7, ["positions[2]", "-7"]),
        ("file_rows", 0, 3, ["file_rows", "0 to 7"]),
        ("file_rows", 0, -(2**63), ["file_rows", "0 to 7"]),
    ],
)
def test_a_value_that_no_data_set_has_is_refused(
    store: Path, name: str, index: int, value: Any, parts: list[str]
) -> None:
    set_value(store, name, index, value)
    with pytest.raises(DataError, match=naming(store, *parts)):
        read_store(store)


def test_a_manifest_that_was_edited_is_refused(store: Path) -> None:
    text = (store / MANIFEST_FILE).read_text()
    (fingerprint,) = re.findall(r'"fingerprint": "(\w+)"', text)
    (store / MANIFEST_FILE).write_text(text.replace(fingerprint, "0" * 32))
    with pytest.raises(DataError, match=naming(store / MANIFEST_FILE, "checksum", "changed", "data build")):
        read_store(store)


def test_the_fingerprint_of_a_store_is_that_of_its_format() -> None:
    """Stores keep the fingerprint: whoever changes its definition must also increase STORE_FORMAT."""
    dataset = dataset_with(features=FEATURES, labels=[0, 1, 2, 0, 1, 0, 0, 1], query_start=[0, 3, 5, 8])
    assert (STORE_FORMAT, dataset.fingerprint) == (3, "8d56f2f42f6c00e777ea78644d95d1ba")
    wide = dataset_with(
        features=np.eye(8, 20_000, dtype=np.float32), labels=dataset.labels, query_start=[0, 8]
    )
    assert (STORE_FORMAT, wide.fingerprint) == (3, "fdffec6cc61670df20fc37840226f3fd")


# data check


def test_check_lists_every_problem(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(store)]) == 0
    assert "no problems" in capsys.readouterr().out
    (store / "shard-00000" / "labels.npy").unlink()
    (store / "shard-00002" / "extra.npy").write_text("")
    file = store / "shard-00001" / "weights.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    assert main(["data", "check", str(store)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("- ") == 3
    assert all(name in err for name in ("labels.npy", "weights.npy", "extra.npy", "does not list", "Delete"))


def test_check_computes_the_fingerprint(store: Path) -> None:
    changed(store, lambda manifest: manifest.update(fingerprint="0" * 32))
    (problem,) = problems_of(store)
    assert all(part in problem for part in (MANIFEST_FILE, "fingerprint", "0" * 32, "again"))
    assert problems_of(store / "no") != []
