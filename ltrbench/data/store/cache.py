"""A cache of parsed files: the store of each file that was read, found by the content of the file.

    CACHE/KEY/             store of a data set; the key covers the content of its files, the reading options,
                           and the code of the readers
    CACHE/known/STAMP      key of files by their path, size, inode and times, which saves hashing them again

An entry is complete or absent: it is built in a folder of its own, which is then renamed. Processes may
therefore build the same entry at the same time; the first one wins. A damaged entry is deleted and built
again from the files. Delete the folder, or entries in it, at any time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import is_sparse
from ltrbench.data.store.manifest import STORE_FORMAT, StoredFile
from ltrbench.data.store.reading import StoreMemoryError, read_store
from ltrbench.data.store.writing import BUILDING, StoreExistsError, stored_file, write_store
from ltrbench.errors import DataError

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

_DATA = Path(__file__).parents[1]
_CODE = ("dataset.py", "formats", "store")
"""Files and folders whose code determines the content of an entry."""


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
    paths = (path for name in _CODE for path in [_DATA / name, *(_DATA / name).rglob("*.py")])
    digest = hashlib.sha256(str(STORE_FORMAT).encode())
    for file in sorted(path for path in paths if path.is_file()):
        digest.update(f"{file.relative_to(_DATA)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
