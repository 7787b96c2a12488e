"""LETOR text read into a RankingDataset, in LETOR's form or LightGBM's.

    label [weight] qid:ID index:value index:value ... # comment

A line is a document. The lines of a query stand next to each other. Blank lines and lines that only hold a
comment are skipped. In LightGBM's form the lines have no qid, and files beside the data file hold what they
lack: see `lightgbm_files`. The way from file to data set: `compression` unpacks blocks of lines,
`letor_blocks` reads them as `letor_line` specifies, and here they are joined.

To read another text format, write a function like `read_letor` that ends in a RankingDataset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.compression import read_blocks
from ltrbench.data.dataset import RankingDataset
from ltrbench.data.letor_blocks import Block, check_memory, read_block_fast, read_block_plainly
from ltrbench.data.letor_line import FORMAT, LineFormat
from ltrbench.data.lightgbm_files import (
    Companions,
    check_companions,
    companion,
    number_positions,
    read_companions,
)
from ltrbench.errors import DataError
from ltrbench.shapes import Features, Labels


@dataclass(frozen=True, slots=True, eq=False)
class _File:
    """What one file says about its n documents, n at least 1, and what the files beside it add."""

    path: Path
    labels: Labels  # (n,)
    queries: list[str]  # (n,), "" in LightGBM's form
    documents: list[str]  # (n,)
    weights: NDArray[np.float64] | None  # (n,)
    beside: Companions
    lines: NDArray[np.int64]  # (n,), where each document stands
    blocks: list[Block]

    @property
    def has_qid(self) -> bool:
        return bool(self.queries[0])


def read_letor(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    first_index: int = 1,
    absent: float = 0.0,
    sort_queries: bool = False,
    whole_labels: bool = False,
) -> RankingDataset:
    """Reads LETOR text: `label [weight] qid:ID index:value ... # comment`, plain or as gz, bz2, xz or zst.

    How a file is packed is told by its content. A document's id is what the comment says after `docid =`,
    else the whole comment. Values are read as doubles and rounded to float32; `nan` is a missing value.

    FILE.query, FILE.weight and FILE.position beside a FILE are read where they are there, as LightGBM does;
    with FILE.query the lines need no qid, and the queries are called "1", "2", ... There too features are
    counted from one unless `first_index` is 0. LightGBM itself always counts from zero, so that in a file
    that begins with 1 it finds an empty column 0 more.

    Args:
        path: the file, or several that are one split: a query may run on from one into the next.
        num_features: F. A file in which the last features never occur is padded to this width. By default as
            many as the largest index says.
        first_index: what the first feature is called, 1 or 0; `feature_names` then begin with it.
        absent: the value of a feature that a line leaves out, 0 or NaN.
        sort_queries: brings the lines of a query together, in the order of each query's first line.
        whole_labels: refuses labels that are not whole numbers.

    Returns:
        The documents in the order of the file: features (D, F), labels (D,), Q queries.

    Raises:
        DataError: where a file cannot be read, a line is not as above (`path:line: ...`), an index exceeds
            `num_features`, the lines of a query do not stand together, a file beside does not fit, there is
            no document, or the features do not fit into memory.

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
    form = LineFormat(num_features=num_features, first_index=first_index, whole_labels=whole_labels)
    if not (absent == 0 or math.isnan(absent)):
        raise DataError(f"absent is {absent}; a feature that a line leaves out can be read as 0 or as NaN.")
    paths = [Path(path)] if isinstance(path, (str, Path)) else [Path(each) for each in path]
    if not paths:
        raise DataError("path: names no file; give one, or several that are one split.")
    try:
        return _join([_read_file(each, form, absent) for each in paths], form, absent, sort_queries)
    except MemoryError:
        raise DataError(
            f"{', '.join(map(str, paths))}: a float32 matrix of the documents, as wide as the largest "
            "feature index, does not fit into memory. Check that index; number the features without gaps."
        ) from None


def _read_file(path: Path, form: LineFormat, absent: float) -> _File:
    beside = read_companions(path)
    form = replace(form, needs_qid=beside.query_sizes is None)
    blocks = [
        read_block_fast(text, first_line, form, absent)
        or read_block_plainly(text, first_line, form, absent, path)
        for text, first_line in read_blocks(path)
    ]
    labels = np.concatenate([block.labels for block in blocks]) if blocks else np.empty(0)
    if not labels.size:
        found = "holds nothing but blanks and comments" if blocks else "is empty"
        raise DataError(f"{path}: {found}. {FORMAT} Check that the file was written and copied whole.")
    queries = [query for block in blocks for query in block.queries]
    lines = np.concatenate([block.lines for block in blocks])
    _check_all_or_none(np.array([bool(query) for query in queries]), lines, path, "qid")
    check_companions(beside, path, len(labels))
    if queries[0] and beside.query_sizes is not None:
        _check_agreement(queries, beside.query_sizes, lines, path)
    return _File(
        path=path,
        labels=labels,
        queries=queries,
        documents=[document for block in blocks for document in block.documents],
        weights=_weights(np.concatenate([block.weights for block in blocks]), beside, lines, path),
        beside=beside,
        lines=lines,
        blocks=blocks,
    )


def _check_all_or_none(has: NDArray[np.bool_], lines: NDArray[np.int64], path: Path, what: str) -> None:
    """Raises a DataError where some documents have it and others have not; has and lines are (n,)."""
    odd = np.flatnonzero(has != has[0])
    if odd.size:
        this, others = ("has no", "have one") if has[0] else ("has a", "have none")
        raise DataError(
            f"{path}:{lines[odd[0]]}: the line {this} {what}, but the lines before it {others}. "
            f"Give every document of the file a {what}, or none."
        )


def _check_agreement(
    queries: list[str], query_sizes: NDArray[np.int64], lines: NDArray[np.int64], path: Path
) -> None:
    """Raises a DataError where a query by qid and one by FILE.query do not begin at the same line."""
    begins = np.zeros(len(queries), dtype=bool)
    begins[np.concatenate([[0], np.cumsum(query_sizes)[:-1]])] = True
    by_qid = np.array([row == 0 or queries[row] != queries[row - 1] for row in range(len(queries))])
    odd = np.flatnonzero(begins != by_qid)
    if odd.size:
        row = odd[0]
        this, other = ("goes on", "begins a new one") if begins[row] else ("begins", "does not end one there")
        raise DataError(
            f"{path}:{lines[row]}: query {queries[row]!r} {this} here by its qid, but "
            f"{companion(path, '.query')} {other}. Remove the .query file, or mend one of the two."
        )


def _weights(
    in_lines: NDArray[np.float64], beside: Companions, lines: NDArray[np.int64], path: Path
) -> NDArray[np.float64] | None:
    """(n,), the documents' weights, from the lines or from FILE.weight."""
    has = ~np.isnan(in_lines)
    _check_all_or_none(has, lines, path, "weight")
    if has[0] and beside.weights is not None:
        raise DataError(
            f"{path}:{lines[0]}: the lines have weights, and so has {companion(path, '.weight')}. "
            "Keep one of the two."
        )
    return in_lines if has[0] else beside.weights


def _join(files: list[_File], form: LineFormat, absent: float, sort_queries: bool) -> RankingDataset:
    """The files as one data set, its rows in the order that `_queries` says."""
    _check_alike(files)
    query_start, query_ids, order = _queries(files, sort_queries)
    documents = np.array([document for file in files for document in file.documents])
    weights = [file.weights for file in files if file.weights is not None]
    positions = [name for file in files for name in file.beside.positions or ()]
    features = _join_features(files, form, absent)
    try:
        return RankingDataset(
            features=features[order],
            labels=np.concatenate([file.labels for file in files])[order],
            query_start=query_start,
            query_ids=query_ids,
            document_ids=documents[order] if documents.astype(bool).any() else None,
            document_weights=np.concatenate(weights)[order] if weights else None,
            positions=number_positions(positions)[order] if positions else None,
            feature_names=tuple(str(number + form.first_index) for number in range(features.shape[1])),
        )
    except DataError as error:
        # What no single line shows, such as a query whose documents all have the weight 0.
        raise DataError(f"{', '.join(str(file.path) for file in files)}: {error}") from None


def _check_alike(files: list[_File]) -> None:
    """Raises a DataError where one file has qids, weights or positions and another has not."""
    kinds = {
        "qids": [file.has_qid for file in files],
        "weights": [file.weights is not None for file in files],
        "positions": [file.beside.positions is not None for file in files],
    }
    for what, has in kinds.items():
        if any(has) and not all(has):
            raise DataError(
                f"{files[has.index(False)].path}: has no {what}, but {files[has.index(True)].path}, of the "
                f"same split, has. Give {what} in every file of a split, or in none."
            )


def _queries(
    files: list[_File], sort_queries: bool
) -> tuple[NDArray[np.int64], NDArray[np.str_], NDArray[np.int64] | slice]:
    """Where each query begins (Q + 1,), its id (Q,), and the rows (D,) in the order of the data set."""
    if not files[0].has_qid:
        by_file = [file.beside.query_sizes for file in files if file.beside.query_sizes is not None]
        query_start = np.concatenate([[0], np.cumsum(np.concatenate(by_file))])
        return query_start, np.arange(1, len(query_start)).astype(np.str_), slice(None)
    queries = [query for file in files for query in file.queries]
    number_of: dict[str, int] = {}
    numbers = np.array([number_of.setdefault(query, len(number_of)) for query in queries])
    # A query that comes back has the number of its first run, which is lower than that of the line before.
    comes_back = np.flatnonzero(np.diff(numbers) < 0) + 1
    if comes_back.size and not sort_queries:
        row = int(comes_back[0])
        raise _scattered(files, queries, row, int(np.flatnonzero(numbers[:row] == numbers[row])[-1]))
    query_start = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
    # A slice takes the rows as they are without a copy of all features.
    order = np.argsort(numbers, kind="stable") if comes_back.size else slice(None)
    return query_start, np.array(list(number_of)), order


def _scattered(files: list[_File], queries: list[str], row: int, last: int) -> DataError:
    """The error for a query that begins again at a row after it ended at the row `last`."""
    (path, line), (last_path, last_line) = _place(files, row), _place(files, last)
    end = f"line {last_line}" if path == last_path else f"{last_path}:{last_line}"
    return DataError(
        f"{path}:{line}: query {queries[row]!r} begins again, after its documents ended on {end}. "
        "The lines of a query must stand together: bring them together with sort_queries=true (in a run "
        "data.sort_queries=true), or give the two runs of lines different ids if they are two queries."
    )


def _place(files: list[_File], row: int) -> tuple[Path, int]:
    """The file and the line of a document, given its row (0 to D - 1) in all files together."""
    ends = np.cumsum([len(file.labels) for file in files])
    number = int(np.searchsorted(ends, row, side="right"))
    file = files[number]
    return file.path, int(file.lines[row - int(ends[number])])  # from the end, so negative


def _join_features(files: list[_File], form: LineFormat, absent: float) -> Features:
    """(D, F), the features of all files, as wide as was asked for or as the widest block is."""
    num_documents = sum(len(file.labels) for file in files)
    widest, path = max(
        ((block, file.path) for file in files for block in file.blocks),
        key=lambda block_and_path: block_and_path[0].features.shape[1],
    )
    width = form.num_features or widest.features.shape[1]
    if width == 0:
        raise DataError(
            f"{path}: no line has a feature. {FORMAT} Write features, or give num_features "
            "if all of them are meant to be absent."
        )
    check_memory(num_documents, width, f"{path}:{widest.widest}")
    features = np.full((num_documents, width), absent, dtype=np.float32)
    row = 0
    for block in (block for file in files for block in file.blocks):
        num_rows, num_columns = block.features.shape
        features[row : row + num_rows, :num_columns] = block.features
        row += num_rows
    return features
