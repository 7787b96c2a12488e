"""The command `data fetch`: downloads a published data set, checks it and unpacks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltrbench.cli.files import PATH, echo, wrapped
from ltrbench.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    from ltrbench.data.fetching.archive import PublishedArchive
    from ltrbench.data.sources import DataSource

_STEPS = 20  # progress lines of a download


@click.command("fetch")
@click.argument("name")
@click.option(
    "--root",
    type=PATH,
    metavar="DIR",
    help="Data folder; default: that of the YAML, $LTRBENCH_DATA or data.",
)
@click.option("--url", metavar="URL", help="Address of the archive, instead of the address in the YAML.")
@click.option("--accept-licence", is_flag=True, help="You have read and accept the licence of the publisher.")
@click.option(
    "--config-dir",
    type=PATH,
    metavar="DIR",
    help="Folder with your own YAMLs, such as DIR/data/NAME.yaml.",
)
def fetch_command(
    name: str, root: Path | None, url: str | None, accept_licence: bool, config_dir: Path | None
) -> None:
    """Downloads the published data set NAME, checks it and unpacks it.

    NAME is a YAML of conf/data, whose node fetch has the address, size and SHA-256 of the archive. The
    licence is printed first. An interrupted download continues when the command is repeated. An archive that
    you downloaded yourself into the data folder is checked and unpacked. Existing files are not overwritten.

    \b
        python -m ltrbench data fetch istella_s
        python -m ltrbench data fetch mslr_web10k --url https://example.com/MSLR-WEB10K.zip --accept-licence
    """
    from ltrbench.data.fetching.fetch import address_of, download_archive, find_archive, unpack_archive
    from ltrbench.measure.provenance import without_password

    sources = list(_sources(name, root, config_dir))
    archive, folder = _archive(name, sources[0]), Path(getattr(sources[0], "root", "") or ".").expanduser()
    expected = [path for source in sources for path in _files(source)]
    if expected and all(path.exists() for path in expected):
        echo(f"data={name} is complete: {_counted(len(expected))} in {folder.absolute()}.")
        return
    echo(_terms(archive))
    file = find_archive(archive, folder)
    if file is None:
        address = address_of(archive, folder, name, url, accept_licence)
        echo(f"downloading {without_password(address)}", err=True)
        file = download_archive(archive, folder, address, _Progress())
    echo(f"unpacking {file} into {folder / archive.into}", err=True)
    unpacked = unpack_archive(archive, file, folder, expected)
    for path in unpacked.kept:
        echo(f"{path} exists, and was kept", err=True)
    echo(
        f"data={name} is complete: wrote {_counted(len(unpacked.written))} below "
        f"{(folder / archive.into).absolute()}. {file} is no longer needed."
    )


def _sources(name: str, root: Path | None, config_dir: Path | None) -> Iterator[DataSource]:
    """Yields the data source that a YAML describes, once for each published fold.

    Raises:
        ConfigError: There is no such YAML, or it is invalid.
    """
    from hydra import compose, initialize_config_dir

    from ltrbench.conf_folder import conf_dir
    from ltrbench.config import build, register_schema
    from ltrbench.data.sources import DataSource

    folders = [conf_dir() / "data", *([] if config_dir is None else [config_dir.expanduser() / "data"])]
    known = sorted(path.stem for folder in folders for path in folder.glob("[!_]*.yaml"))
    if name not in known:
        raise ConfigError(
            f"data={name} does not exist{did_you_mean(name, known)} The data sets are {', '.join(known)}. "
            "For a YAML of your own, pass the folder that contains data/NAME.yaml with --config-dir."
        )
    register_schema()
    search = [] if config_dir is None else [f"hydra.searchpath=[file://{config_dir.expanduser().absolute()}]"]
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        config = compose("config", overrides=[*search, f"data={name}"])
    if not (config.data.get("fetch") or config.data.get("obtain")):
        raise ConfigError(f"data={name} is not a published data set; choose another one for data fetch.")
    if root is not None:
        if "root" not in config.data:
            raise ConfigError(
                f"data={name} has no data folder, and --root {root} would have no effect; add root to its "
                "YAML and use it in the paths, as in ${.root}/train.txt, or omit --root."
            )
        config.data.root = str(root.expanduser())
    for fold in range(1, (config.data.get("num_folds") or 1) + 1):
        if config.data.get("num_folds"):
            config.data.fold = fold
        yield build(config, "data", DataSource)


def _archive(name: str, source: DataSource) -> PublishedArchive:
    if source.fetch is not None:
        return source.fetch
    raise DataError(
        f"data={name} cannot be fetched, because data.fetch is null. {getattr(source, 'obtain', '').strip()}"
    )


def _files(source: DataSource) -> list[Path]:
    """Returns the files of all splits."""
    splits = [getattr(source, split, None) or [] for split in ("train", "valid", "test")]
    paths = [path for split in splits for path in ([split] if isinstance(split, str) else split)]
    return [Path(path).expanduser() for path in paths]


def _counted(num_files: int) -> str:
    return f"{num_files} file{'' if num_files == 1 else 's'}"


def _terms(archive: PublishedArchive) -> str:
    """Returns the licence and what identifies the archive."""
    from ltrbench.measure.provenance import without_password

    address = "not known" if archive.url is None else without_password(archive.url)
    rows = [
        ("licence", archive.licence),
        ("page", archive.page),
        ("archive", f"{archive.file}, {archive.size} bytes, SHA-256 {archive.sha256}"),
        ("address", f"{address}{'' if archive.verified else ' (not verified)'}"),
    ]
    return "\n".join(wrapped(f"{name:9}{value.strip()}", " " * 9) for name, value in rows)


class _Progress:
    """Prints a line to standard error whenever another twentieth of the file, or megabyte, has arrived."""

    def __init__(self) -> None:
        self._step, self._line = -1, ""

    def __call__(self, arrived: int, size: int) -> None:
        step, line = arrived * _STEPS // size, f"{arrived / 1e6:.0f} of {size / 1e6:.0f} MB"
        if step != self._step and line != self._line:
            self._step, self._line = step, line
            echo(line, err=True)
