"""Unpacks zip and tar.gz archives that are not trusted.

Only folders and regular files are unpacked, as new files with default permissions, inside a new folder.
Links, devices, absolute paths, `..`, a second file of the same name, and more files or bytes than expected
are refused, which is stricter than the filter "data" of tarfile. If an archive is refused, nothing of it is
kept.
"""

from __future__ import annotations

import gzip
import lzma
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from ltrbench.data.fetching.archive import is_inside
from ltrbench.errors import DataError

MAX_MEMBERS = 10_000
"""Maximum number of files and folders in an archive; the largest published one has about 20."""

_BLOCK = 1 << 20  # bytes
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
            file.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside the folder, so that files are moved and not copied.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as name:
            new = Path(name)
            _extract(file, new, max_bytes)
            _check_layout(file, new, expected)
            return _move(new, folder)
    except _DAMAGED as error:
        raise DataError(
            f"{file} is damaged or of a form that is not supported ({type(error).__name__}: {error}); remove "
            "it and download it again."
        ) from None
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        raise DataError(
            f"{file} cannot be unpacked into {folder}: {error.strerror or error}{place}. Make the folder "
            "writable, choose another one with --root, or download the archive again if it is damaged."
        ) from None


def _extract(file: Path, folder: Path, max_bytes: int) -> None:
    """Writes the members of an archive into an empty folder."""
    left = max_bytes
    for number, member in enumerate(_members(file, max_bytes), start=1):
        if number > MAX_MEMBERS:
            raise _refused(file, f"has more than {MAX_MEMBERS} files and folders")
        if member.content is None and PurePosixPath(member.name) == PurePosixPath("."):
            continue
        if not is_inside(member.name):
            raise _refused(file, f"has a member {member.name!r}, whose path is not inside its folder")
        path = folder / PurePosixPath(member.name)
        if member.content is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        if not 0 <= member.size <= left:
            raise _refused(file, f"has more than {max_bytes} bytes at {member.name!r}")
        if member.size > (free := shutil.disk_usage(folder).free):
            raise DataError(
                f"{file}: {member.name!r} has {member.size} bytes, but {folder.parent} has {free} bytes "
                "free; make room, or choose another folder with --root."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        left -= _write(member.content, path, member.size, file)


def _write(content: IO[bytes], path: Path, size: int, file: Path) -> int:
    """Writes a new file and returns its size, which must be the one that the archive declares."""
    written = 0
    with content, path.open("xb") as output:
        while block := content.read(_BLOCK):
            written += len(block)
            if written > size:
                break
            output.write(block)
    if written != size:
        raise _refused(file, f"declares {size} bytes for {path.name!r}, but has {written} or more")
    return written


def _members(file: Path, max_bytes: int) -> Iterator[_Member]:
    return _zip_members(file) if file.suffix == ".zip" else _tar_members(file, max_bytes)


def _zip_members(file: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            # The upper half has the file mode of Unix; 0 where the archive was made elsewhere.
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refused(file, f"has a member {info.orig_filename!r} that is a link or a device")
            # `orig_filename` is the name before zipfile cuts it at a zero byte.
            content = None if info.is_dir() else archive.open(info)
            yield _Member(info.orig_filename, info.file_size, content)


def _tar_members(file: Path, max_bytes: int) -> Iterator[_Member]:
    with (
        gzip.open(file, "rb") as unzipped,
        tarfile.open(fileobj=_Bounded(unzipped, file, max_bytes), mode="r:") as archive,  # type: ignore[call-overload]
    ):
        for info in archive:
            if info.size < 0 or info.issparse() or not (info.isfile() or info.isdir()):
                raise _refused(file, f"has a member {info.name!r} that is neither a file nor a folder")
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
        present = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        raise DataError(
            f"{file} has no {missing[0]}, which the paths of the data set need; it has "
            f"{', '.join(present[:5]) or 'no files'}{' and others' if len(present) > 5 else ''}. Set the "
            "paths and data.fetch.into in the YAML to its layout."
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


def _refused(file: Path, reason: str) -> DataError:
    return DataError(f"{file} {reason}. It is refused, and nothing was unpacked; check where it comes from.")
