"""Finds or downloads the archive of a published data set, checks it, and unpacks it."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import requests

from ltrbench.data.sources import PublishedArchive
from ltrbench.errors import DataError
from ltrbench.measure import without_password

OnArrival = Callable[[int, int], None]
"""Called with the number of bytes that have arrived and the size of the file."""

_BLOCK = 1 << 16  # bytes
_TIMEOUT = (30.0, 60.0)  # seconds to connect, and without a byte


def find_archive(archive: PublishedArchive, root: Path) -> Path | None:
    """Returns the archive in the data folder; None if it is not there.

    Raises:
        DataError: A file of this name has another size or SHA-256.
    """
    file = root / archive.file
    if not file.exists():
        return None
    _check(file, archive, f"Remove or rename {file}, and repeat the command.")
    return file


def address_of(archive: PublishedArchive, root: Path, name: str, url: str | None, accepted: bool) -> str:
    """Returns the address to download from.

    Args:
        name: name of the data set, for messages.
        url: address given by the user; None: the address of the YAML, which must be verified.
        accepted: whether the user has accepted the licence.

    Raises:
        DataError: There is no verified address, or the licence is not accepted.
    """
    address = url or (archive.url if archive.verified else None)
    if address is None:
        raise DataError(
            f"data={name} is not downloaded, because no address of it has been verified "
            "(data.fetch.verified). "
            f"Download {archive.file} from {archive.page}, save it as {(root / archive.file).absolute()} and "
            "repeat the command, or pass an address with --url. Its size and SHA-256 are checked."
        )
    if archive.must_accept and not accepted:
        raise DataError(
            f"data={name}: the publisher requires that you accept the licence before you download "
            f"{archive.file}. Read it at {archive.page}, and add --accept-licence if you accept it."
        )
    return address


def download_archive(archive: PublishedArchive, root: Path, address: str, on_arrival: OnArrival) -> Path:
    """Downloads an archive into the data folder and returns its path.

    The file appears under its name when its size and SHA-256 are right; otherwise nothing remains.

    Raises:
        DataError: The download fails, it is another file, or the folder cannot be written.
    """
    file, arrived = root / archive.file, 0
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=f".{archive.file}.") as folder:
            part = Path(folder, archive.file)
            identity = {"Accept-Encoding": "identity"}
            with requests.get(address, headers=identity, stream=True, timeout=_TIMEOUT) as response:
                response.raise_for_status()
                with part.open("wb") as output:
                    for block in response.iter_content(_BLOCK):
                        output.write(block)
                        arrived += len(block)
                        on_arrival(arrived, archive.size)
                        if arrived > archive.size:
                            break
            _check(part, archive, "Repeat the command, or pass another address with --url.")
            part.replace(file)
    except OSError as error:  # also of requests
        raise DataError(
            f"{without_password(address)} cannot be downloaded to {file} ({without_password(str(error))}). "
            "Check the connection and the folder, or pass another address with --url."
        ) from None
    return file


def unpack_archive(archive: PublishedArchive, file: Path, root: Path, expected: Sequence[Path]) -> list[Path]:
    """Unpacks an archive below the folder `archive.into`, and returns the new files.

    Existing files are kept. A member outside of the folder is an error or left out.

    Args:
        expected: files of the data set.

    Raises:
        DataError: The archive cannot be unpacked, or has no expected file.
    """
    folder = root / archive.into
    written = []
    try:
        with tempfile.TemporaryDirectory(dir=root, prefix=f".{archive.file}.") as name:
            if file.suffix == ".zip":
                with zipfile.ZipFile(file) as packed:
                    packed.extractall(name)
            else:
                with tarfile.open(file) as packed:
                    packed.extractall(name, filter="data")
            for path in sorted(path for path in Path(name).rglob("*") if path.is_file()):
                target = folder / path.relative_to(name)
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.move(path, target)
                    written.append(target)
    except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{file} cannot be unpacked into {folder} ({error}). Make room, or choose another folder with "
            "--root."
        ) from None
    missing = [path for path in expected if not path.exists()]
    if missing:
        raise DataError(
            f"{missing[0]} does not exist after {file} was unpacked into {folder}. Set the paths and "
            "data.fetch.into in the YAML to its layout."
        )
    return written


def _check(file: Path, archive: PublishedArchive, remedy: str) -> None:
    """Raises DataError unless a file has the size and the SHA-256 of an archive."""
    size = file.stat().st_size
    if size != archive.size:
        raise DataError(f"{file} has {size} bytes, but data.fetch.size is {archive.size}. {remedy}")
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != archive.sha256:
        raise DataError(
            f"{file} has the SHA-256 {digest}, but data.fetch.sha256 is {archive.sha256}. {remedy}"
        )
