"""Reads LETOR text, in LETOR's form or LightGBM's, into a RankingDataset.

    label [weight] qid:ID index:value index:value ... # comment

One line is one document. The lines of a query are consecutive. Blank lines and comment lines are skipped. In
LightGBM's form the lines have no qid, and companion files contain the query sizes: see `letor_lines`. The
reader works in two passes over units of lines, which `blocks` reads on all cores: the first counts the
documents, so that `allocate` makes arrays for them, and the second parses the lines into these arrays as
`letor_lines` specifies. The two passes need little more memory than the result, but decompress a file twice.

`read_letor_features` reads documents for prediction, which need neither label nor query.

To read another text format, write a function like `read_letor` that returns a RankingDataset.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate, chain
from operator import add
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.blocks import (
    Gathered,
    Text,
    Unit,
    as_paths,
    check_some_weight,
    check_switch,
    for_each_unit,
    gather_runs,
    read_twice,
)
from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import (
    AnyFeatures,
    CheckedFeatures,
    SparseRows,
    array_in_file,
)
from ltrbench.data.letor_lines import (
    MAX_FEATURES,
    NOTHING_BESIDE,
    OVERFLOWS,
    SYNTAX,
    Companions,
    LineFormat,
    check_companions,
    companion,
    document_id,
    number_positions,
    parse_line,
    read_companions,
    read_feature_names,
)
from ltrbench.errors import ConfigError, DataError
from ltrbench.measure import available_bytes
from ltrbench.shapes import Features, Labels, QueryStart


@dataclass(frozen=True, slots=True, eq=False)
class _File:
    """Content of one file with n documents, n at least 1, and of its companion files."""

    path: Path
    rows: DocumentRows
    query_start: QueryStart  # (R + 1,), first row of each run of lines with the same qid, followed by n
    queries: list[str]  # (R,), its qid; "" in LightGBM's form
    weights: NDArray[np.float64] | None  # (n,)
    beside: Companions

    @property
    def has_qid(self) -> bool:
        return bool(self.queries[0])


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
            the data set then has the original row of each document.
        whole_labels: reject labels that are not whole numbers.
        feature_names: file of feature names (`read_feature_names`), which also determines their number.
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
    form = LineFormat(num_features, first_index, whole_labels, overflow=overflow, nulls=nulls)
    check_switch("sort_queries", sort_queries)
    check_switch("sparse", sparse)
    _check_absent(absent)
    form, names = _with_names(form, feature_names)
    paths = as_paths(path)
    with _naming_files_beyond_memory(paths):
        folder = None if scratch is None else Path(scratch)
        rows, sizes, files = _read_files(paths, form, absent, sparse, read_companions, folder)
        dataset = _join(rows, sizes, files, form, absent, sort_queries)
    return dataset if names is None else dataset.with_feature_names(names)


def read_letor_features(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    first_index: int = 1,
    absent: float = 0.0,
    overflow: str = "refuse",
    nulls: str = "refuse",
    sparse: bool = False,
    feature_names: str | Path | None = None,
) -> Features:
    """Reads the features of LETOR text whose lines need neither label nor qid: `qid:ID index:value ...`.

    Labels, weights and qids are validated as in `read_letor` if they are present. Queries may be scattered,
    and companion files are not read. Blank lines are skipped; a document without features needs a qid or a
    label. The options are those of `read_letor`.

    Returns:
        (D, F), the documents in file order; SparseRows with `sparse`.

    Raises:
        DataError: as `read_letor`; only some lines of a file have a label, a weight or a qid.
        ConfigError: An option has the wrong type.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "new.txt")
    ...     _ = file.write_text("qid:7 1:0.5 3:1 # docid = A\\nqid:7 2:4 # docid = B\\n")
    ...     read_letor_features(file).tolist()
    [[0.5, 0.0, 1.0], [0.0, 4.0, 0.0]]
    """
    form = LineFormat(
        num_features, first_index, needs_qid=False, needs_label=False, overflow=overflow, nulls=nulls
    )
    check_switch("sparse", sparse)
    _check_absent(absent)
    form, _ = _with_names(form, feature_names)
    paths = as_paths(path)
    with _naming_files_beyond_memory(paths):
        rows, sizes, _ = _read_files(paths, form, absent, sparse, lambda _: NOTHING_BESIDE)
        _check_width(rows, sizes)
        return cast(Features, rows.matrix(absent))


@contextlib.contextmanager
def _naming_files_beyond_memory(paths: Sequence[Path]) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise DataError(
            f"{', '.join(map(str, paths))}: the float32 feature matrix, whose width is the largest feature "
            "index, does not fit into memory. Check that index, and number the features without gaps."
        ) from None


def _check_absent(absent: object) -> None:
    if not isinstance(absent, (int, float)) or isinstance(absent, bool):
        raise ConfigError(f"absent is {absent!r}; it must be 0 or nan.")
    if not (absent == 0 or math.isnan(absent)):
        raise DataError(f"absent is {absent}; the value of features that a line omits must be 0 or nan.")


def _with_names(form: LineFormat, path: str | Path | None) -> tuple[LineFormat, tuple[str, ...] | None]:
    """Returns the line format with the number of names in the file, and the names; None without a file."""
    if path is None:
        return form, None
    names = read_feature_names(Path(path), form.first_index)
    if form.num_features not in (None, len(names)):
        raise DataError(
            f"{path}: the file names {len(names)} features, but {form.num_features} were expected "
            "(num_features, or the number of features in training). Add the missing names, or correct "
            "num_features."
        )
    reason = f"the number of names in {path}. Add the missing names, or correct the index"
    return replace(form, num_features=len(names), width_reason=reason), names


def _read_files(
    paths: Sequence[Path],
    form: LineFormat,
    absent: float,
    sparse: bool,
    companions: Callable[[Path], Companions],
    scratch: Path | None = None,
) -> tuple[DocumentRows, list[FileSize], list[_File]]:
    """Returns the rows of all files, the sizes, and the content of each file, which refers to the rows."""
    with contextlib.ExitStack() as stack:
        texts = [stack.enter_context(read_twice(path)) for path in paths]
        sizes = count_files(texts)
        rows = allocate(sizes, form, absent, sparse, scratch)
        files, before = [], Counts()
        for size, text in zip(sizes, texts, strict=True):
            beside = companions(size.path)
            lines = form if beside.query_sizes is None else replace(form, needs_qid=False)
            files.append(_read_file(size, text, lines, absent, beside, rows.part(before, size.total)))
            before += size.total
    return rows, sizes, files


def _read_file(
    size: FileSize, text: Text, form: LineFormat, absent: float, beside: Companions, rows: DocumentRows
) -> _File:
    path = size.path
    runs = _fill(size, text, form, absent, rows)
    num_documents = len(rows.labels)
    if not num_documents:
        problem = "contains only blank lines and comments" if size.units else "is empty"
        raise DataError(
            f"{path}: the file {problem}. {SYNTAX} Check that the file was written and copied completely."
        )
    _check_all_or_none(~np.isnan(rows.labels), rows, path, "label")
    query_start = np.array([row for row, _ in runs] + [num_documents])
    queries = [query for _, query in runs]
    has_qid = np.repeat([bool(query) for query in queries], np.diff(query_start))
    _check_all_or_none(has_qid, rows, path, "qid")
    check_companions(beside, path, num_documents)
    if queries[0] and beside.query_sizes is not None:
        _check_agreement(query_start, queries, beside.query_sizes, rows, path)
    return _File(path, rows, query_start, queries, _weights(rows, beside, path), beside)


def _fill(size: FileSize, text: Text, form: LineFormat, absent: float, rows: DocumentRows) -> list[QueryRun]:
    """Parses the lines of a file into its rows, and returns the runs of lines with the same qid."""
    before = list(accumulate(size.units, initial=Counts()))

    def fill(number: int, unit: Unit) -> list[QueryRun]:
        first = before[number]
        try:
            part = rows.part(first, size.units[number])
            runs = fill_block(unit, first.num_lines + 1, form, absent, size.path, part)
        except (IndexError, ValueError):  # more units, documents, values or longer ids than were counted
            raise _changed_between_passes(size.path) from None
        part.skipped[:] += first.num_documents
        return [(first.num_documents + row, query) for row, query in runs]

    runs_of_units, error = for_each_unit(text, fill)
    if error is not None:
        raise error
    if len(runs_of_units) < len(size.units):
        raise _changed_between_passes(size.path)
    runs: list[QueryRun] = []
    for run in chain.from_iterable(runs_of_units):
        if not runs or run[1] != runs[-1][1]:
            runs.append(run)
    return runs


def _check_all_or_none(has: NDArray[np.bool_], rows: DocumentRows, path: Path, what: str) -> None:
    """Raises DataError if only some documents have a label, qid or weight; `has` is (n,)."""
    odd = np.flatnonzero(has != has[0])
    if odd.size:
        this, others = ("has no", "have one") if has[0] else ("has a", "have none")
        raise DataError(
            f"{path}:{rows.line(odd[0])}: the line {this} {what}, but the lines before it {others}. "
            f"Add a {what} to every document of the file, or remove all of them."
        )


def _check_agreement(
    query_start: QueryStart,
    queries: list[str],
    query_sizes: NDArray[np.int64],
    rows: DocumentRows,
    path: Path,
) -> None:
    """Raises DataError if the queries by qid and by FILE.query do not start at the same lines."""
    by_size = np.concatenate([[0], np.cumsum(query_sizes)[:-1]])
    odd = np.setxor1d(by_size, query_start[:-1])
    if odd.size:
        row = odd[0]
        query = queries[int(np.searchsorted(query_start, row, side="right")) - 1]
        this, other = (
            ("continues", "starts another query") if row in by_size else ("starts", "starts no query")
        )
        raise DataError(
            f"{path}:{rows.line(row)}: query {query!r} {this} on this line by its qid, but "
            f"{companion(path, '.query')} {other} here. Remove the .query file, or correct one of the two "
            "files."
        )


def _weights(rows: DocumentRows, beside: Companions, path: Path) -> NDArray[np.float64] | None:
    """Returns the (n,) document weights, from the lines or from FILE.weight."""
    if not len(rows.weights):
        return beside.weights
    has = ~np.isnan(rows.weights)
    _check_all_or_none(has, rows, path, "weight")
    if has[0] and beside.weights is not None:
        raise DataError(
            f"{path}:{rows.line(0)}: both the lines and {companion(path, '.weight')} have weights. Remove "
            "one of the two."
        )
    return rows.weights if has[0] else beside.weights


def _join(
    rows: DocumentRows,
    sizes: list[FileSize],
    files: list[_File],
    form: LineFormat,
    absent: float,
    sort_queries: bool,
) -> RankingDataset:
    """Joins the files into one data set, its rows in the order of `_gather`."""
    _check_alike(files)
    gathered = _gather(files, sort_queries)
    of_files = [file.weights for file in files if file.weights is not None]
    weights = gathered.take(np.concatenate(of_files)) if of_files else None
    if weights is not None:
        check_some_weight(weights, gathered, lambda row: _place(files, row))
    positions = [name for file in files for name in file.beside.positions or ()]
    _check_width(rows, sizes)
    longest_id = rows.documents.shape[1]
    ids = gathered.take(rows.documents.view(f"U{longest_id}")[:, 0]) if longest_id else None
    # The parser refuses infinite values.
    features = CheckedFeatures(gathered.take_features(rows.matrix(absent)))
    try:
        return RankingDataset(
            features=cast(Features, features),
            labels=gathered.take(rows.labels),
            query_start=gathered.query_start,
            query_ids=gathered.query_ids,
            document_ids=ids,
            document_weights=weights,
            positions=gathered.take(number_positions(positions)) if positions else None,
            file_rows=gathered.file_rows,
            feature_names=tuple(str(number + form.first_index) for number in range(rows.features.shape[1])),
        )
    except DataError as error:
        # Errors that involve several lines, such as weights of too different magnitude.
        raise DataError(f"{', '.join(str(file.path) for file in files)}: {error}") from None


def _check_alike(files: list[_File]) -> None:
    """Raises DataError if only some files of a split have qids, weights or positions."""
    kinds = {
        "qids": [file.has_qid for file in files],
        "weights": [file.weights is not None for file in files],
        "positions": [file.beside.positions is not None for file in files],
    }
    for what, has in kinds.items():
        if any(has) and not all(has):
            raise DataError(
                f"{files[has.index(False)].path}: the file has no {what}, but {files[has.index(True)].path}, "
                f"in the same split, does. Add {what} to every file of the split, or remove them from all."
            )


def _gather(files: list[_File], sort_queries: bool) -> Gathered:
    """Groups the rows of all files by query; see `gather_runs`."""
    if files[0].has_qid:
        queries = [query for file in files for query in file.queries]
        sizes = np.concatenate([np.diff(file.query_start) for file in files])
        return gather_runs(queries, sizes, sort_queries, lambda row: _place(files, row))
    by_file = [file.beside.query_sizes for file in files if file.beside.query_sizes is not None]
    query_start = np.concatenate([[0], np.cumsum(np.concatenate(by_file))])
    return Gathered(query_start, np.arange(1, len(query_start)).astype(np.str_), file_rows=None)


def _place(files: list[_File], row: int) -> str:
    """Returns `path:line` of a document, given its row (0 to D - 1) in the concatenated files."""
    ends = np.cumsum([len(file.rows.labels) for file in files])
    number = int(np.searchsorted(ends, row, side="right"))
    file = files[number]
    return f"{file.path}:{file.rows.line(row - int(ends[number]) + len(file.rows.labels))}"


def _check_width(rows: DocumentRows, sizes: list[FileSize]) -> None:
    """Raises DataError if there are no features."""
    if rows.features.shape[1] == 0:
        widest = max(sizes, key=lambda size: size.total.largest)
        raise DataError(
            f"{widest.path}: no line has a feature. {SYNTAX} Add features, or set num_features if "
            "all values are absent on purpose."
        )


# ---- Size of LETOR text, counted in a first pass over its lines.


@dataclass(frozen=True, slots=True)
class Counts:
    """Size of a text with n documents, exact if every line is valid."""

    num_documents: int = 0
    num_lines: int = 0
    num_bytes: int = 0
    largest: int = -1  # largest feature index; -1 if no line has a feature
    line: int = 0  # number of the first line that has it, from one
    text: bytes = b""  # of this line
    second: int = -1  # largest feature index of the other lines
    longest_id: int = 0  # number of characters of the longest document id
    num_weights: int = 0
    num_values: int = 0  # number of `index:value` pairs

    def __add__(self, other: Counts) -> Counts:
        """Returns the counts of both texts; this one comes first."""
        is_wider = other.largest > self.largest
        most, less = (other, self) if is_wider else (self, other)
        return Counts(
            num_documents=self.num_documents + other.num_documents,
            num_lines=self.num_lines + other.num_lines,
            num_bytes=self.num_bytes + other.num_bytes,
            largest=most.largest,
            line=self.num_lines + other.line if is_wider else self.line,
            text=most.text,
            second=max(most.second, less.largest),
            longest_id=max(self.longest_id, other.longest_id),
            num_weights=self.num_weights + other.num_weights,
            num_values=self.num_values + other.num_values,
        )

    @property
    def num_skipped(self) -> int:
        """Number of lines without a document: blank lines and comment lines."""
        return self.num_lines - self.num_documents


@dataclass(frozen=True)
class FileSize:
    """Counts of each unit of a file."""

    path: Path
    units: list[Counts]

    @cached_property
    def total(self) -> Counts:
        return reduce(add, self.units, Counts())


def count_files(texts: Sequence[Text]) -> list[FileSize]:
    """Counts the documents of each file, up to the first place that cannot be read.

    The second pass raises the error of this place, unless it finds an invalid line before it.
    """
    sizes: list[FileSize] = []
    error = None
    for text in texts:
        units, error = ([], error) if error else for_each_unit(text, lambda _, unit: count_unit(unit))
        sizes.append(FileSize(text.path, units))
    return sizes


def count_unit(unit: Unit) -> Counts:
    """Returns the size of whole lines; the first has the number 1."""
    # Imported here, because `--help` reads no data and should not wait for numba.
    from ltrbench.data import letor_kernels

    counts = letor_kernels.count_lines(unit.content).tolist()
    start, longest_id = counts[letor_kernels.PLACE], counts[letor_kernels.LONGEST_DOCUMENT_ID]
    if longest_id < 0:  # only Python decodes ids that are not ASCII
        parts = [line.partition(b"#") for line in unit.memory[: unit.size].split(b"\n")]
        longest_id = max(len(document_id(bytes(comment))) for content, _, comment in parts if content.strip())
    return Counts(
        num_documents=counts[letor_kernels.DOCUMENTS],
        num_lines=counts[letor_kernels.LINES],
        num_bytes=unit.size,
        largest=counts[letor_kernels.LARGEST_INDEX],
        line=counts[letor_kernels.LINE] + 1,
        text=bytes(unit.memory[start : unit.memory.index(b"\n", start)]),
        second=counts[letor_kernels.SECOND_INDEX],
        longest_id=longest_id,
        num_weights=counts[letor_kernels.WEIGHTS],
        num_values=counts[letor_kernels.VALUES],
    )


# ---- Arrays for the content of all documents, allocated once the text is counted and only if they fit.

# Number, text, and entries of a tuple and a set for the name of one feature.
_BYTES_PER_NAME = 160

# A dense matrix beyond both limits is more likely a wrong index than data. Lines of 100 values and 1000
# bytes, with indices up to 100,000, give a matrix of only 400 times the text.
_IMPLAUSIBLE_RATIO, _IMPLAUSIBLE_BYTES = 1000, 10**9


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Arrays for the m `index:value` pairs of n consecutive documents with sparse features."""

    row_stop: NDArray[np.int64]  # (n,), position after the last value of each document
    columns: NDArray[np.int32]  # (m,)
    values: NDArray[np.float32]  # (m,)
    first: int = 0  # position of the first value in the arrays of all documents

    @classmethod
    def allocate(cls, num_documents: int, num_values: int) -> Stored:
        return cls(
            row_stop=np.empty(num_documents, dtype=np.int64),
            columns=np.empty(num_values, dtype=np.int32),
            values=np.empty(num_values, dtype=np.float32),
        )

    def part(self, rows: slice, values: slice) -> Stored:
        first = self.first + values.start
        return Stored(self.row_stop[rows], self.columns[values], self.values[values], first)

    def matrix(self, num_features: int, absent: float) -> SparseRows:
        """Returns all values, once they are written."""
        row_start = np.concatenate([np.zeros(1, np.int64), self.row_stop])
        return SparseRows(row_start, self.columns, self.values, num_features, absent)


@dataclass(frozen=True, slots=True, eq=False)
class DocumentRows:
    """Arrays for the content of n consecutive documents."""

    features: Features  # (n, F), filled with the value of absent features; (0, F) if sparse
    labels: Labels  # (n,), NaN if a line has none
    weights: NDArray[np.float64]  # (n,), NaN if a line has none; (0,) if no line has one
    skipped: NDArray[np.int64]  # (S,), number of documents before each line that has none
    documents: NDArray[np.uint32]  # (n, L), code points of the document ids, filled with 0
    stored: Stored | None = None  # None: the features are dense

    @classmethod
    def allocate(
        cls,
        counts: Counts,
        num_features: int,
        absent: float,
        sparse: bool = False,
        features: Features | None = None,
    ) -> DocumentRows:
        """Returns arrays for the counted documents.

        Args:
            features: array for the features; None: a new one in memory.
        """
        num_documents = counts.num_documents
        if features is None:
            shape = (0 if sparse else num_documents, num_features)
            # The system only provides memory for zeros that are written or read.
            is_zero = absent == 0 and math.copysign(1.0, absent) > 0
            features = np.zeros(shape, np.float32) if is_zero else np.full(shape, absent, np.float32)
        return cls(
            features=features,
            labels=np.empty(num_documents),
            weights=np.empty(num_documents if counts.num_weights else 0),
            skipped=np.empty(counts.num_skipped, dtype=np.int64),
            documents=np.zeros((num_documents, counts.longest_id), dtype=np.uint32),
            stored=Stored.allocate(num_documents, counts.num_values) if sparse else None,
        )

    @staticmethod
    def num_bytes(counts: Counts, num_features: int, sparse: bool) -> int:
        """Returns the memory that `allocate` takes, and the result."""
        numbers = 8 * (counts.num_documents + counts.num_skipped)
        numbers += 8 * counts.num_documents * (counts.num_weights > 0)
        ids = 4 * counts.num_documents * counts.longest_id
        if sparse:
            return numbers + ids + 2 * 8 * counts.num_documents + 8 * counts.num_values
        return numbers + ids + 4 * counts.num_documents * num_features

    def part(self, before: Counts, counts: Counts) -> DocumentRows:
        """Returns the rows of a text without a copy, given the counts of the text before it and of itself."""
        after = before + counts
        rows = slice(before.num_documents, after.num_documents)
        values = slice(before.num_values, after.num_values)
        return DocumentRows(
            self.features[rows],
            self.labels[rows],
            self.weights[rows],
            self.skipped[before.num_skipped : after.num_skipped],
            self.documents[rows],
            None if self.stored is None else self.stored.part(rows, values),
        )

    def line(self, row: int) -> int:
        """Returns the number of the line of a document, from one, if these are the rows of a file."""
        return row + 1 + int(np.searchsorted(self.skipped, row, side="right"))

    def matrix(self, absent: float) -> AnyFeatures:
        """Returns the features, once they are written."""
        return self.features if self.stored is None else self.stored.matrix(self.features.shape[1], absent)


def allocate(
    sizes: Sequence[FileSize], form: LineFormat, absent: float, sparse: bool, scratch: Path | None = None
) -> DocumentRows:
    """Returns arrays for the documents of all files.

    Args:
        sparse: whether to store only the values that the lines have.
        scratch: folder of a temporary file for dense features that do not fit into memory; None: they are
            refused.

    Raises:
        DataError: They do not fit into memory, or dense features do not fit on the disk of `scratch`; or the
            number of features is the largest index, and a dense matrix of this width takes more than 1 GB and
            more than 1000 times the memory of its text.
    """
    total = reduce(add, (size.total for size in sizes))
    # A line with a larger index is invalid; the second pass reports it.
    width = form.num_features or min(max(total.largest + 1 - form.first_index, 0), MAX_FEATURES)
    num_bytes = DocumentRows.num_bytes(total, width, sparse) + width * _BYTES_PER_NAME
    is_chosen = sparse or form.num_features is not None
    if not is_chosen and num_bytes > max(_IMPLAUSIBLE_BYTES, _IMPLAUSIBLE_RATIO * total.num_bytes):
        raise DataError(
            f"{_need(sizes, total, width, num_bytes, form, sparse)}, more than {_IMPLAUSIBLE_RATIO} times "
            f"the {total.num_bytes} bytes of text. {_others(total)}Check that index. If it is correct, set "
            f"sparse=true (in a run data.sparse=true), or num_features={width} (in a run "
            f"data.num_features={width}) to accept the size."
        )
    available, shape = available_bytes(), (total.num_documents, width)
    in_file = scratch is not None and not sparse and num_bytes > available
    if num_bytes - in_file * 4 * math.prod(shape) > available:
        raise DataError(
            f"{_need(sizes, total, width, num_bytes, form, sparse)}, but only {available / 1e9:.1f} GB are "
            f"available. {_remedy(total, width, form, sparse, scratch)}"
        )
    features = array_in_file(scratch, shape, absent) if in_file and scratch else None
    return DocumentRows.allocate(total, width, absent, sparse, features)


def _need(
    sizes: Sequence[FileSize], total: Counts, width: int, num_bytes: int, form: LineFormat, sparse: bool
) -> str:
    """Returns the beginning of a message: the place of the largest index, and the memory that is needed.

    Raises:
        DataError: The line at this place is invalid, so that its index is no reason.
    """
    widest = max(sizes, key=lambda size: size.total.largest)
    place = f"{widest.path}:{widest.total.line}"
    # The widest line may be no document at all.
    parse_line(total.text, place, replace(form, needs_qid=False))
    with_values = f" and {total.num_values} values" if sparse else ""
    return (
        f"{place}: {_cause(width, form)}; with {total.num_documents} documents{with_values} the data needs "
        f"{num_bytes / 1e9:.1f} GB of memory as float32"
    )


def _cause(width: int, form: LineFormat) -> str:
    if form.num_features is not None:
        return f"num_features is {width}"
    return f"the largest feature index is on this line and requires {width} features"


def _remedy(total: Counts, width: int, form: LineFormat, sparse: bool, scratch: Path | None) -> str:
    """Returns the remedy: for a mistake in one line, or for data that is too large for this machine."""
    if form.num_features is None and total.second + 1 - form.first_index <= width / 2:
        return f"{_others(total)}Check that index, and number the features without gaps."
    only_stored = (
        "If the lines omit most features, set sparse=true (in a run data.sparse=true), which needs memory "
        "only for the values that they have. Otherwise "
    )
    only_stored = "" if sparse else only_stored
    smaller = "use a machine or a container with more memory, fewer documents or fewer features."
    on_disk = "" if sparse else "build a store with `python -m ltrbench data build`, or set data.cache=DIR; or "
    remedy = f"{only_stored}{on_disk}{smaller}"
    return f"The indices of other lines are of the same size. {remedy[0].upper()}{remedy[1:]}"


def _others(total: Counts) -> str:
    return f"The largest index of all other lines is {total.second}. " if total.second >= 0 else ""


# ---- Blocks of LETOR lines, parsed into arrays.
#
# `fill_block` uses a kernel, and the specification `parse_line` for every line that the kernel does not
# accept. Results and errors are therefore always those of the specification, and a test compares the two.

QueryRun = tuple[int, str]
"""First row of consecutive documents of one query, and the query id, "" if the lines have no qid."""


def fill_block(
    unit: Unit, first_line: int, form: LineFormat, absent: float, path: Path, rows: DocumentRows
) -> list[QueryRun]:
    """Parses lines into the rows that were counted for them, and returns their queries.

    Raises:
        DataError: as `parse_line`; the lines are not the ones that were counted.
    """
    # Imported here, because `--help` reads no data and should not wait for numba.
    from ltrbench.data import letor_kernels

    content, needed = unit.content, (form.needs_label, form.needs_qid)
    overflow, is_sparse = OVERFLOWS.index(form.overflow), rows.stored is not None
    rules = np.array([form.first_index, overflow, form.whole_labels, *needed, is_sparse])
    stored = rows.stored or Stored.allocate(0, 0)
    cursor = np.zeros(letor_kernels.CURSOR, dtype=np.int64)
    cursor[letor_kernels.LINE_NUMBER] = first_line
    places = np.empty((len(rows.labels), 3), dtype=np.int64)
    runs: list[QueryRun] = []
    reason = letor_kernels.ODD_LINE
    while reason != letor_kernels.BLOCK_END:
        cursor[letor_kernels.NUM_RUNS] = 0
        reason = letor_kernels.parse_lines(
            content,
            cursor,
            rules,
            rows.features,
            stored.row_stop,
            stored.columns,
            stored.values,
            rows.labels,
            rows.weights,
            rows.skipped,
            rows.documents,
            places,
        )
        new = places[: cursor[letor_kernels.NUM_RUNS]].tolist()
        runs += [(row, unit.memory[start:stop].decode()) for row, start, stop in new]
        if reason == letor_kernels.ODD_LINE:
            runs += _fill_odd_line(unit, cursor, form, absent, path, rows)
        elif reason == letor_kernels.ODD_ID:
            _fill_odd_id(unit, cursor, rows)
    ends = cursor[[letor_kernels.ROW, letor_kernels.NUM_STORED, letor_kernels.NUM_SKIPPED]].tolist()
    if ends != [len(rows.labels), len(stored.values), len(rows.skipped)]:
        raise _changed_between_passes(path)
    stored.row_stop[:] += stored.first
    return runs


def _fill_odd_line(
    unit: Unit, cursor: NDArray[np.int64], form: LineFormat, absent: float, path: Path, rows: DocumentRows
) -> list[QueryRun]:
    """Parses the line at the cursor by the specification, and moves the cursor behind it."""
    position, number, row, _, num_values, num_skipped = cursor.tolist()
    stop = unit.memory.index(b"\n", position)
    line = parse_line(bytes(unit.memory[position:stop]), f"{path}:{number}", form)
    cursor[:2] = stop + 1, number + 1
    if line is None:
        rows.skipped[num_skipped] = row
        cursor[5] = num_skipped + 1
        return []
    columns = np.array(line.indices, dtype=np.int64) - form.first_index
    if rows.stored is None:
        rows.features[row] = absent
        rows.features[row, columns] = line.values
    else:
        if len(columns) and columns[-1] >= rows.features.shape[1]:
            raise _changed_between_passes(path)
        cursor[4] = rows.stored.row_stop[row] = num_values + len(columns)
        rows.stored.columns[num_values : cursor[4]] = columns
        rows.stored.values[num_values : cursor[4]] = line.values
    rows.labels[row] = line.label
    if len(rows.weights):
        rows.weights[row] = math.nan if line.weight is None else line.weight
    _write_id(line.document, row, rows)
    cursor[2] = row + 1
    return [(row, line.query)]


def _fill_odd_id(unit: Unit, cursor: NDArray[np.int64], rows: DocumentRows) -> None:
    """Decodes the document id of the line before the cursor."""
    position, _, row, *_ = cursor.tolist()
    line = bytes(unit.memory[unit.memory.rfind(b"\n", 0, position - 1) + 1 : position])
    _write_id(document_id(line.partition(b"#")[2]), row - 1, rows)


def _write_id(document: str, row: int, rows: DocumentRows) -> None:
    rows.documents[row, : len(document)] = [ord(character) for character in document]


def _changed_between_passes(path: Path) -> DataError:
    """Returns the error for a file whose second reading does not match the first."""
    return DataError(
        f"{path}: the file changed while it was read. Wait until it is written completely, and read it again."
    )
