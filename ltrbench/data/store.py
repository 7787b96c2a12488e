"""Stores: data sets as folders of arrays, which are opened instead of parsed, and a cache of parsed files.

    STORE/manifest.json              what is in the store, with the checksum of every array
    STORE/shard-00000/features.npy   arrays of the documents of some queries, which `numpy.load` reads

Dense features stay on the disk and are read by blocks; all other arrays are read into memory.

manifest  `Manifest` and its parts
arrays    `ArrayFile`: one .npy file; `StoredRows`: the features of a shard, as a matrix
reading   `read_store`, `check_store`
writing   `write_store`
cache     `read_cached`: the store of each file that was read, found by the content of the file
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import logging
import math
import mmap
import os
import reprlib
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from ltrbench.data.blocks import as_paths, decoded
from ltrbench.data.dataset import (
    FRACTIONS_REMEDY,
    RankingDataset,
    joined,
    numbered,
)
from ltrbench.data.features import (
    AnyFeatures,
    CheckedFeatures,
    FeatureMatrix,
    SparseRows,
    StackedRows,
    csr_of,
    in_float32,
    is_sparse,
    merged_in_words,
    release,
    require_memory,
    row_blocks,
    rows_in_order,
)
from ltrbench.errors import DataError
from ltrbench.folders import DISK_REMEDIES, flush
from ltrbench.measure import available_cores
from ltrbench.shapes import Features

MANIFEST_FILE = "manifest.json"
STORE_FORMAT = 1
"""Version of the format; a reader refuses any other.

It also changes with the definition of a fingerprint, which the manifest holds: otherwise a run on a store
would have other fingerprints than a run on the text from which the store was built, and no comparison would
take them for the same data.
"""

KEPT = "kept-"
"""Prefix of the arrays of kept columns, with the number in `Manifest.kept`."""

REQUIRED_ARRAYS = ("labels", "query_start", "query_ids")

OPTIONS_OF_VALUES = ("first_index", "absent", "overflow", "nulls", "missing")
"""Reading options that decide the values of features, so that all data of a run need the same."""

_REBUILD = (
    "Build the store again with `python -m ltrbench data build`, or copy it again"
)


class StoreError(DataError):
    """Folder that is not a store, or a store that is damaged or of another version."""


def _damaged(path: Path, reason: object) -> StoreError:
    return StoreError(
        f"{path}: the store is damaged, or of another version ({reason}). {_REBUILD}."
    )


# ---- manifest.json

Positive = Annotated[int, Field(ge=1)]


class ArrayRecord(BaseModel):
    """One array of a shard; its shape follows from the counts."""

    dtype: str
    sha256: str


class ShardRecord(BaseModel):
    """One shard."""

    documents: Positive
    queries: Positive
    values: int  # number of stored values of sparse features; 0 for dense features
    arrays: dict[str, ArrayRecord]


class StoredFile(BaseModel):
    """A file from which a store was built."""

    path: str
    bytes: int
    sha256: str


class Manifest(BaseModel):
    """The content of manifest.json."""

    format: Annotated[int, Field(ge=STORE_FORMAT, le=STORE_FORMAT)] = STORE_FORMAT
    ltrbench: str  # version of the package that wrote the store
    num_features: Positive
    feature_names: list[str]
    categories: dict[str, list[str]] = {}
    kept: list[str] = []  # names of the kept columns
    dates: dict[str, str] = {}  # feature of dates -> its first day
    encoded: dict[str, list[str]] = {}  # one-hot encoded column -> its categories
    merged: list[str] = []  # features whose different values became equal in float32
    # Value of the cells that are not stored; None: dense features.
    absent: Literal["0", "-0", "nan"] | None
    documents: Positive
    queries: Positive
    fingerprint: str  # of the whole data set
    sources: list[StoredFile]
    # Options with which the sources were read; a null of `absent` is NaN, as in the result of a run.
    reading: dict[str, Any]
    # Whether the sources have no query ids, so that the reader numbered the queries.
    numbered: bool = False
    shards: list[ShardRecord]

    @property
    def feature_arrays(self) -> tuple[str, ...]:
        """Names of the arrays that contain the features."""
        if self.absent is None:
            return ("features",)
        return ("row_start", "columns", "values")


def is_store(path: Path) -> bool:
    """Returns whether a path is a folder with a manifest."""
    return (path / MANIFEST_FILE).is_file()


def read_manifest(store: Path) -> Manifest:
    """Reads and checks the manifest of a store.

    Raises:
        StoreError: The folder is not a store, or its manifest is damaged or of another version.
    """
    path = store / MANIFEST_FILE
    if not path.is_file():
        raise StoreError(
            f"{store} is not a store: it has no {MANIFEST_FILE}. Check it, or run `data build`."
        )
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(map(str, wrong["loc"]))
        raise _damaged(
            path, f"{key} is {reprlib.repr(wrong['input'])}: {wrong['msg']}"
        ) from None


# ---- Arrays of a shard: .npy files, whose header and size follow from dtype and shape.

HEADER_BYTES = 128  # a multiple of 64, as numpy aligns the values
_MAGIC = b"\x93NUMPY\x01\x00"


@dataclass(frozen=True)
class ArrayFile:
    """One array of a store."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    sha256: str = ""  # checksum of the values

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def header(self) -> bytes:
        text = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': {self.shape}, }}".encode()
        length = HEADER_BYTES - len(_MAGIC) - 2
        padded = text.ljust(length - 1) + b"\n"
        return _MAGIC + length.to_bytes(2, "little") + padded

    def write(self, blocks: Iterable[NDArray[Any]]) -> ArrayRecord:
        """Writes blocks of rows, one below the other."""
        digest = hashlib.sha256()
        with self.path.open("wb") as file:
            file.write(self.header)
            for block in blocks:
                rows = np.ascontiguousarray(block, dtype=self.dtype)
                content = rows.view(np.uint8).data
                digest.update(content)
                file.write(content)
        return ArrayRecord(dtype=self.dtype.str, sha256=digest.hexdigest())

    def check(self) -> None:
        """Raises StoreError if the file does not have this header, this size and this checksum."""
        try:
            # Read, not mapped: mapped pages would count as memory of this process.
            with self.path.open("rb") as file:
                header = file.read(HEADER_BYTES)
                digest = hashlib.file_digest(file, "sha256")
                size = file.tell()
        except OSError as error:
            raise _damaged(self.path, error.strerror) from None
        if header != self.header or size != HEADER_BYTES + self.num_bytes:
            raise _damaged(
                self.path,
                f"it is not an array of {self.dtype} of the shape {self.shape}",
            )
        if digest.hexdigest() != self.sha256:
            raise _damaged(
                self.path, "its values do not have the checksum of the manifest"
            )

    def read(self) -> NDArray[Any]:
        """Returns the values of a one-dimensional array."""
        return np.fromfile(self.path, self.dtype, offset=HEADER_BYTES)


def encoded(ids: NDArray[np.str_]) -> NDArray[np.bytes_]:
    """Returns the (n,) ids as UTF-8 bytes of a fixed width, a quarter of the size of NumPy's text.

    >>> encoded(np.array(["7", "zwölf"])).tolist()
    [b'7', b'zw\\xc3\\xb6lf']
    """
    width = max(int(np.char.str_len(ids).max()), 1)
    try:
        return ids.astype(f"S{width}")  # ASCII only, in a tenth of the time
    except UnicodeEncodeError:
        return np.char.encode(ids, "utf-8")


class StoredRows(FeatureMatrix):
    """Features of a shard, (n, F), in a file that is mapped into memory.

    `row_blocks` releases the memory of each block after its use. The file stays open, so that the rows can be
    read even if the store is deleted meanwhile.

    Pickled rows are a reference: another process, perhaps on another machine, opens the same path, and
    compares the checksum in the manifest there.
    """

    def __init__(self, file: ArrayFile) -> None:
        self.file = file
        with file.path.open("rb") as opened:
            pages = mmap.mmap(
                opened.fileno(), HEADER_BYTES + file.num_bytes, access=mmap.ACCESS_READ
            )
        self._mapped: Features = np.ndarray(file.shape, file.dtype, pages, HEADER_BYTES)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.file.path.absolute(), self.file.sha256)

    @property
    def shape(self) -> tuple[int, int]:
        return cast(tuple[int, int], self.file.shape)

    def rows(self, start: int, stop: int) -> Features:
        return self._mapped[start:stop]

    def gather(self, rows: NDArray[np.int64]) -> Features:
        gathered: Features = self._mapped.take(rows, axis=0)
        release(self)
        return gathered

    def arrays(self) -> Iterator[NDArray[Any]]:
        yield self._mapped


def _opened(path: Path, checksum: str) -> StoredRows:
    """Opens pickled rows.

    Raises:
        StoreError: The store is missing here, or is another one.
    """
    store = path.parent.parent
    try:
        for shard in shards_of(store, read_manifest(store)):
            if (shard["features"].path, shard["features"].sha256) == (path, checksum):
                return StoredRows(shard["features"])
        raise StoreError(
            f"{path} does not have the checksum {checksum[:16]}...; it was built again."
        )
    except (StoreError, OSError) as error:
        raise StoreError(
            f"host {socket.gethostname()}: the store of the features cannot be used here: {error} The folder "
            f"{store} must be visible under the same path, with the same content, on every worker."
        ) from None


# ---- Reads stores into a RankingDataset.


Shard = dict[str, ArrayFile]
"""The arrays of a shard by name."""


def shards_of(store: Path, manifest: Manifest) -> list[Shard]:
    """Returns the shards of a store, in order."""
    shards = []
    for number, record in enumerate(manifest.shards):
        folder = _shard_folder(store, number)
        documents = record.documents
        shapes: dict[str, tuple[int, ...]] = {
            "features": (documents, manifest.num_features),
            "row_start": (documents + 1,),
            "columns": (record.values,),
            "values": (record.values,),
            "query_start": (record.queries + 1,),
            "query_ids": (record.queries,),
        }
        shard = {}
        for name, array in record.arrays.items():
            shape = shapes.get(name, (documents,))
            path = folder / f"{name}.npy"
            dtype = np.dtype(array.dtype)
            shard[name] = ArrayFile(path, dtype, shape, array.sha256)
        shards.append(shard)
    return shards


def _shard_folder(store: Path, number: int) -> Path:
    return store / f"shard-{number:05d}"


def read_store(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    dates: Mapping[str, str] | None = None,
    reading: Mapping[str, Any] | None = None,
    whole_labels: bool = False,
    exact: bool = False,
) -> RankingDataset:
    """Reads a store; dense features stay on the disk and are loaded when they are used.

    Args:
        path: the folder of the store, or of several stores that form one split.
        num_features: required number of features; None: any number.
        feature_names: features of the training data; the store must have exactly these, in any order. Names
            that are numbers, as in LETOR text, are not compared.
        categories: categorical features of the training data; the store must have the same codes.
        dates: features of dates of the training data; the store must have the same first days.
        reading: options with which the training data were read; those that decide the values of features
            must be the same, as far as both are known.
        whole_labels: reject labels that are not whole numbers.
        exact: whether the data set is for a model that compares in float64. A store has float32 only.

    Raises:
        DataError: A folder is not a store, is damaged, or does not have these features; the other arrays do
            not fit into memory; or with `exact`, different values of a feature are equal in the store.
    """
    stores = as_paths(path)
    manifests = [read_manifest(store) for store in stores]
    _check_alike(stores, manifests)
    names = manifests[0].feature_names
    if num_features is not None and num_features != len(names):
        raise DataError(
            f"{stores[0]}: the store has {len(names)} features, but {num_features} were expected. Build it "
            f"with the features of the training data, for LETOR text with --read num_features={num_features}."
        )
    columns = None
    if feature_names is not None:
        columns = _columns(names, feature_names, stores[0])
    _check_as_in_training(stores[0], manifests[0], categories, dates)
    if reading is not None:
        of_training = json_options(reading)
        check_reading(stores[0], manifests[0], of_training, "the training data")
    shards = [shards_of(*pair) for pair in zip(stores, manifests, strict=True)]
    _check_arrays(stores[0], itertools.chain.from_iterable(shards))
    parts = [_dataset_of(of_store, manifests[0], columns) for of_store in shards]
    if len(parts) > 1 and all(manifest.numbered for manifest in manifests):
        parts = _numbered_on(parts)
    try:
        dataset = joined(parts)
    except DataError as error:  # such as a query id that two stores have
        raise DataError(f"{', '.join(map(str, stores))}: {error}") from None
    if dataset.merged:
        _report_merged(stores[0], manifests[0], dataset.merged, exact)
    if len(stores) == 1 and columns is None:
        # Computed when the store was written, from the arrays with these checksums. `check_store` computes it
        # again.
        vars(dataset)["fingerprint"] = manifests[0].fingerprint
    if whole_labels:
        _check_whole_labels(stores[0], dataset)
    return dataset


def _numbered_on(parts: Sequence[RankingDataset]) -> list[RankingDataset]:
    """Returns the parts of a split with consecutive numbers as query ids, as their reader gives them."""
    first = 1
    numbered_on = []
    for part in parts:
        ids = np.array(numbered(part.num_queries, first))
        numbered_on.append(part.with_fields(query_ids=ids))
        first += part.num_queries
    return numbered_on


def _check_whole_labels(store: Path, dataset: RankingDataset) -> None:
    """Raises DataError if a label is not a whole number."""
    if dataset.has_whole_labels:
        return
    is_whole = dataset.labels == np.floor(dataset.labels)
    row = int(np.argmin(is_whole))
    raise DataError(
        f"{store}: the label of document {row} is {dataset.labels[row]:g}; the gain 2^label - 1 "
        f"needs whole numbers. {FRACTIONS_REMEDY}"
    )


def _check_as_in_training(
    store: Path,
    manifest: Manifest,
    categories: Mapping[str, Sequence[str]] | None,
    dates: Mapping[str, str] | None,
) -> None:
    """Raises DataError if a store has other codes of categories, or other first days, than the training data.

    Args:
        categories, dates: as in `read_store`.
    """
    known = manifest.categories
    expected = known
    if categories is not None:
        expected = {name: list(each) for name, each in categories.items()}
    for name in {**known, **expected}:
        if known.get(name) != expected.get(name):
            raise DataError(
                f"{store}: the categories of '{name}' are not those of the training data. Build the store "
                "again with --read 'categories={...}' of manifest.json in the training store, or "
                "in Python with write_store(PATH, read_table(FILE, categories=train.categories))."
            )
    if dates is None:
        return
    first_days = dict(dates)
    if first_days != manifest.dates:
        raise DataError(
            f"{store}: its features of dates are counted from {manifest.dates}, those of the "
            f"training data from {first_days}. Build the store again with "
            f"--read 'dates={json.dumps(first_days)}'."
        )


def check_reading(
    store: Path, manifest: Manifest, other: Mapping[str, Any], owner: str
) -> None:
    """Raises DataError if the source of a store was read with other options of values than other data.

    Args:
        other: options of the other data.
        owner: the other data in words.
    """
    for name in OPTIONS_OF_VALUES:
        if name not in other or name not in manifest.reading:
            continue
        given = manifest.reading[name]
        if given != other[name]:
            needed = option_text(name, other[name])
            raise DataError(
                f"{store} was read with {option_text(name, given)}, but {owner} with {needed}. Build the "
                f"store again with --read {shlex.quote(needed)}."
            )


def option_text(name: str, value: Any) -> str:
    """Returns a reading option of a manifest as it is given to `--read`.

    >>> option_text("absent", None), option_text("missing", ["-1"]), option_text("label", "grade")
    ('absent=nan', 'missing=["-1"]', 'label=grade')
    """
    if value is None and name == "absent":
        return f"{name}=nan"
    if isinstance(value, str):
        return f"{name}={value}"
    return f"{name}={json.dumps(value)}"


def json_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns reading options as a manifest has them: NaN, which JSON does not have, becomes null."""
    text = json.dumps(options, default=str)
    as_json: dict[str, Any] = json.loads(text, parse_constant=lambda _: None)
    return as_json


def _check_arrays(store: Path, shards: Iterable[Shard]) -> None:
    """Raises DataError if an array is damaged, or if those that must be in memory do not fit into it."""
    files = list(itertools.chain.from_iterable(shard.values() for shard in shards))
    # Hashing takes most of the time of reading.
    with ThreadPoolExecutor(available_cores()) as threads:
        list(threads.map(ArrayFile.check, files))
    num_bytes = 0
    for file in files:
        if len(file.shape) > 1:
            continue  # dense features stay on the disk
        num_copies = 1
        if file.dtype.kind == "S":
            num_copies = 5  # ids are bytes and then text
        num_bytes += num_copies * file.num_bytes
    require_memory(
        f"{store}: the ids and the features that must be in memory",
        num_bytes,
        "Use shorter ids, or fewer queries.",
    )


def _report_merged(
    store: Path, manifest: Manifest, merged: Sequence[str], exact: bool
) -> None:
    """Logs the features whose different values are equal in the store; with `exact`, raises DataError."""
    words = merged_in_words(str(store), dict.fromkeys(merged, None))
    if not exact:
        log.warning(words)
        return
    built_from = ", ".join(source.path for source in manifest.sources[:2])
    raise DataError(
        f"{words} The model compares float64, and would score them alike: score "
        f"{built_from or 'the data from which the store was built'} instead."
    )


def read_store_features(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    **options: Any,
) -> Features:
    """Reads the (D, F) features of a store in the order of the file from which it was built.

    Args:
        options: options of `read_store`, by name.

    Returns:
        A matrix that is read by blocks, or SparseRows if the store has sparse features.

    Raises:
        DataError: as `read_store`.
    """
    dataset = read_store(path, num_features, **options)
    if dataset.file_rows is None:
        return dataset.features
    rows = dataset.to_file_order(np.arange(dataset.num_documents))
    return cast(Features, rows_in_order(dataset.features, rows))


def check_store(store: Path) -> None:
    """Raises StoreError if the manifest, an array or the fingerprint of a store is wrong."""
    dataset = read_store(store)
    expected = read_manifest(store).fingerprint
    del vars(dataset)["fingerprint"]  # that of the manifest
    if dataset.fingerprint != expected:
        raise _damaged(
            store / MANIFEST_FILE,
            f"the fingerprint of the arrays is {dataset.fingerprint}",
        )


def _dataset_of(
    shards: Sequence[Shard], manifest: Manifest, columns: Sequence[int] | None
) -> RankingDataset:
    """Returns the documents of a store, whose arrays have been checked, as a data set.

    Args:
        columns: features to copy into memory, in this order; None: all, in the order of the store.
    """
    names = manifest.feature_names
    features: AnyFeatures
    if manifest.absent is None:
        features = StackedRows([StoredRows(shard["features"]) for shard in shards])
        if columns is not None:
            features = features[:, columns]
    else:
        absent = float(manifest.absent)
        stored: Any = {name: _joined(shards, name) for name in ("columns", "values")}
        starts = _joined_starts(shards, "row_start")
        features = SparseRows(starts, **stored, num_features=len(names), absent=absent)
        if columns is not None:
            features = SparseRows.from_scipy(features.to_scipy()[:, columns], absent)
    if columns is not None:
        names = [names[column] for column in columns]
    arrays: dict[str, Any] = {}
    for name in ("labels", "query_ids", "document_ids", "positions", "file_rows"):
        arrays[name] = _joined(shards, name)
    kept: dict[str, Any] = {}
    for number, name in enumerate(manifest.kept):
        kept[name] = _joined(shards, f"{KEPT}{number}")
    categories: dict[str, Any] = {**manifest.categories}
    return RankingDataset(
        features=cast(Features, CheckedFeatures(features)),
        feature_names=tuple(names),
        query_start=_joined_starts(shards, "query_start"),
        document_weights=_joined(shards, "weights"),
        kept=kept,
        categories=categories,
        merged=tuple(manifest.merged),
        dates=manifest.dates,
        encoded={name: tuple(each) for name, each in manifest.encoded.items()},
        **arrays,
    )


def _joined(shards: Sequence[Shard], name: str) -> NDArray[Any] | None:
    """Returns an array of all shards in memory, bytes as text; None if they do not have it."""
    if name not in shards[0]:
        return None
    values = np.concatenate([shard[name].read() for shard in shards])
    if values.dtype.kind == "S":
        return decoded(values)
    return values


def _joined_starts(shards: Sequence[Shard], name: str) -> NDArray[np.int64]:
    """Returns the positions of the starts of consecutive parts, and their common end, counted from 0."""
    sizes = [np.diff(shard[name].read()) for shard in shards]
    return np.concatenate([[0], np.cumsum(np.concatenate(sizes))])


def _check_alike(stores: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    """Raises DataError if stores of one split were read differently, or have other features or arrays."""
    for store, manifest in zip(stores, manifests, strict=True):
        check_reading(store, manifest, manifests[0].reading, str(stores[0]))
    alike = {"absent", "feature_names", "categories", "dates", "encoded", "kept"}
    layouts = []
    for manifest in manifests:
        arrays = manifest.shards[0].arrays.keys() - {"file_rows"}
        layouts.append((manifest.model_dump(include=alike), arrays))
    for store, layout in zip(stores, layouts, strict=True):
        if layout != layouts[0]:
            raise DataError(
                f"{store}: the features or arrays are not those of {stores[0]}; build one of them again."
            )


def _columns(
    names: Sequence[str], wanted: Sequence[str], store: Path
) -> list[int] | None:
    """Returns the columns that have the wanted names; None if the order is the same."""
    are_numbers = all(map(str.isdecimal, names)) or all(map(str.isdecimal, wanted))
    if are_numbers or list(names) == list(wanted):
        return None
    if odd := sorted(set(names) ^ set(wanted)):
        listed = ", ".join(map(repr, odd[:3]))
        raise DataError(
            f"{store}: the store or the training data have no feature {listed}. Run "
            "`data build` on a source with the features of the training data."
        )
    return [names.index(name) for name in wanted]


# ---- Writes a store, in memory for a block of features and the ids of one shard.

SHARD_BYTES = 256 * 10**6
"""Default size of the features of a shard."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The files from which a data set was read, and how.

    Attributes:
        sources: the files.
        reading: options with which they were read; with these, `predict` reads another file for a model that
            was trained on the store, and a store that was read with other ones is refused beside this one.
        is_numbered: whether the files have no query ids, so that the reader numbered the queries.
    """

    sources: Sequence[StoredFile] = ()
    reading: Mapping[str, Any] = field(default_factory=dict)
    is_numbered: bool = False


UNKNOWN = Provenance()


class StoreExistsError(DataError):
    """The folder of a new store already contains something."""


def write_store(
    folder: str | Path,
    dataset: RankingDataset,
    *,
    shard_bytes: int = SHARD_BYTES,
    provenance: Provenance = UNKNOWN,
) -> Manifest:
    """Writes a store, completely or not at all.

    Args:
        folder: the new folder; it does not exist, or is empty.
        shard_bytes: size of the stored features of a shard; a query is never divided.
        provenance: the files from which the data set was read, and how.

    Raises:
        StoreExistsError: The folder already contains something.
        DataError: The folder cannot be written.
    """
    folder = Path(folder)
    check_new(folder)
    if dataset.features.dtype != np.float32:
        rounded: Any = CheckedFeatures(in_float32(dataset.features))
        dataset = dataset.with_fields(features=rounded)
    sparse = csr_of(dataset.features)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=".building-", dir=folder.parent
        ) as building:
            staging = Path(building, folder.name)
            staging.mkdir()
            shards = list(_write_shards(staging, dataset, sparse, shard_bytes))
            manifest = _manifest_of(dataset, shards, provenance)
            text = json.dumps(manifest.model_dump(), indent=1, allow_nan=False) + "\n"
            (staging / MANIFEST_FILE).write_text(text, encoding="ascii")
            flush(staging)
            check_new(folder)
            staging.rename(folder)  # replaces an empty folder, and no other
    except OSError as error:
        remedy = DISK_REMEDIES.get(
            error.errno or 0, "Check its path and its permissions"
        )
        raise DataError(
            f"{folder}: the store cannot be written ({error.strerror}). {remedy}, or choose another folder."
        ) from error
    return manifest


def _manifest_of(
    dataset: RankingDataset, shards: list[ShardRecord], provenance: Provenance
) -> Manifest:
    """Returns the manifest of a data set whose shards are written."""
    sparse = csr_of(dataset.features)
    absent: Any = None
    if sparse is not None:
        absent = f"{sparse.absent:g}"
    return Manifest(
        # Not imported: the package imports all of its parts on first use.
        ltrbench=str(vars(sys.modules["ltrbench"])["__version__"]),
        num_features=dataset.num_features,
        feature_names=list(dataset.feature_names),
        categories={name: list(each) for name, each in dataset.categories.items()},
        kept=list(dataset.kept),
        merged=list(dataset.merged),
        dates=dict(dataset.dates),
        encoded={name: list(each) for name, each in dataset.encoded.items()},
        absent=absent,
        documents=dataset.num_documents,
        queries=dataset.num_queries,
        fingerprint=dataset.fingerprint,
        sources=list(provenance.sources),
        reading=json_options(provenance.reading),
        numbered=provenance.is_numbered,
        shards=shards,
    )


def stored_file(path: Path) -> StoredFile:
    """Returns the name, the size and the checksum of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        num_bytes = file.tell()
    return StoredFile(path=str(path), bytes=num_bytes, sha256=digest.hexdigest())


def check_new(folder: Path) -> None:
    """Raises StoreExistsError if a folder is a file, or contains something."""
    is_filled = folder.is_dir() and any(folder.iterdir())
    if folder.is_symlink() or folder.is_file() or is_filled:
        raise StoreExistsError(
            f"{folder} already exists; delete it, or choose another folder with --output."
        )


def _write_shards(
    store: Path, dataset: RankingDataset, sparse: SparseRows | None, shard_bytes: int
) -> Iterator[ShardRecord]:
    """Writes shards of as many queries as fit into them, at least one."""
    query_start = dataset.query_start
    if sparse is None:
        size_before = query_start * dataset.num_features * 4
    else:  # a value and its column take 8 bytes, and so does the start of a row
        size_before = (sparse.row_start[query_start] + query_start) * 8
    begin = number = 0
    while begin < dataset.num_queries:
        limit = size_before[begin] + shard_bytes
        end = int(np.searchsorted(size_before, limit, side="right")) - 1
        end = max(end, begin + 1)
        first, last = query_start[[begin, end]].tolist()
        part = dataset.take_queries(np.arange(begin, end))
        shard = _shard_folder(store, number)
        shard.mkdir()
        records: dict[str, ArrayRecord] = {}
        stored = csr_of(part.features)
        num_values = 0
        if stored is None:
            blocks = (block for _, block in row_blocks(part.features))
            path = shard / "features.npy"
            file = ArrayFile(path, part.features.dtype, part.features.shape)
            records["features"] = file.write(blocks)
        else:
            num_values = len(stored.values)
        file_rows = None
        if dataset.file_rows is not None:
            file_rows = dataset.file_rows[first:last]
        for name, array in _arrays_of(part, stored, file_rows).items():
            values = encoded(array) if array.dtype.kind == "U" else array
            file = ArrayFile(shard / f"{name}.npy", values.dtype, values.shape)
            records[name] = file.write([values])
        yield ShardRecord(
            documents=last - first,
            queries=end - begin,
            values=num_values,
            arrays=records,
        )
        begin = end
        number = number + 1


def _arrays_of(
    part: RankingDataset, stored: SparseRows | None, file_rows: NDArray[Any] | None
) -> dict[str, NDArray[Any]]:
    """Returns name -> array of a shard, in the order in which they are written, without dense features."""
    arrays: dict[str, NDArray[Any] | None] = {}
    for name in ("row_start", "columns", "values"):
        arrays[name] = getattr(stored, name, None)
    for name in ("query_start", "labels", "query_ids", "document_ids"):
        arrays[name] = getattr(part, name)
    if part.query_weights is not None:
        # A reader makes query weights of document weights that are constant within each query.
        arrays["weights"] = part.weight_of_document
    arrays["positions"] = part.positions
    for number, values in enumerate(part.kept.values()):
        arrays[f"{KEPT}{number}"] = values
    arrays["file_rows"] = file_rows
    return {name: array for name, array in arrays.items() if array is not None}


# ---- A cache of parsed files: the store of each file that was read, found by the content of the file.
#
# The key of an entry covers the content of its files, the reading options, and the code of the readers. An
# entry is complete or absent: it is built in another folder, which is then renamed. A damaged entry is
# deleted and built again from the files. Delete the folder, or entries in it, at any time.

log = logging.getLogger("ltrbench")

AUTO = "auto"
NONE = "none"
"""Values of `data.cache` that are not a folder."""

CACHE_VARIABLE = "LTRBENCH_CACHE"
"""Environment variable with the folder of the cache."""

AUTO_BYTES = 50 * 10**6
"""Size of the files of a split from which `auto` caches them; smaller files are parsed in a second or two."""

_CODE = (
    "blocks.py",
    "dataset.py",
    "features.py",
    "letor.py",
    "letor_kernels.py",
    "store.py",
    "tables.py",
)
"""Files whose code determines the content of an entry."""


def cache_folder(setting: str | None, files: Mapping[str, Path]) -> Path | None:
    """Returns the folder of the cache for the files of a split; None: the files are not cached.

    Args:
        setting: `data.cache`: none, auto, or a folder.
        files: role -> file.
    """
    if setting is None or setting == NONE:
        return None
    if setting != AUTO:
        return Path(setting).expanduser()
    if sum(file.stat().st_size for file in files.values()) < AUTO_BYTES:
        return None
    of_user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "ltrbench")
    return Path(os.environ.get(CACHE_VARIABLE) or of_user).expanduser()


def read_cached(
    folder: Path,
    files: Mapping[str, Path],
    options: Mapping[str, Any],
    read: Callable[[], RankingDataset],
) -> RankingDataset:
    """Returns the data set of files from the cache, or reads them and adds them to the cache.

    Args:
        folder: folder of the cache.
        files: role -> regular file; all files that `read` reads.
        options: reading options, which are part of the key; without paths.
        read: reads the files.

    Raises:
        DataError: as `read`; the cache cannot be written.
    """
    records = {role: stored_file(file) for role, file in files.items()}
    contents = {role: record.sha256 for role, record in records.items()}
    key = json.dumps([contents, options, _code()], sort_keys=True, default=str)
    entry = folder / hashlib.sha256(key.encode()).hexdigest()
    dataset = _entry(entry)
    if dataset is not None:
        return dataset
    dataset = read()
    try:
        provenance = Provenance(sources=[*records.values()], reading=options)
        write_store(entry, dataset, provenance=provenance)
        names = ", ".join(record.path for record in records.values())
        log.info(f"{names}: added to the cache as {entry}")
    except StoreExistsError:
        pass  # another process was faster
    except DataError as error:
        raise DataError(
            f"{error} Set data.cache=none to read the files without a cache."
        ) from None
    if is_sparse(dataset.features):
        return dataset  # the entry would take the same memory again
    return _entry(entry) or dataset


def _entry(entry: Path) -> RankingDataset | None:
    """Returns the data set of an entry; None if it is absent, or damaged and now deleted."""
    if not entry.exists():
        return None
    try:
        return read_store(entry)
    except StoreError as error:
        log.warning(
            f"{error} It is an entry of the cache: this run deletes it and reads its source again."
        )
    shutil.rmtree(entry, ignore_errors=True)
    return None


@functools.cache
def _code() -> str:
    """Returns a digest of the code of the readers: a corrected reader reads all files again."""
    digest = hashlib.sha256()
    for name in _CODE:
        code = (Path(__file__).parent / name).read_bytes()
        digest.update(f"{name}\n".encode() + code)
    return digest.hexdigest()
