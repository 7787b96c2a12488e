"""Lines of LETOR text, names of features, and LightGBM's companion files; the writer of LETOR text.

`parse_line` is the specification of the format, with an error for each mistake.

    label [weight] qid:ID index:value index:value ... # comment

Lines for prediction only need neither label nor qid. `weight` is the document's weight in training. Indices
ascend, starting from one or from zero. The value `nan` is a missing value. LightGBM's form has no qid; a
companion file contains the query sizes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.blocks import (
    check_switch,
    check_whole,
    read_blocks,
    without_compression_ending,
    write_whole,
)
from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import row_blocks
from ltrbench.errors import ConfigError, DataError, require, require_choice

# A larger index means a damaged file or a hashed feature space; neither fits into a dense (D, F) matrix.
MAX_FEATURES = 2**24

# Smallest double that rounds to infinity in float32: half a unit above its largest number, 2^128 - 2^104.
FLOAT32_OVERFLOW = float.fromhex("0x1.ffffffp+127")

_LARGEST = float(np.finfo(np.float32).max)

# NumPy stores every id with the width of the longest: one id of a megabyte would cost terabytes.
LONGEST_ID = 1000

# Treatment of values beyond float32.
OVERFLOWS = ("refuse", "cap", "missing")

# Treatment of values written as NULL.
NULLS = ("refuse", "missing")

_TABLE = "Write a table as CSV with commas or as Parquet, and read it with data=table, in Python read_table."

# The remedy if data for training or evaluation has no labels.
UNLABELLED = "Add a label to every document; only predict, in Python read_features, needs none."

_Value = TypeVar("_Value")

SYNTAX = "The format of a line is 'label [weight] qid:ID index:value index:value ... # comment'."

# Possessive quantifiers (`++`) prevent backtracking on any input.
_NUMBER_ONLY = re.compile(rb"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+")
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_RETURN_WITHIN = re.compile(rb"\r\s*+\S")
_MISSING = re.compile(rb"[+-]?nan", re.IGNORECASE)
_NULL = re.compile(rb"null", re.IGNORECASE)
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_DOCUMENT_ID = re.compile(rb"\s*docid\s*=\s*(\S+)")


@dataclass(frozen=True, slots=True)
class LineFormat:
    """Options of a reader of lines.

    Args:
        num_features: maximum number of features; None: MAX_FEATURES.
        first_index: index of the first feature, 0 or 1.
        whole_labels: whether a fractional label is an error.
        needs_qid: whether a line without qid is an error.
        needs_label: whether a line without label is an error.
        overflow: treatment of values beyond float32: "refuse", "cap" (largest float32 of the same sign) or
            "missing" (NaN).
        nulls: treatment of values written as NULL, in any case: "refuse" or "missing" (NaN).
        absent: value of features that a line omits, 0 or NaN.
        sparse: whether only the values that lines have are stored.
        width_reason: origin of num_features and the remedy, for messages.
    """

    num_features: int | None = None
    first_index: int = 1
    whole_labels: bool = False
    needs_qid: bool = True
    needs_label: bool = True
    overflow: str = "refuse"
    nulls: str = "refuse"
    absent: float = 0.0
    sparse: bool = False
    width_reason: str = (
        "the number of features in training. Remove features that training does not have, or set "
        "num_features to the total number"
    )

    def __post_init__(self) -> None:
        if self.num_features is not None:
            check_whole("num_features", self.num_features)
        check_whole("first_index", self.first_index)
        check_switch("whole_labels", self.whole_labels)
        check_switch("sparse", self.sparse)
        require("num_features", self.num_features, at_least=1, at_most=MAX_FEATURES)
        require("first_index", self.first_index, at_least=0, at_most=1)
        require_choice("overflow", self.overflow, OVERFLOWS)
        require_choice("nulls", self.nulls, NULLS)
        if not isinstance(self.absent, (int, float)) or not (self.absent == 0 or math.isnan(self.absent)):
            raise ConfigError(
                f"absent is {self.absent!r}; the value of features that a line omits must be 0 or nan."
            )


@dataclass(frozen=True, slots=True)
class Line:
    """Content of one line: `values[i]` is the value of feature `indices[i]`, with the indices of the file."""

    label: float  # NaN if the line has none
    weight: float | None
    query: str  # "" if the line has no qid
    indices: list[int]
    values: list[float]
    document: str  # "" if the line has no comment


def parse_line(line: bytes, where: str, form: LineFormat) -> Line | None:
    """Parses one line of LETOR text. Returns None for a blank line or a comment line.

    Args:
        line: with or without its line ending.
        where: `path:line`, for messages.

    Raises:
        DataError: The line is invalid; the message has `where`, the value, what was expected and the remedy.

    >>> parse_line(b"2 qid:7 1:0.05 3:1 #docid = GX008-86 inc = 1", "train.txt:1", LineFormat())
    Line(label=2.0, weight=None, query='7', indices=[1, 3], values=[0.05, 1.0], document='GX008-86')
    >>> parse_line(b"# a comment", "train.txt:2", LineFormat())
    """
    _check_text(line, where)
    content, _, comment = line.partition(b"#")
    tokens = content.split()
    if not tokens:
        return None
    if b":" in tokens[0] and not form.needs_label:
        label, rest = math.nan, tokens
    else:
        label, rest = _parse_label(tokens[0], where, form.whole_labels), tokens[1:]
    weight = None
    if len(rest) > 1 and rest[1].startswith(b"qid:") and is_number(rest[0]):
        token = rest.pop(0)
        weight = float(token)
        if not 0 <= weight < math.inf:
            raise DataError(
                f"{where}: the weight is {quote(token)}; it must be a finite number of 0 or more. Correct "
                "it, or remove the document."
            )
    query = ""
    if form.needs_qid or (rest and rest[0].startswith(b"qid:")):
        query = _parse_query(rest.pop(0) if rest else b"", where)
    indices, values = _parse_features(rest, where, form)
    return Line(label, weight, query, indices, values, document_id(comment))


def _check_text(line: bytes, where: str) -> None:
    # After a comment, all lines behind a carriage return would be read as part of the comment.
    wrong = _NOT_TEXT.search(line) or _RETURN_WITHIN.search(line)
    if wrong:
        raise DataError(
            f"{where}: the line contains byte 0x{wrong.group()[:1].hex()}. A LETOR file must be text with "
            f"line feeds, plain or compressed as gz, bz2, xz or zst. Convert the file. {_TABLE}"
        )


def document_id(comment: bytes) -> str:
    """Returns the document id in a comment: the word after `docid =`, else the whole comment.

    >>> document_id(b"docid = GX008-86 inc = 1"), document_id(b" page 7 ")
    ('GX008-86', 'page 7')
    """
    match = _DOCUMENT_ID.match(comment)
    # A comment is free text in any encoding: it must neither raise an error nor lose content.
    return (match[1] if match else comment.strip())[:LONGEST_ID].decode(errors="backslashreplace")


def quote(token: bytes) -> str:
    """Returns a token in quotes for a message: escaped, and at most 40 characters."""
    text = token.decode(errors="backslashreplace")
    return repr(text if len(text) <= 40 else text[:37] + "...")


def is_number(token: bytes) -> bool:
    """Returns whether a token is a number, including nan and infinity."""
    return bool(_NUMBER_ONLY.fullmatch(token) or _NOT_FINITE.fullmatch(token))


def _parse_label(token: bytes, where: str, whole_labels: bool) -> float:
    if not is_number(token):
        remedy = UNLABELLED if b":" in token else _TABLE
        raise DataError(
            f"{where}: the line starts with {quote(token)}; expected the label, a number. {SYNTAX} {remedy}"
        )
    label = float(token)
    if not 0 <= label < math.inf:
        raise DataError(
            f"{where}: the label is {quote(token)}; it must be a finite grade of 0 or more. Shift the grades "
            "so that irrelevant is 0, and remove documents without judgment."
        )
    if whole_labels and label != math.floor(label):
        raise DataError(
            f"{where}: the label is {quote(token)}; the gain 2^label - 1 needs whole numbers. Round the "
            "labels to grades, or keep them with whole_labels=false (in a run data.whole_labels=false) and a "
            "linear gain."
        )
    return label


def _parse_query(token: bytes, where: str) -> str:
    prefix, _, query = token.partition(b":")
    if prefix != b"qid" or not query:
        raise DataError(
            f"{where}: {quote(token) if token else 'the line ends'} where 'qid:ID', the query id, was "
            f"expected. {SYNTAX} For LightGBM's form, write the query sizes to a file with the extension "
            f".query. {_TABLE}"
        )
    if len(query) > LONGEST_ID:
        raise DataError(
            f"{where}: the query id {quote(query)} has {len(query)} bytes; the maximum is {LONGEST_ID}. "
            "Use a shorter id, and check that the file is LETOR text."
        )
    try:
        return query.decode()
    except UnicodeDecodeError:
        raise DataError(
            f"{where}: the query id {quote(query)} is not UTF-8 text. Convert the file to UTF-8."
        ) from None


def _parse_features(tokens: list[bytes], where: str, form: LineFormat) -> tuple[list[int], list[float]]:
    indices: list[int] = []
    values: list[float] = []
    for token in tokens:
        index_text, _, value_text = token.partition(b":")
        if not index_text.isdigit() or token == index_text:
            raise DataError(f"{where}: {quote(token)} is where 'index:value' was expected. {SYNTAX}")
        index = _parse_index(index_text, where, form)
        if indices and index <= indices[-1]:
            raise DataError(
                f"{where}: feature index {index} follows {indices[-1]}; the indices of a line must ascend. "
                "Sort them, and keep one value per index."
            )
        indices.append(index)
        values.append(_parse_value(value_text, index, where, form))
    return indices, values


def _parse_index(token: bytes, where: str, form: LineFormat) -> int:
    # int() rejects thousands of digits, so the length is checked first.
    index = int(token) if len(token) <= 20 else MAX_FEATURES + 1
    if index < form.first_index:
        raise DataError(
            f"{where}: the feature index is 0, but indices start from 1. If the indices of the file start "
            "from 0, set first_index=0 (in a run data.first_index=0); otherwise correct the line."
        )
    number = index - form.first_index + 1
    if number > MAX_FEATURES:
        raise DataError(
            f"{where}: the feature index is {quote(token)}; the maximum number of features is "
            f"{MAX_FEATURES}. Number the features without gaps."
        )
    if form.num_features is not None and number > form.num_features:
        raise DataError(
            f"{where}: the feature index is {index}, but {form.num_features} features were expected, "
            f"{form.width_reason}."
        )
    return index


def _parse_value(token: bytes, index: int, where: str, form: LineFormat) -> float:
    is_null = bool(_NULL.fullmatch(token))
    if _MISSING.fullmatch(token) or (is_null and form.nulls == "missing"):
        return math.nan
    if not _NUMBER_ONLY.fullmatch(token):
        remedy = "or set nulls=missing (in a run data.nulls=missing)" if is_null else "or remove the feature"
        raise DataError(
            f"{where}: feature {index} is {quote(token)}, which is not a finite number. Correct it, write "
            f"{index}:nan if the value is missing, {remedy}."
        )
    value = float(token)
    if abs(value) < FLOAT32_OVERFLOW:
        return value
    if form.overflow == "refuse":
        raise DataError(
            f"{where}: feature {index} is {quote(token)}, which exceeds float32 (at most 3.4e38). Rescale "
            "the feature, set overflow=cap, or set overflow=missing if such numbers encode missing values "
            "(in a run data.overflow=...)."
        )
    return math.copysign(_LARGEST, value) if form.overflow == "cap" else math.nan


# ---- Reads and writes files of feature names: one line `name, id` per feature.
#
# Search engines store such files together with LETOR data, which has no feature names.

_LINE = re.compile(r"(?P<name>[^\r\n]*\S)(?:\s*[,\t]\s*|\s+)(?P<id>[0-9]{1,9})")
_END_OF_LINE = re.compile(r"\r\n|\r|\n")


def read_feature_names(path: Path, first_index: int = 1) -> tuple[str, ...]:
    """Returns the feature names in the order of their ids; a missing id is its own name.

    A line is `name, id`, separated by a comma, a tab or blanks. Blank lines and lines that start with # are
    skipped. Ids are feature indices of the data.

    Args:
        first_index: index of the first feature in the data, 1 or 0.

    Returns:
        (F,) names, up to the highest id in the file.

    Raises:
        DataError: A line has another form, an id is out of range, a name or an id is repeated, or the file
            has no names.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "feature2id.txt")
    ...     _ = file.write_text("bm25 of title, 1\\npagerank, 3\\n")
    ...     read_feature_names(file)
    ('bm25 of title', '2', 'pagerank')
    """
    try:
        text = b"".join(block for block, _ in read_blocks(path)).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the file is not UTF-8 text ({error}). Convert it to UTF-8.") from None
    names: dict[int, str] = {}
    seen: set[object] = set()
    for number, line in enumerate(_END_OF_LINE.split(text), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        name = "" if match is None else match["name"].rstrip(", \t")
        feature = -1 if match is None else int(match["id"]) - first_index
        if not name or not 0 <= feature < MAX_FEATURES or {name, feature} & seen:
            raise DataError(
                f"{path}:{number}: the line is {line.strip()[:40]!r}; write 'name, id', such as 'bm25, 1', "
                f"each name and id once, with ids from {first_index} (data.first_index) to {MAX_FEATURES}."
            )
        seen |= {name, feature}
        names[feature] = name
    if not names:
        raise DataError(f"{path}: the file has no feature names; write lines 'name, id', such as 'bm25, 1'.")
    return tuple(names.get(feature, str(first_index + feature)) for feature in range(max(names) + 1))


def write_feature_names(names: Sequence[str], path: str | Path, first_index: int = 1) -> None:
    """Writes a file for `read_feature_names`, to accompany formats without names, such as LETOR text.

    Raises:
        DataError: A name cannot be written in a line, or the file cannot be written.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_feature_names(["bm25 of title", "pagerank"], Path(folder, "feature2id.txt"))
    ...     Path(folder, "feature2id.txt").read_text()
    'bm25 of title, 1\\npagerank, 2\\n'
    """
    for name in names:
        match = _LINE.fullmatch(f"{name}, 1".encode(errors="backslashreplace").decode())
        read_back = None if match is None else match["name"].strip().rstrip(", \t")
        if not name or read_back != name or name.startswith("#"):
            raise DataError(
                f"feature_names: {name!r} cannot be written as 'name, id'; a name must be one line, must not "
                "start with # or a blank, and must not end with a blank or a comma. Rename the feature."
            )
    lines = [f"{name}, {number}\n" for number, name in enumerate(names, first_index)]
    with write_whole(Path(path)) as stream:
        stream.write("".join(lines).encode())


# ---- LightGBM's companion files of a data file: FILE.query, FILE.weight and FILE.position.
#
# `.query` has one line per query, its number of documents; `.weight` and `.position` have one line per
# document. For a compressed data file the companion files have the name of the uncompressed file; their
# content may be compressed. LightGBM treats positions as categories: whole numbers are used unchanged,
# words are numbered from 0 in the order of their first occurrence.

ENDINGS = (".query", ".weight", ".position")


@dataclass(frozen=True, slots=True)
class Companions:
    """Contents of the companion files; None for a file that does not exist."""

    query_sizes: list[int] | None = None  # (Q,), each at least 1
    weights: list[float] | None = None  # (D,)
    positions: list[str] | None = None  # (D,)


def companion(path: Path, ending: str) -> Path:
    """Returns the path of the companion file with query sizes, weights or positions.

    >>> companion(Path("rank.train.gz"), ".query").name
    'rank.train.query'
    """
    return Path(f"{without_compression_ending(path)}{ending}")


def read_companions(path: Path) -> Companions:
    """Reads the existing companion files of `path`.

    Raises:
        DataError: A line is not one value (`.query`: a whole number from 1; `.weight`: a number of 0 or more;
            `.position`: a whole number of 0 or more, or a word); a companion file has a name under which it
            would be ignored.
    """
    for ending in ENDINGS:
        right, ignored = companion(path, ending), Path(f"{path}{ending}")
        if right != ignored and ignored.exists():
            raise DataError(
                f"{ignored}: this file would be ignored. Rename it to {right.name}, or remove it."
            )
    return Companions(
        _column(companion(path, ".query"), _query_size, "a number of documents from 1, one line per query"),
        _column(companion(path, ".weight"), _weight, "a number of 0 or more, one line per document"),
        _column(companion(path, ".position"), _position, "a whole number or a word, one line per document"),
    )


def check_companions(companions: Companions, path: Path, num_documents: int) -> None:
    """Raises DataError if a companion file does not match the number of documents in `path`."""
    sizes = None if companions.query_sizes is None else sum(companions.query_sizes)
    lengths = [
        None if column is None else len(column) for column in (companions.weights, companions.positions)
    ]
    for ending, number in zip(ENDINGS, (sizes, *lengths), strict=True):
        if number not in (None, num_documents):
            raise DataError(
                f"{companion(path, ending)}: the file is for {number} documents, but {path} has "
                f"{num_documents} documents. Use the {ending} file that belongs to this data file."
            )


def number_positions(positions: list[str]) -> NDArray[np.int64]:
    """Returns (D,) position numbers: the values if all are whole numbers, else indices by first occurrence.

    >>> number_positions(["3", "1", "3"]).tolist(), number_positions(["top", "side", "top"]).tolist()
    ([3, 1, 3], [0, 1, 0])
    """
    if all(position.isascii() and position.isdigit() for position in positions):
        return np.array([int(position) for position in positions], dtype=np.int64)
    number_of: dict[str, int] = {}
    return np.array([number_of.setdefault(position, len(number_of)) for position in positions])


def _column(path: Path, convert: Callable[[bytes], _Value | None], expected: str) -> list[_Value] | None:
    """Returns the value of each line of a file; None if there is no file."""
    if not path.exists():
        return None
    values = []
    text = b"".join(block for block, _ in read_blocks(path))
    for number, line in enumerate(text.rstrip().split(b"\n"), start=1):
        value = convert(line.strip())
        if value is None:
            raise DataError(f"{path}:{number}: the line is {quote(line)}; write {expected}.")
        values.append(value)
    return values


def _query_size(token: bytes) -> int | None:
    return int(token) if re.fullmatch(rb"[1-9][0-9]{0,17}", token) else None


def _weight(token: bytes) -> float | None:
    weight = float(token) if is_number(token) else math.nan
    return weight if 0 <= weight < math.inf else None


def _position(token: bytes) -> str | None:
    if not is_number(token):
        return token.decode(errors="backslashreplace") or None
    # Above 2^53 a double does not represent every whole number.
    number = float(token)
    return str(int(number)) if 0 <= number < 2**53 and number.is_integer() else None


# ---- Writes a RankingDataset as LETOR text or in LightGBM's form, for `read_letor` and for other systems.
#
# Every feature of a document is written, including zeros, and missing values as `nan`, so that the file
# does not depend on a reader's value for absent features. Numbers are written with the fewest digits that
# restore the same float. An existing file is replaced completely or not at all.

_BLOCK_DOCUMENTS = 4096  # rows converted to text at a time


def write_letor(dataset: RankingDataset, path: str | Path) -> None:
    """Writes LETOR text, which `read_letor(path)` restores with the same fingerprint and document ids.

    Weights follow the labels, document ids are in comments, and positions are in the companion file
    FILE.position. Feature indices start from one; feature names are not written. The extension .gz, .bz2, .xz
    or .zst selects a compression.

    Raises:
        DataError: An id cannot be written in a line, a FILE.query or FILE.weight of another data set exists,
            or the folder is not writable.

    >>> from tempfile import TemporaryDirectory
    >>> data = RankingDataset(features=[[0.5, 0], [1, 4]], labels=[2, 0], query_start=[0, 1, 2])
    >>> with TemporaryDirectory() as folder:
    ...     write_letor(data, Path(folder, "train.txt"))
    ...     print(Path(folder, "train.txt").read_text(), end="")
    2 qid:1 1:0.5 2:0.0
    0 qid:2 1:1.0 2:4.0
    """
    queries = [b" qid:" + _query_token(query) for query in dataset.query_ids.tolist()]
    heads = [queries[query] for query in dataset.query_of_document.tolist()]
    if dataset.query_weights is not None:
        weights = dataset.weight_of_document.tolist()
        heads = [b" " + _number(weight) + head for weight, head in zip(weights, heads, strict=True)]
    ids = [""] * dataset.num_documents if dataset.document_ids is None else dataset.document_ids.tolist()
    comments = [_comment(document) for document in ids]
    _write(Path(path), _document_lines(dataset, 1, heads, comments), _positions(dataset))


def write_lightgbm(dataset: RankingDataset, path: str | Path) -> None:
    """Writes LightGBM's form: no qid, with the companion files FILE.query, FILE.weight and FILE.position.

    Feature indices start from zero, as in LightGBM: `read_letor(path, first_index=0)` restores the data
    except for the ids of queries and documents, which this form cannot store.

    Raises:
        DataError: A FILE.weight or FILE.position of another data set exists, or the folder is not writable.

    >>> from tempfile import TemporaryDirectory
    >>> data = RankingDataset(features=[[0.5, 0], [1, 4]], labels=[2, 0], query_start=[0, 1, 2])
    >>> with TemporaryDirectory() as folder:
    ...     write_lightgbm(data, Path(folder, "rank.train"))
    ...     Path(folder, "rank.train").read_text(), Path(folder, "rank.train.query").read_text()
    ('2 0:0.5 1:0.0\\n0 0:1.0 1:4.0\\n', '1\\n1\\n')
    """
    beside = {".query": [b"%d" % size for size in dataset.query_sizes], **_positions(dataset)}
    if dataset.query_weights is not None:
        beside[".weight"] = [_number(weight) for weight in dataset.weight_of_document.tolist()]
    nothing = [b""] * dataset.num_documents
    _write(Path(path), _document_lines(dataset, 0, nothing, nothing), beside)


def _positions(dataset: RankingDataset) -> dict[str, list[bytes]]:
    """Returns the lines of FILE.position by extension; empty if the data set has no positions."""
    if dataset.positions is None:
        return {}
    return {".position": [b"%d" % position for position in dataset.positions.tolist()]}


def _write(path: Path, lines: Iterator[bytes], beside: dict[str, list[bytes]]) -> None:
    for ending in ENDINGS:
        other = companion(path, ending)
        if ending not in beside and other.exists():
            raise DataError(
                f"{other}: this file already exists and would be read as a companion file of {path}. Write "
                f"to another path, or remove {other.name}."
            )
    for ending, values in beside.items():
        with write_whole(companion(path, ending)) as stream:
            stream.write(b"".join(value + b"\n" for value in values))
    with write_whole(path) as stream:
        for line in lines:
            stream.write(line)


def _document_lines(
    dataset: RankingDataset, first_index: int, heads: list[bytes], comments: list[bytes]
) -> Iterator[bytes]:
    """Yields one line per document: label, head (weight and qid), features, comment."""
    indices = [b" %d:" % (first_index + column) for column in range(dataset.num_features)]
    for start, block in row_blocks(dataset.features, _BLOCK_DOCUMENTS):
        # NumPy writes the shortest text that restores the same float32.
        texts = block.astype(np.bytes_).tolist()
        for row, values in enumerate(texts, start):
            features = b"".join(index + value for index, value in zip(indices, values, strict=True))
            yield _number(float(dataset.labels[row])) + heads[row] + features + comments[row] + b"\n"


def _number(value: float) -> bytes:
    """Returns the shortest text of a double; whole numbers without a fraction, as other systems require.

    >>> _number(2.0), _number(0.1)
    (b'2', b'0.1')
    """
    return repr(value).removesuffix(".0").encode()


def _query_token(query: str) -> bytes:
    token = _encoded(query)
    line = _parsed(b"0 qid:" + token)
    if line is None or line.query != query or line.document:
        raise DataError(
            f"query_ids: {query!r} cannot be written as LETOR text; an id must be one word of at most "
            f"{LONGEST_ID} bytes without blanks and '#'. Rename the query, or write a table."
        )
    return token


def _comment(document: str) -> bytes:
    """Returns the comment that stores a document id."""
    text = _encoded(document)
    for comment in (b" # docid = " + text, b" # " + text):
        line = _parsed(b"0 qid:1" + comment)
        if line is not None and line.document == document and b"\n" not in text:
            return comment if document else b""
    raise DataError(
        f"document_ids: {document!r} cannot be written as a comment of LETOR text; an id must be one line of "
        f"at most {LONGEST_ID} bytes. Rename the document, or write a table."
    )


def _parsed(line: bytes) -> Line | None:
    try:
        return parse_line(line, "", LineFormat())
    except DataError:
        return None


def _encoded(name: str) -> bytes:
    # A lone surrogate has no encoding; its escape fails the check that the id is restored unchanged.
    return name.encode(errors="backslashreplace")
