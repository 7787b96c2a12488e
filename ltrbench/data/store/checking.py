"""Lists everything that is wrong with a store, where a reader ends at the first problem."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ltrbench.data.store.manifest import MANIFEST_FILE, Manifest, read_manifest
from ltrbench.data.store.reading import Shard, dataset_of, shards_of
from ltrbench.errors import DataError


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
