"""Finds or downloads the archive of a published data set, checks it, and unpacks it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path, PurePosixPath

from ltrbench.data.fetching.archive import PublishedArchive
from ltrbench.data.fetching.transfer import OnArrival, download
from ltrbench.data.fetching.unpacking import Unpacked, unpack
from ltrbench.errors import DataError
from ltrbench.measure.provenance import without_password

_PART = ".part"
"""Ending of a file that is not downloaded completely."""


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

    An interrupted download stays in FILE.part and is continued. The file appears under its name when its size
    and SHA-256 are right; a complete file with another SHA-256 is removed.

    Raises:
        DataError: The download fails, another command is downloading the file, or it is another file.
    """
    file, part = root / archive.file, root / f"{archive.file}{_PART}"
    with _locked(part) as output:
        # Another command may have finished it since the caller looked.
        if file.exists():
            return file
        try:
            download(address, output, archive.size, on_arrival)
        except OSError as error:
            raise DataError(
                f"{part} cannot be written: {error.strerror}. {output.tell()} of {archive.size} bytes have "
                "arrived; make room, and repeat the command to continue from there."
            ) from None
        try:
            _check(
                part,
                archive,
                "It was removed; repeat the command, and if this happens again, pass another address with "
                "--url.",
            )
        except DataError:
            part.unlink()
            raise
        part.rename(file)
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


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[FileIO]:
    """Opens a partial file for appending while no other process does so; removes it if it stays empty.

    Raises:
        DataError: Another process downloads the file, or it cannot be written.
    """
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        # A link of this name is refused: the download would be written to another place.
        descriptor = os.open(part, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise DataError(
            f"{part} cannot be written: {error.strerror}. Choose another folder with --root."
        ) from None
    # Unbuffered, so that every byte that has arrived is in the file.
    with FileIO(descriptor, "ab") as output:
        _lock(output, part)
        try:
            yield output
        finally:
            if part.exists() and part.stat().st_size == 0:
                part.unlink()


def _lock(output: FileIO, part: Path) -> None:
    """Raises DataError if another process has locked a partial file, or removed it after it was opened."""
    busy = DataError(
        f"{part} is being written by another command; wait until it has ended, and repeat this one."
    )
    try:
        fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise busy from None
    except OSError as error:
        raise DataError(
            f"{part} cannot be locked: {error.strerror}. Choose a folder on another disk with --root."
        ) from None
    if os.fstat(output.fileno()).st_nlink == 0:
        raise busy


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
