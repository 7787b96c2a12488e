"""One array of a store: a .npy file whose header and size follow from its dtype and its shape.

`np.load` reads these files. This module does not parse their headers: it compares them with the only valid
one, so that a damaged header cannot request memory or a wrong shape.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import mmap
import os
import re
import socket
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import (
    AnyFeatures,
    CheckedFeatures,
    FeatureMatrix,
    SparseRows,
    StackedRows,
    joined_rows,
    row_blocks,
    rows_in_order,
)
from ltrbench.errors import DataError, ResultError, did_you_mean
from ltrbench.measure import available_bytes, available_cores
from ltrbench.shapes import Features, QueryStart
from ltrbench.untrusted import MOST_JSON_BYTES, Count, Must, check_regular, read_json, validation_error

REBUILD = "Build the store again with `python -m ltrbench data build`, or copy it again"
"""Remedy for a damaged store."""

HEADER_BYTES = 128  # a multiple of 64, as numpy aligns the values
_MAGIC = b"\x93NUMPY\x01\x00"
_PART_BYTES = 1 << 20  # read at a time, so that memory does not contain the array


def write_array(path: Path, blocks: Iterable[NDArray[Any]], dtype: np.dtype[Any]) -> str:
    """Writes blocks of rows, at least one, one below the other, and returns the checksum of their values."""
    digest = hashlib.sha256()
    num_rows, of_row = 0, None
    with path.open("wb") as file:
        file.write(bytes(HEADER_BYTES))  # the header has the number of rows, which is known at the end
        for block in blocks:
            values = np.ascontiguousarray(block, dtype=dtype)
            num_rows, of_row = num_rows + len(values), values.shape[1:]
            content = values.view(np.uint8).data
            digest.update(content)
            file.write(content)
        if of_row is None:
            raise ValueError(f"{path}: there are no blocks")
        file.seek(0)
        file.write(_header(dtype, (num_rows, *of_row)))
    return digest.hexdigest()


def map_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Returns a read-only array of a file, whose values the system loads when they are used.

    Raises:
        DataError: The file does not contain an array of this dtype and shape.
    """
    _check_size(path, dtype, shape)
    try:
        with path.open("rb") as file:
            begin = file.read(HEADER_BYTES)
        if begin != _header(dtype, shape):
            raise DataError(
                f"{path}: the header is not that of an array of {dtype} of the shape {shape}, which the "
                f"manifest describes. {REBUILD}."
            )
        return np.asarray(np.memmap(path, dtype=dtype, mode="r", offset=HEADER_BYTES, shape=shape))
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def read_values(path: Path, values: NDArray[Any]) -> None:
    """Reads all values of a file into an array, faster than a copy of a mapped file.

    Raises:
        DataError: The file cannot be read, or has fewer values.
    """
    try:
        with path.open("rb") as file:
            file.seek(HEADER_BYTES)
            count = file.readinto(values.view(np.uint8).data)
    except OSError as error:
        raise unreadable(path, error) from None
    if count < values.nbytes:
        raise DataError(f"{path}: the file has become shorter since it was checked. {REBUILD}.")


def check_values(
    path: Path, checksum: str, check: Callable[[int, memoryview], None] = lambda _, part: None
) -> None:
    """Raises DataError if the values in a file do not have this checksum.

    Args:
        check: called with the parts of the values, each a whole number of values, and the place of the first
            byte of the part.
    """
    digest, place = hashlib.sha256(), 0
    try:
        # Read, not mapped: mapped pages would count as memory of this process.
        with path.open("rb") as file:
            file.seek(HEADER_BYTES)
            buffer = memoryview(bytearray(_PART_BYTES))
            while count := file.readinto(buffer):
                digest.update(buffer[:count])
                check(place, buffer[:count])
                place += count
    except OSError as error:
        raise unreadable(path, error) from None
    if digest.hexdigest() != checksum:
        raise DataError(
            f"{path}: the values have the checksum {digest.hexdigest()[:16]}..., but the manifest has "
            f"{checksum[:16]}...: the file is damaged. {REBUILD}."
        )


def unreadable(path: Path, error: OSError | ValueError) -> DataError:
    """Returns the error for a file that the system cannot read."""
    reason = getattr(error, "strerror", None) or str(error)
    return DataError(f"{path}: the file cannot be read ({reason}). {REBUILD}.")


def _check_size(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    expected = HEADER_BYTES + math.prod(shape) * dtype.itemsize
    try:
        size = check_regular(path, REBUILD)
    except ResultError as error:
        raise DataError(str(error)) from None
    if size != expected:
        raise DataError(
            f"{path}: the file has {size:,} bytes, but an array of {dtype} of the shape {shape} has "
            f"{expected:,}. {REBUILD}."
        )


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    length = HEADER_BYTES - len(_MAGIC) - 2
    return _MAGIC + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


# ---- manifest.json: what is in a store, the checksum of every array, and a checksum of the manifest
# itself.

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
    wrong = validation_error(manifest, Manifest, _PLACE) or _inconsistency(manifest) or _damage(manifest)
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
    required = {*feature_arrays(manifest), *REQUIRED_ARRAYS}
    allowed = required | (ARRAY_DTYPES.keys() - {*DENSE_ARRAYS, *SPARSE_ARRAYS})
    if not required <= arrays.keys() <= allowed or arrays.keys() != shards[0]["arrays"].keys():
        return f"{place} has the arrays {list(arrays)}, which are not those of a shard of this store"
    if shard["queries"] > shard["documents"]:
        return f"{place} has {shard['queries']} queries, but {shard['documents']} documents"
    for name, array in arrays.items():
        expected = ARRAY_DTYPES[name]
        if not (_BYTES.fullmatch(array["dtype"]) if expected == "bytes" else array["dtype"] == expected):
            return f"{place}: the dtype of {name} is {array['dtype'][:20]!r}; {expected} was expected"
    return None


# ---- Ids as UTF-8 bytes of a fixed width, a quarter of the size of NumPy's text.

BYTES_PER_CHARACTER = 4
"""Of NumPy's text."""

_ASCII = 128


def encoded(name: str, ids: NDArray[np.str_]) -> NDArray[np.bytes_]:
    """Returns the (n,) ids as bytes, n at least 1.

    Raises:
        DataError: An id has a character that is not valid text.

    >>> encoded("query_ids", np.array(["7", "zwölf"])).tolist()
    [b'7', b'zw\\xc3\\xb6lf']
    """
    width = max(int(np.char.str_len(ids).max()), 1)
    codes = _codes(ids.astype(f"U{width}"), np.uint32)
    if (codes < _ASCII).all():
        narrow: NDArray[np.bytes_] = codes.astype(np.uint8).view(f"S{width}").reshape(-1)
        return narrow
    try:
        return np.char.encode(ids, "utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"{name}: {error.object!r} contains a character that is not valid text. Rename it."
        ) from None


def decoded(name: str, ids: NDArray[Any]) -> NDArray[np.str_]:
    """Returns the (n,) ids as text.

    Raises:
        DataError: An id is not UTF-8.

    >>> decoded("query_ids", encoded("query_ids", np.array(["7", "zwölf"]))).tolist()
    ['7', 'zwölf']
    """
    codes = _codes(ids, np.uint8)
    if (codes < _ASCII).all():
        wide: NDArray[np.str_] = codes.astype(np.uint32).view(f"U{ids.dtype.itemsize}").reshape(-1)
        return wide
    try:
        return np.char.decode(ids, "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: the id {bytes(error.object)!r} is not UTF-8.") from None


def _codes(ids: NDArray[Any], unit: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    """Returns the (n, width) characters or bytes of ids."""
    return np.ascontiguousarray(ids).view(unit).reshape(len(ids), -1)


# ---- StoredRows: the features of one shard, read from its file by blocks.
#
# Blocks are read, not mapped: mapped pages count as memory of the process until the system needs them, and
# a mapped file that another process cuts off would kill this process. Single rows are gathered from a map,
# whose pages are given back afterwards.
#
# Pickled rows are a reference: the path, the shape, and the checksum that the manifest has. A process that
# opens the reference, perhaps on another machine, compares the size of the file and the checksum in the
# manifest there; it does not read the values.


class StoredRows(FeatureMatrix):
    """Features of a file, (n, F).

    The file stays open, so that the rows can be read even if the store is deleted meanwhile.

    Args:
        checksum: the checksum of the values in the manifest; None: the rows belong to no store.

    Raises:
        DataError: The file does not contain a float32 array of this shape.
    """

    def __init__(self, path: Path, shape: tuple[int, int], checksum: str | None = None) -> None:
        self.path = path
        self._shape, self._checksum = shape, checksum
        self._mapped = map_array(path, self.dtype, shape)
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise unreadable(path, error) from None
        weakref.finalize(self, os.close, self._file)

    def __reduce__(self) -> tuple[Any, ...]:
        # The process that opens the reference may have another current folder.
        return _opened, (self.path.absolute(), self._shape, self._checksum)

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    def rows(self, start: int, stop: int) -> Features:
        block = np.empty((stop - start, self._shape[1]), dtype=self.dtype)
        left, place = block.reshape(-1).view(np.uint8).data, HEADER_BYTES + start * self._bytes_of_row
        while left:
            try:
                count = os.preadv(self._file, [left], place)
            except OSError as error:
                raise unreadable(self.path, error) from None
            if count == 0:
                raise DataError(f"{self.path}: the file has become shorter since it was opened. {REBUILD}.")
            left, place = left[count:], place + count
        return block

    def gather(self, rows: NDArray[np.int64]) -> Features:
        gathered: Features = self._mapped.take(rows, axis=0)
        base = self._mapped.base
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, mmap.mmap):
            base.madvise(mmap.MADV_DONTNEED)
        return gathered

    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yields nothing: no array of the features is in memory."""
        return iter(())

    @property
    def _bytes_of_row(self) -> int:
        return self._shape[1] * self.dtype.itemsize


def _opened(path: Path, shape: tuple[int, int], checksum: str | None) -> StoredRows:
    """Opens pickled rows.

    Raises:
        DataError: The file is missing or differs from the pickled one.
    """
    try:
        if checksum is not None:
            _check_manifest(path, checksum)
        return StoredRows(path, shape, checksum)
    except DataError as error:
        raise DataError(
            f"host {socket.gethostname()}: the store of the features cannot be used here: {error} The folder "
            f"{path.parent.parent} must be visible under the same path, with the same content, on every "
            "worker."
        ) from None


def _check_manifest(path: Path, checksum: str) -> None:
    """Raises DataError if the manifest of the store does not have the checksum for the features of a file."""
    store = path.parent.parent
    manifest = store / MANIFEST_FILE
    modified = manifest.stat().st_mtime_ns if manifest.is_file() else 0
    here = _checksums(store, modified).get(path.parent)
    if here != checksum:
        listed = "no such features" if here is None else f"{here[:16]}..."
        raise DataError(
            f"{path}: the checksum of the features was {checksum[:16]}..., but {manifest} has {listed}: "
            "the store was built again, or is another one."
        )


@functools.lru_cache(maxsize=16)
def _checksums(store: Path, modified: int) -> dict[Path, str]:
    """Returns folder of a shard -> checksum of its features; a store has many shards and one manifest.

    Args:
        modified: time of the last change of the manifest, which makes a later version another entry.
    """
    records = read_manifest(store)["shards"]
    return {
        shard_folder(store, number): record["arrays"]["features"]["sha256"]
        for number, record in enumerate(records)
        if "features" in record["arrays"]
    }


# ---- Reads stores into a RankingDataset: dense features stay on the disk, other arrays are read into
# memory.


class StoreMemoryError(DataError):
    """What a store needs in memory does not fit."""


@dataclass(frozen=True)
class Shard:
    """One shard of a store."""

    store: Path
    folder: Path
    record: ShardRecord
    num_features: int
    absent: float | None  # value of the cells that are not stored; None: the features are dense

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def array(self, name: str) -> NDArray[Any]:
        """Returns an array of the shard, memory-mapped; its values are not checked."""
        shape = shape_of(name, self.record, self.num_features)
        return map_array(self.path(name), dtype_of(self.record, name), shape)

    def check(self, name: str) -> None:
        """Raises DataError if an array does not have the values that the manifest describes, or if features
        are infinite."""
        self.array(name)
        checksum = self.record["arrays"][name]["sha256"]
        if name in ("features", "values"):
            check_values(self.path(name), checksum, partial(self._check_finite, name))
        else:
            check_values(self.path(name), checksum)

    def _check_finite(self, name: str, place: int, part: memoryview) -> None:
        infinite = np.flatnonzero(np.isinf(np.frombuffer(part, ARRAY_DTYPES[name])))
        if infinite.size:
            number = place // 4 + int(infinite[0])
            row, column = divmod(number, self.num_features)
            where = f"row {row}, column {column}" if name == "features" else f"value {number}"
            raise DataError(
                f"{self.path(name)}: {where} is infinite (inf); features must be finite or NaN. {REBUILD}."
            )

    def features(self) -> StoredRows | SparseRows:
        """Returns the features of the shard, which stay on the disk.

        Raises:
            DataError: The arrays of sparse features do not form rows.
        """
        if self.absent is None:
            shape = self.record["documents"], self.num_features
            return StoredRows(self.path("features"), shape, self.record["arrays"]["features"]["sha256"])
        return self.sparse_rows([self.array(name) for name in SPARSE_ARRAYS], self.absent)

    def sparse_rows(self, arrays: Sequence[NDArray[Any]], absent: float) -> SparseRows:
        """Returns the features of the shard, given the values of SPARSE_ARRAYS.

        Raises:
            DataError: They do not form rows.
        """
        row_start, columns, values = arrays
        try:
            return SparseRows(row_start, columns, values, self.num_features, absent)
        except DataError as error:
            raise DataError(f"{self.folder}: {error} {REBUILD}.") from None


def read_store(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    whole_labels: bool = False,
) -> RankingDataset:
    """Reads a store; dense features stay on the disk and are loaded when they are used.

    Args:
        path: the folder of the store, or of several stores that form one split.
        num_features: required number of features; None: any number.
        feature_names: features of the training data; the store must have exactly these, in any order. Names
            that are numbers, as in LETOR text, are not compared.
        whole_labels: reject labels that are not whole numbers.

    Raises:
        DataError: A folder is not a store, is damaged, or does not have these features; the other arrays do
            not fit into memory.
    """
    stores = [Path(path)] if isinstance(path, (str, Path)) else [Path(store) for store in path]
    manifests = [read_manifest(store) for store in stores]
    _check_alike(stores, manifests)
    names = tuple(manifests[0]["feature_names"])
    if num_features is not None and num_features != len(names):
        raise DataError(
            f"{stores[0]}: the store has {len(names)} features, but {num_features} were expected. Build it "
            f"with the features of the training data, for LETOR text with --read num_features={num_features}."
        )
    columns = None if feature_names is None else _columns(names, tuple(feature_names), stores[0])
    shards = [shard for pair in zip(stores, manifests, strict=True) for shard in shards_of(*pair)]
    _check_values(shards)
    _check_memory(shards, columns)
    dataset = dataset_of(shards, names, columns, in_memory=True)
    if len(stores) == 1 and columns is None:
        # Computed when the store was written, from the arrays with these checksums. `data check` computes it
        # again.
        vars(dataset)["fingerprint"] = manifests[0]["fingerprint"]
    if whole_labels:
        _check_whole(dataset, stores[0])
    return dataset


def read_store_features(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    feature_names: Sequence[str] | None = None,
) -> Features:
    """Reads the (D, F) features of a store in the order of the file from which it was built.

    The options are those of `read_store`.

    Returns:
        A matrix that is read by blocks, or SparseRows if the store has sparse features.

    Raises:
        DataError: as `read_store`.
    """
    dataset = read_store(path, num_features, feature_names=feature_names)
    if dataset.file_rows is None:
        return dataset.features
    rows = dataset.to_file_order(np.arange(dataset.num_documents))
    return cast(Features, rows_in_order(dataset.features, rows))


def shards_of(store: Path, manifest: Manifest) -> list[Shard]:
    """Returns the shards of a store, in order."""
    absent = None if manifest["absent"] is None else float(manifest["absent"])
    return [
        Shard(store, shard_folder(store, number), record, manifest["num_features"], absent)
        for number, record in enumerate(manifest["shards"])
    ]


def dataset_of(
    shards: Sequence[Shard],
    feature_names: Sequence[str],
    columns: Sequence[int] | None = None,
    *,
    in_memory: bool = False,
) -> RankingDataset:
    """Returns the documents of shards as one data set.

    The caller has compared the arrays with their checksums, which also finds infinite features.

    Args:
        columns: features to copy into memory, in this order; None: all, in the order of the store.
        in_memory: whether to read sparse features into memory, as backends need them.

    Raises:
        DataError: An array is missing or has another size, or a value is invalid.
    """
    where = _places(shards)
    parts: dict[str, Any] = {
        "features": CheckedFeatures(_features(shards, columns, in_memory)),
        "labels": _joined(shards, "labels"),
        "query_start": _query_start(shards),
        "query_ids": _ids(shards, "query_ids", where),
        "document_ids": _ids(shards, "document_ids", where),
        "document_weights": _joined(shards, "weights"),
        "positions": _joined(shards, "positions"),
        "file_rows": _file_rows(shards),
    }
    names = feature_names if columns is None else [feature_names[column] for column in columns]
    try:
        return RankingDataset(feature_names=tuple(names), **parts)
    except DataError as error:
        raise DataError(f"{where}: {error} {REBUILD}.") from None


def _joined(shards: Sequence[Shard], name: str) -> NDArray[Any] | None:
    if name not in shards[0].record["arrays"]:
        return None
    if ARRAY_DTYPES[name] == "bytes":  # of the width of the longest id of each shard
        return np.concatenate([shard.array(name) for shard in shards])
    return _read_together(shards, name)[0]


def _read_together(shards: Sequence[Shard], name: str) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Returns the values of an array of all shards in memory, and the views that belong to each shard."""
    sizes = [shape_of(name, shard.record, shard.num_features)[0] for shard in shards]
    values = np.empty(sum(sizes), dtype=ARRAY_DTYPES[name])
    views = np.split(values, np.cumsum(sizes)[:-1])
    for shard, view in zip(shards, views, strict=True):
        read_values(shard.path(name), view)
    return values, views


def _ids(shards: Sequence[Shard], name: str, where: str) -> NDArray[np.str_] | None:
    values = _joined(shards, name)
    return None if values is None else decoded(f"{where}: {name}", values)


def _features(shards: Sequence[Shard], columns: Sequence[int] | None, in_memory: bool) -> AnyFeatures:
    absent = shards[0].absent
    if in_memory and absent is not None:
        sparse = _sparse_in_memory(shards, absent)
        return sparse if columns is None else SparseRows.from_scipy(sparse.to_scipy()[:, columns], absent)
    parts: list[AnyFeatures] = [shard.features() for shard in shards]
    if columns is not None:
        parts = [np.concatenate([block[:, columns] for _, block in row_blocks(part)]) for part in parts]
    return parts[0] if len(parts) == 1 else StackedRows(parts)


def _sparse_in_memory(shards: Sequence[Shard], absent: float) -> SparseRows:
    arrays = {name: _read_together(shards, name) for name in SPARSE_ARRAYS}
    views = zip(*(arrays[name][1] for name in SPARSE_ARRAYS), strict=True)
    parts = [shard.sparse_rows(of_shard, absent) for shard, of_shard in zip(shards, views, strict=True)]
    return joined_rows(parts, arrays["columns"][0], arrays["values"][0])


def _query_start(shards: Sequence[Shard]) -> QueryStart:
    parts, first = [], 0
    for shard in shards:
        start, num_documents = shard.array("query_start"), shard.record["documents"]
        # Compared, not subtracted: the difference of two damaged values may exceed int64.
        if start[0] != 0 or start[-1] != num_documents or not (start[1:] > start[:-1]).all():
            raise DataError(
                f"{shard.path('query_start')}: the values do not ascend from 0 to {num_documents}, the "
                f"number of documents of the shard. {REBUILD}."
            )
        parts.append(start[:-1] + first)
        first += num_documents
    return np.concatenate([*parts, [first]])


def _file_rows(shards: Sequence[Shard]) -> NDArray[np.int64] | None:
    """Returns the row of each document in its source; the sources of several stores follow each other."""
    if not any("file_rows" in shard.record["arrays"] for shard in shards):
        return None
    rows = np.concatenate([_rows_within_store(shard) for shard in shards])
    first, next_first = 0, 0
    for number, shard in enumerate(shards):
        if number and shard.store != shards[number - 1].store:
            first = next_first
        part = slice(next_first, next_first + shard.record["documents"])
        # A shard without the array has the order of its source.
        rows[part] += first if "file_rows" in shard.record["arrays"] else next_first
        next_first = part.stop
    return rows


def _rows_within_store(shard: Shard) -> NDArray[np.int64]:
    if "file_rows" not in shard.record["arrays"]:
        return np.arange(shard.record["documents"])
    return shard.array("file_rows")


def _check_values(shards: Sequence[Shard]) -> None:
    """Compares all arrays with their checksums, in threads, because hashing takes most of the time."""
    with ThreadPoolExecutor(max_workers=available_cores()) as threads:
        checks = [threads.submit(shard.check, name) for shard in shards for name in shard.record["arrays"]]
        for check in checks:
            check.result()


def _check_memory(shards: Sequence[Shard], columns: Sequence[int] | None) -> None:
    """Raises DataError if the arrays that are read into memory would not fit."""
    num_documents = sum(shard.record["documents"] for shard in shards)
    ids = sum(_bytes_of_ids(shards, name) for name in ("query_ids", "document_ids"))
    if shards[0].absent is not None:
        num_values = sum(shard.record["values"] for shard in shards)
        stored = (1 if columns is None else 2) * 8 * (num_values + num_documents)
    else:
        stored = 0 if columns is None else 4 * num_documents * len(columns)
    needed, available = ids + stored, available_bytes()
    if needed <= available:
        return
    if ids > stored:
        remedy = "Shorten the ids, because all of them take the space of the longest"
    elif columns is not None:
        remedy = "Build the store with the columns in the order of the training data"
    else:
        remedy = "Use a machine or a container with more memory, or build a store of fewer queries"
    raise StoreMemoryError(
        f"{_places(shards)}: the ids need {ids / 1e9:.1f} GB of memory and the features "
        f"{stored / 1e9:.1f} GB, but only {available / 1e9:.1f} GB are available. {remedy}."
    )


def _bytes_of_ids(shards: Sequence[Shard], name: str) -> int:
    """Returns the memory of ids, as bytes and as text."""
    if name not in shards[0].record["arrays"]:
        return 0
    count = sum(shape_of(name, shard.record, 1)[0] for shard in shards)
    width = max(dtype_of(shard.record, name).itemsize for shard in shards)
    return count * width * (1 + BYTES_PER_CHARACTER)


def _places(shards: Sequence[Shard]) -> str:
    return ", ".join(dict.fromkeys(str(shard.store) for shard in shards))


def _check_alike(stores: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    """Raises DataError if stores of one split have other features or arrays."""
    first = manifests[0]
    for store, manifest in zip(stores, manifests, strict=True):
        if manifest["absent"] != first["absent"]:
            raise DataError(
                f"{store}: the features are {_kind(manifest)}, but those of {stores[0]} are {_kind(first)}; "
                "the stores of one split must have the same. Build one of them again with the options of the "
                "other one."
            )
        if list(manifest["feature_names"]) != list(first["feature_names"]):
            raise DataError(
                f"{store}: the features differ from those of {stores[0]}; the stores of one split must have "
                "the same features in the same order."
            )
        odd = manifest["shards"][0]["arrays"].keys() ^ first["shards"][0]["arrays"].keys()
        if odd - {"file_rows"}:
            raise DataError(
                f"{store}: the array {min(odd - {'file_rows'})} is not in both this store and {stores[0]}; "
                "the stores of one split must have the same arrays."
            )


def _kind(manifest: Manifest) -> str:
    return "dense" if manifest["absent"] is None else f"sparse with absent={manifest['absent']}"


def _check_whole(dataset: RankingDataset, store: Path) -> None:
    """Raises DataError if a label is not a whole number."""
    if not dataset.has_whole_labels:
        row = int(np.flatnonzero(dataset.labels != np.floor(dataset.labels))[0])
        query = str(dataset.query_ids[dataset.query_of_document[row]])
        raise DataError(
            f"{store}: the label of document {row}, in query {query!r}, is {dataset.labels[row]:g}. The "
            "default gain 2^label - 1 needs whole numbers; set whole_labels=false (in a run "
            "data.whole_labels=false) to read other labels."
        )


def _columns(names: tuple[str, ...], wanted: tuple[str, ...], store: Path) -> list[int] | None:
    """Returns the columns that have the wanted names; None if the order is the same."""
    if names == wanted or _are_numbers(names) or _are_numbers(wanted):
        return None
    column_of = {name: column for column, name in enumerate(names)}
    missing = [name for name in wanted if name not in column_of]
    if missing:
        raise DataError(
            f"{store}: the store has no feature '{missing[0]}'{did_you_mean(missing[0], names)} The training "
            "data has it; build the store from a source that has it too."
        )
    more = [name for name in names if name not in set(wanted)]
    if more:
        raise DataError(
            f"{store}: the feature '{more[0]}' is not in the training data; build the store from a source "
            "without it."
        )
    return [column_of[name] for name in wanted]


def _are_numbers(names: Sequence[str]) -> bool:
    """Returns whether names are the default ones of LETOR text: consecutive numbers from 0 or 1."""
    return names[0] in ("0", "1") and all(
        name == str(number) for number, name in enumerate(names, start=int(names[0]))
    )
