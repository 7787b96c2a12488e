"""Unpacks zip and tar.gz archives that are not trusted.

Only folders and regular files are unpacked, as new files with default permissions, inside a new folder.
Links, devices, absolute paths, `..`, a second file of the same name, and more files or bytes than expected
are refused, which is stricter than the filter "data" of tarfile. If an archive is refused, nothing of it is
kept. A symbolic link that is already below the folder is not followed.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import lzma
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from ltrbench.data.fetching.archive import is_inside
from ltrbench.errors import DataError

MAX_MEMBERS = 10_000
"""Maximum number of files and folders in an archive; the largest published one has about 20."""

_BLOCK = 1 << 20  # bytes
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
        while block := content.read(_BLOCK):
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
        if not 0 <= size <= _BLOCK:
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
