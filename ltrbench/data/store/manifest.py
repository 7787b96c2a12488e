"""manifest.json: what is in a store, the checksum of every array, and a checksum of the manifest itself."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import numpy as np

from ltrbench.data.store.arrays import REBUILD
from ltrbench.errors import DataError, ResultError
from ltrbench.untrusted.reading import MOST_JSON_BYTES, read_json
from ltrbench.untrusted.records import Count, Must, mistake

MANIFEST_FILE = "manifest.json"
STORE_FORMAT = 3
"""Version of the format; a reader refuses any other.

It also changes with the definition of a fingerprint, which the manifest holds: otherwise a run on an older
store would have other fingerprints than a run on the text from which the store was built, and no comparison
would take them for the same data. Format 3: fingerprints of more than 10,000 features hash segments of cells.
"""

ARRAY_DTYPES = {
    "features": "<f4",
    "row_start": "<i8",
    "columns": "<i4",
    "values": "<f4",
    "labels": "<f8",
    "query_start": "<i8",
    "query_ids": "bytes",
    "document_ids": "bytes",
    "weights": "<f8",
    "positions": "<i8",
    "file_rows": "<i8",
}
"""Name of an array -> its dtype; "bytes" stands for |S1, |S2, ..."""

DENSE_ARRAYS = ("features",)
SPARSE_ARRAYS = ("row_start", "columns", "values")
"""Arrays of dense and of sparse features; a store has either."""

REQUIRED_ARRAYS = ("labels", "query_start", "query_ids")

ABSENT = ("0", "-0", "nan")
"""Values of the cells that sparse features do not store."""

_BYTES = re.compile(r"\|S[1-9][0-9]{0,8}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PLACE = "manifest"

Positive = Annotated[Count, Must("1 or more", lambda number: number > 0)]
Absent = Annotated[str, Must(" or ".join(ABSENT), lambda text: text in ABSENT)]
NumValues = Annotated[int, Must("0 or more", lambda number: number >= 0)]
Sha256 = Annotated[str, Must("a SHA-256 checksum", lambda text: _DIGEST.fullmatch(text) is not None)]


class ArrayRecord(TypedDict):
    """One array of a shard; its shape follows from the counts."""

    dtype: str
    sha256: Sha256


class ShardRecord(TypedDict):
    """One shard."""

    documents: Positive
    queries: Positive
    values: NumValues  # number of stored values of sparse features; 0 for dense features
    arrays: Mapping[str, ArrayRecord]


class StoredFile(TypedDict):
    """A file from which a store was built."""

    path: str
    bytes: Annotated[int, Must("0 or more", lambda number: number >= 0)]
    sha256: Sha256


class Manifest(TypedDict):
    """The content of manifest.json."""

    format: Positive
    ltrbench: str  # version of the package that wrote the store
    num_features: Positive
    feature_names: Sequence[str]
    absent: Absent | None  # value of the cells that sparse features do not store; None: dense features
    documents: Positive
    queries: Positive
    fingerprint: str  # of the whole data set
    sources: Sequence[StoredFile]
    reading: Mapping[str, Any]  # options with which the sources were read
    shards: Sequence[ShardRecord]
    checksum: str  # of all other values of the manifest; see `checksum_of`


def is_store(path: Path) -> bool:
    """Returns whether a path is a folder with a manifest."""
    return (path / MANIFEST_FILE).is_file()


def shard_folder(store: Path, number: int) -> Path:
    """Returns the folder of a shard, numbered from 0."""
    return store / f"shard-{number:05d}"


def checksum_of(manifest: Mapping[str, Any]) -> str:
    """Returns the SHA-256 checksum of a manifest without its own checksum."""
    covered = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes manifest.json with its checksum.

    Raises:
        DataError: It would be too large to be read again.
    """
    manifest["checksum"] = checksum_of(manifest)
    text = json.dumps(manifest, indent=1, allow_nan=False) + "\n"
    if len(text) > MOST_JSON_BYTES:
        raise DataError(
            f"{folder / MANIFEST_FILE} would have {len(text):,} bytes; the maximum is {MOST_JSON_BYTES:,}. "
            "Shorten the feature names, or build larger shards with --shard-mb."
        )
    (folder / MANIFEST_FILE).write_text(text, encoding="ascii")


def read_manifest(store: Path) -> Manifest:
    """Reads and checks the manifest of a store.

    Raises:
        DataError: The folder is not a store, or its manifest is damaged or of a later version.
    """
    path = store / MANIFEST_FILE
    if not store.is_dir() or not path.exists():
        raise DataError(
            f"{store}: this is not a store, because {MANIFEST_FILE} is missing. Check the path, or build the "
            "store with `python -m ltrbench data build`."
        )
    try:
        manifest = read_json(path, REBUILD)
    except ResultError as error:
        raise DataError(str(error)) from None
    _check_format(path, manifest)
    wrong = mistake(manifest, Manifest, _PLACE) or _inconsistency(manifest) or _damage(manifest)
    if wrong is not None:
        raise DataError(f"{path}: {wrong}. {REBUILD}.")
    checked: Manifest = manifest
    return checked


def _check_format(path: Path, manifest: Any) -> None:
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if isinstance(version, int) and version != STORE_FORMAT:
        update = "Update ltrbench, or build" if version > STORE_FORMAT else "Build"
        raise DataError(
            f"{path}: the store has format {version}, but this version of ltrbench reads format "
            f"{STORE_FORMAT}. {update} the store again from its sources with `python -m ltrbench data build`."
        )


def feature_arrays(manifest: Manifest) -> tuple[str, ...]:
    """Returns the names of the arrays that contain the features."""
    return DENSE_ARRAYS if manifest["absent"] is None else SPARSE_ARRAYS


def bytes_of_features(manifest: Manifest) -> int:
    """Returns the size of the arrays that contain the features."""
    return sum(
        math.prod(shape_of(name, shard, manifest["num_features"])) * dtype_of(shard, name).itemsize
        for shard in manifest["shards"]
        for name in feature_arrays(manifest)
    )


def shape_of(name: str, shard: ShardRecord, num_features: int) -> tuple[int, ...]:
    """Returns the shape of an array of a shard."""
    if name == "features":
        return shard["documents"], num_features
    if name in ("columns", "values"):
        return (shard["values"],)
    if name == "row_start":
        return (shard["documents"] + 1,)
    if name == "query_start":
        return (shard["queries"] + 1,)
    return (shard["queries"] if name == "query_ids" else shard["documents"],)


def dtype_of(shard: ShardRecord, name: str) -> np.dtype[Any]:
    """Returns the dtype of an array of a shard."""
    return np.dtype(shard["arrays"][name]["dtype"])


def _inconsistency(manifest: Manifest) -> str | None:
    """Returns why the values of a manifest contradict each other; None if they do not."""
    names, shards = manifest["feature_names"], manifest["shards"]
    if len(names) != manifest["num_features"]:
        return f"feature_names has {len(names)} names, but num_features is {manifest['num_features']}"
    for count in ("documents", "queries"):
        total = sum(shard[count] for shard in shards)
        if total != manifest[count]:
            return f"{count} is {manifest[count]}, but the shards have {total}"
    return next((wrong for n in range(len(shards)) if (wrong := _wrong_shard(manifest, n))), None)


def _damage(manifest: Manifest) -> str | None:
    if manifest["checksum"] == (actual := checksum_of(manifest)):
        return None
    return f"checksum is {manifest['checksum'][:16]!r}, not {actual[:16]!r}: the file was changed"


def _wrong_shard(manifest: Manifest, number: int) -> str | None:
    shards = manifest["shards"]
    shard, place = shards[number], f"shards[{number}]"
    arrays = shard["arrays"]
    of_features = feature_arrays(manifest)
    for name in arrays:
        if name in {*DENSE_ARRAYS, *SPARSE_ARRAYS} - {*of_features}:
            return f"{place} has an array {name}, but absent is {manifest['absent']}"
    for name in (*of_features, *REQUIRED_ARRAYS):
        if name not in arrays:
            return f"{place} has no array {name}"
    if arrays.keys() != shards[0]["arrays"].keys():
        return f"{place} has the arrays {', '.join(arrays)}, but shards[0] has others"
    if shard["queries"] > shard["documents"]:
        return f"{place} has {shard['queries']} queries, but {shard['documents']} documents"
    for name, array in arrays.items():
        if name not in ARRAY_DTYPES:
            return f"{place} has an array {name!r}, which is none of {', '.join(ARRAY_DTYPES)}"
        expected = ARRAY_DTYPES[name]
        if not (_BYTES.fullmatch(array["dtype"]) if expected == "bytes" else array["dtype"] == expected):
            return f"{place}: the dtype of {name} is {array['dtype'][:20]!r}; {expected} was expected"
    return None
