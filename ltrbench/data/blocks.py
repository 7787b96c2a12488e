"""Reads and writes files of text by blocks of lines, and groups rows by query: what all readers share.

compression   `read_blocks`, `write_whole`: plain files, and files packed as gz, bz2, xz or zst
units         `for_each_unit`: about a megabyte of lines each, on all cores
grouping      `gather`: rows by query
options       checks of reader options
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import numbers
import os
import re
import secrets
import stat
import unicodedata
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError, DataError
from ltrbench.measure import available_cores
from ltrbench.shapes import QueryStart

# ---- Compressed files. Reading detects the format from the content, writing from the extension.

# Large enough to hide the overhead of a call. Larger blocks are new memory of the system each time, which
# takes longer than reading [measured].
_BLOCK_BYTES = 1 << 18

# Exceptions of the libraries on a damaged stream; pyarrow's ArrowInvalid is a ValueError.
_DAMAGE = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)


def _gz(file: IO[bytes], mode: str) -> Any:
    # Without a time and a name, so that the same data gives the same bytes.
    return gzip.GzipFile(filename="", fileobj=file, mode=mode, compresslevel=6, mtime=0)


def _zst(file: IO[bytes], mode: str) -> Any:
    # Imported here, because pyarrow takes a tenth of a second, too long for --help.
    import pyarrow

    stream = (
        pyarrow.CompressedInputStream
        if mode == "rb"
        else pyarrow.CompressedOutputStream
    )
    return stream(pyarrow.PythonFile(file, mode[0]), "zstd")


COMPRESSIONS: dict[str, tuple[bytes, Callable[..., Any]]] = {
    ".gz": (b"\x1f\x8b", _gz),
    ".bz2": (b"BZh", bz2.BZ2File),
    ".xz": (b"\xfd7zXZ\x00", lzma.LZMAFile),
    ".zst": (b"\x28\xb5\x2f\xfd", _zst),
}
"""Extension -> magic bytes, and a function that opens a stream in a file with the mode rb or wb."""


def without_compression_ending(path: Path) -> Path:
    """Returns the path without the extension of a compression format.

    >>> without_compression_ending(Path("rank.train.gz")).name
    'rank.train'
    """
    if path.suffix.lower() in COMPRESSIONS:
        return path.with_suffix("")
    return path


def companion(path: Path, ending: str) -> Path:
    """Returns the path of LightGBM's file beside a data file: query sizes, weights, positions, scores.

    >>> companion(Path("rank.train.gz"), ".query").name
    'rank.train.query'
    """
    return Path(f"{without_compression_ending(path)}{ending}")


def refuse_initial_scores(paths: Sequence[Path]) -> None:
    """Raises DataError if a data file has LightGBM's file of initial scores beside it."""
    for start in (companion(path, ".init") for path in paths):
        if start.exists():
            raise DataError(
                f"{start}: LightGBM would add these initial scores to those of its trees, but no ranker here "
                "does. Move the file to another folder to train without them."
            )


Blocks = Iterator[tuple[bytes, int]]
"""Uncompressed text in blocks of whole lines, each with the number of its first line."""


def read_blocks(path: Path) -> Blocks:
    """Yields the uncompressed text of a file.

    A UTF-8 byte order mark at the beginning of the file is removed.

    Raises:
        DataError: The file does not exist, is a folder, cannot be opened, or is damaged or truncated.
    """
    with _open(path) as raw:
        yield from _blocks_of(raw, path)


def _blocks_of(raw: BufferedReader, path: Path) -> Blocks:
    first_line = 1
    rest = b""  # incomplete last line of the bytes read so far
    ending = _packed_as(raw)
    try:
        stream: Any = raw
        if ending is not None:
            _, decompress = COMPRESSIONS[ending]
            stream = decompress(raw, "rb")
        while piece := stream.read(_BLOCK_BYTES):
            end = piece.rfind(b"\n") + 1
            if not end:
                rest += piece
                continue
            # A view, because another copy would take as long as reading.
            text = b"".join((rest, memoryview(piece)[:end]))
            rest = piece[end:]
            if first_line == 1:
                yield text.removeprefix(codecs.BOM_UTF8), first_line
            else:
                yield text, first_line
            # Takes a quarter of the time of text.count [measured].
            is_end = np.frombuffer(text, dtype=np.uint8) == ord("\n")
            first_line += int(np.count_nonzero(is_end))
    except _DAMAGE as error:
        form = (ending or ".plain")[1:]
        raise DataError(
            f"{path}:{first_line}: the {form} file is damaged or truncated somewhere "
            f"after this line ({error}). Copy or download the file again."
        ) from None
    if rest and first_line == 1:
        rest = rest.removeprefix(codecs.BOM_UTF8)
        yield rest, first_line
    elif rest:
        yield rest, first_line


def _packed_as(raw: BufferedReader) -> str | None:
    """Returns the extension of the compression of an open file; None if it is plain."""
    first = raw.peek(6)
    for ending, (magic, _) in COMPRESSIONS.items():
        if first.startswith(magic):
            return ending
    return None


def _open(path: Path) -> BufferedReader:
    try:
        raw = path.open("rb")
        first = raw.peek(4)[:4]
    except OSError as error:
        raise DataError(
            f"{path}: it cannot be read ({error.strerror}; current folder {Path.cwd()}); check the path."
        ) from None
    has_mark = first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    # The characters of ASCII have a zero byte each.
    is_zero_first = first[0::2] == b"\0\0"
    is_zero_second = first[1::2] == b"\0\0"
    if has_mark or (len(first) == 4 and is_zero_first != is_zero_second):
        raw.close()
        raise DataError(
            f"{path}: the file is UTF-16 text. Convert it to UTF-8: iconv -f UTF-16 -t UTF-8 {path.name}, or "
            "save it as CSV UTF-8."
        )
    return raw


@contextmanager
def write_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yields a stream whose content replaces `path` at the end of the block, compressed by the extension.

    If the block fails, an existing file stays unchanged and nothing else remains. A symbolic link stays one,
    and a device or a pipe is written to directly.

    Raises:
        DataError: The path is a folder, or its folder does not exist or is not writable.
    """
    _, compress = COMPRESSIONS.get(
        path.suffix.lower(), (b"", lambda raw, _: nullcontext(raw))
    )
    try:
        with _opened(path) as raw, compress(raw, "wb") as stream:
            yield stream
    except OSError as error:
        raise DataError(
            f"{path}: the file cannot be written ({error.strerror}). Check the folder and its permissions."
        ) from None


def _opened(path: Path) -> AbstractContextManager[IO[bytes]]:
    is_replaced = path.is_file() or path.is_dir() or not path.exists()
    return _replacing(path.resolve()) if is_replaced else path.open("wb")


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yields a new file that replaces `path` at the end of the block, with the mode of an existing file."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with unfinished.open("xb") as raw:
            yield raw
        if path.is_file():
            unfinished.chmod(stat.S_IMODE(path.stat().st_mode))
        unfinished.replace(path)
    finally:
        with suppress(OSError):  # replaced, or never created
            unfinished.unlink()


# ---- Units of LETOR text: about a megabyte of whole lines, which all available cores read and parse at
# once.
#
# A unit is large, so that threads rarely wait for each other to run Python; compiled loops release the global
# interpreter lock. The calling thread finds the ends of the units of a plain file, which the other threads
# read themselves. A compressed file is decompressed by the calling thread, while others parse.

UNIT_BYTES = 1 << 20

_Result = TypeVar("_Result")


def for_each_unit(path: Path, work: Callable[[int, bytes], _Result]) -> list[_Result]:
    """Calls `work` for the number and the text of each unit, on all available cores.

    A unit has at least one line, and every line of a unit has a line feed at its end.

    Returns:
        The results, in the order of the file.

    Raises:
        DataError: the first error of `work` in the order of the file; the file cannot be read, or is no
            regular file: callers count the lines first, and a pipe can be read only once.
    """
    num_cores = available_cores()
    results: list[_Result] = []
    waiting: deque[Future[_Result]] = deque()

    def load_and_work(number: int, load: Callable[[], bytes]) -> _Result:
        text = load()
        return work(number, text if text.endswith(b"\n") else text + b"\n")

    with _open(path) as raw, ThreadPoolExecutor(num_cores) as pool:
        _check_is_regular(raw, path)
        for number, load in enumerate(_units(raw, path)):
            waiting.append(pool.submit(load_and_work, number, load))
            if len(waiting) > 2 * num_cores:  # so that memory contains few units
                results.append(waiting.popleft().result())
        return results + [future.result() for future in waiting]


def _check_is_regular(raw: BufferedReader, path: Path) -> None:
    """Raises DataError for a pipe or a device."""
    if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        raise DataError(
            f"{path}: it is a pipe or a device, which cannot be read twice, as LETOR text is. Write its "
            "content to a file, and pass the file."
        )


def _units(raw: BufferedReader, path: Path) -> Iterator[Callable[[], bytes]]:
    """Yields functions that return the text of the units."""
    if _packed_as(raw) is None:
        num_bytes = os.fstat(raw.fileno()).st_size
        start = 0
        if raw.peek(3).startswith(codecs.BOM_UTF8):
            start = len(codecs.BOM_UTF8)
        while start < num_bytes:
            raw.seek(start + UNIT_BYTES - 1)
            raw.readline()
            num_unit_bytes = raw.tell() - start
            yield partial(os.pread, raw.fileno(), num_unit_bytes, start)
            start = raw.tell()
        return
    pieces: list[bytes] = []
    size = 0
    for piece, _ in _blocks_of(raw, path):
        pieces.append(piece)
        size += len(piece)
        if size >= UNIT_BYTES:
            yield partial(b"".join, pieces)
            pieces = []
            size = 0
    if size:
        yield partial(b"".join, pieces)


# ---- Grouping of rows by query: the last step of every reader.
#
# A reader passes the location of each row (`LocationOfRow`), so that an error about two rows names both.

_Column = TypeVar("_Column", bound=NDArray[Any])
LocationOfRow = Callable[[int], str]  # row in the source, 0 to D - 1 -> `path:line`

# NumPy stores every id with the width of the longest: one id of a megabyte would cost terabytes.
LONGEST_ID = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Rows grouped by query."""

    query_start: QueryStart  # (Q + 1,)
    query_ids: NDArray[np.str_]  # (Q,)
    # (D,), row in the source; None: same order as the source.
    file_rows: NDArray[np.int64] | None

    def take(self, column: _Column) -> _Column:
        """Reorders (D, ...) values from source order to query order, without a copy if the orders agree."""
        return column if self.file_rows is None else column[self.file_rows]  # type: ignore[return-value]


def gather(
    queries: Sequence[str],
    sort_queries: bool,
    location: LocationOfRow,
    sizes: NDArray[np.int64] | None = None,
) -> Gathered:
    """Groups rows by query, in the order of each query's first row.

    Args:
        queries: (R,), R at least 1, query id of each run of consecutive rows.
        sort_queries: whether the rows of a query may be scattered.
        sizes: (R,), number of rows of each run, at least 1; None: one row.

    Raises:
        DataError: The rows of a query are scattered, and `sort_queries` is false; or two ids differ only by
            blanks at their ends or by invisible characters.
    """
    if sizes is None:
        sizes = np.ones(len(queries), dtype=np.int64)
    run_start = np.cumsum(np.append(0, sizes))
    number_of: dict[str, int] = {}
    for query in queries:
        number_of.setdefault(query, len(number_of))
    numbers = np.array([number_of[query] for query in queries])
    # A query that occurs again has its first number, which is lower than the number of the run before.
    comes_back = np.flatnonzero(np.diff(numbers) < 0) + 1
    if comes_back.size and not sort_queries:
        run = int(comes_back[0])
        before = int(np.flatnonzero(numbers[:run] == numbers[run])[-1])
        first = location(int(run_start[run]))
        last = location(int(run_start[before + 1]) - 1)
        raise DataError(
            f"{first}: query {queries[run]!r} occurs again after other queries; "
            f"its earlier rows end at {last}. Set sort_queries=true "
            "(in a run data.sort_queries=true) to group them, or use different ids if these are two queries."
        )

    def location_of_query(number: int) -> str:
        return location(int(run_start[np.argmax(numbers == number)]))

    _check_look_alike(list(number_of), location_of_query)
    query_sizes = np.zeros(len(number_of), dtype=np.int64)
    np.add.at(query_sizes, numbers, sizes)
    file_rows = None
    if comes_back.size:
        file_rows = np.argsort(np.repeat(numbers, sizes), kind="stable")
    return Gathered(
        query_start=np.concatenate([[0], np.cumsum(query_sizes)]),
        query_ids=np.array(list(number_of)),
        file_rows=file_rows,
    )


# Blanks at the ends; no-break and other blanks, soft hyphens, zero-width characters, byte order marks.
_INVISIBLE = re.compile(
    "^\\s+|\\s+$|[\\u00a0\\u00ad\\u1680\\u180e\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u2064\\u3000\\ufeff]",
    re.MULTILINE,
)


def _check_look_alike(ids: Sequence[str], location: LocationOfRow) -> None:
    """Raises DataError if two different ids look the same, which would divide a query into two.

    Args:
        location: number of an id -> its location.
    """
    if not _INVISIBLE.search("\n".join(ids)):
        return
    number_of: dict[str, int] = {}
    for number, each in enumerate(ids):
        other = number_of.setdefault(_INVISIBLE.sub("", each), number)
        if other == number:
            continue
        both = f"{ids[other]}\n{each}"
        characters = {*"".join(_INVISIBLE.findall(both))} - {"\n"}
        names = [unicodedata.name(each, f"U+{ord(each):04X}") for each in characters]
        raise DataError(
            f"{location(number)}: query {each!r} differs from query {ids[other]!r} of {location(other)} only "
            f"by {' and '.join(sorted(names))}. Remove it, so that they are one query."
        )


def decoded(ids: NDArray[np.bytes_]) -> NDArray[np.str_]:
    """Returns (n,) ids in UTF-8 as text.

    >>> decoded(np.array([b"7", b"zw\\xc3\\xb6lf"])).tolist()
    ['7', 'zwölf']
    """
    width = ids.dtype.itemsize
    codes = np.ascontiguousarray(ids).view(np.uint8)
    if codes.max() < 128:  # ASCII only, in a tenth of the time
        return codes.astype(np.uint32).view(f"U{width}")
    # An id may be free text in any encoding: it must neither raise an error nor lose content.
    return np.char.decode(ids, "utf-8", "backslashreplace")


# ---- Type checks of reader options, before any file is read: `sort_queries="no"` would otherwise be true.


def as_paths(given: str | Path | Sequence[str | Path]) -> list[Path]:
    """Returns the paths of one split.

    Raises:
        DataError: This is no path, and no sequence of paths; or there are none.
    """
    if isinstance(given, (str, Path)):
        return [Path(given)]
    are_paths = isinstance(given, Sequence) and all(
        isinstance(path, str | Path) for path in given
    )
    if not are_paths:
        raise DataError(
            f"the data have the type {type(given).__name__}; pass the path of a file, a list of paths, or to "
            "from_frame and read_table a DataFrame of pandas, as in pandas.DataFrame(array, columns=names)."
        )
    if not given:
        raise DataError("the list of paths is empty; pass at least one file.")
    return [Path(path) for path in given]


_KINDS = {
    bool: "true or false",
    int: "a whole number",
    list: "a list of names",
    dict: "a mapping",
}


def check_option(name: str, value: object, kind: type) -> None:
    """Raises ConfigError if an option is not of this type; a list may be any sequence but a string."""
    kinds: dict[type, Any] = {int: numbers.Integral, list: Sequence, dict: Mapping}
    accepted = kinds.get(kind, kind)
    is_bool = isinstance(value, bool) and kind is not bool
    is_other = isinstance(value, str) or is_bool
    if is_other or not isinstance(value, accepted):
        raise ConfigError(f"{name} is {value!r}; it must be {_KINDS[kind]}.")
