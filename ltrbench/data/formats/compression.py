"""Files that may be compressed: gz, bz2, xz and zst beside plain ones.

What is read is told by its first bytes, so that a wrong name does no harm; what is written, by the ending of
its name. Another compression is one more entry in `COMPRESSIONS`.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from ltrbench.errors import DataError

_BLOCK_BYTES = 1 << 22  # so large that a call's cost vanishes beside it, so small that it is cheap to hold
_PACKED_BYTES = 1 << 20  # of bz2 and xz, which unpack to several times that

# What the libraries raise on a damaged stream; pyarrow's ArrowInvalid is a ValueError.
_DAMAGE = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)


@dataclass(frozen=True, slots=True)
class Compression:
    """One format: how to tell it, how to unpack and pack a stream, and the command that tests a file."""

    ending: str
    magic: bytes
    unpack: Callable[[IO[bytes]], Any]  # to a stream of bytes, which the libraries type each in its own way
    pack: Callable[[IO[bytes]], Any]
    test: str


class _Streams:
    """Packed streams, read one after the other, as `cat` joins them; zeros after one are padding.

    Python's BZ2File and LZMAFile pass over what follows a whole stream and is not another one: of a file that
    is damaged there they would read the beginning, and not say so.
    """

    def __init__(
        self, new: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor], raw: IO[bytes]
    ) -> None:
        self._new = new
        self._raw = raw
        self._stream = new()

    def read(self, size: int) -> bytes:
        """At most `size` bytes, none at the end.

        Raises:
            EOFError, OSError or LZMAError: where the file is cut off or damaged.
        """
        while True:
            packed = b""
            if self._stream.eof:
                packed = self._after_stream()
                if not packed:
                    return b""
                self._stream = self._new()
            elif self._stream.needs_input:
                packed = self._raw.read(_PACKED_BYTES)
                if not packed:
                    raise EOFError("it ends before the end of its stream")
            plain = self._stream.decompress(packed, size)
            if plain:
                return plain

    def _after_stream(self) -> bytes:
        rest = self._stream.unused_data.lstrip(b"\0")
        while not rest and (packed := self._raw.read(_PACKED_BYTES)):
            rest = packed.lstrip(b"\0")
        return rest


def _unpack_gz(packed: IO[bytes]) -> Any:
    return gzip.GzipFile(fileobj=packed, mode="rb")


def _pack_gz(plain: IO[bytes]) -> Any:
    # Without a time and a name, so that the same data gives the same bytes.
    return gzip.GzipFile(filename="", fileobj=plain, mode="wb", compresslevel=6, mtime=0)


def _unpack_zst(packed: IO[bytes]) -> Any:
    # Late, because pyarrow takes a tenth of a second that --help does not have.
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, mode="r"), "zstd")


def _pack_zst(plain: IO[bytes]) -> Any:
    import pyarrow

    return pyarrow.CompressedOutputStream(pyarrow.PythonFile(plain, mode="w"), "zstd")


COMPRESSIONS = (
    Compression(".gz", b"\x1f\x8b", _unpack_gz, _pack_gz, "gzip -t"),
    Compression(
        ".bz2", b"BZh", partial(_Streams, bz2.BZ2Decompressor), partial(bz2.BZ2File, mode="w"), "bzip2 -t"
    ),
    Compression(
        ".xz",
        b"\xfd7zXZ\x00",
        partial(_Streams, lzma.LZMADecompressor),
        partial(lzma.LZMAFile, mode="w"),
        "xz -t",
    ),
    Compression(".zst", b"\x28\xb5\x2f\xfd", _unpack_zst, _pack_zst, "zstd -t"),
)


def without_compression_ending(path: Path) -> Path:
    """The name that the file has when it is unpacked.

    >>> without_compression_ending(Path("rank.train.gz")).name
    'rank.train'
    """
    return path.with_suffix("") if _told_by_ending(path) else path


def read_blocks(path: Path) -> Iterator[tuple[bytes, int]]:
    """The unpacked text in blocks of whole lines, each with the number of its first line.

    A mark of UTF-8 at the beginning of the file is left out.

    Raises:
        DataError: where the file is absent, a folder, locked, damaged or cut off.
    """
    first_line = 1
    rest = b""  # the beginning of a line whose end is not read yet
    with _open(path) as raw:
        kind = _told_by_content(raw)
        stream = raw if kind is None else _unpacked(raw, kind, path)
        while True:
            try:
                piece = stream.read(_BLOCK_BYTES)
            except _DAMAGE as error:
                raise _damaged(path, first_line, kind, error) from None
            end = piece.rfind(b"\n") + 1
            text, rest = (rest + piece[:end], piece[end:]) if end else (b"", rest + piece)
            if not piece and rest:
                text, rest = rest, b""
            if text:
                yield (text.removeprefix(codecs.BOM_UTF8) if first_line == 1 else text), first_line
                first_line += text.count(b"\n")
            elif not piece:
                return


def _unpacked(raw: IO[bytes], kind: Compression, path: Path) -> IO[bytes]:
    try:
        stream: IO[bytes] = kind.unpack(raw)
    except _DAMAGE as error:
        raise _damaged(path, 1, kind, error) from None
    return stream


def _damaged(path: Path, line: int, kind: Compression | None, error: Exception) -> DataError:
    if kind is None:
        return DataError(
            f"{path}:{line}: somewhere after this line the file cannot be read ({error}). Copy it again."
        )
    return DataError(
        f"{path}:{line}: somewhere after this line the {kind.ending[1:]} file is damaged or cut off "
        f"({error}). Copy or download it again; `{kind.test}` tests it."
    )


def _told_by_content(raw: BufferedReader) -> Compression | None:
    # Looked at and not taken, because a pipe cannot go back.
    first = raw.peek(6)
    return next((kind for kind in COMPRESSIONS if first.startswith(kind.magic)), None)


def _told_by_ending(path: Path) -> Compression | None:
    return next((kind for kind in COMPRESSIONS if path.suffix.lower() == kind.ending), None)


@contextmanager
def _open(path: Path) -> Iterator[BufferedReader]:
    try:
        raw = path.open("rb")
    except FileNotFoundError:
        raise DataError(
            f"{path}: there is no such file (seen from {Path.cwd()}). Check the path, or get the data."
        ) from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder; name the file in it that should be read.") from None
    except OSError as error:
        raise DataError(
            f"{path}: cannot be opened ({error.strerror}). Check the path and its rights."
        ) from None
    with raw:
        yield raw


@contextmanager
def write_whole(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content becomes `path` at the end of the block, compressed as its ending says.

    Where the block fails, nothing is left behind, and what was at `path` stays.

    Raises:
        DataError: where the path is a folder, or its folder is absent or cannot be written to.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name the file in it that should be written.")
    kind = _told_by_ending(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror}). Check the folder and its rights."
        ) from None
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as raw:
            if kind is None:
                yield raw
            else:
                with kind.pack(raw) as packed:
                    yield packed
        unfinished.chmod(0o666 & ~_umask())  # mkstemp's file is its owner's alone
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _umask() -> int:
    # It can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
