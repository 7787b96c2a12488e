"""Reads stores into a RankingDataset: dense features stay on the disk, other arrays are read into memory."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import (
    AnyFeatures,
    CheckedFeatures,
    SparseRows,
    StackedRows,
    joined_rows,
    row_blocks,
    rows_in_order,
)
from ltrbench.data.store.arrays import REBUILD, check_values, map_array, read_values
from ltrbench.data.store.ids import BYTES_PER_CHARACTER, decoded
from ltrbench.data.store.manifest import (
    ARRAY_DTYPES,
    SPARSE_ARRAYS,
    Manifest,
    ShardRecord,
    dtype_of,
    read_manifest,
    shape_of,
    shard_folder,
)
from ltrbench.data.store.rows import StoredRows
from ltrbench.errors import DataError, did_you_mean
from ltrbench.measure.available import available_bytes, available_cores
from ltrbench.shapes import Features, QueryStart

_MOST_ROWS = 10**12  # far above any number of documents, and far below int64


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
    rows = shard.array("file_rows")
    bad = np.flatnonzero((rows < 0) | (rows > _MOST_ROWS))
    if bad.size:
        raise DataError(
            f"{shard.path('file_rows')}: value {bad[0]} is {rows[bad[0]]}, which is no row. {REBUILD}."
        )
    return rows


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
