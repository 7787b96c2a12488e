"""Reads LETOR text, in LETOR's form or LightGBM's, into a RankingDataset.

    label [weight] qid:ID index:value index:value ... # comment

One line is one document. The lines of a query are consecutive. Blank lines and comment lines are skipped. In
LightGBM's form the lines have no qid, and companion files contain the query sizes: see `letor_lines`. The
reader works in two passes over units of lines, which `blocks` reads on all cores: the first counts the
documents, so that `_allocate` makes arrays for them, and the second parses the lines into these arrays as
`letor_lines` specifies. The two passes need little more memory than the result, but decompress a file twice.

`read_letor_features` reads documents for prediction, which need neither label nor query.

To read another text format, write a function like `read_letor` that returns a RankingDataset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.blocks import (
    Gathered,
    as_paths,
    check_some_weight,
    check_switch,
    for_each_unit,
    gather_runs,
)
from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import (
    AnyFeatures,
    CheckedFeatures,
    SparseRows,
    array_in_file,
    full,
    is_mapped,
    rows_in_order,
)
from ltrbench.data.letor_lines import (
    MAX_FEATURES,
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
from ltrbench.errors import DataError
from ltrbench.measure import available_bytes
from ltrbench.shapes import Features, Labels


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
    form = LineFormat(
        num_features,
        first_index,
        whole_labels,
        overflow=overflow,
        nulls=nulls,
        absent=absent,
        sparse=sparse,
    )
    form, names = _with_names(form, feature_names)
    check_switch("sort_queries", sort_queries)
    paths = as_paths(path)
    beside = [read_companions(path) for path in paths]
    read = _read_files(paths, beside, form, None if scratch is None else Path(scratch))
    dataset = _dataset_of(read, beside, form, sort_queries)
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
        num_features,
        first_index,
        needs_qid=False,
        needs_label=False,
        overflow=overflow,
        nulls=nulls,
        absent=absent,
        sparse=sparse,
    )
    form, _ = _with_names(form, feature_names)
    paths = as_paths(path)
    return cast(Features, _read_files(paths, [Companions() for _ in paths], form).rows.matrix(form))


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


# ---- The arrays of all documents, which are allocated once the text is counted, and only if they fit.

# Number, text, and entries of a tuple and a set for the name of one feature.
_BYTES_PER_NAME = 160

# A dense matrix beyond both limits is more likely a wrong index than data. Lines of 100 values and 1000
# bytes, with indices up to 100,000, give a matrix of only 400 times the text.
_IMPLAUSIBLE_RATIO, _IMPLAUSIBLE_BYTES = 1000, 10**9


@dataclass(frozen=True, slots=True, eq=False)
class DocumentRows:
    """Arrays for the content of D documents, with S lines between them and m `index:value` pairs."""

    features: Features  # (D, F), filled with the value of absent features; (0, F) if sparse
    row_stop: NDArray[np.int64]  # (D,) if sparse, else (0,): position after the last value of each document
    columns: NDArray[np.int32]  # (m,) if sparse, else (0,)
    values: NDArray[np.float32]  # likewise
    labels: Labels  # (D,), NaN if a line has none
    weights: NDArray[np.float64]  # (D,), NaN if a line has none; (0,) if no line has one
    skipped: NDArray[np.int64]  # (S,), number of documents before each line that has none
    documents: NDArray[np.uint32]  # (D, L), code points of the document ids, filled with 0

    @classmethod
    def allocate(
        cls, counts: NDArray[np.int64], num_features: int, form: LineFormat, folder: Path | None = None
    ) -> DocumentRows:
        """Returns arrays for documents that were counted.

        Args:
            folder: folder of a temporary file for dense features; None: in memory.
        """
        from ltrbench.data import letor_kernels as kernels

        num_documents, num_values = counts[kernels.DOCUMENTS], counts[kernels.VALUES] if form.sparse else 0
        shape = (0 if form.sparse else int(num_documents), num_features)
        absent = form.absent
        return cls(
            features=full(shape, absent) if folder is None else array_in_file(folder, shape, absent),
            row_stop=np.empty(num_documents if form.sparse else 0, dtype=np.int64),
            columns=np.empty(num_values, dtype=np.int32),
            values=np.empty(num_values, dtype=np.float32),
            labels=np.empty(num_documents),
            weights=np.empty(num_documents if counts[kernels.WEIGHTS] else 0),
            skipped=np.empty(counts[kernels.LINES] - num_documents, dtype=np.int64),
            documents=np.zeros((num_documents, counts[kernels.LONGEST_DOCUMENT_ID]), dtype=np.uint32),
        )

    def until(self, num_documents: int, num_values: int, num_skipped: int) -> DocumentRows:
        """Returns the first rows, values and lines without a document, without a copy."""
        return replace(
            self,
            row_stop=self.row_stop[:num_documents],
            columns=self.columns[:num_values],
            values=self.values[:num_values],
            labels=self.labels[:num_documents],
            weights=self.weights[:num_documents],
            skipped=self.skipped[:num_skipped],
        )

    def matrix(self, form: LineFormat) -> AnyFeatures:
        """Returns the features, once they are written."""
        if not form.sparse:
            return self.features
        row_start = np.concatenate([np.zeros(1, np.int64), self.row_stop])
        return SparseRows(row_start, self.columns, self.values, self.features.shape[1], form.absent)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Content of all files of a split."""

    paths: Sequence[Path]
    rows: DocumentRows
    file_start: NDArray[np.int64]  # (n + 1,), first document of each file, followed by D
    skipped_start: NDArray[np.int64]  # (n + 1,), the same for lines without a document
    run_start: NDArray[np.int64]  # (R + 1,), first row of each run of lines with the same qid, followed by D
    queries: list[str]  # (R,), its qid; "" in LightGBM's form

    def location(self, row: int) -> str:
        """Returns `path:line` of a document."""
        number = int(np.searchsorted(self.file_start, row, side="right")) - 1
        skipped = self.rows.skipped[self.skipped_start[number] : self.skipped_start[number + 1]]
        line = row - self.file_start[number] + np.searchsorted(skipped, row, side="right") + 1
        return f"{self.paths[number]}:{line}"


def count_unit(text: bytes) -> NDArray[np.int64]:
    """Returns the (COUNTS,) counts of whole lines."""
    # Imported here, because `--help` reads no data and should not wait for numba.
    from ltrbench.data import letor_kernels as kernels

    counts = kernels.count_lines(np.frombuffer(text, dtype=np.uint8))
    if counts[kernels.LONGEST_DOCUMENT_ID] < 0:  # only Python decodes ids that are not ASCII
        parts = [line.partition(b"#") for line in text.split(b"\n")]
        longest_id = max(len(document_id(comment)) for content, _, comment in parts if content.strip())
        counts[kernels.LONGEST_DOCUMENT_ID] = longest_id
    return counts


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
    largest = int(units[:, kernels.LARGEST_INDEX].max())
    # A line with a larger index is invalid; the second pass reports it.
    width = form.num_features or min(max(largest + 1 - form.first_index, 0), MAX_FEATURES)
    num_documents = int(total[kernels.DOCUMENTS])
    matrix = 4 * num_documents * width
    features = 8 * num_documents + 8 * int(total[kernels.VALUES]) if form.sparse else matrix
    # Labels, weights, lines without a document, ids and names.
    others = 8 * int(total[kernels.LINES]) + 8 * num_documents * bool(total[kernels.WEIGHTS])
    others += 4 * num_documents * int(total[kernels.LONGEST_DOCUMENT_ID]) + width * _BYTES_PER_NAME
    available = available_bytes()
    in_file = scratch is not None and not form.sparse and features + others > available
    implausible = max(_IMPLAUSIBLE_BYTES, _IMPLAUSIBLE_RATIO * int(total[kernels.BYTES]))
    is_wrong = not form.sparse and form.num_features is None and matrix > implausible
    if is_wrong or others + (0 if in_file else features) > available:
        number = next(n for n, part in enumerate(counts) if part[:, kernels.LARGEST_INDEX].max() == largest)
        unit = int(counts[number][:, kernels.LARGEST_INDEX].argmax())
        line = counts[number][:unit, kernels.LINES].sum() + counts[number][unit, kernels.LINE] + 1
        raise DataError(
            f"{paths[number]}:{line}: the largest index is on this line. {num_documents} documents with "
            f"{width} features need {(features + others) / 1e9:.1f} GB of memory, but "
            f"{available / 1e9:.1f} GB are available, and the text has {total[kernels.BYTES] / 1e9:.1f} GB. "
            "Check that index. If it is right, set sparse=true (in a run data.sparse=true) if the lines omit "
            "most features; or build a store with `python -m ltrbench data build`, or set data.cache=DIR, "
            f"which keep the features on the disk; or set num_features={width} (in a run data.num_features) "
            "to accept the size; or use more memory."
        )
    return DocumentRows.allocate(total, width, form, scratch if in_file else None)


# ---- Parses the lines into the arrays.
#
# `fill_unit` uses a kernel, and the specification `parse_line` for every line that the kernel does not
# accept. Results and errors are therefore always those of the specification, and a test compares the two.

QueryRun = tuple[int, str]
"""First row of consecutive documents of one query, and the query id, "" if the lines have no qid."""


def _read_files(
    paths: Sequence[Path],
    beside: Sequence[Companions],
    form: LineFormat,
    scratch: Path | None = None,
) -> _Read:
    from ltrbench.data import letor_kernels as kernels

    counts: list[NDArray[np.int64]] = []
    for path in paths:
        units = for_each_unit(path, lambda _, text: count_unit(text))
        counts.append(np.array(units, dtype=np.int64).reshape(-1, kernels.COUNTS))
        if not counts[-1][:, kernels.DOCUMENTS].any():
            raise DataError(
                f"{path}: the file has no documents: it is empty, or has only blank lines and comments. "
                f"{SYNTAX} Check that the file was written and copied completely."
            )
    rows = _allocate(paths, counts, form, scratch)
    if rows.features.shape[1] == 0:
        raise DataError(
            f"{paths[0]}: no line has a feature. {SYNTAX} Add features, or set num_features if all values "
            "are absent on purpose."
        )
    runs: list[QueryRun] = []
    ends = [np.zeros(3, dtype=np.int64)]  # documents, values and lines without a document, up to each file
    for path, of_units, companions in zip(paths, counts, beside, strict=True):
        lines = form if companions.query_sizes is None else replace(form, needs_qid=False)
        of_file, end = _fill_file(path, of_units, ends[-1], lines, rows)
        ends.append(end)
        for run in of_file:
            if not runs or run[1] != runs[-1][1]:
                runs.append(run)
    file_start, _, skipped_start = np.stack(ends, axis=1)
    run_start = np.array([*(row for row, _ in runs), file_start[-1]])
    return _Read(paths, rows, file_start, skipped_start, run_start, [query for _, query in runs])


def _fill_file(
    path: Path,
    counts: NDArray[np.int64],
    start: NDArray[np.int64],
    form: LineFormat,
    rows: DocumentRows,
) -> tuple[list[QueryRun], NDArray[np.int64]]:
    """Parses a file; returns its runs, and the numbers of documents, values and other lines up to its end."""
    from ltrbench.data import letor_kernels as kernels

    sizes = counts[:, [kernels.DOCUMENTS, kernels.VALUES, kernels.LINES]]
    sizes[:, 2] -= sizes[:, 0]
    starts = np.cumsum(np.vstack([start, sizes]), axis=0)
    first_line = np.cumsum([1, *counts[:, kernels.LINES]])

    def fill(number: int, text: bytes) -> list[QueryRun]:
        of_unit = rows.until(*starts[number + 1].tolist())
        return fill_unit(text, path, int(first_line[number]), starts[number], of_unit, form)

    return list(chain.from_iterable(for_each_unit(path, fill))), starts[-1]


def fill_unit(
    text: bytes,
    path: Path,
    first_line: int,
    start: NDArray[np.int64],
    rows: DocumentRows,
    form: LineFormat,
) -> list[QueryRun]:
    """Parses lines into the rows that were counted for them, and returns their queries.

    Args:
        start: (3,), numbers of documents, values and lines without a document before these lines.
        rows: arrays that end with these lines.

    Raises:
        DataError: as `parse_line`; the lines are not the ones that were counted.
    """
    # Imported here, because `--help` reads no data and should not wait for numba.
    from ltrbench.data import letor_kernels as kernels

    content = np.frombuffer(text, dtype=np.uint8)
    overflow = OVERFLOWS.index(form.overflow)
    needed = (form.needs_label, form.needs_qid)
    rules = np.array([form.first_index, overflow, form.whole_labels, *needed, form.sparse])
    cursor = np.zeros(kernels.CURSOR, dtype=np.int64)
    cursor[kernels.LINE_NUMBER] = first_line
    counted = [kernels.ROW, kernels.NUM_STORED, kernels.NUM_SKIPPED]
    cursor[counted] = start
    locations = np.empty((len(rows.labels) - start[0], 3), dtype=np.int64)
    runs: list[QueryRun] = []
    reason = kernels.ODD_LINE
    while reason != kernels.BLOCK_END:
        cursor[kernels.NUM_RUNS] = 0
        reason = kernels.parse_lines(
            content,
            cursor,
            rules,
            rows.features,
            rows.row_stop,
            rows.columns,
            rows.values,
            rows.labels,
            rows.weights,
            rows.skipped,
            rows.documents,
            locations,
        )
        new = locations[: cursor[kernels.NUM_RUNS]].tolist()
        runs += [(row, text[begin:stop].decode()) for row, begin, stop in new]
        if reason == kernels.ODD_LINE:
            runs += _fill_odd_line(text, cursor, form, path, rows)
        elif reason == kernels.ODD_ID:  # of the line before the cursor
            position, _, row, *_ = cursor.tolist()
            line = text[text.rfind(b"\n", 0, position - 1) + 1 : position]
            _write_id(document_id(line.partition(b"#")[2]), row - 1, rows)
    if not form.sparse:
        cursor[kernels.NUM_STORED] = len(rows.values)
    if cursor[counted].tolist() != [len(rows.labels), len(rows.values), len(rows.skipped)]:
        raise DataError(f"{path}: the file changed while it was read. Read it again.")
    return runs


def _fill_odd_line(
    text: bytes, cursor: NDArray[np.int64], form: LineFormat, path: Path, rows: DocumentRows
) -> list[QueryRun]:
    """Parses the line at the cursor by the specification, and moves the cursor behind it."""
    position, number, row, _, num_values, num_skipped = cursor.tolist()
    stop = text.index(b"\n", position)
    line = parse_line(text[position:stop], f"{path}:{number}", form)
    cursor[:2] = stop + 1, number + 1
    if line is None:
        rows.skipped[num_skipped] = row
        cursor[5] = num_skipped + 1
        return []
    columns = np.array(line.indices, dtype=np.int64) - form.first_index
    if form.sparse:
        cursor[4] = rows.row_stop[row] = num_values + len(columns)
        rows.columns[num_values : cursor[4]] = columns
        rows.values[num_values : cursor[4]] = line.values
    else:
        rows.features[row] = form.absent
        rows.features[row, columns] = line.values
    rows.labels[row] = line.label
    if len(rows.weights):
        rows.weights[row] = math.nan if line.weight is None else line.weight
    _write_id(line.document, row, rows)
    cursor[2] = row + 1
    return [(row, line.query)]


def _write_id(document: str, row: int, rows: DocumentRows) -> None:
    rows.documents[row, : len(document)] = [ord(character) for character in document]


# ---- The data set of the rows and the companion files.


def _dataset_of(
    read: _Read, beside: Sequence[Companions], form: LineFormat, sort_queries: bool
) -> RankingDataset:
    rows = read.rows
    for path, companions, size in zip(read.paths, beside, np.diff(read.file_start).tolist(), strict=True):
        check_companions(companions, path, size)
    _check_all_or_none(
        np.repeat([bool(query) for query in read.queries], np.diff(read.run_start)), read, "qid"
    )
    gathered = _gather(read, beside, sort_queries)
    weights = _weights(read, beside)
    if weights is not None:
        weights = gathered.take(weights)
        check_some_weight(weights, gathered, read.location)
    _check_of_every_file(read.paths, [companions.positions is not None for companions in beside], ".position")
    positions = [name for companions in beside for name in companions.positions or ()]
    longest_id = rows.documents.shape[1]
    ids = gathered.take(rows.documents.view(f"U{longest_id}")[:, 0]) if longest_id else None
    features = rows.matrix(form)
    if isinstance(features, np.ndarray) and not is_mapped(features):
        features = gathered.take(features)
    else:
        if isinstance(features, np.ndarray):
            features.flags.writeable = False  # so that blocks which were read need no memory
        if gathered.file_rows is not None:
            features = rows_in_order(features, gathered.file_rows)
    try:
        return RankingDataset(
            features=cast(Features, CheckedFeatures(features)),  # the parser refuses infinite values
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
        raise DataError(f"{', '.join(map(str, read.paths))}: {error}") from None


def _gather(read: _Read, beside: Sequence[Companions], sort_queries: bool) -> Gathered:
    """Groups the rows of all files by query; see `gather_runs`."""
    if read.queries[0]:
        for number, companions in enumerate(beside):
            if companions.query_sizes is not None:
                _check_agreement(read, number, companions.query_sizes)
        return gather_runs(read.queries, np.diff(read.run_start), sort_queries, read.location)
    sizes = [size for companions in beside for size in companions.query_sizes or ()]
    query_start = np.concatenate([[0], np.cumsum(sizes)])
    return Gathered(query_start, np.arange(1, len(query_start)).astype(np.str_), file_rows=None)


def _check_agreement(read: _Read, number: int, query_sizes: Sequence[int]) -> None:
    """Raises DataError if the queries of a file by qid and by FILE.query do not start at the same lines."""
    first, last = read.file_start[number : number + 2].tolist()
    by_size = first + np.concatenate([[0], np.cumsum(query_sizes)])
    by_qid = read.run_start[(read.run_start > first) & (read.run_start < last)]
    odd = np.setxor1d(by_size, [first, *by_qid, last])
    if odd.size:
        raise DataError(
            f"{read.location(odd[0])}: the qid and {companion(read.paths[number], '.query')} disagree about "
            "whether a query starts on this line. Remove the .query file, or correct one of the two files."
        )


def _weights(read: _Read, beside: Sequence[Companions]) -> NDArray[np.float64] | None:
    """Returns the (D,) document weights, from the lines or from FILE.weight."""
    if len(read.rows.weights):
        _check_all_or_none(~np.isnan(read.rows.weights), read, "weight")
        for path, companions in zip(read.paths, beside, strict=True):
            if companions.weights is not None:
                raise DataError(
                    f"{path}: both the lines and {companion(path, '.weight')} have weights. Remove one of "
                    "the two."
                )
        return read.rows.weights
    _check_of_every_file(read.paths, [companions.weights is not None for companions in beside], ".weight")
    return None if beside[0].weights is None else np.concatenate([each.weights or () for each in beside])


def _check_all_or_none(has: NDArray[np.bool_], read: _Read, what: str) -> None:
    """Raises DataError if only some documents have a qid or weight; `has` is (D,)."""
    odd = np.flatnonzero(has != has[0])
    if odd.size:
        this, others = ("has no", "have one") if has[0] else ("has a", "have none")
        raise DataError(
            f"{read.location(odd[0])}: the line {this} {what}, but the lines before it {others}. Add a "
            f"{what} "
            "to every document of the split, or remove all of them."
        )


def _check_of_every_file(paths: Sequence[Path], has: Sequence[bool], ending: str) -> None:
    if any(has) and not all(has):
        raise DataError(
            f"{companion(paths[has.index(False)], ending)} does not exist, but "
            f"{companion(paths[has.index(True)], ending)}, of the same split, does. Add it, or remove both."
        )
