"""Finds or downloads the archive of a published data set, checks it, and unpacks it."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import requests
import urllib3

from ltrbench.data.sources import PublishedArchive, is_inside
from ltrbench.errors import DataError
from ltrbench.provenance import without_password

OnArrival = Callable[[int, int], None]
"""Called with the number of bytes that have arrived and the size of the file."""

_BLOCK = 1 << 16  # bytes
_TIMEOUT = (30.0, 60.0)  # seconds to connect, and without a byte
_OTHER_ADDRESS = "look for the address in the page of the publisher, and pass it with --url."
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError),
    *(EOFError, ValueError, RuntimeError),
)
"""Exceptions on damaged archives, or for a zip archive with a password or an unknown compression."""


def download(url: str, output: IO[bytes], size: int, on_arrival: OnArrival) -> None:
    """Downloads a file of `size` bytes by HTTP.

    Raises:
        DataError: The address cannot be read, or leads to a file of another size.
        OSError: `output` cannot be written.
    """
    shown, arrived = without_password(url), 0
    try:
        headers = {"Accept-Encoding": "identity"}
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            if not response.ok:
                raise DataError(f"{shown} answers {response.status_code} {response.reason}; {_OTHER_ADDRESS}")
            announced = response.headers.get("Content-Length")
            if announced not in (None, str(size)):
                raise DataError(
                    f"{shown} leads to a file of {announced} bytes "
                    f"({response.headers.get('Content-Type', 'of unknown type')}), but data.fetch.size is "
                    f"{size}; it is another file: {_OTHER_ADDRESS}"
                )
            while arrived <= size and (block := response.raw.read(_BLOCK, decode_content=False)):
                output.write(block)
                arrived += len(block)
                on_arrival(arrived, size)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise DataError(
            f"{shown} cannot be read ({type(error).__name__}: {without_password(str(error))}). Check the "
            "connection and repeat the command, or pass another address with --url."
        ) from None
    if arrived != size:
        raise DataError(
            f"{shown} sent {'more than the' if arrived > size else f'only {arrived} of'} {size} bytes of "
            f"data.fetch.size. Repeat the command, or {_OTHER_ADDRESS}"
        )


@dataclass(frozen=True)
class Unpacked:
    """The files of an archive below the folder into which it was unpacked.

    Attributes:
        written: files that did not exist.
        kept: files that existed, and were left as they were.
    """

    written: tuple[Path, ...]
    kept: tuple[Path, ...]


def unpack(file: Path, folder: Path, max_bytes: int, expected: Collection[PurePosixPath] = ()) -> Unpacked:
    """Unpacks an archive into a folder. Existing files are not overwritten.

    Args:
        file: a zip archive if its name ends in .zip, else a tar.gz archive.
        max_bytes: maximum size of all files together.
        expected: files that the archive must have.

    Raises:
        DataError: The archive is damaged, has a member that is no file or folder or is outside of the folder,
            is too large, or lacks an expected file; or the folder cannot be written.
    """
    try:
        # Beside the folder, so that files are moved, also if the folder itself is a link to another disk.
        beside = folder.resolve().parent
        beside.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=beside, prefix=f".{folder.name}.") as name:
            new = Path(name)
            (_extract_zip if file.suffix == ".zip" else _extract_tar)(file, new, max_bytes)
            missing = [path for path in expected if not (new / path).is_file()]
            if missing:
                present = sorted(str(path.relative_to(new)) for path in new.rglob("*") if path.is_file())
                raise DataError(
                    f"{file} has no {missing[0]}, which the paths of the data set need; it has "
                    f"{', '.join(present[:5]) or 'no files'}{' and others' if len(present) > 5 else ''}. Set "
                    "the paths and data.fetch.into in the YAML to its layout."
                )
            return _move(new, folder)
    except _DAMAGED as error:
        raise DataError(
            f"{file} is damaged or of a form that is not supported ({type(error).__name__}: {error}); remove "
            "it and download it again."
        ) from None
    except OSError as error:
        raise DataError(
            f"{file} cannot be unpacked into {folder}: {error.strerror or error}. Make room and the folder "
            "writable, or choose another folder with --root."
        ) from None


def _extract_zip(file: Path, folder: Path, max_bytes: int) -> None:
    with zipfile.ZipFile(file) as archive:
        left = max_bytes
        for info in archive.infolist():
            left -= info.file_size
            _check_member(file, info.orig_filename, max_bytes, left)
        archive.extractall(folder)


def _extract_tar(file: Path, folder: Path, max_bytes: int) -> None:
    left = max_bytes

    def checked(info: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        nonlocal left
        left -= info.size
        if PurePosixPath(info.name) == PurePosixPath("."):
            return None
        _check_member(file, info.name, max_bytes, left)
        if not (info.isfile() or info.isdir()):
            raise _refused(file, f"has a member {info.name[:80]!r} that is neither a file nor a folder")
        return tarfile.data_filter(info, path)

    with tarfile.open(file, "r:gz") as archive:
        archive.extractall(folder, filter=checked)


def _check_member(file: Path, name: str, max_bytes: int, left: int) -> None:
    if not is_inside(name):
        raise _refused(file, f"has a member {name[:80]!r}, whose path is not inside its folder")
    if left < 0:
        raise _refused(file, f"has more than {max_bytes} bytes at {name[:80]!r}")


def _move(new: Path, folder: Path) -> Unpacked:
    """Moves the files of a folder to the same places below another one, except where a file exists."""
    written, kept = [], []
    for path in sorted(path for path in new.rglob("*") if path.is_file()):
        target = folder / path.relative_to(new)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() or target.is_symlink():
            kept.append(target)
        else:
            path.rename(target)
            written.append(target)
    return Unpacked(tuple(written), tuple(kept))


def _refused(file: Path, reason: str) -> DataError:
    return DataError(f"{file} {reason}. It is refused, and nothing was unpacked; check where it comes from.")


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
        DataError: There is no address, it is not verified, or the licence is not accepted.
    """
    address = url or (archive.url if archive.verified else None)
    if address is None:
        reason = "its address is not known"
        if archive.url is not None:
            reason = (
                f"its address {without_password(archive.url)} has not been verified (data.fetch.verified is "
                "false)"
            )
        raise DataError(
            f"data={name} is not downloaded, because {reason}. Download {archive.file} from {archive.page}, "
            f"save it as {(root / archive.file).absolute()} and repeat the command, or pass an address with "
            "--url. Its size and SHA-256 are checked before it is unpacked."
        )
    if archive.must_accept and not accepted:
        raise DataError(
            f"data={name}: the publisher requires that you accept the licence before you download "
            f"{archive.file}. Read it at {archive.page}, and repeat the command with --accept-licence if you "
            "accept it."
        )
    return address


def download_archive(archive: PublishedArchive, root: Path, address: str, on_arrival: OnArrival) -> Path:
    """Downloads an archive into the data folder and returns its path.

    The file appears under its name when its size and SHA-256 are right; otherwise nothing remains.

    Raises:
        DataError: The download fails, it is another file, or the folder cannot be written.
    """
    file = root / archive.file
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=f".{archive.file}.") as folder:
            part = Path(folder, archive.file)
            with part.open("wb") as output:
                download(address, output, archive.size, on_arrival)
            _check(part, archive, "Repeat the command, or pass another address with --url.")
            part.replace(file)
    except OSError as error:
        raise DataError(
            f"{file} cannot be written: {error.strerror}. Make room, or choose another folder with --root."
        ) from None
    return file


def unpack_archive(archive: PublishedArchive, file: Path, root: Path, expected: Sequence[Path]) -> Unpacked:
    """Unpacks an archive where the paths of the data set expect its files.

    Args:
        expected: files of the data set; those outside the folder `archive.into` are not checked.

    Raises:
        DataError: The archive is refused, or lacks an expected file.
    """
    folder = root / archive.into
    inside = [
        PurePosixPath(path.relative_to(folder).as_posix()) for path in expected if path.is_relative_to(folder)
    ]
    return unpack(file, folder, int(archive.max_unpacked_gb * 1e9), inside)


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
