"""The command `data info`: what a store contains, from its manifest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltrbench.cli.files import JSON_OPTION, PATH, echo, echo_json, wrapped

if TYPE_CHECKING:
    from ltrbench.data.store.manifest import Manifest

_SHOWN = 12  # maximum number of feature names in the text output; --json has all


@click.command("info")
@click.argument("store", type=PATH)
@JSON_OPTION
def info_verb(store: Path, as_object: bool) -> None:
    """Describes STORE from its manifest, without reading its arrays.

    \b
        python -m ltrbench data info train.store
        python -m ltrbench data info train.store --json
    """
    from ltrbench.data.store.manifest import read_manifest

    manifest = read_manifest(store)
    if as_object:
        echo_json({"store": str(store), **manifest})
        return
    facts = list(_facts(manifest))
    width = max(len(name) for name, _ in facts) + 2
    lines = [wrapped(f"{name:{width}}{fact}", " " * width) for name, fact in facts]
    echo("\n".join([str(store), "", *lines]))


def _facts(manifest: Manifest) -> Iterator[tuple[str, str]]:
    from ltrbench.data.store.manifest import REQUIRED_ARRAYS, bytes_of_features, feature_arrays

    required = {*feature_arrays(manifest), *REQUIRED_ARRAYS}
    optional = [name for name in manifest["shards"][0]["arrays"] if name not in required]
    yield "documents", str(manifest["documents"])
    yield "queries", str(manifest["queries"])
    yield "features", f"{manifest['num_features']}: {_first(manifest['feature_names'])}"
    if manifest["absent"] is not None:
        stored = sum(shard["values"] for shard in manifest["shards"])
        yield "stored", f"{stored} values; the other cells are {manifest['absent']}"
    yield "also has", ", ".join(optional) or "-"
    yield "size", f"{bytes_of_features(manifest) / 1e6:.1f} MB of features in {_shards(manifest)}"
    yield "fingerprint", manifest["fingerprint"]
    for source in manifest["sources"]:
        yield "source", f"{source['path']}, {source['bytes']} bytes, SHA-256 {source['sha256']}"
    options = [f"{key}={value}" for key, value in manifest["reading"].items()]
    yield "read with", ", ".join(options) or "the default options"
    yield "written by", f"ltrbench {manifest['ltrbench']}, format {manifest['format']}"


def _first(names: Sequence[str]) -> str:
    left = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {left} more (see --json)" if left > 0 else "")


def _shards(manifest: Manifest) -> str:
    number = len(manifest["shards"])
    return "1 shard" if number == 1 else f"{number} shards"
