"""Finds or downloads the archive of a published data set, checks it, and unpacks it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import hashlib
import lzma
import os
import re
import shutil
import stat
import struct
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from io import FileIO
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.utils import get_auth_from_url

from ltrbench.data.sources import PublishedArchive, is_inside
from ltrbench.errors import DataError
from ltrbench.provenance import without_password

# ---- Downloads a file by HTTP. What has arrived stays in the partial file, and the next attempt continues
# it.
#
# Only http and https are followed, over a limited number of redirects. Passwords of ~/.netrc are not sent.

OnArrival = Callable[[int, int], None]
"""Called with the number of bytes that have arrived and the size of the file."""

MAX_REDIRECTS = 5
ATTEMPTS = 3
"""Number of consecutive attempts without a new byte after which a download ends."""

_BLOCK = 1 << 16  # bytes; a broken connection loses at most one block
_TIMEOUT = (30.0, 60.0)  # seconds to connect, and without a byte


class _Interrupted(Exception):  # noqa: N818  # an event that the next attempt may overcome
    """The connection broke or the server is busy."""


def download(
    url: str, part: FileIO, size: int, on_arrival: OnArrival, pause: Callable[[float], None] = time.sleep
) -> None:
    """Appends the missing bytes of a file to `part`, which is open for appending.

    Args:
        size: size of the whole file in bytes; the server must announce the same.
        pause: waits for a number of seconds before another attempt.

    Raises:
        DataError: The address is not http or https, leads to another file, or cannot be read to the end. What
            has arrived stays in `part`.
        OSError: `part` cannot be written.
    """
    failures = 0
    while (start := part.tell()) < size:
        try:
            _continue(url, part, size, on_arrival)
        except _Interrupted as interruption:
            failures = 0 if part.tell() > start else failures + 1
            if failures == ATTEMPTS:
                raise DataError(
                    f"{without_password(url)}: {interruption}. {part.tell()} of {size} bytes have arrived; "
                    "repeat the command to continue from there, or pass another address with --url."
                ) from None
            pause(2.0**failures)


def _continue(url: str, part: FileIO, size: int, on_arrival: OnArrival) -> None:
    """Appends the bytes that one connection delivers.

    Raises:
        _Interrupted: The connection broke before the end.
    """
    start = part.tell()
    try:
        with requests.Session() as session, _response(session, url, start) as response:
            # A server that ignores Range begins at the first byte.
            position = start if _is_rest(response, url, start, size) else 0
            while position <= size and (block := response.raw.read(_BLOCK, decode_content=False)):
                _append(part, block[max(start - position, 0) :][: size - part.tell()])
                position += len(block)
                on_arrival(part.tell(), size)
    except ValueError as error:
        raise DataError(
            f"{without_password(url)} cannot be used as an address ({error}); pass another one with --url."
        ) from None
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise _Interrupted(f"the connection failed ({_cause(error)})") from None
    if position > size:
        raise DataError(
            f"{without_password(url)} has more than the {size} bytes of data.fetch.size; it is another file. "
            "Look for the address in the page of the publisher, and pass it with --url."
        )
    if position < size:
        raise _Interrupted("the server ended the connection early")


def _cause(error: Exception) -> str:
    """Returns the kind of an error, such as NameResolutionError, which requests wraps in another one."""
    wrapped = error.args[0] if error.args else None
    return type(getattr(wrapped, "reason", None) or error).__name__


def _append(part: FileIO, block: bytes) -> None:
    while block:
        block = block[part.write(block) :]


def _response(session: requests.Session, url: str, start: int) -> requests.Response:
    """Returns the response after redirects to a request for the bytes from `start` on."""
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    address = url
    for _ in range(MAX_REDIRECTS + 1):
        if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
            source = "" if address == url else f", to which {without_password(url)} redirects,"
            raise DataError(
                f"The address {without_password(address)}{source} is not http:// or https://; pass another "
                "one with --url."
            )
        response = _get(session, address, headers)
        if not response.is_redirect:
            return response
        response.close()
        address = urljoin(address, response.headers["Location"])
    raise DataError(
        f"{without_password(url)} redirects more than {MAX_REDIRECTS} times; open it in a browser, and pass "
        "the address at which it ends with --url."
    )


def _get(session: requests.Session, address: str, headers: dict[str, str]) -> requests.Response:
    """Returns the response of an address, which may be a redirect.

    Raises:
        DataError: A file of certificates that the environment names does not exist.
    """
    auth = get_auth_from_url(address)
    try:
        return session.get(
            address,
            headers=headers,
            # A function that adds nothing keeps requests from sending a password of ~/.netrc.
            auth=auth if any(auth) else lambda request: request,
            stream=True,
            allow_redirects=False,
            timeout=_TIMEOUT,
        )
    except requests.RequestException:  # also an OSError
        raise
    except OSError as error:
        raise DataError(
            f"{without_password(address)} cannot be read: {error}. Check the environment variables "
            "REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE."
        ) from None


def _is_rest(response: requests.Response, url: str, start: int, size: int) -> bool:
    """Returns whether a response begins at byte `start`; if not, it begins at the first byte.

    Raises:
        _Interrupted: The server is busy.
        DataError: The response is an error, or belongs to a file of another size.
    """
    status, headers = response.status_code, response.headers
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise _Interrupted(f"the server answers {status} {response.reason}")
    if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        raise DataError(
            f"{without_password(url)} answers {status} {response.reason}; look for the address in the page "
            "of the publisher, and pass it with --url."
        )
    announced = headers.get("Content-Length")
    if status == HTTPStatus.PARTIAL_CONTENT:
        extent = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", headers.get("Content-Range", ""))
        if extent is None or int(extent[1]) != start:
            raise DataError(
                f"{without_password(url)} answers a request for the bytes from {start} on with "
                f"Content-Range {headers.get('Content-Range')!r}; pass another address with --url."
            )
        announced = extent[2]
    if announced is not None and announced != str(size):
        raise DataError(
            f"{without_password(url)} leads to a file of {announced} bytes "
            f"({headers.get('Content-Type', 'of unknown type')}), but data.fetch.size is {size}; it is "
            "another file. Look for the address in the page of the publisher, and pass it with --url."
        )
    return status == HTTPStatus.PARTIAL_CONTENT


# ---- Unpacks zip and tar.gz archives that are not trusted.
#
# Only folders and regular files are unpacked, as new files with default permissions, inside a new folder.
# Links, devices, absolute paths, `..`, a second file of the same name, and more files or bytes than
# expected are refused, which is stricter than the filter "data" of tarfile. If an archive is refused,
# nothing of it is kept. A symbolic link that is already below the folder is not followed.

MAX_MEMBERS = 10_000
"""Maximum number of files and folders in an archive; the largest published one has about 20."""

_UNPACKED_BLOCK = 1 << 20  # bytes
_SHOWN_NAME = 80  # characters of a name in messages; a header may have a name of a million
# Not LZMA, whose header demands up to 4 GB of memory.
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
# What zipfile, tarfile and the decompressors raise on damaged input. A RuntimeError is a password of a zip
# file, or headers of a tar file that refer to each other without end.
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, ValueError, RuntimeError, LookupError, ArithmeticError),
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


class _Member(NamedTuple):
    """A file or folder of an archive; `content` is None for a folder, and closed before the next member."""

    name: str
    size: int
    content: IO[bytes] | None


def unpack(file: Path, folder: Path, max_bytes: int, expected: Collection[PurePosixPath] = ()) -> Unpacked:
    """Unpacks an archive into a folder. Existing files are not overwritten.

    Args:
        file: a zip archive if its name ends in .zip, else a tar.gz archive.
        max_bytes: maximum size of all files together.
        expected: files that the archive must have.

    Raises:
        DataError: The archive is damaged, has a member that is refused, is too large, or lacks an expected
            file; or the folder cannot be written, or has a symbolic link in the place of a folder.
    """
    try:
        # Beside the folder, so that files are moved and not copied, also if the folder itself is a link to
        # another disk.
        beside = folder.resolve().parent
        beside.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=beside, prefix=f".{folder.name}.") as name:
            new = Path(name)
            _extract(file, new, max_bytes)
            _check_layout(file, new, expected)
            _check_links(file, new, folder)
            return _move(new, folder)
    except _DAMAGED as error:
        raise _damaged(file, error) from None
    except OSError as error:
        # Decompressors raise an error without a number; positions that make no sense are invalid arguments.
        if error.filename is None and error.errno in (None, errno.EINVAL):
            raise _damaged(file, error) from None
        place = f" ({error.filename})" if error.filename else ""
        raise DataError(
            f"{file} cannot be unpacked into {folder}: {error.strerror}{place}. Make room and the folder "
            "writable, or choose another folder with --root."
        ) from None


def _extract(file: Path, folder: Path, max_bytes: int) -> None:
    """Writes the members of an archive into an empty folder."""
    left = max_bytes
    # Closed at once, also if a member is refused.
    with contextlib.closing(_members(file, max_bytes)) as members:
        for number, member in enumerate(members, start=1):
            if number > MAX_MEMBERS:
                raise _refused(file, f"has more than {MAX_MEMBERS} files and folders")
            if member.content is None and PurePosixPath(member.name) == PurePosixPath("."):
                continue
            name = _shown(member.name)
            if not is_inside(member.name):
                raise _refused(file, f"has a member {name}, whose path is not inside its folder")
            path = folder / PurePosixPath(member.name)
            if member.content is None:
                with _refusing_its_path(member, file):
                    path.mkdir(parents=True, exist_ok=True)
                continue
            if not 0 <= member.size <= left:
                raise _refused(file, f"has more than {max_bytes} bytes at {name}")
            if member.size > (free := shutil.disk_usage(folder).free):
                raise DataError(
                    f"{file}: {name} has {member.size} bytes, but {folder.parent} has {free} bytes free; "
                    "make room, or choose another folder with --root."
                )
            left -= _write(member.content, path, member, file)


@contextlib.contextmanager
def _refusing_its_path(member: _Member, file: Path) -> Iterator[None]:
    """Refuses a member whose path another member has, or is too long, when it is created."""
    try:
        yield
    except (FileExistsError, NotADirectoryError):
        raise _refused(file, f"has two members for the path {_shown(member.name)}") from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise _refused(file, f"has a member {_shown(member.name)}, whose name is too long") from None


def _write(content: IO[bytes], path: Path, member: _Member, file: Path) -> int:
    """Writes a new file and returns its size, which must be the one that the archive declares."""
    written = 0
    with _refusing_its_path(member, file):
        path.parent.mkdir(parents=True, exist_ok=True)
        output = path.open("xb")
    with output:
        while block := content.read(_UNPACKED_BLOCK):
            written += len(block)
            if written > member.size:
                break
            output.write(block)
    if written != member.size:
        raise _refused(
            file, f"declares {member.size} bytes for {_shown(member.name)}, but has {written} or more"
        )
    return written


def _members(file: Path, max_bytes: int) -> Generator[_Member]:
    return _zip_members(file) if file.suffix == ".zip" else _tar_members(file, max_bytes)


def _zip_members(file: Path) -> Generator[_Member]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            # The upper half has the file mode of Unix; 0 where the archive was made elsewhere.
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refused(file, f"has a member {_shown(info.orig_filename)} that is a link or a device")
            if info.compress_type not in _COMPRESSIONS:
                raise _refused(
                    file,
                    f"has a member {_shown(info.orig_filename)} of compression method {info.compress_type}, "
                    "which is neither deflate nor bzip2",
                )
            # `orig_filename` is the name before zipfile cuts it at a zero byte.
            if info.is_dir():
                yield _Member(info.orig_filename, info.file_size, None)
            else:
                with archive.open(info) as content:
                    yield _Member(info.orig_filename, info.file_size, content)


def _tar_members(file: Path, max_bytes: int) -> Generator[_Member]:
    with (
        gzip.open(file, "rb") as unzipped,
        tarfile.open(fileobj=_Bounded(unzipped, file, max_bytes), mode="r:") as archive,  # type: ignore[call-overload]
    ):
        for info in archive:
            if info.size < 0 or info.issparse() or not (info.isfile() or info.isdir()):
                raise _refused(file, f"has a member {_shown(info.name)} that is neither a file nor a folder")
            yield _Member(info.name, info.size, None if info.isdir() else archive.extractfile(info))


class _Bounded:
    """The decompressed stream of a tar.gz archive. tarfile reads headers of any length at once; this stream
    refuses such a read, and positions after the largest allowed size."""

    def __init__(self, stream: gzip.GzipFile, file: Path, max_bytes: int) -> None:
        self._stream = stream
        self._file = file
        # A member takes at most two blocks of 512 bytes beside its content, or a few more with a long name.
        self._end = max_bytes + MAX_MEMBERS * 4096

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _UNPACKED_BLOCK:
            raise _refused(self._file, "has a header of more than 1 MB or of a negative length")
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        if not 0 <= position <= self._end:
            raise _refused(self._file, f"reaches beyond {self._end} bytes")
        return self._stream.seek(position)

    def tell(self) -> int:
        return self._stream.tell()


def _check_layout(file: Path, folder: Path, expected: Collection[PurePosixPath]) -> None:
    missing = [path for path in expected if not (folder / path).is_file()]
    if missing:
        present = sorted(
            _shown(str(path.relative_to(folder))) for path in folder.rglob("*") if path.is_file()
        )
        raise DataError(
            f"{file} has no {missing[0]}, which the paths of the data set need; it has "
            f"{', '.join(present[:5]) or 'no files'}{' and others' if len(present) > 5 else ''}. Set the "
            "paths and data.fetch.into in the YAML to its layout."
        )


def _check_links(file: Path, new: Path, folder: Path) -> None:
    """Raises DataError if a folder of the archive is a symbolic link below the folder to unpack into."""
    for path in sorted(path for path in new.rglob("*") if path.is_dir()):
        place = folder / path.relative_to(new)
        if place.is_symlink():
            raise DataError(
                f"{place} is a symbolic link to {place.resolve()}, and {file} is unpacked below {folder} "
                "only. Nothing was unpacked; remove the link, or choose another folder with --root."
            )


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


def _shown(name: str) -> str:
    """Returns the name of a member for messages."""
    return repr(name if len(name) <= _SHOWN_NAME else f"{name[:_SHOWN_NAME]}...")


def _damaged(file: Path, error: Exception) -> DataError:
    return DataError(
        f"{file} is damaged or of a form that is not supported ({type(error).__name__}: {error}); remove it "
        "and download it again."
    )


def _refused(file: Path, reason: str) -> DataError:
    return DataError(f"{file} {reason}. It is refused, and nothing was unpacked; check where it comes from.")


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
