"""LETOR text, plain or gz, read into a RankingDataset.

A line is a document: `label qid:ID index:value index:value ... # comment`. Features are counted from one and
ascend; an absent feature is 0. The lines of a query stand next to each other. Blank lines and lines that only
hold a comment are skipped.

The format is specified twice. `parse_line` is the specification: plain, line by line, with an error for each
mistake. `_read_block_fast` takes many lines at once with a regular expression and NumPy, and gives a block
back unread as soon as anything in it is unusual; then `_read_block_plainly` reads that block by `parse_line`.
So the result, or the error, is always that of `parse_line`, and a test holds the two together.

To read another text format, write a function like `read_letor` that ends in a RankingDataset.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import RankingDataset
from ltrbench.errors import DataError
from ltrbench.shapes import Features, Labels

# A larger index is a damaged file or a hashed feature space; neither fits into a dense (D, F) matrix.
MAX_FEATURES = 2**24

# From here on a double rounds to infinity in float32: half a unit above its largest number, 2^128 - 2^104.
_FLOAT32_OVERFLOW = float.fromhex("0x1.ffffffp+127")

_BLOCK_BYTES = 1 << 22  # so large that NumPy's cost per call vanishes, so small that it is cheap to hold
_FORMAT = "A line reads 'label qid:ID index:value index:value ... # comment'."

# Possessive quantifiers (`++`), so that no line, however odd, makes the match backtrack.
_NUMBER = rb"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+"
_CONTROL = rb"\x00-\x08\x0e-\x1f\x7f"
_PLAIN_LINE = re.compile(
    rb"^(" + _NUMBER + rb")"
    rb"[ \t]++qid:([!-\"$-~]++)"
    rb"((?:[ \t]++[1-9][0-9]{0,7}+:" + _NUMBER + rb")*+)"
    rb"[ \t]*+(?:#([^\n" + _CONTROL + rb"]*+)|\r)?+$",
    re.MULTILINE,
)
_NUMBER_ONLY = re.compile(_NUMBER)
_NOT_TEXT = re.compile(rb"[" + _CONTROL + rb"]")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_DOCUMENT_ID = re.compile(rb"\s*docid\s*=\s*(\S+)")


@dataclass(frozen=True, slots=True)
class Line:
    """One document as its line says it: feature `indices[i]`, counted from one, has the value `values[i]`."""

    label: float
    query: str
    indices: list[int]
    values: list[float]
    document: str


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Some consecutive lines of a file: n documents, and the line of the file that each one stands on."""

    labels: Labels  # (n,)
    queries: list[str]  # (n,)
    documents: list[str]  # (n,)
    features: Features  # (n, the largest index in the block)
    lines: NDArray[np.int64]  # (n,), counted from one


def read_letor(path: str | Path, num_features: int | None = None) -> RankingDataset:
    """Reads a LETOR file: `label qid:ID index:value ... # comment`, as text or gz.

    Whether a file is gz is told by its first two bytes, not by its name. A document's id is what the comment
    says after `docid =`, else the whole comment. Values are read as doubles and rounded to float32.

    Args:
        path: the file.
        num_features: F. Absent features are 0, so a file in which the last ones never occur is padded to this
            width. By default the largest index in the file.

    Returns:
        The documents in the order of the file: features (D, F), labels (D,), Q queries.

    Raises:
        DataError: where the file cannot be read, a line is not as above (`path:line: ...`), an index exceeds
            `num_features`, the lines of a query do not stand together, there is no document, or the matrix
            does not fit into memory.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "train.txt")
    ...     _ = file.write_text("2 qid:7 1:0.5 3:1 # docid = A\\n0 qid:7 2:4 # docid = B\\n1 qid:8 1:2\\n")
    ...     data = read_letor(file)
    >>> data.features.tolist()
    [[0.5, 0.0, 1.0], [0.0, 4.0, 0.0], [2.0, 0.0, 0.0]]
    >>> data.labels.tolist(), data.query_start.tolist(), data.query_ids.tolist()
    ([2.0, 0.0, 1.0], [0, 2, 3], ['7', '8'])
    """
    if num_features is not None and not 1 <= num_features <= MAX_FEATURES:
        raise DataError(f"num_features is {num_features}; it must lie between 1 and {MAX_FEATURES}.")
    try:
        blocks = [
            _read_block_fast(text, first_line, num_features)
            or _read_block_plainly(text, first_line, num_features, path)
            for text, first_line in _read_blocks(Path(path))
        ]
        return _assemble(blocks, num_features, path)
    except MemoryError:
        raise DataError(
            f"{path}: a float32 matrix of its documents, as wide as its largest feature index, does not fit "
            "into memory. Check that index; number the features 1, 2, ..., F without gaps."
        ) from None


def parse_line(line: bytes, where: str, num_features: int | None = None) -> Line | None:
    """One line of LETOR text: the specification of the format. None where it holds no document.

    Args:
        line: with or without its end of line.
        where: `path:line`, for messages.
        num_features: the largest index allowed; None: MAX_FEATURES.

    Raises:
        DataError: naming `where`, the value, what was expected and what to do.

    >>> parse_line(b"2 qid:10032 1:0.05 3:1 #docid = GX008-86 inc = 1 prob = 0.08", "train.txt:1")
    Line(label=2.0, query='10032', indices=[1, 3], values=[0.05, 1.0], document='GX008-86')
    >>> parse_line(b"# a comment", "train.txt:2")
    """
    control = _NOT_TEXT.search(line)
    if control:
        raise DataError(
            f"{where}: byte 0x{control.group().hex()} is not text. LETOR files are plain text or gz; "
            "unpack or convert the file."
        )
    content, _, comment = line.partition(b"#")
    tokens = content.split()
    if not tokens:
        return None
    label = _parse_label(tokens[0], where)
    query = _parse_query(tokens[1] if len(tokens) > 1 else b"", where)
    indices: list[int] = []
    values: list[float] = []
    for token in tokens[2:]:
        index, value = _parse_feature(token, where, num_features)
        if indices and index <= indices[-1]:
            problem = "is repeated" if index in indices else f"follows {indices[-1]}"
            raise DataError(
                f"{where}: feature index {index} {problem}; the indices of a line must ascend. "
                "Sort them, and keep one value for each."
            )
        indices.append(index)
        values.append(value)
    return Line(label, query, indices, values, _document_id(comment))


def _parse_label(token: bytes, where: str) -> float:
    if _NOT_FINITE.fullmatch(token):
        raise DataError(f"{where}: label {_show(token)} is not a grade. Judge the document or leave it out.")
    if not _NUMBER_ONLY.fullmatch(token):
        raise DataError(f"{where}: {_show(token)} stands where a number, the label, was expected. {_FORMAT}")
    label = float(token)
    if not 0 <= label < float("inf"):
        raise DataError(
            f"{where}: label {_show(token)} is out of range; a label is a finite grade of 0 or more. "
            "Shift the grades so that irrelevant is 0, or leave out what is not judged."
        )
    return label


def _parse_query(token: bytes, where: str) -> str:
    prefix, _, query = token.partition(b":")
    if prefix != b"qid" or not query:
        found = f"{_show(token)} stands" if token else "the line ends"
        raise DataError(
            f"{where}: {found} where 'qid:ID', the query of the document, was expected. {_FORMAT} "
            "Give every line the id of its query, after the label."
        )
    try:
        return query.decode()
    except UnicodeDecodeError:
        raise DataError(
            f"{where}: the query id {_show(query)} is not UTF-8 text. Convert the file to UTF-8."
        ) from None


def _parse_feature(token: bytes, where: str, num_features: int | None) -> tuple[int, float]:
    index_text, colon, value_text = token.partition(b":")
    if not colon or not index_text.isdigit():
        raise DataError(f"{where}: {_show(token)} stands where 'index:value' was expected. {_FORMAT}")
    # int() refuses thousands of digits, so the length comes first.
    index = int(index_text) if len(index_text) <= 20 else MAX_FEATURES + 1
    if index == 0:
        raise DataError(f"{where}: feature index 0; LETOR counts features from 1. Add 1 to every index.")
    if index > MAX_FEATURES:
        raise DataError(
            f"{where}: feature index {_show(index_text)} is beyond {MAX_FEATURES}, the most a dense matrix "
            "is made for. Number the features 1, 2, ..., F."
        )
    if num_features is not None and index > num_features:
        raise DataError(
            f"{where}: feature index {index} is beyond the {num_features} features that were expected, as "
            "many as in training. Leave out what training does not have, or set num_features to the full "
            "width."
        )
    return index, _parse_value(value_text, index, where)


def _parse_value(token: bytes, index: int, where: str) -> float:
    if not token:
        raise DataError(
            f"{where}: feature {index} has no value after its colon. Leave the feature out where its value "
            "is unknown: an absent feature is 0."
        )
    if _NOT_FINITE.fullmatch(token):
        raise DataError(
            f"{where}: feature {index} is {_show(token)}; values must be finite. Leave the feature out where "
            "its value is unknown (an absent feature is 0), or cap it."
        )
    if not _NUMBER_ONLY.fullmatch(token):
        raise DataError(f"{where}: feature {index} is {_show(token)}, which is not a number. {_FORMAT}")
    value = float(token)
    if abs(value) >= _FLOAT32_OVERFLOW:
        raise DataError(
            f"{where}: feature {index} is {_show(token)}, which float32 cannot hold (at most 3.4e38). "
            "Rescale the feature, or leave it out where such a number stands for a missing value."
        )
    return value


def _show(token: bytes) -> str:
    """A token in quotes as a message can bear it: escaped, and not longer than a line."""
    text = token.decode(errors="backslashreplace")
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _document_id(comment: bytes) -> str:
    match = _DOCUMENT_ID.match(comment)
    # A comment is free text in any encoding: it must not stop the reader, nor lose what it says.
    return (match[1] if match else comment.strip()).decode(errors="backslashreplace")


def _read_blocks(path: Path) -> Iterator[tuple[bytes, int]]:
    """The unpacked text in blocks of whole lines, each with the number of its first line."""
    first_line = 1
    with _open(path) as stream:
        while True:
            try:
                text = stream.read(_BLOCK_BYTES) + stream.readline()
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise DataError(
                    f"{path}:{first_line}: somewhere after this line the gz file is damaged or cut off "
                    f"({error}). Copy or download it again; `gzip -t` tests it."
                ) from None
            if not text:
                return
            yield text, first_line
            first_line += text.count(b"\n")


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
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
        if raw.peek(2)[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield unpacked
        else:
            yield raw


def _read_block_plainly(text: bytes, first_line: int, num_features: int | None, path: str | Path) -> _Block:
    """A block read by the specification, line by line."""
    numbered = [
        (number, parsed)
        for number, line in enumerate(text.split(b"\n"), start=first_line)
        if (parsed := parse_line(line, f"{path}:{number}", num_features)) is not None
    ]
    width = max((parsed.indices[-1] for _, parsed in numbered if parsed.indices), default=0)
    features = np.zeros((len(numbered), width), dtype=np.float32)
    for row, (_, parsed) in enumerate(numbered):
        features[row, np.array(parsed.indices, dtype=np.int64) - 1] = parsed.values
    return _Block(
        labels=np.array([parsed.label for _, parsed in numbered], dtype=np.float64),
        queries=[parsed.query for _, parsed in numbered],
        documents=[parsed.document for _, parsed in numbered],
        features=features,
        lines=np.array([number for number, _ in numbered], dtype=np.int64),
    )


def _read_block_fast(text: bytes, first_line: int, num_features: int | None) -> _Block | None:
    """A block in which every line is an ordinary document, read at once; None for any other block."""
    matches: list[tuple[bytes, bytes, bytes, bytes]] = _PLAIN_LINE.findall(text)
    num_lines = text.count(b"\n") + (not text.endswith(b"\n"))
    pairs = b"".join([pairs for _, _, pairs, _ in matches]).replace(b":", b" ")
    if len(matches) != num_lines or not pairs:
        return None
    # The expression has vetted every number, so that each blank-separated piece is one.
    numbers = np.fromstring(pairs, sep=" ").reshape(-1, 2)
    labels = np.fromstring(b" ".join([label for label, _, _, _ in matches]), sep=" ")
    rows = np.repeat(np.arange(num_lines), [pairs.count(b":") for _, _, pairs, _ in matches])
    columns = numbers[:, 0].astype(np.int64) - 1
    ascending = (np.diff(columns) > 0) | (np.diff(rows) > 0)
    num_columns = int(columns.max()) + 1
    if (
        not ascending.all()
        or num_columns > (num_features or MAX_FEATURES)
        or np.abs(numbers[:, 1]).max() >= _FLOAT32_OVERFLOW
        or not (np.isfinite(labels) & (labels >= 0)).all()
    ):
        return None
    features = np.zeros((num_lines, num_columns), dtype=np.float32)
    features[rows, columns] = numbers[:, 1]
    return _Block(
        labels=labels,
        queries=[query.decode() for _, query, _, _ in matches],
        documents=[_document_id(comment) for _, _, _, comment in matches],
        features=features,
        lines=np.arange(first_line, first_line + num_lines),
    )


def _assemble(blocks: list[_Block], num_features: int | None, path: str | Path) -> RankingDataset:
    """The blocks of a file as one data set."""
    queries = [query for block in blocks for query in block.queries]
    if not queries:
        found = "holds nothing but blanks and comments" if blocks else "is empty"
        raise DataError(f"{path}: {found}. {_FORMAT} Check that the file was written and copied whole.")
    width = num_features or max(block.features.shape[1] for block in blocks)
    if width == 0:
        raise DataError(
            f"{path}: no line has a feature. {_FORMAT} Write features, or give num_features "
            "if all of them are meant to be 0."
        )
    documents = [document for block in blocks for document in block.documents]
    lines = np.concatenate([block.lines for block in blocks])
    query_start = _query_start(queries, lines, path)
    features = np.zeros((len(queries), width), dtype=np.float32)
    row = 0
    for block in blocks:
        num_documents, num_columns = block.features.shape
        features[row : row + num_documents, :num_columns] = block.features
        row += num_documents
    return RankingDataset(
        features=features,
        labels=np.concatenate([block.labels for block in blocks]),
        query_start=np.array(query_start),
        query_ids=np.array([queries[start] for start in query_start[:-1]]),
        document_ids=np.array(documents) if any(documents) else None,
    )


def _query_start(queries: list[str], lines: NDArray[np.int64], path: str | Path) -> list[int]:
    """(Q + 1,), where each query begins, and D; queries and lines are (D,), those of each document."""
    query_start = [row for row in range(len(queries)) if row == 0 or queries[row] != queries[row - 1]]
    query_start.append(len(queries))
    seen: dict[str, int] = {}
    for query, start in enumerate(query_start[:-1]):
        earlier = seen.setdefault(queries[start], query)
        if earlier != query:
            last = query_start[earlier + 1] - 1
            raise DataError(
                f"{path}:{lines[start]}: query {queries[start]!r} begins again, after its documents ended on "
                f"line {lines[last]}. The lines of a query must stand together: sort the file by query, or "
                "give the two runs of lines different ids if they are two queries."
            )
    return query_start
