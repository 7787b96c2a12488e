"""Writes and checks stores, and keeps parsed files in a cache.

Writes a store from blocks of whole queries, in memory for the largest block and the ids of one shard.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import SparseRows, csr_of, is_sparse, row_blocks, take_rows
from ltrbench.data.store import (
    ARRAY_DTYPES,
    MANIFEST_FILE,
    STORE_FORMAT,
    ArrayRecord,
    Manifest,
    Shard,
    ShardRecord,
    StoredFile,
    StoreMemoryError,
    dataset_of,
    encoded,
    read_manifest,
    read_store,
    shard_folder,
    shards_of,
    write_array,
    write_manifest,
)
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
        try:
            staging.rename(folder)  # replaces an empty folder, and no other
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                check_new(folder)
            raise
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
    arrays: dict[str, NDArray[Any]] = {}
    if part.sparse is not None:
        row_start = part.sparse.row_start[rows.start : rows.stop + 1]
        stored = slice(int(row_start[0]), int(row_start[-1]))
        arrays["row_start"] = row_start
        arrays["columns"], arrays["values"] = part.sparse.columns[stored], part.sparse.values[stored]
    arrays["query_start"] = block.query_start[part.begin : part.end + 1]
    arrays["labels"] = block.labels[rows]
    arrays["query_ids"] = block.query_ids[part.begin : part.end]
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


# ---- Lists everything that is wrong with a store, where a reader ends at the first problem.


def problems_of(store: Path) -> list[str]:
    """Returns one paragraph for each problem of a store: its manifest, its files, their checksums, and the
    data set that they form."""
    try:
        manifest = read_manifest(store)
    except DataError as error:
        return [str(error)]
    shards = shards_of(store, manifest)
    damaged = [str(error) for shard in shards for error in _damaged(shard)]
    return [*damaged, *_unexpected(store, shards)] or [*_contradictions(store, manifest, shards)]


def _damaged(shard: Shard) -> Iterator[DataError]:
    for name in shard.record["arrays"]:
        try:
            shard.check(name)
        except DataError as error:
            yield error


def _unexpected(store: Path, shards: list[Shard]) -> Iterator[str]:
    """Yields a paragraph for each file and folder that the manifest does not list."""
    expected = {store / MANIFEST_FILE, *(shard.folder for shard in shards)}
    expected |= {shard.path(name) for shard in shards for name in shard.record["arrays"]}
    for path in sorted([*store.iterdir(), *(path for shard in shards for path in shard.folder.glob("*"))]):
        if path not in expected:
            yield f"{path}: the manifest does not list this file, and no command reads it. Delete it."


def _contradictions(store: Path, manifest: Manifest, shards: list[Shard]) -> Iterator[str]:
    try:
        dataset = dataset_of(shards, manifest["feature_names"])
    except DataError as error:
        yield str(error)
        return
    if dataset.fingerprint != manifest["fingerprint"]:
        yield (
            f"{store / MANIFEST_FILE}: fingerprint is {manifest['fingerprint']}, but that of the arrays is "
            f"{dataset.fingerprint}. Build the store again."
        )


# ---- A cache of parsed files: the store of each file that was read, found by the content of the file.
#
#     CACHE/KEY/             store of a data set; the key covers the content of its files, the reading
#     options,
#                            and the code of the readers
#     CACHE/known/STAMP      key of files by their path, size, inode and times, which saves hashing them
#     again
#
# An entry is complete or absent: it is built in a folder of its own, which is then renamed. Processes may
# therefore build the same entry at the same time; the first one wins. A damaged entry is deleted and built
# again from the files. Delete the folder, or entries in it, at any time.

log = logging.getLogger("ltrbench")

AUTO, NONE = "auto", "none"
"""Values of `data.cache` that are not a folder."""

CACHE_VARIABLE = "LTRBENCH_CACHE"
"""Environment variable with the folder of the cache."""

AUTO_BYTES = 50 * 10**6
"""Size of the files of a split from which `auto` caches them; smaller files are parsed in a second or two."""

_WITHOUT = "Set data.cache=none to read the files without a cache."
_KNOWN = "known"
_KEY = re.compile(r"[0-9a-f]{64}")
_SETTLED_SECONDS = 2.0
"""Age of a change from which another change must give another time of modification, on any file system."""

_CODE = (
    *("dataset.py", "blocks.py", "letor.py", "letor_kernels.py", "letor_lines.py"),
    *("store.py", "store_writing.py", "tables.py"),
)
"""Files whose code determines the content of an entry."""


def cache_folder(setting: str | None, files: Mapping[str, Path]) -> Path | None:
    """Returns the folder of the cache for the files of a split; None: the files are not cached.

    Args:
        setting: `data.cache`: none, auto, or a folder.
        files: role -> file.
    """
    if setting in (None, NONE) or not all(file.is_file() for file in files.values()):
        return None
    if setting != AUTO:
        return Path(str(setting)).expanduser()
    if sum(file.stat().st_size for file in files.values()) < AUTO_BYTES:
        return None
    if os.environ.get(CACHE_VARIABLE):
        return Path(os.environ[CACHE_VARIABLE]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ltrbench"


def read_cached(
    folder: Path, files: Mapping[str, Path], options: Mapping[str, Any], read: Callable[[], RankingDataset]
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
    before = _stamps(files)
    known = folder / _KNOWN / _digest([before, options, _code()])
    key = _known_key(known)
    records = {} if key else _records(files)
    dataset = _entry(folder / (key or _key(records, options)))
    if dataset is None:
        records = records or _records(files)
        _require_writable(folder)
        dataset = read()
        if _stamps(files) != before:
            return dataset  # the files changed, so that what was read may not be what was hashed
        dataset = _added(folder / _key(records, options), dataset, records, options)
    if records and _is_settled(before):
        _remember(known, _key(records, options))
    return dataset


def _entry(entry: Path) -> RankingDataset | None:
    """Returns the data set of an entry; None if it is absent, or damaged and now deleted."""
    if not entry.exists():
        return None
    try:
        return read_store(entry)
    except StoreMemoryError:
        raise
    except DataError as error:
        log.warning(f"{error} It is an entry of the cache: this run deletes it and reads its source again.")
    # Renamed first, so that no other process sees a part of it.
    rest = entry.with_name(f"{BUILDING}{secrets.token_hex(8)}")
    with contextlib.suppress(OSError):  # another process has done it
        entry.rename(rest)
    shutil.rmtree(rest, ignore_errors=True)
    return None


def _require_writable(folder: Path) -> None:
    """Raises DataError if a folder cannot be written or created, before parsing, which may take minutes."""
    existing = folder.absolute()
    while not os.path.lexists(existing):
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        reason = "no permission to write" if existing.is_dir() else "not a folder"
        raise DataError(
            f"{folder}: the cache cannot be written ({existing}: {reason}). Choose another folder with "
            f"data.cache=DIR, or for data.cache=auto with {CACHE_VARIABLE}. {_WITHOUT}"
        )


def _added(
    entry: Path, dataset: RankingDataset, records: Mapping[str, StoredFile], options: Mapping[str, Any]
) -> RankingDataset:
    """Adds a data set to the cache, and returns it with dense features on the disk."""
    try:
        write_store(entry, [dataset], sources=[*records.values()], reading=options)
    except StoreExistsError:
        pass  # another process was faster
    except DataError as error:
        raise DataError(f"{error} {_WITHOUT}") from None
    else:
        log.info(f"{', '.join(record['path'] for record in records.values())}: added to the cache as {entry}")
    if is_sparse(dataset.features):
        return dataset  # the entry would take the same memory again
    # Another process may have deleted the entry, which it saw in its damaged state.
    return _entry(entry) or dataset


def _known_key(known: Path) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        key = known.read_text(encoding="ascii")
        return key if _KEY.fullmatch(key) else None
    return None


def _remember(known: Path, key: str) -> None:
    """Writes the key of files; if it cannot be written, the files are hashed again the next time."""
    draft = known.with_name(f".{secrets.token_hex(8)}")
    with contextlib.suppress(OSError):
        known.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(key, encoding="ascii")
        draft.replace(known)


def _stamps(files: Mapping[str, Path]) -> dict[str, list[Any]]:
    """Returns role -> path, size, inode and times of each file."""
    stamps = {}
    for role, file in files.items():
        try:
            status = file.stat()
        except OSError as error:
            raise DataError(
                f"{file}: the file cannot be read ({error.strerror}). Check the path and its permissions."
            ) from None
        times = [status.st_mtime_ns, status.st_ctime_ns]
        stamps[role] = [str(file.resolve()), status.st_size, status.st_dev, status.st_ino, *times]
    return stamps


def _is_settled(stamps: Mapping[str, list[Any]]) -> bool:
    """Returns whether the last change is so long ago that a later one must have another time."""
    latest = max(max(stamp[-2:]) for stamp in stamps.values())
    return bool(time.time() - latest / 1e9 > _SETTLED_SECONDS)


def _records(files: Mapping[str, Path]) -> dict[str, StoredFile]:
    return {role: stored_file(file) for role, file in files.items()}


def _key(records: Mapping[str, StoredFile], options: Mapping[str, Any]) -> str:
    contents = {role: record["sha256"] for role, record in records.items()}
    return _digest([contents, options, _code()])


@functools.cache
def _code() -> str:
    """Returns a digest of the code of the readers: a corrected reader reads all files again."""
    digest = hashlib.sha256(str(STORE_FORMAT).encode())
    for name in sorted(_CODE):
        digest.update(f"{name}\n".encode() + (Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
