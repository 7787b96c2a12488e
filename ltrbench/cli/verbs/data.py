"""The verb `data`: commands on data sets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltrbench.cli.console import (
    JSON_OPTION,
    PATH,
    READ_OPTION,
    echo,
    echo_json,
    facts_as_lines,
    read,
    typed_options,
    wrapped,
)
from ltrbench.cli.verbs.evaluate import first_of
from ltrbench.errors import ConfigError, DataError, did_you_mean, require
from ltrbench.untrusted import visible

if TYPE_CHECKING:
    from ltrbench.data.sources import DataSource, PublishedArchive
    from ltrbench.data.store import Manifest


@click.group("data")
def data_verb() -> None:
    """Prepares data sets."""


# ---- The command `data build`: writes a store, which is opened instead of parsed.

MB = 10**6


@data_verb.command("build")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True, type=PATH)
@click.option(
    "--output", type=PATH, required=True, metavar="STORE", help="Folder of the store; must not exist yet."
)
@click.option(
    "--shard-mb",
    type=float,
    default=256,
    show_default=True,
    metavar="MB",
    help="Size of the features of a shard in MB. The queries of a shard are complete.",
)
@READ_OPTION
def build_verb(sources: tuple[Path, ...], output: Path, shard_mb: float, reading: tuple[str, ...]) -> None:
    """Writes a store: a data set as arrays in a folder, which a run opens without parsing.

    Several files form one split, as in data.train=[part1.txt,part2.txt]. A SOURCE may also be a store, which
    is then written with other shards. A store can be used wherever a data file can, and in runs with
    data=store.

    \b
        python -m ltrbench data build train.txt --output train.store
        python -m ltrbench data build train.csv --output train.store --read label=grade
        python -m ltrbench data=store data.train=train.store
    """
    from ltrbench.data.sources import files_of
    from ltrbench.data.store import check_new, stored_file, write_store

    require("--shard-mb", shard_mb, above=0)
    check_new(output)
    manifest = write_store(
        output,
        read(sources, reading, scratch=output.absolute().parent),
        shard_bytes=max(int(shard_mb * MB), 1),
        sources=[stored_file(file) for source in sources for file in files_of(source)],
        reading=typed_options(reading),
    )
    echo(
        wrapped(
            f"{output}: {manifest.documents} documents of {manifest.queries} queries, "
            f"{manifest.num_features} features; shards: {len(manifest.shards)}; fingerprint "
            f"{manifest.fingerprint}."
        )
    )


# ---- The command `data check`: verifies every array of a store.


@data_verb.command("check")
@click.argument("store", type=PATH)
def check_verb(store: Path) -> None:
    """Verifies STORE: its manifest, the checksum of every array, the invariants of a data set, and its
    fingerprint.

    The exit code is 0 if there is no problem, else 2. Runs and other commands verify all of this but the
    fingerprint.

    \b
        python -m ltrbench data check train.store
    """
    from ltrbench.data.store import check_store

    check_store(store)
    echo(f"{store}: no problems.")


# ---- The command `data fetch`: downloads a published data set, checks it and unpacks it.


@data_verb.command("fetch")
@click.argument("name")
@click.option(
    "--root", type=PATH, metavar="DIR", help="Data folder; default: that of the YAML, $LTRBENCH_DATA or data."
)
@click.option("--url", metavar="URL", help="Address of the archive, instead of the address in the YAML.")
@click.option("--accept-licence", is_flag=True, help="You have read and accept the licence of the publisher.")
@click.option(
    "--config-dir", type=PATH, metavar="DIR", help="Folder with your own YAMLs, such as DIR/data/NAME.yaml."
)
def fetch_command(
    name: str, root: Path | None, url: str | None, accept_licence: bool, config_dir: Path | None
) -> None:
    """Downloads the published data set NAME, checks it and unpacks it.

    NAME is a YAML of conf/data, whose node fetch has the address, size and SHA-256 of the archive. The
    licence is printed first. An archive that you downloaded yourself into the data folder is checked and
    unpacked. Existing files are not overwritten.

    \b
        python -m ltrbench data fetch istella_s
        python -m ltrbench data fetch mslr_web10k --url https://example.com/MSLR-WEB10K.zip --accept-licence
    """
    from ltrbench.data.sources import address_of, download_archive, find_archive, unpack_archive
    from ltrbench.measure import without_password

    sources = list(_sources(name, root, config_dir))
    archive, folder = sources[0].fetch, Path(getattr(sources[0], "root", "") or ".").expanduser()
    if archive is None:
        how = getattr(sources[0], "obtain", "").strip()
        raise DataError(f"data={name} cannot be fetched, because data.fetch is null. {how}")
    expected = [path for source in sources for path in _files(source)]
    if expected and all(path.exists() for path in expected):
        echo(f"data={name} is complete: {len(expected)} files in {folder.absolute()}.")
        return
    echo(_terms(archive))
    file = find_archive(archive, folder)
    if file is None:
        address = address_of(archive, folder, name, url, accept_licence)
        label = f"downloading {without_password(address)}, {archive.size / MB:.0f} MB"
        with click.progressbar(length=archive.size, label=visible(label), file=sys.stderr) as bar:
            file = download_archive(
                archive, folder, address, lambda arrived, _: bar.update(arrived - bar.pos)
            )
    echo(f"unpacking {file} into {folder / archive.into}", err=True)
    written = unpack_archive(archive, file, folder, expected)
    echo(
        f"data={name} is complete: wrote {len(written)} files below "
        f"{(folder / archive.into).absolute()}. {file} is no longer needed."
    )


def _sources(name: str, root: Path | None, config_dir: Path | None) -> Iterator[DataSource]:
    """Yields the data source that a YAML describes, once for each published fold.

    Raises:
        ConfigError: There is no such YAML, or it is invalid.
    """
    from ltrbench.config import build, composed
    from ltrbench.data.sources import DataSource
    from ltrbench.folders import conf_dir

    folders = [conf_dir() / "data", *([] if config_dir is None else [config_dir.expanduser() / "data"])]
    known = sorted(path.stem for folder in folders for path in folder.glob("[!_]*.yaml"))
    if name not in known:
        raise ConfigError(
            f"data={name} does not exist{did_you_mean(name, known)} The data sets are {', '.join(known)}."
        )
    search = [] if config_dir is None else [f"hydra.searchpath=[file://{config_dir.expanduser().absolute()}]"]
    config = composed(*search, f"data={name}")
    if root is not None:
        config.data.root = str(root.expanduser())
    for fold in range(1, (config.data.get("num_folds") or 1) + 1):
        if config.data.get("num_folds"):
            config.data.fold = fold
        yield build(config, "data", DataSource)


def _files(source: DataSource) -> list[Path]:
    """Returns the files of all splits."""
    splits = [getattr(source, split, None) or [] for split in ("train", "valid", "test")]
    paths = [path for split in splits for path in ([split] if isinstance(split, str) else split)]
    return [Path(path).expanduser() for path in paths]


def _terms(archive: PublishedArchive) -> str:
    """Returns the licence and what identifies the archive."""
    from ltrbench.measure import without_password

    address = "not known" if archive.url is None else without_password(archive.url)
    rows = [
        ("licence", archive.licence),
        ("page", archive.page),
        ("archive", f"{archive.file}, {archive.size} bytes, SHA-256 {archive.sha256}"),
        ("address", f"{address}{'' if archive.verified else ' (not verified)'}"),
    ]
    return facts_as_lines((name, value.strip()) for name, value in rows)


# ---- The command `data info`: what a store contains, from its manifest.


@data_verb.command("info")
@click.argument("store", type=PATH)
@JSON_OPTION
def info_verb(store: Path, as_object: bool) -> None:
    """Describes STORE from its manifest, without reading its arrays.

    \b
        python -m ltrbench data info train.store
        python -m ltrbench data info train.store --json
    """
    from ltrbench.data.store import read_manifest

    manifest = read_manifest(store)
    if as_object:
        echo_json({"store": str(store), **manifest.model_dump()})
        return
    echo("\n".join([str(store), "", facts_as_lines(_facts(store, manifest))]))


def _facts(store: Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    from ltrbench.data.store import REQUIRED_ARRAYS, shards_of

    features = manifest.feature_arrays
    optional = [name for name in manifest.shards[0].arrays if name not in {*features, *REQUIRED_ARRAYS}]
    files = [shard[name] for shard in shards_of(store, manifest) for name in features]
    yield "documents", str(manifest.documents)
    yield "queries", str(manifest.queries)
    yield "features", f"{manifest.num_features}: {first_of(manifest.feature_names)}"
    if manifest.absent is not None:
        stored = sum(shard.values for shard in manifest.shards)
        yield "stored", f"{stored} values; the other cells are {manifest.absent}"
    yield "also has", ", ".join(optional) or "-"
    yield "size", f"{sum(file.num_bytes for file in files) / 1e6:.1f} MB of features"
    yield "shards", str(len(manifest.shards))
    yield "fingerprint", manifest.fingerprint
    for source in manifest.sources:
        yield "source", f"{source.path}, {source.bytes} bytes, SHA-256 {source.sha256}"
    options = [f"{key}={value}" for key, value in manifest.reading.items()]
    yield "read with", ", ".join(options) or "the default options"
    yield "written by", f"ltrbench {manifest.ltrbench}, format {manifest.format}"
