"""Loads each data set once per process: runs with an equal data source share its splits.

Two sources are equal if their classes, fields and current folder are equal. A file that a source names is
read again if it has changed. The least recently used data sets are dropped when all data sets together take
more than a quarter of the free memory.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import FunctionType, NoneType
from typing import Any

import numpy as np

from ltrbench.data import Splits
from ltrbench.data.features import FeatureMatrix, arrays_of, is_mapped, is_sparse
from ltrbench.data.formats.compression import without_compression_ending
from ltrbench.data.sources import DataSource, FileSource
from ltrbench.data.store.manifest import MANIFEST_FILE, is_store
from ltrbench.measure.available import available_bytes
from ltrbench.measure.clock import Stopwatch

_MEMORY_SHARE = 0.25  # of the free memory, so that several processes leave most of it to the fits

_HOLDS_ARRAYS = (np.ndarray, FeatureMatrix)

_Stamp = tuple[str, int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """Splits, the seconds that their loading took, and the stamps of the files before they were read."""

    splits: Splits
    seconds: float
    stamps: list[_Stamp]

    @property
    def num_bytes(self) -> int:
        # Includes the arrays that a data set caches, such as its ideal rankings. Splits may share an array,
        # and the system keeps a file that is mapped into memory only as long as nothing else needs the room.
        values = [value for _, split in self.splits for value in vars(split).values()]
        held = [array for value in values if isinstance(value, _HOLDS_ARRAYS) for array in arrays_of(value)]
        return sum({id(array): array.nbytes for array in held if not is_mapped(array)}.values())

    def num_bytes_of_arrays(self, keep_sparse: bool) -> int:
        """Returns the bytes of the arrays that `Splits.in_memory` makes."""
        made = [split.features for _, split in self.splits if isinstance(split.features, FeatureMatrix)]
        return sum(features.nbytes for features in made if not (keep_sparse and is_sparse(features)))


_loaded: OrderedDict[Hashable, _Loaded] = OrderedDict()  # least recently used first
_lock = threading.RLock()  # a worker may run jobs in several threads


class _NoKeyError(Exception):
    """A field of a source has a value that cannot be compared with a later one."""


def load_once(source: DataSource, in_memory: bool = False, keep_sparse: bool = False) -> tuple[Splits, float]:
    """Returns the splits of a source, and the seconds that their loading took in this process.

    Args:
        in_memory: whether the features of each split must be one array. These arrays replace the splits that
            this process keeps, so that it does not hold the same features twice.
        keep_sparse: whether sparse features nevertheless stay as they are.

    Raises:
        DataError: The data is absent or invalid, or the arrays do not fit into memory.
    """
    with _lock:
        try:
            key: Hashable = (Path.cwd(), _key_of(source))
        except _NoKeyError:
            loaded = _load(source)
            return _result(_in_memory(loaded, keep_sparse) if in_memory else loaded)
        loaded = _kept(key, source)
        if in_memory:
            # Before the arrays are made, because they may not fit beside other data sets.
            if num_bytes := loaded.num_bytes_of_arrays(keep_sparse):
                _make_room(num_bytes)
            loaded = _loaded[key] = _in_memory(loaded, keep_sparse)
        return _result(loaded)


def _result(loaded: _Loaded) -> tuple[Splits, float]:
    return loaded.splits, loaded.seconds


def _in_memory(loaded: _Loaded, keep_sparse: bool) -> _Loaded:
    watch = Stopwatch()
    with watch:
        splits = loaded.splits.in_memory(keep_sparse)
    if splits is loaded.splits:
        return loaded
    return replace(loaded, splits=splits, seconds=loaded.seconds + watch.seconds)


def forget() -> None:
    """Drops all data sets, so that every source is loaded again."""
    with _lock:
        _loaded.clear()


def _kept(key: Hashable, source: DataSource) -> _Loaded:
    loaded = _loaded.pop(key, None)
    if loaded is None or loaded.stamps != _stamps(source):
        del loaded  # two versions of a large data set may not fit into memory
        loaded = _loaded[key] = _load(source)
        _make_room()
    else:
        _loaded[key] = loaded
    return loaded


def _load(source: DataSource) -> _Loaded:
    # Before the files are read, so that a change during reading is noticed later.
    stamps, watch = _stamps(source), Stopwatch()
    with watch:
        splits = source.load()
    return _Loaded(splits=splits, seconds=watch.seconds, stamps=stamps)


def _make_room(num_bytes: int = 0) -> None:
    """Drops the least recently used data sets until the others fit; the most recently used one always stays.

    Args:
        num_bytes: bytes that the most recently used data set will need in addition.
    """
    held = sum(loaded.num_bytes for loaded in _loaded.values())
    most = _MEMORY_SHARE * (available_bytes() + held)
    while len(_loaded) > 1 and held + num_bytes > most:
        _, dropped = _loaded.popitem(last=False)
        held -= dropped.num_bytes


def _key_of(value: Any) -> Hashable:
    """Returns a key that equal values have in common, and no others.

    The recorded form of a source (`measure.provenance`) is no such key: it masks passwords, and gives objects
    by their class or their shortened text.

    Raises:
        _NoKeyError: The value has another type, such as a DataFrame or an open connection.
    """
    if isinstance(value, NoneType | bool | int | float | str | bytes | Path):
        return type(value), repr(value)  # repr: NaN equals NaN, and 1 is neither True nor 1.0
    if isinstance(value, Enum | FunctionType | type):
        return value
    if isinstance(value, functools.partial):
        return type(value), *map(_key_of, (value.func, value.args, value.keywords))
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        digest = hashlib.blake2b(value.tobytes(), digest_size=16).hexdigest()
        return type(value), value.dtype.str, value.shape, digest
    if isinstance(value, Mapping):
        return type(value), *((_key_of(name), _key_of(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return type(value), *map(_key_of, value)
    if isinstance(value, set | frozenset):
        return type(value), frozenset(map(_key_of, value))
    if is_dataclass(value):
        return type(value), _key_of(_attributes(value))
    raise _NoKeyError


def _stamps(source: DataSource) -> list[_Stamp]:
    """Returns name, inode, size, time of modification and of change of each file that a source names."""
    files: set[Path] = set()
    for text in _texts_in(source):
        try:
            path = Path(text).expanduser()
            if path.is_file():
                # Also FILE.query and the like, which a reader finds by the name of FILE.
                stem = without_compression_ending(path).name
                files.update(file for file in path.parent.iterdir() if file.name.startswith(stem))
            elif text and is_store(path):
                files.add(path / MANIFEST_FILE)
            elif text and path.is_dir() and not isinstance(source, FileSource):  # which lists its files
                files.update(file for file in path.iterdir() if file.is_file())
        except (OSError, RuntimeError, ValueError):  # a text that cannot be a path
            continue
    return [_stamp(file) for file in sorted(files)]


def _stamp(file: Path) -> _Stamp:
    try:
        status = file.stat()
    except OSError:  # deleted since it was listed
        return str(file), 0, 0, 0, 0
    return str(file), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _texts_in(value: Any) -> Iterator[str]:
    """Yields the texts and paths in the fields of a source, at any depth."""
    if isinstance(value, str | Path):
        yield str(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts_in(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _texts_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _texts_in(_attributes(value))


def _attributes(instance: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass object, and what a subclass without the decorator adds to it."""
    return {item.name: getattr(instance, item.name) for item in fields(instance)} | getattr(
        instance, "__dict__", {}
    )
