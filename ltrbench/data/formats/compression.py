"""Reads and writes plain and compressed files: gz, bz2, xz and zst.

Readers detect the compression from the first bytes, so that a wrong file extension does no harm. Writers
choose it by the extension. To support another compression, add an entry to `COMPRESSIONS`.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np

from ltrbench.data.store.manifest import is_store
from ltrbench.errors import DataError

# Large enough to hide the overhead of a call. Larger blocks are new memory of the system each time, which
# takes longer than reading [measured].
_BLOCK_BYTES = 1 << 18
_PACKED_BYTES = 1 << 20  # read at a time from bz2 and xz, which expand to several times that size

# Exceptions of the libraries on a damaged stream; pyarrow's ArrowInvalid is a ValueError.
_DAMAGE = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)


@dataclass(frozen=True, slots=True)
class Compression:
    """Compression format: its magic bytes, stream functions, and the command that tests a file."""

    ending: str
    magic: bytes
    unpack: Callable[[IO[bytes]], Any]  # returns a byte stream, whose type depends on the library
    pack: Callable[[IO[bytes]], Any]
    test: str


class _Streams:
    """Concatenated compressed streams, as `cat` joins them; zeros after a stream are padding.

    Python's BZ2File and LZMAFile ignore any bytes after a complete stream that are not another stream: they
    would silently read only the beginning of a file that is damaged there.
    """

    def __init__(
        self, new: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor], raw: IO[bytes]
    ) -> None:
        self._new = new
        self._raw = raw
        self._stream = new()

    def read(self, size: int) -> bytes:
        """Returns at most `size` bytes; empty at the end.

        Raises:
            EOFError, OSError or LZMAError: The file is truncated or damaged.
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
                    raise EOFError("the file ends before the end of its stream")
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
    # Imported here, because pyarrow takes a tenth of a second, too long for --help.
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
    """Returns the path without the extension of a compression format.

    >>> without_compression_ending(Path("rank.train.gz")).name
    'rank.train'
    """
    return path.with_suffix("") if _told_by_ending(path) else path


Blocks = Iterator[tuple[bytes, int]]
"""Uncompressed text in blocks of whole lines, each with the number of its first line."""


def read_blocks(path: Path) -> Blocks:
    """Yields the uncompressed text of a file.

    A UTF-8 byte order mark at the beginning of the file is removed.

    Raises:
        DataError: The file does not exist, is a folder, cannot be opened, or is damaged or truncated.
    """
    with _open(path) as raw:
        yield from blocks_of(raw, path)


@dataclass(frozen=True, slots=True)
class Text:
    """File that can be read, and decompressed, several times."""

    path: Path  # for messages
    content: Path  # path of the content: a temporary file if `path` is a pipe

    @contextmanager
    def open(self) -> Iterator[BufferedReader]:
        """Yields the file as it is, compressed or plain.

        Raises:
            DataError: The file does not exist, is a folder, or cannot be opened.
        """
        with _open(self.content) as raw:
            yield raw

    def blocks(self) -> Blocks:
        """Yields the uncompressed text, as `read_blocks`."""
        with self.open() as raw:
            yield from blocks_of(raw, self.path)


@contextmanager
def read_twice(path: Path) -> Iterator[Text]:
    """Yields a text that can be read several times.

    A pipe can be read only once, so that its content is copied into a temporary file first.

    Raises:
        DataError: There is no space for the temporary file.
    """
    if path.is_file() or path.is_dir() or not path.exists():
        yield Text(path, path)
        return
    with _open(path) as pipe, tempfile.NamedTemporaryFile(prefix="ltrbench-") as copy:
        try:
            shutil.copyfileobj(pipe, copy)
            copy.flush()
        except OSError as error:
            raise DataError(
                f"{path}: the pipe cannot be copied to {copy.name} ({error.strerror}). Set TMPDIR to a "
                "folder with enough space, or pass a file."
            ) from None
        yield Text(path, Path(copy.name))


def is_compressed(raw: BufferedReader) -> bool:
    """Returns whether a file that is at its beginning is compressed."""
    return _told_by_content(raw) is not None


def blocks_of(raw: BufferedReader, path: Path) -> Blocks:
    """Yields the uncompressed text of an open file, as `read_blocks`; the path is for messages."""
    first_line = 1
    rest = b""  # incomplete last line of the bytes read so far
    kind = _told_by_content(raw)
    stream = raw if kind is None else _unpacked(raw, kind, path)
    while True:
        try:
            piece = stream.read(_BLOCK_BYTES)
        except _DAMAGE as error:
            raise _damaged(path, first_line, kind, error) from None
        end = piece.rfind(b"\n") + 1
        # A view, because another copy would take as long as reading.
        text, rest = (b"".join((rest, memoryview(piece)[:end])), piece[end:]) if end else (b"", rest + piece)
        if not piece and rest:
            text, rest = rest, b""
        if text:
            yield (text.removeprefix(codecs.BOM_UTF8) if first_line == 1 else text), first_line
            # Takes a quarter of the time of text.count [measured].
            first_line += int(np.count_nonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n")))
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
            f"{path}:{line}: the file cannot be read after this line ({error}). Copy the file again."
        )
    return DataError(
        f"{path}:{line}: the {kind.ending[1:]} file is damaged or truncated somewhere after this line "
        f"({error}). Copy or download the file again; `{kind.test}` tests it."
    )


def _told_by_content(raw: BufferedReader) -> Compression | None:
    # peek instead of read, because a pipe cannot seek back.
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
            f"{path}: the file does not exist (current folder {Path.cwd()}). Check the path, or download the "
            "data."
        ) from None
    except IsADirectoryError:
        remedy = "use data=store to read it" if is_store(path) else "pass the path of a file in it"
        kind = "a store" if is_store(path) else "a folder"
        raise DataError(f"{path}: this is {kind}; {remedy}.") from None
    except OSError as error:
        raise DataError(
            f"{path}: the file cannot be opened ({error.strerror}). Check the path and its permissions."
        ) from None
    with raw:
        yield raw


@contextmanager
def write_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yields a stream whose content replaces `path` at the end of the block, compressed by the extension.

    If the block fails, an existing file stays unchanged and nothing else remains.

    Raises:
        DataError: The path is a folder, or its folder does not exist or is not writable.
    """
    if path.is_dir():
        raise DataError(f"{path}: this is a folder; pass the path of a file in it.")
    kind = _told_by_ending(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise DataError(
            f"{path}: the file cannot be written ({error.strerror}). Check the folder and its permissions."
        ) from None
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as raw:
            if kind is None:
                yield raw
            else:
                with kind.pack(raw) as packed:
                    yield packed
        unfinished.chmod(0o666 & ~_umask())  # mkstemp creates a file that only its owner can read
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _umask() -> int:
    # The umask can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
