"""Reads LETOR text, in LETOR's form or LightGBM's, into a RankingDataset.

    label [weight] qid:ID index:value index:value ... # comment

One line is one document. The lines of a query are consecutive. Blank lines and comment lines are skipped. In
LightGBM's form the lines have no qid, and companion files contain the query sizes: see `lightgbm`. The reader
works in two passes over units of lines, which `units` reads on all cores: `sizes` counts the documents,
`rows` allocates arrays for them, `blocks` parses the lines into these arrays as `line` specifies. This module
combines them. The two passes need little more memory than the result, but decompress a file twice.

`read_letor_features` reads documents for prediction, which need neither label nor query.

To read another text format, write a function like `read_letor` that returns a RankingDataset.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
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
    write_whole,
)
from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import CheckedFeatures, row_blocks
from ltrbench.data.letor_blocks import (
    Counts,
    DocumentRows,
    FileSize,
    QueryRun,
    allocate,
    changed_between_passes,
    count_files,
    file_of_largest,
    fill_block,
)
from ltrbench.data.letor_lines import (
    ENDINGS,
    LONGEST_ID,
    NOTHING_BESIDE,
    SYNTAX,
    Companions,
    LineFormat,
    check_companions,
    companion,
    document_id,
    is_text,
    number_positions,
    read_companions,
    read_feature_names,
)
from ltrbench.errors import ConfigError, DataError
from ltrbench.shapes import Features, QueryStart


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
        if number == len(size.units):
            raise changed_between_passes(size.path)
        first = before[number]
        part = rows.part(first, size.units[number])
        runs = fill_block(unit, first.num_lines + 1, form, absent, size.path, part)
        part.skipped[:] += first.num_documents
        return [(first.num_documents + row, query) for row, query in runs]

    runs_of_units, error = for_each_unit(text, fill)
    if error is not None:
        raise error
    if len(runs_of_units) < len(size.units):
        raise changed_between_passes(size.path)
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
    # The parser refuses infinite values.
    features = CheckedFeatures(gathered.take_features(rows.matrix(absent)))
    try:
        return RankingDataset(
            features=cast(Features, features),
            labels=gathered.take(rows.labels),
            query_start=gathered.query_start,
            query_ids=gathered.query_ids,
            document_ids=_taken_ids(rows, gathered),
            document_weights=weights,
            positions=gathered.take(number_positions(positions)) if positions else None,
            file_rows=gathered.file_rows,
            feature_names=tuple(str(number + form.first_index) for number in range(rows.features.shape[1])),
        )
    except DataError as error:
        # Errors that involve several lines, such as weights of too different magnitude.
        raise DataError(f"{', '.join(str(file.path) for file in files)}: {error}") from None


def _taken_ids(rows: DocumentRows, gathered: Gathered) -> NDArray[np.str_] | None:
    longest = rows.documents.shape[1]
    return gathered.take(rows.documents.view(f"U{longest}")[:, 0]) if longest else None


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
        raise DataError(
            f"{file_of_largest(sizes)}: no line has a feature. {SYNTAX} Add features, or set num_features if "
            "all values are absent on purpose."
        )


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
    path = Path(path)
    beside = _positions(dataset)
    _check_beside(path, beside)
    queries = [b" qid:" + _query_token(query) for query in dataset.query_ids.tolist()]
    weights = _weights_to_write(dataset) or [b""] * dataset.num_documents
    heads = [
        (b" " + weight if weight else b"") + queries[query]
        for weight, query in zip(weights, dataset.query_of_document.tolist(), strict=True)
    ]
    ids = [""] * dataset.num_documents if dataset.document_ids is None else dataset.document_ids.tolist()
    _write(path, _lines(dataset, 1, heads, [_comment(document) for document in ids]), beside)


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
    path = Path(path)
    beside = {".query": [b"%d" % size for size in dataset.query_sizes], **_positions(dataset)}
    weights = _weights_to_write(dataset)
    if weights:
        beside[".weight"] = weights
    _check_beside(path, beside)
    nothing = [b""] * dataset.num_documents
    _write(path, _lines(dataset, 0, nothing, nothing), beside)


def _weights_to_write(dataset: RankingDataset) -> list[bytes]:
    """Returns the document weights as text; empty if the data set has none."""
    if dataset.query_weights is None:
        return []
    return [_number(weight) for weight in dataset.weight_of_document.tolist()]


def _positions(dataset: RankingDataset) -> dict[str, list[bytes]]:
    """Returns the lines of FILE.position by extension; empty if the data set has no positions."""
    if dataset.positions is None:
        return {}
    return {".position": [b"%d" % position for position in dataset.positions.tolist()]}


def _check_beside(path: Path, beside: dict[str, list[bytes]]) -> None:
    for ending in ENDINGS:
        other = companion(path, ending)
        if ending not in beside and other.exists():
            raise DataError(
                f"{other}: this file already exists and would be read as a companion file of {path}. Write "
                f"to another path, or remove {other.name}."
            )


def _write(path: Path, lines: Iterator[bytes], beside: dict[str, list[bytes]]) -> None:
    for ending, values in beside.items():
        with write_whole(companion(path, ending)) as stream:
            stream.write(b"".join(value + b"\n" for value in values))
    with write_whole(path) as stream:
        for line in lines:
            stream.write(line)


def _lines(
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
    is_word = token.split() == [token] and b"#" not in token and is_text(token)
    if not is_word or token.decode() != query or len(token) > LONGEST_ID:
        raise DataError(
            f"query_ids: {query!r} cannot be written as LETOR text; an id must be one word of at most "
            f"{LONGEST_ID} bytes without blanks and '#'. Rename the query, or write a table."
        )
    return token


def _comment(document: str) -> bytes:
    """Returns the comment that stores a document id."""
    if not document:
        return b""
    text = _encoded(document)
    for comment in (b" docid = " + text, b" " + text):
        if is_text(text) and document_id(comment) == document:
            return b" #" + comment
    raise DataError(
        f"document_ids: {document!r} cannot be written as a comment of LETOR text; an id must be one line of "
        f"at most {LONGEST_ID} bytes. Rename the document, or write a table."
    )


def _encoded(name: str) -> bytes:
    # A lone surrogate has no encoding; its escape fails the check that the id is restored unchanged.
    return name.encode(errors="backslashreplace")
