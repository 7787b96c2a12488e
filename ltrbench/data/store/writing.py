"""Writes a store from blocks of whole queries, in memory for the largest block and the ids of one shard."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import SparseRows, csr_of, row_blocks, take_rows
from ltrbench.data.store.arrays import write_array
from ltrbench.data.store.ids import encoded
from ltrbench.data.store.manifest import (
    ARRAY_DTYPES,
    STORE_FORMAT,
    ArrayRecord,
    Manifest,
    ShardRecord,
    StoredFile,
    shard_folder,
    write_manifest,
)
from ltrbench.data.store.reading import dataset_of, shards_of
from ltrbench.disk import DISK_REMEDIES, delete_abandoned, flush
from ltrbench.errors import DataError
from ltrbench.shapes import Features

SHARD_BYTES = 256 * 10**6
"""Default size of the features of a shard."""

_BYTES_PER_VALUE = 4
_BYTES_PER_STORED_VALUE = 8  # of a value and its column
_BYTES_PER_ROW = 8  # of sparse features

BUILDING = ".building-"
"""Prefix of the folders of unfinished stores."""


class StoreExistsError(DataError):
    """The folder of a new store already contains something."""


@dataclass(frozen=True)
class _Part:
    """Consecutive queries of a block: those from `begin` to `end` (exclusive)."""

    block: RankingDataset
    sparse: SparseRows | None  # features of the block; None: they are dense
    block_row: int  # number of documents before the block
    begin: int
    end: int

    @property
    def rows(self) -> slice:
        return slice(int(self.block.query_start[self.begin]), int(self.block.query_start[self.end]))

    @property
    def size_before(self) -> NDArray[np.int64]:
        """(Q + 1,), number of bytes of the features before each query of the block, and of all."""
        query_start = self.block.query_start
        if self.sparse is None:
            return query_start * self.block.num_features * _BYTES_PER_VALUE
        return self.sparse.row_start[query_start] * _BYTES_PER_STORED_VALUE + query_start * _BYTES_PER_ROW


def write_store(
    folder: Path,
    blocks: Iterable[RankingDataset],
    *,
    shard_bytes: int = SHARD_BYTES,
    sources: Sequence[StoredFile] = (),
    reading: Mapping[str, Any] | None = None,
) -> Manifest:
    """Writes a store, completely or not at all.

    Args:
        folder: the new folder; it does not exist, or is empty.
        blocks: the data set in blocks of whole queries, one after another, at least one. All have the same
            features, and the same optional arrays; `file_rows` counts from the first row of its block.
        shard_bytes: size of the stored features of a shard; a query is never divided.
        sources: files from which the blocks were read.
        reading: options with which they were read.

    Raises:
        StoreExistsError: The folder already contains something.
        DataError: The blocks are not one data set, an id is not text, or the folder cannot be written.
    """
    check_new(folder)
    with _staged(folder) as staging:
        manifest = _write_shards(staging, blocks, shard_bytes)
        manifest["sources"], manifest["reading"] = list(sources), _as_json(reading or {})
        # Read again, so that the fingerprint is that of the arrays on the disk.
        shards = shards_of(staging, manifest)
        manifest["fingerprint"] = dataset_of(shards, manifest["feature_names"]).fingerprint
        write_manifest(staging, manifest)
        flush(staging)
        _publish(staging, folder)
    return manifest


def stored_file(path: Path) -> StoredFile:
    """Returns the name, the size and the checksum of a file.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
            return {"path": str(path), "bytes": file.tell(), "sha256": digest.hexdigest()}
    except OSError as error:
        raise DataError(
            f"{path}: the file cannot be read ({error.strerror}). Check the path and its permissions."
        ) from None


def check_new(folder: Path) -> None:
    """Raises StoreExistsError if a folder is a file, or contains something."""
    if folder.is_symlink() or folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise StoreExistsError(f"{folder} already exists; delete it, or choose another folder with --output.")


@contextlib.contextmanager
def _staged(folder: Path) -> Iterator[Path]:
    """Yields a new folder beside `folder`, which is deleted if it is still there at the end of the block."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        delete_abandoned(folder.parent, f"{BUILDING}*")
        staging = folder.with_name(f"{BUILDING}{secrets.token_hex(8)}")
        staging.mkdir()
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        remedy = DISK_REMEDIES.get(error.errno or 0, "Check its path and its permissions")
        raise DataError(
            f"{folder}: the store cannot be written ({error.strerror}). {remedy}, or choose another folder."
        ) from error


def _as_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options as JSON values; NaN, which JSON does not have, as text."""
    options_in_json: dict[str, Any] = json.loads(json.dumps(options, default=str), parse_constant=str)
    return options_in_json


def _publish(staging: Path, folder: Path) -> None:
    try:
        staging.rename(folder)  # replaces an empty folder, and no other
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise
        check_new(folder)
        raise


def _write_shards(folder: Path, blocks: Iterable[RankingDataset], shard_bytes: int) -> Manifest:
    """Writes all shards, and returns a manifest without sources and fingerprint."""
    records: list[ShardRecord] = []
    names: tuple[str, ...] = ()
    absent = None
    for number, parts in enumerate(_shards(blocks, shard_bytes)):
        names = names or parts[0].block.feature_names
        absent = None if parts[0].sparse is None else f"{parts[0].sparse.absent:g}"
        records.append(_write_shard(shard_folder(folder, number), parts))
    if not records:
        raise DataError(f"{folder}: there are no documents; a store needs at least one query.")
    return {
        "format": STORE_FORMAT,
        # Not imported: the package imports all of its parts on first use.
        "ltrbench": str(vars(sys.modules["ltrbench"])["__version__"]),
        "num_features": len(names),
        "feature_names": list(names),
        "absent": absent,
        "documents": sum(record["documents"] for record in records),
        "queries": sum(record["queries"] for record in records),
        "fingerprint": "",
        "sources": [],
        "reading": {},
        "shards": records,
        "checksum": "",
    }


def _shards(blocks: Iterable[RankingDataset], shard_bytes: int) -> Iterator[list[_Part]]:
    """Yields the parts of each shard: as many queries as fit into it, at least one.

    Where shards end does not depend on where blocks end.
    """
    parts: list[_Part] = []
    first: _Part | None = None
    block_row = room = 0
    for block in blocks:
        whole = _Part(block, csr_of(block.features), block_row, 0, block.num_queries)
        first = first or whole
        _check_same_columns(first, whole)
        size_before = whole.size_before
        begin = 0
        while begin < block.num_queries:
            room = room if parts else shard_bytes
            end = int(np.searchsorted(size_before, size_before[begin] + room, side="right")) - 1
            if end <= begin and parts:
                yield parts
                parts = []
                continue
            parts.append(replace(whole, begin=begin, end=max(end, begin + 1)))
            room -= int(size_before[parts[-1].end] - size_before[begin])
            begin = parts[-1].end
        block_row += block.num_documents
    if parts:
        yield parts


def _check_same_columns(first: _Part, part: _Part) -> None:
    block = part.block
    if block.feature_names != first.block.feature_names or _optional(part) != _optional(first):
        raise DataError(
            f"the block of the queries {block.query_ids[0]} to {block.query_ids[-1]} has other features or "
            "other optional arrays than the first block; all blocks of a store need the same."
        )


def _optional(part: _Part) -> tuple[str, ...]:
    """Returns the names of the optional arrays that a block has, and how its features are stored."""
    block = part.block
    values = {
        "dense" if part.sparse is None else f"sparse, {part.sparse.absent}": block.features,
        "document_ids": block.document_ids,
        "weights": block.query_weights,
        "positions": block.positions,
        "file_rows": block.file_rows,
    }
    return tuple(name for name, array in values.items() if array is not None)


def _write_shard(folder: Path, parts: Sequence[_Part]) -> ShardRecord:
    folder.mkdir()
    columns = [_arrays_of(part) for part in parts]
    arrays: dict[str, list[NDArray[Any]]] = {
        name: [column[name] for column in columns] for name in columns[0]
    }
    for name in ("query_start", "row_start"):
        if name in arrays:
            arrays[name] = [_joined_starts(arrays[name])]
    for name in ("query_ids", "document_ids"):
        if name in arrays:
            arrays[name] = [encoded(name, np.concatenate(arrays[name]))]
    records: dict[str, ArrayRecord] = {}
    if parts[0].sparse is None:
        records["features"] = _written(folder, "features", _blocks(parts), np.dtype(np.float32))
    for name, values in arrays.items():
        dtype = np.dtype(values[0].dtype if ARRAY_DTYPES[name] == "bytes" else ARRAY_DTYPES[name])
        records[name] = _written(folder, name, values, dtype)
    return {
        "documents": int(arrays["query_start"][0][-1]),
        "queries": len(arrays["query_start"][0]) - 1,
        "values": int(arrays["row_start"][0][-1]) if "row_start" in arrays else 0,
        "arrays": records,
    }


def _written(folder: Path, name: str, blocks: Iterable[NDArray[Any]], dtype: np.dtype[Any]) -> ArrayRecord:
    return {"dtype": dtype.str, "sha256": write_array(folder / f"{name}.npy", blocks, dtype)}


def _blocks(parts: Sequence[_Part]) -> Iterator[Features]:
    """Yields the dense features of the parts; they may exceed the memory."""
    for part in parts:
        for _, block in row_blocks(take_rows(part.block.features, [[part.rows.start, part.rows.stop]])):
            yield block


def _joined_starts(starts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Returns the positions of the starts of consecutive parts, and their common end, counted from 0."""
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(start) for start in starts]))])


def _arrays_of(part: _Part) -> dict[str, NDArray[Any]]:
    """Returns name -> values of a part, without dense features; the starts count from any number."""
    block, rows = part.block, part.rows
    arrays: dict[str, NDArray[Any]] = {
        **_sparse_arrays(part),
        "query_start": block.query_start[part.begin : part.end + 1],
        "labels": block.labels[rows],
        "query_ids": block.query_ids[part.begin : part.end],
    }
    if block.document_ids is not None:
        arrays["document_ids"] = block.document_ids[rows]
    if block.query_weights is not None:
        # A reader makes query weights of document weights that are constant within each query.
        arrays["weights"] = block.weight_of_document[rows]
    if block.positions is not None:
        arrays["positions"] = block.positions[rows]
    if block.file_rows is not None:
        arrays["file_rows"] = block.file_rows[rows] + part.block_row
    return arrays


def _sparse_arrays(part: _Part) -> dict[str, NDArray[Any]]:
    """Returns name -> values of the arrays that contain the features of a part if they are sparse."""
    rows, sparse = part.rows, part.sparse
    if sparse is None:
        return {}
    row_start = sparse.row_start[rows.start : rows.stop + 1]
    stored = slice(int(row_start[0]), int(row_start[-1]))
    return {"row_start": row_start, "columns": sparse.columns[stored], "values": sparse.values[stored]}
