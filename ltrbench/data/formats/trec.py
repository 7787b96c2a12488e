"""TREC files: runs (the scores of a system) and qrels (relevance judgments).

    run      query Q0 document rank score tag
    qrels    query 0 document label

trec_eval ranks by the score, rounded to float32, and tied documents by descending id; it ignores the rank
column and the order of the lines. This module therefore reads only the score. It writes ranks by the exact
score, with ties by descending id, and writes scores with all digits, so that reading restores the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import Judgments
from ltrbench.data.formats.compression import read_blocks
from ltrbench.data.formats.gathering import gather
from ltrbench.data.formats.letor.line import document_id, quote
from ltrbench.data.formats.scores import parse_score
from ltrbench.errors import DataError
from ltrbench.shapes import Scores

TrecRun = dict[str, dict[str, float]]
"""Query -> document -> score, the format of pytrec_eval and similar libraries."""

RUN_LINE = "query Q0 document rank score tag"
QRELS_LINE = "query 0 document label"
_LARGEST_LABEL = 2**31  # trec_eval stores labels in 32 bits
RUN_COLUMNS, QRELS_COLUMNS = len(RUN_LINE.split()), len(QRELS_LINE.split())


def read_trec_run(path: str | Path) -> TrecRun:
    """Reads a TREC run, plain or compressed (gz, bz2, xz, zst).

    RankLib's `-indri` files have the whole comment of a LETOR line in the document column: the document id is
    extracted from it, as from LETOR data.

    Raises:
        DataError: The file cannot be read, a line is not a line of a run, or a document occurs twice in a
            query.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "run.trec")
    ...     _ = file.write_text("q1 Q0 a 1 2.5 bm25\\nq1 Q0 b 2 -1 bm25\\n")
    ...     read_trec_run(file)
    {'q1': {'a': 2.5, 'b': -1.0}}
    """
    run: TrecRun = {}
    for number, columns in _lines(Path(path)):
        if len(columns) < RUN_COLUMNS:
            raise DataError(f"{path}:{number}: {_columns(columns)} Write a run as '{RUN_LINE}'.")
        query, *_ = columns
        middle, score = columns[2:-3], parse_score(columns[-2])
        document = _text(middle[0]) if len(middle) == 1 else document_id(b" ".join(middle))
        documents = run.setdefault(_text(query), {})
        if score is None:
            raise DataError(
                f"{path}:{number}: the score is {quote(columns[-2])}, which is not a number. Write a run as "
                f"'{RUN_LINE}'."
            )
        if document in documents:
            raise DataError(
                f"{path}:{number}: document {document!r} occurs twice in query {_text(query)!r}. Keep one "
                "line with its score."
            )
        documents[document] = score
    return run


def read_qrels(path: str | Path) -> Judgments:
    """Reads TREC qrels, plain or compressed (gz, bz2, xz, zst), and groups the documents by query.

    Raises:
        DataError: The file cannot be read or is empty, a line is not a line of qrels, a label is not a whole
            number of 0 or more, or a document is judged twice in a query.
    """
    queries, documents, labels, places = [], [], [], []
    judged: set[tuple[str, str]] = set()
    for number, columns in _lines(Path(path)):
        where = f"{path}:{number}"
        if len(columns) != QRELS_COLUMNS:
            raise DataError(f"{where}: {_columns(columns)} Write qrels as '{QRELS_LINE}'.")
        query, document = _text(columns[0]), _text(columns[2])
        if (query, document) in judged:
            raise DataError(
                f"{where}: document {document!r} is judged twice in query {query!r}. Keep one of the lines."
            )
        judged.add((query, document))
        queries.append(query)
        documents.append(document)
        labels.append(_label(columns[3], where))
        places.append(where)
    if not queries:
        raise DataError(f"{path}: the file is empty. Write qrels as '{QRELS_LINE}', one line per document.")
    gathered = gather(queries, sort_queries=True, place=places.__getitem__)
    return Judgments(
        labels=gathered.take(np.array(labels)),
        query_start=gathered.query_start,
        query_ids=gathered.query_ids,
        document_ids=gathered.take(np.array(documents)),
    )


def trec_run_lines(judgments: Judgments, scores: Scores, names: NDArray[np.str_], tag: str) -> Iterator[str]:
    """Yields the lines of a run: queries in the order of the data, documents by descending score.

    Args:
        scores: (D,).
        names: (D,), document names; see `document_names`.
        tag: name of the system; blanks are replaced by '_'.

    Raises:
        DataError: A query id contains a blank.

    >>> judgments = Judgments(labels=[0, 2, 1], query_start=[0, 3])
    >>> scores = np.array([0.5, 0.25, 0.5])
    >>> print(*trec_run_lines(judgments, scores, np.array(["a", "b", "c"]), "bm25"), sep="", end="")
    1 Q0 c 1 0.5 bm25
    1 Q0 a 2 0.5 bm25
    1 Q0 b 3 0.25 bm25
    """
    words = _query_words(judgments)
    tag = "_".join(tag.split()) or "-"
    # lexsort sorts in ascending order, so the numbers of the names are negated for descending ids.
    _, number_of_name = np.unique(names, return_inverse=True)
    order = np.lexsort((-number_of_name, -scores.astype(np.float64), judgments.query_of_document))
    # The text of a Python float restores the same bits, also if the score is a float32.
    texts = [repr(score) for score in scores[order].tolist()]
    places = zip(
        judgments.query_of_document[order].tolist(),
        names[order].tolist(),
        judgments.ranks_of_rows,
        texts,
        strict=True,
    )
    for query, document, rank, text in places:
        yield f"{words[query]} Q0 {document} {rank + 1} {text} {tag}\n"


def qrels_lines(judgments: Judgments, names: NDArray[np.str_]) -> Iterator[str]:
    """Yields the lines of qrels, in the order of the data.

    Args:
        names: (D,), document names; see `document_names`.

    Raises:
        DataError: A label is fractional or too large, or a query id contains a blank.
    """
    if not judgments.has_whole_labels:
        row = int((judgments.labels != np.floor(judgments.labels)).argmax())
        raise DataError(
            f"labels[{row}] is {judgments.labels[row]:g}; labels in qrels must be whole numbers, because "
            "trec_eval ignores fractions. Map the labels to 0, 1, 2, ..."
        )
    large = int(judgments.labels.argmax())
    if judgments.labels[large] >= _LARGEST_LABEL:
        raise DataError(
            f"labels[{large}] is {judgments.labels[large]:g}; labels in qrels must be below 2^31, the limit "
            "of trec_eval. Map the labels to 0, 1, 2, ..."
        )
    words = _query_words(judgments)
    labels = judgments.labels.astype(np.int64).tolist()
    for query, document, label in zip(
        judgments.query_of_document.tolist(), names.tolist(), labels, strict=True
    ):
        yield f"{words[query]} 0 {document} {label}\n"


def document_names(
    judgments: Judgments, file_rows: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.str_], str]:
    """Returns the (D,) document names for TREC files: the ids, or else row numbers of the source, from 1.

    Row numbers follow the order of the split's files, so that they are the same in every run on these data.

    Args:
        file_rows: (D,), row of each document in its source, from 0; None: same order as the source.

    Returns:
        The names, and the reason why they are row numbers; an empty string if they are ids.

    >>> document_names(Judgments(labels=[0, 1], query_start=[0, 2], document_ids=["a", "a"]))
    (array(['1', '2'], dtype='<U21'), "document 'a' occurs twice in query '1'")
    """
    reason = _why_no_ids(judgments)
    if not reason and judgments.document_ids is not None:
        return judgments.document_ids, ""
    rows = np.arange(judgments.num_documents) if file_rows is None else file_rows
    return (rows + 1).astype(np.str_), reason


def _why_no_ids(judgments: Judgments) -> str:
    if judgments.document_ids is None:
        return "the data has no document ids"
    ids = judgments.document_ids.tolist()
    bad = next((document for document in ids if len(document.split()) != 1), None)
    if bad is not None:
        return f"document id {bad!r} is not one word"
    distinct, numbers = np.unique(judgments.document_ids, return_inverse=True)
    keys, first = np.unique(judgments.query_of_document * len(distinct) + numbers, return_index=True)
    if len(keys) == len(ids):
        return ""
    row = int(np.setdiff1d(np.arange(len(ids)), first)[0])
    query = judgments.query_ids[judgments.query_of_document[row]]
    return f"document {ids[row]!r} occurs twice in query {str(query)!r}"


def _query_words(judgments: Judgments) -> list[str]:
    """Returns the (Q,) query ids, each of which must be one word."""
    words = [str(query) for query in judgments.query_ids.tolist()]
    bad = next((word for word in words if len(word.split()) != 1), None)
    if bad is not None:
        raise DataError(
            f"query_ids: {bad!r} cannot be written in a TREC file, whose columns are separated by blanks. "
            "Rename the query to one word."
        )
    return words


def _lines(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yields the line number and the columns of each non-empty line."""
    for text, first_line in read_blocks(path):
        for number, line in enumerate(text.split(b"\n"), first_line):
            columns = line.split()
            if columns:
                yield number, columns


def _label(token: bytes, where: str) -> int:
    if not token.isdigit():
        raise DataError(
            f"{where}: the label is {quote(token)}; it must be a whole number of 0 or more. If negative "
            "labels mean not relevant, replace them by 0; if they mean not judged, remove the lines."
        )
    return int(token)


def _columns(columns: list[bytes]) -> str:
    return f"the line {quote(b' '.join(columns))} has {len(columns)} columns."


def _text(token: bytes) -> str:
    return token.decode(errors="backslashreplace")
