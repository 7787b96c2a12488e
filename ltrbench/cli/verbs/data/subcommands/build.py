"""The command `data build`: writes a store, which is opened instead of parsed."""

from __future__ import annotations

from pathlib import Path

import click

from ltrbench.cli.files import PATH, READ_OPTION, echo, read, typed_options, wrapped
from ltrbench.errors import require

MB = 10**6


@click.command("build")
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
    from ltrbench.data.formats.reading import files_of
    from ltrbench.data.store.writing import check_new, stored_file, write_store

    require("--shard-mb", shard_mb, above=0)
    check_new(output)
    manifest = write_store(
        output,
        [read(sources, reading, scratch=output.absolute().parent)],
        shard_bytes=max(int(shard_mb * MB), 1),
        sources=[stored_file(file) for source in sources for file in files_of(source)],
        reading=typed_options(reading),
    )
    shards = len(manifest["shards"])
    echo(
        wrapped(
            f"{output}: {manifest['documents']} documents of {manifest['queries']} queries, "
            f"{manifest['num_features']} features, {shards} {'shard' if shards == 1 else 'shards'}; "
            f"fingerprint {manifest['fingerprint']}."
        )
    )
