"""Reads and writes LETOR text, in LETOR's form or LightGBM's.

    label [weight] qid:ID index:value index:value ... # comment

One line is one document. The lines of a query are consecutive. Indices ascend, starting from one or from
zero. The value `nan` is a missing value. Blank lines and comment lines are skipped. Lines for prediction
need neither label nor qid. In LightGBM's form the lines have no qid, and a companion file has the query
sizes.

lines       `parse_line`: the specification of the format, with an error for each mistake
reading     `read_letor`, `read_letor_features`
companions  LightGBM's files of query sizes, weights and positions
names       `read_feature_names`
writing     `write_letor`

The reader works in two passes over units of lines, which `blocks` reads on all cores: the first counts the
documents, so that `_allocate` makes arrays for them, and the second parses the lines into these arrays. The
two passes need little more memory than the result, but decompress a file twice.

To read another text format, write a function like `read_letor` that returns a RankingDataset.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.blocks import (
    LONGEST_ID,
    Gathered,
    as_paths,
    check_option,
    companion,
    decoded,
    for_each_unit,
    gather,
    read_blocks,
    refuse_initial_scores,
    write_whole,
)
from ltrbench.data.dataset import FRACTIONS_REMEDY, RankingDataset
from ltrbench.data.features import (
    FLOAT32_OVERFLOW,
    AnyFeatures,
    CheckedFeatures,
    Pair,
    SparseRows,
    array_in_file,
    full,
    log,
    merged_cells,
    merged_in_words,
    row_blocks,
    rows_in_order,
)
from ltrbench.errors import ConfigError, DataError, require, require_choice
from ltrbench.measure import available_bytes
from ltrbench.shapes import Features

if TYPE_CHECKING:
    from ltrbench.data.letor_kernels import DocumentRows

# ---- Lines: `parse_line` is the specification of the format.

# A larger index means a damaged file or a hashed feature space; neither fits into a dense (D, F) matrix.
MAX_FEATURES = 2**24

_LARGEST = float(np.finfo(np.float32).max)

# Treatment of values beyond float32.
OVERFLOWS = ("refuse", "cap", "missing")

# Treatment of values written as NULL.
NULLS = ("refuse", "missing")

_TABLE = "Write a table as CSV with commas or as Parquet, and read it with data=table, in Python read_table."

# The remedy if data for training or evaluation has no labels.
UNLABELLED = (
    "Add a label to every document; only predict, in Python read_features, needs none."
)

SYNTAX = "The format of a line is 'label [weight] qid:ID index:value index:value ... # comment'."

# Possessive quantifiers (`++`) prevent backtracking on any input.
_NUMBER_ONLY = re.compile(
    rb"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+"
)
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_RETURN_WITHIN = re.compile(rb"\r\s*+\S")
_MISSING = re.compile(rb"[+-]?nan", re.IGNORECASE)
_NULL = re.compile(rb"null", re.IGNORECASE)
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_DOCUMENT_ID = re.compile(rb"\s*docid\s*=\s*(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
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
        exact: whether features are float64.
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
    exact: bool = False

    @property
    def dtype(self) -> Any:
        """dtype of the features."""
        return np.float64 if self.exact else np.float32

    def __post_init__(self) -> None:
        if self.num_features is not None:
            check_option("num_features", self.num_features, int)
        check_option("first_index", self.first_index, int)
        check_option("whole_labels", self.whole_labels, bool)
        check_option("sparse", self.sparse, bool)
        check_option("exact", self.exact, bool)
        require("num_features", self.num_features, at_least=1, at_most=MAX_FEATURES)
        require("first_index", self.first_index, at_least=0, at_most=1)
        require_choice("overflow", self.overflow, OVERFLOWS)
        require_choice("nulls", self.nulls, NULLS)
        is_number = isinstance(self.absent, (int, float))
        is_valid = is_number and (self.absent == 0 or math.isnan(self.absent))
        if not is_valid:
            raise ConfigError(
                f"absent is {self.absent!r}; features that a line omits must be 0 or nan."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Content of one line: `values[i]` is the value of feature `indices[i]`, with the indices of the file."""

    label: float  # NaN if the line has none
    weight: float | None
    query: str  # "" if the line has no qid
    indices: list[int]
    values: list[float]
    document: bytes  # id of the document, b"" if the line has no comment


def parse_line(line: bytes, where: str, form: LineFormat) -> Line | None:
    """Parses one line of LETOR text. Returns None for a blank line or a comment line.

    Args:
        line: with or without its line ending.
        where: `path:line`, for messages.

    Raises:
        DataError: The line is invalid; the message has `where`, the value, what was expected and the remedy.

    >>> parse_line(b"2 qid:7 1:0.05 3:1 #docid = GX008-86 inc = 1", "train.txt:1", LineFormat())
    Line(label=2.0, weight=None, query='7', indices=[1, 3], values=[0.05, 1.0], document=b'GX008-86')
    >>> parse_line(b"# a comment", "train.txt:2", LineFormat())
    """
    _check_text(line, where)
    content, _, comment = line.partition(b"#")
    tokens = content.split()
    if not tokens:
        return None
    if b":" in tokens[0] and not form.needs_label:
        label = math.nan
        rest = tokens
    else:
        label = _parse_label(tokens[0], where, form.whole_labels)
        rest = tokens[1:]
    weight = None
    is_before_query = len(rest) > 1 and rest[1].startswith(b"qid:")
    if is_before_query and is_number(rest[0]):
        token = rest.pop(0)
        weight = float(token)
        if not 0 <= weight < math.inf:
            raise DataError(
                f"{where}: the weight is {quote(token)}; it must be a finite number, 0 or more."
            )
    query = ""
    if form.needs_qid or (rest and rest[0].startswith(b"qid:")):
        query = _parse_query(rest.pop(0) if rest else b"", where)
    indices, values = _parse_features(rest, where, form)
    return Line(
        label=label,
        weight=weight,
        query=query,
        indices=indices,
        values=values,
        document=document_id(comment),
    )


def _check_text(line: bytes, where: str) -> None:
    # After a comment, all lines behind a carriage return would be read as part of the comment.
    wrong = _NOT_TEXT.search(line) or _RETURN_WITHIN.search(line)
    if wrong:
        byte = wrong.group()[:1].hex()
        raise DataError(
            f"{where}: the line contains byte 0x{byte}. A LETOR file must be text with "
            f"line feeds, plain or compressed as gz, bz2, xz or zst. Convert the file. {_TABLE}"
        )


def document_id(comment: bytes) -> bytes:
    """Returns the document id in a comment: the word after `docid =`, else the whole comment.

    >>> document_id(b"docid = GX008-86 inc = 1"), document_id(b" page 7 ")
    (b'GX008-86', b'page 7')
    """
    match = _DOCUMENT_ID.match(comment)
    return (match[1] if match else comment.strip())[:LONGEST_ID]


def quote(token: bytes) -> str:
    """Returns a token in quotes for a message: escaped, and at most 40 characters."""
    text = token.decode(errors="backslashreplace")
    if len(text) > 40:
        text = text[:37] + "..."
    return repr(text)


def is_number(token: bytes) -> bool:
    """Returns whether a token is a number, including nan and infinity."""
    return bool(_NUMBER_ONLY.fullmatch(token) or _NOT_FINITE.fullmatch(token))


def _parse_label(token: bytes, where: str, whole_labels: bool) -> float:
    if not is_number(token):
        remedy = UNLABELLED if b":" in token else _TABLE
        raise DataError(
            f"{where}: {quote(token)} is where the label, a number, was expected. {SYNTAX} {remedy}"
        )
    label = float(token)
    if not 0 <= label < math.inf:
        raise DataError(
            f"{where}: the label is {quote(token)}; write a finite grade of 0 or more (0: irrelevant)."
        )
    if whole_labels and label != math.floor(label):
        raise DataError(
            f"{where}: the label is {quote(token)}; the gain 2^label - 1 needs whole numbers. "
            f"{FRACTIONS_REMEDY}"
        )
    return label


def _parse_query(token: bytes, where: str) -> str:
    prefix, _, query = token.partition(b":")
    if prefix != b"qid" or not query:
        found = quote(token) if token else "the line ends"
        raise DataError(
            f"{where}: {found} where 'qid:ID' was expected. {SYNTAX} "
            f"LightGBM's form needs the query sizes in a file with the extension .query. {_TABLE}"
        )
    if len(query) > LONGEST_ID:
        raise DataError(
            f"{where}: the query id {quote(query)} is too long: write at most {LONGEST_ID} bytes."
        )
    return _query_id(query, where)


def _query_id(token: bytes, where: str) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise DataError(
            f"{where}: the query id {quote(token)} is not UTF-8: convert the file."
        ) from None


def _parse_features(
    tokens: list[bytes], where: str, form: LineFormat
) -> tuple[list[int], list[float]]:
    indices: list[int] = []
    values: list[float] = []
    for token in tokens:
        index_text, _, value_text = token.partition(b":")
        if not index_text.isdigit() or token == index_text:
            raise DataError(
                f"{where}: {quote(token)} is where 'index:value' was expected. {SYNTAX}"
            )
        index = _parse_index(index_text, where, form)
        if indices and index <= indices[-1]:
            raise DataError(
                f"{where}: feature index {index} follows {indices[-1]}; sort: indices must ascend."
            )
        indices.append(index)
        values.append(_parse_value(value_text, index, where, form))
    return indices, values


def _parse_index(token: bytes, where: str, form: LineFormat) -> int:
    # int() rejects thousands of digits, so the length is checked first.
    index = int(token) if len(token) <= 20 else MAX_FEATURES + 1
    if index < form.first_index:
        raise DataError(
            f"{where}: the feature index is 0; set first_index=0 (data.first_index) if they start from 0."
        )
    number = index - form.first_index + 1
    if number > MAX_FEATURES:
        raise DataError(
            f"{where}: the feature index is {quote(token)}, beyond {MAX_FEATURES}: number without gaps."
        )
    if form.num_features is not None and number > form.num_features:
        raise DataError(
            f"{where}: the feature index is {index}, but {form.num_features} features were expected: as many "
            "as in training, as in the file feature_names, or num_features. Correct the index or that number."
        )
    return index


def _parse_value(token: bytes, index: int, where: str, form: LineFormat) -> float:
    is_null = bool(_NULL.fullmatch(token))
    if _MISSING.fullmatch(token) or (is_null and form.nulls == "missing"):
        return math.nan
    if not _NUMBER_ONLY.fullmatch(token):
        remedy = "or remove the feature"
        if is_null:
            remedy = "or set nulls=missing (in a run data.nulls=missing)"
        raise DataError(
            f"{where}: feature {index} is {quote(token)}, which is not a finite number. Correct it, write "
            f"{index}:nan if the value is missing, {remedy}."
        )
    value = float(token)
    if abs(value) < FLOAT32_OVERFLOW:
        return value
    if form.overflow == "refuse":
        raise DataError(
            f"{where}: feature {index} is {quote(token)}, which exceeds float32 (3.4e38). Rescale it, set "
            "overflow=cap, or overflow=missing if such numbers mean missing (in a run data.overflow=...)."
        )
    if form.overflow == "cap":
        return math.copysign(_LARGEST, value)
    return math.nan


# ---- Readers.


def read_letor(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    first_index: int = 1,
    absent: float = 0.0,
    overflow: str = "refuse",
    nulls: str = "refuse",
    sparse: bool = False,
    sort_queries: bool = False,
    whole_labels: bool = False,
    feature_names: str | Path | None = None,
    scratch: str | Path | None = None,
    exact: bool = False,
) -> RankingDataset:
    """Reads LETOR text: `label [weight] qid:ID index:value ... # comment`, plain or as gz, bz2, xz or zst.

    The compression is detected from the content. The document id is the word after `docid =` in the comment,
    else the whole comment. Values are read as doubles and rounded to float32; `nan` is a missing value.

    The companion files FILE.query, FILE.weight and FILE.position are read if they exist, as in LightGBM. With
    FILE.query the lines need no qid, and the query ids are "1", "2", ... Feature indices start from one
    unless `first_index` is 0, in these files as well. LightGBM itself always starts from zero, so that a file
    that starts from 1 gives it an additional empty column 0.

    Args:
        path: the file, or several files that form one split; a query may continue in the next file.
        num_features: F, the number of features; the last ones need not occur in the file. Default: the
            largest index in the file, which is refused if a dense matrix of this width takes more than 1 GB
            and more than 1000 times the memory of the text: the index is probably wrong.
        first_index: index of the first feature, 1 or 0; the default feature names start with it.
        absent: value of a feature that a line omits, 0 or NaN.
        overflow: treatment of values beyond float32: "refuse" (an error), "cap" (largest float32 of the same
            sign) or "missing" (NaN).
        nulls: treatment of values written as NULL: "refuse" (an error) or "missing" (NaN).
        sparse: store only the values that the lines have, as SparseRows, for many features of which a line
            has few. The data set and the results are the same.
        sort_queries: group scattered lines by query, in the order of each query's first line; `file_rows` of
            the data set then has the original row of each document, and `from_file_order` brings scores in
            the order of the source into that of the data set, as `evaluate` takes them.
        whole_labels: reject labels that are not whole numbers.
        feature_names: file of feature names (`read_feature_names`), which also determines their number.
        exact: whether features are float64, for models that compare in float64.
        scratch: folder of a temporary file for dense features that do not fit into memory; None: they are an
            error.

    Returns:
        The documents in file order: features (D, F), labels (D,), Q queries.

    Raises:
        DataError: A file cannot be read, a line is invalid (`path:line: ...`), an index exceeds
            `num_features`, the lines of a query are not consecutive, a companion file or the file of names
            does not match, the file has no documents, or the features do not fit into memory.
        ConfigError: An option has the wrong type.

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
    form = LineFormat(
        num_features=num_features,
        first_index=first_index,
        whole_labels=whole_labels,
        overflow=overflow,
        nulls=nulls,
        absent=absent,
        sparse=sparse,
        exact=exact,
    )
    form, names = _with_names(form, feature_names)
    check_option("sort_queries", sort_queries, bool)
    paths = as_paths(path)
    companions = _read_companions(paths)
    if ".query" in companions:
        form = replace(form, needs_qid=False)
    read = _read_files(paths, form, None if scratch is None else Path(scratch))
    dataset = _dataset_of(read, companions, form, sort_queries)
    if names is not None:
        dataset = dataset.with_fields(feature_names=names)
    return _with_merged(dataset, paths[0], form)


def read_letor_features(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    feature_names: str | Path | None = None,
    **options: Any,
) -> Features:
    """Reads the features of LETOR text whose lines need neither label nor qid: `qid:ID index:value ...`.

    Labels, weights and qids are validated as in `read_letor` if they are present. Queries may be scattered,
    and companion files are not read. Blank lines are skipped; a document without features needs a qid or a
    label.

    Args:
        path, num_features, feature_names: as in `read_letor`.
        options: `first_index`, `absent`, `overflow`, `nulls`, `sparse` and `exact`, as in `read_letor`.

    Returns:
        (D, F), the documents in file order; SparseRows with `sparse`.

    Raises:
        DataError: as `read_letor`.
        ConfigError: An option has the wrong type.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "new.txt")
    ...     _ = file.write_text("qid:7 1:0.5 3:1 # docid = A\\nqid:7 2:4 # docid = B\\n")
    ...     read_letor_features(file).tolist()
    [[0.5, 0.0, 1.0], [0.0, 4.0, 0.0]]
    """
    form = LineFormat(
        num_features=num_features, needs_qid=False, needs_label=False, **options
    )
    form, _ = _with_names(form, feature_names)
    return cast(Features, _matrix_of(_read_files(as_paths(path), form).rows, form))


def _with_names(
    form: LineFormat, path: str | Path | None
) -> tuple[LineFormat, tuple[str, ...] | None]:
    """Returns the line format with the number of names in the file, and the names; None without a file."""
    if path is None:
        return form, None
    names = read_feature_names(Path(path), form.first_index)
    return replace(form, num_features=len(names)), names


# ---- The arrays of all documents, which are allocated once the text is counted, and only if they fit.

# Number, text, and entries of a tuple and a set for the name of one feature.
_BYTES_PER_NAME = 160

# A dense matrix beyond both limits is more likely a wrong index than data. Lines of 100 values and 1000
# bytes, with indices up to 100,000, give a matrix of only 400 times the text.
_IMPLAUSIBLE_RATIO = 1000
_IMPLAUSIBLE_BYTES = 10**9


def _rows_for(
    counts: NDArray[np.int64],
    num_features: int,
    form: LineFormat,
    folder: Path | None = None,
) -> DocumentRows:
    """Returns arrays for documents that were counted.

    Args:
        folder: folder of a temporary file for dense features; None: in memory.
    """
    from ltrbench.data import letor_kernels as kernels

    num_documents = int(counts[kernels.DOCUMENTS])
    num_dense = num_documents
    num_sparse = 0
    num_values = 0
    if form.sparse:
        num_dense = 0
        num_sparse = num_documents
        num_values = int(counts[kernels.VALUES])
    shape = (num_dense, num_features)
    if folder is None:
        features = full(shape, form.absent, form.dtype)
    else:
        features = array_in_file(folder, shape, form.absent, form.dtype)
    num_weights = num_documents if counts[kernels.WEIGHTS] else 0
    shape_of_ids = (num_documents, counts[kernels.LONGEST_DOCUMENT_ID])
    return kernels.DocumentRows(
        features=features,
        row_stop=np.empty(num_sparse, dtype=np.int64),
        columns=np.empty(num_values, dtype=np.int32),
        values=np.empty(num_values, dtype=form.dtype),
        labels=np.empty(num_documents),
        weights=np.empty(num_weights),
        line_numbers=np.empty(num_documents, dtype=np.int64),
        documents=np.zeros(shape_of_ids, dtype=np.uint32),
    )


def _allocate(
    paths: Sequence[Path],
    counts: Sequence[NDArray[np.int64]],
    form: LineFormat,
    scratch: Path | None,
) -> DocumentRows:
    """Returns arrays for the documents of all files.

    Args:
        counts: (number of units, COUNTS) of each file.
        scratch: folder of a temporary file for dense features that do not fit into memory; None: they are
            refused.

    Raises:
        DataError: They do not fit into memory; or the number of features is the largest index, and a dense
            matrix of this width takes more than 1 GB and more than 1000 times the memory of its text.
    """
    from ltrbench.data import letor_kernels as kernels

    units = np.concatenate(counts)
    total = units.sum(axis=0)
    total[kernels.LONGEST_DOCUMENT_ID] = units[:, kernels.LONGEST_DOCUMENT_ID].max()
    width = form.num_features
    if not width:
        largest = int(units[:, kernels.LARGEST_INDEX].max())
        # A line with a larger index is invalid; the second pass reports it.
        width = min(max(largest + 1 - form.first_index, 0), MAX_FEATURES)
    if width == 0:
        _check_first_lines(paths[0], form)
        raise DataError(
            f"{paths[0]}: no line has a feature. {SYNTAX} If that is right, set num_features."
        )
    size = _Size.of(total, width, form)
    available = available_bytes()
    fits = size.features + size.others <= available
    in_file = scratch is not None and not form.sparse and not fits
    if in_file:
        fits = size.others <= available
    is_guessed = not form.sparse and form.num_features is None
    if not fits or (is_guessed and size.is_implausible):
        num_documents = int(total[kernels.DOCUMENTS])
        raise DataError(
            f"{_line_of_largest(paths, counts)}: the largest index is on this line, and {num_documents} "
            f"documents with {width} features need {size.gigabytes:.1f} GB of memory. Correct the "
            "index; or set sparse=true (in a run data.sparse=true) if lines omit most features; or keep the "
            "features on the disk with `data build` or data.cache=DIR; or set "
            f"num_features={width} to accept the size."
        )
    return _rows_for(total, width, form, scratch if in_file else None)


def _check_first_lines(path: Path, form: LineFormat) -> None:
    """Raises DataError for an invalid line in the first block of a file, such as the header of a CSV file."""
    text, first_line = next(read_blocks(path))
    for number, line in enumerate(text.split(b"\n"), first_line):
        parse_line(line, f"{path}:{number}", form)


@dataclass(frozen=True, kw_only=True)
class _Size:
    """Sizes of all documents, in bytes.

    Attributes:
        text: the files.
        matrix: the features as a dense matrix.
        features: the features as they are stored.
        others: labels, line numbers, weights, ids and names.
    """

    text: int
    matrix: int
    features: int
    others: int

    @classmethod
    def of(cls, counts: NDArray[np.int64], width: int, form: LineFormat) -> _Size:
        """Returns the sizes.

        Args:
            counts: (COUNTS,) of all documents.
            width: number of features.
        """
        from ltrbench.data import letor_kernels as kernels

        num_documents = int(counts[kernels.DOCUMENTS])
        value_bytes = np.dtype(form.dtype).itemsize
        matrix = value_bytes * num_documents * width
        features = matrix
        if form.sparse:
            bytes_of_cell = value_bytes + 4  # with its column
            num_cells = int(counts[kernels.VALUES])
            features = 8 * num_documents + bytes_of_cell * num_cells
        num_columns = 3 if counts[kernels.WEIGHTS] else 2
        columns = 8 * num_documents * num_columns
        ids = 4 * num_documents * int(counts[kernels.LONGEST_DOCUMENT_ID])
        names = width * _BYTES_PER_NAME
        return cls(
            text=int(counts[kernels.BYTES]),
            matrix=matrix,
            features=features,
            others=columns + ids + names,
        )

    @property
    def gigabytes(self) -> float:
        return (self.features + self.others) / 1e9

    @property
    def is_implausible(self) -> bool:
        """Whether the largest index, which is the width of the matrix, is probably wrong."""
        return self.matrix > max(_IMPLAUSIBLE_BYTES, _IMPLAUSIBLE_RATIO * self.text)


def _line_of_largest(paths: Sequence[Path], counts: Sequence[NDArray[np.int64]]) -> str:
    """Returns `path:line` of the first line with the largest index of all files."""
    from ltrbench.data import letor_kernels as kernels

    largest = [of_file[:, kernels.LARGEST_INDEX].max() for of_file in counts]
    number = int(np.argmax(largest))
    of_file = counts[number]
    unit = int(of_file[:, kernels.LARGEST_INDEX].argmax())
    lines_before = of_file[:unit, kernels.LINES].sum()
    line = lines_before + of_file[unit, kernels.LINE] + 1
    return f"{paths[number]}:{line}"


# ---- Parses the lines into the arrays.
#
# `_fill_unit` uses a kernel, and the specification `parse_line` for every line that the kernel does not
# accept. Results and errors are therefore always those of the specification, and a test compares the two.

QueryRun = tuple[int, str]
"""First row of consecutive documents of one query, and the query id, "" if the lines have no qid."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Read:
    """Content of all files of a split."""

    paths: Sequence[Path]
    rows: DocumentRows
    # (n + 1,), first document of each file, followed by D.
    file_start: NDArray[np.int64]
    # (R + 1,), first row of each run of lines with the same qid, followed by D.
    run_start: NDArray[np.int64]
    queries: list[str]  # (R,), its qid; "" in LightGBM's form

    def location(self, row: int) -> str:
        """Returns `path:line` of a document."""
        number = int(np.searchsorted(self.file_start, row, side="right")) - 1
        return f"{self.paths[number]}:{self.rows.line_numbers[row]}"


def _read_files(
    paths: Sequence[Path], form: LineFormat, scratch: Path | None = None
) -> _Read:
    counts = [_counts_of(path) for path in paths]
    rows = _allocate(paths, counts, form, scratch)
    runs: list[QueryRun] = []
    # Numbers of documents and of values up to the end of each file.
    ends = [np.zeros(2, dtype=np.int64)]
    for path, of_units in zip(paths, counts, strict=True):
        of_file, end = _fill_file(path, of_units, ends[-1], form, rows)
        ends.append(end)
        for run in of_file:
            if not runs or run[1] != runs[-1][1]:
                runs.append(run)
    file_start = np.array(ends)[:, 0]
    first_rows = [row for row, _ in runs]
    return _Read(
        paths=paths,
        rows=rows,
        file_start=file_start,
        run_start=np.array([*first_rows, file_start[-1]]),
        queries=[query for _, query in runs],
    )


def _counts_of(path: Path) -> NDArray[np.int64]:
    """Returns the (number of units, COUNTS) counts of a file.

    Raises:
        DataError: The file has no documents.
    """
    # Imported here, because `--help` reads no data and should not wait for numba.
    from ltrbench.data import letor_kernels as kernels

    def count(_: int, text: bytes) -> Any:
        return kernels.count_lines(np.frombuffer(text, np.uint8))

    units = np.array(for_each_unit(path, count), dtype=np.int64)
    counts = units.reshape(-1, kernels.COUNTS)
    if not counts[:, kernels.DOCUMENTS].any():
        raise DataError(
            f"{path}: the file has no documents, at most blank lines and comments. {SYNTAX}"
        )
    return counts


def _fill_file(
    path: Path,
    counts: NDArray[np.int64],
    start: NDArray[np.int64],
    form: LineFormat,
    rows: DocumentRows,
) -> tuple[list[QueryRun], NDArray[np.int64]]:
    """Parses a file; returns its runs, and the numbers of documents and values up to its end."""
    from ltrbench.data import letor_kernels as kernels

    sizes = counts[:, [kernels.DOCUMENTS, kernels.VALUES]]
    starts = np.cumsum(np.vstack([start, sizes]), axis=0)
    first_line = np.cumsum([1, *counts[:, kernels.LINES]])

    def fill(number: int, text: bytes) -> list[QueryRun]:
        first_document, first_value = starts[number].tolist()
        end_document, end_value = starts[number + 1].tolist()
        unit = _Unit(
            path=path,
            text=text,
            first_line=int(first_line[number]),
            first_document=first_document,
            end_document=end_document,
            first_value=first_value,
            end_value=end_value,
        )
        return _fill_unit(unit, rows, form)

    runs = chain.from_iterable(for_each_unit(path, fill))
    return list(runs), starts[-1]


@dataclass(frozen=True, kw_only=True)
class _Unit:
    """Whole lines of a file, and the place of their content in the arrays.

    Attributes:
        first_line: number of the first line in the file, from 1.
        first_document, end_document: numbers of documents before these lines, and up to their end.
        first_value, end_value: numbers of values before these lines, and up to their end.
    """

    path: Path
    text: bytes
    first_line: int
    first_document: int
    end_document: int
    first_value: int
    end_value: int


def _fill_unit(unit: _Unit, rows: DocumentRows, form: LineFormat) -> list[QueryRun]:
    """Parses lines into the rows that were counted for them, and returns their queries.

    Raises:
        DataError: as `parse_line`; the lines are not the ones that were counted.
    """
    from ltrbench.data import letor_kernels as kernels

    content = np.frombuffer(unit.text, dtype=np.uint8)
    rules = kernels.Rules(
        first_index=form.first_index,
        overflow=OVERFLOWS.index(form.overflow),
        whole_labels=form.whole_labels,
        needs_label=form.needs_label,
        needs_qid=form.needs_qid,
        sparse=form.sparse,
        exact=form.exact,
    )
    # The kernel must not write beyond these lines, even if the file has changed.
    rows = rows._replace(
        labels=rows.labels[: unit.end_document], columns=rows.columns[: unit.end_value]
    )
    cursor = np.zeros(kernels.CURSOR, dtype=np.int64)
    cursor[kernels.LINE_NUMBER] = unit.first_line
    cursor[kernels.ROW] = unit.first_document
    cursor[kernels.NUM_STORED] = unit.first_value
    num_documents = unit.end_document - unit.first_document
    spans = np.empty((num_documents, 3), dtype=np.int64)
    runs: list[QueryRun] = []
    is_odd = True
    while is_odd:
        cursor[kernels.NUM_RUNS] = 0
        is_odd = kernels.parse_lines(content, cursor, rules, rows, spans)
        for row, begin, stop in spans[: cursor[kernels.NUM_RUNS]].tolist():
            where = f"{unit.path}:{rows.line_numbers[row]}"
            query = _query_id(unit.text[begin:stop], where)
            runs.append((row, query))
        if is_odd:
            runs += _fill_odd_line(unit, cursor, form, rows)
    _check_was_filled(unit, cursor, form)
    return runs


def _check_was_filled(unit: _Unit, cursor: NDArray[np.int64], form: LineFormat) -> None:
    from ltrbench.data import letor_kernels as kernels

    has_documents = cursor[kernels.ROW] == unit.end_document
    has_values = not form.sparse or cursor[kernels.NUM_STORED] == unit.end_value
    if not has_documents or not has_values:
        raise DataError(
            f"{unit.path}: the file changed while it was read. Read it again."
        )


def _fill_odd_line(
    unit: _Unit, cursor: NDArray[np.int64], form: LineFormat, rows: DocumentRows
) -> list[QueryRun]:
    """Parses the line at the cursor by the specification, and moves the cursor behind it."""
    from ltrbench.data import letor_kernels as kernels

    begin = int(cursor[kernels.POSITION])
    number = int(cursor[kernels.LINE_NUMBER])
    stop = unit.text.index(b"\n", begin)
    text = unit.text[begin:stop]
    line = parse_line(text, f"{unit.path}:{number}", form)
    cursor[kernels.POSITION] = stop + 1
    cursor[kernels.LINE_NUMBER] = number + 1
    if line is None:
        return []
    row = int(cursor[kernels.ROW])
    columns = np.array(line.indices, dtype=np.int64) - form.first_index
    if form.sparse:
        first = int(cursor[kernels.NUM_STORED])
        end = first + len(columns)
        rows.columns[first:end] = columns
        rows.values[first:end] = line.values
        rows.row_stop[row] = end
        cursor[kernels.NUM_STORED] = end
    else:
        rows.features[row] = form.absent
        rows.features[row, columns] = line.values
    rows.labels[row] = line.label
    if len(rows.weights):
        rows.weights[row] = math.nan if line.weight is None else line.weight
    rows.line_numbers[row] = number
    document = np.frombuffer(line.document, dtype=np.uint8)
    rows.documents[row, : len(document)] = document
    cursor[kernels.ROW] = row + 1
    return [(row, line.query)]


def _matrix_of(rows: DocumentRows, form: LineFormat) -> AnyFeatures:
    """Returns the features, once they are written."""
    if form.sparse:
        num_features = rows.features.shape[1]
        row_start = np.append(np.int64(0), rows.row_stop)
        return SparseRows(
            row_start, rows.columns, rows.values, num_features, form.absent
        )
    # So that the memory of blocks of a file is released.
    rows.features.flags.writeable = False
    return rows.features


# ---- Different values that become equal in float32, in the first lines of a file.

_COMMENT = re.compile(rb"#[^\n]*")
_LONG_NUMBER = re.compile(rb":[+-]?+[0.]*+[1-9](?:[0-9]{7}|[0-9.]{8})")  # eight digits
_SHORT_TEXT = 1 << 14
_TEXT = 1 << 17  # bytes that are searched for such a number, and read if there is one
_CELL = re.compile(rb"\s([0-9]++):([+-]?[0-9.]++(?:[eE][+-]?[0-9]++)?)(?=\s)")


def _with_merged(
    dataset: RankingDataset, path: Path, form: LineFormat
) -> RankingDataset:
    """Returns the data set with the names of features whose different values became equal, and logs them."""
    found = _merged(path)
    if not found:
        return dataset
    names = dataset.feature_names
    merged = {}
    for index, pair in found.items():
        merged[names[index - form.first_index]] = pair
    if not form.exact:
        log.warning(merged_in_words(str(path), merged))
    return dataset.with_fields(merged=tuple(merged))


def _merged(path: Path) -> dict[int, Pair]:
    """Returns index -> example of such features in the first block of lines.

    Files without a number of eight digits take no time here.
    """
    text, _ = next(read_blocks(path))
    if not _LONG_NUMBER.search(text, 0, _SHORT_TEXT):
        return {}
    cells = _CELL.findall(_COMMENT.sub(b"", text[:_TEXT]))
    try:
        indices = [int(index) for index, _ in cells]
        values = [float(value) for _, value in cells]
        return merged_cells(np.array(indices, dtype=np.int64), np.array(values))
    except (OverflowError, ValueError):  # the parser of lines has accepted the file
        return {}


# ---- The data set of the rows and the companion files.


def _dataset_of(
    read: _Read, companions: Companions, form: LineFormat, sort_queries: bool
) -> RankingDataset:
    rows = read.rows
    _check_companions(read, companions)
    gathered = _gathered(read, companions, sort_queries)
    weights = _weights_of(read, companions)
    positions = _column_of(companions, ".position")
    ids = _ids_in(rows.documents)
    features = _matrix_of(rows, form)
    if gathered.file_rows is not None:
        features = rows_in_order(features, gathered.file_rows)
    optional: dict[str, Any] = {}
    if ids is not None:
        optional["document_ids"] = gathered.take(ids)
    if weights is not None:
        optional["document_weights"] = gathered.take(weights)
    if positions is not None:
        optional["positions"] = gathered.take(positions.astype(np.int64))
    numbers = range(form.first_index, form.first_index + rows.features.shape[1])
    # The parser refuses infinite values.
    checked = cast(Features, CheckedFeatures(features))
    try:
        return RankingDataset(
            features=checked,
            labels=gathered.take(rows.labels),
            query_start=gathered.query_start,
            query_ids=gathered.query_ids,
            file_rows=gathered.file_rows,
            feature_names=tuple(map(str, numbers)),
            **optional,
        )
    except DataError as error:
        # Errors that involve several lines, such as weights of too different magnitude.
        raise DataError(f"{', '.join(map(str, read.paths))}: {error}") from None


def _weights_of(read: _Read, companions: Companions) -> NDArray[np.float64] | None:
    """Returns the (D,) weights in the lines, or in companion files; None without any."""
    weights = read.rows.weights
    if not len(weights):
        return _column_of(companions, ".weight")
    _check_all_or_none(~np.isnan(weights), read, "weight")
    return weights


def _ids_in(characters: NDArray[np.uint32]) -> NDArray[np.str_] | None:
    """Returns the document ids in the (D, n) bytes of their texts; None if no line has one."""
    num_bytes = characters.shape[1]
    if not num_bytes:
        return None
    if characters.max() > 127:  # not only ASCII
        texts = characters.astype(np.uint8).view(f"S{num_bytes}")
        return decoded(texts[:, 0])
    ids: NDArray[np.str_] = characters.view(f"U{num_bytes}")[:, 0]
    return ids


def _gathered(read: _Read, companions: Companions, sort_queries: bool) -> Gathered:
    """Groups the rows of all files by query."""
    run_sizes = np.diff(read.run_start)
    has_query = [bool(query) for query in read.queries]
    _check_all_or_none(np.repeat(has_query, run_sizes), read, "qid")
    sizes = _column_of(companions, ".query")
    if sizes is None:
        return gather(read.queries, sort_queries, read.location, run_sizes)
    ends = np.cumsum(sizes.astype(np.int64))
    query_start = np.concatenate([[0], ends])
    query_ids = np.arange(1, len(query_start)).astype(np.str_)
    return Gathered(query_start, query_ids, file_rows=None)


def _check_all_or_none(has: NDArray[np.bool_], read: _Read, what: str) -> None:
    """Raises DataError if only some documents have a qid or weight; `has` is (D,)."""
    odd = np.flatnonzero(has != has[0])
    if odd.size:
        this, others = ("has no", "have one") if has[0] else ("has a", "have none")
        raise DataError(
            f"{read.location(odd[0])}: the line {this} {what}, but earlier ones {others}; all or none must."
        )


# ---- LightGBM's companion files of a data file: FILE.query, FILE.weight and FILE.position.
#
# `.query` has one line per query, its number of documents; `.weight` and `.position` have one line per
# document. For a compressed data file the companion files have the name of the uncompressed file; their
# content may be compressed.

# Extension -> smallest value of a line, and what a line is.
_COMPANIONS = {
    ".query": (1, "a number of documents from 1, one line per query"),
    ".weight": (0, "a number of 0 or more, one line per document"),
    ".position": (0, "a whole number of 0 or more, one line per document"),
}


Companions = dict[str, list[NDArray[np.float64]]]
"""Extension -> values of the companion file of each data file, for the extensions that exist."""


def companions_of(path: Path) -> list[Path]:
    """Returns the companion files of a data file that exist."""
    return [
        file for ending in _COMPANIONS if (file := companion(path, ending)).exists()
    ]


def has_query_sizes(path: Path) -> bool:
    """Returns whether a data file has LightGBM's file of query sizes beside it, instead of query ids."""
    return companion(path, ".query").exists()


def _read_companions(paths: Sequence[Path]) -> Companions:
    """Reads the companion files of the data files of a split.

    Raises:
        DataError: A line is invalid, only some of the data files have the companion file, or one has
            FILE.init.
    """
    refuse_initial_scores(paths)
    values = {}
    for ending in _COMPANIONS:
        files = [companion(path, ending) for path in paths]
        if any(file.exists() for file in files):
            values[ending] = [_values_in(file, ending) for file in files]
    return values


def _values_in(path: Path, ending: str) -> NDArray[np.float64]:
    smallest, expected = _COMPANIONS[ending]
    lines = _content_of(path).rstrip().split(b"\n")
    values = []
    for number, line in enumerate(lines, start=1):
        value = float(line) if is_number(line.strip()) else math.nan
        # Above 2^53 a double does not represent every whole number.
        is_valid = value < math.inf
        if ending != ".weight":
            is_valid = value.is_integer() and value < 2**53
        if not (is_valid and value >= smallest):
            raise DataError(
                f"{path}:{number}: the line is {quote(line.strip())}; write {expected}."
            )
        values.append(value)
    return np.array(values)


def _content_of(path: Path) -> bytes:
    return b"".join(block for block, _ in read_blocks(path))


def _check_companions(read: _Read, companions: Companions) -> None:
    """Raises DataError if a companion file is for other documents, or repeats what the lines have."""
    in_lines = {".query": bool(read.queries[0])}
    in_lines[".weight"] = len(read.rows.weights) > 0
    sizes = np.diff(read.file_start).tolist()
    for ending, values in companions.items():
        for path, of_file, num_documents in zip(read.paths, values, sizes, strict=True):
            if in_lines.get(ending):
                raise DataError(
                    f"{path}: the lines and {companion(path, ending)} both have them. Remove one."
                )
            number = int(of_file.sum()) if ending == ".query" else len(of_file)
            if number != num_documents:
                raise DataError(
                    f"{companion(path, ending)} is for {number} documents; {path} has {num_documents}."
                )


def _column_of(companions: Companions, ending: str) -> NDArray[np.float64] | None:
    if ending in companions:
        return np.concatenate(companions[ending])
    return None


# ---- Reads files of feature names: one line `name, id` per feature.
#
# Search engines store such files together with LETOR data, which has no feature names.

_LINE = re.compile(r"(?P<name>[^\r\n]*\S)(?:\s*[,\t]\s*|\s+)(?P<id>[0-9]{1,9})")


def _name_and_id(line: str) -> tuple[str, int]:
    """Returns the name and the id in a line; the name is empty if the line has another form."""
    match = _LINE.fullmatch(line.strip())
    if match is None:
        return "", 0
    return match["name"].rstrip(", \t"), int(match["id"])


def read_feature_names(path: Path, first_index: int = 1) -> tuple[str, ...]:
    """Returns the feature names in the order of their ids; a missing id is the name of its feature.

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
    text = _content_of(path).decode(errors="backslashreplace")
    names: dict[int, str] = {}
    seen: set[object] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip().startswith("#") or not line.strip():
            continue
        name, feature = _name_and_id(line)
        feature -= first_index
        is_new = not {name, feature} & seen
        is_valid = name and 0 <= feature < MAX_FEATURES
        if not is_valid or not is_new:
            raise DataError(
                f"{path}:{number}: the line is {line.strip()[:40]!r}; write a name and a number, such as "
                f"'bm25, 1', each once, numbers from {first_index} (data.first_index) to {MAX_FEATURES}, or "
                "begin a comment with #."
            )
        seen |= {name, feature}
        names[feature] = name
    if not names:
        raise DataError(
            f"{path}: the file has no feature names; write lines 'name, id', such as 'bm25, 1'."
        )
    of_features = []
    for feature in range(max(names) + 1):
        name_without_line = str(first_index + feature)
        of_features.append(names.get(feature, name_without_line))
    return tuple(of_features)


# ---- Writes a RankingDataset as LETOR text, for `read_letor` and for other systems.
#
# Every feature of a document is written, including zeros, and missing values as `nan`, so that the file
# does not depend on a reader's value for absent features. Numbers are written with the fewest digits that
# restore the same float. An existing file is replaced completely or not at all.

_BLOCK_DOCUMENTS = 4096  # rows converted to text at a time


_FORMS_OF_QUERY = (b" qid:%b",)
_FORMS_OF_DOCUMENT = (b" # docid = %b", b" # %b")


def write_letor(dataset: RankingDataset, path: str | Path) -> None:
    """Writes LETOR text, which `read_letor(path)` restores with the same fingerprint and document ids.

    Weights follow the labels, document ids are in comments, and positions are in the companion file
    FILE.position. Feature indices start from one; feature names are not written. The extension .gz, .bz2, .xz
    or .zst selects a compression.

    Raises:
        DataError: The data set has categories or kept columns, for which LETOR text has no place; an id
            cannot be written in a line, a FILE.query or FILE.weight of another data set exists, or the folder
            is not writable.

    >>> from tempfile import TemporaryDirectory
    >>> data = RankingDataset(features=[[0.5, 0], [1, 4]], labels=[2, 0], query_start=[0, 1, 2])
    >>> with TemporaryDirectory() as folder:
    ...     write_letor(data, Path(folder, "train.txt"))
    ...     print(Path(folder, "train.txt").read_text(), end="")
    2 qid:1 1:0.5 2:0.0
    0 qid:2 1:1.0 2:4.0
    """
    path = Path(path)
    _check_no_columns(dataset, path)
    heads = _heads(dataset)
    comments = _comments(dataset)
    for other in companions_of(path):
        if other.suffix != ".position" or dataset.positions is None:
            raise DataError(
                f"{other} would be read as a companion file of {path}; remove it, or write elsewhere."
            )
    if dataset.positions is not None:
        with write_whole(companion(path, ".position")) as stream:
            lines = [b"%d\n" % position for position in dataset.positions.tolist()]
            stream.write(b"".join(lines))
    indices = [b" %d:" % index for index in range(1, dataset.num_features + 1)]
    with write_whole(path) as stream:
        for start, block in row_blocks(dataset.features, _BLOCK_DOCUMENTS):
            # NumPy writes the shortest text that restores the same float32.
            for row, values in enumerate(block.astype(np.bytes_).tolist(), start):
                parts = [_number(float(dataset.labels[row])), heads[row]]
                for cell in zip(indices, values, strict=True):
                    parts += cell
                parts += [comments[row], b"\n"]
                stream.write(b"".join(parts))


def _check_no_columns(dataset: RankingDataset, path: Path) -> None:
    """Raises DataError for categories, which would be read as numbers, and for kept columns."""
    names = [*dataset.categories, *dataset.kept]
    if names:
        listed = ", ".join(names[:8])
        raise DataError(
            f"{path}: LETOR text has no place for categories and kept columns ({listed}). Write a table "
            "(write_table), or leave them out: dataset.with_fields(categories={}, kept={}), whose categories "
            "are numbers."
        )


def _number(value: float) -> bytes:
    """Returns the shortest text of a double; whole numbers without a fraction, as other systems require.

    >>> _number(2.0), _number(0.1)
    (b'2', b'0.1')
    """
    return repr(value).removesuffix(".0").encode()


def _heads(dataset: RankingDataset) -> list[bytes]:
    """Returns the weight and the query of each line."""
    queries = [
        _written("query_ids", _FORMS_OF_QUERY, query)
        for query in dataset.query_ids.tolist()
    ]
    heads = [queries[query] for query in dataset.query_of_document.tolist()]
    if dataset.query_weights is None:
        return heads
    weights = map(_number, dataset.weight_of_document.tolist())
    return [b" %b%b" % pair for pair in zip(weights, heads, strict=True)]


def _comments(dataset: RankingDataset) -> list[bytes]:
    """Returns the comment of each line, with the document id."""
    if dataset.document_ids is None:
        return [b"" for _ in range(dataset.num_documents)]
    comments = []
    for document in dataset.document_ids.tolist():
        comment = b""
        if document:
            comment = _written("document_ids", _FORMS_OF_DOCUMENT, document)
        comments.append(comment)
    return comments


def _written(name: str, forms: Sequence[bytes], text: str) -> bytes:
    """Returns the id of a query or a document in the first form from which it is read again."""
    # A lone surrogate has no encoding; its escape is another id.
    token = text.encode(errors="backslashreplace")
    if b"\n" in token:
        forms = ()
    for form in forms:
        with contextlib.suppress(DataError):
            line = parse_line(b"0" + form % token, "", LineFormat(needs_qid=False))
            if line is None:
                continue
            ids = [line.query, line.document.decode()]
            if ids in ([text, ""], ["", text]):
                return form % token
    raise DataError(
        f"{name}: {text!r} cannot be written as LETOR text; ids have at most {LONGEST_ID} bytes, those of "
        "queries are one word without '#', and those of documents one line. Rename it, or write a table."
    )
